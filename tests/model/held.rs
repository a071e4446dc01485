use crate::support::git_in;
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// How a file is, as git would say it, and its content as a blob.
pub(super) type File = (&'static str, String);

/// Everything that is there at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Objects that a ref reaches.
    pub refs: BTreeSet<String>,
    /// Those, and what is staged in any worktree.
    pub staged: BTreeSet<String>,
    /// Those, and what a reflog reaches.
    pub logged: BTreeSet<String>,
    /// Files in any worktree or beside the repository.
    pub files: BTreeMap<PathBuf, File>,
}

impl Held {
    /// Looks at a repository and everything beside it.
    pub(super) fn look(repo: &Path) -> Held {
        let reached = |more: &[&str]| reached(repo, &[&["--all"], more].concat());
        Held {
            refs: reached(&[]),
            staged: reached(&["--indexed-objects"]),
            logged: reached(&["--indexed-objects", "--reflog"]),
            files: files(repo.parent().expect("a parent")),
        }
    }

    /// Whether a content is in an object that a ref reaches, staged, or in a file.
    pub(super) fn has(&self, oid: &str) -> bool {
        self.staged.contains(oid) || self.files.values().any(|(_, found)| found == oid)
    }

    /// The files below a directory, by their path in there.
    pub(super) fn below(&self, directory: &Path) -> BTreeMap<PathBuf, File> {
        let inside = |(path, file): (&PathBuf, &File)| {
            let path = path.strip_prefix(directory).ok()?;
            Some((path.to_owned(), file.clone()))
        };
        self.files.iter().filter_map(inside).collect()
    }
}

/// The objects that a choice of refs reaches.
pub(super) fn reached(repo: &Path, choice: &[&str]) -> BTreeSet<String> {
    let listed = git_in(repo, [&["rev-list", "--objects"], choice].concat());
    let names = listed.lines().filter_map(|line| line.get(..40));
    names.map(str::to_owned).collect()
}

/// Every file and symlink in directories below this one, git's own left out.
fn files(top: &Path) -> BTreeMap<PathBuf, File> {
    let walk = WalkDir::new(top).min_depth(1).into_iter();
    walk.filter_entry(|entry| entry.file_name() != ".git")
        .map(|entry| entry.expect("readable"))
        .filter(|entry| !entry.file_type().is_dir() && entry.depth() > 1)
        .map(|entry| (entry.path().to_owned(), file(entry.path())))
        .collect()
}

fn file(path: &Path) -> File {
    let metadata = fs::symlink_metadata(path).expect("there");
    if metadata.is_symlink() {
        let target = fs::read_link(path).expect("readable");
        return ("link", blob(target.as_os_str().as_bytes()));
    }
    let mode = match metadata.permissions().mode() & 0o100 {
        0 => "file",
        _ => "program",
    };
    (mode, blob(&fs::read(path).expect("readable")))
}

/// The name that git gives a content.
fn blob(content: &[u8]) -> String {
    let header = format!("blob {}\0", content.len());
    let hash = Sha1::new().chain_update(header).chain_update(content);
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
