//! `git agent spawn`

use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::input::args::{
    LayeredArg, SyncArg, TaskState, acquire_claim, at_least_one, require_one_input,
};
use crate::cli::input::several::{self, SeveralAnswer};
use crate::cli::input::typed_task::{StartArgs, TypedTaskArgs, is_task_text};
use crate::cli::out::render::counted;
use crate::cli::out::render::table::labelled;
use crate::cli::out::terminal::{BOLD, DIM, HINT, WARN, is_terminal, paint, width};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui};
use crate::domain::TaskDraft;
use crate::error::{Code, Error, Exit, Result};
use crate::hosts::{self, Host};
use crate::ops::spawn::{self, SpawnOptions, SpawnPlan, SpawnReport, Start};
use crate::ops::sync::claim::ClaimReport;
use crate::ops::verify::{self, Recording, VerifyOptions};
use crate::wire::file::task_file;
use crate::wire::put;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Make an agent for each task: a worktree, a branch, a prompt and a row in the ledger
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SpawnArgs {
    /// Texts of tasks, in quotes; or task files, `-` for standard input
    #[arg(required_unless_present_any = ["message", "pr", "issue"], value_name = "TASK")]
    tasks: Vec<PathBuf>,
    /// Start from this revision instead of HEAD or the task's own
    #[arg(long, conflicts_with = "start", value_name = "REV")]
    base: Option<String>,
    #[command(flatten)]
    start: StartArgs,
    /// Alias to show beside the id
    #[arg(long)]
    name: Option<String>,
    /// Agent that asked for this one
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Name of the branch instead of agent/<slug>-<time>-<id8>
    #[arg(long)]
    branch: Option<String>,
    /// Place of the worktree instead of the configured one
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Give the agent a worktree of this repository, or a clone of it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = IsolationArg::Worktree)]
    isolation: IsolationArg,
    /// Check out only the directories of the scope, or these projects and those they depend on, and the files at the
    /// top
    #[arg(long, value_name = "PROJECT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    sparse: Vec<String>,
    #[command(flatten)]
    layered: LayeredArg,
    /// How many agents to make at the same time
    #[arg(long, short = 'j', default_value_t = 4, value_name = "N", value_parser = at_least_one)]
    jobs: usize,
    /// Omit the default denylist; refused for roles that edit
    #[arg(long)]
    no_default_deny: bool,
    /// Do not run the post-checkout hook, nor after_spawn of the repository's [hooks]
    #[arg(long)]
    no_hooks: bool,
    /// Fail if the scope of a live agent overlaps this one's
    #[arg(long)]
    exclusive: bool,
    /// Spawn an agent of the next role, which `[pipeline] handoff` of the role names, for an agent whose work was
    /// accepted; TASK names that agent. If TASK is a task, it is spawned as usual, and a line says how to go on
    #[arg(long, conflicts_with_all = ["claim", "parent"])]
    pipeline: bool,
    /// Print the report block that scripts of older tools read, also on a terminal and for a typed task
    #[arg(long)]
    report: bool,
    /// Show what would be made and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Show the task and what would be made, and ask for confirmation; needs a terminal
    #[arg(long, short = 'i', conflicts_with_all = ["dry_run", "claim"])]
    interactive: bool,
    /// Make the agent only if no other clone works on the task or has done it; KEY names the task on the remote of
    /// --sync
    #[arg(long, value_name = "KEY", requires = "sync", conflicts_with_all = ["jobs", "dry_run"])]
    claim: Option<String>,
    #[command(flatten)]
    sync: SyncArg,
    // Last, because its heading of the help counts for all that follow.
    #[command(flatten)]
    typed: TypedTaskArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum IsolationArg {
    /// A worktree of this repository
    Worktree,
    /// A complete repository, for a container or another user; its commits are fetched back
    Clone,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs) -> Result<Exit> {
    args.sync.require_remote(ctx)?;
    match args.claim.clone() {
        Some(key) => spawn_claimed(ctx, ui, args, &key),
        None => spawn(ctx, ui, args),
    }
}

// Under a claim: an agent for a task that one clone works on and no other.

/// The format of the answer where no agent is made.
const CLAIM_SCHEMA: &str = "git-agent.spawn-claim/1";

/// Makes the agent of a task under a claim. Where this clone has made it before, or the task is done, that is the answer.
fn spawn_claimed(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs, key: &str) -> Result<Exit> {
    let (form, sync) = (args.form(ctx), args.sync.clone());
    let taken = acquire_claim(ctx, "spawn", args.tasks.len(), args.sync.remote(), key, None)?;
    let (mut claim, earlier) = match taken {
        TaskState::Held(claim, earlier) => (*claim, *earlier),
        TaskState::Done(report) => {
            ui.answer(&ClaimReport { schema: CLAIM_SCHEMA, ..report })?;
            sync.after(ctx, ui);
            return Ok(Exit::Yes);
        }
    };
    // The same command again finds the agent that it made.
    if let Some(agent) = earlier {
        claim.keep(ctx)?;
        ui.answer(&ClaimReport {
            schema: CLAIM_SCHEMA,
            state: "held",
            ..claim.report(Some(agent.id))
        })?;
        sync.after(ctx, ui);
        return Ok(Exit::Yes);
    }
    // The claim names the agent before there is one, and outlasts this process.
    let begun = plan(ctx, args).and_then(|plans| {
        for one in &plans {
            claim.note_agent(ctx, one.id)?;
        }
        claim.keep(ctx)?;
        make(ctx, ui, plans, form, &sync)
    });
    // No other clone is to wait for an agent that was never made.
    if !matches!(begun, Ok(Exit::Yes)) {
        claim.release(ctx)?;
    }
    begun
}

/// How a new agent is told of in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum SpawnForm {
    /// Two lines: what was made, and what to do next.
    Short,
    /// The report block of the older kit, whose scripts look for it.
    Block,
}

impl SpawnArgs {
    /// Scripts spawn from task files and read the answer from a pipe.
    fn form(&self, ctx: &Ctx) -> SpawnForm {
        let is_file = |task: &PathBuf| !task.to_str().is_some_and(|text| is_task_text(ctx, text));
        let is_script = !is_terminal() && self.tasks.iter().any(is_file);
        if self.report || is_script { SpawnForm::Block } else { SpawnForm::Short }
    }
}

fn spawn(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs) -> Result<Exit> {
    let (jobs, dry_run, tasks) = (args.jobs, args.dry_run, args.tasks.clone());
    let is_asked = args.interactive;
    if is_asked && !ui.may_ask() {
        return Err(Error::new(Code::Usage, "--interactive requires a terminal")
            .hint("to see what would be made without one, run git agent spawn --dry-run <task>"));
    }
    let (form, sync) = (args.form(ctx), args.sync.clone());
    let mut plans = plan(ctx, args)?;
    if dry_run {
        spawn::preview(ctx, &mut plans)?;
        let exit = preview(ui, plans, &tasks)?;
        sync.after(ctx, ui);
        return Ok(exit);
    }
    if is_asked {
        for plan in &mut plans {
            let before = plan.warnings.len();
            spawn::preview(ctx, std::slice::from_mut(plan))?;
            ui.print(&format!("{}\n{}", plan.given.source.trim_end(), plan.text()))?;
            // The spawn looks again, and tells what it finds then.
            plan.warnings.truncate(before);
        }
        if !ui.ask("Spawn this?")? {
            ui.say("nothing was made\n");
            return Ok(Exit::No);
        }
    }
    if tasks.len() > 1 {
        make_several(ctx, ui, plans, (jobs, form, sync), &tasks)
    } else {
        make(ctx, ui, plans, form, &sync)
    }
}

/// Plans an agent for each task.
fn plan(ctx: &Ctx, args: SpawnArgs) -> Result<Vec<SpawnPlan>> {
    let (begun, texts) = args.start.read(ctx)?;
    let options = SpawnOptions {
        base: args.base.or(begun.base),
        name: args.name,
        parent: args.parent,
        branch: args.branch,
        path: args.path,
        no_default_deny: args.no_default_deny,
        no_hooks: args.no_hooks,
        exclusive: args.exclusive,
        clone: args.isolation == IsolationArg::Clone,
        sparse: !args.sparse.is_empty(),
        sparse_projects: { args.sparse.into_iter() }.filter(|name| !name.is_empty()).collect(),
        layered: args.layered.layered,
        ..begun
    };
    let several = args.tasks.len() > 1;
    if several && (options.name.is_some() || options.branch.is_some() || options.path.is_some()) {
        let what = "--name, --branch and --path name one agent, but several tasks are given";
        return Err(
            Error::new(Code::Usage, what).hint("to name each agent, set `name` in its task file")
        );
    }
    require_one_input(args.tasks.iter().map(PathBuf::as_path))?;
    let mut plans = Vec::new();
    let tasks = args.tasks.iter().map(|task| task.to_string_lossy().into_owned());
    args.typed.require_no_message_beside(&tasks.collect::<Vec<_>>())?;
    let message = args.typed.message();
    if message.is_some() || args.tasks.is_empty() {
        let text = texts.task(message.as_deref());
        plans.push(spawn::plan(ctx, args.typed.draft(ctx, &text)?, &options)?);
    }
    for path in &args.tasks {
        let (draft, start) = match path.to_str() {
            Some(text) if is_task_text(ctx, text) => {
                (args.typed.draft(ctx, &texts.task(Some(text)))?, None)
            }
            Some(who) if args.pipeline && !is_task_file(ctx, path) => {
                args.typed.require_unused(who)?;
                successor(ctx, who, args.dry_run)?
            }
            _ => {
                args.start.require_no_issue()?;
                args.typed.require_unused(&path.to_string_lossy())?;
                (read_task(ctx, path, &args.tasks)?, None)
            }
        };
        // What the caller says goes before where an agent left off.
        let start = start.filter(|_| options.base.is_none()).or_else(|| options.start.clone());
        plans.push(spawn::plan(ctx, draft, &SpawnOptions { start, ..options.clone() })?);
    }
    for plan in plans.iter_mut().filter(|_| args.pipeline) {
        if let Some(next) = &plan.role.handoff {
            let id = plan.id.short();
            plan.warnings.push(format!(
                "the role {next} takes over from it: once its work is accepted, run git agent spawn --pipeline {id}"
            ));
        }
    }
    Ok(plans)
}

fn is_task_file(ctx: &Ctx, path: &Path) -> bool {
    let is_named_so = path.extension().is_some_and(|ending| ending == "toml");
    path.as_os_str() == "-" || is_named_so || ctx.absolute(path).is_file()
}

/// The task of the agent that takes over from an agent, whose work is judged first, and where it starts if others wrote that.
fn successor(ctx: &Ctx, who: &str, dry_run: bool) -> Result<(TaskDraft, Option<Start>)> {
    let recording = if dry_run { Recording::Never } else { Recording::Requested };
    let options =
        VerifyOptions { agent: Some(who.to_owned()), recording, ..VerifyOptions::default() };
    let verdict = verify::verify(ctx, &options)?;
    let id = verdict.agent.short();
    let refused = |why: &str| {
        let what = format!("no agent takes over from agent {id}: {why}");
        let hint = format!("to see how it stands, run git agent verify {id}");
        Error::new(Code::AgentState, what).hint(hint)
    };
    if !verdict.is_accepted() {
        return Err(refused("its work is not accepted"));
    }
    if spawn::has_not_begun(ctx, &verdict)? {
        return Err(refused("it has done nothing yet"));
    }
    let draft = spawn::handed_on(ctx, &verdict.agent.to_string())?;
    draft.ok_or_else(|| refused("its role hands on to none, or its audit did not pass the work"))
}

fn preview(ui: &mut Ui, plans: Vec<SpawnPlan>, tasks: &[PathBuf]) -> Result<Exit> {
    if let [plan] = plans.as_slice() {
        return ui.done(plan);
    }
    let mut batch = SeveralAnswer::default();
    for (task, plan) in tasks.iter().zip(plans) {
        batch.push(&task.to_string_lossy(), Ok(plan));
    }
    ui.done(&batch)
}

/// Makes the agent of the only plan, and sends its row where `sync` says. What the remote did not take is part of the answer.
pub(in crate::cli) fn make(
    ctx: &Ctx,
    ui: &mut Ui,
    plans: Vec<SpawnPlan>,
    form: SpawnForm,
    sync: &SyncArg,
) -> Result<Exit> {
    half_made::sweep(ctx)?;
    let mut exit = Exit::Yes;
    spawn::execute_all(ctx, plans, 1, &mut |_, result| match result {
        Ok(mut report) => {
            report.warnings.extend(sync.warnings(ctx, ui));
            warn(ui, &report);
            let host = proposed_host(ctx);
            ui.answer(&SpawnAnswer { report, form, host })
        }
        Err(error) => {
            exit = ui.fail(&error);
            Ok(())
        }
    })?;
    Ok(exit)
}

/// Makes the agents of several plans. One that cannot be made does not stop the others. People and readers of lines are
/// told of each as it is made; the one document of JSON has them in the order of the task files.
fn make_several(
    ctx: &Ctx,
    ui: &mut Ui,
    plans: Vec<SpawnPlan>,
    (jobs, form, sync): (usize, SpawnForm, SyncArg),
    tasks: &[PathBuf],
) -> Result<Exit> {
    half_made::sweep(ctx)?;
    let mut exit = Exit::Yes;
    let mut made = Vec::new();
    spawn::execute_all(ctx, plans, jobs, &mut |index, result| {
        let task = tasks.get(index).map(|task| task.to_string_lossy());
        let task = task.ok_or_else(|| Error::bug("the agent of no task file"))?;
        if let Err(error) = &result {
            exit = error.code().exit();
        }
        let host = proposed_host(ctx);
        let result = result.map(|report| SpawnAnswer { report, form, host });
        match (ui.format(), result) {
            (Format::Text, Ok(answer)) => {
                warn(ui, &answer.report);
                ui.answer(&answer)
            }
            (Format::Text, Err(error)) => {
                let _ = ui.fail(&error);
                Ok(())
            }
            (Format::Ndjson, result) => ui.row(&several::item(&task, &result)),
            (_, result) => {
                made.push((index, task.into_owned(), result));
                Ok(())
            }
        }
    })?;
    if ui.format() == Format::Json {
        made.sort_unstable_by_key(|(index, ..)| *index);
        let mut reports = made.iter_mut().rev();
        // One exchange is for all of them; the last one tells of it.
        let last =
            reports.find_map(|(.., result): &mut (_, _, Result<SpawnAnswer>)| result.as_mut().ok());
        if let Some(last) = last {
            last.report.warnings.extend(sync.warnings(ctx, ui));
        }
        let mut batch = SeveralAnswer::default();
        for (_, task, result) in made {
            batch.push(&task, result);
        }
        ui.answer(&batch)?;
    } else {
        sync.after(ctx, ui);
    }
    Ok(exit)
}

fn warn(ui: &mut Ui, report: &SpawnReport) {
    report.warnings.iter().for_each(|text| ui.warn(text));
}

pub(in crate::cli) fn read_task(ctx: &Ctx, path: &Path, words: &[PathBuf]) -> Result<TaskDraft> {
    if path.to_string_lossy().trim().is_empty() {
        return Err(Error::new(Code::Usage, "the text of the task is empty")
            .hint("to type a task, run git agent spawn \"fix the typo\""));
    }
    // One byte beyond the limit tells that there is more, also on a device that never ends.
    let (limit, mut bytes) = (task_file::MAX_BYTES as u64 + 1, Vec::new());
    let (name, read) = if path.as_os_str() == "-" {
        let stdin = std::io::stdin().lock();
        ("<stdin>".into(), stdin.take(limit).read_to_end(&mut bytes))
    } else {
        let file = std::fs::File::open(ctx.absolute(path));
        let read = file.and_then(|file| file.take(limit).read_to_end(&mut bytes));
        (path.to_string_lossy(), read)
    };
    read.map_err(|error| task_file::unreadable(path, words, &error))?;
    Ok(task_file::parse(&name, &bytes))
}

/// A new agent, as it is told of.
struct SpawnAnswer {
    report: SpawnReport,
    form: SpawnForm,
    /// The host that is proposed.
    host: &'static str,
}

/// The first host that is installed here, else the first that can be started.
pub(in crate::cli) fn proposed_host(ctx: &Ctx) -> &'static str {
    let mut known = hosts::installed(&ctx.env.search).chain(hosts::startable());
    known.next().map_or("<host>", Host::name)
}

impl AsJson for SpawnAnswer {
    fn json(&self) -> Value {
        self.report.json()
    }
}

impl Answer for SpawnAnswer {
    fn text(&self) -> String {
        match self.form {
            SpawnForm::Short => short(&self.report, self.host),
            SpawnForm::Block => block(&self.report),
        }
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.report.agent_id))
    }
}

/// What was made, and what to do next.
fn short(report: &SpawnReport, host: &str) -> String {
    let id = &report.short_id;
    let handle = &report.handle;
    let named = match &report.name {
        Some(name) => format!("{} ({id})", paint(BOLD, name)),
        None => paint(BOLD, id),
    };
    let place = match (&report.worktree_path, &report.branch) {
        (Some(path), Some(_)) => format!("is ready in {path}"),
        _ => "is ready; it reads this directory and has no worktree".to_owned(),
    };
    let work = match &report.adopted {
        Some(adopted) => {
            let base = base(report.base.refname.as_deref(), &report.base.oid);
            let commits = counted(adopted.commits, "commit", &format!(" since {base} and "));
            format!("; its work is {commits}what is not committed")
        }
        None => String::new(),
    };
    let own = match report.worktree_path {
        Some(_) => format!(", or git agent enter {handle}"),
        None => String::new(),
    };
    let kept_out = match &report.kept_out {
        Some(file) => format!(
            "it may not change control files, such as {file}, unless a --scope names them\n"
        ),
        None => String::new(),
    };
    format!(
        "agent {named} {place}{work}\n{kept_out}{} git agent run {handle} --host {host}{own}\n",
        paint(HINT, "next:")
    )
}

/// The report block that wizards look for, and the two commands that come next.
fn block(report: &SpawnReport) -> String {
    let absent = || "n/a".to_owned();
    let kind = format!("{} ({}, {})", report.role, report.subagent_type, report.isolation);
    let mut lines = vec![("Agent ID", report.agent_id.clone())];
    lines.extend(report.name.clone().map(|name| ("Name", name)));
    lines.extend([
        ("DNA", report.dna.clone()),
        ("Role", kind),
        ("Branch", report.branch.clone().unwrap_or_else(absent)),
        ("Worktree", report.worktree_path.clone().unwrap_or_else(absent)),
    ]);
    lines.extend(report.sparse.as_ref().map(|cone| ("Sparse", sparse(cone))));
    lines.extend([
        ("Base", base(report.base.refname.as_deref(), &report.base.oid)),
        ("Prompt", report.prompt_path.clone()),
        ("Verify", report.verify_command.clone()),
    ]);
    let short = &report.agent_id[..8];
    let host = hosts::startable().next().map_or("<host>", Host::name);
    let mut text = report_block(&lines);
    for (what, command) in [
        ("to start a host on it:", format!("git agent run {short} --host {host}")),
        ("to look at it:", format!("git agent show {short}")),
    ] {
        text.push_str(&format!("{} {command}\n", paint(HINT, what)));
    }
    text
}

impl AsJson for SpawnPlan {
    fn json(&self) -> Value {
        let mut value = json!({
            "schema": "git-agent.spawn-plan/1",
            "agent_id": self.id.to_string(),
            "short_id": self.id.short(),
            "dna": self.commit.dna.to_string(),
            "role": self.role.name,
            "subagent_type": self.role.subagent_type,
            "isolation": self.role.isolation.as_str(),
            "base": { "oid": self.base.oid.to_hex() },
            "description": self.called.description,
            "warnings": self.warnings,
        });
        let optional = [
            ("branch", self.short_branch()),
            (
                "worktree_abspath",
                self.place.worktree.as_ref().map(|path| path.display().to_string()),
            ),
            ("name", self.called.name.as_ref().map(ToString::to_string)),
        ];
        if let Some(cone) = &self.place.cone {
            put(&mut value, "sparse", json!(cone));
        }
        for (key, field) in optional {
            if let Some(field) = field {
                put(&mut value, key, field);
            }
        }
        if let (Some(refname), Some(base)) = (&self.base.refname, value.get_mut("base")) {
            put(base, "ref", json!(refname));
        }
        value
    }
}

impl Answer for SpawnPlan {
    fn text(&self) -> String {
        let absent = || "n/a".to_owned();
        let role = &self.role;
        let kind = format!("{} ({}, {})", role.name, role.subagent_type, role.isolation.as_str());
        let would_be = format!("{} {}", self.id, paint(DIM, "(would be)"));
        let mut lines = vec![("Agent ID", would_be)];
        let name = self.called.name.as_ref();
        lines.extend(name.map(|name| ("Name", name.to_string())));
        lines.extend([
            ("DNA", self.commit.dna.to_string()),
            ("Role", kind),
            ("Branch", self.short_branch().unwrap_or_else(absent)),
            ("Worktree", self.place.shown.clone().unwrap_or_else(absent)),
        ]);
        lines.extend(self.place.cone.as_ref().map(|cone| ("Sparse", sparse(cone))));
        lines.extend([("Base", base(self.base.refname.as_deref(), &self.base.oid.to_hex()))]);
        let mut text = report_block(&lines);
        for warning in &self.warnings {
            let warning = labelled(WARN, "warning:", warning, 2, width());
            text.push_str(&format!("{warning}\n"));
        }
        text
    }
}

/// Where an agent starts from.
fn base(refname: Option<&str>, oid: &str) -> String {
    match refname {
        Some(name) => format!("{name} {}", &oid[..7]),
        None => oid[..7].to_owned(),
    }
}

/// What a sparse worktree holds.
pub(in crate::cli) fn sparse(cone: &BTreeSet<String>) -> String {
    let directories = cone.iter().map(String::as_str);
    let parts = directories.chain(["and the files beside them and at the top"]);
    parts.collect::<Vec<_>>().join(" ")
}

/// The report block that wizards look for: one `Key: value` per line between two fixed lines.
fn report_block(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 1;
    let mut text = "=== SPAWN-AGENT REPORT ===\n".to_owned();
    for (key, value) in lines {
        let key = format!("{:width$}", format!("{key}:"));
        text.push_str(&format!("{} {value}\n", paint(BOLD, &key)));
    }
    text.push_str("=== /SPAWN-AGENT REPORT ===\n");
    text
}
