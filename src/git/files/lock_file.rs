//! Lock files of git's protocol (`index.lock`, `refs/heads/main.lock`) that tell whether their owner lives.
//!
//! A lock file that git or libgit2 makes does not say whose it is, so what a killed process left looks like the lock of
//! one that takes its time. Every lock file of ours is therefore a second name of a file in a directory of ours, beside
//! a note on which its owner has an OS lock:
//!
//! ```text
//! agents/locks/<name>         the note: which lock file; the OS lock of the owner, and of a git that it started
//! agents/locks/<name>.body    the same file as the lock file
//! ```
//!
//! A git that we start to talk to a remote takes locks by itself, and may be killed with us. Its note lists the lock files that it may
//! leave, begins with `child` and has no body; what is left is then a file that is younger than the note and that no process has open.
//!
//! Once the kernel grants the OS lock to another process, the owner and its git are both dead. If the lock file still is
//! the same file as the body, it is what they left. Any other lock file belongs to another program and stays.

use super::admin_dir::retry_if_pruned;
use crate::domain::value::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::system::Holders;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory of notes, below the common dir.
pub(in crate::git) const NOTES: &str = "agents/locks";

/// What the name of a body ends with.
const BODY: &str = "body";

/// What the names of other files end with that go when a note does: a file that is being made, and a git's lock of it.
const BESIDE: [&str; 2] = ["new", "new.lock"];

/// What a note about the locks of a child begins with; no path does.
const CHILD: &str = "child\n";

/// The longest note, in bytes: a fetch of ten thousand branches.
const LONGEST_NOTE: u64 = 1 << 20;

/// A lock file, removed when this is dropped.
#[must_use = "the lock file is removed when this is dropped"]
#[derive(Debug)]
pub(in crate::git) struct LockFile {
    path: PathBuf,
    body: File,
    /// `None` where the file system has no links, so that nothing proves whose the lock file is.
    note: Option<Note>,
    is_published: bool,
}

/// What says whose a lock file is.
#[derive(Debug)]
struct Note {
    path: PathBuf,
    file: File,
}

impl Note {
    fn body(&self) -> PathBuf {
        self.path.with_extension(BODY)
    }

    /// Writes a new note about a lock file and takes its OS lock.
    fn about(common_dir: &Path, lock: &Path) -> Result<Note> {
        let text = lock.strip_prefix(common_dir).unwrap_or(lock);
        Note::write(common_dir, text.as_os_str().as_encoded_bytes())
    }

    fn write(common_dir: &Path, text: &[u8]) -> Result<Note> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let directory = common_dir.join(NOTES);
        let fail = "could not write";
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{}-{count}", std::process::id()));
            let mut options = OpenOptions::new();
            let made = retry_if_pruned(|| {
                fs::create_dir_all(&directory)?;
                options.read(true).write(true).create_new(true).open(&path)
            });
            let mut file = match made {
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.at(fail, &path)?,
            };
            // A process that clears up can find the note before it is locked, and removes it.
            if file.try_lock().is_err() || !is_same_file(&file, &path) {
                continue;
            }
            file.write_all(text).at(fail, &path)?;
            return Ok(Note { path, file });
        }
    }

    /// The note at a path, if its owner is dead; then this process owns it.
    fn of_the_dead(path: PathBuf) -> Option<Note> {
        let file = File::open(&path).ok()?;
        file.try_lock().ok()?;
        is_same_file(&file, &path).then_some(Note { path, file })
    }

    /// The lock files that its owner left.
    fn left(&mut self, common_dir: &Path) -> Vec<PathBuf> {
        let mut text = String::new();
        let limited = Read::by_ref(&mut self.file).take(LONGEST_NOTE);
        if { limited }.read_to_string(&mut text).is_err() {
            return Vec::new();
        }
        if let Some(locks) = text.strip_prefix(CHILD) {
            let locks = locks.lines().map(|lock| common_dir.join(lock)).collect();
            return self.left_by_child(locks);
        }
        let Ok(body) = fs::symlink_metadata(self.body()) else {
            return Vec::new();
        };
        let is_body = |path: &PathBuf| {
            let found = fs::symlink_metadata(path);
            found.is_ok_and(|found| (found.dev(), found.ino()) == (body.dev(), body.ino()))
        };
        if text.is_empty() && body.nlink() > 1 {
            // A power loss can take what a note says, and its body still leads to the lock file.
            let is_looked_into = |entry: &walkdir::DirEntry| entry.file_name() != "objects";
            let all = walkdir::WalkDir::new(common_dir).into_iter();
            let all = all.filter_entry(is_looked_into).flatten();
            let locks = all.map(walkdir::DirEntry::into_path);
            return { locks }
                .filter(|path| path.extension().is_some_and(|end| end == "lock") && is_body(path))
                .collect();
        }
        // A note whose owner was killed before it wrote anything names the common directory itself,
        // which is no body.
        let lock = common_dir.join(text);
        is_body(&lock).then_some(lock).into_iter().collect()
    }

    /// Of the lock files that a child may have left, those that it did leave.
    fn left_by_child(&self, mut locks: Vec<PathBuf>) -> Vec<PathBuf> {
        // A file that is older than the note was there before the child was started, so another
        // program made it.
        let noted = self.file.metadata().and_then(|note| note.modified());
        let is_younger = |lock: &PathBuf| {
            let found = fs::symlink_metadata(lock).ok().filter(|found| found.is_file());
            let made = found.and_then(|found| found.modified().ok());
            made.zip(noted.as_ref().ok()).is_some_and(|(made, noted)| made >= *noted)
        };
        locks.retain(is_younger);
        if locks.is_empty() {
            return locks;
        }
        // Another program may have the same lock by now.
        let Some(holders) = Holders::look(&[]) else {
            return Vec::new();
        };
        locks.retain(|lock| {
            let found = fs::symlink_metadata(lock);
            found.is_ok_and(|found| holders.of(&found).is_none())
        });
        locks
    }

    /// The file for a child, which has the OS lock with it, and reads nothing.
    fn shared(&self) -> Result<Stdio> {
        let mut file = self.file.try_clone().at("could not share", &self.path)?;
        // The child shares the offset of this file. At its end there is nothing to read, so a child
        // that reads its standard input sees it end.
        file.seek(std::io::SeekFrom::End(0)).at("could not share", &self.path)?;
        Ok(file.into())
    }

    fn remove(&self) {
        // The body goes first: one without a note would never be found.
        let _ = fs::remove_file(self.body());
        for extension in BESIDE {
            let _ = fs::remove_file(self.path.with_extension(extension));
        }
        let _ = fs::remove_file(&self.path);
    }
}

impl LockFile {
    /// Takes the lock file at `path`, clearing what dead processes of ours left. `None` while another process has it.
    ///
    /// # Errors
    /// `io`, `disk-full`, `repo-read-only`.
    pub(in crate::git) fn take(common_dir: &Path, path: &Path) -> Result<Option<LockFile>> {
        let note = Note::about(common_dir, path)?;
        let taken = Self::take_noted(common_dir, path, &note);
        if !matches!(&taken, Ok(Some(_))) {
            note.remove();
        }
        Ok(taken?.map(|(body, is_linked)| {
            // Without the second name nothing proves whose the lock file is, so a note about it
            // would be worth nothing.
            if !is_linked {
                note.remove();
            }
            LockFile {
                path: path.to_owned(),
                body,
                note: is_linked.then_some(note),
                is_published: false,
            }
        }))
    }

    /// The open lock file, and whether it is the note's body.
    fn take_noted(common_dir: &Path, path: &Path, note: &Note) -> Result<Option<(File, bool)>> {
        let body_path = note.body();
        // The body exists before it is linked, so that the lock file appears with the identity that
        // the note vouches for.
        let body = File::create_new(&body_path).at("could not write", &body_path)?;
        loop {
            let linked = retry_if_pruned(|| {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::hard_link(&body_path, path)
            });
            match linked {
                Ok(()) => return Ok(Some((body, true))),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    // The lock was given back between the two calls, or a name above the lock file
                    // is taken: a directory in the place of a file gives the same error.
                    if fs::symlink_metadata(path).is_err() {
                        // What is in the place of a directory stays there. A directory that was swept away while it
                        // was made is made again.
                        let mut above = path.ancestors().skip(1);
                        if above.any(|above| fs::symlink_metadata(above).is_ok() && !above.is_dir())
                        {
                            return Err(error).at("could not lock", path);
                        }
                        continue;
                    }
                    // What was cleared may be this very lock, so it is tried again; where nothing
                    // was left, its owner lives.
                    if clear_left(common_dir)?.is_empty() {
                        return Ok(None);
                    }
                }
                Err(error) if has_no_links(&error) => {
                    // Git's own protocol: the process that creates the file has the lock.
                    let file = match File::create_new(path) {
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
                        made => made.at("could not lock", path)?,
                    };
                    return Ok(Some((file, false)));
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    let above = shell::path(path.parent().unwrap_or(path));
                    let what = format!("could not lock {}", path.display());
                    return Err(Error::new(Code::RepoReadOnly, what)
                        .hint(format!("to see who may write there, run ls -ld {above}"))
                        .because(error));
                }
                Err(error) => return Err(error).at("could not lock", path),
            }
        }
    }

    /// What a child process gets as its standard input, empty, or as an output that it does not use, so that the lock file counts as left only when that is
    /// dead as well.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn shared(&self) -> Result<Stdio> {
        self.note.as_ref().map_or(Ok(Stdio::null()), Note::shared)
    }

    /// An unused name for a file that is being made, which goes when the lock file does.
    pub(in crate::git) fn beside(&self) -> PathBuf {
        let note = self.note.as_ref().map_or(&self.path, |note| &note.path);
        note.with_extension(BESIDE[0])
    }

    /// Fills the lock file and gives it the name of what it locks.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(in crate::git) fn publish(self, content: &[u8]) -> Result<()> {
        self.publish_by(|mut body| body.write_all(content))
    }

    /// As [`LockFile::publish`], for a caller that writes the content.
    ///
    /// # Errors
    /// As [`LockFile::publish`], and what `write` fails with.
    pub(in crate::git) fn publish_by(
        self,
        write: impl FnOnce(&File) -> std::io::Result<()>,
    ) -> Result<()> {
        write(&self.body).at("could not write", &self.path)?;
        self.rename()
    }

    /// As [`LockFile::publish`], with something to do `before` the name is given and after what can fill the disk.
    ///
    /// # Errors
    /// As [`LockFile::publish`], and what `before` fails with.
    pub(in crate::git) fn publish_after(
        self,
        content: &[u8],
        before: impl FnOnce(&File) -> Result<()>,
    ) -> Result<()> {
        (&self.body).write_all(content).at("could not write", &self.path)?;
        before(&self.body)?;
        self.rename()
    }

    fn rename(mut self) -> Result<()> {
        let target = self.path.with_extension("");
        let renamed = match fs::rename(&self.path, &target) {
            // Directories that are left of refs whose names went on.
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                remove_empty_directories(&target);
                fs::rename(&self.path, &target)
            }
            renamed => renamed,
        };
        renamed.at("could not write", &target)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_published {
            // The lock file goes before the note: a note that outlives it is cleared by the next
            // process, and a lock file that outlives its note would block for good.
            let _ = fs::remove_file(&self.path);
        }
        if let Some(note) = &self.note {
            note.remove();
        }
    }
}

/// The note about lock files that a git which is about to be started may leave if it is killed. What it has left when this is dropped
/// is removed.
#[must_use = "the note goes when this is dropped"]
pub(in crate::git) struct ChildLocks {
    note: Note,
    locks: Vec<PathBuf>,
}

impl ChildLocks {
    /// Notes that a child may leave the locks of these refs and of the list of shallow commits.
    ///
    /// # Errors
    /// `io`, `disk-full`, `repo-read-only`.
    pub(in crate::git) fn of_refs<'n>(
        common_dir: &Path,
        refs: impl IntoIterator<Item = &'n str>,
    ) -> Result<ChildLocks> {
        let names: Vec<String> =
            refs.into_iter().chain(["shallow"]).map(|name| format!("{name}.lock")).collect();
        let text = format!("{CHILD}{}\n", names.join("\n"));
        Ok(ChildLocks {
            note: Note::write(common_dir, text.as_bytes())?,
            locks: names.iter().map(|name| common_dir.join(name)).collect(),
        })
    }

    /// What the child gets as its standard input, so that its locks count as left only when it is dead.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn shared(&self) -> Result<Stdio> {
        self.note.shared()
    }
}

impl Drop for ChildLocks {
    fn drop(&mut self) {
        // A child that ended well has renamed or removed its locks, and this finds nothing.
        for lock in self.note.left_by_child(std::mem::take(&mut self.locks)) {
            let _ = fs::remove_file(lock);
        }
        self.note.remove();
    }
}

/// The lock files that dead processes of ours left. Changes nothing.
///
/// # Errors
/// `io`.
pub fn left(common_dir: &Path) -> Result<Vec<PathBuf>> {
    let notes = notes_of_the_dead(common_dir)?.into_iter();
    Ok(notes.flat_map(|mut note| note.left(common_dir)).collect())
}

/// Removes the lock files that dead processes of ours left, and gives their paths.
///
/// # Errors
/// `io`.
pub fn clear_left(common_dir: &Path) -> Result<Vec<PathBuf>> {
    let mut cleared = Vec::new();
    for mut note in notes_of_the_dead(common_dir)? {
        for lock in note.left(common_dir) {
            // The OS lock of the note is held meanwhile, so no two processes clear the same lock
            // file.
            fs::remove_file(&lock).at("could not remove", &lock)?;
            cleared.push(lock);
        }
        note.remove();
    }
    Ok(cleared)
}

fn notes_of_the_dead(common_dir: &Path) -> Result<Vec<Note>> {
    let directory = common_dir.join(NOTES);
    let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = paths.filter(|path| path.extension().is_none());
    Ok(notes.filter_map(Note::of_the_dead).collect())
}

/// Whether a path still names the file that is open. As long as it is, no other file can get its inode number.
pub(in crate::git) fn is_same_file(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn has_no_links(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        // File systems refuse links with different errors: vfat says that it is not permitted, some
        // network file systems that it is not supported.
        ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::CrossesDevices
    ) || error.raw_os_error() == Some(rustix::io::Errno::MLINK.raw_os_error())
}

/// Removes a directory and those below it if there is no file in them.
pub(in crate::git) fn remove_empty_directories(top: &Path) {
    // Empty directories are removed from the deepest up. The first one that is not empty ends it: a
    // ref lives there.
    for entry in walkdir::WalkDir::new(top).contents_first(true) {
        let Ok(entry) = entry else {
            return;
        };
        if fs::remove_dir(entry.path()).is_err() {
            return;
        }
    }
}
