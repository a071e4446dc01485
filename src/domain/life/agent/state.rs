//! The states of an agent and the moves between them.

use super::Agent;
use crate::domain::life::event::{Exited, Verified};
use crate::domain::value::named::named;

named! {
    /// Where an agent stands.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum State {
        /// Half made: a spawn is under way or was interrupted.
        Spawning = "spawning",
        /// Spawned, and nothing has worked in it.
        Ready = "ready",
        /// A process of ours or a session of an agent host works in it.
        Running = "running",
        /// That session waits for an answer or a permission. No row says so: it is seen, not recorded.
        Waiting = "waiting",
        /// Work was done, nothing runs, and nothing was declared that still stands.
        Idle = "idle",
        /// Finished: by declaration, because its last run succeeded, or by an accepting verdict.
        Done = "done",
        /// Failed: by declaration, or because its last run did not succeed.
        Failed = "failed",
        /// Landed.
        Merged = "merged",
        /// Turned down; the branch stays.
        Rejected = "rejected",
        /// Removed; what it held is under the keep chain.
        Discarded = "discarded",
    }
}

impl State {
    /// Whether the agent is neither landed nor discarded, so that its work is still open.
    pub fn is_open(self) -> bool {
        !matches!(self, State::Merged | State::Discarded)
    }

    /// Whether the agent's work may still land.
    pub fn is_live(self) -> bool {
        use State::{Done, Failed, Idle, Ready, Running, Waiting};
        matches!(self, Ready | Running | Waiting | Idle | Done | Failed)
    }

    /// Whether the agent was not said to be finished yet, by anything that counts.
    pub fn is_unfinished(self) -> bool {
        self.is_live() && !matches!(self, State::Done | State::Failed)
    }

    /// The state that `step` leads to from here; `None` when it is not legal here. The same declaration is not made
    /// twice: `declared` says whether this state is one.
    pub(super) fn after(self, step: Move, declared: bool) -> Option<State> {
        use State::{
            Discarded, Done, Failed, Idle, Merged, Ready, Rejected, Running, Spawning, Waiting,
        };
        if declared && matches!((self, step), (Done, Move::Done) | (Failed, Move::Fail)) {
            return None;
        }
        match (self, step) {
            (Spawning, Move::Ready) => Some(Ready),
            // Work after a landing re-opens the agent.
            (Ready | Running | Idle | Done | Failed | Merged, Move::Start) => Some(Running),
            (Running, Move::Reopen) => Some(Running),
            (Ready | Idle | Done | Merged, Move::Reopen) => Some(Idle),
            (Ready | Running | Idle | Done | Failed, Move::Done) => Some(Done),
            (Ready | Running | Idle | Done | Failed, Move::Fail) => Some(Failed),
            // A verdict is about the work as it is. It neither ends a run nor takes back that the agent, or its run,
            // failed: that stands until a person says otherwise or a new run begins.
            (Running | Failed, Move::Accept | Move::Reject) | (Failed, Move::Reopen) => Some(self),
            (Ready | Idle | Done, Move::Accept) => Some(Done),
            (Ready | Idle | Done, Move::Reject) => Some(Idle),
            // A run that goes on while its work lands (`--now`) ends after that.
            (Running | Idle | Merged, Move::RunSucceeded) => Some(Done),
            (Running | Idle | Done | Merged, Move::RunFailed) => Some(Failed),
            // A row cannot tell whether a person has worked in one that is ready: the verbs look.
            (Ready | Running | Idle | Done | Failed | Merged, Move::Merge) => Some(Merged),
            (Ready | Idle | Done | Failed, Move::TurnDown) => Some(Rejected),
            (Ready | Idle | Done | Failed, Move::Defer) => Some(self),
            // The worktree of landed work is cleared away like any other; that does not unland it.
            (Merged, Move::Discard) => Some(Merged),
            (
                Spawning | Ready | Running | Waiting | Idle | Done | Failed | Rejected,
                Move::Discard,
            ) => Some(Discarded),
            // What came after a landing is as open as what never landed.
            (Discarded | Merged, Move::BringBack) => Some(Idle),
            _ => None,
        }
    }

    /// The state that `step` leads to from here where it is not legal, but was in `fork`, where those who took it
    /// and those who came here parted; `None` when the two do not go together.
    pub(super) fn after_fork(self, fork: (State, bool), step: Move) -> Option<State> {
        let then = fork.0.after(step, fork.1)?;
        let is_settling = matches!(step, Move::Done | Move::Fail);
        let is_settled = matches!(self, State::Done | State::Failed);
        if then == self {
            (step != Move::Ready).then_some(self)
        } else {
            (is_settling && is_settled).then_some(then)
        }
    }
}

/// Something that changes, or keeps, an agent's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// The spawn completed.
    Ready,
    /// A run began.
    Start,
    /// The last run ended with status 0.
    RunSucceeded,
    /// The last run ended in any other way.
    RunFailed,
    /// Something worked on it: the tip is new, or no longer the one that was judged.
    Reopen,
    /// Declared finished.
    Done,
    /// Declared failed.
    Fail,
    /// Judged and accepted.
    Accept,
    /// Judged and rejected.
    Reject,
    /// Landed.
    Merge,
    /// Turned down after it was finished.
    TurnDown,
    /// Put off.
    Defer,
    /// Removed.
    Discard,
    /// Brought back after it was removed.
    BringBack,
}

impl Agent {
    /// Takes the end of the last run. What was declared, judged or decided meanwhile stands, but for work that
    /// counted as done and whose run failed.
    pub(super) fn run_ended(&mut self, exited: &Exited) {
        // A person who works by hand declares when it is done, or that it failed.
        if self.run.as_ref().is_some_and(|run| run.started.by_hand) {
            return;
        }
        self.finished = true;
        self.asked = exited.asked && !self.declared;
        let step = if exited.is_success() { Move::RunSucceeded } else { Move::RunFailed };
        let Some(state) = self.state.after(step, self.declared) else {
            return;
        };
        if step == Move::RunFailed {
            self.summary = self.run.as_ref().map(|run| run.failure(exited));
        }
        self.enter(state, step);
    }

    /// The agent as it will be once the end of its last run is recorded; the run itself stays without an end. For
    /// readers that find the supervisor of a run dead and must not write.
    pub fn with_run_ended(mut self, exited: &Exited) -> Agent {
        self.run_ended(exited);
        self.run.iter_mut().for_each(|run| run.is_lost = true);
        self
    }

    /// What trains rejected, and no train that ran the checks of the same branch accepted since.
    pub fn rejections_by_trains(&self) -> impl Iterator<Item = &Verified> {
        let mut later = self.by_trains.as_slice();
        self.by_trains.iter().filter(move |said| {
            later = later.get(1..).unwrap_or_default();
            !said.accepted && !later.iter().any(|one| one.accepts(said.tree, said.into.as_deref()))
        })
    }

    /// The agent as it will be once a decision about what came after its landing is recorded. For readers, which write nothing.
    pub fn with_work_since(mut self) -> Agent {
        if self.state == State::Merged {
            self.enter(State::Idle, Move::Reopen);
        }
        self
    }
}

impl Move {
    /// What the move does to an agent, as the participle of "cannot be …".
    pub(super) fn participle(self) -> &'static str {
        match self {
            Move::Ready => "made ready",
            Move::Start => "started",
            Move::RunSucceeded | Move::RunFailed => "told of the end of a run",
            Move::Reopen => "given more work",
            Move::Done => "declared done",
            Move::Fail => "declared failed",
            Move::Accept | Move::Reject => "judged",
            Move::Merge => "merged",
            Move::TurnDown => "rejected",
            Move::Defer => "deferred",
            Move::Discard => "discarded",
            Move::BringBack => "brought back",
        }
    }
}
