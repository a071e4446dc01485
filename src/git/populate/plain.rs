//! Files whose bytes are their blobs' bytes: copied where a source has them, else from objects.
//!
//! The proof that a source's file is right is its hash. Git's own proof, that the file's stat equals
//! its index entry, says only that the file was clean under the attributes of then, by an index
//! that whoever owns the worktree can write. The hash needs neither trust nor a second look at the
//! file: what is hashed is what is written. It costs one SHA-1 over every byte and saves reading the
//! source's index.
//!
//! A file above [`BUFFER`] is cloned first where the file system can share its blocks, and the clone
//! is hashed: nobody else writes to it.

use super::destination::Destination;
use super::source::Source;
use crate::error::{Code, Error, Result};
use gix::index::entry::Stat;
use gix::index::{Entry, PathStorageRef};
use gix::objs::{Find, FindHeader, Kind};
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{Read, Write};

/// Files up to this size are read whole.
const BUFFER: usize = 128 << 10;

/// Writes plain files; one per thread.
pub(super) struct Writer<'a, Objects> {
    objects: Objects,
    source: Option<&'a Source>,
    destination: &'a Destination,
    paths: &'a PathStorageRef,
    buffer: Vec<u8>,
    blob: Vec<u8>,
    copied: usize,
    checked_out: usize,
}

impl<'a, Objects: Find + FindHeader> Writer<'a, Objects> {
    /// A writer that prefers `source`.
    pub(super) fn new(
        objects: Objects,
        source: Option<&'a Source>,
        destination: &'a Destination,
        paths: &'a PathStorageRef,
    ) -> Self {
        Writer {
            objects,
            source,
            destination,
            paths,
            buffer: vec![0; if source.is_some() { BUFFER } else { 0 }],
            blob: Vec::new(),
            copied: 0,
            checked_out: 0,
        }
    }

    /// Writes one entry and records its stat.
    ///
    /// # Errors
    /// `repo-corrupt` when the blob is missing or broken; `path-exists`, `disk-full`, `io`.
    pub(super) fn write(&mut self, entry: &mut Entry) -> Result<()> {
        if let Some(stat) = self.copy(entry)? {
            entry.stat = stat;
            self.copied += 1;
            return Ok(());
        }
        let path = entry.path_in(self.paths);
        let blob = read_blob(&self.objects, entry, path, &mut self.blob)?;
        let mut file = self.destination.create_file(path, entry.mode)?;
        file.write_all(blob)
            .map_err(|error| self.destination.io_error("could not write", path, error))?;
        entry.stat = self.destination.seal(&file, path)?;
        self.checked_out += 1;
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

    fn copy(&mut self, entry: &Entry) -> Result<Option<Stat>> {
        let path = entry.path_in(self.paths);
        let Some(mut from) = self.source.and_then(|source| source.file(path)) else {
            return Ok(None);
        };
        let Some(size) = from.metadata().ok().filter(|meta| meta.is_file()) else {
            return Ok(None);
        };
        let size = size.len();
        let Some(buffer) = usize::try_from(size)
            .ok()
            .and_then(|size| self.buffer.get_mut(..size))
        else {
            return self.copy_large(entry, &mut from, size);
        };
        // A file that shrinks or grows meanwhile fails to read or to hash.
        if from.read_exact(buffer).is_err() || blob_hash(size, buffer) != entry.id.as_bytes() {
            return Ok(None);
        }
        let mut to = self.destination.create_file(path, entry.mode)?;
        to.write_all(buffer)
            .map_err(|error| self.destination.io_error("could not write", path, error))?;
        self.destination.seal(&to, path).map(Some)
    }

    fn copy_large(&mut self, entry: &Entry, from: &mut File, size: u64) -> Result<Option<Stat>> {
        // The size is looked up first, so that nobody can make us read an endless file.
        match self.objects.try_header(&entry.id) {
            Ok(Some(header)) if header.size == size => {}
            _ => return Ok(None),
        }
        let path = entry.path_in(self.paths);
        let io_error = |error| self.destination.io_error("could not write", path, error);
        let mut to = self.destination.create_file(path, entry.mode)?;
        let copied = if clone_blocks(&to, from) {
            hash_through(&mut to, &mut std::io::sink(), size, &mut self.buffer)
        } else {
            hash_through(from, &mut to, size, &mut self.buffer)
        };
        if copied.map_err(io_error)? == entry.id.as_bytes() {
            return self.destination.seal(&to, path).map(Some);
        }
        self.destination.remove_file(path)?;
        Ok(None)
    }
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
        Error::new(
            Code::RepoCorrupt,
            format!("blob {} {what}: {path}", entry.id),
        )
        .hint("to check the repository, run git fsck")
    };
    match objects.try_find(&entry.id, buffer) {
        Ok(Some(object)) if object.kind == Kind::Blob => Ok(object.data),
        Ok(Some(_)) => Err(corrupt("is no blob")),
        Ok(None) => Err(corrupt("is missing")),
        Err(error) => Err(corrupt("could not be read").because(error.to_string())),
    }
}

fn blob_hasher(size: u64) -> Sha1 {
    Sha1::new().chain_update(format!("blob {size}\0"))
}

fn blob_hash(size: u64, data: &[u8]) -> [u8; 20] {
    blob_hasher(size).chain_update(data).finalize().into()
}

/// Moves `size` bytes and gives the name of the blob that they make. One byte more is asked for, so
/// that a file that grew meanwhile hashes to something else.
fn hash_through(
    from: &mut impl Read,
    to: &mut impl Write,
    size: u64,
    buffer: &mut [u8],
) -> std::io::Result<[u8; 20]> {
    let mut hasher = blob_hasher(size);
    let mut from = from.take(size + 1);
    loop {
        let length = from.read(buffer)?;
        if length == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..length]);
        to.write_all(&buffer[..length])?;
    }
}

#[cfg(target_os = "linux")]
fn clone_blocks(to: &File, from: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn clone_blocks(_to: &File, _from: &File) -> bool {
    false
}
