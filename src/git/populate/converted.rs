//! Files that are made from their blobs by a filter or with other line ends, by gitoxide's parallel
//! checkout: it speaks the filter process protocol of git-lfs, delayed answers included.

use super::attributes::Form;
use super::count::{Count, Counted};
use super::destination::Destination;
use crate::error::{Code, Error, Result};
use gix::index::State;
use gix::index::entry::Flags;
use gix::worktree::state::checkout;
use std::sync::atomic::AtomicBool;

/// Writes every entry whose form is [`Form::Converted`] and records its stat. Gives their number.
///
/// # Errors
/// `repo-corrupt` for a missing blob, `git-failed` when a required filter fails, `path-exists` when
/// two names are one on this file system, `disk-full`, `io`.
pub(super) fn write(
    gix: &gix::Repository,
    index: &mut State,
    forms: &[Form],
    destination: &Destination,
    mut options: checkout::Options,
    threads: usize,
    count: &Count<'_>,
) -> Result<usize> {
    let converted = forms
        .iter()
        .filter(|&&form| form == Form::Converted)
        .count();
    if converted == 0 {
        return Ok(0);
    }
    for (entry, &form) in index.entries_mut().iter_mut().zip(forms) {
        entry
            .flags
            .set(Flags::SKIP_WORKTREE, form != Form::Converted);
    }
    options.destination_is_initially_empty = true;
    options.thread_limit = Some(threads);
    let objects = gix
        .objects
        .clone()
        .into_arc()
        .map_err(|error| Error::io("could not open the object database", error))?;
    let outcome = gix::worktree::state::checkout(
        index,
        destination.path(),
        Counted { objects, count },
        &gix::progress::Discard,
        &gix::progress::Discard,
        &AtomicBool::new(false),
        options,
    )
    .map_err(failed)?;
    if let Some(collision) = outcome.collisions.first() {
        return Err(Error::new(
            Code::PathExists,
            format!(
                "could not create {} in {}",
                collision.path,
                destination.path().display()
            ),
        )
        .because("something of that name, perhaps in another case, is there already"));
    }
    let (entries, paths) = index.entries_mut_and_pathbacking();
    for (entry, &form) in entries.iter_mut().zip(forms) {
        entry.flags.remove(Flags::SKIP_WORKTREE);
        if form == Form::Converted {
            entry.stat = destination.seal_by_name(entry.path_in(paths))?;
        }
    }
    Ok(converted)
}

/// A gitoxide error under the code that its cause calls for.
fn failed(error: gix::Error) -> Error {
    use std::error::Error as _;
    let what = "could not check out the files that have a filter or line-end conversion";
    let mut cause = error.source();
    while let Some(next) = cause {
        if let Some(io) = next.downcast_ref::<std::io::Error>() {
            return Error::io(what, io.kind().into()).because(error.to_string());
        }
        cause = next.source();
    }
    let code = if error.is_not_found() {
        Code::RepoCorrupt
    } else {
        Code::GitFailed
    };
    Error::new(code, what).because(error.to_string())
}
