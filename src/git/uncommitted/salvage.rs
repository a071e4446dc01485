//! An agent's uncommitted work as commits, and the proof that nothing was missed.
//!
//! The work is one commit on the tip, as `git stash` would make it: where what is staged differs from
//! what is in the worktree, the index is a second parent. The same state gives the same commit,
//! whenever it is asked for, so a salvage that is repeated is recognised. Content is stored as
//! committing would store it: `.gitattributes` decides about line ends and filters.
//!
//! `beside` walks the disk and names every file that is in none of the trees and not ignored: what git
//! does not look at (a nested repository, a broken `.git` directory, files inside a submodule that no
//! commit of it holds) is found there and is the reason to refuse a removal.

mod tour;

use crate::domain::{Oid, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::Index;
use crate::git::changes::gitlinks::{self, NestedPlace};
use crate::git::core::tree::{DIRECTORY, EXECUTABLE, GITLINK, SYMLINK};
use crate::git::files::admin_dir::{MODULES, SHARED_INDEX};
use crate::git::files::untrusted;
use crate::git::history::ancestry::Keepable;
use crate::git::objects::{Commit, Identity, NewCommit};
use crate::git::uncommitted::{Trees, WorktreeFingerprint, WorktreeSource, git, ignored};
use crate::git::worktree::own_repository::own_repository_in;
use crate::git::{Repo, core::command};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
pub use tour::{FilesAsTheyAre, TOO_DEEP, write_admin, write_files as write_files_as_they_are};
use walkdir::WalkDir;

/// The trailer that says what a salvage commit holds.
pub const TRAILER: &str = "Salvage";
/// The trailer's value for the work: the worktree, and in a second parent the index.
pub const WORK: &str = "work";
/// The trailer's value for the bundle.
pub const BUNDLE: &str = "bundle";

/// The line of a salvage of work that stores its files byte for byte, as that of a bundle does, and not as committing would.
pub const AS_THEY_ARE: &str = "Salvage-Content: as-it-is";

/// The line of a salvage of work that was all staged.
const ALL_STAGED: &str = "Salvage-Index: as-the-files";

/// The tree that the index had, given a salvage of work. A submodule has the commit that was checked out in it: it is not filled where the
/// files come back, and could not show that.
///
/// # Errors
/// `repo-corrupt`.
pub fn staged_in(repo: &Repo, salvage: &Commit) -> Result<Oid> {
    if salvage.message.lines().any(|line| line == ALL_STAGED) {
        return Ok(salvage.tree);
    }
    // The tip is the first parent, and where nothing was staged the only one.
    let Some(index) = salvage.parents.get(1).or(salvage.parents.first()) else {
        return Ok(salvage.tree);
    };
    let staged = repo.tree_of(*index)?;
    let mut moved = repo.differences(staged, salvage.tree)?;
    let is_link = |side: &Option<(u32, Oid)>| side.is_some_and(|(mode, _)| mode == GITLINK);
    moved.retain(|one| is_link(&one.old) && is_link(&one.new));
    Ok(repo.tree_after(staged, &moved)?.unwrap_or(staged))
}

/// Whether a salvage stores its files byte for byte, so that no filter and no line-end conversion has a part in giving them back.
pub fn is_as_it_was(salvage: &Commit) -> bool {
    let is_bundle = salvage.trailer(TRAILER) == Some(BUNDLE);
    is_bundle || salvage.message.lines().any(|line| line == AS_THEY_ARE)
}

/// Writes the commit that holds what is staged, modified and untracked; `None` when the tip holds it all.
/// `whose` is a line for the message, such as `Agent-Id: …`.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn write_work(repo: &Repo, tip: &Commit, found: &Trees, whose: &str) -> Result<Option<Oid>> {
    let staged = found.staged.unwrap_or(found.tree);
    if found.tree == tip.tree && staged == tip.tree {
        return Ok(None);
    }
    let mut parents = vec![tip.oid];
    // A second parent only where it says something that neither the tip nor the worktree does.
    if staged != found.tree && staged != tip.tree {
        parents.push(write(repo, tip, staged, &[tip.oid], "index", whose)?);
    }
    let all_staged = format!("{whose}\n{ALL_STAGED}");
    let whose = if found.staged == Some(found.tree) { &all_staged } else { whose };
    write(repo, tip, found.tree, &parents, WORK, whose).map(Some)
}

/// Writes a commit without parents that holds a directory byte for byte; `None` when there is none, or
/// nothing in it. Symlinks are kept as symlinks.
///
/// # Errors
/// `discard-refused` for an entry named `.git`, which no tree can hold; `io` for what cannot be read.
pub fn write_bundle(
    repo: &Repo,
    tip: &Commit,
    directory: &Path,
    whose: &str,
) -> Result<Option<Oid>> {
    if !fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(None);
    }
    match tour::write_directory(repo, directory)? {
        Some(tree) => write(repo, tip, tree, &[], BUNDLE, whose).map(Some),
        None => Ok(None),
    }
}

/// The object names in what git prints, one a line.
fn oids_in(output: &[u8]) -> impl Iterator<Item = Oid> {
    let lines = output.split(|&byte| byte == b'\n');
    lines.filter_map(|line| Oid::from_hex(std::str::from_utf8(line).ok()?))
}

fn write(
    repo: &Repo,
    tip: &Commit,
    tree: Oid,
    parents: &[Oid],
    what: &str,
    whose: &str,
) -> Result<Oid> {
    // At the time of the tip: the clock would give each salvage of the same state a name of its
    // own.
    let who = Identity::stand_in(tip.seconds);
    repo.write_commit(&NewCommit::ours(
        &who,
        tree,
        parents,
        &format!("agent: salvage {what}\n\n{TRAILER}: {what}\n{whose}\nGit-Agent: 1\n"),
    ))
}

impl Repo {
    /// Commits that an admin directory alone may still name, and those in the reflog of `branch`. None that `tip`, which is whole,
    /// has among its ancestors.
    ///
    /// # Errors
    /// Those of [`Repo::keepable`].
    pub fn leftover_commits(
        &self,
        admin_dir: &Path,
        branch: Option<&str>,
        tip: Oid,
    ) -> Result<Keepable> {
        let named = self.commits_named_in(admin_dir, branch);
        let mut left = self.keepable_beside(tip, named)?;
        if !left.whole.is_empty() {
            left.whole.push(tip);
            left.whole = self.independent(left.whole);
            left.whole.retain(|oid| *oid != tip);
        }
        Ok(left)
    }

    /// Commits that an admin directory, or the reflog of `branch`, names and no ref that all worktrees share holds: what
    /// removing the worktree and the branch's reflog would leave to the next garbage collection.
    ///
    /// # Errors
    /// Those of [`Repo::keepable`].
    pub fn unreferenced_commits(&self, admin_dir: &Path, branch: Option<&str>) -> Result<Keepable> {
        let mut named = self.commits_named_in(admin_dir, branch);
        if named.is_empty() {
            return Ok(Keepable::default());
        }
        // `--all` would count the HEAD of the very worktree that is to go, so the refs are named by a pattern.
        let mut command = self.plumbing();
        command.arg("rev-list");
        command.args(named.iter().map(|oid| oid.to_hex()));
        command.args(["--not", "--glob=refs/*"]);
        // Where git cannot tell, all of them stay named, and too much is kept rather than too
        // little.
        if let Ok(output) = command::successful(command) {
            let unheld: BTreeSet<Oid> = oids_in(&output).collect();
            named.retain(|oid| unheld.contains(oid));
        }
        let mut left = self.keepable(named, &HashSet::new())?;
        if left.whole.len() > 1 {
            // Those that others lead to need no ref of their own.
            left.whole = self.independent(left.whole);
        }
        Ok(left)
    }

    /// Those of the commits that none of the others leads to; all of them where git cannot tell.
    fn independent(&self, commits: Vec<Oid>) -> Vec<Oid> {
        let mut command = self.plumbing();
        command.args(["merge-base", "--independent"]);
        command.args(commits.iter().map(|oid| oid.to_hex()));
        command::successful(command).map_or(commits, |output| oids_in(&output).collect())
    }

    /// Every commit that a file of an admin directory or the reflog of `branch` names. Git keeps commits there under many
    /// names: `HEAD`, `ORIG_HEAD`, reflogs, refs of the worktree's own, and in lower case what a rebase, an `am` or a
    /// sequencer has stopped at (`rebase-merge/orig-head`, `done`, `autostash`), so every file is read but the index and
    /// `FETCH_HEAD`: what was fetched is where it came from, and no work.
    fn commits_named_in(&self, admin_dir: &Path, branch: Option<&str>) -> BTreeSet<Oid> {
        let mut named: BTreeSet<Oid> = BTreeSet::new();
        if let Some(branch) = branch {
            // One that is no file tells nothing.
            named.extend(self.reflog_oids(branch).unwrap_or_default());
        }
        let modules = admin_dir.join(MODULES);
        let files = WalkDir::new(admin_dir).into_iter();
        let files = files.filter_entry(|entry| entry.path() != modules).flatten();
        for file in files.filter(|entry| entry.file_type().is_file()) {
            let inside = file.path().strip_prefix(admin_dir).unwrap_or(file.path());
            let name = inside.as_os_str().as_encoded_bytes();
            let is_index = name.starts_with(b"index") || name.starts_with(SHARED_INDEX.as_bytes());
            if !is_index && name != b"FETCH_HEAD" {
                let text = untrusted::log(admin_dir, inside);
                let text = String::from_utf8_lossy(&text);
                named.extend(text.split_ascii_whitespace().filter_map(Oid::from_hex));
            }
        }
        // A ref of a worktree's own may be an annotated tag; what it stands on is what there is to lose.
        let commit = |oid: Oid| match self.has_object(oid) {
            true if self.read_commit(oid).is_ok() => Some(oid),
            true => self.resolve_commit(&oid.to_hex()).ok().map(|found| found.commit),
            // A reflog outlives the objects that garbage collection took.
            false => None,
        };
        named.into_iter().filter_map(commit).collect()
    }

    /// Writes the files of a salvage into an empty directory, as they were. Nothing is overwritten.
    ///
    /// # Errors
    /// `git-failed` when git refuses a path or a filter fails; `io`, `disk-full`.
    pub fn write_files(&self, salvage: Oid, directory: &Path, index: &Path) -> Result<()> {
        let salvage = self.read_commit(salvage)?;
        // Git refuses names that lead elsewhere.
        self.write_index(salvage.tree, index)?;
        if is_as_it_was(&salvage) {
            return self.write_bytes(salvage.tree, directory);
        }
        self.on_index(directory, index, &["checkout-index", "--all"])
    }

    /// Writes the files of a tree that git knows to be sound into a directory, byte for byte.
    fn write_bytes(&self, tree: Oid, directory: &Path) -> Result<()> {
        for entry in self.read_tree(tree)? {
            let path = directory.join(OsStr::from_bytes(&entry.name));
            let written = match entry.mode {
                DIRECTORY | GITLINK => fs::create_dir(&path),
                SYMLINK => {
                    let target = self.read_blob(entry.oid)?;
                    symlink(OsStr::from_bytes(&target), &path)
                }
                mode => {
                    let mut options = OpenOptions::new();
                    options.write(true).create_new(true);
                    options.mode(if mode == EXECUTABLE { 0o777 } else { 0o666 });
                    let content = self.read_blob(entry.oid)?;
                    let file = options.open(&path);
                    file.and_then(|mut file| file.write_all(&content))
                }
            };
            written.at("could not write", &path)?;
            if entry.mode == DIRECTORY {
                self.write_bytes(entry.oid, &path)?;
            }
        }
        Ok(())
    }

    /// Writes an index file that holds a tree and knows no file.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn write_index(&self, tree: Oid, index: &Path) -> Result<()> {
        self.on_index(self.common_dir(), index, &["read-tree", &tree.to_hex()])
    }

    fn on_index(&self, directory: &Path, index: &Path, words: &[&str]) -> Result<()> {
        let mut command = self.git_among_files(directory)?;
        command
            .env("GIT_DIR", self.common_dir())
            .env("GIT_WORK_TREE", directory)
            .env("GIT_INDEX_FILE", index)
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.bare=false"])
            .args(words);
        command::successful(command).map(|_| ())
    }
}

// What is in a worktree beside what a salvage of it holds.

/// The files and symlinks of a worktree that no salvage holds.
#[derive(Debug, Default)]
pub struct Beside {
    /// Those that are neither in the index copy nor ignored nor in the bundle.
    pub missed: Vec<PathBuf>,
    /// What is ignored, as [`ignored`] names it.
    pub ignored: BTreeSet<Vec<u8>>,
    /// What the submodules ignore.
    ignored_by_submodules: Vec<PathBuf>,
}

impl Beside {
    /// Fails where something is to be kept that no salvage can hold.
    ///
    /// # Errors
    /// `discard-refused`.
    pub fn require_keepable(&self, source: &WorktreeSource<'_>) -> Result<()> {
        let mut missed = self.missed.clone();
        if !source.rules.leave_out() {
            missed.extend(self.ignored_by_submodules.iter().cloned());
        }
        if missed.is_empty() { Ok(()) } else { Err(unkeepable(&missed, source.worktree)) }
    }

    /// All that is ignored, in submodules as well.
    pub fn all_ignored(&self, top: &Path) -> BTreeSet<Vec<u8>> {
        let inside =
            self.ignored_by_submodules.iter().filter_map(|path| path.strip_prefix(top).ok());
        let inside = inside.map(|path| path.as_os_str().as_bytes().to_vec());
        inside.chain(self.ignored.iter().cloned()).collect()
    }
}

/// What is in a worktree beside the index copy that [`crate::git::uncommitted::write_trees`] left at
/// `source.index`, and beside `bundle`. Where a walk has seen all directories that the index knows, it is known what
/// else is in them. No ignored directory is entered once it is known to be one.
///
/// # Errors
/// `git-failed`; `io` for a directory that cannot be listed.
pub fn beside(
    source: &WorktreeSource<'_>,
    bundle: Option<&Path>,
    seen: Option<&WorktreeFingerprint>,
) -> Result<Beside> {
    let mut tour = BesideTour {
        source,
        bundle,
        seen,
        kept: match seen {
            Some(_) => KeptFiles::Listed(HashSet::new()),
            None => in_index_copy(source)?,
        },
        left_out: None,
        ignored_by_submodules: Vec::new(),
        missed: Vec::new(),
    };
    match seen {
        Some(seen) => {
            for name in seen.unknown() {
                let name = Path::new(OsStr::from_bytes(name));
                // A bundle of which a file is tracked.
                if !bundle.is_some_and(|bundle| name.starts_with(bundle)) {
                    tour.walk(&source.worktree.join(name), 0)?;
                }
            }
        }
        None => tour.walk(source.worktree, 1)?,
    }
    Ok(Beside {
        missed: tour.missed,
        ignored: tour.left_out.unwrap_or_default(),
        ignored_by_submodules: tour.ignored_by_submodules,
    })
}

fn in_index_copy(source: &WorktreeSource<'_>) -> Result<KeptFiles> {
    match Index::load(source.index) {
        Some(index) if !index.is_flagged => Ok(KeptFiles::Index(index)),
        _ => {
            let mut cached = git(source);
            cached.args(["ls-files", "-z", "--cached"]);
            Ok(KeptFiles::Listed(listed(cached)?))
        }
    }
}

/// The files that are in the index copy.
enum KeptFiles {
    Index(Index),
    Listed(HashSet<Vec<u8>>),
}

impl KeptFiles {
    fn holds(&self, path: &[u8]) -> bool {
        match self {
            KeptFiles::Index(index) => index.find(path).is_some(),
            KeptFiles::Listed(names) => names.contains(path),
        }
    }
}

struct BesideTour<'a> {
    source: &'a WorktreeSource<'a>,
    bundle: Option<&'a Path>,
    seen: Option<&'a WorktreeFingerprint>,
    kept: KeptFiles,
    /// What is ignored. Asked for when the first file turns up that is not kept: git tours the worktree for it.
    left_out: Option<BTreeSet<Vec<u8>>>,
    ignored_by_submodules: Vec<PathBuf>,
    missed: Vec<PathBuf>,
}

impl BesideTour<'_> {
    /// Whether a submodule is as its repository has it, which a discard looks after. What it ignores is noted.
    fn is_safe(&mut self, submodule: &Path) -> bool {
        let top = NestedPlace::top_of(self.source.worktree, self.source.admin_dir);
        let submodule = top.join(submodule);
        // A worktree with a repository of its own has them in there.
        let own = own_repository_in(self.source.worktree);
        let git_dirs = own.as_deref().into_iter().chain([self.source.admin_dir]);
        let room = self.source.view.room();
        let mut ignored = git_dirs.filter_map(|git_dir| {
            gitlinks::ignored_in_module(&submodule, &git_dir.join(MODULES), room)
        });
        let Some(ignored) = ignored.next() else {
            return false;
        };
        self.ignored_by_submodules.extend(ignored);
        true
    }

    fn holds(&self, path: &[u8]) -> bool {
        self.kept.holds(path) || self.seen.is_some_and(|seen| seen.holds(path))
    }

    /// Walks over what is at a place, which itself counts at depth 0.
    fn walk(&mut self, place: &Path, min_depth: usize) -> Result<()> {
        let source = self.source;
        // A link at the place itself is something that a salvage may hold, and what it leads to is
        // not.
        let walk = WalkDir::new(place).follow_root_links(false);
        let mut walk = walk.min_depth(min_depth).into_iter();
        while let Some(entry) = walk.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // The list of unknown names is older than this walk, and what is gone needs no
                // keeping.
                Err(error) if min_depth == 0 && error.depth() == 0 && is_absence(&error) => break,
                // A directory that cannot be listed may hold work, so the removal must not go on.
                Err(error) => {
                    let what = "could not list the worktree";
                    return Err(Error::new(Code::Io, what).because(error));
                }
            };
            let path = entry.path();
            let inside = path.strip_prefix(source.worktree).unwrap_or(path);
            let kind = entry.file_type();
            let pointer = inside == Path::new(".git");
            let bytes = inside.as_os_str().as_bytes();
            if pointer || self.bundle == Some(inside) && kind.is_dir() {
                if kind.is_dir() {
                    walk.skip_current_dir();
                }
            } else if kind.is_dir() && self.holds(bytes) && self.is_safe(inside) {
                walk.skip_current_dir();
            } else if kind.is_dir() {
                if self.left_out.as_ref().is_some_and(|paths| has_directory(paths, bytes)) {
                    walk.skip_current_dir();
                }
            } else if (kind.is_file() || kind.is_symlink()) && !self.holds(bytes) {
                let left_out = match &self.left_out {
                    Some(known) => known,
                    None => {
                        let names = self.seen.map(WorktreeFingerprint::unknown);
                        let ignored = ignored(source, names)?.into_iter().collect();
                        &*self.left_out.insert(ignored)
                    }
                };
                let mut above = inside.ancestors().skip(1);
                if above.any(|above| has_directory(left_out, above.as_os_str().as_bytes())) {
                    // Its directory was entered before anything was known.
                    walk.skip_current_dir();
                } else if !left_out.contains(bytes) {
                    self.missed.push(path.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Whether what was to be looked at is gone.
fn is_absence(error: &walkdir::Error) -> bool {
    let cause = error.io_error();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound)
}

/// Whether a directory is among paths that name directories with a slash at the end.
fn has_directory(paths: &BTreeSet<Vec<u8>>, directory: &[u8]) -> bool {
    paths.contains([directory, b"/"].concat().as_slice())
}

fn listed(command: Command) -> Result<HashSet<Vec<u8>>> {
    let output = command::successful(command)?;
    Ok(command::names(&output).map(<[u8]>::to_vec).collect())
}

/// The error for files below `top` that no salvage can hold. They are named from there: while a worktree is discarded, it has another
/// name.
fn unkeepable(paths: &[PathBuf], top: &Path) -> Error {
    const NAMED: usize = 20;
    let paths: Vec<_> = paths.iter().map(|path| path.strip_prefix(top).unwrap_or(path)).collect();
    let named = paths.iter().take(NAMED);
    let lines: Vec<_> = named.map(|path| format!("  {}", path.display())).collect();
    let mut above = paths.iter().flat_map(|path| path.ancestors());
    let git_dir = above.find(|above| above.ends_with(".git"));
    let is_submodule = git_dir.is_some_and(|pointer| top.join(pointer).is_file());
    // What belongs to a repository goes with it, but for files that the worktree tracks.
    let is_beside = |git_dir: &Path, path: &Path| {
        git_dir.parent().is_some_and(|inside| path.starts_with(inside))
            && !path.starts_with(git_dir)
    };
    let within =
        git_dir.filter(|git_dir| is_submodule || paths.iter().any(|path| is_beside(git_dir, path)));
    let within = within.and_then(Path::parent).or(git_dir);
    let first = within.or(paths.first().copied()).unwrap_or(Path::new("."));
    let leads_on = |pointer: &Path| {
        let text = untrusted::text(top, pointer.to_str()?)?;
        let inside = top.join(pointer).parent()?.join(text.strip_prefix("gitdir: ")?.trim_end());
        inside.exists().then_some(())
    };
    // A submodule leads to its repository by a path from where it is, and that keeps what is stashed.
    let word = shell::path(first);
    let hint = if let Some(pointer) = git_dir.filter(|it| is_submodule && leads_on(it).is_none()) {
        let pointer = shell::path(pointer);
        format!(
            "its repository is gone; to keep what is beside it, run rm {pointer} in the worktree"
        )
    } else if is_submodule {
        format!("to keep them, run git -C {word} stash --include-untracked in the worktree")
    } else {
        format!("to keep them, move {word} out of the worktree")
    };
    Error::new(
        Code::DiscardRefused,
        format!("{} files are in no commit and git cannot salvage them, as in a repository inside the worktree", paths.len()),
    )
    .detail(lines.join("\n"))
    .hint(hint)
}
