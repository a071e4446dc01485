//! What a branch has gained since each of many older commits, in one pass over its history.
//!
//! Agents that were spawned one after the other from one branch are all behind it, and to walk from each of them to its tip
//! reads the same commits again for each. Here every start has a bit. A commit hands its bits on to its parents, so it ends
//! up with those of all starts that hold it, and the branch has gained it since the others. A commit is looked up in the
//! commit-graph where there is one, else its object is read.

use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::{Repo, core::command};
use gix::commitgraph::Graph;
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
    /// How many commits the branch has, and the one start has not.
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
            let is_new = !has(&node.bits, start_bit);
            match (has(&node.bits, 0), has(&node.bits, tip_bit)) {
                (true, false) => behind += 1,
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
        // Where they meet at several commits, git's own answer depends on more than this pass
        // knows.
        let fork = common.first().copied().filter(|_| common.len() == 1);
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
        Some(GrownApart { own: ordered, behind, fork })
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
        let starts: Vec<Oid> =
            starts.iter().copied().filter(|start| self.has_object(*start)).collect();
        let mut pass = Pass::new(self, 1 + starts.len());
        for (bit, oid) in [branch].iter().chain(&starts).enumerate() {
            let node = pass.node(*oid)?;
            let word = |word| if word == bit / 64 { 1 << (bit % 64) } else { 0 };
            let bits: Bits = (0..pass.full.len()).map(word).collect();
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

/// Whether the root with this bit holds a commit with these bits.
fn has(bits: &[u64], bit: usize) -> bool {
    let word = bits.get(bit / 64);
    word.is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

#[expect(
    clippy::indexing_slicing,
    reason = "numbers come from `Pass::node`, which adds the commit, and none is taken away"
)]
fn visited(nodes: &mut [Visited], number: usize) -> &mut Visited {
    &mut nodes[number]
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
                // Newer than the file, so above everything that is in it.
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
        let node = visited(&mut self.nodes, number);
        let was_full = node.bits == self.full;
        if bits.iter().zip(&node.bits).all(|(new, old)| new & !old == 0) {
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
            let node = visited(&mut self.nodes, number);
            // It may be queued again, where dates are wrong and bits come after it was walked.
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
        let is_held = |node: &Visited| has(&node.bits, 0);
        let nodes = &mut self.nodes;
        self.numbers.retain(|_, number| is_held(visited(nodes, *number)));
        // Along a line of commits the same starts hold many.
        let mut alike: HashMap<&[u64], usize> = HashMap::new();
        for node in nodes.iter().filter(|node| is_held(node)) {
            *alike.entry(&node.bits).or_default() += 1;
        }
        let count = |bit: usize| {
            let gained = alike.iter().filter(|(bits, _)| !has(bits, bit));
            gained.map(|(_, count)| count).sum()
        };
        let bits: HashMap<Oid, usize> =
            starts.iter().enumerate().map(|(index, start)| (*start, index + 1)).collect();
        let since = bits.iter().map(|(start, bit)| (*start, count(*bit)));
        Gained { since: since.collect(), held: self.numbers, bits, visited: self.nodes }
    }
}

// git's commit-graph: the parents and dates of commits in one file, so that a walk over history reads no objects.

/// The commit-graph of a repository.
pub(in crate::git) struct CommitGraph(Graph);

/// What it has of a commit.
pub(in crate::git) struct GraphCommit {
    /// Higher than those of all its ancestors.
    pub(in crate::git) generation: u32,
    /// Committer time in seconds since the epoch.
    pub(in crate::git) seconds: i64,
    /// Its parents, in order.
    pub(in crate::git) parents: Vec<Oid>,
}

impl Repo {
    /// Whether there is a commit-graph, and no setting forbids to use it.
    pub fn has_commit_graph(&self) -> bool {
        self.commit_graph().is_some()
    }

    /// The commit-graph, unless there is none or a setting forbids to use it.
    pub(in crate::git) fn commit_graph(&self) -> Option<CommitGraph> {
        let is_off = self.config_bool("core.commitGraph").ok()? == Some(false);
        let info = self.common_dir().join("objects/info");
        // A graph that cannot be read is as good as none: it only saves time.
        let graph = Graph::at(&info, gix::hash::Kind::Sha1, None).ok();
        graph.filter(|_| !is_off).map(CommitGraph)
    }
}

impl CommitGraph {
    /// A commit; `None` for one that came after the file was written.
    pub(in crate::git) fn find(&self, oid: Oid) -> Option<GraphCommit> {
        let id = gix::ObjectId::try_from(oid.as_bytes().as_slice()).ok()?;
        let commit = self.0.commit_by_id(id)?;
        let parents = commit.iter_parents().map(|parent| {
            let id = self.0.id_at(parent.ok()?);
            Oid::from_slice(id.as_bytes())
        });
        Some(GraphCommit {
            generation: commit.generation(),
            seconds: i64::try_from(commit.committer_timestamp()).ok()?,
            parents: parents.collect::<Option<_>>()?,
        })
    }
}

// Where a shallow clone ends, and whether what is missing below could change an answer.
//
// git treats the commits that `<common dir>/shallow` names as commits without parents. A walk that reaches
// one of them stops there, so "not found" may only mean "not in this clone". Every question about ancestry
// is answered here only where the answer is the same whatever the missing commits are; otherwise the error
// is `history-incomplete`.
//
// The reason why an answer can be certain although the history ends early: ancestry has no cycles. Where a
// commit `c` leads down to a commit `f`, and `f` leads down to an end `e` of the clone, nothing that is
// missing below `e` can be `c`.

/// The history below some commits as far as a shallow clone has it.
pub(in crate::git) struct Shallow {
    /// Each commit and its parents; an end of the clone has none.
    parents: HashMap<Oid, Vec<Oid>>,
    /// The commits whose parents are missing.
    ends: HashSet<Oid>,
}

impl Repo {
    /// The commits at which this clone's history ends; none in a whole clone.
    ///
    /// # Errors
    /// `io`.
    pub fn shallow_ends(&self) -> Result<HashSet<Oid>> {
        // libgit2 looks for this file in the admin directory of a linked worktree, where it never is.
        let path = self.common_dir().join("shallow");
        let text = std::fs::read_to_string(&path).at_if_there("could not read", &path)?;
        let ends = text.iter().flat_map(|text| text.lines());
        Ok(ends.filter_map(Oid::from_hex).collect())
    }

    /// Whether history ends early here.
    pub fn is_shallow(&self) -> bool {
        // A file that cannot be read hides where the history ends.
        self.shallow_ends().map_or(true, |ends| !ends.is_empty())
    }

    /// The history below these commits; `None` where it is whole, so that every answer is certain.
    ///
    /// # Errors
    /// `history-incomplete` when one of the commits is missing, `git-missing`, `git-failed`.
    pub(in crate::git) fn shallow_below(&self, roots: &[Oid]) -> Result<Option<Shallow>> {
        let ends = self.shallow_ends()?;
        if ends.is_empty() {
            return Ok(None);
        }
        let mut command = self.plumbing();
        command.args(["rev-list", "--parents"]).args(roots.iter().map(|root| root.to_hex()));
        let output = self.listed(command)?;
        let lines = output.split(|&byte| byte == b'\n');
        let parents = lines.filter_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let mut oids = text.split(' ').filter_map(Oid::from_hex);
            Some((oids.next()?, oids.collect()))
        });
        let parents: HashMap<Oid, Vec<Oid>> = parents.collect();
        let ends = ends.into_iter().filter(|end| parents.contains_key(end));
        Ok(Some(Shallow { ends: ends.collect(), parents }))
    }

    /// Runs a listing of commits. It fails where a commit on the way is missing and no shallow file says so.
    ///
    /// # Errors
    /// `history-incomplete`, `git-missing`, `git-failed`.
    pub(in crate::git) fn listed(&self, mut command: std::process::Command) -> Result<Vec<u8>> {
        let output = command::finish(&mut command)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let refused = command::refused(&command, &output);
        let said = String::from_utf8_lossy(&output.stderr);
        // Git has one status for all of its failures, so its words tell them apart; `plumbing` asks
        // for English.
        let is_missing = ["Could not read ", "bad object ", "Failed to traverse "]
            .iter()
            .any(|words| said.contains(words));
        if is_missing {
            return Err(shallow_parents_absent("a commit of the history").because(refused));
        }
        Err(refused)
    }
}

impl Shallow {
    /// Whether these are exactly the commits that a range holds, which git listed as far as this clone has
    /// them. `roots` are the commits that the range starts from and those that it leaves out.
    pub(in crate::git) fn proves_range(&self, listed: &HashSet<Oid>, roots: &[Oid]) -> bool {
        let ends = self.ends_below(roots);
        if ends.is_empty() || listed.is_empty() {
            return true;
        }
        // A commit that is left out is left out with everything below it. One that is listed could be below
        // an end of what is left out, unless it leads down to a commit that leads to that end.
        let mut exits = HashSet::new();
        for commit in listed {
            if ends.contains(commit) {
                return false;
            }
            let Some(parents) = self.parents.get(commit).filter(|some| !some.is_empty()) else {
                return false;
            };
            exits.extend(parents.iter().filter(|parent| !listed.contains(parent)));
        }
        exits.iter().all(|exit| self.ends_below(&[*exit]) == ends)
    }

    /// Whether `ancestor`, which was not found below `tip`, is not below it in the whole history either.
    pub(in crate::git) fn disproves_ancestor(&self, ancestor: Oid, tip: Oid) -> bool {
        let known = self.ends_below(&[ancestor]);
        self.ends_below(&[tip]).is_subset(&known)
    }

    /// Whether the commits that a merge of these two starts from are the same in the whole history. Where
    /// there are several, git merges them first, and so on down.
    pub(in crate::git) fn proves_merge(&self, one: Oid, two: Oid) -> bool {
        let (ours, theirs) = (self.below(&[one]), self.below(&[two]));
        let apart: HashSet<Oid> = ours.symmetric_difference(&theirs).copied().collect();
        if !self.proves_range(&apart, &[one, two]) {
            return false;
        }
        let parents = apart.iter().filter_map(|commit| self.parents.get(commit));
        let mut bases: HashSet<Oid> = parents.flatten().copied().collect();
        bases.extend([one, two]);
        bases.retain(|base| ours.contains(base) && theirs.contains(base));
        let all: Vec<Oid> = bases.iter().copied().collect();
        for base in &all {
            let mut below = self.below(&[*base]);
            below.remove(base);
            bases.retain(|other| !below.contains(other));
        }
        let bases: Vec<Oid> = bases.into_iter().collect();
        bases.iter().enumerate().all(|(index, one)| {
            let mut others = bases.iter().skip(index + 1);
            others.all(|two| self.proves_merge(*one, *two))
        })
    }

    fn ends_below(&self, roots: &[Oid]) -> HashSet<Oid> {
        let below = self.below(roots);
        self.ends.intersection(&below).copied().collect()
    }

    /// These commits and everything below them.
    fn below(&self, roots: &[Oid]) -> HashSet<Oid> {
        let mut found: HashSet<Oid> = roots.iter().copied().collect();
        let mut open = roots.to_vec();
        while let Some(commit) = open.pop() {
            let parents = self.parents.get(&commit).into_iter().flatten();
            open.extend(parents.filter(|parent| found.insert(**parent)));
        }
        found
    }
}

/// The error for a clone that ends before what is needed.
pub(crate) fn incomplete_history(before: &str) -> Error {
    Error::new(Code::HistoryIncomplete, format!("this clone is shallow and ends before {before}"))
        .hint("to fetch the rest of the history, run git fetch --unshallow")
}

/// The error for an object that this clone lacks although it is not shallow.
pub(crate) fn shallow_parents_absent(what: &str) -> Error {
    Error::new(Code::HistoryIncomplete, format!("{what} is missing in this clone"))
        .hint("to see what else is missing, run git fsck --connectivity-only")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(name: char) -> Oid {
        Oid::from_bytes([name as u8; 20])
    }

    /// A history from `child:parents` words; the second list holds the ends.
    fn history(words: &str, ends: &str) -> Shallow {
        let commits = words.split(' ').map(|word| {
            let (commit, parents) = word.split_once(':').expect("a colon");
            let commit = commit.chars().next().expect("a name");
            (oid(commit), parents.chars().map(oid).collect())
        });
        Shallow { parents: commits.collect(), ends: ends.chars().map(oid).collect() }
    }

    fn proves(history: &Shallow, listed: &str, roots: &str) -> bool {
        let roots: Vec<Oid> = roots.chars().map(oid).collect();
        history.proves_range(&listed.chars().map(oid).collect(), &roots)
    }

    #[test]
    fn a_range_is_certain_where_it_leaves_above_every_end() {
        // The branch t, s forked at f; main m went on; both end at e.
        let fork = history("t:s s:f m:f f:e e:", "e");
        assert!(proves(&fork, "ts", "tm"));
        assert!(proves(&fork, "tsm", "tm"));
        assert!(proves(&fork, "", "m"));
        // The fork itself may be the end.
        let at_end = history("t:s s:f m:f f:", "f");
        assert!(proves(&at_end, "tsm", "tm"));
    }

    #[test]
    fn a_range_with_an_end_in_it_is_not_certain() {
        let cut = history("t:s s: m:", "sm");
        assert!(!proves(&cut, "ts", "tm"));
        // main was fetched alone, so whether it holds s cannot be known.
        let apart = history("t:s s:f f: m:", "fm");
        assert!(!proves(&apart, "tsm", "tm"));
        assert!(!proves(&apart, "ts", "tm"));
    }

    #[test]
    fn an_end_beside_the_way_down_makes_it_uncertain() {
        // main merged x, at which the clone ends: x may hold s.
        let beside = history("t:s s:f m:fx f:g g: x:", "x");
        assert!(!proves(&beside, "ts", "tm"));
        assert!(!proves(&history("t: m:", "m"), "t", "tm"), "a root");
    }

    #[test]
    fn that_one_is_no_ancestor_is_certain_where_it_is_above_every_end() {
        let fork = history("t:s s:f m:f f:", "f");
        assert!(fork.disproves_ancestor(oid('s'), oid('m')));
        let apart = history("t:s s:f f: m:", "fm");
        assert!(!apart.disproves_ancestor(oid('s'), oid('m')));
    }

    #[test]
    fn a_merge_is_certain_down_to_the_bases_of_its_bases() {
        let fork = history("t:f m:f f:e e:", "e");
        assert!(fork.proves_merge(oid('t'), oid('m')));
        // Two bases, a and b, which meet at g, or before the clone's ends.
        let crossed = history("t:ab m:ab a:g b:g g:", "g");
        assert!(crossed.proves_merge(oid('t'), oid('m')));
        let cut = history("t:ab m:ab a: b:", "ab");
        assert!(!cut.proves_merge(oid('t'), oid('m')));
    }
}
