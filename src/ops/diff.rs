//! `diff`: what an agent changed since its base, committed or not.

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::work::Work;
use crate::domain::oid::Oid;
use crate::error::{Error, Result};
pub use crate::git::program::{Detail, Filter};
use crate::ops::agent_report::BaseReport;
use crate::store::ledger::Ledger;
use crate::store::spawn_commit;
use crate::wire::path_text::PathText;
use serde::Serialize;

/// The answer of `diff`: `git-agent.diff/2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// What the work is compared with: the commit where it left its target.
    pub base: BaseReport,
    /// The branch's tip.
    pub tip: String,
    /// The tree of everything; the tip's when all is committed.
    pub tree: String,
    /// Whether some of it is not committed.
    pub has_uncommitted: bool,
    /// What differs, ordered by path. A rename is a deletion and an addition.
    pub changes: Vec<ChangeReport>,
}

/// One changed path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeReport {
    /// The path.
    pub path: PathText,
    /// What was done to it.
    pub kind: &'static str,
}

/// Works out the difference. Writes the tree of uncommitted work as objects; no ref moves.
///
/// # Errors
/// `agent-unknown`, `agent-state` for an agent without a branch, `branch-gone`; `history-incomplete` where
/// what binds it is not here; those of git.
pub fn diff(ctx: &Ctx, who: &str) -> Result<DiffReport> {
    let agent = lookup::agent(ctx, &Ledger::new(&ctx.repo), who)?;
    // Without it the bundle cannot be told from the work.
    spawn_commit::of_agent(&ctx.repo, &agent)?;
    let live = Work::look_up(ctx, agent)?;
    let tip = live.require_tip(ctx)?;
    let base = live.fork(&ctx.repo)?;
    let tree = live.tree(ctx)?;
    let before = ctx.repo.read_commit(base)?.tree;
    let changes = ctx.repo.tree_changes(&[before], tree)?;
    Ok(DiffReport {
        schema: "git-agent.diff/2",
        agent_id: live.agent.id.to_string(),
        short_id: live.agent.id.short(),
        base: BaseReport {
            refname: None,
            oid: base.to_hex(),
        },
        tip: tip.to_hex(),
        has_uncommitted: tree != ctx.repo.read_commit(tip)?.tree,
        tree: tree.to_hex(),
        changes: changes
            .iter()
            .map(|change| ChangeReport {
                path: PathText::from(change.path.as_slice()),
                kind: change.kind.as_str(),
            })
            .collect(),
    })
}

impl DiffReport {
    /// Lets git show the difference on standard output; `paths` narrow it down. A `filter` is for a terminal.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn show(
        &self,
        ctx: &Ctx,
        detail: Detail,
        paths: &[String],
        filter: Option<Filter>,
    ) -> Result<()> {
        let object =
            |hex: &str| Oid::from_hex(hex).ok_or_else(|| Error::bug("a report names objects"));
        let base = ctx.repo.read_commit(object(&self.base.oid)?)?.tree;
        let trees = (base, object(&self.tree)?);
        ctx.repo.show_diff(trees, detail, paths, filter)
    }
}
