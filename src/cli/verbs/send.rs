//! `git agent send`

use crate::agents::Ctx;
use crate::cli::input::args::{any, one_of};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::mail::message::{Kind, Priority, plain};
use crate::error::{Code, Error, Exit, Result};
use crate::ops::send::{self, SendOptions, SendReport};

/// Send a message to agents or people
///
/// Fields that each type requires, as options or payload, and its default priority:
///   handoff      to, artifact_path, context_summary, next_actions   high
///   review       to, artifact_path, review_type                     medium
///   clarify      to, question, context                              high
///   escalate     issue, severity, recommendation (to the user)      critical
///   notify       to, message                                        low
///   collaborate  to, topic, deadline                                medium
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(in crate::cli) struct SendArgs {
    /// Text of the message: the field `message` of a notify, `question` of a clarify, `issue` of an escalate
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Type of the message
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = Kind::Notify.as_str(), value_parser = one_of(Kind::ALL.map(Kind::as_str), any))]
    kind: String,
    /// Sender; by default the agent whose worktree this is, else `user`
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Receiver: an agent's id, name or branch, or any other name; several separated by commas; `all`
    #[arg(long, value_name = "NAME")]
    to: Vec<String>,
    /// How soon it is to be read
    #[arg(long, short = 'p', value_name = "PRIORITY", value_parser = one_of(Priority::ALL.map(Priority::as_str), any))]
    priority: Option<String>,
    /// Fields of the message: `key=value`, a JSON object, or `@file` with one, `@-` for standard input; several are
    /// combined
    #[arg(long, num_args = 1.., value_name = "PAYLOAD")]
    payload: Vec<String>,
    /// Message that this one answers, by default to its sender
    #[arg(long, value_name = "MSG")]
    reply_to: Option<String>,
    /// Do not resume the session of an agent whose question this answers
    #[arg(long)]
    no_wake: bool,
}

impl SendArgs {
    /// The payload with the text that was typed as the field that says what a message of this type is about.
    fn payload(&self) -> Result<Vec<String>> {
        let mut payload = self.payload.clone();
        if let Some(text) = &self.text {
            let field = match Kind::parse(&self.kind) {
                Some(Kind::Notify) => "message",
                Some(Kind::Clarify) => "question",
                Some(Kind::Escalate) => "issue",
                // That there is no such type is said where the message is read.
                None => "message",
                Some(_) => {
                    let what = format!("a {} has no text of its own", self.kind);
                    return Err(Error::new(Code::Usage, what)
                        .hint("to say it, give its fields, as git agent send -h lists them, with --payload"));
                }
            };
            payload.push(format!("{field}={text}"));
        }
        Ok(payload)
    }
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: SendArgs) -> Result<Exit> {
    let payload = args.payload()?;
    let plan = send::plan(
        ctx,
        &SendOptions {
            kind: args.kind,
            priority: args.priority,
            from: args.from,
            to: args.to,
            payload,
            reply_to: args.reply_to,
            no_wake: args.no_wake,
        },
    )?;
    for warning in &plan.warnings {
        ui.warn(warning);
    }
    let told = plan.warnings.len();
    let report = send::execute(ctx, plan)?;
    report.warnings.iter().skip(told).for_each(|warning| ui.warn(warning));
    ui.done(&report)
}

impl Answer for SendReport {
    fn text(&self) -> String {
        let mut text = match self.message_id {
            Some(_) => "Message sent successfully.\n".to_owned(),
            None => "Message left in the spool; it is sent when that is collected.\n".to_owned(),
        };
        let lines = [
            ("ID", self.message_id.clone()),
            ("Type", Some(self.kind.to_owned())),
            ("From", Some(crate::agents::who::names::handle(&self.from))),
            ("To", Some(self.to.text())),
            ("Priority", Some(self.priority.to_owned())),
        ];
        for (key, value) in lines {
            text.extend(value.map(|value| format!("{key}: {}\n", plain(&value))));
        }
        for agent in &self.waking {
            let agent = crate::agents::who::names::handle(agent);
            text.push_str(&format!("agent {agent} goes on with the answer in the background\n"));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(match &self.message_id {
            Some(id) => format!("git agent show {id}"),
            None => "ls \"$GIT_AGENT_SPOOL\"".to_owned(),
        })
    }
}
