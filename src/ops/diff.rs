//! `diff`: what an agent changed since its base, committed or not.

use crate::agents::{Ctx, Work, own_changes, place::worktree, who::lookup};
use crate::domain::{Agent, Event, Oid, OperationId, What};
use crate::error::{Code, Error, Remedy, Result};
pub use crate::git::record::diff::{Detail, DiffSink, Filter};
use crate::ops::agent_report::BaseReport;
use crate::store::{files::layout, landing::spawn_commit};
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use std::collections::BTreeSet;

/// The answer of `diff`: `git-agent.diff/2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.diff/2")]
pub struct DiffReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// What the work is compared with: the commit where it left its target.
    pub base: BaseReport,
    /// The tree that the work is compared with in place of that: what was judged, or what an operation left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The branch's tip.
    pub tip: String,
    /// The tree of everything; the tip's when all is committed.
    pub tree: String,
    /// Whether some of it is not committed.
    pub has_uncommitted: bool,
    /// What differs, ordered by path. A rename is a deletion and an addition.
    pub changes: Vec<ChangeReport>,
    /// The lines, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The tree that it was compared with.
    #[serde(skip)]
    pub before: Oid,
    /// Whether it has a worktree that is not in its place, so that what is not committed is not seen.
    #[serde(skip)]
    pub is_partial: bool,
}

/// One changed path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeReport {
    /// The path.
    pub path: PathText,
    /// What was done to it.
    pub kind: &'static str,
}

/// From when on changes are shown, where not all of them are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// The last verdict.
    Verdict,
    /// The operation of this id, or the first digits of it.
    Operation(String),
}

/// Works out the difference. Writes the tree of uncommitted work as objects; no ref moves.
///
/// # Errors
/// `agent-unknown`, `agent-state` for an agent without a branch or a verdict, `branch-gone`; `operation-unknown`; `history-incomplete` where
/// what binds it, or what it is to be compared with, is not here; those of git.
pub fn diff(ctx: &Ctx, who: &str, since: Option<&Since>) -> Result<DiffReport> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    // Without it the bundle cannot be told from the work.
    spawn_commit::of_agent(&ctx.repo, &agent)?;
    let live = Work::look_up(ctx, agent)?;
    // Otherwise what is in its files would be no difference.
    worktree::require_whole(&ctx.repo, &live.agent)?;
    let tip = live.require_tip(ctx)?;
    let tree = live.tree(ctx)?;
    let (base, compared_with) = own_changes::compared_with(&ctx.repo, &live, tree)?;
    let since = match since {
        Some(since) => tree_since(ctx, &live.agent, since)?,
        None => None,
    };
    let before = since.unwrap_or(compared_with);
    let changes = ctx.repo.tree_changes(&[before], tree)?;
    Ok(DiffReport {
        agent_id: live.agent.id.to_string(),
        short_id: live.agent.id.short(),
        base: BaseReport { refname: None, oid: base.to_hex() },
        since: since.map(Oid::to_hex),
        tip: tip.to_hex(),
        has_uncommitted: tree != ctx.repo.tree_of(tip)?,
        tree: tree.to_hex(),
        changes: changes
            .iter()
            .map(|change| ChangeReport {
                path: PathText::from(change.path.as_slice()),
                kind: change.kind.as_str(),
            })
            .collect(),
        patch: None,
        before,
        is_partial: live.place.is_none()
            && ctx.repo.worktree(&layout::worktree_name(live.agent.id)).is_some(),
    })
}

/// The tree that a row names last: at its last verdict, or up to an operation. `None` where nothing was done up to that.
fn tree_since(ctx: &Ctx, agent: &Agent, since: &Since) -> Result<Option<Oid>> {
    let id = agent.id.short();
    let events = ctx.ledger().events(agent.spawn_commit)?;
    let tree = match since {
        Since::Verdict => events.iter().rev().find_map(|event| match &event.what {
            What::Verified(verdict) => Some(verdict.tree),
            _ => None,
        }),
        Since::Operation(name) => {
            let unknown = |what: String| {
                Error::new(Code::OperationUnknown, what)
                    .remedy("to see its history", Remedy::History(id.clone()))
            };
            let is_named = |it: &&OperationId| it.as_str().starts_with(name);
            let named = |event: &Event| event.operation.as_ref().filter(is_named).cloned();
            let Some(last) = events.iter().rposition(|event| named(event).is_some()) else {
                return Err(unknown(format!("the row of agent {id} has no operation {name}")));
            };
            if events.iter().filter_map(named).collect::<BTreeSet<_>>().len() > 1 {
                let what = format!("more than one operation of agent {id} begins with {name}");
                return Err(unknown(what));
            }
            events.iter().take(last + 1).rev().find_map(|event| match &event.what {
                What::Verified(verdict) => Some(verdict.tree),
                What::Committed { tree, .. } => Some(*tree),
                _ => None,
            })
        }
    };
    let Some(tree) = tree else {
        if *since == Since::Verdict {
            let what = format!("agent {id} has no verdict yet");
            return Err(Error::new(Code::AgentState, what)
                .hint(format!("to judge its work, run git agent verify {id}")));
        }
        // Nothing was done in it up to then.
        return Ok(None);
    };
    // What was judged before it was committed hangs on nothing, and git collects it one day.
    if !ctx.repo.has_object(tree) {
        let what = format!("the tree {tree} that agent {id} had then is not here any more");
        return Err(Error::new(Code::HistoryIncomplete, what)
            .hint(format!("to see all that it changed, run git agent diff {id}")));
    }
    Ok(Some(tree))
}

impl DiffReport {
    /// Lets git show the difference; `paths` narrow it down.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn show(
        &self,
        ctx: &Ctx,
        detail: Detail,
        paths: &[String],
        to: DiffSink<'_>,
    ) -> Result<()> {
        let tree = Oid::from_hex(&self.tree).ok_or_else(|| Error::bug("a report names objects"))?;
        ctx.repo.show_diff((self.before, tree), detail, paths, to)
    }
}
