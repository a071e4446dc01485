//! The branch on which kept work comes back.

use crate::agents::ctx::Ctx;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::refs::full_name;
use crate::ops::rescue::{Destination, RescuePlan};

/// How many numbered names a branch is tried under.
const BRANCH_VARIANTS: usize = 1000;

impl RescuePlan {
    /// Whether a branch is what would be made: a rescue before this one did it and may have been killed.
    pub(super) fn is_made(&self, ctx: &Ctx, branch: &str) -> Result<bool> {
        Ok(self.commit.is_some() && ctx.repo.tip(branch)?.oid() == self.commit)
    }

    /// Makes the branch and gives its full name.
    pub(super) fn make_branch(&self, ctx: &Ctx, commit: Oid) -> Result<String> {
        let reason = format!("agent: rescue {}", self.agent.id.short());
        let who = ctx.identities()?.committer;
        let make = |name: &str| ctx.repo.create_branch(name, commit, &who, &reason);
        if let Destination::Branch(name) = &self.destination {
            let full = full_name(name)?;
            return if self.is_made(ctx, &full)? || make(&full)? {
                Ok(full)
            } else {
                Err(taken(&full))
            };
        }
        let own = self.agent.branch.as_deref().unwrap_or_default();
        let own = own.strip_prefix("refs/heads/").unwrap_or(own);
        let slug = own.strip_prefix("agent/").unwrap_or(own);
        let wanted = full_name(&format!("rescued/{slug}"))?;
        let numbered = (2..=BRANCH_VARIANTS).map(|number| format!("{wanted}-{number}"));
        for name in std::iter::once(wanted.clone()).chain(numbered) {
            if make(&name)? {
                return Ok(name);
            }
        }
        Err(taken(&wanted))
    }
}

fn taken(branch: &str) -> Error {
    Error::new(Code::BranchExists, format!("{branch} exists already"))
        .hint("to choose another name, pass --branch <name>")
}
