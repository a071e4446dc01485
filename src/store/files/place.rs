//! Where the worktree of an agent is made, with the journal of the spawn that makes it, and whether that was in
//! this clone.
//!
//! The ledger travels, so a row names a worktree relative to the root of the repository, and one outside the root
//! not at all: its absolute path stays in a file of this clone. Rows of older versions name absolute paths.

use crate::domain::{Agent, AgentId, Isolation};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::clone_name;
use crate::git::files::untrusted;
use crate::store::files::{briefing, fsx, layout};
use crate::wire::row::journal::SpawnJournal;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How the row of a new agent names its worktree: relative to the root, as text; `None` for one outside the root
/// and for one whose path is not UTF-8, which [`remember`] keeps.
pub fn to_record(root: &Path, worktree: &Path) -> Option<String> {
    let inside = worktree.strip_prefix(root).ok()?;
    inside.to_str().map(str::to_owned)
}

/// Keeps the absolute path of a worktree that the row does not name.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub fn remember(common_dir: &Path, id: AgentId, worktree: &Path) -> Result<()> {
    fsx::create_dir(&layout::agent_dir(common_dir, id))?;
    let path = layout::worktree_place(common_dir, id);
    fsx::write_private(&path, worktree.as_os_str().as_bytes())
}

/// The first eight digits of the id of the agent whose worktree was made at that absolute path, where that was
/// kept by [`remember`].
///
/// # Errors
/// `io`.
pub(in crate::store) fn remembered_at(
    common_dir: &Path,
    worktree: &Path,
) -> Result<Option<String>> {
    let agents = layout::agents_dir(common_dir);
    let Ok(entries) = fs::read_dir(&agents) else {
        return Ok(None);
    };
    for entry in entries {
        let entry = entry.at("could not list", &agents)?;
        let place = fsx::load_if_there(&entry.path().join(layout::WORKTREE_PLACE));
        let is_it = place.is_ok_and(|place| place.as_deref() == Some(bytes(worktree)));
        if is_it {
            return Ok(entry.file_name().into_string().ok());
        }
    }
    Ok(None)
}

/// Where worktrees were made, for many agents.
pub struct RecordedPlaces {
    root: PathBuf,
    common_dir: PathBuf,
}

impl RecordedPlaces {
    /// Of the agents of that repository.
    ///
    /// # Errors
    /// Those of [`Repo::root`].
    pub fn new(repo: &Repo) -> Result<RecordedPlaces> {
        Ok(RecordedPlaces { root: repo.root()?, common_dir: repo.common_dir().to_owned() })
    }

    /// How a row of this version names the worktree at an absolute path.
    pub(in crate::store) fn as_recorded<'p>(&self, path: &'p str) -> &'p str {
        let inside = Path::new(path).strip_prefix(&self.root).ok();
        inside.and_then(Path::to_str).unwrap_or(path)
    }

    /// The absolute path at which an agent's worktree was made, as its row or this clone remembers it; it may be
    /// gone or have been moved since. `None` for an agent without a worktree, and for one whose worktree was made
    /// outside the root of another clone.
    pub fn of(&self, agent: &Agent) -> Option<PathBuf> {
        if agent.isolation != Some(Isolation::Worktree) {
            return None;
        }
        let Some(recorded) = agent.worktree.as_deref().map(Path::new) else {
            let path = layout::worktree_place(&self.common_dir, agent.id);
            let kept = fsx::load_if_there(&path).ok().flatten()?;
            return Some(PathBuf::from(OsStr::from_bytes(&kept)));
        };
        // Rows come from elsewhere too: none leads out of the root, to the root itself or into git's directory.
        let inside = recorded.strip_prefix(&self.root).ok();
        let recorded = match inside {
            None if recorded.is_absolute() => {
                // Earlier versions named every place so. Git's own record of the worktree has to agree.
                let pointer = format!("worktrees/{}/gitdir", layout::worktree_name(agent.id));
                let pointer = untrusted::text(&self.common_dir, &pointer)?;
                let linked = Path::new(pointer.trim_end()).parent() == Some(recorded);
                return linked.then(|| recorded.to_owned());
            }
            inside => inside.unwrap_or(recorded),
        };
        let mut parts = recorded.components();
        let first = parts.clone().next()?;
        // On file systems that ignore case `.GIT` is git's directory, too.
        let is_git = first.as_os_str().eq_ignore_ascii_case(".git");
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        (!is_git && parts.all(is_plain)).then(|| self.root.join(recorded))
    }
}

/// The agents whose worktrees are repositories of their own, by the first eight digits of their ids.
pub fn cloned(common_dir: &Path) -> Vec<String> {
    let records = fs::read_dir(layout::clones_dir(common_dir));
    let names = records.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| Some(layout::agent_of_worktree(name.to_str()?)?.to_owned())).collect()
}

/// Whether an agent was spawned in this clone, or for it, and not in one whose ledger was fetched. `clone` is the number of
/// this clone, where it has one ([`crate::store::ledger::Ledger::clone_number`]).
pub fn is_of_this_clone(common_dir: &Path, clone: Option<u16>, agent: &Agent) -> bool {
    // Locks make the agent's directory for agents of other clones too; its task is there from the spawn alone.
    let directory = layout::agent_dir(common_dir, agent.id);
    clone == Some(agent.clone)
        || directory.join(briefing::TASK).exists()
        || clone_name(common_dir).is_some_and(|name| name == layout::worktree_name(agent.id))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

// The journals of spawns under way: `<common dir>/agents/spawning/<id8>`.
//
// The owner holds an OS lock on its journal, which the kernel drops when the process ends in any way.
// A journal that can be locked therefore belongs to a spawn that stopped half way. Beginning a journal
// and looking for abandoned ones both happen under `spawn.lock`, so a journal is never seen between its
// creation and its locking.

/// An open journal, ours alone.
#[must_use]
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    _lock: File,
}

impl Journal {
    /// Writes a new journal and locks it. The caller holds `spawn.lock`.
    ///
    /// # Errors
    /// `lost-race` when there is one of that name, `io`, `disk-full`, `repo-read-only`.
    pub fn begin(common_dir: &Path, short_id: &str, record: &SpawnJournal) -> Result<Journal> {
        let directory = layout::journals_dir(common_dir);
        fs::create_dir_all(&directory).at("could not make", &directory)?;
        let path = directory.join(short_id);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .at("could not write", &path)?;
        if file.try_lock().is_err() {
            let what = format!("{} is in use", path.display());
            return Err(Error::new(Code::LostRace, what));
        }
        let written = file.write_all(&record.to_bytes());
        if written.is_err() {
            // Nothing was made yet, and half a journal would be in the way of the next spawn.
            let _ = fs::remove_file(&path);
        }
        written.at("could not write", &path)?;
        Ok(Journal { path, _lock: file })
    }

    /// Removes the journal: the spawn is finished or taken apart.
    ///
    /// # Errors
    /// `io`.
    pub fn end(self) -> Result<()> {
        fs::remove_file(&self.path).at("could not remove", &self.path)
    }

    /// Whether there is any journal, abandoned or not.
    pub fn any(common_dir: &Path) -> bool {
        fs::read_dir(layout::journals_dir(common_dir))
            .is_ok_and(|mut entries| entries.next().is_some())
    }

    /// What the spawns under way have written down. The caller holds `spawn.lock`.
    ///
    /// # Errors
    /// `io`.
    pub fn under_way(common_dir: &Path) -> Result<Vec<SpawnJournal>> {
        let directory = layout::journals_dir(common_dir);
        let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
        let mut records = Vec::new();
        for entry in entries.into_iter().flatten() {
            let path = entry.at("could not list", &directory)?.path();
            let Ok(mut file) = fsx::open(&path) else {
                continue;
            };
            // One that can be locked belongs to a spawn that stopped half way.
            let mut bytes = Vec::new();
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                file.read_to_end(&mut bytes).at("could not read", &path)?;
            }
            records.extend(SpawnJournal::from_bytes(&bytes));
        }
        Ok(records)
    }

    /// Takes over every journal whose owner is gone, with what it says; `None` for one that was cut off
    /// before its spawn made anything. The caller holds `spawn.lock`.
    ///
    /// # Errors
    /// `io`.
    pub fn abandoned(common_dir: &Path) -> Result<Vec<(Journal, Option<SpawnJournal>)>> {
        let directory = layout::journals_dir(common_dir);
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).at("could not list", &directory)? {
            let path = entry.at("could not list", &directory)?.path();
            // Another process may end its own spawn while we look.
            let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else {
                continue;
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(source)) => {
                    return Err(Error::io(format!("could not lock {}", path.display()), source));
                }
                Ok(()) => {}
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).at("could not read", &path)?;
            // Its owner may have ended it between the opening and the lock.
            if path.exists() {
                let record = SpawnJournal::from_bytes(&bytes);
                found.push((Journal { path, _lock: file }, record));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Event, Oid};
    use crate::wire::row::event_line;

    /// Where the worktree of an agent is whose row names it so.
    fn place(recorded: &str) -> Option<PathBuf> {
        let spawn = Oid::from_bytes([7; 20]);
        let line = format!(
            r#"{{"t":"20261120T214929.123456Z-000-7f3a","a":"{}","e":"spawning","by":"me","d":{{"role":"edit-local","isolation":"worktree","description":"Do it","base":"{spawn}","dna":"sha256:00","worktree":"{recorded}","pid":1}}}}"#,
            AgentId::from_spawn_commit(spawn)
        );
        let event: Event = event_line::decode(line.as_bytes()).expect("an event");
        let agent = Agent::fold(spawn, &[event]).expect("a row");
        assert_eq!(agent.worktree.as_deref(), Some(recorded));
        let places = RecordedPlaces { root: "/top".into(), common_dir: "/top/.git".into() };
        places.of(&agent)
    }

    #[test]
    fn a_row_names_no_place_outside_the_root_and_none_of_git() {
        for (recorded, expected) in [
            ("agents/one", Some("/top/agents/one")),
            ("/top/agents/one", Some("/top/agents/one")),
            (".github", Some("/top/.github")),
            ("../one", None),
            ("agents/../../one", None),
            ("/top/../one", None),
            ("/one", None),
            (".git/one", None),
            (".GIT/one", None),
            ("", None),
        ] {
            assert_eq!(place(recorded), expected.map(PathBuf::from), "{recorded}");
        }
    }
}
