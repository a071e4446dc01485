//! Directories that are swept away while they are still empty.
//!
//! `git gc`, `git pack-refs`, `git branch -d` and `git worktree prune` remove directories that have become
//! empty. A program that makes one and then puts a file into it, as libgit2 does, may find it gone in between.
//! git itself tries again then.

use std::io::ErrorKind;

/// A sweep passes a directory once in milliseconds; the way from making one to filling it is of
/// microseconds. More misses than this have another reason.
const ATTEMPTS: usize = 200;

/// An error that may come of a directory that is gone.
pub(in crate::git) trait IsNotFound {
    /// Whether something on the way was not there.
    fn is_not_found(&self) -> bool;
}

impl IsNotFound for std::io::Error {
    fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }
}

impl IsNotFound for git2::Error {
    fn is_not_found(&self) -> bool {
        // libgit2 gives the system's words and no number, and where it could not open a new reflog, nothing.
        let text = self.message();
        match self.class() {
            git2::ErrorClass::Os => text.ends_with("No such file or directory"),
            git2::ErrorClass::None => true,
            _ => false,
        }
    }
}

/// Makes a directory and something in it, again when the directory was swept away in between. `make`
/// leaves nothing behind when it fails.
///
/// # Errors
/// The last that `make` gave.
pub(in crate::git) fn retry_if_pruned<T, E: IsNotFound>(
    mut make: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    for _ in 1..ATTEMPTS {
        match make() {
            Err(error) if error.is_not_found() => {}
            other => return other,
        }
    }
    make()
}
