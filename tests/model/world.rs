use super::held::{File, Held};
use crate::support::agent::{agent_command, describe};
use crate::support::{TestRepo, git_output};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Files that git ignores in every worktree of the story.
pub(super) const IGNORED: &str = "built";

/// A small generator of numbers (splitmix64), the same for the same seed everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    pub(super) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        match from.len() {
            0 => None,
            length => Some(from[self.below(length)].clone()),
        }
    }
}

/// A state as the map knows it: whether anything was done in an agent it does not keep.
pub(super) fn known_as(state: &str) -> &str {
    match state {
        "ready" => "idle",
        known => known,
    }
}

/// What the map knows of an agent.
pub(super) struct Agent {
    pub id: String,
    pub shared: bool,
    pub branch: String,
    /// Where it was made.
    pub home: PathBuf,
    /// Where a person moved it.
    pub worktree: PathBuf,
    pub state: String,
    pub deferred: bool,
    /// What its worktree held when a command of ours took it away.
    pub taken: Option<BTreeMap<PathBuf, File>>,
}

impl Agent {
    /// The name of its admin directory.
    pub(super) fn name(&self) -> String {
        format!("agent-{}", &self.id[..8])
    }

    pub(super) fn is_open(&self) -> bool {
        !["merged", "discarded"].contains(&self.state.as_str())
    }
}

/// One story.
pub(super) struct World {
    pub repo: TestRepo,
    pub agents: Vec<Agent>,
    pub random: Random,
    pub held: Held,
    seed: u64,
    texts: usize,
    story: Vec<String>,
}

/// What was done, and what it may have changed.
#[derive(Default)]
pub(super) struct Deed {
    /// Whether a command of ours did it, which may lose nothing.
    pub ours: bool,
    /// The agents whose worktrees it may take away.
    pub removes: Vec<usize>,
    /// Whether ignored files of theirs must be kept too.
    pub with_ignored: bool,
    /// What it may not let go of, where it may let go of anything.
    pub needed: Option<BTreeSet<String>>,
    /// Whether the files of the main worktree may move to what landed.
    pub lands: bool,
    /// The states that an agent may be in afterwards; those of others stay.
    pub states: BTreeMap<usize, Vec<&'static str>>,
    /// What each agent's mark `deferred` is afterwards, where it is not as before.
    pub deferred: BTreeMap<usize, bool>,
}

impl Deed {
    /// Something that agents or people do.
    pub(super) fn theirs() -> Option<Deed> {
        Some(Deed::default())
    }

    /// A command of ours that may leave an agent in one of these states.
    pub(super) fn leading(agent: usize, states: &[&'static str]) -> Deed {
        Deed { ours: true, states: BTreeMap::from([(agent, states.to_vec())]), ..Deed::default() }
    }
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let repo = TestRepo::with_commit();
        repo.write(".gitignore", format!("/{IGNORED}/\n"));
        repo.commit_all("ignore");
        let held = Held::look(&repo.path());
        World {
            repo,
            agents: Vec::new(),
            random: Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            held,
            seed,
            texts: 0,
            story: Vec::new(),
        }
    }

    /// A text that nobody wrote before.
    pub(super) fn text(&mut self) -> String {
        self.texts += 1;
        format!("text {} of story {}\n", self.texts, self.seed)
    }

    /// Adds a line to the story.
    pub(super) fn tell(&mut self, line: impl Into<String>) {
        self.story.push(line.into());
    }

    /// Ends the story with what is wrong.
    pub(super) fn fail(&self, what: &str) -> ! {
        let story = self.story.join("\n  ");
        panic!("{what}\nGIT_AGENT_MODEL_SEED={}; the story:\n  {story}", self.seed);
    }

    pub(super) fn require(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    /// Runs a command of ours in the main worktree; it may succeed, say no or refuse, and nothing else.
    pub(super) fn run(&mut self, arguments: &[&str]) -> Output {
        let output = agent_command(&self.repo.path())
            .args(arguments)
            .arg("--format=json")
            .output()
            .expect("starts");
        let said = describe(&output);
        let code = output.status.code().unwrap_or(-1);
        let error = String::from_utf8_lossy(&output.stderr);
        let error: Value = serde_json::from_str(&error).unwrap_or_default();
        let reason = error["error"]["code"].as_str().unwrap_or("done").to_owned();
        self.tell(format!("{} -> {code} {reason}", arguments.join(" ")));
        let expected = [0, 1, 3].contains(&code)
            || ["worktree-foreign", "branch-gone"].contains(&reason.as_str());
        self.require(expected, || format!("{arguments:?} ended badly: {said}"));
        output
    }

    /// Runs git by hand, whatever comes of it.
    pub(super) fn git(&mut self, directory: &Path, arguments: &[&str]) -> bool {
        let output = git_output(directory, arguments);
        let code = output.status.code().unwrap_or(-1);
        let place = directory.file_name().unwrap_or_default().to_string_lossy();
        self.tell(format!("[{place}] git {} -> {code}", arguments.join(" ")));
        output.status.success()
    }

    /// The agents with a worktree that git knows and that is there.
    pub(super) fn at_work(&self) -> Vec<usize> {
        let admin = self.repo.path().join(".git/worktrees");
        let there = |agent: &Agent| {
            !agent.shared && agent.worktree.is_dir() && admin.join(agent.name()).is_dir()
        };
        let all = self.agents.iter().enumerate();
        all.filter_map(|(index, agent)| there(agent).then_some(index)).collect()
    }

    /// Looks at everything and holds it against what was there before.
    pub(super) fn check(&mut self, deed: &Deed) {
        let path = self.repo.path();
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        let output = git_output(&path, fsck);
        let clean = output.status.success() && output.stdout.is_empty();
        self.require(clean, || format!("git fsck: {}", describe(&output)));
        let before = std::mem::replace(&mut self.held, Held::look(&path));
        if deed.ours {
            self.check_objects(&before, deed);
            self.check_files(&before, deed);
        }
        for &index in &deed.removes {
            let worktree = self.agents[index].worktree.clone();
            let held = before.below(&worktree);
            if !held.is_empty() && self.held.below(&worktree).is_empty() {
                let kept = |path: &Path| deed.with_ignored || !path.starts_with(IGNORED);
                let held = held.into_iter().filter(|(path, _)| kept(path)).collect();
                self.agents[index].taken = Some(held);
            }
        }
        self.check_rows(deed);
        self.check_places();
    }

    /// A command of ours lets go of nothing.
    fn check_objects(&self, before: &Held, deed: &Deed) {
        let needed = deed.needed.as_ref();
        let refs = needed.unwrap_or(&before.refs);
        let lost = refs.difference(&self.held.refs).next();
        self.require(lost.is_none(), || format!("no ref reaches {lost:?}"));
        let staged = needed.unwrap_or(&before.staged);
        let lost = staged.iter().find(|oid| !self.held.has(oid) && self.is_work(oid));
        self.require(lost.is_none(), || format!("staged and lost: {lost:?}"));
        let logged = &self.held.logged;
        let lost = before
            .logged
            .iter()
            .find(|&oid| !logged.contains(oid) && !self.held.has(oid) && self.is_work(oid));
        self.require(lost.is_none(), || format!("committed and lost: {lost:?}"));
        let may_go = |path: &Path| {
            !deed.with_ignored
                && deed
                    .removes
                    .iter()
                    .any(|&agent| path.starts_with(self.agents[agent].worktree.join(IGNORED)))
        };
        let mut written = before.files.iter().filter(|(path, _)| !may_go(path));
        let lost = written.find(|(_, (_, oid))| !self.held.has(oid));
        self.require(lost.is_none(), || format!("written and lost: {lost:?}"));
    }

    /// Whether an object is more than a tree: an index remembers those of states that nobody made.
    fn is_work(&self, oid: &str) -> bool {
        self.repo.git(["cat-file", "-t", oid]) != "tree"
    }

    /// A command of ours changes no file, but in worktrees that it removes and where work lands.
    fn check_files(&self, before: &Held, deed: &Deed) {
        let root = self.repo.path();
        let worktrees = root.join(".claude");
        let may_change = |path: &Path| {
            let removed = |&agent: &usize| path.starts_with(&self.agents[agent].worktree);
            deed.removes.iter().any(removed)
                || deed.lands && path.starts_with(&root) && !path.starts_with(&worktrees)
        };
        let mut kept = before.files.iter().filter(|(path, _)| !may_change(path));
        let changed = kept.find(|(path, file)| self.held.files.get(*path) != Some(file));
        self.require(changed.is_none(), || format!("changed: {changed:?}"));
    }

    /// Every row is in the ledger, in a state that the deed can lead to, and adds up. The recorded states, not what a look at the work makes of
    /// one that has landed: the map does not keep what was written since.
    fn check_rows(&mut self, deed: &Deed) {
        let list = self.repo.agent_json(&["list", "--all", "--fast"]);
        let rows: BTreeMap<_, _> = list["agents"]
            .as_array()
            .expect("agents")
            .iter()
            .map(|row| (row["agent_id"].as_str().expect("an id").to_owned(), row))
            .collect();
        self.require(rows.len() == self.agents.len(), || {
            format!("{} agents and {} rows", self.agents.len(), rows.len())
        });
        let mut settled = Vec::new();
        for (index, agent) in self.agents.iter().enumerate() {
            let Some(row) = rows.get(&agent.id) else {
                self.fail(&format!("no row of {}", agent.id));
            };
            let state = known_as(row["state"].as_str().expect("a state"));
            let allowed = match deed.states.get(&index) {
                Some(states) => states.contains(&state),
                None => state == agent.state,
            };
            self.require(allowed, || {
                let short = &agent.id[..8];
                format!("agent {short} was {} and is {state}", agent.state)
            });
            let deferred = row["deferred"].as_bool().expect("a mark");
            let expected = match deed.deferred.get(&index) {
                Some(deferred) => *deferred,
                None => agent.deferred && !deed.states.contains_key(&index),
            };
            self.require(deferred == expected, || format!("deferred: {row}"));
            self.require(row.get("irregular").is_none(), || format!("{row}"));
            settled.push((state.to_owned(), deferred));
        }
        for (agent, (state, deferred)) in self.agents.iter_mut().zip(settled) {
            (agent.state, agent.deferred) = (state, deferred);
        }
    }

    /// Of a discarded agent neither worktree, nor admin directory, nor branch is left.
    fn check_places(&self) {
        let worktrees = self.repo.git(["worktree", "list", "--porcelain"]);
        let branches = self.repo.git(["for-each-ref", "--format=%(refname)"]);
        for agent in self.agents.iter().filter(|a| a.state == "discarded") {
            let place = format!("worktree {}\n", agent.worktree.display());
            let branch = format!("refs/heads/{}", agent.branch);
            let left = worktrees.contains(&place)
                || !agent.shared && agent.home.exists()
                || branches.lines().any(|line| line == branch);
            self.require(!left, || format!("something is left of {}", agent.id));
        }
    }

    /// Ends the story: everything that no person has put out of reach can be discarded, and what was kept
    /// survives git's own garbage collection.
    pub(super) fn clear_away(&mut self) {
        for agent in 0..self.agents.len() {
            let deed = super::ours::discard_one(self, agent, false);
            self.check(&deed);
        }
        self.repo.git(["reflog", "expire", "--expire=now", "--all"]);
        self.repo.git(["gc", "--quiet", "--prune=now"]);
        let before = std::mem::replace(&mut self.held, Held::look(&self.repo.path()));
        let lost = before.refs.difference(&self.held.refs).next();
        self.require(lost.is_none(), || format!("no ref reaches {lost:?}"));
        self.check(&Deed::default());
    }
}
