//! What a spawn commit says about its agent. It binds: the agent's id is made from that commit, so no other policy can
//! be put into it. Where the ledger's row says otherwise, the row is wrong.

use crate::domain::life::event::Base;
use crate::domain::{Agent, Event, Isolation, Oid};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::objects::{RawCommit, blob_name};
use crate::git::repo::program::CommitSignature;
use crate::git::{Commit, Repo, record::notes};
use crate::store::chain::keep;
use crate::store::chain::{self, Chain};
use crate::wire::row::event_line;
use crate::wire::row::policy::{HEADER, Policy};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The trailer with the random number that tells two spawns apart, and that a rebase takes along.
pub const NONCE: &str = "Agent-Nonce";

/// The header by which the first commit of a branch without its spawn commit holds the whole text of that
/// (see [`replay`](super::replay)).
pub const CARRIED: &str = "agent-spawn";

/// What the names of agents' branches begin with unless the user gave them another name.
pub const AGENTS_BRANCHES: &str = "refs/heads/agent/";

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
        Base { refname: self.terms.base_ref.clone(), oid: self.base }
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

/// The spawn commit whose text a commit carries in its header; its name is computed from that text.
pub fn carried(commit: &RawCommit) -> Option<(Oid, RawCommit)> {
    let spawn = RawCommit::from_bytes(commit.header(CARRIED)?);
    // The name is computed from the text, so a header cannot claim to be another agent's.
    let oid = spawn.name().ok()?;
    SpawnCommit::of(oid, &spawn).map(|made| (made.oid, spawn))
}

/// Writes the spawn commit of an agent where this clone lacks it and a commit on the line of first parents below `tip` carries it.
/// No ref moves.
///
/// # Errors
/// Those of [`Repo::write_blob`].
pub fn restore(repo: &Repo, tip: Oid, agent: &Agent) -> Result<()> {
    if repo.has_object(agent.spawn_commit) {
        return Ok(());
    }
    let mut next = Some(tip);
    for _ in 0..FOLLOWED {
        let Some(Ok(commit)) = next.map(|oid| repo.read_raw_commit(oid)) else {
            break;
        };
        if let Some((oid, spawn)) = carried(&commit)
            && oid == agent.spawn_commit
        {
            return repo.write_raw_commit(&spawn).map(drop);
        }
        next = commit.parents().first().copied();
    }
    Ok(())
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
            altered.push(format!("the ledger says {what} {row}, and the spawn commit {said}"));
        }
    };
    differs("role", agent.role.take(), spawn.terms.role.clone());
    let isolation = agent.isolation.map(|isolation| isolation.as_str().to_owned());
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

/// What tells the spawn commit of one agent, and what a rebase makes of it, from all others.
pub fn nonce(commit: &Commit) -> Option<String> {
    commit.trailer(NONCE).map(str::to_owned)
}

/// Whether history holds an agent's spawn commit or, along first parents, what a rebase made of it, or a commit that carries it.
/// History that cannot be read holds nothing.
pub fn is_held_by(repo: &Repo, tip: Oid, agent: &Agent) -> bool {
    let spawn_commit = agent.spawn_commit;
    // A row may be about any commit, as about the root of all history. Only a spawn makes an agent.
    let spawn = repo.read_commit(spawn_commit).ok();
    if spawn.is_some_and(|commit| commit.trailer(NONCE).is_none()) {
        return false;
    }
    if own_line(repo, tip, agent).is_some() {
        return true;
    }
    // The long way, for spawn commits that a merge brought in from the side and for long histories.
    let contains = |spawn| repo.merge_base(spawn, tip).is_ok_and(|base| base == Some(spawn));
    repo.has_object(spawn_commit) && repo.has_object(tip) && contains(spawn_commit)
}

/// An agent's commits along first parents, the newest first, and the commit below them: its spawn commit or what a rebase made of that, or
/// what the commit that carries it stands on. `None` where they do not lead there within a few hundred, or cannot be read.
pub fn own_line(repo: &Repo, tip: Oid, agent: &Agent) -> Option<(Vec<Oid>, Oid)> {
    let spawn_commit = agent.spawn_commit;
    let own = repo.read_commit(spawn_commit).ok().and_then(|commit| nonce(&commit));
    let (mut line, mut next) = (Vec::new(), tip);
    while line.len() < FOLLOWED && next != spawn_commit {
        let commit = repo.read_raw_commit(next).ok()?;
        let found = commit.trailer(NONCE);
        if own.is_some() && found == own {
            return Some((line, next));
        }
        let parent = commit.parents().first().copied();
        line.push(next);
        if carried(&commit).is_some_and(|(spawn, _)| spawn == spawn_commit) {
            return Some((line, parent?));
        }
        next = parent.filter(|oid| repo.has_object(*oid))?;
    }
    (next == spawn_commit).then_some((line, next))
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

// Signed events: whether this clone signs (`agent.sign`), and who signed what the ledger holds.
//
// An event is signed by the signature of the commit that brought it. Commits that only unite or repair histories are
// never signed: every clone has to make the same union, and they bring no event of their own.

/// An event and who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSignature {
    /// The event.
    pub event: Event,
    /// The commit that brought it, and what git says of its signature; `None` where no commit here did, as in a
    /// shallow clone.
    pub commit: Option<(Oid, CommitSignature)>,
}

/// The commits that brought each line of a note.
type Origins = BTreeMap<(Oid, Vec<u8>), Vec<Oid>>;

/// Whether this clone signs its events. An agent's worktree has no say.
///
/// # Errors
/// `usage` where the setting is neither true nor false; `git-failed`.
pub fn are_wanted(repo: &Repo) -> Result<bool> {
    Ok(repo.shared_flag("agent.sign")? == Some(true))
}

/// Who signed each event of the ledger. Where several commits brought an event, a good signature counts.
///
/// # Errors
/// `repo-corrupt`, `git-missing`, `git-failed`.
pub fn signatures(repo: &Repo) -> Result<Vec<EventSignature>> {
    let Some(tip) = chain::tip(repo, Chain::Ledger)? else {
        return Ok(Vec::new());
    };
    // 1. The events that there are.
    let mut origins = Origins::new();
    for (note, blob) in notes::all(repo, tip.tree)? {
        let body = notes::united(repo, &[blob])?;
        origins.extend(notes::lines_of(&body).map(|line| ((note, line.to_vec()), Vec::new())));
    }
    // 2. Where they came from.
    find_origins(repo, &tip, &mut origins)?;
    // 3. Who signed that.
    let commits: BTreeSet<Oid> = origins.values().flatten().copied().collect();
    let signatures = repo.commit_signatures(&Vec::from_iter(commits))?;
    let decoded = origins.iter().filter_map(|((_, line), commits)| {
        Some(EventSignature {
            event: event_line::decode(line)?,
            commit: best(commits, &signatures),
        })
    });
    Ok(decoded.collect())
}

fn best(
    commits: &[Oid],
    signatures: &HashMap<Oid, CommitSignature>,
) -> Option<(Oid, CommitSignature)> {
    let is_good = |oid: &&Oid| matches!(signatures.get(oid), Some(CommitSignature::Good(_)));
    let oid = commits.iter().find(is_good).or(commits.first())?;
    Some((*oid, signatures.get(oid)?.clone()))
}

/// Searches the ledger's history, also as far as the reflog alone leads to it: `doctor` restores lines from there.
fn find_origins(repo: &Repo, tip: &Commit, origins: &mut Origins) -> Result<()> {
    let mut waiting = repo.reflog_oids(Chain::Ledger.refname())?;
    waiting.push(tip.oid);
    let mut seen = HashSet::new();
    while let Some(oid) = waiting.pop() {
        if !seen.insert(oid) {
            continue;
        }
        // What is not here, as in a shallow clone, tells nothing.
        let (Ok(commit), Ok(raw)) = (repo.read_commit(oid), repo.read_raw_commit(oid)) else {
            continue;
        };
        let parents = raw.parents();
        waiting.extend(&parents);
        // Without its parents a commit would seem to have brought everything that it holds.
        let parents = parents.into_iter().map(|parent| repo.read_commit(parent));
        let Ok(parents) = parents.collect::<Result<Vec<Commit>>>() else {
            continue;
        };
        for line in brought(repo, commit.tree, &parents).unwrap_or_default() {
            if let Some(commits) = origins.get_mut(&line) {
                commits.push(oid);
            }
        }
    }
    Ok(())
}

/// The lines of a notes tree that no parent has.
fn brought(repo: &Repo, tree: Oid, parents: &[Commit]) -> Result<Vec<(Oid, Vec<u8>)>> {
    // A note that is as the first parent has it brings no line, so only the others are read.
    let before = parents.first().map_or(Oid::EMPTY_TREE, |parent| parent.tree);
    let mut brought = Vec::new();
    let changed = notes::added_notes(repo, before, tree)?;
    for note in BTreeSet::from_iter(changed.into_iter().map(|(note, _)| note)) {
        let body = notes::body(repo, tree, note)?;
        let mut lines: BTreeSet<&[u8]> = notes::lines_of(&body).collect();
        for parent in parents {
            let body = notes::body(repo, parent.tree, note)?;
            for line in notes::lines_of(&body) {
                lines.remove(line);
            }
        }
        brought.extend(lines.into_iter().map(|line| (note, line.to_vec())));
    }
    Ok(brought)
}

// The policy as objects: the spawn commit that carries it, and a blob for the ledger to name and the keep chain to
// hold.
//
// Where the spawn commit carries a policy, that one binds, whatever the ledger says; the ledger adds the hash of the
// specification. The blob binds agents of earlier versions, and those whose spawn commit is not in this clone.
//
// Its owner may amend it (`git agent amend`): scope, checks, bundle and time limit are then those of the blob that the last
// amendment names which this clone made itself. Role, base and place stay what the spawn commit says.

/// Writes the blob of `git-agent.policy/1`, for the keep chain to hold; no ref moves.
///
/// # Errors
/// Those of [`Repo::write_blob`].
pub fn write_policy(repo: &Repo, policy: &Policy) -> Result<Oid> {
    repo.write_blob(&policy.to_bytes())
}

/// Reads a policy back; `None` when the blob is no policy of a version we know.
///
/// # Errors
/// `history-incomplete` when the blob is not here, as in a clone that did not fetch the keep chain;
/// `repo-corrupt` when it cannot be read.
pub fn load_policy(repo: &Repo, blob: Oid) -> Result<Option<Policy>> {
    match repo.read_blob(blob) {
        Ok(bytes) => Ok(Policy::from_bytes(&bytes)),
        Err(_) if !repo.is_at_hand(blob) => {
            Err(keep::absent(&format!("policy {blob}, which binds the agent,")))
        }
        Err(error) => Err(error),
    }
}

/// The policy that binds an agent; `None` for one that was never given any, or none that we can read.
///
/// # Errors
/// As [`load_policy`]; `repo-corrupt` when the spawn commit cannot be read.
pub fn of_agent(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    let Some(blob) = agent.policy else {
        return Ok(None);
    };
    let policy = bound_policy(repo, agent.spawn_commit, blob, agent.amended)?;
    Ok(policy.map(|policy| with_spec(policy, agent)))
}

/// The policy that an agent was spawned with, as [`of_agent`] gives the one that binds it now.
///
/// # Errors
/// As [`of_agent`].
pub fn at_spawn(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    let Some(blob) = agent.policy else {
        return Ok(None);
    };
    let policy = bound_policy(repo, agent.spawn_commit, blob, None)?;
    Ok(policy.map(|policy| with_spec(policy, agent)))
}

/// The ledger names the hash of the specification, which the spawn commit cannot.
fn with_spec(policy: Policy, agent: &Agent) -> Policy {
    match policy.spec_sha.as_str() {
        "" => Policy { spec_sha: agent.spec_sha.clone().unwrap_or_default(), ..policy },
        _ => policy,
    }
}

/// The policy of a spawn commit, or of the blob that the row names for one without, with what the last amendment changed.
pub(in crate::store) fn bound_policy(
    repo: &Repo,
    spawn_commit: Oid,
    blob: Oid,
    amended: Option<Oid>,
) -> Result<Option<Policy>> {
    let first = match SpawnCommit::read(repo, spawn_commit)? {
        Some(spawn) => Some(spawn.terms),
        // The digest in an older spawn commit does not cover what opens control files.
        None => load_policy(repo, blob)?.map(|policy| Policy { opened: BTreeMap::new(), ..policy }),
    };
    let (Some(first), Some(amended)) = (&first, amended) else {
        return Ok(first);
    };
    // One that cannot be read is no reason to let the first one bind, which may allow more.
    Ok(load_policy(repo, amended)?.map(|amended| first.amended_by(amended)))
}

/// As [`of_agent`], where a policy that is not here is one that cannot be read.
///
/// # Errors
/// `repo-corrupt` when it is here and cannot be read.
pub fn if_here(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    match of_agent(repo, agent) {
        Err(error) if error.code() == Code::HistoryIncomplete => Ok(None),
        answer => answer,
    }
}

/// The commit whose settings and roles hold for an agent: its base, unless others wrote that; `None` where it has no base.
///
/// # Errors
/// As [`if_here`].
pub fn settings_commit(repo: &Repo, agent: &Agent) -> Result<Option<Oid>> {
    Ok(settings_apart(repo, agent)?.or(agent.base.as_ref().map(|base| base.oid)))
}

/// The commit whose settings hold for an agent whose base others wrote; `None` for every other agent.
///
/// # Errors
/// As [`if_here`].
pub fn settings_apart(repo: &Repo, agent: &Agent) -> Result<Option<Oid>> {
    Ok(if_here(repo, agent)?.and_then(|policy| policy.settings()))
}

/// The policy that binds an agent.
///
/// # Errors
/// As [`of_agent`]; `agent-state` for an agent without a policy.
pub fn require_policy(repo: &Repo, agent: &Agent) -> Result<Policy> {
    of_agent(repo, agent)?.ok_or_else(|| {
        let id = agent.id.short();
        Error::new(Code::AgentState, format!("the ledger holds no policy for agent {id}"))
            .remedy("to see its history", Remedy::History(id))
    })
}
