//! `[setup]`: ignored files brought into the new worktree, and commands run in it, before the agent is
//! declared ready.

use crate::agents::ctx::Ctx;
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::worktree::AgentWorktree;
use crate::domain::baseline::Baseline;
use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::domain::scope::Scope;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::command;
use crate::git::landing::linked_at;
use crate::ops::spawn::contract::SpawnPlan;
use crate::proc::{self, End, Job};
use crate::store::{baseline, layout};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};
use std::time::Duration;

/// How long one set-up command may take: dependencies are often fetched from far away.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// How many paths a warning names.
const NAMED: usize = 3;

/// Copies and runs what the task asks for; gives what its author should know.
///
/// # Errors
/// `io` when a file cannot be copied; `setup-failed` when a command fails, with what it said. Either
/// undoes the spawn.
pub(super) fn set_up(ctx: &Ctx, plan: &SpawnPlan, worktree: &Path) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if !plan.task.setup_copy.is_empty() {
        match ctx.repo.main_worktree()? {
            Some(root) => warnings = copy_ignored(&root, worktree, plan)?,
            None => warnings.push("[setup] copies nothing: there is no main worktree".to_owned()),
        }
    }
    for text in &plan.task.setup_run {
        run(ctx, text, worktree)?;
    }
    Ok(warnings)
}

/// Whether the plan has anything to set up.
pub(super) fn has_work(plan: &SpawnPlan) -> bool {
    !plan.task.setup_copy.is_empty() || !plan.task.setup_run.is_empty()
}

/// Records what the worktree of a new agent holds that its branch does not, so that it is no work of the agent's; gives
/// the blob, if there is anything. What the commands staged is staged no longer: what is staged is work.
///
/// # Errors
/// Those of git, the file system and the keep chain.
pub(super) fn record(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
) -> Result<Option<Oid>> {
    let repo = &ctx.repo;
    let name = layout::worktree_name(plan.id);
    let tip = repo.tip(branch)?.oid().unwrap_or(plan.spawn_commit);
    let before = repo.read_commit(tip)?.tree;
    let checkout = linked_at(repo, &name, worktree, &ctx.temporary_place())?;
    if checkout.staged_tree(repo).ok() != Some(before) {
        checkout.stage(before)?;
    }
    let place = AgentWorktree {
        path: worktree.to_owned(),
        admin_dir: checkout.git_dir,
    };
    let Some(tree) = whole_tree(ctx, tip, &place, Some(&plan.bundle_dir))? else {
        return Ok(None);
    };
    let found = Baseline::of(repo.differences(before, tree)?);
    baseline::keep(repo, plan.id, &found, &plan.identities, ctx.now()).map(Some)
}

/// Copies the ignored files of the main worktree that match, and symlinks that stay inside; nothing that is there
/// already is replaced.
fn copy_ignored(root: &Path, worktree: &Path, plan: &SpawnPlan) -> Result<Vec<String>> {
    let mut wanted = Vec::new();
    for glob in &plan.task.setup_copy {
        let scope = Scope::new(std::slice::from_ref(glob), &[])
            .map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
        wanted.push((glob, scope, false));
    }
    let arguments = [
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
    ];
    let listed = command::run(root, arguments)?;
    let mut left = Vec::new();
    for name in listed.split(|&b| b == 0) {
        // A repository inside this one ends in a slash.
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let Ok(path) = RepoPath::parse(name) else {
            continue;
        };
        let mut is_wanted = false;
        for (_, scope, found) in &mut wanted {
            let matches = scope.decide(&path).is_allowed();
            *found |= matches;
            is_wanted |= matches;
        }
        if is_wanted && !copy(root, worktree, Path::new(OsStr::from_bytes(name)))? {
            left.push(path);
        }
    }
    let unmatched = wanted.iter().filter(|(_, _, found)| !found);
    let mut warnings: Vec<_> = unmatched
        .map(|(glob, ..)| format!("the glob `{glob}` to copy matches no ignored file"))
        .collect();
    if !left.is_empty() {
        let named: Vec<_> = left.iter().take(NAMED).map(ToString::to_string).collect();
        let more = match left.len().checked_sub(NAMED) {
            None | Some(0) => String::new(),
            Some(more) => format!(" and {more} more"),
        };
        warnings.push(format!(
            "not copied, being neither a file nor a symlink that stays inside: {}{more}",
            named.join(", ")
        ));
    }
    Ok(warnings)
}

/// Copies one file or symlink; `false` for what is neither, or would lead out of the worktree.
fn copy(root: &Path, worktree: &Path, place: &Path) -> Result<bool> {
    let (from, to) = (root.join(place), worktree.join(place));
    let Ok(metadata) = fs::symlink_metadata(&from) else {
        return Ok(true);
    };
    let target = if metadata.is_symlink() {
        Some(fs::read_link(&from).at("could not read", &from)?)
    } else {
        None
    };
    if target
        .as_ref()
        .map_or(!metadata.is_file(), |target| !stays_inside(place, target))
    {
        return Ok(false);
    }
    if to.symlink_metadata().is_ok() {
        return Ok(true);
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).at("could not make", parent)?;
    }
    match target {
        Some(target) => symlink(target, &to).at("could not make", &to)?,
        None => {
            fs::copy(&from, &to).at("could not copy", &from)?;
        }
    }
    Ok(true)
}

/// Whether a symlink at this place means something in the same worktree. One that is absolute would mean a
/// file of the main one.
fn stays_inside(place: &Path, target: &Path) -> bool {
    let mut depth = place.components().count().saturating_sub(1);
    target.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        Component::CurDir => true,
        _ => false,
    })
}

fn run(ctx: &Ctx, text: &str, worktree: &Path) -> Result<()> {
    let finished = proc::run(&Job {
        program: ctx.env.require_program()?,
        script: text,
        directory: worktree,
        limit: LIMIT,
    })?;
    let how = match finished.end {
        End::Status(0) => return Ok(()),
        End::Status(code) => format!("ended with status {code}"),
        End::TimedOut => format!("took longer than {} s", LIMIT.as_secs()),
    };
    Err(Error::new(
        Code::SetupFailed,
        format!("the setup command `{text}` {how}"),
    )
    .because(finished.output.trim().to_owned())
    .hint("to see it fail by hand, run it in a worktree of the same commit"))
}
