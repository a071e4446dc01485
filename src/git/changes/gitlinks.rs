//! Repositories inside an agent's worktree, compared without starting git under their settings.
//!
//! `git status` and `git diff-files` start another git inside each submodule, which obeys the submodule's own
//! `.git/config`: filters, a file system monitor. An agent can make such a repository. Here git looks at its files
//! through a stand-in that has its `HEAD`, its index and its objects, and the user's settings alone.
//!
//! Whatever cannot be read counts as work: a commit of the repository around it would lose it.

use super::{Index, uncover};
use crate::domain::Oid;
use crate::domain::paths::change::Content;
use crate::error::{IoContext, Result};
use crate::git::config::programs::program_settings_without_tree;
use crate::git::core::tree::GITLINK;
use crate::git::files::admin_dir::{MODULES, lexically_clean, read_admin_dir};
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::files::untrusted;
use crate::git::{Repo, core::command};
use std::collections::{BTreeSet, HashSet};
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

/// A directory inside a worktree.
#[derive(Clone)]
pub struct NestedPlace {
    /// Where its files are.
    files: PathBuf,
    /// Where a command in the worktree finds them, if that is elsewhere: the files of a layered worktree are in its upper directory.
    mounted: Option<PathBuf>,
}

impl NestedPlace {
    /// The top of a worktree whose files are in their place.
    pub fn top(worktree: &Path) -> NestedPlace {
        NestedPlace { files: worktree.to_owned(), mounted: None }
    }

    /// The top of a worktree with its files at `files`, which may be an upper directory.
    pub(in crate::git) fn top_of(files: &Path, admin_dir: &Path) -> NestedPlace {
        let layer = WorktreeLayer::of(admin_dir).filter(|layer| layer.upper == files);
        let worktree = layer.and_then(|_| read_admin_dir(admin_dir));
        NestedPlace { mounted: worktree.map(|worktree| worktree.path), ..NestedPlace::top(files) }
    }

    /// What is inside of it at a path.
    pub(in crate::git) fn join(&self, path: &Path) -> NestedPlace {
        let mounted = self.mounted.as_ref().map(|top| top.join(path));
        NestedPlace { files: self.files.join(path), mounted }
    }

    /// Where its `.git` file leads.
    fn pointed(&self) -> Option<PathBuf> {
        let pointer = one_line(&self.files, ".git")?;
        let git_dir = pointer.strip_prefix("gitdir: ")?;
        Some(match &self.mounted {
            // Outside of the mount there is no such directory that a `..` could lead out of.
            Some(mounted) => lexically_clean(&mounted.join(git_dir)),
            None => self.files.join(git_dir),
        })
    }
}

/// Those of the submodules, given by their paths from the top, that have files which no commit of theirs holds, or
/// files in the place of a submodule that is not there. `scratch` is a directory that the agent cannot write.
pub fn holding_work(top: &NestedPlace, names: &[Vec<u8>], scratch: &Path) -> Vec<Vec<u8>> {
    let holds_work = |name: &&Vec<u8>| {
        let place = top.join(Path::new(OsStr::from_bytes(name)));
        holds_work(&place, scratch, DEEPEST)
    };
    names.iter().filter(holds_work).cloned().collect()
}

/// The submodules that an index lists; `None` where it is split or sparse, so that only git can read it.
pub fn of_index(index: &Path) -> Option<Vec<Vec<u8>>> {
    let (admin_dir, name) = (index.parent()?, Path::new(index.file_name()?));
    let index = untrusted::read(admin_dir, name, LONGEST_INDEX).and_then(Index::parse)?;
    Some(index.submodules().map(<[u8]>::to_vec).collect())
}

/// Whether each submodule that an index lists is there.
pub fn are_filled(top: &Path, index: &Path) -> bool {
    let is_there = |name: &Vec<u8>| top.join(OsStr::from_bytes(name)).join(".git").exists();
    of_index(index).is_some_and(|names| names.iter().all(is_there))
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

impl Repo {
    /// The paths at which a tree links to a commit of another repository, which its `.gitmodules` does not name, where none of the trees
    /// `before` links to one.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-missing`.
    pub fn unnamed_gitlinks(&self, before: &[Oid], tree: Oid) -> Result<Vec<Vec<u8>>> {
        let is_link = |side: &Option<Content>| side.is_some_and(|(mode, _)| mode == GITLINK);
        let mut added: Option<Vec<Vec<u8>>> = None;
        for old in before {
            let mut found = self.differences(*old, tree)?;
            found.retain(|one| is_link(&one.new) && !is_link(&one.old));
            let found = found.into_iter().map(|one| one.path);
            added = Some(match added {
                None => found.collect(),
                Some(known) => found.filter(|path| known.contains(path)).collect(),
            });
            if added.as_ref().is_some_and(Vec::is_empty) {
                return Ok(Vec::new());
            }
        }
        let named = self.submodule_paths(tree)?;
        Ok(added.unwrap_or_default().into_iter().filter(|path| !named.contains(path)).collect())
    }

    /// The paths of the submodules that the `.gitmodules` of a tree names, as git reads it (gitmodules(5)).
    fn submodule_paths(&self, tree: Oid) -> Result<HashSet<Vec<u8>>> {
        let Some(file) = self.entry_at(tree, ".gitmodules")? else {
            return Ok(HashSet::new());
        };
        let mut git = self.plumbing();
        let pattern = "^submodule\\..*\\.path$";
        git.args(["config", "-z", "--blob", &file.oid.to_hex(), "--get-regexp", pattern]);
        // It ends with 1 where it names none.
        let listed = command::finish(&mut git)?.stdout;
        let value = |line: &[u8]| line.splitn(2, |&byte| byte == b'\n').nth(1).map(<[u8]>::to_vec);
        Ok(command::names(&listed).filter_map(value).collect())
    }
}

fn holds_work(place: &NestedPlace, scratch: &Path, depth: usize) -> bool {
    ignored_if_clean(place, scratch, depth, false).is_none()
}

/// The ignored files in the place of a submodule, where they are asked for, if every other file is in a commit of it.
fn ignored_if_clean(
    place: &NestedPlace,
    scratch: &Path,
    depth: usize,
    names_ignored: bool,
) -> Option<Vec<PathBuf>> {
    if fs::symlink_metadata(place.files.join(".git")).is_err() {
        // Git lists no file that is in the place of a submodule.
        return untrusted::names(&place.files).is_empty().then(Vec::new);
    }
    // Beyond that depth nothing is known, and what is unknown counts as work.
    if depth == 0 {
        return None;
    }
    let inner = NestedRepository::at(place)?;
    inner.ignored_if_clean(scratch, depth, names_ignored).ok()?
}

/// Whether the repositories of submodules below a directory of git's have commits that no remote of theirs is known to have. Any
/// doubt is a yes.
pub fn have_own_commits(modules: &Path, scratch: &Path) -> bool {
    // A link leads to what is not the worktree's.
    is_directory(modules) && any_has_own(modules, scratch, DEEPEST)
}

/// The ignored files of a submodule at `place` if that is else as its repository has it, and the repository is where
/// [`have_own_commits`] looks for it.
pub(in crate::git) fn ignored_in_module(
    place: &NestedPlace,
    modules: &Path,
    scratch: &Path,
) -> Option<Vec<PathBuf>> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let git_dir = place.pointed().and_then(|git_dir| real(&git_dir));
    let is_inside = git_dir.zip(real(modules));
    let (one, all) = is_inside?;
    one.starts_with(all).then(|| ignored_if_clean(place, scratch, DEEPEST, true))?
}

fn any_has_own(directory: &Path, scratch: &Path, depth: usize) -> bool {
    untrusted::names(directory).into_iter().any(|name| {
        let git_dir = directory.join(name);
        if !is_directory(&git_dir) || depth == 0 {
            return true;
        }
        if !is_directory(&git_dir.join("objects")) {
            // A part of a submodule's name, which is a path.
            return any_has_own(&git_dir, scratch, depth - 1);
        }
        let inner = git_dir.join(MODULES);
        has_own_commits(&git_dir, scratch).unwrap_or(true)
            || is_directory(&inner) && any_has_own(&inner, scratch, depth - 1)
    })
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn has_own_commits(git_dir: &Path, scratch: &Path) -> Result<bool> {
    let (mut own, mut remote) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |name: &Path, oid: Option<Oid>| {
        let is_remote = name.starts_with("refs/remotes");
        if is_remote { &mut remote } else { &mut own }.extend(oid);
    };
    let oid = |text: &str| Oid::from_hex(text).filter(|oid| *oid != Oid::ZERO);
    add(Path::new("HEAD"), one_line(git_dir, "HEAD").as_deref().and_then(oid));
    let packed = untrusted::read(git_dir, Path::new("packed-refs"), LONGEST_INDEX);
    for line in String::from_utf8_lossy(&packed.unwrap_or_default()).lines() {
        if let Some((hex, name)) = line.split_once(' ') {
            add(Path::new(name), oid(hex));
        }
    }
    for top in ["refs", "logs"] {
        let files = untrusted::files(&git_dir.join(top));
        if files.len() >= untrusted::MOST {
            return Ok(true);
        }
        for file in files {
            let path = Path::new(top).join(&file);
            let text = untrusted::log(git_dir, &path);
            // A line of a log begins with what was there before and after.
            for line in String::from_utf8_lossy(&text).lines() {
                let name = if top == "logs" { &file } else { &path };
                for hex in line.split(' ').take(2) {
                    add(name, oid(hex));
                }
            }
        }
    }
    let mut asked: String = own.difference(&remote).map(|oid| format!("{oid}\n")).collect();
    let Some(head) = own.difference(&remote).next() else {
        return Ok(false);
    };
    asked.extend(remote.iter().map(|oid| format!("^{oid}\n")));
    let repository = NestedRepository {
        top: &NestedPlace::top(git_dir),
        git_dir: git_dir.to_owned(),
        common_dir: git_dir.to_owned(),
        head: *head,
    };
    let room = TemporaryDirectory::make(scratch, "view")?;
    repository.stand_in(room.path())?;
    let mut list = repository.git(room.path())?;
    list.args(["rev-list", "--max-count=1", "--ignore-missing", "--stdin"]);
    let output = command::feed(list, asked.as_bytes())?;
    Ok(!output.status.success() || !output.stdout.is_empty())
}

/// A repository inside a worktree.
struct NestedRepository<'a> {
    top: &'a NestedPlace,
    git_dir: PathBuf,
    common_dir: PathBuf,
    head: Oid,
}

impl NestedRepository<'_> {
    fn at(top: &NestedPlace) -> Option<NestedRepository<'_>> {
        let pointer = top.files.join(".git");
        let git_dir =
            if fs::symlink_metadata(&pointer).ok()?.is_dir() { pointer } else { top.pointed()? };
        let common_dir = match one_line(&git_dir, "commondir") {
            Some(common_dir) => git_dir.join(common_dir),
            None => git_dir.clone(),
        };
        let head = one_line(&git_dir, "HEAD")?;
        let head = match head.strip_prefix("ref: ") {
            Some(name) => branch(&common_dir, name)?,
            None => Oid::from_hex(&head)?,
        };
        Some(NestedRepository { top, git_dir, common_dir, head })
    }

    /// As the function of that name; `None` where a file differs from `HEAD`, or is in no commit and not ignored.
    fn ignored_if_clean(
        &self,
        scratch: &Path,
        depth: usize,
        names_ignored: bool,
    ) -> Result<Option<Vec<PathBuf>>> {
        let room = TemporaryDirectory::make(scratch, "view")?;
        self.stand_in(room.path())?;
        let index = room.path().join("index");
        uncover(&self.top.files, &index, &|| self.git(room.path()))?;
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
        status.args(names_ignored.then_some("--ignored"));
        let mut ignored = Vec::new();
        for record in command::names(&command::successful(status)?) {
            let Some(name) = record.strip_prefix(b"! ") else {
                return Ok(None);
            };
            ignored.push(self.top.files.join(OsStr::from_bytes(name)));
        }
        let names = match of_index(&index) {
            Some(names) => names,
            None => listed(self.git(room.path())?)?,
        };
        for name in names {
            let place = self.top.join(Path::new(OsStr::from_bytes(&name)));
            match ignored_if_clean(&place, scratch, depth - 1, names_ignored) {
                Some(inside) => ignored.extend(inside),
                None => return Ok(None),
            }
        }
        Ok(Some(ignored))
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
        if let Some(shallow) =
            untrusted::read(&self.common_dir, Path::new("shallow"), LONGEST_INDEX)
        {
            write("shallow", &shallow)?;
        }
        if let Some(index) = untrusted::open(&self.git_dir, Path::new("index")) {
            // As old as it is, or a file that was changed in the second in which it was written would look clean.
            let (from, to) = (self.git_dir.join("index"), room.join("index"));
            untrusted::copy_open_as_old(&index, &from, &to, LONGEST_INDEX)?;
        }
        Ok(())
    }

    fn git(&self, room: &Path) -> Result<Command> {
        let mut git = command::git(&self.top.files);
        for setting in program_settings_without_tree()? {
            git.args(["-c", &setting]);
        }
        git.env("GIT_DIR", room)
            .env("GIT_WORK_TREE", &self.top.files)
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
