//! A directory for temporary files, outside of every repository.

use crate::agents::ctx::Ctx;
use crate::error::Result;
use crate::git::files::temporary::{self, TemporaryDirectory};
use crate::store::layout;
use std::path::{Path, PathBuf};

/// A directory that only its owner can enter, removed when this is dropped.
pub(crate) struct Scratch(TemporaryDirectory);

impl Scratch {
    /// Makes one, after what killed commands left in the same place is removed; `purpose` becomes part of its name.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(crate) fn make(ctx: &Ctx, purpose: &str) -> Result<Scratch> {
        let place = ctx.temporary_place();
        temporary::sweep(&place);
        TemporaryDirectory::make(&place, purpose).map(Scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Calls `look`, which changes nothing. What git has to be asked about is written to the repository and, where that cannot
/// be written, to a directory of its own.
///
/// # Errors
/// Those of `look` and of [`Scratch::make`].
pub(crate) fn looking<T>(ctx: &Ctx, look: impl FnOnce(&Ctx) -> Result<T>) -> Result<T> {
    let own = directory(ctx);
    let existing = own.ancestors().find(|one| one.exists());
    let objects = ctx.repo.common_dir().join("objects");
    let places = [existing.unwrap_or(&own), &objects];
    if ctx.repo.is_scratch() || places.into_iter().all(temporary::is_writable) {
        return look(ctx);
    }
    let scratch = Scratch::make(ctx, "look")?;
    look(&ctx.with_scratch_objects(scratch.path())?)
}

/// Where indexes and the like are written that exist only while they are read.
pub(crate) fn directory(ctx: &Ctx) -> PathBuf {
    match ctx.repo.scratch_directory() {
        Some(directory) => directory.to_owned(),
        None => layout::tmp_dir(ctx.repo.common_dir()),
    }
}
