//! Places that commands behind a fence may write though they are not the agent's own.

use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// What the key of the setting that opens further places starts with; git writes keys in lower case.
const ALLOW_WRITE: &str = "agent.run.allowwrite";

/// What the caller and the settings open besides. The settings of the agent's own worktree do not count.
///
/// # Errors
/// `usage` for a place that does not exist, and for one in the settings that is relative.
pub(crate) fn open_places(ctx: &Ctx, typed: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut places: Vec<PathBuf> = typed.iter().map(|path| ctx.absolute(path)).collect();
    for setting in ctx.repo.shared_settings(ALLOW_WRITE)? {
        let path = Path::new(&setting.value);
        if !path.is_absolute() && !path.starts_with("~") {
            let message = format!(
                "agent.run.allowWrite is `{}`, which is neither absolute nor starts with ~/",
                setting.value
            );
            return Err(Error::new(Code::Usage, message).hint(
                "to see where it is set, run git config --show-origin --get-all agent.run.allowWrite",
            ));
        }
        places.push(ctx.absolute(path));
    }
    let resolve = |path: PathBuf| {
        fs::canonicalize(&path).map_err(|error| {
            let message = format!("{} cannot be opened for writing", path.display());
            Error::new(Code::Usage, message).because(error)
        })
    };
    places.into_iter().map(resolve).collect()
}
