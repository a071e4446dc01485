//! What an agent may touch: whitelist and denylist, deny wins.
//!
//! A path is in scope when a whitelist glob matches its comparison form and no denylist glob does.
//! Everything is compiled once; deciding a path is then a handful of hash and automaton look-ups.
//!
//! Where the two lists could be read either way, both err towards denial: `vendor/**` in a whitelist
//! is what lies below `vendor`, in a denylist it is `vendor` itself as well, because a file, symlink
//! or submodule pointer put in the place of a directory replaces everything below it.
//!
//! Deliberately absent: the agent's own bundle directory, which is always writable and never part of
//! a commit; the code that gathers the paths leaves it out.

mod bytes;
mod case;
mod control;
mod language;
mod program;

pub use case::{CaseIndex, fold, is_case_variant};
pub use control::unnamed_control_files;
pub use language::{Intersection, ScopeLanguage};

use super::glob::{self, Glob};
use super::path::{PathProblem, RepoPath};
use super::role::Role;
use globset::{Candidate, GlobSet};
use std::collections::BTreeSet;

/// A compiled whitelist and denylist.
#[derive(Clone, Debug)]
pub struct Scope {
    whitelist: Matcher,
    denylist: Matcher,
    beginnings: Vec<String>,
}

/// The answer for one path, with the glob that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// In scope.
    Allowed {
        /// The first whitelist glob that matches.
        by: Glob,
    },
    /// Out of scope.
    Denied(Denied),
}

/// Why a path is out of scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// This denylist glob matches it.
    #[error("the denylist has `{0}`")]
    ByDenylist(Glob),
    /// No whitelist glob matches it.
    #[error("no glob of the whitelist matches it")]
    NotInWhitelist,
    /// No scope could allow it.
    #[error("no scope allows it: {0}")]
    Never(PathProblem),
}

impl Decision {
    /// Whether the path is in scope.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }
}

impl Scope {
    /// Compiles a scope. An empty whitelist allows nothing; an empty denylist denies nothing.
    ///
    /// # Errors
    /// One sentence that names the glob and the rule, for a whitelist glob that could only match
    /// inside a git directory, and for lists that globset cannot hold.
    pub fn new(whitelist: &[Glob], denylist: &[Glob]) -> Result<Scope, String> {
        if let Some(useless) = whitelist.iter().find(|glob| glob.needs_git_dir()) {
            return Err(format!(
                "glob `{useless}` allows nothing: no path in a git directory is ever in scope"
            ));
        }
        Ok(Scope {
            whitelist: Matcher::new(whitelist, |_| None)?,
            denylist: Matcher::new(denylist, directory_itself)?,
            beginnings: beginnings(whitelist),
        })
    }

    /// What the comparison form of every path in scope begins with: one of these texts, in order, none
    /// of which begins with another.
    pub fn beginnings(&self) -> &[String] {
        &self.beginnings
    }

    /// Whether a path below the directory may be in scope, as far as the beginnings tell.
    pub fn may_allow_below(&self, directory: &RepoPath) -> bool {
        // The comparison form of a path below may be its bytes, though that of the directory is not.
        let forms = [directory.comparison_form(), directory.as_bytes()];
        self.beginnings.iter().any(|beginning| {
            forms.iter().any(|form| {
                let mut both = beginning.bytes().zip(form.iter().chain(b"/"));
                both.all(|(one, other)| one == *other)
            })
        })
    }

    /// Decides one path.
    pub fn decide(&self, path: &RepoPath) -> Decision {
        let candidate = Candidate::from_bytes(path.comparison_form());
        if let Some(glob) = self.denylist.first_match(&candidate) {
            return Decision::Denied(Denied::ByDenylist(glob.clone()));
        }
        match self.whitelist.first_match(&candidate) {
            Some(glob) => Decision::Allowed { by: glob.clone() },
            None => Decision::Denied(Denied::NotInWhitelist),
        }
    }

    /// Decides a path as it came from outside; what is no repository path is denied.
    pub fn decide_bytes(&self, path: &[u8]) -> Decision {
        match RepoPath::parse(path) {
            Ok(path) => self.decide(&path),
            Err(problem) => Decision::Denied(Denied::Never(problem)),
        }
    }

    /// Decides a path and every tracked spelling of it that differs only by case, which on macOS and
    /// Windows is the file that would really be written. Any denial wins.
    pub fn decide_with_case(&self, path: &RepoPath, tracked: &CaseIndex) -> Decision {
        let mut decision = self.decide(path);
        for twin in tracked.case_variants(path) {
            if !decision.is_allowed() {
                break;
            }
            if let denied @ Decision::Denied(_) = self.decide(&twin) {
                decision = denied;
            }
        }
        decision
    }
}

/// The denylist that binds an agent: its task's and its role's united, sorted, each glob once.
///
/// `no_default` drops the role's part, but only where the task has no list of its own (an empty list
/// is one) and the role does not edit: asking for fewer defaults never loosens what a person wrote
/// down, and an editing role asking is refused before it comes here.
pub fn effective_denylist(task: Option<&[Glob]>, role: &Role, no_default: bool) -> Vec<Glob> {
    if no_default && task.is_none() && !role.edits {
        return Vec::new();
    }
    let united: BTreeSet<&Glob> = task
        .unwrap_or_default()
        .iter()
        .chain(&role.default_denylist)
        .collect();
    united.into_iter().cloned().collect()
}

/// What whatever one of the globs matches begins with: see [`Scope::beginnings`].
fn beginnings(globs: &[Glob]) -> Vec<String> {
    let literal = |pattern: String| {
        let end = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
        pattern[..end].to_owned()
    };
    let sorted: BTreeSet<String> = globs
        .iter()
        .flat_map(Glob::alternatives)
        .map(literal)
        .collect();
    let mut beginnings: Vec<String> = Vec::new();
    for text in sorted {
        // In this order a text comes right after those that it begins with.
        let covered = beginnings
            .last()
            .is_some_and(|last| text.starts_with(last.as_str()));
        if !covered {
            beginnings.push(text);
        }
    }
    beginnings
}

/// For `dir/**` the pattern of `dir`. A last name with wildcards is left alone: `src/*/**` is about
/// the directories in `src`, and `src/*` would be about the files as well.
fn directory_itself(pattern: &str) -> Option<&str> {
    let directory = pattern.strip_suffix("/**")?;
    let name = directory.rsplit('/').next().unwrap_or(directory);
    (!name.contains(['*', '?', '['])).then_some(directory)
}

/// A list of globs as one automaton that remembers which glob each pattern came from.
#[derive(Clone, Debug)]
struct Matcher {
    set: GlobSet,
    /// For each pattern in `set`, the index of its glob; never falling.
    owners: Vec<usize>,
    globs: Vec<Glob>,
}

impl Matcher {
    fn new(globs: &[Glob], also: impl Fn(&str) -> Option<&str>) -> Result<Matcher, String> {
        let mut patterns = Vec::new();
        let mut owners = Vec::new();
        for (index, glob) in globs.iter().enumerate() {
            for alternative in glob.alternatives() {
                for pattern in [Some(alternative.as_str()), also(&alternative)] {
                    let Some(pattern) = pattern else { continue };
                    let compiled = glob::compile(pattern)
                        .map_err(|problem| format!("glob `{glob}` does not compile: {problem}"))?;
                    patterns.push(compiled);
                    owners.push(index);
                }
            }
        }
        let set = GlobSet::new(&patterns).map_err(|error| format!("the globs {error}"))?;
        Ok(Matcher {
            set,
            owners,
            globs: globs.to_vec(),
        })
    }

    fn first_match(&self, candidate: &Candidate<'_>) -> Option<&Glob> {
        // `GlobSet` gives the indices of the matching patterns in ascending order. Its `matches_all`
        // and the emptiness of a set never matter here: no match is no glob.
        let pattern = *self.set.matches_candidate(candidate).first()?;
        self.globs.get(*self.owners.get(pattern)?)
    }
}
