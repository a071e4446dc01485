//! `send`: a message into the mailbox, or into the spool of an agent that may not write there.
//!
//! ```text
//! words -> Draft -> Letter (names resolved) -> SendPlan ─┬─> commit on refs/agents/mail
//!                                                        └─> file in the spool ─> post_spool
//! ```

mod report;
mod said;
mod spool;

pub use report::SendReport;
pub use spool::{SPOOL_STEPS, post_spool, sweep_spools, uncollected};
pub(in crate::ops) use spool::{leave_declaration, leave_receipt};

use super::mail::{Whom, own, whom};
use crate::domain::hex::hex;
use crate::domain::message::draft::KEPT;
use crate::domain::message::{Draft, EVERYBODY, Letter, MessageId, Name, Receivers, USER};
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::store::layout;
use crate::store::mailbox::{Mailbox, Nonce};
use crate::wire::message::payload::{self, Addressed};
use crate::wire::message::spooled::Spooled;
use said::said;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
}

/// A message that will be sent.
#[derive(Clone, Debug)]
pub struct SendPlan {
    letter: Letter,
    /// What needs attention though it can be sent.
    pub warnings: Vec<String>,
}

/// Checks a message and finds out whom its names stand for; nothing is written.
///
/// # Errors
/// `message-invalid` with everything that is wrong; `message-unknown` for an answer to nothing;
/// `agent-ambiguous`, and those of reading payload files and the ledger.
pub fn plan(ctx: &Ctx, options: &SendOptions) -> Result<SendPlan> {
    let (said, mut problems) = match said(ctx, &options.payload)? {
        Ok(said) => (Some(said), Vec::new()),
        Err(problems) => (None, problems),
    };
    let own_from = said.as_ref().and_then(|said| said.from.as_deref());
    let from = match options.from.as_deref().or(own_from) {
        Some(name) => name.to_owned(),
        None => own(ctx)?.name()?.to_string(),
    };
    let to = match &said {
        Some(said) if options.to.is_empty() => &said.to,
        _ => &options.to,
    };
    problems.extend(
        said.as_ref()
            .map_or(Vec::new(), |said| contradictions(options, said)),
    );
    let checked = Draft {
        kind: &options.kind,
        priority: options.priority.as_deref(),
        from: &from,
        to: to
            .iter()
            .flat_map(|text| payload::split_names(text))
            .collect(),
        re: options.reply_to.as_deref(),
        payload: said.as_ref().map(|said| said.payload.clone()),
    }
    .check();
    match checked {
        Ok(letter) if problems.is_empty() => resolve(ctx, letter),
        checked => {
            problems.extend(checked.err().unwrap_or_default());
            Err(invalid(options, &problems))
        }
    }
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
    if let Some(spool) = &ctx.env.spool {
        return leave(ctx, &plan, nonce, spool);
    }
    let reached = |step: &str| ctx.reached(step);
    let mailbox = Mailbox::telling(&ctx.repo, &reached);
    match mailbox.post(plan.letter.clone(), nonce, ctx.now()) {
        Ok(message) => Ok(SendReport::new(&plan, Some(&message))),
        Err(error) if error.code() == Code::RepoReadOnly => match own_spool(ctx) {
            Some(spool) => leave(ctx, &plan, nonce, &spool),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Puts the ids of agents in the place of their names, and looks whether the answered message is there.
fn resolve(ctx: &Ctx, mut letter: Letter) -> Result<SendPlan> {
    let mut warnings = Vec::new();
    letter.from = whom(ctx, &letter.from)?.name()?;
    if let Receivers::Named(names) = &letter.to {
        let mut resolved: Vec<Name> = Vec::new();
        for name in names {
            let whom = whom(ctx, name)?;
            match &whom {
                Whom::Agent(agent) if !agent.state.is_open() => warnings.push(format!(
                    "agent {} is {}; it may never read this",
                    agent.id.short(),
                    agent.state
                )),
                Whom::Stranger(name) if name.as_str().eq_ignore_ascii_case(EVERYBODY) => {
                    warnings.push(format!(
                        "`{name}` is taken for a name; did you mean `{EVERYBODY}`?"
                    ));
                }
                Whom::Stranger(name) if name.as_str() != USER => warnings.push(format!(
                    "no agent goes by `{name}`; a reader that receives by that name will find the message"
                )),
                _ => {}
            }
            let name = whom.name()?;
            if !resolved.contains(&name) {
                resolved.push(name);
            }
        }
        letter.to = Receivers::Named(resolved);
    }
    if let Some(re) = &letter.re {
        let known = Mailbox::new(&ctx.repo).messages(std::slice::from_ref(re))?;
        if known.is_empty() {
            return Err(Error::new(
                Code::MessageUnknown,
                format!("there is no message {re} to reply to"),
            )
            .hint("to see what there is, run git agent inbox"));
        }
    }
    Ok(SendPlan { letter, warnings })
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
    spool::leave(ctx, spool, &nonce, &content)?;
    Ok(SendReport::new(plan, None))
}

/// The spool of the agent that we are, where it has one.
fn own_spool(ctx: &Ctx) -> Option<PathBuf> {
    let Ok(Whom::Agent(agent)) = own(ctx) else {
        return None;
    };
    let spool = layout::spool_dir(ctx.repo.common_dir(), agent.id);
    spool.is_dir().then_some(spool)
}
