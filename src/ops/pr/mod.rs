//! `pr`: an agent's work is offered as a pull request.
//!
//! ```text
//! plan     Agent -> accepting verdict, nothing uncommitted -> remote, forge, branch to land on -> PrPlan
//! execute  push of the branch without its spawn commit -> `gh`: open the pull request or bring it up to date
//! ```
//!
//! The branch to land on is the one that the agent started from. Where that is the branch of another agent, the pull
//! request is stacked on that agent's. Without `gh`, and for other forges than GitHub, the answer has the page on which it is
//! opened.

mod offer;

use crate::agents::context::ctx::Ctx;
use crate::agents::context::histories::landed_there;
use crate::agents::forge::{self, ForgeClient};
use crate::agents::place::projects::owners_in;
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::place::{task_copy, worktree};
use crate::agents::upkeep::own_checkout::require_own_branch;
use crate::agents::who::authority::require_orchestrator;
use crate::agents::who::lookup::{self, remote_name, require_seen_pushes};
use crate::agents::work::uncommitted::beside_landed;
use crate::agents::work::{squashed_below, stacked, tip_of};
use crate::agents::{life::at_work, own_changes, stock::layered, upkeep::crash_recovery};
use crate::domain::judge::finding::Verdict;
use crate::domain::landing::forge::Forge;
use crate::domain::life::agent::Agent;
use crate::domain::value::oid::Oid;
use crate::domain::value::quoted::{code_block, visible_line};
use crate::domain::value::redaction::redact_secrets;
use crate::domain::value::shell;
use crate::domain::{Move, State};
use crate::error::{Code, Error, ErrorFacts, Result};
use crate::git::refs::REMOTE_COPIES;
use crate::git::refs::remote::{PushManner, RefChange, RefPush};
use crate::ops::agent_report::{AgentRef, TargetReport};
use crate::ops::merge::{self, MergeOptions, require_changes, require_start};
use crate::ops::sync::{self, claim};
use crate::ops::verify::{self, VerifyOptions};
use crate::store::landing::replay::{self, Replay};
use crate::store::landing::spawn_commit;
use crate::store::ledger::agent_branch::AGENTS_BRANCHES;
use crate::wire::row::policy::LandsOn;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::time::{Duration, Instant};

/// How long the remote is waited for.
const LIMIT: Duration = Duration::from_secs(60);

const SIGNED: &str = "commits of the branch are signed, so it is pushed as it is, with the empty commit by which the agent was spawned";

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct PrOptions {
    /// The remote; without one the usual one.
    pub remote: Option<String>,
    /// Its title; without one the task's first words.
    pub title: Option<String>,
    /// Whether it is marked as a draft when it is opened.
    pub draft: bool,
    /// Labels that it gets besides those it has.
    pub labels: Vec<String>,
    /// Whether the forge is to merge it by its own rules.
    pub queue: bool,
    /// Whether it is one of all that are done: one that a person closed on the forge stays closed then.
    pub is_one_of_all: bool,
    /// Takes what is there although something works in the agent.
    pub now: bool,
}

/// A pull request that only needs pushing and opening.
#[derive(Debug)]
pub struct PrPlan {
    agent: Agent,
    /// The verdict, for the text of the pull request.
    pub verdict: Verdict,
    remote: String,
    branch: String,
    target: String,
    forge: Option<Forge>,
    stacked_on: Option<Agent>,
    /// What the branch of the remote is at; `None` where there is none.
    there: Option<Oid>,
    /// What is pushed: the branch without its spawn commit.
    replay: Replay,
    /// Who owns what it changes.
    owners: Vec<String>,
    options: PrOptions,
}

/// The answer of `pr`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// `planned`, `created`, `updated`, `queued`, `closed`, `landed`, `comments`, or `pushed` where the rest is up to the user.
    pub outcome: &'static str,
    /// The remote.
    pub remote: String,
    /// The branch, short name.
    pub branch: String,
    /// The commit that the branch of the remote has.
    pub tip: String,
    /// The branch to land on.
    pub target: TargetReport,
    /// The agent whose branch that is.
    pub stacked_on: Option<AgentRef>,
    /// The pull request, or the page on which it is opened; absent where the remote's URL names no forge.
    pub url: Option<String>,
    /// Who owns what it changes, by the target's `CODEOWNERS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// How many comments were sent to the agent; absent where they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comments: Option<usize>,
    /// What the caller should know though the work is offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Judges the work and looks at the remote; writes nothing but the verdict.
///
/// # Errors
/// `orchestrator-only`, `agent-unknown`; `agent-state` for an agent without a branch; `agent-busy`; `claim-lost`, `claim-held`; `not-accepted`;
/// `worktree-dirty`; `usage` where there is no such remote, or where the branch to land on is not there; `not-fast-forward`; those of the network.
pub fn plan(
    ctx: &Ctx,
    who: &str,
    options: PrOptions,
) -> Result<std::result::Result<PrPlan, Box<HasLanded>>> {
    require_orchestrator(ctx)?;
    let agent = crash_recovery::at_rest(ctx, lookup::agent(ctx, &ctx.ledger(), who)?)?;
    let (branch, began) = require_offerable(ctx, &agent, &options)?;
    let remote = remote_name(ctx, options.remote.as_deref())?;
    require_seen_pushes(ctx, &remote)?;
    // The remote has what it is to land on, and nothing that would be lost. A stack is aimed at where the work below has landed, as
    // soon as that is so.
    let end = Instant::now() + LIMIT;
    let listed = ctx.repo.list_remote(&remote, end)?;
    // A forge would land it a second time.
    match claim::of_agents(ctx, &remote, &listed, &[agent.id], end, &mut None) {
        Err(error) if error.code() == Code::ClaimHeld && options.now => {}
        asked => drop(asked?),
    }
    let agents = lookup::agents(ctx)?;
    let is_on = |agent: &Agent, branch: &str| -> Result<bool> {
        let aimed = stacked::aimed_at(agent, branch.to_owned());
        let work = [(&aimed, tip_of(ctx, agent)?)];
        Ok(!landed_there(ctx, &remote, &listed, &work, end)?.is_empty())
    };
    let stacked::Aim { target, below: stacked_on, is_anew: is_aimed_anew } =
        stacked::aim(began, &agents, is_on)?;
    if is_on(&agent, &target)? {
        // It went on after that, and what it has not committed is nowhere else.
        if let Some(place) = AgentWorktree::of(&ctx.repo, agent.id)
            && beside_landed(ctx, &agent, &place, &target)?.is_some()
        {
            return Err(uncommitted(&agent.id.short()));
        }
        return Ok(Err(Box::new(HasLanded { agent, remote, target })));
    }
    let Some(&onto) = listed.get(&target) else {
        return Err(no_target(&remote, &target, stacked_on));
    };
    let stacked_on = stacked_on.cloned();
    if !ctx.repo.has_object(onto) {
        // No ref is moved: the copies of a remote's branches are the user's.
        ctx.repo.fetch_refs(&remote, std::slice::from_ref(&target), end)?;
    }
    // What is offered is judged against what the remote has: this clone's branch may be behind that, or have landings that were never pushed.
    let is_theirs =
        is_aimed_anew || stacked_on.is_none() && is_other_there(ctx, &agent, (&target, onto))?;
    let copy = format!("{REMOTE_COPIES}{remote}/{}", short(&target));
    if is_theirs {
        ctx.repo.fetch_refs(&remote, &[format!("+{target}:{copy}")], end)?;
    }
    let verdict = judged(ctx, &agent, &options, Some(copy.as_str()).filter(|_| is_theirs))?;
    require_changes(&verdict)?;
    if stacked_on.is_none() && !is_aimed_anew {
        // A fork may be behind what another remote has. Where the target was before, and what was pushed of agents, publishes nothing.
        let agents = AGENTS_BRANCHES.trim_start_matches("refs/heads");
        let is_published = |start| {
            let holders = ctx.repo.refs_holding(start)?;
            let mut others = holders.iter().filter(|name| **name != copy);
            Ok(others.any(|name| name.starts_with(REMOTE_COPIES) && !name.contains(agents)))
        };
        require_start(ctx, &agent, &remote, (&target, onto), verdict.tip, is_published)?;
    }
    // What the remote has beyond the agent's work would be lost by a push.
    let there = listed.get(&branch).copied();
    // Where a part of it or the work below has landed as a squash, its commits are no part of what is offered.
    let begins = |target| match squashed_below(ctx, &agent, target, verdict.tip)? {
        None if is_aimed_anew => stacked::landed_below(ctx, &agent, target),
        own => Ok(own),
    };
    let replay = stacked::offered(&ctx.repo, &agent, begins, (there, onto), verdict.tip)?;
    // As after the landing of all that the branch changes, and an update since.
    let is_held = ctx.repo.has_object(replay.tip) && ctx.repo.is_ancestor(replay.tip, onto)?;
    if is_held || ctx.repo.tree_of(verdict.tip)? == ctx.repo.tree_of(onto)? {
        return Ok(Err(Box::new(HasLanded { agent, remote, target })));
    }
    let ends = (verdict.tip, onto);
    if let Some(oid) = there
        && !(ctx.repo.has_object(oid) && replay::is_of_branch(&ctx.repo, &agent, ends, oid)?)
    {
        let id = agent.id.short();
        let what = format!("the remote `{remote}` has commits on {branch} that agent {id} lacks");
        let place = worktree::find(&ctx.repo, &agent).filter(|place| place.join(".git").exists());
        return Err(Error::new(Code::NotFastForward, what).hint(match place {
            Some(place) if layered::of(&ctx.repo, agent.id).is_none() => {
                let place = shell::path(&place);
                // Fetched from the main worktree: an agent's moves no ref but its own.
                format!(
                    "to take them in, run git fetch {remote} {branch} && git -C {place} rebase {oid}"
                )
            }
            _ => {
                format!("to see them, run git fetch {remote} {branch} && git log HEAD..FETCH_HEAD")
            }
        }));
    }
    let owners = owners_of(ctx, &verdict)?;
    Ok(Ok(PrPlan {
        owners,
        forge: forge::of_remote(ctx, &remote)?,
        agent,
        // Its text names the commit that is pushed, which others have.
        verdict: Verdict { tip: replay.tip, ..verdict },
        remote,
        branch,
        target,
        stacked_on,
        there,
        replay,
        options,
    }))
}

/// Whether a branch is at another commit on the remote than here, and has what the agent's work stands on: what it lacks of that would look like the
/// agent's doing.
fn is_other_there(ctx: &Ctx, agent: &Agent, (target, onto): (&str, Oid)) -> Result<bool> {
    let repo = &ctx.repo;
    let own = repo.tip(target)?.oid().filter(|own| *own != onto);
    let start = own.map(|own| repo.merge_base(own, tip_of(ctx, agent)?)).transpose()?.flatten();
    start.map_or(Ok(false), |start| repo.is_ancestor(start, onto))
}

/// The agent's branch and the one that it began on, if its work is such that it can be offered.
fn require_offerable(ctx: &Ctx, agent: &Agent, options: &PrOptions) -> Result<(String, String)> {
    // Work that was turned down or thrown away is not offered either.
    agent.may(Move::Merge)?;
    let short = agent.id.short();
    let Some(branch) = agent.branch.clone() else {
        let what = format!("agent {short} is shared and has no branch");
        return Err(Error::new(Code::AgentState, what));
    };
    if !options.now {
        at_work::require_at_rest(ctx, agent)?;
    }
    // Pushing would give a branch of the user's to others on the word of a row.
    require_own_branch(ctx, agent)?;
    // What the owner had not committed when the agent began would be pushed along with its work.
    own_changes::require_none(&ctx.repo, agent, "is not pushed")?;
    let Some(began) = agent.base.as_ref().and_then(|base| base.refname.clone()) else {
        let what = format!("agent {short} started from a commit, not from a branch to land on");
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to land it here, run git agent merge {short} --into <branch>")));
    };
    // A second request for the same work would compete with the first.
    if spawn_commit::if_here(&ctx.repo, agent)?.is_some_and(|policy| policy.is_of_fork()) {
        let what =
            format!("agent {short} works on a pull request of a fork, which is open already");
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to land the work on its branch, run git agent merge {short} --push")));
    }
    Ok((branch, began))
}

fn no_target(remote: &str, target: &str, stacked_on: Option<&Agent>) -> Error {
    let error = Error::new(Code::Usage, format!("the remote `{remote}` has no {target}"));
    match stacked_on {
        Some(below) => error.hint(format!(
            "to offer the work it stands on first, run git agent pr {}",
            below.id.short()
        )),
        None => error.hint(format!("to create it, run git push {remote} {target}")),
    }
}

/// The accepting verdict that the work is offered with.
fn judged(ctx: &Ctx, agent: &Agent, options: &PrOptions, base: Option<&str>) -> Result<Verdict> {
    let verdict = verify::verify(
        ctx,
        &VerifyOptions {
            agent: Some(agent.id.to_string()),
            // Something may be writing while it is judged.
            twice: options.now,
            // The queue checks what it lands once more; nothing is paid for a third time.
            by_train: options.queue,
            base: base.map(str::to_owned),
            ..VerifyOptions::default()
        },
    )?;
    require_accepted(&verdict, base)?;
    if verdict.uncommitted > 0 {
        return Err(uncommitted(&agent.id.short()));
    }
    Ok(verdict)
}

fn uncommitted(short: &str) -> Error {
    let what = format!("agent {short} has uncommitted work, which no push takes along");
    Error::new(Code::WorktreeDirty, what)
        .hint(format!("to commit it first, run git agent commit {short} -m <message>"))
}

/// Who owns what the work changes, as the branch says that it lands on: the work has no say in who reviews it.
fn owners_of(ctx: &Ctx, verdict: &Verdict) -> Result<Vec<String>> {
    let before = ctx.repo.tree_of(verdict.base)?;
    let (Some(owners), Some(merged)) = (owners_in(&ctx.repo, before)?, verdict.merged_tree())
    else {
        return Ok(Vec::new());
    };
    let changes = ctx.repo.tree_changes(&[before], merged)?;
    Ok(owners.of(changes.iter().map(|change| &change.path)))
}

/// Work that the branch of the remote has already.
#[derive(Debug)]
pub struct HasLanded {
    agent: Agent,
    remote: String,
    target: String,
}

impl HasLanded {
    /// What is said of it where it was to be offered.
    pub fn error(&self) -> Error {
        let (short, target, remote) = (self.agent.id.short(), &self.target, &self.remote);
        let what = format!("the work of agent {short} is on {target} of {remote} already");
        let error = Error::new(Code::NothingToLand, what);
        if self.agent.state == State::Merged {
            return error.hint(format!("to clear it away, run git agent discard {short}"));
        }
        // This clone's branch may say something else, as after an undo that was not pushed.
        error.hint(format!("to have its row say so, run git agent merge {short} --push={remote}"))
    }

    /// Has the agent's row say so.
    ///
    /// # Errors
    /// Those of `merge`; `nothing-to-land` where that does not find the work there.
    pub fn record(self, ctx: &Ctx) -> Result<PrReport> {
        let options = MergeOptions {
            push: Some(self.remote.clone()),
            into: Some(self.target.clone()),
            leave_checks: true,
            ..MergeOptions::default()
        };
        let plan = merge::judged_plan(ctx, &self.agent.id.to_string(), &options)?.accepted()?;
        // What is not there is offered, and never landed from here.
        if plan.landed.is_none() {
            return Err(self.error());
        }
        let warnings = merge::execute(ctx, &plan)?.warnings;
        Ok(PrReport {
            target: TargetReport::new(Some(&self.target), Some(plan.base)),
            warnings,
            ..report_of(ctx, &self.agent, self.remote, "landed")?
        })
    }
}

fn require_accepted(verdict: &Verdict, against: Option<&str>) -> Result<()> {
    if verdict.is_accepted() {
        return Ok(());
    }
    let short = verdict.agent.short();
    let rejecting: Vec<_> = verdict.findings.iter().filter(|one| one.rejects()).collect();
    let lines: Vec<_> =
        rejecting.iter().map(|one| format!("  {} {}", one.code.name(), one.message)).collect();
    let base =
        against.map_or(String::new(), |base| format!(" --base {}", shell::word(base.as_bytes())));
    let what = format!("agent {short} has no accepting verdict, so its work is not offered");
    Err(Error::new(Code::NotAccepted, what)
        .detail(lines.join("\n"))
        .facts(ErrorFacts {
            findings: rejecting.iter().map(|one| one.code.name()).collect(),
            ..ErrorFacts::default()
        })
        .hint(format!("to see how to mend it, run git agent verify {short}{base}")))
}

/// Pushes the branch and opens the pull request, or brings it up to date; `body` is its text.
///
/// # Errors
/// `remote-refused`, naming what refused it; also where `gh` fails; those of the network. Running it again completes it.
pub fn execute(ctx: &Ctx, plan: &PrPlan, body: &str) -> Result<PrReport> {
    let mut report = plan.report();
    let client =
        plan.forge.as_ref().map(|forge| ForgeClient::find(ctx, forge)).transpose()?.flatten();
    // What has no room is not pushed either, and neither is what a person closed.
    let open = client.as_ref().map(|client| client.open_requests(Some(short(&plan.branch))));
    let open = open.transpose()?.and_then(|open| open.into_iter().next());
    if let Some(client) = client.as_ref().filter(|_| open.is_none()) {
        if plan.options.is_one_of_all
            && let Some(closed) = client.closed_request(short(&plan.branch))?
        {
            (report.outcome, report.url) = ("closed", Some(closed.url));
            return Ok(report);
        }
        offer::require_room(ctx, client)?;
    }
    if plan.there != Some(plan.replay.tip) {
        push(ctx, plan)?;
    }
    report.outcome = "pushed";
    let Some(client) = client else {
        if plan.options.queue {
            return Err(no_program(plan));
        }
        return Ok(report);
    };
    let body = text(ctx, plan, body);
    let offered = offer::offer(&client, plan, open, &body).map_err(|error| {
        error.hint("the branch is pushed; to go on from there, run the same command again")
    })?;
    (report.outcome, report.url) = (offered.outcome, Some(offered.url));
    report.warnings.extend(offered.warnings);
    Ok(report)
}

fn no_program(plan: &PrPlan) -> Error {
    let name = plan
        .forge
        .as_ref()
        .and_then(Forge::program)
        .unwrap_or("a program that speaks to the forge");
    Error::new(Code::Usage, format!("--queue needs {name} on the path"))
}

/// The text of the pull request: the verdict, and the task in a block of code, because it may quote what others wrote.
fn text(ctx: &Ctx, plan: &PrPlan, verdict: &str) -> String {
    let task = task_copy::load(ctx, &plan.agent).ok();
    let task = task.and_then(|task| Some(task.text.given()?.value.clone()));
    let Some(task) = task else {
        return verdict.to_owned();
    };
    // A task may hold what looks like a credential, and a pull request is public.
    let task = code_block(&redact_secrets(&task));
    format!("{}\n\n<details><summary>Task</summary>\n\n{task}\n</details>\n", verdict.trim_end())
}

/// Sends the agent what was written under its open pull request; the work is not looked at.
///
/// # Errors
/// `agent-unknown`, `orchestrator-only`; `usage` where the agent has no open pull request, and where the forge cannot be asked; those of the forge and of sending.
pub fn read_comments(ctx: &Ctx, who: &str, remote: Option<&str>) -> Result<PrReport> {
    require_orchestrator(ctx)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let (id, name) = (agent.id.short(), agent.branch.clone().unwrap_or_default());
    // An agent that works on a pull request hears what is written under that one, which is where it was found.
    let onto = spawn_commit::if_here(&ctx.repo, &agent)?.and_then(|policy| policy.lands_on);
    let remote = match (remote, &onto) {
        (None, Some(onto)) => forge::remote_of(ctx, onto)?.0,
        (remote, _) => remote_name(ctx, remote)?,
    };
    let client = ForgeClient::require(ctx, &remote)?;
    let base = agent.base.as_ref().and_then(|base| base.refname.as_deref());
    let of_fork = base.filter(|_| onto.as_ref().is_some_and(LandsOn::is_fork));
    let number = of_fork.and_then(|base| {
        let named = short(base).strip_prefix(client.forge.request_word())?;
        named.strip_prefix('/')?.parse().ok()
    });
    let name = onto.as_ref().map_or(name.as_str(), |onto| onto.branch.as_str());
    let (number, url) = match number {
        Some(number) => (number, client.forge.request_page(number)),
        None => match client.open_requests(Some(short(name)))?.into_iter().next() {
            Some(open) if !name.is_empty() => (open.number, open.url),
            _ => {
                let what = format!("agent {id} has no open pull request");
                return Err(Error::new(Code::Usage, what)
                    .hint(format!("to open one, run git agent pr {id}")));
            }
        },
    };
    let sent = offer::send(ctx, &client, &agent, number)?;
    Ok(PrReport {
        url: Some(url),
        comments: Some(sent),
        ..report_of(ctx, &agent, remote, "comments")?
    })
}

fn report_of(ctx: &Ctx, agent: &Agent, remote: String, outcome: &'static str) -> Result<PrReport> {
    let base = agent.base.as_ref();
    let onto = base.and_then(|base| base.refname.as_deref());
    Ok(PrReport {
        schema: "git-agent.pr/1",
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        outcome,
        remote,
        branch: short(agent.branch.as_deref().unwrap_or_default()).to_owned(),
        tip: tip_of(ctx, agent)?.to_hex(),
        target: TargetReport::new(onto, base.map(|base| base.oid)),
        stacked_on: None,
        url: None,
        owners: Vec::new(),
        comments: None,
        warnings: Vec::new(),
    })
}

fn push(ctx: &Ctx, plan: &PrPlan) -> Result<()> {
    plan.replay.write(&ctx.repo)?;
    let pushes = [RefPush::new(plan.branch.clone(), plan.change(ctx)?)];
    // The user's `pre-push` hook runs, as for a push by hand.
    let manner = PushManner { atomic: false, with_hook: true };
    let end = Instant::now() + LIMIT;
    let outcome = ctx.repo.push_refs(&plan.remote, &pushes, manner, end)?;
    match outcome.refusals.first() {
        None => Ok(()),
        Some(refusal) => {
            let (name, reason) = (&refusal.refname, &refusal.reason);
            Err(sync::refused(&plan.remote, name, reason, &outcome))
        }
    }
}

impl PrPlan {
    /// How the branch of the remote moves. One that has the spawn commit, as `sync` pushes it, is replaced, as long as it is
    /// where it was seen: what it holds is in the agent's branch.
    fn change(&self, ctx: &Ctx) -> Result<RefChange> {
        let to = self.replay.tip;
        Ok(match self.there {
            // The branch there is an earlier state of the same work, rewritten by a replay, and is
            // replaced only as it was seen.
            Some(from) if !ctx.repo.is_ancestor(from, to)? => {
                RefChange::Swap { from: Some(from), to }
            }
            _ => RefChange::Forward(to),
        })
    }

    /// What would be done.
    pub fn report(&self) -> PrReport {
        let page = |forge: &Forge| forge.page(short(&self.branch), short(&self.target));
        PrReport {
            schema: "git-agent.pr/1",
            agent_id: self.agent.id.to_string(),
            short_id: self.agent.id.short(),
            outcome: "planned",
            remote: self.remote.clone(),
            branch: short(&self.branch).to_owned(),
            tip: self.replay.tip.to_hex(),
            target: TargetReport::new(Some(&self.target), Some(self.verdict.base)),
            stacked_on: self.stacked_on.as_ref().map(AgentRef::of),
            url: self.forge.as_ref().map(page),
            owners: self.owners.clone(),
            comments: None,
            warnings: { self.replay.is_signed.then_some(SIGNED) }
                .map(str::to_owned)
                .into_iter()
                .collect(),
        }
    }

    fn title(&self) -> String {
        let given = self.options.title.clone();
        // What a task hides from a reader is not hidden in a title either.
        given
            .or_else(|| self.agent.description.as_deref().map(visible_line))
            .unwrap_or_else(|| format!("Work of agent {}", self.agent.id.short()))
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}
