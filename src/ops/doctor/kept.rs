//! What rows say is kept: whether the keep chain holds it, and whether it is there at all.
//!
//! The chain makes it so, and the rows remember what was on it: salvages and tips, bundles that were judged,
//! the history that a squash left behind. Commits that only a reflog named when their agent was discarded stand
//! in no row.

use crate::agents::bundle::with_bundle_commit;
use crate::agents::ctx::Ctx;
use crate::domain::diagnosis::Sign;
use crate::domain::event::{Event, What};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Remedy, Result};
use crate::git::Repo;
use crate::ops::doctor::Finding;
use crate::ops::remedy::command;
use crate::store::keep;
use std::collections::{BTreeSet, HashSet};

/// What one row says is kept.
pub(super) struct Row {
    agent: AgentId,
    claims: Vec<Claim>,
}

/// One commit that a row says is kept.
#[derive(Clone, Copy)]
struct Claim {
    commit: Oid,
    kind: Kind,
    /// Whether it was kept in this clone. What another one kept may never have come here.
    own: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A salvage or a tip.
    Work,
    /// The judged bundle of that tree.
    Bundle(Oid),
    /// The tip of work that landed as that commit, which kept nothing if it was no squash of ours.
    Landed(Oid),
}

/// What all rows say. It is kept before a row says so, so rows are read before the chain.
pub(super) fn rows(ctx: &Ctx) -> Result<Vec<Row>> {
    let ledger = ctx.ledger();
    let own = ledger.clone_number()?;
    let rows = ledger.select(|spawn_commit, events| {
        let agent = AgentId::from_spawn_commit(spawn_commit);
        Some(claims(events, own).map(|claims| Row { agent, claims }))
    })?;
    rows.into_iter().collect()
}

fn claims(events: &[Event], own: Option<u16>) -> Result<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut tip = None;
    for event in events {
        let (commit, kind) = match &event.what {
            What::Discarded { tip: Some(commit) } | What::Salvaged { commit } => {
                (*commit, Kind::Work)
            }
            What::Verified(verdict) => {
                tip = Some(verdict.tip);
                let Some(tree) = verdict.bundle else { continue };
                let commit = with_bundle_commit(tree, |commit| commit.oid())?;
                (commit, Kind::Bundle(tree))
            }
            What::Committed { commit, .. } => {
                tip = Some(*commit);
                continue;
            }
            What::Merged { commit, .. } => match tip {
                Some(tip) => (tip, Kind::Landed(*commit)),
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
pub(super) fn look(
    ctx: &Ctx,
    rows: Vec<Row>,
    kept: &HashSet<Oid>,
    elsewhere: &mut BTreeSet<AgentId>,
) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for Row { agent, mut claims } in rows {
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
            Kind::Bundle(tree) => tree,
            Kind::Work | Kind::Landed(_) => self.commit,
        };
        // Of another clone's objects it is enough to look at what is open: most were never fetched,
        // and looking for each among new packs takes long.
        repo.is_at_hand(object) || self.own && repo.has_object(object)
    }

    /// Whether the chain ever held it: of work that landed, only what a squash of ours left behind.
    fn was_kept(&self, repo: &Repo, agent: AgentId) -> Result<bool> {
        let Kind::Landed(landed) = self.kind else {
            return Ok(true);
        };
        let Ok(commit) = repo.read_commit(landed) else {
            return Ok(false);
        };
        let ours = commit.trailer("Agent-Id") == Some(agent.to_string().as_str());
        // A merge commit holds the tip as its parent, so nothing had to be kept of it.
        Ok(ours && commit.parents.len() == 1 && !repo.is_ancestor(self.commit, landed)?)
    }

    /// What to say about something that was kept here and is not in the repository any more.
    fn gone(&self, agent: AgentId) -> Option<Finding> {
        let what = match self.kind {
            Kind::Work => "work",
            Kind::Bundle(_) => "a bundle",
            // The squash holds what it changed.
            Kind::Landed(_) => return None,
        };
        self.own.then(|| {
            Finding::report(
                Sign::KeptGone,
                format!(
                    "{what} of agent {} that was kept as {} is gone",
                    agent.short(),
                    self.commit
                ),
                command(&Remedy::SynchroniseAll),
            )
        })
    }
}

fn keep_again(agent: AgentId, claims: Vec<Claim>) -> Finding {
    let count = match claims.len() {
        1 => "a commit".to_owned(),
        count => format!("{count} commits"),
    };
    let what = format!(
        "nothing keeps {count} that the row of agent {} says is kept",
        agent.short()
    );
    Finding::curable(Sign::WorkNotKept, what, move |ctx| {
        let mut commits = Vec::new();
        for claim in &claims {
            if let Kind::Bundle(tree) = claim.kind {
                with_bundle_commit(tree, |commit| ctx.repo.write_commit(commit))?;
            }
            commits.push(claim.commit);
        }
        let only_bundles = claims
            .iter()
            .all(|claim| matches!(claim.kind, Kind::Bundle(_)));
        let kind = if only_bundles { "bundle" } else { "discard" };
        let link = keep::keep(&ctx.repo, &commits, &format!("{kind} {agent}"), ctx.now())?;
        Ok(format!("kept {count} by {link}"))
    })
}
