//! `materialize`: an ordinary worktree in the place of a layered one, with the same files.
//!
//! ```text
//! 1. gathered   the files of the base and what the agent changed, copied into a hidden directory beside the worktree
//! 2. noted      which directory that is
//! 3. exchanged  it and the worktree, in one step
//! 4. ordinary   the layer is gone
//! ```
//!
//! The upper directory stays what counts until the last step, and nothing else writes there meanwhile. A command that was killed is
//! run again: before the exchange it begins anew, and after it, which the note tells, it only ends. What else needs the worktree, as a
//! run or a discard, ends it in the same way first (`layered::settle`): a run over a layer that is about to go would lose its work.

use crate::agents::life::liveness;
use crate::agents::stock::frozen::{self, FrozenBase};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::{
    Ctx, Scratch, context::untrusted, place::worktree, stock::layered, who::lookup,
};
use crate::domain::{Agent, State, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::layer::{is_opaque, is_whiteout};
use crate::git::{WorktreeLayer, core::command};
use crate::ops::agent_report::{AgentReport, Reporter};
use crate::store::files::{fsx, layout};
use rustix::fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps, renameat_with, utimensat};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use walkdir::WalkDir;

/// The answer of `materialize`: `git-agent.materialize/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.materialize/1")]
pub struct MaterializeReport {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// How many files were written.
    pub files: usize,
    /// What the caller should know though it is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Gives an agent an ordinary worktree in the place of its layered one.
///
/// # Errors
/// `agent-unknown`, `agent-state` for an agent with an ordinary worktree, `worktree-foreign`, `run-active` while a command works there; `path-exists` for
/// what was written in its place outside of the mount; `layer-invalid`, `io`, `disk-full`, after which it is layered as before.
pub fn materialize(ctx: &Ctx, who: &str) -> Result<MaterializeReport> {
    require_orchestrator(ctx)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let id = agent.id.short();
    // A run that has the layer mounted writes to its upper directory.
    let _alone = liveness::lock(ctx, &agent)?;
    // Looked for under the lock: a command that ends what a killed call began takes the layer away.
    let (layer, place) = match (layered::of(&ctx.repo, agent.id), worktree::find(&ctx.repo, &agent))
    {
        (Some(layer), Some(_)) => (layer, worktree::own(&ctx.repo, &agent)?),
        (None, None) => {
            let what = format!("agent {id} is {} and has no worktree here", agent.state);
            let error = Error::new(Code::AgentState, what);
            return Err(match agent.state {
                State::Discarded => error.remedy("to make it again", Remedy::Reopen(id)),
                _ => error,
            });
        }
        _ => {
            let what = format!("the worktree of agent {id} is not layered");
            return Err(Error::new(Code::AgentState, what));
        }
    };
    // So does a commit or an update that this program makes in a mount of its own.
    let _unmounted = layered::lock_upper(&layer.upper)?;
    let base = frozen::whole(ctx, &layer.record.base)?;
    let mut report = MaterializeReport {
        agent: Reporter::new(ctx)?.agent(ctx, &agent),
        files: 0,
        warnings: Vec::new(),
    };
    if base.is_none() {
        let base = &layer.record.base;
        report.warnings.push(format!(
            "the base {base} has changed: tracked files are those of its commit, and of the others only what git ignores was taken from it"
        ));
    }
    report.warnings.extend(pinned_files(ctx, &agent, &layer)?);
    if !layered::is_exchanged(ctx, &agent, &place)? {
        report.files = exchange(ctx, &agent, &layer, base.as_ref(), &place)?;
    }
    layered::settle(ctx, &agent)?;
    Ok(report)
}

/// What to do about files that hold the path of the base, as those of a virtual environment: outside of a mount, nothing is there.
fn pinned_files(ctx: &Ctx, agent: &Agent, layer: &WorktreeLayer) -> Result<Option<String>> {
    let base = frozen::named(ctx, &layer.record.base)?.filter(|base| base.record.is_pinned);
    Ok(base.map(|base| {
        let (path, id) = (base.place.display(), agent.id.short());
        let commands = shell::word(base.record.run.join(" && ").as_bytes());
        format!(
            "set-up wrote {path}, where the base is mounted, into files of it, and these do not work in an ordinary worktree; to make them \
             anew, run git agent run {id} --no-verify -- sh -c {commands}"
        )
    }))
}

fn exchange(
    ctx: &Ctx,
    agent: &Agent,
    layer: &WorktreeLayer,
    base: Option<&FrozenBase>,
    place: &Path,
) -> Result<usize> {
    // The exchange would take away what was put there while nothing was mounted over it.
    let others = untrusted::names(place).into_iter();
    if let Some(first) = others.filter(|name| name != ".git").min() {
        let path = place.join(first);
        let what = format!("{} is in the way", path.display());
        let path = shell::path(&path);
        return Err(Error::new(Code::PathExists, what)
            .hint(format!("to keep it, run mv {path} <elsewhere>")));
    }
    // What a killed call has left goes, and from here on what bears the hidden name is known to be this one's.
    layered::settle(ctx, agent)?;
    let note = layered::note(ctx, agent);
    fsx::write_atomic(&note, b"")?;
    let aside = layout::aside(place, &layout::worktree_name(agent.id));
    let _activity = ctx.activity("writing the files of a worktree");
    fs::create_dir(&aside).at("could not make", &aside)?;
    let mut files = match base {
        Some(base) => copy(&base.path, &aside)?,
        None => check_out(ctx, layer, &aside)?,
    };
    // The agent's changes come over the base's files, deletions included.
    files += apply(&layer.upper, &aside, true)?;
    let pointer = place.join(".git");
    fs::copy(&pointer, aside.join(".git")).at("could not copy", &pointer)?;
    // What the note says has to be true after a power failure, too.
    layered::sync(&aside)?;
    ctx.reached("gathered");
    // The inode tells the two directories apart after the exchange, when each has the other's name.
    let inode = fs::metadata(&aside).at("could not look at", &aside)?.ino();
    fsx::write_atomic(&note, inode.to_string().as_bytes())?;
    ctx.reached("noted");
    // At no moment is the place empty: a kill leaves the one directory there or the other.
    renameat_with(CWD, &aside, CWD, place, RenameFlags::EXCHANGE)
        .map_err(std::io::Error::from)
        .at("could not exchange", place)?;
    ctx.reached("exchanged");
    Ok(files)
}

/// Writes the tracked files of a base that has changed as its commit has them, and what git ignores as it lies there; gives how many
/// files. Anything else in it would look like the agent's own work.
fn check_out(ctx: &Ctx, layer: &WorktreeLayer, to: &Path) -> Result<usize> {
    let base = &layer.base;
    let scratch = Scratch::make(ctx, "materialize")?;
    let git = |top: &Path, words: &[&str]| {
        let mut git = command::git(top);
        git.env("GIT_DIR", ctx.repo.common_dir())
            .env("GIT_WORK_TREE", top)
            .env("GIT_INDEX_FILE", scratch.path().join("index"))
            .args(words);
        command::successful(git)
    };
    let tree = &layer.record.tree;
    git(to, &["read-tree", tree])?;
    let mut files = 0;
    if base.is_dir() {
        let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
        let ignored = git(base, &words)?;
        for name in command::names(&ignored) {
            let name = Path::new(OsStr::from_bytes(name));
            let (from, target) = (base.join(name), to.join(name));
            let metadata = fs::symlink_metadata(&from).at("could not look at", &from)?;
            let parent = target.parent().unwrap_or(to);
            fs::create_dir_all(parent).at("could not make", parent)?;
            if metadata.is_dir() {
                // A repository of its own, into which git does not look.
                fs::create_dir_all(&target).at("could not make", &target)?;
                files += copy(&from, &target)?;
            } else {
                files += usize::from(put(&from, &metadata, &target)?);
            }
        }
    }
    // Last, so that no link among them leads out what is copied.
    git(to, &["read-tree", "--reset", "-u", tree])?;
    let tracked = git(to, &["ls-files", "-z"])?;
    Ok(files + command::names(&tracked).count())
}

/// Copies a directory's files, links and directories into one that is there; gives how many files.
fn copy(from: &Path, to: &Path) -> Result<usize> {
    let fail = |error: walkdir::Error| Error::new(Code::Io, "could not list files").because(error);
    let mut files = 0;
    let walk = WalkDir::new(from).min_depth(1).contents_first(false);
    let mut directories = Vec::new();
    for entry in walk {
        let entry = entry.map_err(fail)?;
        let target = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        let metadata = entry.metadata().map_err(fail)?;
        if metadata.is_dir() {
            fs::create_dir(&target).at("could not make", &target)?;
            directories.push((target, metadata));
        } else {
            files += usize::from(put(entry.path(), &metadata, &target)?);
        }
    }
    // Modes and times last, and inner ones first: a directory may be one that nothing can be written to.
    for (target, metadata) in directories.iter().rev() {
        take_after(target, metadata)?;
    }
    Ok(files)
}

/// Does to a directory with the files of the base what the agent did; gives how many files it wrote.
fn apply(upper: &Path, to: &Path, is_top: bool) -> Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(upper).at("could not list", upper)? {
        let entry = entry.at("could not list", upper)?;
        if is_top && entry.file_name() == ".git" {
            continue;
        }
        let (from, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = fs::symlink_metadata(&from).at("could not look at", &from)?;
        let there = fs::symlink_metadata(&target).ok();
        let is_gone = is_whiteout(&from, &metadata)?;
        let stays =
            metadata.is_dir() && there.as_ref().is_some_and(Metadata::is_dir) && !is_opaque(&from)?;
        match there {
            Some(there) if there.is_dir() && !stays => fsx::remove_tree(&target)?,
            Some(there) if !there.is_dir() => {
                fs::remove_file(&target).at("could not remove", &target)?
            }
            _ => {}
        }
        if is_gone {
            continue;
        }
        if metadata.is_dir() {
            if stays {
                // The base's mode need not let its owner change what is in it, and the agent may have changed that mode.
                let open = Permissions::from_mode(0o700);
                fs::set_permissions(&target, open).at("could not change", &target)?;
            } else {
                fs::create_dir(&target).at("could not make", &target)?;
            }
            files += apply(&from, &target, false)?;
            take_after(&target, &metadata)?;
        } else {
            files += usize::from(put(&from, &metadata, &target)?);
        }
    }
    Ok(files)
}

/// Copies a file or a symlink; gives whether it was either. What is neither, as a socket, goes with the program that made it.
fn put(from: &Path, metadata: &Metadata, to: &Path) -> Result<bool> {
    if metadata.is_symlink() {
        let target = fs::read_link(from).at("could not read", from)?;
        symlink(target, to).at("could not make", to)?;
    } else if metadata.is_file() {
        // As data, whatever has become of it since it was looked at. Build tools go by times.
        untrusted::copy_as_old(from, to, u64::MAX >> 1)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn take_after(to: &Path, metadata: &Metadata) -> Result<()> {
    take_times(to, metadata)?;
    fs::set_permissions(to, metadata.permissions()).at("could not change", to)
}

fn take_times(to: &Path, metadata: &Metadata) -> Result<()> {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(std::io::Error::from)
        .at("could not change", to)
}
