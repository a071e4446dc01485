//! Worktrees of agents without a directory, and worktrees of ours without an agent.
//!
//! A directory that is gone is made again from the worktree's own index, which is what `git restore`
//! would do: what was staged comes back, and nothing is taken away. Pruning the admin directory
//! instead would lose the index. The directory is filled beside its place and renamed there, so that no
//! kill leaves one in which every file seems to be deleted.

use super::Finding;
use super::survey::Survey;
use crate::domain::diagnosis::Sign;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::command;
use crate::ops::Ctx;
use crate::store::{fsx, layout, lock, trash};
use std::fs;
use std::path::Path;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let root = ctx.repo.root()?;
    for agent in survey.live() {
        let Some(worktree) = survey.worktree(agent) else {
            continue;
        };
        let path = worktree.path.clone();
        if path.symlink_metadata().is_ok() {
            continue;
        }
        let what = format!(
            "the worktree of agent {} is gone: {}",
            agent.id.short(),
            path.display()
        );
        // Above a place outside of the repository a whole disk may be missing.
        let is_reachable = path.starts_with(&root) || path.parent().is_some_and(Path::is_dir);
        let admin = ctx.repo.admin_dir(&worktree.name);
        found.push(match is_reachable && admin.join("index").is_file() {
            true => Finding::curable(Sign::DirectoryGone, what, move |ctx| {
                restore(ctx, &path, &admin)
            }),
            false => Finding::report(
                Sign::DirectoryGone,
                what,
                "git worktree repair <where it is now>",
            ),
        });
    }
    if survey.agents.is_some() {
        found.extend(unknown(survey));
    }
    Ok(found)
}

/// Agent hosts name worktrees as we do; what our lock or none of theirs says is ours.
fn unknown(survey: &Survey) -> impl Iterator<Item = Finding> {
    let ours = survey.worktrees.iter().filter(|worktree| {
        let short = layout::agent_of_worktree(&worktree.name);
        let reason = worktree.lock_reason.as_deref();
        short.is_some_and(|id| reason == Some(&format!("git-agent {id}")))
            && survey.owner(worktree).is_none()
    });
    ours.map(|worktree| {
        Finding::report(
            Sign::WorktreeUnknown,
            format!("{} is ours and has no row", worktree.path.display()),
            format!("git -C '{}' status", worktree.path.display()),
        )
    })
}

fn restore(ctx: &Ctx, path: &Path, admin: &Path) -> Result<String> {
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    if path.symlink_metadata().is_ok() || !admin.join("index").is_file() {
        return Ok("somebody else has taken care of it".to_owned());
    }
    let half_made = fsx::unique_name(path);
    fsx::create_dir(&half_made)?;
    let filled = fill(&half_made, admin).and_then(|()| {
        // A rename would replace an empty directory, which is in nobody's way.
        fs::rename(&half_made, path).at("could not restore", path)
    });
    if let Err(error) = filled {
        trash::remove(common, &half_made)?;
        return Err(error);
    }
    Ok(format!(
        "made {} again from its index; what was never staged is not in it",
        path.display()
    ))
}

fn fill(directory: &Path, admin: &Path) -> Result<()> {
    let mut git = command::git(directory);
    git.env("GIT_DIR", admin)
        .env("GIT_WORK_TREE", directory)
        .args(["checkout-index", "--all", "--quiet"]);
    command::successful(git)?;
    let pointer = admin.to_str().ok_or_else(|| {
        Error::new(
            Code::PathInvalid,
            format!("{} is not UTF-8", admin.display()),
        )
    })?;
    let file = directory.join(".git");
    fs::write(&file, format!("gitdir: {pointer}\n")).at("could not write", &file)
}
