//! How an agent began, where its row says it more than once.
//!
//! Rows travel, and any clone that can push the ledger can add lines to one. What the spawn commit says cannot be added to:
//! the agent's id is made from it. It names role, fingerprint, base and the digest of the policy. Of several `spawning`
//! and `spawned` events those that fit it are believed, and they come first, because the agent was unknown before
//! they were written. The others are left out of the fold and counted; they stay in the row.
//!
//! Where nothing fits, or the spawn commit is not here or says nothing of the policy, the row is folded as it stands, and
//! a contradiction puts its beginning in doubt ([`Agent::origin_in_doubt`]).

use super::row::Row;
use super::spawn_commit::SpawnCommit;
use crate::domain::agent::Agent;
use crate::domain::event::{Event, Spawned, Spawning, What};
use crate::domain::oid::Oid;
use crate::git::Repo;
use crate::git::objects::Commit;
use crate::wire::policy::{Policy, TRAILER};

/// The agent that a row makes; `None` where no event is its own.
pub(super) fn fold(repo: &Repo, spawn_commit: Oid, row: &Row<'_>) -> Option<Agent> {
    if is_plain(&row.events) {
        return Agent::fold(spawn_commit, &row.events);
    }
    let Some((events, sentences)) = settled(repo, spawn_commit, row) else {
        return Agent::fold(spawn_commit, &row.events);
    };
    let mut agent = Agent::fold(spawn_commit, &events)?;
    sentences.into_iter().for_each(|it| agent.doubt(it));
    Some(agent)
}

/// Whether the row begins as every spawn of ours begins one, and nothing says it again.
pub(super) fn is_plain(events: &[Event]) -> bool {
    let is_spawning = |event: &Event| matches!(event.what, What::Spawning(_));
    let is_spawned = |event: &Event| matches!(event.what, What::Spawned(_));
    let mut events = events.iter();
    events.next().is_none_or(is_spawning)
        && events.next().is_none_or(|second| {
            let again = |event| is_spawning(event) || is_spawned(event);
            !is_spawning(second) && !events.any(again)
        })
}

/// The events to fold, with what is believed of the beginning in front, and what is not believed in words.
fn settled(repo: &Repo, spawn_commit: Oid, row: &Row<'_>) -> Option<(Vec<Event>, Vec<String>)> {
    let commit = repo.read_commit(spawn_commit).ok()?;
    let spawned = spawned(repo, &commit, row);
    let spawning = spawning(repo, &commit, row, spawned)?;
    let believed = spawned.and_then(|index| match &row.events[index].what {
        What::Spawned(facts) => Some(facts),
        _ => None,
    });
    let mut forged = [0usize; 2];
    let mut early = 0usize;
    let first = [Some(spawning), spawned];
    let mut events: Vec<Event> = { first.iter().flatten() }
        .map(|&index| row.events[index].clone())
        .collect();
    for (index, event) in row.events.iter().enumerate() {
        if first.contains(&Some(index)) {
            continue;
        }
        match &event.what {
            What::Spawning(_) => forged[0] += 1,
            What::Spawned(facts)
                if believed.is_some_and(|known| is_other(repo, &commit, known, facts)) =>
            {
                forged[1] += 1;
            }
            _ => {
                early += usize::from(index < spawning);
                events.push(event.clone());
            }
        }
    }
    let mut sentences = Vec::new();
    for (count, kind) in forged.into_iter().zip(["spawning", "spawned"]) {
        if count > 0 {
            sentences.push(format!(
                "{count} more of its events say `{kind}`; the one that fits the spawn commit is believed"
            ));
        }
    }
    if early > 0 {
        sentences.push(format!("{early} of its events are dated before it began"));
    }
    Some((events, sentences))
}

/// The first `spawned` event that fits the spawn commit.
fn spawned(repo: &Repo, commit: &Commit, row: &Row<'_>) -> Option<usize> {
    row.events.iter().position(|event| match &event.what {
        What::Spawned(facts) => fits(repo, commit, facts),
        _ => false,
    })
}

/// The `spawning` event that fits the spawn commit: of several, the one that the believed `spawned` event follows, else
/// the first.
fn spawning(repo: &Repo, commit: &Commit, row: &Row<'_>, spawned: Option<usize>) -> Option<usize> {
    let fitting: Vec<usize> = (0..row.events.len())
        .filter(|&index| match &row.events[index].what {
            What::Spawning(facts) => began_as(repo, commit, facts),
            _ => false,
        })
        .collect();
    let previous = spawned.and_then(|index| row.events[index].previous.clone());
    let followed = |index: &&usize| previous.as_ref() == Some(&row.digest(**index));
    let first = fitting.first();
    match fitting.len() {
        0 | 1 => first.copied(),
        _ => fitting.iter().find(followed).or(first).copied(),
    }
}

/// Whether the spawn commit was made for the policy that the event names.
fn fits(repo: &Repo, commit: &Commit, facts: &Spawned) -> bool {
    let Some(digest) = commit.trailer(TRAILER) else {
        return false;
    };
    let policy = repo.read_blob(facts.policy).ok();
    let policy = policy.and_then(|bytes| Policy::from_bytes(&bytes));
    policy.is_some_and(|policy| policy.digest() == digest && policy.spec_sha == facts.spec_sha)
}

/// Whether the spawn commit says the same as a `spawning` event, as far as it says anything.
fn began_as(repo: &Repo, commit: &Commit, facts: &Spawning) -> bool {
    let base = facts.base.oid.to_hex();
    let said = [
        ("Agent-Role", facts.role.as_str()),
        ("Agent-Dna", &facts.dna),
        ("Agent-Base", &base),
    ];
    let agrees = |(name, value): (&str, &str)| commit.trailer(name) == Some(value);
    // The trailers are those of every version; a policy in the spawn commit says more.
    let carried = SpawnCommit::read(repo, commit.oid).ok().flatten();
    said.into_iter().all(agrees)
        && carried.is_none_or(|carried| {
            carried.terms.isolation == facts.isolation.as_str()
                && carried.terms.base_ref == facts.base.refname
        })
}

/// Whether another `spawned` event is certainly not the one that bound the agent. Two that fit the spawn commit and name
/// different specifications contradict each other, and the fold is to say so.
fn is_other(repo: &Repo, commit: &Commit, known: &Spawned, other: &Spawned) -> bool {
    known != other && (known.policy == other.policy || !fits(repo, commit, other))
}
