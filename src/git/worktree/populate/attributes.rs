//! Which files of the worktree hold the bytes of their blobs, and which are made from them by a
//! conversion that attributes and configuration ask for (gitattributes(5)).

use super::destination::Destination;
use super::listing::Listing;
use super::plain::read_blob;
use super::{Count, Counted};
use crate::error::{Code, Error, Result};
use crate::git::core::pool::{self, Chunks};
use crate::git::files::untrusted;
use crate::git::{Repo, core::command};
use gix::attrs::StateRef;
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::{Flags, Mode};
use gix::index::{Entry, State};
use gix::worktree::stack::state::attributes::Source;
use gix::worktree::state::checkout;
use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

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
    // Settings are asked first: what they cost does not grow with the tree.
    if may_convert_outside(repo, listing)? {
        return Ok(true);
    }
    let mut buffer = Vec::new();
    let mut seen = HashSet::new();
    for entry in listing.index.entries() {
        let path = entry.path(&listing.index);
        // Repositories repeat the same attributes in many directories; each content is read once.
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
    // A word in a comment or in a pattern counts as well: the doubt costs time and no file is
    // wrong.
    CONVERTING_WORDS.iter().any(|word| content.contains_str(word))
}

/// Whether settings, or files of attributes outside of the tree, may ask for a conversion.
pub(super) fn may_convert_outside(repo: &gix::Repository, listing: &Listing) -> Result<bool> {
    if defaults_to_crlf(repo) {
        return Ok(true);
    }
    // Before the first directory is entered, these are the names that files outside the tree mention.
    let stack = repo.attributes_only(&listing.index, Source::IdMapping).map_err(unreadable)?;
    let outside = stack.attributes_collection();
    // `text` alone normalises what is committed. Without CRLF asked for elsewhere, it writes what
    // the blob holds.
    let mut names = NAMES.iter().filter(|&&name| name != "text");
    let is_asked = names.any(|name| outside.iter().any(|(known, _)| known == *name));
    Ok(is_asked || own_file_may_convert(repo))
}

/// The same for the repository's own file of attributes, which gitoxide reads with the first directory.
fn own_file_may_convert(repo: &gix::Repository) -> bool {
    let path = repo.common_dir().join("info/attributes");
    match fs::symlink_metadata(&path) {
        // A file that cannot be looked at may say anything.
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
    let mut stack = repo.attributes_only(&listing.index, Source::IdMapping).map_err(unreadable)?;
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
    // The order is git's: a file that is not text is never converted, and an explicit `eol` goes
    // before the settings.
    if text == StateRef::Unset || is(text, b"input") || is(eol, b"lf") {
        return Form::Plain;
    }
    if is(eol, b"crlf") || defaults_to_crlf { Form::Converted } else { Form::Plain }
}

fn is_attributes_file(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(b".gitattributes"))
}

/// Whether text is written with CRLF where no `eol` attribute says otherwise.
fn defaults_to_crlf(repo: &gix::Repository) -> bool {
    let config = repo.config_snapshot();
    // `core.autocrlf=input` is no boolean, rules out CRLF, and goes before `core.eol`.
    let input =
        config.string("core.autocrlf").is_some_and(|value| value.eq_ignore_ascii_case(b"input"));
    let eol_crlf =
        config.string("core.eol").is_some_and(|value| value.eq_ignore_ascii_case(b"crlf"));
    !input && (eol_crlf || config.boolean("core.autocrlf").unwrap_or(false))
}

// Files that are made from their blobs by a filter or with other line ends, by gitoxide's parallel
// checkout: it speaks the filter process protocol of git-lfs, delayed answers included.

/// Writes every entry whose form is [`Form::Converted`] and records its stat. Gives their number.
///
/// # Errors
/// `repo-corrupt` for a missing blob, `git-failed` when a required filter fails, `path-exists` when
/// two names are one on this file system, `disk-full`, `io`.
pub(super) fn write_converted(
    gix: &gix::Repository,
    index: &mut State,
    forms: &[Form],
    destination: &Destination,
    mut options: checkout::Options,
    threads: usize,
    count: &Count<'_>,
) -> Result<usize> {
    let converted = forms.iter().filter(|&&form| form == Form::Converted).count();
    if converted == 0 {
        return Ok(0);
    }
    // gitoxide passes over what is marked so. The marks come off below, before the index is
    // written.
    for (entry, &form) in index.entries_mut().iter_mut().zip(forms) {
        entry.flags.set(Flags::SKIP_WORKTREE, form != Form::Converted);
    }
    // Files that are already there are then collisions and not overwritten.
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
            format!("could not create {} in {}", collision.path, destination.path().display()),
        )
        .because("something of that name, perhaps in another case, is there already"));
    }
    // gitoxide takes each stat right after its write, which may leave the entries racy; they are
    // dated like the others here.
    let (entries, paths) = index.entries_mut_and_pathbacking();
    for (entry, &form) in entries.iter_mut().zip(forms) {
        entry.flags.remove(Flags::SKIP_WORKTREE);
        if form == Form::Converted {
            entry.stat = destination.seal_by_name(entry.path_in(paths))?;
        }
    }
    Ok(converted)
}

/// What to do where a filter does not work, such as one whose program is not installed.
const FILTERS: &str =
    "to see the filters that are set, run git config --show-origin --get-regexp '^filter\\.'";

/// A gitoxide error under the code that its cause calls for.
fn failed(error: gix::Error) -> Error {
    use std::error::Error as _;
    let what = "could not check out the files that have a filter or line-end conversion";
    let mut cause = error.source();
    // gitoxide nests its errors; the one of the file system, which tells a full disk from a broken
    // object, lies deep inside.
    while let Some(next) = cause {
        if let Some(io) = next.downcast_ref::<std::io::Error>() {
            return Error::io(what, io.kind().into()).because(error.to_string()).hint(FILTERS);
        }
        cause = next.source();
    }
    let code = if error.is_not_found() { Code::RepoCorrupt } else { Code::GitFailed };
    Error::new(code, what).because(error.to_string()).hint(FILTERS)
}

// The worktrees that only the user's git fills rightly, and how it is asked to.

/// Settings that, when true, change what belongs in the worktree or its index.
const SWITCHES: [&str; 3] = ["core.sparseCheckout", "core.splitIndex", "index.sparse"];

/// Whether the repository's configuration or refs ask for something that only git does: sparse
/// checkout, split index, fetching missing objects from a promisor remote, group-writable files,
/// replaced objects, attributes looked for from the new worktree's top or taken from a tree that a setting names.
pub(super) fn is_needed(gix: &gix::Repository) -> bool {
    let config = gix.config_snapshot();
    let switched = SWITCHES.iter().any(|&key| config.boolean(key).unwrap_or(false));
    let shared = config.string("core.sharedRepository").is_some_and(|value| {
        let private: [&[u8]; 5] = [b"umask", b"false", b"no", b"off", b"0"];
        !private.iter().any(|name| value.eq_ignore_ascii_case(name))
    });
    let promisor = config.string("extensions.partialClone").is_some()
        || gix.remote_names().iter().any(|name| {
            config.boolean(format!("remote.{name}.promisor").as_str()).unwrap_or(false)
        });
    switched || shared || promisor || has_other_attributes(gix) || has_replaced_objects(gix)
}

/// Whether git takes attributes from where gitoxide does not: from a tree, or from a file that gitoxide would look for from
/// our current directory.
pub(super) fn has_other_attributes(gix: &gix::Repository) -> bool {
    let config = gix.config_snapshot();
    let path = config.string("core.attributesFile");
    let relative = path.is_some_and(|path| !path.starts_with(b"/") && !path.starts_with(b"~"));
    relative || config.string("attr.tree").is_some()
}

/// Fills the worktree as `git worktree add` does, and tells now and then how many files are written, of how many.
///
/// # Errors
/// `git-missing`; `disk-full` or `git-failed` with what git said.
pub(super) fn populate_only_git(
    repo: &Repo,
    worktree: &Path,
    threads: usize,
    observer: &dyn Fn(usize, usize),
) -> Result<()> {
    let workers = format!("checkout.workers={threads}");
    // `git worktree add` fills a new worktree by `git reset --hard` as well.
    let arguments = ["-c", &workers, "reset", "--hard", "--no-recurse-submodules"];
    // In the C locale, so that the cause can be told from what git says.
    let started = repo
        .git_among_files(worktree)?
        .args(arguments)
        .env("LC_ALL", "C")
        // Git waits two seconds before it shows progress; our caller decides for itself when a
        // person has waited long enough.
        .env("GIT_PROGRESS_DELAY", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let failed = |error| Error::io("could not run git", error);
    let mut child = started.map_err(failed)?;
    let said = match child.stderr.take() {
        // Read to its end before `wait`: a git whose standard error is full would never end.
        Some(stderr) => listen(stderr, observer),
        None => Ok(String::new()),
    };
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let said = said.map_err(failed)?;
    Err(Error::new(
        command::cause(&said),
        format!("git could not fill the worktree at {}", worktree.display()),
    )
    .because(said))
}

/// Tells the counts in what git says, and gives the rest of it.
fn listen(stderr: impl Read, observer: &dyn Fn(usize, usize)) -> io::Result<String> {
    let (mut said, mut line) = (Vec::new(), Vec::new());
    for byte in BufReader::new(stderr).bytes() {
        let byte = byte?;
        line.push(byte);
        // A count is written over the one before it.
        if byte == b'\r' || byte == b'\n' {
            match counted(&line) {
                Some((done, all)) => observer(done, all),
                None => said.extend_from_slice(&line),
            }
            line.clear();
        }
    }
    said.append(&mut line);
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// `Updating files:  12% (3/25)`
fn counted(line: &[u8]) -> Option<(usize, usize)> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, counts) = line.strip_prefix("Updating files:")?.split_once('(')?;
    let (done, all) = counts.split_once(')')?.0.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

fn has_replaced_objects(gix: &gix::Repository) -> bool {
    // Refs that cannot be listed may replace objects.
    let Ok(references) = gix.references() else {
        return true;
    };
    references.prefixed("refs/replace/").map_or(true, |mut replaced| replaced.next().is_some())
}
