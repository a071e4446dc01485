//! Trains: what lands is green at every step, with few check runs, held against git itself.

/// What a check leaves behind decides no later one.
mod isolation;
/// Death at every step.
pub mod kill;
/// Random small fleets.
mod model;
/// Targets that other processes move.
mod moving;

use crate::support::agent::describe;
use crate::support::{TestRepo, git_in};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

/// A repository whose check fails on certain work, and agents that are done.
struct Fleet {
    repo: TestRepo,
    agents: Vec<String>,
    /// The trees that were checked, one a line.
    log: PathBuf,
}

impl Fleet {
    /// A check that logs the tree and fails where a file says so: `bad`, or both `left` and `right`, or `once`
    /// when it runs for the first time. It takes longer where one says `slow`, and for ever where one says `hangs`.
    fn new() -> Fleet {
        let repo = TestRepo::with_commit();
        // The one place outside of the worktree that a check may write.
        let outside = repo.path().with_file_name("outside");
        fs::create_dir(&outside).expect("made");
        let allowed = outside.display().to_string();
        repo.git(["config", "agent.run.allowWrite", &allowed]);
        let log = outside.join("checked");
        let script = format!(
            "git rev-parse 'HEAD^{{tree}}' >> '{log}'
if grep -qsx bad parts/*; then echo a part is bad; exit 3; fi
if grep -qsx left parts/* && grep -qsx right parts/*; then echo left meets right; exit 4; fi
if grep -qsx slow parts/*; then sleep 0.1; fi
if grep -qsx hangs parts/*; then sleep 600; fi
for part in $(grep -lsx once parts/*); do
  seen='{outside}'/$(basename $part)
  test -e $seen || {{ touch $seen; accident=5; }}
done
test -z \"$accident\" || {{ echo by accident; exit $accident; }}
",
            log = log.display(),
            outside = outside.display(),
        );
        repo.write("check.sh", script);
        repo.write(
            ".config/git-agent.toml",
            "[bundle]\nrequired = false\n[train]\nchecks = [\"sh check.sh\"]\n",
        );
        repo.write("shared", "one\ntwo\nthree\n");
        repo.commit_all("a check");
        fs::write(&log, "").expect("written");
        Fleet { repo, agents: Vec::new(), log }
    }

    /// One agent that is done, and has written these files.
    fn add(&mut self, files: &[(&str, &str)]) -> &mut Fleet {
        let name = format!("a{}", self.agents.len());
        let spawned = self.repo.agent_json(&[
            "spawn",
            "-m",
            "Write a part of the whole for the train.",
            "--name",
            &name,
            "--new=parts/**",
            "--new=shared",
        ]);
        let worktree = spawned["worktree_abspath"].as_str().expect("a worktree");
        for (path, content) in files {
            let path = Path::new(worktree).join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, content).expect("written");
        }
        self.repo.agent_json(&["done", &name]);
        let id = spawned["agent_id"].as_str().expect("an id");
        self.agents.push(id.to_owned());
        self
    }

    /// As [`Fleet::with_parts`], with a pool of one worktree, and a check that succeeds only in one that was set up. The
    /// agents were there before.
    fn with_pool(parts: &[&str]) -> (Fleet, String) {
        let fleet = Fleet::with_parts(parts);
        let read = |name: &str| fs::read_to_string(fleet.repo.path().join(name)).expect("read");
        let pool = "[pool]\nsize = 1\n[setup]\nrun = [\"echo x > made.o\"]\n";
        let settings = read(".config/git-agent.toml") + pool;
        let check = read("check.sh") + "test -f made.o || exit 6\n";
        fleet.repo.write(".config/git-agent.toml", settings);
        fleet.repo.write("check.sh", check);
        fleet.repo.write(".gitignore", "*.o\n");
        fleet.repo.commit_all("a pool");
        let name = fleet.warm();
        (fleet, name)
    }

    /// Fills the pool; gives the name of what is in it.
    fn warm(&self) -> String {
        let pool = self.repo.agent_json(&["pool", "fill"]);
        assert_eq!(pool["slots"].as_array().map(Vec::len), Some(1), "{pool}");
        assert_eq!(pool["slots"][0]["state"], "ready", "{pool}");
        pool["slots"][0]["name"].as_str().expect("a name").to_owned()
    }

    /// Agents with a part each that says this.
    fn with_parts(parts: &[&str]) -> Fleet {
        let mut fleet = Fleet::new();
        for (number, part) in parts.iter().enumerate() {
            fleet.add(&[(&format!("parts/{number}"), &format!("{part}\n"))]);
        }
        fleet
    }

    /// Runs a train, and gives its answer and its status.
    fn train(&self, words: &[&str]) -> (Value, i32) {
        let mut all = vec!["train", "--format=json"];
        all.extend(words);
        let output = self.repo.agent(&all);
        let answer = serde_json::from_slice(&output.stdout);
        let answer = answer.unwrap_or_else(|_| panic!("{}", describe(&output)));
        (answer, output.status.code().expect("a status"))
    }

    /// What became of each agent, in the order in which they were spawned.
    fn outcomes(&self, answer: &Value) -> Vec<String> {
        let items = answer["items"].as_array().expect("items");
        let of = |id: &String| {
            let item = items.iter().find(|item| item["agent_id"] == **id);
            let outcome = item.map_or("absent", |item| item["outcome"].as_str().expect("a word"));
            outcome.to_owned()
        };
        self.agents.iter().map(of).collect()
    }

    fn checked(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).expect("read");
        log.lines().map(str::to_owned).collect()
    }

    fn tree(&self) -> String {
        self.repo.git(["rev-parse", "main^{tree}"])
    }

    fn state(&self, agent: usize) -> String {
        let shown = self.repo.agent_json(&["show", &self.agents[agent]]);
        shown["state"].as_str().expect("a state").to_owned()
    }

    /// The main worktree is as the branch says, and no check worktree is left.
    fn require_sound(&self) {
        assert_eq!(self.repo.git(["status", "--porcelain"]), "");
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(self.repo.git(fsck), "");
        let worktrees = self.repo.git(["worktree", "list"]);
        assert!(!worktrees.contains("verify-"), "{worktrees}");
        let doctor = self.repo.agent(&["doctor"]);
        assert!(doctor.status.success(), "{}", describe(&doctor));
    }
}

#[test]
fn good_agents_land_with_one_check_and_a_commit_each() {
    for (words, parents) in [(&["--all"][..], 2), (&["--all", "--squash"], 1)] {
        let fleet = Fleet::with_parts(&["one", "two", "three"]);
        let before = fleet.repo.git(["rev-parse", "main"]);
        let (answer, status) = fleet.train(words);
        assert_eq!(status, 0, "{answer:#}");
        assert_eq!(answer["checks_run"], 1);
        assert_eq!(fleet.checked(), [fleet.tree()], "what landed was checked");
        let first_parents = ["rev-list", "--first-parent", "--parents", "main"];
        let commits = fleet.repo.git(first_parents);
        let new: Vec<_> = commits.lines().take(3).collect();
        for (line, item) in new.iter().rev().zip(answer["items"].as_array().expect("items")) {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(words.len(), 1 + parents, "{line}");
            assert_eq!(item["commit"], words[0]);
            let tree = fleet.repo.git(["rev-parse", &format!("{}^{{tree}}", words[0])]);
            assert_eq!(item["tree"], tree);
        }
        assert_eq!(answer["targets"][0]["before"], before);
        assert_eq!(answer["targets"][0]["oid"], fleet.repo.git(["rev-parse", "main"]));
        let reflog = fleet.repo.git(["reflog", "--format=%gs", "-1", "main"]);
        assert_eq!(reflog, "agent: merge 3 agents");
        for agent in 0..3 {
            assert_eq!(fleet.state(agent), "merged");
        }
        fleet.require_sound();
    }
}

#[test]
fn a_culprit_is_rejected_with_its_log_and_the_others_land() {
    let fleet = Fleet::with_parts(&["one", "two", "bad", "four", "five"]);
    for jobs in ["--jobs=1", "--jobs=2"] {
        let (answer, status) = fleet.train(&["--all", jobs]);
        if jobs == "--jobs=2" {
            assert_eq!(answer["items"], serde_json::json!([]), "all is decided");
            continue;
        }
        assert_eq!(status, 1);
        let expected = ["landed", "landed", "rejected", "landed", "landed"];
        assert_eq!(fleet.outcomes(&answer), expected);
        let check = &answer["items"][2]["check"];
        assert_eq!(check["command"], "sh check.sh");
        assert_eq!(check["exit_code"], 3);
        assert_eq!(check["output"], "a part is bad\n");
        assert!(fleet.checked().contains(&fleet.tree()));
    }
    assert_eq!(fleet.state(2), "idle");
    let log = fleet.repo.agent_json(&["log", &fleet.agents[2]]).to_string();
    assert!(log.contains("commands.failed"), "{log}");
    fleet.require_sound();
}

#[test]
fn agents_that_are_bad_together_are_told_apart() {
    let fleet = Fleet::with_parts(&["one", "left", "three", "right"]);
    let (answer, _) = fleet.train(&["--all"]);
    let expected = ["landed", "landed", "landed", "rejected"];
    assert_eq!(fleet.outcomes(&answer), expected);
    let item = &answer["items"][3];
    assert_eq!(item["check"]["output"], "left meets right\n");
    // The pair is named: in the answer, to people, and in the row.
    assert_eq!(item["fails_with"]["agent_id"], *fleet.agents[1]);
    let pair = format!("and that of agent {} together", &fleet.agents[1][..8]);
    let reason = item["reason"].as_str().expect("a reason");
    assert!(reason.contains(&pair), "{reason}");
    let log = fleet.repo.agent_json(&["log", &fleet.agents[3]]);
    assert!(
        log.to_string().contains(&format!("together with agent {}", &fleet.agents[1][..8])),
        "{log}"
    );
    let runs = answer["runs"].as_array().expect("runs");
    assert!(runs.iter().any(|run| run["purpose"] == "pair"), "{runs:#?}");
}

#[test]
fn a_conflict_with_what_landed_is_named_with_its_paths() {
    let mut fleet = Fleet::new();
    fleet.add(&[("shared", "first\ntwo\nthree\n")]);
    fleet.add(&[("shared", "second\ntwo\nthree\n")]);
    fleet.add(&[("parts/good", "good\n")]);
    let (answer, status) = fleet.train(&[&fleet.agents[0], &fleet.agents[1], &fleet.agents[2]]);
    assert_eq!(status, 1);
    assert_eq!(fleet.outcomes(&answer), ["landed", "conflicts", "landed"]);
    assert_eq!(answer["items"][1]["conflicts"][0], "shared");
    assert_eq!(fleet.state(1), "done");
    fleet.require_sound();
}

#[test]
fn a_conflict_with_a_culprit_is_none_and_scripts_read_all_of_it_line_by_line() {
    let mut fleet = Fleet::new();
    fleet.add(&[("shared", "first\ntwo\nthree\n"), ("parts/x", "bad\n")]);
    fleet.add(&[("shared", "second\ntwo\nthree\n")]);
    let (first, second) = (&fleet.agents[0], &fleet.agents[1]);
    let words = ["train", "--format=ndjson", "--jobs=1", first, second];
    let output = fleet.repo.agent(&words);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            let event = line["event"].as_str().expect("an event");
            let who = line["agent_id"].as_str();
            let who = who.map(|id| if id == first { " first" } else { " second" });
            format!("{event}{}", who.unwrap_or_default())
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    stacked first
    conflict second
    check-started
    check-ended
    check-started
    check-ended
    stacked second
    check-started
    check-ended
    check-started
    landed
    check-ended
    culprit first
    agent first
    agent second
    done
    ");
    for line in lines.iter().filter(|line| line["event"] != "agent" && line["event"] != "done") {
        crate::schema::judge("train-event", &crate::schema::strict("train-event"), line);
    }
    let of = |event: &str| lines.iter().find(|line| line["event"] == event).expect(event);
    assert_eq!(of("conflict")["conflicts"][0], "shared");
    assert_eq!(of("culprit")["check"]["output"], "a part is bad\n");
    assert_eq!(of("landed")["oid"], fleet.repo.git(["rev-parse", "main"]));
    let answer = serde_json::json!({ "items": lines });
    let outcome = |id: &String| {
        let items = answer["items"].as_array().expect("items").iter();
        let mut items = items.filter(|item| item["event"] == "agent");
        let item = items.find(|item| item["agent_id"] == **id).expect("an item");
        item["outcome"].clone()
    };
    assert_eq!((outcome(first), outcome(second)), ("rejected".into(), "landed".into()));
}

#[test]
fn a_check_that_fails_by_accident_is_named_and_rejects_no_agent() {
    let fleet = Fleet::with_parts(&["one", "once", "three"]);
    let (answer, status) = fleet.train(&["--all", "--jobs=1"]);
    assert_eq!(status, 0, "{answer:#}");
    let flaky = &answer["flaky"][0];
    assert_eq!(flaky["tree"], fleet.tree());
    assert_eq!(flaky["command"], "sh check.sh");
}

#[test]
fn an_accident_rejects_no_agent_where_another_one_is_bad() {
    let fleet = Fleet::with_parts(&["one", "once", "three", "bad"]);
    let (answer, _) = fleet.train(&["--all", "--jobs=1"]);
    let expected = ["landed", "landed", "landed", "rejected"];
    assert_eq!(fleet.outcomes(&answer), expected, "{answer:#}");
    assert_eq!(answer["flaky"][0]["stack"], serde_json::json!(fleet.agents[..2]));
}

#[test]
fn a_test_that_fails_now_and_then_rejects_no_good_agent() {
    let mut fleet = Fleet::with_parts(&["one", "two", "three", "bad", "five", "six"]);
    // Two of five runs are red, whatever is checked, with the status of the culprit.
    let count = fleet.log.display();
    let flaky =
        format!("case $(($(wc -l < '{count}') % 5)) in 1|2) echo by accident; exit 3;; esac\n");
    let check = fs::read_to_string(fleet.repo.path().join("check.sh")).expect("read");
    fleet.repo.write("check.sh", check + &flaky);
    fleet.repo.commit_all("a flaky test");
    for jobs in ["--jobs=1", "--jobs=2"] {
        let (answer, _) = fleet.train(&["--all", jobs]);
        let items = answer["items"].as_array().expect("items");
        for item in items {
            let is_bad = item["agent_id"] == *fleet.agents[3];
            let expected = if is_bad { "rejected" } else { "landed" };
            assert_eq!(item["outcome"], expected, "{answer:#}");
        }
        assert!(!items.is_empty());
        let flaky = answer["flaky"].as_array().expect("a list");
        assert!(!flaky.is_empty() || jobs == "--jobs=2", "{answer:#}");
        assert!(answer["checks_again"].as_u64() > Some(1) || jobs == "--jobs=2");
        fleet.add(&[("parts/7", "seven\n")]);
    }
    fleet.require_sound();
}

#[test]
fn a_check_that_hangs_is_ended_and_its_agent_rejected() {
    let mut fleet = Fleet::with_parts(&["one"]);
    // The target is known to be green from here on, so nothing else runs within the short time.
    fleet.train(&["--all"]);
    fleet.add(&[("parts/1", "hangs\n")]);
    let (answer, _) = fleet.train(&["--all", "--timeout=1s"]);
    assert_eq!(answer["items"][0]["outcome"], "rejected", "{answer:#}");
    assert_eq!(answer["items"][0]["check"]["timed_out"], true);
    assert_eq!(fleet.state(1), "idle");
    fleet.require_sound();
}

#[test]
fn checks_run_in_a_warm_worktree_that_no_agent_gets_afterwards() {
    let (fleet, name) = Fleet::with_pool(&["one", "bad", "three"]);
    let (answer, _) = fleet.train(&["--all", "--jobs=1"]);
    let expected = ["landed", "rejected", "landed"];
    assert_eq!(fleet.outcomes(&answer), expected, "{answer:#}");
    assert_ne!(fleet.warm(), name);
    fleet.require_sound();
}

#[test]
fn a_check_that_destroys_its_worktree_keeps_no_later_one_from_running() {
    let mut fleet = Fleet::with_parts(&["one"]);
    let destroy = "rm -rf .git check.sh; mkdir .git; echo x > .git/HEAD\n";
    fleet.repo.write("check.sh", destroy);
    fleet.repo.commit_all("a check that destroys");
    for agent in 0..2 {
        let (answer, status) = fleet.train(&["--all"]);
        assert_eq!(status, 0, "{answer:#}");
        assert_eq!(fleet.state(agent), "merged");
        fleet.add(&[(&format!("parts/{}", agent + 1), "more\n")]);
    }
    fleet.require_sound();
}

#[test]
fn a_target_that_is_red_itself_rejects_no_agent() {
    let fleet = Fleet::with_parts(&["one", "two", "three"]);
    fleet.repo.write("parts/own", "bad\n");
    fleet.repo.commit_all("broken by hand");
    let before = fleet.repo.git(["rev-parse", "main"]);
    let (answer, status) = fleet.train(&["--all"]);
    assert_eq!(status, 1);
    assert_eq!(answer["targets"][0]["red"], true);
    assert_eq!(fleet.outcomes(&answer), ["undecided"; 3]);
    assert_eq!(fleet.repo.git(["rev-parse", "main"]), before);
    assert_eq!(fleet.state(0), "done");
    // No verdict rejects anything, so there is nothing to mend in the agents.
    let output = fleet.repo.agent(&["merge", "--all", "--format=json"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("git agent train --no-land --explain"), "{said}");
    assert!(!said.contains("git agent verify"), "{said}");
}

#[test]
fn what_was_green_is_not_checked_again_and_explain_says_so() {
    let fleet = Fleet::with_parts(&["one", "two"]);
    let first = fleet.train(&["--all", "--max-runs=0"]).0;
    assert_eq!(fleet.outcomes(&first), ["undecided"; 2]);
    fleet.repo.git(["branch", "one", "main"]);
    let words = ["train", "--all", "--into=one", "--explain"];
    let text = describe(&fleet.repo.agent(&words));
    assert!(text.contains("ran to land all of it at once"), "{text}");
    assert_eq!(fleet.checked().len(), 1);
    // Two more that make the same tree on the same target.
    let again = fleet.repo.git(["rev-parse", "one^{tree}"]);
    let mut twin = fleet;
    for (path, part) in [("parts/0", "one\n"), ("parts/1", "two\n")] {
        twin.add(&[(path, part)]);
    }
    let (answer, _) = twin.train(&["--all"]);
    assert_eq!(answer["runs"][0]["tree"], again);
    assert_eq!(answer["runs"][0]["why"], "known-green");
    assert_eq!(answer["checks_known"], 1);
    assert_eq!(twin.checked().len(), 1);
    twin.require_sound();
}

#[test]
fn a_rehearsed_round_says_what_conflicts_and_pushes_nothing() {
    let mut fleet = Fleet::new();
    fleet.add(&[("shared", "1\n")]).add(&[("shared", "2\n")]);
    let text = describe(&fleet.repo.agent(&["merge", "--all", "--dry-run"]));
    assert!(text.contains("not-merged conflicts in shared"), "{text}");
    assert!(!text.contains("git push"), "{text}");
}

#[test]
fn a_dry_run_shows_the_stack_and_changes_nothing() {
    let mut fleet = Fleet::with_parts(&["one", "bad"]);
    fleet.add(&[("parts/0", "another\n")]);
    let refs = fleet.repo.git(["for-each-ref"]);
    let objects = fleet.repo.git(["count-objects"]);
    let mut words = vec!["--dry-run"];
    words.extend(fleet.agents.iter().map(String::as_str));
    let (answer, status) = fleet.train(&words);
    assert_eq!(status, 1);
    let expected = ["planned", "planned", "conflicts"];
    assert_eq!(fleet.outcomes(&answer), expected, "{answer:#}");
    assert_eq!(answer["runs"][0]["why"], "dry-run");
    assert_eq!(answer["runs"][0]["stack"].as_array().map(Vec::len), Some(2));
    assert_eq!(fleet.repo.git(["for-each-ref"]), refs);
    assert_eq!(fleet.repo.git(["count-objects"]), objects);
    assert!(fleet.checked().is_empty());
    let text = describe(&fleet.repo.agent(&["train", "--all", "--dry-run", "--explain"]));
    assert!(text.contains("not run: would be checked to land all of it at once"), "{text}");
    assert!(text.contains("would land at most 2, 1 not"), "{text}");
}

#[test]
fn work_that_lands_elsewhere_is_accepted_and_moves_no_branch() {
    let fleet = Fleet::with_parts(&["one", "bad", "two"]);
    let before = fleet.repo.git(["rev-parse", "main"]);
    let (answer, status) = fleet.train(&["--all", "--no-land"]);
    assert_eq!(status, 1, "one of them is bad");
    let expected = ["accepted", "rejected", "accepted"];
    assert_eq!(fleet.outcomes(&answer), expected, "{answer:#}");
    assert_eq!(fleet.repo.git(["rev-parse", "main"]), before);
    assert_eq!(answer["targets"][0]["oid"], before.as_str());
    for (agent, state) in [(0, "done"), (1, "idle"), (2, "done")] {
        assert_eq!(fleet.state(agent), state);
        let shown = fleet.repo.agent_json(&["show", &fleet.agents[agent]]);
        assert_eq!(
            shown["verdict"],
            if state == "done" { "accept" } else { "reject" },
            "{shown:#}"
        );
    }
    fleet.require_sound();
    // What is green is known: landing it takes no further check.
    let checked = fleet.checked().len();
    let (answer, _) = fleet.train(&["--all"]);
    assert_eq!(fleet.outcomes(&answer), ["landed", "absent", "landed"]);
    assert_eq!(fleet.checked().len(), checked);
    let text = describe(&fleet.repo.agent(&["train", "--all", "--no-land", "--dry-run"]));
    assert!(text.contains("cannot be used with"), "{text}");
}

#[test]
fn checks_stay_inside_the_fence_with_values_of_their_own() {
    let fleet = Fleet::with_parts(&["one", "two"]);
    let escaped = fleet.repo.path().join("escaped");
    fleet.repo.write(
        "check.sh",
        format!(
            "echo $PORT $TMPDIR >> '{}'; echo x > \"$TMPDIR/x\" && echo x > own || exit 1
(echo x > '{}') 2> /dev/null; exit 0",
            fleet.log.display(),
            escaped.display()
        ),
    );
    let settings = fleet.repo.path().join(".config/git-agent.toml");
    let settings = fs::read_to_string(settings).expect("read");
    fleet.repo.write(".config/git-agent.toml", settings + "[lease]\nPORT = \"port\"\n");
    fleet.repo.commit_all("another check");
    let (answer, status) = fleet.train(&["--all"]);
    assert_eq!(status, 0, "{answer:#}");
    let is_fenced = answer["sandbox"] != "none";
    assert_eq!(escaped.exists(), !is_fenced, "{answer:#}");
    let told = fleet.checked();
    let (port, temporary) = told[0].split_once(' ').expect("two words");
    assert!((20000..30000).contains(&port.parse().expect("a port")));
    assert!(!Path::new(temporary).exists(), "removed afterwards");
    let leases = fleet.repo.path().join(".git/agents/leases");
    assert_eq!(fs::read_dir(leases).expect("a directory").count(), 0);
    let refused = fleet.repo.agent(&["train", "--all", "--sandbox=open"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn no_more_checks_than_allowed_leave_the_rest_undecided() {
    let fleet = Fleet::with_parts(&["one", "two", "bad", "four"]);
    let (answer, status) = fleet.train(&["--all", "--max-runs=1"]);
    assert_eq!(status, 1);
    assert_eq!(fleet.outcomes(&answer), ["undecided"; 4]);
    assert_eq!(answer["checks_run"], 1);
    let (answer, _) = fleet.train(&["--all"]);
    let expected = ["landed", "landed", "rejected", "landed"];
    assert_eq!(fleet.outcomes(&answer), expected);
}

#[test]
fn two_trains_at_once_keep_the_target_green_and_land_nothing_twice() {
    let fleet = Fleet::with_parts(&["one", "left", "right", "four"]);
    let start = fleet.repo.git(["rev-parse", "main"]);
    let barrier = Barrier::new(2);
    let answers = std::thread::scope(|scope| {
        let train = || {
            barrier.wait();
            fleet.train(&["--all", "--jobs=1"]).0
        };
        [scope.spawn(train), scope.spawn(train)].map(|one| one.join().expect("an answer"))
    });
    let parts = fleet.repo.git(["ls-tree", "--name-only", "main:parts"]);
    assert_eq!(parts, "0\n1\n3", "{answers:#?}");
    // The target was green wherever it has been.
    let been = fleet.repo.git(["reflog", "--format=%H", "main"]);
    for commit in been.lines().take_while(|commit| **commit != start) {
        let parts = fleet.repo.git(["ls-tree", "--name-only", &format!("{commit}:parts")]);
        let both = parts.lines().any(|one| one == "1") && parts.lines().any(|one| one == "2");
        assert!(!both, "{commit} is red: {parts}");
    }
    let trailer = "--format=%(trailers:key=Agent-Id,valueonly,separator=)";
    let brought = fleet.repo.git(["log", "--first-parent", trailer, &format!("{start}..main")]);
    let mut brought: Vec<&str> = brought.lines().collect();
    brought.sort_unstable();
    let count = brought.len();
    brought.dedup();
    assert_eq!((brought.len(), count), (3, 3), "nothing landed twice");
    let states: Vec<String> = (0..4).map(|agent| fleet.state(agent)).collect();
    assert_eq!(states, ["merged", "merged", "idle", "merged"]);
    fleet.require_sound();
}

#[test]
fn the_checks_of_every_agent_run_on_what_lands() {
    let mut fleet = Fleet::new();
    let spawned = fleet.repo.agent_json(&[
        "spawn",
        "-m",
        "Write a part that brings a check of its own.",
        "--name=own",
        "--new=parts/**",
        "--check=test -e parts/own && test ! -e parts/1",
    ]);
    let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a worktree"));
    fs::create_dir_all(worktree.join("parts")).expect("made");
    fs::write(worktree.join("parts/own"), "own\n").expect("written");
    git_in(worktree, ["status"]);
    fleet.repo.agent_json(&["done", "own"]);
    fleet.agents.push(spawned["agent_id"].as_str().expect("an id").to_owned());
    fleet.add(&[("parts/1", "one\n")]);
    let (answer, _) = fleet.train(&[&fleet.agents[0], &fleet.agents[1]]);
    assert_eq!(fleet.outcomes(&answer), ["landed", "rejected"]);
    let commands = &answer["runs"][0]["commands"];
    let expected = ["sh check.sh", "test -e parts/own && test ! -e parts/1"];
    assert_eq!(*commands, serde_json::json!(expected));
    // The verdict of the checks lands with the work.
    let landed = fleet.repo.agent_json(&["show", &fleet.agents[0]]);
    assert_eq!(landed["verdict"], "accept", "{landed:#}");
}

#[test]
fn agents_whose_checks_took_long_are_stacked_last() {
    let mut fleet = Fleet::new();
    let add = |fleet: &mut Fleet, path: &str, checks: &[&str]| {
        let mut words = vec!["spawn", "-m", "Write a part that may bring a check of its own."];
        words.push("--new=parts/**");
        words.extend(checks);
        let spawned = fleet.repo.agent_json(&words);
        let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a worktree"));
        fs::create_dir_all(worktree.join("parts")).expect("made");
        fs::write(worktree.join("parts").join(path), "good\n").expect("written");
        let id = spawned["agent_id"].as_str().expect("an id");
        fleet.repo.agent_json(&["done", id]);
        fleet.agents.push(id.to_owned());
    };
    for round in 0..2 {
        add(&mut fleet, &format!("long-{round}"), &["--check=sleep 1"]);
        add(&mut fleet, &format!("short-{round}"), &[]);
        let (answer, _) = fleet.train(&["--all"]);
        let stack = answer["runs"][0]["stack"].as_array().expect("a stack");
        let at = |agent: usize| stack.iter().position(|id| *id == *fleet.agents[agent]);
        let is_last = at(2 * round) > at(2 * round + 1);
        // Nothing is known of the time in the first train, and the order is that of the ids or the overlap.
        assert!(is_last || round == 0, "{answer:#}");
    }
}

#[test]
fn an_agent_that_cannot_ride_is_an_item_with_an_error() {
    let fleet = Fleet::with_parts(&["one"]);
    let spawned = fleet.repo.agent_json(&[
        "spawn",
        "-m",
        "Write a part that is not done yet at all.",
        "--name=slow",
        "--new=parts/**",
    ]);
    let (answer, status) = fleet.train(&["nobody", "slow", &fleet.agents[0]]);
    assert_eq!(status, 2);
    let items = answer["items"].as_array().expect("items");
    assert_eq!(items[0]["target"], "nobody");
    assert_eq!(items[0]["error"]["code"], "agent-unknown");
    assert_eq!(items[1]["agent_id"], spawned["agent_id"]);
    assert_eq!(items[1]["error"]["code"], "agent-state");
    assert_eq!(items[2]["outcome"], "landed");
}

#[test]
fn an_agent_without_a_branch_to_land_on_keeps_no_other_from_landing() {
    let fleet = Fleet::with_parts(&["one", "two", "three", "four"]);
    let repo = &fleet.repo;
    let spawn = |base: &str| {
        let name = format!("--name=from-{}", base.replace('/', "-"));
        let words = ["spawn", "-m", "Write another part.", "--new=parts/**", "--base", base];
        let spawned = repo.agent_json(&[&words[..], &[name.as_str()]].concat());
        let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
        fs::create_dir_all(worktree.join("parts")).expect("made");
        fs::write(worktree.join("parts").join(base.replace('/', "-")), base).expect("written");
        repo.agent_json(&["mark", "done", &name["--name=".len()..]]);
        spawned
    };
    repo.git(["branch", "gone"]);
    repo.git(["update-ref", "refs/remotes/origin/copy", "HEAD"]);
    spawn("gone");
    let warnings = spawn("origin/copy")["warnings"].to_string();
    assert!(warnings.contains("no branch to land on"), "{warnings}");
    repo.git(["branch", "--delete", "gone"]);
    let (answer, status) = fleet.train(&[&fleet.agents[0], "from-gone", "from-origin-copy"]);
    assert_eq!(status, 1, "{answer:#}");
    let codes = |items: &Value| -> Vec<Value> {
        let items = items.as_array().expect("items").iter();
        items.map(|item| item["error"]["code"].clone()).collect()
    };
    let expected = [Value::Null, "base-not-commit".into(), "no-target".into()];
    assert_eq!(codes(&answer["items"]), expected);
    let output = repo.agent(&["merge", "--all", "--format=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let landed = answer["items"].as_array().expect("items").iter();
    let landed = landed.filter(|item| item["outcome"] == "merged").count();
    assert_eq!(landed, 3, "{answer:#}");
    // A branch that the caller names is asked for before any agent.
    for words in [&["merge", "--all"][..], &["train", "--all"], &["train", "from-gone"]] {
        let output = repo.agent(&[words, &["--into=nope"]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    }
    for words in [&["train", "nope"][..], &["list", "--role=nope"]] {
        let output = repo.agent(words);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    }
}

#[test]
fn agents_that_a_hook_refuses_cost_the_others_no_attempt() {
    let parts: Vec<&str> = [["unhooked"; 11].as_slice(), &["good"]].concat();
    let fleet = Fleet::with_parts(&parts);
    let settings = "[bundle]\nrequired = false\n[merge]\nhooks = [\"pre-commit\"]\n";
    fleet.repo.write(".config/git-agent.toml", settings);
    fleet.repo.commit_all("a hook");
    let hook = fleet.repo.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("made");
    fs::write(&hook, "#!/bin/sh\n! grep -qsx unhooked parts/*\n").expect("written");
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("set");
    let (answer, status) = fleet.train(&["--all"]);
    assert_eq!(status, 1);
    let outcomes = fleet.outcomes(&answer);
    assert_eq!(outcomes[..11], ["refused"; 11], "{answer}");
    assert_eq!(outcomes[11], "landed", "{answer}");
    let items = answer["items"].as_array().expect("items");
    let codes = items.iter().filter_map(|item| item["error"]["code"].as_str());
    assert_eq!(codes.collect::<Vec<_>>(), ["hook-refused"; 11]);
    fleet.require_sound();
}

#[test]
fn the_answer_is_one_line_for_each_agent_and_one_for_all() {
    let fleet = Fleet::with_parts(&["one", "two"]);
    let output = fleet.repo.agent(&["train", "--all", "--watch", "--format=ndjson"]);
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // After what happened, which other tests read.
    let ends = lines.iter().position(|line| line["event"] == "agent");
    let lines = &lines[ends.expect("an agent")..];
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["target"], fleet.agents[0]);
    assert_eq!((&lines[2]["event"], &lines[2]["checks_run"]), (&"done".into(), &1.into()));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("2 landed on main"), "{told}");
}

#[test]
fn a_branch_that_is_only_moved_lands_where_it_is_ahead_of_all_below_it() {
    let fleet = Fleet::with_parts(&["one", "two"]);
    fleet.repo.git(["config", "agent.merge", "ff-only"]);
    let (answer, _) = fleet.train(&["--all"]);
    assert_eq!(fleet.outcomes(&answer), ["landed", "refused"], "{answer:#}");
    let shown = fleet.repo.agent_json(&["show", &fleet.agents[0]]);
    let branch = shown["branch"].as_str().expect("a branch");
    let [main, tip] = ["main", branch].map(|name| fleet.repo.git(["rev-parse", name]));
    assert_eq!(main, tip);
}

#[test]
fn an_undo_takes_back_whom_the_train_rejected_as_well() {
    let fleet = Fleet::with_parts(&["one", "bad", "three"]);
    let states = || [0, 1, 2].map(|agent| fleet.state(agent));
    let before = states();
    assert_eq!(before, ["done"; 3]);
    fleet.train(&["--all"]);
    let after = states();
    assert_eq!(after, ["merged", "idle", "merged"]);
    let undone = fleet.repo.agent_json(&["undo"]);
    assert_eq!(states(), before);
    assert!(undone["warnings"].to_string().contains("that a train rejected"), "{undone:#}");
    let again = undone["undone_by"].as_str().expect("an operation");
    fleet.repo.agent_json(&["undo", again]);
    assert_eq!(states(), after);
    // What is done with a rejected agent since is its own, and does not hold up the others.
    fleet.repo.agent_json(&["mark", "done", &fleet.agents[1], "-m", "it is right"]);
    let train = fleet.repo.agent_json(&["undo", "--list"])["operations"].clone();
    let train = train
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["events"].to_string().contains("merged"));
    let train = train.expect("the train")["operation"].as_str().expect("an id");
    fleet.repo.agent_json(&["undo", train]);
    assert_eq!(states(), before);
}

#[test]
fn what_a_train_rejected_stays_rejected_until_the_work_or_the_answer_is_another() {
    let fleet = Fleet::with_parts(&["one", "bad", "three"]);
    let bad = &*fleet.agents[1];
    let refused = |args: &[&str]| {
        let said = describe(&fleet.repo.agent(args));
        let is_refused = said.contains("exit status: 1") || said.contains("exit status: 3");
        assert!(is_refused && said.contains("train.rejected"), "{said}");
    };
    let (answer, _) = fleet.train(&["--all"]);
    assert_eq!(fleet.outcomes(&answer), ["landed", "rejected", "landed"]);
    // The target has moved since, and neither looks at what the checks of a train ask.
    refused(&["verify", bad]);
    refused(&["merge", bad]);
    refused(&["verify", bad]);
    // Nothing is recorded of a look that leaves checks out.
    assert!(fleet.repo.agent(&["verify", "--no-commands", bad]).status.success());
    refused(&["merge", bad]);
    // A train runs them again, and gives the same answer.
    fleet.repo.agent_json(&["amend", bad, "--add-scope=README.md", "-m", "to write more"]);
    fleet.repo.agent_json(&["done", bad]);
    refused(&["merge", bad]);
    let (answer, _) = fleet.train(&["--all"]);
    assert_eq!(fleet.outcomes(&answer)[1], "rejected");
    // Work that was mended is other work.
    let worktree = fleet.repo.agent_json(&["path", bad])["worktree_abspath"].clone();
    let worktree = Path::new(worktree.as_str().expect("a worktree"));
    fs::write(worktree.join("parts/1"), "good\n").expect("written");
    assert!(fleet.repo.agent(&["verify", bad]).status.success());
    // Neither what came to the base, nor a train for a branch that asks less, makes other work of it.
    fs::write(worktree.join("parts/1"), "bad\n").expect("written");
    refused(&["verify", bad]);
    fleet.repo.write("parts/new", "good\n");
    fleet.repo.commit_all("more");
    fleet.repo.agent_json(&["commit", bad, "-m", "as it was"]);
    let updated = fleet.repo.agent(&["update", bad]);
    assert!(updated.status.success(), "{}", describe(&updated));
    refused(&["merge", bad]);
    fleet.repo.git(["switch", "-q", "-c", "lax"]);
    fleet.repo.write(".config/git-agent.toml", "[bundle]\nrequired = false\n");
    fleet.repo.commit_all("lax");
    fleet.repo.git(["switch", "-q", "main"]);
    fleet.repo.agent_json(&["done", bad]);
    let lax = fleet.repo.agent_json(&["train", bad, "--into=lax", "--no-land"]);
    assert_eq!(lax["items"][0]["outcome"], "accepted", "{lax}");
    refused(&["merge", bad]);
    // A train of its own branch rejects it again, and a person may say otherwise.
    let (answer, _) = fleet.train(&["--all"]);
    assert_eq!(fleet.outcomes(&answer)[1], "rejected");
    fleet.repo.agent_json(&["mark", "accept", bad, "-m", "the check is wrong"]);
    assert!(fleet.repo.agent(&["verify", bad]).status.success());
    fleet.repo.agent_json(&["merge", bad]);
    assert_eq!(fleet.state(1), "merged");
    fleet.require_sound();
}
