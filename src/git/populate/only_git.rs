//! The worktrees that only the user's git fills rightly, and how it is asked to.

use crate::error::{Error, Result};
use crate::git::{Repo, command};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

/// Settings that, when true, change what belongs in the worktree or its index.
const SWITCHES: [&str; 3] = ["core.sparseCheckout", "core.splitIndex", "index.sparse"];

/// Whether the repository's configuration or refs ask for something that only git does: sparse
/// checkout, split index, fetching missing objects from a promisor remote, group-writable files,
/// replaced objects, attributes looked for from the new worktree's top or taken from a tree that a setting names.
pub(super) fn is_needed(gix: &gix::Repository) -> bool {
    let config = gix.config_snapshot();
    let switched = SWITCHES
        .iter()
        .any(|&key| config.boolean(key).unwrap_or(false));
    let shared = config.string("core.sharedRepository").is_some_and(|value| {
        let private: [&[u8]; 5] = [b"umask", b"false", b"no", b"off", b"0"];
        !private.iter().any(|name| value.eq_ignore_ascii_case(name))
    });
    let promisor = config.string("extensions.partialClone").is_some()
        || gix.remote_names().iter().any(|name| {
            config
                .boolean(format!("remote.{name}.promisor").as_str())
                .unwrap_or(false)
        });
    switched || shared || promisor || has_other_attributes(gix) || has_replaced_objects(gix)
}

/// Whether git takes attributes from where gitoxide does not: from a tree, or from a file that gitoxide would look for from
/// our current directory.
pub(super) fn has_other_attributes(gix: &gix::Repository) -> bool {
    let config = gix.config_snapshot();
    let path = config.string("core.attributesFile");
    let relative = path.is_some_and(|path| !path.starts_with(b"/") && !path.starts_with(b"~"));
    relative || config.string("attr.tree").is_some()
}

/// Fills the worktree as `git worktree add` does, and tells now and then how many files are written, of how many.
///
/// # Errors
/// `git-missing`; `disk-full` or `git-failed` with what git said.
pub(super) fn populate(
    repo: &Repo,
    worktree: &Path,
    threads: usize,
    observer: &dyn Fn(usize, usize),
) -> Result<()> {
    let workers = format!("checkout.workers={threads}");
    let arguments = ["-c", &workers, "reset", "--hard", "--no-recurse-submodules"];
    // In the C locale, so that the cause can be told from what git says.
    let started = repo
        .git_among_files(worktree)?
        .args(arguments)
        .env("LC_ALL", "C")
        .env("GIT_PROGRESS_DELAY", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let failed = |error| Error::io("could not run git", error);
    let mut child = started.map_err(failed)?;
    let said = match child.stderr.take() {
        Some(stderr) => listen(stderr, observer),
        None => Ok(String::new()),
    };
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let said = said.map_err(failed)?;
    Err(Error::new(
        command::cause(&said),
        format!("git could not fill the worktree at {}", worktree.display()),
    )
    .because(said))
}

/// Tells the counts in what git says, and gives the rest of it.
fn listen(stderr: impl Read, observer: &dyn Fn(usize, usize)) -> io::Result<String> {
    let (mut said, mut line) = (Vec::new(), Vec::new());
    for byte in BufReader::new(stderr).bytes() {
        let byte = byte?;
        line.push(byte);
        // A count is written over the one before it.
        if byte == b'\r' || byte == b'\n' {
            match counted(&line) {
                Some((done, all)) => observer(done, all),
                None => said.extend_from_slice(&line),
            }
            line.clear();
        }
    }
    said.append(&mut line);
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// `Updating files:  12% (3/25)`
fn counted(line: &[u8]) -> Option<(usize, usize)> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, counts) = line.strip_prefix("Updating files:")?.split_once('(')?;
    let (done, all) = counts.split_once(')')?.0.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

fn has_replaced_objects(gix: &gix::Repository) -> bool {
    let Ok(references) = gix.references() else {
        return true;
    };
    references
        .prefixed("refs/replace/")
        .map_or(true, |mut replaced| replaced.next().is_some())
}
