//! The messages of landing commits, and the trailers at their end.
//!
//! Every one names the agent. A person or a clone can have more trailers added (`agent.trailer`), because some projects
//! require attribution and others forbid it. A squash takes along the trailers by which another tool finds its sessions,
//! because the commits that carried them do not land.

use crate::agents::{Ctx, place::task_copy};
use crate::domain::mail::message::plain;
use crate::domain::settings::repository_settings::filled_subject;
use crate::domain::{Agent, Oid, What, branch_name};
use crate::error::{Code, Error, Result};
use crate::git::record::commit;
use crate::ops::merge::Method;
use crate::ops::merge::plan::MergePlan;
use crate::store::landing::spawn_commit::NONCE;
use crate::store::{Ledger, ledger};
use std::collections::BTreeSet;

/// The setting for more trailers.
const SETTING: &str = "agent.trailer";

/// Trailers of other tools that a squash takes along: Entire's, which names the checkpoint of a session.
const CARRIED: [&str; 1] = ["Entire-Checkpoint"];

/// What the message of a landing commit is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LandingText {
    /// The message that the caller gave.
    pub(super) wanted: Option<String>,
    /// The subject that the repository's settings give, with fields in braces.
    pub(super) subject: Option<String>,
    /// The work in one line.
    summary: String,
    /// What was said about it beyond that line.
    body: String,
    /// The message of the agent's last commit, where that is what lands.
    of_tip: String,
    /// What a squash says besides: the task and the messages of the commits that do not land.
    squashed: Vec<String>,
    trailers: Trailers,
}

impl LandingText {
    /// What the agent and its commits from `base` to `tip` say.
    ///
    /// # Errors
    /// `usage` for a setting that is no trailer; `repo-corrupt`, `git-failed`.
    pub(super) fn gather(
        ctx: &Ctx,
        agent: &Agent,
        method: Method,
        range: (Oid, Oid),
    ) -> Result<LandingText> {
        let (summary, body) = summary_of(&ctx.ledger(), agent)?;
        // An agent wrote all of it, and who reads the history later has a terminal that obeys escape sequences.
        Ok(LandingText {
            summary: plain(&summary),
            body: plain(&body),
            squashed: match method {
                Method::Squash => {
                    squashed(ctx, agent, range)?.iter().map(|text| plain(text)).collect()
                }
                Method::NoFf | Method::FfOnly => Vec::new(),
            },
            of_tip: match method {
                Method::FfOnly => ctx.repo.read_commit(range.1)?.message,
                Method::NoFf | Method::Squash => String::new(),
            },
            trailers: Trailers::gather(ctx, method, range)?,
            ..LandingText::default()
        })
    }
}

/// Trailers besides the one that names the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trailers {
    /// What the setting asks for, with fields in braces.
    wanted: Vec<String>,
    /// What is taken along from the agent's commits.
    carried: Vec<String>,
}

impl Trailers {
    fn gather(ctx: &Ctx, method: Method, (base, tip): (Oid, Oid)) -> Result<Trailers> {
        // Not those of a worktree, which its agent could write.
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
                    let value =
                        commit.trailer(key).filter(|value| seen.insert((key, (*value).to_owned())));
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
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let parts = line.split_once(": ");
    let is_trailer = parts.is_some_and(|(key, value)| is_word(key) && !value.trim().is_empty());
    // A line end in it would begin a paragraph of its own.
    if is_trailer && !line.chars().any(char::is_control) {
        return Ok(());
    }
    let what = format!("{SETTING} is no trailer: {}", line.escape_debug());
    Err(Error::new(Code::Usage, what)
        .hint(format!("to set one, run git config {SETTING} 'Assisted-by: <name>:<model>'")))
}

impl MergePlan {
    /// The first line of what the commit says that brings the work.
    pub(super) fn landing_subject(&self) -> String {
        let message = match (&self.landed, self.method) {
            (Some(landed), _) => landed.message.clone(),
            (None, Method::FfOnly) if self.work.uncommitted.is_empty() => self.text.of_tip.clone(),
            (None, Method::FfOnly) => self.work_message(),
            (None, Method::NoFf | Method::Squash) => self.message(),
        };
        message.lines().next().unwrap_or_default().to_owned()
    }

    /// The message of the landing commit.
    pub(super) fn message(&self) -> String {
        let message = self.message_of_work();
        let trailers = self.text.trailers.carried.iter().cloned().chain(self.wanted_trailers());
        trailers.fold(message, |message, line| commit::appended_trailer(&message, &line))
    }

    /// The message without the trailers that not every landing has.
    fn message_of_work(&self) -> String {
        if let Some(message) = &self.text.wanted {
            return commit::appended_trailer(message, &named(&self.agent));
        }
        let title = match (&self.text.subject, self.method) {
            // The text of the older kit, which programs look for; who lints messages sets another one.
            (None, Method::NoFf | Method::FfOnly) => {
                cut(&format!("merge({}): {}", self.agent.id.short(), self.subject()))
            }
            _ => cut(&self.subject()),
        };
        let texts = std::iter::once(&self.text.body).chain(&self.text.squashed);
        format!("{}{}\n", self.titled(&title, texts), named(&self.agent))
    }

    /// The message of the commit that holds the uncommitted work.
    pub(super) fn work_message(&self) -> String {
        let nothing = std::iter::empty();
        let text = self.titled(&cut(&self.subject()), nothing);
        let message = format!("{text}{}\n", named(&self.agent));
        let trailers = self.wanted_trailers();
        trailers.fold(message, |message, line| commit::appended_trailer(&message, &line))
    }

    /// The work in one line, as the settings of the repository have it.
    fn subject(&self) -> String {
        let subject = match &self.text.subject {
            Some(template) => {
                let is_typed = template.contains("{type}");
                filled_subject(template, |field| match field {
                    "summary" if is_typed => untyped(&self.text.summary),
                    _ => self.field(field),
                })
            }
            None => self.text.summary.clone(),
        };
        // An ellipsis says that something is left out.
        match subject.strip_suffix('.') {
            Some(short) if !short.ends_with('.') => short.to_owned(),
            _ => subject,
        }
    }

    /// A subject and the paragraphs below it. What the subject had no room for begins the first one.
    fn titled<'t>(&'t self, title: &str, texts: impl Iterator<Item = &'t String>) -> String {
        let is_said = |text: &str| {
            let text = text.trim_end_matches('.');
            title.contains(text) || title.contains(&untyped(text))
        };
        let mut body = String::new();
        for text in std::iter::once(&self.text.summary).chain(texts) {
            // What the agent said once need not stand twice.
            let text = wrapped(text);
            if !text.is_empty() && !is_said(&text) && !body.contains(&text) {
                body.push_str(&text);
                body.push_str("\n\n");
            }
        }
        format!("{title}\n\n{body}")
    }

    fn wanted_trailers(&self) -> impl Iterator<Item = String> {
        let wanted = self.text.trailers.wanted.iter();
        wanted.map(|line| filled_subject(line, |field| self.field(field)))
    }

    /// What stands for a field of a subject or a trailer; see [`SUBJECT_FIELDS`](crate::domain::settings::repository_settings::SUBJECT_FIELDS).
    fn field(&self, field: &str) -> String {
        let agent = &self.agent;
        let named = match field {
            "summary" => Some(self.text.summary.clone()),
            "name" => agent.name.as_ref().map(ToString::to_string),
            "role" => agent.role.clone(),
            "type" => Some(conventional_type(&self.text.summary).to_owned()),
            "branch" => Some(branch_name(&self.branch).to_owned()),
            _ => None,
        };
        named.unwrap_or_else(|| agent.id.short())
    }
}

/// The types of conventional commits.
const TYPES: [&str; 11] =
    ["feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert"];

/// The type of a conventional commit (<https://www.conventionalcommits.org>) for work with this summary: the one that it begins
/// with, else what its first word does, else `feat`.
fn conventional_type(summary: &str) -> &str {
    let words = |c: char| !c.is_alphanumeric();
    let first = summary.split(words).next().unwrap_or_default().to_ascii_lowercase();
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

/// A summary as it stands behind the type of a conventional commit: without a type of its own, and not begun like a sentence.
fn untyped(summary: &str) -> String {
    let rest = match summary.split_once(": ") {
        // A colon alone does not make a type: the summary may be a sentence with one in it.
        Some((head, rest)) if TYPES.contains(&head.split(['(', '!']).next().unwrap_or(head)) => {
            rest
        }
        _ => summary,
    };
    let first = rest.split(' ').next().unwrap_or_default();
    let mut letters = first.chars();
    let initial = letters.next().filter(|initial| initial.is_uppercase());
    match initial {
        // A name such as `README` or `GitHub` keeps its capitals.
        Some(initial) if letters.as_str().chars().all(|c| !c.is_uppercase()) => {
            let tail = &rest[initial.len_utf8()..];
            format!("{}{tail}", initial.to_lowercase())
        }
        _ => rest.to_owned(),
    }
}

/// How wide the lines of a message are: what git's own tools show without folding, and what linters of messages allow.
const WIDTH: usize = 72;

/// A subject of at most [`WIDTH`] characters, cut at a word.
fn cut(subject: &str) -> String {
    broken(subject).into_iter().next().unwrap_or_default()
}

/// The words of a line, in lines of at most [`WIDTH`] characters.
fn broken(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut part = String::new();
    for word in line.split_whitespace() {
        if !part.is_empty() && part.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::take(&mut part));
        }
        if !part.is_empty() {
            part.push(' ');
        }
        part.push_str(word);
    }
    lines.push(part);
    lines
}

/// A text with its long lines broken at words. What is indented, quoted or a table was set by hand and stays.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.trim().lines().map(str::trim_end) {
        // Code, quotations and tables mean something by where their lines end.
        let is_set = line.starts_with([' ', '\t', '>', '|']);
        if is_set || line.chars().count() <= WIDTH {
            lines.push(line.to_owned());
            continue;
        }
        lines.extend(broken(line));
    }
    lines.join("\n")
}

/// What a squash says besides its subject: the task, where it is in this clone and says more than the summary, and the messages of the
/// agent's own commits, which do not land.
fn squashed(ctx: &Ctx, agent: &Agent, (base, tip): (Oid, Oid)) -> Result<Vec<String>> {
    let task = task_copy::load(ctx, agent).ok();
    let task = task.and_then(|task| Some(task.text.given()?.value.trim().to_owned()));
    let mut texts: Vec<String> = task.into_iter().collect();
    // Uncommitted changes that the agent started from are no work of its.
    let started = agent.base.as_ref().map(|base| base.oid).filter(|oid| ctx.repo.has_object(*oid));
    let hidden: Vec<Oid> = [base].into_iter().chain(started).collect();
    for oid in ctx.repo.commits_between(&hidden, tip)? {
        let commit = ctx.repo.read_commit(oid)?;
        // Neither a spawn commit nor a merge says anything about the work.
        if commit.trailer(NONCE).is_none() && commit.parents.len() == 1 {
            texts.push(commit::without_trailers(&commit.message).to_owned());
        }
    }
    Ok(texts)
}

/// The trailer that names the agent.
fn named(agent: &Agent) -> String {
    format!("Agent-Id: {}", agent.id)
}

// What a landing's message says about the work.

/// The summary it was declared done with, else its task, in one line; and the rest of the summary.
fn summary_of(ledger: &Ledger<'_>, agent: &Agent) -> Result<(String, String)> {
    let events = ledger.own_events(agent.spawn_commit)?;
    let last = events.iter().rev().find_map(|event| match &event.what {
        What::Done { summary, .. } => Some((first_line(summary)?, &event.what)),
        _ => None,
    });
    let Some((line, what)) = last else {
        return Ok((agent.description.clone().unwrap_or_default(), String::new()));
    };
    let text = ledger::whole(ledger.repo(), what);
    let text = text.as_deref().or(what.said().map(|(text, _)| text)).unwrap_or_default().trim();
    // A first line that was cut stands whole in the body.
    let body = if first_line(text) == Some(line) { text[line.len()..].trim() } else { text };
    Ok((line.to_owned(), body.to_owned()))
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_at_most_72_characters() {
        let (half, rest) = ("a".repeat(36), "b".repeat(35));
        assert_eq!(broken(&format!("{half} {rest}")), [format!("{half} {rest}")]);
        assert_eq!(broken(&format!("{half} {rest}c")), [half, rest + "c"]);
        let word = "c".repeat(80);
        assert_eq!(broken(&word), [word]);
    }
}
