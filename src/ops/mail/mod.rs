//! What the verbs of the messenger share: who a name stands for, and how a message is answered.

use super::agent_report::rfc3339;
use crate::agents::Ctx;
use crate::agents::life::{at_work, liveness};
use crate::agents::who::names::handle;
use crate::domain::life::sandbox::Mode;
use crate::domain::mail::message::{ID_PREFIX, Name};
use crate::domain::{Agent, Letter, Message, MessageId, Receivers, Run};
use crate::error::{Code, Error, Result};
use crate::hosts;
use crate::ops::error_report::command_to_go_on;
use crate::proc::launch;
use crate::store::Mailbox;
use crate::store::mailbox::reader;
use serde::Serialize;
use serde_json::Value;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeSet;

// A message as it is answered.

/// What became of a message, for the reader who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Not read.
    Pending,
    /// Handed out.
    Read,
    /// Done with.
    Archived,
}

/// For whom a message is: one name under `to`, several or `"all"` under `to_agents`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiversReport {
    /// The receiver; absent when there are several.
    pub to: Option<String>,
    /// The receivers; absent when there is one.
    pub to_agents: Option<Value>,
}

impl ReceiversReport {
    /// The receivers of a letter.
    pub fn new(to: &Receivers) -> ReceiversReport {
        match to {
            Receivers::Everybody => {
                ReceiversReport { to: None, to_agents: Some(Value::from(to.to_string())) }
            }
            Receivers::Named(names) => match names.as_slice() {
                [one] => ReceiversReport { to: Some(one.to_string()), to_agents: None },
                _ => ReceiversReport {
                    to: None,
                    to_agents: Some(names.iter().map(Name::as_str).collect()),
                },
            },
        }
    }

    /// The receivers in one line for people: agents by their short ids.
    pub fn text(&self) -> String {
        let handle = |value: &Value| handle(value.as_str().unwrap_or_default());
        match (&self.to, &self.to_agents) {
            (_, Some(Value::Array(names))) => {
                let names: Vec<_> = names.iter().map(handle).collect();
                names.join(", ")
            }
            (_, Some(all)) => handle(all),
            (Some(to), None) => handle(&Value::from(to.as_str())),
            (None, None) => String::new(),
        }
    }
}

/// A message in JSON. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageReport {
    /// Its name.
    pub message_id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who sent it: an agent's id, or a name.
    pub from: String,
    /// For whom it is.
    #[serde(flatten)]
    pub to: ReceiversReport,
    /// `critical`, `high`, `medium` or `low`.
    pub priority: &'static str,
    /// When it was sent, RFC 3339.
    pub created: String,
    /// `pending`, `read` or `archived`; absent where no reader asks.
    pub status: Option<Standing>,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// What it is about, in one field of the payload.
    pub summary: String,
    /// What it says.
    pub payload: Value,
}

impl MessageReport {
    /// A message, and what became of it.
    pub fn new(message: &Message, status: Option<Standing>) -> MessageReport {
        let letter = &message.letter;
        MessageReport {
            message_id: message.id.to_string(),
            kind: letter.kind.as_str(),
            from: letter.from.to_string(),
            to: ReceiversReport::new(&letter.to),
            priority: letter.priority.as_str(),
            created: rfc3339(message.at.time()),
            status,
            reply_to: letter.re.as_ref().map(MessageId::to_string),
            summary: letter.summary().to_owned(),
            payload: serde_json::from_str(&letter.payload.json).unwrap_or_default(),
        }
    }

    /// The sender for people: an agent by its short id.
    pub fn sender(&self) -> String {
        handle(&self.from)
    }
}

// `show MSG-…`: one message and the conversation that it belongs to.

/// The answer of `show MSG-…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.message/1")]
pub struct ConversationReport {
    /// The message.
    pub message: MessageReport,
    /// Every message of the conversation, this one among them, oldest first.
    pub thread: Vec<MessageReport>,
}

/// Whether a word is meant as the id of a message.
pub fn is_id(word: &str) -> bool {
    word.starts_with(ID_PREFIX)
}

/// A message with its conversation.
///
/// # Errors
/// `message-unknown`, and those of [`find_message`].
pub fn show_message(ctx: &Ctx, who: &str) -> Result<ConversationReport> {
    let id = find_message(ctx, who)?;
    let conversation = Mailbox::new(&ctx.repo).conversation(&id)?;
    let thread: Vec<_> =
        conversation.iter().map(|message| MessageReport::new(message, None)).collect();
    let message = thread
        .iter()
        .find(|message| message.message_id == id.as_str())
        .cloned()
        .ok_or_else(|| unknown(who))?;
    Ok(ConversationReport { message, thread })
}

/// The message whose id is this, or begins like this.
///
/// # Errors
/// `message-unknown` for none and for several; `repo-corrupt`.
pub fn find_message(ctx: &Ctx, who: &str) -> Result<MessageId> {
    if let Some(id) = MessageId::parse(who) {
        return Ok(id);
    }
    if !is_id(who) {
        return Err(unknown(who));
    }
    let mut found = Mailbox::new(&ctx.repo).ids_like(who)?;
    match (found.pop(), found.pop()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(Error::new(
            Code::MessageUnknown,
            format!("more than one message id begins with `{who}`"),
        )
        .hint("to name one of them, give all of its id")),
        (None, _) => Err(unknown(who)),
    }
}

fn unknown(who: &str) -> Error {
    Error::new(Code::MessageUnknown, format!("there is no message `{}`", who.escape_debug()))
        .hint("to see what there is, run git agent inbox")
}

// An agent that asked and is answered.

/// What is to be known of an agent that waits and is not let go on.
pub(super) fn stays_asleep(agent: &Agent) -> String {
    let id = agent.id.short();
    let command = command_to_go_on(agent);
    format!(
        "agent {id} waits for an answer and nothing runs for it; to let it go on with what it gets, run {command}"
    )
}

/// What is to be known of an agent that was answered and that nothing let go on.
pub(super) fn is_answered(agent: &Agent) -> String {
    let id = agent.id.short();
    let command = command_to_go_on(agent);
    format!(
        "the question of agent {id} is answered, and nothing runs for it; to let it go on with that, run {command}"
    )
}

/// What is to be known of those who waited for an answer before, have one now, and for whom nothing runs; of one agent's answers where `by`
/// names it.
pub(super) fn answered_since(
    ctx: &Ctx,
    waited: &BTreeSet<String>,
    by: Option<&Agent>,
) -> Vec<String> {
    let common_dir = ctx.repo.common_dir();
    let wait = reader::askers(common_dir);
    let is_by = |agent: &Agent| {
        let Some(by) = by else { return true };
        let answers = Mailbox::new(&ctx.repo).messages(&reader::answers(common_dir, agent));
        let by = by.id.to_string();
        answers.is_ok_and(|found| found.values().any(|it| it.letter.from.as_str() == by))
    };
    let answered = waited.difference(&wait).filter_map(|name| ctx.ledger().find(name).ok());
    let asleep = answered.filter(|agent| at_work::at_work(ctx, agent).is_none() && is_by(agent));
    asleep.map(|agent| is_answered(&agent)).collect()
}

/// As much of an answer as fits into an argument of a command beside other words, in bytes: the kernel takes 128 KiB.
const ARGUMENT: usize = 100 << 10;

/// Lets an agent go on that waited, in the background: its host is told the answer in the session that asked. Gives why it does not.
///
/// # Errors
/// `io`, `bare-repo` where the command cannot be started.
pub(super) fn wake(ctx: &Ctx, agent: &Agent, answers: &[&Letter]) -> Result<Option<String>> {
    let payloads = answers.iter().map(|letter| serde_json::from_str(&letter.payload.json));
    let payloads: Vec<Value> = payloads.filter_map(|payload| payload.ok()).collect();
    let values = payloads.iter().filter_map(Value::as_object).flatten();
    let texts: Vec<_> = values.filter_map(|(_, value)| value.as_str()).collect();
    // No argument holds a NUL.
    let mut text = format!("Your question is answered: {}", texts.join("\n\n")).replace('\0', " ");
    if text.len() > ARGUMENT {
        text = "Your question is answered; to read that, run git-agent receive.".to_owned();
    }
    let (id, short) = (agent.id.to_string(), agent.id.short());
    let mut words =
        ["run", &id, "--resume", "--background", "-m", &text].map(str::to_owned).to_vec();
    let Some(bounds) = bounds(ctx, agent)? else {
        let command = command_to_go_on(agent);
        return Ok(Some(format!(
            "agent {short} has cost what it might; to let it go on with what it gets, run {command}"
        )));
    };
    words.extend(bounds);
    let (program, root) = (ctx.env.require_program()?, ctx.repo.root()?);
    // Until it has begun: who waits for the agent next waits for this run. Who only sends does not wait for others to end.
    let at_once = words.iter().map(String::as_str).chain(["--no-wait"]);
    let at_once = at_once.map(Into::into).collect::<Vec<_>>();
    let said = launch::hand_over(program, &at_once, Some(&root))?;
    if said.failed.is_none() {
        return Ok(None);
    }
    let why = String::from_utf8_lossy(&said.err);
    let why = why.lines().next().unwrap_or_default().trim_start_matches("error");
    let is = |code: Code| why.starts_with(&format!("[{}]", code.name()));
    // The run that ended saw the answer, too, and was quicker.
    if is(Code::RunActive) {
        return Ok(None);
    }
    if is(Code::LimitReached) {
        launch::start(program, words.iter().map(String::as_str), &root, &[]);
        return Ok(Some(format!("agent {short} goes on when there is room for it {why}")));
    }
    let command = command_to_go_on(agent);
    Ok(Some(format!(
        "agent {short} does not go on {why}; to let it go on with what it gets, run {command}"
    )))
}

/// The options that bind a run which goes on as the one that asked was bound: its fence, its model, its time, and what is left of its
/// cost. `None` where nothing is left.
fn bounds(ctx: &Ctx, agent: &Agent) -> Result<Option<Vec<String>>> {
    let run = agent.run.as_ref();
    let number = run.map_or(0, Run::number);
    let report = liveness::load_report(ctx.repo.common_dir(), agent, number)?.unwrap_or_default();
    let mode = report.pointer("/sandbox/mode").and_then(Value::as_str).and_then(Mode::parse);
    let mut words = vec![format!("--sandbox={}", mode.unwrap_or_default().as_str())];
    words.extend(
        run.and_then(|run| run.started.model.as_ref()).map(|model| format!("--model={model}")),
    );
    let host = run.and_then(|run| hosts::of_command(&run.started.command));
    words.extend(host.map(|host| format!("--host={}", host.name())));
    let limit = run.and_then(|run| run.started.limit_ms);
    words.extend(limit.map(|limit| format!("--timeout={}s", limit.div_ceil(1000))));
    let amount = |key: &str| report.get(key).and_then(Value::as_f64);
    if let Some(most) = amount("max_cost_usd") {
        let left = most - amount("cost_usd").unwrap_or_default();
        if left <= 0.0 {
            return Ok(None);
        }
        words.push(format!("--max-cost={}", (left * 1e6).round() / 1e6));
    }
    Ok(Some(words))
}
