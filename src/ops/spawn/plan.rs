//! Everything a spawn decides, decided before anything is made.

use crate::agents::ctx::Ctx;
use crate::agents::{assignment, authority, projects, real_path};
use crate::domain::dna::Dna;
use crate::domain::event::{Base, Isolation};
use crate::domain::glob::Glob;
use crate::domain::id::{AgentId, Slug};
use crate::domain::named::hex;
use crate::domain::oid::Oid;
use crate::domain::project::{ProjectSettings, Projects};
use crate::domain::repository_settings::HookMoment;
use crate::domain::role::Role;
use crate::domain::sandbox::Layering;
use crate::domain::scope::{self, Scope, unnamed_control_files};
use crate::domain::task::{DESCRIPTION_CHARS, Task, TaskDraft, TaskOptions};
use crate::error::{Code, Error, Result};
use crate::git::objects::NewCommit;
use crate::git::refs;
use crate::hosts;
use crate::ops::spawn::adopt::AdoptedWorktree;
use crate::ops::spawn::contract::{SpawnOptions, SpawnPlan};
use crate::ops::spawn::named::{self, Found};
use crate::ops::spawn::{globs, place, setup};
use crate::store::ledger::Ledger;
use crate::store::repository_settings;
use crate::store::spawn_commit::SPAWN_SUBJECT;
use crate::wire::policy::{self, Policy};
use chrono::{DateTime, Utc};
use std::path::PathBuf;

/// The warning where git has no identity.
const STAND_IN: &str = "\
git knows no identity here, so git-agent <git-agent@localhost> stands in; to set yours, run \
git config --global user.name \"Your Name\" and git config --global user.email you@example.com";

/// The warning where `[setup] copy` is left out.
const FORK_COPIES: &str = "no ignored files were copied: programs of a fork would read them, and with them what they keep secret";

/// Reads and checks everything; changes nothing.
///
/// # Errors
/// Every refusal of a task, role, base, branch, name, parent or path, each with its own code.
pub fn plan(ctx: &Ctx, mut draft: TaskDraft, options: &SpawnOptions) -> Result<SpawnPlan> {
    // Who asks, and what the names in the task stand for.
    let asker = authority::require_no_recursion(&ctx.env)?;
    let ledger = ctx.ledger();
    // This and `own_copy` are asked before `look_up`, which fills the draft from the repository's
    // settings: what counts below is whether the task itself asked for it.
    let own_setup = draft.has_setup();
    let adopted = options.adopt.as_deref();
    let mut adopted = adopted
        .map(|path| AdoptedWorktree::find(ctx, path))
        .transpose()?;
    let own_copy = draft.setup_copy.given().is_some();
    let bundle_dir = place::bundle_dir(ctx)?;
    let Found {
        base,
        settings_at,
        roles,
        settings,
        character,
        parent,
    } = named::look_up(
        ctx,
        &ledger,
        &mut draft,
        &bundle_dir,
        options,
        adopted.as_ref(),
    )?;
    // The task, checked with everything that is wrong with it at once.
    let task_source = draft.source.text().to_owned();
    let task_file = draft.source.name();
    let is_typed = draft.is_typed;
    let new_globs = std::mem::take(&mut draft.new_globs);
    let wishes = TaskOptions {
        no_default_deny: options.no_default_deny,
    };
    let (mut task, warnings, mut character) = match (draft.check(&roles, wishes), character) {
        // Which personas there are is more than a problem of the file can tell.
        (Err(wrong), Err(unknown)) if wrong.is_only(unknown.code()) => return Err(unknown),
        (checked, character) => {
            let (task, warnings) = checked?;
            (task, warnings, character?)
        }
    };
    let mut warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    warnings.extend({ options.start.iter() }.flat_map(|start| start.warnings.clone()));
    // Settings count as they are committed, so a file that was edited and has no effect yet is
    // named.
    let counting = repository_settings::read(&ctx.repo, settings_at)?;
    warnings.extend(repository_settings::uncommitted(
        &ctx.repo,
        counting.as_deref(),
    )?);
    // What the agent may touch.
    let role = roles.require_spawnable(&task.role)?.clone();
    let tree = ctx.repo.read_commit(base.oid)?.tree;
    // What a person sees in an adopted worktree is not all in the base.
    let mut trees = vec![tree];
    if let Some(adopted) = &adopted {
        trees.push(ctx.repo.read_commit(adopted.head)?.tree);
    }
    globs::spell_out_directories(&ctx.repo, &trees, &mut task)?;
    character.instructions = assignment::nearest(&ctx.repo, settings_at, &task.whitelist)?;
    let mut denylist =
        scope::effective_denylist(task.denylist.as_deref(), &role, options.no_default_deny);
    denylist.extend(settings.deny);
    // What the agent may touch of the repository's projects decides which of them are set up, and which checks it is told of.
    let projects = settings.projects;
    let reach = Scope::new(&task.whitelist, &denylist);
    let reach = reach.map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
    let reach = projects.within(&reach);
    warnings.extend(scope_here(ctx, &task, &projects).filter(|_| is_typed));
    let mut hooks = settings.hooks;
    if is_typed && role.edits {
        // A typed task that may touch everything hardly means the files that decide what other people's programs run.
        let hooks = globs::hooks_in_tree(&ctx.repo)?;
        let others = hosts::control_files().map(str::to_owned).chain(hooks);
        denylist.extend(unnamed_control_files(&task.whitelist, others));
    }
    // The policy says the same of the same set of globs, in whatever order its sources named them.
    denylist.sort();
    denylist.dedup();
    let unmatched = globs::unmatched(&ctx.repo, &trees, &task.whitelist, &denylist)?;
    if is_typed {
        globs::require_matched(&ctx.repo, &trees, &unmatched, &new_globs)?;
    } else {
        warnings.extend(unmatched.into_iter().map(|(_, warning)| warning));
    }

    // What it is called, and where it works.
    let name = named::alias(&ledger, options, &task, &mut warnings)?;
    let description = describe(&task);
    let slug = Slug::from_text(name.as_ref().map_or(&task.text, |name| name.as_str()));
    let isolated = role.isolation == Isolation::Worktree;
    if options.clone {
        ctx.repo.require_cloneable()?;
    }
    if isolated {
        warnings.extend(without_branch(ctx, &base, options));
        place::require_free_for_bundle(ctx, tree, &bundle_dir)?;
        match &adopted {
            Some(adopted) => adopted.require_free_for_bundle(&bundle_dir)?,
            None => warnings.extend(in_the_way(ctx, &ledger, tree, options)?),
        }
    } else {
        require_no_place(&role, options)?;
        if own_setup {
            let warning = format!(
                "[setup] does nothing for the role {}, which gets no worktree",
                role.name
            );
            warnings.push(warning);
        }
    }
    let cone = globs::of(ctx, &task, &projects, &bundle_dir, options, &mut warnings)?;
    let mut project_setup = Vec::new();
    if isolated && !own_setup {
        // Those that the base does not have yet are made by the agent, and what a sparse worktree leaves out cannot be set up.
        let is_there = |one: &&ProjectSettings| {
            let is_left_out = cone.as_ref().is_some_and(|cone| !cone.contains(&one.path));
            !is_left_out
                && ctx
                    .repo
                    .entry_at(tree, &one.path)
                    .is_ok_and(|found| found.is_some())
        };
        let needed = projects.needed(&reach).into_iter().filter(is_there);
        project_setup.extend(needed.flat_map(|one| one.setup.clone()));
    }
    // What binds it; all of it goes into the spawn commit.
    let planned = ctx.now();
    let chosen = chosen_branch(ctx, &ledger, options)?;
    let dna = Dna::of(&role.name, &task.text, &task.whitelist, &denylist);
    let identities = ctx.identities()?;
    if identities.stand_in {
        warnings.push(STAND_IN.to_owned());
    }
    let bundle_required = task.bundle_required.unwrap_or(isolated);
    let mut terms = setup::terms(
        &task,
        &role,
        &denylist,
        &base,
        bundle_required,
        &bundle_dir,
        &task_source,
    );
    if let Some(start) = &options.start {
        terms.settings_oid = Some(start.settings.to_hex());
        terms.lands_on.clone_from(&start.lands_on);
    }
    // The policy holds the commands of all work; those of a project depend on what will be touched. The agent is told of both.
    task.checks.extend(projects.checks_in(&reach).cloned());
    let policy_header = terms.header();
    let is_of_fork = terms.is_of_fork();
    if is_of_fork && !std::mem::take(&mut task.setup_copy).is_empty() {
        warnings.push(FORK_COPIES.to_owned());
    }
    // The id is the spawn commit's; the nonce in the message is drawn until the id is free.
    let (id, spawn_commit, message) = loop {
        let message = spawn_message(&slug, &task, &dna, &terms, ctx.nonce()?);
        // Only named: a plan writes no object. `execute` compares this name with the one that it
        // gets.
        let oid = NewCommit {
            tree,
            parents: &[base.oid],
            author: &identities.author,
            committer: &identities.committer,
            header: Some((policy::HEADER, &policy_header)),
            message: &message,
        }
        .oid()?;
        let id = AgentId::from_spawn_commit(oid);
        // Directories and people use the first eight digits, so they are kept unique.
        // An id that hosts would sweep is drawn again as well.
        if !id.is_swept_by_hosts() && !ledger.is_prefix_taken(&id.short())? {
            break (id, oid, message);
        }
    };
    // The branch and the worktree, which are named after the id.
    let (mut branch, mut worktree) = (None, None);
    if isolated {
        let full = match chosen {
            Some(chosen) => chosen,
            None => branch_name(&slug, planned, id)?,
        };
        let short = full.trim_start_matches("refs/heads/");
        let path = options.path.as_deref();
        worktree = Some(match &mut adopted {
            Some(adopted) => {
                adopted.replay(&ctx.repo, base.oid, spawn_commit)?;
                adopted.path.clone()
            }
            None => place::worktree(ctx, path, id, &slug, short)?,
        });
        branch = Some(full);
    }
    let root = ctx.repo.root()?;
    let shown = |path: &PathBuf| real_path::for_display(&root, path);
    Ok(SpawnPlan {
        worktree_path: worktree.as_ref().map(shown),
        bundle_dir,
        terms,
        // Who let an agent be spawned decides what its word counts for.
        actor: asker.map_or_else(|| ctx.actor(), |id| Ok(id.to_string()))?,
        // Without a name there is none that the other agent could give up.
        succeeds: options.succeeds.filter(|_| name.is_some()),
        parent: parent.or(asker),
        // A worktree that was there before is left as it is.
        hooks: !options.no_hooks && adopted.is_none(),
        include: settings
            .include
            .filter(|_| isolated && !own_copy && !is_of_fork),
        settings_at,
        is_placed: options.path.is_some(),
        pool_size: settings.pool_size,
        leases: settings.leases,
        slug,
        project_setup,
        after_spawn: hooks.remove(&HookMoment::AfterSpawn).unwrap_or_default(),
        exclusive: options.exclusive,
        clone: options.clone,
        layered: match options.layered {
            Some(layered) => layered,
            None if options.start.is_some() => Layering::Off,
            // What gets no worktree, or a repository of its own, has nothing to layer.
            None if !isolated || options.clone || adopted.is_some() => Layering::Off,
            None => settings.layered.unwrap_or(options.layered_by_default),
        },
        adopted,
        cone,
        id,
        spawn_commit,
        task,
        task_source,
        task_file,
        role,
        denylist,
        character,
        base,
        tree,
        dna,
        description,
        name,
        branch,
        worktree,
        policy_header,
        message,
        planned,
        identities,
        warnings,
    })
}

/// What to know where no branch is checked out at the base, as nothing but a person can tell where the work is to land.
fn without_branch(ctx: &Ctx, base: &Base, options: &SpawnOptions) -> Option<String> {
    if base.refname.is_some() {
        return None;
    }
    let why = match ctx.repo.branch_being_rebased() {
        Some(branch) if options.base.is_none() => format!("a rebase of {branch} is under way"),
        _ if options.base.is_none() => "HEAD is detached".to_owned(),
        _ => "the base is no branch".to_owned(),
    };
    Some(format!(
        "{why}, so the work has no branch to land on; to land it, run git agent merge --into <branch>, or spawn with \
         --base <branch>"
    ))
}

/// What to know where the caller stands in a project and the scope reaches beyond it, as nothing said otherwise.
fn scope_here(ctx: &Ctx, task: &Task, projects: &Projects) -> Option<String> {
    let is_wide = task.whitelist.iter().any(Glob::is_bare);
    let here = Some(projects::directory_in_repository(ctx)).filter(|_| is_wide)?;
    let project = { projects.all().iter() }.find(|one| here.starts_with(&one.path))?;
    Some(format!(
        "the scope is the whole repository; to keep the agent in project {}, pass --scope .",
        project.path
    ))
}

/// A shared agent works where its starter does and has no branch.
fn require_no_place(role: &Role, options: &SpawnOptions) -> Result<()> {
    let what = if options.clone {
        format!(
            "an agent with the role {} shares your directory, so it can get no clone",
            role.name
        )
    } else if options.branch.is_some() || options.path.is_some() || options.adopt.is_some() {
        format!(
            "an agent with the role {} gets neither a worktree nor a branch",
            role.name
        )
    } else if options
        .layered
        .is_some_and(|layered| layered != Layering::Off)
    {
        format!(
            "an agent with the role {} shares your directory, so there is no worktree to layer",
            role.name
        )
    } else if options.sparse {
        format!(
            "an agent with the role {} shares your directory, so there is no worktree to make sparse",
            role.name
        )
    } else {
        return Ok(());
    };
    Err(Error::new(Code::Usage, what)
        .hint("to see which roles get a worktree, run git agent roles"))
}

/// The full name of the branch that the caller asked for, which must be free.
fn chosen_branch(ctx: &Ctx, ledger: &Ledger<'_>, options: &SpawnOptions) -> Result<Option<String>> {
    let Some(chosen) = &options.branch else {
        return Ok(None);
    };
    let full = refs::full_name(chosen)?;
    ctx.repo.require_free_branch(&full)?;
    require_never_given(ledger, &full)?;
    Ok(Some(full))
}

/// The full name of a branch named after the task, the time and the agent. The time alone does not keep two
/// clones apart in which the same task is spawned in the same second; the id does.
fn branch_name(slug: &Slug, planned: DateTime<Utc>, id: AgentId) -> Result<String> {
    let time = planned.format("%Y%m%dT%H%M%SZ");
    refs::full_name(&format!("agent/{slug}-{time}-{}", id.short()))
}

/// A branch that was discarded leaves its name with its row.
fn require_never_given(ledger: &Ledger<'_>, branch: &str) -> Result<()> {
    match ledger.last_with_branch(branch)? {
        None => Ok(()),
        Some(agent) => Err(Error::new(
            Code::BranchExists,
            format!("{branch} was the branch of agent {}", agent.id.short()),
        )
        .hint("to choose another name, pass --branch <name>")),
    }
}

fn describe(task: &Task) -> String {
    let first_line = task.text.lines().next().unwrap_or_default();
    let text = task.description.as_deref().unwrap_or(first_line);
    cut_at_a_word(text.trim(), DESCRIPTION_CHARS)
}

/// The beginning of a line that is longer than so many characters, up to the last word that fits; it becomes the subject of a commit.
fn cut_at_a_word(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else {
        return text.to_owned();
    };
    let fitting = &text[..end];
    let is_between = text[end..].starts_with(char::is_whitespace);
    let last = fitting.rfind(char::is_whitespace).filter(|_| !is_between);
    fitting[..last.unwrap_or(end)].trim_end().to_owned()
}

/// The id is made from the commit, so what a trailer names is bound to it for good. A rebase by git drops the
/// header with the policy and keeps the message, and with it the policy's digest.
fn spawn_message(slug: &Slug, task: &Task, dna: &Dna, terms: &Policy, nonce: [u8; 16]) -> String {
    let first_line = task.text.lines().next().unwrap_or_default();
    let nonce = hex(&nonce);
    let (role, base, digest) = (&terms.role, &terms.base_oid, terms.digest());
    format!(
        "{SPAWN_SUBJECT}{slug}\n\n{first_line}\n\nAgent-Role: {role}\nAgent-Dna: {dna}\nAgent-Base: {base}\nAgent-Nonce: {nonce}\n{}: {digest}\n",
        policy::TRAILER
    )
}

/// That a tool of the repository looks into worktrees inside of the root. It is said once, with the first agent of a ledger, and only
/// where no place was chosen.
fn in_the_way(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    tree: Oid,
    options: &SpawnOptions,
) -> Result<Option<String>> {
    let is_chosen =
        options.path.is_some() || ctx.repo.config_string("agent.worktreeDir")?.is_some();
    if is_chosen || ledger.is_begun()? {
        return Ok(None);
    }
    let Some(entry) = ctx.repo.entry_at(tree, "package.json")? else {
        return Ok(None);
    };
    // What cannot be read, as a directory of that name, names no tool.
    let package = ctx.repo.read_blob(entry.oid).unwrap_or_default();
    let package = serde_json::from_slice(&package).unwrap_or_default();
    Ok(real_path::named_by(&package).map(|tool| {
        format!(
            "{tool} looks through the whole root, agents' worktrees in it included; to have them beside it, run \
             git config agent.worktreeDir '{}', or see docs/trouble.md for the line that keeps {tool} out",
            real_path::BESIDE
        )
    }))
}
