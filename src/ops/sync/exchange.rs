//! One attempt at an exchange: what the remote has is brought here and united with what is here.

use crate::agents::Ctx;
use crate::agents::who::lookup::{remote_name, require_seen_pushes};
use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Tip;
use crate::git::refs::Swap;
use crate::git::refs::remote::{Fetched, RemoteRefs};
use crate::ops::sync::{SyncOptions, SyncReport, claim};
use crate::store::chain::recovery;
use crate::store::chain::remote_names::{RemoteNames, Travelling};
use crate::store::ledger::LEFT_BEHIND;
use crate::store::{Chain, chain, chain::remote_names, files::layout, ledger};
use std::collections::BTreeMap;
use std::time::Instant;

/// The exchange with one remote.
pub(super) struct Exchange<'c> {
    pub ctx: &'c Ctx,
    pub remote: String,
    /// The name under which this clone has its outbox.
    pub clone: String,
    pub names: RemoteNames,
    pub travelling: Travelling,
    pub end: Instant,
    /// The refs of the remote that were pushed before it was listed.
    pub ahead: Vec<String>,
    /// Whether other clones are likely to push at this moment.
    pub is_crowded: bool,
    /// What the last fetch did not get, by the refs of the remote.
    missed: BTreeMap<String, UnfetchedRef>,
    /// Why the last attempt came to nothing.
    pub obstacle: Option<String>,
    pub report: SyncReport,
}

/// How often in a row a remote has to refuse a commit that it lists before its repository counts as damaged. Servers that are copies
/// of each other may differ for a moment, so once is not enough.
const REFUSALS: usize = 3;

/// A ref of the remote that could not be fetched.
struct UnfetchedRef {
    /// Where it was listed.
    is: Oid,
    /// How often in a row the remote refused that commit itself, and listed it before and after.
    refusals: usize,
}

/// What the remote has of one chain, as it is known here.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// Where the shared ref is.
    pub shared: Option<Oid>,
    /// Whether the shared ref names something that is no such chain.
    pub is_foreign: bool,
    /// The outboxes whose content is united with this clone's, by their full names.
    pub outboxes: BTreeMap<String, Oid>,
}

impl<'c> Exchange<'c> {
    /// Prepares the exchange. The caller holds `sync.lock`.
    ///
    /// # Errors
    /// `usage` for an unknown remote or a bad setting; those of the file system.
    pub(super) fn begin(ctx: &'c Ctx, options: &SyncOptions, end: Instant) -> Result<Exchange<'c>> {
        let remote = remote_name(ctx, options.remote.as_deref())?;
        require_seen_pushes(ctx, &remote)?;
        Ok(Exchange {
            ctx,
            clone: remote_names::long_name(ctx.repo.common_dir())?,
            report: SyncReport::new(&remote),
            remote,
            names: RemoteNames::configured(&ctx.repo)?,
            travelling: Travelling::configured(&ctx.repo)?,
            end,
            ahead: Vec::new(),
            is_crowded: false,
            missed: BTreeMap::new(),
            obstacle: None,
        })
    }
}

impl Exchange<'_> {
    /// Brings back what a forced fetch of the user's, or damage to the repository, took from this clone's refs.
    pub(super) fn restore(&mut self) -> Result<()> {
        let (repo, now) = (&self.ctx.repo, self.ctx.now());
        for chain in Chain::ALL {
            let mut before = repo.tip(chain.refname())?;
            match recovery::require_readable(repo, chain, now) {
                Err(error) if error.code() == Code::RepoCorrupt && self.fetch_lost(chain)? => {
                    // What was fetched may be all that was missing, and the ref stays where it is.
                    before = Tip::Broken;
                    recovery::require_readable(repo, chain, now)?;
                }
                readable => readable?,
            }
            for old in chain::left_behind(repo, chain)? {
                ledger::unite_with(repo, chain, old, LEFT_BEHIND, now)?;
            }
            if chain == Chain::Ledger && chain::is_overwritten(repo)? {
                chain::restore_foreign(repo, now)?;
            }
            if repo.tip(chain.refname())? != before {
                self.report.restored.push(chain.refname().to_owned());
            }
        }
        Ok(())
    }

    /// Fetches what the remote has of a chain of which nothing is left here; `false` where it has none.
    fn fetch_lost(&self, chain: Chain) -> Result<bool> {
        let copy = self.copy(chain, None);
        self.forget_damaged(&copy)?;
        let refspec = format!("+{}:{copy}", self.names.shared(chain));
        let repo = &self.ctx.repo;
        let fetched = repo.fetch_refs_whole(&self.remote, &[refspec], self.end)?;
        Ok(fetched == Fetched::All)
    }

    /// Deletes a copy that leads to nothing: it would only keep git from fetching.
    fn forget_damaged(&self, copy: &str) -> Result<()> {
        let repo = &self.ctx.repo;
        match repo.tip(copy)? {
            Tip::At(oid) if repo.read_commit(oid).is_err() => repo.delete_ref(copy, oid)?,
            Tip::Broken => repo.delete_broken_ref(copy, Tip::Broken)?,
            _ => false,
        };
        Ok(())
    }

    /// Whether the history of a chain of this clone has that commit.
    fn holds(&self, chain: Chain, oid: Oid) -> Result<bool> {
        let Some(tip) = chain::tip(&self.ctx.repo, chain)? else {
            return Ok(false);
        };
        Ok(chain::holds(&self.ctx.repo, tip.oid, oid))
    }

    /// One attempt. `false` when other clones were faster and it has to be made again.
    ///
    /// # Errors
    /// As [`super::sync`].
    pub(super) fn once(&mut self) -> Result<bool> {
        let listed = self.list()?;
        self.ctx.reached("remote-listed");
        claim::note_losses(self.ctx, &self.remote, &listed, self.end)?;
        let Some(sights) = self.bring(&listed)? else {
            return Ok(false);
        };
        self.ctx.reached("copies-united");
        self.fetch_branches(&listed)?;
        self.push(listed, sights)
    }

    pub(super) fn list(&self) -> Result<RemoteRefs> {
        let listed = self.ctx.repo.list_remote(&self.remote, self.end)?;
        let names = &self.names;
        names.require_distinct(&self.ctx.repo, &self.remote, &listed, self.end)?;
        Ok(listed)
    }

    /// The ref that holds what the remote was last seen to have under that name.
    pub(super) fn copy(&self, chain: Chain, clone: Option<&str>) -> String {
        let below = layout::copies(&self.remote);
        match clone {
            Some(clone) => format!("{below}from/{clone}/{}", chain.as_str()),
            None => format!("{below}{}", chain.as_str()),
        }
    }

    /// Moves a copy to what the remote has where that is here already, and says whether it is.
    fn is_here(&self, chain: Chain, copy: &str, is: Oid) -> Result<bool> {
        let repo = &self.ctx.repo;
        let is_here = self.holds(chain, is)?;
        if is_here {
            self.move_copy(copy, repo.tip(copy)?, is)?;
        }
        Ok(is_here)
    }

    pub(super) fn move_copy(&self, copy: &str, was: Tip, is: Oid) -> Result<()> {
        let repo = &self.ctx.repo;
        let who = chain::identity(repo, self.ctx.now());
        // Another process that moves it sees it as it is, too.
        let _: Swap = repo.swap_ref(copy, was, is, &who, "agent: sync")?;
        Ok(())
    }

    /// Fetches what differs from its copy and unites all copies with this clone's refs. `None` when a ref went away in
    /// between.
    fn bring(&mut self, listed: &RemoteRefs) -> Result<Option<BTreeMap<&'static str, Sight>>> {
        let repo = &self.ctx.repo;
        // What differs, and what the remote had before.
        let mut wanted = Vec::new();
        let mut had = Vec::new();
        let mut copies = Vec::new();
        for chain in self.travelling.chains.clone() {
            let shared = self.names.shared(chain);
            let copy = self.copy(chain, None);
            self.forget_damaged(&copy)?;
            let (is, was) = (listed.get(&shared).copied(), repo.tip(&copy)?.oid());
            if was.is_some() && was != is {
                had.extend(was.map(|was| (chain, was)));
            }
            if let Some(is) = is.filter(|is| Some(*is) != was)
                && !self.is_here(chain, &copy, is)?
            {
                wanted.push((shared.clone(), is, copy.clone()));
            }
            copies.push((chain, shared, copy));
        }
        for (refname, is) in listed {
            let Some((clone, chain)) = self.names.outbox_of(refname) else {
                continue;
            };
            if !self.travelling.chains.contains(&chain) {
                continue;
            }
            let copy = self.copy(chain, Some(clone));
            if repo.tip(&copy)? != Tip::At(*is) && !self.is_here(chain, &copy, *is)? {
                wanted.push((refname.clone(), *is, copy.clone()));
            }
            copies.push((chain, refname.clone(), copy));
        }
        // The copies are overwritten: what they hold is united first, should an earlier exchange not have come so far.
        for (chain, was) in &had {
            if chain::is_of_chain(repo, *chain, *was) && !self.holds(*chain, *was)? {
                ledger::unite_with(repo, *chain, *was, &self.remote, self.ctx.now())?;
            }
        }
        if !wanted.is_empty() {
            if !self.fetch_wanted(&wanted)? {
                return Ok(None);
            }
            self.ctx.reached("copies-fetched");
        }
        let sights = self.unite(listed, &copies)?;
        for (chain, was) in had {
            let shared = self.names.shared(chain);
            let is = sights.get(chain.as_str()).and_then(|sight| sight.shared);
            if is.is_some_and(|is| chain::holds(&self.ctx.repo, is, was)) {
                continue;
            }
            self.report.heal(&shared);
            let what = match is {
                Some(is) => format!("was moved to {}, which lacks what it had", is.short()),
                None => "was deleted".to_owned(),
            };
            self.report.warn(format!(
                "{shared} of `{}` {what}: a clone that may push there did so, by git push with --mirror, --force or --delete, unless agent.refPrefix was changed here",
                self.remote
            ));
        }
        Ok(Some(sights))
    }

    /// Fetches refs of the remote, each with where it was listed and its copy. `false` when the remote has to be listed again.
    ///
    /// git fetches all refs or none, and outboxes come and go: one can be deleted after the list, and pushed again at the very same
    /// commit before the next one. So what cannot be fetched is a race at first, for which the next attempts ask ref by ref, and for
    /// the listed commit itself where the ref is not there. A server that has the commit sends it, whatever its refs are by then, or,
    /// by the older protocol, does not advertise it at that moment. Only one that refuses a commit, and lists it both before and after,
    /// as often in a row as [`REFUSALS`] says, is damaged.
    fn fetch_wanted(&mut self, wanted: &[(String, Oid, String)]) -> Result<bool> {
        let repo = &self.ctx.repo;
        let before = std::mem::take(&mut self.missed);
        let mut missed = BTreeMap::new();
        let one_by_one = if before.is_empty() { wanted.len() } else { 1 };
        for some in wanted.chunks(one_by_one) {
            let refspecs: Vec<_> =
                some.iter().map(|(refname, _, copy)| format!("+{refname}:{copy}")).collect();
            let mut fetched = repo.fetch_refs(&self.remote, &refspecs, self.end)?;
            let [(refname, is, copy), ..] = some else {
                continue;
            };
            // That the ref is missing says nothing of the commit, which another clone may have moved to another ref.
            if !before.is_empty() && fetched == Fetched::Missing {
                fetched = repo.fetch_commit(&self.remote, *is, copy, self.end)?;
            }
            let refusals = match fetched {
                Fetched::All => continue,
                Fetched::Missing if !before.is_empty() => {
                    let known = before.get(refname).filter(|one| one.is == *is);
                    known.map_or(0, |one| one.refusals) + 1
                }
                Fetched::Missing | Fetched::Unadvertised => 0,
                Fetched::Locked(said) => {
                    self.obstacle = Some(said);
                    // A lock says nothing about the refs, so what is known to be missing stays
                    // known.
                    self.missed = before;
                    return Ok(false);
                }
            };
            missed.extend(some.iter().map(|(refname, is, _)| {
                let miss = UnfetchedRef { is: *is, refusals };
                (refname.clone(), miss)
            }));
        }
        let Some((refname, miss)) = missed.first_key_value() else {
            return Ok(true);
        };
        self.obstacle = Some(format!(
            "{refname} was listed at {}, which could not be fetched",
            miss.is.short()
        ));
        if missed.values().any(|miss| miss.refusals > 0) {
            let again = self.list()?;
            for (refname, miss) in &mut missed {
                if again.get(refname) != Some(&miss.is) {
                    miss.refusals = 0;
                }
            }
        }
        if let Some((refname, miss)) = missed.iter().find(|(_, miss)| miss.refusals == REFUSALS) {
            return Err(self.damaged(refname, miss.is));
        }
        self.missed = missed;
        Ok(false)
    }

    fn damaged(&self, refname: &str, is: Oid) -> Error {
        let what = format!(
            "{refname} of `{}` is at {}, which the remote does not have: its repository is damaged",
            self.remote,
            is.short()
        );
        // No command that deletes the ref: what no clone has would be lost with it.
        Error::new(Code::RemoteRefused, what)
            .hint("to see what is missing, run git fsck in the repository of the remote, and restore it from a copy")
            .hint("rows that were sent are in the clones that sent them; what no clone has is lost if the ref is replaced")
    }

    /// Unites the copies with this clone's refs. What cannot be united is named and passed over.
    fn unite(
        &mut self,
        listed: &RemoteRefs,
        copies: &[(Chain, String, String)],
    ) -> Result<BTreeMap<&'static str, Sight>> {
        let mut sights: BTreeMap<&'static str, Sight> = BTreeMap::new();
        for (chain, refname, copy) in copies {
            let sight = sights.entry(chain.as_str()).or_default();
            let is_shared = *refname == self.names.shared(*chain);
            let Some(theirs) = self.ctx.repo.tip(copy)?.oid() else {
                continue;
            };
            // What the remote has lost was united above, before anything was fetched.
            if !listed.contains_key(refname) {
                continue;
            }
            if is_shared {
                sight.shared = Some(theirs);
            }
            let is_sound = chain::is_of_chain(&self.ctx.repo, *chain, theirs);
            if is_sound && self.take(*chain, theirs)? {
                if !is_shared {
                    sight.outboxes.insert(refname.clone(), theirs);
                }
                continue;
            }
            sight.is_foreign |= is_shared;
            let what = format!(
                "{refname} of `{}` is at {}, which is no {}; it was not united",
                self.remote,
                theirs.short(),
                chain.as_str()
            );
            self.report.warn(what);
        }
        Ok(sights)
    }

    /// Unites one commit with the chain; `false` for one that is damaged.
    fn take(&mut self, chain: Chain, theirs: Oid) -> Result<bool> {
        if self.holds(chain, theirs)? {
            return Ok(true);
        }
        let repo = &self.ctx.repo;
        match ledger::unite_with(repo, chain, theirs, &self.remote, self.ctx.now()) {
            Ok(united) => {
                self.report.set(chain.refname(), "", united.to, "equal");
                let one = self.report.refs.iter_mut().find(|one| one.refname == chain.refname());
                if let Some(one) = one {
                    one.received = true;
                }
                Ok(true)
            }
            Err(error) if error.code() == Code::RepoCorrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes what the remote was seen to have, and forgets outboxes that it has no more.
    pub(super) fn move_copies(&self, listed: &RemoteRefs) -> Result<()> {
        let repo = &self.ctx.repo;
        for chain in self.travelling.chains.clone() {
            let copy = self.copy(chain, None);
            let was = repo.tip(&copy)?;
            match listed.get(&self.names.shared(chain)) {
                // A ref of ours must not name a commit that is not here.
                Some(is) if was != Tip::At(*is) && repo.has_object(*is) => {
                    self.move_copy(&copy, was, *is)?;
                }
                _ => {}
            }
        }
        let from = format!("{}from/", layout::copies(&self.remote));
        for (copy, oid) in repo.refs_below(&from)? {
            let Some((clone, name)) = copy[from.len()..].split_once('/') else {
                continue;
            };
            // The copy of this clone's own outbox says whether it was needed last time.
            if clone == self.clone {
                continue;
            }
            let chain = Chain::parse(name);
            let is_there =
                chain.is_some_and(|chain| listed.contains_key(&self.names.outbox(clone, chain)));
            // Until this clone's chain holds the rows, nothing else here would.
            if !is_there && chain.is_some_and(|chain| self.holds(chain, oid).unwrap_or(false)) {
                repo.delete_ref(&copy, oid)?;
            }
        }
        Ok(())
    }
}
