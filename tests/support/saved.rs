//! A prepared directory that tests bring back, instead of preparing it again for each thing that they try.

use super::make_hooks_writable;
use std::collections::BTreeMap;
use std::fs::{self, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The content of a directory, which [`Saved::restore`] brings back under the same paths, as worktrees need it. Only
/// what changed is written: making files is most of what preparing a repository costs.
pub struct Saved {
    directory: PathBuf,
    entries: BTreeMap<PathBuf, Entry>,
}

struct Entry {
    content: Content,
    metadata: Metadata,
}

enum Content {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
    Fifo,
}

impl Saved {
    /// Reads what is in a directory now.
    pub fn of(directory: &Path) -> Saved {
        let found = entries(directory).into_iter();
        let read = |(path, metadata): (PathBuf, Metadata)| {
            let kind = metadata.file_type();
            let content = if kind.is_dir() {
                Ok(Content::Directory)
            } else if kind.is_symlink() {
                fs::read_link(&path).map(Content::Link)
            } else if kind.is_fifo() {
                Ok(Content::Fifo)
            } else {
                fs::read(&path).map(Content::File)
            };
            match content {
                // A process that goes on in the background removes what nobody needs.
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                content => Some((path, Entry { content: content.expect("readable"), metadata })),
            }
        };
        Saved { directory: directory.to_owned(), entries: found.filter_map(read).collect() }
    }

    /// Brings it back.
    pub fn restore(&mut self) {
        make_hooks_writable(&self.directory);
        // What is deeper sorts behind what is above it.
        for (path, metadata) in entries(&self.directory).into_iter().rev() {
            let known = self.entries.get(&path);
            if known.is_some_and(|entry| entry.is(&metadata)) {
                continue;
            }
            let remove = || {
                if metadata.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }
            };
            let removed = remove().or_else(|_| {
                // Hooks that a discard has moved away are in a directory that only root can change as it is.
                let parent = path.parent().expect("below the directory");
                fs::set_permissions(parent, Permissions::from_mode(0o700)).and_then(|()| remove())
            });
            // A process that goes on in the background may be removing it, too.
            let is_gone = removed.is_ok() || fs::symlink_metadata(&path).is_err();
            assert!(is_gone, "{}: {removed:?}", path.display());
        }
        for (path, entry) in &mut self.entries {
            entry.restore(path);
        }
        let directories = self.entries.iter().rev();
        for (path, entry) in directories.filter(|(_, entry)| entry.metadata.is_dir()) {
            let mode = fs::metadata(path).expect("there").permissions();
            if mode != entry.metadata.permissions() {
                fs::set_permissions(path, entry.metadata.permissions()).expect("set");
            }
        }
    }
}

impl Entry {
    /// Whether this was not touched since it was read.
    fn is(&self, found: &Metadata) -> bool {
        let known = &self.metadata;
        let stamp = |of: &Metadata| (of.ino(), of.ctime(), of.ctime_nsec());
        known.is_dir() && found.is_dir() || stamp(known) == stamp(found)
    }

    fn restore(&mut self, path: &Path) {
        if fs::symlink_metadata(path).is_ok() {
            return;
        }
        match &self.content {
            Content::Directory => fs::create_dir(path).expect("made"),
            Content::Link(target) => symlink(target, path).expect("linked"),
            Content::Fifo => {
                let made = Command::new("mkfifo").arg(path).status();
                assert!(made.expect("mkfifo starts").success());
            }
            Content::File(content) => {
                fs::write(path, content).expect("written");
                let file = fs::File::options().append(true).open(path).expect("opened");
                let modified = self.metadata.modified().expect("a time");
                file.set_modified(modified).expect("dated");
                let mode = Permissions::from_mode(self.metadata.mode());
                fs::set_permissions(path, mode).expect("set");
            }
        }
        // The rights of a directory are set when everything is in it.
        if !matches!(self.content, Content::Directory) {
            self.metadata = fs::symlink_metadata(path).expect("there");
        }
    }
}

/// Everything below a directory; what is removed meanwhile is not in it.
fn entries(directory: &Path) -> BTreeMap<PathBuf, Metadata> {
    let gone = |error: &walkdir::Error| {
        error.io_error().map(std::io::Error::kind) == Some(ErrorKind::NotFound)
    };
    let below = walkdir::WalkDir::new(directory).min_depth(1);
    let found = below.into_iter().filter_map(|entry| {
        let found = entry.and_then(|entry| Ok((entry.metadata()?, entry.into_path())));
        assert!(found.is_ok() || found.as_ref().is_err_and(gone), "{found:?}");
        found.ok().map(|(metadata, path)| (path, metadata))
    });
    found.collect()
}
