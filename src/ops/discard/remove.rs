//! The steps of a discard.

use crate::agents::life::liveness;
use crate::agents::place::worktree::note_cone;
use crate::agents::stock::commands::{in_one_line, run_hook_of};
use crate::agents::work::uncommitted::beside_landed;
use crate::agents::{AgentWorktree, Ctx, Scratch, upkeep::clone, work::bundle};
use crate::domain::settings::repository_settings::HookMoment;
use crate::domain::{Agent, AgentId, ChangeKind, Move, Oid, State, What, branch_name};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::changes::Glance;
use crate::git::files::descent;
use crate::git::uncommitted::glance;
use crate::git::worktree::own_repository::own_repository_in;
use crate::ops::agent_report::{AgentReport, Reporter};
use crate::ops::discard::batch::{RemovalBatch, RemovalEnd};
use crate::ops::discard::gate::{Place, Remains, bundle_dir, refused};
use crate::ops::discard::salvage::{Salvage, keep_submodules, since_here};
use crate::ops::discard::{
    DiscardOptions, DiscardPlan, DiscardReport, WorktreeSnapshot, plan_for, tip_of,
};
use crate::store::files::large_files::LargeFile;
use crate::store::files::lock::Guard;
use crate::store::files::{briefing, fsx, large_files, layout, leases, lock};
use crate::store::mailbox::reader;
use crate::store::{Ledger, OwnBranch, chain::keep};
use std::convert::Infallible;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use walkdir::WalkDir;

/// Carries out a plan. What the report names as `trash` is still to be deleted, by
/// [`super::sweep`].
///
/// # Errors
/// As [`super::plan`], because it looks again; `lost-race` when the branch moved meanwhile. What was done
/// until then stays done, and a repeated call goes on.
pub fn execute(ctx: &Ctx, mut plan: DiscardPlan) -> Result<DiscardReport> {
    let mut around = std::mem::take(&mut plan.around);
    let mut results = execute_together(ctx, vec![plan], &mut around);
    let result = results.pop();
    result.unwrap_or_else(|| Err(Error::bug("a discard must have a result")))
}

/// An agent on its way out.
struct Leaving {
    agent: Agent,
    options: DiscardOptions,
    site: Remains,
    landed_on: Option<String>,
    salvage: Salvage,
    report: DiscardReport,
    /// No other process works for it.
    _alone: Guard,
}

/// As [`execute`], for several; of the worktrees `around` them, what has changed is read again.
pub(super) fn execute_together(
    ctx: &Ctx,
    plans: Vec<DiscardPlan>,
    around: &mut WorktreeSnapshot,
) -> Vec<Result<DiscardReport>> {
    let batch = RemovalBatch::new(plans).each(|plan| {
        // Before any lock is taken, since the commands may call this program.
        let warning = before_discard(ctx, &plan)?;
        Ok((require_at_rest(ctx, &plan.agent)?, plan, warning))
    });
    if batch.is_over() {
        return batch.results();
    }
    // A landing of the same agent is over or has not begun; it asks the row again, too.
    let surroundings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK).and_then(|lock| {
        around.refresh(ctx)?;
        Ok((lock, Reporter::new(ctx)?))
    });
    let (_landings, reporter) = match surroundings {
        Ok(surroundings) => surroundings,
        Err(error) => return batch.fail::<Leaving>(error).results(),
    };
    // A second look, under the locks.
    let batch = batch.each(|(alone, plan, warning)| {
        let mut removal = look_again(ctx, plan, around, &reporter, alone)?;
        removal.report.warnings.extend(warning);
        Ok(removal)
    });
    if batch.is_over() {
        return batch.results();
    }
    let back = |removal: &Leaving, refusal| give_back(ctx, &removal.agent, &removal.site, refusal);
    let links = |removals: &[&Leaving]| {
        let links = removals.iter().filter_map(|one| one.salvage.keeping(&one.agent, &one.site));
        keep::keep_each(&ctx.repo, &links.collect::<Vec<_>>(), ctx.now())
    };
    let batch = batch.together(links, back);
    ctx.reached("kept");
    let events = |removals: &[&Leaving]| {
        record_salvages(ctx, removals.iter().map(|one| (&one.agent, &one.salvage)))
    };
    let batch = batch.together(events, back);
    ctx.reached("salvaged");
    // Between the looks at several, others are looked at, and a process may write the while.
    let all = batch.going().count() > 1;
    let batch = batch.each(|removal| Ok(remove_worktree(ctx, removal, all)?));
    // While the worktrees went, other processes may have checked out one of the branches.
    let batch = match around.refresh(ctx) {
        Ok(()) => batch.each(|removal| {
            removal.site.require_branch_free(&removal.agent, around)?;
            Ok(removal)
        }),
        Err(error) => batch.fail(error),
    };
    let batch = batch.together(|removals| record(ctx, removals), |_, error| error);
    ctx.reached("discarded");
    let batch = remove_branches(ctx, batch);
    match Reporter::new(ctx) {
        Ok(reporter) => batch.each(|removal| finish(ctx, removal, &reporter)),
        Err(error) => batch.fail(error),
    }
    .results()
}

/// Makes sure that no other process works for an agent, as long as the guard lives.
fn require_at_rest(ctx: &Ctx, agent: &Agent) -> Result<Guard> {
    liveness::lock_after_landing(ctx, agent).map_err(|error| match error.code() {
        Code::RunActive => {
            let short = agent.id.short();
            refused(format!("a process is at work for agent {short}"))
                .remedy("to wait until a run is over", Remedy::Wait(short.clone()))
                .remedy("to end a run", Remedy::Stop(short))
        }
        _ => error,
    })
}

/// Refuses an agent that another process works for, and makes no lock file for that.
pub(super) fn require_unheld(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if !lock::is_held(ctx.repo.common_dir(), &layout::live_lock(agent.id))? {
        return Ok(());
    }
    require_at_rest(ctx, agent).map(drop)
}

/// Looks at an agent as it is under the locks, puts its worktree aside and takes its salvage.
fn look_again(
    ctx: &Ctx,
    plan: DiscardPlan,
    around: &WorktreeSnapshot,
    reporter: &Reporter,
    alone: Guard,
) -> Result<Leaving, RemovalEnd> {
    let agent = ctx.ledger().agent(plan.agent.spawn_commit)?;
    let (before, was) = (plan.site.tip, plan.agent.state);
    let landed_on = plan.landed_on;
    let plan = plan_for(ctx, agent.unwrap_or(plan.agent), plan.options, around)?;
    let DiscardPlan { agent, options, site, .. } = plan;
    // What came meanwhile was not judged, and what was brought back meanwhile is not over. That it has landed is said by the sweep itself.
    let is_decided = agent.state != was && agent.state != State::Merged;
    let short = agent.id.short();
    let changed = if site.tip != before {
        Some(format!("the branch of agent {short} has moved since it was looked at"))
    } else {
        let state = agent.state;
        is_decided.then(|| format!("agent {short} was {was} when it was looked at, and is {state}"))
    };
    if let Some(what) = changed.filter(|_| options.unmoved) {
        return Err(Error::new(Code::LostRace, what).into());
    }
    let report = DiscardReport::new(ctx, reporter, &agent, &site);
    // What is left of a discard that was killed just before its end.
    if agent.state == State::Discarded && site.is_empty() {
        let mark = layout::discarding(ctx.repo.common_dir(), agent.id);
        fs::remove_file(&mark).at_if_there("could not remove", &mark)?;
        return Err(RemovalEnd::Over(Box::new(report)));
    }
    let salvage = Salvage::default();
    let mut removal = Leaving { salvage, agent, options, site, landed_on, report, _alone: alone };
    // Under a name that no process knows: what is written by the old one fails, and so is not lost.
    if let Some(place) = &mut removal.site.place {
        put_aside(place)?;
        ctx.reached("aside");
    }
    // Before anything reads the files.
    match set_large_aside(ctx, &removal) {
        Ok(moved) => removal.report.set_aside = moved,
        Err(refusal) => return Err(give_back(ctx, &removal.agent, &removal.site, refusal).into()),
    }
    let take = || Salvage::take(ctx, &removal.agent, &removal.site, options, None);
    let files = removal.site.place.as_ref().and_then(Place::contents);
    // A directory that the agent closed can hide work from us alone, so it is opened, and all is read once more.
    let salvage = take().or_else(|refusal| match files.as_deref().map(descent::open_all) {
        Some(Ok(true)) => take(),
        _ => Err(refusal),
    });
    let salvage =
        salvage.and_then(|found| require_landed(ctx, &removal, found.holds_work()).map(|()| found));
    match salvage {
        Ok(salvage) => removal.salvage = salvage,
        Err(refusal) => return Err(give_back(ctx, &removal.agent, &removal.site, refusal).into()),
    }
    Ok(removal)
}

/// Refuses an agent whose work had landed, where its worktree has got something else since. The caller has `found` something to keep:
/// what landed and is clean has nothing, and is not looked at once more.
fn require_landed(ctx: &Ctx, removal: &Leaving, found: bool) -> Result<()> {
    let Leaving { agent, site, landed_on: Some(target), .. } = removal else {
        return Ok(());
    };
    // Without the large files that were set aside, which it has been asked about, it would look changed.
    let is_asked = found && removal.report.set_aside.is_empty();
    let place = site.place.as_ref().filter(|_| is_asked);
    let Some((files, place)) = place.and_then(|place| Some((place.files.as_ref()?, place))) else {
        return Ok(());
    };
    let place = AgentWorktree::new(files, &place.admin_dir);
    beside_landed(ctx, agent, &place, target)?
        .map_or(Ok(()), |beside| Err(Error::new(Code::LostRace, beside)))
}

/// Gives a worktree that cannot go its large files and its name back, and gives the reason.
fn give_back(ctx: &Ctx, agent: &Agent, site: &Remains, refusal: Error) -> Error {
    let files = site.place.as_ref().and_then(Place::contents);
    if let Some(files) = &files {
        // What cannot go back is listed by `gc`, and `rescue` finds it.
        let _ = large_files::give_back(ctx.repo.common_dir(), agent.id, files);
    }
    put_back(ctx, site, refusal)
}

/// Names what was found in the rows of agents.
fn record_salvages<'a>(
    ctx: &Ctx,
    salvages: impl IntoIterator<Item = (&'a Agent, &'a Salvage)>,
) -> Result<()> {
    let mut rows = Vec::new();
    for (agent, salvage) in salvages {
        let untold = salvage.untold(ctx, agent)?.into_iter();
        rows.extend(untold.map(|what| (agent.spawn_commit, what)));
    }
    let decide = |what: &What, _: Option<&Agent>| Ok(what.clone());
    ctx.ledger().append_each(&rows, &ctx.actor()?, ctx.now(), decide).map(drop)
}

/// Removes the worktree of an agent, and what else it has that is no ref.
fn remove_worktree(ctx: &Ctx, mut removal: Leaving, all: bool) -> Result<Leaving> {
    let common = ctx.repo.common_dir();
    let id = removal.agent.id;
    let proven = prove(ctx, &removal, all)
        .and_then(|proven| Ok((proven, bring_in_last(ctx, &removal.agent, &removal.site)?)));
    match proven {
        Ok((proven, unread)) => {
            removal.salvage = proven.unwrap_or(removal.salvage);
            removal.report.warnings.extend(unread);
        }
        Err(refusal) => return Err(give_back(ctx, &removal.agent, &removal.site, refusal)),
    }
    if removal.site.place.is_some() {
        ctx.reached("proven");
    }
    // All of it is kept. A kill from here on leaves what only has to be removed, and the next `doctor --fix` does that.
    fsx::write_private(&layout::discarding(common, id), b"")?;
    remove_place(ctx, id, &removal.site, &mut removal.report)?;
    clone::forget(common, id);
    removal.report.trash.extend(remove_hooks(ctx, &removal.agent)?);
    briefing::forget(common, id)?;
    if let Some(bundle) = bundle::of_shared(ctx, &removal.agent)? {
        removal.report.trash.extend(fsx::move_to_trash(common, &bundle)?);
        // That of all of them goes with the last one.
        let _ = bundle.parent().map(fs::remove_dir);
    }
    // What it has written to its views of the user's caches may be gigabytes.
    let caches = layout::caches_dir(common, id);
    if caches.is_dir() {
        removal.report.trash.extend(fsx::move_to_trash(common, &caches)?);
    }
    leases::free(common, &id.short())?;
    // No answer reaches it any more.
    reader::close(common, &removal.agent);
    Ok(removal)
}

/// Deletes the branches, which is what is left of the agents.
fn remove_branches(ctx: &Ctx, batch: RemovalBatch<Leaving>) -> RemovalBatch<Leaving> {
    let branches = batch.going().filter_map(|removal| removal.site.branch.as_ref());
    let branches: Vec<&OwnBranch> = branches.collect();
    // One answer for each agent that has a branch, in the order of the agents.
    let mut deleted = OwnBranch::delete_each(&ctx.repo, &branches).into_iter();
    batch.each(|removal| {
        if let Some(branch) = &removal.site.branch {
            if !deleted.next().unwrap_or(Ok(false))? {
                return Err(moved(branch.name()).into());
            }
            forget_settings(ctx, branch.name())?;
            ctx.reached("unbranched");
        }
        Ok(removal)
    })
}

/// Ends with the report of an agent that is gone.
fn finish(ctx: &Ctx, removal: Leaving, reporter: &Reporter) -> Result<Infallible, RemovalEnd> {
    let Leaving { agent, salvage, mut report, .. } = removal;
    let mark = layout::discarding(ctx.repo.common_dir(), agent.id);
    // Removed at the very end: while the mark is there, `doctor --fix` completes the discard.
    fs::remove_file(&mark).at_if_there("could not remove", &mark)?;
    report.found(&salvage);
    if let Some(agent) = ctx.ledger().agent(agent.spawn_commit)? {
        let state = agent.state.as_str();
        report.agent = AgentReport { state, ..reporter.agent(ctx, &agent) };
    }
    Err(RemovalEnd::Over(Box::new(report)))
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

/// Takes in what the agent did in a clone of its own since it was last looked at. Where that cannot be read, the repository is kept as
/// it is, and a sentence says where.
fn bring_in_last(ctx: &Ctx, agent: &Agent, site: &Remains) -> Result<Option<String>> {
    let files = site.place.as_ref().and_then(|place| place.files.as_ref());
    let Some(files) = files.filter(|_| clone::is_one(ctx, agent.id)) else {
        return Ok(None);
    };
    let unread = match clone::bring_in_from(ctx, agent, files) {
        Err(error) => error.to_string(),
        Ok(taken) => {
            // Commits that were just taken in have moved the branch, so its tip is not the one that is kept.
            if let Some(branch) = &site.branch
                && ctx.repo.tip(branch.name())? != branch.tip()
            {
                return Err(moved(branch.name()));
            }
            if taken.is_all {
                return Ok(None);
            }
            let short = agent.id.short();
            format!("not all that agent {short} has in its clone could be taken in")
        }
    };
    let kept = clone::keep_unread(ctx, agent, files)?;
    Ok(Some(format!("{unread}; the repository is kept in {}", kept.display())))
}

/// Takes the salvage of a worktree again, and keeps what is new in it: a process that stands in the worktree may have written
/// while the first one was kept. `all` as in [`Salvage::take`].
fn prove(ctx: &Ctx, removal: &Leaving, all: bool) -> Result<Option<Salvage>> {
    let Leaving { agent, options, site, salvage: known, .. } = removal;
    if site.place.is_none() {
        return Ok(None);
    }
    let again = Salvage::take(ctx, agent, site, *options, Some((known, all)))?;
    if again.commits() != known.commits() {
        require_landed(ctx, removal, again.holds_work())?;
        let link = again.keeping(agent, site);
        keep::keep_each(&ctx.repo, link.as_slice(), ctx.now())?;
        record_salvages(ctx, [(agent, &again)])?;
    }
    Ok(Some(again))
}

/// Adds `discarded` to the rows, each judged as it is at that moment. A row that says so already is told of a
/// tip that came after.
fn record(ctx: &Ctx, removals: &[&Leaving]) -> Result<()> {
    let ledger = ctx.ledger();
    let mut untold = Vec::new();
    for removal in removals {
        if !is_recorded(&ledger, removal)? {
            untold.push(*removal);
        }
    }
    let rows: Vec<(Oid, &Leaving)> =
        untold.into_iter().map(|removal| (removal.agent.spawn_commit, removal)).collect();
    let decide = |removal: &&Leaving, row: Option<&Agent>| {
        let Leaving { agent, site, .. } = removal;
        let row = row.unwrap_or(agent);
        if row.state == State::Discarded {
            let commit = tip_of(agent, site);
            return Ok(What::Salvaged { commit });
        }
        row.may(Move::Discard)?;
        Ok(What::Discarded { tip: site.tip })
    };
    ledger.append_each(&rows, &ctx.actor()?, ctx.now(), decide).map(drop)
}

/// Whether the row says already that the agent is gone, with this tip.
fn is_recorded(ledger: &Ledger<'_>, removal: &Leaving) -> Result<bool> {
    let Leaving { agent, site, .. } = removal;
    // One that was brought back since is discarded anew. One that is merged stays so.
    if !matches!(agent.state, State::Discarded | State::Merged) {
        return Ok(false);
    }
    let tip = site.tip;
    let events = ledger.own_events(agent.spawn_commit)?;
    let mut said = since_here(&events).filter_map(|what| match *what {
        What::Discarded { tip } => Some(tip),
        _ => None,
    });
    Ok(said.any(|said| said == tip || tip.is_none()))
}

fn moved(branch: &str) -> Error {
    Error::new(Code::LostRace, format!("{branch} moved while its agent was discarded, and stays"))
        .hint("to keep its new commits and go on, run the same command again")
}

/// Removes what the configuration says of a branch that is gone.
fn forget_settings(ctx: &Ctx, branch: &str) -> Result<()> {
    let section = format!("branch.{}", branch_name(branch));
    if ctx.repo.has_config_section(&section)? {
        // Nothing hangs on a section about a branch that does not exist.
        let _ = ctx.repo.remove_config_section(&section);
    }
    Ok(())
}

// What becomes of the files of an agent that goes.

/// Takes the files out of reach of everybody who knows their path.
fn put_aside(place: &mut Place) -> Result<()> {
    let aside = place.aside();
    if place.files.as_ref() == Some(&place.path) {
        fs::rename(&place.path, &aside).at("could not move away", &place.path)?;
        place.files = Some(aside);
    }
    Ok(())
}

/// Gives a worktree that cannot go its name back, so that processes in it find it, and gives the reason.
fn put_back(ctx: &Ctx, site: &Remains, refusal: Error) -> Error {
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

/// Moves the worktree and its admin directory into the trash; reports their names there.
fn remove_place(ctx: &Ctx, id: AgentId, site: &Remains, report: &mut DiscardReport) -> Result<()> {
    let common = ctx.repo.common_dir();
    let names = &mut report.trash;
    let Some(place) = &site.place else {
        return Ok(());
    };
    // A spawn makes the directories that are removed here, and reads the list of worktrees.
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    if let Some(files) = &place.files {
        // With a repository of its own, those of its submodules would go with it.
        if let Some(own) = own_repository_in(files) {
            report.warnings.extend(keep_submodules(ctx, id, &own)?);
        }
        names.extend(fsx::move_to_trash(common, files)?);
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
    // While the admin directory is there, a discard that was killed here goes on with what it has kept.
    if let Some(layer) = place.layer_dir() {
        names.extend(fsx::move_to_trash(common, &layer)?);
    }
    if fs::symlink_metadata(&place.admin_dir).is_ok() {
        note_cone(ctx, id, &place.admin_dir)?;
        // The files of the submodules are gone: until now a repeated call had to find the repositories that hold them.
        report.warnings.extend(keep_submodules(ctx, id, &place.admin_dir)?);
        names.extend(fsx::move_to_trash(common, &place.admin_dir)?);
    }
    ctx.reached("unlinked");
    Ok(())
}

/// Moves the agent's git hooks, which bind a worktree that is gone, into the trash; gives their name there.
fn remove_hooks(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    let common = ctx.repo.common_dir();
    let hooks = layout::hooks_dir(common, &agent.id.short());
    if !hooks.is_dir() {
        return Ok(None);
    }
    fsx::move_to_trash(common, &hooks)
}

// The files of a worktree that are too long to be read: which there are, and moving them out of the way before anything reads
// the rest.

/// Sets the large files aside that are in no commit; gives them. What is tracked and unchanged is not among them, and what git
/// ignores only where ignored files are kept.
fn set_large_aside(ctx: &Ctx, removal: &Leaving) -> Result<Vec<LargeFile>> {
    let Leaving { agent, options, site: Remains { place: Some(place), .. }, .. } = removal else {
        return Ok(Vec::new());
    };
    let Some(top) = &place.contents() else {
        return Ok(Vec::new());
    };
    let paths = candidates(ctx, agent, place, top, *options)?;
    require_landed(ctx, removal, !paths.is_empty())?;
    let beside = layout::large_beside(&place.path, agent.id);
    let common = ctx.repo.common_dir();
    let mut moved = Vec::new();
    for path in paths {
        let beside = Some(beside.as_path()).filter(|_| place.layer_dir().is_none());
        moved.push(large_files::set_aside(common, agent.id, top, &path, beside)?);
    }
    // Made for a file that went elsewhere.
    let _ = std::fs::remove_dir(&beside);
    Ok(moved)
}

/// The paths of large files that are in no commit.
pub(super) fn candidates(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    top: &Path,
    options: DiscardOptions,
) -> Result<Vec<Vec<u8>>> {
    let mut large = Vec::new();
    // The upper directory of a layered worktree is read sooner than git is asked, and mostly none of its files is large.
    if place.layer_dir().is_some() {
        below(top, top, &mut large);
        if large.is_empty() {
            return Ok(large);
        }
        large.clear();
    }
    let rules = ctx.ignore_rules()?.without(bundle_dir(ctx, agent)?.as_deref());
    let scratch = Scratch::make(ctx, "large")?;
    let changes = glance(&Glance {
        repo: Some(&ctx.repo),
        top,
        admin_dir: &place.admin_dir,
        rules: &rules,
        scratch: scratch.path(),
    });
    match changes {
        Ok(changes) if !options.with_ignored => {
            for change in changes {
                if change.kind == ChangeKind::Deleted {
                    continue;
                }
                match change.path.strip_suffix(b"/") {
                    Some(directory) => {
                        below(top, &top.join(std::ffi::OsStr::from_bytes(directory)), &mut large)
                    }
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
            entry.metadata().is_ok_and(|found| found.len() > large_files::LARGE)
        };
        if entry.file_type().is_file()
            && is_long(&entry)
            && let Ok(inside) = entry.path().strip_prefix(top)
        {
            large.push(inside.as_os_str().as_bytes().to_owned());
        }
    }
}
