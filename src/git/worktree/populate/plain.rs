//! Files whose bytes are their blobs' bytes: copied where a source has them, else from objects.
//!
//! The proof that a source's file is right is its hash. Git's own proof, that the file's stat equals
//! its index entry, says only that the file was clean under the attributes of then, by an index
//! that the worktree's owner can write. The hash needs neither trust nor a second look at the
//! file: what is hashed is what is written. It costs one SHA-1 over every byte and saves reading the
//! source's index.
//!
//! A file above [`BUFFER`] is cloned first where the file system can share its blocks, and the clone
//! is hashed: no other process writes to it.

use super::attributes::{self, Form, forms, has_converting_word};
use super::destination::{Destination, file_name};
use super::listing::{Listing, canonical_mode, require_safe_name};
use super::open;
use crate::domain::Oid;
use crate::domain::paths::change::Content;
use crate::domain::paths::path::split_name;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::core::tree::{FILE, GITLINK, SYMLINK};
use crate::git::files::untrusted;
use crate::system;
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::{Mode as EntryMode, Stat};
use gix::index::{Entry, PathStorageRef};
use gix::objs::{Find, FindHeader, Kind};
use gix::validate::path::component;
use gix::worktree::stack::state::attributes::Source;
use rustix::fs::{Mode, OFlags};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Files up to this size are read whole.
const BUFFER: usize = 128 << 10;

/// One directory in the two worktrees.
struct OpenPair {
    to: OwnedFd,
    /// `None` where the source has none.
    from: Option<OwnedFd>,
}

/// Writes plain files and the directories on the way to every entry; one per thread.
pub(super) struct Writer<'a, Objects> {
    objects: Objects,
    source: Option<&'a CopySource>,
    destination: &'a Destination,
    /// The directory of the last entry: it and its parents exist.
    directory: &'a [u8],
    open: Option<OpenPair>,
    buffer: Vec<u8>,
    blob: Vec<u8>,
    copied: usize,
    checked_out: usize,
}

impl<'a, Objects: Find + FindHeader> Writer<'a, Objects> {
    /// A writer that prefers `source`.
    pub(super) fn new(
        objects: Objects,
        source: Option<&'a CopySource>,
        destination: &'a Destination,
    ) -> Self {
        Writer {
            objects,
            source,
            destination,
            directory: &[],
            open: None,
            buffer: vec![0; if source.is_some() { BUFFER } else { 0 }],
            blob: Vec::new(),
            copied: 0,
            checked_out: 0,
        }
    }

    /// Makes the directories that lead to an entry; writes it and records its stat if it is a plain
    /// file, makes the empty directory of a submodule, and leaves everything else to others.
    ///
    /// # Errors
    /// `repo-corrupt` when the blob is missing or broken; `path-exists`, `disk-full`, `io`.
    pub(super) fn write(
        &mut self,
        entry: &mut Entry,
        form: Form,
        paths: &'a PathStorageRef,
    ) -> Result<()> {
        let path = entry.path_in(paths);
        // Directories are made for every form: the converted files and the symlinks come later and
        // expect them.
        let open = self.enter(path)?;
        match form {
            Form::Plain => {
                entry.stat = self.write_file(&open, entry, path)?;
            }
            Form::Submodule => self.destination.create_directory(path)?,
            Form::Converted | Form::Symlink | Form::OnlyGit => {}
        }
        self.open = Some(open);
        Ok(())
    }

    /// How many files came from the source.
    pub(super) fn copied(&self) -> usize {
        self.copied
    }

    /// How many files came from the object database.
    pub(super) fn checked_out(&self) -> usize {
        self.checked_out
    }

    /// Makes the directories above `path` that are not above the entry before it too, and opens the last of them.
    fn enter(&mut self, path: &'a [u8]) -> Result<OpenPair> {
        let directory = parent(path);
        if let Some(open) = self.open.take_if(|_| self.directory == directory) {
            return Ok(open);
        }
        let shared =
            self.directory.iter().zip(directory).take_while(|(one, other)| one == other).count();
        // Entries ascend, so only what differs from the last directory can be new. Another thread
        // may have made it too; an existing directory is no error.
        for end in (shared..=directory.len()).filter(|&end| end > 0) {
            let is_whole = directory.get(end).is_none_or(|&byte| byte == b'/');
            let was_made =
                // The shared part may end within a name: `ab` and `ac` share `a`, which is no
                // directory.
                end == shared && self.directory.get(end).is_none_or(|&byte| byte == b'/');
            if let Some(directory) = directory.get(..end).filter(|_| is_whole && !was_made) {
                self.destination.create_directory(directory)?;
            }
        }
        self.directory = directory;
        Ok(OpenPair {
            to: self.destination.open_directory(directory)?,
            from: { self.source }.and_then(|source| source.directory(directory)),
        })
    }

    fn write_file(&mut self, open: &OpenPair, entry: &Entry, path: &BStr) -> Result<Stat> {
        if let Some(stat) = self.copy(open, entry, path)? {
            self.copied += 1;
            return Ok(stat);
        }
        let blob = read_blob(&self.objects, entry, path, &mut self.blob)?;
        self.checked_out += 1;
        self.destination.write_file(&open.to, path, entry.mode, blob)
    }

    fn copy(&mut self, open: &OpenPair, entry: &Entry, path: &BStr) -> Result<Option<Stat>> {
        // What is empty is made faster than copied.
        let Some(directory) = open.from.as_ref().filter(|_| !entry.id.is_empty_blob()) else {
            return Ok(None);
        };
        let Some(from) = open_file(directory, file_name(path)) else {
            return Ok(None);
        };
        // One call gives a whole file that is smaller than the buffer. Less than the whole file, as from
        // anything that is no file, does not hash to its name.
        let Ok(length) = rustix::io::pread(&from, &mut *self.buffer, 0) else {
            return Ok(None);
        };
        let content = self.buffer.get(..length).unwrap_or_default();
        // A full buffer means that there may be more.
        if length == self.buffer.len() {
            return self.copy_large(&open.to, entry, path, from);
        }
        if object_name("blob", content) != entry.id.as_bytes() {
            return Ok(None);
        }
        self.destination.write_file(&open.to, path, entry.mode, content).map(Some)
    }

    fn copy_large(
        &mut self,
        directory: &OwnedFd,
        entry: &Entry,
        path: &BStr,
        mut from: File,
    ) -> Result<Option<Stat>> {
        // The size is looked up first, so that no file is read without end.
        let size = match self.objects.try_header(&entry.id) {
            Ok(Some(header)) => header.size,
            _ => return Ok(None),
        };
        if !from.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == size) {
            return Ok(None);
        }
        let mut to = self.destination.create_file(directory, path, entry.mode)?;
        // What is hashed is the clone, which has blocks of its own from now on: a writer of the
        // source cannot change it after the hash.
        let copied = if system::clone_blocks(&to, &from) {
            hash_through(&mut to, &mut std::io::sink(), size, &mut self.buffer)
        } else {
            hash_through(&mut from, &mut to, size, &mut self.buffer)
        };
        let copied =
            copied.map_err(|error| self.destination.io_error("could not write", path, error))?;
        if copied == entry.id.as_bytes() {
            return self.destination.seal(&to, path).map(Some);
        }
        // A wrong copy is removed, and the caller writes the file from its object under the same
        // name.
        self.destination.remove_file(directory, path)?;
        Ok(None)
    }
}

/// The directory that a path is in; empty at the top.
fn parent(path: &[u8]) -> &[u8] {
    split_name(path).map_or(b"", |(directory, _)| directory)
}

/// The content of an entry's blob.
///
/// # Errors
/// `repo-corrupt` when it is missing or no blob.
pub(super) fn read_blob<'b>(
    objects: &impl Find,
    entry: &Entry,
    path: &gix::bstr::BStr,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    if entry.id.is_empty_blob() {
        return Ok(&[]);
    }
    let corrupt = |what: &str| {
        Error::new(Code::RepoCorrupt, format!("blob {} {what}: {path}", entry.id))
            .hint("to check the repository, run git fsck")
    };
    match objects.try_find(&entry.id, buffer) {
        Ok(Some(object)) if object.kind == Kind::Blob => Ok(object.data),
        Ok(Some(_)) => Err(corrupt("is no blob")),
        Ok(None) => Err(corrupt("is missing")),
        Err(error) => Err(corrupt("could not be read").because(error.to_string())),
    }
}

/// The name that git gives to an object: the SHA-1 of kind, size and content.
pub(super) fn object_name(kind: &str, content: &[u8]) -> [u8; 20] {
    let hasher = hasher(kind, content.len() as u64);
    hasher.chain_update(content).finalize().into()
}

/// A hasher that gives the name of an object once it has seen the `size` bytes of its content.
fn hasher(kind: &str, size: u64) -> Sha1 {
    Sha1::new().chain_update(format!("{kind} {size}\0"))
}

/// Moves `size` bytes and gives the name of the blob that they make. One byte more is asked for, so
/// that a file that grew meanwhile hashes to something else.
fn hash_through(
    from: &mut impl Read,
    to: &mut impl Write,
    size: u64,
    buffer: &mut [u8],
) -> std::io::Result<[u8; 20]> {
    let mut hasher = hasher("blob", size);
    let mut from = from.take(size + 1);
    loop {
        let length = from.read(buffer)?;
        if length == 0 {
            return Ok(hasher.finalize().into());
        }
        // What a reader tells of more than it has does not come to the name of the blob.
        let read = buffer.get(..length).unwrap_or_default();
        hasher.update(read);
        to.write_all(read)?;
    }
}

// A worktree that may already hold the bytes that the new one needs.
//
// Nothing about it is believed: not its index, which may have been written before the attributes
// changed, and which an agent can write; not its directories, which an agent can replace by
// symlinks. It is only read, below its root and through no symlink, and what was read counts when
// it hashes to the blob's name (see [`super::plain`]). So any directory is a safe source, and the
// choice is about speed alone.

/// At most this many linked worktrees are considered, so that a repository with thousands of agents
/// is not slower to spawn in.
const MOST_CANDIDATES: usize = 64;

/// The top of a worktree to copy from.
pub(super) struct CopySource {
    root: OwnedFd,
    path: PathBuf,
    index: Option<PathBuf>,
}

impl CopySource {
    /// Chooses the worktree that most likely holds the files of `tree`: one whose HEAD has that very
    /// tree, the main worktree before linked ones; else the main worktree; else any.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub(super) fn choose(
        repo: &Repo,
        gix: &gix::Repository,
        tree: Oid,
        destination: &Path,
    ) -> Result<Option<CopySource>> {
        let mut fallback = None;
        if let Some(main) = repo.main_worktree()? {
            if head_tree(gix, repo.common_dir()) == Some(tree) {
                let index = repo.common_dir().join("index");
                return Ok(
                    CopySource::open(main).map(|main| CopySource { index: Some(index), ..main })
                );
            }
            fallback = Some(main);
        }
        for (admin_dir, worktree) in linked(repo.common_dir()) {
            // A worktree that is itself being filled has few files yet, and its HEAD already names
            // the tree.
            if worktree == destination || is_initializing(&admin_dir) {
                continue;
            }
            if head_tree(gix, &admin_dir) == Some(tree) {
                return Ok(CopySource::open(worktree));
            }
            fallback.get_or_insert(worktree);
        }
        Ok(fallback.and_then(CopySource::open))
    }

    fn open(path: PathBuf) -> Option<CopySource> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        Some(CopySource { root, path, index: None })
    }

    /// An index that probably holds the tree.
    pub(super) fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }

    /// The top of the worktree.
    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Opens a directory, the top where the path is empty; `None` when it is not there or a symlink is on the way to it.
    pub(super) fn directory(&self, path: &[u8]) -> Option<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        system::open_directory(self.root.as_fd(), path).ok()
    }
}

/// Opens a file of a directory for reading; `None` when it is not there or a symlink.
/// Whatever else may be there (a pipe, a device) neither blocks nor becomes our terminal.
pub(super) fn open_file(directory: &OwnedFd, name: &[u8]) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).ok().map(File::from)
}

/// The linked worktrees: admin dir and top.
fn linked(common_dir: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    std::fs::read_dir(common_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_CANDIDATES)
        .filter_map(|entry| {
            let admin_dir = entry.path();
            let gitdir = untrusted::text(&admin_dir, "gitdir")?;
            let gitdir = gix::path::from_byte_slice(gitdir.trim_end().as_bytes()).ok()?;
            // With `worktree.useRelativePaths` the path starts from the admin dir.
            let top = admin_dir.join(gitdir).parent()?.to_owned();
            Some((admin_dir, top))
        })
}

fn is_initializing(admin_dir: &Path) -> bool {
    untrusted::text(admin_dir, "locked").is_some_and(|reason| reason.starts_with("initializing"))
}

fn head_tree(gix: &gix::Repository, git_dir: &Path) -> Option<Oid> {
    let head = untrusted::text(git_dir, "HEAD")?;
    let commit = match head.trim_end().strip_prefix("ref: ") {
        Some(name) => gix.find_reference(name).ok()?.peel_to_id().ok()?.detach(),
        None => gix::ObjectId::from_hex(head.trim_end().as_bytes()).ok()?,
    };
    let tree = gix.find_commit(commit).ok()?.tree_id().ok()?;
    Oid::from_slice(tree.as_bytes())
}

// Whether a few files of a worktree that is checked out already are their blobs' bytes.

/// Whether git would write each of these files with the bytes of its blob, or as a symlink. `attributes` are the files of
/// attributes that the same tree has in the directories above them. `false` in any doubt.
pub(in crate::git) fn are_plain(
    repo: &Repo,
    worktree: &Path,
    attributes: &BTreeMap<Vec<u8>, Content>,
    files: &BTreeMap<&[u8], Content>,
) -> bool {
    let Some(gix) = open(worktree, Vec::new()).filter(|gix| !attributes::is_needed(gix)) else {
        return false;
    };
    let Ok(options) = gix.checkout_options(Source::IdMapping) else {
        return false;
    };
    if files.values().any(|(mode, _)| *mode == GITLINK) {
        return false;
    }
    let mut all = files.clone();
    for (path, content) in attributes {
        // Git and gitoxide differ about all others.
        if content.0 != FILE {
            return false;
        }
        all.insert(path, *content);
    }
    let Some(listing) = listing(&all, options.validate) else {
        return false;
    };
    // Most repositories ask for nothing, and the objects are open here.
    let may_ask = |(_, blob): &Content| {
        let content = repo.read_blob(*blob);
        content.map_or(true, |content| has_converting_word(&content))
    };
    if attributes::may_convert_outside(&gix, &listing).is_ok_and(|may| !may)
        && (options.fs.symlink || !files.values().any(|(mode, _)| *mode == SYMLINK))
        && !attributes.values().any(may_ask)
    {
        return true;
    }
    let is_plain = |(form, (mode, _)): (Form, &Content)| match canonical_mode(*mode) {
        Some(EntryMode::SYMLINK) => form == Form::Symlink,
        _ => form == Form::Plain,
    };
    // One thread: there are few files, and starting others costs more than matching them.
    let forms = forms(&gix.into_sync(), &listing, options.fs.symlink, 1);
    forms.is_ok_and(|forms| forms.into_iter().zip(all.values()).all(is_plain))
}

/// Whether the settings of a git dir, or a file of attributes in no worktree, may ask for a conversion of some file.
pub(in crate::git) fn may_convert_outside(git_dir: &Path) -> bool {
    let Some(gix) = open(git_dir, Vec::new()) else {
        return true;
    };
    attributes::has_other_attributes(&gix)
        || attributes::may_convert_outside(&gix, &Listing::new()).unwrap_or(true)
}

/// Whether every git, on any system, takes a file of this mode at this path.
pub(in crate::git) fn is_safe_name(path: &[u8], mode: u32) -> bool {
    // By default all systems are thought of.
    let every = component::Options::default();
    let (shown, mode) = (path.as_bstr(), canonical_mode(mode));
    path.split(|&byte| byte == b'/').all(|name| require_safe_name(name, mode, shown, every).is_ok())
}

/// `None` where a name is not safe to write.
fn listing(files: &BTreeMap<&[u8], Content>, validate: component::Options) -> Option<Listing> {
    let mut listing = Listing::new();
    for (path, (mode, oid)) in files {
        let mode = canonical_mode(*mode)?;
        let shown: &BStr = path.as_bstr();
        let mut names = path.split(|&byte| byte == b'/').rev();
        require_safe_name(names.next()?, Some(mode), shown, validate).ok()?;
        for name in names {
            require_safe_name(name, None, shown, validate).ok()?;
        }
        listing.push(mode, *oid, shown).ok()?;
    }
    Some(listing)
}
