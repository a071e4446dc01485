//! Programs that no agent can have put there.

use super::ctx::Ctx;
use crate::error::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// The program of this name on the path; none that lies in the repository or in a worktree, which agents can write. A path in
/// place of a name is taken as it is.
///
/// # Errors
/// Those of listing worktrees.
pub fn find(ctx: &Ctx, name: &str) -> Result<Option<PathBuf>> {
    let mut inside = vec![ctx.repo.root()?];
    inside.extend(ctx.repo.worktrees()?.into_iter().map(|one| one.path));
    let is_outside = |file: &PathBuf| {
        // A name without a directory is relative to where the caller stands, which may be a worktree. A link on the path may
        // lead into one, so the directory is resolved first.
        let real = file.parent().map(fs::canonicalize);
        file.is_absolute()
            && matches!(real, Some(Ok(real)) if !inside.iter().any(|top| real.starts_with(top)))
    };
    let mut files = ctx
        .env
        .search
        .iter()
        .map(|place| place.join(Path::new(name)));
    Ok(files.find(|file| file.is_file() && is_outside(file)))
}
