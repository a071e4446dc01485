//! Keeping a worktree byte for byte, where git cannot read it through its index and its settings.
//!
//! Every file that is not ignored becomes a blob as it is: no filter runs, and line ends stay. The admin directory
//! becomes a commit of its own, with the objects that only its index names.

use super::{unkeepable, write};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::ignore::{IGNORE_FILES, Rules, blocking_file};
use crate::git::objects::Commit;
use crate::git::tree::{DIRECTORY, EXECUTABLE, Entry, FILE, SYMLINK};
use crate::git::{Repo, command, untrusted};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The trailer's value for the admin directory.
const ADMIN: &str = "admin";

/// The longest file that is read as a whole, and the longest file of an admin directory that is kept, in bytes.
const LONGEST_AT_ONCE: u64 = 64 << 20;

/// What was found in a worktree.
#[derive(Debug, Default)]
pub struct FilesAsTheyAre {
    /// The tree of all files; absent where there is none.
    pub tree: Option<Oid>,
    /// What is ignored: a directory has a slash at its end.
    pub ignored: Vec<Vec<u8>>,
    /// FIFOs, sockets and devices, which have no content to keep.
    pub special: Vec<Vec<u8>>,
}

/// Writes the files of a worktree, its bundle left out, as they are. What `rules` ignore is left out where git can
/// tell; `index` is a name for a temporary file.
///
/// # Errors
/// `discard-refused` for an entry named `.git` below the top, which no tree can hold; `io`, `disk-full`.
pub fn write_files(
    repo: &Repo,
    tip: &Commit,
    top: &Path,
    rules: &Rules,
    index: &Path,
) -> Result<FilesAsTheyAre> {
    let ignored = ignored(repo, tip, top, rules, index).unwrap_or_default();
    let mut walk = WorktreeFiles {
        repo,
        top,
        bundle: rules.never().map(Path::new),
        ignored: &ignored.iter().map(Vec::as_slice).collect(),
        special: Vec::new(),
    };
    let tree = walk.directory(Path::new(""))?;
    let special = walk.special;
    Ok(FilesAsTheyAre {
        tree,
        ignored,
        special,
    })
}

/// Writes what an admin directory holds, with the blobs that its index names and the tip does not, as one commit;
/// `None` where there is nothing. `whose` is a line for the message.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn write_admin(
    repo: &Repo,
    tip: &Commit,
    admin_dir: &Path,
    index: &Path,
    whose: &str,
) -> Result<Option<Oid>> {
    let mut entries = BTreeMap::new();
    for file in untrusted::files(admin_dir) {
        if let Some(content) = untrusted::read(admin_dir, &file, LONGEST_AT_ONCE) {
            // One level is enough for files that a person may want to look at.
            let name = file.as_os_str().as_bytes();
            let name = name
                .iter()
                .map(|&byte| if byte == b'/' { b'%' } else { byte });
            entries.insert(name.collect::<Vec<u8>>(), repo.write_blob(&content)?);
        }
    }
    for blob in staged(repo, tip, admin_dir, index) {
        entries.insert(format!("staged-{blob}").into_bytes(), blob);
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let entries = entries.into_iter().map(|(name, oid)| Entry {
        mode: FILE,
        name,
        oid,
    });
    let tree = repo.write_tree(entries.collect())?;
    write(repo, tip, tree, &[], ADMIN, whose).map(Some)
}

/// The blobs that an index names, in whatever stage, and the tip does not; none where git cannot read it.
fn staged(repo: &Repo, tip: &Commit, admin_dir: &Path, index: &Path) -> HashSet<Oid> {
    let name = Path::new("index");
    let content = untrusted::read(admin_dir, name, untrusted::LONGEST_INDEX);
    if content.is_none_or(|content| fs::write(index, content).is_err()) {
        return HashSet::new();
    }
    let mut list = repo.plumbing();
    list.env("GIT_INDEX_FILE", index);
    list.args(["ls-files", "-z", "--stage"]);
    let mut known = repo.plumbing();
    known.args(["ls-tree", "-r", "-z", &tip.oid.to_hex()]);
    let oids = |command: Command, field: usize| -> HashSet<Oid> {
        let output = command::successful(command).unwrap_or_default();
        let oid = |line: &[u8]| {
            let words = line.split(|&byte| byte == b' ' || byte == b'\t');
            let hex = words.into_iter().nth(field)?;
            Oid::from_hex(std::str::from_utf8(hex).ok()?)
        };
        command::names(&output).filter_map(oid).collect()
    };
    let mut staged = oids(list, 1);
    let known = oids(known, 2);
    staged.retain(|oid| !known.contains(oid) && repo.read_blob(*oid).is_ok());
    let _ = fs::remove_file(index);
    staged
}

/// What the rules ignore, by an index of the tip; `None` where git cannot tell.
fn ignored(
    repo: &Repo,
    tip: &Commit,
    top: &Path,
    rules: &Rules,
    index: &Path,
) -> Option<Vec<Vec<u8>>> {
    if !rules.leave_out() {
        return None;
    }
    let prepared = || {
        let mut git = repo.plumbing();
        git.current_dir(top)
            .env("GIT_WORK_TREE", top)
            .env("GIT_INDEX_FILE", index)
            .args(["-c", "core.fsmonitor=false"])
            .args(["-c", "core.hooksPath=/dev/null"]);
        rules.configure(&mut git);
        git
    };
    let mut read = prepared();
    read.args(["read-tree", &tip.oid.to_hex()]);
    command::successful(read).ok()?;
    let mut list = prepared();
    list.args(["ls-files", "-z", "--others", "--ignored", "--directory"]);
    rules.apply(&mut list);
    let waits = || blocking_file(top, IGNORE_FILES).is_some();
    let output = command::start(list).and_then(|list| list.successful_unless(waits));
    let _ = fs::remove_file(index);
    let mut paths: Vec<_> = command::names(&output.ok()??.stdout)
        .map(<[u8]>::to_vec)
        .collect();
    let bundle = rules.never().map(|name| format!("{name}/").into_bytes());
    paths.retain(|path| !bundle.as_ref().is_some_and(|name| path.starts_with(name)));
    paths.sort_unstable();
    Some(paths)
}

/// A tour of a worktree.
struct WorktreeFiles<'a> {
    repo: &'a Repo,
    top: &'a Path,
    bundle: Option<&'a Path>,
    ignored: &'a HashSet<&'a [u8]>,
    special: Vec<Vec<u8>>,
}

impl WorktreeFiles<'_> {
    /// Writes one directory, given by its path from the top; `None` when nothing in it is kept.
    fn directory(&mut self, inside: &Path) -> Result<Option<Oid>> {
        let directory = self.top.join(inside);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&directory).at("could not list", &directory)? {
            let entry = entry.at("could not list", &directory)?;
            let name = entry.file_name();
            let (path, shown) = (inside.join(&name), entry.path());
            let kind = entry.file_type().at("could not read", &shown)?;
            if name.eq_ignore_ascii_case(".git") {
                if inside.as_os_str().is_empty() && !kind.is_dir() {
                    continue;
                }
                return Err(unkeepable(&[shown]));
            }
            let bytes = path.as_os_str().as_bytes();
            let as_directory = [bytes, b"/"].concat();
            let is_left_out = self.ignored.contains(bytes)
                || kind.is_dir()
                    && (self.ignored.contains(as_directory.as_slice())
                        || self.bundle == Some(&path));
            if is_left_out {
                continue;
            }
            let written = if kind.is_dir() {
                self.directory(&path)?.map(|tree| (DIRECTORY, tree))
            } else if kind.is_symlink() {
                let target = fs::read_link(&shown).at("could not read", &shown)?;
                let blob = self.repo.write_blob(target.as_os_str().as_bytes())?;
                Some((SYMLINK, blob))
            } else if kind.is_file() {
                Some(self.file(&shown)?)
            } else {
                self.special.push(bytes.to_vec());
                None
            };
            entries.extend(written.map(|(mode, oid)| Entry {
                mode,
                name: name.as_bytes().to_vec(),
                oid,
            }));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        self.repo.write_tree(entries).map(Some)
    }

    fn file(&self, path: &Path) -> Result<(u32, Oid)> {
        let metadata = fs::symlink_metadata(path).at("could not read", path)?;
        let mode = if metadata.permissions().mode() & 0o100 == 0 {
            FILE
        } else {
            EXECUTABLE
        };
        if metadata.len() <= LONGEST_AT_ONCE {
            let content = untrusted::read_at(path, LONGEST_AT_ONCE);
            let content = content.ok_or_else(replaced).at("could not read", path)?;
            return Ok((mode, self.repo.write_blob(&content)?));
        }
        // Git reads it piece by piece.
        let file = untrusted::open_at(path);
        let file = file.ok_or_else(replaced).at("could not read", path)?;
        let mut hash = self.repo.plumbing();
        hash.args(["hash-object", "-w", "--stdin"]).stdin(file);
        let oid = command::successful(hash)?;
        let oid = Oid::from_hex(String::from_utf8_lossy(&oid).trim_end());
        let oid = oid.ok_or_else(|| {
            let shown = path.display();
            Error::new(Code::GitFailed, format!("git named no object for {shown}"))
        })?;
        Ok((mode, oid))
    }
}

/// The error for a file that something else has taken the place of, or that cannot be read.
fn replaced() -> std::io::Error {
    std::io::Error::other("it is no regular file that can be read")
}
