//! Everything a spawn decides, decided before anything is made.

use crate::agents::who::scope_guard::{other_controls, spell_out_directories};
use crate::agents::who::{assignment, authority};
use crate::agents::{Ctx, context::real_path, place::projects, upkeep::hooks};
use crate::domain::boundary::scope::{Opened, control_files, deny_control_files};
use crate::domain::life::event::Base;
use crate::domain::settings::project::{ProjectSettings, Projects};
use crate::domain::settings::repository_settings::HookMoment;
use crate::domain::value::named::hex;
use crate::domain::work::dna::Dna;
use crate::domain::work::persona::Character;
use crate::domain::work::role::DEFAULT_DENYLIST;
use crate::domain::work::task::{DESCRIPTION_CHARS, TaskOptions};
use crate::domain::{
    AgentId, Glob, Isolation, Layering, Oid, RepoPath, Role, RoleSet, Scope, Slug, Task, TaskDraft,
    boundary::scope, branch_name,
};
use crate::error::{Code, Error, Result};
use crate::git::Tip;
use crate::git::config::Identities;
use crate::git::refs;
use crate::git::repo::program::Version;
use crate::ops::spawn::adopt::AdoptedWorktree;
use crate::ops::spawn::contract::{
    AgentNames, GivenTask, PlannedCommit, PlannedPlace, PlannedSetup, SpawnOptions, SpawnPlan,
    Spawner,
};
use crate::ops::spawn::named::{self, Found};
use crate::ops::spawn::{globs, place, setup, start};
use crate::store::chain::recovery::{self, Condition};
use crate::store::landing::spawn_commit::SPAWN_SUBJECT;
use crate::store::{Chain, Ledger, settings::repository_settings};
use crate::wire::row::policy::{self, Policy, TRAILER};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
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
    let here = start::in_agents_worktree(ctx, &draft, options, asker.is_none())?;
    let options = here.as_ref().unwrap_or(options);
    let mut planner = Planner::new(ctx, &draft, options)?;
    let Found { base, settings_at, roles, mut settings, character, parent } =
        planner.look_up(&mut draft)?;
    // The task, checked with everything that is wrong with it at once.
    let (mut checked, mut character) = planner.check(draft, &roles, character)?;
    planner.warn_of_edited_settings(settings_at)?;
    // What the agent may touch. Which of the repository's projects that reaches decides what is set up, and which checks it is
    // told of.
    let role = roles.require_spawnable(&checked.task.role)?.clone();
    let tree = ctx.repo.tree_of(base.oid)?;
    let trees = planner.trees(tree)?;
    spell_out_directories(&ctx.repo, &trees, &mut checked.task.whitelist, false)?;
    character.instructions = assignment::nearest(&ctx.repo, settings_at, &checked.task.whitelist)?;
    let denied = std::mem::take(&mut settings.deny);
    let bound = planner.bound(&checked, &role, denied, (&trees, &settings.projects))?;
    planner.require_matched(&checked, &trees, (&bound.denylist, &bound.opened))?;
    // What it is called, and where it works.
    let task = &checked.task;
    let name = named::alias(&planner.ledger, options, task, &mut planner.warnings)?;
    let slug = Slug::from_text(name.as_ref().map_or(&task.text, |name| name.as_str()));
    planner.require_place(&role, &base, tree)?;
    let cone = globs::of(
        ctx,
        task,
        &settings.projects,
        &planner.bundle_dir,
        options,
        &mut planner.warnings,
    )?;
    let projects =
        planner.project_setup(&role, tree, cone.as_ref(), settings.projects.needed(&bound.reach));
    let planned = ctx.now();
    let chosen = chosen_branch(ctx, &planner.ledger, options)?;
    // What binds it; all of it goes into the spawn commit.
    let identities = planner.identities()?;
    let terms = planner.terms(&checked, &role, &bound, &base);
    let is_of_fork = terms.is_of_fork();
    // The policy holds the commands of all work; those of a project depend on what will be touched. The agent is told of both.
    let GivenAndChecked { mut task, given, .. } = checked;
    task.checks.extend(settings.projects.checks_in(&bound.reach).cloned());
    if is_of_fork && !std::mem::take(&mut task.setup_copy).is_empty() {
        planner.warnings.push(FORK_COPIES.to_owned());
    }
    let commit = PlannedCommit {
        dna: Dna::of(&role.name, &task.text, &task.whitelist, &bound.denylist),
        header: terms.header(),
        terms,
        tree,
        // Both are drawn with the id.
        oid: base.oid,
        message: String::new(),
    };
    let (id, commit) = planner.draw_id(commit, &slug, &task, (&base, &identities))?;
    // The branch and the worktree are named after the id.
    let isolated = role.isolation == Isolation::Worktree;
    let (branch, worktree) = if isolated {
        let branch = match chosen {
            Some(chosen) => chosen,
            None => made_up_branch(&slug, planned, id)?,
        };
        let worktree = planner.worktree(id, &slug, &branch, (base.oid, commit.oid))?;
        (Some(branch), Some(worktree))
    } else {
        (None, None)
    };
    let root = ctx.repo.root()?;
    let Planner { bundle_dir, adopted, own_copy, warnings, .. } = planner;
    Ok(SpawnPlan {
        id,
        called: AgentNames {
            // Without a name there is none that the other agent could give up.
            succeeds: options.succeeds.filter(|_| name.is_some()),
            description: describe(&task),
            name,
            slug,
        },
        task,
        given,
        denied: commit.terms.denied_in_words(),
        kept_out: bound.kept_out,
        character,
        base,
        settings_at,
        commit,
        spawner: Spawner {
            parent: parent.or(asker),
            // Who let an agent be spawned decides what its word counts for.
            actor: asker.map_or_else(|| ctx.actor(), |id| Ok(id.to_string()))?,
            identities,
        },
        setup: PlannedSetup {
            include: { settings.include }.filter(|_| isolated && !own_copy && !is_of_fork),
            projects,
            leases: settings.leases,
            pool_size: settings.pool_size,
            // A worktree that was there before is left as it is.
            hooks: !options.no_hooks && adopted.is_none(),
            after_spawn: { settings.hooks.remove(&HookMoment::AfterSpawn) }.unwrap_or_default(),
        },
        place: PlannedPlace {
            shown: { worktree.as_ref() }.map(|path| real_path::for_display(&root, path)),
            branch,
            planned,
            worktree,
            is_chosen: options.path.is_some(),
            bundle_dir,
            clone: options.clone,
            layered: match options.layered {
                Some(layered) => layered,
                None if options.start.is_some() => Layering::Off,
                // What gets no worktree, or a repository of its own, has nothing to layer.
                None if !isolated || options.clone || adopted.is_some() => Layering::Off,
                None => settings.layered.unwrap_or(options.layered_by_default),
            },
            cone,
            adopted,
        },
        role,
        exclusive: options.exclusive,
        warnings,
    })
}

/// What the steps of planning share.
struct Planner<'a> {
    ctx: &'a Ctx,
    options: &'a SpawnOptions,
    ledger: Ledger<'a>,
    bundle_dir: String,
    adopted: Option<AdoptedWorktree>,
    /// Whether the task itself says how it is set up, and which files are copied.
    own_setup: bool,
    own_copy: bool,
    own_scope: bool,
    warnings: Vec<String>,
}

/// A task file that was read, and the task that it gave.
struct GivenAndChecked {
    task: Task,
    given: GivenTask,
    /// Whether it was typed as an argument.
    is_typed: bool,
    /// Whether an agent was spawned of it already.
    was_accepted: bool,
    /// The globs that may match nothing yet.
    new_globs: Vec<String>,
}

/// What the agent may touch.
struct Bound<'p> {
    denylist: Vec<Glob>,
    /// What is in scope though the denylist has it.
    opened: Opened,
    /// A tracked control file, where a scope of everything leaves out all of them.
    kept_out: Option<RepoPath>,
    /// The repository's projects that it reaches.
    reach: BTreeSet<&'p str>,
}

/// The warning that the ledger was deleted. It comes before another one is begun, after which nothing tells that there was one.
fn lost_ledger(ctx: &Ctx) -> Result<Option<String>> {
    let refname = Chain::Ledger.refname();
    let is_lost = ctx.repo.tip(refname)? == Tip::Absent
        && recovery::condition(&ctx.repo, Chain::Ledger)? == Condition::Lost;
    Ok(is_lost.then(|| {
        format!("{refname} was deleted, so no earlier agent has a row here; to take rows over from a remote, run git agent sync <remote>")
    }))
}

/// The warning that the first agent of a bare repository takes the branch from its worktrees which HEAD of the repository names: git before
/// 2.49 takes that for checked out once worktrees have settings of their own.
fn held_branch(ctx: &Ctx) -> Result<Option<String>> {
    let repo = &ctx.repo;
    if !repo.is_bare()? || repo.reads_worktree_config()? {
        return Ok(None);
    }
    let is_old = hooks::this_git(ctx).is_some_and(|git| git < Version::BARE_IN_WORKTREE_CONFIG);
    Ok(is_old.then(|| {
        "this git will not check out the branch that HEAD of this bare repository names in a worktree as long as there are agents; to do \
         it all the same, run git switch --ignore-other-worktrees <branch>"
            .to_owned()
    }))
}

impl<'a> Planner<'a> {
    /// Begins with a draft as it was given: [`look_up`](Planner::look_up) fills it from the repository's settings, and what counts
    /// is whether the task itself asked for something.
    fn new(ctx: &'a Ctx, draft: &TaskDraft, options: &'a SpawnOptions) -> Result<Planner<'a>> {
        let adopted = options.adopt.as_deref().map(|path| AdoptedWorktree::find(ctx, path));
        Ok(Planner {
            adopted: adopted.transpose()?,
            bundle_dir: place::bundle_dir(ctx)?,
            own_setup: draft.has_setup(),
            own_copy: draft.setup_copy.given().is_some(),
            own_scope: draft.whitelist.given().is_some(),
            ledger: ctx.ledger(),
            warnings: lost_ledger(ctx)?.into_iter().chain(held_branch(ctx)?).collect(),
            ctx,
            options,
        })
    }

    fn look_up(&self, draft: &mut TaskDraft) -> Result<Found> {
        named::look_up(
            self.ctx,
            &self.ledger,
            draft,
            &self.bundle_dir,
            self.options,
            self.adopted.as_ref(),
        )
    }

    fn check(
        &mut self,
        mut draft: TaskDraft,
        roles: &RoleSet,
        character: Result<Character>,
    ) -> Result<(GivenAndChecked, Character)> {
        let given = GivenTask { source: draft.source.text().to_owned(), file: draft.source.name() };
        let (is_typed, was_accepted) = (draft.is_typed, draft.was_accepted);
        let new_globs = std::mem::take(&mut draft.new_globs);
        let wishes = TaskOptions { no_default_deny: self.options.no_default_deny };
        let (task, warnings, character) = match (draft.check(roles, wishes), character) {
            // Which personas there are is more than a problem of the file can tell.
            (Err(wrong), Err(unknown)) if wrong.is_only(unknown.code()) => return Err(unknown),
            (checked, character) => {
                let (task, warnings) = checked?;
                (task, warnings, character?)
            }
        };
        self.warnings.extend(warnings.iter().map(ToString::to_string));
        let started = self.options.start.iter();
        self.warnings.extend(started.flat_map(|start| start.warnings.clone()));
        let checked = GivenAndChecked { task, given, is_typed, was_accepted, new_globs };
        Ok((checked, character))
    }

    /// Settings count as they are committed, so a file that was edited and has no effect yet is named.
    fn warn_of_edited_settings(&mut self, settings_at: Oid) -> Result<()> {
        let repo = &self.ctx.repo;
        let counting = repository_settings::read(repo, settings_at)?;
        let edited = repository_settings::uncommitted(repo, counting.as_deref())?;
        self.warnings.extend(edited);
        Ok(())
    }

    /// The trees whose paths globs may name: what a person sees in an adopted worktree is not all in the base.
    fn trees(&self, base: Oid) -> Result<Vec<Oid>> {
        let mut trees = vec![base];
        if let Some(adopted) = &self.adopted {
            trees.push(self.ctx.repo.tree_of(adopted.head)?);
        }
        Ok(trees)
    }

    /// The denylist that binds, and what the agent may touch of the repository's projects.
    fn bound<'p>(
        &mut self,
        checked: &GivenAndChecked,
        role: &Role,
        denied: Vec<Glob>,
        (trees, projects): (&[Oid], &'p Projects),
    ) -> Result<Bound<'p>> {
        let task = &checked.task;
        let no_default_deny = self.options.no_default_deny;
        let mut denylist =
            scope::effective_denylist(task.denylist.as_deref(), role, no_default_deny);
        denylist.extend(denied);
        spell_out_directories(&self.ctx.repo, trees, &mut denylist, true)?;
        let scope = Scope::new(&task.whitelist, &denylist);
        let scope = scope.map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
        let reach = projects.within(scope.beginnings());
        if checked.is_typed {
            self.warnings.extend(scope_here(self.ctx, task, projects));
        }
        let is_usual = denylist.iter().all(|glob| DEFAULT_DENYLIST.contains(&glob.as_str()));
        let (mut opened, mut kept_out) = (Opened::new(), None);
        if (checked.is_typed || checked.was_accepted) && role.edits {
            // A person hardly means the files that decide what other people's programs run, unless they are named.
            let controls = control_files(&task.whitelist, other_controls(&self.ctx.repo)?);
            if checked.is_typed && controls.values().all(Vec::is_empty) {
                kept_out = globs::control_file(&self.ctx.repo, trees, (&scope, &controls))?;
            }
            opened = deny_control_files(&mut denylist, controls);
            // With these a list may be longer than globset holds; the usual one is not.
            if !is_usual {
                Scope::new(&task.whitelist, &denylist)
                    .map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
            }
        }
        // The policy says the same of the same set of globs, in whatever order its sources named them.
        denylist.sort_unstable();
        denylist.dedup();
        Ok(Bound { denylist, opened, kept_out, reach })
    }

    /// Refuses typed globs that match no file; those of a file, as the settings are, are warned of.
    fn require_matched(
        &mut self,
        checked: &GivenAndChecked,
        trees: &[Oid],
        (denylist, opened): (&[Glob], &Opened),
    ) -> Result<()> {
        let whitelist = &checked.task.whitelist;
        let unmatched = globs::unmatched(&self.ctx.repo, trees, whitelist, (denylist, opened))?;
        let all = whitelist.iter().chain(denylist);
        self.warnings.extend(globs::misread(&self.ctx.repo, trees, all)?);
        if checked.is_typed && self.own_scope {
            globs::require_matched(self.ctx, trees, &unmatched, &checked.new_globs)?;
            self.warnings.extend(globs::denied(whitelist, denylist, opened));
            return Ok(());
        }
        let is_matched = |glob: &&Glob| !unmatched.iter().any(|(other, _)| other == *glob);
        let matched = whitelist.iter().filter(is_matched);
        self.warnings.extend(globs::denied(matched, denylist, opened));
        self.warnings.extend(unmatched.into_iter().map(|(_, warning)| warning));
        Ok(())
    }

    /// Makes sure that a worktree of its own can be had where the role gets one, and that none is asked for where it does not.
    fn require_place(&mut self, role: &Role, base: &Base, tree: Oid) -> Result<()> {
        let (ctx, options) = (self.ctx, self.options);
        if options.clone {
            ctx.repo.require_cloneable()?;
        }
        if role.isolation == Isolation::Worktree {
            self.warnings.extend(place::without_branch(ctx, base, options));
            place::require_free_for_bundle(ctx, tree, &self.bundle_dir)?;
            return match &self.adopted {
                Some(adopted) => adopted.require_free_for_bundle(&self.bundle_dir),
                None => {
                    let warning = place::in_the_way(ctx, &self.ledger, tree, options)?;
                    self.warnings.extend(warning);
                    Ok(())
                }
            };
        }
        place::require_no_place(role, options)?;
        place::require_real_bundle(ctx, &self.bundle_dir)?;
        if self.own_setup {
            let name = &role.name;
            self.warnings
                .push(format!("[setup] does nothing for the role {name}, which gets no worktree"));
        }
        Ok(())
    }

    /// The commands that set up the projects that the agent may touch, unless the task has its own.
    fn project_setup(
        &self,
        role: &Role,
        tree: Oid,
        cone: Option<&BTreeSet<String>>,
        needed: Vec<&ProjectSettings>,
    ) -> Vec<String> {
        if role.isolation != Isolation::Worktree || self.own_setup {
            return Vec::new();
        }
        // Those that the base does not have yet are made by the agent, and what a sparse worktree leaves out cannot be set up.
        let is_there = |one: &&ProjectSettings| {
            let is_left_out = cone.is_some_and(|cone| !cone.contains(&one.path));
            let found = || self.ctx.repo.entry_at(tree, &one.path);
            !is_left_out && found().is_ok_and(|found| found.is_some())
        };
        let there = needed.into_iter().filter(is_there);
        there.flat_map(|one| one.setup.clone()).collect()
    }

    fn identities(&mut self) -> Result<Identities> {
        let identities = self.ctx.identities()?;
        if identities.stand_in {
            self.warnings.push(STAND_IN.to_owned());
        }
        Ok(identities)
    }

    fn terms(
        &self,
        checked: &GivenAndChecked,
        role: &Role,
        bound: &Bound<'_>,
        base: &Base,
    ) -> Policy {
        let isolated = role.isolation == Isolation::Worktree;
        // A bare repository has no root where a shared agent could leave files.
        let has_root = || self.ctx.repo.main_worktree().is_ok_and(|main| main.is_some());
        let mut terms = setup::terms(
            &checked.task,
            role,
            &bound.denylist,
            base,
            checked.task.bundle_required.unwrap_or(isolated),
            (isolated || has_root()).then_some(self.bundle_dir.as_str()),
            &checked.given.source,
        );
        terms.opened = policy::recorded(&bound.opened);
        if let Some(start) = &self.options.start {
            terms.settings_oid = Some(start.settings.to_hex());
            terms.lands_on.clone_from(&start.lands_on);
        }
        terms
    }

    /// Draws the nonce in the message of the spawn commit until the id that is made from its name is free. The commit is only named:
    /// a plan writes no object.
    fn draw_id(
        &self,
        mut commit: PlannedCommit,
        slug: &Slug,
        task: &Task,
        (base, who): (&Base, &Identities),
    ) -> Result<(AgentId, PlannedCommit)> {
        loop {
            commit.message =
                spawn_message(slug, task, &commit.dna, &commit.terms, self.ctx.nonce()?);
            commit.oid = commit.new_commit(base, who).oid()?;
            let id = AgentId::from_spawn_commit(commit.oid);
            // Directories and people use the first eight digits, so they are kept unique.
            // An id that hosts would sweep is drawn again as well.
            if !id.is_swept_by_hosts() && !self.ledger.is_prefix_taken(&id.short())? {
                return Ok((id, commit));
            }
        }
    }

    /// The absolute path of the worktree.
    fn worktree(
        &mut self,
        id: AgentId,
        slug: &Slug,
        branch: &str,
        (base, spawn_commit): (Oid, Oid),
    ) -> Result<PathBuf> {
        if let Some(adopted) = &mut self.adopted {
            adopted.replay(&self.ctx.repo, base, spawn_commit)?;
            return Ok(adopted.path.clone());
        }
        place::worktree(self.ctx, self.options.path.as_deref(), id, slug, branch_name(branch))
    }
}

/// What to know where the caller stands in a project and the scope reaches beyond it, as nothing said otherwise.
fn scope_here(ctx: &Ctx, task: &Task, projects: &Projects) -> Option<String> {
    let is_wide = task.whitelist.iter().any(Glob::is_bare);
    let here = Some(projects::directory_in_repository(ctx)).filter(|_| is_wide)?;
    let project = projects.all().iter().find(|one| here.starts_with(&one.path))?;
    Some(format!(
        "the scope is the whole repository; to keep the agent in project {}, pass --scope .",
        project.path
    ))
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
fn made_up_branch(slug: &Slug, planned: DateTime<Utc>, id: AgentId) -> Result<String> {
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
        TRAILER
    )
}
