//! The worktrees that only the user's git fills rightly, and how it is asked to.

use crate::error::{Error, Result};
use crate::git::command;
use std::path::Path;

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

/// Fills the worktree as `git worktree add` does.
///
/// # Errors
/// `git-missing`; `disk-full` or `git-failed` with what git said.
pub(super) fn populate(worktree: &Path, threads: usize) -> Result<()> {
    let workers = format!("checkout.workers={threads}");
    let arguments = [
        "-c",
        &workers,
        "reset",
        "--hard",
        "--quiet",
        "--no-recurse-submodules",
    ];
    // In the C locale, so that the cause can be told from what git says.
    let output = command::git(worktree)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| Error::io("could not start git", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::new(
        command::cause(&said),
        format!("git could not fill the worktree at {}", worktree.display()),
    )
    .because(said))
}

fn has_replaced_objects(gix: &gix::Repository) -> bool {
    let Ok(references) = gix.references() else {
        return true;
    };
    references
        .prefixed("refs/replace/")
        .map_or(true, |mut replaced| replaced.next().is_some())
}
