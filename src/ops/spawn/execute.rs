//! The steps of a spawn, in the order that makes every stop harmless.

use crate::agents::context::untrusted::gitlinks;
use crate::agents::stock::frozen::FrozenBase;
use crate::agents::stock::furnish::WantedContent;
use crate::agents::stock::{frozen, layered};
use crate::agents::upkeep::clone::NewClone;
use crate::agents::upkeep::hooks::install;
use crate::agents::upkeep::{clone, half_made, hooks};
use crate::agents::{Ctx, place::worktree};
use crate::domain::life::event::{Spawned, Spawning};
use crate::domain::{Layering, Oid, What};
use crate::error::{Code, Error, Result};
use crate::git::worktree::populate::EMPTY_SUBMODULES;
use crate::git::worktree::set_lock;
use crate::git::{NewWorktree, repo::program};
use crate::ops::spawn::adopt::HeldIndex;
use crate::ops::spawn::contract::{self, SpawnPlan};
use crate::ops::spawn::report::{Built, SpawnReport};
use crate::ops::spawn::setup::{self, Claimed, Preset, Texts};
use crate::ops::spawn::{globs, place, scope_conflicts};
use crate::store::files::place::Journal;
use crate::store::files::{layout, leases, lock, place as recorded};
use crate::store::ledger::agent_branch::MADE_BY_SPAWN;
use crate::store::{chain::keep, landing::spawn_commit, ledger::agent_branch};
use crate::system;
use crate::wire::row::journal::SpawnJournal;
use std::path::Path;
use std::time::Instant;

/// Carries out a plan.
///
/// # Errors
/// `scope-overlap` for an exclusive plan whose scope meets another; whatever a step met; the steps before
/// it are undone. Where undoing fails too, a hint names `doctor`.
pub fn execute(ctx: &Ctx, mut plan: SpawnPlan) -> Result<SpawnReport> {
    let started = Instant::now();
    // A base that agents share, or a worktree that was made before: that is as good as a new one, and where it has to stay, the
    // agent works there.
    let base = obtain(ctx, &mut plan)?;
    let claimed = match (&base, &plan.place.adopted) {
        (None, None) => setup::claim(ctx, &mut plan),
        _ => None,
    };
    let record = SpawnJournal {
        slot: claimed.as_ref().map(|claimed| claimed.slot.name.clone()),
        adopted: { plan.place.adopted.as_ref() }
            .map(|adopted| adopted.journal(&plan.place.bundle_dir)),
        agent: plan.id.to_string(),
        spawn_commit: plan.commit.oid.to_hex(),
        branch: plan.place.branch.clone(),
        worktree: plan.place.worktree.as_ref().map(|path| path.to_string_lossy().into_owned()),
        shared_bundle: plan.shared_bundle(ctx)?,
        scope: scope_conflicts::journal_scope(&plan),
    };
    let (journal, under_way) = begin(ctx, &plan, &record)?;
    ctx.reached("journal");
    // Asked outside of the lock, because a warning excludes no other spawn. The journals were read
    // before the ledger is, so a spawn that ends in between is found in one of them.
    let built = scope_conflicts::warn(ctx, &mut plan, &under_way)
        .and_then(|()| build(ctx, &plan, claimed, base));
    match built {
        Ok(built) => {
            journal.end()?;
            setup::refill_later(ctx, &plan);
            SpawnReport::new(ctx, plan, built, started.elapsed())
        }
        // What failed first is the error; what failed while it was undone is a hint. The journal
        // then stays, so that the next command tries to undo it again.
        Err(error) => match half_made::undo(ctx, &record, &error.to_string()) {
            Ok(()) => {
                journal.end()?;
                Err(error)
            }
            Err(leftover) => Err(error.hint(format!(
                "undoing the spawn failed as well ({leftover}); to clean up, run git agent doctor --fix"
            ))),
        },
    }
}

/// Writes the journal, from which on others see what this agent will be allowed to touch, and gives those
/// that were there before. Of two exclusive spawns that meet, the one that comes second to the lock therefore
/// sees the first.
fn begin(
    ctx: &Ctx,
    plan: &SpawnPlan,
    record: &SpawnJournal,
) -> Result<(Journal, Vec<SpawnJournal>)> {
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let under_way = Journal::under_way(common)?;
    if plan.exclusive {
        scope_conflicts::scope_conflicts(ctx, plan, &under_way)?.require_none()?;
    }
    // Under the same lock: two spawns must not both take the last place.
    contract::require_room(ctx, &[plan], &under_way)?;
    let journal = Journal::begin(common, &plan.id.short(), record)?;
    Ok((journal, under_way))
}

/// Carries out the steps, whose names are [`STEPS`](super::STEPS).
fn build(
    ctx: &Ctx,
    plan: &SpawnPlan,
    claimed: Option<Claimed>,
    base: Option<FrozenBase>,
) -> Result<Built> {
    // The texts that the policy and the commit depend on.
    let texts = setup::compose(ctx, plan)?;
    let mut built = Built {
        spec_sha: texts.spec_sha.clone(),
        claimed: claimed.is_some(),
        layered: base.is_some(),
        ..Built::default()
    };
    // The answer is there when it is needed.
    let worktree = plan.place.worktree.as_deref();
    let git = worktree.and_then(|_| program::ask_version(&ctx.env.directory).ok());

    let policy = write_objects(ctx, plan, &texts, &mut built)?;
    // The branch, created and never moved.
    built.branch = claim_branch(ctx, plan)?;
    ctx.reached("branch");
    begin_row(ctx, plan, built.branch.clone())?;
    // Values that no other agent has; set-up commands may need them.
    let (common, short) = (ctx.repo.common_dir(), plan.id.short());
    built.leases = leases::take(common, &short, &plan.called.slug, &plan.setup.leases)?;
    if !built.leases.is_empty() {
        ctx.reached("leased");
    }
    let preset = match &base {
        // Set-up ran in the base.
        Some(_) => Preset::Everything,
        // What a worktree holds that was there before is work.
        None if plan.place.adopted.is_some() => Preset::Everything,
        None => claimed.as_ref().map(Claimed::preset).unwrap_or_default(),
    };
    // Held from the copy of the old index until the worktree uses the copy: what git stages in between would be lost.
    let mut index_lock = None;
    let place = worktree.zip(built.branch.clone());
    if let Some((worktree, branch)) = &place {
        let begun = Instant::now();
        let sources = (claimed, base);
        index_lock = make_worktree(ctx, plan, (worktree, branch), sources, &mut built)?;
        built.populate = begun.elapsed();
        ctx.reached("populated");
    }
    // What the agent reads: specification, prompt, templates.
    built.files = setup::write(ctx, plan, &texts)?;
    ctx.reached("files");
    // Set-up and hooks; what they change is no work of the agent.
    let mut baseline = None;
    if let Some((worktree, branch)) = &place {
        baseline = furnish(ctx, plan, (worktree, branch), preset, &mut built)?;
        // After the repository's hook, which may install a hook manager: that belongs where it always goes.
        let git = git.and_then(program::VersionQuestion::answer);
        install(ctx, plan.id, worktree, git)?;
        let obstacles = hooks::obstacles(ctx, plan.id, worktree)?;
        built.warnings.extend(obstacles);
        if plan.place.clone {
            make_clone(ctx, plan, (worktree, branch), policy)?;
        }
        let admin = worktree::admin_dir(&ctx.repo, plan.id);
        set_lock(&admin, &layout::lock_reason(plan.id))?;
        ctx.reached("locked");
    }
    if let (Some(adopted), Some(lock)) = (&plan.place.adopted, index_lock) {
        adopted.point(ctx, plan, lock)?;
    }
    complete_row(ctx, plan, Spawned { policy, spec_sha: texts.spec_sha, baseline })?;
    let warning = setup::after_spawn(ctx, plan, built.branch.as_deref());
    built.warnings.extend(warning);
    Ok(built)
}

/// Writes the spawn commit and the policy, and keeps them from garbage collection. Gives the policy's blob.
fn write_objects(ctx: &Ctx, plan: &SpawnPlan, texts: &Texts, built: &mut Built) -> Result<Oid> {
    let repo = &ctx.repo;
    // Nothing names the objects yet: a kill here leaves nothing to undo.
    let commit = plan.commit.new_commit(&plan.base, &plan.spawner.identities);
    let spawn_commit = repo.write_commit(&commit)?;
    // The id, the names and the journal all come from the planned name, so a commit with another one would be no agent's.
    if spawn_commit != plan.commit.oid {
        return Err(Error::bug("the spawn commit is not the one that was planned"));
    }
    // Ignored before anything is there, so that no `git status` of the main worktree ever lists it.
    built.warnings.extend(worktree::hide(ctx, &plan.place.bundle_dir)?);
    let policy = spawn_commit::write_policy(repo, &setup::policy(plan, texts))?;
    ctx.reached("objects");

    // Commits of a detached HEAD had nothing but its reflog to hold them.
    let mut held = vec![spawn_commit];
    if let Some(adopted) = &plan.place.adopted {
        adopted.write(repo)?;
        held.push(adopted.head);
    }
    let why = format!("spawn {}", plan.id);
    let blobs = [("policy.json", policy)];
    keep::keep_with(repo, &held, &blobs, &why, ctx.now())?;
    ctx.reached("keep");
    Ok(policy)
}

/// Begins the row: others see the agent while it is being made.
fn begin_row(ctx: &Ctx, plan: &SpawnPlan, branch: Option<String>) -> Result<()> {
    let spawning = What::Spawning(Spawning {
        role: plan.role.name.clone(),
        isolation: plan.role.isolation,
        description: plan.called.description.clone(),
        name: plan.called.name.clone(),
        parent: plan.spawner.parent,
        base: plan.base.clone(),
        dna: plan.commit.dna.to_string(),
        branch,
        worktree: recorded_place(ctx, plan)?,
        pid: std::process::id(),
    });
    append(ctx, plan, plan.commit.oid, spawning)?;
    ctx.reached("spawning");
    Ok(())
}

/// Makes the admin directory of the worktree, then its files. For a worktree that was there before, gives the lock of its index.
fn make_worktree(
    ctx: &Ctx,
    plan: &SpawnPlan,
    (worktree, branch): (&Path, &str),
    (claimed, base): (Option<Claimed>, Option<FrozenBase>),
    built: &mut Built,
) -> Result<Option<HeldIndex>> {
    let repo = &ctx.repo;
    let mut index_lock = None;
    if let Some(claimed) = claimed {
        setup::take_over(ctx, plan, claimed, worktree, branch)?;
    } else if let Some(adopted) = &plan.place.adopted {
        index_lock = Some(adopted.publish(ctx, plan, branch)?);
    } else {
        publish(ctx, plan, worktree, branch, |new| repo.add_worktree(new))?;
    }
    // Our own code wrote the admin directory, so libgit2 reads it once before anything relies on it.
    repo.validate_worktree(&layout::worktree_name(plan.id))?;
    built.warnings.extend(place::in_view(ctx, worktree)?);
    ctx.reached("metadata");
    // Before the checkout, so that files outside of the cone are never written.
    if let Some(cone) = &plan.place.cone {
        globs::narrow(ctx, plan.id, worktree, cone)?;
        ctx.reached("narrowed");
    }
    if let Some(base) = &base {
        layered::adopt(ctx, plan.id, base, worktree)?;
        ctx.reached("layered");
    } else if !built.claimed && plan.place.adopted.is_none() {
        let admin = worktree::admin_dir(repo, plan.id);
        let what = "checking out files";
        let outcome = worktree::check_out(ctx, what, worktree, &admin, plan.commit.oid)?;
        built.warnings.extend(outcome.warnings);
    }
    Ok(index_lock)
}

/// Runs the set-up and the repository's `post-checkout` hook. Gives the blob that says what they left in the worktree.
fn furnish(
    ctx: &Ctx,
    plan: &SpawnPlan,
    (worktree, branch): (&Path, &str),
    preset: Preset,
    built: &mut Built,
) -> Result<Option<Oid>> {
    let warnings = setup::set_up(ctx, plan, worktree, branch, preset)?;
    let index = worktree::admin_dir(&ctx.repo, plan.id).join("index");
    built
        .warnings
        .retain(|warning| warning != EMPTY_SUBMODULES || !gitlinks::are_filled(worktree, &index));
    built.warnings.extend(warnings);
    // What the hook starts may lie in the worktree, as what husky installs does.
    let hook = if plan.setup.hooks && !built.layered && !plan.is_of_others() {
        ctx.repo.run_post_checkout(worktree, plan.commit.oid)?
    } else {
        None
    };
    let has_run = hook.is_some();
    if let Some(said) = hook.and_then(|hook| hook.complaint) {
        let warning = format!("the post-checkout hook failed: {said}");
        built.warnings.push(warning);
    }
    if !has_run && !setup::leaves_something(plan, preset) {
        return Ok(None);
    }
    // What the slot's record says of leftovers holds as long as nothing has run since it was written.
    let made = match preset {
        Preset::AllWithLeftovers(made) if !has_run && plan.setup.projects.is_empty() => Some(made),
        _ => None,
    };
    setup::record(ctx, plan, worktree, branch, made)
}

/// Gives the agent's worktree a repository of its own.
fn make_clone(
    ctx: &Ctx,
    plan: &SpawnPlan,
    (worktree, branch): (&Path, &str),
    policy: Oid,
) -> Result<()> {
    let identities = &plan.spawner.identities;
    let base = plan.base.refname.as_deref().map(|name| (name, plan.base.oid));
    let new = NewClone {
        id: plan.id,
        worktree,
        branch,
        tip: plan.commit.oid,
        base: base.filter(|(name, _)| name.starts_with("refs/heads/")),
        policy,
        who: Some(&identities.committer).filter(|_| !identities.stand_in),
    };
    clone::make(ctx, &new)?;
    ctx.reached("cloned");
    Ok(())
}

/// Completes the row; from here on the agent is never undone.
fn complete_row(ctx: &Ctx, plan: &SpawnPlan, spawned: Spawned) -> Result<()> {
    append(ctx, plan, plan.commit.oid, What::Spawned(spawned))?;
    ctx.reached("spawned");
    if let Some(adopted) = &plan.place.adopted {
        adopted.end(ctx)?;
    }
    // Last, so that the name means an agent that is there at every moment.
    if let Some(before) = plan.called.succeeds {
        let before = ctx.ledger().find(&before.to_string())?.spawn_commit;
        let renamed = What::Renamed { name: None, task: None };
        append(ctx, plan, before, renamed)?;
    }
    // The clone gets a copy of the row, so the row has to be complete.
    clone::give_row(ctx, plan.id, plan.commit.oid)
}

fn append(ctx: &Ctx, plan: &SpawnPlan, row: Oid, what: What) -> Result<()> {
    let now = ctx.now();
    ctx.ledger().append(row, &plan.spawner.actor, what, now)?;
    Ok(())
}

/// What the row says of the worktree's place; what no row says is kept in this clone.
fn recorded_place(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let Some(worktree) = &plan.place.worktree else {
        return Ok(None);
    };
    let recorded = recorded::to_record(&ctx.repo.root()?, worktree);
    if recorded.is_none() {
        recorded::remember(ctx.repo.common_dir(), plan.id, worktree)?;
    }
    Ok(recorded)
}

/// Makes the branch under the first of its names that is free and was never given.
fn claim_branch(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let Some(wanted) = &plan.place.branch else {
        return Ok(None);
    };
    let reason = format!("{MADE_BY_SPAWN}{}", plan.id.short());
    let who = &plan.spawner.identities.committer;
    let ledger = ctx.ledger();
    for name in half_made::branch_names(wanted) {
        let commit = plan.tip();
        // Noted before the branch is there: a kill in between leaves a note without a branch, which
        // does no harm. The other order would leave a branch that is not known to be ours.
        agent_branch::note(&ctx.repo, plan.commit.oid, &name)?;
        if !ctx.repo.create_branch(&name, commit, who, &reason)? {
            continue;
        }
        // Asked only now: an agent that had the name and gave it back has left its row before.
        if !ledger.changed_since(plan.place.planned)? || ledger.last_with_branch(&name)?.is_none() {
            return Ok(Some(name));
        }
        // The expected commit is what we have just created it with, so a branch that another
        // process has moved since stays.
        ctx.repo.delete_ref(&name, commit)?;
    }
    let what = format!("{wanted} and every numbered variant of it exist already");
    Err(Error::new(Code::BranchExists, what))
}

/// Publishes the admin directory. Foreign `git worktree add`s race with each other, not with one
/// rename; the lock keeps our own spawns from making the same parent directories at once.
pub(super) fn publish(
    ctx: &Ctx,
    plan: &SpawnPlan,
    path: &Path,
    branch: &str,
    add: impl FnOnce(&NewWorktree<'_>) -> Result<()>,
) -> Result<()> {
    let common = ctx.repo.common_dir();
    let name = layout::worktree_name(plan.id);
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    add(&NewWorktree {
        name: &name,
        path,
        branch: Some(branch),
        commit: plan.tip(),
        scratch: &layout::tmp_dir(common),
        // With the boot id, because after a restart the same pid is another process.
        lock_reason: &format!(
            "initializing (git-agent {}, pid {}, boot {})",
            plan.id.short(),
            std::process::id(),
            system::boot_id().as_deref().unwrap_or("unknown")
        ),
        identity: &plan.spawner.identities.committer,
    })
}

// Whether a new agent's worktree is layered, and over which base.

/// The base of the plan's worktree; `None` for an ordinary one. Where `auto` cannot have one, a warning says why.
///
/// # Errors
/// `sandbox-unavailable` where nothing else will do; those of making a base.
fn obtain(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<Option<FrozenBase>> {
    if !may_be_layered(plan) {
        return Ok(None);
    }
    let why = match obstacle(ctx, plan)? {
        Some(why) => why,
        None => {
            let wanted = WantedContent {
                commit: plan.base.oid,
                tree: plan.commit.tree,
                files: plan.wanted_files(),
                run: &plan.setup_commands(),
            };
            let base = frozen::obtain(ctx, &wanted);
            match base.map_err(|error| setup::located(ctx, plan, error))? {
                Ok(base) => return Ok(Some(base)),
                Err(why) => why,
            }
        }
    };
    copy_instead(plan, &why)?;
    Ok(None)
}

fn may_be_layered(plan: &SpawnPlan) -> bool {
    plan.place.layered != Layering::Off && plan.place.worktree.is_some()
}

/// Lets the files be copied where that will do.
fn copy_instead(plan: &mut SpawnPlan, why: &str) -> Result<()> {
    if plan.place.layered == Layering::On {
        let what = format!("no layered worktree can be had here: {why}");
        return Err(Error::new(Code::SandboxUnavailable, what)
            .hint("to copy the files where none can be had, pass --layered=auto"));
    }
    plan.warnings.push(format!("the worktree is not layered: {why}"));
    Ok(())
}

/// Does for `--dry-run` what [`execute`] does before it makes anything, as far as that can be known without writing: spawns under way
/// are left out.
///
/// # Errors
/// `limit-reached`, `scope-overlap`, `sandbox-unavailable`; those of the ledger.
pub fn preview(ctx: &Ctx, plans: &mut [SpawnPlan]) -> Result<()> {
    contract::require_room(ctx, &plans.iter().collect::<Vec<_>>(), &[])?;
    for plan in plans {
        scope_conflicts::preview(ctx, plan)?;
        if may_be_layered(plan)
            && let Some(why) = obstacle(ctx, plan)?
        {
            copy_instead(plan, &why)?;
        }
    }
    Ok(())
}

/// What stands against it, in one sentence. What the agent's files are must be told by its upper directory alone, and all that
/// happens to a new worktree outside of a fence would need the files in their place.
fn obstacle(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let repo = &ctx.repo;
    let reason = if plan.is_of_others() {
        "others wrote what the agent starts from, and a base is for every agent"
    } else if plan.place.clone {
        "a repository of its own needs files of its own"
    } else if plan.place.cone.is_some() || repo.config_bool("core.sparseCheckout")? == Some(true) {
        "a sparse worktree has its own files"
    } else if repo.entry_at(plan.commit.tree, ".gitmodules")?.is_some() {
        "the base has submodules"
    } else if !plan.setup.leases.is_empty() && !plan.setup_commands().is_empty() {
        "set-up commands may use the values that each agent has of its own"
    } else if plan.setup.hooks && !plan.setup.after_spawn.is_empty() {
        "after_spawn of [hooks] runs in the worktree"
    } else if plan.setup.hooks && repo.may_have_hook_in("post-checkout", plan.commit.tree)? {
        "the repository has a post-checkout hook, which runs in the worktree"
    // An overlay tells names apart by their bytes, where the file system below does not.
    } else if names_may_differ(ctx)? {
        "names of files differ by more than their bytes here"
    } else {
        return layered::refused_by_kernel(ctx);
    };
    Ok(Some(reason.to_owned()))
}

/// Settings under which a name on the disk may be another one in the index.
fn names_may_differ(ctx: &Ctx) -> Result<bool> {
    let is_set = |key| Ok::<_, Error>(ctx.repo.config_bool(key)? == Some(true));
    Ok(is_set("core.ignoreCase")? || is_set("core.precomposeUnicode")?)
}
