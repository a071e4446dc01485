//! Commits of the store, each with a trailer that says so.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::objects::{Commit, Identity, NewCommit};
use chrono::{DateTime, Utc};

/// The trailer that marks commits as ours; a commit without it was made by a foreign writer.
pub const TRAILER: &str = "Git-Agent";

/// Whether this program made the commit.
pub(super) fn is_ours(commit: &Commit) -> bool {
    commit.trailer(TRAILER).is_some()
}

/// Writes a commit of ours for a chain.
///
/// # Errors
/// As [`Repo::write_commit`].
pub fn commit(
    repo: &Repo,
    tree: Oid,
    parents: &[Oid],
    who: &Identity,
    subject: &str,
) -> Result<Oid> {
    let message = message_of(subject);
    repo.write_commit(&new_commit(tree, parents, who, &message))
}

/// As [`commit`], with the user's signature as git makes it.
///
/// # Errors
/// `commit-refused` when it cannot be signed; `git-missing`, `git-failed`.
pub(in crate::store) fn signed_commit(
    repo: &Repo,
    tree: Oid,
    parents: &[Oid],
    who: &Identity,
    subject: &str,
) -> Result<Oid> {
    let message = message_of(subject);
    let failure = "agent.sign is set, and git could not sign the event";
    repo.write_signed_commit(&new_commit(tree, parents, who, &message), failure)
        .map_err(|error| error.hint("to record events unsigned, run git config agent.sign false"))
}

/// Writes a commit that matters for its message and its parents, with an empty tree.
///
/// # Errors
/// As [`Repo::write_commit`].
pub fn empty_commit(repo: &Repo, parents: &[Oid], who: &Identity, message: &str) -> Result<Oid> {
    // git knows the empty tree without an object, libgit2 does not.
    let tree = repo.write_tree(Vec::new())?;
    repo.write_commit(&new_commit(tree, parents, who, message))
}

fn message_of(subject: &str) -> String {
    format!("{subject}\n\n{TRAILER}: 1\n")
}

fn new_commit<'a>(
    tree: Oid,
    parents: &'a [Oid],
    who: &'a Identity,
    message: &'a str,
) -> NewCommit<'a> {
    NewCommit {
        tree,
        parents,
        author: who,
        committer: who,
        header: None,
        message,
    }
}

/// Who signs commits of the store at that moment: the configured user, else the program itself.
pub fn identity(repo: &Repo, now: DateTime<Utc>) -> Identity {
    Identity {
        seconds: now.timestamp(),
        ..repo.configured_identity()
    }
}
