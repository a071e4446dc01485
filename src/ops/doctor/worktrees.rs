//! Worktrees of agents without a directory, and worktrees of ours without an agent.
//!
//! A directory that is gone is made again from the worktree's own index, which is what `git restore`
//! would do: what was staged comes back, and nothing is taken away. Pruning the admin directory
//! instead would lose the index. The directory is filled beside its place and renamed there, so that no
//! kill leaves one in which every file seems to be deleted. One that an interrupted discard has put aside gets
//! its name back, unless all of it was kept already: then the discard is completed. All give up where a process works for the agent, such as a discard.

use crate::agents::upkeep::{clone, hooks};
use crate::agents::{Ctx, context::untrusted, place::worktree, stock::layered};
use crate::domain::judge::diagnosis::Sign;
use crate::domain::{Agent, AgentId, Oid, State, branch_name, value::shell};
use crate::error::{Code, IoContext, Remedy, Result};
use crate::git::files;
use crate::git::files::admin_dir::{belongs_to, named_by};
use crate::git::{NewWorktree, Tip, WorktreeLayer, core::command};
use crate::ops::discard::{self, DiscardOptions};
use crate::ops::doctor::DoctorFinding;
use crate::ops::doctor::survey::Survey;
use crate::ops::error_report::remedy_command;
use crate::ops::rescue::from_index;
use crate::store::files::{fsx, large_files, layout, lock};
use crate::store::{OwnBranch, ledger::agent_branch};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const TAKEN_CARE_OF: &str = "another process has removed it";

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    let root = ctx.repo.root()?;
    let unfinished = |agent: &&Agent| {
        layout::discarding(ctx.repo.common_dir(), agent.id).symlink_metadata().is_ok()
    };
    // A discard that is under way holds the agent's lock; one that was killed does not.
    let killed = survey.rows().iter().filter(unfinished);
    let killed: Vec<&Agent> = killed.filter(|agent| alone(ctx, agent.id).is_ok()).collect();
    found.extend(killed.iter().map(|agent| discard_unfinished(agent)));
    for agent in survey.rows().iter().filter(|agent| agent.state != State::Spawning) {
        if let Some(worktree) = survey.worktree(agent)
            && let Some(lost) = layer_lost(ctx, agent, &worktree.path)
            && survey.is_at_rest(ctx, agent)
        {
            found.push(lost);
        }
    }
    for agent in survey.live().filter(|agent| !unfinished(agent)) {
        let Some(worktree) = survey.worktree(agent) else {
            found.extend(removed(ctx, survey, agent)?);
            continue;
        };
        let path = worktree.path.clone();
        if path.symlink_metadata().is_ok() {
            if survey.is_at_rest(ctx, agent) {
                found.extend(led_away(ctx, survey, agent, &path));
            }
            found.extend(outside_mount(ctx, agent, &path));
            found.extend(unreadable(ctx, agent, &path));
            let admin = ctx.repo.admin_dir(&worktree.name);
            if is_emptied(&admin) && survey.is_at_rest(ctx, agent) {
                found.push(emptied_index(agent, path, admin));
            }
            continue;
        }
        if let Some(aside) = worktree::found_aside(&path, &worktree.name) {
            // A discard that is under way holds the agent's lock; one that was killed does not.
            if alone(ctx, agent.id).is_ok() {
                found.push(put_aside(agent, path, aside));
            }
            continue;
        }
        // A command that is under way may be removing it at this moment.
        if !survey.is_at_rest(ctx, agent) {
            continue;
        }
        if let Some(moved) = led_away(ctx, survey, agent, &path) {
            found.push(moved);
            continue;
        }
        let what =
            format!("the worktree of agent {} is gone: {}", agent.id.short(), path.display());
        // Above a place outside of the repository a whole disk may be missing.
        let is_reachable = path.starts_with(&root) || path.parent().is_some_and(Path::is_dir);
        let admin = ctx.repo.admin_dir(&worktree.name);
        let agent = agent.clone();
        // The index is what the files are made from, so without it there is nothing to be restored.
        found.push(if is_reachable && admin.join("index").is_file() {
            DoctorFinding::curable(Sign::DirectoryGone, what, move |ctx| {
                restore(ctx, &agent, &path, &admin)
            })
        } else {
            DoctorFinding::report(
                Sign::DirectoryGone,
                what,
                "git worktree repair <where it is now>",
            )
        });
    }
    // What landed or was turned down keeps its worktree until it is discarded.
    for agent in survey.rows().iter().filter(|it| !it.state.is_open() && !unfinished(it)) {
        let Some(worktree) = survey.worktree(agent) else { continue };
        if survey.is_at_rest(ctx, agent) {
            let path = &worktree.path;
            let aside = worktree::found_aside(path, &worktree.name);
            let aside = aside.map(|aside| put_aside(agent, path.clone(), aside));
            found.extend(aside.or_else(|| led_away(ctx, survey, agent, path)));
        }
    }
    found.extend(unlinked_agents(ctx, survey));
    if survey.agents.is_some() {
        found.extend(unknown(survey));
    }
    Ok(found)
}

/// A worktree whose `.git` file does not lead to the admin directory that git has for it here, as after the repository was moved or copied.
/// `found_at` is where that directory says the worktree is.
pub(super) fn led_away(
    ctx: &Ctx,
    survey: &Survey,
    agent: &Agent,
    found_at: &Path,
) -> Option<DoctorFinding> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    // The next mount of a layered one takes over what is written at its place.
    if belongs_to(found_at, &admin) {
        return None;
    }
    let sign = if found_at.symlink_metadata().is_ok() {
        Sign::WorktreeUnlinked
    } else {
        Sign::DirectoryGone
    };
    let id = agent.id;
    // One inside the root went along with the repository, and is where the row says; one beside it stayed.
    let row = survey.places.as_ref().and_then(|places| places.of(agent));
    let mut places = row.into_iter().chain([found_at.to_owned()]);
    let Some(path) = places.find(|path| worktree::is_ours(path, &admin)) else {
        // Where a repository was copied, the agent goes on in the other one, whose worktree this is.
        let Some(other) = worktree::other_repository(found_at, &admin) else {
            return found_at.is_dir().then(|| {
                let moved = moved_in(ctx, survey, agent, found_at, &admin);
                moved.unwrap_or_else(|| without_pointer(agent, found_at, admin))
            });
        };
        let what = format!(
            "agent {} works in {}, of which this repository is a copy: {}",
            id.short(),
            other.display(),
            found_at.display()
        );
        let command = format!("git -C {} agent show {}", shell::path(&other), id.short());
        return Some(DoctorFinding::report(sign, what, command));
    };
    let what = format!(
        "the repository was moved, and git does not find the worktree of agent {}: {}",
        id.short(),
        path.display()
    );
    Some(DoctorFinding::curable(sign, what, move |ctx| {
        let _alone = alone(ctx, id)?;
        if !worktree::is_ours(&path, &admin) {
            return Ok(TAKEN_CARE_OF.to_owned());
        }
        if clone::is_one(ctx, id) {
            clone::point(&path, &admin)?;
        } else {
            ctx.repo.point_worktree(&path, &admin)?;
            // The settings of the worktree name our directory of hooks.
            hooks::install(ctx, id, &path, hooks::this_git(ctx))?;
        }
        // Last, since after it nothing is found here.
        ctx.repo.point_admin_dir(&admin, &path)?;
        Ok("git finds it again".to_owned())
    }))
}

/// Something else in the place of a worktree: a symlink, by which a command would write to what it leads to, or the worktree of another
/// agent, whose work would be taken for that of this one.
fn moved_in(
    ctx: &Ctx,
    survey: &Survey,
    agent: &Agent,
    path: &Path,
    admin: &Path,
) -> Option<DoctorFinding> {
    let id = agent.id.short();
    let shown = shell::path(path);
    let aside = shell::path(&path.with_extension("moved"));
    let (what, command) = if path.is_symlink() {
        let target = fs::canonicalize(path).ok()?;
        let to = shell::path(&target);
        // A worktree that was moved may stay where it is.
        let command = if named_by(&target, admin).as_deref() == Some(admin) {
            format!("rm {shown} && git worktree repair {to}")
        } else {
            format!("mv {shown} {aside} && git agent doctor --fix")
        };
        (
            format!("in the place of the worktree of agent {id} is a symlink to {to}: {shown}"),
            command,
        )
    } else {
        let named = named_by(path, admin)?;
        let mut worktrees = survey.worktrees.iter();
        let other = worktrees.find(|other| ctx.repo.admin_dir(&other.name) == named)?;
        let home = shell::path(&other.path);
        let command = if named_by(&other.path, &named).as_deref() == Some(admin) {
            format!("mv {shown} {aside} && mv {home} {shown} && mv {aside} {home}")
        } else if other.path.symlink_metadata().is_err() {
            format!("mv {shown} {home} && git agent doctor --fix")
        } else {
            format!("mv {shown} {aside} && git agent doctor --fix")
        };
        let other = layout::agent_of_worktree(&other.name)
            .map_or(other.name.clone(), |other| format!("agent {other}"));
        (format!("in the place of the worktree of agent {id} is that of {other}: {shown}"), command)
    };
    Some(DoctorFinding::report(Sign::WorktreeUnlinked, what, command))
}

/// A worktree whose `.git` file was removed, or replaced by what leads to no worktree.
fn without_pointer(agent: &Agent, path: &Path, admin: PathBuf) -> DoctorFinding {
    let id = agent.id;
    let what = format!(
        "the .git file in the worktree of agent {} does not lead here: {}",
        id.short(),
        path.display()
    );
    let pointer = path.join(".git");
    if pointer.symlink_metadata().is_ok() {
        // It may be a repository with commits of its own.
        let command = format!(
            "mv {} {} && git agent doctor --fix",
            shell::path(&pointer),
            shell::path(&path.with_extension("dot-git")),
        );
        return DoctorFinding::report(Sign::WorktreeUnlinked, what, command);
    }
    let path = path.to_owned();
    DoctorFinding::curable(Sign::WorktreeUnlinked, what, move |ctx| {
        let _alone = alone(ctx, id)?;
        if pointer.symlink_metadata().is_ok() {
            return Ok(TAKEN_CARE_OF.to_owned());
        }
        ctx.repo.point_worktree(&path, &admin)?;
        Ok("git finds it again".to_owned())
    })
}

/// Whether the index in an admin directory is a file and lacks even the first word of one.
fn is_emptied(admin: &Path) -> bool {
    let mut first = Vec::new();
    // Agents can put something else in its place.
    let index = files::untrusted::open(admin, Path::new("index"));
    let read = index.map(|index| index.take(4).read_to_end(&mut first));
    read.is_some_and(|read| read.is_ok()) && first != b"DIRC"
}

/// What was only staged is lost, and every file is still there: an index of the branch's tip shows it as modified again.
fn emptied_index(agent: &Agent, path: PathBuf, admin: PathBuf) -> DoctorFinding {
    let id = agent.id.short();
    let what = format!("the index of agent {id} holds nothing: {}", admin.join("index").display());
    // Which paths of it are not to be in the worktree only git's own commands write into an index.
    if admin.join("info/sparse-checkout").exists() {
        let git = format!("git -C {}", shell::path(&path));
        let command = format!("{git} read-tree HEAD && {git} sparse-checkout reapply");
        return DoctorFinding::report(Sign::IndexEmptied, what, command);
    }
    let agent = agent.clone();
    DoctorFinding::curable(Sign::IndexEmptied, what, move |ctx| {
        let _alone = alone(ctx, agent.id)?;
        let tip = OwnBranch::of(&ctx.repo, &agent)?.and_then(|own| own.tip().oid());
        if !is_emptied(&admin) {
            return Ok(TAKEN_CARE_OF.to_owned());
        }
        read_tree(ctx, &admin.join("index"), tip.unwrap_or(agent.spawn_commit))?;
        Ok("wrote it anew from the branch; what was only staged is not in it".to_owned())
    })
}

/// Writes an index that says what a commit says.
fn read_tree(ctx: &Ctx, index: &Path, commit: Oid) -> Result<()> {
    let common = ctx.repo.common_dir();
    let mut git = command::git(common);
    git.env("GIT_DIR", common).env("GIT_INDEX_FILE", index).args(["read-tree", &commit.to_hex()]);
    command::successful(git).map(|_| ())
}

/// What lies in the place of a layered worktree beside its `.git` file.
fn outside_mount(ctx: &Ctx, agent: &Agent, path: &Path) -> Option<DoctorFinding> {
    layered::of(&ctx.repo, agent.id)?;
    // The next command that needs it ends what a killed `materialize` began.
    if layered::is_exchanged(ctx, agent, path).is_ok_and(|is_exchanged| is_exchanged) {
        return None;
    }
    let names = untrusted::names(path).into_iter();
    let first = path.join(names.filter(|name| name != ".git").min()?);
    let what = format!(
        "{} is no work of agent {}: its worktree is layered, and this was written outside of its mount",
        first.display(),
        agent.id.short()
    );
    let command = format!("mv {} <elsewhere>", shell::path(&first));
    Some(DoctorFinding::report(Sign::OutsideMount, what, command))
}

/// A layered worktree without its layer. What was not committed is lost with that, and an ordinary worktree is made of the index, as where the
/// directory of one is gone.
fn layer_lost(ctx: &Ctx, agent: &Agent, path: &Path) -> Option<DoctorFinding> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if !WorktreeLayer::is_lost(path, &admin) {
        return None;
    }
    let what = WorktreeLayer::lost(&admin, Code::LayerInvalid).to_string();
    let [upper, _] = WorktreeLayer::parts(&WorktreeLayer::directory(&admin)?);
    if upper.is_dir() {
        // What the agent changed is there still, and the base that it lies over is unknown.
        let command = format!("mv {} <elsewhere> && git agent doctor --fix", shell::path(&upper));
        return Some(DoctorFinding::report(Sign::WorktreeUnreadable, what, command));
    }
    let (agent, path) = (agent.clone(), path.to_owned());
    Some(DoctorFinding::curable(Sign::DirectoryGone, what, move |ctx| {
        let alone = alone(ctx, agent.id)?;
        if !WorktreeLayer::is_lost(&path, &admin) {
            return Ok(TAKEN_CARE_OF.to_owned());
        }
        // Until here nothing could be written to it, so it holds nothing else.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).at("could not open", &path)?;
        fs::remove_file(path.join(".git")).at("could not empty", &path)?;
        fs::remove_dir(&path).at("could not remove", &path)?;
        drop(alone);
        restore(ctx, &agent, &path, &admin)
    }))
}

/// A directory with all of an agent's files, or with all that it changed, that cannot be listed.
fn unreadable(ctx: &Ctx, agent: &Agent, path: &Path) -> Option<DoctorFinding> {
    let layer = layered::of(&ctx.repo, agent.id);
    let files = layer.as_ref().map_or(path, |layer| &layer.upper);
    let error = fs::read_dir(files).err()?;
    let what = format!(
        "the files of agent {} cannot be read: {}: {error}",
        agent.id.short(),
        files.display()
    );
    let command = if files.is_dir() {
        format!("chmod u+rwx {}", shell::quoted(&files.to_string_lossy()))
    } else {
        format!("mv {} <elsewhere>", shell::path(files))
    };
    Some(DoctorFinding::report(Sign::WorktreeUnreadable, what, command))
}

/// A worktree of this clone of which neither the directory nor git's own record is left, as after `git worktree
/// remove`.
fn removed(ctx: &Ctx, survey: &Survey, agent: &Agent) -> Result<Option<DoctorFinding>> {
    let name = layout::worktree_name(agent.id);
    let admin = ctx.repo.admin_dir(&name);
    let path = survey.places.as_ref().and_then(|places| places.of(agent));
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let left =
        path.as_deref().is_some_and(|path| is_there(path) || is_there(&layout::aside(path, &name)));
    // What the agent changed is there, so the worktree can be made again (`unlinked_agents`).
    let left = left || worktree::cut_off(&ctx.repo, agent.id).is_some();
    if !survey.is_local(agent) || is_there(&admin) || left || !survey.is_at_rest(ctx, agent) {
        return Ok(None);
    }
    let id = agent.id.short();
    let what = format!("the worktree of agent {id} was removed without git agent");
    let has_branch = agent_branch::local(&ctx.repo, agent)? != Tip::Absent;
    let command = if has_branch && path.is_some() {
        remedy_command(&Remedy::Reopen(id))
    } else {
        format!("git agent discard {id}")
    };
    Ok(Some(DoctorFinding::report(Sign::WorktreeRemoved, what, command)))
}

/// Agent hosts name worktrees as we do; what our lock or none of theirs says is ours.
fn unknown(survey: &Survey) -> impl Iterator<Item = DoctorFinding> {
    let ours = survey.worktrees.iter().filter(|worktree| {
        let short = layout::agent_of_worktree(&worktree.name);
        let reason = worktree.lock_reason.as_deref();
        short.is_some_and(|id| reason == Some(&format!("git-agent {id}")))
            && survey.owner(worktree).is_none()
    });
    ours.map(|worktree| {
        DoctorFinding::report(
            Sign::WorktreeUnknown,
            format!("{} is ours and has no row", worktree.path.display()),
            format!("git -C {} status", shell::path(&worktree.path)),
        )
    })
}

/// Keeps other processes of ours away from the agent, and fails at once where one works for it.
pub(super) fn alone(ctx: &Ctx, id: AgentId) -> Result<lock::Guard> {
    let common = ctx.repo.common_dir();
    fsx::create_dir(&layout::agent_dir(common, id))?;
    lock::hold_for(common, &layout::live_lock(id), Duration::ZERO)
}

/// A discard that was killed after all of the agent was kept.
fn discard_unfinished(agent: &Agent) -> DoctorFinding {
    let id = agent.id.to_string();
    let what =
        format!("a discard of agent {} was interrupted, and all of it is kept", agent.id.short());
    DoctorFinding::curable(Sign::DiscardUnfinished, what, move |ctx| {
        let options = DiscardOptions {
            // The commands ran when the discard began.
            no_hooks: true,
            ..DiscardOptions::default()
        };
        let plan = discard::plan(ctx, &id, options)?;
        let report = discard::execute(ctx, plan)?;
        discard::sweep(ctx, &report.trash);
        Ok("completed it".to_owned())
    })
}

fn put_aside(agent: &Agent, path: PathBuf, aside: PathBuf) -> DoctorFinding {
    let what =
        format!("the worktree of agent {} was put aside: {}", agent.id.short(), aside.display());
    let id = agent.id;
    DoctorFinding::curable(Sign::DirectoryAside, what, move |ctx| {
        let common = ctx.repo.common_dir();
        let _alone = alone(ctx, id)?;
        let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
        let admin = worktree::admin_dir(&ctx.repo, id);
        // Asked again under the locks: the finding is as old as the survey.
        if path.symlink_metadata().is_ok() || !belongs_to(&aside, &admin) {
            return Ok(TAKEN_CARE_OF.to_owned());
        }
        // The discard may have moved large files out of it before it was killed.
        let stay = large_files::give_back(common, id, &aside)?;
        fs::rename(&aside, &path).at("could not put back", &aside)?;
        let told = format!("it is {} again", path.display());
        Ok([told].into_iter().chain(stay).collect::<Vec<_>>().join("; "))
    })
}

fn restore(ctx: &Ctx, agent: &Agent, path: &Path, admin: &Path) -> Result<String> {
    let _alone = alone(ctx, agent.id)?;
    let is_made = from_index(ctx, agent, path, admin)?;
    Ok(if is_made {
        let path = path.display();
        if WorktreeLayer::of(admin).is_some() {
            format!("made {path} again; what the agent changed was never in it")
        } else {
            format!("made {path} again from its index; what was never staged is not in it")
        }
    } else {
        TAKEN_CARE_OF.to_owned()
    })
}

// Worktrees of agents whose admin directory is gone, as after `rm -r .git/worktrees/agent-…`: git knows
// nothing of them any more, and the files in them belong to no agent.
//
// The cure makes the admin directory anew, with an index that says what the branch's tip says; no file of the
// worktree is touched, so whatever was written is modified or untracked again. What was only staged went with the
// old index. The git hooks that were set there are put back by their own family.

fn unlinked_agents<'a>(
    ctx: &'a Ctx,
    survey: &'a Survey,
) -> impl Iterator<Item = DoctorFinding> + 'a {
    // Discarding what has landed needs the admin directory too.
    let made = |agent: &&Agent| agent.state != State::Spawning;
    survey.rows().iter().filter(made).filter_map(|agent| {
        let path = survey.places.as_ref()?.of(agent)?;
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        if is_unlinked(ctx, agent, &path) && survey.is_at_rest(ctx, agent) {
            return Some(finding(ctx, agent, path, admin));
        }
        let lacking = worktree::lacking(&path, &admin);
        let is_damaged = !lacking.is_empty() && survey.is_at_rest(ctx, agent);
        is_damaged.then(|| damaged(ctx, agent, path, admin, &lacking))
    })
}

/// An admin directory of which files are gone, or emptied, as by a power loss. They say nothing that is not known.
fn damaged(
    ctx: &Ctx,
    agent: &Agent,
    path: PathBuf,
    admin: PathBuf,
    lacking: &[&str],
) -> DoctorFinding {
    let what = format!(
        "the admin directory of {}, where agent {} works, lacks {}: {}",
        path.display(),
        agent.id.short(),
        lacking.join(" and "),
        admin.display()
    );
    if lacking.contains(&"HEAD") && free_tip(ctx, agent).is_none() {
        return DoctorFinding::report(Sign::AdminGone, what, way_out(ctx, agent, &path));
    }
    let agent = agent.clone();
    DoctorFinding::curable(Sign::AdminGone, what, move |ctx| {
        let _alone = alone(ctx, agent.id)?;
        for name in worktree::lacking(&path, &admin) {
            let file = admin.join(name);
            // In the place of what is there, be it a link or an empty directory, and never into it.
            let _ = fs::remove_dir(&file);
            let branch = agent.branch.as_deref().unwrap_or_default();
            match name {
                "HEAD" => fsx::write_atomic(&file, format!("ref: {branch}\n").as_bytes()),
                "commondir" => fsx::write_atomic(&file, b"../..\n"),
                _ => ctx.repo.point_admin_dir(&admin, &path),
            }?;
        }
        Ok("git finds it again".to_owned())
    })
}

/// Whether git's record of a worktree is gone and its files are there: those of a layered one are not in its directory.
fn is_unlinked(ctx: &Ctx, agent: &Agent, path: &Path) -> bool {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if path.symlink_metadata().is_err() {
        return worktree::cut_off(&ctx.repo, agent.id).is_some();
    }
    !worktree::is_there(&admin) && belongs_to(path, &admin)
}

fn finding(ctx: &Ctx, agent: &Agent, path: PathBuf, admin: PathBuf) -> DoctorFinding {
    let what = format!(
        "the admin directory of {}, where agent {} works, is gone: {}",
        path.display(),
        agent.id.short(),
        admin.display()
    );
    match free_tip(ctx, agent) {
        Some(_) => {
            let agent = agent.clone();
            DoctorFinding::curable(Sign::AdminGone, what, move |ctx| {
                make_again(ctx, &agent, &path, &admin)
            })
        }
        None => DoctorFinding::report(Sign::AdminGone, what, way_out(ctx, agent, &path)),
    }
}

/// What a person can do about a worktree that cannot be made again, because its branch is not free.
fn way_out(ctx: &Ctx, agent: &Agent, path: &Path) -> String {
    let branch = agent.branch.as_deref().unwrap_or_default();
    if worktree::cut_off(&ctx.repo, agent.id).is_none() {
        return format!("mv {} <elsewhere>", shell::path(path));
    }
    match ctx.repo.checkouts(branch).unwrap_or_default().first() {
        Some(other) => format!("git -C {} switch --detach", shell::path(&other.top)),
        None => format!("git branch {} {}", branch_name(branch), agent.spawn_commit),
    }
}

/// Where the agent's branch is, unless it is gone or checked out in another worktree.
fn free_tip(ctx: &Ctx, agent: &Agent) -> Option<Oid> {
    let own = OwnBranch::of(&ctx.repo, agent).ok()??;
    let is_free = ctx.repo.checkouts(own.name()).is_ok_and(|all| all.is_empty());
    own.tip().oid().filter(|_| is_free)
}

fn make_again(ctx: &Ctx, agent: &Agent, path: &Path, admin: &Path) -> Result<String> {
    let common = ctx.repo.common_dir();
    let _alone = alone(ctx, agent.id)?;
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let branch = agent.branch.as_deref().unwrap_or_default();
    let (Some(tip), true) = (free_tip(ctx, agent), is_unlinked(ctx, agent, path)) else {
        return Ok(TAKEN_CARE_OF.to_owned());
    };
    let is_without_place = path.symlink_metadata().is_err();
    if admin.is_symlink() {
        fs::remove_file(admin).at("could not remove", admin)?;
    }
    let scratch = layout::tmp_dir(common);
    let new = NewWorktree {
        name: &layout::worktree_name(agent.id),
        path,
        branch: Some(branch),
        commit: tip,
        scratch: &fsx::unique_name(&scratch.join("admin")),
        lock_reason: &layout::lock_reason(agent.id),
        identity: &ctx.identities()?.committer,
    };
    ctx.repo.add_admin_dir(&new, |half_made| read_tree(ctx, &half_made.join("index"), tip))?;
    // Nothing is in it any more.
    let _ = std::fs::remove_dir(new.scratch);
    if is_without_place {
        fsx::create_dir(path)?;
        ctx.repo.point_worktree(path, admin)?;
        layered::close(path)?;
    }
    Ok(format!("made {} again; what was only staged is not in its index", admin.display()))
}
