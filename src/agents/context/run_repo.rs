//! The repository of its own that a fenced command works in.
//!
//! ```text
//! <worktree>/.git ──────────────> <run repo>/worktrees/<name>   copy of the agent's admin directory
//! <run repo>/objects              its new objects; alternates: the repository's
//! <run repo>/refs                 its branch; links to directories of refs beside it, which it can read
//! <run repo>/packed-refs          where all other refs were when the run began
//! <run repo>/worktrees/<name>/modules   a link to the agent's, which the command may write: repositories of submodules
//! <run repo>/config               includes the repository's
//! <run repo>/hooks, info, agents… links to the repository's, which it can read
//! ```
//!
//! Inside, git does its whole job, and nothing that it writes is shared: not the object store, not a branch, not a
//! reflog, not the admin directory that git outside looks at. When the command is over, and whenever its branch
//! moves before, the objects are taken in by hash, the branch is moved by compare-and-swap and the admin directory
//! is brought up to date (`publish`). Until then everything outside is as it was.
//!
//! Environment variables (`GIT_OBJECT_DIRECTORY`) would do the same with less, but every repository that the command
//! makes or clones in its tests would inherit them, and agent hosts scrub them.
//!
//! The worktree of a clone (`spawn --isolation=clone`) has such a repository for good: its `.git`, complete and with
//! objects of its own ([`crate::agents::upkeep::clone`]). Here it is a run repository whose admin directory is itself.
//!
//! What a kill leaves: a run repository without a process that holds the agent's lock. The next command that looks
//! publishes it ([`RunRepo::exists`]).

mod left;
mod lfs;

pub use left::{Heads, is_logged};

use super::untrusted;
use crate::domain::{AgentId, Oid};
use crate::error::{IoContext, Result};
use crate::git::files::admin_dir::{MODULES, STAND_IN};
use crate::git::files::descent;
use crate::git::{Repo, WorktreeLayer};
use crate::store::files::{fsx, layout};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What of the common directory the command finds behind links: it reads them, and the fence keeps it from writing.
/// `config.worktree` is the main worktree's, which may say where the repository's hooks are.
const LINKED: [&str; 7] =
    ["hooks", "info", "modules", "annex", "agents", "shallow", "config.worktree"];

/// What git knows of the branches of remotes: these the command may move, as a fetch does, and nothing comes of it outside.
const REMOTE_COPIES: &str = "refs/remotes";

/// Branches of other agents are no business of this one.
const OF_AGENTS: &str = "refs/heads/agent";

/// Full names of refs, and where they are.
type Refs = BTreeMap<Vec<u8>, Oid>;

/// The ending of the note on why what is in a run repository could not be taken over.
const REFUSED: &str = "refused";

/// The longest file of an admin directory that is copied, in bytes.
const LONGEST_COPIED: u64 = 1 << 30;

/// The longest text with a ref in it, in bytes.
const LONGEST_REF: u64 = 4096;

/// The admin directory outside of an agent in whose worktree a directory lies while a fenced command works there.
///
/// Only for commands that are not behind the fence: there the run repository is the one to look at.
pub fn around(directory: &Path) -> Option<PathBuf> {
    let top = directory.ancestors().find(|top| fs::symlink_metadata(top.join(".git")).is_ok())?;
    let pointer = untrusted::read(top, Path::new(".git"), LONGEST_REF)?;
    let admin_dir =
        Path::new(std::str::from_utf8(&pointer).ok()?.strip_prefix("gitdir: ")?.trim_end());
    let name = admin_dir.file_name()?;
    let agent_dir = admin_dir.parent()?.parent()?.parent()?;
    let own = agent_dir.join("run-repo/worktrees").join(name);
    let common_dir = agent_dir.parent()?.parent()?;
    (own == admin_dir && agent_dir.parent()? == common_dir.join("agents"))
        .then(|| common_dir.join("worktrees").join(name))
}

/// The repositories in an agent's directory that a run left, as one that could not be published. No other place has what is in them.
pub fn left_in(agent_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(agent_dir).into_iter().flatten().flatten();
    let is_left = |entry: &fs::DirEntry| {
        entry.file_name().as_bytes().starts_with(STAND_IN.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut left: Vec<_> = entries.filter(is_left).map(|entry| entry.path()).collect();
    left.sort_unstable();
    left
}

/// What a command has been given of the refs of others.
#[derive(Debug)]
pub struct FollowedRefs {
    known: BTreeMap<String, Oid>,
    /// When the directories of these refs had last changed.
    seen: Vec<Option<SystemTime>>,
}

/// A run repository and the worktree that it stands in for.
#[derive(Clone, Debug)]
pub struct RunRepo {
    directory: PathBuf,
    common_dir: PathBuf,
    /// What the names of files begin with in which we keep what is true of it, out of the command's reach.
    notes: PathBuf,
    /// Whether it is the worktree's own and stays.
    is_clone: bool,
    worktree: PathBuf,
    /// The directory with the `.git` file that the command finds: of a layered worktree the one that its mount writes to.
    top: PathBuf,
    /// The name of the agent's admin directory.
    name: String,
    /// The full name of its branch.
    branch: String,
}

impl RunRepo {
    /// Names the run repository of an agent, which need not exist.
    pub fn of(repo: &Repo, id: AgentId, worktree: &Path, branch: &str) -> RunRepo {
        let notes = layout::run_repo(repo.common_dir(), id);
        let is_clone = layout::clone_record(repo.common_dir(), id).exists();
        RunRepo {
            directory: if is_clone { worktree.join(".git") } else { notes.clone() },
            notes,
            is_clone,
            common_dir: repo.common_dir().to_owned(),
            top: WorktreeLayer::of(&repo.admin_dir(&layout::worktree_name(id)))
                .map_or_else(|| worktree.to_owned(), |layer| layer.upper),
            worktree: worktree.to_owned(),
            name: layout::worktree_name(id),
            branch: branch.to_owned(),
        }
    }

    /// Whether it has something to publish: a run goes on, or was killed, or could not be published. A clone has when it
    /// is not as it was when all of it was last taken in.
    pub fn exists(&self) -> bool {
        if self.is_clone {
            return self.state() != self.known_state();
        }
        self.directory.join("worktrees").exists()
    }

    /// Whether it is the worktree's own and stays.
    pub fn is_clone(&self) -> bool {
        self.is_clone
    }

    /// The directory: the one place of the repository that a fenced command may write.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Makes the repository and leads the worktree to it, with settings (section, name, value) besides the repository's own.
    /// One that is there already is set aside.
    ///
    /// # Errors
    /// `io`, `disk-full`, `repo-read-only`.
    pub fn set_up(&self, repo: &Repo, tip: Oid, settings: &[(String, &str, &str)]) -> Result<()> {
        if self.is_clone {
            return Ok(());
        }
        // What an earlier run could not publish is in there.
        if fs::symlink_metadata(&self.directory).is_ok() {
            self.set_aside()?;
        }
        // 1. The directories and files that git expects.
        let common = &self.common_dir;
        for directory in ["objects/info", "objects/pack", "refs", "logs", "worktrees"] {
            fsx::create_dir(&self.directory.join(directory))?;
        }
        let alternates = format!("{}\n", common.join("objects").display());
        self.write("objects/info/alternates", alternates.as_bytes())?;
        self.write("config", repo.including_config(settings)?.as_bytes())?;
        if let Some(content) = fsx::load_if_there(&common.join("HEAD"))? {
            self.write("HEAD", &content)?;
        }
        // 2. What is only read stays where it is.
        for name in LINKED {
            self.link(Path::new(name))?;
        }
        // 3. The agent's branch is the command's own, the refs around it are values and links.
        self.pack_refs()?;
        self.link_refs(tip)?;
        let log = Path::new("logs").join(&self.branch);
        if let Some(content) = fsx::load_if_there(&common.join(&log))? {
            fsx::create_dir(&self.directory.join(log.parent().unwrap_or(Path::new(""))))?;
            fs::write(self.directory.join(&log), content).at("could not write", &log)?;
        }
        // 4. The admin directory, and last the way to it.
        self.copy_admin_dir()?;
        // The way back is noted before the way is changed, so that a kill in between leaves nothing
        // that cannot be led back.
        let pointer = fsx::load_if_there(&self.top.join(".git"))?.unwrap_or_default();
        self.set_known_tip(tip)?;
        fsx::write_private(&self.pointer_note(), &pointer)?;
        let pointer = format!("gitdir: {}\n", self.admin_dir().display());
        fsx::write_atomic(&self.top.join(".git"), pointer.as_bytes())
    }

    /// Where the branch of the command is now; `None` when that cannot be read at a glance.
    pub fn tip(&self) -> Option<Oid> {
        let loose = self.read(Path::new(&self.branch), LONGEST_REF).and_then(|text| oid_of(&text));
        // The command may have packed it.
        loose.or_else(|| left::packed_refs(&self.directory).get(&self.branch).copied())
    }

    /// Where the repository's branch was when it last agreed with the command's.
    pub fn known_tip(&self) -> Option<Oid> {
        let text = fsx::load_if_there(&self.notes.with_extension("tip"));
        oid_of(&text.ok().flatten()?)
    }

    /// Notes that the two agree.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn set_known_tip(&self, tip: Oid) -> Result<()> {
        fsx::write_private(&self.notes.with_extension("tip"), format!("{tip}\n").as_bytes())
    }

    /// The directory of its objects.
    pub fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }

    /// Leads the worktree back to its admin directory. Gives the path of its `.git` file if the command had changed
    /// it, and where what was there is now; that is out of the worktree, where all that lies is work of the agent.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn lead_back(&self) -> Result<Option<(PathBuf, Option<PathBuf>)>> {
        let Some(pointer) = fsx::load_if_there(&self.pointer_note())? else {
            return Ok(None);
        };
        let (file, ours) =
            (self.top.join(".git"), format!("gitdir: {}\n", self.admin_dir().display()));
        let mut altered = None;
        if self.top.is_dir() && !self.is_of_original(&pointer) {
            // The command may have closed it. Where it stays so, the write below says why.
            let _ = descent::open_to_owner(&self.top);
            let found = untrusted::read(&self.top, Path::new(".git"), LONGEST_REF);
            if found.as_deref() != Some(&pointer) {
                // Neither the way back nor the one that `set_up` wrote: the command has changed the
                // file.
                if found.as_deref() != Some(ours.as_bytes()) {
                    let is_there = fs::symlink_metadata(&file).is_ok();
                    let kept = is_there.then(|| self.keep_replaced(&file)).transpose()?;
                    altered = Some((file.clone(), kept));
                }
                fsx::write_atomic(&file, &pointer)?;
            }
        }
        // Last, because without the note nothing is led back any more.
        fs::remove_file(self.pointer_note()).at("could not remove", self.pointer_note())?;
        // For `git worktree remove` an empty one is a submodule, too.
        let _ = fs::remove_dir(self.outer_admin_dir().join(MODULES));
        Ok(altered)
    }

    /// Whether this repository is a copy of the one that the worktree belongs to, given the worktree's `.git` file from before the command: that is at
    /// work in the original, maybe. What a repository was moved away from is gone.
    fn is_of_original(&self, pointer: &[u8]) -> bool {
        // The files of a layer lie in the repository, and were copied with it.
        if self.top.starts_with(&self.common_dir) {
            return false;
        }
        let named = pointer.strip_prefix(b"gitdir: ").unwrap_or(pointer).trim_ascii_end();
        let named = fs::canonicalize(self.top.join(OsStr::from_bytes(named)));
        let own = fs::canonicalize(self.outer_admin_dir());
        named.is_ok_and(|named| own.is_ok_and(|own| named != own))
    }

    /// Moves what the command put in the place of the worktree's `.git` file out of the worktree, and gives where it is.
    fn keep_replaced(&self, file: &Path) -> Result<PathBuf> {
        let beside = layout::replaced_git_beside(&self.worktree, &self.name);
        // A rename does not reach another file system.
        let mut moved = Ok(PathBuf::new());
        for directory in [self.notes.with_extension("git"), beside] {
            fsx::create_dir(&directory)?;
            let place = fsx::free_place(&directory);
            moved = fsx::rename_directory(file, &place).map(|()| place);
            if moved.is_ok() {
                break;
            }
            let _ = fs::remove_dir(directory);
        }
        moved.at("could not move away", file)
    }

    /// Removes the repository, whose objects have all been taken in.
    ///
    /// # Errors
    /// `io`.
    pub fn remove(&self) -> Result<()> {
        if self.is_clone {
            return Ok(());
        }
        let modules = self.admin_dir().join(MODULES);
        // Made by a command that had removed the link.
        if fs::symlink_metadata(&modules).is_ok_and(|found| found.is_dir()) {
            let kept = self.outer_admin_dir().join(MODULES);
            fsx::create_dir(&kept)?;
            let kept = fsx::unique_name(&kept.join("run"));
            fs::rename(&modules, &kept).at("could not move", &modules)?;
        }
        if self.directory.exists() {
            fsx::remove_by_trash(&self.common_dir, &self.directory)?;
        }
        self.forget_notes();
        Ok(())
    }

    /// Keeps the repository, of which not all could be taken in, under another name, and gives its place. That of a clone stays where it is.
    ///
    /// # Errors
    /// `io`.
    pub fn set_aside(&self) -> Result<Option<PathBuf>> {
        if self.is_clone {
            return Ok(None);
        }
        let kept = fsx::set_aside(&self.directory)?;
        self.forget_notes();
        Ok(Some(kept))
    }

    fn forget_notes(&self) {
        for extension in ["tip", REFUSED] {
            let _ = fs::remove_file(self.notes.with_extension(extension));
        }
    }

    /// Notes why what is in it could not be taken over, for as long as it is there.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn note_refused(&self, why: &str) -> Result<()> {
        fsx::write_private(&self.notes.with_extension(REFUSED), why.as_bytes())
    }

    /// Why what the last run left in it could not be taken over; `None` where nothing was left, or nothing has tried to take it over yet.
    pub fn refused(&self) -> Option<String> {
        // The next run has a repository of its own, and sets this one aside.
        let why = fsx::load_if_there(&self.notes.with_extension(REFUSED)).ok()??;
        self.exists().then(|| String::from_utf8_lossy(&why).into_owned())
    }

    /// The admin directory that the worktree has during the run.
    pub fn admin_dir(&self) -> PathBuf {
        if self.is_clone {
            return self.directory.clone();
        }
        self.directory.join("worktrees").join(&self.name)
    }

    /// The admin directory that it has at all other times.
    fn outer_admin_dir(&self) -> PathBuf {
        self.common_dir.join("worktrees").join(&self.name)
    }

    /// How the worktree's `.git` file was before the run: out of the command's reach.
    fn pointer_note(&self) -> PathBuf {
        self.notes.with_extension("pointer")
    }

    /// Writes where all refs of others are into `packed-refs`. A link to the file of a ref would lead nowhere as soon as git
    /// outside packs it (`git pack-refs`, `git gc`), and the command would have lost that ref.
    fn pack_refs(&self) -> Result<()> {
        // Loose refs first: git packs a ref before it removes the file, so none is missed.
        let mut loose = Refs::new();
        for (path, content) in self.loose_refs(Path::new("refs"), true) {
            if let Some(oid) = oid_of(&content) {
                loose.insert(path.into_os_string().into_vec(), oid);
            } else if path.starts_with(REMOTE_COPIES) || self.is_beside_branch(&path) {
                // A symbolic one cannot be packed, and no link leads to it.
                fsx::create_dir(self.directory.join(&path).parent().unwrap_or(&path))?;
                self.write(&path, &content)?;
            }
        }
        let packed = fsx::load_if_there(&self.common_dir.join("packed-refs"))?;
        match with_refs(packed.unwrap_or_default(), &loose) {
            Some(content) => self.write("packed-refs", &content),
            None => Ok(()),
        }
    }

    /// The files of the repository's refs in a directory, or all below it, but for the branches of agents.
    fn loose_refs(&self, directory: &Path, all_below: bool) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.common_dir.join(directory)).into_iter().flatten().flatten() {
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if all_below && path != Path::new(OF_AGENTS) {
                    found.extend(self.loose_refs(&path, true));
                }
            } else if !path.as_os_str().as_bytes().ends_with(b".lock") {
                let content = untrusted::read(&self.common_dir, &path, LONGEST_REF);
                found.extend(content.map(|content| (path, content)));
            }
        }
        found
    }

    /// What is known inside of the refs of others, as the run began.
    pub fn followed(&self) -> FollowedRefs {
        FollowedRefs { known: left::packed_refs(&self.directory), seen: Vec::new() }
    }

    /// Moves refs inside after those outside: those that no link leads to, so that a command which runs for long can merge what came to
    /// the branch that it began on. One that was removed outside stays.
    pub fn follow(&self, refs: &mut FollowedRefs) {
        if self.is_clone {
            return;
        }
        // A ref that moves changes its directory, by the file that locks it.
        let directories = Path::new(&self.branch).ancestors().skip(1);
        let directories: Vec<&Path> = directories
            .filter(|path| path.starts_with("refs") && *path != Path::new(OF_AGENTS))
            .collect();
        let changed = |path: &&Path| fs::metadata(self.common_dir.join(path)).ok()?.modified().ok();
        let seen: Vec<_> = directories.iter().map(changed).collect();
        if refs.seen == seen {
            return;
        }
        let loose = directories.iter().flat_map(|path| self.loose_refs(path, false));
        let loose: Vec<_> = loose
            .filter_map(|(path, content)| Some((path.to_str()?.to_owned(), oid_of(&content)?)))
            .collect();
        let mut now = left::packed_refs(&self.common_dir);
        now.extend(loose);
        // What changes at this moment may change once more without another time.
        let is_past = |time: &Option<SystemTime>| {
            time.is_none_or(|time| time.elapsed().is_ok_and(|past| past > Duration::from_secs(1)))
        };
        refs.seen = if seen.iter().all(is_past) { seen } else { Vec::new() };
        for (name, oid) in now {
            let path = Path::new(&name);
            let is_shared = name != self.branch && self.is_beside_branch(path);
            if !is_shared || refs.known.get(&name) == Some(&oid) {
                continue;
            }
            // The command may hold its lock; then the next look is another chance.
            match untrusted::replace(&self.directory, path, format!("{oid}\n").as_bytes()) {
                Ok(()) => drop(refs.known.insert(name, oid)),
                Err(_) => refs.seen.clear(),
            }
        }
    }

    /// Whether a ref lies in a directory that holds the agent's branch as well, and is none of other agents.
    fn is_beside_branch(&self, path: &Path) -> bool {
        path.parent().is_some_and(|directory| {
            directory != Path::new(OF_AGENTS) && Path::new(&self.branch).starts_with(directory)
        })
    }

    /// Makes the directories of the branch; in each, the directories that the repository has there besides are links.
    fn link_refs(&self, tip: Oid) -> Result<()> {
        let mut directory = PathBuf::new();
        let parts: Vec<&str> = self.branch.split('/').collect();
        for (depth, part) in parts.iter().enumerate() {
            let siblings = match fs::read_dir(self.common_dir.join(&directory)) {
                // Depth 0 is the top of the common directory, of which `LINKED` names what is
                // shared.
                Ok(entries) if directory != Path::new(OF_AGENTS) && depth > 0 => entries
                    .filter_map(std::result::Result::ok)
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| directory.join(entry.file_name()))
                    .collect(),
                _ => Vec::new(),
            };
            directory.push(part);
            for path in siblings {
                if path != directory && path != Path::new(REMOTE_COPIES) {
                    self.link(&path)?;
                }
            }
            if depth + 1 < parts.len() {
                fsx::create_dir(&self.directory.join(&directory))?;
            }
        }
        self.write(&self.branch, format!("{tip}\n").as_bytes())
    }

    fn link(&self, path: &Path) -> Result<()> {
        let (shared, own) = (self.common_dir.join(path), self.directory.join(path));
        if shared.exists() { symlink(&shared, &own).at("could not link", &own) } else { Ok(()) }
    }

    fn copy_admin_dir(&self) -> Result<()> {
        let (from, to) = (self.outer_admin_dir(), self.admin_dir());
        let files = untrusted::files_except(&from, MODULES);
        // A lock exists for a moment only. A copy would outlive it, and look like a lock of the command's own.
        for file in files.iter().filter(|file| !file.to_str().is_some_and(is_momentary)) {
            let path = to.join(file);
            fsx::create_dir(path.parent().unwrap_or(&to))?;
            // With its time: git trusts an entry of the index only where the file is older than the
            // index.
            untrusted::copy_as_old(&from.join(file), &path, LONGEST_COPIED)?;
        }
        fsx::create_dir(&to.join("refs"))?;
        let modules = to.join(MODULES);
        symlink(from.join(MODULES), &modules).at("could not link", &modules)?;
        let pointer = format!("{}\n", self.worktree.join(".git").display());
        // Over what was copied: the common directory of this admin directory is the run repository.
        fsx::write_atomic(&to.join("commondir"), b"../..\n")?;
        fsx::write_atomic(&to.join("gitdir"), pointer.as_bytes())
    }

    fn write(&self, file: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, content).at("could not write", &path)
    }

    fn read(&self, file: &Path, limit: u64) -> Option<Vec<u8>> {
        untrusted::read(&self.directory, file, limit)
    }
}

/// Whether a file is one that git or this program has for a moment only, while it writes another one.
fn is_momentary(name: &str) -> bool {
    name.ends_with(".lock") || name.ends_with(".tmp")
}

/// A `packed-refs` file with these refs besides, which win over its own; `None` where there would be nothing in it.
fn with_refs(packed: Vec<u8>, refs: &Refs) -> Option<Vec<u8>> {
    if refs.is_empty() {
        return Some(packed).filter(|packed| !packed.is_empty());
    }
    let mut entries: Vec<(&[u8], Cow<'_, [u8]>)> = Vec::new();
    for line in packed.split_inclusive(|byte| *byte == b'\n') {
        match (line.first(), entries.last_mut()) {
            (Some(b'#'), _) => {}
            // What the tag of the line above leads to.
            (Some(b'^'), Some((_, entry))) => entry.to_mut().extend_from_slice(line),
            _ => {
                let name = line.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default();
                let name = name.trim_ascii_end();
                if !refs.contains_key(name) {
                    entries.push((name, line.into()));
                }
            }
        }
    }
    for (name, oid) in refs {
        let entry = [oid.to_hex().as_bytes(), b" ", name, b"\n"].concat();
        entries.push((name, entry.into()));
    }
    entries.sort_by_key(|(name, _)| *name);
    // No `peeled`: git would take each of our tags without such a line for one that names a commit.
    let mut content = b"# pack-refs with: sorted \n".to_vec();
    entries.iter().for_each(|(_, entry)| content.extend_from_slice(entry));
    Some(content)
}

/// The object name that a file of git's holds.
fn oid_of(content: &[u8]) -> Option<Oid> {
    Oid::from_hex(std::str::from_utf8(content).ok()?.trim())
}
