//! Who sends and who reads: agents by everything that the ledger knows them by, others by their names.

use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::message::{Name, USER};
use crate::error::{Code, Error, Result};
use crate::ops::home::Home;
use crate::ops::{Ctx, lookup};
use crate::store::ledger::Ledger;
use crate::store::mailbox::Reader;

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

/// Whom a name stands for: an agent where the ledger knows one by it, else a reader outside of the ledger.
///
/// # Errors
/// `agent-ambiguous`, and those of the ledger.
pub fn whom(ctx: &Ctx, name: &Name) -> Result<Whom> {
    match lookup::agent(ctx, &Ledger::new(&ctx.repo), name.as_str()) {
        Ok(agent) => Ok(Whom::Agent(Box::new(agent))),
        Err(error) if error.code() == Code::AgentUnknown => Ok(Whom::Stranger(name.clone())),
        Err(error) => Err(error),
    }
}

/// Who we are: the agent that the environment names or whose worktree we stand in, else the user.
///
/// # Errors
/// Those of [`Home::find`].
pub fn own(ctx: &Ctx) -> Result<Whom> {
    match Home::find(&ctx.env, &[&ctx.env.directory])? {
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
