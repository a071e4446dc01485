//! Which files of the worktree hold the bytes of their blobs, and which are made from them by a
//! conversion that attributes and configuration ask for (gitattributes(5)).

use super::listing::Listing;
use super::pool;
use crate::error::{Code, Error, Result};
use gix::attrs::StateRef;
use gix::bstr::ByteSlice;
use gix::index::entry::Mode;
use gix::worktree::stack::state::attributes::Source;

/// How an index entry comes into the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The blob's bytes as they are.
    Plain,
    /// The blob's bytes after a filter or with CRLF line ends; gitoxide does that right.
    Converted,
    /// As the target of a symlink.
    Symlink,
    /// As an empty directory.
    Submodule,
    /// A conversion that gitoxide does not do, or not as git does.
    OnlyGit,
}

const NAMES: [&str; 5] = ["filter", "working-tree-encoding", "ident", "eol", "text"];

/// Entries matched at a time. A thread that begins elsewhere in the tree reads the attribute files on
/// the way there again.
const CHUNK: usize = 512;

/// The form of every entry of `listing`, in its order.
///
/// # Errors
/// `repo-corrupt` when a `.gitattributes` of the tree cannot be read.
pub(super) fn forms(
    repo: &gix::ThreadSafeRepository,
    listing: &Listing,
    symlinks: bool,
    threads: usize,
) -> Result<Vec<Form>> {
    let entries = listing.index.entries();
    let mut forms: Vec<_> = entries.iter().map(|entry| (entry, Form::Plain)).collect();
    pool::share(&mut forms, CHUNK, threads, |chunks| {
        let repo = repo.to_thread_local();
        let defaults_to_crlf = defaults_to_crlf(&repo);
        let mut stack = repo
            .attributes_only(&listing.index, Source::IdMapping)
            .map_err(unreadable)?;
        let mut matches = stack.selected_attribute_matches(NAMES);
        while let Some(chunk) = chunks.next() {
            for (entry, form) in chunk {
                let path = entry.path(&listing.index);
                *form = match entry.mode {
                    Mode::COMMIT => Form::Submodule,
                    Mode::SYMLINK if symlinks => Form::Symlink,
                    // Where there are no symlinks, git writes the target into a file, unconverted.
                    Mode::SYMLINK => Form::Plain,
                    // Git reads such a file for its attributes, gitoxide does not.
                    Mode::FILE_EXECUTABLE if is_attributes_file(path) => Form::OnlyGit,
                    mode => {
                        let platform = stack.at_entry(path, Some(mode)).map_err(unreadable)?;
                        matches.reset();
                        let any = platform.matching_attributes(&mut matches);
                        let mut states = matches
                            .iter_selected()
                            .take(if any { NAMES.len() } else { 0 })
                            .map(|found| found.assignment.state);
                        asked_for(
                            NAMES.map(|_| states.next().unwrap_or(StateRef::Unspecified)),
                            defaults_to_crlf,
                        )
                    }
                };
            }
        }
        Ok(())
    })?;
    Ok(forms.into_iter().map(|(_, form)| form).collect())
}

fn unreadable(error: gix::Error) -> Error {
    Error::new(Code::RepoCorrupt, "could not read the tree's attributes").because(error.to_string())
}

/// The form that the states of the attributes [`NAMES`] call for, as git's `convert.c` reads them.
fn asked_for(
    [filter, encoding, ident, eol, text]: [StateRef<'_>; 5],
    defaults_to_crlf: bool,
) -> Form {
    let is = |state: StateRef<'_>, wanted: &[u8]| match state {
        StateRef::Value(value) => value.as_bstr() == wanted.as_bstr(),
        _ => false,
    };
    // Gitoxide ignores encodings other than UTF-8 and expands `$Id$` without git's blank.
    if matches!(encoding, StateRef::Value(_)) || ident == StateRef::Set {
        return Form::OnlyGit;
    }
    if matches!(filter, StateRef::Value(_)) {
        return Form::Converted;
    }
    if text == StateRef::Unset || is(text, b"input") || is(eol, b"lf") {
        return Form::Plain;
    }
    if is(eol, b"crlf") || defaults_to_crlf {
        Form::Converted
    } else {
        Form::Plain
    }
}

fn is_attributes_file(path: &[u8]) -> bool {
    path == b".gitattributes" || path.ends_with(b"/.gitattributes")
}

/// Whether text is written with CRLF where no `eol` attribute says otherwise.
fn defaults_to_crlf(repo: &gix::Repository) -> bool {
    let config = repo.config_snapshot();
    // `core.autocrlf=input` is no boolean, rules out CRLF, and goes before `core.eol`.
    let input = config
        .string("core.autocrlf")
        .is_some_and(|value| value.eq_ignore_ascii_case(b"input"));
    let eol_crlf = config
        .string("core.eol")
        .is_some_and(|value| value.eq_ignore_ascii_case(b"crlf"));
    !input && (eol_crlf || config.boolean("core.autocrlf").unwrap_or(false))
}
