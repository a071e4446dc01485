//! The journals of spawns under way: `<common dir>/agents/spawning/<id8>`.
//!
//! The owner holds an OS lock on its journal, which the kernel drops when the process ends in any way.
//! A journal that can be locked therefore belongs to a spawn that stopped half way. Beginning a journal
//! and looking for abandoned ones both happen under `spawn.lock`, so a journal is never seen between its
//! creation and its locking.

use super::{fsx, layout};
use crate::error::{Code, Error, IoContext, Result};
use crate::wire::journal::SpawnJournal;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

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
            return Err(Error::new(
                Code::LostRace,
                format!("{} is in use", path.display()),
            ));
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
                    return Err(Error::io(
                        format!("could not lock {}", path.display()),
                        source,
                    ));
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
