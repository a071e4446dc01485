//! Which agent a commit belongs to.
//!
//! A branch is an agent's because of its spawn commit, from whose name the agent's id is made. It counts only ahead of
//! the branch that the work would land on: once the work has landed, every later branch has the spawn commit among its ancestors,
//! and belongs to that agent no more than any other. A trailer that names an agent is a claim that anyone can write, so it
//! never makes a branch an agent's.
//!
//! ```text
//! tip ─ first parents ─> nearest spawn commit (or what a rebase made of one) ─> its agent, if it is ahead of the base
//!   └── a merge of the agent's branch into the base, as a forge makes it ─────> the second parent's agent
//! ```
//!
//! Of several spawn commits the nearest on the line of first parents decides; the commits of another agent that the branch
//! merged, or that it was built upon, are then neither its own nor the base's.

use super::VerifyOptions;
use crate::agents::work::{base_of, landing_revision};
use crate::agents::{Ctx, who::lookup};
use crate::domain::judge::evidence::RowEvidence;
use crate::domain::{Agent, AgentId, Oid};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::history::ancestry::Divergence;
use crate::git::history::gained::incomplete_history;
use crate::git::objects::RawCommit;
use crate::store::landing::spawn_commit::{NONCE, SPAWN_SUBJECT, SpawnCommit};
use crate::store::{Ledger, landing::spawn_commit};

/// What a commit turned out to be.
pub(super) struct Origin {
    /// The agent, bound as its spawn commit says.
    pub agent: Agent,
    /// What its row says otherwise, one sentence each.
    pub altered: Vec<String>,
    /// Whether the ledger knows it.
    pub row: RowEvidence,
    /// The commit whose history is judged.
    pub tip: Oid,
    /// The merge commit that was named, where only the side of the agent's branch is judged.
    pub merge_commit: Option<Oid>,
    /// What the base and the tip do not share, where that was worked out already.
    pub divergence: Option<Divergence>,
}

/// The branch that the work would land on.
struct OriginTarget {
    /// Its name, as far as it is known.
    name: String,
    /// Where it is; `None` if that is not known in this clone.
    tip: Option<Oid>,
    /// Whether neither the caller nor the agent's base names a branch.
    is_unnamed: bool,
}

/// Where a candidate is.
enum Position {
    /// Ahead of the target.
    Ahead(Divergence),
    /// In the target of that name already.
    Landed(String),
}

/// What is asked.
pub(super) struct Question<'c> {
    ctx: &'c Ctx,
    ledger: Ledger<'c>,
    /// The revision to land on, if one was named.
    base: Option<&'c str>,
    /// Whether the agent's own clone may be elsewhere.
    ci: bool,
}

impl<'c> Question<'c> {
    pub(super) fn new(ctx: &'c Ctx, options: &'c VerifyOptions) -> Question<'c> {
        Question { ctx, ledger: ctx.ledger(), base: options.base.as_deref(), ci: options.ci }
    }

    /// The agent whose branch `tip` is on.
    ///
    /// # Errors
    /// `agent-unknown` when it is on no agent's branch; `history-incomplete` when this clone cannot tell.
    pub(super) fn of_commit(&self, tip: Oid) -> Result<Origin> {
        let refusal = match self.nearest(tip)? {
            Nearest::Agent(candidate) => match self.position(&candidate, tip)? {
                Position::Ahead(divergence) => return Ok(candidate.at_tip(tip, divergence)),
                Position::Landed(target) => landed(tip, &candidate, &target),
            },
            Nearest::Unknown(spawn) if !self.is_in_base(spawn)? => unknown_spawn(tip, spawn),
            Nearest::Unknown(_) | Nearest::None => {
                no_agents_branch(tip, "git agent spawn made none of its commits")
            }
        };
        // A forge may have named its merge commit instead of the branch.
        self.merged_side(tip)?.ok_or(refusal)
    }

    /// Whether the revision that was named to land on holds a commit.
    fn is_in_base(&self, commit: Oid) -> Result<bool> {
        match self.base {
            Some(base) => {
                let base = landing_revision(&self.ctx.repo, base)?.commit;
                self.ctx.repo.is_ancestor(commit, base)
            }
            None => Ok(false),
        }
    }

    /// The agent that goes by `who`, with its work up to `tip`. Where the ledger does not know it, the
    /// spawn commit below `tip` tells.
    ///
    /// # Errors
    /// Those of [`lookup::agent`] and [`Question::of_commit`]; `usage` for an agent that has no branch.
    pub(super) fn of_agent(&self, who: &str, tip: Oid) -> Result<Origin> {
        let agent = match lookup::agent(self.ctx, &self.ledger, who) {
            Err(error) if error.code() == Code::AgentUnknown => {
                return match self.of_commit(tip) {
                    // The branch may prove an agent of which this clone has no row.
                    Ok(origin) if goes_by(&origin.agent, who) => Ok(origin),
                    Err(lacking) if lacking.code() == Code::HistoryIncomplete => Err(lacking),
                    _ => Err(error),
                };
            }
            found => found?,
        };
        let mut origin = Origin::of_row(self.ctx, agent, tip)?;
        let target = self.target(&origin.agent)?;
        if target.tip.is_none()
            && (self.ci || target.is_unnamed)
            && let Nearest::Agent(candidate) = self.nearest(tip)?
            && candidate.agent.id == origin.agent.id
        {
            // For its error alone, which says that this clone cannot tell the agent's commits from
            // those of the base.
            self.position(&candidate, tip)?;
        }
        // A forge's merge commit may have been named. Everything else that is wrong with the tip is for the judge.
        if let Some((first, second)) = self.parents_of_merge(tip)?
            && let Some(base) = target.tip
            && self.ctx.repo.is_ancestor(first, base)?
            && let Nearest::Agent(candidate) = self.nearest(second)?
            && candidate.agent.id == origin.agent.id
            && is_automatic(&self.ctx.repo, tip, first, second)?
        {
            origin.tip = second;
            origin.merge_commit = Some(tip);
        }
        Ok(origin)
    }

    fn target(&self, agent: &Agent) -> Result<OriginTarget> {
        let (name, tip) = base_of(self.ctx, agent, self.base)?;
        // A tag, or a commit without a name, says where the agent started, and nothing of what has landed since.
        let is_branch = |name: &String| !name.starts_with("refs/tags/");
        let is_unnamed = self.base.is_none() && !name.as_ref().is_some_and(is_branch);
        Ok(OriginTarget {
            name: match (name, self.base) {
                _ if is_unnamed => "the branch to land on".to_owned(),
                (Some(name), _) => name,
                (None, base) => base.unwrap_or_default().to_owned(),
            },
            tip: tip.filter(|_| !is_unnamed),
            is_unnamed,
        })
    }

    /// Whether a candidate below `tip` is ahead of what the work would land on.
    fn position(&self, candidate: &Candidate, tip: Oid) -> Result<Position> {
        let repo = &self.ctx.repo;
        let target = self.target(&candidate.agent)?;
        let started = candidate.agent.base.as_ref().map(|base| base.oid);
        let Some(base) = target.tip else {
            let started = started.ok_or_else(|| Error::bug("an agent started somewhere"))?;
            let divergence = repo.divergence(started, tip, Some(started))?;
            self.require_claims(candidate, &target, &divergence)?;
            return Ok(Position::Ahead(divergence));
        };
        let divergence = repo.divergence(base, tip, started)?;
        let agent = &candidate.agent;
        let is_rebased = candidate.at != agent.spawn_commit && repo.has_object(agent.spawn_commit);
        if !divergence.ahead.iter().any(|one| one.oid == candidate.at)
            || is_rebased && repo.is_ancestor(agent.spawn_commit, base)?
        {
            return Ok(Position::Landed(target.name));
        }
        // It may have landed on another branch than the one it started from.
        if let Some((commit, into)) = &agent.landed
            && repo.has_object(*commit)
            && repo.is_ancestor(*commit, tip)?
        {
            return Ok(Position::Landed(into.clone()));
        }
        // The local branch may be older than the copy of the remote's.
        if self.base.is_none()
            && let Some(copy) = remote_copy(&target.name)
            && let Some(newer) = repo.tip(&copy)?.oid()
            && newer != base
            && repo.is_ancestor(candidate.at, newer)?
        {
            return Ok(Position::Landed(copy));
        }
        Ok(Position::Ahead(divergence))
    }

    /// Fails if a commit does not name the agent: while it is unknown what has landed, it may be the base's.
    fn require_claims(
        &self,
        candidate: &Candidate,
        target: &OriginTarget,
        divergence: &Divergence,
    ) -> Result<()> {
        let id = candidate.agent.id.to_string();
        for lineage in &divergence.ahead {
            let commit = self.ctx.repo.read_raw_commit(lineage.oid)?;
            if lineage.oid == candidate.at || commit.trailer("Agent-Id").as_deref() == Some(&id) {
                continue;
            }
            let (commit, short, target) = (lineage.oid, candidate.agent.id.short(), &target.name);
            let error = Error::new(
                Code::HistoryIncomplete,
                format!(
                    "commit {commit} does not name an agent, and {target} is not in this clone, so the commit \
                     may be agent {short}'s or may have come from there"
                ),
            )
            .hint("to name the commit to land on, pass --base <commit>");
            return Err(match target.strip_prefix("refs/heads/") {
                Some(branch) => error.hint(format!(
                    "to fetch the branch, run git fetch origin {branch}:refs/remotes/origin/{branch}"
                )),
                None => error,
            });
        }
        Ok(())
    }

    /// The agent whose branch is the second parent of a merge into the base that holds nothing of its own, as a
    /// forge makes it for a pull request. `None` for every other commit.
    fn merged_side(&self, merge: Oid) -> Result<Option<Origin>> {
        let repo = &self.ctx.repo;
        let Some((first, second)) = self.parents_of_merge(merge)? else {
            return Ok(None);
        };
        let Nearest::Agent(candidate) = self.nearest(second)? else {
            return Ok(None);
        };
        let Some(base) = self.target(&candidate.agent)?.tip else {
            return Ok(None);
        };
        let Position::Ahead(divergence) = self.position(&candidate, second)? else {
            return Ok(None);
        };
        // Its first side has to be the base's, or the merge brings what was not judged.
        if !repo.is_ancestor(first, base)? {
            return Ok(None);
        }
        if !is_automatic(repo, merge, first, second)? {
            let short = candidate.agent.id.short();
            return Err(Error::new(
                Code::AgentUnknown,
                format!("commit {merge} is no agent's: it merges the work of agent {short} and changes it"),
            )
            .hint(format!(
                "to judge that agent's side, run git agent verify --ci --tip {second}"
            )));
        }
        let mut origin = candidate.at_tip(second, divergence);
        origin.merge_commit = Some(merge);
        Ok(Some(origin))
    }

    fn parents_of_merge(&self, commit: Oid) -> Result<Option<(Oid, Oid)>> {
        match self.ctx.repo.read_raw_commit(commit)?.parents()[..] {
            [first, second] => Ok(Some((first, second))),
            _ => Ok(None),
        }
    }
}

/// Whether a merge holds what git makes of its parents, and no more.
pub(super) fn is_automatic(repo: &Repo, merge: Oid, first: Oid, second: Oid) -> Result<bool> {
    let tree = repo.tree_of(merge)?;
    let merged = repo.merge(first, second)?;
    Ok(merged.result.clean() == Some(tree))
}

impl Candidate {
    fn at_tip(self, tip: Oid, divergence: Divergence) -> Origin {
        Origin {
            agent: self.agent,
            altered: self.altered,
            row: self.row,
            tip,
            merge_commit: None,
            divergence: Some(divergence),
        }
    }
}

impl Origin {
    /// An agent of the ledger, with its work up to `tip`.
    ///
    /// # Errors
    /// `repo-corrupt` when its spawn commit cannot be read.
    pub(super) fn of_row(ctx: &Ctx, agent: Agent, tip: Oid) -> Result<Origin> {
        let (agent, altered) = spawn_commit::bound(&ctx.repo, agent)?;
        Ok(Origin {
            agent,
            altered,
            row: RowEvidence::Present,
            tip,
            merge_commit: None,
            divergence: None,
        })
    }
}

/// Whether a prefix of an agent's id or of its spawn commit was given.
fn goes_by(agent: &Agent, who: &str) -> bool {
    let digits = who.replace('-', "").to_ascii_lowercase();
    let names = [agent.id.hex(), agent.spawn_commit.to_hex()];
    // Fewer digits fit too many agents.
    digits.len() >= 4 && names.iter().any(|name| name.starts_with(&digits))
}

fn remote_copy(branch: &str) -> Option<String> {
    let short = branch.strip_prefix("refs/heads/")?;
    Some(format!("refs/remotes/origin/{short}"))
}

fn landed(tip: Oid, candidate: &Candidate, target: &str) -> Error {
    let short = candidate.agent.id.short();
    let why = format!("agent {short}, on whose work it is built, has landed in {target}");
    no_agents_branch(tip, &why)
}

fn no_agents_branch(tip: Oid, why: &str) -> Error {
    Error::new(Code::AgentUnknown, format!("commit {tip} is on no agent's branch: {why}"))
        .hint("to judge an agent's branch, name it: git agent verify --ci --tip <branch>")
        .hint("to give work to an agent with a branch of its own, run git agent spawn <task.toml>")
}

fn unknown_spawn(tip: Oid, spawn: Oid) -> Error {
    Error::new(
        Code::AgentUnknown,
        format!(
            "the agent of commit {tip} is not known in this clone: its spawn commit was rebased to {spawn}, and \
             neither the ledger nor the original is here"
        ),
    )
    .remedy("to have the ledger", Remedy::Synchronise)
    .remedy("to have what other clones keep", Remedy::SynchroniseAll)
}

// The nearest commit that makes an agent.

/// A commit that makes an agent.
struct Candidate {
    /// The spawn commit, what a rebase made of it, or the commit that carries it.
    pub at: Oid,
    pub agent: Agent,
    pub altered: Vec<String>,
    pub row: RowEvidence,
}

/// What the line of first parents holds.
enum Nearest {
    /// A commit that makes an agent.
    Agent(Box<Candidate>),
    /// A spawn commit that was rebased, of an agent that this clone does not know.
    Unknown(Oid),
    /// Neither.
    None,
}

impl Question<'_> {
    /// The nearest commit that makes an agent, going back along first parents.
    fn nearest(&self, tip: Oid) -> Result<Nearest> {
        let repo = &self.ctx.repo;
        let ends = repo.shallow_ends()?;
        let mut claims = Vec::new();
        let mut next = Some(tip);
        while let Some(oid) = next {
            repo.require_commit(oid)?;
            let commit = repo.read_raw_commit(oid)?;
            claims.extend(commit.trailer("Agent-Id").as_deref().and_then(AgentId::parse));
            if let Some((spawn, text)) = spawn_commit::carried(&commit) {
                // The policy is read from that commit, which may be nowhere else.
                repo.write_raw_commit(&text)?;
                let candidate = self.made_by(oid, spawn, &text)?;
                return Ok(Nearest::Agent(Box::new(candidate)));
            }
            if let Some(nonce) = commit.trailer(NONCE) {
                if let Some(candidate) = self.candidate(oid, &commit, &nonce, &claims)? {
                    return Ok(Nearest::Agent(Box::new(candidate)));
                }
                // The message of a squash holds the trailer too.
                if commit.subject().starts_with(SPAWN_SUBJECT) {
                    return Ok(Nearest::Unknown(oid));
                }
            }
            if ends.contains(&oid) {
                return Err(incomplete_history("the commit that made the agent of this branch"));
            }
            // What was merged into the branch came from elsewhere, so its spawn commits are not
            // this branch's.
            next = commit.parents().first().copied();
        }
        Ok(Nearest::None)
    }

    /// The agent that a commit with that nonce makes; `claims` are the agents that later commits name.
    fn candidate(
        &self,
        at: Oid,
        commit: &RawCommit,
        nonce: &str,
        claims: &[AgentId],
    ) -> Result<Option<Candidate>> {
        let row = match self.ledger.agent(at)? {
            Some(agent) => Some(agent),
            None => self.twin(nonce)?,
        };
        if let Some(agent) = row {
            return Ok(Some(self.of_row(at, agent)?));
        }
        let spawn = match SpawnCommit::of(at, commit) {
            Some(spawn) => Some(spawn),
            None => self.original(nonce, claims)?,
        };
        spawn.map(|spawn| self.without_row(at, &spawn)).transpose()
    }

    /// The agent of a spawn commit that the commit `at` carries.
    fn made_by(&self, at: Oid, spawn: Oid, text: &RawCommit) -> Result<Candidate> {
        if let Some(agent) = self.ledger.agent(spawn)? {
            return self.of_row(at, agent);
        }
        let spawn = SpawnCommit::of(spawn, text);
        let spawn = spawn.ok_or_else(|| Error::bug("a carried spawn commit makes an agent"))?;
        self.without_row(at, &spawn)
    }

    fn of_row(&self, at: Oid, agent: Agent) -> Result<Candidate> {
        let (agent, altered) = spawn_commit::bound(&self.ctx.repo, agent)?;
        Ok(Candidate { at, agent, altered, row: RowEvidence::Present })
    }

    fn without_row(&self, at: Oid, spawn: &SpawnCommit) -> Result<Candidate> {
        let row =
            if self.ledger.is_begun()? { RowEvidence::Missing } else { RowEvidence::NoLedger };
        Ok(Candidate { at, agent: spawn.agent()?, altered: Vec::new(), row })
    }

    /// The agent of the ledger whose spawn commit has that nonce: a rebase keeps it.
    fn twin(&self, nonce: &str) -> Result<Option<Agent>> {
        let agents = self.ledger.agents()?.into_iter();
        let is_twin = |agent: &Agent| {
            let own = self.ctx.repo.read_raw_commit(agent.spawn_commit).ok();
            own.and_then(|own| own.trailer(NONCE)).as_deref() == Some(nonce)
        };
        Ok(agents.into_iter().find(is_twin))
    }

    /// The spawn commit with that nonce of one of these agents, where it is still in this clone.
    fn original(&self, nonce: &str, claims: &[AgentId]) -> Result<Option<SpawnCommit>> {
        let repo = &self.ctx.repo;
        for id in claims {
            let Some(oid) = repo.object_with_prefix(&id.digits_of_spawn_commit()) else {
                continue;
            };
            let Ok(commit) = repo.read_raw_commit(oid) else {
                continue;
            };
            // The id holds only the first digits, so what they lead to has to prove what it is.
            if AgentId::from_spawn_commit(oid) == *id
                && commit.trailer(NONCE).as_deref() == Some(nonce)
                && let Some(spawn) = SpawnCommit::of(oid, &commit)
            {
                return Ok(Some(spawn));
            }
        }
        Ok(None)
    }
}
