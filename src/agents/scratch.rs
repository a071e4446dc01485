//! A directory for temporary files, outside of every repository.

use crate::agents::ctx::Ctx;
use crate::error::Result;
use crate::git::files::temporary::{self, TemporaryDirectory};
use std::path::Path;

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
