//! What is remembered of check runs: whether commands succeed on a tree in an environment.
//!
//! Facts of this clone, with its seal. A green answer is believed; a red one is not, as a failure may do better next time,
//! but it is kept, so that a tree that is green later is known to be flaky.

use crate::agents::ctx::Ctx;
use crate::domain::oid::Oid;
use crate::store::facts::Facts;
use std::collections::BTreeMap;

const KIND: &str = "train";
const GREEN: &[u8] = b"green\n";
const RED: &[u8] = b"red\n";

/// Tree, environment and commands.
pub(super) type Question = Vec<String>;

/// The answers of this train and of earlier ones.
pub(super) struct Memory {
    facts: Option<Facts>,
    environment: String,
    /// Of this train, where facts cannot be kept as well.
    answers: BTreeMap<Question, bool>,
}

impl Memory {
    pub(super) fn open(ctx: &Ctx) -> Memory {
        Memory {
            facts: Facts::open(ctx.repo.common_dir()).filter(|_| !ctx.repo.is_scratch()),
            environment: ctx.env.digest.clone(),
            answers: BTreeMap::new(),
        }
    }

    pub(super) fn question(&self, tree: Oid, commands: &[String]) -> Question {
        let first = [tree.to_hex(), self.environment.clone()];
        first.into_iter().chain(commands.iter().cloned()).collect()
    }

    /// Whether the commands succeeded when they last ran; `None` where that is not known.
    pub(super) fn recall(&self, question: &Question) -> Option<bool> {
        let kept = || {
            let answer = self.facts.as_ref()?.load(KIND, question)?;
            Some(answer == GREEN)
        };
        self.answers.get(question).copied().or_else(kept)
    }

    pub(super) fn keep(&mut self, question: Question, is_green: bool) {
        if let Some(facts) = &self.facts {
            facts.store(KIND, &question, if is_green { GREEN } else { RED });
        }
        self.answers.insert(question, is_green);
    }
}
