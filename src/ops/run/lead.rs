//! An agent that leads others: what it asks for from inside its fence is done here, outside of it.
//!
//! ```text
//! git-agent spawn … in the fence ─> request in the spool ─> [Lead::take] checked ─> spawn | a command of ours ─> answers/<nonce>.json
//! ```
//!
//! A request is untrusted data of a closed form ([`crate::wire::row::request`]). It reaches only agents that this agent has spawned and that
//! may do no more than it may ([`require_within`]): they start from its branch and land on it, run behind a fence as strict as its own,
//! for no longer and for no more money than it has left. Settings, roles and set-up are those that bind the agent itself, as if others
//! had written the base. When its run ends, so does all that it started.

use crate::agents::context::ctx::{Ctx, Seed};
use crate::agents::context::run_repo::RunRepo;
use crate::agents::{life::liveness, who::lookup};
use crate::domain::boundary::scope::{Intersection, ScopeLanguage};
use crate::domain::life::agent::Agent;
use crate::domain::life::event::Base;
use crate::domain::life::id::AgentId;
use crate::domain::life::sandbox::{Enforcement, Layering, Mode};
use crate::domain::paths::glob::Glob;
use crate::domain::value::oid::Oid;
use crate::domain::work::task::parse_duration;
use crate::error::{Code, Error, Result};
use crate::hosts;
use crate::ops::error_report::ErrorReport;
use crate::ops::run::RunPlan;
use crate::ops::spawn::{self, SpawnOptions, Start};
use crate::proc::launch::{Ender, run_to_end};
use crate::store::files::{fsx, layout};
use crate::store::landing::spawn_commit;
use crate::wire::file::task_file::{self, TaskWords};
use crate::wire::row::policy::Policy;
use crate::wire::row::request::{
    LeadAnswer, LeadRequest, LeadRun, LeadSpawn, RefusedRequest, SpooledRequest,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So many agents of a lead may be unfinished at a time.
const MOST_AGENTS: usize = 32;

/// So many requests are carried out at a time.
const MOST_REQUESTS: usize = 32;

/// How much of what a command says is given back, in bytes of each stream.
const MOST_SAID: u64 = 4 << 20;

/// How long a commit of the agent takes at most until it is on its branch here.
const PUBLISHED: Duration = Duration::from_secs(10);

/// How often that, and the begin of a run in the background, is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What serves the requests of one run.
pub(super) struct Lead {
    seed: Seed,
    agent: Agent,
    policy: Policy,
    /// The commit whose settings and roles bind.
    settings: Oid,
    branch: String,
    run_repo: Option<RunRepo>,
    sandbox: Mode,
    program: PathBuf,
    depth: u32,
    /// When its own time is up.
    until: Option<Instant>,
    /// What may still be given away of what its own session may cost, in US dollars.
    budget: Option<Mutex<f64>>,
    work: Mutex<LeadWork>,
}

/// What goes on.
#[derive(Default)]
struct LeadWork {
    threads: Vec<JoinHandle<()>>,
    commands: Vec<Ender>,
    /// The agents that it has started.
    started: BTreeSet<AgentId>,
    is_over: bool,
}

impl Lead {
    /// Makes ready what serves an agent whose policy lets it spawn; `None` for every other.
    ///
    /// # Errors
    /// Those of reading its policy, and `io`.
    pub(super) fn of(
        ctx: &Ctx,
        agent: &Agent,
        plan: &RunPlan,
        run_repo: Option<&RunRepo>,
    ) -> Result<Option<Arc<Lead>>> {
        let Some(policy) = spawn_commit::of_agent(&ctx.repo, agent)? else {
            return Ok(None);
        };
        let settings = spawn_commit::settings_commit(&ctx.repo, agent)?;
        let (true, Some(branch), Some(settings)) = (policy.may_spawn, &agent.branch, settings)
        else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Lead {
            seed: ctx.seed(),
            agent: agent.clone(),
            policy,
            settings,
            branch: branch.clone(),
            run_repo: run_repo.cloned(),
            sandbox: match (&plan.enforcement, plan.options.sandbox) {
                (_, Mode::Strict) => Mode::Strict,
                (Enforcement::Fenced(_), _) => Mode::Require,
                _ => Mode::Auto,
            },
            program: ctx.env.require_program()?.to_owned(),
            depth: ctx.env.depth + 1,
            until: plan.limit.map(|limit| Instant::now() + limit),
            budget: plan.inputs.task().max_cost.map(Mutex::new),
            work: Mutex::default(),
        })))
    }

    /// Carries a request out in a thread of its own; `name` is that of its answer.
    pub(super) fn take(self: &Arc<Lead>, asked: SpooledRequest, name: String) {
        let mut work = locked(&self.work);
        work.threads.retain(|thread| !thread.is_finished());
        if work.is_over || work.threads.len() >= MOST_REQUESTS {
            let what = format!("{MOST_REQUESTS} requests are being carried out already");
            self.answer(&name, &refused(&Error::new(Code::LimitReached, what)));
            return;
        }
        let lead = Arc::clone(self);
        work.threads.push(std::thread::spawn(move || {
            let answered = lead.open().and_then(|ctx| lead.carry_out(&ctx, &asked));
            lead.answer(&name, &answered.unwrap_or_else(|error| refused(&error)));
        }));
    }

    /// Ends all that was started and waits until it is over.
    pub(super) fn finish(&self) {
        let threads = {
            let mut work = locked(&self.work);
            work.is_over = true;
            work.commands.iter().for_each(Ender::end);
            std::mem::take(&mut work.threads)
        };
        for thread in threads {
            // One that panicked has answered nothing, and its asker is gone.
            let _ = thread.join();
        }
        let answers = self.open().map(|ctx| {
            let common = ctx.repo.common_dir();
            fsx::remove_by_trash(common, &layout::answers_dir(common, self.agent.id))
        });
        // What cannot be removed now goes before the next run.
        drop(answers);
    }

    /// The repository, seen from the main worktree.
    fn open(&self) -> Result<Ctx> {
        let mut ctx = self.seed.open()?;
        ctx.env.directory = ctx.repo.root()?;
        Ok(ctx)
    }

    fn answer(&self, name: &str, answered: &LeadAnswer) {
        let Ok(ctx) = self.open() else { return };
        let file = layout::answers_dir(ctx.repo.common_dir(), self.agent.id);
        let bytes = serde_json::to_vec(answered).unwrap_or_default();
        // The asker ends with the run where it gets no answer.
        let _ = fsx::write_private(&file.join(format!("{name}.json")), &bytes);
    }

    fn carry_out(self: &Arc<Lead>, ctx: &Ctx, asked: &SpooledRequest) -> Result<LeadAnswer> {
        let format = if asked.json { "json" } else { "text" };
        let verb = |verb: &str| vec![verb.to_owned(), format!("--format={format}")];
        // A command and the agents that it is for, by their ids: none of them is a word of the asker.
        let words = |name: &str, agents: &[String]| -> Result<Vec<String>> {
            let mut words = verb(name);
            for who in agents {
                words.push(self.own(ctx, who)?.id.to_string());
            }
            Ok(words)
        };
        let one = std::slice::from_ref;
        match &asked.request {
            LeadRequest::Spawn(request) => self.spawn(ctx, request),
            LeadRequest::Run(request) => self.run(ctx, request, verb("run")),
            LeadRequest::Wait { agents, any, timeout } => {
                let mut words = words("wait", agents)?;
                words.extend(any.then(|| "--any".to_owned()));
                words.extend(some_time(timeout.as_deref())?);
                // Without a name the command would wait for this run as well.
                if agents.is_empty() {
                    let started = locked(&self.work).started.clone();
                    if started.is_empty() {
                        let what = "this run has started no agent yet";
                        return Err(Error::new(Code::Usage, what));
                    }
                    words.extend(started.iter().map(AgentId::to_string));
                }
                self.command(ctx, words)
            }
            LeadRequest::Stop { agents } => self.command(ctx, words("stop", agents)?),
            LeadRequest::Show { who } => self.command(ctx, words("show", one(who))?),
            LeadRequest::Diff { agent, name_only } => {
                let mut words = words("diff", one(agent))?;
                words.push(if *name_only { "--name-only" } else { "--patch" }.to_owned());
                self.command(ctx, words)
            }
            LeadRequest::Verify { agent } => self.command(ctx, words("verify", one(agent))?),
            LeadRequest::Merge { agent, message } => {
                let mut words = words("merge", one(agent))?;
                words.extend(message.iter().map(|text| format!("--message={text}")));
                self.land(ctx, words)
            }
            LeadRequest::Train { agents } => self.land(ctx, words("train", agents)?),
        }
    }

    /// An agent that this one has spawned. The parent in a row is what anyone says who spawns, so what binds the agent is compared.
    fn own(&self, ctx: &Ctx, who: &str) -> Result<Agent> {
        let agent = ctx.ledger().find(who)?;
        let agent = liveness::as_it_stands(ctx, agent);
        let is_own = agent.parent == Some(self.agent.id)
            && lookup::is_local(ctx, &agent)
            && agent.base.as_ref().and_then(|base| base.refname.as_ref()) == Some(&self.branch);
        let policy = spawn_commit::require_policy(&ctx.repo, &agent)?;
        if !is_own || policy.settings() != Some(self.settings) {
            let what = format!(
                "agent {} is none that agent {} has spawned from its branch",
                agent.id.short(),
                self.agent.id.short()
            );
            return Err(Error::new(Code::OrchestratorOnly, what));
        }
        require_within(&policy, &self.policy)?;
        Ok(agent)
    }

    fn spawn(&self, ctx: &Ctx, request: &LeadSpawn) -> Result<LeadAnswer> {
        let unfinished = ctx.ledger().agents()?.into_iter();
        let unfinished =
            unfinished.filter(|one| one.parent == Some(self.agent.id) && one.state.is_live());
        if unfinished.count() >= MOST_AGENTS {
            let what =
                format!("{MOST_AGENTS} agents of agent {} have not landed", self.agent.id.short());
            return Err(Error::new(Code::LimitReached, what));
        }
        let LeadSpawn { scope, new, deny, .. } = request;
        let whole = scope.is_empty() && new.is_empty();
        let of_own = || self.policy.whitelist.clone();
        let draft = task_file::of_words(&TaskWords {
            text: request.message.join("\n\n"),
            role: request.role.clone(),
            scope: if whole { of_own() } else { [scope.as_slice(), new].concat() },
            // What the agent itself may touch need not be there.
            new: if whole { of_own() } else { new.clone() },
            deny: [deny.as_slice(), &self.policy.wholly_denied()].concat(),
            checks: self.policy.checks.clone(),
            ..TaskWords::default()
        });
        // The agent writes what is on its branch, so nothing of it decides what runs out here.
        let start = Start {
            base: Base { refname: Some(self.branch.clone()), oid: self.published_tip(ctx)? },
            settings: self.settings,
            lands_on: None,
            warnings: Vec::new(),
        };
        let options = SpawnOptions {
            start: Some(start),
            name: request.name.clone(),
            parent: Some(self.agent.id.to_string()),
            no_hooks: true,
            layered: Some(Layering::Off),
            ..SpawnOptions::default()
        };
        let plan = spawn::plan(ctx, draft, &options)?;
        require_within(&plan.commit.terms, &self.policy)?;
        let report = spawn::execute(ctx, plan)?;
        Ok(LeadAnswer { out: format!("{}\n", json!(report)), ..LeadAnswer::default() })
    }

    /// The words of a run, and what was taken from the budget for it.
    fn words_of_run(
        &self,
        request: &LeadRun,
        agent: &Agent,
        mut words: Vec<String>,
    ) -> Result<(Vec<String>, Option<f64>)> {
        let usage = |what: String| Error::new(Code::Usage, what);
        if let [_, another, ..] = request.host.as_slice() {
            return Err(usage(format!("an agent has one host, and {another} is another")));
        }
        let named = request.host.first().map(|name| {
            let known = hosts::startable().find(|host| host.name() == name);
            known.ok_or_else(|| {
                usage(format!("`{}` is no host that an agent can start", name.escape_debug()))
            })
        });
        let named = named.transpose()?;
        if named.is_none() && !request.resume {
            return Err(usage("an agent runs agents by a host".to_owned())
                .hint("to start one, pass --host <host>"));
        }
        words.push(agent.id.to_string());
        words.push(format!("--sandbox={}", self.sandbox.as_str()));
        words.extend(named.map(|host| format!("--host={}", host.name())));
        if let Some(model) = &request.model {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
            if !model.chars().all(is_plain) || model.starts_with('-') {
                return Err(usage("that is no name of a model".to_owned()));
            }
            words.push(format!("--model={model}"));
        }
        words.extend(request.max_iterations.map(|count| format!("--max-iterations={count}")));
        words.extend(request.resume.then(|| "--resume".to_owned()));
        words.extend(request.message.iter().map(|text| format!("--message={text}")));
        let asked = request.timeout.as_deref().map(parse_duration).transpose().map_err(usage)?;
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(limit) = [asked, left].into_iter().flatten().min() {
            words.push(format!("--timeout={}s", limit.as_secs().max(1)));
        }
        let granted = self.grant(request.max_cost)?;
        words.extend(granted.or(request.max_cost).map(|usd| format!("--max-cost={usd}")));
        Ok((words, granted))
    }

    /// Takes from the budget what a run may cost; `None` where there is no budget.
    fn grant(&self, asked: Option<f64>) -> Result<Option<f64>> {
        let Some(budget) = &self.budget else {
            return Ok(None);
        };
        let mut left = locked(budget);
        let granted = asked.unwrap_or(*left).min(*left);
        if granted.is_nan() || granted < 0.01 {
            let what = format!(
                "nothing is left of what the run of agent {} may cost",
                self.agent.id.short()
            );
            return Err(Error::new(Code::LimitReached, what)
                .hint("to share it among several, pass --max-cost <usd> for each"));
        }
        *left -= granted;
        Ok(Some(granted))
    }

    /// Runs an agent to its end, or answers when it works. What it did not spend goes back.
    fn run(
        self: &Arc<Lead>,
        ctx: &Ctx,
        request: &LeadRun,
        words: Vec<String>,
    ) -> Result<LeadAnswer> {
        let [who] = &request.tasks;
        let agent = self.own(ctx, who)?;
        let (words, granted) = self.words_of_run(request, &agent, words)?;
        let before = agent.run.as_ref().map_or(0, |run| run.number());
        locked(&self.work).started.insert(agent.id);
        let (lead, id) = (Arc::clone(self), agent.id);
        let run = move || {
            let ctx = lead.open()?;
            let answered = lead.command(&ctx, words);
            let row = ctx.ledger().find(&id.to_string())?;
            let ended = row.run.filter(|run| run.number() > before).and_then(|run| run.end);
            // What a run cost that does not tell is what it might have.
            let cost = ended.map_or(Some(0.0), |(exited, _)| {
                exited.session.cost_micro_usd.map(|cost| cost as f64 / 1e6)
            });
            if let (Some(budget), Some(granted)) = (&lead.budget, granted) {
                *locked(budget) += granted - cost.unwrap_or(granted);
            }
            answered
        };
        if !request.background {
            return run();
        }
        let thread = std::thread::spawn(run);
        while !thread.is_finished() {
            let row = ctx.ledger().find(&agent.id.to_string())?;
            if let Some(run) = row.run.filter(|run| run.number() > before) {
                let short = agent.id.short();
                locked(&self.work).threads.push(std::thread::spawn(|| drop(thread.join())));
                return Ok(LeadAnswer {
                    err: format!("run {} of {short} began\n", run.number()),
                    ..LeadAnswer::default()
                });
            }
            std::thread::sleep(LOOK);
        }
        // It ended before it could be seen to work: mostly it was refused.
        thread.join().unwrap_or_else(|_| Err(Error::bug("a run was not carried out")))
    }

    /// Lands work on the branch of the agent, as one commit for each agent.
    fn land(&self, ctx: &Ctx, mut words: Vec<String>) -> Result<LeadAnswer> {
        // What the agent has committed comes first: else its branch here and its own would part.
        self.published_tip(ctx)?;
        words.push("--squash".to_owned());
        let answered = self.command(ctx, words)?;
        let tip = ctx.repo.tip(&self.branch)?.oid();
        Ok(LeadAnswer { tip: tip.map(|tip| tip.to_hex()), ..answered })
    }

    /// Where the branch of the agent is, once all that it has committed is on it.
    fn published_tip(&self, ctx: &Ctx) -> Result<Oid> {
        let end = Instant::now() + PUBLISHED;
        loop {
            let here = ctx.repo.tip(&self.branch)?.oid();
            let there = self.run_repo.as_ref().map_or(here, RunRepo::tip);
            match here {
                Some(tip) if here == there => return Ok(tip),
                // The postman publishes it.
                _ if Instant::now() < end => std::thread::sleep(LOOK),
                _ => {
                    let what = format!(
                        "the commits of agent {} are not on its branch",
                        self.agent.id.short()
                    );
                    return Err(Error::new(Code::LostRace, what)
                        .hint("to take over what landed meanwhile, run git merge <branch>"));
                }
            }
        }
    }

    /// Runs a command of ours in the main worktree.
    fn command(&self, ctx: &Ctx, words: Vec<String>) -> Result<LeadAnswer> {
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let variables = [
            ("GIT_AGENT_DEPTH", self.depth.to_string()),
            ("GIT_AGENT_LEAD", self.agent.id.short()),
        ];
        let begun = |ender: Ender| {
            let mut work = locked(&self.work);
            if work.is_over {
                ender.end();
            }
            work.commands.push(ender);
        };
        let said =
            run_to_end(&self.program, &words, &ctx.env.directory, &variables, MOST_SAID, begun)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(LeadAnswer {
            status: said.status,
            out: text(&said.out),
            err: text(&said.err),
            ..LeadAnswer::default()
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn some_time(text: Option<&str>) -> Result<Option<String>> {
    let time = text.map(parse_duration).transpose();
    let time = time.map_err(|what| Error::new(Code::Usage, what))?;
    Ok(time.map(|time| format!("--timeout={}s", time.as_secs())))
}

fn refused(error: &Error) -> LeadAnswer {
    let report = ErrorReport::from(error);
    LeadAnswer {
        status: error.code().exit().code(),
        refused: Some(RefusedRequest {
            code: error.code().name().to_owned(),
            message: error.to_string(),
            details: error.details().to_vec(),
            hints: report.hints,
        }),
        ..LeadAnswer::default()
    }
}

/// Refuses a policy that allows what another does not: files, edits, agents of its own.
///
/// # Errors
/// `out-of-scope`, naming a path where there is one.
fn require_within(inner: &Policy, outer: &Policy) -> Result<()> {
    let refuse = |what: String| {
        Error::new(
            Code::OutOfScope,
            format!("an agent may spawn none that may do more than it may: {what}"),
        )
    };
    if inner.may_spawn {
        return Err(refuse(format!("the role {} may spawn agents of its own", inner.role)));
    }
    if inner.edits && !outer.edits {
        return Err(refuse(format!("the role {} changes files", inner.role)));
    }
    let invalid = |rule| Error::new(Code::RepoCorrupt, rule);
    let [allowed, denied] = inner.globs().map_err(invalid)?;
    let inner_opened = inner.opened_globs().map_err(invalid)?;
    let inner = inner.language().map_err(invalid)?;
    let [outer_allowed, outer_denied] = outer.globs().map_err(invalid)?;
    let opened = outer.opened_globs().map_err(invalid)?;
    let everything = [Glob::parse("**").map_err(invalid)?];
    // What is in the scope and not in the whitelist of the other; then what is in the scope and in the other's denylist. What both say in
    // the same words is not compared: whole default scopes are more than a comparison can go through.
    let mut beyond = Vec::new();
    let allows_all = outer_allowed.contains(&everything[0]);
    if !allows_all && !allowed.iter().all(|glob| outer_allowed.contains(glob)) {
        beyond.push(ScopeLanguage::new(&everything, &outer_allowed));
    }
    for glob in &outer_denied {
        let opened = opened.get(glob);
        if denied.contains(glob) && inner_opened.get(glob) == opened {
            continue;
        }
        let opened = opened.map_or(&[][..], Vec::as_slice);
        beyond.push(ScopeLanguage::new(std::slice::from_ref(glob), opened));
    }
    for found in beyond.iter().map(|beyond| inner.intersection(beyond)) {
        let what = match found {
            Intersection::Empty => continue,
            Intersection::Witness(path) => format!("{path} is out of its scope"),
            Intersection::Unknown => "its scope cannot be compared with that one".to_owned(),
        };
        return Err(refuse(what).hint("to see what it may touch, run git agent show"));
    }
    Ok(())
}
