//! Ahead and behind of many agents in one pass, held against git.

use crate::support::TestRepo;
use crate::support::agent::TASK;
use crate::support::{PAST_HOOKS, git_in, git_output, isolated};
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::objects::{Identity, NewCommit};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// Numbers that look drawn at random and are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// Commits in which lines of work begin, go on and are merged, some unrelated to the others, and clocks are `skew` seconds
/// wrong at most.
fn tangle(repo: &Repo, seed: u64, commits: usize, skew: usize) -> Vec<Oid> {
    let mut draw = Draw(seed);
    let mut made: Vec<Oid> = Vec::new();
    for number in 0..commits {
        let seconds = number / 3 + draw.below(skew + 1);
        let who = Identity {
            name: "test".into(),
            email: "test@example.com".into(),
            // Several in one second.
            seconds: 1_700_000_000 + i64::try_from(seconds).expect("few"),
            offset_minutes: 0,
        };
        let recent = number.min(9);
        let mut parents = Vec::new();
        for _ in 0..1 + draw.below(2) {
            if recent > 0 && draw.below(20) > 0 {
                parents.push(made[number - 1 - draw.below(recent)]);
            }
        }
        parents.dedup();
        let commit = repo.write_commit(&NewCommit {
            tree: Oid::EMPTY_TREE,
            parents: &parents,
            author: &who,
            committer: &who,
            header: None,
            message: &format!("{number}\n"),
        });
        made.push(commit.expect("written"));
    }
    made
}

/// How many commits the branch and each of the others have that the other one has not, as git counts them.
fn counted(test: &TestRepo, branch: Oid, starts: &[Oid]) -> Vec<(usize, usize)> {
    let refs = starts
        .iter()
        .enumerate()
        .map(|(index, start)| format!("create refs/starts/{index:03} {start}\n"));
    test.write(".git/starts", refs.collect::<String>());
    let named = File::open(test.path().join(".git/starts")).expect("open");
    let mut git = isolated("git", &test.path());
    git.args(["update-ref", "--stdin"]).stdin(named);
    assert!(git.status().expect("git").success());
    let mut git = isolated("git", &test.path());
    let counts = format!("--format=%(ahead-behind:{branch})");
    let listed = git.args(["for-each-ref", &counts, "refs/starts"]).output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("UTF-8");
    let numbers = |line: &str| {
        let (ahead, behind) = line.split_once(' ').expect("two");
        (behind.parse().expect("one"), ahead.parse().expect("one"))
    };
    let counts: Vec<_> = listed.lines().map(numbers).collect();
    assert_eq!(counts.len(), starts.len());
    counts
}

/// Everything that a commit has among its ancestors, itself included, each with its parents. A range would not do: git
/// leaves it too early where clocks are wrong.
fn history(test: &TestRepo, tip: Oid) -> BTreeMap<String, BTreeSet<String>> {
    let listed = test.git(["rev-list", "--parents", &tip.to_hex()]);
    let lines = listed.lines().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().expect("a commit"), words.collect())
    });
    lines.collect()
}

/// A tip, where it started, what it has to itself, how many commits the branch has to itself, and where they meet.
type Pair = (Oid, Oid, BTreeSet<String>, usize, BTreeSet<String>);

fn apart_by_git(test: &TestRepo, branch: Oid, tip: Oid, start: Oid) -> Pair {
    let [ours, theirs, began] = [branch, tip, start].map(|one| history(test, one));
    let is_new = |commit: &&String| !began.contains_key(*commit);
    let own = theirs
        .keys()
        .filter(|commit| !ours.contains_key(*commit))
        .filter(is_new)
        .cloned()
        .collect();
    let behind = ours.keys().filter(|commit| !theirs.contains_key(*commit));
    let common = ours.iter().filter(|(commit, _)| theirs.contains_key(*commit));
    let below: BTreeSet<&String> = common.clone().flat_map(|(_, parents)| parents).collect();
    let meet = common.filter(|(commit, _)| !below.contains(commit));
    let meet = meet.map(|(commit, _)| commit.clone()).collect();
    (tip, start, own, behind.count(), meet)
}

#[test]
fn one_pass_counts_what_git_counts_from_each_start() {
    let mut forks = 0;
    for (seed, skew) in [(20, 0), (21, 0), (22, 25), (23, 60)] {
        let test = TestRepo::with_commit();
        let repo = Repo::open(&test.path()).expect("a repository");
        let commits = tangle(&repo, seed, 90, skew);
        let branch = commits[88];
        // So many that their bits take more than one word.
        let starts: Vec<Oid> = commits[5..].to_vec();
        let expected = counted(&test, branch, &starts);
        assert!(expected.iter().any(|(behind, ahead)| *behind > 20 && *ahead > 0));
        // Of two starts, the one as a branch that began at the other.
        let pairs = [(84, 6), (83, 40), (60, 83), (20, 70), (50, 51)];
        let pairs =
            pairs.map(|(tip, start)| apart_by_git(&test, branch, commits[tip], commits[start]));
        test.git(["update-ref", "refs/heads/tangle", &commits[60].to_hex()]);
        let absent = Oid::from_slice(&[7; 20]).expect("20 bytes");
        let replaced = [commits[80].to_hex(), commits[10].to_hex()];
        for prepare in [
            &["version"][..],
            // The graph has some of the commits, then all.
            &["commit-graph", "write", "--reachable"],
            &["update-ref", "refs/heads/tangle", &branch.to_hex()],
            &["commit-graph", "write", "--reachable"],
            &["config", "core.commitGraph", "false"],
            // What shows another history than the objects do changes nothing.
            &["replace", &replaced[0], &replaced[1]],
            &["config", "core.commitGraph", "true"],
        ] {
            test.git(prepare);
            if prepare[0] == "replace" {
                let grafts = format!("{branch}\n{} {}\n", commits[70], commits[20]);
                test.write(".git/info/grafts", grafts);
            }
            let repo = Repo::open(&test.path()).expect("a repository");
            let asked = [&starts[..], &[absent]].concat();
            let gained = repo.gained(branch, &asked).expect("read").expect("whole");
            for (start, (behind, ahead)) in starts.iter().zip(&expected) {
                let what = format!("{seed}, {prepare:?}: {start}");
                assert_eq!(gained.since(*start), Some(*behind), "{what}");
                assert_eq!(gained.holds(*start), *ahead == 0, "{what}");
            }
            for (tip, start, own, behind, bases) in &pairs {
                let apart = gained.apart(*tip, *start).expect("both asked for");
                let found: BTreeSet<String> = apart.own.iter().map(|oid| oid.to_hex()).collect();
                assert_eq!((&found, apart.own.len()), (own, own.len()));
                assert_eq!(apart.behind, *behind);
                if let Some(fork) = apart.fork {
                    let fork = BTreeSet::from([fork.to_hex()]);
                    assert_eq!(*bases, fork, "{seed}, {prepare:?}");
                    forks += 1;
                }
            }
            assert_eq!(gained.since(absent), None);
            assert!(gained.holds(branch) && !gained.holds(commits[89]));
        }
    }
    assert!(forks > 50, "{forks}");
}

/// Every agent's counts, as `git rev-list --left-right --count` writes them, and as git counts them; and where its
/// branch left the target, as git finds it.
fn require_as_git_counts(test: &TestRepo) {
    let listed = test.agent_json(&["list"]);
    let rows = listed["agents"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let range = format!("main...{}", row["branch"].as_str().expect("a branch"));
        let counts = test.git(["rev-list", "--left-right", "--count", &range]);
        // Alone, too, an agent is as far away as among others.
        let shown = test.agent_json(&["show", row["agent_id"].as_str().expect("an id")]);
        for row in [row, &shown] {
            // The spawn commit is no work, where the target lacks it.
            let spawn = row["spawn_commit"].as_str().expect("a commit");
            let lacks = !git_output(&test.path(), ["merge-base", "--is-ancestor", spawn, "main"])
                .status
                .success();
            let ahead = row["ahead"].as_u64().expect("a count") + u64::from(lacks);
            assert_eq!(format!("{}\t{ahead}", row["behind"]), counts, "{}", row["name"]);
        }
        // What a diff begins with; what has landed begins where the agent did.
        let branch = row["branch"].as_str().expect("a branch");
        let base = test.git(["merge-base", "main", branch]);
        let landed = base == test.git(["rev-parse", branch]);
        let began = row["base"]["oid"].as_str().expect("a base");
        let diff = test.agent_json(&["diff", row["agent_id"].as_str().expect("an id")]);
        let expected = if landed { began } else { &base };
        assert_eq!(diff["base"]["oid"], expected, "{}", row["name"]);
    }
}

/// With how many others each agent shares touched paths, in the order in which they were spawned.
fn overlaps(test: &TestRepo) -> Vec<u64> {
    let listed = test.agent_json(&["list"]);
    let rows = listed["agents"].as_array().expect("rows");
    let count = |row: &Value| row["overlap"]["agents"].as_u64().unwrap_or_default();
    rows.iter().map(count).collect()
}

#[test]
fn agents_of_many_ages_are_as_far_apart_as_git_says() {
    let test = TestRepo::with_commit();
    let mut agents: Vec<Value> = Vec::new();
    for name in ["idle", "merged", "rebased", "landed", "knotted"] {
        agents.push(test.spawn_task(TASK, &["--name", name]));
        test.write("moves.md", name);
        test.commit_all("main moves on");
    }
    let worktree = |index: usize| agents[index]["worktree_abspath"].as_str().expect("a path");
    let git = |index: usize, arguments: &[&str]| {
        git_in(Path::new(worktree(index)), [&PAST_HOOKS[..], arguments].concat())
    };
    let commit = ["commit", "--quiet", "--allow-empty", "--message=work"];
    for index in 1..5 {
        git(index, &commit);
    }
    // Two touch one path, but what one of them did has landed.
    for index in [0, 3] {
        let file = Path::new(worktree(index)).join("src/shared.rs");
        std::fs::write(&file, "1").expect("written");
        git(index, &["add", "src/shared.rs"]);
        git(index, &commit);
    }
    require_as_git_counts(&test);
    assert_eq!(overlaps(&test), [1, 0, 0, 1, 0]);
    git(1, &["merge", "--quiet", "--message=update", "main"]);
    // Two with merges: one of the target, one of a line of its own.
    git(4, &["switch", "--quiet", "--create", "side", "HEAD^"]);
    git(4, &commit);
    git(4, &["switch", "--quiet", agents[4]["branch"].as_str().expect("a branch")]);
    git(4, &["merge", "--quiet", "--message=knot", "side"]);
    git(2, &["rebase", "--quiet", "main"]);
    let landed = agents[3]["branch"].as_str().expect("a branch").to_owned();
    test.git(["merge", "--quiet", "--message=by hand", &landed]);
    git(3, &commit);
    test.write("moves.md", "again");
    test.commit_all("main moves on");
    require_as_git_counts(&test);
    assert_eq!(overlaps(&test), [0; 5]);
    test.git(["commit-graph", "write", "--reachable"]);
    require_as_git_counts(&test);
    assert_eq!(overlaps(&test), [0; 5]);
}
