//! Which files of the worktree hold the bytes of their blobs, and which are made from them by a
//! conversion that attributes and configuration ask for (gitattributes(5)).

use super::listing::Listing;
use super::plain::read_blob;
use crate::error::{Code, Error, Result};
use crate::git::files::untrusted;
use crate::git::pool::{self, Chunks};
use gix::attrs::StateRef;
use gix::bstr::{BStr, ByteSlice};
use gix::index::Entry;
use gix::index::entry::Mode;
use gix::worktree::stack::state::attributes::Source;
use std::collections::HashSet;
use std::{fs, io};

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

/// A file of attributes without these words asks for LF or nothing, whatever its patterns and macros.
const CONVERTING_WORDS: [&str; 4] = ["filter", "encoding", "ident", "crlf"];

/// The longest file of attributes that is read here, in bytes.
const LONGEST: u64 = 1 << 20;

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
    let mut forms: Vec<_> = entries
        .iter()
        .map(|entry| by_mode(entry.mode, entry.path(&listing.index), symlinks))
        .collect();
    if may_convert(&repo.to_thread_local(), listing)? {
        let mut open: Vec<_> = entries.iter().zip(&mut forms).collect();
        pool::share(&mut open, CHUNK, threads, |chunks| {
            match_attributes(&repo.to_thread_local(), listing, chunks)
        })?;
    }
    let plain = |form: Option<Form>| form.unwrap_or(Form::Plain);
    Ok(forms.into_iter().map(plain).collect())
}

/// The form of an entry whose attributes do not matter.
fn by_mode(mode: Mode, path: &BStr, symlinks: bool) -> Option<Form> {
    match mode {
        Mode::COMMIT => Some(Form::Submodule),
        Mode::SYMLINK if symlinks => Some(Form::Symlink),
        // Where there are no symlinks, git writes the target into a file, unconverted.
        Mode::SYMLINK => Some(Form::Plain),
        // Git reads such a file for its attributes, gitoxide does not.
        Mode::FILE_EXECUTABLE if is_attributes_file(path) => Some(Form::OnlyGit),
        _ => None,
    }
}

/// Whether any file could be something other than its blob. Most repositories answer no, which saves
/// matching every path: a microsecond each, as long as a third of a small file's system calls.
fn may_convert(repo: &gix::Repository, listing: &Listing) -> Result<bool> {
    if may_convert_outside(repo, listing)? {
        return Ok(true);
    }
    let mut buffer = Vec::new();
    let mut seen = HashSet::new();
    for entry in listing.index.entries() {
        let path = entry.path(&listing.index);
        if is_attributes_file(path) && entry.mode != Mode::COMMIT && seen.insert(entry.id) {
            let content = read_blob(&repo.objects, entry, path, &mut buffer)?;
            if has_converting_word(content) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a file of attributes may ask for anything but LF.
pub(in crate::git) fn has_converting_word(content: &[u8]) -> bool {
    { CONVERTING_WORDS.iter() }.any(|word| content.contains_str(word))
}

/// Whether settings, or files of attributes outside of the tree, may ask for a conversion.
pub(super) fn may_convert_outside(repo: &gix::Repository, listing: &Listing) -> Result<bool> {
    if defaults_to_crlf(repo) {
        return Ok(true);
    }
    // Before the first directory is entered, these are the names that files outside the tree mention.
    let stack = repo
        .attributes_only(&listing.index, Source::IdMapping)
        .map_err(unreadable)?;
    let outside = stack.attributes_collection();
    let mut names = NAMES.iter().filter(|&&name| name != "text");
    let is_asked = names.any(|name| outside.iter().any(|(known, _)| known == *name));
    Ok(is_asked || own_file_may_convert(repo))
}

/// The same for the repository's own file of attributes, which gitoxide reads with the first directory.
fn own_file_may_convert(repo: &gix::Repository) -> bool {
    let path = repo.common_dir().join("info/attributes");
    match fs::symlink_metadata(&path) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        // One that is no file, or endless, is left to git.
        Ok(_) => {
            untrusted::read_at(&path, LONGEST).is_none_or(|content| has_converting_word(&content))
        }
    }
}

/// Gives the entries that have no form yet the one that their attributes call for.
fn match_attributes(
    repo: &gix::Repository,
    listing: &Listing,
    chunks: &Chunks<'_, '_, (&Entry, &mut Option<Form>)>,
) -> Result<()> {
    let defaults_to_crlf = defaults_to_crlf(repo);
    let mut stack = repo
        .attributes_only(&listing.index, Source::IdMapping)
        .map_err(unreadable)?;
    let mut matches = stack.selected_attribute_matches(NAMES);
    while let Some(chunk) = chunks.next() {
        for (entry, form) in chunk.iter_mut().filter(|(_, form)| form.is_none()) {
            let path = entry.path(&listing.index);
            let platform = stack.at_entry(path, Some(entry.mode)).map_err(unreadable)?;
            matches.reset();
            let states = if platform.matching_attributes(&mut matches) {
                let mut states = matches.iter_selected().map(|found| found.assignment.state);
                NAMES.map(|_| states.next().unwrap_or(StateRef::Unspecified))
            } else {
                NAMES.map(|_| StateRef::Unspecified)
            };
            **form = Some(by_states(states, defaults_to_crlf));
        }
    }
    Ok(())
}

fn unreadable(error: gix::Error) -> Error {
    Error::new(Code::RepoCorrupt, "could not read the tree's attributes").because(error.to_string())
}

/// The form that the states of the attributes [`NAMES`] call for, as git's `convert.c` reads them.
fn by_states(
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
    let name = path.rsplit(|&byte| byte == b'/').next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(b".gitattributes"))
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
