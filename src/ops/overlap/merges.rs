//! Which agents' work conflicts, tried out by git in the object database.

use super::Scene;
use crate::agents::work::uncommitted::tree_with;
use crate::agents::work::{simulated, to_merge};
use crate::agents::{Ctx, context::parallel};
use crate::domain::Oid;
use crate::domain::value::named::named;
use crate::error::{Error, Result};
use crate::git::history::merge::Merge;
use crate::git::{MergeResult, Repo};
use crate::store::files::{fsx, layout};
use crate::wire::output::path_text::PathText;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

named! {
    /// Whether two pieces of work merge.
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum MergeState {
        /// Without conflicts.
        Clean = "clean",
        /// With conflicts.
        Conflicts = "conflicts",
        /// They have no common ancestor.
        Unrelated = "unrelated",
    }
}

/// How two pieces of work merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PairOutcome {
    /// Whether they do.
    pub state: MergeState,
    /// Where it conflicts, ordered by path.
    pub conflicts: Vec<PathText>,
    /// Whether libgit2 answered in git's place.
    pub approximate: bool,
}

impl PairOutcome {
    pub(super) fn is_clean(&self) -> bool {
        self.state == MergeState::Clean
    }
}

impl From<Merge> for PairOutcome {
    fn from(merge: Merge) -> PairOutcome {
        let (state, conflicts) = match merge.result {
            MergeResult::Clean { .. } => (MergeState::Clean, Vec::new()),
            MergeResult::Conflicts { conflicts, .. } => (MergeState::Conflicts, conflicts),
            MergeResult::Unrelated => (MergeState::Unrelated, Vec::new()),
        };
        PairOutcome {
            state,
            conflicts: conflicts
                .into_iter()
                .map(|conflict| PathText::from(conflict.path.as_slice()))
                .collect(),
            approximate: merge.approximate,
        }
    }
}

/// The merges of all pairs that are near each other.
pub(super) struct Merges {
    outcomes: HashMap<(usize, usize), PairOutcome>,
    /// For each agent the commit that would land, where that matters.
    pub commits: BTreeMap<usize, Oid>,
}

/// One merge that is wanted.
struct WantedMerge {
    pair: (usize, usize),
    ours: Oid,
    theirs: Oid,
    /// The commit whose attributes count: the one that the first of the two lands on.
    attributes: Oid,
}

impl Merges {
    /// Merges all pairs of the scene that are near each other; `others` are agents whose commits are wanted
    /// besides.
    pub(super) fn try_out(ctx: &Ctx, scene: &mut Scene, others: Vec<usize>) -> Result<Merges> {
        let changes = &scene.changes;
        let is_near = |(one, two): &(usize, usize)| match (changes.get(one), changes.get(two)) {
            (Some(one), Some(two)) => one.is_near(two),
            _ => false,
        };
        let near: Vec<_> = scene.pairs.iter().copied().filter(is_near).collect();
        let mut agents: BTreeSet<usize> = near.iter().flat_map(|(one, two)| [*one, *two]).collect();
        agents.extend(others);
        let commits = commits(ctx, scene, &agents)?;
        let mut merges = Merges { outcomes: HashMap::new(), commits };
        let mut wanted = Vec::new();
        for (one, two) in near {
            let commit = |agent| merges.commits.get(agent).copied();
            let (Some(ours), Some(theirs)) = (commit(&one), commit(&two)) else {
                continue;
            };
            wanted.push(WantedMerge {
                pair: (one, two),
                ours,
                theirs,
                // What lands is merged by the attributes of the branch that it lands on.
                attributes: scene.agent(one)?.target_tip.unwrap_or(ours),
            });
        }
        merges.run(ctx, &wanted)?;
        Ok(merges)
    }

    /// The commit that would land for an agent that is wanted.
    pub(super) fn commit(&self, agent: usize) -> Result<Oid> {
        let commit = self.commits.get(&agent).copied();
        commit.ok_or_else(|| Error::bug("an order of work without a commit"))
    }

    /// How two agents' work merges; `None` for two that are not near each other.
    pub(super) fn outcome(&self, one: usize, two: usize) -> Option<&PairOutcome> {
        self.outcomes.get(&(one.min(two), one.max(two)))
    }

    /// Whether two agents cannot both land as they are.
    pub(super) fn conflict(&self, one: usize, two: usize) -> bool {
        self.outcome(one, two).is_some_and(|merge| !merge.is_clean())
    }

    /// Asks the cache, then git for the rest, one child for all that share their attributes.
    fn run(&mut self, ctx: &Ctx, wanted: &[WantedMerge]) -> Result<()> {
        let mut cache = Cache::load(&ctx.repo);
        let mut open: BTreeMap<Oid, Vec<&WantedMerge>> = BTreeMap::new();
        for merge in wanted {
            let known = cache.look_up(merge.ours, merge.theirs, merge.attributes);
            match known {
                Some(outcome) => drop(self.outcomes.insert(merge.pair, outcome)),
                None => open.entry(merge.attributes).or_default().push(merge),
            }
        }
        for (attributes, merges) in open {
            let pairs: Vec<_> = merges.iter().map(|merge| (merge.ours, merge.theirs)).collect();
            let answers = ctx.repo.merge_many(&pairs, attributes)?;
            for (merge, answer) in merges.into_iter().zip(answers) {
                let outcome = PairOutcome::from(answer);
                cache.remember(merge.ours, merge.theirs, attributes, &outcome);
                self.outcomes.insert(merge.pair, outcome);
            }
        }
        cache.store();
        Ok(())
    }
}

/// The commit that would land for each of these agents: its tip, or one that holds the rest as well. One
/// that cannot be made is left out, and the scene's problems say why.
fn commits(ctx: &Ctx, scene: &mut Scene, agents: &BTreeSet<usize>) -> Result<BTreeMap<usize, Oid>> {
    let mut commits = BTreeMap::new();
    let mut dirty = Vec::new();
    for index in agents {
        let Some(changes) = scene.changes.get(index) else {
            continue;
        };
        match changes.tip {
            Some(tip) if changes.uncommitted.is_empty() => drop(commits.insert(*index, tip)),
            Some(_) => dirty.push((*index, scene.agent(*index)?, changes)),
            None => {}
        }
    }
    let seed = ctx.seed();
    let made = parallel::map(&dirty, |(_, live, changes)| -> Result<Oid> {
        let ctx = seed.open()?;
        let tip = live.require_tip(&ctx)?;
        let Some(place) = &live.place else {
            return Ok(tip);
        };
        let tree = tree_with(&ctx, tip, place, &changes.uncommitted)?;
        if tree == ctx.repo.tree_of(tip)? { Ok(tip) } else { simulated(&ctx.repo, tree, &[tip]) }
    });
    let mut problems = Vec::new();
    for ((index, live, _), made) in dirty.into_iter().zip(made) {
        match made {
            Ok(commit) => drop(commits.insert(index, commit)),
            Err(error) => problems
                .push((live.agent.id, format!("its uncommitted work could not be read: {error}"))),
        }
    }
    // What has landed in another form does not conflict with what comes after it.
    for (index, commit) in &mut commits {
        let live = scene.agent(*index)?;
        match live.target_tip.map(|target| to_merge(ctx, &live.agent, target, *commit)) {
            Some(Ok(stand_in)) => *commit = stand_in,
            Some(Err(error)) => problems.push((live.agent.id, error.to_string())),
            None => {}
        }
    }
    scene.problems.append(&mut problems);
    Ok(commits)
}

// Merges that were tried before, in one disposable file.
//
// One line of JSON for each: the two commits, the commit whose attributes counted, and what came out. The
// oids say everything that a merge depends on but the user's settings, so an entry is never wrong for
// long; a file that cannot be read is as good as none.

/// More merges than this are not remembered: it is what 100 agents can make of each other, twice.
const MOST: usize = 10_000;

type Key = (Oid, Oid, Oid);

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct KnownMerge {
    version: String,
    ours: String,
    theirs: String,
    attributes: String,
    outcome: PairOutcome,
}

/// What is remembered.
pub(super) struct Cache {
    path: PathBuf,
    known: BTreeMap<Key, PairOutcome>,
    /// What this run asked for, which outlives the rest.
    used: BTreeMap<Key, PairOutcome>,
    grown: bool,
}

impl Cache {
    pub(super) fn load(repo: &Repo) -> Cache {
        let path = layout::cache_dir(repo.common_dir()).join("overlap");
        let content = fsx::load_if_there(&path).ok().flatten().unwrap_or_default();
        let known = content.split(|&byte| byte == b'\n').filter_map(|line| {
            let entry: KnownMerge = serde_json::from_slice(line).ok()?;
            let oid = Oid::from_hex;
            let key = (oid(&entry.ours)?, oid(&entry.theirs)?, oid(&entry.attributes)?);
            // Another version may ask git otherwise.
            (entry.version == env!("CARGO_PKG_VERSION")).then_some((key, entry.outcome))
        });
        Cache { known: known.collect(), used: BTreeMap::new(), grown: false, path }
    }

    pub(super) fn look_up(
        &mut self,
        ours: Oid,
        theirs: Oid,
        attributes: Oid,
    ) -> Option<PairOutcome> {
        let key = (ours, theirs, attributes);
        let outcome = self.known.get(&key)?.clone();
        self.used.insert(key, outcome.clone());
        Some(outcome)
    }

    pub(super) fn remember(
        &mut self,
        ours: Oid,
        theirs: Oid,
        attributes: Oid,
        outcome: &PairOutcome,
    ) {
        self.used.insert((ours, theirs, attributes), outcome.clone());
        self.grown = true;
    }

    /// Writes the file when there is something new in it. Without a cache everything works, only slower.
    pub(super) fn store(mut self) {
        // Nothing new was tried, so the file is left as it is, also for readers who may not write.
        if !self.grown {
            return;
        }
        self.known.retain(|key, _| !self.used.contains_key(key));
        // What was asked for now is asked for again soonest; of the rest the file keeps what fits.
        let entries = self.used.iter().chain(&self.known).take(MOST);
        let mut content = Vec::new();
        for ((ours, theirs, attributes), outcome) in entries {
            let entry = KnownMerge {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ours: ours.to_hex(),
                theirs: theirs.to_hex(),
                attributes: attributes.to_hex(),
                outcome: outcome.clone(),
            };
            // Texts and lists of texts always serialize.
            content.extend(serde_json::to_vec(&entry).unwrap_or_default());
            content.push(b'\n');
        }
        if let Some(directory) = self.path.parent() {
            // Merges that are not remembered are tried again.
            let _ =
                fsx::create_dir(directory).and_then(|()| fsx::write_atomic(&self.path, &content));
        }
    }
}
