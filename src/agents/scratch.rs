//! A directory for temporary files, outside of every repository.

use crate::agents::ctx::Ctx;
use crate::domain::hex::hex;
use crate::error::{IoContext, Result};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory that only its owner can enter, removed when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one; `purpose` becomes part of its name.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(crate) fn make(ctx: &Ctx, purpose: &str) -> Result<Scratch> {
        let random = hex(&ctx.nonce()?[..8]);
        let path = ctx
            .temporary_place()
            .join(format!("git-agent-{purpose}-{random}"));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .at("could not make", &path)?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory of the user's temporary files that cannot be removed now is swept like any other.
        let _ = fs::remove_dir_all(&self.0);
    }
}
