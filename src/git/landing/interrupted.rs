//! Undoing what a landing that was killed left of files half way.
//!
//! A kill can come between the moment in which a file is made and the one in which it holds all of its content. Such a file
//! looks like one that a person made meanwhile, so it would be in the way for good. A landing therefore notes what it is about to
//! do, below the common directory, and removes the note at its end:
//!
//! ```text
//! agents/locks/<git dir>.landing    the trees before and after, and the files that were missing before; its owner has an OS lock on it
//! ```
//!
//! The next process that gets the OS lock, and then the lock of the index, knows that the owner and its git are dead. What holds
//! the beginning of the new content, or all of it, and is unknown to the index, is the landing's; so is the absence of a file that
//! was not missing before. The index says what it said before, because it is written last. Where it says what comes after, and the branch has not moved, index and files go back; where it
//! says anything else, the landing was completed by other means, and nothing is touched.

use crate::domain::Oid;
use crate::domain::paths::change::Difference;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::retry_if_pruned;
use crate::git::files::lock_file::{NOTES, is_same_file};
use crate::git::landing::plain_files::beside;
use crate::git::landing::steps::Way;
use crate::git::landing::{Checkout, PAUSE};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

/// The longest note that is read, in bytes. A list of missing files that is longer is not written.
const LONGEST_NOTE: usize = 16 << 20;

/// What stands before the files that were missing, each with a zero byte at its end.
const MISSING: &[u8] = b"missing\n";

/// How often a note that another process holds is tried: for half a second.
const TRIES: usize = 20;

/// The note of a landing that is under way, removed when this is dropped.
#[must_use = "the landing counts as undone while the note is there"]
#[derive(Debug)]
pub struct LandingNote {
    path: PathBuf,
    /// Holds the OS lock.
    file: File,
    /// The length of what names the trees, in bytes.
    trees: u64,
}

impl LandingNote {
    /// Adds which of the files that are about to move are missing: all others that a kill leaves missing are the landing's to bring
    /// back.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn add_missing(&mut self, paths: &[&[u8]]) -> Result<()> {
        let ended = paths.iter().flat_map(|path| [*path, b"\0"]);
        let text: Vec<u8> = [MISSING].into_iter().chain(ended).flatten().copied().collect();
        if text.len() > LONGEST_NOTE / 2 {
            return Ok(());
        }
        // An earlier list counts no more: nothing had moved when this one was made.
        let written = (self.file.set_len(self.trees))
            .and_then(|()| self.file.seek(std::io::SeekFrom::End(0)))
            .and_then(|_| self.file.write_all(&text));
        written.at("could not write", &self.path)
    }
}

/// What the note of a killed landing says.
struct Noted {
    trees: (Oid, Oid),
    /// `None` where that was not written yet: no file had moved then.
    missing: Option<HashSet<Vec<u8>>>,
}

impl Noted {
    /// `None` for a landing that was to move nothing.
    fn parse(text: &[u8]) -> Option<Noted> {
        let mut lines = text.splitn(2, |&byte| byte == b'\n');
        let trees = std::str::from_utf8(lines.next()?).ok()?.split_once(' ')?;
        let trees = (Oid::from_hex(trees.0)?, Oid::from_hex(trees.1)?);
        let listed = lines.next().and_then(|rest| rest.strip_prefix(MISSING));
        let missing = listed.map(|listed| {
            let paths = listed.split(|&byte| byte == 0);
            paths.map(<[u8]>::to_vec).collect()
        });
        (trees.0 != trees.1).then_some(Noted { trees, missing })
    }
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
        let text = format!("{old} {new}\n");
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()));
        written.at("could not write", &path)?;
        let trees = text.len() as u64;
        Ok(LandingNote { path, file, trees })
    }

    /// Removes the note of a landing that was killed, where the caller knows that nothing of it is to be moved back.
    ///
    /// # Errors
    /// As for taking a note.
    pub fn forget_landing(&self) -> Result<()> {
        // Zeros name no tree, so a kill in between leaves a note that moves nothing.
        self.note_landing((Oid::ZERO, Oid::ZERO)).map(drop)
    }

    /// The note of a landing that was killed, if there is one, while its lock is held.
    fn note_of_the_dead(&self) -> Result<Option<(File, Option<Noted>)>> {
        let path = self.note_path();
        let Ok(mut note) = File::open(&path) else {
            return Ok(None);
        };
        // One that is locked is of a landing that lives, one that is gone of one that has ended.
        if note.try_lock().is_err() || !is_same_file(&note, &path) {
            return Ok(None);
        }
        let mut text = Vec::new();
        let mut read = Read::by_ref(&mut note).take(LONGEST_NOTE as u64);
        read.read_to_end(&mut text).at("could not read", &path)?;
        Ok(Some((note, Noted::parse(&text))))
    }

    /// Whether a landing was killed while it moved index and files here.
    ///
    /// # Errors
    /// `io`.
    pub fn is_landing_interrupted(&self) -> Result<bool> {
        let note = self.note_of_the_dead()?;
        Ok(note.is_some_and(|(_, noted)| noted.is_some()))
    }

    /// Moves back what a killed landing wrote before it wrote the index, and removed.
    ///
    /// # Errors
    /// Those of git and the file system; `lock-timeout`.
    pub fn undo_interrupted(&self, repo: &Repo) -> Result<()> {
        let Some((_note, noted)) = self.note_of_the_dead()? else {
            return Ok(());
        };
        let path = self.note_path();
        // One without trees was begun, and the landing was not.
        if let Some(Noted { trees, missing }) = noted {
            let (old, new) = trees;
            if self.is_staged_only(repo, old, new) {
                // The branch does not have what index and files do, and may never get it: the next landing may be of other work. Where they
                // were changed since, they stay, and are in the way of what touches them.
                let back = (new, old);
                let _ = self.carry_by_git(Way::of(repo, back, back)?, None);
            } else {
                self.undo_landing(&Way::of(repo, trees, trees)?, missing.as_ref())?;
            }
        }
        // The note goes last: a kill during the undoing leaves it, and the next landing undoes the
        // rest.
        fs::remove_file(&path).at("could not remove", &path)
    }

    /// Whether the index is at the tree `new`, and the branch that is checked out is still at `old`.
    fn is_staged_only(&self, repo: &Repo, old: Oid, new: Oid) -> bool {
        let head = self.head();
        let tip = head.strip_prefix("ref: ").map(|name| repo.branch_tip(name));
        let tip = tip.and_then(|tip| tip.ok()?.oid());
        let is_old = tip.is_some_and(|tip| repo.read_commit(tip).is_ok_and(|it| it.tree == old));
        is_old && old != new && self.staged_tree(repo).is_ok_and(|tree| tree == new)
    }

    fn undo_landing(&self, way: &Way<'_>, missing: Option<&HashSet<Vec<u8>>>) -> Result<()> {
        let own = self.own_index()?;
        let (staged, changed) = self.look_into(own.copy())?;
        let mut files = way.files()?;
        // Three things make a file the landing's: the index still holds the old side, the landing
        // would have changed it, and the disk differs. `remove_begun` adds the fourth, its content.
        files.retain(|Difference { path, old, .. }| {
            staged.get(path).copied() == *old && (old.is_none() || changed.contains(path))
        });
        let was_there = |path: &[u8]| missing.is_some_and(|missing| !missing.contains(path));
        let mut emptied = Vec::new();
        for file in files {
            let beside = beside(&file.path);
            if self.stat(&beside).is_some() {
                self.remove_begun(way.repo(), &beside, file.new, own.copy())?;
            }
            let is_begun = self.remove_begun(way.repo(), &file.path, file.new, own.copy())?;
            match file.old {
                None if is_begun => self.remove_empty_above(&file.path),
                Some(_) if is_begun || was_there(&file.path) => emptied.push(file.path),
                _ => {}
            }
        }
        // What was written there since stays.
        emptied.retain(|path| self.stat(path).is_none());
        self.write_missing(&emptied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::core::command;

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
