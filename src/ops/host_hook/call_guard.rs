//! Whether an agent may write where a tool call would write.
//!
//! A path is judged by where it leads. Every symlink in it is followed and the result has to be in
//! scope; a symlink at its very end counts as a file of its own as well, because a host may write
//! through it or replace it. A host may clean `..` away as text while the kernel follows a symlink
//! before it steps back, in the path or in the directory it starts from: both readings are judged.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use crate::agents::real_path::real_path;
use crate::domain::path::RepoPath;
use crate::domain::scope::{Decision, Scope};
use crate::domain::tool_call::{Touch, TouchedPath, locate};
use crate::error::{Code, Error, Result};
use crate::ops::host_hook::case_variants::Listings;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An agent's home with its scope compiled.
pub(super) struct CallGuard {
    pub(super) home: CurrentAgent,
    scope: Scope,
    temporary: Option<PathBuf>,
    /// Where its answer goes, if it was asked for one.
    answer: Option<PathBuf>,
    listings: Listings,
}

impl CallGuard {
    pub(super) fn new(home: CurrentAgent, env: &Env) -> Result<CallGuard> {
        let scope = home.policy.scope().map_err(|rule| {
            Error::new(
                Code::RepoCorrupt,
                format!("the policy of agent {}: {rule}", home.agent.id.short()),
            )
        })?;
        // Hosts name it by a link on some systems, and places are compared as they really are.
        let temporary = env.temporary.as_deref().and_then(real_path);
        // Its own name, so that a symlink that the agent puts there leads nowhere else.
        let answer = env.output_file.as_deref().and_then(|answer| {
            let parent = real_path(answer.parent()?)?;
            Some(parent.join(answer.file_name()?))
        });
        Ok(CallGuard {
            listings: Listings::new(&home.root),
            home,
            scope,
            temporary,
            answer,
        })
    }

    /// Why a path of a call may not be touched; `None` when it may. `cwd` is what a relative path
    /// starts from.
    pub(super) fn objection(
        &mut self,
        cwd: &Path,
        touched: &TouchedPath,
    ) -> Result<Option<String>> {
        let Some(places) = places(cwd, touched) else {
            return Ok(Some("it leads nowhere that can be told".to_owned()));
        };
        for place in places {
            if let Some(why) = self.objection_to(&place)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn objection_to(&mut self, place: &Path) -> Result<Option<String>> {
        let root = &self.home.root;
        // The directory itself is not the agent's to replace.
        let below = |directory: &Path| place.starts_with(directory) && place != directory;
        // The bundle is the agent's in every role, and part of no commit.
        if below(&self.home.bundle()) {
            return Ok(None);
        }
        let Ok(inside) = place.strip_prefix(root) else {
            return Ok(
                if self.answer.as_deref() == Some(place) || self.is_scratch(place)? {
                    None
                } else {
                    Some(format!(
                        "{} is outside of {}",
                        place.display(),
                        root.display()
                    ))
                },
            );
        };
        let path = match RepoPath::parse(inside.as_os_str().as_bytes()) {
            Ok(path) => path,
            // A path that cannot be compared with globs cannot be in scope.
            Err(problem) => return Ok(Some(format!("no scope allows it: {problem}"))),
        };
        if !self.home.policy.edits {
            let role = &self.home.policy.role;
            return Ok(Some(format!("the role {role} changes no files")));
        }
        let spellings = self.listings.spellings(&path);
        Ok(match self.scope.decide_with_case(&path, &spellings) {
            Decision::Allowed { .. } => None,
            Decision::Denied(denied) => Some(denied.to_string()),
        })
    }

    /// Whether a place is below `TMPDIR` and no part of the repository, which may lie there as well.
    /// A private `TMPDIR` among the agent's own state is no part of it.
    fn is_scratch(&self, place: &Path) -> Result<bool> {
        let Some(temporary) = &self.temporary else {
            return Ok(false);
        };
        if !place.starts_with(temporary) {
            return Ok(false);
        }
        let repo = &self.home.repo;
        let private = temporary.starts_with(self.home.state());
        let mut parts = vec![repo.common_dir().to_owned(), repo.root()?];
        parts.extend(repo.worktrees()?.into_iter().map(|worktree| worktree.path));
        // A temporary directory may be set to a place inside of the repository.
        Ok(private || !parts.iter().any(|part| place.starts_with(part)))
    }

    /// What the agent may change, in lines, for when it was just told no.
    pub(super) fn rules(&self) -> String {
        let policy = &self.home.policy;
        let list = |globs: &[String]| {
            let quoted: Vec<_> = globs.iter().map(|glob| format!("`{glob}`")).collect();
            quoted.join(", ")
        };
        if !policy.edits {
            return format!("It may change {} alone.\n", self.home.bundle().display());
        }
        let mut lines = format!(
            "In scope, below {}: {}\n",
            self.home.root.display(),
            list(&policy.whitelist)
        );
        if !policy.denylist.is_empty() {
            lines.push_str(&format!("Never: {}\n", list(&policy.denylist)));
        }
        lines
    }
}

/// Every place that a path may mean, each free of symlinks; `None` when one of them is none.
pub(super) fn places(cwd: &Path, touched: &TouchedPath) -> Option<Vec<PathBuf>> {
    let clean = locate(cwd.as_os_str().as_bytes(), touched.path.as_bytes())?;
    let readings = [
        PathBuf::from(OsStr::from_bytes(&clean)),
        cwd.join(&touched.path),
    ];
    let mut places = Vec::new();
    for reading in readings {
        // Deleting a symlink leaves what it leads to alone; a name may also be replaced.
        if let (Some(parent), Some(name)) = (reading.parent(), reading.file_name()) {
            places.push(real_path(parent)?.join(name));
        }
        if touched.touch == Touch::Write || reading.file_name().is_none() {
            places.push(real_path(&reading)?);
        }
    }
    places.sort();
    places.dedup();
    Some(places)
}
