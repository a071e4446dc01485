//! What is impossible about the history of an agent.

use super::Agent;
use crate::domain::event::Event;
use chrono::{DateTime, Utc};

/// So many sentences are worth reading. A row that a remote brought may hold a hundred thousand impossible events.
const MOST: usize = 50;

impl Agent {
    /// Adds a sentence to [`Agent::irregular`], unless it has very many.
    pub fn doubt(&mut self, sentence: String) {
        if self.irregular.len() < MOST {
            self.irregular.push(sentence);
        } else if self.irregular.len() == MOST {
            let more = "its row holds more that is impossible, which is not listed";
            self.irregular.push(more.to_owned());
        }
    }

    pub(super) fn doubt_origin(&mut self, sentence: String) {
        self.doubt(sentence);
        self.origin_in_doubt = true;
    }
}

/// When each event happened at the latest: its stamp, or the lowest of those after it where its clock was ahead.
pub(super) fn times(events: &[&Event]) -> Vec<DateTime<Utc>> {
    let mut times: Vec<_> = events.iter().map(|event| event.at.time()).collect();
    for index in (1..times.len()).rev() {
        times[index - 1] = times[index - 1].min(times[index]);
    }
    times
}
