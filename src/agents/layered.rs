//! Layered worktrees: an agent's changes alone, over a frozen base that several share.
//!
//! ```text
//! <common dir>/agents/<id8>/layer/record   over which base; without it the worktree is an ordinary one
//! <common dir>/agents/<id8>/layer/upper    what the agent changed, and its `.git` file
//! <common dir>/agents/<id8>/layer/work-*   the kernel's own, new for each mount
//! <worktree>/.git                          for `git worktree list`; the directory may not be written otherwise
//! ```
//!
//! Only `run` and `enter` mount them, in the namespaces of the fence, so nothing of a mount is seen or left outside. All that looks
//! at the work reads the upper directory ([`crate::git::files::layer`]).

use crate::agents::ctx::Ctx;
use crate::agents::frozen::{self, FrozenBase};
use crate::agents::{untrusted, worktree};
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::sandbox::LayerMount;
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::Repo;
use crate::git::files::layer::{LayerRecord, WorktreeLayer};
use crate::proc::sandbox;
use crate::store::{fsx, layout, lock};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the command is for that gives every file its place.
pub(crate) const ORDINARY: &str = "to make an ordinary worktree of it";

/// What begins the name of a work directory.
const WORK: &str = "work";

/// The longest index and the longest file of rules that are copied, in bytes.
const LONGEST: u64 = 1 << 30;

/// The layer of an agent; `None` for one with an ordinary worktree.
pub(crate) fn of(repo: &Repo, id: AgentId) -> Option<WorktreeLayer> {
    WorktreeLayer::of(&worktree::admin_dir(repo, id))
}

/// Refuses what needs the files of a worktree in their place, for a layered one; `what` completes "cannot".
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_ordinary(ctx: &Ctx, agent: &Agent, what: &str) -> Result<()> {
    if of(&ctx.repo, agent.id).is_none() {
        return Ok(());
    }
    let id = agent.id.short();
    Err(Error::new(
        Code::AgentState,
        format!("the worktree of agent {id} is layered, and git-agent cannot {what} one"),
    )
    .remedy(ORDINARY, Remedy::Materialize(id)))
}

/// Why the kernel lets no layered worktree be mounted here; tried with empty directories on the same file systems.
///
/// # Errors
/// `io`.
pub(crate) fn refused_by_kernel(ctx: &Ctx) -> Result<Option<String>> {
    let place = layout::tmp_dir(ctx.repo.common_dir());
    fsx::create_dir(&place)?;
    let trial = fsx::unique_name(&place.join("layer"));
    for name in ["base", "upper", "work", "place"] {
        let directory = trial.join(name);
        fs::create_dir_all(&directory).at("could not make", &directory)?;
    }
    // A mount is named by the paths that the kernel knows.
    let trial = fs::canonicalize(&trial).at("could not resolve", &trial)?;
    let below = |name: &str| trial.join(name);
    let mount = LayerMount {
        base: below("base"),
        upper: below("upper"),
        work: below("work"),
        place: below("place"),
    };
    // No version number tells it: only a mount that is tried in the namespaces of the fence does.
    let why = sandbox::layers_refused(ctx.env.require_program()?, &mount);
    fsx::remove_by_trash(ctx.repo.common_dir(), &trial)?;
    Ok(why)
}

/// Gives a new agent its layer over a base: after this its worktree, which holds nothing but a `.git` file, is layered.
///
/// # Errors
/// `lost-race` where the base was removed meanwhile; `io`, `disk-full`.
pub(crate) fn adopt(ctx: &Ctx, id: AgentId, base: &FrozenBase, place: &Path) -> Result<()> {
    let common = ctx.repo.common_dir();
    let directory = layout::layer_dir(common, id);
    let [upper, record] = WorktreeLayer::parts(&directory);
    fsx::create_dir(&upper)?;
    // 1. The files of rules, so that git takes what the agent adds as it would in the whole worktree.
    for file in &base.record.rules {
        let (from, to) = (base.record.path.join(file), upper.join(file));
        make_directories(
            &base.record.path,
            &upper,
            file.parent().unwrap_or(Path::new("")),
        )?;
        fs::copy(&from, &to).at("could not copy", &from)?;
    }
    let pointer = place.join(".git");
    fs::copy(&pointer, upper.join(".git")).at("could not copy", &pointer)?;
    // 2. The index. Its time stays: a copy that looked younger would let git trust entries that it has to look at.
    let admin = worktree::admin_dir(&ctx.repo, id);
    untrusted::copy_as_old(&base.index(), &admin.join("index"), LONGEST)?;
    ctx.reached("layer-filled");
    // 3. From here on it is layered, and the base is taken.
    // A base that no agent uses is removed under this lock.
    let _taking = lock::hold(common, layout::BASE_TAKING_LOCK)?;
    if !base.is_there() {
        let what = format!("the base {} was removed meanwhile", base.name);
        return Err(Error::new(Code::LostRace, what));
    }
    let written = LayerRecord {
        base: base.name.clone(),
        path: base.record.path.clone(),
        tree: base.record.tree.clone(),
    };
    fsx::write_atomic(&record, &written.to_bytes())?;
    // What is written to this place outside of a mount is seen by no command in the worktree.
    let closed = Permissions::from_mode(0o555);
    fs::set_permissions(place, closed).at("could not change", place)
}

/// Makes a directory of the base in the upper directory, and those above it, with the modes that they have there.
fn make_directories(base: &Path, upper: &Path, inside: &Path) -> Result<()> {
    let mut path = PathBuf::new();
    for part in inside {
        path.push(part);
        let (from, to) = (base.join(&path), upper.join(&path));
        if !to.is_dir() {
            fs::create_dir(&to).at("could not make", &to)?;
            let mode = fs::metadata(&from)
                .at("could not look at", &from)?
                .permissions();
            fs::set_permissions(&to, mode).at("could not change", &to)?;
        }
    }
    Ok(())
}

/// Prepares the mount for a run of an agent, whose lock the caller holds; `None` where its worktree is an ordinary one.
///
/// # Errors
/// `layer-invalid` where the base has changed; `io`.
pub(crate) fn prepare(ctx: &Ctx, agent: &Agent, place: &Path) -> Result<Option<LayerMount>> {
    let Some(layer) = of(&ctx.repo, agent.id) else {
        return Ok(None);
    };
    let name = &layer.record.base;
    let base = frozen::named(ctx, name)?;
    let base = match base {
        // The base is shared: a change of it would show in every worktree over it, and in no
        // agent's work.
        Some(base) if !base.is_damaged && base.check()? => base,
        _ => {
            let id = agent.id.short();
            let what = format!(
                "the base {name} below agent {id} has changed, so no command can work there"
            );
            return Err(
                Error::new(Code::LayerInvalid, what).remedy(ORDINARY, Remedy::Materialize(id))
            );
        }
    };
    let real = |path: &Path| fs::canonicalize(path).at("could not resolve", path);
    let directory = real(&layout::layer_dir(ctx.repo.common_dir(), agent.id))?;
    // A run that was killed has left the one of its own mount.
    forget_work(&directory)?;
    let work = fsx::unique_name(&directory.join(WORK));
    fs::create_dir(&work).at("could not make", &work)?;
    Ok(Some(LayerMount {
        base: real(&base.record.path)?,
        upper: real(&layer.upper)?,
        work,
        place: real(place)?,
    }))
}

/// Ends what [`prepare`] began: what was written is on the disk before anything is said of it, since the mount itself syncs nothing.
///
/// # Errors
/// `io`.
pub(crate) fn finish(mount: &LayerMount) -> Result<()> {
    sync(&mount.upper)?;
    forget_work(mount.work.parent().unwrap_or(&mount.work))
}

/// Has everything written that was written to the file system of a directory.
///
/// # Errors
/// `io`.
pub(crate) fn sync(directory: &Path) -> Result<()> {
    let file = fs::File::open(directory).at("could not open", directory)?;
    crate::system::sync_file_system(&file).at("could not sync", directory)
}

/// Removes the work directories of mounts that are over: one serves for a single mount.
fn forget_work(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)
        .at("could not list", directory)?
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with(WORK) {
            fsx::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}
