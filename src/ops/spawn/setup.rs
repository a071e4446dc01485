//! What a worktree has besides its commit: the files that we write, a warm worktree's place, and `[setup]`: ignored
//! files brought into the new worktree, and commands run in it, before the agent is declared ready.

use crate::agents::checks::check_run::set_up_fenced;
use crate::agents::context::real_path::for_display;
use crate::agents::place::worktree::admin_dir;
use crate::agents::place::{ignored_files, worktree};
use crate::agents::stock::commands::CommandSubject;
use crate::agents::stock::pool::Slot;
use crate::agents::stock::{commands, layered, pool};
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::{AgentWorktree, Ctx, context::real_path};
use crate::domain::life::event::Base;
use crate::domain::paths::change::Baseline;
use crate::domain::settings::repository_settings::{HookMoment, PATH, to_commit};
use crate::domain::value::named::hex;
use crate::domain::work::bundle as artefacts;
use crate::domain::{Glob, Oid, Role, Task};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::admin_dir::{MODULES, SHARED_INDEX};
use crate::git::landing::linked_at;
use crate::git::worktree::populate;
use crate::ops::spawn::contract::SpawnPlan;
use crate::ops::spawn::execute::publish;
use crate::store::chain::facts;
use crate::store::files::{briefing, fsx, layout};
use crate::store::settings::{repository_settings, roles};
use crate::wire::file::{settings_file, task_file};
use crate::wire::output::answer::ReportTable;
use crate::wire::row::policy::{self, Policy};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies and runs what the task asks for; gives what its author should know.
///
/// # Errors
/// `io` when a file cannot be copied; `setup-failed` when a command fails, with what it said. Either
/// undoes the spawn.
pub(super) fn set_up(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
    preset: Preset,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let copies = !plan.wanted_files().is_empty();
    // Every other preset has these files already.
    if copies && preset == Preset::Nothing {
        match ctx.repo.main_worktree()? {
            Some(root) => {
                warnings = ignored_files::bring(ctx, &root, worktree, &plan.wanted_files())?
            }
            None => warnings.push("[setup] copies nothing: there is no main worktree".to_owned()),
        }
    }
    let subject =
        CommandSubject { id: Some(plan.id), branch: Some(branch), worktree: Some(worktree) };
    // A warm worktree is for every task, so no project is set up in it yet.
    let run = match preset {
        Preset::Nothing | Preset::Files => plan.setup_commands(),
        Preset::AllWithLeftovers(_) | Preset::All => plan.setup.projects.clone(),
        Preset::Everything => Vec::new(),
    };
    if !run.is_empty() {
        let run = &run;
        // Who wrote that base may not run anything as the user.
        let admin_dir = plan.is_of_others().then(|| admin_dir(&ctx.repo, plan.id));
        let done = match admin_dir {
            Some(admin_dir) => set_up_fenced(ctx, &subject, run, worktree, admin_dir),
            None => commands::set_up(ctx, &subject, run, worktree, None),
        };
        done.map_err(|error| located(ctx, plan, error))?;
    }
    Ok(warnings)
}

/// Says where the command stands that failed, and how to go on: what the repository's settings say fails every spawn.
pub(super) fn located(ctx: &Ctx, plan: &SpawnPlan, error: Error) -> Error {
    if error.code() != Code::SetupFailed {
        return error;
    }
    let Some(line) = line_of_setup(ctx, plan, error.message()) else {
        let file = &plan.given.file;
        return error.hint(format!(
            "it is in [setup] of the task; to try it again, correct it and run git agent spawn {file}"
        ));
    };
    let place = format!("{PATH}:{line}");
    error
        .hint(format!(
            "it stands at {place}; to go on, correct it and run {}",
            to_commit("correct the setup")
        ))
        .remedy("to start from a commit without it", Remedy::SpawnFromCommit)
}

/// The line of the repository's settings that the command comes from that an error names; `None` where the task has its own.
fn line_of_setup(ctx: &Ctx, plan: &SpawnPlan, error: &str) -> Option<usize> {
    let base = plan.settings_at;
    let file = repository_settings::read(&ctx.repo, base).ok()??;
    let roles = roles::load(&ctx.repo, base).ok()?;
    let settings = repository_settings::load(&ctx.repo, base, &roles).ok()?;
    let of_project = settings
        .projects
        .all()
        .iter()
        .find(|one| one.setup.iter().any(|command| error.contains(command)));
    // The task may have named commands of its own, which stand in no file.
    if of_project.is_none() && settings.setup_run.as_ref() != Some(&plan.task.setup_run) {
        return None;
    }
    let key = of_project
        .map_or_else(|| "setup.run".to_owned(), |project| format!("project.{}", project.path));
    let keys = settings_file::set_keys(&file);
    keys.iter().find(|set| set.key == key).map(|set| set.line)
}

/// Runs the commands of `after_spawn`; gives what should be known of one that failed: the agent is ready all the same.
pub(super) fn after_spawn(ctx: &Ctx, plan: &SpawnPlan, branch: Option<&str>) -> Option<String> {
    let commands = &plan.setup.after_spawn;
    if !plan.setup.hooks || commands.is_empty() {
        return None;
    }
    let subject =
        CommandSubject { id: Some(plan.id), branch, worktree: plan.place.worktree.as_deref() };
    let ran = commands::run_hook(ctx, HookMoment::AfterSpawn, &subject, commands);
    ran.err().as_ref().map(commands::in_one_line)
}

/// What of the set-up was done before the agent was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Preset {
    /// Nothing: the worktree is new.
    #[default]
    Nothing,
    /// Files were copied; the commands have to run, again or for the first time.
    Files,
    /// Everything that is not a project's, and it left something that git does not ignore: the tree of all files.
    AllWithLeftovers(Oid),
    /// Everything that is not a project's, and it left nothing but ignored files.
    All,
    /// Everything, that of projects too.
    Everything,
}

/// Whether set-up may have left something that counts as a change.
pub(super) fn leaves_something(plan: &SpawnPlan, preset: Preset) -> bool {
    match preset {
        Preset::Everything => false,
        Preset::All => !plan.setup.projects.is_empty(),
        _ => {
            let copies = !plan.wanted_files().is_empty();
            copies || !plan.setup_commands().is_empty()
        }
    }
}

/// Records what the worktree of a new agent holds that its branch does not, so that it is no work of the agent's; gives
/// the blob, if there is anything. What the commands staged is staged no longer: what is staged is work. Where it is known what was
/// `made`, nothing else is the set-up's: a person may have written since.
///
/// # Errors
/// Those of git, the file system and the keep chain.
pub(super) fn record(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
    made: Option<Oid>,
) -> Result<Option<Oid>> {
    let repo = &ctx.repo;
    let name = layout::worktree_name(plan.id);
    let tip = repo.tip(branch)?.oid().unwrap_or(plan.commit.oid);
    let before = repo.tree_of(tip)?;
    let checkout = linked_at(repo, &name, worktree, &ctx.temporary_place())?;
    // Set-up may have run git and staged something; what is there is told apart from the commit,
    // and not from that.
    if checkout.staged_tree(repo).ok() != Some(before) {
        checkout.stage(before)?;
    }
    let place = AgentWorktree::new(worktree, checkout.git_dir);
    let found = match made {
        Some(made) => Some(made),
        None => whole_tree(ctx, tip, &place, Some(&plan.place.bundle_dir))?,
    };
    let Some(tree) = found else {
        return Ok(None);
    };
    let found = Baseline::of(repo.differences(before, tree)?);
    facts::keep_baseline(repo, plan.id, &found, ctx.now()).map(Some)
}

// A worktree that was made before it was asked for: claimed from the pool, brought to the wanted commit, and given to a new
// agent.
//
// What differs from making a worktree is three steps in the place of two, and each leaves either a whole slot or what the
// journal of the spawn names:
//
// 1. `adopted`: the agent's admin directory is published, with the slot's index. The slot is still whole.
// 2. `renamed`: the directory is where the agent is to work; its `.git` file still names the slot. One that has to stay is
//    there already.
// 3. `pointed`: the `.git` file names the agent's admin directory. What is left of the slot is its name.

/// A slot that an agent gets.
pub(super) struct Claimed {
    pub(super) slot: Slot,
    /// Whether set-up commands have to run in it.
    reruns: bool,
}

impl Claimed {
    /// What of the set-up was done.
    pub(super) fn preset(&self) -> Preset {
        let record = self.slot.record.as_ref();
        let made = record.and_then(|record| Oid::from_hex(record.made.as_ref()?));
        match made {
            _ if self.reruns => Preset::Files,
            Some(made) => Preset::AllWithLeftovers(made),
            None => Preset::All,
        }
    }
}

/// Claims a slot that will do for the plan, and brings it to the plan's base. A slot that has to stay where it is becomes the
/// plan's place. `None` where there is none; a pool that fails is one without slots, and a warning.
pub(super) fn claim(ctx: &Ctx, plan: &mut SpawnPlan) -> Option<Claimed> {
    let claimed = try_claim(ctx, plan).unwrap_or_else(|error| {
        let warning = format!("no warm worktree could be claimed: {error}");
        plan.warnings.push(warning);
        None
    });
    if let Some(claimed) = &claimed
        && claimed.slot.record.as_ref().is_some_and(|record| record.pinned)
    {
        let path = &claimed.slot.path;
        let root = ctx.repo.root().unwrap_or_default();
        plan.place.shown = Some(real_path::for_display(&root, path));
        plan.place.worktree = Some(path.clone());
    }
    claimed
}

fn try_claim(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<Option<Claimed>> {
    // A slot holds every file, and one that has run set-up commands must not run what others wrote.
    let takes_slot = plan.place.cone.is_none() && !plan.is_of_others();
    let Some(worktree) = plan.place.worktree.as_ref().filter(|_| takes_slot) else {
        return Ok(None);
    };
    // Without a slot nothing is to be told apart, and what is copied need not be listed for that.
    if pool::names(ctx)?.is_empty() {
        return Ok(None);
    }
    let setup = pool::wanted_setup(ctx, &plan.wanted_files(), &plan.task.setup_run)?;
    let tree = plan.commit.tree.to_hex();
    let slot = pool::claim(ctx, plan.base.oid, |slot, record| {
        // Their `.git` files name the slot's admin directory by its path.
        let has_submodules = slot.admin_dir.join(MODULES).exists();
        let is_placeable = !has_submodules
            && if record.pinned {
                !plan.place.is_chosen
            } else {
                pool::can_be_moved(&slot.path, worktree)
            };
        if record.setup != setup || !is_placeable {
            None
        } else {
            // 0 is a slot at the wanted tree, which ends the search; 1 is one that has to be moved
            // there.
            Some(u32::from(record.tree != tree))
        }
    })?;
    let Some(mut slot) = slot else {
        return Ok(None);
    };
    ctx.logged("claimed");
    let Some(record) = slot.record.clone() else {
        return Ok(None);
    };
    let moved = record.tree != tree;
    // After a failed move it is at neither commit, so no agent can get it any more.
    if moved && let Err(error) = slot.bring_to(ctx, &record, plan.base.oid, plan.commit.tree) {
        let kept = slot.remove(ctx)?;
        plan.warnings.extend(kept.map(|kept| kept.sentence()));
        return Err(error);
    }
    let commands = &plan.task.setup_run;
    Ok(Some(Claimed {
        slot,
        // They may depend on what has changed, and on values that only an agent has.
        reruns: !commands.is_empty() && (moved || !plan.setup.leases.is_empty()),
    }))
}

/// Gives a claimed slot to the agent, at `path`.
///
/// # Errors
/// `io`, `disk-full`, `lost-race`; the journal names what there is then.
pub(super) fn take_over(
    ctx: &Ctx,
    plan: &SpawnPlan,
    claimed: Claimed,
    path: &Path,
    branch: &str,
) -> Result<()> {
    let slot = claimed.slot;
    let repo = &ctx.repo;
    publish(ctx, plan, path, branch, |new| {
        repo.add_admin_dir(new, |half_made| link_indexes(&slot.admin_dir, half_made))
    })?;
    ctx.reached("adopted");
    if path != slot.path {
        if let Some(parent) = path.parent() {
            fsx::create_dir(parent)?;
        }
        fs::rename(&slot.path, path).at("could not move", &slot.path)?;
    }
    ctx.reached("renamed");
    let admin_dir = worktree::admin_dir(repo, plan.id);
    repo.point_worktree(path, &admin_dir)?;
    ctx.reached("pointed");
    populate::inherit_worktree_config(repo, &admin_dir)?;
    slot.hand_over(ctx)
}

/// Lets the index of one admin directory, and the part of it that git may keep beside it, be that of another one too. Git
/// replaces these files and never writes into them.
fn link_indexes(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).at("could not list", from)? {
        let entry = entry.at("could not list", from)?;
        let name = entry.file_name();
        let is_index = name == "index" || name.to_string_lossy().starts_with(SHARED_INDEX);
        if is_index {
            fs::hard_link(entry.path(), to.join(&name)).at("could not link", entry.path())?;
        }
    }
    Ok(())
}

/// Fills the pool again, in a process of its own, so that the caller does not wait for it.
pub(super) fn refill_later(ctx: &Ctx, plan: &SpawnPlan) {
    if plan.setup.pool_size > 0 && plan.place.worktree.is_some() {
        pool::refill_later(ctx);
    }
}

// The files an agent starts with: its specification, its prompt, a private copy of its task.

/// The texts, composed before anything is made so that the policy can name the specification.
pub(super) struct Texts {
    pub prompt: String,
    pub spec: String,
    pub spec_sha: String,
}

/// Where the private files went.
#[derive(Debug, Default)]
pub(super) struct AgentFiles {
    pub prompt: PathBuf,
    pub task: PathBuf,
}

pub(super) fn compose(ctx: &Ctx, plan: &SpawnPlan) -> Result<Texts> {
    let directory = plan.directory(ctx)?;
    let bundle = plan.bundle_path(ctx)?;
    let bundle = for_display(&directory, &bundle);
    let directory = directory.to_string_lossy();
    let brief = plan.brief(&directory, &bundle);
    let spec = brief.spec();
    let digest = Sha256::digest(spec.as_bytes());
    Ok(Texts { prompt: brief.prompt(), spec_sha: hex(&digest), spec })
}

/// What binds the agent, as far as it does not depend on its id.
pub(super) fn terms(
    task: &Task,
    role: &Role,
    denylist: &[Glob],
    base: &Base,
    bundle_required: bool,
    bundle_dir: Option<&str>,
    task_source: &str,
) -> Policy {
    let text = |globs: &[Glob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect();
    Policy {
        schema: policy::SCHEMA.to_owned(),
        role: role.name.clone(),
        subagent_type: role.subagent_type.clone(),
        isolation: role.isolation.as_str().to_owned(),
        edits: role.edits,
        may_spawn: role.may_spawn,
        whitelist: text(&task.whitelist),
        denylist: text(denylist),
        opened: BTreeMap::new(),
        checks: task.checks.clone(),
        base_oid: base.oid.to_hex(),
        base_ref: base.refname.clone(),
        bundle_required,
        bundle_dir: bundle_dir.map(str::to_owned),
        spec_sha: String::new(),
        task_sha: Some(task_file::digest(task_source.as_bytes())),
        timeout_ms: None,
        min_tests: task.min_tests,
        no_dep_bump: task.no_dep_bump,
        report_fields: task.report_fields.clone(),
        report: (!role.report.is_empty()).then(|| ReportTable::of(&role.report)),
        settings_oid: None,
        projects_oid: None,
        lands_on: None,
    }
}

pub(super) fn policy(plan: &SpawnPlan, texts: &Texts) -> Policy {
    Policy { spec_sha: texts.spec_sha.clone(), ..plan.commit.terms.clone() }
}

/// Writes the three files. Prompt and task may hold credentials, so only their owner may read them.
pub(super) fn write(ctx: &Ctx, plan: &SpawnPlan, texts: &Texts) -> Result<AgentFiles> {
    let directory = layout::agent_dir(ctx.repo.common_dir(), plan.id);
    fs::create_dir_all(&directory).at("could not make", &directory)?;
    let files = AgentFiles {
        prompt: directory.join(briefing::PROMPT),
        task: directory.join(briefing::TASK),
    };
    // Both may hold the briefing, which no other user of the machine is to read.
    fsx::write_private(&files.prompt, texts.prompt.as_bytes())?;
    fsx::write_private(&files.task, plan.given.source.as_bytes())?;
    // Nothing may be written to the worktree's own path of a layered agent; its upper directory is
    // what it will see.
    let bundle = match layered::of(&ctx.repo, plan.id) {
        Some(layer) => layer.upper.join(&plan.place.bundle_dir),
        None => plan.bundle_path(ctx)?,
    };
    fs::create_dir_all(&bundle).at("could not make", &bundle)?;
    fsx::write_atomic(&bundle.join(artefacts::SPEC), texts.spec.as_bytes())?;
    if plan.commit.terms.bundle_required {
        for (name, _) in artefacts::FILES {
            if let Some(template) = artefacts::template(name) {
                fsx::write_atomic(&bundle.join(name), template.as_bytes())?;
            }
        }
    }
    Ok(files)
}
