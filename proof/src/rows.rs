//! Rows of agents: real events, which the product's own fold reads.

use chrono::{DateTime, TimeDelta};
use git_agent::domain::life::agent::Agent;
use git_agent::domain::life::event::{Base, Event, Isolation, Spawned, Spawning, Verified, What};
use git_agent::domain::life::id::{AgentId, OperationId};
use git_agent::domain::value::oid::Oid;
use git_agent::domain::value::stamp::Stamp;

/// The number of the one clone whose rows these are.
const CLONE: u16 = 7;

/// A commit that is known by a number.
pub fn oid(number: u8) -> Oid {
    Oid::from_bytes([number; 20])
}

/// What happened, as small as a state of a model needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Said {
    Done,
    Failed,
    Deferred,
    /// Its work landed by that commit.
    Merged(u8),
    /// What that operation decided was taken back.
    Undone(u8),
    Discarded,
}

/// A line of a row: the number of the operation that wrote it, and what it says.
pub type Line = (u8, Said);

/// The name of an operation that is known by a number.
fn operation(number: u8) -> OperationId {
    OperationId::parse(&format!("op-{number:012x}")).expect("an id")
}

/// The agent of that number, as its row tells it: it was spawned, judged and accepted, and then what the lines say happened.
pub fn fold(agent: u8, lines: &[Line]) -> Agent {
    let spawn_commit = oid(200 + agent);
    let begins = [
        What::Spawning(Spawning {
            role: "edit-local".into(),
            isolation: Isolation::Worktree,
            description: "A task".into(),
            name: None,
            parent: None,
            base: Base { refname: None, oid: oid(0) },
            dna: "sha256:00".into(),
            branch: Some(format!("refs/heads/agent/{agent}")),
            worktree: None,
            pid: 1,
        }),
        What::Spawned(Spawned { policy: oid(1), spec_sha: "00".into(), baseline: None }),
        What::Verified(Verified {
            accepted: true,
            tip: oid(1),
            tree: oid(1),
            base: oid(0),
            merged_tree: None,
            bundle: None,
            policy: oid(1),
            findings: Vec::new(),
            fails_with: None,
            into: None,
        }),
    ];
    let begins = begins.into_iter().map(|what| (None, what));
    let told = lines.iter().map(|(number, said)| {
        let reason = String::from("for a reason");
        let what = match said {
            Said::Done => What::Done { summary: reason, whole: None },
            Said::Failed => What::Failed { reason, whole: None },
            Said::Deferred => What::Deferred { reason, whole: None },
            Said::Merged(commit) => What::Merged {
                commit: oid(*commit),
                into: "refs/heads/main".into(),
                tip: None,
                from: None,
            },
            Said::Undone(undone) => What::Undone { operation: operation(*undone), revert: None },
            Said::Discarded => What::Discarded { tip: None },
        };
        (Some(operation(*number)), what)
    });
    let mut events: Vec<Event> = Vec::new();
    for (at, (operation, what)) in begins.chain(told).enumerate() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::seconds(at as i64);
        events.push(Event {
            at: Stamp::next(now, CLONE, events.last().map(|event| event.at)),
            agent: AgentId::from_spawn_commit(spawn_commit),
            by: "user".into(),
            operation,
            previous: None,
            ahead: Vec::new(),
            what,
        });
    }
    Agent::fold(spawn_commit, &events).expect("a row of its own")
}
