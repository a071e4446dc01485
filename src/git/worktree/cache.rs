//! The linked worktrees, kept between repeated looks: a file that is still the one that was
//! read is not read again.

use super::Worktree;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::read_admin_dir;
use crate::git::files::stamp::FileStamp;
use crate::git::files::untrusted;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

/// The files of an admin directory that a row is read from.
const READ: [&str; 3] = ["gitdir", "locked", "HEAD"];

/// Every linked worktree with what its `HEAD` says.
#[derive(Debug, Default)]
pub struct WorktreeCache(BTreeMap<String, Row>);

#[derive(Debug)]
struct Row {
    stamps: [Option<FileStamp>; 3],
    /// `None` for a half-made or foreign entry.
    worktree: Option<Worktree>,
    head: String,
}

impl WorktreeCache {
    /// Brings it up to date; what it says is as true as if all of it had been read now.
    ///
    /// # Errors
    /// `io` when the directory of admin directories cannot be listed.
    pub fn refresh(&mut self, repo: &Repo) -> Result<()> {
        let directory = repo.common_dir().join("worktrees");
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.0.clear();
                return Ok(());
            }
            other => other.at("could not list", &directory)?,
        };
        let mut known = std::mem::take(&mut self.0);
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let admin = entry.path();
            // Taken before anything is read: a change in between shows the next time.
            let stamps = READ.map(|file| FileStamp::of(&admin.join(file)));
            let row = known.remove(&name).filter(|row| {
                let mut files = row.stamps.iter().zip(&stamps);
                files.all(|(before, now)| FileStamp::is_unchanged(before.as_ref(), now.as_ref()))
            });
            let row = row.unwrap_or_else(|| Row {
                stamps,
                worktree: read_admin_dir(&admin),
                head: untrusted::text(&admin, "HEAD").unwrap_or_default(),
            });
            self.0.insert(name, row);
        }
        Ok(())
    }

    /// The worktrees, by admin name.
    pub fn worktrees(&self) -> impl Iterator<Item = &Worktree> {
        self.0.values().filter_map(|row| row.worktree.as_ref())
    }

    /// The worktrees whose `HEAD` has this text but for the line end.
    pub fn at_head<'r>(&'r self, text: &'r str) -> impl Iterator<Item = &'r Worktree> {
        let rows = self.0.values();
        let rows = rows.filter(move |row| row.head.trim_end() == text);
        rows.filter_map(|row| row.worktree.as_ref())
    }
}
