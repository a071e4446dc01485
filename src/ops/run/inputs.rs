//! Everything that a run tells its agent: the prompt, the place of the answer, the command line.

use crate::agents::Ctx;
use crate::agents::life::host_session::price;
use crate::agents::upkeep::merge_conflict::UnfinishedMerge;
use crate::agents::who::assignment::{Assignment, Workplace};
use crate::domain::HostSession;
use crate::domain::value::redaction::SecretRedactor;
use crate::domain::{Agent, AgentId, Task, work::prompt};
use crate::error::{Code, Error, Result};
use crate::hosts::command::{self, Needs};
use crate::hosts::{CostControl, Host};
use crate::ops::run::RunOptions;
use crate::ops::run::output::{Output, OutputWish};
use crate::ops::spawn::SpawnPlan;
use crate::store::landing::spawn_commit;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the caller asked for, and what will come of it here.
#[derive(Clone, Copy)]
pub(super) struct RunRequest<'a> {
    pub options: &'a RunOptions,
    /// The host's session to go on with.
    pub session: Option<&'a str>,
    /// Whether a fence of ours is going to stand around the command, so that a host has to leave its own off:
    /// one cannot be put up inside the other.
    pub fenced: bool,
}

/// What one run is about.
pub(super) struct AgentInputs {
    /// The agent.
    pub id: AgentId,
    /// Where it works.
    pub place: Workplace,
    /// The program and its arguments, placeholders not filled in.
    pub command: Vec<OsString>,
    /// The host whose recipe made the command.
    pub host: Option<&'static dyn Host>,
    /// The file of the answer, where one is wanted.
    pub output: Option<Output>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// Whether the host goes on with a session, in which it was told its task.
    is_told: bool,
    /// What it is told then.
    message: Option<String>,
    assignment: Assignment,
    /// What it is told of a merge whose conflicts it is to resolve.
    conflicts: Option<String>,
}

impl AgentInputs {
    /// For an agent that is about to be made.
    ///
    /// # Errors
    /// Those of [`Assignment::new`], [`Output::plan`] and of a command line that cannot be made.
    pub(super) fn of_spawn(
        ctx: &Ctx,
        plan: &SpawnPlan,
        command: Vec<OsString>,
        wishes: RunRequest<'_>,
    ) -> Result<AgentInputs> {
        let place = Workplace {
            directory: plan.directory(ctx)?,
            bundle: plan.bundle_path(ctx)?,
            bundle_required: plan.commit.terms.bundle_required,
            cone: plan.place.cone.clone(),
        };
        let assignment = Assignment::new(
            ctx,
            plan.base.oid,
            plan.task.clone(),
            plan.role.clone(),
            plan.denied.clone(),
            &wishes.options.prompt,
        )?;
        AgentInputs::new(ctx, (plan.id, place, assignment), command, wishes)
    }

    /// For an agent that works in `directory`.
    ///
    /// # Errors
    /// As [`AgentInputs::of_spawn`], and those of [`Assignment::recall`].
    pub(super) fn of_agent(
        ctx: &Ctx,
        (agent, directory): (&Agent, PathBuf),
        command: Vec<OsString>,
        wishes: RunRequest<'_>,
    ) -> Result<AgentInputs> {
        let policy = spawn_commit::require_policy(&ctx.repo, agent)?;
        let assignment = Assignment::recall(ctx, agent, &policy, &wishes.options.prompt)?;
        let place = Workplace::of(ctx, agent, &policy, directory);
        let mut inputs = AgentInputs::new(ctx, (agent.id, place, assignment), command, wishes)?;
        // The next agent at work there has to know that the worktree is in the middle of a merge.
        if let Some(unfinished) = UnfinishedMerge::of(ctx, agent)? {
            inputs.conflicts = Some(unfinished.briefing(ctx)?);
        }
        Ok(inputs)
    }

    fn new(
        ctx: &Ctx,
        (id, place, assignment): (AgentId, Workplace, Assignment),
        command: Vec<OsString>,
        wishes: RunRequest<'_>,
    ) -> Result<AgentInputs> {
        let options = wishes.options;
        let task = &assignment.task;
        let file = options.output.file.as_ref().or(task.output_file.as_ref());
        // A persona answers into a file of its own, whether or not one was named.
        let wanted = file.is_some() || assignment.character.agent_type.is_some();
        let wish = OutputWish {
            file: file.cloned(),
            allow_overwrite: options.output.allow_overwrite || task.output_overwrite,
        };
        let output =
            wanted.then(|| Output::plan(ctx, (id, &place), &wish, assignment.agent_type()));
        let output = output.transpose()?;
        let mut warnings = Vec::new();
        let command = match options.host {
            Some(host) if options.terminal => {
                let program = host.program().into_iter().map(OsString::from);
                // A person types to the host, so the recipe for a run by itself does not apply.
                program.chain(command).collect()
            }
            Some(host) => {
                warnings.extend(unheld_cost(ctx, host, &assignment.task, options)?);
                recipe(host, &assignment, &command, wishes, &mut warnings)?
            }
            None => command,
        };
        let inputs = AgentInputs {
            id,
            place,
            command,
            host: options.host,
            output,
            warnings,
            is_told: wishes.session.is_some(),
            message: options.message.clone(),
            assignment,
            conflicts: None,
        };
        // Last, when all that the prompt consists of is known.
        // A command line is seen by every user of the machine.
        if super::command_line::shows_prompt(&inputs.command) {
            inputs.assignment.require_private(&inputs.prompt())?;
        }
        Ok(inputs)
    }

    /// The task, with the run's wishes in place.
    pub(super) fn task(&self) -> &Task {
        &self.assignment.task
    }

    /// The agent type of the roster whose persona it is told to be.
    pub(super) fn agent_type(&self) -> Option<&str> {
        self.assignment.character.agent_type.as_deref()
    }

    /// Whether the role may change files.
    pub(super) fn edits(&self) -> bool {
        self.assignment.role.edits
    }

    /// Whether the role may spawn agents.
    pub(super) fn may_spawn(&self) -> bool {
        self.assignment.role.may_spawn
    }

    /// What the caller should know where a limit of cost was set and the host counted no cost.
    pub(super) fn uncounted_cost(&self, session: &HostSession) -> Option<String> {
        let host = self.host.filter(|host| host.cost_control() == CostControl::Cost)?;
        let is_uncounted = self.task().max_cost.is_some()
            && session.cost_micro_usd.unwrap_or_default() == 0
            && session.input_tokens.is_some();
        is_uncounted.then(|| {
            let name = host.name();
            format!("{name} counted no cost for its model, so no limit of cost could end it; to say what a million tokens cost, run git config agent.host.{name}.price <given>/<made>")
        })
    }

    /// The prompt.
    pub(super) fn prompt(&self) -> String {
        let text = if self.is_told {
            let directory = self.place.directory.to_string_lossy();
            prompt::going_on(self.id, &directory, self.message.as_deref())
        } else {
            let output = self.output.as_ref().map(Output::path_for_agent);
            self.assignment.prompt(self.id, &self.place, output.as_deref())
        };
        text + self.conflicts.as_deref().unwrap_or_default()
    }

    /// Whether the prompt says what holds for one run alone: to go on, or a place that is gone afterwards.
    pub(super) fn is_for_one_run(&self) -> bool {
        self.is_told
            || self.conflicts.is_some()
            || self.output.as_ref().is_some_and(Output::is_staged)
    }

    /// What no log may show.
    pub(super) fn redactor(&self) -> SecretRedactor {
        SecretRedactor::over(self.task().briefing.as_deref().unwrap_or_default())
    }
}

/// Refuses a limit of cost that could not end the host's session in time. The repository's limit holds for all hosts, so that one is a
/// warning, except where the caller insists on limits.
///
/// # Errors
/// `usage` for such a limit, and for a price that is none.
fn unheld_cost(
    ctx: &Ctx,
    host: &dyn Host,
    task: &Task,
    options: &RunOptions,
) -> Result<Option<String>> {
    let control = host.cost_control();
    let is_held = match control {
        CostControl::Own | CostControl::Cost => true,
        CostControl::Tokens => price(ctx, host, task.model.as_deref())?.is_some(),
        CostControl::Never => false,
    };
    if is_held || task.max_cost.is_none() {
        return Ok(None);
    }
    let name = host.name();
    let (told, hint) = match control {
        CostControl::Tokens => (
            "tokens and no cost",
            format!(
                "to say what a million tokens cost, run git config agent.host.{name}.price <given>/<made>, in US dollars"
            ),
        ),
        _ => (
            "no cost while it works",
            format!(
                "to bound its time in place of its cost, run git agent run --host {name} --timeout <time> …"
            ),
        ),
    };
    let what = format!("{name} tells {told}, so a limit of cost cannot end it in time");
    let is_of_repository =
        options.prompt.max_cost.is_none() && task.max_cost == options.prompt.most_cost;
    if is_of_repository && !options.sandbox.insists() {
        return Ok(Some(what));
    }
    Err(Error::new(Code::Usage, what).hint(hint))
}

/// The host's command line; the caller's words are its last arguments.
fn recipe(
    host: &dyn Host,
    assignment: &Assignment,
    words: &[OsString],
    wishes: RunRequest<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<OsString>> {
    let extra: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let name = host.name();
    let extra = extra.ok_or_else(|| {
        let message = format!("an argument for {name} is not UTF-8");
        Error::new(Code::Usage, message)
    })?;
    let needs = Needs {
        model: assignment.task.model.as_deref(),
        max_iterations: assignment.task.max_iterations,
        edits: assignment.role.edits,
        fenced: wishes.fenced,
        max_cost: assignment.task.max_cost,
        resume: wishes.session,
        private: assignment.task.briefing.is_some(),
        extra: &extra,
    };
    let command = command::build(host, &needs).map_err(|problem| {
        let hint = format!("to give it something, run git agent run --host {name} … -- <line>");
        Error::new(Code::Usage, problem).hint(hint)
    })?;
    warnings.extend(command.warnings);
    warnings.extend(command.without_flag.iter().map(|need| {
        let variable = need.to_ascii_uppercase();
        format!("{name} has no flag for {need}; it finds it in GIT_AGENT_{variable}")
    }));
    Ok(command.words.into_iter().map(OsString::from).collect())
}
