//! Who sends and who reads: agents by everything that the ledger knows them by, others by their names.

use crate::agents::context::ctx::Ctx;
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::lookup;
use crate::domain::mail::message::{EVERYBODY, Name, USER};
use crate::domain::{Agent, AgentId, AgentName, Letter, Receivers};
use crate::error::{Code, Error, Remedy, Result};
use crate::store::mailbox::Reader;
use crate::store::{Ledger, Mailbox};

/// What the user names an agent by in a command: its alias, or its id where another live agent has the alias too.
pub(crate) fn for_command(ctx: &Ctx, id: AgentId, alias: Option<&AgentName>) -> String {
    let is_own = |alias: &&AgentName| {
        let others = ctx.ledger().live_with_alias(alias);
        others.is_ok_and(|others| others.iter().all(|other| other.id == id))
    };
    match alias.filter(is_own) {
        Some(alias) => alias.to_string(),
        None => id.short(),
    }
}

/// The warning that a live agent other than `but` has the name too.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn shared(
    ledger: &Ledger<'_>,
    name: &AgentName,
    but: Option<AgentId>,
) -> Result<Option<String>> {
    let mut others = ledger.live_with_alias(name)?;
    // A successor may take over the name of the agent that it succeeds.
    others.retain(|other| Some(other.id) != but);
    Ok(others.last().map(|other| {
        format!(
            "agent {} is {} and has the name `{name}` too, so the name is ambiguous; to name one of them, use \
             its id",
            other.id.short(),
            other.state
        )
    }))
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Whom {
    /// An agent.
    Agent(Box<Agent>),
    /// A person or an outside tool.
    Stranger(Name),
}

impl Whom {
    /// The name that messages carry: an agent's id.
    ///
    /// # Errors
    /// Never for an agent's id.
    pub fn name(&self) -> Result<Name> {
        match self {
            Whom::Agent(agent) => Name::parse(&agent.id.to_string()).map_err(Error::bug),
            Whom::Stranger(name) => Ok(name.clone()),
        }
    }

    /// The mailbox's idea of them.
    ///
    /// # Errors
    /// `git-failed` when libgit2 cannot hash.
    pub fn reader(&self) -> Result<Reader> {
        match self {
            Whom::Agent(agent) => Reader::agent(agent),
            Whom::Stranger(name) => Reader::stranger(name),
        }
    }
}

/// Whom a name stands for: the person by that word, an agent where the ledger knows one by it, else a reader outside of the ledger.
///
/// # Errors
/// `agent-ambiguous`, and those of the ledger.
pub fn whom(ctx: &Ctx, name: &Name) -> Result<Whom> {
    // A branch may be called so, too; what is for a person reaches no agent.
    if name.as_str() == USER {
        return Ok(Whom::Stranger(name.clone()));
    }
    match lookup::agent(ctx, &ctx.ledger(), name.as_str()) {
        Ok(agent) => Ok(Whom::Agent(Box::new(agent))),
        // A name that several agents have is an error and no stranger: none of them would get the
        // message.
        Err(error) if error.code() == Code::AgentUnknown => Ok(Whom::Stranger(name.clone())),
        Err(error) => Err(error),
    }
}

/// Who we are: the agent that the environment names or whose worktree we stand in, else the user.
///
/// # Errors
/// Those of [`CurrentAgent::find`].
pub fn own(ctx: &Ctx) -> Result<Whom> {
    match CurrentAgent::find(&ctx.env, &[&ctx.env.directory])? {
        Some(home) => Ok(Whom::Agent(Box::new(home.agent))),
        None => Ok(Whom::Stranger(Name::parse(USER).map_err(Error::bug)?)),
    }
}

/// The reader that goes by a name, or that we are; and what to call it in texts: as it was called, an agent
/// that was not by its short id.
///
/// # Errors
/// `message-invalid` for a name that is none, those of [`whom`] and [`own`].
pub fn reader_of(ctx: &Ctx, name: Option<&str>) -> Result<(Reader, String)> {
    let (whom, called) = match name {
        Some(text) => {
            let name = Name::parse(text).map_err(|rule| Error::new(Code::MessageInvalid, rule))?;
            (whom(ctx, &name)?, Some(text.to_owned()))
        }
        None => (own(ctx)?, None),
    };
    let reader = whom.reader()?;
    let called = called.unwrap_or_else(|| handle(reader.name.as_str()));
    Ok((reader, called))
}

/// A name for people: an agent by its short id.
pub fn handle(name: &str) -> String {
    AgentId::parse(name).map_or_else(|| name.to_owned(), AgentId::short)
}

/// Puts the ids of agents in the place of their names, and looks whether the answered message is there.
pub(crate) fn resolve(ctx: &Ctx, mut letter: Letter) -> Result<(Letter, Vec<String>)> {
    let mut warnings = Vec::new();
    // Messages carry ids: names can be given to another agent later.
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
            // Two names of one agent make one receiver.
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
            .remedy("to see what there is", Remedy::Messages(None)));
        }
    }
    Ok((letter, warnings))
}
