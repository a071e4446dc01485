//! Whole lives of pull requests, from the agent that writes them to the row that says that they landed.

use super::offered::{listed, ready};
use super::{from_fork, id, place, work};
use crate::support::agent::describe;
use crate::support::forge::FakeForge;
use crate::support::git_in;
use crate::verify::refused_json;
use serde_json::{Value, json};
use std::fs;

const LIST: &str = "gh pr list --repo github.com/a/b --state open";
const CLOSED: &str = "gh pr list --repo github.com/a/b --state closed";
const STATES: &str = "gh pr list --repo github.com/a/b --state all --limit 200 --json auto";

/// Answers with a page once, so that the next pull request has another number.
fn opens(forge: &FakeForge, number: u32) {
    let entry = forge.answers("gh pr create ", &format!("https://github.com/a/b/pull/{number}\n"));
    fs::write(entry.join("once"), "").expect("written");
}

/// What the forge does with branches: merges each as it would, and deletes it.
fn lands(forge: &FakeForge, branches: &[&str], words: &[&str]) {
    let work = forge.clone.with_file_name("forge");
    let _ = fs::remove_dir_all(&work);
    let bare = forge.hub.bare.to_str().expect("UTF-8");
    git_in(&forge.clone, ["clone", "--quiet", bare, work.to_str().expect("UTF-8")]);
    for branch in branches {
        git_in(&work, [&["merge", "--quiet"], words, &[&format!("origin/{branch}")]].concat());
        if words.contains(&"--squash") {
            git_in(&work, ["commit", "--quiet", "-m", &format!("{branch} (#1)")]);
        }
        git_in(&work, ["push", "--quiet", "origin", "HEAD:main", &format!(":{branch}")]);
    }
}

/// The answer of `list --ci` about pull requests.
fn states(forge: &FakeForge, requests: &[(u32, &str, &str, &str)]) -> Vec<Value> {
    let request = |(number, branch, tip, state): &(u32, &str, &str, &str)| {
        let check = json!({"status": "COMPLETED", "conclusion": "SUCCESS"});
        json!({"headRefName": branch, "headRefOid": tip, "isCrossRepository": false, "number": number, "state": state,
            "statusCheckRollup": [check], "url": format!("https://github.com/a/b/pull/{number}")})
    };
    let requests: Vec<_> = requests.iter().map(request).collect();
    let entry = forge.answers(STATES, &json!(requests).to_string());
    let shown = forge.json(&["list", "--ci", "--all"]);
    fs::remove_dir_all(entry).expect("removed");
    shown["agents"].as_array().expect("rows").clone()
}

fn outcomes(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().expect("items").iter();
    items.map(|item| item["outcome"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn a_request_of_a_fork_is_continued_answered_and_merged() {
    let forge = FakeForge::new("github.com");
    let (bare, clone) = (&forge.hub.bare, &forge.clone);
    let main = git_in(bare, ["rev-parse", "main"]);
    forge.commit(&forge.fork, ("main", "topic"), &[("theirs.txt", "theirs\n")]);
    let show = || {
        let fork = forge.fork.to_str().expect("UTF-8");
        git_in(bare, ["fetch", "--quiet", "--force", fork, "topic:refs/pull/8/head"])
    };
    show();
    let answer = forge.answers("gh pr view 8 ", &from_fork("topic", true).to_string());
    // 1. The forge is busy, and then it is not; the same command goes on.
    let entry =
        forge.fails("gh pr view 8 ", "HTTP 403: You have exceeded a secondary rate limit", 1);
    let words = [
        "run",
        "--pr=8",
        "--issue=3",
        "--no-bundle",
        "--format=json",
        "--",
        "sh",
        "-c",
        "echo one > src/two.rs",
    ];
    refused_json(&forge.run(&words), "remote-busy", 5);
    fs::remove_dir_all(entry).expect("removed");
    let issue = json!({"title": "It is slow", "body": "$(touch pwned)"}).to_string();
    forge.answers("gh issue view 3 ", &issue);
    let output = forge.run(&words);
    assert!(output.status.success(), "{}", describe(&output));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let agent = run["agent_id"].as_str().expect("an id").to_owned();
    let shown = forge.json(&["show", &agent]);
    assert_eq!(shown["base"]["ref"], "refs/heads/pr/8", "{shown:#}");
    let prompt = shown["task"].as_str().expect("a text");
    for part in ["Continue pull request 8.", "> From a fork", "> It is slow", "> $(touch pwned)"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    // 2. It lands on the branch of the fork, and what is written there comes back.
    forge.json(&["merge", &agent, "--push"]);
    assert_eq!(git_in(&forge.fork, ["show", "topic:src/two.rs"]), "one");
    // This clone knows that it is there, and nothing is left to merge.
    let there = git_in(&forge.fork, ["rev-parse", "topic"]);
    assert_eq!(git_in(clone, ["rev-parse", "refs/remotes/origin/pr/8"]), there);
    assert_eq!(forge.json(&["gc"])["agents"][0]["action"], "remove");
    show();
    let comment = json!([{"id": 1, "body": "Say two.", "user": {"login": "r"}, "created_at": "2026-01-02T03:04:05Z"}]);
    forge.answers("gh api repos/a/b/pulls/8/", "[]");
    forge.answers("gh api repos/a/b/issues/8/comments ", &comment.to_string());
    let second = forge.json(&[
        "spawn",
        "--pr",
        "https://github.com/a/b/pull/8",
        "answer the review",
        "--no-bundle",
    ]);
    let heard = forge.json(&["pr", &id(&second), "--comments"]);
    assert_eq!(heard["comments"], 1, "{heard:#}");
    assert_eq!(heard["url"], "https://github.com/a/b/pull/8");
    // Under that pull request, whatever remote is the usual one.
    git_in(clone, ["remote", "rename", "origin", "upstream"]);
    git_in(clone, ["remote", "add", "origin", "https://github.com/f/b.git"]);
    assert_eq!(forge.json(&["pr", &id(&second), "--comments"])["url"], heard["url"]);
    git_in(clone, ["remote", "remove", "origin"]);
    git_in(clone, ["remote", "rename", "upstream", "origin"]);
    let inbox = describe(&forge.run(&["receive", "--agent", &id(&second), "--peek"]));
    assert!(inbox.contains("> Say two."), "{inbox}");
    work(&forge, &second, "src/two.rs");
    let second = id(&second);
    // Somebody pushes to the fork meanwhile: nothing of theirs is lost.
    forge.commit(&forge.fork, ("topic", "topic"), &[("more.txt", "more\n")]);
    show();
    forge.json(&["merge", &second, "--push"]);
    let held = git_in(&forge.fork, ["ls-tree", "-r", "--name-only", "topic"]);
    assert!(held.contains("more.txt") && held.contains("theirs.txt"), "{held}");
    assert_eq!(git_in(&forge.fork, ["show", "topic:src/two.rs"]), "work");
    // 3. The forge merges it; no work lands on it any more.
    assert_eq!(git_in(bare, ["rev-parse", "main"]), main);
    show();
    git_in(bare, ["update-ref", "refs/heads/main", "refs/pull/8/head"]);
    let mut merged = from_fork("topic", true);
    merged["state"] = json!("MERGED");
    fs::write(answer.join("out"), merged.to_string()).expect("written");
    refused_json(&forge.run(&["spawn", "--pr=8", "x y", "--format=json"]), "usage", 2);
    for agent in [&agent, &second] {
        assert_eq!(forge.json(&["show", agent])["state"], "merged");
    }
    assert!(!clone.join("pwned").exists() && !forge.programs.join("pwned").exists());
}

#[test]
fn a_stack_is_reviewed_lands_from_below_and_is_aimed_anew() {
    let forge = FakeForge::new("github.com");
    let bare = &forge.hub.bare;
    let (below, low) = ready(&forge, &[], "src/two.rs");
    let (above, top) = ready(&forge, &["--base", &low], "src/three.rs");
    for agent in [&below, &above] {
        forge.json(&["mark", "done", agent, "--summary", "so"]);
    }
    // 1. Both are offered, the lower one first.
    let list = forge.answers(LIST, "[]");
    let open =
        |requests: Value| fs::write(list.join("out"), requests.to_string()).expect("written");
    forge.answers(CLOSED, "[]");
    opens(&forge, 8);
    opens(&forge, 7);
    let all = forge.json(&["pr", "--all"]);
    assert_eq!(outcomes(&all), ["created", "created"], "{all:#}");
    let told = forge.told();
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
    assert!(at("--base main ") < at(&format!("--base {low} ")));
    assert_eq!(git_in(bare, ["log", "--format=%s", &format!("{low}..{top}")]), "src/three.rs");
    // 2. A review of the lower one is answered, and both follow.
    open(json!([listed(7, &low), listed(8, &top)]));
    forge.answers("gh pr edit ", "");
    let review = json!([{"id": 4, "body": "Too short.", "user": {"login": "r"}, "submitted_at": "2026-01-02T03:04:05Z", "state": "CHANGES_REQUESTED"}]);
    forge.answers("gh api repos/a/b/pulls/7/comments ", "[]");
    forge.answers("gh api repos/a/b/pulls/7/reviews ", &review.to_string());
    forge.answers("gh api repos/a/b/issues/7/comments ", "[]");
    assert_eq!(forge.json(&["pr", &below, "--comments"])["comments"], 1);
    let shown = forge.json(&["show", &below]);
    fs::write(place(&shown).join("src/two.rs"), "longer\n").expect("written");
    forge.json(&["commit", &below, "-m", "Say more"]);
    forge.json(&["update", &above]);
    for agent in [&below, &above] {
        forge.json(&["mark", "done", agent, "--summary", "so"]);
    }
    let all = forge.json(&["pr", "--all"]);
    assert_eq!(outcomes(&all), ["updated", "updated"], "{all:#}");
    assert_eq!(git_in(bare, ["show", &format!("{top}:src/two.rs")]), "longer");
    // 3. The forge squashes the lower one and deletes its branch; the upper one is aimed at main.
    let tips = [&low, &top].map(|branch| git_in(&forge.clone, ["rev-parse", branch]));
    lands(&forge, &[&low], &["--squash"]);
    let rows = states(&forge, &[(7, &low, &tips[0], "MERGED"), (8, &top, &tips[1], "OPEN")]);
    let seen: Vec<_> =
        rows.iter().map(|row| row["ci"]["state"].as_str().expect("a word")).collect();
    assert!(seen.contains(&"merged") && seen.contains(&"open"), "{seen:?}");
    open(json!([listed(8, &top)]));
    forge.told();
    let all = forge.json(&["pr", "--all"]);
    assert_eq!(outcomes(&all), ["landed", "updated"], "{all:#}");
    // CI sees the upper one alone, judged by what its first commit carries.
    let own = ["log", "--format=%s", &format!("main..{top}")];
    assert_eq!(git_in(bare, own), "src/three.rs");
    git_in(&forge.clone, ["fetch", "--quiet", "--prune"]);
    let tip = format!("origin/{top}");
    let words = ["verify", "--ci", "--base", "origin/main", "--tip", &tip, "--branch", &top];
    let verdict = forge.json(&words);
    assert_eq!(verdict["agent_id"], above.as_str(), "{verdict:#}");
    // Neither a second time nor an exchange moves it, though the target goes on.
    let pushed = git_in(bare, ["rev-parse", &top]);
    forge.commit(bare, ("main", "main"), &[("more.txt", "more\n")]);
    assert_eq!(outcomes(&forge.json(&["pr", "--all"])), ["updated"]);
    forge.json(&["sync"]);
    assert_eq!(git_in(bare, ["rev-parse", &top]), pushed);
    assert_eq!(all["items"][1].get("stacked_on"), None, "{all:#}");
    assert!(forge.told().contains("gh pr edit 8 --repo github.com/a/b --base main "));
    assert_eq!(forge.json(&["show", &below])["state"], "merged");
    // 4. So does the upper one, and nothing is offered or pushed any more.
    lands(&forge, &[&top], &["--no-ff", "-m", "Merge pull request #8"]);
    open(json!([]));
    assert_eq!(outcomes(&forge.json(&["pr", "--all"])), ["landed"]);
    assert_eq!(forge.json(&["show", &above])["state"], "merged");
    forge.json(&["sync"]);
    for branch in [&low, &top] {
        assert!(!FakeForge::has(bare, branch), "{branch} is there again");
    }
}

#[test]
fn what_goes_on_after_a_squash_of_the_forge_is_offered_without_what_landed() {
    let forge = FakeForge::new("github.com");
    let bare = &forge.hub.bare;
    let (agent, branch) = ready(&forge, &[], "src/two.rs");
    let shown = forge.json(&["show", &agent]);
    fs::write(place(&shown).join("src/three.rs"), "work\n").expect("written");
    forge.json(&["commit", &agent, "-m", "src/three.rs"]);
    let done = || forge.json(&["mark", "done", &agent, "--summary", "so"]);
    done();
    forge.answers(LIST, "[]");
    forge.answers(CLOSED, "[]");
    opens(&forge, 7);
    assert_eq!(forge.json(&["pr", &agent])["outcome"], "created");
    lands(&forge, &[&branch], &["--squash"]);
    assert_eq!(outcomes(&forge.json(&["pr", "--all"])), ["landed"]);
    // It changes its mind about one file, and goes on with the other.
    fs::remove_file(place(&shown).join("src/two.rs")).expect("removed");
    fs::write(place(&shown).join("src/three.rs"), "more work\n").expect("written");
    forge.json(&["commit", &agent, "-m", "another way"]);
    done();
    opens(&forge, 8);
    assert_eq!(forge.json(&["pr", &agent])["outcome"], "created");
    let own = ["log", "--format=%s", &format!("main..{branch}")];
    assert_eq!(git_in(bare, own), "another way");
    // Another commit of the target is no reason to push again.
    let pushed = git_in(bare, ["rev-parse", &branch]);
    forge.commit(bare, ("main", "main"), &[("more.txt", "more\n")]);
    forge.answers(LIST, &json!([listed(8, &branch)]).to_string());
    forge.answers("gh pr edit ", "");
    assert_eq!(forge.json(&["pr", &agent])["outcome"], "updated");
    assert_eq!(git_in(bare, ["rev-parse", &branch]), pushed);
    lands(&forge, &[&branch], &["--squash"]);
    let changed = git_in(bare, ["diff-tree", "-r", "--no-commit-id", "--name-status", "main"]);
    assert_eq!(changed, "M\tsrc/three.rs\nD\tsrc/two.rs");
    assert_eq!(outcomes(&forge.json(&["pr", "--all"])), ["landed"]);
    assert_eq!(forge.json(&["show", &agent])["state"], "merged");
}

#[test]
fn what_a_forge_merged_is_told_from_what_came_after_though_no_row_says_so() {
    let words = ["--no-ff", "-m", "Merge pull request #1"];
    let forge = FakeForge::new("github.com");
    let (bare, clone) = (&forge.hub.bare, &forge.clone);
    let (agent, branch) = ready(&forge, &[], "src/two.rs");
    let place = place(&forge.json(&["show", &agent]));
    let goes_on = |what: &str, file: &str, content: &str| {
        fs::write(place.join(file), content).expect("written");
        forge.json(&["commit", &agent, "-m", what]);
    };
    goes_on("three", "src/three.rs", "work\n");
    forge.answers(LIST, "[]");
    forge.answers(CLOSED, "[]");
    opens(&forge, 1);
    assert_eq!(forge.json(&["pr", &agent])["outcome"], "created");
    lands(&forge, &[&branch], &words);
    git_in(clone, ["pull", "--quiet", "--ff-only"]);
    fs::remove_file(place.join("src/two.rs")).expect("removed");
    goes_on("another way", "src/three.rs", "more work\n");
    let names = |shown: &Value| {
        let changes = shown["changes"].as_array().expect("a list").iter();
        changes.map(|one| one["path"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let expected = ["src/three.rs", "src/two.rs"];
    assert_eq!(names(&forge.json(&["diff", &agent])), expected, "{words:?}");
    // What is offered and what would land are the same.
    opens(&forge, 2);
    assert_eq!(forge.json(&["pr", &agent])["outcome"], "created", "{words:?}");
    let offered = git_in(bare, ["merge-tree", "--write-tree", "main", &branch]);
    forge.json(&["merge", &agent, "--push"]);
    assert_eq!(git_in(bare, ["rev-parse", "main^{tree}"]), offered, "{words:?}");
    assert!(!git_in(bare, ["ls-tree", "-r", "--name-only", "main"]).contains("src/two.rs"));
    assert_eq!(forge.json(&["show", &agent])["state"], "merged");
}

#[test]
fn what_this_program_pushed_before_is_no_work_of_others() {
    let forge = FakeForge::new("github.com");
    let clone = &forge.clone;
    forge.answers(LIST, "[]");
    forge.answers(CLOSED, "[]");
    let goes_on = |agent: &str, file: &str| {
        let place = place(&forge.json(&["show", agent]));
        fs::write(place.join(file), "work\n").expect("written");
        forge.json(&["commit", agent, "-m", file]);
        opens(&forge, 1);
        assert_eq!(forge.json(&["pr", agent])["outcome"], "created", "{file}");
    };
    // What landed as it is has its first commit there, and the branch of the remote has not.
    let (agent, _) = ready(&forge, &[], "src/two.rs");
    goes_on(&agent, "src/three.rs");
    forge.json(&["merge", &agent, "--ff-only", "--push"]);
    goes_on(&agent, "src/four.rs");
    // An update brings what was offered on top of a squash.
    let (agent, branch) = ready(&forge, &[], "src/five.rs");
    goes_on(&agent, "src/six.rs");
    lands(&forge, &[&branch], &["--squash"]);
    git_in(clone, ["pull", "--quiet", "--ff-only"]);
    goes_on(&agent, "src/seven.rs");
    forge.json(&["update", &agent]);
    goes_on(&agent, "src/eight.rs");
    // Of another writer there, nothing is lost.
    let other = clone.with_file_name("other");
    let bare = forge.hub.bare.to_str().expect("UTF-8");
    git_in(clone, ["clone", "--quiet", "--branch", &branch, bare, other.to_str().expect("UTF-8")]);
    git_in(&other, ["commit", "--quiet", "--allow-empty", "-m", "mine"]);
    git_in(&other, ["push", "--quiet"]);
    refused_json(&forge.run(&["pr", &agent, "--format=json"]), "not-fast-forward", 3);
}

#[test]
fn a_stack_of_three_lands_one_after_the_other() {
    for words in [&["--no-ff", "-m", "Merge pull request #1"][..], &["--squash"]] {
        let forge = FakeForge::new("github.com");
        let bare = &forge.hub.bare;
        forge.answers(LIST, "[]");
        forge.answers(CLOSED, "[]");
        let (mut stack, mut below) = (Vec::new(), "main".to_owned());
        for file in ["src/two.rs", "src/three.rs", "src/four.rs"] {
            let (agent, branch) = ready(&forge, &["--base", &below], file);
            below.clone_from(&branch);
            opens(&forge, 1);
            assert_eq!(forge.json(&["pr", &agent])["outcome"], "created", "{words:?}");
            stack.push((agent, branch, file));
        }
        for (agent, branch, file) in &stack {
            opens(&forge, 2);
            assert_eq!(forge.json(&["pr", agent])["outcome"], "created", "{words:?}: {file}");
            let own = ["log", "--no-merges", "--format=%s", &format!("main..{branch}")];
            assert_eq!(git_in(bare, own), *file, "{words:?}");
            lands(&forge, &[branch], words);
        }
        assert_eq!(git_in(bare, ["ls-tree", "--name-only", "main", "src/four.rs"]), "src/four.rs");
        // Every command tells the same of those above as of the lowest, also once what was below them is gone.
        git_in(&forge.clone, ["pull", "--quiet", "--prune"]);
        let sent = forge.json(&["sync"]);
        for branch in sent["branches"].as_array().expect("branches") {
            assert_eq!(branch["state"], "landed", "{words:?}: {sent}");
        }
        for (agent, _, file) in &stack {
            let shown = forge.json(&["show", agent]);
            assert_eq!(shown["landed_on"]["ref"], "refs/heads/main", "{words:?}: {file}");
            assert_eq!(shown["target"]["ref"], "refs/heads/main", "{words:?}: {file}");
            if *file == "src/two.rs" {
                forge.json(&["discard", agent]);
            }
        }
        forge.json(&["gc", "--yes"]);
        for (agent, ..) in &stack[1..] {
            let shown = forge.json(&["show", agent]);
            assert_eq!(shown["state"], "merged", "{words:?}: {shown}");
            let merged = shown["events"].as_array().expect("events").iter();
            let mut merged = merged.filter(|event| event["event"] == "merged");
            let into = merged.next().expect("an event")["detail"].as_str().expect("a text");
            assert!(into.ends_with(" into main"), "{words:?}: {into}");
        }
    }
}

#[test]
fn what_an_update_brought_and_the_target_took_back_does_not_come_again() {
    for words in [&["--no-ff", "-m", "Merge pull request #1"][..], &["--squash"]] {
        let forge = FakeForge::new("github.com");
        forge.answers(LIST, "[]");
        forge.answers(CLOSED, "[]");
        opens(&forge, 1);
        let (agent, branch) = ready(&forge, &[], "src/two.rs");
        forge.json(&["pr", &agent]);
        // The offer stays as it is, and the branch takes in what a person takes back.
        let clone = &forge.clone;
        fs::write(clone.join("bad.txt"), "bad\n").expect("written");
        git_in(clone, ["add", "bad.txt"]);
        git_in(clone, ["commit", "--quiet", "-m", "bad"]);
        forge.json(&["update", &agent]);
        git_in(clone, ["revert", "--no-edit", "HEAD"]);
        git_in(clone, ["push", "--quiet", "origin", "main"]);
        lands(&forge, &[&branch], words);
        git_in(clone, ["pull", "--quiet", "--prune"]);
        let verdict = forge.json(&["verify", &agent]);
        assert_eq!(verdict["merge"]["state"], "merged", "{words:?}: {verdict}");
        assert_eq!(forge.json(&["merge", &agent])["outcome"], "already-merged", "{words:?}");
        assert!(clone.join("src/two.rs").exists() && !clone.join("bad.txt").exists(), "{words:?}");
    }
}

#[test]
fn work_that_a_train_accepted_goes_through_the_queue_without_another_check() {
    let forge = FakeForge::new("github.com");
    let (bare, clone) = (&forge.hub.bare, &forge.clone);
    let runs = clone.with_file_name("runs");
    fs::create_dir(&runs).expect("made");
    git_in(clone, ["config", "agent.run.allowWrite", runs.to_str().expect("UTF-8")]);
    let settings = format!(
        "[checks]\ncommands = [\"echo >> '{}/log'; ! grep -q bad src/*\"]\n",
        runs.display()
    );
    forge.commit(bare, ("main", "main"), &[(".config/git-agent.toml", &settings)]);
    git_in(clone, ["pull", "--quiet"]);
    let count = || fs::read_to_string(runs.join("log")).unwrap_or_default().lines().count();
    let agents: Vec<_> =
        ["src/two.rs", "src/three.rs", "src/bad.rs"].map(|file| ready(&forge, &[], file)).into();
    let bad = forge.json(&["show", &agents[2].0]);
    fs::write(place(&bad).join("src/bad.rs"), "bad\n").expect("written");
    forge.json(&["commit", &agents[2].0, "-m", "bad"]);
    for (agent, _) in &agents {
        forge.json(&["mark", "done", agent, "--summary", "so"]);
    }
    // 1. The train decides, and lands nothing.
    let output = forge.run(&["train", "--all", "--no-land", "--format=json"]);
    let train: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found = outcomes(&train);
    found.sort_unstable();
    assert_eq!(found, ["accepted", "accepted", "rejected"], "{train:#}");
    let checked = count();
    // 2. What is good goes to the queue of the forge, which takes it while it is what was judged.
    let list = forge.answers(LIST, "[]");
    forge.answers(CLOSED, "[]");
    opens(&forge, 12);
    opens(&forge, 11);
    let rules = json!({"autoMergeAllowed": false, "mergeCommitAllowed": true, "squashMergeAllowed": true, "mergeQueue": {"id": "Q"},
        "pullRequest": {"id": "P", "isInMergeQueue": false}});
    forge.answers("gh api graphql ", &json!({"data": {"repository": rules}}).to_string());
    let all = forge.json(&["pr", "--all", "--queue"]);
    assert_eq!(outcomes(&all), ["queued", "queued"], "{all:#}");
    assert_eq!(count(), checked, "a check was paid for twice");
    let told = forge.told();
    assert_eq!(told.matches("enqueuePullRequest").count(), 2, "{told}");
    for item in all["items"].as_array().expect("items") {
        assert!(told.contains(&format!("-f tip={}", item["tip"].as_str().expect("an oid"))));
    }
    assert!(!FakeForge::has(bare, &agents[2].1));
    // The text says where the results come from.
    let body = fs::read_to_string(forge.programs.join("body")).expect("a text");
    assert!(body.contains("taken over"), "{body}");
    // 3. Both wait; then the queue merges them as a group, which CI judges part by part.
    let tips = [0, 1].map(|at| git_in(bare, ["rev-parse", &agents[at].1]));
    let places = json!([{"number": 11, "mergeQueueEntry": {"position": 1, "state": "AWAITING_CHECKS"}}, {"number": 12, "mergeQueueEntry": {"position": 2, "state": "QUEUED"}}]);
    forge.answers(
        "gh api graphql ",
        &json!({"data": {"repository": {"pullRequests": {"nodes": places}}}}).to_string(),
    );
    let rows = states(
        &forge,
        &[(11, &agents[0].1, &tips[0], "OPEN"), (12, &agents[1].1, &tips[1], "OPEN")],
    );
    let queued: Vec<_> =
        rows.iter().filter_map(|row| row["ci"]["queue"]["position"].as_u64()).collect();
    assert_eq!(queued.len(), 2, "{rows:?}");
    lands(&forge, &[&agents[0].1, &agents[1].1], &["--no-ff", "-m", "Merge pull request"]);
    git_in(clone, ["fetch", "--quiet"]);
    let output =
        forge.run(&["verify", "--ci", "--base", "main", "--tip", "origin/main", "--format=json"]);
    let parts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(parts["parts"].as_array().map(Vec::len), Some(2), "{parts:#}");
    // 4. The rows say so, and the one that was rejected stays.
    fs::write(list.join("out"), "[]").expect("written");
    assert_eq!(outcomes(&forge.json(&["pr", "--all", "--queue"])), ["landed", "landed"]);
    let states = agents.iter().map(|(agent, _)| forge.json(&["show", agent])["state"].clone());
    assert_eq!(json!(states.collect::<Vec<_>>()), json!(["merged", "merged", "idle"]));
}
