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
mod destination;
mod listing;
mod plain;
mod proven;

use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::untrusted;
use crate::git::repo::failed;
use crate::git::worktree::view::is_sparse;
use crate::git::{Repo, core::command, core::pool};
use attributes::Form;
pub(in crate::git) use attributes::has_converting_word;
use destination::Destination;
use gix::objs::{Data, Find};
use listing::{IndexLock, Listing};
use plain::{CopySource, Writer};
pub(in crate::git) use plain::{are_plain, is_safe_name, may_convert_outside};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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
pub struct Populated {
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

/// A warning that holds until something fills them.
pub const EMPTY_SUBMODULES: &str =
    "submodules are empty; to fill them, run git submodule update --init in the worktree";

/// Writes the files and the index of a new worktree.
///
/// # Errors
/// `path-invalid` for a tree with a name that is not safe to write; `path-exists` when two names of
/// the tree are one on this file system; `repo-corrupt` for a missing or broken object;
/// `disk-full`, `io`; `git-missing` or `git-failed` where git or a filter had to run. What was
/// written by then stays for the caller to remove.
pub fn populate(request: &Request<'_>) -> Result<Populated> {
    // The configuration comes first: whether the worktree is sparse decides how everything after it
    // is done.
    inherit_worktree_config(request.repo, request.admin_dir)?;
    let threads = match request.threads {
        0 => std::thread::available_parallelism()
            .map_or(2, |cores| cores.get().clamp(2, MOST_THREADS)),
        threads => threads,
    };
    if let Some(outcome) = populate_ourselves(request, threads)? {
        return Ok(outcome);
    }
    attributes::populate_only_git(request.repo, request.worktree, threads, request.observer)?;
    Ok(Populated { via_git: true, ..Populated::default() })
}

/// The first two ways; `None`, with nothing written, when only git can do it.
fn populate_ourselves(request: &Request<'_>, threads: usize) -> Result<Option<Populated>> {
    // Filters would start where this process stands, which may be any tree.
    let Some(gix) = open(request.worktree, request.repo.program_settings()?)
        .filter(|gix| !attributes::is_needed(gix))
    else {
        return Ok(None);
    };
    let options = gix
        .checkout_options(gix::worktree::stack::state::attributes::Source::IdMapping)
        .map_err(|error| {
            Error::new(Code::GitFailed, "could not read the configuration")
                .because(error.to_string())
        })?;
    let tree = request.repo.tree_of(request.commit)?;
    let source = CopySource::choose(request.repo, &gix, tree, request.worktree)?;
    let index = source.as_ref().and_then(CopySource::index);
    let mut listing = match index.and_then(|path| proven::listing(path, tree, options.validate)) {
        Some(listing) => listing,
        None => Listing::load(&gix.objects, tree, options.validate)?,
    };
    let shared = gix.clone().into_sync();
    // Every form is known before the first file is written, so that a worktree which only git can
    // fill is still empty when git gets it.
    let forms = attributes::forms(&shared, &listing, options.fs.symlink, threads)?;
    if forms.contains(&Form::OnlyGit) {
        return Ok(None);
    }
    // The lock file is made before the files: its time is the clock by which the files are dated,
    // and no git can refresh a half-filled index meanwhile.
    let lock = IndexLock::take(request.admin_dir)?;
    let destination = Destination::open(request.worktree, lock.file())?;
    let count = Count::new(forms.len(), request.observer);

    let mut outcome =
        write_plain(&shared, &mut listing, &forms, source.as_ref(), &destination, threads, &count)?;
    outcome.checked_out += attributes::write_converted(
        &gix,
        &mut listing.index,
        &forms,
        &destination,
        options,
        threads,
        &count,
    )?;
    outcome.checked_out += write_symlinks(&gix, &mut listing, &forms, &destination)?;
    // The index comes last, when the stat of every entry is known.
    lock.commit(&listing)?;

    if outcome.copied > 0 {
        outcome.source = source.map(CopySource::into_path);
    }
    if forms.contains(&Form::Submodule) {
        outcome.warnings.push(EMPTY_SUBMODULES.to_owned());
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
    source: Option<&CopySource>,
    destination: &Destination,
    threads: usize,
    count: &Count<'_>,
) -> Result<Populated> {
    let (entries, paths) = listing.index.entries_mut_and_pathbacking();
    // Each thread takes chunks of neighbouring entries, so most directories are made and opened by
    // one thread alone.
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
    let mut outcome = Populated::default();
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

// How many files are written, for a person who waits.

/// After so many files more, the number is told.
const TOLD: usize = 100;

/// What is written so far; threads share it.
struct Count<'a> {
    written: AtomicUsize,
    all: usize,
    observer: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Count<'a> {
    /// Of this many files none is written.
    fn new(all: usize, observer: &'a (dyn Fn(usize, usize) + Sync)) -> Count<'a> {
        Count { written: AtomicUsize::new(0), all, observer }
    }

    /// Adds files that were written.
    fn add(&self, files: usize) {
        let before = self.written.fetch_add(files, Ordering::Relaxed);
        let now = before + files;
        // Threads add at the same time; the one whose addition crosses a hundred reports, so no
        // number is reported twice.
        if before / TOLD < now / TOLD {
            // gitoxide reads files of attributes through the same objects, so the count can go
            // beyond the total.
            (self.observer)(now.min(self.all), self.all);
        }
    }
}

/// Objects that count those which are read: gitoxide's checkout reads one for each file that it writes.
#[derive(Clone)]
struct Counted<'a, Objects> {
    objects: Objects,
    count: &'a Count<'a>,
}

impl<Objects: Find> Find for Counted<'_, Objects> {
    fn try_find<'b>(
        &self,
        id: &gix::oid,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Data<'b>>, gix::Error> {
        self.count.add(1);
        self.objects.try_find(id, buffer)
    }
}

// What a new worktree takes over from the one it is made from, as `git worktree add` does (git's
// `builtin/worktree.c`): its own configuration and its sparse-checkout patterns.

/// Settings that say where or what a worktree is, as regular expressions; true for one worktree only.
const PLACE: &str = r"^core\.(bare|worktree)$";
/// Hook settings of a linked worktree: an agent's fences, which another agent has of its own.
const HOOKS: &str = r"^(core\.hookspath|hook\..*)$";

/// Copies `config.worktree`, where `extensions.worktreeConfig` gives it a meaning, and
/// `info/sparse-checkout` from the worktree of `repo` into a new admin dir. What is there already
/// stays.
///
/// # Errors
/// `io` or `git-failed` when a file cannot be read or written.
pub fn inherit_worktree_config(repo: &Repo, admin_dir: &Path) -> Result<()> {
    if repo.config_bool("core.sparseCheckout")?.unwrap_or(false) {
        let patterns = Path::new("info/sparse-checkout");
        let to = admin_dir.join(patterns);
        std::fs::create_dir_all(admin_dir.join("info")).at("could not create", &to)?;
        copy_new(&repo.git_dir().join(patterns), &to)?;
    }
    if !repo.config_bool("extensions.worktreeConfig")?.unwrap_or(false) {
        return Ok(());
    }
    let to = admin_dir.join("config.worktree");
    if !copy_new(&repo.git_dir().join("config.worktree"), &to)? {
        return Ok(());
    }
    remove(&to, PLACE)?;
    // The main worktree's hook settings are the user's, and `git worktree add` would pass them on.
    if repo.inner.is_worktree() {
        remove(&to, HOOKS)?;
    }
    Ok(())
}

/// Copies a file unless there is none or the target exists.
fn copy_new(from: &Path, to: &Path) -> Result<bool> {
    if !from.is_file() || to.exists() {
        return Ok(false);
    }
    std::fs::copy(from, to).at("could not copy to", to)?;
    Ok(true)
}

/// Removes the settings whose names match.
fn remove(config: &Path, names: &str) -> Result<()> {
    let change = || -> std::result::Result<(), git2::Error> {
        let mut config = git2::Config::open(config)?;
        let mut found = Vec::new();
        config.entries(Some(names))?.for_each(|entry| {
            found.extend(entry.name().ok().map(str::to_owned));
        })?;
        // A setting with several values is listed once per value.
        found.dedup();
        found.iter().try_for_each(|name| config.remove_multivar(name, ".*"))
    };
    change().map_err(|error| failed(&format!("could not write {}", config.display()), error))
}

// Sparse worktrees: only some directories are filled, by git's own rules for a cone.

/// The longest list of patterns that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// The directories that a sparse worktree holds besides the files at its top, as its admin directory says now; `None` for one
/// that is whole, or sparse in another way than git's cones.
pub fn cone_directories(admin_dir: &Path) -> Option<BTreeSet<String>> {
    let read = |name: &str| untrusted::read(admin_dir, Path::new(name), LONGEST);
    if !is_sparse(&read("config.worktree")?) {
        return None;
    }
    let patterns = read("info/sparse-checkout")?;
    let patterns = String::from_utf8_lossy(&patterns);
    in_cone(patterns.lines())
}

/// The directories of a cone, of whose patterns each names one, or says of one on the way that only its files are meant.
fn in_cone<'a>(mut patterns: impl Iterator<Item = &'a str>) -> Option<BTreeSet<String>> {
    // `git sparse-checkout set --cone` always begins with these two: all files at the top, and no
    // directory there.
    if (patterns.next(), patterns.next()) != (Some("/*"), Some("!/*/")) {
        return None;
    }
    let mut found = BTreeSet::new();
    for pattern in patterns {
        if let Some(passed) = pattern.strip_prefix("!/") {
            // A directory on the way to a cone is named first as a whole and then taken back except
            // for its files.
            found.remove(&unescaped(passed.strip_suffix("/*/")?));
        } else {
            found.insert(unescaped(pattern.strip_prefix('/')?.strip_suffix('/')?));
        }
    }
    Some(found)
}

/// A name without the backslashes before what would be special in a pattern.
fn unescaped(name: &str) -> String {
    let mut characters = name.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => characters.next().unwrap_or(character),
            other => other,
        });
    }
    text
}

/// Makes a new worktree sparse, before it is populated: it will hold the files at its top, everything below these
/// directories, and the files beside each of them on the way there. Its index will name every file. The repository reads
/// `config.worktree`.
///
/// # Errors
/// Those of [`inherit_worktree_config`]; `git-missing`, `git-failed`.
pub fn narrow_cone(
    repo: &Repo,
    worktree: &Path,
    admin_dir: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    // `git sparse-checkout` writes into the worktree's own configuration, which it would take over
    // itself if it were missing.
    inherit_worktree_config(repo, admin_dir)?;
    let options = [
        "sparse-checkout",
        "set",
        "--cone",
        // A sparse index has directories for entries, which neither gitoxide nor our own reader of
        // the index takes.
        "--no-sparse-index",
        // They are names, whatever characters they have.
        "--skip-checks",
    ];
    let names = directories.iter().map(|directory| format!("/{directory}"));
    let arguments = options.into_iter().map(str::to_owned).chain(names);
    command::run(worktree, arguments).map(|_| ())
}

/// As [`narrow_cone`], for a worktree that has its files, of which those outside of the cone go unless they are changed.
///
/// # Errors
/// As [`narrow_cone`].
pub fn narrow_filled(
    repo: &Repo,
    worktree: &Path,
    admin_dir: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    // Git takes away only what it knows to be unchanged. It ends with 1 where something is changed.
    command::output(worktree, ["update-index", "-q", "--refresh"])?;
    narrow_cone(repo, worktree, admin_dir, directories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_a_cone_name_its_directories() {
        let of = |text: &str| {
            let found = in_cone(text.split(' '))?;
            Some(found.into_iter().collect::<Vec<_>>().join(" "))
        };
        let cases = [
            ("/* !/*/", Some("")),
            ("/* !/*/ /src/ /.config/", Some(".config src")),
            ("/* !/*/ /a/ !/a/*/ /a/b/ /c/", Some("a/b c")),
            ("/* !/*/ /odd\\*name\\\\/", Some("odd*name\\")),
            ("/src/", None),
            ("/* !/*/ *.rs", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected.map(str::to_owned), "{text}");
        }
    }
}
