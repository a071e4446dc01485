//! What a spawn commit says about its agent. It binds: the agent's id is made from that commit, so no other policy can
//! be put into it. Where the ledger's row says otherwise, the row is wrong.

use crate::domain::agent::Agent;
use crate::domain::event::{Base, Isolation};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::objects::blob_name;
use crate::git::objects::raw_commit::RawCommit;
use crate::wire::policy::{HEADER, Policy};

/// The trailer with the random number that tells two spawns apart, and that a rebase takes along.
pub const NONCE: &str = "Agent-Nonce";

/// How the message of a spawn commit begins, also after a rebase.
pub const SPAWN_SUBJECT: &str = "agent: spawn ";

/// How many commits are followed along first parents before history is searched as a whole.
const FOLLOWED: usize = 256;

/// A commit that makes an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnCommit {
    /// The commit.
    pub oid: Oid,
    /// Its only parent, from which the agent started.
    base: Oid,
    /// The policy that binds the agent, without the hash of the specification.
    pub terms: Policy,
}

impl SpawnCommit {
    /// What a commit says; `None` unless it is as spawn makes them, with a policy. One that was rebased is none, and
    /// neither is one of earlier versions.
    pub fn of(oid: Oid, commit: &RawCommit) -> Option<SpawnCommit> {
        commit.trailer(NONCE)?;
        let terms = Policy::from_header(&commit.header(HEADER)?)?;
        let [base] = commit.parents()[..] else {
            return None;
        };
        // git keeps the header of a commit that is amended, also where a rebase has put it on another base.
        (terms.base_oid == base.to_hex()).then_some(SpawnCommit { oid, base, terms })
    }

    /// Reads one; `None` as for [`SpawnCommit::of`], and for a commit that is not in this clone.
    ///
    /// # Errors
    /// `repo-corrupt` when it cannot be read.
    pub fn read(repo: &Repo, oid: Oid) -> Result<Option<SpawnCommit>> {
        match repo.read_raw_commit(oid) {
            Ok(commit) => Ok(SpawnCommit::of(oid, &commit)),
            Err(_) if !repo.is_at_hand(oid) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the agent started.
    pub fn base(&self) -> Base {
        Base {
            refname: self.terms.base_ref.clone(),
            oid: self.base,
        }
    }

    /// The agent, where no ledger tells more of it.
    ///
    /// # Errors
    /// `git-failed` when libgit2 cannot hash.
    pub fn agent(&self) -> Result<Agent> {
        Ok(Agent::without_row(
            self.oid,
            self.terms.role.clone(),
            Isolation::parse(&self.terms.isolation),
            self.base(),
            blob_name(&self.terms.to_bytes())?,
        ))
    }
}

/// An agent of the ledger with what its spawn commit says about base, role and isolation, and where its row says
/// otherwise, one sentence each. An agent whose spawn commit is not here, or carries no policy, stays as it is.
///
/// # Errors
/// `repo-corrupt` when the spawn commit cannot be read.
pub fn bound(repo: &Repo, mut agent: Agent) -> Result<(Agent, Vec<String>)> {
    let mut altered = Vec::new();
    // A half-made agent's row holds less than its spawn commit, and nothing that is wrong.
    if agent.policy.is_none() {
        return Ok((agent, altered));
    }
    let Some(spawn) = SpawnCommit::read(repo, agent.spawn_commit)? else {
        return Ok((agent, altered));
    };
    if !is_recorded_as(repo, &agent, &spawn.terms) {
        altered
            .push("the ledger names a policy that is not the one in the spawn commit".to_owned());
    }
    let said = spawn.base();
    let mut differs = |what: &str, row: Option<String>, said: String| {
        if row.as_ref() != Some(&said) {
            let row = row.unwrap_or_else(|| "nothing".to_owned());
            altered.push(format!(
                "the ledger says {what} {row}, and the spawn commit {said}"
            ));
        }
    };
    differs("role", agent.role.take(), spawn.terms.role.clone());
    let isolation = agent
        .isolation
        .map(|isolation| isolation.as_str().to_owned());
    differs("isolation", isolation, spawn.terms.isolation.clone());
    differs("base", agent.base.as_ref().map(shown), shown(&said));
    agent.role = Some(spawn.terms.role.clone());
    agent.isolation = Isolation::parse(&spawn.terms.isolation);
    agent.base = Some(said);
    Ok((agent, altered))
}

/// Whether the policy that the agent's row names is this one, so far as that can be told: a blob that is not in this
/// clone tells nothing.
fn is_recorded_as(repo: &Repo, agent: &Agent, terms: &Policy) -> bool {
    let Some(blob) = agent.policy else {
        return true;
    };
    match repo.read_blob(blob) {
        Ok(bytes) => Policy::from_bytes(&bytes).is_some_and(|policy| policy.terms() == *terms),
        Err(_) => !repo.is_at_hand(blob),
    }
}

fn shown(base: &Base) -> String {
    match &base.refname {
        Some(refname) => format!("{} ({refname})", base.oid),
        None => base.oid.to_hex(),
    }
}

/// Where the local branch of an agent is; `None` unless its history holds the agent's spawn commit.
///
/// # Errors
/// `git-failed`.
pub fn branch_of(repo: &Repo, agent: &Agent) -> Result<Option<Oid>> {
    let Some(branch) = &agent.branch else {
        return Ok(None);
    };
    let tip = repo.tip(branch)?.oid();
    Ok(tip.filter(|tip| is_held_by(repo, *tip, agent)))
}

/// Whether history holds an agent's spawn commit or, along first parents, what a rebase made of it. History that
/// cannot be read holds nothing.
pub fn is_held_by(repo: &Repo, tip: Oid, agent: &Agent) -> bool {
    let spawn_commit = agent.spawn_commit;
    // A row may be about any commit, as about the root of all history. Only a spawn makes an agent.
    let spawn = repo.read_commit(spawn_commit).ok();
    if spawn
        .as_ref()
        .is_some_and(|commit| commit.trailer(NONCE).is_none())
    {
        return false;
    }
    let own = spawn.as_ref().and_then(|commit| commit.trailer(NONCE));
    let mut next = Some(tip);
    for _ in 0..FOLLOWED {
        let Some(oid) = next.filter(|oid| repo.has_object(*oid)) else {
            break;
        };
        if oid == spawn_commit {
            return true;
        }
        let Ok(commit) = repo.read_commit(oid) else {
            return false;
        };
        if let Some(found) = commit.trailer(NONCE)
            && own == Some(found)
        {
            return true;
        }
        next = commit.parents.first().copied();
    }
    let contains = |spawn| {
        repo.merge_base(spawn, tip)
            .is_ok_and(|base| base == Some(spawn))
    };
    repo.has_object(spawn_commit) && repo.has_object(tip) && contains(spawn_commit)
}

/// How many of an agent's own commits, parents first, hold work: all but its spawn commit, or what a rebase made of that.
pub fn without(repo: &Repo, spawn: Oid, own: &[Oid]) -> usize {
    let is_twin = || {
        let first = own.first().and_then(|first| repo.read_commit(*first).ok());
        first.is_some_and(|commit| {
            commit.message.starts_with(SPAWN_SUBJECT) && commit.trailer(NONCE).is_some()
        })
    };
    let has_spawn = own.contains(&spawn) || is_twin();
    own.len() - usize::from(has_spawn)
}
