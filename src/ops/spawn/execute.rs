//! The steps of a spawn, in the order that makes every stop harmless.

use crate::agents::clone::{self, NewClone};
use crate::agents::ctx::Ctx;
use crate::agents::frozen::{self, FrozenBase};
use crate::agents::furnish::WantedContent;
use crate::agents::hooks::{self, install};
use crate::agents::{half_made, layered, worktree};
use crate::domain::event::{Spawned, Spawning, What};
use crate::domain::sandbox::Layering;
use crate::error::{Code, Error, Result};
use crate::git::program;
use crate::git::worktree::{NewWorktree, set_lock};
use crate::ops::spawn::contract::{self, SpawnPlan};
use crate::ops::spawn::report::{Built, SpawnReport};
use crate::ops::spawn::setup::{self, Claimed, Preset};
use crate::ops::spawn::{globs, place, scope_conflicts};
use crate::store::agent_branch::{self, MADE_BY_SPAWN};
use crate::store::ledger::Ledger;
use crate::store::place::Journal;
use crate::store::{added, keep, layout, leases, lock, place as recorded, spawn_commit};
use crate::system;
use crate::wire::journal::SpawnJournal;
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
    let claimed = match (&base, &plan.adopted) {
        (None, None) => setup::claim(ctx, &mut plan),
        _ => None,
    };
    let record = SpawnJournal {
        slot: claimed.as_ref().map(|claimed| claimed.slot.name.clone()),
        adopted: { plan.adopted.as_ref() }.map(|adopted| adopted.journal(&plan.bundle_dir)),
        agent: plan.id.to_string(),
        spawn_commit: plan.spawn_commit.to_hex(),
        branch: plan.branch.clone(),
        worktree: plan
            .worktree
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
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

fn build(
    ctx: &Ctx,
    plan: &SpawnPlan,
    claimed: Option<Claimed>,
    base: Option<FrozenBase>,
) -> Result<Built> {
    let repo = &ctx.repo;
    let ledger = Ledger::new(repo);
    // The texts that the policy and the commit depend on.
    let texts = setup::compose(ctx, plan)?;
    let mut built = Built {
        spec_sha: texts.spec_sha.clone(),
        ..Built::default()
    };

    // The answer is there when it is needed.
    let git =
        { plan.worktree.as_ref() }.and_then(|_| program::ask_version(&ctx.env.directory).ok());

    // Objects, which nothing names yet: a kill here leaves nothing to undo.
    let spawn_commit = repo.write_commit(&plan.new_commit())?;
    // The id, the names and the journal all come from the planned name, so a commit with another
    // one would be no agent's.
    if spawn_commit != plan.spawn_commit {
        return Err(Error::bug(
            "the spawn commit is not the one that was planned",
        ));
    }
    // Ignored before anything is there, so that no `git status` of the main worktree ever lists it.
    let (hidden, shown) = place::hidden(ctx, &plan.bundle_dir)?;
    built
        .warnings
        .extend(shown.filter(|_| plan.worktree.is_some()));
    added::add_exclude(repo, &hidden)?;
    let policy = spawn_commit::write_policy(repo, &setup::policy(plan, &texts))?;
    ctx.reached("objects");

    // From here on no garbage collection removes them. Commits of a detached HEAD had nothing but its reflog to hold them.
    let mut held = vec![spawn_commit];
    if let Some(adopted) = &plan.adopted {
        adopted.write(repo)?;
        held.push(adopted.head);
    }
    let why = format!("spawn {}", plan.id);
    let blobs = [("policy.json", policy)];
    keep::keep_with(repo, &held, &blobs, &why, ctx.now())?;
    ctx.reached("keep");

    // The branch, created and never moved.
    built.branch = claim_branch(ctx, plan)?;
    ctx.reached("branch");

    // The row begins: others see the agent while it is being made.
    let spawning = What::Spawning(Spawning {
        role: plan.role.name.clone(),
        isolation: plan.role.isolation,
        description: plan.description.clone(),
        name: plan.name.clone(),
        parent: plan.parent,
        base: plan.base.clone(),
        dna: plan.dna.to_string(),
        branch: built.branch.clone(),
        worktree: recorded_place(ctx, plan)?,
        pid: std::process::id(),
    });
    ledger.append(spawn_commit, &plan.actor, spawning, ctx.now())?;
    ctx.reached("spawning");

    // Values that no other agent has; set-up commands may need them.
    built.leases = leases::take(
        ctx.repo.common_dir(),
        &plan.id.short(),
        &plan.slug,
        &plan.leases,
    )?;
    if !built.leases.is_empty() {
        ctx.reached("leased");
    }

    // The worktree: its admin directory, then its files.
    let preset = match &base {
        // Set-up ran in the base.
        Some(_) => Preset::Everything,
        // What a worktree holds that was there before is work.
        None if plan.adopted.is_some() => Preset::Everything,
        None => claimed.as_ref().map(Claimed::preset).unwrap_or_default(),
    };
    built.claimed = claimed.is_some();
    built.layered = base.is_some();
    // Held from the copy of the old index until the worktree uses the copy: what git stages in
    // between would be lost.
    let mut index_lock = None;
    if let (Some(worktree), Some(branch)) = (&plan.worktree, &built.branch) {
        let begun = Instant::now();
        if let Some(claimed) = claimed {
            setup::take_over(ctx, plan, claimed, worktree, branch)?;
        } else if let Some(adopted) = &plan.adopted {
            index_lock = Some(adopted.publish(ctx, plan, branch)?);
        } else {
            publish(ctx, plan, worktree, branch, |new| repo.add_worktree(new))?;
        }
        // Our own code wrote the admin directory, so libgit2 reads it once before anything relies
        // on it.
        repo.validate_worktree(&layout::worktree_name(plan.id))?;
        built.warnings.extend(place::in_view(ctx, worktree)?);
        ctx.reached("metadata");
        // Before the checkout, so that files outside of the cone are never written.
        if let Some(cone) = &plan.cone {
            globs::narrow(ctx, plan.id, worktree, cone)?;
            ctx.reached("narrowed");
        }
        if let Some(base) = &base {
            layered::adopt(ctx, plan.id, base, worktree)?;
            ctx.reached("layered");
        } else if !built.claimed && plan.adopted.is_none() {
            let admin = worktree::admin_dir(repo, plan.id);
            let what = "checking out files";
            let outcome = worktree::check_out(ctx, what, worktree, &admin, spawn_commit)?;
            built.warnings.extend(outcome.warnings);
        }
        built.populate = begun.elapsed();
        ctx.reached("populated");
    }
    // What the agent reads: specification, prompt, templates.
    built.files = setup::write(ctx, plan, &texts)?;
    ctx.reached("files");

    // Set-up and hooks; what they change is no work of the agent.
    let mut baseline = None;
    if let (Some(worktree), Some(branch)) = (&plan.worktree, &built.branch) {
        built
            .warnings
            .extend(setup::set_up(ctx, plan, worktree, branch, preset)?);
        // What the hook starts may lie in the worktree, as what husky installs does.
        let hook = if plan.hooks && !built.layered && !plan.is_of_others() {
            repo.run_post_checkout(worktree, spawn_commit)?
        } else {
            None
        };
        if setup::leaves_something(plan, preset) || hook.is_some() {
            // What the slot's record says of leftovers holds as long as nothing has run since it
            // was written.
            let made = match preset {
                Preset::AllWithLeftovers(made)
                    if hook.is_none() && plan.project_setup.is_empty() =>
                {
                    Some(made)
                }
                _ => None,
            };
            baseline = setup::record(ctx, plan, worktree, branch, made)?;
        }
        if let Some(said) = hook.and_then(|hook| hook.complaint) {
            built
                .warnings
                .push(format!("the post-checkout hook failed: {said}"));
        }
        // After the repository's hook, which may install a hook manager: that belongs where it always goes.
        let git = git.and_then(program::Question::answer);
        install(ctx, plan.id, worktree, git)?;
        let obstacles = hooks::obstacles(ctx, plan.id, worktree)?;
        built.warnings.extend(obstacles);
        if plan.clone {
            let who = Some(&plan.identities.committer).filter(|_| !plan.identities.stand_in);
            let base = { plan.base.refname.as_deref() }.map(|name| (name, plan.base.oid));
            clone::make(
                ctx,
                &NewClone {
                    id: plan.id,
                    worktree,
                    branch,
                    tip: spawn_commit,
                    base: base.filter(|(name, _)| name.starts_with("refs/heads/")),
                    policy,
                    who,
                },
            )?;
            ctx.reached("cloned");
        }
        let admin = worktree::admin_dir(repo, plan.id);
        set_lock(&admin, &layout::lock_reason(plan.id))?;
        ctx.reached("locked");
    }
    if let (Some(adopted), Some(lock)) = (&plan.adopted, index_lock) {
        adopted.point(ctx, plan, lock)?;
    }

    // The row is complete.
    let spawned = What::Spawned(Spawned {
        policy,
        spec_sha: texts.spec_sha,
        baseline,
    });
    ledger.append(spawn_commit, &plan.actor, spawned, ctx.now())?;
    ctx.reached("spawned");
    if let Some(adopted) = &plan.adopted {
        adopted.end(ctx)?;
    }
    // Last, so that the name means an agent that is there at every moment.
    if let Some(before) = plan.succeeds {
        let before = ledger.find(&before.to_string())?.spawn_commit;
        ledger.append(
            before,
            &plan.actor,
            What::Renamed {
                name: None,
                task: None,
            },
            ctx.now(),
        )?;
    }
    // The clone gets a copy of the row, so the row has to be complete.
    clone::give_row(ctx, plan.id, spawn_commit)?;
    built
        .warnings
        .extend(setup::after_spawn(ctx, plan, built.branch.as_deref()));
    Ok(built)
}

/// What the row says of the worktree's place; what no row says is kept in this clone.
fn recorded_place(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let Some(worktree) = &plan.worktree else {
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
    let Some(wanted) = &plan.branch else {
        return Ok(None);
    };
    let reason = format!("{MADE_BY_SPAWN}{}", plan.id.short());
    let who = &plan.identities.committer;
    let ledger = ctx.ledger();
    for name in half_made::branch_names(wanted) {
        let commit = plan.tip();
        // Noted before the branch is there: a kill in between leaves a note without a branch, which
        // does no harm. The other order would leave a branch that is not known to be ours.
        agent_branch::note(&ctx.repo, plan.spawn_commit, &name)?;
        if !ctx.repo.create_branch(&name, commit, who, &reason)? {
            continue;
        }
        // Asked only now: an agent that had the name and gave it back has left its row before.
        if !ledger.changed_since(plan.planned)? || ledger.last_with_branch(&name)?.is_none() {
            return Ok(Some(name));
        }
        // The expected commit is what we have just created it with, so a branch that another
        // process has moved since stays.
        ctx.repo.delete_ref(&name, commit)?;
    }
    Err(Error::new(
        Code::BranchExists,
        format!("{wanted} and every numbered variant of it exist already"),
    ))
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
        identity: &plan.identities.committer,
    })
}

// Whether a new agent's worktree is layered, and over which base.

/// The base of the plan's worktree; `None` for an ordinary one. Where `auto` cannot have one, a warning says why.
///
/// # Errors
/// `sandbox-unavailable` where nothing else will do; those of making a base.
fn obtain(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<Option<FrozenBase>> {
    if plan.layered == Layering::Off || plan.worktree.is_none() {
        return Ok(None);
    }
    let why = match obstacle(ctx, plan)? {
        Some(why) => why,
        None => {
            let wanted = WantedContent {
                commit: plan.base.oid,
                tree: plan.tree,
                files: plan.wanted_files(),
                run: &plan.setup_commands(),
            };
            match frozen::obtain(ctx, &wanted)? {
                Ok(base) => return Ok(Some(base)),
                Err(why) => why,
            }
        }
    };
    if plan.layered == Layering::On {
        let what = format!("no layered worktree can be had here: {why}");
        return Err(Error::new(Code::SandboxUnavailable, what)
            .hint("to copy the files where none can be had, pass --layered=auto"));
    }
    plan.warnings
        .push(format!("the worktree is not layered: {why}"));
    Ok(None)
}

/// What stands against it, in one sentence. What the agent's files are must be told by its upper directory alone, and all that
/// happens to a new worktree outside of a fence would need the files in their place.
fn obstacle(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let repo = &ctx.repo;
    let reason = if plan.is_of_others() {
        "others wrote what the agent starts from, and a base is for every agent"
    } else if plan.clone {
        "a repository of its own needs files of its own"
    } else if plan.cone.is_some() || repo.config_bool("core.sparseCheckout")? == Some(true) {
        "a sparse worktree has its own files"
    } else if repo.entry_at(plan.tree, ".gitmodules")?.is_some() {
        "the base has submodules"
    } else if !plan.leases.is_empty() && !plan.setup_commands().is_empty() {
        "set-up commands may use the values that each agent has of its own"
    } else if plan.hooks && !plan.after_spawn.is_empty() {
        "after_spawn of [hooks] runs in the worktree"
    } else if plan.hooks && repo.may_have_hook("post-checkout")? {
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
