//! What one clone says of the agents of another.

use super::{Hub, json, spawn};
use crate::support::agent::describe;
use crate::support::git_in;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// An agent of this clone that wrote a file, is done, and has committed that; gives its id.
fn done(clone: &Path, file: &str) -> String {
    done_with(clone, file, &[])
}

/// As [`done`], spawned with these further words.
fn done_with(clone: &Path, file: &str, words: &[&str]) -> String {
    let spawned = spawn(clone, &[&["--no-bundle", "--new", file], words].concat());
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    let file = worktree.join(file);
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    std::fs::write(file, "new\n").expect("written");
    let id = spawned["agent_id"].as_str().expect("an id").to_owned();
    json(clone, &["commit", &id, "-m", "work"]);
    json(clone, &["mark", "done", &id]);
    id
}

/// What the second clone says of what the first one has, once both have it.
fn say(hub: &Hub, words: &[&str]) {
    let [one, two] = [&hub.clones[0], &hub.clones[1]];
    json(one, &["sync"]);
    json(two, &["sync"]);
    json(two, words);
    json(two, &["sync"]);
    json(one, &["sync"]);
}

fn shown(clone: &Path, id: &str) -> Value {
    json(clone, &["show", id])
}

#[test]
fn an_agent_goes_by_the_name_that_its_own_clone_gave_it() {
    let (hub, [one, two]) = Hub::synchronised();
    say(&hub, &["rename", "a", "b"]);
    let kept = shown(&one, "a");
    let id = kept["agent_id"].as_str().expect("an id");
    assert!(kept["irregular"].to_string().contains("this clone did not do that"), "{kept:#}");
    assert_eq!(shown(&two, id)["name"], "b");
    // Nor by a line of another clone that is dated before its first.
    let spawn = kept["spawn_commit"].as_str().expect("an oid");
    let line = format!(
        "{{\"t\":\"20200101T000000.000000Z-000-bbbb\",\"a\":\"{id}\",\"e\":\"noted\",\"by\":\"u\",\"d\":{{\"text\":\"hi\"}}}}"
    );
    git_in(&one, ["notes", "--ref=agents", "append", "--no-separator", "-m", &line, spawn]);
    assert_eq!(shown(&one, id)["name"], "a");
    json(&one, &["rename", id, "c"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    assert_eq!(shown(&two, id)["name"], "c");
}

#[test]
fn what_was_put_off_or_failed_goes_on_by_the_word_of_its_own_clone_alone() {
    let hub = Hub::new(2);
    hub.send_all();
    let one = &hub.clones[0];
    for (stop, key) in [("defer", "deferred"), ("fail", "state")] {
        let file = format!("src/{stop}.rs");
        let id = done(one, &file);
        json(one, &["mark", stop, &id, "--reason=a person looks first"]);
        let stopped = shown(one, &id);
        let goes_on: [&[&str]; 2] = [&["fail", &id, "--reason=theirs"], &["done", &id]];
        let goes_on = &goes_on[usize::from(stop == "fail")..];
        for words in goes_on {
            say(&hub, &[&["mark"], *words].concat());
        }
        let now = shown(one, &id);
        assert_eq!(now[key], stopped[key], "{now:#}");
        assert!(now["irregular"].to_string().contains("this clone did not do that"), "{now:#}");
        for words in goes_on {
            json(one, &[&["mark"], *words].concat());
        }
        let now = shown(one, &id);
        assert_eq!((&now["state"], &now["deferred"]), (&"done".into(), &false.into()), "{now:#}");
        // What was put off here and taken back here counts no more.
        json(one, &["mark", stop, &id, "--reason=again"]);
        json(one, &["undo"]);
        say(&hub, &["mark", "fail", &id, "--reason=theirs"]);
        assert_eq!(shown(one, &id)["state"], "failed");
        say(&hub, &["mark", "done", &id]);
        assert_eq!(shown(one, &id)["state"], "done");
    }
    json(one, &["train", "--all"]);
    assert!(one.join("src/defer.rs").exists() && one.join("src/fail.rs").exists());
}

#[test]
fn what_another_clone_discarded_lands_where_it_is_done() {
    let hub = Hub::new(2);
    hub.send_all();
    let id = done(&hub.clones[0], "src/two.rs");
    say(&hub, &["discard", &id, "--force"]);
    json(&hub.clones[0], &["train", "--all"]);
    assert!(hub.clones[0].join("src/two.rs").exists());
}

#[test]
fn what_an_agent_does_after_another_clone_landed_it_lands_there_too() {
    let (hub, [one, two]) = Hub::synchronised();
    let id = done(&one, "src/one.rs");
    say(&hub, &["merge", &id, "--push"]);
    git_in(&one, ["fetch", "--quiet"]);
    assert_eq!(shown(&one, &id)["state"], "merged");
    // As it is advised after a landing.
    json(&two, &["discard", &id]);
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    let place = shown(&one, &id)["worktree_abspath"].clone();
    std::fs::write(Path::new(place.as_str().expect("a path")).join("src/two.rs"), "new\n")
        .expect("written");
    json(&one, &["commit", &id, "-m", "more work"]);
    json(&one, &["mark", "done", &id]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    let row = shown(&two, &id);
    assert_eq!((&row["state"], &row["irregular"]), (&"done".into(), &Value::Null), "{row:#}");
    json(&two, &["merge", &id, "--push"]);
    let landed = git_in(&hub.bare, ["ls-tree", "-r", "--name-only", "main", "src"]);
    assert!(landed.contains("src/one.rs") && landed.contains("src/two.rs"), "{landed}");
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    git_in(&one, ["fetch", "--quiet"]);
    for clone in [&one, &two] {
        assert_eq!(shown(clone, &id)["state"], "merged");
    }
}

#[test]
fn what_an_agent_does_while_another_clone_clears_it_away_lands_there_too() {
    for knows in [false, true] {
        let (hub, [one, two]) = Hub::synchronised();
        let id = done(&one, "src/one.rs");
        json(&one, &["sync"]);
        json(&two, &["sync"]);
        json(&two, &["merge", &id, "--push"]);
        json(&two, &["sync"]);
        if knows {
            json(&one, &["sync"]);
            git_in(&one, ["fetch", "--quiet"]);
        }
        let place = shown(&one, &id)["worktree_abspath"].clone();
        let file = Path::new(place.as_str().expect("a path")).join("src/two.rs");
        std::fs::write(file, "new\n").expect("written");
        json(&one, &["commit", &id, "-m", "more work"]);
        json(&one, &["verify", &id]);
        // It does not know of that.
        json(&two, &["discard", &id]);
        json(&two, &["sync"]);
        if knows {
            json(&one, &["verify", &id]);
        }
        json(&one, &["sync"]);
        json(&two, &["sync"]);
        for clone in [&one, &two] {
            let row = shown(clone, &id);
            assert_eq!(
                (&row["state"], &row["irregular"]),
                (&"done".into(), &Value::Null),
                "{row:#}"
            );
        }
        json(&two, &["merge", &id, "--push"]);
        let landed = git_in(&hub.bare, ["ls-tree", "-r", "--name-only", "main", "src"]);
        assert!(landed.contains("src/one.rs") && landed.contains("src/two.rs"), "{landed}");
        // A discard that knows of it ends it.
        json(&two, &["discard", &id]);
        assert_eq!(shown(&two, &id)["state"], "merged");
    }
}

#[test]
fn a_landing_that_another_clone_made_up_leaves_no_work_out() {
    let (hub, [one, two]) = Hub::synchronised();
    let id = done(&one, "src/one.rs");
    let kept = shown(&one, &id);
    let (spawn, tip) = (kept["spawn_commit"].as_str(), kept["tip"].as_str());
    let (spawn, tip) = (spawn.expect("an oid"), tip.expect("an oid"));
    // A commit of a person's, and the tip of the agent.
    git_in(&one, ["commit", "--quiet", "--allow-empty", "-m", "of a person"]);
    std::fs::write(one.join("src/person.rs"), "mine\n").expect("written");
    git_in(&one, ["add", "src/person.rs"]);
    git_in(&one, ["commit", "--quiet", "-m", "mine"]);
    git_in(&one, ["push", "--quiet", "origin", "main"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    let main = git_in(&one, ["rev-parse", "main"]);
    let words = ["log", "-1", "--date=format:%Y%m%dT%H%M%S", "--format=%cd", "refs/notes/agents"];
    let now = git_in(&one, words);
    let line = format!(
        "{{\"t\":\"{now}.999999Z-000-bbbb\",\"a\":\"{id}\",\"e\":\"merged\",\"by\":\"u\",\"o\":\"op-0123456789ab\",\"d\":{{\"commit\":\"{main}\",\"from\":\"{main}\",\"into\":\"refs/heads/main\",\"tip\":\"{tip}\"}}}}"
    );
    git_in(&two, ["notes", "--ref=agents", "append", "--no-separator", "-m", &line, spawn]);
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    let told = shown(&one, &id)["irregular"].to_string();
    assert!(told.contains("its row says `merged`"), "{told}");
    // The line counts for nothing once the agent goes on, either.
    let place = kept["worktree_abspath"].as_str().expect("a path");
    std::fs::write(Path::new(place).join("src/two.rs"), "new\n").expect("written");
    json(&one, &["commit", &id, "-m", "more work"]);
    assert_eq!(shown(&one, &id)["irregular"], Value::Null);
    json(&one, &["merge", &id]);
    let landed = git_in(&one, ["ls-tree", "-r", "--name-only", "main", "src"]);
    for file in ["src/one.rs", "src/two.rs", "src/person.rs"] {
        assert!(landed.contains(file), "{file}: {landed}");
    }
    drop(hub);
}

#[test]
fn what_decides_what_programs_do_lands_from_another_clone_only_by_its_name() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|number| hub.clones[number].clone());
    let harmless = done(&one, "src/two.rs");
    let workflow = ".github/workflows/build.yml";
    let control = done(&one, workflow);
    // A link makes one of any file.
    let link = done_with(&one, "src/hooks/pre-commit", &["--new", ".husky"]);
    let worktree =
        PathBuf::from(json(&one, &["path", &link])["worktree_abspath"].as_str().expect("a path"));
    std::os::unix::fs::symlink("src/hooks", worktree.join(".husky")).expect("linked");
    json(&one, &["commit", &link, "-m", "a link"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    git_in(&two, ["fetch", "--quiet"]);
    for all in [["train", "--all"], ["merge", "--all"]] {
        let output = super::agent(&two, &all);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains(&format!("was made in another clone and changes {workflow}")),
            "{said}"
        );
        assert!(said.contains("changes .husky"), "{said}");
        assert_eq!(shown(&two, &harmless)["state"], "merged");
    }
    json(&two, &["merge", &control]);
    assert!(two.join(workflow).exists());
    // The clone that made it lands it with the others.
    json(&one, &["train", "--all"]);
    assert!(one.join(workflow).exists());
}

#[test]
fn a_name_of_this_clone_means_no_agent_of_another_one_unseen() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|number| hub.clones[number].clone());
    let own = done_with(&one, "src/two.rs", &["--name=fix"]);
    json(&one, &["merge", "fix"]);
    assert_eq!(shown(&one, "fix")["agent_id"], own.as_str());
    let theirs = done_with(&two, "src/three.rs", &["--name=fix"]);
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    for verb in ["show", "merge"] {
        let output = super::agent(&one, &[verb, "fix"]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&own[..8]) && said.contains(&theirs[..8]), "{said}");
    }
}

#[test]
fn what_a_person_has_to_see_of_another_clone_lands_only_by_its_name() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|number| hub.clones[number].clone());
    let live = spawn(&two, &["--no-bundle"]);
    let branch = live["branch"].as_str().expect("a branch");
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    git_in(&one, ["fetch", "--quiet"]);
    git_in(&one, ["branch", "--quiet", branch, &format!("origin/{branch}")]);
    let above = done_with(&one, "src/above.rs", &["--base", branch]);
    let checked = done_with(&one, "src/checked.rs", &["--check", "true"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    git_in(&two, ["fetch", "--quiet"]);
    let output = super::agent(&two, &["train", "--all", "--sandbox=off"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("would land on agent/"), "{said}");
    assert!(said.contains("would run without a sandbox"), "{said}");
    assert_eq!([&above, &checked].map(|id| shown(&two, id)["state"].clone()), ["done", "done"]);
}

#[test]
fn no_command_is_advised_that_only_another_clone_can_run() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [&hub.clones[0], &hub.clones[1]];
    let spawned = spawn(one, &["--no-bundle", "--scope=src/**"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("top"), "new\n").expect("written");
    git_in(&worktree, ["add", "top"]);
    git_in(&worktree, ["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "work"]);
    json(one, &["sync"]);
    json(two, &["sync"]);
    for (clone, advised) in [(one, true), (two, false)] {
        let said = describe(&super::agent(clone, &["verify", id]));
        assert!(said.contains("scope.not-in-whitelist"), "{said}");
        assert_eq!(said.contains("to go there:"), advised, "{said}");
        assert_eq!(said.contains("git agent amend"), advised, "{said}");
    }
}

#[test]
fn an_agent_that_asked_is_done_in_no_clone_before_it_went_on() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|number| hub.clones[number].clone());
    let spawned = spawn(&one, &["--no-bundle", "--name=asks"]);
    let id = spawned["agent_id"].as_str().expect("an id").to_owned();
    let run = |script: &str| {
        let run = super::agent(&one, &["run", &id, "--sandbox=off", "--", "sh", "-c", script]);
        assert!(run.status.success(), "{}", describe(&run));
    };
    let program = env!("CARGO_BIN_EXE_git-agent");
    let ask = "send --type=clarify --to=user --payload question=which? --payload context=x";
    let work = "echo 'pub fn b() {}' >> src/lib.rs && git commit --quiet --all --message=work";
    run(&format!("{work} && {program} {ask}"));
    let before = git_in(&two, ["rev-parse", "main"]);
    let look = |states: [&str; 2]| {
        for clone in [&one, &two] {
            json(clone, &["sync"]);
        }
        assert_eq!([&one, &two].map(|clone| shown(clone, &id)["state"].clone()), states);
        for clone in [&one, &two] {
            for all in [["train", "--all"], ["merge", "--all"]] {
                let said = describe(&super::agent(clone, &all));
                assert_eq!(git_in(clone, ["rev-parse", "main"]), before, "{said}");
            }
        }
    };
    look(["waiting", "idle"]);
    let asked = json(&one, &["inbox"])["messages"][0]["message_id"].clone();
    let asked = asked.as_str().expect("an id");
    let answer = ["send", "--from=user", "--to=asks", "--no-wake", "--reply-to", asked, "this one"];
    json(&one, &answer);
    // Nor by a verdict on what it had left.
    json(&one, &["verify", &id]);
    look(["idle", "idle"]);
    run("true");
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    assert_eq!([&one, &two].map(|clone| shown(clone, &id)["state"].clone()), ["done", "done"]);
    let said = describe(&super::agent(&two, &["train", "--all"]));
    assert_ne!(git_in(&two, ["rev-parse", "main"]), before, "{said}");
}

#[test]
fn an_answer_from_another_clone_names_the_agent_that_waits_for_it() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|number| hub.clones[number].clone());
    let spawned = spawn(&one, &["--no-bundle", "--name=asks"]);
    let id = spawned["agent_id"].as_str().expect("an id").to_owned();
    let ask = ["send", "--type=clarify", "--to=user", "--from=asks", "--payload=question=which?"];
    let asked = json(&one, &[&ask[..], &["--payload=context=x"]].concat());
    let asked = asked["message_id"].as_str().expect("an id");
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    json(&two, &["send", "--from=user", "--to=asks", "--reply-to", asked, "this one"]);
    json(&two, &["sync"]);
    assert_eq!(shown(&one, &id)["state"], "waiting");
    let synced = json(&one, &["sync"]);
    let expected = format!("the question of agent {} is answered", &id[..8]);
    assert!(synced["warnings"].to_string().contains(&expected), "{synced}");
    assert_eq!(shown(&one, &id)["state"], "ready");
    let synced = json(&one, &["sync"]);
    assert!(!synced["warnings"].to_string().contains("is answered"), "{synced}");
}
