//! The steps of an operation in the log that `GIT_AGENT_LOG` asks for: one span for each.

use std::cell::RefCell;
use tracing::debug_span;
use tracing::field::Empty;
use tracing::span::EnteredSpan;

/// The step under way. Its span is open from the end of the step before it, and is named when it is complete.
pub(crate) struct StepLog(RefCell<Option<EnteredSpan>>);

impl StepLog {
    /// Begins the first step.
    pub(crate) fn begin() -> StepLog {
        StepLog(RefCell::new(Some(open())))
    }

    /// Ends the step under way, which is called `step`, and begins the next one.
    pub(crate) fn passed(&self, step: &str) {
        let mut under_way = self.0.borrow_mut();
        if let Some(span) = under_way.take() {
            span.record("step", step);
        }
        *under_way = Some(open());
    }
}

impl Drop for StepLog {
    fn drop(&mut self) {
        if let Some(span) = self.0.borrow_mut().take() {
            span.record("step", "rest");
        }
    }
}

fn open() -> EnteredSpan {
    debug_span!("step", step = Empty).entered()
}
