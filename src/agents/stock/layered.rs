//! Layered worktrees: an agent's changes alone, over a frozen base that several share.
//!
//! ```text
//! <common dir>/agents/<id8>/layer/record   over which base; without it the worktree is an ordinary one
//! <common dir>/agents/<id8>/layer/base     the record of that base, by which another one is made where it is gone
//! <common dir>/agents/<id8>/layer/upper    what the agent changed, and its `.git` file
//! <common dir>/agents/<id8>/layer/work-*   the kernel's own, new for each mount
//! <worktree>/.git                          for `git worktree list`; the directory may not be written otherwise
//! ```
//!
//! Only `run` and `enter` mount them, in the namespaces of the fence, so nothing of a mount is seen or left outside. All that looks
//! at the work reads the upper directory ([`crate::git::files::layer`]).

use crate::agents::context::ctx::Ctx;
use crate::agents::stock::frozen::{self, FrozenBase};
use crate::agents::{context::untrusted, life::liveness, place::worktree};
use crate::domain::life::agent::Agent;
use crate::domain::life::id::AgentId;
use crate::domain::life::sandbox::LayerMount;
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::{belongs_to, leads_to};
pub(crate) use crate::git::files::layer::ORDINARY;
use crate::git::files::layer::{LayerRecord, WorktreeLayer};
use crate::git::uncommitted::{copy_rules, index_of_copies};
use crate::proc::sandbox;
use crate::store::files::{fsx, layout, lock};
use rustix::io::{FdFlags, fcntl_setfd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};
use walkdir::WalkDir;

/// What begins the name of a work directory.
const WORK: &str = "work";

/// The longest index and the longest file of rules that are copied, in bytes.
const LONGEST: u64 = 1 << 30;

/// The layer of an agent; `None` for one with an ordinary worktree.
pub(crate) fn of(repo: &Repo, id: AgentId) -> Option<WorktreeLayer> {
    WorktreeLayer::of(&worktree::admin_dir(repo, id))
}

/// Refuses what needs the files of a worktree in their place, where they are not: [`run_mounted`] does it all the same.
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_files(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if of(&ctx.repo, agent.id).is_none() {
        return Ok(());
    }
    let id = agent.id.short();
    let what = format!("the layered worktree of agent {id} is not mounted");
    Err(Error::new(Code::AgentState, what)
        .remedy(ORDINARY, Remedy::Materialize(id.clone()))
        .unless_mounted(id))
}

/// For whom this program runs in a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    /// For the caller of this program, who sees what it says.
    ForCaller,
    /// For a run, which holds the agent's lock and reads what it says.
    ForRun,
}

/// Runs this program again where the layered worktree of an agent is mounted and looks like an ordinary one. So what writes files, or has
/// a hook look at them, does that in one way for both kinds. Gives besides what the caller should know of the mount.
///
/// # Errors
/// `run-active` while a command works there; those of [`prepare`].
pub(crate) fn run_mounted<W: AsRef<OsStr>>(
    ctx: &Ctx,
    agent: &Agent,
    words: &[W],
    mounted: Mounted,
) -> Result<(Output, Option<String>)> {
    let place = worktree::find(&ctx.repo, agent).unwrap_or_default();
    // Until the upper directory is locked: a run that began now would remove our work directory, and we its own.
    let held = match mounted {
        Mounted::ForRun => None,
        Mounted::ForCaller => Some(liveness::lock(ctx, agent)?),
    };
    let Some(Prepared { mount, warning, lock }) = prepare(ctx, agent, &place)? else {
        let what = "the worktree has become an ordinary one meanwhile";
        return Err(Error::new(Code::LostRace, what));
    };
    drop(held);
    // The lock is handed on, so that it lasts as long as a process in there, whatever becomes of this one.
    fcntl_setfd(&lock, FdFlags::empty())
        .map_err(|error| Error::io("could not lend a lock", error.into()))?;
    // A request from the terminal is for the process in there as well, which ends by it, and then we.
    for signal in [SIGINT, SIGQUIT, SIGHUP] {
        let ignored = Arc::new(AtomicBool::new(false));
        flag::register(signal, ignored)
            .map_err(|error| Error::io("could not wait for a command", error))?;
    }
    let mut command = sandbox::mounted(ctx.env.require_program()?, &mount);
    command.args(words);
    if mounted == Mounted::ForRun {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let child = command.spawn().and_then(Child::wait_with_output);
    let output = child.map_err(|error| Error::io("could not start git-agent again", error))?;
    finish(&mount)?;
    Ok((output, warning))
}

/// Why the kernel lets no layered worktree be mounted here; tried with empty directories on the same file systems.
///
/// # Errors
/// `io`.
pub(crate) fn refused_by_kernel(ctx: &Ctx) -> Result<Option<String>> {
    let common = ctx.repo.common_dir();
    let trial = fsx::unique_name(&layout::tmp_dir(common).join("layer"));
    let why = ctx.kernel()?.layers_refused(|| {
        for name in ["base", "upper", "work", "place"] {
            fsx::create_dir(&trial.join(name))?;
        }
        // A mount is named by the paths that the kernel knows.
        let real = fs::canonicalize(&trial).at("could not resolve", &trial)?;
        let below = |name: &str| real.join(name);
        // No version number tells it: only a mount that is tried in the namespaces of the fence does.
        Ok(LayerMount {
            base: below("base"),
            upper: below("upper"),
            work: below("work"),
            place: below("base"),
            worktree: Some(below("place")),
        })
    })?;
    if trial.exists() {
        fsx::remove_by_trash(common, &trial)?;
    }
    Ok(why)
}

/// Whether a layered worktree can be had here, for whom a copied one will do as well.
pub(crate) fn is_possible(ctx: &Ctx) -> bool {
    let is_set = |key| ctx.repo.config_bool(key).is_ok_and(|value| value == Some(true));
    // A sparse worktree has its own files, and an overlay tells names apart by their bytes.
    let is_odd = ["core.sparseCheckout", "core.ignoreCase", "core.precomposeUnicode"]
        .into_iter()
        .any(is_set);
    !is_odd && refused_by_kernel(ctx).is_ok_and(|why| why.is_none())
}

/// Gives a new agent its layer over a base: after this its worktree, which holds nothing but a `.git` file, is layered.
///
/// # Errors
/// `lost-race` where the base was removed meanwhile; `io`, `disk-full`.
pub(crate) fn adopt(ctx: &Ctx, id: AgentId, base: &FrozenBase, place: &Path) -> Result<()> {
    let common = ctx.repo.common_dir();
    let directory = layout::layer_dir(common, id);
    let [upper, _] = WorktreeLayer::parts(&directory);
    fsx::create_dir(&upper)?;
    // The files of rules, so that git takes what the agent adds as it would in the whole worktree.
    let rules = &base.record.rules;
    for directory in rules.iter().filter_map(|file| file.parent()) {
        make_directories(&base.path, &upper, directory)?;
    }
    copy_rules(&directory, &base.path, rules, &base.ignored()?)?;
    let admin_dir = worktree::admin_dir(&ctx.repo, id);
    take(ctx, base, &directory, place, &admin_dir)?;
    close(place)
}

/// Makes the place of a layered worktree one that nothing is written to: outside of a mount no command of the agent's would see it.
///
/// # Errors
/// `io`.
pub(crate) fn close(place: &Path) -> Result<()> {
    let closed = Permissions::from_mode(0o555);
    fs::set_permissions(place, closed).at("could not change", place)
}

/// Takes a base for a worktree with an admin directory, which holds nothing but a `.git` file: its upper directory, below `directory`, gets
/// that file, and its index is the base's.
///
/// # Errors
/// `lost-race` where the base was removed meanwhile; `io`, `disk-full`.
pub(crate) fn take(
    ctx: &Ctx,
    base: &FrozenBase,
    directory: &Path,
    place: &Path,
    admin_dir: &Path,
) -> Result<()> {
    let [upper, _] = WorktreeLayer::parts(directory);
    fsx::create_dir(&upper)?;
    let pointer = place.join(".git");
    fs::copy(&pointer, upper.join(".git")).at("could not copy", &pointer)?;
    give_index(base, admin_dir)?;
    ctx.reached("layer-filled");
    // From here on it is layered, and the base is taken.
    write_record(ctx, base, directory)
}

/// Gives a worktree the base's own index, 9 MB for 100,000 names, until a git puts another one in its place. Each run works on a copy
/// of it (`RunRepo`), so no command behind a fence can write to this one. A copy would have to keep the time: one that looked
/// younger would let git trust entries that it has to look at.
fn give_index(base: &FrozenBase, admin_dir: &Path) -> Result<()> {
    let own = admin_dir.join("index");
    let (frozen, new) = (base.index(), fsx::unique_name(&own));
    if fs::hard_link(&frozen, &new).is_err() {
        untrusted::copy_as_old(&frozen, &new, LONGEST)?;
    }
    fs::rename(&new, &own).at("could not replace", &own)
}

/// Writes down which base the layer in a directory is over.
fn write_record(ctx: &Ctx, base: &FrozenBase, directory: &Path) -> Result<()> {
    let [_, record] = WorktreeLayer::parts(directory);
    // A base that no agent uses is removed under this lock.
    let _taking = lock::hold(ctx.repo.common_dir(), layout::BASE_TAKING_LOCK)?;
    if !base.is_there() {
        let what = format!("the base {} was removed meanwhile", base.name);
        return Err(Error::new(Code::LostRace, what));
    }
    base.note(directory)?;
    let real = |path: &Path| fs::canonicalize(path).at("could not resolve", path);
    let written = LayerRecord {
        base: base.name.clone(),
        path: WorktreeLayer::path_from(&real(directory)?, &real(&base.path)?),
        tree: base.record.tree.clone(),
        index: base.plain_index(),
        sums: base.record.sums.clone(),
    };
    fsx::write_atomic(&record, &written.to_bytes())
}

/// Makes a directory of the base in the upper directory, and those above it, with the modes that they have there.
fn make_directories(base: &Path, upper: &Path, inside: &Path) -> Result<()> {
    let mut path = PathBuf::new();
    for part in inside {
        path.push(part);
        let (from, to) = (base.join(&path), upper.join(&path));
        if !to.is_dir() {
            fs::create_dir(&to).at("could not make", &to)?;
            let mode = fs::metadata(&from).at("could not look at", &from)?.permissions();
            fs::set_permissions(&to, mode).at("could not change", &to)?;
        }
    }
    Ok(())
}

/// The note of a `materialize` that was begun: empty, and then which directory takes the worktree's place.
pub(crate) fn note(ctx: &Ctx, agent: &Agent) -> PathBuf {
    layout::layer_dir(ctx.repo.common_dir(), agent.id).join("exchanged")
}

/// Whether a `materialize` has put the ordinary worktree in its place.
///
/// # Errors
/// `io`.
pub(crate) fn is_exchanged(ctx: &Ctx, agent: &Agent, place: &Path) -> Result<bool> {
    let noted = fsx::load_if_there(&note(ctx, agent))?;
    let inode = fs::metadata(place).at("could not look at", place)?.ino();
    Ok(noted.is_some_and(|noted| noted == inode.to_string().into_bytes()))
}

/// Ends what a `materialize` began, whose caller holds the agent's lock or was killed: what it gathered goes, and after the exchange the
/// layer does.
///
/// # Errors
/// `io`.
pub(crate) fn settle(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let (common, note) = (ctx.repo.common_dir(), note(ctx, agent));
    // As nearly always.
    if !note.exists() {
        return Ok(());
    }
    // What a copy of a repository names is in the one that it is a copy of.
    let Ok(place) = worktree::own(&ctx.repo, agent) else {
        return Ok(());
    };
    let is_exchanged = is_exchanged(ctx, agent, &place)?;
    let aside = layout::aside(&place, &layout::worktree_name(agent.id));
    if aside.exists() {
        fsx::remove_by_trash(common, &aside)?;
    }
    if !is_exchanged {
        return fs::remove_file(&note).at("could not remove", &note);
    }
    if let Some(layer) = of(&ctx.repo, agent.id) {
        keep_proven(&layer, &worktree::admin_dir(&ctx.repo, agent.id).join("index"), &place)?;
    }
    // The record first: without it the worktree is an ordinary one, and what is left of the layer goes with the agent.
    let directory = layout::layer_dir(common, agent.id);
    let [_, record] = WorktreeLayer::parts(&directory);
    fs::remove_file(&record).at_if_there("could not remove", &record)?;
    ctx.reached("ordinary");
    fsx::remove_by_trash(common, &directory)
}

/// Has an index take the copies of files at `place` for unchanged where it takes those of the layer for that.
fn keep_proven(layer: &WorktreeLayer, index: &Path, place: &Path) -> Result<()> {
    let Some((file, time)) = index_of_copies(layer, index, place) else {
        return Ok(());
    };
    // It may be the base's own, so another file takes its name; as old as it was, because git looks into files that are not older.
    let new = fsx::unique_name(index);
    fs::write(&new, file).at("could not write", &new)?;
    let dated = File::options().write(true).open(&new).and_then(|new| new.set_modified(time));
    dated.at("could not write", &new)?;
    fs::rename(&new, index).at("could not replace", index)
}

/// As [`settle`], of a `materialize` that was killed.
///
/// # Errors
/// `io`.
pub(crate) fn settle_killed(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if !note(ctx, agent).exists() {
        return Ok(());
    }
    // One that is alive holds the lock, and ends by itself.
    match lock::try_hold(ctx.repo.common_dir(), &layout::live_lock(agent.id))? {
        Some(_lock) => settle(ctx, agent),
        None => Ok(()),
    }
}

/// A mount that can be made.
pub(crate) struct Prepared {
    pub(crate) mount: LayerMount,
    /// What the caller should know, in one sentence.
    pub(crate) warning: Option<String>,
    /// Keeps others from its upper directory. The process that mounts takes it by itself, unless it is handed this one.
    pub(crate) lock: File,
}

/// Puts a layer over another base with the same content, where its own has changed or is gone. A change of that would show in every
/// worktree over it, and in no agent's work. What the agent changed stays as it is.
///
/// # Errors
/// `layer-invalid` where no other base can be had; `setup-failed`, `lock-timeout`, `io`.
fn replace_base(ctx: &Ctx, agent: &Agent, layer: &WorktreeLayer) -> Result<(FrozenBase, String)> {
    let (id, before) = (agent.id.short(), &layer.record.base);
    // A mount that an earlier command has left holds the old base, which is removed once no record names it.
    let _unmounted = lock_upper(&layer.upper)?;
    let what = format!("the base {before} below agent {id} has changed or is gone");
    let directory = layout::layer_dir(ctx.repo.common_dir(), agent.id);
    let Some(base) = frozen::renewed(ctx, before, &directory)? else {
        let what = format!("{what}, so no command can work there");
        return Err(Error::new(Code::LayerInvalid, what).remedy(ORDINARY, Remedy::Materialize(id)));
    };
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    if layer.has_index_of_base(&admin_dir) {
        give_index(&base, &admin_dir)?;
    }
    write_record(ctx, &base, &directory)?;
    let warning = format!("{what}: {}, made of the same commit, replaces it", base.name);
    Ok((base, warning))
}

/// Prepares the mount for a command of an agent, whose lock the caller holds; `None` where its worktree is an ordinary one.
///
/// # Errors
/// Those of [`replace_base`]; `lock-timeout` where a command that this program ran there has left a process; `io`.
pub(crate) fn prepare(ctx: &Ctx, agent: &Agent, place: &Path) -> Result<Option<Prepared>> {
    settle(ctx, agent)?;
    let Some(layer) = of(&ctx.repo, agent.id) else {
        return Ok(None);
    };
    let (base, warning) = match frozen::whole(ctx, &layer.record.base)? {
        Some(base) => (base, None),
        None => {
            let (base, warning) = replace_base(ctx, agent, &layer)?;
            (base, Some(warning))
        }
    };
    let (common, admin) = (ctx.repo.common_dir(), worktree::admin_dir(&ctx.repo, agent.id));
    // `git worktree repair`, after a repository was moved, knows the file in the worktree's place alone.
    if leads_to(place, &admin) && !belongs_to(&layer.upper, &admin) {
        let pointer = place.join(".git");
        let pointer = fs::read(&pointer).at("could not read", &pointer)?;
        fsx::write_atomic(&layer.upper.join(".git"), &pointer)?;
    }
    let directory = layout::layer_dir(common, agent.id);
    let prepared = prepare_in(&directory, &layer.upper, &base, place)?;
    Ok(Some(Prepared { warning, ..prepared }))
}

/// Prepares a mount of the layer in this directory, over a base that the caller found unchanged, at a worktree too.
///
/// # Errors
/// `lock-timeout` where a process that an earlier command left still uses it; `io`.
pub(crate) fn prepare_in(
    directory: &Path,
    upper: &Path,
    base: &FrozenBase,
    worktree: &Path,
) -> Result<Prepared> {
    let real = |path: &Path| fs::canonicalize(path).at("could not resolve", path);
    let directory = real(directory)?;
    // A work directory that is in use must stay.
    let lock = lock_upper(upper)?;
    // A run that was killed has left the one of its own mount.
    forget_work(&directory)?;
    let work = fsx::unique_name(&directory.join(WORK));
    fs::create_dir(&work).at("could not make", &work)?;
    base.make_place()?;
    let mount = LayerMount {
        base: real(&base.path)?,
        upper: real(upper)?,
        work,
        place: real(&base.place)?,
        worktree: Some(real(worktree)?),
    };
    Ok(Prepared { mount, warning: None, lock })
}

/// Takes the lock of an upper directory, of which the kernel bears one mount at a time; what holds it is over soon.
///
/// # Errors
/// `lock-timeout` where a process that a command left keeps it; `io`.
pub(crate) fn lock_upper(upper: &Path) -> Result<File> {
    let file = File::open(upper).at("could not open", upper)?;
    let until = Instant::now() + lock::PATIENCE;
    while file.try_lock().is_err() {
        if Instant::now() >= until {
            let what = format!("a process that a command left still uses {}", upper.display());
            return Err(Error::new(Code::LockTimeout, what)
                .hint(format!("to see which one, run fuser -v {}", upper.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(file)
}

/// Ends what [`prepare`] began: what was written is on the disk before anything is said of it, since the mount itself syncs nothing.
///
/// # Errors
/// `io`.
pub(crate) fn finish(mount: &LayerMount) -> Result<()> {
    // A sync waits for what all others have written to that file system, too.
    if may_have_changed(mount) {
        sync(&mount.upper)?;
    }
    forget_work(mount.work.parent().unwrap_or(&mount.work))
}

/// Whether a command wrote anything: what the upper directory holds has times, and so has what the kernel makes for a mount. Where
/// that takes long to find out, a sync takes no longer.
fn may_have_changed(mount: &LayerMount) -> bool {
    // The kernel makes this directory when it mounts, after all that we wrote ourselves for the command.
    let made = fs::metadata(mount.work.join("work"));
    let Ok(begun) = made.and_then(|made| made.created()) else {
        return true;
    };
    // The mount itself leaves the top's time of modification as it was, and no other of its times.
    let is_later = |time: std::io::Result<SystemTime>| time.is_ok_and(|time| time >= begun);
    if is_later(fs::metadata(&mount.upper).and_then(|top| top.modified())) {
        return true;
    }
    let entries = WalkDir::new(&mount.upper).min_depth(1).into_iter();
    let mut entries = entries.map(|entry| {
        let metadata = entry.ok()?.metadata().ok()?;
        let [seconds, nanoseconds] = [metadata.ctime(), metadata.ctime_nsec()].map(u64::try_from);
        Some(
            SystemTime::UNIX_EPOCH
                + Duration::from_secs(seconds.ok()?)
                + Duration::from_nanos(nanoseconds.ok()?),
        )
    });
    let few: Vec<_> = entries.by_ref().take(MANY).collect();
    few.len() == MANY || few.iter().any(|changed| changed.is_none_or(|changed| changed >= begun))
}

/// So many names are looked at in a few milliseconds.
const MANY: usize = 1_000;

/// Has everything written that was written to the file system of a directory.
///
/// # Errors
/// `io`.
pub(crate) fn sync(directory: &Path) -> Result<()> {
    let file = File::open(directory).at("could not open", directory)?;
    crate::system::sync_file_system(&file).at("could not sync", directory)
}

/// Removes the work directories of mounts that are over: one serves for a single mount.
fn forget_work(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).at("could not list", directory)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(WORK) {
            fsx::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}
