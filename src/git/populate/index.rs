//! Writing an index: version 2 with the TREE extension (git's `gitformat-index`).
//!
//! Libgit2 and gitoxide write no TREE extension here, without which `git diff --cached` compares
//! every entry (46 ms against 11 at 57,000 files), and `git status` likewise.

use super::listing::Listing;
use crate::error::{IoContext, Result};
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// `index.lock`, which by git's protocol keeps other writers away until it becomes the index.
pub(super) struct IndexLock {
    file: File,
    path: PathBuf,
}

impl IndexLock {
    /// Takes the lock in an admin dir.
    ///
    /// # Errors
    /// `io` when it is held, `disk-full`, `repo-read-only`.
    pub(super) fn take(admin_dir: &Path) -> Result<IndexLock> {
        let path = admin_dir.join("index.lock");
        let file = File::create_new(&path).at("could not create", &path)?;
        Ok(IndexLock { file, path })
    }

    /// The lock file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Writes the index and puts it in place.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn commit(self, listing: &Listing) -> Result<()> {
        let written = write(BufWriter::with_capacity(1 << 16, &self.file), listing)
            .and_then(|()| std::fs::rename(&self.path, self.path.with_extension("")));
        written.at("could not write", &self.path)
    }
}

fn write(out: impl Write, listing: &Listing) -> std::io::Result<()> {
    let mut out = Hashing {
        out,
        hash: Sha1::new(),
    };
    let entries = listing.index.entries();
    out.write_all(b"DIRC\0\0\0\x02")?;
    out.write_all(&length(entries.len())?)?;
    for entry in entries {
        let path = entry.path(&listing.index);
        let stat = &entry.stat;
        // A submodule's stat is of no meaning to git as long as the submodule is not checked out.
        let fields = [
            stat.ctime.secs,
            stat.ctime.nsecs,
            stat.mtime.secs,
            stat.mtime.nsecs,
            stat.dev,
            stat.ino,
            entry.mode.bits(),
            stat.uid,
            stat.gid,
            stat.size,
        ];
        let mut head = [0; 62];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        head[40..60].copy_from_slice(entry.id.as_bytes());
        // Twelve bits; a longer path is found by its terminator.
        let flags = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        head[60..].copy_from_slice(&flags.to_be_bytes());
        out.write_all(&head)?;
        out.write_all(path)?;
        // One to eight terminators fill the entry to a multiple of eight.
        let padding = 8 - (head.len() + path.len()) % 8;
        out.write_all(&[0; 8][..padding])?;
    }
    let tree = tree_extension(listing);
    out.write_all(b"TREE")?;
    out.write_all(&length(tree.len())?)?;
    out.write_all(&tree)?;
    let Hashing { mut out, hash } = out;
    out.write_all(&hash.finalize())?;
    out.flush()
}

/// Per directory, parents first: name, NUL, entries below, blank, subdirectories, LF, oid.
fn tree_extension(listing: &Listing) -> Vec<u8> {
    let mut tree = Vec::with_capacity(listing.directories.len() * 48);
    for directory in &listing.directories {
        let path = listing.directory_path(directory);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        tree.extend_from_slice(name);
        let counts = format!("\0{} {}\n", directory.entries, directory.children);
        tree.extend_from_slice(counts.as_bytes());
        tree.extend_from_slice(directory.oid.as_bytes());
    }
    tree
}

fn length(length: usize) -> std::io::Result<[u8; 4]> {
    u32::try_from(length)
        .map(u32::to_be_bytes)
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::FileTooLarge, "index over 4 GiB"))
}

struct Hashing<W> {
    out: W,
    hash: Sha1,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(data)?;
        self.hash.update(&data[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
