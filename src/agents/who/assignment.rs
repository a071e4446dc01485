//! What the agent of a run is told.
//!
//! The prompt is composed anew for every run, from the private copy of the task and the base commit, so
//! that a run can add a persona, a briefing or an output file. The copy of the task is believed as far as
//! [`task_copy`] says.
//!
//! A briefing may hold credentials. The prompt therefore goes to a file that only its owner can read, and
//! from there to standard input or into the hands of a host that is told the file's name. It never goes
//! into a command line, which every process of the machine can read.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::real_path::for_display;
use crate::agents::place::{projects, task_copy, worktree};
use crate::agents::who::persona::{self, CharacterWish};
use crate::domain::boundary::scope::Beginnings;
use crate::domain::paths::glob::Reach;
use crate::domain::work::persona::Character;
use crate::domain::work::prompt::Brief;
use crate::domain::work::task::TaskOptions;
use crate::domain::{Agent, AgentId, Glob, Oid, Role, Task, value::redaction};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Repo, worktree::populate};
use crate::hosts;
use crate::store::settings::{repository_settings, roles};
use crate::store::{files::layout, landing::spawn_commit};
use crate::wire::row::policy::Policy;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What stands for the prompt in a command line.
const PROMPT: &str = "{prompt}";

/// The longest argument that Linux hands to a program, in bytes (`MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;

/// What a run asks for besides its task; each replaces what the task says.
#[derive(Clone, Debug, Default)]
pub struct PromptWish {
    /// Who the agent is told to be.
    pub character: CharacterWish,
    /// Context for the agent; may hold credentials.
    pub briefing: Option<String>,
    /// Text on top of the role's own.
    pub system_prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The most turns.
    pub max_iterations: Option<u32>,
    /// The most that the host's session may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// What no run of the clone may cost more than, whatever it wishes.
    pub most_cost: Option<f64>,
}

/// An agent's task with what a run adds to it.
#[derive(Debug)]
pub struct Assignment {
    /// The task as it was spawned, with the run's wishes in place.
    pub task: Task,
    /// The role that binds.
    pub role: Role,
    /// Who the agent is told to be.
    pub character: Character,
    denied: Vec<String>,
}

/// Where an agent works.
#[derive(Clone, Debug)]
pub struct Workplace {
    /// Its worktree, or for a shared agent the repository's root; absolute.
    pub directory: PathBuf,
    /// The directory of the six files, absolute.
    pub bundle: PathBuf,
    /// Whether they are required.
    pub bundle_required: bool,
    /// The directories that a sparse worktree holds.
    pub cone: Option<BTreeSet<String>>,
}

impl Workplace {
    /// Where an agent works: in `directory`.
    pub fn of(ctx: &Ctx, agent: &Agent, policy: &Policy, directory: PathBuf) -> Workplace {
        Workplace {
            bundle: layout::bundle(ctx.repo.common_dir(), agent.id, policy, &directory),
            bundle_required: policy.bundle_required,
            cone: populate::cone_directories(&worktree::admin_dir(&ctx.repo, agent.id)),
            directory,
        }
    }
}

impl Assignment {
    /// The task of an agent that is about to be made, with what the run asks for.
    ///
    /// # Errors
    /// Those of [`persona::resolve`].
    pub fn new(
        ctx: &Ctx,
        base: Oid,
        task: Task,
        role: Role,
        denied: Vec<String>,
        wish: &PromptWish,
    ) -> Result<Assignment> {
        let task = with_wishes(task, wish);
        Ok(Assignment { character: character(ctx, base, &task, wish)?, task, role, denied })
    }

    /// Recalls an agent's task and adds what the run asks for.
    ///
    /// # Errors
    /// `agent-state` when the task is not in this clone or is not the one that was spawned, those of
    /// [`TaskDraft::check`](crate::domain::work::task::TaskDraft::check) and of [`persona::resolve`].
    pub fn recall(
        ctx: &Ctx,
        agent: &Agent,
        policy: &Policy,
        wish: &PromptWish,
    ) -> Result<Assignment> {
        // The commit whose roles and settings held at the spawn: what others wrote is not obeyed on
        // a resume either.
        let Some(base) = spawn_commit::settings_commit(&ctx.repo, agent)? else {
            return Err(unknown_task(agent, "the ledger does not say how it began"));
        };
        let roles = roles::load(&ctx.repo, base)?;
        let mut draft = task_copy::load(ctx, agent).map_err(|error| match error.code() {
            Code::AgentState => unknown_task(agent, error.message()),
            _ => error,
        })?;
        draft.fill(&repository_settings::load(&ctx.repo, base, &roles)?);
        let (mut task, _) = draft.check(&roles, TaskOptions::default())?;
        // The whitelist that binds: at the spawn the names of directories became globs of what is below them.
        task.whitelist = globs(&policy.whitelist)?;
        // As at the spawn, the agent is told of the checks of projects as well.
        let projects = projects::bound(&ctx.repo, policy)?;
        let reach = projects.within(&Beginnings::of(&task.whitelist));
        task.checks.extend(projects.checks_in(&reach).cloned());
        // What the role allowed at the spawn holds, as the policy has it; texts and models come
        // from the role file.
        let mut role = roles.require(&policy.role)?.clone();
        role.subagent_type.clone_from(&policy.subagent_type);
        role.edits = policy.edits;
        role.may_spawn = policy.may_spawn;
        Assignment::new(ctx, base, task, role, policy.denied_in_words(), wish)
    }

    /// The agent type for names and descriptions: the roster's, else the role's name.
    pub fn agent_type(&self) -> &str {
        let named = self.character.agent_type.as_deref();
        named.unwrap_or(&self.role.name)
    }

    /// What the `spec.md` of its bundle says.
    pub fn spec(&self, id: AgentId) -> String {
        Brief {
            id,
            role: &self.role,
            task: &self.task,
            denied: &self.denied,
            directory: "",
            bundle_directory: "",
            bundle_required: false,
            cone: None,
            character: &self.character,
            output_file: None,
        }
        .spec()
    }

    /// The prompt.
    pub fn prompt(&self, id: AgentId, place: &Workplace, output: Option<&Path>) -> String {
        let bundle = for_display(&place.directory, &place.bundle);
        let output = output.map(|file| for_display(&place.directory, file));
        Brief {
            id,
            role: &self.role,
            task: &self.task,
            denied: &self.denied,
            directory: &place.directory.to_string_lossy(),
            bundle_directory: &bundle,
            bundle_required: place.bundle_required,
            cone: place.cone.as_ref(),
            character: &self.character,
            output_file: output.as_deref(),
        }
        .prompt()
    }

    /// Refuses to put a confidential prompt on a command line, which all users can read.
    ///
    /// # Errors
    /// `prompt-exposed`.
    pub fn require_private(&self, prompt: &str) -> Result<()> {
        let why = if self.task.briefing.is_some() {
            "holds a briefing".to_owned()
        } else if let Some(found) = redaction::find_secret(prompt) {
            format!("holds what looks like {}", found.kind)
        } else if prompt.len() > LONGEST_ARGUMENT {
            format!("is longer than {LONGEST_ARGUMENT} bytes")
        } else {
            return Ok(());
        };
        let what = format!("the prompt {why}, so it cannot stand in a command line as {PROMPT}");
        Err(Error::new(Code::PromptExposed, what).hint(
            "leave it out to give the prompt on standard input, or name its file as {prompt_file}",
        ))
    }
}

fn with_wishes(task: Task, wish: &PromptWish) -> Task {
    Task {
        briefing: wish.briefing.clone().or(task.briefing),
        system_prompt: wish.system_prompt.clone().or(task.system_prompt),
        model: wish.model.clone().or(task.model),
        max_iterations: wish.max_iterations.or(task.max_iterations),
        // A run may wish for less than the clone allows, never for more.
        max_cost: [wish.max_cost.or(task.max_cost), wish.most_cost]
            .into_iter()
            .flatten()
            .reduce(f64::min),
        ..task
    }
}

/// The run's own wish for a persona replaces the task's.
fn character(ctx: &Ctx, base: Oid, task: &Task, wish: &PromptWish) -> Result<Character> {
    let mut wanted = wish.character.clone();
    // A caller who names another persona does not want the one of the task.
    if wanted.agent_type.is_none() && wanted.profile.is_none() {
        wanted.profile.clone_from(&task.profile);
    }
    let mut character = persona::resolve(ctx, base, &wanted)?;
    character.instructions = nearest(&ctx.repo, base, &task.whitelist)?;
    Ok(character)
}

fn globs(texts: &[String]) -> Result<Vec<Glob>> {
    let globs = texts.iter().map(|text| Glob::parse(text));
    // The policy was written by us, from globs that were read.
    globs.collect::<Result<_, String>>().map_err(Error::bug)
}

fn unknown_task(agent: &Agent, why: &str) -> Error {
    let id = agent.id.short();
    Error::new(Code::AgentState, format!("agent {id} cannot be told its task: {why}"))
        .remedy("to start again", Remedy::SpawnFrom("<task.toml>".into()))
}

// The project's own instructions for agents, such as `AGENTS.md`: the nearest file above what an agent may touch.

/// The nearest file of instructions for each glob, at the commit, from the top of its tree; each once.
///
/// # Errors
/// Those of reading the trees.
pub fn nearest(repo: &Repo, commit: Oid, globs: &[Glob]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for reach in globs.iter().flat_map(Glob::reach) {
        let (Reach::Below(place) | Reach::Path(place)) = reach;
        let file = above(repo, commit, &place)?;
        found.extend(file.filter(|file| !found.contains(file)));
    }
    Ok(found)
}

/// The instructions in the deepest directory of this path that has some.
fn above(repo: &Repo, commit: Oid, place: &str) -> Result<Option<String>> {
    let mut entries = repo.read_tree(repo.tree_of(commit)?)?;
    let mut directory = String::new();
    let mut nearest = None;
    let mut parts = place.split('/');
    loop {
        let is_here = |name: &&&str| {
            let named = entries.iter().find(|entry| entry.name == name.as_bytes());
            named.is_some_and(|entry| entry.is_file())
        };
        if let Some(name) = hosts::INSTRUCTIONS.iter().find(is_here) {
            nearest = Some(format!("{directory}{name}"));
        }
        let Some(part) = parts.next() else {
            return Ok(nearest);
        };
        let below = entries.iter().find(|entry| entry.name == part.as_bytes());
        let Some(below) = below.filter(|entry| entry.is_directory()) else {
            return Ok(nearest);
        };
        directory.push_str(&format!("{part}/"));
        entries = repo.read_tree(below.oid)?;
    }
}
