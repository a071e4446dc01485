//! An answer on its way: written where the agent's host writes, taken to its place when the command is over.

use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::agents::untrusted;
use crate::error::{Code, Error, Result};
use crate::ops::run::output::directory::unreachable;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The longest answer that is taken, in bytes.
const LONGEST: u64 = 256 << 20;

/// A directory for one answer, outside of every repository. Hosts refuse to write below a git directory, where the
/// bundle of an agent without a worktree is, and the agent can write nothing but this.
pub(super) struct Staged(Scratch);

impl Staged {
    /// Makes the directory. No file is in it: some hosts write over none that they have not read.
    ///
    /// # Errors
    /// Those of [`Scratch::make`].
    pub(super) fn make(ctx: &Ctx) -> Result<Staged> {
        Scratch::make(ctx, "answer").map(Staged)
    }

    pub(super) fn directory(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(&self, name: &OsStr) -> PathBuf {
        self.0.path().join(name)
    }

    /// Takes the answer to the file of that name in a directory, all of it by one rename; `false` where there is
    /// none: nothing, a symbolic link, or anything else that is no regular file.
    ///
    /// # Errors
    /// `io`, `disk-full`; `output-outside` for an answer without measure.
    pub(super) fn take_to(&self, parent: &OwnedFd, name: &OsStr) -> Result<bool> {
        let Some(answer) = untrusted::open(self.0.path(), Path::new(name)) else {
            return Ok(false);
        };
        let mut next = OsString::from(".");
        next.push(name);
        next.push(".new");
        let fail = |error: io::Error| Error::io("could not take the answer to its place", error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let file = openat(parent, &next, flags | OFlags::CLOEXEC, mode);
        let file = file.map_err(|errno| unreachable(Path::new(&next), errno))?;
        let copied = io::copy(&mut answer.take(LONGEST + 1), &mut File::from(file));
        let taken = copied.map_err(fail).and_then(|length| {
            if length > LONGEST {
                let message = format!("the answer is longer than {} MiB", LONGEST >> 20);
                return Err(Error::new(Code::OutputOutside, message));
            }
            renameat(parent, &next, parent, name).map_err(|errno| fail(errno.into()))
        });
        if taken.is_err() {
            let _ = unlinkat(parent, &next, AtFlags::empty());
        }
        taken.map(|()| true)
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.path().fmt(f)
    }
}
