//! The steps of a discard.

use crate::agents::clone;
use crate::agents::commands::{in_one_line, run_hook_of};
use crate::agents::ctx::Ctx;
use crate::domain::agent::{Agent, Move, State};
use crate::domain::event::What;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::HookMoment;
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::discard::DiscardOptions;
use crate::ops::discard::DiscardPlan;
use crate::ops::discard::DiscardReport;
use crate::ops::discard::WorktreeSnapshot;
use crate::ops::discard::gate::Place;
use crate::ops::discard::gate::Site;
use crate::ops::discard::plan_for;
use crate::ops::discard::protection::refused;
use crate::ops::discard::salvage::Salvage;
use crate::ops::discard::tip_of;
use crate::store::ledger::Ledger;
use crate::store::{briefing, fsx, layout, leases, lock, trash};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Carries out a plan. What the report names as `trash` is still to be deleted, by
/// [`trash::empty`].
///
/// # Errors
/// As [`super::plan`], because it looks again; `lost-race` when the branch moved meanwhile. What was done
/// until then stays done, and a repeated call goes on.
pub fn execute(ctx: &Ctx, mut plan: DiscardPlan) -> Result<DiscardReport> {
    let mut around = std::mem::take(&mut plan.around);
    execute_among(ctx, plan, &mut around)
}

/// As [`execute`], for one of many: of the worktrees `around` it, what has changed is read again.
pub(in crate::ops) fn execute_among(
    ctx: &Ctx,
    plan: DiscardPlan,
    around: &mut WorktreeSnapshot,
) -> Result<DiscardReport> {
    let warning = before_discard(ctx, &plan)?;
    // No other process is at work for the agent, and no landing is under way.
    let common = ctx.repo.common_dir();
    let id = plan.agent.id;
    fsx::create_dir(&layout::agent_dir(common, id))?;
    let _alone = lock::hold_for(common, &layout::live_lock(id), Duration::ZERO).map_err(
        |error| match error.code() {
            Code::LockTimeout => refused(format!("a process is at work for agent {}", id.short()))
                .hint(format!("to see it, run git agent log {}", id.short())),
            _ => error,
        },
    )?;
    // A landing of the same agent is over or has not begun; it asks the row again, too.
    let _landings = lock::hold(common, layout::LANDING_LOCK)?;
    // A second look, under the locks.
    let ledger = Ledger::new(&ctx.repo);
    let agent = ledger.agent(plan.agent.spawn_commit)?;
    around.refresh(ctx)?;
    let DiscardPlan {
        agent,
        options,
        mut site,
        ..
    } = plan_for(ctx, agent.unwrap_or(plan.agent), plan.options, around)?;
    let mut report = DiscardReport::new(ctx, &agent, &site)?;
    if agent.state == State::Discarded && site.is_empty() {
        return Ok(report);
    }
    // Under a name that no process knows: what is written by the old one fails, and so is not lost.
    if let Some(place) = &mut site.place {
        put_aside(place)?;
        ctx.reached("aside");
    }
    let kept = keep_all(ctx, &agent, &site, options)
        .and_then(|salvage| Ok((salvage, bring_in_last(ctx, &agent, &site)?)));
    let (salvage, unread) = match kept {
        Ok(kept) => kept,
        Err(refusal) => return Err(put_back(ctx, &site, refusal)),
    };
    report.warnings.extend(unread);
    if site.place.is_some() {
        ctx.reached("proven");
        report.trash.extend(remove_place(ctx, &site)?);
    }
    clone::forget(common, id);
    // What is left of the agent goes, the branch last.
    remove_hooks(ctx, &agent, &mut report)?;
    briefing::forget(common, id)?;
    leases::free(common, &id.short())?;
    record(ctx, &agent, &site)?;
    ctx.reached("discarded");
    if let Some((branch, tip)) = &site.branch {
        remove_branch(ctx, branch, *tip)?;
        ctx.reached("unbranched");
    }
    if let Some(branch) = &site.broken_branch {
        if !ctx.repo.delete_broken_ref(&branch.name, branch.tip)? {
            return Err(moved(&branch.name));
        }
        ctx.reached("unbranched");
    }
    report.warnings.extend(warning);
    report.found(&salvage);
    report.settled(ctx, ledger.agent(agent.spawn_commit)?)?;
    Ok(report)
}

/// Runs what the repository wants done first; one that fails stops the discard. Settings that cannot be read do not: an
/// agent of a damaged repository can still be removed.
fn before_discard(ctx: &Ctx, plan: &DiscardPlan) -> Result<Option<String>> {
    if plan.options.no_hooks || plan.is_empty() {
        return Ok(None);
    }
    match run_hook_of(ctx, HookMoment::BeforeDiscard, &plan.agent) {
        Err(error) if error.code() == Code::HookFailed => Err(error),
        ran => Ok(ran.err().as_ref().map(in_one_line)),
    }
}

/// Takes the files out of reach of everybody who knows their path.
fn put_aside(place: &mut Place) -> Result<()> {
    let aside = place.aside();
    if place.files.as_ref() == Some(&place.path) {
        fs::rename(&place.path, &aside).at("could not move away", &place.path)?;
        place.files = Some(aside);
    }
    Ok(())
}

/// Takes in what the agent did in a clone of its own since it was last looked at. Where that cannot be read, the repository is kept as
/// it is, and a sentence says where.
fn bring_in_last(ctx: &Ctx, agent: &Agent, site: &Site) -> Result<Option<String>> {
    let files = site.place.as_ref().and_then(|place| place.files.as_ref());
    let Some(files) = files.filter(|_| clone::is_one(ctx, agent.id)) else {
        return Ok(None);
    };
    if let Err(error) = clone::bring_in_from(ctx, agent, files) {
        let kept = clone::keep_unread(ctx, agent, files)?;
        let kept = kept.display();
        return Ok(Some(format!("{error}; the repository is kept in {kept}")));
    }
    match &site.branch {
        Some((branch, tip)) if ctx.repo.tip(branch)?.oid() != Some(*tip) => Err(moved(branch)),
        _ => Ok(None),
    }
}

/// Keeps everything that is in a site and names it in the row. What changes while that is done, by a process that stands in
/// the worktree, is kept too.
fn keep_all(ctx: &Ctx, agent: &Agent, site: &Site, options: DiscardOptions) -> Result<Salvage> {
    let salvage = Salvage::take(ctx, agent, site, options, None)?;
    salvage.keep(ctx, agent, site)?;
    ctx.reached("kept");
    salvage.record(ctx, agent)?;
    ctx.reached("salvaged");
    if site.place.is_none() {
        return Ok(salvage);
    }
    let again = Salvage::take(ctx, agent, site, options, Some(&salvage))?;
    if again.commits() != salvage.commits() {
        again.keep(ctx, agent, site)?;
        again.record(ctx, agent)?;
    }
    Ok(again)
}

/// Gives a worktree that cannot go its name back, so that processes in it find it, and gives the reason.
fn put_back(ctx: &Ctx, site: &Site, refusal: Error) -> Error {
    let Some(place) = &site.place else {
        return refusal;
    };
    // Overwriting other files would be a loss; a rename replaces nothing but an empty directory.
    let moved = match &place.files {
        Some(files) if *files != place.path => fs::rename(files, &place.path),
        _ => Ok(()),
    };
    ctx.reached("back");
    match moved {
        Ok(()) => refusal,
        Err(_) => refusal.hint("to put the worktree back, run git agent doctor --fix"),
    }
}

fn remove_place(ctx: &Ctx, site: &Site) -> Result<Vec<String>> {
    let common = ctx.repo.common_dir();
    let mut names = Vec::new();
    let Some(place) = &site.place else {
        return Ok(names);
    };
    // A spawn makes the directories that are removed here, and reads the list of worktrees.
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    if let Some(files) = &place.files {
        names.extend(trash::take(common, files)?);
    }
    // Directories that were made for this worktree alone go too; others are not empty.
    let root = ctx.repo.root()?;
    let parents = place.path.ancestors().skip(1);
    for parent in parents.take_while(|parent| parent.starts_with(&root) && *parent != root) {
        if fs::remove_dir(parent).is_err() {
            break;
        }
    }
    ctx.reached("trashed");
    if fs::symlink_metadata(&place.admin_dir).is_ok() {
        names.extend(trash::take(common, &place.admin_dir)?);
    }
    ctx.reached("unlinked");
    Ok(names)
}

/// The agent's git hooks bind a worktree that is gone.
fn remove_hooks(ctx: &Ctx, agent: &Agent, report: &mut DiscardReport) -> Result<()> {
    let common = ctx.repo.common_dir();
    let hooks = layout::hooks_dir(common, &agent.id.short());
    if hooks.is_dir() {
        // Installed without write permission, and moving a directory takes it.
        fs::set_permissions(&hooks, fs::Permissions::from_mode(0o755))
            .at("could not move away", &hooks)?;
        report.trash.extend(trash::take(common, &hooks)?);
    }
    Ok(())
}

/// Adds `discarded` to the row, judged as it is at that moment. A row that says so already is told of a
/// tip that came after.
fn record(ctx: &Ctx, agent: &Agent, site: &Site) -> Result<()> {
    let ledger = Ledger::new(&ctx.repo);
    let tip = site.branch.as_ref().map(|(_, tip)| *tip);
    let events = ledger.events(agent.spawn_commit)?;
    let said: Vec<Option<Oid>> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Discarded { tip } => Some(tip),
            _ => None,
        })
        .collect();
    // One that was brought back since is discarded anew. One that is merged stays so.
    let is_over = matches!(agent.state, State::Discarded | State::Merged);
    if is_over && (said.contains(&tip) || !said.is_empty() && tip.is_none()) {
        return Ok(());
    }
    ledger.append_if(agent.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
        let row = row.unwrap_or(agent);
        if row.state == State::Discarded {
            let commit = tip_of(agent, site);
            return Ok(What::Salvaged { commit });
        }
        row.may(Move::Discard)?;
        Ok(What::Discarded { tip })
    })?;
    Ok(())
}

fn moved(branch: &str) -> Error {
    Error::new(
        Code::LostRace,
        format!("{branch} moved while its agent was discarded, and stays"),
    )
    .hint("to keep its new commits and go on, run the same command again")
}

fn remove_branch(ctx: &Ctx, branch: &str, tip: Oid) -> Result<()> {
    if !ctx.repo.delete_ref(branch, tip)? {
        return Err(moved(branch));
    }
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let section = format!("branch.{short}");
    if ctx.repo.has_config_section(&section)? {
        // Nothing hangs on a section about a branch that does not exist.
        let _ = ctx.repo.remove_config_section(&section);
    }
    Ok(())
}
