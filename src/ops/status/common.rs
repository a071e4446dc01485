//! What the agents of one repository have in common, so that looking at many of them asks for it once.

use crate::agents::ctx::Ctx;
use crate::agents::histories::Histories;
use crate::agents::scope_guard::{ScopeGuard, Scopes};
use crate::agents::work;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::changes::ignore::Rules;
use std::cell::RefCell;
use std::collections::HashMap;

/// The surroundings of a look, and what was found out in them before.
pub(super) struct Common<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) histories: &'a Histories,
    /// Where the branches are that work lands on, by name.
    targets: RefCell<HashMap<String, Option<Oid>>>,
    scopes: Scopes,
    rules: RefCell<Option<Rules>>,
}

impl<'a> Common<'a> {
    pub(super) fn new(ctx: &'a Ctx, histories: &'a Histories) -> Common<'a> {
        Common {
            ctx,
            histories,
            // Each thread has one of these, so nothing in it is locked.
            targets: RefCell::default(),
            scopes: Scopes::default(),
            rules: RefCell::default(),
        }
    }

    /// What decides which untracked files of an agent's worktree count.
    ///
    /// # Errors
    /// Those of [`Ctx::ignore_rules`].
    pub(super) fn rules(&self, bundle_dir: Option<&str>) -> Result<Rules> {
        let mut known = self.rules.borrow_mut();
        let rules = match &*known {
            Some(rules) => rules,
            None => &*known.insert(self.ctx.ignore_rules()?),
        };
        Ok(rules.without(bundle_dir))
    }

    /// The commit that an agent's work would land on.
    pub(super) fn target(&self, agent: &Agent) -> Option<Oid> {
        let find = || work::base_of(self.ctx, agent, None).ok()?.1;
        let name = agent.base.as_ref().and_then(|base| base.refname.as_ref());
        match name {
            None => find(),
            Some(name) => {
                let mut targets = self.targets.borrow_mut();
                *targets.entry(name.clone()).or_insert_with(find)
            }
        }
    }

    /// What binds an agent; `None` where that cannot be read. For one that has nothing `here`, neither
    /// branch nor worktree, a missing policy is not looked for again among packs that have come since
    /// the repository was opened: in a clone that fetched many rows, that is most of the work.
    pub(super) fn fence(&self, agent: &Agent, here: bool) -> Option<ScopeGuard<'a>> {
        let is_known = |oid| self.ctx.repo.is_at_hand(oid);
        if !here && !is_known(agent.policy?) && !is_known(agent.spawn_commit) {
            return None;
        }
        ScopeGuard::among(&self.ctx.repo, agent.clone(), &self.scopes).ok()
    }
}
