//! `board`: the agents of a repository as a screen keeps them: which of them need a person, which work, and the rest.
//!
//! Every look reads what costs next to nothing: the ledger's tip, and per agent the tips of its branch and
//! its target, the times of its index, the top of its worktree's files, its bundle and its logs. Only an agent for which one of
//! these moved is looked at in full. Edits deep inside a worktree move none of them, so an agent whose log moves is looked
//! at in full as well, and all are now and then, both as often as keeps that below a small share of the time.

use crate::agents::life::{admission, liveness};
use crate::agents::place::worktree::WorktreeFiles;
use crate::agents::{Ctx, place::worktree, work};
use crate::domain::life::limits::usd;
use crate::domain::value::named::size_text;
use crate::domain::work::bundle::FILES;
use crate::domain::{Agent, AgentId, Limit, Oid};
use crate::error::Result;
use crate::git::files::separate::FileStamp;
use crate::ops::agent_report::Reporter;
use crate::ops::list::{ListOptions, ListedAgent, Sort, by_activity, select};
use crate::ops::show::{DiffCountsReport, diff_counts, last_output};
use crate::ops::status::{MergeKey, OverlapSet, Places, WorkStatus, conflicts, merge_key, survey};
use crate::store::files::{fsx, layout};
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A full look at everything takes at most one part in this many of the time.
const SHARE: u32 = 50;

/// So much of the time that was not spent yet is kept for agents that write to their logs.
const MOST_CREDIT: Duration = Duration::from_millis(200);

/// So many merges are tried in one look: a landing moves the target of all agents at once, and each merge takes some
/// milliseconds.
const MERGES: usize = 4;

/// Where the bundle is unless a setting says otherwise; a wrong guess only delays what is seen.
const BUNDLE: &str = ".agent";

/// All agents at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoardReport {
    /// Those who need a person first, those who work next, and the rest; within each in the order that was asked for.
    pub rows: Vec<BoardRow>,
    /// What is left of the disk and of the limits, a text each.
    pub margins: Vec<String>,
}

/// An agent as the board shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardRow {
    /// The agent and where its work stands, as `list` answers it.
    pub listed: ListedAgent,
    /// Where it is shown.
    pub group: BoardGroup,
    /// Why it needs a person; absent where it does not.
    pub need: Option<&'static str>,
    /// How much it changed.
    pub diff: Option<DiffCountsReport>,
    /// The last line that its last run wrote.
    pub last_line: Option<String>,
    /// How long it has been in its state, or at its run, in seconds.
    pub seconds: i64,
}

/// The parts of the board, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoardGroup {
    /// Nothing goes on before a person decides something.
    Needs,
    /// Something works in it.
    Working,
    /// All others.
    Later,
}

/// Agents that are looked at again and again, and what is remembered from one look to the next.
pub struct BoardWatch<'c> {
    ctx: &'c Ctx,
    options: ListOptions,
    /// The tip of the ledger when it was last read; absent before that.
    ledger: Option<Option<Oid>>,
    agents: Vec<Agent>,
    known: HashMap<AgentId, Known>,
    logs: HashMap<AgentId, (LogStamps, Option<String>)>,
    margins: Vec<String>,
    thorough: Option<(Instant, Duration)>,
    /// What looks at agents that write to their logs may take, when that was reckoned, and what one of them takes.
    credit: (Duration, Instant, Duration),
}

/// What the last full look at an agent found.
struct Known {
    fingerprint: Fingerprint,
    looked: Instant,
    /// Its logs at that moment.
    logs: Option<LogStamps>,
    status: WorkStatus,
    diff: Option<DiffCountsReport>,
    /// Whether the work conflicts with what has landed, and what that was found out for; it may be about what was before.
    merge: Option<(MergeKey, bool)>,
}

/// The number of a run, and its logs of both streams.
type LogStamps = (u32, [Option<FileStamp>; 2]);

/// What moves when an agent does something that git or the bundle shows.
#[derive(Clone)]
struct Fingerprint {
    updated: DateTime<Utc>,
    tip: Option<Oid>,
    target: Option<Oid>,
    files: Vec<Option<FileStamp>>,
}

impl Fingerprint {
    /// Whether nothing has moved since this one was taken.
    fn is_still(&self, now: &Fingerprint) -> bool {
        let refs = |of: &Fingerprint| (of.updated, of.tip, of.target);
        refs(self) == refs(now) && are_unchanged(&self.files, &now.files)
    }
}

fn are_unchanged(before: &[Option<FileStamp>], now: &[Option<FileStamp>]) -> bool {
    let mut files = before.iter().zip(now);
    before.len() == now.len()
        && files.all(|(before, now)| FileStamp::is_unchanged(before.as_ref(), now.as_ref()))
}

impl<'c> BoardWatch<'c> {
    /// A watch that has not looked yet.
    pub fn new(ctx: &'c Ctx, options: ListOptions) -> BoardWatch<'c> {
        BoardWatch {
            ctx,
            options,
            ledger: None,
            agents: Vec::new(),
            known: HashMap::new(),
            logs: HashMap::new(),
            margins: Vec::new(),
            thorough: None,
            credit: (MOST_CREDIT, Instant::now(), Duration::from_millis(10)),
        }
    }

    /// The agents as they are now.
    ///
    /// # Errors
    /// As [`super::list::each`].
    pub fn look(&mut self) -> Result<BoardReport> {
        let ctx = self.ctx;
        let ledger = ctx.repo.tip(layout::LEDGER_REF)?.oid();
        let is_new = self.ledger != Some(ledger);
        if is_new {
            self.agents = select(ctx, &self.options)?;
            self.ledger = Some(ledger);
        }
        if !self.options.fast {
            self.refresh()?;
        }
        if is_new {
            self.margins = margins(ctx, &self.agents);
        }
        let reporter = Reporter::new(ctx)?;
        let mut listed: Vec<ListedAgent> = self
            .agents
            .iter()
            .map(|agent| {
                let known = self.known.get(&agent.id);
                let status = known.map(|known| known.status.clone()).unwrap_or_default();
                ListedAgent::new(reporter.row(agent), status, &self.options)
            })
            .filter(|agent| agent.is_wanted(&self.options))
            .collect();
        if self.options.sort == Sort::Activity {
            by_activity(&mut listed);
        }
        OverlapSet::fill(&mut listed, |agent| &mut agent.standing);
        // A row takes note of what it read in `self`, so the agents are lent out for as long.
        let agents = std::mem::take(&mut self.agents);
        let by_id: HashMap<String, &Agent> =
            agents.iter().map(|agent| (agent.id.to_string(), agent)).collect();
        let mut rows = Vec::with_capacity(listed.len());
        for listed in listed {
            if let Some(agent) = by_id.get(&listed.agent.agent_id) {
                rows.push(self.row(agent, listed));
            }
        }
        self.agents = agents;
        // A stable sort: within a group the order that was asked for stays.
        rows.sort_by_key(|row| row.group);
        let free = ctx.repo.root().and_then(|root| fsx::free_space(&root));
        let disk = free.ok().map(|free| format!("{} free on disk", size_text(free)));
        Ok(BoardReport { rows, margins: disk.into_iter().chain(self.margins.clone()).collect() })
    }

    fn row(&mut self, agent: &Agent, listed: ListedAgent) -> BoardRow {
        let need = listed.standing.need(&listed.agent);
        let run = listed.agent.run.as_ref();
        let is_running = run.is_some_and(|run| run.state == "running");
        let group = match (need, listed.agent.state) {
            (Some(_), _) => BoardGroup::Needs,
            (None, "running" | "spawning") => BoardGroup::Working,
            (None, _) if is_running => BoardGroup::Working,
            (None, _) => BoardGroup::Later,
        };
        let began = agent.run.as_ref().filter(|_| is_running);
        let since = began.map_or(agent.state_since, |run| run.began);
        BoardRow {
            group,
            need,
            diff: self.known.get(&agent.id).and_then(|known| known.diff),
            last_line: self.last_line(agent),
            seconds: (self.ctx.now() - since).num_seconds().max(0),
            listed,
        }
    }

    /// The last line of an agent's last run, read again only when one of its logs has changed.
    fn last_line(&mut self, agent: &Agent) -> Option<String> {
        let number = agent.run.as_ref()?.number();
        let log = |stream| liveness::log(self.ctx.repo.common_dir(), agent, number, stream);
        let now = (number, ["out", "err"].map(|it| FileStamp::of(&log(it))));
        if let Some(((last, stamps), line)) = self.logs.get(&agent.id)
            && *last == number
            && are_unchanged(stamps, &now.1)
        {
            return line.clone();
        }
        let line = last_output(self.ctx, agent).pop();
        self.logs.insert(agent.id, (now, line.clone()));
        line
    }

    /// Looks again at those that did something, or at all when that is due.
    fn refresh(&mut self) -> Result<()> {
        let begin = Instant::now();
        let due = self.thorough.is_none_or(|(last, cost)| last.elapsed() >= cost * SHARE);
        let places = Places::load(&self.ctx.repo)?;
        let fingerprints: Vec<Fingerprint> = self
            .agents
            .iter()
            .map(|agent| fingerprint(self.ctx, agent, places.of(agent)))
            .collect();
        let (spare, since, cost) = self.credit;
        // At least for one of them, however long that takes here.
        let spare = (spare + since.elapsed() / SHARE).min(MOST_CREDIT.max(cost));
        let most = usize::try_from(spare.as_micros() / cost.as_micros().max(1)).unwrap_or(0);
        let talking = self.talking(most);
        let moved = |(agent, fingerprint): &(&Agent, &Fingerprint)| {
            let known = self.known.get(&agent.id);
            due || talking.contains(&agent.id)
                || known.is_none_or(|known| !known.fingerprint.is_still(fingerprint))
        };
        let (wanted, fingerprints): (Vec<&Agent>, Vec<&Fingerprint>) =
            self.agents.iter().zip(&fingerprints).filter(moved).unzip();
        let wanted_count = wanted.len();
        let mut found = Vec::with_capacity(wanted_count);
        survey(self.ctx, &wanted, &places, |agent, status| {
            found.push((agent, status));
            Ok(())
        })?;
        let fingerprints: Vec<Fingerprint> = fingerprints.into_iter().cloned().collect();
        for ((agent, status), fingerprint) in found.into_iter().zip(fingerprints) {
            // Lines are counted again only where something was written: that costs more than all the rest of a look.
            let before = self.known.get(&agent.id);
            let diff = match before.filter(|known| is_same_work(&known.status, &status)) {
                Some(known) => known.diff,
                None => diff_counts(self.ctx, agent, &status).ok().flatten(),
            };
            let known = Known {
                fingerprint,
                looked: begin,
                logs: self.logs.get(&agent.id).map(|(stamps, _)| *stamps),
                status,
                diff,
                merge: before.and_then(|known| known.merge.clone()),
            };
            self.known.insert(agent.id, known);
        }
        let looks = u32::try_from(self.agents.len().min(wanted_count)).unwrap_or(u32::MAX);
        let cost = begin.elapsed().checked_div(looks).unwrap_or(cost);
        let used = cost.saturating_mul(u32::try_from(talking.len()).unwrap_or(u32::MAX));
        self.credit = (spare.saturating_sub(used), begin, cost);
        self.try_merges();
        if due {
            self.thorough = Some((begin, begin.elapsed()));
        }
        Ok(())
    }
}

impl BoardWatch<'_> {
    /// The agents whose logs have moved since they were looked at in full, the longest ago first.
    fn talking(&self, most: usize) -> Vec<AgentId> {
        let mut talking: Vec<(Instant, AgentId)> = self
            .known
            .iter()
            .filter(|(id, known)| match (self.logs.get(*id), &known.logs) {
                (Some(((run, now), _)), Some((last, before))) => {
                    run != last || !are_unchanged(before, now)
                }
                (now, before) => now.is_some() != before.is_some(),
            })
            .map(|(id, known)| (known.looked, *id))
            .collect();
        talking.sort_unstable();
        talking.truncate(most);
        talking.into_iter().map(|(_, id)| id).collect()
    }

    /// Finds out which finished work conflicts with what has landed since, for a few agents in each look.
    fn try_merges(&mut self) {
        let mut left = MERGES;
        for agent in &self.agents {
            let Some(known) = self.known.get_mut(&agent.id) else {
                continue;
            };
            let wanted = merge_key(agent, &known.status);
            let is_known = match (&wanted, &known.merge) {
                (Some(wanted), Some((of, _))) => wanted == of,
                (None, _) => true,
                _ => false,
            };
            if let Some(wanted) = wanted.clone().filter(|_| !is_known && left > 0) {
                left -= 1;
                // What cannot be merged now, because a file is changed meanwhile, is tried again when the work has moved.
                let found = conflicts(self.ctx, agent, &known.status).unwrap_or(false);
                known.merge = Some((wanted, found));
            }
            known.status.conflicts =
                wanted.is_some() && known.merge.as_ref().is_some_and(|(_, found)| *found);
        }
    }
}

fn is_same_work(before: &WorkStatus, now: &WorkStatus) -> bool {
    let work = |of: &WorkStatus| (of.tip.clone(), of.uncommitted, of.active_at.clone());
    work(before) == work(now)
}

fn fingerprint(ctx: &Ctx, agent: &Agent, worktree: Option<&Path>) -> Fingerprint {
    let tip = work::tip_of(ctx, agent).ok();
    let target = work::base_of(ctx, agent, None).ok();
    let mut files = Vec::new();
    if let Some(top) = worktree {
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        files.push(FileStamp::of(&admin.join("index")));
        let place = WorktreeFiles::of(&ctx.repo, agent.id, top);
        let stamp = |path: &Path| FileStamp::of(&place.find(path)?);
        files.push(stamp(Path::new("")));
        let bundle = Path::new(BUNDLE);
        files.extend(FILES.map(|(name, _)| stamp(&bundle.join(name))));
    }
    Fingerprint { updated: agent.updated, tip, target: target.and_then(|(_, tip)| tip), files }
}

/// What is used of the limits that are set. A setting that cannot be read limits nothing here: `run` says what is wrong.
fn margins(ctx: &Ctx, agents: &[Agent]) -> Vec<String> {
    let Ok(limits) = admission::load(ctx) else {
        return Vec::new();
    };
    let common = ctx.repo.common_dir();
    let running = |agent: &&Agent| {
        let run = agent.run.as_ref();
        run.is_some_and(|run| liveness::is_at_work(common, agent, run).unwrap_or(false))
    };
    let used = [
        (Limit::Agents, agents.len().to_string()),
        (Limit::Jobs, agents.iter().filter(running).count().to_string()),
        (Limit::CostDay, {
            let cost = ctx.ledger().cost_of_day(admission::today(ctx));
            cost.map_or_else(|_| "?".to_owned(), usd)
        }),
    ];
    let set = used.into_iter().filter_map(|(limit, used)| {
        let most = limit.show(limits.get(limit)?);
        Some(format!("{limit} {used} of {most}"))
    });
    set.collect()
}
