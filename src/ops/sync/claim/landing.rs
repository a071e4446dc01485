//! The claim under which work was done, when that work lands on the remote.

use super::message::ClaimRecord;
use super::{forget, held, lost, write};
use crate::agents::ctx::Ctx;
use crate::domain::claim::{ClaimMessage, ClaimState};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::refs::remote::{Fetched, RefChange, RefPush, RemoteRefs};
use crate::store::layout;
use crate::store::lock::{self, Guard};
use crate::store::remote_names::RemoteNames;
use std::collections::HashSet;
use std::time::Instant;

/// A claim that names an agent whose work is about to land.
#[derive(Debug)]
pub(crate) struct LandingClaim {
    key: String,
    refname: String,
    /// The commit that the ref was seen at.
    token: Oid,
    message: ClaimMessage,
    /// Keeps other processes of this clone away from a claim that a dead process of it holds.
    lock: Option<Guard>,
}

/// The claims of a remote that name these agents. `blamed` gets the agent whose claim keeps it from landing.
///
/// # Errors
/// `claim-lost` when another agent has an agent's task by now; `claim-held` while a process works under the claim;
/// `lost-race` when a claim goes away meanwhile; those of the network and of the file system.
pub(crate) fn of_agents(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    agents: &[AgentId],
    end: Instant,
    blamed: &mut Option<AgentId>,
) -> Result<Vec<LandingClaim>> {
    let names = RemoteNames::configured(&ctx.repo)?;
    names.require_distinct(&ctx.repo, remote, listed, end)?;
    let prefix = names.claim("");
    let claims: Vec<(&str, Oid)> = { listed.iter() }
        .filter_map(|(refname, oid)| Some((refname.strip_prefix(&prefix)?, *oid)))
        .collect();
    fetch(ctx, remote, &names, &claims, end)?;
    let mut found = Vec::new();
    for (key, token) in claims {
        // What another clone has put in its place says nothing of whose task it is.
        let commit = ctx.repo.read_commit(token).ok();
        let Some(message) = commit.as_ref().and_then(ClaimMessage::read) else {
            continue;
        };
        // Until its first sign of life a claim names no agent on the remote.
        let own = own_record(ctx, key, &message)?;
        let agent = message.agent.or(own.as_ref().and_then(|own| own.agent));
        if let Some(agent) = agent.filter(|agent| agents.contains(agent)) {
            // Set before what may fail, and cleared once nothing has.
            *blamed = Some(agent);
            let agent = Some(agent);
            let message = ClaimMessage { agent, ..message };
            let lock = require_at_rest(ctx, key, &message, own.is_some())?;
            let refname = names.claim(key);
            found.push(LandingClaim {
                key: key.to_owned(),
                refname,
                token,
                message,
                lock,
            });
            continue;
        }
        // The claim was this agent's and is another's by now: another clone took the task over.
        let named = before(&ctx.repo, token).filter_map(|one| one.agent);
        if let Some(agent) = { named }.find(|agent| agents.contains(agent)) {
            *blamed = Some(agent);
            return Err(lost(key));
        }
    }
    *blamed = None;
    Ok(found)
}

/// Fetches the commits of claims that are not here.
fn fetch(
    ctx: &Ctx,
    remote: &str,
    names: &RemoteNames,
    claims: &[(&str, Oid)],
    end: Instant,
) -> Result<()> {
    let repo = &ctx.repo;
    let missing = claims.iter().filter(|(_, oid)| !repo.has_object(*oid));
    let copies: Vec<(String, String)> = missing
        .map(|(key, _)| {
            let copy = format!("{}claim/{key}", layout::copies(remote));
            (format!("+{}:{copy}", names.claim(key)), copy)
        })
        .collect();
    if copies.is_empty() {
        return Ok(());
    }
    let refspecs: Vec<String> = copies.iter().map(|(refspec, _)| refspec.clone()).collect();
    let fetched = repo.fetch_refs(remote, &refspecs, end)?;
    // The commits are needed for a moment, and no ref has to say so.
    for (_, copy) in copies {
        if let Some(oid) = repo.tip(&copy)?.oid() {
            repo.delete_ref(&copy, oid)?;
        }
    }
    if fetched == Fetched::All {
        return Ok(());
    }
    Err(Error::new(
        Code::LostRace,
        format!("claims of `{remote}` were given back while they were read"),
    ))
}

/// What this clone remembers of a claim, if it is this clone's.
fn own_record(ctx: &Ctx, key: &str, message: &ClaimMessage) -> Result<Option<ClaimRecord>> {
    let record = ClaimRecord::load(ctx.repo.common_dir(), key)?;
    Ok(record.filter(|record| record.nonce == message.nonce))
}

/// Checks that no process works under a claim any more. Gives the lock of one that a dead process of this clone holds.
fn require_at_rest(
    ctx: &Ctx,
    key: &str,
    message: &ClaimMessage,
    is_own: bool,
) -> Result<Option<Guard>> {
    if message.state != ClaimState::Held {
        return Ok(None);
    }
    if !is_own {
        return Err(held(key, &format!("clone {}", message.clone)));
    }
    match lock::try_hold(ctx.repo.common_dir(), &layout::claim_lock(key))? {
        Some(guard) => Ok(Some(guard)),
        None => Err(held(key, "another process of this clone")),
    }
}

/// What a commit of a claim and the commits before it say, the newest first.
pub(super) fn before(repo: &Repo, token: Oid) -> impl Iterator<Item = ClaimMessage> {
    let mut seen = HashSet::from([token]);
    let mut next = vec![token];
    std::iter::from_fn(move || {
        loop {
            // What another clone put on top, or below, and is no claim says nothing.
            let Ok(commit) = repo.read_commit(next.pop()?) else {
                continue;
            };
            let Some(message) = ClaimMessage::read(&commit) else {
                continue;
            };
            next.extend(commit.parents.into_iter().filter(|oid| seen.insert(*oid)));
            return Some(message);
        }
    })
}

impl LandingClaim {
    /// The change by which the claim says that the task is done, if it is where it was seen.
    ///
    /// # Errors
    /// Those of the object store.
    pub(crate) fn finish(&self, ctx: &Ctx) -> Result<RefPush> {
        let message = ClaimMessage {
            state: ClaimState::Done,
            seconds: ctx.now().timestamp(),
            ..self.message.clone()
        };
        let to = write(ctx, &self.key, &message, Some(self.token))?;
        Ok(RefPush::new(
            self.refname.clone(),
            RefChange::Swap {
                from: Some(self.token),
                to,
            },
        ))
    }

    /// Notes that the work has landed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn landed(&self, ctx: &Ctx) -> Result<()> {
        // There is a lock only where a dead process of this clone held the claim, and only then a
        // record.
        self.lock.iter().try_for_each(|_| forget(ctx, &self.key))
    }

    /// Checks that the claim is where it was seen.
    ///
    /// # Errors
    /// `claim-lost`.
    pub(crate) fn require_unmoved(&self, listed: &RemoteRefs) -> Result<()> {
        if listed.get(&self.refname) == Some(&self.token) {
            return Ok(());
        }
        Err(lost(&self.key))
    }
}
