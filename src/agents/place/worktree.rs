//! The linked worktree of an agent.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::untrusted;
use crate::domain::{Agent, AgentId, Isolation, Oid, Slug, State, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::admin_dir::{belongs_to, leads_to, named_by, stood_in_for};
use crate::git::worktree::set_lock;
use crate::git::{Repo, WorktreeLayer, worktree::populate};
use crate::hosts::WORKTREE_DIR;
use crate::store::files::{added, fsx, layout, leases};
use crate::store::settings::{repository_settings, roles};
use crate::store::{RecordedPlaces, landing::spawn_commit};
use std::fs;
use std::path::Component::Normal;
use std::path::{Path, PathBuf};

/// An agent's worktree and its admin directory.
#[derive(Clone, Debug)]
pub(crate) struct AgentWorktree {
    pub path: PathBuf,
    pub admin_dir: PathBuf,
}

impl AgentWorktree {
    /// The worktree with these files and that admin directory.
    pub(crate) fn new(path: impl Into<PathBuf>, admin_dir: impl Into<PathBuf>) -> AgentWorktree {
        AgentWorktree { path: path.into(), admin_dir: admin_dir.into() }
    }

    /// The worktree of an agent where git knows it and its directory is there.
    pub(crate) fn of(repo: &Repo, id: AgentId) -> Option<AgentWorktree> {
        let path = repo.worktree(&layout::worktree_name(id))?.path;
        let worktree = AgentWorktree::new(path, admin_dir(repo, id));
        worktree.has_files().then_some(worktree)
    }

    /// Whether its files are there: git lists a worktree as long as it has an admin directory, wherever they went. Those of a layered
    /// one are not in its directory.
    fn has_files(&self) -> bool {
        let is_there = self.path.is_dir() && !WorktreeLayer::is_lost(&self.path, &self.admin_dir);
        is_there || WorktreeLayer::of(&self.admin_dir).is_some()
    }

    /// As [`AgentWorktree::of`], at the place that the caller names, if there is one.
    ///
    /// # Errors
    /// `worktree-foreign` where another place is named; those of [`require_linked`] and [`require_whole`].
    pub(crate) fn at(
        ctx: &Ctx,
        agent: &Agent,
        named: Option<&Path>,
    ) -> Result<Option<AgentWorktree>> {
        if agent.isolation == Some(Isolation::Shared) {
            return Ok(None);
        }
        require_linked(&ctx.repo, agent.id, Code::AgentState)?;
        require_whole(&ctx.repo, agent)?;
        let worktree =
            AgentWorktree::of(&ctx.repo, agent.id).or_else(|| left_behind(&ctx.repo, agent));
        let Some(named) = named.map(|named| resolved(&ctx.absolute(named))) else {
            return Ok(worktree);
        };
        let own = match &worktree {
            Some(worktree) => Some(resolved(&worktree.path)),
            // git may have forgotten it; the row has not.
            None => RecordedPlaces::new(&ctx.repo)?.of(agent),
        };
        if own.as_ref() == Some(&named) {
            return Ok(worktree);
        }
        let (path, short_id) = (named.display(), agent.id.short());
        let what = format!("{path} is not the worktree of agent {}", agent.id);
        Err(Error::new(Code::WorktreeForeign, what)
            .remedy("to see where it is", Remedy::Place(short_id)))
    }

    /// Gives what `read` found, if the worktree is still there. To a process that reads one that a `discard` puts
    /// aside meanwhile, its files look deleted, or git fails in ways that say nothing about it.
    ///
    /// # Errors
    /// `lost-race`; those of `read`.
    pub(crate) fn undisturbed<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let read = read();
        // Looked at after the reading, since the worktree may go away at any moment until then.
        if self.has_files() && self.admin_dir.is_dir() {
            return read;
        }
        let path = self.path.display();
        let gone =
            Error::new(Code::LostRace, format!("the worktree {path} went away while it was read"))
                .hint("to see where the worktrees are, run git worktree list");
        Err(match read {
            Ok(_) => gone,
            Err(error) => gone.because(error.to_string()),
        })
    }
}

/// The files of a worktree at the paths where they lie, which are not below the worktree itself where that is layered and not mounted.
pub(crate) struct WorktreeFiles {
    top: PathBuf,
    layer: Option<WorktreeLayer>,
}

impl WorktreeFiles {
    /// Those of the agent's worktree at `top`.
    pub(crate) fn of(repo: &Repo, id: AgentId, top: &Path) -> WorktreeFiles {
        WorktreeFiles { top: top.to_owned(), layer: WorktreeLayer::of(&admin_dir(repo, id)) }
    }

    /// Where the entry lies that a command in the worktree finds at a path from its top, which is empty for the top itself, or at an
    /// absolute path; `None` where it finds nothing.
    pub(crate) fn find(&self, path: &Path) -> Option<PathBuf> {
        let path = self.top.join(path);
        let is_plain = |path: &&Path| path.components().all(|part| matches!(part, Normal(_)));
        match (&self.layer, path.strip_prefix(&self.top).ok().filter(is_plain)) {
            (Some(layer), Some(inside)) => layer.find(inside),
            _ => path.symlink_metadata().is_ok().then_some(path),
        }
    }
}

/// The admin directory of an agent's worktree, whether there is one or not.
pub(crate) fn admin_dir(repo: &Repo, id: AgentId) -> PathBuf {
    repo.admin_dir(&layout::worktree_name(id))
}

/// Refuses a layered worktree of which git's own record is gone, as after `git worktree remove -f -f`: what the agent changed is there
/// still, and no look at the worktree would find it. So it is with one whose layer is gone.
///
/// # Errors
/// `code`.
pub(crate) fn require_linked(repo: &Repo, id: AgentId, code: Code) -> Result<()> {
    let Some(layer) = cut_off(repo, id) else {
        let admin = admin_dir(repo, id);
        return match repo.worktree(&layout::worktree_name(id)) {
            Some(worktree) if WorktreeLayer::is_lost(&worktree.path, &admin) => {
                Err(WorktreeLayer::lost(&admin, code))
            }
            _ => Ok(()),
        };
    };
    let what = format!(
        "the layered worktree of agent {} was removed without git agent; what the agent changed is in {}",
        id.short(),
        layer.upper.display()
    );
    Err(Error::new(code, what).remedy("to make the worktree again", Remedy::Repair))
}

/// Refuses a worktree that a killed `discard` has put aside: without its files only the committed part of the work would be seen.
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_in_place(repo: &Repo, agent: &Agent) -> Result<()> {
    let place = repo.worktree(&layout::worktree_name(agent.id));
    if place.is_none_or(|worktree| found_aside(&worktree.path, &worktree.name).is_none()) {
        return Ok(());
    }
    let what = format!("agent {} is half discarded, and its files are aside", agent.id.short());
    Err(Error::new(Code::AgentState, what).remedy("to see and repair it", Remedy::Repair))
}

/// Where a discard has put a worktree of this name that is not in its place.
pub(crate) fn found_aside(path: &Path, name: &str) -> Option<PathBuf> {
    let aside = layout::aside(path, name);
    (fs::symlink_metadata(path).is_err() && fs::symlink_metadata(&aside).is_ok()).then_some(aside)
}

/// The layer of an agent whose worktree git does not know any more.
pub(crate) fn cut_off(repo: &Repo, id: AgentId) -> Option<WorktreeLayer> {
    let is_known = is_there(&admin_dir(repo, id));
    WorktreeLayer::at(&layout::layer_dir(repo.common_dir(), id)).filter(|_| !is_known)
}

fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The admin directory of this name that a worktree names, here or in another repository.
pub(crate) fn named_admin_dir(path: &Path, admin: &Path) -> Option<PathBuf> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return None;
    }
    let named = named_by(path, admin)?;
    let name = Path::new("worktrees").join(admin.file_name()?);
    named.ends_with(name).then_some(named)
}

/// Whether a worktree names an admin directory, or one of its name that is gone or has another worktree.
pub(crate) fn is_ours(path: &Path, admin: &Path) -> bool {
    let claims = |named: &Path| {
        let pointer = untrusted::text(named, "gitdir");
        pointer.is_some_and(|pointer| named.join(pointer.trim_end()) == path.join(".git"))
    };
    named_admin_dir(path, admin).is_some_and(|named| named == admin || !claims(&named))
}

/// The repository whose worktree is at a path, where that is another one than that of the admin directory, as where this one is a copy.
pub(crate) fn other_repository(path: &Path, admin: &Path) -> Option<PathBuf> {
    let named = named_admin_dir(path, admin).filter(|_| !is_ours(path, admin))?;
    let common = named.ancestors().nth(2)?;
    // Of a run that goes on there, it is the repository that the run works in.
    let common = stood_in_for(common).unwrap_or(common);
    let top = if common.ends_with(".git") { common.parent()? } else { common };
    Some(top.to_owned())
}

/// The error for a place where the agent works in another repository, of which this one is a copy.
pub(crate) fn works_elsewhere(agent: &Agent, path: &Path, other: &Path) -> Error {
    let id = agent.id.short();
    let what = format!("{} is the worktree of agent {id} in {}", path.display(), other.display());
    Error::new(Code::WorktreeForeign, what)
        .hint(format!("to see the agent there, run git -C {} agent show {id}", shell::path(other)))
}

/// Where an agent's worktree is, which has to name its admin directory as that names it.
///
/// The admin directory is the agent's to write, so what it says is believed only where it points at a
/// directory that names it back: an agent can write such a `.git` file in its own places alone. That of a repository that was
/// copied points into the one that it is a copy of.
///
/// # Errors
/// `worktree-foreign`, `io`.
pub(crate) fn own(repo: &Repo, agent: &Agent) -> Result<PathBuf> {
    let name = layout::worktree_name(agent.id);
    let admin_dir = repo.admin_dir(&name);
    let found = repo.worktree(&name).map(|worktree| worktree.path);
    match found {
        Some(path) if leads_to(&path, &admin_dir) => {
            fs::canonicalize(&path).at("could not resolve", &path)
        }
        found => {
            if let Some(path) = found
                && let Some(other) = other_repository(&path, &admin_dir)
            {
                return Err(works_elsewhere(agent, &path, &other));
            }
            let id = agent.id.short();
            let what = format!("agent {id} and its worktree do not name each other");
            Err(Error::new(Code::WorktreeForeign, what)
                .remedy("to see and repair it", Remedy::Repair))
        }
    }
}

/// The worktree of an agent that git does not find where it says, because the repository was moved: it is where the row says, and goes on
/// naming its admin directory.
fn left_behind(repo: &Repo, agent: &Agent) -> Option<AgentWorktree> {
    // Where git has no record that can be read, another finding says so.
    repo.worktree(&layout::worktree_name(agent.id))?;
    let admin = admin_dir(repo, agent.id);
    let place = RecordedPlaces::new(repo).ok()?.of(agent).filter(|place| is_ours(place, &admin))?;
    Some(AgentWorktree::new(place, admin))
}

/// Where an agent's worktree is: where git says, since it may have been moved, and else where the row says.
/// `None` for one that has none, and for one that another clone made outside its root.
pub(crate) fn find(repo: &Repo, agent: &Agent) -> Option<PathBuf> {
    if agent.isolation != Some(Isolation::Worktree) {
        return None;
    }
    match repo.worktree(&layout::worktree_name(agent.id)) {
        Some(worktree) => Some(worktree.path),
        None => RecordedPlaces::new(repo).ok()?.of(agent),
    }
}

/// The error for a worktree whose directory is gone.
pub(crate) fn gone(agent: &Agent) -> Error {
    let id = agent.id.short();
    Error::new(Code::AgentState, format!("the worktree of agent {id} is gone"))
        .remedy("to make it again", Remedy::Reopen(id))
}

/// Whether an admin directory is there. What a link in its place leads to is another one's, such as the main worktree's.
pub(crate) fn is_there(admin: &Path) -> bool {
    fs::symlink_metadata(admin).is_ok_and(|found| found.is_dir())
}

/// The files without which git cannot use the admin directory that a worktree names, where that is there and lacks some.
pub(crate) fn lacking(worktree: &Path, admin: &Path) -> Vec<&'static str> {
    if !is_there(admin) || !leads_to(worktree, admin) {
        return Vec::new();
    }
    let mut files = vec!["HEAD", "commondir", "gitdir"];
    files.retain(|name| match fs::metadata(admin.join(name)) {
        // What is neither, such as a FIFO, is looked at elsewhere.
        Ok(found) => found.is_dir() || found.is_file() && found.len() == 0,
        // As git writes HEAD where `core.preferSymlinkRefs` is set, and reads it.
        Err(_) => !fs::read_link(admin.join(name)).is_ok_and(|to| to.starts_with("refs")),
    });
    files
}

/// Refuses a worktree whose admin directory is gone, or a part of it: git does not know it any more, and what is uncommitted in it would not
/// be seen.
///
/// # Errors
/// `git-failed`.
pub(crate) fn require_whole(repo: &Repo, agent: &Agent) -> Result<()> {
    let admin = admin_dir(repo, agent.id);
    let is_cut_off = |path: &Path| {
        let is_gone = !is_there(&admin) && belongs_to(path, &admin);
        is_gone || !lacking(path, &admin).is_empty()
    };
    match find(repo, agent) {
        Some(path) if is_cut_off(&path) => Err(unlinked(&path, &admin, Code::GitFailed)),
        _ => Ok(()),
    }
}

/// The error for a worktree whose admin directory is gone, or a part of that.
pub(crate) fn unlinked(worktree: &Path, admin: &Path, code: Code) -> Error {
    let what = format!(
        "{} is an agent's worktree, but its admin directory {} is {}",
        worktree.display(),
        admin.display(),
        if is_there(admin) { "damaged" } else { "gone" }
    );
    let path = shell::path(worktree);
    Error::new(code, what)
        .remedy("to make it again", Remedy::Repair)
        .hint(format!("to keep its files, run mv {path} <elsewhere>"))
}

/// Takes our lock off the worktree of an agent that is decided about, and gives back the values that it held. Where this
/// fails it does no harm: a worktree stays locked, and `gc` gives the values back.
pub(crate) fn release(ctx: &Ctx, agent: &Agent) {
    // What is released twice, or not at all, is mended by `doctor` and `gc`, so no failure stops
    // the caller.
    let _ = leases::free(ctx.repo.common_dir(), &agent.id.short());
    let admin = admin_dir(&ctx.repo, agent.id);
    let is_ours = |text: String| text.trim_end() == layout::lock_reason(agent.id);
    if untrusted::text(&admin, "locked").is_some_and(is_ours) {
        let _ = fs::remove_file(admin.join("locked"));
    }
}

/// Takes anew what the landing of an agent let go of, because work on it goes on: our lock on its worktree, and values of its
/// own. Nothing is done for one that was neither merged nor rejected.
///
/// # Errors
/// `lease-exhausted`; those of reading the settings and of writing.
pub(crate) fn reopen(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let admin = admin_dir(&ctx.repo, agent.id);
    // Only these two lose their lock and leases while they keep a worktree.
    if !matches!(agent.state, State::Merged | State::Rejected) || !admin.exists() {
        return Ok(());
    }
    // A user's own lock stays as it is.
    if fs::symlink_metadata(admin.join("locked")).is_err() {
        set_lock(&admin, &layout::lock_reason(agent.id))?;
    }
    take_leases(ctx, agent)
}

/// Takes values anew for an agent that comes back from a discard, which freed them. Without a value its work is still there, so that
/// is a warning.
///
/// # Errors
/// Those of reading the settings and of writing.
pub(crate) fn retake_leases(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    match take_leases(ctx, agent) {
        Err(error) if error.code() == Code::LeaseExhausted => Ok(Some(error.to_string())),
        taken => taken.map(|()| None),
    }
}

/// Takes values of its own for an agent, as its spawn did; those that it still holds stay.
fn take_leases(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let common = ctx.repo.common_dir();
    let settings = spawn_commit::settings_commit(&ctx.repo, agent)?;
    // Without the settings there is nothing to say which leases it had.
    let Some(at) = settings.filter(|at| ctx.repo.has_object(*at)) else {
        return Ok(());
    };
    let roles = roles::load(&ctx.repo, at)?;
    let mut wanted = repository_settings::load(&ctx.repo, at, &roles)?.leases;
    let held = leases::of(common, agent.id)?;
    // A value that is still held stays the same: a server of the agent's may be using it.
    wanted.retain(|one| held.iter().all(|held| held.variable != one.variable));
    let text = agent
        .name
        .as_ref()
        .map(|name| name.as_str())
        .or(agent.description.as_deref())
        .unwrap_or_default();
    leases::take(common, &agent.id.short(), &Slug::from_text(text), &wanted).map(drop)
}

/// Writes the files and the index of a new worktree; to a person who waits, `what` says what is done.
///
/// # Errors
/// Those of [`populate::populate`].
pub(crate) fn check_out(
    ctx: &Ctx,
    what: &str,
    worktree: &Path,
    admin_dir: &Path,
    commit: Oid,
) -> Result<populate::Populated> {
    let activity = ctx.activity(what);
    populate::populate(&populate::Request {
        repo: &ctx.repo,
        worktree,
        admin_dir,
        commit,
        threads: 0,
        observer: &|count, all| activity.now(&format!("{what}: {count} of {all}")),
    })
}

/// Keeps out of everybody's `git status`, by `info/exclude`, where worktrees are by default and the directory of the bundle. Files of that
/// name in the main worktree are not hidden; gives a warning then.
///
/// # Errors
/// `io`, `lost-race`; those of git.
pub(crate) fn hide(ctx: &Ctx, bundle: &str) -> Result<Option<String>> {
    let root = ctx.repo.main_worktree()?;
    let is_there = root.is_some_and(|root| fs::symlink_metadata(root.join(bundle)).is_ok());
    // A rule would hide files of the user's own.
    if is_there && !ctx.repo.ignores_all_in(Path::new(bundle))? {
        added::add_exclude(&ctx.repo, &[WORKTREE_DIR])?;
        return Ok(Some(format!(
            "{bundle} is in the main worktree, so no ignore rule is made for it, and git status shows an agent's bundle; \
             to keep bundles elsewhere, run git config agent.bundleDir <directory>"
        )));
    }
    added::add_exclude(&ctx.repo, &[WORKTREE_DIR, bundle])?;
    Ok(None)
}

// A sparse worktree is as sparse when it comes back after a discard.

/// The file of an agent's directory with the directories that its sparse worktree held, each ended by NUL.
const CONE: &str = "cone";

/// Notes what a worktree that is about to go holds if it is sparse, for [`narrow_again`].
///
/// # Errors
/// `io`, `disk-full`.
pub(crate) fn note_cone(ctx: &Ctx, id: AgentId, admin_dir: &Path) -> Result<()> {
    let note = layout::agent_dir(ctx.repo.common_dir(), id).join(CONE);
    match populate::cone_directories(admin_dir) {
        Some(cone) => {
            let names: String = cone.iter().flat_map(|name| [name, "\0"]).collect();
            fsx::write_private(&note, names.as_bytes())
        }
        None => fs::remove_file(&note).at_if_there("could not remove", &note).map(drop),
    }
}

/// Makes a worktree that came back whole as sparse as it was. What was changed outside of the cone stays, as git has it.
///
/// # Errors
/// Those of git.
pub(crate) fn narrow_again(ctx: &Ctx, id: AgentId, path: &Path) -> Result<()> {
    let note = layout::agent_dir(ctx.repo.common_dir(), id).join(CONE);
    let Some(names) = fsx::load_if_there(&note)? else {
        return Ok(());
    };
    let names = String::from_utf8_lossy(&names);
    let cone = names.split_terminator('\0').map(str::to_owned).collect();
    populate::narrow_filled(&ctx.repo, path, &admin_dir(&ctx.repo, id), &cone)
}
