//! What the globs of a task mean in the base: directories, globs that match nothing, hooks of the repository.

use crate::domain::diagnostic::nearest;
use crate::domain::glob::{Glob, Reach};
use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::domain::scope::{Intersection, Scope, ScopeLanguage};
use crate::domain::task::Task;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::objects::Visitor;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

/// So many tracked names are looked through for one that a glob may have meant.
const MOST_NAMES: usize = 100_000;

/// So many names are suggested for a glob.
const SUGGESTIONS: usize = 3;

/// Makes of the name of a tracked directory everything below it: `src` is `src/**`.
pub(in crate::ops) fn spell_out_directories(
    repo: &Repo,
    trees: &[Oid],
    task: &mut Task,
) -> Result<()> {
    let denylist = task.denylist.iter_mut().flatten();
    for glob in task.whitelist.iter_mut().chain(denylist) {
        let reach = glob.reach();
        // A glob with a wildcard says itself what it covers; only a plain name can be that of a
        // directory.
        let [Reach::Path(path)] = reach.as_slice() else {
            continue;
        };
        for tree in trees {
            if { repo.entry_at(*tree, path)? }.is_some_and(|entry| entry.is_directory()) {
                *glob = Glob::parse(&format!("{path}/**")).map_err(Error::bug)?;
                break;
            }
        }
    }
    Ok(())
}

/// The files below the directory that `core.hooksPath` names, as a glob, where it lies in the tree of the repository.
pub(in crate::ops) fn hooks_in_tree(repo: &Repo) -> Result<Option<String>> {
    let Some(setting) = repo.config_string("core.hooksPath")? else {
        return Ok(None);
    };
    let path = Path::new(&setting);
    let inside = if path.is_absolute() {
        path.strip_prefix(repo.root()?).ok()
    } else {
        Some(path)
    };
    let inside = inside.and_then(Path::to_str);
    let inside = inside.map(|inside| inside.trim_start_matches("./").trim_end_matches('/'));
    // The top itself would deny everything.
    let inside = inside.filter(|name| !name.is_empty());
    Ok(inside.map(|directory| format!("{directory}/**")))
}

/// The globs that match nothing in any of these trees, each with a sentence that says so. Such a glob is legal, because the agent may create the
/// file, and often a slip.
pub(super) fn unmatched(
    repo: &Repo,
    trees: &[Oid],
    whitelist: &[Glob],
    denylist: &[Glob],
) -> Result<Vec<(Glob, String)>> {
    let compile = |whitelist: &[Glob], denylist: &[Glob]| {
        Scope::new(whitelist, denylist).map_err(|rule| Error::new(Code::TaskInvalid, rule))
    };
    // All of them together may break a rule that none breaks alone.
    compile(whitelist, denylist)?;
    let mut open = Unmatched::default();
    for glob in whitelist {
        let scope = compile(std::slice::from_ref(glob), &[])?;
        open.globs.push((glob, scope));
    }
    for tree in trees {
        repo.walk_tracked(*tree, &mut open)?;
    }
    let told = |(glob, _): &(&Glob, _)| {
        let allowed = ScopeLanguage::new(std::slice::from_ref(*glob), denylist);
        // A language that does not even meet itself is empty.
        let told = if allowed.intersection(&allowed) == Intersection::Empty {
            format!("the glob `{glob}` allows nothing: the denylist has all that it matches")
        } else {
            format!("the glob `{glob}` matches no tracked path")
        };
        (Glob::clone(glob), told)
    };
    Ok(open.globs.iter().map(told).collect())
}

/// Globs that have matched nothing so far, each as a scope of its own.
#[derive(Default)]
struct Unmatched<'t> {
    globs: Vec<(&'t Glob, Scope)>,
}

impl Visitor for Unmatched<'_> {
    fn enters(&mut self, directory: &RepoPath) -> bool {
        let mut scopes = self.globs.iter().map(|(_, scope)| scope);
        scopes.any(|scope| scope.may_allow_below(directory))
    }

    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()> {
        self.globs
            .retain(|(_, scope)| !scope.decide(path).is_allowed());
        if self.globs.is_empty() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Refuses a typed scope with a glob that matches nothing, unless the person said that it is for new files.
pub(super) fn require_matched(
    repo: &Repo,
    trees: &[Oid],
    unmatched: &[(Glob, String)],
    new: &[String],
) -> Result<()> {
    let is_new = |glob: &Glob| { new.iter() }.any(|text| Glob::parse(text).as_ref() == Ok(glob));
    let mut slips = unmatched
        .iter()
        .filter(|(glob, _)| !glob.is_bare() && !is_new(glob));
    let Some((glob, what)) = slips.next() else {
        return Ok(());
    };
    let mut error = Error::new(Code::ScopeUnmatched, what.clone());
    let near = near_names(repo, trees, glob)?;
    if !near.is_empty() {
        error = error.hint(format!("names like it are {}", near.join(", ")));
    }
    for (_, other) in slips {
        error = error.because(other.clone());
    }
    Err(error.hint(format!(
        "for a file that the agent is to make, pass --new '{glob}' instead of --scope"
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
    let mut near: Vec<&str> = nearest(text, names.0.iter().map(String::as_str))
        .into_iter()
        .collect();
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
        if self.0.len() < MOST_NAMES {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}
