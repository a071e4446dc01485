//! `send`: a message into the mailbox, or into the spool of an agent that may not write there.
//!
//! ```text
//! words -> Draft -> Letter (names resolved) -> SendPlan ─┬─> commit on refs/agents/mail
//!                                                        └─> file in the spool ─> post_spool
//! ```

use crate::agents::upkeep::spool::{own_spool, spool_of_clone};
use crate::agents::who::names::{own, resolve};
use crate::agents::{Ctx, CurrentAgent, upkeep::spool};
use crate::domain::mail::message::{EVERYBODY, Kind, PAYLOAD_LIMIT};
use crate::domain::mail::message_rules::{Draft, KEPT};
use crate::domain::value::named::hex;
use crate::domain::{Agent, Letter, MessageId, Receivers, Stamp};
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts;
use crate::ops::agent_report::rfc3339;
use crate::ops::mail::{self, ReceiversReport};
use crate::store::mailbox::{Mailbox, Nonce, reader, spool as mailbox_spool};
use crate::store::settings::repository_settings;
use crate::wire::row::message::payload::{self, Addressed, PayloadPart};
use crate::wire::row::message::spooled::Spooled;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a message left in a spool is waited for. A supervisor looks into it ten times a second.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often is looked.
const ROUND: Duration = Duration::from_millis(20);
/// The poster's clock may be behind that of the chain, and a message is not looked for further back.
const SKEW: TimeDelta = TimeDelta::minutes(1);

/// A message as it is asked for.
#[derive(Clone, Debug, Default)]
pub struct SendOptions {
    /// The word for its type.
    pub kind: String,
    /// The word for its priority; the type's own where there is none.
    pub priority: Option<String>,
    /// Who sends it; the caller where none is named.
    pub from: Option<String>,
    /// For whom it is: names, several in one separated by commas, or `all`.
    pub to: Vec<String>,
    /// What it says: `key=value`, JSON, or `@file`.
    pub payload: Vec<String>,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// Lets no agent go on that waited for it.
    pub no_wake: bool,
}

/// A message that will be sent.
#[derive(Clone, Debug)]
pub struct SendPlan {
    letter: Letter,
    /// The agents that go on where this answers what they asked.
    wake: Vec<Agent>,
    /// Lets no agent go on, not even at the end of its run.
    no_wake: bool,
    /// What needs attention though it can be sent.
    pub warnings: Vec<String>,
}

/// Checks a message and finds out whom its names stand for; nothing is written.
///
/// # Errors
/// `message-invalid` with everything that is wrong; `message-unknown` for an answer to nothing;
/// `agent-ambiguous`, and those of reading payload files and the ledger.
pub fn plan(ctx: &Ctx, options: &SendOptions) -> Result<SendPlan> {
    let (said, mut problems) = match assemble_payload(ctx, &options.payload)? {
        Ok(said) => (Some(said), Vec::new()),
        Err(problems) => (None, problems),
    };
    let own_from = said.as_ref().and_then(|said| said.from.as_deref());
    let spool = ctx.env.spool.as_deref().and_then(Path::file_name);
    let from = match (spool, options.from.as_deref().or(own_from)) {
        // The supervisor posts what is in an agent's spool as that agent's, whatever it says.
        (Some(id), _) => id.to_string_lossy().into_owned(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => own(ctx)?.name()?.to_string(),
    };
    let to = match &said {
        Some(said) if options.to.is_empty() => &said.to,
        _ => &options.to,
    };
    let asked = if to.is_empty() { asker(ctx, options, &from)? } else { Vec::new() };
    let to = if asked.is_empty() { to } else { &asked };
    // All problems are told at once, so those of the payload do not hide those of the options.
    problems.extend(said.as_ref().map_or(Vec::new(), |said| contradictions(options, said)));
    let checked = Draft {
        kind: &options.kind,
        priority: options.priority.as_deref(),
        from: &from,
        to: to.iter().flat_map(|text| payload::split_names(text)).collect(),
        re: options.reply_to.as_deref(),
        payload: said.as_ref().map(|said| said.payload.clone()),
        rules: repository_settings::of_main_worktree(&ctx.repo)?.messages,
    }
    .check();
    match checked {
        Ok(letter) if problems.is_empty() => {
            let (letter, mut warnings) = resolve(ctx, letter)?;
            let (wake, others): (Vec<_>, Vec<_>) =
                asleep(ctx, &letter).into_iter().partition(|agent| {
                    !options.no_wake
                        && !ctx.env.fenced
                        && ctx.env.agent.is_none()
                        && hosts::has_session(agent)
                });
            warnings.extend(others.iter().map(mail::stays_asleep));
            Ok(SendPlan { letter, wake, no_wake: options.no_wake, warnings })
        }
        checked => {
            problems.extend(checked.err().unwrap_or_default());
            Err(invalid(options, &problems))
        }
    }
}

/// Who sent the message that is answered, if that is another one than who answers.
fn asker(ctx: &Ctx, options: &SendOptions, from: &str) -> Result<Vec<String>> {
    let id = options.reply_to.as_deref().and_then(MessageId::parse);
    // What is escalated is for the user.
    let Some(id) = id.filter(|_| options.kind != Kind::Escalate.as_str()) else {
        return Ok(Vec::new());
    };
    let known = Mailbox::new(&ctx.repo).messages(std::slice::from_ref(&id))?;
    let sender = known.get(&id).map(|message| message.letter.from.as_str());
    Ok(sender.filter(|sender| *sender != from).map(str::to_owned).into_iter().collect())
}

/// The receivers that wait for an answer while nothing of them runs that could read it.
fn asleep(ctx: &Ctx, letter: &Letter) -> Vec<Agent> {
    names_of(letter).filter_map(|name| spool::sleeps(ctx, name)).collect()
}

/// The receivers that a letter names.
fn names_of(letter: &Letter) -> impl Iterator<Item = &str> {
    let names = match &letter.to {
        Receivers::Named(names) => names.as_slice(),
        Receivers::Everybody => &[],
    };
    names.iter().map(|name| name.as_str())
}

/// What a message is asked for with and its payload say differently.
fn contradictions(options: &SendOptions, said: &Addressed) -> Vec<String> {
    let names = |texts: &[String]| -> BTreeSet<String> {
        let split = texts.iter().flat_map(|text| payload::split_names(text));
        split.map(str::to_owned).collect()
    };
    let differ = |asked: &[String], said: &[String]| {
        !asked.is_empty() && !said.is_empty() && names(asked) != names(said)
    };
    let mut problems = Vec::new();
    if differ(options.from.as_slice(), said.from.as_slice()) {
        problems
            .push("`from_agent` is given by --from and, differently, by the payload".to_owned());
    }
    if differ(&options.to, &said.to) {
        problems.push("`to_agent` is given by --to and, differently, by the payload".to_owned());
    }
    problems
}

/// Sends what was planned.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
pub fn execute(ctx: &Ctx, plan: SendPlan) -> Result<SendReport> {
    let nonce = Nonce(ctx.nonce()?);
    if let Some(spool) = ctx.env.spool.clone().or_else(|| spool_of_clone(ctx)) {
        return leave(ctx, &plan, nonce, &spool);
    }
    let reached = |step: &str| ctx.reached(step);
    let mailbox = Mailbox::telling(&ctx.repo, &reached);
    match spool::post_message(ctx, &mailbox, plan.letter.clone(), nonce) {
        Ok(message) => {
            let id = message.id.clone();
            let mut report = SendReport::new(&plan, Some((message.id, message.at)));
            if plan.no_wake {
                let named = names_of(&plan.letter).filter_map(|name| ctx.ledger().find(name).ok());
                named.for_each(|agent| reader::let_sleep(ctx.repo.common_dir(), &agent, &id));
            }
            report.warnings.extend(spool::deliver_all(ctx));
            for agent in &plan.wake {
                if spool::is_waiting(ctx, agent) {
                    report.warnings.push(mail::stays_asleep(agent));
                    continue;
                }
                // The message is sent, whatever becomes of the run.
                match mail::wake(ctx, agent, &[&plan.letter]) {
                    Ok(None) => report.waking.push(agent.id.to_string()),
                    Ok(Some(warning)) => report.warnings.push(warning),
                    Err(error) => report.warnings.push(error.to_string()),
                }
            }
            Ok(report)
        }
        // The variable that names the spool may have been lost on the way; the agent's own spool
        // does as well.
        Err(error) if error.code() == Code::RepoReadOnly => match own_spool(ctx) {
            Some(spool) => leave(ctx, &plan, nonce, &spool),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn invalid(options: &SendOptions, problems: &[String]) -> Error {
    let [one] = problems else {
        let what = format!("the message breaks {} rules", problems.len());
        let error = Error::new(Code::MessageInvalid, what);
        let error = problems.iter().fold(error, Error::detail);
        return error.hint(types());
    };
    let re = options.reply_to.as_deref();
    Error::new(Code::MessageInvalid, one).hint(if one.contains(KEPT) {
        "say where it is kept in place of what it is; to hand one to an agent, run git agent run --briefing @<file>".to_owned()
    } else if re.is_some_and(|re| MessageId::parse(re).is_none()) {
        "to see the ids of messages, run git agent inbox".to_owned()
    } else {
        types()
    })
}

fn types() -> String {
    format!(
        "to see what each type needs, run git agent help send; `{EVERYBODY}` as receiver reaches everybody"
    )
}

fn leave(ctx: &Ctx, plan: &SendPlan, nonce: Nonce, spool: &Path) -> Result<SendReport> {
    let nonce = hex(&nonce.0);
    let content = Spooled::new(&plan.letter, &nonce).to_bytes();
    let since = ctx.now() - SKEW;
    spool::leave(ctx, spool, &nonce, &content)?;
    Ok(SendReport::new(plan, posted(ctx, &content, since)?))
}

/// The message that the supervisor made of what was left, so that the agent can name it in an answer. `None` where that takes too long: it is posted later.
fn posted(ctx: &Ctx, content: &[u8], since: DateTime<Utc>) -> Result<Option<(MessageId, Stamp)>> {
    // The variable says that a supervisor is there.
    let home = CurrentAgent::find(&ctx.env, &[&ctx.env.directory])?;
    let Some(home) = home.filter(|_| ctx.env.spool.is_some()) else {
        return Ok(None);
    };
    let nonce = mailbox_spool::nonce_of(home.agent.id, content);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(at) = mailbox_spool::posted(&ctx.repo, nonce, since)? {
            return Ok(Some((MessageId::new(at, nonce.digits()), at)));
        }
        std::thread::sleep(ROUND);
    }
    Ok(None)
}

// The answer of `send`.

/// The answer of `send`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.send/1")]
pub struct SendReport {
    /// The message's name; absent while it waits in a spool.
    pub message_id: Option<String>,
    /// `sent`, or `spooled` for one that the supervisor of the sender posts.
    pub status: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who sent it.
    pub from: String,
    /// For whom it is.
    #[serde(flatten)]
    pub to: ReceiversReport,
    /// How soon it is to be read.
    pub priority: &'static str,
    /// When it was sent, RFC 3339; absent while it waits in a spool.
    pub created: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// The agents that go on now, in the background, because it answers what they asked; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waking: Vec<String>,
    /// What needs attention though it was sent.
    pub warnings: Vec<String>,
}

impl SendReport {
    /// What was sent, or left in a spool.
    fn new(plan: &SendPlan, message: Option<(MessageId, Stamp)>) -> SendReport {
        let letter = &plan.letter;
        SendReport {
            status: if message.is_some() { "sent" } else { "spooled" },
            message_id: message.as_ref().map(|(id, _)| id.to_string()),
            kind: letter.kind.as_str(),
            from: letter.from.to_string(),
            to: ReceiversReport::new(&letter.to),
            priority: letter.priority.as_str(),
            created: message.map(|(_, at)| rfc3339(at.time())),
            reply_to: letter.re.as_ref().map(MessageId::to_string),
            waking: Vec::new(),
            warnings: plan.warnings.clone(),
        }
    }
}

// The payload of a message, put together from the parts that were given.

/// The file that is standard input.
const INPUT: &str = "-";

/// Puts the payload together; the inner result tells what is wrong with it.
fn assemble_payload(
    ctx: &Ctx,
    parts: &[String],
) -> Result<std::result::Result<payload::Addressed, Vec<String>>> {
    let mut texts = Vec::new();
    let input = |part: &&String| PayloadPart::of(part) == PayloadPart::File(INPUT);
    if parts.iter().filter(input).count() > 1 {
        let problem = format!("`@{INPUT}` stands twice, and standard input can be read once");
        return Ok(Err(vec![problem]));
    }
    for part in parts {
        match PayloadPart::of(part) {
            PayloadPart::Field(key, value) => texts.push((Some(key), value.to_owned())),
            PayloadPart::Json(text) => texts.push((None, text.to_owned())),
            PayloadPart::File(path) => match read_payload(ctx, path)? {
                Ok(text) => texts.push((None, text)),
                Err(problem) => return Ok(Err(vec![problem])),
            },
        }
    }
    let parts: Vec<_> = texts.iter().map(|(key, text)| (*key, text.as_str())).collect();
    Ok(payload::assemble(&parts))
}

fn read_payload(ctx: &Ctx, path: &str) -> Result<std::result::Result<String, String>> {
    let what = "could not read the payload";
    let (source, path): (Box<dyn Read>, _) = match path {
        INPUT => (Box::new(std::io::stdin()), PathBuf::from("<stdin>")),
        _ => {
            let path = ctx.absolute(Path::new(path));
            (Box::new(File::open(&path).at(what, &path)?), path)
        }
    };
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that it is too long.
    let read = source.take(PAYLOAD_LIMIT as u64 + 1).read_to_end(&mut bytes);
    read.at(what, &path)?;
    if bytes.len() > PAYLOAD_LIMIT {
        let path = path.display();
        return Ok(Err(format!("{path} holds more than {PAYLOAD_LIMIT} bytes")));
    }
    Ok(String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display())))
}
