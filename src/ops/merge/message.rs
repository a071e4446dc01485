//! The messages of landing commits, and the trailers at their end.
//!
//! Every one names the agent. A person or a clone can have more trailers added (`agent.trailer`), because some projects
//! require attribution and others forbid it. A squash takes along the trailers by which another tool finds its sessions,
//! because the commits that carried them do not land.

use crate::agents::ctx::Ctx;
use crate::agents::task_copy;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::filled_subject;
use crate::error::{Code, Error, Result};
use crate::git::program;
use crate::ops::merge::Method;
use crate::ops::merge::plan::MergePlan;
use crate::store::spawn_commit::NONCE;
use std::collections::BTreeSet;

/// The setting for more trailers.
const SETTING: &str = "agent.trailer";

/// Trailers of other tools that a squash takes along: Entire's, which names the checkpoint of a session.
const CARRIED: [&str; 1] = ["Entire-Checkpoint"];

/// Trailers besides the one that names the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    /// What the setting asks for, with fields in braces.
    wanted: Vec<String>,
    /// What is taken along from the agent's commits.
    carried: Vec<String>,
}

impl Trailers {
    /// The trailers of a landing of the commits from `base` to `tip`.
    ///
    /// # Errors
    /// `usage` for a setting that is no trailer; `repo-corrupt`, `git-failed`.
    pub(super) fn gather(ctx: &Ctx, method: Method, (base, tip): (Oid, Oid)) -> Result<Trailers> {
        let settings = ctx.repo.shared_settings(SETTING)?;
        let wanted: Vec<String> = settings.into_iter().map(|setting| setting.value).collect();
        for line in &wanted {
            require_trailer(line)?;
        }
        let mut carried = Vec::new();
        if method == Method::Squash {
            let mut seen = BTreeSet::new();
            for commit in ctx.repo.commits_between(&[base], tip)? {
                let commit = ctx.repo.read_commit(commit)?;
                for key in CARRIED {
                    let value = commit
                        .trailer(key)
                        .filter(|value| seen.insert((key, (*value).to_owned())));
                    carried.extend(value.map(|value| format!("{key}: {value}")));
                }
            }
        }
        Ok(Trailers { wanted, carried })
    }
}

/// Refuses what git would not take for a trailer.
fn require_trailer(line: &str) -> Result<()> {
    let is_word = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let parts = line.split_once(": ");
    let is_trailer = parts.is_some_and(|(key, value)| is_word(key) && !value.trim().is_empty());
    if is_trailer && !line.chars().any(char::is_control) {
        return Ok(());
    }
    let what = format!("{SETTING} is no trailer: {}", line.escape_debug());
    Err(Error::new(Code::Usage, what).hint(format!(
        "to set one, run git config {SETTING} 'Assisted-by: <name>:<model>'"
    )))
}

impl MergePlan {
    /// The message of the landing commit.
    pub(super) fn message(&self) -> String {
        let message = self.message_of_work();
        let trailers = self.trailers.carried.iter().cloned();
        let trailers = trailers.chain(self.wanted_trailers());
        trailers.fold(message, |message, line| {
            program::appended_trailer(&message, &line)
        })
    }

    /// The message without the trailers that not every landing has.
    fn message_of_work(&self) -> String {
        if let Some(message) = &self.wanted_message {
            return program::appended_trailer(message, &named(&self.agent));
        }
        let (short, summary) = (self.agent.id.short(), &self.summary);
        let subject = match (&self.wanted_subject, self.method) {
            (Some(template), _) => filled_subject(template, |field| self.field(field)),
            (None, Method::Squash) => summary.clone(),
            (None, Method::NoFf | Method::FfOnly) => format!("merge({short}): {summary}"),
        };
        let squashed: &[String] = match self.method {
            Method::Squash => &self.squashed,
            Method::NoFf | Method::FfOnly => &[],
        };
        let mut body = String::new();
        for text in std::iter::once(&self.body).chain(squashed) {
            // What the agent said once need not stand twice.
            if !text.is_empty() && *text != subject && !body.contains(text.as_str()) {
                body.push_str(text);
                body.push_str("\n\n");
            }
        }
        format!("{subject}\n\n{body}{}\n", named(&self.agent))
    }

    /// The message of the commit that holds the uncommitted work.
    pub(super) fn work_message(&self) -> String {
        let message = format!("{}\n\n{}\n", self.summary, named(&self.agent));
        let trailers = self.wanted_trailers();
        trailers.fold(message, |message, line| {
            program::appended_trailer(&message, &line)
        })
    }

    fn wanted_trailers(&self) -> impl Iterator<Item = String> {
        let wanted = self.trailers.wanted.iter();
        wanted.map(|line| filled_subject(line, |field| self.field(field)))
    }

    /// What stands for a field of a subject or a trailer; see [`SUBJECT_FIELDS`](crate::domain::repository_settings::SUBJECT_FIELDS).
    fn field(&self, field: &str) -> String {
        let agent = &self.agent;
        let named = match field {
            "summary" => Some(self.summary.clone()),
            "name" => agent.name.as_ref().map(ToString::to_string),
            "role" => agent.role.clone(),
            "type" => Some(conventional_type(&self.summary).to_owned()),
            "branch" => Some(self.branch.trim_start_matches("refs/heads/").to_owned()),
            _ => None,
        };
        named.unwrap_or_else(|| agent.id.short())
    }
}

/// The type of a conventional commit (<https://www.conventionalcommits.org>) for work with this summary: the one that it begins
/// with, else what its first word does, else `feat`.
fn conventional_type(summary: &str) -> &str {
    const TYPES: [&str; 10] = [
        "feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore",
    ];
    let words = |c: char| !c.is_alphanumeric();
    let first = summary.split(words).next().unwrap_or_default();
    let first = first.to_ascii_lowercase();
    let known = TYPES.into_iter().find(|known| *known == first);
    known.unwrap_or(match first.as_str() {
        "correct" | "mend" | "repair" | "fixes" | "fixed" | "resolve" => "fix",
        "document" | "explain" | "describe" => "docs",
        "rename" | "move" | "simplify" | "split" | "clean" | "remove" => "refactor",
        "speed" | "accelerate" | "optimise" | "optimize" => "perf",
        "tests" | "cover" => "test",
        "bump" | "upgrade" | "update" => "chore",
        _ => "feat",
    })
}

/// What a squash says besides its subject: the task, where it is in this clone and says more than the summary, and the messages of the
/// agent's own commits, which do not land.
pub(super) fn squashed(ctx: &Ctx, agent: &Agent, (base, tip): (Oid, Oid)) -> Result<Vec<String>> {
    let task = task_copy::load(ctx, agent).ok();
    let task = task.and_then(|task| Some(task.text.given()?.value.trim().to_owned()));
    let mut texts: Vec<String> = task.into_iter().collect();
    for oid in ctx.repo.commits_between(&[base], tip)? {
        let commit = ctx.repo.read_commit(oid)?;
        if commit.trailer(NONCE).is_none() && commit.parents.len() == 1 {
            texts.push(program::without_trailers(&commit.message).to_owned());
        }
    }
    Ok(texts)
}

/// The trailer that names the agent.
fn named(agent: &Agent) -> String {
    format!("Agent-Id: {}", agent.id)
}
