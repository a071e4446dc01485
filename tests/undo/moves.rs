use super::{Team, team};
use crate::support::agent::{agent_command, describe, json_of};
use crate::support::git_in;
use crate::verify::Agent;
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Adds lines to the row of an agent, as another clone can that may push the ledger: dated ahead, with the number of this one.
fn forge(team: &Team, number: usize, operation: &str, events: &[(&str, Value)]) {
    let shown = team.json(&["show", team.id(number)]);
    let spawn = shown["spawn_commit"].as_str().expect("an oid");
    let clone = &shown["clone_id"].as_str().expect("a number");
    let time = (Utc::now() + TimeDelta::seconds(30)).format("%Y%m%dT%H%M%S");
    for (count, (kind, facts)) in events.iter().enumerate() {
        let line = json!({
            "t": format!("{time}.{count:06}Z-000-{clone}"), "a": team.id(number), "e": kind, "by": "me", "o": operation,
            "d": facts,
        });
        let line = line.to_string();
        team.repo.git(["notes", "--ref=agents", "append", "--no-separator", "-m", &line, spawn]);
    }
}

#[test]
fn what_a_row_says_that_this_clone_landed_moves_nothing() {
    let team = team(2);
    let before = team.main();
    // Work that was not judged, and a landing by which main came from there.
    let worktree = &team.agents[0].1;
    git_in(worktree, ["add", "--all"]);
    git_in(worktree, ["commit", "--quiet", "-m", "not judged"]);
    let unjudged = git_in(worktree, ["rev-parse", "HEAD"]);
    let merged = |from: &str, to: &str| json!({"commit": to, "into": "refs/heads/main", "tip": to, "from": from});
    let verified = json!({
        "accepted": true, "tip": before, "base": unjudged, "tree": before, "policy": before, "findings": [],
    });
    let events = [("verified", verified), ("merged", merged(&unjudged, &before))];
    forge(&team, 0, "op-beefbeefbeef", &events);
    let listed = team.operations();
    let forged = listed.iter().find(|one| one["operation"] == "op-beefbeefbeef");
    assert_eq!(forged.expect("listed")["obstacle"], "other-clone");
    for words in [&["undo", "op-beef"][..], &["undo", "op-beef", "--revert"]] {
        assert_eq!(team.refusal(words), ("agent-state".to_owned(), 3));
    }
    // What this clone did last is taken back, and that alone.
    let report = team.json(&["undo"]);
    assert_eq!(report["agents"][0]["agent_id"], team.id(1));
    assert_eq!((&report["moves"], team.main()), (&json!([]), before.clone()));
    // Nor is it a part of an operation of this clone whose id it has.
    team.json(&["mark", "done", team.id(1), "-m", "finished"]);
    team.json(&["merge", team.id(1)]);
    let landed = team.main();
    let landing = team.operations().into_iter();
    let mut landing = landing.filter(|one| one["obstacle"].is_null());
    let landing = landing.next().expect("a landing")["operation"].clone();
    let landing = landing.as_str().expect("an id");
    for number in [0, 1] {
        forge(&team, number, landing, &[("merged", merged(&unjudged, &landed))]);
    }
    let report = team.json(&["undo", landing]);
    assert_eq!(report["agents"].as_array().map(Vec::len), Some(1));
    assert_eq!(team.main(), before);
}

#[test]
fn a_fast_forward_over_a_new_commit_goes_back_to_where_the_branch_was() {
    let team = team(2);
    team.json(&["discard", team.id(0)]);
    let before = team.main();
    team.json(&["merge", team.id(1), "--ff-only"]);
    let landed = team.main();
    assert_eq!(team.operations()[0]["moves"][0]["from"], before.as_str());
    let report = team.json(&["undo"]);
    let expected = json!([{"ref": "refs/heads/main", "from": landed, "to": before}]);
    assert_eq!(report["moves"], expected);
    assert_eq!((team.main(), team.state(0)), (before, "discarded".to_owned()));
    team.assert_sound();
}

#[test]
fn what_had_landed_already_moves_no_branch_and_keeps_no_train_from_going_back() {
    let team = team(3);
    for (_, worktree) in &team.agents[..2] {
        fs::write(worktree.join("src/same.rs"), "pub fn same() {}\n").expect("written");
        fs::remove_file(worktree.join("src/file-0.rs")).ok();
        fs::remove_file(worktree.join("src/file-1.rs")).ok();
    }
    let before = team.main();
    let states = |team: &Team| [0, 1, 2].map(|it| team.state(it));
    team.json(&["merge", "--all"]);
    assert_eq!(states(&team), ["merged"; 3]);
    team.json(&["undo"]);
    assert_eq!((team.main(), states(&team)), (before, ["done"; 3].map(str::to_owned)));
    // One by one: only the mark of the second goes.
    team.json(&["merge", team.id(0)]);
    let landed = team.main();
    let second = team.json(&["merge", team.id(1)]);
    assert_eq!(second["outcome"], "already-merged");
    let report = team.json(&["undo", team.id(1)]);
    assert_eq!(report["moves"], json!([]));
    assert_eq!((team.main(), team.state(1)), (landed.clone(), "done".to_owned()));
    // The same of one that landed itself, and is landed again after a run that did nothing.
    let ran = team.repo.agent(&["run", team.id(0), "--", "true"]);
    assert!(ran.status.success());
    let again = team.json(&["merge", team.id(0)]);
    assert_eq!(again["outcome"], "already-merged");
    let report = team.json(&["undo", team.id(0)]);
    assert_eq!((&report["moves"], team.main()), (&json!([]), landed));
    team.assert_sound();
}

#[test]
fn the_revert_of_one_landing_of_a_train_is_advised_and_planned_as_it_is_done() {
    let team = team(3);
    team.json(&["merge", "--all"]);
    team.repo.write("README.md", "later work\n");
    let later = team.repo.commit_all("later");
    let id = team.id(1);
    let output = team.repo.agent(&["undo", id]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("run git agent undo --revert {id}\n")), "{said}");
    let planned = team.json(&["undo", id, "--revert", "--dry-run"]);
    let expected = json!([{"ref": "refs/heads/main", "from": later}]);
    assert_eq!(planned["moves"], expected);
    let done = team.json(&["undo", id, "--revert"]);
    let expected = json!([{"ref": "refs/heads/main", "from": later, "to": team.main()}]);
    assert_eq!(done["moves"], expected);
    let gone = team.repo.git(["diff", "--name-only", &later, "main"]);
    assert_eq!(gone, "src/file-1.rs");
    assert_eq!([0, 1, 2].map(|it| team.state(it)), ["merged", "done", "merged"]);
}

#[test]
fn a_revert_of_several_landings_makes_all_of_them_or_moves_nothing() {
    let team = team(2);
    team.json(&["merge", "--all"]);
    let landed = team.main();
    // What stands on the older landing; the newer one could be reverted alone.
    team.repo.write("src/file-0.rs", "pub fn two() -> u8 { 2 }\n");
    let later = team.repo.commit_all("later");
    for words in [&["undo", "--revert", "--dry-run"][..], &["undo", "--revert"]] {
        let refusal = team.refusal(words);
        assert_eq!((refusal, team.main()), (("update-conflicts".to_owned(), 3), later.clone()));
    }
    assert_eq!([0, 1].map(|it| team.state(it)), ["merged"; 2]);
    team.assert_sound();
    // Once nothing conflicts, both commits come by one move.
    team.repo.git(["revert", "--no-edit", &later]);
    let clean = team.main();
    let done = team.json(&["undo", "--revert"]);
    let expected = json!([{"ref": "refs/heads/main", "from": clean, "to": team.main()}]);
    assert_eq!(done["moves"], expected);
    assert_eq!(team.repo.git(["rev-parse", "main~2"]), clean);
    let gone = team.repo.git(["diff", "--name-only", &landed, "main"]);
    assert_eq!(gone, "src/file-0.rs\nsrc/file-1.rs");
    assert_eq!([0, 1].map(|it| team.state(it)), ["done"; 2]);
    team.assert_sound();
}

#[test]
fn a_discard_that_a_rescue_took_back_is_not_taken_back_again() {
    let team = team(1);
    let id = team.id(0);
    team.json(&["discard", id]);
    team.json(&["rescue", id, "--reopen"]);
    let state = team.state(0);
    let discard = &team.operations()[0];
    assert_eq!(
        (&discard["events"], &discard["obstacle"]),
        (&json!(["discarded"]), &json!("undone"))
    );
    let discard = discard["operation"].as_str().expect("an id");
    assert_eq!(team.refusal(&["undo", discard]).0, "agent-state");
    assert_eq!(team.state(0), state);
    // What came before it is next.
    team.json(&["undo"]);
    assert_eq!(team.refusal(&["undo"]).0, "operation-unknown");
    assert_eq!(team.state(0), state);
    // A discard after that counts again.
    team.json(&["discard", id]);
    team.json(&["undo"]);
    assert!(team.agents[0].1.exists());
}

#[test]
fn a_landing_that_was_reverted_lands_again_only_with_all_of_it() {
    for method in ["--no-ff", "--ff-only"] {
        let team = team(1);
        let (id, worktree) = &team.agents[0];
        team.json(&["merge", id, method]);
        team.repo.write("README.md", "later work\n");
        team.repo.commit_all("later");
        let undone = team.json(&["undo", "--revert"]);
        let undo = undone["undone_by"].as_str().expect("an operation");
        let before = team.main();
        // As it is, and with work that came since: a merge would bring only that.
        for name in [None, Some("src/more.rs")] {
            if let Some(name) = name {
                fs::write(worktree.join(name), "pub fn more() {}\n").expect("written");
            }
            assert_eq!(team.refusal(&["merge", id]).1, 3);
            let judged = team.repo.agent(&["verify", id, "--format=json"]);
            let judged: Value = serde_json::from_slice(&judged.stdout).expect("an object");
            let code = &judged["findings"][0]["code"];
            assert_eq!(code, "merge.reverted", "{judged}");
            let fix = judged["findings"][0]["fix"].as_str().expect("a text");
            assert!(fix.ends_with(&format!("git agent undo {undo}")), "{fix}");
            assert_eq!(team.main(), before);
        }
        assert_eq!(team.refusal(&["update", id]), ("agent-state".to_owned(), 3));
        assert!(worktree.join("src/file-0.rs").exists());
        // The way that it names.
        team.json(&["undo", undo]);
        team.json(&["merge", id]);
        let landed = team.repo.git(["ls-tree", "--name-only", "main", "src/"]);
        assert!(landed.contains("src/file-0.rs") && landed.contains("src/more.rs"), "{landed}");
        team.assert_sound();
    }
}

#[test]
fn a_landing_that_was_pushed_and_reverted_has_not_landed() {
    let team = team(1);
    let place = team.repo.path().with_file_name("origin.git");
    let url = place.to_str().expect("UTF-8");
    team.repo.git(["init", "--quiet", "--bare", url]);
    team.repo.git(["remote", "add", "origin", url]);
    team.land(0);
    team.repo.git(["push", "--quiet", "--set-upstream", "origin", "main"]);
    team.json(&["undo", "--revert"]);
    // The copy of the remote's branch has the work still, and the branch has taken it back.
    for step in ["reverted", "pushed"] {
        let swept = team.json(&["gc", "--yes"]);
        assert_eq!(swept["agents"][0]["action"], "keep", "{step}: {swept:#}");
        assert_ne!(team.state(0), "merged", "{step}");
        team.repo.git(["push", "--quiet"]);
    }
}

#[test]
fn a_squash_that_was_reverted_lands_again() {
    let team = team(1);
    let id = team.id(0);
    team.json(&["merge", id, "--squash"]);
    team.repo.write("README.md", "later work\n");
    team.repo.commit_all("later");
    team.json(&["undo", "--revert"]);
    assert!(!team.repo.path().join("src/file-0.rs").exists());
    team.json(&["merge", id, "--squash"]);
    assert!(team.repo.path().join("src/file-0.rs").exists());
    team.assert_sound();
}

#[test]
fn an_update_that_work_stands_on_stays() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    team.json(&["commit", id, "-m", "one"]);
    team.repo.write("README.md", "the target's own\n");
    team.repo.commit_all("the target goes on");
    let updated = team.json(&["update", id]);
    assert_eq!(updated["outcome"], "updated");
    fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
    team.json(&["commit", id, "-m", "two"]);
    let tip = git_in(worktree, ["rev-parse", "HEAD"]);
    for words in [&["undo", id][..], &["undo", id, "--revert"]] {
        assert_eq!(team.refusal(words), ("undo-built-upon".to_owned(), 3));
        let output = team.repo.agent(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("--revert"), "{said}");
    }
    assert_eq!(git_in(worktree, ["rev-parse", "HEAD"]), tip);
    team.json(&["merge", id]);
    let readme = fs::read_to_string(team.repo.path().join("README.md")).expect("a file");
    assert_eq!(readme, "the target's own\n");
}

#[test]
fn a_revert_that_was_reverted_is_done_again_by_the_id_that_is_told() {
    let team = team(1);
    team.land(0);
    let mut told = team.operations()[0]["operation"].clone();
    // Each time something stands on it, so each is a commit on top.
    for number in 0..4 {
        team.repo.write("README.md", format!("later work {number}\n"));
        team.repo.commit_all("later");
        let operation = told.as_str().expect("an id").to_owned();
        let undone = team.json(&["undo", "--revert", &operation]);
        told = undone["undone_by"].clone();
        let is_there = number % 2 == 1;
        assert_eq!(team.repo.path().join("src/file-0.rs").exists(), is_there);
        assert_eq!(team.state(0) == "merged", is_there, "{}", team.state(0));
    }
    team.assert_sound();
}

#[test]
fn a_name_that_two_have_after_an_undo_is_told() {
    let team = team(1);
    team.json(&["rename", team.id(0), "worker"]);
    team.json(&["discard", "worker", "--force"]);
    team.json(&["spawn", "--name", "worker", "do it again"]);
    let output = team.repo.agent(&["undo"]);
    let said = describe(&output);
    assert!(output.status.success() && said.contains("so the name is ambiguous"), "{said}");
}

#[test]
fn what_is_said_while_a_landing_is_taken_back_is_no_disorder_once_it_is_done_again() {
    let team = team(1);
    team.land(0);
    let undone = team.json(&["undo"]);
    team.json(&["verify", team.id(0)]);
    team.json(&["undo", undone["undone_by"].as_str().expect("an operation")]);
    let shown = team.json(&["show", team.id(0)]);
    assert_eq!((&shown["state"], shown.get("irregular")), (&json!("merged"), None), "{shown:#}");
    team.assert_sound();
}

#[test]
fn a_revert_that_is_done_again_by_moving_the_branch_still_keeps_the_work_out() {
    let team = team(1);
    team.land(0);
    team.repo.write("README.md", "later work\n");
    team.repo.commit_all("later");
    // The first is a commit on top; the others take it away and bring it back.
    for number in 0..5 {
        let newest = team.operations()[0]["operation"].as_str().expect("an id").to_owned();
        team.json(&["undo", "--revert", &newest]);
        let is_there = number % 2 == 1;
        assert_eq!(team.repo.path().join("src/file-0.rs").exists(), is_there);
        assert_eq!(team.state(0) == "merged", is_there, "{}", team.state(0));
        if is_there {
            continue;
        }
        let output = team.repo.agent(&["merge", team.id(0)]);
        let refusal = describe(&output);
        assert!(!output.status.success() && refusal.contains("merge.reverted"), "{refusal}");
        let swept = team.json(&["gc", "--yes"]);
        assert_eq!(swept["agents"][0]["action"], "keep", "{swept:#}");
    }
    team.assert_sound();
}

#[test]
fn what_became_of_a_landing_decides_what_is_advised() {
    let team = team(1);
    let id = team.id(0);
    let before = team.main();
    team.land(0);
    let said = |words: &[&str]| {
        let output = team.repo.agent(words);
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // The commit has another name by now, so nothing can revert it by the old one.
    team.repo.git(["commit", "--quiet", "--amend", "-m", "better"]);
    assert!(!said(&["undo"]).contains("--revert"));
    // Dropped.
    team.repo.git(["reset", "--quiet", "--hard", &before]);
    let refused = said(&["merge", id]);
    assert!(refused.contains("git agent mark done"), "{refused}");
    team.json(&["mark", "done", id]);
    team.json(&["merge", id]);
    assert!(team.repo.path().join("src/file-0.rs").exists());
}

#[test]
fn a_discard_after_one_that_was_taken_back_is_an_operation_of_its_own() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn landed() {}\n");
    let (repo, id) = (&agent.repo, agent.id.as_str());
    let goes_and_comes = |back: &[&str]| {
        let main = repo.git(["rev-parse", "main"]);
        repo.agent_json(&["discard", id]);
        assert!(!agent.worktree.exists());
        repo.agent_json(back);
        assert!(agent.worktree.exists(), "{back:?}");
        assert_eq!(repo.git(["rev-parse", "main"]), main);
    };
    for back in [&["undo"][..], &["rescue", id, "--reopen"], &["undo"]] {
        goes_and_comes(back);
    }
    repo.agent_json(&["done", id, "--summary", "said"]);
    repo.agent_json(&["merge", id]);
    goes_and_comes(&["undo"]);
    goes_and_comes(&["undo"]);
}

/// Without the spawn commit nothing proves whose branch it is, so a discard leaves it.
#[test]
fn an_agent_whose_branch_a_discard_left_comes_back_on_it() {
    for back in [&["undo"][..], &["rescue", "--reopen"]] {
        let agent = Agent::new();
        agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        agent.write("src/two.rs", "pub fn two() {}\n");
        let tip = agent.commit("two");
        agent.write("src/three.rs", "pub fn three() {}\n");
        agent.repo.agent_json(&["discard", &agent.id]);
        assert!(!agent.worktree.exists());
        assert_eq!(agent.repo.git(["rev-parse", &agent.branch]), tip);
        let words = [back, &[agent.id.as_str()]].concat();
        agent.repo.agent_json(&words);
        assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip, "{back:?}");
        assert_eq!(agent.git(&["symbolic-ref", "--short", "HEAD"]), agent.branch);
        assert!(agent.git(&["status", "--porcelain"]).contains("src/three.rs"));
        assert_eq!(agent.git(&["diff", "--name-status", "HEAD", "--", "src/two.rs"]), "");
    }
}

#[test]
fn a_landing_that_git_reverts_is_no_landing() {
    for method in ["--no-ff", "--ff-only", "--squash", "by hand"] {
        let team = team(1);
        let (id, worktree) = &team.agents[0];
        if method == "by hand" {
            let branch = git_in(worktree, ["symbolic-ref", "HEAD"]);
            git_in(worktree, ["add", "src"]);
            git_in(worktree, ["commit", "--quiet", "--message=by hand"]);
            team.repo.git(["merge", "--quiet", "--no-ff", "--no-edit", branch.trim()]);
        } else {
            team.json(&["merge", id, method]);
        }
        team.repo.write("README.md", "later work\n");
        team.repo.commit_all("later");
        let landing = team.repo.git(["rev-parse", "HEAD~1"]);
        let revert = |commit: &str| {
            let is_merge = team.repo.git(["rev-list", "--merges", "--max-count=1", commit]);
            let parent: &[&str] = if is_merge == commit { &["-m1"] } else { &[] };
            team.repo.git([&["revert", "--no-edit"], parent, &[commit]].concat());
            team.repo.git(["rev-parse", "HEAD"])
        };
        let reverted = revert(&landing);
        assert!(!team.repo.path().join("src/file-0.rs").exists(), "{method}");
        let swept = team.json(&["gc", "--yes"]);
        assert_eq!(swept["agents"][0]["action"], "keep", "{method}: {swept:#}");
        // A merge by hand has no row.
        let state = if method == "by hand" { "done" } else { "idle" };
        assert_eq!(team.json(&["list"])["agents"][0]["state"], state, "{method}");
        if method == "--squash" {
            // As it is, too.
            team.json(&["merge", id, method]);
            assert!(team.repo.path().join("src/file-0.rs").exists());
            revert("HEAD");
        }
        fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
        // A squash is in history under no name of the branch's, so all of it lands again.
        if method != "--squash" {
            let judged = team.repo.agent(&["verify", id, "--format=json"]);
            let judged: Value = serde_json::from_slice(&judged.stdout).expect("an object");
            let finding = &judged["findings"][0];
            assert_eq!(finding["code"], "merge.reverted", "{method}: {judged:#}");
            let fix = finding["fix"].as_str().expect("a text");
            assert!(fix.ends_with(&format!("run git revert {reverted}")), "{fix}");
            assert_eq!(team.refusal(&["merge", id]).1, 3);
            // The way that it names.
            revert(&reverted);
            assert!(team.repo.path().join("src/file-0.rs").exists());
        }
        team.json(&["merge", id]);
        let landed = team.repo.git(["ls-tree", "--name-only", "main", "src/"]);
        assert!(landed.contains("src/file-0.rs") && landed.contains("src/more.rs"), "{landed}");
        let swept = team.json(&["gc", "--yes"]);
        assert_eq!(swept["agents"][0]["action"], "removed", "{method}: {swept:#}");
        team.assert_sound();
    }
}

#[test]
fn a_revert_of_ours_is_taken_back_by_git_as_well() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    team.json(&["merge", id]);
    team.repo.write("README.md", "later work\n");
    team.repo.commit_all("later");
    team.json(&["undo", "--revert"]);
    let fix = || {
        let judged = team.repo.agent(&["verify", id, "--format=json"]);
        let judged: Value = serde_json::from_slice(&judged.stdout).expect("an object");
        judged["findings"][0]["fix"].as_str().expect("a text").to_owned()
    };
    // By moving the branch, until something stands on it.
    assert!(fix().contains("run git agent undo op-"), "{}", fix());
    team.repo.write("README.md", "still later\n");
    team.repo.commit_all("still later");
    let reverted = team.repo.git(["rev-parse", "HEAD~1"]);
    assert!(fix().ends_with(&format!("run git revert {reverted}")), "{}", fix());
    assert_eq!(team.refusal(&["merge", id]).1, 3);
    team.repo.git(["revert", "--no-edit", &reverted]);
    assert!(team.repo.path().join("src/file-0.rs").exists());
    fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
    team.json(&["merge", id]);
    let landed = team.repo.git(["ls-tree", "--name-only", "main", "src/"]);
    assert!(landed.contains("src/file-0.rs") && landed.contains("src/more.rs"), "{landed}");
    let swept = team.json(&["gc", "--yes"]);
    assert_eq!(swept["agents"][0]["action"], "removed", "{swept:#}");
    team.assert_sound();
}

#[test]
fn what_is_reverted_beside_a_landing_takes_none_of_it_back() {
    for method in ["--ff-only", "--no-ff"] {
        let team = team(2);
        let (id, worktree) = &team.agents[0];
        team.json(&["merge", id, method]);
        // A person's branch, and one that holds the agent's commits, which its landing brought already.
        let branch = git_in(worktree, ["symbolic-ref", "HEAD"]);
        for (name, start) in [("person", "main"), ("upon", branch.trim())] {
            team.repo.git(["switch", "--quiet", "--create", name, start]);
            team.repo.write(&format!("{name}.txt"), "more\n");
            team.repo.git(["add", &format!("{name}.txt")]);
            team.repo.git(["commit", "--quiet", "--message", name]);
            team.repo.git(["switch", "--quiet", "main"]);
            team.repo.git(["merge", "--quiet", "--no-ff", "--no-edit", name]);
            team.repo.git(["revert", "--no-edit", "-m1", "HEAD"]);
        }
        fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
        team.json(&["merge", id]);
        let swept = team.json(&["gc", "--yes"]);
        assert_eq!(swept["agents"][0]["action"], "removed", "{method}: {swept:#}");
        team.assert_sound();
    }
}

#[test]
fn a_file_that_goes_on_after_it_came_back_is_no_revert() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    team.json(&["merge", id]);
    // A forge's squash of a revert and what took that back.
    let landing = team.main();
    team.repo.write("README.md", "later work\n");
    team.repo
        .commit_all(&format!("more (#3)\n\nThis reverts commit {landing}.\n\nAnd reapplies it."));
    assert_eq!(team.json(&["gc"])["agents"][0]["action"], "remove");
    team.repo.git(["revert", "--no-edit", "-m1", &landing]);
    assert_eq!(team.json(&["gc"])["agents"][0]["action"], "keep");
    team.repo.git(["revert", "--no-commit", "HEAD"]);
    team.repo.commit_all("bring it back");
    team.repo.write("src/file-0.rs", "pub fn other() {}\n");
    team.repo.commit_all("and go on");
    fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
    team.json(&["merge", id]);
    assert!(team.repo.path().join("src/more.rs").exists());
}

#[test]
fn what_the_branch_itself_brings_back_lands() {
    for method in ["--no-ff", "--ff-only", "undo"] {
        let team = team(1);
        let (id, worktree) = &team.agents[0];
        team.json(&["merge", id, if method == "undo" { "--no-ff" } else { method }]);
        if method == "undo" {
            team.repo.write("README.md", "later work\n");
            team.repo.commit_all("later");
            team.json(&["undo", "--revert"]);
        } else {
            let parent: &[&str] = if method == "--no-ff" { &["-m1"] } else { &[] };
            team.repo.git([&["revert", "--no-edit"], parent, &["HEAD"]].concat());
        }
        assert_eq!(team.refusal(&["merge", id]).1, 3, "{method}");
        git_in(worktree, ["merge", "--quiet", "--no-edit", "main"]);
        let path = worktree.join("src/file-0.rs");
        if !path.exists() {
            git_in(worktree, ["checkout", "HEAD^", "--", "src/file-0.rs"]);
            git_in(worktree, ["commit", "--quiet", "--message", "bring it back"]);
        }
        team.json(&["merge", id]);
        assert!(team.repo.path().join("src/file-0.rs").exists(), "{method}");
    }
}

#[test]
fn an_undo_makes_nothing_of_what_another_clone_says() {
    let team = team(1);
    let id = team.id(0);
    let branch = git_in(&team.agents[0].1, ["rev-parse", "HEAD"]);
    forge(&team, 0, "op-beefbeefbeef", &[("discarded", json!({"tip": branch}))]);
    team.json(&["reject", id, "--reason", "no"]);
    team.json(&["undo"]);
    let swept = team.json(&["gc", "--older-than", "0s", "--yes"]);
    assert_ne!(swept["agents"][0]["action"], "removed", "{swept:#}");
    assert!(team.agents[0].1.join("src/file-0.rs").exists());
    assert_eq!(team.state(0), "done");
}

#[test]
fn the_discard_of_another_clone_s_agent_is_taken_back() {
    let team = team(1);
    let other = team.repo.path().with_file_name("other");
    team.repo.git(["clone", "--quiet", ".", other.to_str().expect("UTF-8")]);
    git_in(&other, ["fetch", "--quiet", "origin", "refs/notes/agents:refs/notes/agents"]);
    let json = |words: &[&str]| {
        let mut command = agent_command(&other);
        command.args(words).arg("--format=json");
        json_of(command)
    };
    json(&["discard", team.id(0), "--force"]);
    assert_eq!(json(&["show", team.id(0)])["state"], "discarded");
    json(&["undo"]);
    assert_eq!(json(&["show", team.id(0)])["state"], "done");
    // What its own clone discarded is brought back here, where its commits are.
    team.json(&["discard", team.id(0)]);
    let refs = ["refs/notes/agents:refs/notes/agents", "refs/agents/keep:refs/agents/keep"];
    git_in(&other, [&["fetch", "--quiet", "--force", "origin"], &refs[..]].concat());
    let back = json(&["rescue", team.id(0), "--reopen"]);
    assert_eq!(back["state"], "idle", "{back}");
    assert_eq!(json(&["show", team.id(0)])["state"], "idle");
    let worktree = back["rescued_directory"].as_str().expect("a path");
    assert!(PathBuf::from(worktree).join("src/file-0.rs").exists());
}

#[test]
fn what_a_row_says_sets_nothing_going_that_this_clone_stopped() {
    let team = team(5);
    let before = team.main();
    let [deferred, rejected, discarded, kept, free] = [0, 1, 2, 3, 4].map(|it| team.id(it));
    team.json(&["mark", "defer", deferred]);
    team.json(&["mark", "reject", rejected]);
    team.json(&["discard", discarded]);
    let commit = team.json(&["discard", kept])["salvaged"].clone();
    let tree = team.repo.git(["rev-parse", "main^{tree}"]);
    let verified = json!({
        "accepted": true, "tip": before, "base": before, "tree": tree, "policy": before, "findings": [],
    });
    let committed = json!({"commit": before, "tree": before});
    let lifting =
        [("verified", verified.clone()), ("committed", committed), ("verified", verified)];
    forge(&team, 0, "op-beefbeefbeef", &lifting);
    let brought_back = [("discarded", json!({})), ("rescued", json!({"to": "{worktree}"}))];
    for number in [1, 2, 3] {
        forge(&team, number, "op-beefbeefbeef", &brought_back);
    }
    // Nor does it say what was kept.
    let message = format!("x\n\nSalvage: work\nAgent-Id: {kept}\n");
    let other = team.repo.git(["commit-tree", &tree, "-p", &before, "-m", &message]);
    forge(&team, 3, "op-beefbeefbeef", &[("salvaged", json!({"commit": other}))]);
    let shown = team.json(&["show", deferred]);
    assert_eq!((&shown["state"], &shown["deferred"]), (&json!("done"), &json!(true)), "{shown:#}");
    assert_eq!([1, 2, 3].map(|it| team.state(it)), ["rejected", "discarded", "discarded"]);
    let place = team.repo.path().with_file_name("saved");
    team.json(&["rescue", kept, "--to", place.to_str().expect("UTF-8")]);
    assert!(place.join("src/file-3.rs").exists(), "{commit}");
    // Nor is work that is done here less so.
    let turned_down = json!({
        "accepted": false, "tip": before, "base": before, "tree": tree, "policy": before, "findings": ["x"],
    });
    let going_on = [("verified", turned_down), ("reopened", json!({}))];
    forge(&team, 4, "op-beefbeefbeef", &going_on);
    assert_eq!(team.state(4), "done", "{free}");
    // Nor with a claim beside it that is not believed.
    let claimed = [("discarded", json!({})), ("reopened", json!({}))];
    forge(&team, 4, "op-beefbeefbeed", &claimed);
    assert_eq!(team.state(4), "done", "{free}");
    forge(&team, 4, "op-beefbeefbeec", &[claimed[1].clone(), claimed[0].clone()]);
    assert_eq!(team.state(4), "done", "{free}");
    // An event that only a newer program understands is a matter of its own agent.
    forge(&team, 0, "op-beefbeefbeee", &[("zzz", json!({"needs": "9.9.9"}))]);
    team.json(&["train", "--all"]);
    assert_eq!(team.state(4), "merged", "{free}");
    assert!(!team.repo.path().join("src/file-0.rs").exists());
}

#[test]
fn what_a_run_cost_is_believed_where_it_ran() {
    let team = team(1);
    team.repo.git(["config", "agent.limits.costDay", "5"]);
    let cost = json!({"run": 1, "code": 0, "cost_micro_usd": 999_999_999_999_u64});
    forge(&team, 0, "op-beefbeefbeef", &[("exited", cost)]);
    let ran = team.repo.agent(&["run", team.id(0), "--no-wait", "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
}
