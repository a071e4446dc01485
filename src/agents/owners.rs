//! Who owns the files of a repository, as the `CODEOWNERS` of a tree says.

use crate::domain::code_owners::{CodeOwners, PLACES};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;

/// The owners that a tree names; `None` where it has no such file.
///
/// # Errors
/// Those of reading objects.
pub(crate) fn owners_in(repo: &Repo, tree: Oid) -> Result<Option<CodeOwners>> {
    for place in PLACES {
        // The first that is there holds, as on the forges; a directory of that name holds nothing.
        if let Some(entry) = repo.entry_at(tree, place)?
            && let Ok(text) = repo.read_blob(entry.oid)
        {
            return Ok(Some(CodeOwners::parse(&String::from_utf8_lossy(&text))));
        }
    }
    Ok(None)
}
