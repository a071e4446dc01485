//! What the runs of an agent do to it.

use super::{Agent, Move};
use crate::domain::event::{Event, Exited, What};
use crate::domain::run::Run;
use chrono::{DateTime, Utc};

impl Agent {
    /// Takes the end of the last run. What was declared, judged or decided meanwhile stands, but for work that
    /// counted as done and whose run failed.
    pub(super) fn run_ended(&mut self, exited: &Exited) {
        self.finished = true;
        let step = if exited.is_success() {
            Move::RunSucceeded
        } else {
            Move::RunFailed
        };
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
        self
    }

    /// Runs are facts of the outside world too: they are told whatever state the agent is in. Gives how the last
    /// run ended, where this event says that.
    pub(super) fn ran<'e>(&mut self, event: &'e Event, time: DateTime<Utc>) -> Option<&'e Exited> {
        match (&event.what, &mut self.run) {
            (What::Started(started), run) => {
                *run = Some(Run {
                    started: started.clone(),
                    began: time,
                    end: None,
                });
                None
            }
            (What::Exited(exited), Some(run)) if run.is_ended_by(exited) => {
                run.end = Some((exited.clone(), time));
                Some(exited)
            }
            _ => None,
        }
    }
}
