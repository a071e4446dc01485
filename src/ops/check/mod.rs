//! `check`: is what an agent did, or is about to do, inside its scope?
//!
//! ```text
//! who and where -> Agent -> ScopeGuard (policy of the ledger) + changes -> [Violation] -> CheckReport
//! ```
//!
//! What binds is the policy that the `spawned` event names; nothing in a worktree is asked. Deliberately
//! absent: what an agent can hide from git, which `verify` looks for.

use crate::agents::who::scope_guard::agent_here;
use crate::agents::{Ctx, ScopeGuard, Scratch, place::worktree, stock::layered, who::lookup, work};
use crate::domain::paths::removal::{Parents, out_of_commit, out_of_worktree, pathspec};
use crate::domain::{
    Agent, BundleRule, Change, ChangeKind, Isolation, Oid, State, Violation, value::shell,
};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::changes::{Staging, worktree_changes};
use crate::store::files::layout;
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What the next commit would change.
    Staged,
    /// Everything staged, modified or untracked.
    Worktree,
    /// Every commit of `A..B`, each one by itself.
    Range(String),
    /// Paths that were asked about: absolute, or relative to the current directory.
    Paths(Vec<Vec<u8>>),
}

/// Judges for the agent that goes by `who`, or for the one whose worktree this is. Outside every
/// agent's worktree nothing is judged, and everything is in scope.
///
/// # Errors
/// `agent-unknown` also for a worktree that is an agent's and has no row; `agent-state` for an agent
/// without policy or worktree; `usage` for what is no range; those of [`ScopeGuard::around`] and of git.
pub fn check(ctx: &Ctx, who: Option<&str>, subject: &Subject) -> Result<CheckReport> {
    let agent = match who {
        Some(who) => Some(lookup::agent(ctx, &ctx.ledger(), who)?),
        None => agent_here(&ctx.repo)?,
    };
    let Some(agent) = agent else {
        return Ok(CheckReport::without_agent());
    };
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    let elsewhere = open_elsewhere(ctx, fence.agent(), subject)?;
    let repo = elsewhere.as_ref().unwrap_or(&ctx.repo);
    let mut report = CheckReport::new(&fence);
    let mut fixer = Fixer::new(ctx, repo, fence.agent(), subject);
    match subject {
        Subject::Staged => {
            let changes = match &elsewhere {
                // In a hook git names the index that it commits, which may be a temporary one.
                None => repo.staged_changes(&ctx.env.staging)?,
                // What the environment says is about the caller's worktree.
                Some(elsewhere) => elsewhere.staged_changes(&Staging::default())?,
            };
            let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
            report.add(changes.len(), &violations, &fixer);
        }
        Subject::Worktree => {
            // A sandbox of the host may keep the agent itself from writing to the repository.
            let scratch = Scratch::make(ctx, "check")?;
            let apart = ctx.with_scratch_objects(scratch.path())?;
            let changes = worktree_work(&apart, repo, &fence)?;
            let violations = fence.judge(&changes, BundleRule::Writable)?;
            report.add(changes.len(), &violations, &fixer);
        }
        Subject::Range(range) => {
            let commits = commits(repo, range)?;
            for commit in &commits {
                let parents = repo.read_commit(*commit)?.parents;
                fixer.parents.insert(*commit, parents);
            }
            for commit in commits {
                fixer.commit = Some(commit);
                let changes = repo.commit_changes(commit)?;
                let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
                report.add(changes.len(), &violations, &fixer);
            }
        }
        Subject::Paths(names) => {
            let tops = tops(ctx, fence.agent(), who.is_some());
            for name in names {
                let violation = fence.judge_name(&tops, &ctx.env.directory, name)?;
                report.add(1, violation.as_slice(), &fixer);
            }
        }
    }
    Ok(report)
}

/// The agent's own worktree, when the caller stands in another one and asks about what is in it.
fn open_elsewhere(ctx: &Ctx, agent: &Agent, subject: &Subject) -> Result<Option<Repo>> {
    let here = ctx.repo.current_worktree_name();
    if agent.isolation != Some(Isolation::Worktree) {
        return Ok(None);
    }
    let path = worktree::find(&ctx.repo, agent);
    // Names are judged where the caller stands.
    if here == Some(layout::worktree_name(agent.id)) || matches!(subject, Subject::Paths(_)) {
        return Ok(None);
    }
    // Its admin directory, not its `.git` file, which the agent can write.
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    if path.as_ref().is_some_and(|path| path.is_dir()) {
        return Repo::open_git_dir(&admin_dir).map(Some);
    }
    match subject {
        // Commits are in the repository that all worktrees share.
        Subject::Range(_) => Ok(None),
        _ => {
            let id = agent.id.short();
            let gone = || {
                let what = format!("the worktree of agent {id} is not here");
                Error::new(Code::AgentState, what)
            };
            if agent.state == State::Discarded {
                return Err(gone().remedy("to get its work back", Remedy::Reopen(id)));
            }
            let error = lookup::require_worktree_here(ctx, agent).err();
            Err(error.unwrap_or_else(gone).hint(format!(
                "to judge its commits, run git agent check {id} --range <base>..<branch>"
            )))
        }
    }
}

/// What is staged, and what `verify` would judge that is not. A shared agent, which has no worktree, is asked about
/// this one, as git sees it.
fn worktree_work(ctx: &Ctx, repo: &Repo, fence: &ScopeGuard<'_>) -> Result<Vec<Change>> {
    let top = require_top(repo)?;
    if fence.agent().branch.is_none() {
        return worktree_changes(repo, &ctx.temporary_place());
    }
    let staged = repo.staged_changes(&Staging::default())?;
    let (mut changes, _) = work::uncommitted::work_to_commit(ctx, fence, top, repo.git_dir())?;
    for change in &mut changes {
        let is_staged = staged.binary_search_by(|one| one.path.cmp(&change.path)).is_ok();
        // As `git status` says it: a file is added once it is staged.
        if change.kind == ChangeKind::Added && !is_staged {
            change.kind = ChangeKind::Untracked;
        }
    }
    changes.extend(staged);
    changes.sort_by(|one, two| one.path.cmp(&two.path));
    // What became of a staged file in the worktree comes first, and tells more.
    changes.dedup_by(|later, earlier| later.path == earlier.path);
    Ok(changes)
}

/// The directories that a path may be below: the worktree where the caller stands, and for one who
/// names the agent, that agent's.
fn tops(ctx: &Ctx, agent: &Agent, named: bool) -> Vec<PathBuf> {
    let own = worktree::find(&ctx.repo, agent).filter(|_| named);
    own.into_iter()
        .chain(ctx.repo.workdir().map(Path::to_owned))
        .map(|top| std::fs::canonicalize(&top).unwrap_or(top))
        .collect()
}

fn require_top(repo: &Repo) -> Result<&Path> {
    repo.workdir().ok_or_else(|| {
        Error::new(Code::Usage, "a bare repository has no worktree to check").hint(
            "to judge an agent's worktree, name the agent: git agent check <agent> --worktree",
        )
    })
}

/// The commits of `A..B`, parents first; a missing side is HEAD, as in git.
fn commits(repo: &Repo, range: &str) -> Result<Vec<Oid>> {
    let Some((from, to)) = range
        .split_once("..")
        // A symmetric difference would hold commits of the other side.
        .filter(|(_, to)| !to.starts_with('.'))
    else {
        return Err(Error::new(Code::Usage, format!("`{range}` is no range of commits")).hint(
            "to judge everything since a commit, run git agent check --range <commit>..HEAD",
        ));
    };
    let resolve = |side: &str| -> Result<Oid> {
        let side = if side.is_empty() { "HEAD" } else { side };
        Ok(repo.resolve_commit(side)?.commit)
    };
    repo.commits_between(&[resolve(from)?], resolve(to)?)
}

// What to do about a violation, as a command to run.

/// Knows where the caller stands and what was judged.
struct Fixer<'a> {
    subject: &'a Subject,
    agent: String,
    /// ` -C <worktree>` for a caller who stands elsewhere.
    elsewhere: String,
    /// The top of the worktree with a final slash, for the same caller.
    prefix: Vec<u8>,
    /// Whether the files are seen by commands of the agent alone, and the caller is none.
    is_layered: bool,
    unborn: bool,
    /// The commit that is being judged.
    commit: Option<Oid>,
    parents: Parents,
}

impl<'a> Fixer<'a> {
    fn new(ctx: &Ctx, repo: &Repo, agent: &Agent, subject: &'a Subject) -> Fixer<'a> {
        let mut prefix = Vec::new();
        let mut elsewhere = String::new();
        let is_layered = ctx.env.agent.is_none() && layered::of(&ctx.repo, agent.id).is_some();
        if let Some(top) = repo.workdir()
            && top != ctx.env.directory
            && !is_layered
        {
            prefix = top.as_os_str().as_bytes().to_owned();
            elsewhere =
                format!(" -C {}", shell::word(prefix.strip_suffix(b"/").unwrap_or(&prefix)));
        }
        Fixer {
            subject,
            agent: agent.id.short(),
            elsewhere,
            prefix,
            is_layered,
            // There `git restore` has no commit to restore from.
            unborn: repo.resolve_commit("HEAD").is_err(),
            commit: None,
            parents: Parents::new(),
        }
    }

    /// The command that takes the change back, or shows what the agent may touch instead.
    fn fix(&self, violation: &Violation) -> String {
        let elsewhere = &self.elsewhere;
        let path = pathspec(&violation.path);
        let command = match (self.subject, violation.kind) {
            (Subject::Staged, _) if self.unborn => {
                format!("git{elsewhere} rm --cached -- {path}")
            }
            (Subject::Staged, _) => format!("git{elsewhere} restore --staged -- {path}"),
            (Subject::Worktree, kind) => {
                out_of_worktree(elsewhere, &self.prefix, kind, &violation.path)
            }
            (Subject::Range(_), _) => out_of_commit(
                elsewhere,
                self.commit.unwrap_or(Oid::ZERO),
                &self.parents,
                [(violation.path.as_slice(), violation.removal())],
            ),
            (Subject::Paths(_), _) => return format!("git agent show {}", self.agent),
        };
        if self.is_layered {
            let script = shell::word(command.as_bytes());
            return format!("git agent run {} --no-verify -- sh -c {script}", self.agent);
        }
        command
    }
}

// The answer of `check`.

/// `git-agent.check/1`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.check/1")]
pub struct CheckReport {
    /// The agent; absent outside every agent's worktree.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// Whether there is no violation.
    pub in_scope: bool,
    /// How many changes were judged.
    pub checked: usize,
    /// What the agent was not allowed to do.
    pub violations: Vec<ViolationReport>,
    /// The globs it may touch; absent outside of agents.
    pub whitelist: Option<Vec<String>>,
}

/// One violation.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationReport {
    /// The path from the top of the worktree, or as it was given.
    pub path: PathText,
    /// What was done to it: `added`, `modified`, `deleted`, `mode changed`, `type changed`,
    /// `untracked`, `named`.
    pub change: &'static str,
    /// Why it is out of scope: `denylist`, `not-in-whitelist`, `never`, `read-only`, `bundle`,
    /// `symlink-target`, `outside-worktree`, `unseen-directory`.
    pub reason: &'static str,
    /// The same as a sentence.
    pub detail: String,
    /// The glob that decided, when one did.
    pub glob: Option<String>,
    /// The commit it is in, when commits were judged.
    pub commit: Option<String>,
    /// A command that helps.
    pub fix: String,
}

impl CheckReport {
    /// Outside of agents nothing is judged.
    fn without_agent() -> CheckReport {
        CheckReport {
            agent_id: None,
            short_id: None,
            in_scope: true,
            checked: 0,
            violations: Vec::new(),
            whitelist: None,
        }
    }

    /// Nothing is judged yet.
    fn new(fence: &ScopeGuard<'_>) -> CheckReport {
        CheckReport {
            agent_id: Some(fence.agent().id.to_string()),
            short_id: Some(fence.agent().id.short()),
            whitelist: Some(fence.policy().whitelist.clone()),
            ..CheckReport::without_agent()
        }
    }

    /// Counts what was judged and lists what is out of scope.
    fn add(&mut self, checked: usize, violations: &[Violation], fixer: &Fixer<'_>) {
        self.checked += checked;
        self.in_scope &= violations.is_empty();
        let reports = violations.iter().map(|violation| ViolationReport {
            path: PathText::from(violation.path.as_slice()),
            change: violation.kind.as_str(),
            reason: violation.reason.code(),
            detail: violation.reason.to_string(),
            glob: violation.reason.glob().map(str::to_owned),
            commit: fixer.commit.map(|commit| commit.to_hex()),
            fix: fixer.fix(violation),
        });
        self.violations.extend(reports);
    }
}
