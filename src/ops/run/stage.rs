//! Everything that a command finds when it starts.

use crate::agents::context::ctx::OUTPUT_FILE;
use crate::agents::life::{host_session, liveness};
use crate::agents::{Ctx, Env, Scratch, stock::commands, upkeep::hooks};
use crate::domain::life::run::{DEFAULT_ITERATIONS, describe_command};
use crate::domain::{Agent, AgentId, Enforcement, Isolation, Limit};
use crate::error::{IoContext, Result};
use crate::hosts::Host;
use crate::hosts::home::{Ground, with_project};
use crate::ops::run::enclosure::Enclosure;
use crate::ops::run::output::Output;
use crate::ops::run::{RunPlan, command_line};
use crate::proc::AGENT_VARIABLES;
use crate::proc::supervisor::{BuildSlots, JOBSERVER_VARIABLES, knows_named_pipes};
use crate::store::files::{briefing, fsx, layout};
use crate::system::HAS_NAMED_PIPES;
use command_line::Placeholder;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// A prepared run.
pub(super) struct Stage {
    /// Its number among the runs of its agent.
    pub number: u32,
    /// Where the command runs.
    pub directory: PathBuf,
    /// Its words, with nothing left to fill in.
    pub command: Vec<OsString>,
    /// The command as it is recorded.
    pub description: String,
    /// Variables that it gets.
    pub variables: Vec<(Cow<'static, str>, OsString)>,
    /// The file on its standard input.
    pub input: Option<PathBuf>,
    /// The compile jobs that it shares with others.
    pub builds: Option<BuildSlots>,
    /// Its own place for temporary files.
    pub scratch: Scratch,
    /// The log of its standard output.
    pub stdout: PathBuf,
    /// The log of its standard error.
    pub stderr: PathBuf,
    /// Variables that it does not get.
    pub without: Vec<&'static str>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// The sandbox around it.
    pub enclosure: Enclosure,
    /// Ends the prompt of the run, where it holds for the run alone.
    _ended: Option<RunPrompt>,
}

/// A prompt of one run, deleted when this is dropped.
struct RunPrompt {
    common_dir: PathBuf,
    id: AgentId,
}

impl Drop for RunPrompt {
    fn drop(&mut self) {
        if let Err(error) = briefing::end_run_prompt(&self.common_dir, self.id) {
            tracing::debug!(%error, "the prompt of the run stays");
        }
    }
}

impl Stage {
    /// Makes what there has to be. The run's number is one more than the last one's, which the agent's lock
    /// keeps from being taken twice.
    pub(super) fn prepare(ctx: &Ctx, agent: &Agent, plan: &RunPlan) -> Result<Stage> {
        let common = ctx.repo.common_dir();
        let directory = super::directory_of(ctx, agent)?;
        // Before the fence copies the settings that lead git to them.
        hooks::refresh(ctx, agent)?;
        let mut warnings: Vec<String> =
            plan.bounds.obstacle().map(str::to_owned).into_iter().collect();
        warnings.extend(match agent.isolation {
            Some(Isolation::Worktree) => hooks::obstacles(ctx, agent.id, &directory)?,
            _ => Vec::new(),
        });
        let number = liveness::next_number(common, agent);
        let command = &plan.inputs.command;
        let text = plan.inputs.prompt();
        // What holds for one run is not what another process that asks for the agent's prompt is to read.
        let ended = plan
            .inputs
            .is_for_one_run()
            .then(|| RunPrompt { common_dir: common.to_owned(), id: agent.id });
        let prompt = if ended.is_some() {
            briefing::write_run_prompt(common, agent.id, &text)?
        } else {
            briefing::end_run_prompt(common, agent.id)?;
            let note = layout::agent_type_note(common, agent.id);
            // What the prompt says of who the agent is need not stand in its task.
            match plan.inputs.agent_type() {
                Some(agent_type) => fsx::write_private(&note, agent_type.as_bytes())?,
                None => drop(fs::remove_file(&note).at_if_there("could not remove", &note)?),
            }
            briefing::write_prompt(common, agent.id, &text)?
        };
        let named = command_line::name_prompt(command);
        let filled = command_line::fill(command, |placeholder| match placeholder {
            Placeholder::Prompt => text.clone().into(),
            Placeholder::PromptFile => prompt.clone().into(),
            Placeholder::Model => model(plan).unwrap_or_default(),
            Placeholder::MaxIterations => max_iterations(plan),
            Placeholder::Worktree => directory.clone().into(),
            Placeholder::Id => agent.id.to_string().into(),
            Placeholder::Session => host_session::session_name(agent.id, number).into(),
        })?;
        let redactor = plan.inputs.redactor();
        let shown = command.iter().map(|word| Cow::from(redactor.hide(&word.to_string_lossy())));
        let spool = layout::spool_dir(common, agent.id);
        fsx::create_dir(&spool)?;
        fsx::create_dir(&layout::runs_dir(common, agent.id))?;
        if plan.inputs.may_spawn() {
            // Before the fence, which shows the command what is there. What was answered in an earlier run is of no use.
            let answers = layout::answers_dir(common, agent.id);
            if answers.exists() {
                fsx::remove_by_trash(common, &answers)?;
            }
            fsx::create_dir(&answers)?;
        }
        let scratch = Scratch::make(ctx, &format!("run-{}", agent.id.short()))?;
        let mut stage = Stage {
            number,
            description: describe_command(shown),
            variables: [
                // Ours come last and win.
                commands::leased(ctx, agent.id)?,
                variables(ctx, agent, plan, &[&directory, &spool, scratch.path()]),
            ]
            .concat(),
            input: (!named).then_some(prompt),
            stdout: liveness::log(common, agent, number, "out"),
            stderr: liveness::log(common, agent, number, "err"),
            command: filled,
            directory,
            builds: None,
            scratch,
            without: AGENT_VARIABLES.to_vec(),
            warnings,
            enclosure: Enclosure::default(),
            _ended: ended,
        };
        stage.share_builds(ctx, plan)?;
        if let Some(host) = plan.inputs.host {
            lay_out(ctx, agent, plan, host, &mut stage, &spool)?;
        }
        Enclosure::put_up(ctx, agent, plan, &mut stage, &spool)?;
        Ok(stage)
    }

    /// Leads programs that compile to the jobs that all runs share.
    fn share_builds(&mut self, ctx: &Ctx, plan: &RunPlan) -> Result<()> {
        // A person at a terminal does not wait for others here either.
        let count = plan.limits.get(Limit::Builds).filter(|_| !plan.options.terminal);
        let Some(count) = count.filter(|_| HAS_NAMED_PIPES) else {
            return Ok(());
        };
        let slots = BuildSlots { directory: layout::builds_dir(ctx.repo.common_dir()), count };
        let flags = slots.flags(self.scratch.path());
        let make = ctx.trusted_program("make")?;
        let [of_cargo, of_make] = JOBSERVER_VARIABLES;
        self.variables.push((of_cargo.into(), flags.clone()));
        // An older make takes the flags of a jobserver with a name for damage, and ends.
        if make.is_none_or(|make| knows_named_pipes(&make)) {
            self.variables.push((of_make.into(), flags));
        } else {
            let what = "the make of this machine takes no part in `builds`, as it is not GNU make 4.4 or later";
            self.warnings.push(what.to_owned());
        }
        self.builds = Some(slots);
        Ok(())
    }

    /// Puts a directory of programs in front of all others that the command finds.
    pub(super) fn search_first(&mut self, ctx: &Ctx, programs: &Path) {
        const SEARCH: &str = "PATH";
        // The last one that was set counts, as for the command itself.
        let stated = self.variables.iter().rfind(|(name, _)| name == SEARCH);
        let path = match stated {
            Some((_, stated)) => Env::in_front(programs, stated),
            // Without any, the system has its own, and one directory would take the place of all.
            None if ctx.env.search.is_empty() => None,
            None => ctx.env.search_with(programs),
        };
        self.variables.extend(path.map(|path| (SEARCH.into(), path)));
    }
}

fn variables(
    ctx: &Ctx,
    agent: &Agent,
    plan: &RunPlan,
    [directory, spool, scratch]: &[&Path; 3],
) -> Vec<(Cow<'static, str>, OsString)> {
    let path = |path: &Path| path.as_os_str().to_owned();
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("GIT_AGENT_ID", agent.id.to_string().into()),
        ("GIT_AGENT_DEPTH", (ctx.env.depth + 1).to_string().into()),
        ("GIT_AGENT_WORKTREE", path(directory)),
        ("GIT_AGENT_SPOOL", path(spool)),
        ("TMPDIR", path(scratch)),
        // Some programs believe it before they ask the system where they are.
        ("PWD", path(directory)),
    ];
    if !plan.options.terminal {
        // There is no user to answer a question or to close an editor.
        variables.push(("GIT_TERMINAL_PROMPT", "0".into()));
        variables.push(("GIT_EDITOR", "true".into()));
    }
    variables.extend(model(plan).map(|model| ("GIT_AGENT_MODEL", model)));
    variables.push(("GIT_AGENT_MAX_ITERATIONS", max_iterations(plan)));
    let cost = plan.inputs.task().max_cost;
    variables.extend(cost.map(|usd| ("GIT_AGENT_MAX_COST", usd.to_string().into())));
    let output = plan.inputs.output.as_ref();
    variables.extend(output.map(|output| (OUTPUT_FILE, output.path_for_agent().into())));
    let named = variables.into_iter();
    named.map(|(name, value)| (name.into(), value)).collect()
}

fn model(plan: &RunPlan) -> Option<OsString> {
    plan.inputs.task().model.as_ref().map(OsString::from)
}

fn max_iterations(plan: &RunPlan) -> OsString {
    let count = plan.inputs.task().max_iterations;
    count.unwrap_or(DEFAULT_ITERATIONS).to_string().into()
}

// What a host finds when it starts: its home for this run, our hooks, and this program on its path.

/// The name under which prompts and hooks call this program.
const PROGRAM: &str = "git-agent";

/// Lays out what the host needs, and changes the stage's command and variables accordingly. All of it lies
/// in the run's private directory, apart from our hooks, which the agent must not be able to change.
///
/// # Errors
/// `io`.
fn lay_out(
    ctx: &Ctx,
    agent: &Agent,
    plan: &RunPlan,
    host: &dyn Host,
    stage: &mut Stage,
    spool: &Path,
) -> Result<()> {
    let program = ctx.env.require_program()?;
    let hooks = liveness::log(ctx.repo.common_dir(), agent, stage.number, "hooks");
    let scratch = stage.scratch.path();
    let fenced = matches!(plan.enforcement, Enforcement::Fenced(_));
    let records = layout::records_dir(ctx.repo.common_dir(), agent.id);
    let run_repo = layout::run_repo(ctx.repo.common_dir(), agent.id);
    let answer = plan.inputs.output.as_ref().map(Output::path_for_agent);
    let is_private = plan.inputs.task().briefing.is_some();
    let made = host.prepare(&Ground {
        scratch,
        records: (fenced && !is_private).then_some(&records),
        hooks: &hooks,
        spool,
        answer: answer.as_deref(),
        // A path that is no text cannot stand in a settings file.
        program: program.to_str().unwrap_or(PROGRAM),
        fenced,
        edits: plan.inputs.edits(),
        home: ctx.env.home.as_deref(),
        variables: &ctx.env.host_variables,
    });
    for directory in &made.directories {
        make(directory)?;
    }
    for (link, target) in &made.links {
        // A link to nothing would let the host write a new file into the user's home.
        if target.exists() {
            symlink(target, link).at("could not make", link)?;
        }
    }
    for (link, record) in &made.records {
        fsx::create_dir(record)?;
        symlink(record, link).at("could not make", link)?;
    }
    for (from, to) in &made.copies {
        let Some(content) = fsx::load_if_there(from)? else {
            continue;
        };
        let main = match &made.projects {
            Some(file) if file == to => ctx.repo.main_worktree()?,
            _ => None,
        };
        // A host may list a linked worktree under the repository that it belongs to, which is the agent's own behind the fence.
        let own = [stage.directory.as_path(), run_repo.as_path()];
        let of_agent = main.and_then(|main| with_project(&content, &main, &own));
        fsx::write_private(to, of_agent.map_or(content, String::into_bytes).as_slice())?;
    }
    for (path, text) in &made.files {
        fsx::write_private(path, text.as_bytes())?;
    }
    // A shell of the host finds this program even where the user's own would not.
    let programs = scratch.join("bin");
    make(&programs)?;
    let link = programs.join(PROGRAM);
    symlink(program, &link).at("could not make", &link)?;
    let path = ctx.env.search_with(&programs);
    stage.variables.extend(path.map(|path| ("PATH".into(), path)));
    let named = made.variables.into_iter().map(|(name, value)| (name.into(), value));
    stage.variables.extend(named);
    // Behind the program and before its own arguments, where hosts expect options.
    stage.command.splice(1..1, made.options);
    Ok(())
}

fn make(directory: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(directory);
    made.at("could not make", directory)
}
