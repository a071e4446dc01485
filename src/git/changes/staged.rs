//! What the next commit would change: the index against HEAD.

use crate::domain::{Change, ChangeKind, Oid};
use crate::error::{Code, Error, Result};
use crate::git::changes::gitlinks::{self, NestedPlace};
use crate::git::changes::ignore::{RULES_FILES, blocking_file};
use crate::git::changes::index::{Index, known_tree};
use crate::git::changes::kind_of;
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::untrusted;
use crate::git::worktree::view::WorktreeView;
use crate::git::{Repo, core::command, core::tree};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What git's environment says about the commit that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    /// `GIT_INDEX_FILE`. For `git commit -a` and `git commit -- <path>` git makes a temporary index, and
    /// that is the one to be judged.
    pub index: Option<PathBuf>,
    /// The `GITHEAD_<oid>` variables: the commits that a `git merge` is about to merge. It has not
    /// written `MERGE_HEAD` yet when `pre-merge-commit` runs.
    pub merged: Vec<Oid>,
}

impl Repo {
    /// How the index differs from HEAD, and while a merge is under way from every commit that is being
    /// merged as well, ordered by path.
    ///
    /// While no commit is being made, mostly nothing is staged: the tree that git noted in the index tells that in less
    /// time than all of it, and costs some where it does not.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`; `git-failed` for an index that neither we nor git can read.
    pub fn staged_changes(&self, staging: &Staging) -> Result<Vec<Change>> {
        let path = self.index_path(staging.index.as_deref());
        let trees = self.parent_trees(&staging.merged)?;
        // The trees that the index remembers tell at once of the commonest case, in which nothing
        // is staged.
        if *staging == Staging::default() {
            // As does the base of a layered worktree, as long as the index is the base's.
            let layer = WorktreeLayer::of(self.git_dir());
            let known = match layer.filter(|layer| layer.has_index_of_base(self.git_dir())) {
                Some(layer) => Some(layer.tree()?),
                None => tree_at(&path),
            };
            if known.is_some_and(|tree| trees.contains(&tree)) {
                return Ok(Vec::new());
            }
        }
        self.staged_at(&path, &trees)
    }

    fn staged_at(&self, path: &Path, trees: &[Oid]) -> Result<Vec<Change>> {
        let data = untrusted::read_at(path, untrusted::LONGEST_INDEX);
        let index = match data {
            // Git takes a missing index for an empty one.
            None if !path.exists() => Some(Index::default()),
            None => None,
            Some(data) => Index::parse(data),
        };
        match index {
            Some(index) => {
                let (oid, top) = index.top();
                self.compare(trees, oid, top, Some(&index))
            }
            None => self.staged_by_git(path, trees),
        }
    }

    fn index_path(&self, named: Option<&Path>) -> PathBuf {
        match (named, self.workdir()) {
            // Git reads a relative name at the top of the worktree.
            (Some(path), Some(top)) => top.join(path),
            (Some(path), None) => path.to_owned(),
            (None, _) => self.git_dir().join("index"),
        }
    }

    /// The trees that a commit made now would be compared with: HEAD's, and those of what is merged.
    pub(super) fn parent_trees(&self, merged: &[Oid]) -> Result<Vec<Oid>> {
        let head = match self.resolve_commit("HEAD") {
            Ok(head) => head.commit,
            Err(error) if error.code() == Code::HeadUnborn => return Ok(vec![Oid::EMPTY_TREE]),
            Err(error) => return Err(error),
        };
        // A merge under way has several parents, and what equals one of them is not this commit's
        // doing.
        std::iter::once(head)
            .chain(merge_heads(self.git_dir()))
            .chain(merged.iter().copied())
            .map(|commit| self.tree_of(commit))
            .collect()
    }

    /// The trees of the commits that are being merged in the worktree with this admin directory; none at any other time.
    pub fn merged_trees(&self, admin_dir: &Path) -> Vec<Oid> {
        let tree = |commit| self.read_commit(commit).ok().map(|commit| commit.tree);
        merge_heads(admin_dir).into_iter().filter_map(tree).collect()
    }

    /// The same for a split or sparse index, asked of git about this very index.
    fn staged_by_git(&self, index: &Path, trees: &[Oid]) -> Result<Vec<Change>> {
        let directory = self.workdir().unwrap_or(self.git_dir());
        let mut common: Option<BTreeMap<Vec<u8>, Change>> = None;
        for tree in trees {
            let mut git = command::git(directory);
            git.env("GIT_DIR", self.git_dir())
                .env("GIT_WORK_TREE", directory)
                .env("GIT_INDEX_FILE", index)
                // Nothing but the index is read: no filter has anything to do.
                .args(["-c", "core.fsmonitor=false"])
                .args(["diff-index", "-r", "--cached", "--raw", "-z", "--no-abbrev"])
                .args(["--no-renames", "--no-ext-diff", "--ignore-submodules=dirty"])
                .args([&tree.to_hex(), "--"]);
            let output = command::successful(git)?;
            let mut changes = self.raw_changes(&output)?;
            common = Some(match common {
                None => changes,
                Some(mut common) => {
                    // A path counts only if it differs from all parents; the kind is that of the
                    // first.
                    common.retain(|path, _| changes.remove(path).is_some());
                    common
                }
            });
        }
        Ok(common.unwrap_or_default().into_values().collect())
    }

    /// Reads `--raw -z`: `:<old mode> <new mode> <old oid> <new oid> <status>` NUL path NUL.
    fn raw_changes(&self, output: &[u8]) -> Result<BTreeMap<Vec<u8>, Change>> {
        let malformed = || Error::new(Code::GitFailed, "git diff-index gave lines that are none");
        let mut fields = output.split(|&byte| byte == 0);
        let mut changes = BTreeMap::new();
        while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
            let head = std::str::from_utf8(head).map_err(|_| malformed())?;
            let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old, new, _] = words[..] else {
                return Err(malformed());
            };
            let side = |mode: &str, oid: &str| {
                let mode = u32::from_str_radix(mode, 8).ok()?;
                Some((mode, Oid::from_hex(oid)?)).filter(|_| mode != 0)
            };
            let new = side(new_mode, new);
            // An unmerged path has no content on either side.
            let kind = kind_of(side(old_mode, old), new).unwrap_or(ChangeKind::Modified);
            let link = match new {
                Some((tree::SYMLINK, blob)) if !blob.is_zero() => Some(self.read_blob(blob)?),
                _ => None,
            };
            let path = path.to_owned();
            changes.insert(path.clone(), Change { path, kind, link });
        }
        Ok(changes)
    }
}

/// The commits that are being merged in the worktree with this git dir; none at any other time.
fn merge_heads(git_dir: &Path) -> Vec<Oid> {
    let file = untrusted::text(git_dir, "MERGE_HEAD").unwrap_or_default();
    file.lines().filter_map(Oid::from_hex).collect()
}

/// The tree that an index file says it holds.
fn tree_at(path: &Path) -> Option<Oid> {
    let file = untrusted::open_at(path)?;
    let length = file.metadata().ok()?.len();
    known_tree(file, Some(length).filter(|length| *length <= untrusted::LONGEST_INDEX)?)
}

// What a worktree holds that no commit of it does.

/// Everything staged, modified or untracked in the worktree that a repository was opened from, ordered by path.
/// Ignored files are left out, by the ignore rules of now. `scratch` is a directory for temporary files.
///
/// # Errors
/// `git-missing`, `git-failed`, `bare-repository` where there is no worktree.
pub fn worktree_changes(repo: &Repo, scratch: &Path) -> Result<Vec<Change>> {
    let (top, view, asked) = viewed(repo, scratch)?;
    status(top, view.index(), &|| view.git(), asked, scratch)
}

/// As [`worktree_changes`], and what git was told to pass over as well.
///
/// # Errors
/// As [`worktree_changes`]; `io`, `disk-full`.
pub fn all_worktree_changes(repo: &Repo, scratch: &Path) -> Result<Vec<Change>> {
    let (top, view, asked) = viewed(repo, scratch)?;
    let index = view.room().join("index");
    untrusted::copy_as_old(view.index(), &index, untrusted::LONGEST_INDEX)?;
    let prepared = || {
        let mut git = view.git();
        git.env("GIT_INDEX_FILE", &index);
        git
    };
    uncover(top, &index, &|| Ok(prepared()))?;
    status(top, &index, &prepared, asked, scratch)
}

fn viewed<'r>(repo: &'r Repo, scratch: &Path) -> Result<(&'r Path, WorktreeView, Asked<'static>)> {
    let top = repo.workdir().ok_or_else(|| Error::bug("a bare repository has no changes"))?;
    let view = WorktreeView::make(repo, repo.git_dir(), top, scratch)?;
    Ok((top, view, Asked { own: own_in_merge(repo)?, ..Asked::default() }))
}

/// Takes the marks from a copy of an index by which git passes over files that are there. What a sparse checkout leaves out is absent,
/// and stays so.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(in crate::git) fn uncover(
    top: &Path,
    index: &Path,
    prepared: &dyn Fn() -> Result<Command>,
) -> Result<()> {
    let content = untrusted::read_at(index, untrusted::LONGEST_INDEX);
    let is_plain = content.and_then(Index::parse).is_some_and(|index| !index.is_flagged);
    if is_plain || fs::symlink_metadata(index).is_err() {
        return Ok(());
    }
    let paths = passed_over(prepared()?, top)?;
    // The two flags need two commands: git applies one of them to the paths that it reads.
    for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
        let mut update = prepared()?;
        update.args(["update-index", flag, "-z", "--stdin"]);
        command::feed_paths(update, &paths)?;
    }
    Ok(())
}

/// Tracked paths marked assume-unchanged or skip-worktree at which there is something, asked of a `git` that was prepared for it.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(in crate::git) fn passed_over(mut git: Command, top: &Path) -> Result<Vec<Vec<u8>>> {
    git.args(["ls-files", "-v", "-z", "--cached"]);
    let listed = command::successful(git)?;
    let marked = listed.split(|&byte| byte == 0).filter_map(|entry| match entry {
        // `ls-files -v` writes `S` for skip-worktree and a small letter for
        // assume-unchanged.
        [tag, b' ', path @ ..] if *tag == b'S' || tag.is_ascii_lowercase() => Some(path),
        _ => None,
    });
    let there = |path: &&[u8]| fs::symlink_metadata(top.join(OsStr::from_bytes(path))).is_ok();
    Ok(marked.filter(there).map(<[u8]>::to_vec).collect())
}

/// What git is asked about.
#[derive(Default)]
pub(in crate::git) struct Asked<'a> {
    /// Some paths alone, or all when none is given.
    pub(in crate::git) paths: &'a [Vec<u8>],
    /// The submodules that the index lists, where it was read already.
    pub(in crate::git) links: Option<Vec<Vec<u8>>>,
    /// While a merge is under way, what [`own_in_merge`] gives.
    pub(in crate::git) own: Option<HashSet<Vec<u8>>>,
}

/// While a merge is under way, the paths of which the index holds what no merged commit does: all others that are staged
/// come from them, and were not changed here. `None` at any other time.
///
/// # Errors
/// As [`Repo::staged_changes`].
pub(in crate::git) fn own_in_merge(repo: &Repo) -> Result<Option<HashSet<Vec<u8>>>> {
    if fs::symlink_metadata(repo.git_dir().join("MERGE_HEAD")).is_err() {
        return Ok(None);
    }
    let staged = repo.staged_changes(&Staging::default())?;
    Ok(Some(staged.into_iter().map(|change| change.path).collect()))
}

/// The same for what is asked about alone, by a `git` that was prepared for it.
pub(in crate::git) fn status(
    top: &Path,
    index: &Path,
    prepared: &dyn Fn() -> Command,
    Asked { paths, links, own }: Asked<'_>,
    scratch: &Path,
) -> Result<Vec<Change>> {
    let mut git = prepared();
    git.args([
        // Not even the index is refreshed: looking changes nothing.
        "--no-optional-locks",
        "status",
        "--porcelain=v2",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        // It would start a git in each of them; they are compared below.
        "--ignore-submodules=dirty",
        "--",
    ]);
    git.env("GIT_LITERAL_PATHSPECS", "1");
    git.args(paths.iter().map(|path| OsStr::from_bytes(path)));
    let asked = command::start(git)?;
    let output = asked.successful_unless(|| blocking_file(top, RULES_FILES).is_some())?;
    let output = output.ok_or_else(|| {
        let shown = top.display();
        Error::new(
            Code::Io,
            format!(
                "git waits for a .gitignore or .gitattributes in {shown} that is no regular file"
            ),
        )
        .hint(format!("to see which one, run find {shown} -name '.git[ai]*' ! -type f"))
    })?;
    let mut changes = Vec::new();
    for record in command::names(&output.stdout) {
        let (kind, path) = read(record).ok_or_else(|| {
            let text = String::from_utf8_lossy(record).into_owned();
            Error::new(Code::GitFailed, "git status gave a line that is none").because(text)
        })?;
        // `1 A. …`: the file is as the index has it.
        let is_as_staged = record.first() == Some(&b'1') && record.get(3) == Some(&b'.');
        if is_as_staged && own.as_ref().is_some_and(|own| !own.contains(path)) {
            continue;
        }
        changes.push(Change { link: link(top, path), path: path.to_owned(), kind });
    }
    let links = match links.or_else(|| gitlinks::of_index(index)) {
        Some(links) => links,
        None => gitlinks::listed(prepared())?,
    };
    let is_asked = |link: &Vec<u8>| paths.is_empty() || paths.contains(link);
    let links: Vec<_> = links.into_iter().filter(is_asked).collect();
    let holding_work = gitlinks::holding_work(&NestedPlace::top(top), &links, scratch);
    changes.extend(holding_work.into_iter().map(|path| Change {
        path,
        kind: ChangeKind::Modified,
        link: None,
    }));
    changes.sort_unstable();
    // A file that is deleted in the index and there again comes twice.
    changes.dedup_by(|later, earlier| later.path == earlier.path);
    Ok(changes)
}

/// Reads one record (git-status, "Porcelain Format Version 2"): what happened, and the path.
fn read(record: &[u8]) -> Option<(ChangeKind, &[u8])> {
    let fields = |count: usize| -> Option<Vec<&[u8]>> {
        let fields: Vec<_> = record.splitn(count, |&byte| byte == b' ').collect();
        (fields.len() == count).then_some(fields)
    };
    match record.first()? {
        b'?' => Some((ChangeKind::Untracked, record.get(2..)?)),
        // 1 XY sub mH mI mW hH hI path
        b'1' => {
            let fields = fields(9)?;
            let [_, _, _, head, _, worktree, .., path] = fields.as_slice() else {
                return None;
            };
            let mode = |field: &[u8]| u32::from_str_radix(std::str::from_utf8(field).ok()?, 8).ok();
            Some((kind(mode(head)?, mode(worktree)?), path))
        }
        // u XY sub m1 m2 m3 mW h1 h2 h3 path
        b'u' => Some((ChangeKind::Modified, fields(11)?.pop()?)),
        _ => None,
    }
}

/// What the modes in HEAD and in the worktree tell.
fn kind(head: u32, worktree: u32) -> ChangeKind {
    match (head, worktree) {
        (0, _) => ChangeKind::Added,
        (_, 0) => ChangeKind::Deleted,
        _ if super::file_type(head) != super::file_type(worktree) => ChangeKind::TypeChanged,
        _ => ChangeKind::Modified,
    }
}

fn link(top: &Path, path: &[u8]) -> Option<Vec<u8>> {
    let target = std::fs::read_link(top.join(OsStr::from_bytes(path))).ok()?;
    Some(target.into_os_string().into_vec())
}
