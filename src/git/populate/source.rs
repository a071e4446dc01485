//! A worktree that may already hold the bytes that the new one needs.
//!
//! Nothing about it is believed: not its index, which may have been written before the attributes
//! changed, and which an agent can write; not its directories, which an agent can replace by
//! symlinks. It is only read, below its root and through no symlink, and what was read counts when
//! it hashes to the blob's name (see [`super::plain`]). So any directory is a safe source, and the
//! choice is about speed alone.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::files::untrusted;
use crate::system;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// At most this many linked worktrees are considered, so that a repository with thousands of agents
/// is not slower to spawn in.
const MOST_CANDIDATES: usize = 64;

/// The top of a worktree to copy from.
pub(super) struct Source {
    root: OwnedFd,
    path: PathBuf,
    index: Option<PathBuf>,
}

impl Source {
    /// Chooses the worktree that most likely holds the files of `tree`: one whose HEAD has that very
    /// tree, the main worktree before linked ones; else the main worktree; else any.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub(super) fn choose(
        repo: &Repo,
        gix: &gix::Repository,
        tree: Oid,
        destination: &Path,
    ) -> Result<Option<Source>> {
        let mut fallback = None;
        if let Some(main) = repo.main_worktree()? {
            if head_tree(gix, repo.common_dir()) == Some(tree) {
                let index = repo.common_dir().join("index");
                return Ok(Source::open(main).map(|main| Source {
                    index: Some(index),
                    ..main
                }));
            }
            fallback = Some(main);
        }
        for (admin_dir, worktree) in linked(repo.common_dir()) {
            if worktree == destination || is_initializing(&admin_dir) {
                continue;
            }
            if head_tree(gix, &admin_dir) == Some(tree) {
                return Ok(Source::open(worktree));
            }
            fallback.get_or_insert(worktree);
        }
        Ok(fallback.and_then(Source::open))
    }

    fn open(path: PathBuf) -> Option<Source> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        Some(Source {
            root,
            path,
            index: None,
        })
    }

    /// An index that probably holds the tree.
    pub(super) fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }

    /// The top of the worktree.
    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Opens a directory, the top where the path is empty; `None` when it is not there or a symlink is on the way to it.
    pub(super) fn directory(&self, path: &[u8]) -> Option<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        system::open_directory(self.root.as_fd(), path).ok()
    }
}

/// Opens a file of a directory for reading; `None` when it is not there or a symlink.
/// Whatever else may be there (a pipe, a device) neither blocks nor becomes our terminal.
pub(super) fn open_file(directory: &OwnedFd, name: &[u8]) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
        .ok()
        .map(File::from)
}

/// The linked worktrees: admin dir and top.
fn linked(common_dir: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    std::fs::read_dir(common_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_CANDIDATES)
        .filter_map(|entry| {
            let admin_dir = entry.path();
            let gitdir = untrusted::text(&admin_dir, "gitdir")?;
            let gitdir = gix::path::from_byte_slice(gitdir.trim_end().as_bytes()).ok()?;
            // With `worktree.useRelativePaths` the path starts from the admin dir.
            let top = admin_dir.join(gitdir).parent()?.to_owned();
            Some((admin_dir, top))
        })
}

fn is_initializing(admin_dir: &Path) -> bool {
    untrusted::text(admin_dir, "locked").is_some_and(|reason| reason.starts_with("initializing"))
}

fn head_tree(gix: &gix::Repository, git_dir: &Path) -> Option<Oid> {
    let head = untrusted::text(git_dir, "HEAD")?;
    let commit = match head.trim_end().strip_prefix("ref: ") {
        Some(name) => gix.find_reference(name).ok()?.peel_to_id().ok()?.detach(),
        None => gix::ObjectId::from_hex(head.trim_end().as_bytes()).ok()?,
    };
    let tree = gix.find_commit(commit).ok()?.tree_id().ok()?;
    Oid::from_slice(tree.as_bytes())
}
