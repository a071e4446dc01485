//! The shared refs (ledger, keep chain, mailbox), each as a whole: its ref, what foreign writers dropped, the
//! commits that its rows are on.

use crate::agents::Ctx;
use crate::agents::upkeep::spool::{sweep_spools, uncollected};
use crate::agents::work::bundle::with_bundle_commit;
use crate::domain::judge::diagnosis::Sign;
use crate::domain::value::stamp::is_ahead;
use crate::domain::{Agent, AgentId, Event, Oid, State, What};
use crate::error::{Remedy, Result};
use crate::git::{Repo, record::notes};
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::{DOCTOR, DoctorFinding};
use crate::ops::error_report::remedy_command;
use crate::store::chain::recovery::{self, Condition};
use crate::store::files::{layout, lock};
use crate::store::landing::landed::landed_at;
use crate::store::ledger::{self, LEFT_BEHIND};
use crate::store::{Chain, chain, chain::keep};
use std::collections::{BTreeMap, BTreeSet, HashSet};

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    match recovery::condition(&ctx.repo, Chain::Ledger)? {
        Condition::Sound => content(ctx, survey),
        Condition::Damaged => {
            let damaged = DoctorFinding::curable(
                Sign::LedgerDamaged,
                format!("{} leads to nothing whole; its reflog does", Chain::Ledger.refname()),
                |ctx| {
                    recovery::repair(&ctx.repo, Chain::Ledger, ctx.now())?;
                    Ok("wrote down what the reflog gave back".to_owned())
                },
            );
            // The rest may need what cannot be read before that is mended.
            let rest = content(ctx, survey).unwrap_or_default();
            Ok([damaged].into_iter().chain(rest).collect())
        }
        // Nothing else can be said of a ledger that cannot be read.
        Condition::Lost => Ok(vec![DoctorFinding::report(
            Sign::LedgerLost,
            format!("{} and its reflog lead to nothing readable", Chain::Ledger.refname()),
            super::TAKE_OVER.to_owned(),
        )]),
    }
}

/// What is amiss with the lines and the rows of a ledger that can be read.
fn content(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    let mut dropped = chain::foreign_writes(&ctx.repo)?.dropped.len();
    if dropped > 0 {
        // A write of ours changes the reflog first and the ref then, so this is asked once more while there is none. Where no lock can be
        // taken, nothing of ours writes.
        let _alone = lock::hold(ctx.repo.common_dir(), layout::LEDGER_LOCK).ok();
        dropped = chain::foreign_writes(&ctx.repo)?.dropped.len();
    }
    if dropped > 0 {
        let what = format!("{dropped} notes lack lines that foreign writers dropped");
        found.push(DoctorFinding::curable(Sign::LinesDropped, what, move |ctx| {
            let restored = chain::restore_foreign(&ctx.repo, ctx.now())?;
            Ok(if restored.changed {
                format!("brought back the lines of {dropped} notes")
            } else {
                "nothing was missing any more".to_owned()
            })
        }));
    }
    if let Some(tip) = chain::tip(&ctx.repo, Chain::Ledger)? {
        for (note, blob) in notes::all(&ctx.repo, tip.tree)? {
            if notes::read_note(&ctx.repo, blob)?.is_none() {
                found.push(DoctorFinding::report(
                    Sign::NoteTooLarge,
                    format!("the note on commit {note} is too large to be a row"),
                    format!("git log {}", Chain::Ledger.refname()),
                ));
            }
        }
    }
    let ahead = survey.rows().iter().filter(|agent| is_ahead(agent.updated, ctx.now()));
    found.extend(ahead.map(|agent| {
        let (short, date) = (agent.id.short(), agent.updated.format("%Y-%m-%d"));
        DoctorFinding::report(
            Sign::ClockAhead,
            format!("the last event of agent {short} is dated {date}, ahead of the clock"),
            format!("git agent show --log {short}"),
        )
    }));
    found.extend(unproven(ctx, survey.rows())?);
    // The rows of another clone come without their commits until those are fetched.
    let gone = survey
        .rows()
        .iter()
        .filter(|agent| survey.is_local(agent) && !ctx.repo.has_object(agent.spawn_commit));
    found.extend(gone.map(|agent| {
        DoctorFinding::report(
            Sign::SpawnCommitGone,
            format!(
                "the row of agent {} is on commit {}, which is gone",
                agent.id.short(),
                agent.spawn_commit
            ),
            remedy_command(&Remedy::SynchroniseAll),
        )
    }));
    Ok(found)
}

/// A sentence for a ledger that another writer has just taken lines from; `None` for every other, and where that
/// cannot be told.
pub fn overwritten(ctx: &Ctx) -> Option<String> {
    let is_overwritten = chain::is_overwritten(&ctx.repo).unwrap_or(false);
    is_overwritten.then(|| {
        format!(
            "{} was overwritten, as by git fetch with a `+` before the refspec, and lacks events that were \
             recorded in this clone; to restore them, run {DOCTOR}",
            Chain::Ledger.refname()
        )
    })
}

/// How many agents a finding names.
const NAMED: usize = 8;

/// Landings that rows claim and nothing in this clone shows.
fn unproven(ctx: &Ctx, agents: &[Agent]) -> Result<Option<DoctorFinding>> {
    // History that ends early proves nothing either way.
    if ctx.repo.is_shallow() {
        return Ok(None);
    }
    let mut claims: BTreeMap<&str, Vec<(&Agent, Oid)>> = BTreeMap::new();
    for agent in agents.iter().filter(|agent| agent.state == State::Merged) {
        if let Some((commit, into)) = &agent.landed {
            claims.entry(into).or_default().push((agent, *commit));
        }
    }
    // Of an agent that has a worktree or a branch here, the work itself was looked for already, and not found.
    let mut unproven = Vec::new();
    for agent in agents.iter().filter(|agent| agent.claimed == Some(State::Merged)) {
        let events = ctx.ledger().events(agent.spawn_commit)?;
        let claimed = events.iter().rev().find_map(|event| match event.what {
            What::Merged { commit, .. } => Some(commit),
            _ => None,
        });
        unproven.extend(claimed.map(|commit| (agent, commit)));
    }
    for (into, claims) in claims {
        let local = ctx.repo.tip(into)?.oid();
        let fetched = ctx.repo.fetched_branches(into)?;
        let fetched = fetched.into_iter().map(|(_, tip)| tip);
        // A branch that was renamed is mostly the one that is checked out.
        let head = || Some(ctx.repo.resolve_commit("HEAD").ok()?.commit);
        // A forge may have landed it where only the remote's branch shows it.
        let tips: Vec<Oid> = local.or_else(head).into_iter().chain(fetched).collect();
        let there: Vec<Oid> = claims
            .iter()
            .map(|(_, commit)| *commit)
            .filter(|commit| ctx.repo.has_object(*commit))
            .collect();
        let elsewhere = ctx.repo.unreachable(&there, &tips)?;
        let is_shown = |commit: &Oid| there.contains(commit) && !elsewhere.contains(commit);
        let mut claims: Vec<_> =
            claims.into_iter().filter(|(_, commit)| !is_shown(commit)).collect();
        // The branch may have the work by another commit than the one that brought it, as after a `git commit --amend`.
        for tip in &tips {
            let here = claims.iter().filter_map(|(agent, _)| Some((*agent, agent.landed_tip?)));
            let here = here.filter(|(_, landed)| ctx.repo.has_object(*landed));
            let questions = here.map(|(agent, landed)| (agent, landed, *tip)).collect();
            let answers = landed_at(&ctx.repo, questions);
            claims.retain(|(agent, _)| !matches!(answers.get(&agent.id), Some(Ok(true))));
        }
        unproven.extend(claims);
    }
    let Some((first, _)) = unproven.first() else {
        return Ok(None);
    };
    let mut named = Vec::new();
    for (agent, commit) in unproven.iter().take(NAMED) {
        let events = ctx.ledger().events(agent.spawn_commit)?;
        let mut claims = events.iter().rev();
        let claim = claims.find(|event| matches!(event.what, What::Merged { .. }));
        let by = claim.map_or("", |event| event.by.as_str());
        named.push(format!("{} as {} by {by}", agent.id.short(), commit.short()));
    }
    let more = match unproven.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "rows claim landings that no branch in this clone shows: {}{more}",
        named.join(", ")
    );
    let command = format!("git agent show --log {}", first.id.short());
    Ok(Some(DoctorFinding::report(Sign::LandingUnproven, what, command)))
}

// What rows say is kept: whether the keep chain holds it, and whether it is there at all.
//
// The chain makes it so, and the rows remember what was on it: salvages and tips, bundles that were judged,
// the history that a squash left behind. Commits that only a reflog named when their agent was discarded stand
// in no row.

/// What one row says is kept.
struct KeptRow {
    agent: AgentId,
    claims: Vec<Claim>,
}

/// One commit that a row says is kept.
#[derive(Clone, Copy)]
struct Claim {
    commit: Oid,
    kind: LedgerProblem,
    /// Whether it was kept in this clone. What another one kept may never have come here.
    own: bool,
}

#[derive(Clone, Copy)]
enum LedgerProblem {
    /// A salvage or a tip.
    Work,
    /// The judged bundle of that tree.
    Bundle(Oid),
    /// The tip of work that landed as that commit, which kept nothing if it was no squash of ours.
    Landed(Oid),
}

/// What all rows say. It is kept before a row says so, so rows are read before the chain.
fn rows_with_claims(ctx: &Ctx) -> Result<Vec<KeptRow>> {
    let ledger = ctx.ledger();
    let own = ledger.clone_number()?;
    let rows = ledger.select(|spawn_commit, events| {
        let agent = AgentId::from_spawn_commit(spawn_commit);
        Some(claims(events, own).map(|claims| KeptRow { agent, claims }))
    })?;
    rows.into_iter().collect()
}

fn claims(events: &[Event], own: Option<u16>) -> Result<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut tip = None;
    for event in events {
        let (commit, kind) = match &event.what {
            What::Discarded { tip: Some(commit) } | What::Salvaged { commit } => {
                (*commit, LedgerProblem::Work)
            }
            What::Verified(verdict) => {
                tip = Some(verdict.tip);
                let Some(tree) = verdict.bundle else { continue };
                let commit = with_bundle_commit(tree, |commit| commit.oid())?;
                (commit, LedgerProblem::Bundle(tree))
            }
            What::Committed { commit, .. } => {
                tip = Some(*commit);
                continue;
            }
            // An update between two landings is committed, and not what landed.
            What::Merged { commit, tip: last, .. } => match last.or(tip) {
                Some(tip) => (tip, LedgerProblem::Landed(*commit)),
                None => continue,
            },
            What::Expired { commits } => {
                // What expired was let go of on purpose.
                claims.retain(|claim| !commits.contains(&claim.commit));
                continue;
            }
            _ => continue,
        };
        // Work that was judged twice as it was is kept once.
        if !claims.iter().any(|claim| claim.commit == commit) {
            let own = own == Some(event.at.clone_number());
            claims.push(Claim { commit, kind, own });
        }
    }
    Ok(claims)
}

/// Compares what the rows say with what the chain holds. `elsewhere` gets the agents of which other clones kept something.
fn examine_kept(
    ctx: &Ctx,
    rows: Vec<KeptRow>,
    kept: &HashSet<Oid>,
    elsewhere: &mut BTreeSet<AgentId>,
) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for KeptRow { agent, mut claims } in rows {
        claims.retain(|claim| {
            let is_spawn = AgentId::from_spawn_commit(claim.commit) == agent;
            !is_spawn && !kept.contains(&claim.commit)
        });
        let mut loose = Vec::new();
        for claim in claims {
            if !claim.is_here(&ctx.repo) {
                found.extend(claim.gone(agent));
            } else if claim.was_kept(&ctx.repo, agent)? {
                if claim.own {
                    loose.push(claim);
                } else {
                    elsewhere.insert(agent);
                }
            }
        }
        if !loose.is_empty() {
            found.push(keep_again(agent, loose));
        }
    }
    Ok(found)
}

impl Claim {
    /// Whether it can be kept again. Packs that have come since the repository was opened are asked only about
    /// what has to be here: in a clone that fetched many rows, looking for the rest is most of the work.
    fn is_here(&self, repo: &Repo) -> bool {
        let object = match self.kind {
            LedgerProblem::Bundle(tree) => tree,
            LedgerProblem::Work | LedgerProblem::Landed(_) => self.commit,
        };
        // Of another clone's objects it is enough to look at what is open: most were never fetched,
        // and looking for each among new packs takes long.
        let is_here = repo.is_at_hand(object) || self.own && repo.has_object(object);
        // Kept again, one that is not whole would make git fail.
        let is_work = self.own && matches!(self.kind, LedgerProblem::Work) && !repo.is_partial();
        is_here && (!is_work || repo.is_whole(object).unwrap_or(true))
    }

    /// Whether the chain ever held it: of work that landed, only what a squash of ours left behind.
    fn was_kept(&self, repo: &Repo, agent: AgentId) -> Result<bool> {
        let LedgerProblem::Landed(landed) = self.kind else {
            return Ok(true);
        };
        let Ok(commit) = repo.read_commit(landed) else {
            return Ok(false);
        };
        // A copy of the agent's own commit, as a cherry-pick makes one, has the trailer too.
        let is_copy = repo.read_commit(self.commit).is_ok_and(|tip| {
            let by =
                [self.commit, landed].map(|oid| repo.read_raw_commit(oid).ok()?.header("author"));
            tip.message == commit.message && by[0] == by[1]
        });
        let ours = !is_copy && commit.trailer("Agent-Id") == Some(agent.to_string().as_str());
        // A merge commit holds the tip as its parent, so nothing had to be kept of it.
        Ok(ours && commit.parents.len() == 1 && !repo.is_ancestor(self.commit, landed)?)
    }

    /// What to say about something that was kept here and is not in the repository any more.
    fn gone(&self, agent: AgentId) -> Option<DoctorFinding> {
        let what = match self.kind {
            LedgerProblem::Work => "work",
            LedgerProblem::Bundle(_) => "a bundle",
            // The squash holds what it changed.
            LedgerProblem::Landed(_) => return None,
        };
        self.own.then(|| {
            DoctorFinding::report(
                Sign::KeptGone,
                format!(
                    "{what} of agent {} that was kept as {} is gone",
                    agent.short(),
                    self.commit
                ),
                remedy_command(&Remedy::SynchroniseAll),
            )
        })
    }
}

fn keep_again(agent: AgentId, claims: Vec<Claim>) -> DoctorFinding {
    let count = match claims.len() {
        1 => "a commit".to_owned(),
        count => format!("{count} commits"),
    };
    let what =
        format!("nothing keeps {count} that the row of agent {} says is kept", agent.short());
    DoctorFinding::curable(Sign::WorkNotKept, what, move |ctx| {
        let mut commits = Vec::new();
        for claim in &claims {
            if let LedgerProblem::Bundle(tree) = claim.kind {
                with_bundle_commit(tree, |commit| ctx.repo.write_commit(commit))?;
            }
            commits.push(claim.commit);
        }
        let only_bundles =
            claims.iter().all(|claim| matches!(claim.kind, LedgerProblem::Bundle(_)));
        let kind = if only_bundles { "bundle" } else { "discard" };
        let link = keep::keep(&ctx.repo, &commits, &format!("{kind} {agent}"), ctx.now())?;
        Ok(format!("kept {count} by {link}"))
    })
}

// The keep chain: its ref, and the spawn commits and the work that it must hold.

/// How many agents a finding names.
const NAMED_AGENTS: usize = 4;

pub(super) fn examine_keep(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    match recovery::condition(&ctx.repo, Chain::Keep)? {
        Condition::Sound => {}
        Condition::Damaged => {
            let what =
                format!("{} leads to nothing readable; its reflog does", Chain::Keep.refname());
            let cure = |ctx: &Ctx| {
                recovery::repair(&ctx.repo, Chain::Keep, ctx.now())?;
                Ok("wrote down what the reflog gave back".to_owned())
            };
            return Ok(vec![DoctorFinding::curable(Sign::KeepDamaged, what, cure)]);
        }
        Condition::Lost => {
            return Ok(vec![DoctorFinding::report(
                Sign::KeepDamaged,
                format!("{} and its reflog lead to nothing readable", Chain::Keep.refname()),
                crate::ops::doctor::TAKE_OVER.to_owned(),
            )]);
        }
    }
    // Rows that cannot be read claim nothing, and their family says so.
    let rows = match survey.agents {
        Some(_) => rows_with_claims(ctx)?,
        None => Vec::new(),
    };
    // After the rows, which speak of what was kept before.
    let held = keep::kept(&ctx.repo)?;
    // What another clone keeps, this one need not: without `agent.sync all` the branches of its agents come alone.
    let (here, elsewhere): (Vec<_>, Vec<_>) = survey
        .rows()
        .iter()
        .filter(|agent| !held.contains(&agent.spawn_commit))
        .filter(|agent| ctx.repo.has_object(agent.spawn_commit))
        .partition(|agent| survey.is_local(agent) || survey.worktree(agent).is_some());
    let mut elsewhere: BTreeSet<_> = elsewhere.into_iter().map(|agent| agent.id).collect();
    let findings = here.into_iter().map(|agent| {
        let agent = agent.clone();
        let what = format!("nothing keeps the spawn commit of agent {}", agent.id.short());
        DoctorFinding::curable(Sign::NotKept, what, move |ctx| {
            let why = format!("spawn {}", agent.id);
            // A spawn keeps these with its commit; what is written again keeps as much.
            let blobs = bound_by(ctx, &agent);
            let link = keep::keep_with(&ctx.repo, &[agent.spawn_commit], &blobs, &why, ctx.now())?;
            Ok(format!("kept {} by {link}", agent.spawn_commit))
        })
    });
    let mut findings: Vec<_> = findings.collect();
    findings.extend(examine_kept(ctx, rows, &held, &mut elsewhere)?);
    findings.extend(kept_elsewhere(&elsewhere));
    if !keep::is_whole(&ctx.repo)? {
        let what = format!("{} leads to objects that are missing", Chain::Keep.refname());
        findings.push(DoctorFinding::curable(Sign::KeepIncomplete, what, |ctx| {
            let count = keep::mend(&ctx.repo, ctx.now())?;
            Ok(format!("kept copies of {count} commits without what is missing"))
        }));
    }
    Ok(findings)
}

/// One line for all agents: a clone of a busy remote has rows of thousands.
fn kept_elsewhere(agents: &BTreeSet<AgentId>) -> Option<DoctorFinding> {
    let named: Vec<_> = agents.iter().take(NAMED_AGENTS).map(|agent| agent.short()).collect();
    let more = match agents.len().saturating_sub(NAMED_AGENTS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "what is kept of agents of other clones is not kept here: {}{more}",
        named.join(", ")
    );
    let command = remedy_command(&Remedy::SynchroniseAll);
    (!agents.is_empty()).then(|| DoctorFinding::report(Sign::KeptElsewhere, what, command))
}

/// What bound the agent, as far as it is still there.
fn bound_by(ctx: &Ctx, agent: &Agent) -> Vec<(&'static str, Oid)> {
    let named = [
        ("baseline.json", agent.baseline),
        ("policy.json", agent.policy),
        ("amended.json", agent.amended),
    ];
    // One that is not here cannot be kept, and would fail the rest.
    let is_here = |oid: &Oid| ctx.repo.has_object(*oid);
    let here = |(name, oid): (&'static str, Option<Oid>)| Some((name, oid.filter(is_here)?));
    named.into_iter().filter_map(here).collect()
}

// The mailbox: its refs, and what waits in spools without a process to collect it.

pub(super) fn examine_mail(ctx: &Ctx, _survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for chain in [Chain::Mail, Chain::Receipts] {
        let refname = chain.refname();
        match recovery::condition(&ctx.repo, chain)? {
            Condition::Sound => {
                let left = chain::left_behind(&ctx.repo, chain)?;
                if !left.is_empty() {
                    let what = format!(
                        "another program moved {refname} away from what it held; its reflog has that"
                    );
                    found.push(DoctorFinding::curable(Sign::MailDamaged, what, move |ctx| {
                        for old in &left {
                            ledger::unite_with(&ctx.repo, chain, *old, LEFT_BEHIND, ctx.now())?;
                        }
                        Ok("brought back what it held".to_owned())
                    }));
                }
            }
            Condition::Damaged => found.push(DoctorFinding::curable(
                Sign::MailDamaged,
                format!("{refname} leads to nothing whole; its reflog does"),
                move |ctx| {
                    recovery::repair(&ctx.repo, chain, ctx.now())?;
                    Ok("wrote down what the reflog gave back".to_owned())
                },
            )),
            Condition::Lost => found.push(DoctorFinding::report(
                Sign::MailLost,
                format!("{refname} and its reflog lead to nothing readable"),
                crate::ops::doctor::TAKE_OVER.to_owned(),
            )),
        }
    }
    let agents = uncollected(ctx)?;
    if !agents.is_empty() {
        let ids: Vec<_> = agents.iter().map(|agent| agent.id.short()).collect();
        let what = format!("messages wait in the spools of agents {}", ids.join(", "));
        found.push(DoctorFinding::curable(Sign::SpoolWaiting, what, |ctx| {
            // As much at a time as one moment allows.
            let mut posted = 0;
            loop {
                match sweep_spools(ctx)? {
                    0 => break,
                    more => posted += more,
                }
            }
            Ok(format!("posted {posted} messages"))
        }));
    }
    Ok(found)
}
