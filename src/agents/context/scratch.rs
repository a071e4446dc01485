//! A directory for temporary files, outside of every repository.

use crate::agents::context::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::git::files::temporary::{self, TemporaryDirectory};
use crate::store::files::layout;
use std::path::{Path, PathBuf};

/// The command with which temporary files go elsewhere.
const OTHER_PLACE: &str = "export TMPDIR=<directory>";

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
        let made = TemporaryDirectory::make(&place, purpose);
        made.map(Scratch).map_err(|error| match error.code() {
            Code::RepoReadOnly => Error::new(Code::Io, cannot_be_written(&place))
                .because(error.to_string())
                .hint(format!("to use another one, run {OTHER_PLACE}")),
            _ => error,
        })
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
    let places = [directory(ctx), ctx.repo.common_dir().join("objects")];
    if ctx.repo.is_scratch() || places.iter().all(|place| can_be_written(place)) {
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

/// What the caller should know where no temporary files can be made.
pub(crate) fn complaint(ctx: &Ctx) -> Option<String> {
    let place = ctx.temporary_place();
    let complaint = || {
        let what = cannot_be_written(&place);
        format!("{what}, so not all is known; to use another one, run {OTHER_PLACE}")
    };
    (!can_be_written(&place)).then(complaint)
}

fn cannot_be_written(place: &Path) -> String {
    let place = place.display();
    format!("the directory for temporary files, {place}, cannot be written")
}

/// Whether a directory, which need not exist, can be written.
fn can_be_written(directory: &Path) -> bool {
    let existing = directory.ancestors().find(|one| one.exists());
    existing.is_some_and(temporary::is_writable)
}
