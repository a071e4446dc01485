use super::{Agent, codes};
use crate::support::git_output;
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::history::ancestry::Lineage;
use git_agent::git::history::merge::{Stack, StackMerger};
use git_agent::git::objects::{Identity, NewCommit};
use serde_json::Value;
use std::collections::BTreeSet;

/// The merge part of an answer beside git's own answer for the same two commits.
fn held_to_git(agent: &Agent, expected: &str) -> Value {
    let report = agent.verify(&[]);
    assert_eq!(report["merge"]["state"], expected, "{report}");
    let output = git_output(
        &agent.repo.path(),
        ["merge-tree", "--write-tree", "--name-only", "main", &agent.branch],
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    match output.status.code() {
        Some(0) => assert_eq!(report["merged_tree"].as_str(), lines.next()),
        _ => {
            let theirs: Vec<_> = lines.skip(1).take_while(|line| !line.is_empty()).collect();
            let ours = report["merge"]["conflicts"].as_array().expect("conflicts");
            let ours: Vec<_> = ours.iter().filter_map(|one| one.as_str()).collect();
            assert_eq!(ours, theirs);
            assert_eq!(report.get("merged_tree"), None);
        }
    }
    report
}

#[test]
fn clean_merges_give_gits_tree() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.git(["mv", "src/lib.rs", "src/library.rs"]);
    agent.repo.commit_all("main renames");
    agent.write("src/lib.rs", "pub fn one() -> u32 {\n    1 + 0\n}\n");
    agent.commit("and the agent edits");
    let report = held_to_git(&agent, "clean");
    assert_eq!((&report["merge"]["ahead"], &report["merge"]["behind"]), (&2.into(), &1.into()));
}

#[test]
fn conflicts_come_with_paths_and_kinds() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn mine() {}\n");
    agent.write("src/bin/tool.rs", "fn main() { todo() }\n");
    agent.commit("mine");
    agent.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    agent.repo.git(["rm", "--quiet", "src/bin/tool.rs"]);
    agent.repo.commit_all("theirs");
    let report = held_to_git(&agent, "conflicts");
    assert_eq!(codes(&report), ["merge.conflict", "merge.conflict"]);
    let findings = &report["findings"];
    assert_eq!(findings[0]["kinds"][0], "modify/delete");
    assert_eq!(findings[1]["kinds"][0], "contents");
}

/// An agent and its target, which add a line each at the same place.
fn with_a_line_each(attributes: &str) -> Agent {
    let repo = crate::support::TestRepo::with_commit();
    repo.write(".gitattributes", attributes);
    repo.write("src/list.txt", "one\n");
    repo.commit_all("a list");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    agent.write("src/list.txt", "one\nmine\n");
    agent.commit("mine");
    agent.repo.write("src/list.txt", "one\ntheirs\n");
    agent.repo.commit_all("theirs");
    agent
}

#[test]
fn attributes_are_those_of_the_base() {
    held_to_git(&with_a_line_each("*.txt merge=union\n"), "clean");
}

#[test]
fn settings_and_attributes_that_change_change_the_answer() {
    let agent = with_a_line_each("");
    let is_clean = || codes(&agent.verify(&[])).is_empty();
    assert!(!is_clean());
    agent.repo.git(["config", "merge.default", "union"]);
    assert!(is_clean());
    agent.repo.git(["config", "--unset", "merge.default"]);
    assert!(!is_clean());
    let rules = agent.repo.path().join(".git/info/attributes");
    std::fs::write(&rules, "*.txt merge=union\n").expect("written");
    assert!(is_clean());
    std::fs::remove_file(&rules).expect("removed");
    assert!(!is_clean());
}

#[test]
fn landed_work_is_known_however_it_landed() {
    let landed = |land: &dyn Fn(&Agent)| {
        let agent = Agent::new();
        agent.write("src/lib.rs", "pub fn two() -> u32 {\n    2\n}\n");
        agent.commit("two");
        land(&agent);
        let report = agent.verify(&[]);
        assert_eq!(report["merge"]["state"], "merged", "{report}");
        assert_eq!(codes(&report), [""; 0]);
        report["merge"]["how"].clone()
    };
    let merge = |agent: &Agent, how: &str| {
        agent.repo.git(["merge", "--quiet", how, &agent.branch]);
        agent.repo.git(["commit", "--quiet", "--allow-empty", "-m", "landed"]);
    };
    assert_eq!(landed(&|agent| merge(agent, "--no-ff")), "ancestor");
    assert_eq!(landed(&|agent| merge(agent, "--squash")), "tree");
    let built_upon = landed(&|agent| {
        merge(agent, "--squash");
        agent.repo.write("src/lib.rs", "pub fn three() -> u32 {\n    3\n}\n");
        agent.repo.commit_all("built upon");
    });
    assert_eq!(built_upon, "patch-id");
}

#[test]
fn nothing_done_is_nothing_to_merge() {
    let agent = Agent::new();
    assert_eq!(agent.verify(&[])["merge"]["state"], "nothing");
    agent.repo.write("README.md", "# Moved\n");
    agent.repo.commit_all("main moves");
    assert_eq!(agent.verify(&[])["merge"]["state"], "nothing");
}

#[test]
fn a_base_that_is_gone_or_unrelated_is_a_finding() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.repo.git(["checkout", "--quiet", "--orphan", "island"]);
    agent.repo.git(["commit", "--quiet", "--allow-empty", "-m", "island"]);
    let report = agent.verify(&["--base", "island"]);
    assert_eq!(codes(&report), ["provenance.base-rewritten", "merge.unrelated"]);
    agent.repo.git(["branch", "--quiet", "-D", "main"]);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["merge.base-gone"]);
}

/// Every pair of changes: where the answer comes without git, it is git's.
#[test]
fn disjoint_changes_merge_as_git_merges_them() {
    let repo = crate::support::TestRepo::with_commit();
    for name in ["dir/one", "dir/two", "dir/sub/three", "top", "gone/only"] {
        repo.write(name, format!("{name}\n1\n2\n3\n4\n5\n6\n7\n8\n"));
    }
    repo.commit_all("files");
    let changes = [
        "echo more >> dir/one",
        "echo else >> dir/one",
        "echo more >> dir/sub/three",
        "echo new > dir/new",
        "mkdir dir/new; echo new > dir/new/below",
        "echo new > gone/new",
        "git mv gone moved",
        "git mv dir/two dir/three",
        "echo more >> dir/two",
        "git rm -q top",
        "git rm -q top; mkdir top; echo new > top/below",
        "chmod +x top",
        "ln -s dir link",
        "rm dir/one; ln -s top dir/one",
        "git rm -q -r dir/sub",
    ];
    let commits: Vec<Oid> = changes
        .iter()
        .map(|change| {
            repo.git(["checkout", "--quiet", "--detach", "main"]);
            let script = format!("{change}; git add -A; git commit -qm change");
            let output = crate::support::isolated("sh", &repo.path())
                .args(["-c", &script])
                .output()
                .expect("starts");
            assert!(output.status.success(), "{change}");
            Oid::from_hex(&repo.git(["rev-parse", "HEAD"])).expect("an oid")
        })
        .collect();
    let inside = Repo::open(&repo.path()).expect("a repository");
    let pairs: Vec<(Oid, Oid)> =
        commits.iter().flat_map(|one| commits.iter().map(|two| (*one, *two))).collect();
    let gits = inside.merge_many(&pairs, commits[0]).expect("answers");
    let mut without_git = 0;
    for ((ours, theirs), git) in pairs.iter().zip(gits) {
        let target = Stack {
            commit: *ours,
            tree: inside.read_commit(*ours).expect("a commit").tree,
            members: Vec::new(),
        };
        let merger = StackMerger::new(&inside, *ours, &[*theirs]);
        let own = merger.and_then(|mut merger| merger.merge_disjoint(&target, 0));
        let own = own.expect("an answer");
        without_git += usize::from(own.is_some());
        let at = |oid| commits.iter().position(|one| one == oid).map(|at| changes[at]);
        let sides = (at(ours), at(theirs));
        assert!(own.is_none() || own == git.result.clean(), "{sides:?}");
    }
    assert!(without_git > 40, "{without_git} of {}", pairs.len());
}

/// Stacks in which work has the merge base of its target, one of its own with what is below it, or several.
#[test]
fn a_stack_merges_as_git_merges_it() {
    let repo = crate::support::TestRepo::with_commit();
    repo.write("top", "1\n2\n3\n4\n5\n6\n7\n8\n");
    repo.commit_all("files");
    // Each on what stands before it, and what it does there.
    let changes = [
        ("main", "echo a > a"),
        ("main", "echo b > b"),
        ("main", "mkdir c; echo c > c/c"),
        ("work0", "echo more >> a"),
        ("work0", "rm a; echo again > d"),
        ("work3", "git merge -q work1; echo e > e"),
        ("work1", "git merge -q work0; echo more >> b; echo f > f"),
        ("main", "echo else > a"),
        ("main~1", "echo old > old"),
        ("main", "git mv top moved"),
        ("main", "mkdir -p c; echo d > c/d"),
        ("work10", "echo more > c/d; echo more >> top"),
        ("work2", "git reset -q --hard main; git merge -q work2 work10"),
    ];
    let mut works = Vec::new();
    for (number, (below, change)) in changes.iter().enumerate() {
        repo.git(["checkout", "--quiet", "-b", &format!("work{number}"), below]);
        let script = format!("{change}; git add -A; git commit -qm change --allow-empty");
        let output = crate::support::isolated("sh", &repo.path())
            .args(["-ec", &script])
            .output()
            .expect("starts");
        assert!(output.status.success(), "{change}");
        works.push(Oid::from_hex(&repo.git(["rev-parse", "HEAD"])).expect("an oid"));
    }
    let inside = Repo::open(&repo.path()).expect("a repository");
    let target = Oid::from_hex(&repo.git(["rev-parse", "main"])).expect("an oid");
    let mut merger = StackMerger::new(&inside, target, &works).expect("a merger");
    let mut without_git = 0;
    for (step, is_squashed) in [(1, false), (12, false), (5, true), (7, false)] {
        let mut stack = Stack {
            commit: target,
            tree: inside.read_commit(target).expect("a commit").tree,
            members: Vec::new(),
        };
        for turn in 0..works.len() {
            let work = turn * step % works.len();
            let git = inside.merge(stack.commit, works[work]).expect("an answer");
            let git = git.result.clean();
            let own = merger.merge_disjoint(&stack, work).expect("an answer");
            without_git += usize::from(own.is_some());
            let below = &stack.members;
            assert!(own.is_none() || own == git, "{work} on {below:?}: {own:?}, {git:?}");
            let Some(tree) = git else { continue };
            let (below, tree_hex) = (stack.commit.to_hex(), tree.to_hex());
            let mut commit = vec!["commit-tree", "-m", "stacked", "-p", &below, &tree_hex];
            let work_hex = works[work].to_hex();
            if !is_squashed {
                commit.extend(["-p", &work_hex]);
            }
            stack.commit = Oid::from_hex(&repo.git(commit)).expect("an oid");
            stack.tree = tree;
            stack.members.push(work);
        }
    }
    assert!(without_git > 15, "{without_git}");
}

/// What two histories do not share, where it is found without git as well as where git is asked.
#[test]
fn histories_grow_apart_as_git_lists_them() {
    let repo = crate::support::TestRepo::with_commit();
    let opened = Repo::open(&repo.path()).expect("open");
    let head = Oid::from_hex(&repo.git(["rev-parse", "HEAD"])).expect("an oid");
    let tree = opened.read_commit(head).expect("there").tree;
    let mut commits = vec![head];
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).expect("small") % below
    };
    for number in 0..60 {
        let recent = |at: usize| commits[commits.len().saturating_sub(1 + at)];
        let mut parents = vec![recent(next(4))];
        let other = recent(next(9));
        if next(4) == 0 && other != parents[0] {
            parents.push(other);
        }
        // Clocks differ, and some go backwards.
        let seconds = 1_700_000_000 + number * 60 - i64::try_from(next(5) * 50).expect("small");
        let who = Identity {
            name: "clock".to_owned(),
            email: "clock@localhost".to_owned(),
            seconds,
            offset_minutes: 0,
        };
        let commit = opened.write_commit(&NewCommit {
            tree,
            parents: &parents,
            author: &who,
            committer: &who,
            header: None,
            message: &format!("{number}\n"),
        });
        commits.push(commit.expect("written"));
    }
    let mut lines = 0;
    for _ in 0..60 {
        let [base, tip, hidden] = [(); 3].map(|()| commits[next(commits.len())]);
        let found = opened.divergence(base, tip, Some(hidden)).expect("compared");
        lines += usize::from(opened.line(hidden, tip).is_some());
        let range = format!("{base}...{tip}");
        let is_ancestor = ["merge-base", "--is-ancestor", &hidden.to_hex(), &tip.to_hex()];
        let expected = git_output(&repo.path(), is_ancestor).status.success();
        assert_eq!(opened.is_ancestor(hidden, tip).expect("compared"), expected);
        // What the tip lacks it lacks, hidden or not.
        let without = format!("^{hidden}");
        let sides: [(_, &[&str], _); 2] =
            [("--left-only", &[], &found.behind), ("--right-only", &[&without], &found.ahead)];
        for (side, without, list) in sides {
            let words = [&["rev-list", "--parents", side, &range], without].concat();
            let listed = repo.git(words);
            let theirs: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
            let words = |one: &Lineage| {
                let oids = [one.oid].into_iter().chain(one.parents.iter().copied());
                oids.map(|oid| oid.to_hex()).collect::<Vec<_>>().join(" ")
            };
            let ours: BTreeSet<String> = list.iter().map(words).collect();
            assert_eq!(ours, theirs, "{side} {range} {without:?}");
            for (at, one) in list.iter().enumerate() {
                let is_later = |parent: &Oid| list[at..].iter().any(|later| later.oid == *parent);
                assert!(!one.parents.iter().any(is_later), "parents come first");
            }
        }
    }
    assert!(lines > 5, "only {lines} of the tips are on a line");
}

#[test]
fn what_landed_is_accepted_by_its_tip_however_it_landed() {
    for method in ["--no-ff", "--squash", "--ff-only"] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        agent.repo.agent_json(&["merge", &agent.id, method]);
        let parent = if method == "--no-ff" { "main^2" } else { "main" };
        for words in [&["--tip", parent][..], &["--ci"], &[]] {
            let report = agent.verify(words);
            assert_eq!(report["verdict"], "accept", "{method} {words:?}: {report:#}");
        }
    }
}
