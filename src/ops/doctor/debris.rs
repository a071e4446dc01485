//! What killed processes left in `trash/` and `tmp/`, or half written beside what it was to become:
//! nothing of it is work. What goes to the trash was salvaged before, what is half made has not
//! been handed to an agent, and what replaces a file is not that file yet.

use crate::agents::ctx::Ctx;
use crate::agents::{at_work, half_made};
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::domain::named::size_text;
use crate::error::{IoContext, Result};
use crate::git::files::temporary;
use crate::hosts::WORKTREE_DIR;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::{briefing, fsx, layout, lock};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Nothing is half made, and no removal takes, this long, in seconds.
const OLD: i64 = 60 * 60;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let common = ctx.repo.common_dir();
    let mut found = Vec::new();
    for directory in [layout::trash_dir(common), layout::tmp_dir(common)] {
        let old: Vec<PathBuf> = old_entries(ctx, &directory).collect();
        if !old.is_empty() {
            let what = format!(
                "{} entries of {} are older than an hour and take {} of the disk",
                old.len(),
                directory.display(),
                size_text(fsx::disk_use(&old))
            );
            // Listed anew by the cure: what has become old since goes as well, and what was
            // finished does not.
            found.push(Finding::curable(Sign::Debris, what, move |ctx| {
                remove(ctx, &old_entries(ctx, &directory).collect::<Vec<_>>())
            }));
        }
    }
    // Of every repository: they cannot be told apart, and no process uses them.
    let temporary = ctx.temporary_place();
    let count = temporary::count_left(&temporary);
    if count > 0 {
        let what = format!(
            "{} holds {count} temporary {} of killed commands",
            temporary.display(),
            if count == 1 {
                "directory"
            } else {
                "directories"
            }
        );
        found.push(Finding::curable(Sign::TemporaryLeft, what, move |_| {
            Ok(format!("removed {}", temporary::sweep(&temporary)))
        }));
    }
    let over = { survey.rows().iter() }.filter(|agent| !agent.state.is_open());
    // What goes on after a landing with `--now` reads it still.
    let is_left =
        |agent: &&Agent| briefing::is_here(common, agent.id) && at_work::look(ctx, agent).is_none();
    for agent in over.filter(is_left) {
        let what = format!(
            "the prompt of agent {}, which is {}, is still here",
            agent.id.short(),
            agent.state
        );
        let agent = agent.clone();
        found.push(Finding::curable(Sign::BriefingLeft, what, move |ctx| {
            at_work::forget_prompt(ctx, &agent, None)?;
            Ok("deleted it, and what was confidential in task and logs".to_owned())
        }));
    }
    for directory in shared_directories(ctx, survey) {
        for path in half_written(ctx, &directory) {
            let what = format!("{} was never finished", path.display());
            found.push(Finding::curable(Sign::Debris, what, move |ctx| {
                // Held by a process that restores a worktree.
                let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
                remove(ctx, &[path])
            }));
        }
    }
    Ok(found)
}

/// The directories in which something of ours is replaced whole: our own, git's `info`, and those that
/// hold worktrees.
fn shared_directories(ctx: &Ctx, survey: &Survey) -> BTreeSet<PathBuf> {
    let common = ctx.repo.common_dir();
    let agents = layout::agents_dir(common);
    let own = fs::read_dir(&agents).into_iter().flatten().flatten();
    let own = own.map(|entry| entry.path()).filter(|path| path.is_dir());
    let places = survey.places.iter();
    let places = places.flat_map(|places| survey.live().filter_map(|agent| places.of(agent)));
    let parents = places.filter_map(|path| path.parent().map(Path::to_owned));
    let mut all: BTreeSet<_> = own.chain(parents).collect();
    all.extend([agents, common.join("info")]);
    // Also where no live agent is left.
    all.extend(ctx.repo.root().ok().map(|root| root.join(WORKTREE_DIR)));
    // What is in these is looked at as a whole above.
    for whole in [layout::trash_dir(common), layout::tmp_dir(common)] {
        all.remove(&whole);
    }
    all
}

/// What bears a name that only [`fsx::unique_name`] gives, and is old or of a process that is gone.
fn half_written(ctx: &Ctx, directory: &Path) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| path.file_name().is_some_and(fsx::is_unique_name);
    let old: BTreeSet<_> = old_entries(ctx, directory).filter(is_ours).collect();
    old.into_iter()
        .chain(half_made::left_over(directory))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn remove(ctx: &Ctx, entries: &[PathBuf]) -> Result<String> {
    for path in entries {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fsx::remove_by_trash(ctx.repo.common_dir(), path)?,
            Ok(_) => fs::remove_file(path).at("could not remove", path)?,
            // Its owner has removed it.
            Err(_) => {}
        }
    }
    Ok(format!("removed {} entries", entries.len()))
}

/// By the time of the last rename, which is when it came here.
fn old_entries(ctx: &Ctx, directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let now = ctx.now().timestamp();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(move |entry| {
            entry
                .metadata()
                // Not when it was written: what is moved here keeps that time, and may have been
                // old.
                .is_ok_and(|metadata| now - metadata.ctime() >= OLD)
        })
        .map(|entry| entry.path())
}
