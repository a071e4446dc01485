//! What is left to decide once every agent has its verdict.

use crate::domain::agent::State;
use crate::ops::agent_report::AgentRef;
use crate::ops::train::all::{Decision, Fate};
use crate::store::{briefing, layout};
use serde::Serialize;
use std::path::Path;

/// The close of a round of landings: there when an agent is still at work, or did not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CloseReport {
    /// Who is not finished; the round is not over before they are.
    pub running: Vec<AgentRef>,
    /// Who was turned down.
    pub rejected: Vec<AgentRef>,
    /// About whom the decision was put off.
    pub deferred: Vec<AgentRef>,
    /// Who failed, was refused in this round, or did work that a verdict rejected before.
    pub not_landed: Vec<AgentRef>,
    /// What has to be decided, once no agent is at work; absent where all who finished have landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The ways to answer it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
}

/// One way to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// `as-is`, `retry` or `close`.
    pub way: &'static str,
    /// What it means.
    pub what: &'static str,
    /// The commands that go this way.
    pub commands: Vec<String>,
}

/// Whether an agent did its work and a verdict rejected that: nothing goes on in it, so that there is nothing to wait for.
fn is_turned_back(one: &Decision) -> bool {
    one.outcome == Fate::Left(State::Idle) && one.verdict == Some("reject")
}

impl CloseReport {
    /// `None` when there is nothing to wait for and nothing to decide.
    pub(super) fn of(common_dir: &Path, decisions: &[Decision]) -> Option<CloseReport> {
        let with = |is: fn(&Decision) -> bool| -> Vec<AgentRef> {
            let those = decisions.iter().filter(|one| is(one));
            those.map(|one| one.agent.clone()).collect()
        };
        let mut close = CloseReport {
            running: with(|one| {
                let is_unfinished =
                    matches!(one.outcome, Fate::Left(state) if state.is_unfinished());
                is_unfinished && !is_turned_back(one)
            }),
            rejected: with(|one| one.outcome == Fate::Left(State::Rejected)),
            deferred: with(|one| one.outcome == Fate::Deferred),
            not_landed: with(|one| {
                one.outcome.is_refusal()
                    || one.outcome == Fate::Left(State::Failed)
                    || is_turned_back(one)
            }),
            question: None,
            ways: Vec::new(),
        };
        let left = close.rejected.len() + close.deferred.len() + close.not_landed.len();
        if left > 0 {
            let (noun, them) = if left == 1 {
                ("agent has", "it")
            } else {
                ("agents have", "them")
            };
            close.question = Some(format!("{left} {noun} not landed; close without {them}?"));
            close.ways = close.answers(common_dir);
        }
        (left > 0 || !close.running.is_empty()).then_some(close)
    }

    fn answers(&self, common_dir: &Path) -> Vec<Way> {
        let again = "git agent merge --all".to_owned();
        let mut retry: Vec<_> = self
            .rejected
            .iter()
            .map(|agent| spawn_again(common_dir, &agent.short_id))
            .collect();
        let verify = |agent: &AgentRef| format!("git agent verify {}", agent.short_id);
        retry.extend(self.not_landed.iter().map(verify));
        retry.push(again.clone());
        let way = |way, what, commands| Way {
            way,
            what,
            commands,
        };
        vec![
            way(
                "as-is",
                "open the pull request with what has landed",
                vec!["git push".to_owned()],
            ),
            way(
                "retry",
                "begin the rejected ones anew and mend the others, then land them",
                retry,
            ),
            way(
                "close",
                "close now and come back; all of it stays, and deferred agents land by their names",
                vec!["git agent list".to_owned()],
            ),
        ]
    }
}

/// A rejected agent stays rejected; its task is still there for another one. The file itself is not named: its agent may have
/// changed it, and `retry` notices that.
fn spawn_again(common_dir: &Path, short: &str) -> String {
    let task = layout::agents_dir(common_dir)
        .join(short)
        .join(briefing::TASK);
    if task.is_file() {
        format!("git agent retry {short}")
    } else {
        format!("git agent show {short}")
    }
}
