//! An agent's fence: its policy, read once, ready to judge.

use crate::agents::context::real_path::real_path;
use crate::domain::boundary::scope::{CaseRule, Opened, control_files, is_control_file};
use crate::domain::boundary::violation::{Boundary, Links, OtherNames, Reason};
use crate::domain::paths::path::CaseIndex;
use crate::domain::{
    Agent, BundleRule, Change, ChangeKind, Glob, Isolation, Oid, RepoPath, Scope, Violation,
    boundary::tool_call,
};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::changes::Spellings;
use crate::git::core::tree::Entry;
use crate::hosts;
use crate::store::chain::facts::Facts;
use crate::store::{Ledger, files::layout, landing::spawn_commit};
use crate::wire::row::policy::{Policy, TRAILER};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What binds one agent.
pub struct ScopeGuard<'r> {
    repo: &'r Repo,
    agent: Agent,
    policy: Policy,
    boundary: Boundary,
    /// What is tracked, for other names of a path. The base's, which no agent can change.
    base_tree: Oid,
    links: Rc<SharedLinks>,
}

/// The agent whose worktree the repository was opened from; `None` outside every agent's worktree.
///
/// # Errors
/// `agent-unknown` when the worktree is an agent's and the ledger has no row for it.
pub fn agent_here(repo: &Repo) -> Result<Option<Agent>> {
    let name = repo.current_worktree_name();
    let Some(digits) = name.as_deref().and_then(layout::agent_of_worktree) else {
        return Ok(None);
    };
    let unknown = || {
        Error::new(
            Code::AgentUnknown,
            format!("this is the worktree of agent {digits}, and the ledger has no row for it, so its scope is unknown"),
        )
        .hint("to see what became of the ledger, run git log -g refs/notes/agents")
    };
    match Ledger::new(repo).find(digits) {
        // A name or a longer prefix could match too; only the agent with these eight digits has
        // this worktree.
        Ok(agent) if agent.id.short() == digits => Ok(Some(agent)),
        Err(error) if error.code() != Code::AgentUnknown => Err(error),
        _ => Err(unknown()),
    }
}

impl<'r> ScopeGuard<'r> {
    /// Reads the agent's policy.
    ///
    /// # Errors
    /// `agent-state` while the agent is half made; `repo-corrupt` when its policy is missing or cannot
    /// be understood.
    pub fn around(repo: &'r Repo, agent: Agent) -> Result<ScopeGuard<'r>> {
        ScopeGuard::among(repo, agent, &Scopes::default())
    }

    /// As [`ScopeGuard::around`], for one of many agents: a scope that several have is compiled once.
    ///
    /// # Errors
    /// As [`ScopeGuard::around`].
    pub fn among(repo: &'r Repo, agent: Agent, scopes: &Scopes) -> Result<ScopeGuard<'r>> {
        let Some(blob) = agent.policy else {
            let what = format!("agent {} is half made and has no policy yet", agent.id);
            return Err(Error::new(Code::AgentState, what)
                .remedy("to see how far it came", Remedy::Agent(agent.id.short())));
        };
        let broken = |why: String| {
            Error::new(
                Code::RepoCorrupt,
                format!("the policy of agent {} cannot be used", agent.id),
            )
            .because(why)
        };
        let policy = spawn_commit::of_agent(repo, &agent)?
            .ok_or_else(|| broken(format!("blob {blob} is no policy of a version we know")))?;
        // A spawn commit of an earlier version carries no policy, but names the digest of one.
        let spawn_commit = repo.read_commit(agent.spawn_commit)?;
        let first = spawn_commit::at_spawn(repo, &agent)?;
        // The spawn commit is what the id is made from, so it is the one place that a later row
        // cannot change.
        if let Some(named) = spawn_commit.trailer(TRAILER)
            && first.is_none_or(|first| named != first.digest())
        {
            return Err(broken("its spawn commit was made for another policy".to_owned()).hint(
                format!("to see who wrote what, run git log --patch {}", layout::LEDGER_REF),
            ));
        }
        let base = Oid::from_hex(&policy.base_oid)
            .ok_or_else(|| broken(format!("`{}` is no commit", policy.base_oid)))?;
        Ok(ScopeGuard {
            boundary: boundary(repo, &policy, scopes).map_err(broken)?,
            links: Rc::clone(&scopes.links),
            base_tree: repo.tree_of(base)?,
            repo,
            agent,
            policy,
        })
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What was decided when it was spawned.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What it may touch.
    pub fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// The changes that the agent was not allowed to make, in the order they are given.
    ///
    /// # Errors
    /// `repo-corrupt` when the base's trees are missing.
    pub fn judge(&self, changes: &[Change], bundle: BundleRule) -> Result<Vec<Violation>> {
        let others = self.other_names(changes, None)?;
        Ok(changes
            .iter()
            .filter_map(|change| self.boundary.violation(change, bundle, &others))
            .collect())
    }

    /// Judges a path before it is written, by its text and by where symlinks lead; `None` when it may
    /// be. `tops` are the worktrees it may be in, free of symlinks; a relative name starts from
    /// `directory`.
    ///
    /// # Errors
    /// As [`ScopeGuard::judge`].
    pub fn judge_name(
        &self,
        tops: &[PathBuf],
        directory: &Path,
        name: &[u8],
    ) -> Result<Option<Violation>> {
        // Both count: the name that was asked for, and the file that a link makes of it.
        let (Some(spelled), Some(real)) = locate(tops, directory, name) else {
            return Ok(Some(Violation {
                path: name.to_owned(),
                kind: ChangeKind::Named,
                reason: Reason::Outside,
            }));
        };
        let changes = [Change::named(spelled), Change::named(real)];
        let [spelled, real] = &changes;
        let mut violations = self.judge(&changes, BundleRule::Writable)?.into_iter();
        Ok(violations.next().map(|violation| match violation {
            violation if violation.path == spelled.path => violation,
            violation => alias_of(&spelled.path, real, violation),
        }))
    }

    /// What landing on the tree `target` changes although the agent must not, where git makes `merged` of both.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn judge_landing(&self, target: Oid, merged: Oid) -> Result<Vec<Violation>> {
        let changes = self.repo.tree_changes(&[target], merged)?;
        let others = self.other_names(&changes, Some(target))?;
        let judge = |change| {
            let rule = BundleRule::NeverCommitted;
            self.boundary.violation(change, rule, &others)
        };
        Ok(changes.iter().filter_map(judge).collect())
    }

    /// Keeps what was read of large trees for the next command.
    pub fn keep_facts(&self) {
        // In a partial clone they depend on what has been fetched.
        if !self.repo.is_partial()
            && let Some(facts) = Facts::open(self.repo.common_dir())
        {
            self.links.keep(&facts);
        }
    }

    /// The other names of changed paths: in the base, in the tree to land on if there is one, and by symlinks among the changes.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn other_names(&self, changes: &[Change], target: Option<Oid>) -> Result<OtherNames> {
        let target = target.filter(|target| *target != self.base_tree);
        let trees: Vec<Oid> = [self.base_tree].into_iter().chain(target).collect();
        other_names(self.repo, &trees, &self.boundary, changes, &self.links)
    }
}

/// The other names of changed paths in these trees, and by symlinks among the changes.
///
/// # Errors
/// `repo-corrupt` when a tree is missing.
pub(crate) fn other_names(
    repo: &Repo,
    trees: &[Oid],
    boundary: &Boundary,
    changes: &[Change],
    shared: &SharedLinks,
) -> Result<OtherNames> {
    if changes.is_empty() || !boundary.edits {
        return Ok(OtherNames::default());
    }
    let mut links = Links::new();
    let mut add = |path: &[u8], target: &[u8]| {
        links.entry(path.to_vec()).or_default().insert(target.to_vec());
    };
    for tree in trees {
        shared.of(repo, *tree)?.iter().for_each(|(path, target)| add(path, target));
    }
    for change in changes {
        change.link.iter().for_each(|target| add(&change.path, target));
    }
    let spellings = tracked_near(repo, trees, boundary, changes)?;
    Ok(OtherNames::new(spellings, &boundary.scope, &links))
}

/// The symlinks of trees that were read before.
#[derive(Default)]
pub struct SharedLinks(RefCell<HashMap<Oid, Rc<LinksOfTree>>>);

/// Each with its target.
type LinksOfTree = Vec<(Vec<u8>, Vec<u8>)>;

impl SharedLinks {
    /// Keeps what was read as facts.
    fn keep(&self, facts: &Facts) {
        for (tree, links) in self.0.borrow().iter() {
            let question = [tree.to_hex()];
            // A target with a zero could not be told from two words.
            let has_zero = links.iter().any(|(_, target)| target.contains(&0));
            if has_zero || facts.load(SYMLINKS, &question).is_some() {
                continue;
            }
            let words = links.iter().flat_map(|(path, target)| [path, target]);
            let ended: Vec<u8> = words.flat_map(|word| [word, &b"\0"[..]].concat()).collect();
            facts.store(SYMLINKS, &question, &ended);
        }
    }

    fn of(&self, repo: &Repo, tree: Oid) -> Result<Rc<LinksOfTree>> {
        if let Some(links) = self.0.borrow().get(&tree) {
            return Ok(Rc::clone(links));
        }
        let links = Rc::new(symlinks(repo, tree)?);
        self.0.borrow_mut().insert(tree, Rc::clone(&links));
        Ok(links)
    }
}

/// What the symlinks of trees were, each path and target with a zero behind it: to find them, every directory of a tree is read.
const SYMLINKS: &str = "symlinks";

fn symlinks(repo: &Repo, tree: Oid) -> Result<LinksOfTree> {
    let facts = Facts::known(repo.common_dir());
    let Some(known) = facts.and_then(|facts| facts.load(SYMLINKS, &[tree.to_hex()])) else {
        return repo.symlinks(tree);
    };
    let mut words = known.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    Ok(std::iter::from_fn(|| words.next().zip(words.next())).collect())
}

/// The paths of these trees that those of the changes which may be new could collide with where case is ignored.
fn tracked_near(
    repo: &Repo,
    trees: &[Oid],
    boundary: &Boundary,
    changes: &[Change],
) -> Result<CaseIndex> {
    let mut spellings: Vec<_> = trees.iter().map(|tree| Spellings::new(repo, *tree)).collect();
    let mut tracked = Vec::new();
    for change in changes {
        // What is tracked already has the spelling that it has; only a new name can differ from
        // another by case.
        let new =
            matches!(change.kind, ChangeKind::Added | ChangeKind::Untracked | ChangeKind::Named);
        // What the scope denies as it is spelled needs no second reason.
        if let Ok(path) = RepoPath::parse(&change.path)
            && new
            && boundary.scope.decide(&path).is_allowed()
        {
            for spellings in &mut spellings {
                tracked.extend(spellings.near(&path)?);
            }
        }
    }
    Ok(CaseIndex::of(&tracked))
}

/// Makes of the name of a tracked directory everything below it: `src` is `src/**`. In a denylist, so does a name that is not
/// tracked: what comes to be there may be a directory, unless it is a control file.
///
/// # Errors
/// Those of reading trees.
pub(crate) fn spell_out_directories(
    repo: &Repo,
    trees: &[Oid],
    globs: &mut [Glob],
    is_denylist: bool,
) -> Result<()> {
    for glob in globs {
        // A glob with a wildcard says itself what it covers; only a plain name can be that of a
        // directory.
        let Some(path) = glob.plain_path() else {
            continue;
        };
        let mut is_file = false;
        let mut is_directory = false;
        for tree in trees {
            let entry = repo.entry_at(*tree, &path)?;
            is_directory |= entry.as_ref().is_some_and(Entry::is_directory);
            is_file |= entry.is_some();
        }
        if is_directory || is_denylist && !is_file && !is_control_file(path.as_bytes()) {
            *glob = Glob::parse(&format!("{glob}/**")).map_err(Error::bug)?;
        }
    }
    Ok(())
}

/// The globs of control files beside the ones that every repository has: those of agent hosts, and of its hooks in the tree.
///
/// # Errors
/// Those of reading the configuration.
pub(crate) fn other_controls(repo: &Repo) -> Result<Vec<String>> {
    Ok(hosts::control_files().map(str::to_owned).chain(hooks_in_tree(repo)?).collect())
}

/// The files below the directory that `core.hooksPath` names, as a glob, where it lies in the tree of the repository.
fn hooks_in_tree(repo: &Repo) -> Result<Option<String>> {
    let Some(setting) = repo.config_string("core.hooksPath")? else {
        return Ok(None);
    };
    let path = Path::new(&setting);
    let inside = if path.is_absolute() { path.strip_prefix(repo.root()?).ok() } else { Some(path) };
    let inside = inside.and_then(Path::to_str);
    let inside = inside.map(|inside| inside.trim_start_matches("./").trim_end_matches('/'));
    // The top itself would deny everything.
    let inside = inside.filter(|name| !name.is_empty());
    Ok(inside.map(|directory| format!("{directory}/**")))
}

/// The first path that is a control file, also under another name, of those that differ between two trees.
///
/// # Errors
/// Those of reading trees and the configuration.
pub(crate) fn changed_control_file(repo: &Repo, old: Oid, new: Oid) -> Result<Option<Vec<u8>>> {
    let everything = [Glob::parse("**").map_err(Error::bug)?];
    let controls = control_files(&everything, other_controls(repo)?);
    let controls: Vec<Glob> = controls.into_keys().collect();
    let case = CaseRule { is_ignored: true, control_files: &[] };
    let scope = Scope::with_case(&everything, &controls, &Opened::new(), case);
    let scope = scope.map_err(Error::bug)?;
    let boundary = Boundary { scope, edits: true, bundle: None };
    let changes = repo.tree_changes(&[old], new)?;
    let others = other_names(repo, &[old], &boundary, &changes, &SharedLinks::default())?;
    let judge = |change| boundary.violation(change, BundleRule::Writable, &others);
    Ok(changes.iter().find_map(judge).map(|violation| violation.path))
}

/// Scopes that were compiled before, by what was recorded, and the symlinks of bases.
#[derive(Default)]
pub struct Scopes {
    compiled: RefCell<HashMap<ScopeKey, Scope>>,
    links: Rc<SharedLinks>,
}

/// Whitelist, denylist and what is opened of it.
type ScopeKey = ([Vec<String>; 2], BTreeMap<String, Vec<String>>);

/// What an agent may touch, in this clone.
///
/// # Errors
/// One sentence, as [`Policy::scope`].
pub fn scope_of(repo: &Repo, policy: &Policy) -> Result<Scope, String> {
    let control_files: Vec<&str> = hosts::control_files().collect();
    // A setting of the agent's own worktree counts for nothing.
    let is_ignored = repo.shared_bool("core.ignorecase");
    policy.scope(CaseRule {
        is_ignored: is_ignored.map_err(|error| error.message().to_owned())?,
        control_files: &control_files,
    })
}

impl Scopes {
    fn of(&self, repo: &Repo, policy: &Policy) -> Result<Scope, String> {
        let lists = [policy.whitelist.clone(), policy.denylist.clone()];
        let globs = (lists, policy.opened.clone());
        // Agents of one fleet mostly share few scopes, and making one takes longest.
        if let Some(scope) = self.compiled.borrow().get(&globs) {
            return Ok(scope.clone());
        }
        let scope = scope_of(repo, policy)?;
        self.compiled.borrow_mut().insert(globs, scope.clone());
        Ok(scope)
    }
}

fn boundary(repo: &Repo, policy: &Policy, scopes: &Scopes) -> Result<Boundary, String> {
    let bundle = policy.bundle_dir.as_ref();
    Ok(Boundary {
        scope: scopes.of(repo, policy)?,
        edits: policy.edits,
        bundle: bundle
            .filter(|_| policy.isolation == Isolation::Worktree.as_str())
            .map(|directory| RepoPath::parse(directory.as_bytes()))
            .transpose()
            .map_err(|problem| format!("the bundle's directory is none: {problem}"))?,
    })
}

/// Tells of the file where a symlink leads, under the name that was given for it.
fn alias_of(spelled: &[u8], real: &Change, violation: Violation) -> Violation {
    let reason = match (violation.reason, RepoPath::parse(&real.path)) {
        (Reason::Scope(denied), Ok(path)) => Reason::Alias { path, denied },
        (reason, _) => reason,
    };
    Violation { path: spelled.to_owned(), kind: violation.kind, reason }
}

/// The path below one of the `tops`, by its text and as the kernel would follow it; `None` where it is
/// below none of them.
///
/// The two differ where a symlink is on the way, and then they are two files to be judged: the agent
/// that follows the text and the kernel that follows the link each write one of them.
fn locate(tops: &[PathBuf], directory: &Path, name: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let spelled = tool_call::locate(directory.as_os_str().as_bytes(), name)
        .and_then(|path| below(tops, Path::new(OsStr::from_bytes(&path))));
    let real =
        real_path(&directory.join(OsStr::from_bytes(name))).and_then(|path| below(tops, &path));
    (spelled, real)
}

fn below(tops: &[PathBuf], path: &Path) -> Option<Vec<u8>> {
    let inside = tops.iter().find_map(|top| path.strip_prefix(top).ok())?;
    Some(inside.as_os_str().as_bytes().to_owned())
}
