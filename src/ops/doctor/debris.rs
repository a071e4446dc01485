//! What killed processes left in `trash/` and `tmp/`: nothing in there is anybody's work. What goes to the
//! trash was salvaged before, and what is half made has not been handed to an agent.

use super::Finding;
use super::survey::Survey;
use crate::domain::diagnosis::Sign;
use crate::error::{IoContext, Result};
use crate::ops::Ctx;
use crate::store::{layout, trash};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// No removal takes this long, in seconds.
const OLD: i64 = 60 * 60;

pub(super) fn look(ctx: &Ctx, _survey: &Survey) -> Result<Vec<Finding>> {
    let common = ctx.repo.common_dir();
    let mut found = Vec::new();
    for directory in [layout::trash_dir(common), layout::tmp_dir(common)] {
        let count = old_entries(ctx, &directory).len();
        if count > 0 {
            let what = format!(
                "{count} entries of {} are older than an hour",
                directory.display()
            );
            found.push(Finding::curable(Sign::Debris, what, move |ctx| {
                empty(ctx, &directory)
            }));
        }
    }
    Ok(found)
}

fn empty(ctx: &Ctx, directory: &Path) -> Result<String> {
    let entries = old_entries(ctx, directory);
    for path in &entries {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => trash::remove(ctx.repo.common_dir(), path)?,
            Ok(_) => fs::remove_file(path).at("could not remove", path)?,
            // Whoever put it there has removed it.
            Err(_) => {}
        }
    }
    Ok(format!("removed {} entries", entries.len()))
}

/// By the time of the last rename, which is when it came here.
fn old_entries(ctx: &Ctx, directory: &Path) -> Vec<PathBuf> {
    let now = ctx.now().timestamp();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .metadata()
                .is_ok_and(|metadata| now - metadata.ctime() >= OLD)
        })
        .map(|entry| entry.path())
        .collect()
}
