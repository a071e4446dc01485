//! Which places the command of one agent may write.
//!
//! ```text
//! with a worktree   the worktree (strict: the whitelist's directories and the bundle), its run repository, and where git
//!                   keeps the repositories of its submodules
//! with a clone      the same, and the repository that it has of its own
//! shared            its bundle, below the root
//! both              the private TMPDIR, the spool, the records of its host, what --allow-write and agent.run.allowWrite name
//! ```
//!
//! Not in there, so refused by the kernel: other worktrees, hooks, configuration, every other ref,
//! `info/exclude`, the home directory. The kernel knows directories and not globs, so the fence is wider
//! than the scope, and `verify` judges what happened inside.
//!
//! What an agent could have written in an earlier run decides nothing here: its worktree counts where
//! worktree and admin directory name each other, its `config.worktree` is not read, and a symlink in a
//! place that lies in the worktree is an error.

use crate::agents::context::real_path::real_path;
use crate::agents::place::hidden_places::open_places;
use crate::agents::place::{hidden_places, worktree};
use crate::agents::{Ctx, stock::layered, upkeep::clone};
use crate::domain::life::sandbox::Mode;
use crate::domain::paths::glob::Reach;
use crate::domain::{Agent, Fence, Glob, Isolation};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::MODULES;
pub use crate::proc::sandbox::{Plan, become_mounted, enter, probe, probe_layer};
use crate::store::files::{fsx, layout};
use crate::wire::row::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

/// Whom the fence is for, and what lies ready for this run.
#[derive(Clone, Copy)]
pub struct FenceRequest<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// What binds it.
    pub policy: &'a Policy,
    /// What was asked of the sandbox.
    pub mode: Mode,
    /// Its private `TMPDIR`.
    pub temporary: &'a Path,
    /// Its spool.
    pub spool: &'a Path,
    /// Further places, as the caller typed them.
    pub allow: &'a [PathBuf],
}

/// A fence, and what it will be in the way of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What may be written.
    pub fence: Fence,
    /// Sentences for the caller.
    pub warnings: Vec<String>,
}

/// Works out the fence of one run. Makes the directories that have to exist to be named in it.
///
/// # Errors
/// `worktree-foreign` when the worktree and its admin directory do not name each other, `usage` for a
/// further place that does not exist, `sandbox-unavailable` for a symlink in the way of `strict`, `io`.
pub fn bounds(ctx: &Ctx, request: &FenceRequest<'_>) -> Result<Bounds> {
    let mut warnings = Vec::new();
    let common_dir = ctx.repo.common_dir();
    let (mut writable, own) = match request.agent.isolation {
        Some(Isolation::Shared) => {
            let root = ctx.repo.root()?;
            let bundle = layout::bundle(common_dir, request.agent.id, request.policy, &root);
            // By a link on the way the agent could write anywhere.
            let is_linked = || real_path(&bundle).as_ref() != Some(&bundle);
            if request.policy.bundle_dir.is_some() && is_linked() {
                let what = format!("{} is reached through a symlink", bundle.display());
                return Err(Error::new(Code::PathInvalid, what)
                    .hint(format!("to see where it is, run realpath {}", bundle.display())));
            }
            // The kernel can open only what exists.
            fsx::create_dir(&bundle)?;
            (vec![real(&bundle)?], Vec::new())
        }
        _ => own_places(ctx, request)?,
    };
    let layer = match own.first() {
        Some(worktree) => layered::prepare(ctx, request.agent, worktree)?,
        None => None,
    };
    let layer = layer.map(|prepared| {
        warnings.extend(prepared.warning);
        prepared.mount
    });
    // The files of a layer are the same at two paths.
    let tops: Vec<&PathBuf> = match &layer {
        Some(layer) => layer.worktree.iter().chain([&layer.place]).collect(),
        None => own.iter().collect(),
    };
    for top in tops {
        match (request.mode, &layer) {
            (Mode::Strict, Some(_)) => writable.extend(mounted_places(top, request.policy)?),
            (Mode::Strict, None) => writable.extend(places(top, request.policy)?),
            _ => writable.push(top.clone()),
        }
    }
    for directory in [request.temporary, request.spool] {
        fsx::create_dir(directory)?;
        writable.push(real(directory)?);
    }
    // Each by itself, so that the agent cannot put something else in its place.
    let records = layout::records_dir(common_dir, request.agent.id);
    for record in fs::read_dir(records).into_iter().flatten().flatten() {
        writable.push(real(&record.path())?);
    }
    for place in open_places(ctx, request.allow)? {
        // The caller may open what they like, and is told what that opens besides.
        if common_dir.starts_with(&place) {
            let place = place.display();
            warnings.push(format!(
                "{place} may be written, and the repository's hooks, settings and refs with it"
            ));
        }
        writable.push(place);
    }
    writable.sort_unstable();
    writable.dedup();
    let mut fence = Fence {
        writable,
        own,
        layer,
        unix_sockets: request.mode != Mode::Strict,
        ..Fence::default()
    };
    let program = ctx.env.program.as_deref().unwrap_or(Path::new(""));
    hidden_places::hide(ctx, Some(request.agent.id), program, &mut fence)?;
    Ok(Bounds { fence, warnings })
}

/// What an agent with a worktree may write beside that, and the worktree, of which a part may be open.
fn own_places(ctx: &Ctx, request: &FenceRequest<'_>) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let worktree = worktree::own(&ctx.repo, request.agent)?;
    let is_clone = clone::is_one(ctx, request.agent.id);
    let mut places = Vec::new();
    if is_clone {
        // It has a repository of its own, where the command commits.
        places.push(real(&worktree.join(".git"))?);
        return Ok((places, vec![worktree]));
    }
    places.push(layout::run_repo(&real(ctx.repo.common_dir())?, request.agent.id));
    // Where they are after the run as well: what leads to them, and from them to the worktree, is paths.
    let admin_dir = ctx.repo.admin_dir(&layout::worktree_name(request.agent.id));
    let modules = real(&admin_dir)?.join(MODULES);
    if fs::symlink_metadata(&modules).is_err() {
        fsx::create_dir(&modules)?;
    }
    // An agent without a fence can have put a link there.
    if fs::symlink_metadata(&modules).is_ok_and(|found| found.is_dir()) {
        places.push(modules);
    }
    Ok((places, vec![worktree]))
}

fn real(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).at("could not resolve", path)
}

// The part of a worktree that a whitelist can reach, as places that the kernel can name.

/// The narrowest places that hold all that the whitelist matches, and the bundle. A directory that does
/// not exist yet is made, since only what exists can be named. A file that does not exist yet takes
/// its directory: making a file is a right on the directory.
///
/// # Errors
/// `sandbox-unavailable` for a symlink on the way, `repo-corrupt` for a policy with a glob that is none,
/// `io`.
fn places(worktree: &Path, policy: &Policy) -> Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    let reaches = reaches(policy)?;
    for reach in &reaches {
        // No directory is made in the place of a file that is to be made.
        if let Reach::Below(inside) = reach
            && may_be_file(&reaches, inside)
            && !worktree.join(inside).exists()
        {
            continue;
        }
        places.extend(place(worktree, reach)?);
    }
    if let Some(bundle) = &policy.bundle_dir {
        places.extend(directory(worktree, bundle)?);
    }
    Ok(places)
}

/// What the whitelist reaches.
fn reaches(policy: &Policy) -> Result<Vec<Reach>> {
    let mut reaches = Vec::new();
    for text in &policy.whitelist {
        let glob = Glob::parse(text).map_err(|rule| Error::new(Code::RepoCorrupt, rule))?;
        reaches.extend(glob.reach());
    }
    Ok(reaches)
}

/// Whether what the whitelist reaches below a path may be a file at that path as well.
fn may_be_file(reaches: &[Reach], inside: &str) -> bool {
    reaches.iter().any(|reach| matches!(reach, Reach::Path(path) if path == inside))
}

/// As [`places`], of a worktree that is not mounted yet: the fence finds out there what is a directory, and makes it. The path of one
/// that is no file ends in `/`.
///
/// # Errors
/// `repo-corrupt` for a policy with a glob that is none.
fn mounted_places(top: &Path, policy: &Policy) -> Result<Vec<PathBuf>> {
    let reaches = reaches(policy)?;
    // The empty one is the top itself.
    let directory = |inside: &str| top.join(inside).join("");
    let found = reaches.iter().map(|reach| match reach {
        Reach::Below(inside) if !may_be_file(&reaches, inside) => directory(inside),
        Reach::Below(path) | Reach::Path(path) => top.join(path),
    });
    let places: Vec<_> = found.chain(policy.bundle_dir.as_deref().map(directory)).collect();
    // What lies elsewhere would be opened there.
    if places.iter().any(|place| !place.starts_with(top)) {
        return Err(Error::bug("what a scope reaches must lie in the worktree"));
    }
    Ok(places)
}

fn place(worktree: &Path, reach: &Reach) -> Result<Option<PathBuf>> {
    let path = match reach {
        Reach::Below(inside) => return directory(worktree, inside),
        Reach::Path(path) => path,
    };
    let (above, _) = path.rsplit_once('/').unwrap_or_default();
    let above = directory(worktree, above)?;
    let file = worktree.join(path);
    Ok(match fs::symlink_metadata(&file) {
        // Its directory was walked already, so this name is the file itself.
        Ok(metadata) if metadata.is_file() && above.is_some() => Some(file),
        // A glob without wildcards matches nothing below a directory.
        Ok(metadata) if metadata.is_dir() => None,
        _ => above,
    })
}

/// A directory below the worktree, made where it is missing; `None` where a file stands in the way, so
/// that nothing can match below it.
fn directory(worktree: &Path, inside: &str) -> Result<Option<PathBuf>> {
    let mut path = worktree.to_owned();
    for part in inside.split('/').filter(|part| !part.is_empty()) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let message = format!(
                    "--sandbox strict cannot fence `{inside}`: {} is a symlink",
                    path.display()
                );
                return Err(Error::new(Code::SandboxUnavailable, message)
                    .hint("to let the agent write its whole worktree, pass --sandbox require"));
            }
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => fsx::create_dir(&path)?,
            Err(error) => return Err(error).at("could not look at", &path),
        }
    }
    Ok(Some(path))
}
