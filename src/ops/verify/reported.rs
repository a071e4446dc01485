//! What an agent reported, held against what it says of other agents and of commits; and audits, which stand in the
//! row of the agent that they are about, as does what trains said of it.
//!
//! Who audited is the agent whose run gave the answer, never a text. An audit that an agent started, by spawning or by
//! running the auditor, is judged by its form and recorded nowhere: an agent could let itself be passed, or others be failed.

use crate::agents::work::{simulated, tip_of};
use crate::agents::{Ctx, Work};
use crate::domain::judge::evidence::FinalAnswer;
use crate::domain::life::report::{Audited, Dangling, FINDINGS, NamedThing, RoleReport};
use crate::domain::{Agent, AgentId, Oid, ReportRules, State, What};
use crate::error::Result;
use crate::git::{MergeResult, Repo};
use crate::ops::verify::Case;
use crate::store::Ledger;
use crate::store::files::{fsx, layout};
use crate::wire::output::answer;
use std::cell::LazyCell;

/// How far up an agent's parents are followed.
const GENERATIONS: usize = 64;

/// An agent's report.
#[derive(Default)]
pub(super) struct Reported {
    pub answer: FinalAnswer,
    /// What it means for the agent that it audits.
    pub audit: Option<(Agent, Audited)>,
}

/// Reads what the policy asks for. A run keeps the agent's final answer; an agent that was started in another way writes its
/// report into the bundle.
pub(super) fn read(ctx: &Ctx, case: &Case<'_>) -> Result<Reported> {
    let rules = case.fence.policy().report_rules();
    if rules.is_empty() {
        return Ok(Reported::default());
    }
    let agent = &case.subject.agent;
    let place = layout::answer(ctx.repo.common_dir(), agent.id);
    let kept = fsx::end_of(&place, answer::MOST_BYTES).ok();
    // A host that keeps no answer leaves the agent these files to report in.
    let written = case
        .bundle
        .artefacts
        .iter()
        .filter(|file| ["progress.json", "review.md"].contains(&file.name))
        .filter_map(|file| file.text.clone().ok());
    let texts: Vec<String> = kept.into_iter().chain(written).collect();
    // What it said is in the clone where it ran, so its silence here is none.
    if texts.is_empty() && (case.subject.is_foreign || case.bundle.is_out_of_reach) {
        return Ok(Reported { answer: FinalAnswer::OutOfReach, audit: None });
    }
    let mut report = RoleReport::default();
    for text in &texts {
        for (key, values) in answer::fields(text) {
            report.fields.entry(key).or_default().extend(values);
        }
        report.tags += answer::tags(text, &rules.tags);
        report.listed = report.listed.max(answer::listed(text, FINDINGS));
    }
    let mut reader =
        References { ctx, agent, rules: &rules, ledger: ctx.ledger(), dangling: Vec::new() };
    let subject = reader.subject(&report);
    let audited = reader.tip(&report, subject.as_ref())?;
    reader.commit(&report, subject.as_ref());
    report.dangling = reader.dangling;
    if rules.audit.is_some() && is_started_by_an_agent(ctx, agent)? {
        return Ok(Reported { answer: FinalAnswer::SaidForAgent(report), audit: None });
    }
    let audit = match (subject, audited, report.verdict(&rules)) {
        (Some(subject), Some((tip, tree)), Some(verdict)) => {
            let found = report.fields.get(FINDINGS).and_then(|values| values.first());
            Some((
                subject,
                Audited {
                    auditor: Some(agent.id),
                    run: run_of(agent),
                    verdict,
                    tip,
                    tree,
                    reason: found.cloned().unwrap_or_default(),
                },
            ))
        }
        _ => None,
    };
    Ok(Reported { answer: FinalAnswer::Said(report), audit })
}

/// The number of the run whose answer is read.
fn run_of(agent: &Agent) -> Option<u32> {
    agent.run.as_ref()?.started.run
}

/// Whether the agent was spawned, or last run, from inside of an agent.
fn is_started_by_an_agent(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let events = ctx.ledger().events(agent.spawn_commit)?;
    // Who spawned it, and who started the run that gave the answer: either could have chosen it.
    let run = events.iter().rfind(|event| matches!(event.what, What::Started(_)));
    let mut began = events.first().into_iter().chain(run);
    Ok(began.any(|event| AgentId::parse(&event.by).is_some()))
}

struct References<'a> {
    ctx: &'a Ctx,
    /// The agent that reports.
    agent: &'a Agent,
    rules: &'a ReportRules,
    ledger: Ledger<'a>,
    dangling: Vec<Dangling>,
}

impl References<'_> {
    /// The one value of a field that names such a thing.
    fn value<'r>(&self, report: &'r RoleReport, kind: NamedThing) -> Option<(String, &'r str)> {
        let field = self.rules.naming(kind)?;
        Some((field.to_owned(), report.value(field)?))
    }

    fn dangles(&mut self, field: String, names: NamedThing, why: String) {
        self.dangling.push(Dangling { field, names, why });
    }

    /// The agent that the report is about.
    fn subject(&mut self, report: &RoleReport) -> Option<Agent> {
        let (field, value) = self.value(report, NamedThing::Agent)?;
        let why = match self.ledger.find(value) {
            Err(_) => "names no agent of this ledger".to_owned(),
            // No agent passes its own work.
            Ok(named) if named.id == self.agent.id => "names the agent itself".to_owned(),
            Ok(named) if self.rules.audit.is_some() && !self.is_of_its_family(&named) => {
                let parent = self.agent.parent.map(AgentId::short).unwrap_or_default();
                format!(
                    "names neither agent {parent}, for which it was spawned, nor one below that"
                )
            }
            Ok(named) => return Some(named),
        };
        self.dangles(field, NamedThing::Agent, why);
        None
    }

    /// Whether an agent is the parent of the one that reports, or below it. Without a parent nothing says whom it is about.
    fn is_of_its_family(&self, named: &Agent) -> bool {
        let Some(parent) = self.agent.parent else {
            // A person spawned it, and may name whatever is to be audited.
            return true;
        };
        let mut at = Some((named.id, named.parent));
        // Rows from elsewhere may name each other as parents in a circle.
        for _ in 0..GENERATIONS {
            match at {
                Some((id, _)) if id == parent => return true,
                Some((id, _)) if id == self.agent.id => return false,
                Some((_, Some(above))) => {
                    let above = self.ledger.find(&above.to_string()).ok();
                    at = above.map(|agent| (agent.id, agent.parent));
                }
                Some((_, None)) | None => return false,
            }
        }
        false
    }

    /// The tip and the tree that the report is about. What it was about when it was recorded stays so, whatever the other
    /// agent has done since.
    fn tip(&mut self, report: &RoleReport, subject: Option<&Agent>) -> Result<Option<(Oid, Oid)>> {
        let (Some((field, value)), Some(subject)) = (self.value(report, NamedThing::Tip), subject)
        else {
            return Ok(None);
        };
        // All digits: a short name can be made to fit two commits.
        let named = Oid::from_hex(&value.to_lowercase());
        let now = now(self.ctx, subject);
        if let (Some(named), Some((tip, committed, tree))) = (named, now) {
            if named == tip {
                return Ok(Some((tip, committed)));
            }
            if named == tree {
                return Ok(Some((tip, tree)));
            }
        }
        // The audited agent may have gone on since; what this run has named before still stands for
        // this run.
        let events = self.ledger.events(subject.spawn_commit)?;
        let recorded = events.iter().rev().find_map(|event| match &event.what {
            What::Audited(audit) if audit.auditor == Some(self.agent.id) => Some(audit),
            _ => None,
        });
        // A new run has read the work anew.
        let recorded = recorded.filter(|audit| audit.run == run_of(self.agent));
        if let Some(audit) =
            recorded.filter(|audit| [Some(audit.tip), Some(audit.tree)].contains(&named))
        {
            return Ok(Some((audit.tip, audit.tree)));
        }
        let id = subject.id.short();
        self.dangles(
            field,
            NamedThing::Tip,
            format!("is not what agent {id} is at: neither its tip nor the tree of its work"),
        );
        Ok(None)
    }

    /// Whether the commit that the report names holds the work of the agent that it names.
    fn commit(&mut self, report: &RoleReport, subject: Option<&Agent>) {
        let Some((field, value)) = self.value(report, NamedThing::Commit) else {
            return;
        };
        let repo = &self.ctx.repo;
        // Fewer digits are a word of the text as likely as a name.
        let is_name = value.len() >= 7 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = is_name.then(|| repo.resolve_commit(value).ok()).flatten();
        let why = match (commit, subject) {
            (None, _) => "names no commit of this repository".to_owned(),
            (Some(commit), Some(subject)) if !self.holds(commit.commit, subject) => {
                format!(
                    "names a commit that does not hold the work of agent {}",
                    subject.id.short()
                )
            }
            _ => return,
        };
        self.dangles(field, NamedThing::Commit, why);
    }

    /// Whether a commit has an agent's work: it landed in it, is an ancestor of it, or merging it changes nothing.
    fn holds(&self, commit: Oid, agent: &Agent) -> bool {
        let repo = &self.ctx.repo;
        let has = |oid: Oid| repo.is_ancestor(oid, commit).unwrap_or(false);
        if agent.state == State::Merged
            && agent.landed.as_ref().is_some_and(|(landed, _)| has(*landed))
        {
            return true;
        }
        let Some((tip, committed, tree)) = now(self.ctx, agent) else {
            return false;
        };
        // Nothing is held where there is nothing.
        if tip == agent.spawn_commit && tree == committed {
            return false;
        }
        let work = if tree == committed { Ok(tip) } else { simulated(repo, tree, &[tip]) };
        // A squash does not hold the commits, and merging them again would change nothing.
        work.is_ok_and(|work| has(work) || changes_nothing(repo, commit, work))
    }
}

/// The tip of an agent, its tree, and the tree of all its work; `None` where that cannot be read.
fn now(ctx: &Ctx, agent: &Agent) -> Option<(Oid, Oid, Oid)> {
    let tip = tip_of(ctx, agent).ok()?;
    let committed = ctx.repo.read_commit(tip).ok()?.tree;
    let work = agent.branch.is_some().then(|| Work::look_up(ctx, agent.clone()));
    let tree = work.and_then(|work| work.ok()?.tree(ctx).ok());
    Some((tip, committed, tree.unwrap_or(committed)))
}

fn changes_nothing(repo: &Repo, commit: Oid, work: Oid) -> bool {
    let tree = repo.tree_of(commit).ok();
    let merged = repo.merge(commit, work).map(|merge| merge.result);
    matches!(merged, Ok(MergeResult::Clean { tree: merged }) if Some(merged) == tree)
}

/// Adds an audit to the row of the agent that it is about, unless that says it already. A new run of the auditor says it anew.
///
/// # Errors
/// Those of [`Ledger::append`](crate::store::ledger::Ledger::append).
pub(super) fn record(ctx: &Ctx, subject: &Agent, audit: &Audited) -> Result<()> {
    let ledger = ctx.ledger();
    let events = ledger.events(subject.spawn_commit)?;
    let last = events.iter().rev().find_map(|event| match &event.what {
        What::Audited(known) if known.auditor == audit.auditor => Some(known),
        _ => None,
    });
    let is_same = |known: &Audited| {
        (known.run, known.verdict, known.tip, known.tree)
            == (audit.run, audit.verdict, audit.tip, audit.tree)
    };
    // Verifying once more says nothing new, and a row is read whole each time.
    if last.is_some_and(is_same) {
        return Ok(());
    }
    let what = What::Audited(audit.clone());
    ledger.append(subject.spawn_commit, &ctx.actor()?, what, ctx.now()).map(drop)
}

/// Whether a train rejected this very work: the same tree, or one that differs from what it was begun on in the same way, as where
/// an update has brought what came to the base since.
pub(super) fn is_rejected_by_train(ctx: &Ctx, case: &Case<'_>) -> bool {
    let (agent, tree) = (&case.subject.agent, case.work.tree);
    let changed = |base: Oid, tip: Oid, tree: Oid| -> Option<Vec<_>> {
        let begun = ctx.repo.read_commit(ctx.repo.merge_base(base, tip).ok()??).ok()?;
        let changes = ctx.repo.differences(begun.tree, tree).ok()?.into_iter();
        Some(changes.map(|change| (change.path, change.new)).collect())
    };
    let ours = LazyCell::new(|| changed(case.subject.base?, case.subject.tip, tree));
    agent.rejections_by_trains().any(|said| {
        let is_accepted = || {
            let mut trains = agent.by_trains.iter();
            trains.any(|train| train.accepts(tree, said.into.as_deref()))
        };
        // What was rejected may be nowhere any more, and is then no other's work.
        let is_same = || ours.is_some() && changed(said.base, said.tip, said.tree) == *ours;
        said.tree == tree || (!is_accepted() && is_same())
    })
}
