//! Live agents in each other's way, with git as the judge of what is in whose.

/// The difference that an agent makes.
mod diff;
/// In which order finished work lands.
mod order;
/// Spawning beside others.
mod spawning;

use crate::support::agent::{agent_command, describe};
use crate::support::{PAST_HOOKS, TestRepo, git_in, git_output};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Globs that allow all that is touched here.
const ANYWHERE: &[&str] = &["{a,b,c,new,moved}/**", "new*"];

/// One of several agents.
struct Agent {
    id: String,
    worktree: PathBuf,
    branch: String,
}

/// A repository with two files of thirty lines in each of three directories.
fn repo() -> TestRepo {
    let repo = TestRepo::empty();
    for name in ["a", "b", "c"] {
        repo.write(&format!("{name}/one"), lines(&[]));
        repo.write(&format!("{name}/two"), lines(&[]));
    }
    repo.commit_all("thirty lines each");
    repo
}

/// Thirty lines, some of them replaced.
fn lines(replaced: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let with = replaced.iter().find(|(at, _)| *at == number);
        with.map_or(number.to_string(), |(_, text)| (*text).to_owned())
    };
    (1..=30).map(|number| line(number) + "\n").collect()
}

/// Spawns an agent that may touch what these globs allow.
fn spawn(repo: &TestRepo, name: &str, globs: &[&str]) -> Agent {
    spawn_task(repo, name, &task(globs))
}

fn spawn_task(repo: &TestRepo, name: &str, task: &str) -> Agent {
    let report = repo.spawn_task(task, &[&format!("--name={name}")]);
    let text = |key: &str| report[key].as_str().expect(key).to_owned();
    Agent {
        id: text("agent_id"),
        worktree: text("worktree_abspath").into(),
        branch: text("branch"),
    }
}

fn task(globs: &[&str]) -> String {
    format!(
        "role = \"edit-local\"\ntask = \"Change what you may and nothing else.\"\n[scope]\nwhitelist = {globs:?}\n"
    )
}

impl Agent {
    fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.worktree, [&PAST_HOOKS[..], arguments].concat())
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "work"]);
    }
}

/// The pairs of a report as `one two`, each with what is in `key`.
fn pairs<'v>(report: &'v Value, agents: &[(&str, &Agent)], key: &str) -> Vec<(String, &'v Value)> {
    let name = |id: &Value| {
        let known = agents.iter().find(|(_, agent)| *id == *agent.id);
        known.expect("a known agent").0
    };
    let pairs = report["pairs"].as_array().expect("pairs").iter();
    pairs
        .filter(|pair| !pair[key].is_null())
        .map(|pair| (format!("{} {}", name(&pair["one_id"]), name(&pair["two_id"])), &pair[key]))
        .collect()
}

fn strings(value: &Value) -> BTreeSet<String> {
    let list = value.as_array().expect("a list").iter();
    list.map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// The paths that differ between a base and everything in a worktree, as git tells it.
fn touched(worktree: &Path) -> BTreeSet<String> {
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let tracked = git_in(worktree, ["diff", "--name-only", "--no-renames", "main"]);
    let untracked = git_in(worktree, ["ls-files", "--others", "--exclude-standard"]);
    [lines(tracked), lines(untracked)].concat().into_iter().collect()
}

#[test]
fn scopes_meet_over_tracked_paths_and_over_new_ones() {
    let repo = repo();
    let agents = [
        ("one", &spawn(&repo, "one", &["a/**"])),
        ("two", &spawn(&repo, "two", &["*/two"])),
        ("three", &spawn(&repo, "three", &["c/new/**", "b/one"])),
        ("four", &spawn(&repo, "four", &["c/**/*.txt"])),
    ];
    repo.spawn_task(crate::support::agent::SHARED_TASK, &[]);
    let report = repo.agent_json(&["overlap", "--scopes"]);
    let found = pairs(&report, &agents, "scopes");
    let names: Vec<_> = found.iter().map(|(names, _)| names.as_str()).collect();
    assert_eq!(names, ["one two", "three four"]);
    assert_eq!(found[0].1["tracked"], 1);
    assert_eq!(found[0].1["examples"], serde_json::json!(["a/two"]));
    assert_eq!(found[1].1["tracked"], 0);
    assert_eq!(found[1].1["example"], "c/new/.txt");
    assert_eq!(report["agents"].as_array().expect("agents").len(), 5);
}

#[test]
fn changes_are_what_git_says_however_far_they_got() {
    let repo = repo();
    let (one, two) = (spawn(&repo, "one", ANYWHERE), spawn(&repo, "two", ANYWHERE));
    one.write("a/one", &lines(&[(3, "x")]));
    one.commit();
    one.write("b/one", &lines(&[(3, "x")]));
    one.git(&["add", "--all"]);
    one.write("new/file", "untracked\n");
    std::fs::remove_file(one.worktree.join("c/one")).expect("removed");
    two.write("a/one", &lines(&[(20, "y")]));
    two.write("b/one", &lines(&[(20, "y")]));
    two.git(&["mv", "c/one", "c/renamed"]);
    two.write("new/file", "another\n");
    // What main brings is nobody's change.
    repo.write("a/two", "main moves on\n");
    repo.commit_all("main moves on");
    two.git(&["add", "--all"]);
    two.git(&["commit", "--quiet", "-m", "work"]);
    two.git(&["merge", "--quiet", "main"]);

    let report = repo.agent_json(&["overlap", "--changes"]);
    let found = pairs(&report, &[("one", &one), ("two", &two)], "changes");
    let both = strings(&found[0].1["paths"]);
    let base = one.git(&["merge-base", "main", "HEAD"]);
    let own = git_in(&one.worktree, ["diff", "--name-only", &base]);
    let mut own: BTreeSet<String> = own.lines().map(str::to_owned).collect();
    own.insert("new/file".to_owned());
    let expected: BTreeSet<_> = own.intersection(&touched(&two.worktree)).cloned().collect();
    assert_eq!(both, expected);
    assert_eq!(both.len(), 4);
    assert_eq!(report["agents"][1]["touched"], 5);
}

/// What git says of merging two commits.
fn git_merges(repo: &TestRepo, one: &str, two: &str) -> &'static str {
    let output = git_output(&repo.path(), ["merge-tree", "--write-tree", one, two]);
    match output.status.code() {
        Some(0) => "clean",
        Some(1) => "conflicts",
        _ => panic!("{}", describe(&output)),
    }
}

#[test]
fn merges_are_git_s_own_and_remembered() {
    let repo = repo();
    let agents = ["one", "two", "three", "four"].map(|name| spawn(&repo, name, ANYWHERE));
    agents[0].write("a/one", &lines(&[(3, "x")]));
    agents[1].write("a/one", &lines(&[(3, "y"), (28, "z")]));
    agents[2].write("a/one", &lines(&[(28, "w")]));
    // A directory that moves while somebody adds to it conflicts without a path in common.
    agents[2].git(&["mv", "b", "moved"]);
    agents[3].write("b/three", "new\n");
    for agent in &agents {
        agent.commit();
    }
    let first = repo.agent_json(&["overlap"]);
    let names = ["one", "two", "three", "four"];
    let named: Vec<_> = names.into_iter().zip(&agents).collect();
    let said: Vec<_> = pairs(&first, &named, "merge")
        .into_iter()
        .map(|(names, merge)| (names, merge["state"].as_str().expect("a state").to_owned()))
        .collect();
    let mut expected = Vec::new();
    for (at, one) in named.iter().enumerate() {
        for two in &named[at + 1..] {
            let state = git_merges(&repo, &one.1.branch, &two.1.branch).to_owned();
            let is_told = state == "conflicts" || (one.0, two.0) == ("one", "three");
            expected.extend(is_told.then(|| (format!("{} {}", one.0, two.0), state)));
        }
    }
    assert_eq!(said, expected);
    assert_eq!(said.len(), 4, "{said:?}");
    // The second time nothing is merged: a git that cannot merge is not asked.
    assert_eq!(repo.agent_json(&["overlap"]), first);
    let cache = repo.path().join(".git/agents/cache/overlap");
    let remembered = std::fs::read_to_string(&cache).expect("a cache");
    assert_eq!(remembered.lines().count(), 4, "{remembered}");
    std::fs::write(&cache, "rubbish\n\0{}\n").expect("written");
    assert_eq!(repo.agent_json(&["overlap"]), first);
}

#[test]
fn histories_without_a_common_commit_end_no_other_merge() {
    let repo = repo();
    let agents = ["one", "two", "three"].map(|name| spawn(&repo, name, ANYWHERE));
    for agent in &agents {
        agent.write("a/one", &lines(&[(3, &agent.id)]));
        agent.commit();
    }
    let lonely = agents[2].git(&["commit-tree", "-m", "lonely", "HEAD^{tree}"]);
    agents[2].git(&["reset", "--quiet", "--hard", &lonely]);
    let report = repo.agent_json(&["overlap", "--merge"]);
    let named: Vec<_> = ["one", "two", "three"].into_iter().zip(&agents).collect();
    let states: Vec<_> = pairs(&report, &named, "merge")
        .into_iter()
        .map(|(names, merge)| format!("{names} {}", merge["state"].as_str().expect("a state")))
        .collect();
    let expected = ["one two conflicts", "one three unrelated", "two three unrelated"];
    assert_eq!(states, expected);
}

#[test]
fn one_agent_is_compared_with_all_and_several_among_themselves() {
    let repo = repo();
    let agents = ["one", "two", "three"].map(|name| spawn(&repo, name, &["a/**"]));
    let count = |arguments: &[&str]| {
        let report = repo.agent_json(&[&["overlap", "--scopes"], arguments].concat());
        report["pairs"].as_array().expect("pairs").len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["one"]), 2);
    assert_eq!(count(&["one", "three"]), 1);
    assert!(repo.agent(&["discard", &agents[2].id]).status.success());
    assert_eq!(count(&[]), 1);
    crate::verify::refused(&repo.agent(&["overlap", "three"]), "agent-state", 3);
    crate::verify::refused(&repo.agent(&["overlap", "nobody"]), "agent-unknown", 2);
}

#[test]
fn a_check_says_no_by_the_most_telling_of_what_was_compared() {
    let repo = repo();
    let (one, two) = (spawn(&repo, "one", &["a/**"]), spawn(&repo, "two", &["a/**"]));
    let status = |arguments: &[&str]| {
        let output = repo.agent(&[&["overlap", "--check"], arguments].concat());
        output.status.code()
    };
    assert_eq!((status(&[]), status(&["--scopes"])), (Some(0), Some(1)));
    one.write("a/one", &lines(&[(3, "x")]));
    two.write("a/one", &lines(&[(28, "y")]));
    assert_eq!((status(&[]), status(&["--changes"])), (Some(0), Some(1)));
    two.write("a/one", &lines(&[(3, "y")]));
    assert_eq!(status(&[]), Some(1));
    assert_eq!(repo.agent(&["overlap"]).status.code(), Some(0));
}

#[test]
fn the_matrix_names_rows_and_numbers_columns() {
    let repo = repo();
    assert_eq!(String::from_utf8_lossy(&repo.agent(&["overlap"]).stdout), "(no agents)\n");
    let one = spawn(&repo, "one", &["a/**"]);
    let two = spawn(&repo, "two", &["a/**", "b/**"]);
    let three = spawn(&repo, "three", &["b/**", "new/**"]);
    spawn(&repo, "four", &["new/*.txt"]);
    spawn(&repo, "five", &["c/one"]);
    one.write("a/one", &lines(&[(3, "x")]));
    two.write("a/one", &lines(&[(3, "y")]));
    two.write("b/two", &lines(&[(3, "y")]));
    three.write("b/two", &lines(&[(28, "z")]));
    let mut text = String::from_utf8(repo.agent(&["overlap"]).stdout).expect("UTF-8");
    let listed = repo.agent_json(&["list"]);
    for agent in listed["agents"].as_array().expect("agents") {
        let (short, name) = (&agent["short_id"], &agent["name"]);
        let [short, name] = [short, name].map(|text| text.as_str().expect("a text"));
        text = text.replace(short, &format!("{name:-<8}"));
    }
    insta::assert_snapshot!(text, @r"
                      1 2 3
    1 one----- one
    2 two----- two    x
    3 three--- three  · c
    4 four---- four   · · s
    x their merge conflicts   c touched the same path   s may touch the same path
    1 more agent overlaps with no other

    x one----- one two----- two conflict in a/one
    c two----- two three--- three touched b/two, merge cleanly
    s three--- three four---- four may write new files such as new/.txt
    ");
}

#[test]
fn a_worktree_that_cannot_be_read_is_said_and_hides_nothing_else() {
    let repo = repo();
    let agents = ["one", "two", "three"].map(|name| spawn(&repo, name, &["a/**"]));
    for agent in &agents {
        agent.write("a/one", &lines(&[(3, &agent.id)]));
    }
    let admin = agents[1].git(&["rev-parse", "--absolute-git-dir"]);
    std::fs::write(Path::new(&admin).join("index"), "rubbish").expect("written");
    let report = repo.agent_json(&["overlap"]);
    let problems = report["problems"].as_array().expect("problems");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0]["agent_id"], agents[1].id.as_str());
    assert_eq!(report["agents"][1]["touched"], Value::Null);
    let named: Vec<_> = ["one", "two", "three"].into_iter().zip(&agents).collect();
    let merged = pairs(&report, &named, "merge");
    assert_eq!(merged[0].0, "one three");
    assert_eq!(merged.len(), 1);
    let [one, two, _] = &agents;
    let output = repo.agent(&["overlap", "--merge", &one.id, &two.id]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.lines().next();
    assert_eq!(first, Some("no overlap among 2 agents, as far as is known"), "{text}");
}

#[test]
fn looking_moves_no_ref_and_no_file() {
    let repo = repo();
    let agents = ["one", "two"].map(|name| spawn(&repo, name, &["a/**"]));
    for agent in &agents {
        agent.write("a/one", &lines(&[(3, &agent.id)]));
    }
    let refs = repo.git(["for-each-ref"]);
    let status = agents[0].git(&["status", "--porcelain"]);
    let index = std::fs::read(agents[0].git(&["rev-parse", "--absolute-git-dir"]) + "/index");
    repo.agent_json(&["overlap", "--order"]);
    repo.agent_json(&["overlap"]);
    assert_eq!(repo.git(["for-each-ref"]), refs);
    assert_eq!(agents[0].git(&["status", "--porcelain"]), status);
    let again = std::fs::read(agents[0].git(&["rev-parse", "--absolute-git-dir"]) + "/index");
    assert_eq!(index.expect("an index"), again.expect("an index"));
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]), "");
    let left = std::fs::read_dir(repo.path().join(".git/agents/tmp")).expect("a directory");
    assert_eq!(left.count(), 0);
    let started = agent_command(&agents[1].worktree).args(["overlap", "--check"]).output();
    assert_eq!(started.expect("starts").status.code(), Some(1), "from a linked worktree too");
}

#[test]
fn who_owns_what_two_agents_touched_is_told() {
    let repo = repo();
    repo.write(".github/CODEOWNERS", "* @all\n/a/ @org/a @b\n/c/ @c\n");
    repo.commit_all("owners");
    let agents = ["x", "y"].map(|name| spawn(&repo, name, ANYWHERE));
    for (number, agent) in agents.iter().enumerate() {
        // The work has no say in who owns it.
        let text = lines(&[(number * 10 + 3, "changed")]);
        std::fs::write(agent.worktree.join("a/one"), text).expect("written");
        std::fs::create_dir_all(agent.worktree.join(".github")).expect("made");
        std::fs::write(agent.worktree.join(".github/CODEOWNERS"), "* @x\n").expect("written");
        std::fs::write(agent.worktree.join(format!("c/{number}")), "own\n").expect("written");
    }
    let report = repo.agent_json(&["overlap"]);
    assert_eq!(
        report["pairs"][0]["owners"],
        serde_json::json!(["all", "org/a", "b"]),
        "{report:#}"
    );
    let text = repo.agent(&["overlap"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("(owned by @all, @org/a, @b)"), "{text}");
}
