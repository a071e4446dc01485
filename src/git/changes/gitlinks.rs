//! Repositories inside an agent's worktree, compared without starting git under their settings.
//!
//! `git status` and `git diff-files` start another git inside each submodule, which obeys the submodule's own
//! `.git/config`: filters, a file system monitor. An agent can make such a repository. Here git looks at its files
//! through a stand-in that has its `HEAD`, its index and its objects, and the user's settings alone.
//!
//! Whatever cannot be read counts as work: a commit of the repository around it would lose it.

use super::Index;
use crate::domain::Oid;
use crate::error::{IoContext, Result};
use crate::git::command;
use crate::git::config::programs::program_settings_without_tree;
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::files::untrusted;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How deep submodules of submodules are looked into.
const DEEPEST: usize = 8;

/// The longest pointers and lists of ignore rules, and the longest indexes and lists of refs, in bytes.
const LONGEST_TEXT: u64 = 1 << 20;
const LONGEST_INDEX: u64 = 1 << 30;

/// Those of the submodules, given by their paths from the top, that have files which no commit of theirs holds, or
/// files in the place of a submodule that is not there. `scratch` is a directory that the agent cannot write.
pub fn holding_work(top: &Path, names: &[Vec<u8>], scratch: &Path) -> Vec<Vec<u8>> {
    let holds_work = |name: &&Vec<u8>| {
        let place = top.join(OsStr::from_bytes(name));
        holds_work(&place, scratch, DEEPEST)
    };
    { names.iter() }.filter(holds_work).cloned().collect()
}

/// The submodules that an index lists; `None` where it is split or sparse, so that only git can read it.
pub fn of_index(index: &Path) -> Option<Vec<Vec<u8>>> {
    let (admin_dir, name) = (index.parent()?, Path::new(index.file_name()?));
    let index = untrusted::read(admin_dir, name, LONGEST_INDEX).and_then(Index::parse)?;
    Some(index.submodules().map(<[u8]>::to_vec).collect())
}

/// As [`of_index`], asked of a `git` that was prepared for it.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(in crate::git) fn listed(mut git: Command) -> Result<Vec<Vec<u8>>> {
    git.args(["ls-files", "-z", "--format=%(objectmode) %(path)"]);
    let listed = command::successful(git)?;
    let links = command::names(&listed).filter_map(|line| line.strip_prefix(b"160000 "));
    Ok(links.map(<[u8]>::to_vec).collect())
}

fn holds_work(place: &Path, scratch: &Path, depth: usize) -> bool {
    if fs::symlink_metadata(place.join(".git")).is_err() {
        // Git lists no file that is in the place of a submodule.
        return !untrusted::names(place).is_empty();
    }
    // Beyond that depth nothing is known, and what is unknown counts as work.
    if depth == 0 {
        return true;
    }
    let Some(inner) = NestedRepository::at(place) else {
        return true;
    };
    inner.is_changed(scratch, depth).unwrap_or(true)
}

/// A repository inside a worktree.
struct NestedRepository<'a> {
    top: &'a Path,
    git_dir: PathBuf,
    common_dir: PathBuf,
    head: Oid,
}

impl NestedRepository<'_> {
    fn at(top: &Path) -> Option<NestedRepository<'_>> {
        let pointer = top.join(".git");
        let git_dir = if fs::symlink_metadata(&pointer).ok()?.is_dir() {
            pointer
        } else {
            top.join(one_line(top, ".git")?.strip_prefix("gitdir: ")?)
        };
        let common_dir = match one_line(&git_dir, "commondir") {
            Some(common_dir) => git_dir.join(common_dir),
            None => git_dir.clone(),
        };
        let head = one_line(&git_dir, "HEAD")?;
        let head = match head.strip_prefix("ref: ") {
            Some(name) => branch(&common_dir, name)?,
            None => Oid::from_hex(&head)?,
        };
        Some(NestedRepository {
            top,
            git_dir,
            common_dir,
            head,
        })
    }

    /// Whether a file differs from `HEAD`, or is in no commit and not ignored.
    fn is_changed(&self, scratch: &Path, depth: usize) -> Result<bool> {
        let room = TemporaryDirectory::make(scratch, "view")?;
        self.stand_in(room.path())?;
        let mut status = self.git(room.path())?;
        status.args([
            "--no-optional-locks",
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=normal",
            // What is inside is compared below.
            "--ignore-submodules=dirty",
        ]);
        if !command::successful(status)?.is_empty() {
            return Ok(true);
        }
        let names = match of_index(&room.path().join("index")) {
            Some(names) => names,
            None => listed(self.git(room.path())?)?,
        };
        let mut places = { names.iter() }.map(|name| self.top.join(OsStr::from_bytes(name)));
        Ok(places.any(|place| holds_work(&place, scratch, depth - 1)))
    }

    /// Fills a directory with what git needs to look at the files.
    fn stand_in(&self, room: &Path) -> Result<()> {
        let write = |name: &str, content: &[u8]| {
            let path = room.join(name);
            fs::write(&path, content).at("could not write", &path)
        };
        // Git takes a directory for a repository only if it has `refs`; where the objects are, the
        // environment says.
        for directory in ["refs", "info"] {
            let path = room.join(directory);
            fs::create_dir(&path).at("could not make", &path)?;
        }
        // A commit and no branch: the stand-in has no refs, and nothing of the repository's own is
        // looked up.
        write("HEAD", format!("{}\n", self.head).as_bytes())?;
        write("config", b"[core]\n\trepositoryFormatVersion = 0\n")?;
        let ignored = Path::new("info/exclude");
        if let Some(rules) = untrusted::read(&self.common_dir, ignored, LONGEST_TEXT) {
            write("info/exclude", &rules)?;
        }
        if let Some(index) = untrusted::open(&self.git_dir, Path::new("index")) {
            // As old as it is, or a file that was changed in the second in which it was written would look clean.
            let (from, to) = (self.git_dir.join("index"), room.join("index"));
            untrusted::copy_open_as_old(&index, &from, &to, LONGEST_INDEX)?;
        }
        Ok(())
    }

    fn git(&self, room: &Path) -> Result<Command> {
        let mut git = command::git(self.top);
        for setting in program_settings_without_tree()? {
            git.args(["-c", &setting]);
        }
        git.env("GIT_DIR", room)
            .env("GIT_WORK_TREE", self.top)
            .env("GIT_OBJECT_DIRECTORY", self.common_dir.join("objects"))
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("LC_ALL", "C")
            .args(["-c", "core.fsmonitor=false"])
            .args(["-c", "core.hooksPath=/dev/null"]);
        Ok(git)
    }
}

fn one_line(directory: &Path, name: &str) -> Option<String> {
    let text = untrusted::read(directory, Path::new(name), LONGEST_TEXT)?;
    Some(std::str::from_utf8(&text).ok()?.trim_end().to_owned())
}

/// The commit that a ref of a repository is at.
fn branch(common_dir: &Path, name: &str) -> Option<Oid> {
    if let Some(oid) = one_line(common_dir, name) {
        return Oid::from_hex(&oid);
    }
    // A loose ref goes before a packed one, as in git.
    let packed = untrusted::read(common_dir, Path::new("packed-refs"), LONGEST_INDEX)?;
    let packed = String::from_utf8_lossy(&packed);
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let (oid, _) = lines.find(|(_, packed)| *packed == name)?;
    Oid::from_hex(oid)
}
