//! Keeping a worktree byte for byte, where git cannot read it through its index and its settings.
//!
//! Every file that is not ignored becomes a blob as it is: no filter runs, and line ends stay. The admin directory
//! becomes a commit of its own, with the objects that only its index names.

use super::tour::{FilesAsTheyAre, Tour};
use super::write;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::changes::ignore::{IGNORE_FILES, Rules, blocking_file};
use crate::git::files::untrusted;
use crate::git::objects::Commit;
use crate::git::tree::{Entry, FILE};
use crate::git::{Repo, command};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// The trailer's value for the admin directory.
const ADMIN: &str = "admin";

/// The longest file of an admin directory that is kept, in bytes.
const LONGEST_KEPT: u64 = 64 << 20;

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
    let ignored = ignored.iter().map(Vec::as_slice).collect();
    let bundle = rules.never().map(str::as_bytes);
    Tour::begin(repo, top, &ignored, bundle)?.files(true)
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
        if let Some(content) = untrusted::read(admin_dir, &file, LONGEST_KEPT) {
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
