//! The repository of its own that a fenced command works in.
//!
//! ```text
//! <worktree>/.git ──────────────> <run repo>/worktrees/<name>   copy of the agent's admin directory
//! <run repo>/objects              its new objects; alternates: the repository's
//! <run repo>/refs, packed-refs    its branch; links to the refs of others, which it can read
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
//! objects of its own ([`crate::agents::clone`]). Here it is a run repository whose admin directory is itself.
//!
//! What a kill leaves: a run repository without a process that holds the agent's lock. The next command that looks
//! publishes it ([`RunRepo::exists`]).

mod left;
mod lfs;

pub use left::Heads;

use super::untrusted;
use crate::domain::{AgentId, Oid};
use crate::error::{IoContext, Result};
use crate::git::files::admin_dir::MODULES;
use crate::git::{Repo, WorktreeLayer};
use crate::store::{fsx, layout};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What of the common directory the command finds behind links: it reads them, and the fence keeps it from writing.
/// `config.worktree` is the main worktree's, which may say where the repository's hooks are.
const LINKED: [&str; 7] =
    ["hooks", "info", "modules", "annex", "agents", "shallow", "config.worktree"];

/// What git knows of the branches of remotes.
const REMOTE_COPIES: &str = "refs/remotes";

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
            fsx::set_aside(&self.directory)?;
        }
        // 1. The directories and files that git expects.
        let common = &self.common_dir;
        for directory in ["objects/info", "objects/pack", "refs", "logs", "worktrees"] {
            fsx::create_dir(&self.directory.join(directory))?;
        }
        let alternates = format!("{}\n", common.join("objects").display());
        self.write("objects/info/alternates", alternates.as_bytes())?;
        self.write("config", repo.including_config(settings)?.as_bytes())?;
        for file in ["HEAD", "packed-refs"] {
            if let Some(content) = fsx::load_if_there(&common.join(file))? {
                self.write(file, &content)?;
            }
        }
        // 2. What is only read stays where it is.
        for name in LINKED {
            self.link(Path::new(name))?;
        }
        // 3. The agent's branch is the command's own, the refs around it are links.
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
        self.read(Path::new(&self.branch), LONGEST_REF).and_then(|text| oid_of(&text))
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
    /// it; what was there lies beside it, with `.altered` at the end of its name.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn lead_back(&self) -> Result<Option<PathBuf>> {
        let Some(pointer) = fsx::load_if_there(&self.pointer_note())? else {
            return Ok(None);
        };
        let (file, ours) =
            (self.top.join(".git"), format!("gitdir: {}\n", self.admin_dir().display()));
        let mut altered = None;
        if self.top.is_dir() {
            let found = untrusted::read(&self.top, Path::new(".git"), LONGEST_REF);
            if found.as_deref() != Some(&pointer) {
                // Neither the way back nor the one that `set_up` wrote: the command has changed the
                // file.
                if found.as_deref() != Some(ours.as_bytes()) {
                    if fs::symlink_metadata(&file).is_ok() {
                        fsx::set_aside(&file)?;
                    }
                    altered = Some(file.clone());
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
        let _ = fs::remove_file(self.notes.with_extension("tip"));
        Ok(())
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

    /// Makes the directories of the branch; in each, whatever else the repository has there is a link.
    fn link_refs(&self, tip: Oid) -> Result<()> {
        let mut directory = PathBuf::new();
        let parts: Vec<&str> = self.branch.split('/').collect();
        for (depth, part) in parts.iter().enumerate() {
            let siblings = match fs::read_dir(self.common_dir.join(&directory)) {
                // Branches of other agents are no business of this one.
                // Depth 0 is the top of the common directory, of which `LINKED` names what is
                // shared.
                Ok(entries) if directory != Path::new("refs/heads/agent") && depth > 0 => entries
                    .filter_map(std::result::Result::ok)
                    .map(|entry| entry.file_name())
                    .collect(),
                _ => Vec::new(),
            };
            // A lock exists for a moment only. A link to it would outlive it, and look like a lock
            // of the command's own.
            for name in siblings.iter().filter(|name| {
                name.to_str().is_none_or(|name| name != *part && !name.ends_with(".lock"))
            }) {
                let path = directory.join(name);
                if path == Path::new(REMOTE_COPIES) {
                    self.copy_refs(&path)?;
                } else {
                    self.link(&path)?;
                }
            }
            directory.push(part);
            if depth + 1 < parts.len() {
                fsx::create_dir(&self.directory.join(&directory))?;
            }
        }
        self.write(&self.branch, format!("{tip}\n").as_bytes())
    }

    /// Copies the files of refs: these the command may move, as a fetch does, and nothing comes of it outside.
    fn copy_refs(&self, directory: &Path) -> Result<()> {
        for file in untrusted::files(&self.common_dir.join(directory)) {
            let file = directory.join(file);
            if let Some(content) = untrusted::read(&self.common_dir, &file, LONGEST_REF) {
                fsx::create_dir(self.directory.join(&file).parent().unwrap_or(directory))?;
                let path = self.directory.join(&file);
                fs::write(&path, content).at("could not write", &path)?;
            }
        }
        Ok(())
    }

    fn link(&self, path: &Path) -> Result<()> {
        let (shared, own) = (self.common_dir.join(path), self.directory.join(path));
        if shared.exists() { symlink(&shared, &own).at("could not link", &own) } else { Ok(()) }
    }

    fn copy_admin_dir(&self) -> Result<()> {
        let (from, to) = (self.outer_admin_dir(), self.admin_dir());
        for file in untrusted::files_except(&from, MODULES) {
            let path = to.join(&file);
            fsx::create_dir(path.parent().unwrap_or(&to))?;
            // With its time: git trusts an entry of the index only where the file is older than the
            // index.
            untrusted::copy_as_old(&from.join(&file), &path, LONGEST_COPIED)?;
        }
        fsx::create_dir(&to.join("refs"))?;
        let modules = to.join(MODULES);
        symlink(from.join(MODULES), &modules).at("could not link", &modules)?;
        let pointer = format!("{}\n", self.worktree.join(".git").display());
        // Over what was copied: the common directory of this admin directory is the run repository.
        fsx::write_atomic(&to.join("commondir"), b"../..\n")?;
        fsx::write_atomic(&to.join("gitdir"), pointer.as_bytes())
    }

    fn write(&self, file: &str, content: &[u8]) -> Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, content).at("could not write", &path)
    }

    fn read(&self, file: &Path, limit: u64) -> Option<Vec<u8>> {
        untrusted::read(&self.directory, file, limit)
    }
}

/// The object name that a file of git's holds.
fn oid_of(content: &[u8]) -> Option<Oid> {
    Oid::from_hex(std::str::from_utf8(content).ok()?.trim())
}
