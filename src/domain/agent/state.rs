//! The states of an agent and the moves between them.

use crate::domain::named::named;

named! {
    /// Where an agent stands.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum State {
        /// Half made: a spawn is under way or was interrupted.
        Spawning = "spawning",
        /// Ready, or at work.
        Running = "running",
        /// Finished: by declaration, by an accepting verdict, or because its last run succeeded.
        Done = "done",
        /// Failed: by declaration, by a rejecting verdict, or because its last run did not succeed.
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
        matches!(self, State::Running | State::Done | State::Failed)
    }

    /// The state that `step` leads to from here; `None` when it is not legal here. A declaration may follow a
    /// verdict or the end of a run, but not another declaration: `declared` says whether this state is one.
    pub(super) fn after(self, step: Move, declared: bool) -> Option<State> {
        use State::{Discarded, Done, Failed, Merged, Rejected, Running, Spawning};
        if declared && matches!(step, Move::Done | Move::Fail) {
            return None;
        }
        match (self, step) {
            (Spawning, Move::Ready) => Some(Running),
            (Running | Done | Failed, Move::Start | Move::Reopen) => Some(Running),
            (Running | Done | Failed, Move::Done | Move::Accept) => Some(Done),
            (Running | Done | Failed, Move::Fail | Move::Reject) => Some(Failed),
            (Running, Move::RunSucceeded) => Some(Done),
            (Running | Done, Move::RunFailed) => Some(Failed),
            (Done | Failed, Move::Merge) => Some(Merged),
            (Done | Failed, Move::TurnDown) => Some(Rejected),
            (Done, Move::Defer) => Some(Done),
            (Failed, Move::Defer) => Some(Failed),
            // The worktree of landed work is cleared away like any other; that does not unland it.
            (Merged, Move::Discard) => Some(Merged),
            (Spawning | Running | Done | Failed | Rejected, Move::Discard) => Some(Discarded),
            (Discarded, Move::BringBack) => Some(Running),
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
    /// The tip is no longer the one that was judged.
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

impl Move {
    /// What the move does to an agent, as the participle of "cannot be …".
    pub(super) fn participle(self) -> &'static str {
        match self {
            Move::Ready => "made ready",
            Move::Start => "started",
            Move::RunSucceeded | Move::RunFailed => "told of the end of a run",
            Move::Reopen => "re-opened",
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
