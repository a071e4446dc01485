//! The keep chain: what must stay reachable although no branch holds it.
//!
//! Notes do not keep the commits they annotate: after a squash merge, a branch deletion and `git gc`
//! a `git notes prune` would delete rows (measured). One chain of commits whose extra parents are the kept
//! commits does keep them, at one object each and one ref for all. The tree of a link holds what is kept without
//! a commit of its own, such as the policy of an agent; most are empty.
//!
//! A link says in its subject what it keeps and for whom: `agent: keep discard <id>`. Only [`forget`] ever
//! lets go of anything, and never of what a link of another kind keeps: rows live on spawn commits.

use crate::domain::{AgentId, Oid};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::core::tree::{Entry, FILE};
use crate::git::{Commit, Identity, Repo, core::command};
use crate::store::chain::{self, Chain};
use crate::store::files::{layout, lock};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// What the subject of a link that keeps something begins with.
const KEEP: &str = "agent: keep ";
/// The subject of a link that holds the links of two clones.
const UNITED: &str = "agent: unite";
/// The subjects of links that hold links alone, made when the chain was mended or united with another.
const MENDED: [&str; 3] = ["agent: recover", "agent: repair", UNITED];
/// The kinds of links that a person may let go of once they are old.
const PASSING: [&str; 4] = ["discard", "staged", "squashed", "bundle"];
/// The kinds of links whose tree holds something.
const HOLDING: [&str; 3] = ["spawn", "setup", "text"];

/// Keeps commits reachable for good and gives the link's name. `why` says so in one line of its
/// message, such as `spawn 6a48ca7b`.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
pub fn keep(repo: &Repo, commits: &[Oid], why: &str, now: DateTime<Utc>) -> Result<Oid> {
    keep_with(repo, commits, &[], why, now)
}

/// [`keep`] for commits and blobs, each blob with a name that says what it is.
///
/// # Errors
/// As [`keep`].
pub fn keep_with(
    repo: &Repo,
    commits: &[Oid],
    blobs: &[(&str, Oid)],
    why: &str,
    now: DateTime<Utc>,
) -> Result<Oid> {
    let entry = |&(name, oid): &(&str, Oid)| Entry { mode: FILE, name: name.into(), oid };
    let entries: Vec<_> = blobs.iter().map(entry).collect();
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let who = chain::identity(repo, now);
    let subject = format!("{KEEP}{why}");
    chain::append(repo, &guard, Chain::Keep, &who, &subject, |tip| {
        let mut parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        parents.extend(commits);
        // git knows the empty tree without an object, libgit2 does not.
        let tree = repo.write_tree(entries.clone())?;
        chain::commit(repo, tree, &parents, &who, &subject)
    })
}

/// Commits to keep, and why, as [`keep`] takes them.
pub type Keeping = (Vec<Oid>, String);

/// As [`keep`], with a link for each of these, all added in one step.
///
/// # Errors
/// As [`keep`].
pub fn keep_each(repo: &Repo, each: &[Keeping], now: DateTime<Utc>) -> Result<()> {
    let subjects: Vec<String> = each.iter().map(|(_, why)| format!("{KEEP}{why}")).collect();
    let Some(message) = subjects.last() else {
        return Ok(());
    };
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let who = chain::identity(repo, now);
    let appended = chain::append(repo, &guard, Chain::Keep, &who, message, |tip| {
        let tree = repo.write_tree(Vec::new())?;
        let mut newest = tip.map(|tip| tip.oid);
        for ((commits, _), subject) in each.iter().zip(&subjects) {
            let parents: Vec<Oid> = newest.iter().chain(commits).copied().collect();
            newest = Some(chain::commit(repo, tree, &parents, &who, subject)?);
        }
        newest.ok_or_else(|| Error::bug("a chain that grows must have a tip"))
    });
    appended.map(drop)
}

/// The link below which are the links of two chains, which is one of their tips where that has the other. Two
/// clones that unite the same chains make the same link.
///
/// # Errors
/// `repo-corrupt` when a link of either is missing; `disk-full`, `repo-read-only`.
pub fn join(repo: &Repo, ours: Oid, theirs: Oid) -> Result<Oid> {
    let mut tips = [repo.read_commit(ours)?, repo.read_commit(theirs)?];
    for (tip, other) in [(&tips[0], theirs), (&tips[1], ours)] {
        let links = Links::read(repo, tip.clone())?;
        if links.oldest_first.iter().any(|link| link.commit.oid == other) {
            return Ok(tip.oid);
        }
    }
    // Sorted by name, and dated by the later of the two, so that each clone makes the same object
    // whichever side it calls its own.
    tips.sort_unstable_by_key(|tip| tip.oid);
    let who = Identity::stand_in(tips[0].seconds.max(tips[1].seconds));
    let tree = repo.write_tree(Vec::new())?;
    chain::commit(repo, tree, &tips.map(|tip| tip.oid), &who, UNITED)
}

/// The error for what some keep chain holds and this clone lacks. `what` is named as in "the policy".
pub fn absent(what: &str) -> Error {
    Error::new(Code::HistoryIncomplete, format!("{what} is not in this clone"))
        .remedy("to have what other clones keep", Remedy::SynchroniseAll)
}

/// Everything that the keep chain holds by name: its own links and their parents.
///
/// # Errors
/// `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn kept(repo: &Repo) -> Result<HashSet<Oid>> {
    let mut kept = HashSet::new();
    let tip = chain::tip(repo, Chain::Keep)?;
    let mut waiting: Vec<_> = tip.into_iter().collect();
    while let Some(commit) = waiting.pop() {
        // What a link keeps is named in the answer, but its own history is not the chain's.
        let is_link = commit.trailer(chain::TRAILER).is_some();
        for parent in commit.parents.into_iter().filter(|_| is_link) {
            if kept.insert(parent) {
                waiting.extend(repo.read_commit(parent));
            }
        }
    }
    Ok(kept)
}

/// Whether a link keeps that commit and says so with this `why`, as given to [`keep`].
///
/// # Errors
/// `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn is_kept_as(repo: &Repo, commit: Oid, why: &str) -> Result<bool> {
    let Some(tip) = chain::tip(repo, Chain::Keep)? else {
        return Ok(false);
    };
    let subject = format!("{KEEP}{why}");
    let is_it = |link: &Link| {
        let message = link.commit.message.lines().next();
        message == Some(subject.as_str()) && link.commit.parents.contains(&commit)
    };
    Ok(Links::read(repo, tip)?.oldest_first.iter().any(is_it))
}

/// A link that may be let go of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The link.
    pub link: Oid,
    /// For whom it keeps something.
    pub agent: AgentId,
    /// When it was made, in seconds since the epoch.
    pub seconds: i64,
    /// What it keeps.
    pub commits: Vec<Oid>,
}

/// Every link that may be let go of, oldest first.
///
/// # Errors
/// `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn passing(repo: &Repo) -> Result<Vec<Passing>> {
    let Some(tip) = chain::tip(repo, Chain::Keep)? else {
        return Ok(Vec::new());
    };
    let links = Links::read(repo, tip)?;
    let links = links.oldest_first.iter();
    Ok(links.filter_map(Link::passing).collect())
}

/// Takes links that [`passing`] named out of the chain, all in one step; gives the chain's new tip, which is
/// the old one where none of them is there any more. Every link that stays says what it said.
///
/// # Errors
/// As [`keep`].
pub fn forget(repo: &Repo, links: &HashSet<Oid>, now: DateTime<Utc>) -> Result<Oid> {
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let who = chain::identity(repo, now);
    let subject = format!("agent: expire {} links", links.len());
    let keep = Chain::Keep;
    chain::append(repo, &guard, keep, &who, &subject, |tip| {
        let rest = match tip {
            Some(tip) => {
                Links::read(repo, tip.clone())?.rewritten(repo, links, &BTreeMap::new())?
            }
            None => None,
        };
        match rest {
            Some(rest) => Ok(rest),
            // A ref names something; this holds nothing.
            None => {
                let tree = repo.write_tree(Vec::new())?;
                chain::commit(repo, tree, &[], &who, MENDED[1])
            }
        }
    })
}

/// Whether all that the chain holds is here. Where it is not, `git gc` and `git fsck` fail.
///
/// # Errors
/// `git-missing`, `io`; `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn is_whole(repo: &Repo) -> Result<bool> {
    match chain::tip(repo, Chain::Keep)? {
        // What a partial clone lacks would be fetched.
        Some(tip) if !repo.is_partial() => repo.is_whole(tip.oid),
        _ => Ok(true),
    }
}

/// Puts copies without what is missing in the place of kept commits that are not whole; gives how many. Spawn commits, on which rows
/// live, stay.
///
/// # Errors
/// As [`keep`].
pub fn mend(repo: &Repo, now: DateTime<Utc>) -> Result<usize> {
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let who = chain::identity(repo, now);
    let mut count = 0;
    chain::append(repo, &guard, Chain::Keep, &who, "agent: mend what is kept", |tip| {
        let tip = tip.ok_or_else(|| Error::bug("a chain that holds nothing is whole"))?;
        let links = Links::read(repo, tip.clone())?;
        let kept = links.oldest_first.iter().filter(|link| !link.holds_rows());
        let kept = kept.flat_map(|link| link.commit.parents.iter().skip(link.before)).copied();
        let copies = repo.keepable(kept, &HashSet::new())?.copies;
        count = copies.len();
        let rewritten = links.rewritten(repo, &HashSet::new(), &copies)?;
        rewritten.ok_or_else(|| Error::bug("no link was taken out"))
    })?;
    // Git follows the reflog as well.
    repo.expire_unreachable(Chain::Keep.refname())?;
    Ok(count)
}

/// One link, and which of its parents are links.
struct Link {
    commit: Commit,
    /// How many of the first parents are links themselves.
    before: usize,
}

impl Link {
    /// `None` for a commit that is none. Agents write messages too, so a kept commit may look like one:
    /// only what stands where a link belongs is asked.
    fn of(repo: &Repo, commit: Commit) -> Option<Link> {
        if !looks_like_one(&commit) {
            return None;
        }
        let subject = commit.message.lines().next().unwrap_or_default();
        let before = match commit.parents.first() {
            None => 0,
            Some(_) if MENDED.contains(&subject) => commit.parents.len(),
            // The first link of all keeps something and follows nothing.
            Some(first) => {
                repo.read_commit(*first).is_ok_and(|first| looks_like_one(&first)).into()
            }
        };
        Some(Link { commit, before })
    }

    /// The kind of what it keeps, and for whom.
    fn kind(&self) -> Option<(&str, &str)> {
        self.commit.message.lines().next()?.strip_prefix(KEEP)?.split_once(' ')
    }

    fn holds_rows(&self) -> bool {
        self.kind().is_some_and(|(kind, _)| HOLDING.contains(&kind))
    }

    fn passing(&self) -> Option<Passing> {
        let (kind, whom) = self.kind()?;
        Some(Passing {
            link: self.commit.oid,
            agent: AgentId::parse(whom).filter(|_| PASSING.contains(&kind))?,
            seconds: self.commit.seconds,
            commits: self.commit.parents.iter().skip(self.before).copied().collect(),
        })
    }
}

fn looks_like_one(commit: &Commit) -> bool {
    let subject = commit.message.lines().next().unwrap_or_default();
    let kind = subject.strip_prefix(KEEP).map(|rest| rest.split(' ').next());
    let may_hold_blobs = kind.flatten().is_some_and(|kind| HOLDING.contains(&kind));
    let ours = commit.trailer(chain::TRAILER).is_some();
    let is_one = kind.is_some() || MENDED.contains(&subject);
    // An agent can write such a subject and trailer. A tree with files in it shows that the commit
    // is work, unless the kind of link has a tree.
    ours && is_one && (may_hold_blobs || commit.tree == Oid::EMPTY_TREE)
}

/// A whole chain.
struct Links {
    tip: Oid,
    oldest_first: Vec<Link>,
}

impl Links {
    fn read(repo: &Repo, tip: Commit) -> Result<Links> {
        let mut links = Links { tip: tip.oid, oldest_first: Vec::new() };
        let mut seen = HashSet::new();
        // A link is written down after those before it, which wait on top of it.
        let mut waiting = vec![(tip.oid, None)];
        while let Some((oid, ready)) = waiting.pop() {
            if let Some(link) = ready {
                links.oldest_first.push(link);
                continue;
            }
            if !seen.insert(oid) {
                continue;
            }
            let Some(link) = Link::of(repo, repo.read_commit(oid)?) else {
                continue;
            };
            let before = link.commit.parents.clone().into_iter().take(link.before);
            waiting.push((oid, Some(link)));
            waiting.extend(before.map(|oid| (oid, None)));
        }
        Ok(links)
    }

    /// Writes what stays of the chain without these links, and with copies of these commits: below the oldest of them nothing
    /// changes.
    fn rewritten(
        &self,
        repo: &Repo,
        doomed: &HashSet<Oid>,
        copies: &BTreeMap<Oid, Option<Oid>>,
    ) -> Result<Option<Oid>> {
        let mut now_at: HashMap<Oid, Option<Oid>> = HashMap::new();
        for link in &self.oldest_first {
            let (commit, doomed) = (&link.commit, doomed.contains(&link.commit.oid));
            let (before, kept) = commit.parents.split_at(link.before);
            let moved = |oid: &Oid| now_at.get(oid).copied().unwrap_or(Some(*oid));
            let mut parents: Vec<_> = before.iter().filter_map(moved).collect();
            let rest = match (doomed, parents.as_slice()) {
                (true, []) => None,
                (true, [one]) => Some(*one),
                _ => {
                    if !doomed {
                        let copied = |oid: &Oid| copies.get(oid).copied().unwrap_or(Some(*oid));
                        parents.extend(kept.iter().filter_map(copied));
                    }
                    // A link whose parents are all where they were keeps its name, and with it
                    // everything above that is not touched.
                    if parents == commit.parents {
                        Some(commit.oid)
                    } else {
                        Some(repo.write_with_parents(commit.oid, &parents)?)
                    }
                }
            };
            now_at.insert(commit.oid, rest);
        }
        // A tip that is no link of ours is left alone.
        Ok(now_at.get(&self.tip).copied().unwrap_or(Some(self.tip)))
    }
}

// Starting git's own maintenance, which libgit2 never does.
//
// An append leaves five loose objects. `git gc --auto` knows when that is too many, but asking it
// every time would cost more than the append, so it is asked only when there is reason to.

/// git's default for `gc.auto`: that many loose objects are too many.
const DEFAULT_LIMIT: u64 = 6700;

/// What keeps `git gc` from locking refs and the commit-graph, so that it packs objects alone: if it is killed, nothing
/// proves that its locks are left over.
const NO_LOCKS: [&str; 4] = [
    "gc.packRefs=false",
    "gc.reflogExpire=never",
    "gc.reflogExpireUnreachable=never",
    "gc.writeCommitGraph=false",
];

/// After a commit was written: starts `git gc --auto` in the background when git would start it itself.
///
/// git estimates the number of loose objects by one of its 256 directories, `objects/17` (builtin/gc.c:
/// `too_many_loose_objects`). That directory is looked at only when the commit itself fell into it:
/// one append in 256, free of charge for the others. Maintenance that cannot start is no error.
pub(in crate::store) fn after_append(repo: &Repo, commit: Oid) {
    if commit.as_bytes()[0] != 0x17 {
        return;
    }
    let limit = match repo.config_string("gc.auto") {
        Ok(None) => DEFAULT_LIMIT,
        // A value that is no number switches maintenance off here: git itself would refuse to
        // start.
        Ok(Some(value)) => value.trim().parse().unwrap_or(0),
        Err(_) => return,
    };
    let common_dir = repo.common_dir();
    let loose = std::fs::read_dir(common_dir.join("objects/17")).map_or(0, Iterator::count);
    if limit == 0 || loose as u64 <= limit.div_ceil(256) {
        return;
    }
    let mut git_dir = std::ffi::OsString::from("--git-dir=");
    git_dir.push(common_dir);
    // It starts in a directory that always exists and that no agent can remove: `git gc` outlives
    // this process.
    let _ = command::git(&layout::agents_dir(common_dir))
        .arg(git_dir)
        .args(NO_LOCKS.iter().flat_map(|setting| ["-c", setting]))
        .args(["gc", "--auto", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its own group, so that an interrupt from the terminal does not reach it.
        .process_group(0)
        .spawn();
}
