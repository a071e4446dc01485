use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, git_in, isolated};
use crate::verify::Agent;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Ten lines, some of them in other words.
fn lines(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let found = changed.iter().find(|(at, _)| *at == number);
        found.map_or(format!("line {number}\n"), |(_, text)| format!("{text}\n"))
    };
    (1..=10).map(line).collect()
}

/// Two agents, the second of which goes on from the first one's commit, on the same line.
struct Pair {
    repo: TestRepo,
    below: String,
    above: String,
    branch: String,
}

impl Pair {
    fn new() -> Pair {
        let repo = TestRepo::with_commit();
        repo.write("src/list.txt", lines(&[]));
        repo.commit_all("a list");
        let work = |base: &str, text: String, subject: &str| {
            let scope = ["--scope", "src/**", "--base", base];
            let report = repo.agent_json(&[&["spawn", "-m", subject][..], &scope].concat());
            let word = |key: &str| report[key].as_str().expect("a text").to_owned();
            let worktree = PathBuf::from(word("worktree_abspath"));
            fs::write(worktree.join("src/list.txt"), text).expect("written");
            git_in(&worktree, ["commit", "--quiet", "--all", "-m", subject]);
            repo.agent_json(&["mark", "done", &word("agent_id"), "-m", subject]);
            (word("agent_id"), word("branch"))
        };
        let (below, branch) = work("main", lines(&[(2, "below")]), "change line 2");
        let (above, _) = work(&branch, lines(&[(2, "above"), (9, "above")]), "change it again");
        Pair { repo, below, above, branch }
    }

    fn json(&self, words: &[&str]) -> Value {
        self.repo.agent_json(words)
    }

    /// Another change of the target, which conflicts with nobody.
    fn moves_on(&self, at: usize) {
        let text = fs::read_to_string(self.repo.path().join("src/list.txt")).expect("read");
        let text = text.replace(&format!("line {at}\n"), "main\n");
        self.repo.write("src/list.txt", text);
        self.repo.commit_all("the target moves on");
    }

    fn assert_landed(&self, main: &[usize], how: &str) {
        let own = main.iter().map(|at| (*at, "main"));
        let expected: Vec<_> = [(2, "above"), (9, "above")].into_iter().chain(own).collect();
        let text = self.repo.git(["show", "main:src/list.txt"]);
        assert_eq!(format!("{text}\n"), lines(&expected), "{how}");
        let shown = self.json(&["show", &self.above]);
        assert_eq!(shown["state"], "merged", "{how}: {shown}");
        assert_eq!(self.repo.git(["status", "--porcelain"]), "", "{how}");
        // No branch of an agent has got the work instead.
        let below = self.repo.git(["show", &format!("{}:src/list.txt", self.branch)]);
        assert_eq!(format!("{below}\n"), lines(&[(2, "below")]), "{how}");
    }
}

/// How the work below lands.
const WAYS: [&str; 3] = ["squash", "no-ff", "forge"];

fn land_below(pair: &Pair, way: &str) {
    match way {
        // As a forge does it: no row says so.
        "forge" => {
            let squash = ["merge", "--quiet", "--squash", &pair.branch];
            pair.repo.git(squash);
            pair.repo.commit_all("Change line 2 (#7)");
        }
        way => {
            pair.json(&["merge", &pair.below, &format!("--{way}")]);
        }
    }
}

/// What a forge makes of one pull request of a stack after the other: the work of a branch beyond `below` as one commit.
fn squashed(pair: &Pair, (below, tip): (&str, &str)) {
    let tree = pair.repo.git(["merge-tree", "--write-tree", "--merge-base", below, "main", tip]);
    let log = pair.repo.git(["log", "--reverse", "--format=* %B", &format!("{below}..{tip}")]);
    let made = pair.repo.git(["commit-tree", "-p", "main", "-m", &log, &tree]);
    pair.repo.git(["reset", "--quiet", "--hard", &made]);
}

#[test]
fn the_upper_work_goes_on_after_a_forge_squashed_both() {
    let pair = Pair::new();
    let shown = pair.json(&["show", &pair.above]);
    let word = |key: &str| shown[key].as_str().expect("a text").to_owned();
    squashed(&pair, ("main", &pair.branch));
    squashed(&pair, (&pair.branch, &word("branch")));
    // A line of its own that is there already is no conflict.
    let worktree = PathBuf::from(word("worktree_abspath"));
    fs::write(worktree.join("src/list.txt"), lines(&[(2, "above"), (9, "above, again")]))
        .expect("written");
    git_in(&worktree, ["commit", "--quiet", "--all", "-m", "again"]);
    assert_eq!(pair.json(&["diff", &pair.above])["changes"].as_array().map(Vec::len), Some(1));
    pair.json(&["merge", &pair.above, "--into", "main"]);
    let text = pair.repo.git(["show", "main:src/list.txt"]);
    assert_eq!(format!("{text}\n"), lines(&[(2, "above"), (9, "above, again")]));
}

#[test]
fn update_aims_at_where_the_work_below_has_landed() {
    for way in WAYS {
        let pair = Pair::new();
        let before = pair.json(&["update", &pair.above, "--dry-run"]);
        assert_eq!(before["target"]["ref"], format!("refs/heads/{}", pair.branch).as_str());
        land_below(&pair, way);
        pair.moves_on(5);
        let updated = pair.json(&["update", &pair.above]);
        assert_eq!(updated["target"]["ref"], "refs/heads/main", "{way}: {updated}");
        assert_eq!(updated["outcome"], "updated", "{way}");
        let verdict = pair.json(&["verify", &pair.above]);
        assert_eq!(verdict["verdict"], "accept", "{way}: {verdict:#}");
        // The target goes on where it had gone on before.
        let list = pair.repo.path().join("src/list.txt");
        let text = fs::read_to_string(&list).expect("read");
        pair.repo.write("src/list.txt", text.replace("main\n", "line 5\n"));
        pair.repo.commit_all("and back");
        pair.moves_on(6);
        assert_eq!(pair.json(&["update", &pair.above])["outcome"], "updated");
        pair.json(&["merge", &pair.above]);
        pair.assert_landed(&[6], way);
    }
}

#[test]
fn a_plain_rebase_leaves_no_work_of_others_where_it_leaves_the_first_commit_below() {
    for way in ["squash", "forge"] {
        for own in ["--squash", "--no-ff"] {
            let pair = Pair::new();
            land_below(&pair, way);
            pair.moves_on(5);
            let above = pair.json(&["show", &pair.above]);
            let worktree = PathBuf::from(above["worktree_abspath"].as_str().expect("a path"));
            git_in(&worktree, ["rebase", "--quiet", "main"]);
            let left = git_in(&worktree, ["log", "--format=%s", "main.."]);
            assert_eq!(left.matches("agent: spawn").count(), 2, "as git leaves them: {left}");
            let verdict = pair.json(&["verify", &pair.above]);
            assert_eq!(verdict["verdict"], "accept", "{way}: {verdict:#}");
            pair.json(&["merge", &pair.above, own]);
            pair.assert_landed(&[5], way);
        }
    }
}

#[test]
fn the_work_below_is_no_change_of_the_one_above_once_it_has_landed() {
    for way in WAYS {
        let pair = Pair::new();
        let before = pair.repo.agent(&["diff", &pair.above]).stdout;
        land_below(&pair, way);
        pair.moves_on(5);
        let after = pair.repo.agent(&["diff", &pair.above]).stdout;
        assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before), "{way}");
        // One that has done nothing shows nothing.
        let spawned = pair.json(&["spawn", "go on", "--scope", "src/**", "--base", &pair.branch]);
        let shown = pair.json(&["show", spawned["agent_id"].as_str().expect("an id")]);
        assert_eq!(shown["diff"]["files"], 0, "{way}: {shown:#}");
    }
}

#[test]
fn merge_aims_there_too_and_brings_the_work_below_once() {
    for way in WAYS {
        for own in ["--squash", "--no-ff"] {
            let pair = Pair::new();
            land_below(&pair, way);
            pair.moves_on(5);
            let merged = pair.json(&["merge", &pair.above, own]);
            assert_eq!(merged["target"]["ref"], "refs/heads/main", "{way}: {merged}");
            pair.assert_landed(&[5], way);
            let subjects = pair.repo.git(["log", "--format=%s", "main"]).to_lowercase();
            let count = |text: &str| subjects.lines().filter(|line| line.starts_with(text)).count();
            assert_eq!(count("change line 2"), 1, "{way}: {subjects}");
            assert_eq!(count("agent:"), 0, "{way}: {subjects}");
        }
    }
}

#[test]
fn a_train_lands_a_whole_stack_from_below() {
    for words in [&["train", "--all"][..], &["merge", "--all"], &["train"]] {
        let pair = Pair::new();
        // The upper one is named first.
        let mut words = words.to_vec();
        if words == ["train"] {
            words.extend([pair.above.as_str(), pair.below.as_str()]);
        }
        let report = pair.json(&words);
        let targets = report["targets"].as_array().into_iter().flatten();
        let targets: Vec<&Value> = targets.map(|target| &target["ref"]).collect();
        assert!(targets.is_empty() || targets == ["refs/heads/main"], "{report:#}");
        pair.assert_landed(&[], &words.join(" "));
        assert_eq!(pair.json(&["show", &pair.below])["state"], "merged");
    }
}

#[test]
fn a_landing_below_that_is_taken_back_aims_as_before() {
    let pair = Pair::new();
    pair.json(&["merge", &pair.below, "--squash"]);
    let aimed =
        |pair: &Pair| pair.json(&["update", &pair.above, "--dry-run"])["target"]["ref"].clone();
    assert_eq!(aimed(&pair), "refs/heads/main");
    pair.json(&["undo"]);
    assert_eq!(aimed(&pair), format!("refs/heads/{}", pair.branch).as_str());
}

#[test]
fn what_came_below_after_the_branch_above_left_stays_landed() {
    for way in ["squash", "no-ff"] {
        for last in [&["merge"][..], &["merge", "--squash"], &["train"]] {
            let pair = Pair::new();
            let below = pair.json(&["show", &pair.below]);
            let below = below["worktree_abspath"].as_str().expect("a path");
            let below = PathBuf::from(below);
            fs::write(below.join("src/later.txt"), "later\n").expect("written");
            git_in(&below, ["add", "--all"]);
            git_in(&below, ["commit", "--quiet", "-m", "add more"]);
            land_below(&pair, way);
            pair.json(&[last, &[&pair.above]].concat());
            assert_eq!(pair.repo.git(["show", "main:src/later.txt"]), "later", "{way} {last:?}");
            let list = pair.repo.git(["show", "main:src/list.txt"]);
            assert_eq!(format!("{list}\n"), lines(&[(2, "above"), (9, "above")]));
        }
    }
}

#[test]
fn work_that_landed_on_an_agents_branch_lands_along_with_it() {
    for way in ["--no-ff", "--ff-only", "--squash"] {
        let pair = Pair::new();
        let child = pair.json(&["merge", &pair.above, way]);
        assert_eq!(child["target"]["ref"], format!("refs/heads/{}", pair.branch).as_str());
        let worktree = pair.json(&["show", &pair.below]);
        let worktree = worktree["worktree_abspath"].as_str().expect("a path");
        let list = PathBuf::from(worktree).join("src/list.txt");
        let text = fs::read_to_string(&list).expect("read");
        fs::write(&list, text.replace("line 5\n", "below\n")).expect("written");
        pair.json(&["commit", &pair.below, "-m", "go on"]);
        pair.json(&["merge", &pair.below]);
        let text = pair.repo.git(["show", "main:src/list.txt"]);
        let expected = lines(&[(2, "above"), (5, "below"), (9, "above")]);
        assert_eq!(format!("{text}\n"), expected, "{way}");
    }
    // A commit of which no row says so is foreign as before.
    let pair = Pair::new();
    let worktree = pair.json(&["show", &pair.below]);
    let worktree = PathBuf::from(worktree["worktree_abspath"].as_str().expect("a path"));
    let above = pair.json(&["show", &pair.above]);
    let above = above["branch"].as_str().expect("a branch");
    git_in(&worktree, ["merge", "--quiet", "--no-edit", above]);
    let output = pair.repo.agent(&["verify", &pair.below, "--format=json"]);
    let judged: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(judged["findings"][0]["code"], "provenance.foreign-commit");
}

#[test]
fn a_discard_names_the_work_that_landed_on_that_branch_alone() {
    for way in ["--no-ff", "--ff-only", "--squash"] {
        let pair = Pair::new();
        pair.json(&["merge", &pair.above, way]);
        let told = |words: &[&str]| {
            let warnings = pair.json(words)["warnings"].to_string();
            warnings.contains("goes with it") && warnings.contains(&pair.above[..8])
        };
        assert!(told(&["discard", &pair.below, "--dry-run"]), "{way}");
        assert!(told(&["discard", &pair.below]), "{way}");
    }
    // Nothing goes with a branch whose work is on the target, too.
    let pair = Pair::new();
    pair.json(&["merge", &pair.above]);
    pair.json(&["merge", &pair.below]);
    let report = pair.json(&["discard", &pair.below]);
    assert_eq!(report.get("warnings"), None, "{report}");
}

#[test]
fn work_upon_what_a_forge_squashed_lands_after_that_was_collected() {
    let pair = Pair::new();
    // More came below, after the work above had begun.
    let below = pair.json(&["path", &pair.below]);
    let below = PathBuf::from(below["worktree_abspath"].as_str().expect("a path"));
    fs::write(below.join("src/more.txt"), "more\n").expect("written");
    pair.json(&["commit", &pair.below, "-m", "more"]);
    land_below(&pair, "forge");
    pair.moves_on(5);
    let swept = pair.json(&["gc", "--yes"]);
    assert_eq!(swept["agents"][0]["action"], "removed", "{swept:#}");
    let updated = pair.json(&["update", &pair.above]);
    assert_eq!(updated["target"]["ref"], "refs/heads/main", "{updated}");
    pair.json(&["merge", &pair.above]);
    let text = pair.repo.git(["show", "main:src/list.txt"]);
    let expected = lines(&[(2, "above"), (5, "main"), (9, "above")]);
    assert_eq!(format!("{text}\n"), expected);
}

/// What the work of another agent landed as is none of the commits that this branch has of it.
#[test]
fn what_landed_in_another_form_is_no_foreign_work() {
    for taken_back in [false, true] {
        let repo = TestRepo::with_commit();
        let below = Agent::spawned_in(repo, TASK);
        let words = ["spawn", "on top of nothing of it", "--scope", "src"];
        let above = below.repo.agent_json(&words);
        let place = Path::new(above["worktree_abspath"].as_str().expect("a path"));
        below.write("src/below.rs", "// below\n");
        below.commit("below");
        fs::write(place.join("src/above.rs"), "// above\n").expect("written");
        git_in(place, ["add", "."]);
        git_in(place, ["commit", "--quiet", "-m", "above"]);
        git_in(place, ["merge", "--quiet", "--no-edit", &below.branch]);
        below.repo.agent_json(&["merge", &below.id]);
        if taken_back {
            below.repo.git(["revert", "--no-edit", "-m", "1", "HEAD"]);
        }
        let id = above["agent_id"].as_str().expect("an id");
        let judged = below.repo.agent(&["verify", id, "--format=json"]);
        let judged: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
        let is_foreign = judged["findings"].to_string().contains("provenance.foreign-commit");
        assert_eq!(is_foreign, taken_back, "{judged:#}");
    }
}

#[test]
fn the_way_out_of_a_stack_whose_ground_was_taken_back_brings_none_of_that() {
    for is_updated in [false, true] {
        let below = Agent::spawned_in(TestRepo::with_commit(), TASK);
        for name in ["one", "two"] {
            below.write(&format!("src/{name}.rs"), "// below\n");
            below.commit(name);
        }
        let above = below.repo.spawn_task(TASK, &["--base", &below.branch]);
        let id = above["agent_id"].as_str().expect("an id");
        let place = Path::new(above["worktree_abspath"].as_str().expect("a path"));
        fs::write(place.join("src/above.rs"), "// above\n").expect("written");
        git_in(place, ["add", "src"]);
        git_in(place, ["commit", "--quiet", "-m", "above"]);
        below.repo.agent_json(&["merge", &below.id, "--squash"]);
        if is_updated {
            below.repo.agent_json(&["update", id]);
        }
        below.repo.git(["revert", "--no-edit", "HEAD"]);
        let judged = below.repo.agent(&["verify", id, "--format=json"]);
        let judged: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
        let mut findings = judged["findings"].as_array().expect("a list").iter();
        let finding = findings.find(|one| one["code"] == "provenance.base-rewritten");
        let finding = finding.expect("what it stands on is not there");
        let (_, way) = finding["fix"].as_str().and_then(|fix| fix.split_once("run ")).expect("one");
        let rebased = isolated("sh", place).args(["-c", way]).output().expect("starts");
        assert!(rebased.status.success(), "{}", describe(&rebased));
        let names = git_in(place, ["ls-tree", "--name-only", "HEAD", "src/"]);
        assert!(names.contains("src/above.rs") && !names.contains("src/one.rs"), "{names}");
        let again = below.repo.agent(&["verify", id, "--format=json"]);
        assert!(!describe(&again).contains("provenance."), "{}", describe(&again));
    }
}
