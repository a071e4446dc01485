//! Undoing what a landing that was killed left of files half way.
//!
//! A kill can come between the moment in which a file is made and the one in which it holds all of its content. Such a file
//! looks like one that a person made meanwhile, so it would be in the way for good. A landing therefore notes what it is about to
//! do, below the common directory, and removes the note at its end:
//!
//! ```text
//! agents/locks/<git dir>.landing    the trees before and after; its owner has an OS lock on it
//! ```
//!
//! The next process that gets the OS lock, and then the lock of the index, knows that the owner and its git are dead. What holds
//! the beginning of the new content, or all of it, and is unknown to the index, is the landing's. The index says what it said
//! before, because it is written last. Where it says what comes after, and the branch has not moved, index and files go back; where it
//! says anything else, the landing was completed by other means, and nothing is touched.

use crate::domain::Oid;
use crate::domain::change::Difference;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::retry_if_pruned;
use crate::git::files::lock_file::{NOTES, is_same_file};
use crate::git::landing::by_git::Way;
use crate::git::landing::{Checkout, PAUSE};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

/// The longest note, in bytes: two names of trees.
const LONGEST_NOTE: u64 = 128;

/// How often a note that another process holds is tried: for half a second.
const TRIES: usize = 20;

/// The note of a landing that is under way, removed when this is dropped.
#[must_use = "the landing counts as undone while the note is there"]
#[derive(Debug)]
pub struct LandingNote {
    path: PathBuf,
    /// Holds the OS lock.
    _file: File,
}

impl Drop for LandingNote {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Checkout {
    fn note_path(&self) -> PathBuf {
        let name = self.git_dir.file_name().unwrap_or_default();
        let mut name = name.to_owned();
        name.push(".landing");
        self.common_dir().join(NOTES).join(name)
    }

    /// Notes that files are about to move from one tree to another. The caller keeps other landings away.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn note_landing(&self, (old, new): (Oid, Oid)) -> Result<LandingNote> {
        let path = self.note_path();
        let mut tries = 0..TRIES;
        let mut file = loop {
            let made = retry_if_pruned(|| {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                let mut options = OpenOptions::new();
                // The note is not truncated before the lock is held: until then it may be the note
                // of a landing that lives.
                options.read(true).write(true).create(true).open(&path)
            });
            let file = made.at("could not write", &path)?;
            // One that clears up removes the note before it lets go of it. What is written to a file without a name would be found by
            // no next landing.
            if file.try_lock().is_ok() && is_same_file(&file, &path) {
                break file;
            }
            // One that clears up looks at a note for a moment. Who can read it can hold it for longer, and is not waited for.
            if tries.next().is_none() {
                let what = format!("another process holds {}", path.display());
                return Err(Error::new(Code::LockTimeout, what)
                    .hint(format!("to see which one, run fuser -v {}", path.display())));
            }
            std::thread::sleep(PAUSE);
        };
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{old} {new}\n").as_bytes()));
        written.at("could not write", &path)?;
        Ok(LandingNote { path, _file: file })
    }

    /// Removes the note of a landing that was killed, where the caller knows that nothing of it is to be moved back.
    ///
    /// # Errors
    /// As for taking a note.
    pub fn forget_landing(&self) -> Result<()> {
        // Zeros name no tree, so a kill in between leaves a note that moves nothing.
        self.note_landing((Oid::ZERO, Oid::ZERO)).map(drop)
    }

    /// Moves back what a killed landing wrote before it wrote the index.
    ///
    /// # Errors
    /// Those of git and the file system; `lock-timeout`.
    pub(super) fn undo_interrupted(&self, repo: &Repo) -> Result<()> {
        let path = self.note_path();
        let Ok(mut note) = File::open(&path) else {
            return Ok(());
        };
        // One that is locked is of a landing that lives, one that is gone of one that has ended.
        if note.try_lock().is_err() || !is_same_file(&note, &path) {
            return Ok(());
        }
        let mut text = String::new();
        let read = Read::by_ref(&mut note).take(LONGEST_NOTE);
        { read }
            .read_to_string(&mut text)
            .at("could not read", &path)?;
        let trees = text.trim_end().split_once(' ');
        let trees = trees.and_then(|(old, new)| Some((Oid::from_hex(old)?, Oid::from_hex(new)?)));
        // One without them was begun, and the landing was not.
        if let Some((old, new)) = trees {
            if self.is_staged_only(repo, old, new) {
                // The branch does not have what index and files do, and may never get it: the next landing may be of other work. Where they
                // were changed since, they stay, and are in the way of what touches them.
                let back = (new, old);
                let _ = self.carry_by_git(Way::of(repo, back, back)?);
            } else {
                self.undo_landing(&Way::of(repo, (old, new), (old, new))?)?;
            }
        }
        // The note goes last: a kill during the undoing leaves it, and the next landing undoes the
        // rest.
        fs::remove_file(&path).at("could not remove", &path)
    }

    /// Whether the index is at the tree `new`, and the branch that is checked out is still at `old`.
    fn is_staged_only(&self, repo: &Repo, old: Oid, new: Oid) -> bool {
        let head = self.head();
        let tip = head.strip_prefix("ref: ").map(|branch| repo.tip(branch));
        let tip = tip.and_then(|tip| tip.ok()?.oid());
        let is_old = tip.is_some_and(|tip| repo.read_commit(tip).is_ok_and(|it| it.tree == old));
        is_old && old != new && self.staged_tree(repo).is_ok_and(|tree| tree == new)
    }

    fn undo_landing(&self, way: &Way<'_>) -> Result<()> {
        let own = self.own_index()?;
        let (staged, changed) = self.look_into(own.copy())?;
        let mut files = way.files()?;
        // Three things make a file the landing's: the index still holds the old side, the landing
        // would have changed it, and the disk differs. `remove_begun` adds the fourth, its content.
        files.retain(|Difference { path, old, .. }| {
            staged.get(path).copied() == *old && (old.is_none() || changed.contains(path))
        });
        let mut emptied = Vec::new();
        for file in files {
            if self.remove_begun(way.repo(), &file.path, file.new, own.copy())? {
                match file.old {
                    Some(_) => emptied.push(file.path),
                    None => self.remove_empty_above(&file.path),
                }
            }
        }
        // A file that the landing had only removed yet is not told from one that a person removed, and stays away; it is in the
        // way of nothing.
        self.write_missing(&emptied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::command;

    #[test]
    fn a_note_that_was_cleared_up_while_it_was_waited_for_is_made_anew() {
        let top = tempfile::tempdir().expect("a directory");
        command::run(top.path(), ["init", "--quiet", "--initial-branch=main"]).expect("git");
        let repo = Repo::open(top.path()).expect("a repository");
        let checkouts = repo.checkouts("refs/heads/main").expect("its worktrees");
        let checkout = checkouts.first().expect("the main one");
        let path = checkout.note_path();
        fs::create_dir_all(path.parent().expect("above it")).expect("made");
        let held = File::create(&path).expect("a note of the dead");
        held.lock().expect("held by one that clears up");
        let clearing = std::thread::spawn({
            let path = path.clone();
            move || {
                std::thread::sleep(PAUSE * 3);
                fs::remove_file(path).expect("removed");
                drop(held);
            }
        });
        let trees = (Oid::EMPTY_TREE, Oid::EMPTY_TREE);
        let note = checkout.note_landing(trees).expect("the note");
        clearing.join().expect("cleared up");
        let text = fs::read_to_string(&path).expect("the next landing finds it");
        assert!(text.starts_with(&Oid::EMPTY_TREE.to_hex()), "{text}");
        drop(note);
        assert!(!path.exists());
    }
}
