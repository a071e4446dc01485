//! Populating a new linked worktree: its files and its index, equal to what `git worktree add` makes.
//!
//! The worktree starts as a directory with nothing but its `.git` file, and an admin dir without an
//! index. Each file comes the fastest way that is certainly right for it (measured on 13,000 and 15,600
//! files in memory, two cores, against `git worktree add` = 1; on a disk that is the bottleneck 0.6):
//!
//! 1. copied from another worktree whose bytes hash to the blob's name: 0.3 to 0.5 (`plain`, `source`);
//! 2. written from the object database on two or more threads: 0.4 to 0.65 (`plain`); through gitoxide's
//!    checkout where a filter or CRLF is asked for (`converted`);
//! 3. the whole worktree by the user's git, where its configuration or an attribute calls for
//!    something that neither does as git does: 1.0 (`only_git`).
//!
//! Flow: configuration taken over, index lock, tree read and checked, attributes matched,
//! directories, files, symlinks, index. Names that are not safe are refused while the tree is read,
//! before anything is written. Symlinks come last, so nothing is ever written through one.
//!
//! Invariants of the result: `git status` is clean and opens no file, since every entry's stat was
//! taken after the last write and no entry is racy (`destination`); the TREE extension is complete
//! (`index`).
//!
//! Deliberately absent: submodules beyond their empty directories, cleaning up after a failure (the
//! caller removes the directory whatever happened), hooks.

mod attributes;
mod cone;
mod converted;
mod count;
mod destination;
mod index;
mod inherit;
mod listing;
mod only_git;
mod plain;
mod plain_check;
mod proven;
mod source;

use super::Repo;
use super::pool;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use attributes::Form;
pub(in crate::git) use attributes::has_converting_word;
pub use cone::{directories, narrow};
use count::Count;
use destination::Destination;
use index::IndexLock;
pub use inherit::inherit_worktree_config;
use listing::Listing;
use plain::Writer;
pub(in crate::git) use plain_check::{are_plain, may_convert_outside};
use source::Source;
use std::path::{Path, PathBuf};

/// The most threads used unless the caller says otherwise: more gain nothing (measured).
const MOST_THREADS: usize = 4;

/// Entries written at a time: enough to stay in few directories, few enough that no thread idles at
/// the end.
const CHUNK: usize = 64;

/// A worktree to populate.
pub struct Request<'a> {
    /// The repository, seen from the worktree that the new one is made from.
    pub repo: &'a Repo,
    /// The top of the new worktree, holding its `.git` file and nothing else.
    pub worktree: &'a Path,
    /// Its admin dir, `<common dir>/worktrees/<name>`, published and without an index.
    pub admin_dir: &'a Path,
    /// The commit that its HEAD is at.
    pub commit: Oid,
    /// How many threads write; 0 for two to four, by the machine's cores.
    pub threads: usize,
    /// Told now and then how many files are written, and how many there are to write.
    pub observer: &'a (dyn Fn(usize, usize) + Sync),
}

/// How a worktree was populated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Files copied from another worktree.
    pub copied: usize,
    /// Files and symlinks written from objects.
    pub checked_out: usize,
    /// Whether the user's git did it all; the counts are 0 then.
    pub via_git: bool,
    /// The worktree that files were copied from.
    pub source: Option<PathBuf>,
    /// What the user should know, each with a command where there is one.
    pub warnings: Vec<String>,
}

/// Writes the files and the index of a new worktree.
///
/// # Errors
/// `path-invalid` for a tree with a name that is not safe to write; `path-exists` when two names of
/// the tree are one on this file system; `repo-corrupt` for a missing or broken object;
/// `disk-full`, `io`; `git-missing` or `git-failed` where git or a filter had to run. What was
/// written by then stays for the caller to remove.
pub fn populate(request: &Request<'_>) -> Result<Outcome> {
    inherit_worktree_config(request.repo, request.admin_dir)?;
    let threads = match request.threads {
        0 => std::thread::available_parallelism()
            .map_or(2, |cores| cores.get().clamp(2, MOST_THREADS)),
        threads => threads,
    };
    if let Some(outcome) = populate_ourselves(request, threads)? {
        return Ok(outcome);
    }
    only_git::populate(request.repo, request.worktree, threads, request.observer)?;
    Ok(Outcome {
        via_git: true,
        ..Outcome::default()
    })
}

/// The first two ways; `None`, with nothing written, when only git can do it.
fn populate_ourselves(request: &Request<'_>, threads: usize) -> Result<Option<Outcome>> {
    // Filters would start where this process stands, which may be any tree.
    let Some(gix) = open(request.worktree, request.repo.program_settings()?)
        .filter(|gix| !only_git::is_needed(gix))
    else {
        return Ok(None);
    };
    let options = gix
        .checkout_options(gix::worktree::stack::state::attributes::Source::IdMapping)
        .map_err(|error| {
            Error::new(Code::GitFailed, "could not read the configuration")
                .because(error.to_string())
        })?;
    let tree = request.repo.read_commit(request.commit)?.tree;
    let source = Source::choose(request.repo, &gix, tree, request.worktree)?;
    let index = source.as_ref().and_then(Source::index);
    let mut listing = match index.and_then(|path| proven::listing(path, tree, options.validate)) {
        Some(listing) => listing,
        None => Listing::load(&gix.objects, tree, options.validate)?,
    };
    let shared = gix.clone().into_sync();
    let forms = attributes::forms(&shared, &listing, options.fs.symlink, threads)?;
    if forms.contains(&Form::OnlyGit) {
        return Ok(None);
    }
    let lock = IndexLock::take(request.admin_dir)?;
    let destination = Destination::open(request.worktree, lock.file())?;
    let count = Count::new(forms.len(), request.observer);

    let mut outcome = write_plain(
        &shared,
        &mut listing,
        &forms,
        source.as_ref(),
        &destination,
        threads,
        &count,
    )?;
    outcome.checked_out += converted::write(
        &gix,
        &mut listing.index,
        &forms,
        &destination,
        options,
        threads,
        &count,
    )?;
    outcome.checked_out += write_symlinks(&gix, &mut listing, &forms, &destination)?;
    lock.commit(&listing)?;

    if outcome.copied > 0 {
        outcome.source = source.map(Source::into_path);
    }
    if forms.contains(&Form::Submodule) {
        outcome
            .warnings
            .push("submodules are empty; to fill them, run git submodule update --init".to_owned());
    }
    Ok(Some(outcome))
}

/// Opens the new worktree with gitoxide; `None` when it cannot, which leaves it to git.
fn open(worktree: &Path, settings: Vec<String>) -> Option<gix::Repository> {
    use gix::sec::{Trust, trust::DefaultForLevel};
    // The caller's repository was opened under libgit2's check of its owner.
    let options = gix::open::Options::default_for_level(Trust::Full);
    gix::open_opts(worktree, options.config_overrides(settings)).ok()
}

fn write_plain(
    gix: &gix::ThreadSafeRepository,
    listing: &mut Listing,
    forms: &[Form],
    source: Option<&Source>,
    destination: &Destination,
    threads: usize,
    count: &Count<'_>,
) -> Result<Outcome> {
    let (entries, paths) = listing.index.entries_mut_and_pathbacking();
    let mut items: Vec<_> = entries.iter_mut().zip(forms).collect();
    let counts = pool::share(&mut items, CHUNK, threads, |chunks| {
        let mut writer = Writer::new(gix.to_thread_local().objects, source, destination);
        while let Some(chunk) = chunks.next() {
            for (entry, form) in chunk.iter_mut() {
                writer.write(entry, **form, paths)?;
            }
            let is_written = |form: &Form| matches!(form, Form::Plain | Form::Submodule);
            count.add(chunk.iter().filter(|(_, form)| is_written(form)).count());
        }
        Ok((writer.copied(), writer.checked_out()))
    })?;
    let mut outcome = Outcome::default();
    for (copied, checked_out) in counts {
        outcome.copied += copied;
        outcome.checked_out += checked_out;
    }
    Ok(outcome)
}

fn write_symlinks(
    gix: &gix::Repository,
    listing: &mut Listing,
    forms: &[Form],
    destination: &Destination,
) -> Result<usize> {
    let (entries, paths) = listing.index.entries_mut_and_pathbacking();
    let mut buffer = Vec::new();
    let mut count = 0;
    for (entry, &form) in entries.iter_mut().zip(forms) {
        if form == Form::Symlink {
            let path = entry.path_in(paths);
            let target = plain::read_blob(&gix.objects, entry, path, &mut buffer)?;
            entry.stat = destination.create_symlink(target, path)?;
            count += 1;
        }
    }
    Ok(count)
}

impl Repo {
    /// Whether settings, or a file of attributes in no worktree, may ask for a conversion of some file. Looked up once.
    pub(in crate::git) fn may_convert_outside(&self) -> bool {
        let looked = || may_convert_outside(self.common_dir());
        *self.may_convert_outside.get_or_init(looked)
    }
}
