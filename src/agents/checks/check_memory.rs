//! What is remembered of check runs: whether commands succeed on an object, under which circumstances.
//!
//! Facts of this clone, with its seal. A green answer is used again; a red one is not, as a failure may do better next time, but it is
//! kept, so that a tree that is green later is known to be flaky.
//!
//! The question names everything that the answer depends on: the object, the commands, the set-up, the environment, the fence and the
//! places that are open in it. Only answers of fenced checks outlive the process: without a fence an earlier check may have written
//! what this one read, a cache in the home directory for example.

use crate::agents::checks::check_worktree::CheckSetup;
use crate::agents::context::ctx::Ctx;
use crate::agents::place::hidden_places::open_places;
use crate::domain::{AgentId, CommandRun, Enforcement, Oid, RequiredChecks};
use crate::error::Result;
use crate::store::chain::facts::Facts;
use std::collections::BTreeMap;
use std::time::Duration;

/// Earlier versions kept their answers under `checks`, `train`, `checked`, `checked-tree` and `train-tree`. Those came from worktrees that
/// several checks shared, or that were set up with unjudged work, and are never read again.
const KIND: &str = "check-answer";
/// How long a command took when it last succeeded, in milliseconds.
const TIME: &str = "check-time";
/// The tree of an agent's work, merged, in which the commands last succeeded.
const GREEN_TREE: &str = "green-tree";
/// How many tests passed in each of the commands, as far as they said so.
const COUNTS: &str = "check-tests";
/// The tree of a train in which the checks of an agent's work succeeded, together with the work below it.
const TRAIN_TREE: &str = "green-train";
const GREEN: &[u8] = b"green\n";
const RED: &[u8] = b"red\n";

/// An object, commands, and the circumstances.
pub(crate) type Question = Vec<String>;

/// The tree of an agent's work, the commit that it is to land on, and the blob of its policy.
pub(crate) type Judged = [Oid; 3];

fn in_train(agent: AgentId, judged: &Judged) -> Question {
    let oids = judged.iter().map(|oid| oid.to_hex());
    [agent.to_string()].into_iter().chain(oids).collect()
}

/// How long commands took when each last succeeded; those of which that is not known count nothing.
pub(crate) fn known_time<'c>(ctx: &Ctx, commands: impl Iterator<Item = &'c String>) -> Duration {
    let facts = Facts::open(ctx.repo.common_dir()).filter(|_| !ctx.repo.is_scratch());
    let known = commands.filter_map(|command| {
        let answer = facts.as_ref()?.load(TIME, std::slice::from_ref(command))?;
        String::from_utf8(answer).ok()?.parse().ok()
    });
    known.map(Duration::from_millis).sum()
}

/// The answers of this process and of earlier ones.
pub(crate) struct CheckMemory {
    facts: Option<Facts>,
    circumstances: Vec<String>,
    setup: String,
    /// Of this process, where facts cannot be kept as well.
    answers: BTreeMap<Question, bool>,
}

impl CheckMemory {
    /// Opens the memory for checks behind this fence.
    ///
    /// # Errors
    /// `usage` for a place in the settings that does not exist.
    pub(crate) fn open(ctx: &Ctx, enforcement: &Enforcement) -> Result<CheckMemory> {
        let is_fenced = matches!(enforcement, Enforcement::Fenced(_));
        // A look leaves nothing behind.
        let facts = is_fenced && !ctx.repo.is_scratch();
        let mut circumstances = vec![ctx.env.digest.clone(), enforcement.as_str().to_owned()];
        let open = open_places(ctx, &[])?;
        // What a check may write outside of its worktree may be what it read.
        circumstances.extend(open.iter().map(|place| place.display().to_string()));
        Ok(CheckMemory {
            facts: facts.then(|| Facts::open(ctx.repo.common_dir())).flatten(),
            circumstances,
            setup: String::new(),
            answers: BTreeMap::new(),
        })
    }

    /// Says which set-up the checks run after.
    pub(crate) fn set_up_with(&mut self, setup: &CheckSetup) {
        setup.hash().clone_into(&mut self.setup);
    }

    /// The question whether commands succeed on a tree, or on a commit where they may read its history: all of them, because a later one may
    /// need what an earlier one made.
    pub(crate) fn question(&self, object: Oid, checks: &RequiredChecks) -> Question {
        self.question_about(object.to_hex(), checks)
    }

    fn question_about(&self, subject: String, checks: &RequiredChecks) -> Question {
        let mut question = vec![subject, self.setup.clone()];
        // The number keeps the circumstances apart from the commands.
        question.push(self.circumstances.len().to_string());
        question.extend(self.circumstances.iter().cloned());
        question.extend(checks.setup.iter().cloned());
        question.extend(checks.commands.iter().cloned());
        for bound in &checks.test_bounds {
            question.push(format!("{} tests", bound.wanted));
            question.extend(bound.commands.iter().cloned());
        }
        question
    }

    /// The question about the work of an agent, whatever it is merged with.
    fn about_work(&self, agent: AgentId, checks: &RequiredChecks) -> Question {
        self.question_about(agent.to_string(), checks)
    }

    /// The tree of an agent's work, merged, in which the commands last succeeded.
    pub(crate) fn green_tree(&self, agent: AgentId, checks: &RequiredChecks) -> Option<Oid> {
        let facts = self.facts.as_ref()?;
        let tree = facts.load(GREEN_TREE, &self.about_work(agent, checks))?;
        Oid::from_hex(std::str::from_utf8(&tree).ok()?)
    }

    /// Remembers such a tree.
    pub(crate) fn keep_green_tree(&self, agent: AgentId, checks: &RequiredChecks, tree: Oid) {
        if let Some(facts) = &self.facts {
            let question = self.about_work(agent, checks);
            facts.store(GREEN_TREE, &question, tree.to_hex().as_bytes());
        }
    }

    /// The tree of a train in which the checks succeeded with the work of this verdict, as long as nothing of it differs.
    pub(crate) fn train_tree(&self, agent: AgentId, judged: &Judged) -> Option<Oid> {
        let tree = self.facts.as_ref()?.load(TRAIN_TREE, &in_train(agent, judged))?;
        Oid::from_hex(std::str::from_utf8(&tree).ok()?)
    }

    /// Remembers such a tree.
    pub(crate) fn keep_train_tree(&self, agent: AgentId, judged: &Judged, tree: Oid) {
        if let Some(facts) = &self.facts {
            facts.store(TRAIN_TREE, &in_train(agent, judged), tree.to_hex().as_bytes());
        }
    }

    /// Whether the commands succeeded when they last ran; `None` where that is not known.
    pub(crate) fn recall(&self, question: &Question) -> Option<bool> {
        let kept = || {
            let answer = self.facts.as_ref()?.load(KIND, question)?;
            Some(answer == GREEN)
        };
        // This process's own answers hold without a fence as well, for as long as it lives.
        self.answers.get(question).copied().or_else(kept)
    }

    /// How many tests passed in each of the commands when they last succeeded, as far as that is known.
    pub(crate) fn recall_tests(&self, question: &Question) -> Vec<Option<u64>> {
        let kept = self.facts.as_ref().and_then(|facts| facts.load(COUNTS, question));
        let text = String::from_utf8(kept.unwrap_or_default()).unwrap_or_default();
        text.lines().map(|line| line.parse().ok()).collect()
    }

    /// Remembers that beside an answer that is green, so that the same verdict is given again.
    pub(crate) fn keep_tests(&self, question: &Question, runs: &[CommandRun]) {
        let line = |run: &CommandRun| {
            run.tests.map_or_else(|| "-\n".to_owned(), |tests| format!("{tests}\n"))
        };
        if let Some(facts) =
            self.facts.as_ref().filter(|_| runs.iter().any(|run| run.tests.is_some()))
        {
            let text: String = runs.iter().map(line).collect();
            facts.store(COUNTS, question, text.as_bytes());
        }
    }

    /// Remembers how long a command took that succeeded.
    pub(crate) fn keep_time(&self, command: &str, took: Duration) {
        if let Some(facts) = &self.facts {
            let text = took.as_millis().to_string();
            facts.store(TIME, &[command.to_owned()], text.as_bytes());
        }
    }

    /// Remembers how the commands ended. What was green once stays so, even if the same check fails at the same time elsewhere.
    pub(crate) fn keep(&mut self, question: Question, is_green: bool) {
        // A tree that was green once stays so: the failure may be an accident.
        if !is_green && self.recall(&question) == Some(true) {
            return;
        }
        self.note(question, is_green);
    }

    /// Remembers that the commands failed where a person had them run once more, so that no earlier success counts.
    pub(crate) fn refute(&mut self, question: Question) {
        self.note(question, false);
    }

    fn note(&mut self, question: Question, is_green: bool) {
        if let Some(facts) = &self.facts {
            facts.store(KIND, &question, if is_green { GREEN } else { RED });
        }
        self.answers.insert(question, is_green);
    }
}
