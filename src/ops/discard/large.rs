//! The files of a worktree that are too long to be read: which there are, and moving them out of the way before anything reads
//! the rest.

use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::domain::agent::Agent;
use crate::domain::change::ChangeKind;
use crate::error::Result;
use crate::git::changes::Glance;
use crate::git::uncommitted::glance;
use crate::ops::discard::DiscardOptions;
use crate::ops::discard::gate::Place;
use crate::ops::discard::reading::bundle_dir;
use crate::store::large_files::{self, LargeFile};
use crate::store::layout;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use walkdir::WalkDir;

/// Sets the large files aside that are in no commit; gives them. What is tracked and unchanged is not among them, and what git
/// ignores only where ignored files are kept.
pub(super) fn set_aside(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    options: DiscardOptions,
) -> Result<Vec<LargeFile>> {
    let Some(top) = &place.contents() else {
        return Ok(Vec::new());
    };
    let beside = layout::large_beside(&place.path, agent.id);
    let common = ctx.repo.common_dir();
    let mut moved = Vec::new();
    for path in candidates(ctx, agent, place, top, options)? {
        moved.push(large_files::set_aside(
            common, agent.id, top, &path, &beside,
        )?);
    }
    // Made for a file that went elsewhere.
    let _ = std::fs::remove_dir(&beside);
    Ok(moved)
}

/// The paths of large files that are in no commit.
fn candidates(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    top: &Path,
    options: DiscardOptions,
) -> Result<Vec<Vec<u8>>> {
    let rules = ctx
        .ignore_rules()?
        .without(bundle_dir(ctx, agent)?.as_deref());
    let scratch = Scratch::make(ctx, "large")?;
    let changes = glance(&Glance {
        repo: Some(&ctx.repo),
        top,
        admin_dir: &place.admin_dir,
        rules: &rules,
        scratch: scratch.path(),
    });
    let mut large = Vec::new();
    match changes {
        Ok(changes) if !options.with_ignored => {
            for change in changes {
                if change.kind == ChangeKind::Deleted {
                    continue;
                }
                match change.path.strip_suffix(b"/") {
                    Some(directory) => below(
                        top,
                        &top.join(std::ffi::OsStr::from_bytes(directory)),
                        &mut large,
                    ),
                    None if large_files::is_large(top, &change.path) => large.push(change.path),
                    None => {}
                }
            }
        }
        // Where git cannot tell, a large file that is tracked and unchanged is moved as well: it costs nothing.
        // So it is where ignored files are kept too, which git's answer does not name.
        _ => below(top, top, &mut large),
    }
    Ok(large)
}

/// Adds the large files of a directory.
fn below(top: &Path, directory: &Path, large: &mut Vec<Vec<u8>>) {
    for entry in WalkDir::new(directory).into_iter().flatten() {
        let is_long = |entry: &walkdir::DirEntry| {
            entry
                .metadata()
                .is_ok_and(|found| found.len() > large_files::LARGE)
        };
        if entry.file_type().is_file()
            && is_long(&entry)
            && let Ok(inside) = entry.path().strip_prefix(top)
        {
            large.push(inside.as_os_str().as_bytes().to_owned());
        }
    }
}
