//! The six files: read without being led astray or held up, and kept as a tree.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::real_path::real_path;
use crate::agents::place::worktree::admin_dir;
use crate::agents::who::assignment::{Assignment, PromptWish};
use crate::domain::judge::evidence::{Artefact, ArtefactProblem, NoWorktree, Says};
use crate::domain::value::named::hex;
use crate::domain::work::bundle::{FILES, PROGRESS, SPEC};
use crate::domain::{Agent, Isolation, Oid};
use crate::error::{IoContext, Result};
use crate::git::core::tree::{Entry, FILE};
use crate::git::{Identity, NewCommit, Repo, WorktreeLayer};
use crate::store::{chain::keep, files::layout, landing::spawn_commit};
use crate::wire::row::policy::Policy;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// No artefact is longer, in bytes.
const LONGEST: u64 = 4 << 20;

/// The bundle as it was found, and the tree that keeps what could be read.
#[derive(Default)]
pub(crate) struct Bundle {
    pub artefacts: Vec<Artefact>,
    pub tree: Option<Oid>,
    /// Whether it is where this clone cannot see it.
    pub is_out_of_reach: bool,
}

/// Reads the bundle where the agent wrote it; without a worktree here, from the tree that the last
/// verdict kept.
pub(crate) fn read(
    ctx: &Ctx,
    agent: &Agent,
    worktree: Result<&Path, NoWorktree>,
    policy: &Policy,
) -> Result<Bundle> {
    let artefacts = artefacts(ctx, agent, worktree.ok(), policy)?;
    // One that the agent did not write is missing; one that was not looked at in its place is not judged.
    let is_unseen = artefacts.iter().all(|one| one.text == Err(ArtefactProblem::Missing));
    // A worktree that is gone was seen once, so what is missing from its kept bundle is missing.
    // One on another machine was never seen from here.
    if is_unseen && worktree.is_err_and(|why| why != NoWorktree::Gone) {
        return Ok(Bundle { is_out_of_reach: true, ..Bundle::default() });
    }
    let entries: Vec<Entry> = artefacts
        .iter()
        .filter_map(|artefact| Some((artefact.name, artefact.text.as_ref().ok()?)))
        .map(|(name, text)| {
            Ok(Entry { mode: FILE, name: name.into(), oid: ctx.repo.write_blob(text.as_bytes())? })
        })
        .collect::<Result<_>>()?;
    let tree = if entries.is_empty() { None } else { Some(ctx.repo.write_tree(entries)?) };
    Ok(Bundle { artefacts, tree, is_out_of_reach: false })
}

/// The six files as they are, or as they were kept; nothing is written.
pub(crate) fn artefacts(
    ctx: &Ctx,
    agent: &Agent,
    worktree: Option<&Path>,
    policy: &Policy,
) -> Result<Vec<Artefact>> {
    let is_shared = agent.isolation == Some(Isolation::Shared);
    let root = is_shared.then(|| ctx.repo.root()).transpose()?;
    let top = root.as_deref().or(worktree);
    match (top, layout::bundle_inside(agent.id, policy)) {
        (Some(top), Some(directory)) => {
            let layer = WorktreeLayer::of(&admin_dir(&ctx.repo, agent.id));
            // Of a layered worktree nothing is at its place while no run is at work.
            let top = layer.as_ref().map_or(top, |layer| &layer.upper);
            Ok(from_directory(top, &directory))
        }
        (_, None) => {
            let own = layout::agent_dir(ctx.repo.common_dir(), agent.id);
            Ok(from_directory(&own, layout::BUNDLE))
        }
        // Without the worktree there is what the last verdict kept.
        _ => from_kept(ctx, agent),
    }
}

/// The commit with what is known of a bundle that went with its worktree: the files of the last verdict, else the `spec.md` that
/// the agent got. `None` where neither is known.
///
/// # Errors
/// Those of reading the policy and of writing objects.
pub(crate) fn known(ctx: &Ctx, agent: &Agent) -> Result<Option<Oid>> {
    let judged = agent.verdict.as_ref().and_then(|verdict| verdict.bundle);
    let tree = match judged.filter(|tree| ctx.repo.has_object(*tree)) {
        Some(tree) => tree,
        None => {
            let Some(policy) = spawn_commit::if_here(&ctx.repo, agent)? else {
                return Ok(None);
            };
            let task = Assignment::recall(ctx, agent, &policy, &PromptWish::default());
            let spec = task.map(|task| task.spec(agent.id)).unwrap_or_default();
            if hex(&Sha256::digest(spec.as_bytes())) != policy.spec_sha {
                return Ok(None);
            }
            let oid = ctx.repo.write_blob(spec.as_bytes())?;
            ctx.repo.write_tree(vec![Entry { mode: FILE, name: SPEC.into(), oid }])?
        }
    };
    with_bundle_commit(tree, |commit| ctx.repo.write_commit(commit)).map(Some)
}

/// Where the bundle of a shared agent is, outside of every worktree, unless it is gone or reached through a link.
///
/// # Errors
/// `io`; those of finding the root.
pub(crate) fn of_shared(ctx: &Ctx, agent: &Agent) -> Result<Option<PathBuf>> {
    Ok(place_of_shared(ctx, agent)?.filter(|path| path.is_dir()))
}

/// As [`of_shared`], also where the bundle is gone.
///
/// # Errors
/// As [`of_shared`].
pub(crate) fn place_of_shared(ctx: &Ctx, agent: &Agent) -> Result<Option<PathBuf>> {
    if agent.isolation != Some(Isolation::Shared) {
        return Ok(None);
    }
    // No amendment moves it, and a policy that is not in this clone must not be in the way.
    let Ok(Some(policy)) = spawn_commit::at_spawn(&ctx.repo, agent) else {
        return Ok(None);
    };
    let (common, root) = (fs::canonicalize(ctx.repo.common_dir()), ctx.repo.root()?);
    let common = common.at("could not resolve", ctx.repo.common_dir())?;
    let path = layout::bundle(&common, agent.id, &policy, &root);
    Ok(Some(path).filter(|path| real_path(path).as_ref() == Some(path)))
}

/// Puts a bundle's tree under the keep chain, unless the last verdict did.
pub(crate) fn keep(ctx: &Ctx, agent: &Agent, tree: Oid) -> Result<()> {
    let known = agent.verdict.as_ref();
    // It hangs on the keep chain since then.
    if known.and_then(|verdict| verdict.bundle) == Some(tree) {
        return Ok(());
    }
    let commit = with_bundle_commit(tree, |commit| ctx.repo.write_commit(commit))?;
    let why = format!("bundle {}", agent.id);
    keep::keep(&ctx.repo, &[commit], &why, ctx.now()).map(|_| ())
}

/// Hands on the commit that keeps a bundle: the same one for the same tree.
pub(crate) fn with_bundle_commit<T>(tree: Oid, take: impl Fn(&NewCommit<'_>) -> T) -> T {
    // The same bundle gives the same commit in every clone and at every time, so it is kept once.
    let who = Identity::stand_in(0);
    take(&NewCommit::ours(&who, tree, &[], "agent: bundle\n\nGit-Agent: 1\n"))
}

fn from_directory(top: &Path, directory: &str) -> Vec<Artefact> {
    let opened = open_directory(top, directory);
    let read = |name| match &opened {
        Ok(directory) => read_file(directory, name),
        Err(errno) => Err(problem(*errno)),
    };
    let artefact = |(name, _)| artefact(name, read(name));
    FILES.into_iter().map(artefact).collect()
}

fn from_kept(ctx: &Ctx, agent: &Agent) -> Result<Vec<Artefact>> {
    let kept = agent.verdict.as_ref();
    let entries = match kept.and_then(|verdict| verdict.bundle) {
        Some(tree) => match ctx.repo.read_tree(tree) {
            Err(error) if error.is_absence() => Vec::new(),
            entries => entries?,
        },
        None => Vec::new(),
    };
    let artefact = |(name, _): (&'static str, &str)| {
        let entry = entries.iter().find(|entry| entry.name == name.as_bytes());
        let bytes =
            entry.map_or(Err(ArtefactProblem::Missing), |entry| kept_file(&ctx.repo, entry));
        artefact(name, bytes)
    };
    Ok(FILES.into_iter().map(artefact).collect())
}

fn kept_file(repo: &Repo, entry: &Entry) -> Result<Vec<u8>, ArtefactProblem> {
    repo.read_blob(entry.oid).map_err(|_| ArtefactProblem::Unreadable)
}

fn artefact(name: &'static str, bytes: Result<Vec<u8>, ArtefactProblem>) -> Artefact {
    let text =
        bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| ArtefactProblem::NotUtf8));
    let said = text.as_deref().unwrap_or_default();
    let says = match name {
        SPEC => Says::Digest(hex(&Sha256::digest(said.as_bytes()))),
        PROGRESS => Says::Status(status(said)),
        _ => Says::Anything,
    };
    Artefact { name, text, says }
}

fn status(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value.get("status")?.as_str().map(str::to_owned)
}

/// Opens a directory below `top` without following a symlink in any part of the way.
fn open_directory(top: &Path, relative: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, top, flags, Mode::empty())?;
    relative.split('/').try_fold(top, |directory, part| {
        openat(&directory, part, flags | OFlags::NOFOLLOW, Mode::empty())
    })
}

/// Reads a regular file. A FIFO is opened without waiting for its other end, a symlink not at all.
fn read_file(directory: &OwnedFd, name: &str) -> Result<Vec<u8>, ArtefactProblem> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).map_err(problem)?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|_| ArtefactProblem::Unreadable)?;
    if !metadata.is_file() {
        return Err(ArtefactProblem::NotFile);
    }
    if metadata.len() > LONGEST {
        return Err(ArtefactProblem::TooLarge);
    }
    // With room for all of it, it is read at once. It may grow meanwhile.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len() + 1).unwrap_or(0));
    let count = file.take(LONGEST + 1).read_to_end(&mut bytes);
    match count {
        Ok(count) if count as u64 > LONGEST => Err(ArtefactProblem::TooLarge),
        Ok(_) => Ok(bytes),
        Err(_) => Err(ArtefactProblem::Unreadable),
    }
}

fn problem(errno: Errno) -> ArtefactProblem {
    match errno {
        Errno::NOENT => ArtefactProblem::Missing,
        // A symlink, something else than a directory on the way, a socket.
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => ArtefactProblem::NotFile,
        _ => ArtefactProblem::Unreadable,
    }
}
