//! What a branch has gained since each of many older commits, in one pass over its history.
//!
//! Agents that were spawned one after the other from one branch are all behind it, and to walk from each of them to its tip
//! reads the same commits again for each. Here every start has a bit. A commit hands its bits on to its parents, so it ends
//! up with those of all starts that hold it, and the branch has gained it since the others. A commit is looked up in the
//! commit-graph where there is one, else its object is read.

use super::commit_graph::CommitGraph;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Commits without a generation number that are walked though their dates say that they change nothing.
const SLACK: usize = 64;

/// The bits of one commit: the first is that of the branch, the others are those of the starts.
type Bits = Vec<u64>;

/// The history of a branch beyond some older commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gained {
    since: HashMap<Oid, usize>,
    /// Those commits that the branch holds, with the numbers that they had in the pass.
    held: HashMap<Oid, usize>,
    /// The bit of each start.
    bits: HashMap<Oid, usize>,
    visited: Vec<Visited>,
}

/// How a start and the branch have grown apart since another start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrownApart {
    /// The commits that the one start has, and neither the branch nor the other start: parents first.
    pub own: Vec<Oid>,
    /// How many commits the branch has, and neither of the two starts.
    pub behind: usize,
    /// Where the one start and the branch meet, if this shows it.
    pub fork: Option<Oid>,
}

impl Gained {
    /// How many commits the branch holds that this start does not; `None` for a start that was not asked for or is
    /// not here.
    pub fn since(&self, start: Oid) -> Option<usize> {
        self.since.get(&start).copied()
    }

    /// Whether the branch holds a commit that is a start, or that one of the starts does not hold.
    pub fn holds(&self, commit: Oid) -> bool {
        self.held.contains_key(&commit)
    }

    /// How `tip` and the branch have grown apart since `start`; `None` where one of the two was not asked for or is not
    /// here.
    pub fn apart(&self, tip: Oid, start: Oid) -> Option<GrownApart> {
        let (tip_bit, start_bit) = (*self.bits.get(&tip)?, *self.bits.get(&start)?);
        let (mut own, mut behind) = (HashMap::new(), 0);
        let (mut common, mut below) = (Vec::new(), HashSet::<Oid>::new());
        for node in &self.visited {
            let is_new = !node.has(start_bit);
            match (node.has(0), node.has(tip_bit)) {
                (true, false) => behind += usize::from(is_new),
                (false, true) if is_new => drop(own.insert(node.oid, &node.parents)),
                (true, true) => {
                    common.push(node.oid);
                    below.extend(&node.parents);
                }
                _ => {}
            }
        }
        // Every commit where the two meet was visited; of those below it, perhaps not all.
        common.retain(|oid| !below.contains(oid));
        let fork = { common.first().copied() }.filter(|_| common.len() == 1);
        // All of them can be reached through each other.
        let (mut ordered, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting = vec![(tip, false)];
        while let Some((oid, is_ready)) = waiting.pop() {
            let Some(parents) = own.get(&oid) else {
                continue;
            };
            if is_ready {
                ordered.push(oid);
            } else if seen.insert(oid) {
                waiting.push((oid, true));
                waiting.extend(parents.iter().rev().map(|parent| (*parent, false)));
            }
        }
        Some(GrownApart {
            own: ordered,
            behind,
            fork,
        })
    }
}

impl Repo {
    /// What `branch` has gained since each of these commits. `None` in a shallow clone, where what is missing could
    /// change the answer.
    ///
    /// # Errors
    /// `repo-corrupt` when a commit cannot be read, `git-failed`.
    pub fn gained(&self, branch: Oid, starts: &[Oid]) -> Result<Option<Gained>> {
        if self.is_shallow() {
            return Ok(None);
        }
        let starts: Vec<Oid> = { starts.iter().copied() }
            .filter(|start| self.has_object(*start))
            .collect();
        let mut pass = Pass::new(self, 1 + starts.len());
        for (bit, oid) in [branch].iter().chain(&starts).enumerate() {
            let node = pass.node(*oid)?;
            let mut bits = vec![0; pass.full.len()];
            bits[bit / 64] |= 1 << (bit % 64);
            pass.hand_on(node, &bits);
        }
        pass.run()?;
        Ok(Some(pass.gained(&starts)))
    }
}

/// What commits are sorted by: children before parents. Commits outside of the commit-graph come first, by their dates.
type Rank = (u32, i64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Visited {
    oid: Oid,
    rank: Rank,
    parents: Vec<Oid>,
    bits: Bits,
    is_queued: bool,
}

impl Visited {
    /// Whether the root with this bit holds it.
    fn has(&self, bit: usize) -> bool {
        self.bits[bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// A walk over the commits that not all roots hold.
struct Pass<'r> {
    repo: &'r Repo,
    graph: Option<CommitGraph>,
    nodes: Vec<Visited>,
    numbers: HashMap<Oid, usize>,
    queue: BinaryHeap<(Rank, usize)>,
    /// The bits of a commit that all roots hold.
    full: Bits,
    /// How many commits in the queue are not held by all roots.
    open: usize,
    /// The lowest rank of those that were taken from it.
    lowest: Option<Rank>,
}

impl<'r> Pass<'r> {
    fn new(repo: &'r Repo, roots: usize) -> Pass<'r> {
        let mut full = vec![u64::MAX; roots.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (full.last_mut(), roots % 64) {
            *last = (1 << rest) - 1;
        }
        Pass {
            repo,
            graph: repo.commit_graph(),
            nodes: Vec::new(),
            numbers: HashMap::new(),
            queue: BinaryHeap::new(),
            full,
            open: 0,
            lowest: None,
        }
    }

    /// The number of a commit, which is looked up when it is first asked for.
    fn node(&mut self, oid: Oid) -> Result<usize> {
        if let Some(number) = self.numbers.get(&oid) {
            return Ok(*number);
        }
        let known = self.graph.as_ref().and_then(|graph| graph.find(oid));
        let (rank, parents) = match known {
            Some(commit) => ((commit.generation, commit.seconds), commit.parents),
            None => {
                // As its own bytes name them: grafts hide nothing here.
                let commit = self.repo.read_raw_commit(oid)?;
                let seconds = commit.committer().map_or(0, |(_, seconds)| seconds);
                ((u32::MAX, seconds), commit.parents())
            }
        };
        let number = self.nodes.len();
        self.numbers.insert(oid, number);
        self.nodes.push(Visited {
            oid,
            rank,
            parents,
            bits: vec![0; self.full.len()],
            is_queued: false,
        });
        Ok(number)
    }

    /// Adds bits to a commit, which is walked again where it had not all of them.
    fn hand_on(&mut self, number: usize, bits: &[u64]) {
        let node = &mut self.nodes[number];
        let was_full = node.bits == self.full;
        if bits
            .iter()
            .zip(&node.bits)
            .all(|(new, old)| new & !old == 0)
        {
            return;
        }
        for (own, new) in node.bits.iter_mut().zip(bits) {
            *own |= new;
        }
        let is_full = node.bits == self.full;
        if node.is_queued {
            self.open -= usize::from(is_full && !was_full);
            return;
        }
        node.is_queued = true;
        self.open += usize::from(!is_full);
        self.queue.push((node.rank, number));
    }

    /// Walks until what is left is held by all roots, and is older than what is not. Outside of the commit-graph a commit
    /// may be dated before its parents, so some more are walked there.
    fn run(&mut self) -> Result<()> {
        let mut settled = 0;
        while let Some((rank, number)) = self.queue.pop() {
            settled += 1;
            if self.open > 0 || self.lowest.is_some_and(|lowest| rank >= lowest) {
                settled = 0;
            } else if rank.0 < u32::MAX || settled > SLACK {
                break;
            }
            let node = &mut self.nodes[number];
            node.is_queued = false;
            let bits = node.bits.clone();
            let parents = node.parents.clone();
            if bits != self.full {
                self.open -= 1;
                self.lowest = Some(self.lowest.map_or(rank, |lowest| lowest.min(rank)));
            }
            for parent in parents {
                let parent = self.node(parent)?;
                self.hand_on(parent, &bits);
            }
        }
        Ok(())
    }

    fn gained(mut self, starts: &[Oid]) -> Gained {
        let nodes = &self.nodes;
        let is_held = |node: &Visited| node.has(0);
        self.numbers.retain(|_, number| is_held(&nodes[*number]));
        // Along a line of commits the same starts hold many.
        let mut alike: HashMap<&[u64], usize> = HashMap::new();
        for node in nodes.iter().filter(|node| is_held(node)) {
            *alike.entry(&node.bits).or_default() += 1;
        }
        let count = |bit: usize| {
            let lacks = |bits: &[u64]| bits[bit / 64] >> (bit % 64) & 1 == 0;
            let gained = alike.iter().filter(|(bits, _)| lacks(bits));
            gained.map(|(_, count)| count).sum()
        };
        let bits = { starts.iter().enumerate() }.map(|(index, start)| (*start, index + 1));
        let bits: HashMap<Oid, usize> = bits.collect();
        let since = { bits.iter() }.map(|(start, bit)| (*start, count(*bit)));
        Gained {
            since: since.collect(),
            held: self.numbers,
            bits,
            visited: self.nodes,
        }
    }
}
