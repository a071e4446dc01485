//! What another clone does to a claim on the remote other than taking it over.

use super::{Commit, TaskClaim};
use crate::agents::ctx::Ctx;
use crate::domain::claim::ClaimMessage;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::remote::Fetched;
use crate::store::layout;
use std::time::Instant;

impl TaskClaim {
    /// What was done to the claim, of which the holder's newest commit is not what the remote has; `None` where another
    /// clone took it over, or may have.
    pub(super) fn damage(
        &self,
        ctx: &Ctx,
        is: Option<Oid>,
        end: Instant,
    ) -> Result<Option<String>> {
        let Some(is) = is else {
            return Ok(Some("was deleted".to_owned()));
        };
        let Some((is, commit)) = self.fetch(ctx, is, end)? else {
            return Ok(Some("was deleted".to_owned()));
        };
        let short = is.short();
        Ok(if self.is_before(ctx, is) {
            Some(format!("was moved back to {short}"))
        } else if commit.as_ref().and_then(ClaimMessage::read).is_none() {
            Some(format!("was replaced by {short}, which is no claim"))
        } else {
            None
        })
    }

    /// Whether the holder's newest commit goes on from that one.
    pub(super) fn is_before(&self, ctx: &Ctx, is: Oid) -> bool {
        let base = ctx.repo.merge_base(is, self.token);
        is != self.token && base.is_ok_and(|base| base == Some(is))
    }

    /// Notes what was done to the claim.
    pub(super) fn warn(&mut self, what: String) {
        let text = format!(
            "{} of `{}` {what} by a clone that may push there; this clone has put it back",
            self.refname, self.remote
        );
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// The object that the ref of the claim was listed at, or is at by now, and the commit that it is, if it is one; `None`
    /// where the ref has gone.
    pub(super) fn fetch(
        &self,
        ctx: &Ctx,
        listed: Oid,
        end: Instant,
    ) -> Result<Option<(Oid, Option<Commit>)>> {
        let repo = &ctx.repo;
        let copy = format!("{}claim/{}", layout::copies(&self.remote), self.key);
        if !repo.has_object(listed) {
            let refspec = format!("+{}:{copy}", self.refname);
            if repo.fetch_refs(&self.remote, &[refspec], end)? != Fetched::All {
                return Ok(None);
            }
        }
        // What was fetched may be newer than what was listed.
        let is = repo.tip(&copy)?.oid().unwrap_or(listed);
        let commit = repo.read_commit(is).ok();
        repo.delete_ref(&copy, is)?;
        Ok(Some((is, commit)))
    }
}
