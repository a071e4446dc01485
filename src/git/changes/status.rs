//! What a worktree holds that no commit of it does.

use crate::domain::change::{Change, ChangeKind};
use crate::error::{Code, Error, Result};
use crate::git::changes::gitlinks;
use crate::git::changes::ignore::{RULES_FILES, blocking_file};
use crate::git::worktree::view::WorktreeView;
use crate::git::{Repo, command};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// Everything staged, modified or untracked in the worktree that a repository was opened from, ordered by path.
/// Ignored files are left out, by the ignore rules of now. `scratch` is a directory for temporary files.
///
/// # Errors
/// `git-missing`, `git-failed`, `bare-repository` where there is no worktree.
pub fn worktree_changes(repo: &Repo, scratch: &Path) -> Result<Vec<Change>> {
    let top = repo
        .workdir()
        .ok_or_else(|| Error::bug("a bare repository has no changes"))?;
    let view = WorktreeView::make(repo, repo.git_dir(), top, scratch)?;
    let asked = Asked::default();
    status(top, view.index(), &|| view.git(), asked, scratch)
}

/// What git is asked about.
#[derive(Default)]
pub(in crate::git) struct Asked<'a> {
    /// Some paths alone, or all when none is given.
    pub(in crate::git) paths: &'a [Vec<u8>],
    /// The submodules that the index lists, where it was read already.
    pub(in crate::git) links: Option<Vec<Vec<u8>>>,
}

/// The same for what is asked about alone, by a `git` that was prepared for it.
pub(in crate::git) fn status(
    top: &Path,
    index: &Path,
    prepared: &dyn Fn() -> Command,
    Asked { paths, links }: Asked<'_>,
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
        .hint(format!(
            "to see which one, run find {shown} -name '.git[ai]*' ! -type f"
        ))
    })?;
    let mut changes = Vec::new();
    for record in command::names(&output.stdout) {
        let (kind, path) = read(record).ok_or_else(|| {
            let text = String::from_utf8_lossy(record).into_owned();
            Error::new(Code::GitFailed, "git status gave a line that is none").because(text)
        })?;
        changes.push(Change {
            link: link(top, path),
            path: path.to_owned(),
            kind,
        });
    }
    let links = match links.or_else(|| gitlinks::of_index(index)) {
        Some(links) => links,
        None => gitlinks::listed(prepared())?,
    };
    let is_asked = |link: &Vec<u8>| paths.is_empty() || paths.contains(link);
    let links: Vec<_> = links.into_iter().filter(is_asked).collect();
    let holding_work = gitlinks::holding_work(top, &links, scratch);
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
            let mode = |field: &[u8]| u32::from_str_radix(std::str::from_utf8(field).ok()?, 8).ok();
            Some((kind(mode(fields[3])?, mode(fields[5])?), fields[8]))
        }
        // u XY sub m1 m2 m3 mW h1 h2 h3 path
        b'u' => Some((ChangeKind::Modified, fields(11)?[10])),
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
