//! What git-lfs stored during a run.
//!
//! Its clean filter writes the content of a file to `lfs/objects` of the repository and commits a pointer to it. In a run
//! repository that directory is the command's own; what the repository has already git-lfs finds through
//! `objects/info/alternates`. A commit whose content stayed behind would be lost with the run repository, so the
//! content is taken over like the objects of git: by its hash, before the branch moves.

use super::RunRepo;
use crate::agents::context::untrusted;
use crate::error::{Code, Error, IoContext, Result};
use crate::store::files::fsx;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where git-lfs keeps its objects, below the common directory.
const OBJECTS: &str = "lfs/objects";

/// The most objects that one publication looks at. A command could fill its directory with more names than can be read.
const MOST: usize = 200_000;

impl RunRepo {
    /// Copies the objects of git-lfs that the repository does not have. A file whose content has another hash than its
    /// name says is left behind.
    ///
    /// # Errors
    /// `io`, `disk-full`; `io` too where there are more than can be looked at.
    pub fn take_lfs(&self) -> Result<()> {
        let to = self.common_dir.join(OBJECTS);
        for object in self.lfs_objects()? {
            let place = to.join(&object);
            // Its name is the hash of its content, so one that is there is the same.
            if fs::symlink_metadata(&place).is_ok() {
                continue;
            }
            // Opened from the run repository's top: no part of the way may be a link that the command made.
            let from = Path::new(OBJECTS).join(&object);
            if let Some(file) = untrusted::open(&self.directory, &from) {
                take(file, &place)?;
            }
        }
        Ok(())
    }

    /// The objects, as `6f/a0/6fa0…`.
    fn lfs_objects(&self) -> Result<Vec<PathBuf>> {
        let top = self.directory.join(OBJECTS);
        let is_hex = |name: &OsStr, length: usize| {
            name.to_str().is_some_and(|name| {
                name.len() == length && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            })
        };
        let mut found = Vec::new();
        let below = |directory: &Path, length: usize| {
            let names = untrusted::names(&top.join(directory)).into_iter();
            let names = names.filter(move |name| is_hex(name, length));
            names.map(|name| directory.join(name)).collect::<Vec<_>>()
        };
        for first in below(Path::new(""), 2) {
            for second in below(&first, 2) {
                found.extend(below(&second, 64));
                if found.len() > MOST {
                    let what = format!("{} holds more than {MOST} objects", top.display());
                    return Err(Error::new(Code::Io, what));
                }
            }
        }
        Ok(found)
    }
}

/// Copies an object and keeps the copy if its content is what its name says. It is a copy because the command may still
/// have the file open for writing.
fn take(mut file: File, place: &Path) -> Result<()> {
    fsx::create_dir(place.parent().unwrap_or(place))?;
    let temporary = fsx::unique_name(place);
    let mut copy = Hashed {
        file: File::create_new(&temporary).at("could not write", &temporary)?,
        digest: Sha256::new(),
    };
    let copied = io::copy(&mut file, &mut copy).at("could not write", &temporary);
    let hash = copy.digest.finalize();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    if copied.is_ok() && place.file_name() == Some(OsStr::new(&hash)) {
        return fs::rename(&temporary, place).at("could not write", place);
    }
    let _ = fs::remove_file(&temporary);
    copied.map(|_| ())
}

/// A file that is hashed while it is written.
struct Hashed {
    file: File,
    digest: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
