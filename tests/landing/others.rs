use super::{answer, ready, run};
use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, git_in, git_output};
use crate::verify::{Agent, refused};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const KEY: &str = "%(trailers:key=Entire-Checkpoint,valueonly,separator=%x2C)";

/// Commits a file with a trailer, as a person in the worktree does it, hooks and all.
fn commit(agent: &Agent, name: &str, checkpoint: &str) -> String {
    agent.write(name, format!("// {name}\n"));
    git_in(&agent.worktree, ["add", name]);
    let trailer = format!("Entire-Checkpoint: {checkpoint}");
    git_in(&agent.worktree, ["commit", "--quiet", "-m", name, "--trailer", &trailer]);
    git_in(&agent.worktree, ["rev-parse", "HEAD"])
}

fn note(agent: &Agent, commit: &str) {
    let words = ["notes", "--ref=ai", "add", "-m", "lines of a tool", commit];
    git_in(&agent.worktree, words);
}

#[test]
fn a_squash_takes_trailers_along_and_keeps_the_commits_that_notes_are_on() {
    let agent = Agent::of_task(TASK);
    let first = commit(&agent, "src/one.rs", "a1b2");
    note(&agent, &first);
    commit(&agent, "src/two.rs", "c3d4");
    commit(&agent, "src/three.rs", "c3d4");
    // The note is the tool's; taking all of them away is not the agent's business.
    let words = ["update-ref", "-d", "refs/notes/ai"];
    let output = git_output(&agent.worktree, words);
    assert!(!output.status.success(), "{}", describe(&output));
    let set = |value: &str| agent.repo.git(["config", "agent.trailer", value]);
    set("no trailer");
    let merge = ["merge", &agent.id, "--squash"];
    refused(&agent.repo.agent(&merge), "usage", 2);
    set("Assisted-by: tool:{id}");
    agent.repo.agent_json(&merge);
    let told = |format: &str| agent.repo.git(["log", "-1", &format!("--format={format}"), "main"]);
    assert_eq!(told(KEY), "a1b2,c3d4");
    let short = &agent.id[..8];
    let whole = "%(trailers:key=Assisted-by,key=Agent-Id,valueonly,separator=%x2C)";
    assert_eq!(told(whole), format!("{},tool:{short}", agent.id));
    agent.repo.agent_json(&["discard", &agent.id]);
    agent.repo.git(["reflog", "expire", "--expire=now", "--all"]);
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    let kept = agent.repo.git(["notes", "--ref=ai", "show", &first]);
    assert_eq!(kept, "lines of a tool");
    assert_eq!(agent.repo.git(["cat-file", "-t", &first]), "commit");
}

#[test]
fn a_merge_brings_trailers_and_the_notes_that_git_rewrites_with_the_commits() {
    let agent = Agent::of_task(TASK);
    agent.repo.git(["config", "notes.rewriteRef", "refs/notes/ai"]);
    let first = commit(&agent, "src/one.rs", "a1b2");
    note(&agent, &first);
    // In a sandbox where there is one: what it publishes is the commit as it was made.
    let script = "echo '// two' >src/two.rs && git add src && git commit -q -m two --trailer 'Entire-Checkpoint: e5f6'";
    let run = ["run", &agent.id, "--no-verify", "--", "sh", "-c", script];
    let output = agent.repo.agent(&run);
    assert!(output.status.success(), "{}", describe(&output));
    agent.repo.agent_json(&["merge", &agent.id]);
    let words = ["log", "--notes=ai", "--format=%s %N", "main"];
    let shown = agent.repo.git(words);
    assert!(shown.contains("src/one.rs lines of a tool"), "{shown}");
    // The tool finds what it knows as well.
    let kept = agent.repo.git(["notes", "--ref=ai", "show", &first]);
    assert_eq!(kept, "lines of a tool");
    let checkpoints = agent.repo.git(["log", &format!("--format={KEY}"), "main"]);
    assert!(checkpoints.contains("e5f6") && checkpoints.contains("a1b2"), "{checkpoints}");
}

#[test]
fn a_worktree_on_an_old_name_of_the_target_is_moved_along() {
    let repo = TestRepo::with_commit();
    let spawn = || {
        let report = repo.agent_json(&["spawn", "Add a file.", "--role", "edit-local"]);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        let (id, file) = (text("agent_id"), format!("src/{}.rs", text("short_id")));
        let worktree = PathBuf::from(text("worktree_abspath"));
        fs::write(worktree.join(&file), "// new\n").expect("written");
        git_in(&worktree, ["add", "src"]);
        git_in(&worktree, ["commit", "--quiet", "-m", "new"]);
        (id, file)
    };
    let (first, zero) = (spawn(), spawn());
    let low = repo.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/agent"]);
    let low = low.lines().find(|name| name.contains(&zero.0[..8])).expect("its branch").to_owned();
    let stacked = ["spawn", "Add another.", "--role", "edit-local", "--from", &low];
    let up = repo.agent_json(&stacked)["agent_id"].as_str().expect("an id").to_owned();
    repo.agent_json(&["merge", &zero.0]);
    let before = repo.git(["rev-parse", "main~1"]);
    repo.git(["branch", "--move", "main", "trunk"]);
    repo.git(["symbolic-ref", "refs/heads/main", "refs/heads/trunk"]);
    repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    // What landed before goes back, and again, under the new name.
    let mut words = vec!["undo".to_owned()];
    for tip in [before, repo.git(["rev-parse", "trunk"])] {
        let moved = repo.agent_json(&words.iter().map(String::as_str).collect::<Vec<_>>());
        words = vec!["undo".to_owned(), moved["undone_by"].as_str().expect("an id").to_owned()];
        assert_eq!(moved["moves"][0]["ref"], "refs/heads/trunk", "{moved:#}");
        assert_eq!(repo.git(["rev-parse", "trunk"]), tip);
        assert_eq!(repo.git(["status", "--porcelain"]), "");
    }
    let told = repo.agent_json(&["update", &up]);
    assert_eq!(told["target"]["ref"], "refs/heads/trunk", "{told:#}");
    repo.agent_json(&["spawn", "Add one.", "--role", "edit-local", "--from", "main"]);
    for ((id, file), into) in [(first, &[][..]), (spawn(), &["--into", "main"])] {
        let report = repo.agent_json(&[&["merge", &id], into].concat());
        assert_eq!(report["target"]["ref"], "refs/heads/trunk", "{report:#}");
        assert_eq!(repo.git(["status", "--porcelain"]), "");
        assert!(repo.path().join(&file).exists(), "{file}");
        assert_eq!(repo.git(["symbolic-ref", "refs/heads/main"]), "refs/heads/trunk");
        assert_eq!(repo.agent_json(&["show", &id])["state"], "merged");
    }
    // A merge that its user has not ended would take the landing back.
    let (third, _) = spawn();
    repo.git(["checkout", "--quiet", "-b", "side", "main~1"]);
    repo.write("side.txt", "side\n");
    repo.commit_all("side");
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["merge", "--quiet", "--no-commit", "--no-ff", "side"]);
    refused(&repo.agent(&["merge", &third]), "worktree-busy", 3);
}

#[test]
fn a_branch_whose_files_are_out_of_reach_does_not_move_beneath_them() {
    let agent = ready();
    let repo = &agent.repo;
    repo.git(["worktree", "add", "--quiet", "-b", "release", "../release"]);
    let [old, new] = ["release", "moved"].map(|name| repo.path().with_file_name(name));
    fs::rename(&old, &new).expect("moved");
    refused(&run(&agent, "merge", &["--into", "release"]), "worktree-busy", 3);
    git_in(&new, ["worktree", "repair"]);
    answer(&agent, "merge", &["--into", "release"]);
    assert_eq!(git_in(&new, ["status", "--porcelain"]), "");

    // As after `git config core.bare true` by mistake, and with `git --git-dir=… --work-tree=…`.
    let agent = ready();
    let before = agent.repo.git(["rev-parse", "main"]);
    agent.repo.git(["config", "core.bare", "true"]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "main-worktree-unknown", 4);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    let said = describe(&output);
    let hint = said.lines().find_map(|line| line.split_once("run git ")).expect("a hint").1;
    agent.repo.git(hint.split(' '));
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
}

#[test]
fn what_is_staged_in_a_worktree_without_a_directory_stops_the_landing() {
    let repo = TestRepo::with_commit();
    let report = repo.agent_json(&["spawn", "write it", "--scope=src"]);
    let agent = Agent::told_of(repo, &report);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.git(&["add", "src/three.rs"]);
    fs::remove_dir_all(&agent.worktree).expect("removed");
    refused(&run(&agent, "merge", &["--dry-run"]), "worktree-dirty", 3);
    refused(&run(&agent, "merge", &[]), "worktree-dirty", 3);
    agent.repo.agent(&["doctor", "--fix"]);
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["show", "main:src/three.rs"]), "pub fn three() {}");
}

#[test]
fn what_a_person_took_off_the_branch_lands_anew_as_advised() {
    for goes_on in [false, true] {
        let agent = ready();
        answer(&agent, "merge", &["--no-ff"]);
        agent.repo.git(["reset", "--quiet", "--hard", "HEAD~1"]);
        if goes_on {
            agent.repo.write("other.txt", "other\n");
            agent.repo.commit_all("other");
        }
        let refused = run(&agent, "merge", &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let command = said.lines().find_map(|line| line.split_once("first run git agent "));
        let words: Vec<_> = command.expect(&said).1.split(' ').collect();
        assert!(agent.repo.agent(&words).status.success(), "{said}");
        answer(&agent, "merge", &[]);
        assert_eq!(agent.repo.git(["diff", "--name-only", "main", &agent.branch, "--", "src"]), "");
    }
}

#[test]
fn it_is_told_where_work_lands_of_which_a_part_may_be_lost() {
    let repo = TestRepo::with_commit();
    let report = repo.agent_json(&["spawn", "write it", "--scope=src"]);
    let agent = Agent::told_of(repo, &report);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    fs::remove_dir_all(&agent.worktree).expect("removed");
    for arguments in [&["--dry-run"][..], &[]] {
        let report = answer(&agent, "merge", arguments);
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains("only what it had committed lands"), "{report:#}");
    }
}

#[test]
fn a_message_is_refused_where_no_commit_is_made_for_it() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.git(["config", "agent.merge", "ff-only"]);
    refused(&run(&agent, "merge", &["-m", "mine"]), "usage", 2);
    answer(&agent, "merge", &["-m", "mine", "--no-ff"]);
    assert!(agent.repo.git(["log", "-1", "--format=%s", "main"]).starts_with("mine"));
}

#[test]
fn the_way_out_of_a_merge_of_another_agent_takes_none_of_its_work_over() {
    let agent = Agent::new();
    let other =
        agent.repo.agent_json(&["spawn", "look at the rest", "--new=docs/**", "--new=src/z.rs"]);
    let place = PathBuf::from(other["worktree_abspath"].as_str().expect("a path"));
    fs::create_dir_all(place.join("docs")).expect("made");
    fs::write(place.join("docs/new.md"), "").expect("written");
    fs::write(place.join("src/z.rs"), "").expect("written");
    agent.repo.agent_json(&["commit", other["agent_id"].as_str().expect("an id"), "-m", "theirs"]);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    let branch = other["branch"].as_str().expect("a branch");
    agent.git(&["-c", "core.hooksPath=/dev/null", "merge", "--quiet", "-m", "theirs", branch]);
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.commit("three");
    let verdict = agent.verify(&[]);
    let findings = verdict["findings"].as_array().expect("findings");
    let of_scope = findings.iter().find(|it| it["code"] == "scope.not-in-whitelist");
    let fix = of_scope.and_then(|it| it["fix"].as_str()).expect("a fix");
    let (_, command) = fix.split_once(", run ").expect("a command");
    let status = Command::new("sh").args(["-c", command]).current_dir(&agent.worktree).status();
    assert!(status.expect("starts").success(), "{command}");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    let files = agent.git(&["ls-tree", "-r", "--name-only", "HEAD", "src"]);
    assert!(!files.contains("z.rs") && files.contains("three.rs"), "{files}");
}

/// As the branch of a lead is, on which the work of its agents landed.
#[test]
fn the_way_out_of_a_merged_commit_leaves_the_other_merges_as_they_are() {
    let agent = Agent::new();
    let off = ["-c", "core.hooksPath=/dev/null"];
    let home = agent.git(&["symbolic-ref", "--short", "HEAD"]);
    let side = |name: &str, write: &dyn Fn()| {
        agent.git(&["checkout", "--quiet", "-b", name]);
        write();
        agent.git(&["add", "."]);
        let trailer = format!("Agent-Id: {}", agent.id);
        agent.git(&[&off[..], &["commit", "--quiet", "-m", name, "-m", &trailer]].concat());
        agent.git(&["checkout", "--quiet", &home]);
    };
    side("one", &|| agent.write("src/one.rs", ""));
    side("two", &|| {
        agent.write("src/two.rs", "");
        agent.write("docs/new.md", "");
        agent.write("README.md", "# Other\n");
    });
    side("three", &|| agent.write("src/three.rs", ""));
    for name in ["one", "two", "three"] {
        let message = format!("merge {name}");
        agent.git(&[&off[..], &["merge", "--quiet", "--no-ff", "-m", &message, name]].concat());
    }
    // Those of one second are told in any order.
    let subjects = || {
        let log = agent.git(&["log", "--format=%s", "main..HEAD"]);
        log.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let before = subjects();
    agent.write("src/four.rs", "pub fn four() {}\n");
    let verdict = agent.verify(&[]);
    let findings = verdict["findings"].as_array().expect("findings");
    let fix = findings.iter().find_map(|it| it["fix"].as_str()?.split_once(", run "));
    let (_, command) = fix.expect("a command");
    let status = Command::new("sh").args(["-c", command]).current_dir(&agent.worktree).status();
    assert!(status.expect("starts").success(), "{command}");
    assert_eq!(subjects(), before, "{command}");
    let changed = agent.git(&["diff", "--name-only", "main", "HEAD"]);
    assert_eq!(changed, "src/one.rs\nsrc/three.rs\nsrc/two.rs", "{command}");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

#[test]
fn no_way_back_is_advised_for_a_commit_that_is_named() {
    let agent = ready();
    answer(&agent, "merge", &["--squash"]);
    let verdict = run(&agent, "verify", &["--tip=main", "--format=json"]);
    let verdict: serde_json::Value = serde_json::from_slice(&verdict.stdout).expect("JSON");
    let fixes = verdict["findings"].to_string();
    assert!(!fixes.contains("git rebase") && !fixes.contains("git reset"), "{verdict}");
}
