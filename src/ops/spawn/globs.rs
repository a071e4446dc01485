//! What the globs of a task mean in the base: directories, globs that match nothing, hooks of the repository,
//! and the cone of a sparse checkout.

use crate::agents::Ctx;
use crate::agents::place::{projects, worktree};
use crate::domain::boundary::scope::{Intersection, Opened};
use crate::domain::paths::glob::{escaped, seen_from};
use crate::domain::settings::project::Projects;
use crate::domain::settings::repository_settings::PATH;
use crate::domain::value::diagnostic::nearest;
use crate::domain::{
    AgentId, Glob, Oid, RepoPath, Scope, ScopeLanguage, Task, boundary::scope, value::shell,
};
use crate::error::{Code, Error, Result};
use crate::git::objects::Visitor;
use crate::git::{Repo, worktree::populate};
use crate::ops::spawn::contract::SpawnOptions;
use crate::store::files::{added, layout, lock};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Component, Path};

/// So many tracked names are looked through for one that a glob may have meant.
const MOST_NAMES: usize = 100_000;

/// So many names are suggested for a glob.
const SUGGESTIONS: usize = 3;

/// The control files of this program: they decide what agents do, and no other program.
const OWN: [&str; 3] = [PATH, "roles/*.toml", ".worktreeinclude"];

/// A tracked file in scope that the globs of control files deny, but for our own. Those that may lie anywhere are looked for at the top
/// alone, since it would take long to walk through a large repository for a hint.
pub(super) fn control_file(
    repo: &Repo,
    trees: &[Oid],
    (scope, controls): (&Scope, &Opened),
) -> Result<Option<RepoPath>> {
    let texts = controls.keys().map(|glob| glob.as_str().trim_start_matches("**/"));
    let globs = texts.filter(|text| !OWN.contains(text)).filter_map(|text| Glob::parse(text).ok());
    // The directory of the hooks may be the one of git.
    let globs: Vec<Glob> = globs.filter(|glob| !glob.needs_git_dir()).collect();
    let controls = Scope::new(&globs, &[]).map_err(Error::bug)?;
    let mut first = FirstAllowed { scopes: [scope, &controls], found: None };
    for tree in trees {
        repo.walk_tracked(*tree, &mut first)?;
    }
    Ok(first.found)
}

/// The first tracked path that two scopes allow.
struct FirstAllowed<'s> {
    scopes: [&'s Scope; 2],
    found: Option<RepoPath>,
}

impl Visitor for FirstAllowed<'_> {
    fn enters(&mut self, directory: &RepoPath) -> bool {
        let may_be_below = |scope: &&Scope| scope.beginnings().may_allow_below(directory);
        self.found.is_none() && self.scopes.iter().all(may_be_below)
    }

    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()> {
        if self.found.is_none() && self.scopes.iter().all(|scope| scope.decide(path).is_allowed()) {
            self.found = Some(path.clone());
        }
        match self.found {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The globs that match nothing in any of these trees, each with a sentence that says so. Such a glob is legal, because the agent may create the
/// file, and often a slip.
pub(in crate::ops) fn unmatched(
    repo: &Repo,
    trees: &[Oid],
    whitelist: &[Glob],
    (denylist, opened): (&[Glob], &Opened),
) -> Result<Vec<(Glob, String)>> {
    let compile = |whitelist: &[Glob]| {
        Scope::new(whitelist, &[]).map_err(|rule| Error::new(Code::TaskInvalid, rule))
    };
    // All of them together may break a rule that none breaks alone.
    compile(whitelist)?;
    let mut open = Unmatched::default();
    for glob in whitelist {
        let scope = compile(std::slice::from_ref(glob))?;
        open.globs.push((glob, scope));
    }
    for tree in trees {
        repo.walk_tracked(*tree, &mut open)?;
    }
    let told = |(glob, _): &(&Glob, _)| {
        let told = if allows_nothing(glob, denylist, opened) {
            format!("the glob `{glob}` allows nothing: the denylist has all that it matches")
        } else {
            format!("the glob `{glob}` matches no tracked path")
        };
        (Glob::clone(glob), told)
    };
    Ok(open.globs.iter().map(told).collect())
}

/// Whether a denylist has all that a glob matches, but for what is opened of it.
fn allows_nothing(glob: &Glob, denylist: &[Glob], opened: &Opened) -> bool {
    let allowed = ScopeLanguage::opening(std::slice::from_ref(glob), denylist, opened);
    // A language that does not even meet itself is empty.
    allowed.intersection(&allowed) == Intersection::Empty
}

/// A warning for each glob of a whitelist that allows nothing, with the glob of the denylist that has all that it matches.
pub(in crate::ops) fn denied<'a>(
    whitelist: impl IntoIterator<Item = &'a Glob>,
    denylist: &[Glob],
    opened: &Opened,
) -> Vec<String> {
    let globs = whitelist.into_iter().filter(|glob| allows_nothing(glob, denylist, opened));
    let told = |glob: &Glob| {
        let covers = |denied: &&Glob| allows_nothing(glob, std::slice::from_ref(*denied), opened);
        let by = match denylist.iter().find(covers) {
            Some(denied) => format!("`{denied}` of the denylist has all that it matches"),
            None => "the denylist has all that it matches".to_owned(),
        };
        format!(
            "the glob `{glob}` allows nothing: {by}; to open it, list that glob in `relaxes` of a role (docs/tasks.md)"
        )
    };
    globs.map(told).collect()
}

/// A warning for each glob that does not match the tracked path of just its name: `src/[id].tsx` is a class, and a person who denied it by its
/// name believes that the file of that name is denied.
///
/// # Errors
/// Those of [`Repo::read_tree`].
pub(in crate::ops) fn misread<'a>(
    repo: &Repo,
    trees: &[Oid],
    globs: impl IntoIterator<Item = &'a Glob>,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    // Only brackets do not match themselves. What is in a git directory is in no tree.
    let may_differ = |glob: &&Glob| glob.as_str().contains(['[', '{']) && !glob.needs_git_dir();
    for glob in globs.into_iter().filter(may_differ) {
        let (name, below) = match glob.as_str().strip_suffix("/**") {
            Some(name) => (name, "/x"),
            None => (glob.as_str(), ""),
        };
        let scope = Scope::new(std::slice::from_ref(glob), &[]).map_err(Error::bug)?;
        if scope.decide_bytes(format!("{name}{below}").as_bytes()).is_allowed() {
            continue;
        }
        for tree in trees {
            if repo.entry_at(*tree, name)?.is_some() {
                let meant = escaped(name);
                warnings.push(format!(
                    "the glob `{name}` does not match the path of that name; to match it, write `{meant}`"
                ));
                break;
            }
        }
    }
    Ok(warnings)
}

/// Globs that have matched nothing so far, each as a scope of its own.
#[derive(Default)]
struct Unmatched<'t> {
    globs: Vec<(&'t Glob, Scope)>,
}

impl Visitor for Unmatched<'_> {
    fn enters(&mut self, directory: &RepoPath) -> bool {
        let mut scopes = self.globs.iter().map(|(_, scope)| scope);
        scopes.any(|scope| scope.beginnings().may_allow_below(directory))
    }

    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()> {
        self.globs.retain(|(_, scope)| !scope.decide(path).is_allowed());
        if self.globs.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Refuses a typed scope with a glob that matches nothing, unless the person said that it is for new files.
pub(in crate::ops) fn require_matched(
    ctx: &Ctx,
    trees: &[Oid],
    unmatched: &[(Glob, String)],
    new: &[String],
) -> Result<()> {
    let is_new = |glob: &Glob| new.iter().any(|text| Glob::parse(text).as_ref() == Ok(glob));
    let mut slips = unmatched.iter().filter(|(glob, _)| !glob.is_bare() && !is_new(glob));
    let Some((glob, what)) = slips.next() else {
        return Ok(());
    };
    let mut error = Error::new(Code::ScopeUnmatched, what.clone());
    // What is pasted behind an option is read as from where the caller stands.
    let here = projects::directory_in_repository(ctx);
    let near = near_names(&ctx.repo, trees, glob)?;
    if !near.is_empty() {
        let near: Vec<_> = near.iter().map(|name| seen_from(&here, &escaped(name))).collect();
        error = error.hint(format!("names like it are {}", near.join(", ")));
    }
    for (_, other) in slips {
        error = error.because(other.clone());
    }
    Err(error.hint(format!(
        "for a file that the agent is to make, pass --new {} instead of --scope",
        shell::quoted(&seen_from(&here, glob.as_str()))
    )))
}

/// Tracked names that a glob may have meant: those that are spelled like it, and those whose last part is the same.
fn near_names(repo: &Repo, trees: &[Oid], glob: &Glob) -> Result<Vec<String>> {
    let mut names = TrackedNames::default();
    for tree in trees {
        repo.walk_tracked(*tree, &mut names)?;
    }
    let text = glob.as_str().trim_end_matches("/**");
    let last = |name: &str| name.rsplit('/').next().map(str::to_ascii_lowercase);
    let mut near: Vec<&str> =
        nearest(text, names.0.iter().map(String::as_str)).into_iter().collect();
    let same_end = names.0.iter().filter(|name| last(name) == last(text));
    near.extend(same_end.map(String::as_str));
    let mut seen = BTreeSet::new();
    near.retain(|name| seen.insert(*name));
    near.truncate(SUGGESTIONS);
    Ok(near.into_iter().map(str::to_owned).collect())
}

/// Tracked paths and their directories.
#[derive(Default)]
struct TrackedNames(BTreeSet<String>);

impl Visitor for TrackedNames {
    fn enters(&mut self, directory: &RepoPath) -> bool {
        self.0.insert(directory.to_string());
        true
    }

    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()> {
        self.0.insert(path.to_string());
        if self.0.len() < MOST_NAMES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

// `spawn --sparse`: a worktree of the directories that the agent's scope begins with.

/// The directories of a sparse worktree: those of the whitelist, and those that every worktree needs, which are the bundle's, that
/// of the settings, and that of the repository's hooks. `None` where it is to hold everything.
///
/// # Errors
/// `usage` for a clone, which is complete; `git-failed` when the configuration cannot be read.
pub(super) fn of(
    ctx: &Ctx,
    task: &Task,
    projects: &Projects,
    bundle_dir: &str,
    options: &SpawnOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<BTreeSet<String>>> {
    if !options.sparse {
        return Ok(None);
    }
    if options.clone {
        return Err(Error::new(Code::Usage, "a clone is complete, so it cannot be sparse")
            .hint("to go on, leave out --sparse or --isolation=clone"));
    }
    let chosen: BTreeSet<&str> =
        options.sparse_projects.iter().map(|name| named(projects, name)).collect::<Result<_>>()?;
    let of_scope = match scope::cone_directories(&task.whitelist) {
        _ if !chosen.is_empty() => Ok(BTreeSet::new()),
        Err(_) if options.cone.is_some() => Ok(BTreeSet::new()),
        directories => directories,
    };
    let mut directories = match of_scope {
        Ok(directories) => directories,
        Err(glob) => {
            warnings.push(format!(
                "--sparse leaves nothing out: the glob `{glob}` begins with no directory that it names in full"
            ));
            return Ok(None);
        }
    };
    // A project is of use as a whole, and with all that it needs.
    let holding = directories
        .iter()
        .flat_map(|path| projects.all().iter().filter(|one| Path::new(path).starts_with(&one.path)))
        .map(|one| one.path.as_str())
        .chain(chosen);
    let needed = projects.needed(&holding.collect());
    let needed: Vec<String> = needed.into_iter().map(|one| one.path.clone()).collect();
    directories.extend(needed);
    directories.extend(options.cone.iter().flatten().cloned());
    let settings = PATH.rsplit_once('/').map(|(directory, _)| directory);
    let hooks = ctx.repo.repository_hooks_path()?;
    let needed = [Some(bundle_dir), settings, hooks.as_deref()];
    directories.extend(needed.into_iter().flatten().filter_map(inside));
    Ok(Some(directories))
}

/// The directory of the project that `--sparse` names.
fn named<'p>(projects: &'p Projects, name: &str) -> Result<&'p str> {
    if let Some(project) = projects.find(name) {
        return Ok(&project.path);
    }
    let known: Vec<&str> = projects.all().iter().map(|one| one.path.as_str()).collect();
    let error = Error::new(Code::Usage, format!("`{name}` names no project"));
    Err(match known.as_slice() {
        [] => error.hint(format!("projects are listed as [[project]] in {PATH}")),
        known => error.hint(format!("the projects are {}", known.join(", "))),
    })
}

/// A path as one from the top of the worktree; `None` for one that leads elsewhere.
fn inside(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    // A hooks path may begin with the home directory.
    parts.first().filter(|first| **first != "~").map(|_| parts.join("/"))
}

/// Makes the worktree of a new agent sparse, before it is populated.
///
/// # Errors
/// Those of the configuration files and of git.
pub(super) fn narrow(
    ctx: &Ctx,
    id: AgentId,
    path: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    let repo = &ctx.repo;
    {
        // This changes the configuration that all worktrees share, which two spawns must not do at
        // once.
        let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
        added::enable_worktree_config(repo)?;
    }
    let admin_dir = worktree::admin_dir(repo, id);
    populate::narrow_cone(repo, path, &admin_dir, directories)
}
