use super::{answer, ready, require_sound, run, spawns_in, state};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use crate::verify::{Agent, refused};
use serde_json::{Value, json};
use std::fs;

#[test]
fn what_an_agent_says_of_its_work_moves_no_cursor_of_who_reads_the_history() {
    let agent = ready();
    agent.repo.agent_json(&["mark", "done", &agent.id, "-m", "sum \u{1b}]0;title\u{7}"]);
    answer(&agent, "merge", &[]);
    let message = agent.repo.git(["log", "-1", "--format=%B", "main"]);
    assert!(message.contains("sum") && !message.contains(['\u{1b}', '\u{7}']), "{message:?}");
}

#[test]
fn a_merge_commit_has_the_judged_tree_and_brings_the_uncommitted_work() {
    let agent = ready();
    let judged = agent.verify(&[]);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    let planned = answer(&agent, "merge", &["--dry-run"]);
    assert_eq!(planned["outcome"], "planned");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);

    let report = answer(&agent, "merge", &[]);
    let landed = agent.repo.git(["rev-parse", "main"]);
    assert_eq!(report["commit"], landed);
    assert_eq!(judged["merged_tree"], agent.repo.git(["rev-parse", "main^{tree}"]));
    let work = agent.git(&["rev-parse", "HEAD"]);
    assert_eq!(report["committed"], work);
    assert_eq!(judged["tree"], agent.git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(agent.git(&["rev-parse", "HEAD^"]), tip);
    // The same work without the empty commit by which the agent was spawned.
    let parents = agent.repo.git(["log", "-1", "--format=%P", "main"]);
    let replayed = parents.strip_prefix(&format!("{main} ")).expect(&parents);
    assert_ne!(replayed, work);
    let tree = |commit: &str| agent.repo.git(["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(tree(replayed), tree(&work));
    assert_eq!(spawns_in(&agent.repo, "main"), 0);
    let subject = agent.repo.git(["log", "-1", "--format=%s", "main"]);
    let short = &agent.id[..8];
    assert!(subject.starts_with(&format!("merge({short}): Add a second")), "{subject}");
    let trailers = "--format=%(trailers:key=Agent-Id,valueonly)";
    assert_eq!(agent.repo.git(["log", "-1", trailers, "main"]).trim(), agent.id);
    assert_eq!(state(&agent), "merged");
    require_sound(&agent);
    for log in ["HEAD", "main"] {
        let last = agent.repo.git(["reflog", "-1", "--format=%H %gs", log]);
        assert_eq!(last, format!("{landed} agent: merge {short}"));
    }
    let worktrees = agent.repo.git(["worktree", "list", "--porcelain"]);
    assert!(!worktrees.contains("locked"), "{worktrees}");
    refused(&run(&agent, "merge", &[]), "agent-state", 3);
}

#[test]
fn the_directory_in_which_the_caller_stands_stays_although_it_is_empty() {
    for attributes in ["", "*.rs text\n"] {
        let repo = TestRepo::with_commit();
        repo.write(".gitattributes", attributes);
        repo.commit_all("attributes");
        let agent = Agent::spawned_in(repo, TASK);
        agent.git(&["rm", "--quiet", "src/bin/tool.rs"]);
        agent.commit("no tool");
        agent.verify(&[]);
        let bin = agent.repo.path().join("src/bin");
        let merged = agent_command(&bin).args(["merge", &agent.id]).output().expect("starts");
        assert!(merged.status.success(), "{}", describe(&merged));
        assert!(!bin.join("tool.rs").exists() && bin.is_dir());
        require_sound(&agent);
    }
}

#[test]
fn the_message_of_the_caller_is_the_message_of_the_landing() {
    for is_copied in [false, true] {
        let agent = ready();
        let own = format!("Agent-Id: {}", agent.id);
        let mut trailers = "Acked-by: A <a@x>".to_owned();
        if is_copied {
            // As in the message of the agent's own commit.
            trailers = format!("{trailers}\n{own}");
        }
        let words = ["--squash", "-m", "area: two and three", "-m", &trailers];
        answer(&agent, "merge", &words);
        let message = agent.repo.git(["log", "-1", "--format=%B", "main"]);
        let wanted = format!("area: two and three\n\nAcked-by: A <a@x>\n{own}");
        assert_eq!(message.trim_end(), wanted);
    }
}

#[test]
fn a_squash_keeps_where_it_comes_from() {
    let agent = ready();
    answer(&agent, "done", &["-m", "Two and three\nat once"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    answer(&agent, "merge", &["--squash"]);
    let log = agent.repo.git(["log", "-1", "--format=%P %s", "main"]);
    assert_eq!(log, format!("{main} Two and three"));
    let message = agent.repo.git(["log", "-1", "--format=%B", "main"]);
    let paragraphs: Vec<_> = message.trim_end().split("\n\n").collect();
    let trailer = format!("Agent-Id: {}", agent.id);
    // What was said of it, the task, the agent's own messages, and who did it.
    assert_eq!(paragraphs[1], "at once");
    assert!(paragraphs[2].starts_with("Add a second"), "{message}");
    assert_eq!(paragraphs[3..], ["two", trailer.as_str()], "{message}");
    let notes = agent.repo.git(["log", "-1", "--notes=agents", "main"]);
    assert!(notes.contains(&agent.id) && notes.contains("\"merged\""), "{notes}");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let kept = agent.repo.git(["rev-list", "refs/agents/keep"]);
    assert!(kept.contains(&tip), "the history is kept");
    require_sound(&agent);
}

#[test]
fn only_a_fast_forward_moves_the_branch_alone() {
    let agent = ready();
    refused(&run(&agent, "merge", &["--ff-only"]), "not-fast-forward", 3);
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.repo.git(["config", "agent.merge", "ff-only"]);
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), agent.git(&["rev-parse", "HEAD"]));
    require_sound(&agent);
}

#[test]
fn rejected_work_does_not_land() {
    let agent = ready();
    agent.write("README.md", "out of scope\n");
    let main = agent.repo.git(["rev-parse", "main"]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "not-accepted", 3);
    assert!(
        describe(&output).contains("scope.not-in-whitelist README.md"),
        "{}",
        describe(&output)
    );
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    let agent = Agent::new();
    refused(&run(&agent, "merge", &[]), "nothing-to-land", 1);
}

/// The target's worktree is left byte for byte as it is when `dirty` made something be in the way.
fn check_dirty(name: &str, dirty: impl Fn(&Agent)) {
    let agent = ready();
    dirty(&agent);
    let content = std::fs::read(agent.repo.path().join(name)).expect("a file");
    let status = agent.repo.git(["status", "--porcelain", "--ignored"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "target-dirty", 3);
    assert!(describe(&output).contains(&format!("  {name}\n")), "{}", describe(&output));
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(agent.repo.git(["status", "--porcelain", "--ignored"]), status);
    assert_eq!(std::fs::read(agent.repo.path().join(name)).expect("a file"), content);
    assert_eq!(state(&agent), "idle");
}

#[test]
fn a_changed_file_is_never_touched() {
    check_dirty("src/lib.rs", |agent| {
        agent.write("src/lib.rs", "pub fn one() -> u32 {\n    2\n}\n");
        agent.repo.write("src/lib.rs", "mine\n");
    });
    check_dirty("src/lib.rs", |agent| {
        agent.write("src/lib.rs", "pub fn one() -> u32 {\n    2\n}\n");
        agent.repo.write("src/lib.rs", "mine\n");
        agent.repo.git(["add", "src/lib.rs"]);
    });
}

#[test]
fn a_changed_file_that_git_was_told_to_pass_over_is_named_and_never_touched() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        check_dirty("src/lib.rs", |agent| {
            agent.repo.git(["update-index", flag, "src/lib.rs"]);
            agent.repo.write("src/lib.rs", "mine\n");
        });
    }
}

#[test]
fn work_that_an_agent_hid_from_git_lands_as_it_was_judged() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let agent = ready();
        agent.git(&["update-index", flag, "src/lib.rs"]);
        agent.write("src/lib.rs", "pub fn hidden() {}\n");
        let judged = agent.verify(&[]);
        answer(&agent, "merge", &[]);
        let tree = agent.repo.git(["rev-parse", "main^{tree}"]);
        assert_eq!(judged["merged_tree"], tree, "{flag}");
        let landed = agent.repo.git(["show", "main:src/lib.rs"]);
        assert_eq!(landed, "pub fn hidden() {}");
        require_sound(&agent);
    }
}

/// Makes git sign, by a program that does nothing but what git asks of one.
fn sign_by(agent: &Agent, script: &str) {
    let program = agent.repo.path().with_file_name("sign");
    std::fs::write(&program, format!("#!/bin/sh\n{script}")).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("executable");
    let program = program.to_str().expect("UTF-8");
    agent.repo.git(["config", "commit.gpgSign", "true"]);
    agent.repo.git(["config", "gpg.program", program]);
}

#[test]
fn a_landing_is_signed_where_the_users_own_merges_are() {
    let signs =
        "cat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\n";
    for method in ["--no-ff", "--squash"] {
        let agent = ready();
        let judged = agent.verify(&[]);
        sign_by(&agent, signs);
        answer(&agent, "merge", &[method]);
        for commit in ["main", agent.branch.as_str()] {
            let text = agent.repo.git(["cat-file", "commit", commit]);
            assert!(text.contains("\ngpgsig -----BEGIN"), "{text}");
            assert!(text.contains("\nauthor A U Thor <author@example.com> "));
            assert!(text.contains(&format!("\n\nAgent-Id: {}", agent.id)));
        }
        let tree = agent.repo.git(["rev-parse", "main^{tree}"]);
        assert_eq!(judged["merged_tree"], tree);
        agent.repo.git(["config", "--unset", "gpg.program"]);
        require_sound(&agent);
    }
}

#[test]
fn what_cannot_be_signed_does_not_land() {
    let agent = ready();
    agent.verify(&[]);
    sign_by(&agent, "echo no key >&2\nexit 1\n");
    let refs = agent.repo.git(["for-each-ref"]);
    let status = agent.git(&["status", "--porcelain"]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "commit-refused", 3);
    assert!(describe(&output).contains("no key"));
    assert_eq!(agent.repo.git(["for-each-ref"]), refs);
    assert_eq!(agent.git(&["status", "--porcelain"]), status);
    agent.repo.git(["config", "commit.gpgSign", "false"]);
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn an_untracked_or_ignored_file_is_never_overwritten() {
    check_dirty("src/two.rs", |agent| agent.repo.write("src/two.rs", "mine\n"));
    check_dirty("src/two.rs", |agent| {
        // What the agent has staged lands, though git ignores such files from now on.
        agent.git(&["add", "src"]);
        agent.repo.write(".git/info/exclude", "two.rs\n/.agent/\n/.claude/worktrees/\n");
        agent.repo.write("src/two.rs", "mine\n");
    });
    check_dirty("src/deep", |agent| {
        agent.write("src/deep/four.rs", "pub fn four() {}\n");
        agent.git(&["add", "src"]);
        agent.repo.write(".git/info/exclude", "/src/deep\n/.agent/\n/.claude/worktrees/\n");
        agent.repo.write("src/deep", "mine\n");
    });
}

#[test]
fn other_changes_stay_where_they_are() {
    let agent = ready();
    agent.repo.write("README.md", "mine\n");
    agent.repo.write("src/bin/tool.rs", "mine, staged\n");
    agent.repo.git(["add", "src/bin/tool.rs"]);
    // Touched but not changed.
    agent.repo.write("src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n");
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), " M README.md\nM  src/bin/tool.rs");
}

#[test]
fn a_target_in_a_linked_worktree_moves_along_and_one_nowhere_just_moves() {
    let agent = ready();
    let other = agent.repo.path().with_file_name("other");
    let other_text = other.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "add", "--quiet", other_text, "-b", "release"]);
    agent.repo.git(["branch", "plain"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    answer(&agent, "merge", &["--into", "release"]);
    assert_eq!(git_in(&other, ["status", "--porcelain"]), "");
    assert!(other.join("src/three.rs").is_file());
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);

    let agent = ready();
    agent.repo.git(["branch", "plain"]);
    answer(&agent, "merge", &["--into", "plain"]);
    assert_eq!(agent.repo.git(["ls-tree", "--name-only", "plain", "src/three.rs"]), "src/three.rs");
    require_sound(&agent);
}

/// On the branch that it started from, the same work is accepted.
#[test]
fn what_another_target_rejects_is_seen_as_the_hint_says() {
    let agent = ready();
    agent.repo.git(["switch", "--quiet", "--create", "release"]);
    agent.repo.write("src/three.rs", "of the release\n");
    agent.repo.commit_all("of the release");
    agent.repo.git(["switch", "--quiet", "main"]);
    let output = run(&agent, "merge", &["--into", "release"]);
    let said = describe(&output);
    refused(&output, "not-accepted", 3);
    let hint = format!("git agent verify {} --base release", &agent.id[..8]);
    assert!(said.contains(&hint), "{said}");
    assert_eq!(agent.codes(), [""; 0]);
}

#[test]
fn work_that_was_taken_back_has_landed_nowhere() {
    for moves_on in [false, true] {
        let agent = Agent::new();
        agent.write("src/two.rs", "");
        agent.commit("two");
        agent.git(&["rm", "--quiet", "src/two.rs"]);
        agent.commit("not two");
        if moves_on {
            agent.repo.write("NOTES.md", "moved on\n");
            agent.repo.commit_all("main moves on");
        }
        refused(&run(&agent, "merge", &[]), "nothing-to-land", 1);
        let listed = agent.repo.agent_json(&["list"]);
        assert_eq!(listed["agents"][0]["landed"], Value::Null, "{listed:#}");
    }
}

#[test]
fn what_changed_nothing_is_to_be_discarded() {
    let agent = crate::verify::Agent::new();
    agent.repo.agent_json(&["done", &agent.id, "--summary", "nothing to do"]);
    let output = agent.repo.agent(&["merge", "--all"]);
    let said = String::from_utf8_lossy(&output.stdout).replace(&agent.id[..8], "<agent>");
    assert_eq!(output.status.code(), Some(1), "{said}");
    insta::assert_snapshot!(said, @r"
    <agent> not-merged agent <agent> changed nothing
      hint: to clear it away, run git agent discard <agent>
    1 agent has not landed. What next?
      1. discard what changed nothing
         git agent discard <agent>
         git agent merge --all
      2. close now and come back; all of it stays
         git agent list
    ");
}

/// It lands where the round landed, and pushes what moved, wherever HEAD is.
#[test]
fn the_close_of_a_round_keeps_to_the_branch_of_the_round() {
    let agent = ready();
    agent.repo.git(["branch", "release"]);
    agent.repo.git(["switch", "--quiet", "--create", "private"]);
    let idle = agent.repo.spawn()["agent_id"].as_str().expect("an id").to_owned();
    for id in [&agent.id, &idle] {
        agent.repo.agent_json(&["done", id, "--summary", "it"]);
    }
    let output = agent.repo.agent(&["merge", "--all", "--into", "release"]);
    let said = describe(&output);
    assert!(said.contains("\n     git push origin release\n"), "{said}");
    assert!(said.contains(" git agent merge --all --into release\n"), "{said}");
}

#[test]
fn what_failed_lands_as_the_close_of_a_round_says() {
    let agent = ready();
    agent.repo.agent_json(&["fail", &agent.id, "--reason", "half"]);
    let output = agent.repo.agent(&["merge", "--all"]);
    let said = describe(&output);
    let command = format!("git agent mark done {}\n", &agent.id[..8]);
    assert!(output.status.code() == Some(1) && said.contains(&command), "{said}");
    agent.repo.agent_json(&["mark", "done", &agent.id]);
    let landed = agent.repo.agent_json(&["merge", "--all"]);
    assert_eq!(landed["items"][0]["outcome"], "merged", "{landed}");
}

#[test]
fn a_target_in_the_middle_of_something_is_left_alone() {
    let agent = ready();
    let head = agent.repo.git(["rev-parse", "HEAD"]);
    std::fs::write(agent.repo.path().join(".git/MERGE_HEAD"), format!("{head}\n"))
        .expect("written");
    refused(&run(&agent, "merge", &[]), "worktree-busy", 3);
}

#[test]
fn what_was_only_staged_is_kept() {
    let agent = Agent::new();
    agent.write("src/two.rs", "staged once\n");
    agent.git(&["add", "src/two.rs"]);
    agent.write("src/two.rs", "and changed\n");
    let blob = agent.git(&["rev-parse", ":src/two.rs"]);
    answer(&agent, "merge", &[]);
    let reachable = agent.repo.git(["rev-list", "--objects", "--all"]);
    assert!(reachable.contains(&blob));
    require_sound(&agent);
}

#[test]
fn what_is_staged_and_in_no_file_any_more_is_no_work() {
    let agent = Agent::new();
    agent.write("src/two.rs", "staged\n");
    agent.git(&["add", "src/two.rs"]);
    std::fs::remove_file(agent.worktree.join("src/two.rs")).expect("removed");
    refused(&run(&agent, "merge", &[]), "nothing-to-land", 1);
    // Nor is a submodule without a directory.
    let link = format!("160000,{},src/sub", agent.git(&["rev-parse", "HEAD"]));
    agent.git(&["update-index", "--add", "--cacheinfo", &link]);
    refused(&run(&agent, "merge", &[]), "nothing-to-land", 1);
}

#[test]
fn a_commit_of_a_submodule_that_is_nowhere_else_is_told() {
    let agent = Agent::new();
    let library = agent.repo.path().with_file_name("library");
    agent.repo.git(["clone", "--quiet", ".", library.to_str().expect("UTF-8")]);
    let add = ["submodule", "--quiet", "add", library.to_str().expect("UTF-8"), "src/library"];
    let settings = ["-c", "protocol.file.allow=always"];
    agent.repo.git([&settings[..], &add].concat());
    agent.repo.commit_all("a library");
    let made = agent.repo.agent_json(&["spawn", "change the library"]);
    let worktree = std::path::PathBuf::from(made["worktree_abspath"].as_str().expect("a path"));
    let fill = ["submodule", "--quiet", "update", "--init"];
    git_in(&worktree, [&settings[..], &fill].concat());
    let inner = worktree.join("src/library");
    std::fs::write(inner.join("README.md"), "changed\n").expect("written");
    git_in(&inner, ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qam", "changed"]);
    let id = made["short_id"].as_str().expect("an id");
    agent.repo.agent_json(&["commit", id, "-m", "src: take the changed library"]);
    let warning =
        "submodules have commits that no remote of theirs has; until they are pushed from ";
    let told = |report: &Value| report["warnings"][0].as_str().unwrap_or_default().to_owned();
    let planned = agent.repo.agent_json(&["merge", id, "--now", "--dry-run"]);
    assert!(told(&planned).starts_with(warning), "{planned:#}");
    let landed = agent.repo.agent_json(&["merge", id, "--now"]);
    assert!(told(&landed).starts_with(warning), "{landed:#}");
    // What such a submodule has is no matter of work that leads to none of it.
    std::fs::write(worktree.join("src/other.rs"), "fn other() {}\n").expect("written");
    let landed = agent.repo.agent_json(&["merge", id, "--now"]);
    assert_eq!(
        (&landed["outcome"], told(&landed)),
        (&json!("merged"), String::new()),
        "{landed:#}"
    );
}

#[test]
fn what_only_another_clone_calls_done_is_not_landed_unasked() {
    let agent = Agent::new();
    agent.write("src/two.rs", "half\n");
    let row = agent.repo.agent_json(&["show", &agent.id]);
    let commit = row["spawn_commit"].as_str().expect("an oid").to_owned();
    let notes = ["notes", "--ref=agents"];
    let before = agent.repo.git([&notes[..], &["show", &commit]].concat());
    let own = before
        .lines()
        .next()
        .expect("a line")
        .split_once("Z-")
        .and_then(|(_, rest)| rest.get(4..8));
    // Also where it claims to be this clone.
    for clone in ["ffff", own.expect("a clone")] {
        let now = chrono::Utc::now().format("%Y%m%dT%H%M%S");
        let forged = format!(
            "{{\"t\":\"{now}.999999Z-000-{clone}\",\"a\":\"{}\",\"e\":\"done\",\"by\":\"Mallory\",\"d\":{{\"summary\":\"finished\"}}}}",
            agent.id
        );
        let append = [&notes[..], &["append", "-m", &forged, &commit]].concat();
        agent.repo.git(append);
        for all in [&["merge", "--all"][..], &["train", "--all"]] {
            let output = agent.repo.agent(&[all, &["--format=json"]].concat());
            let said = describe(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("only another clone says"), "{said}");
        }
    }
    assert_eq!(agent.repo.agent_json(&["show", &agent.id])["state"], "done");
    let report = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(report["outcome"], "merged", "{report}");
}

#[test]
fn no_agent_goes_on_that_a_person_stopped() {
    let agent = Agent::new();
    agent.write("src/two.rs", "half\n");
    agent.repo.agent_json(&["mark", "done", &agent.id]);
    let inside = |words: &[&str]| {
        let output = agent_command(&agent.worktree).args(words).output().expect("starts");
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("orchestrator-only"), "{said}");
    };
    agent.repo.agent_json(&["mark", "defer", &agent.id]);
    inside(&["mark", "fail", "--reason=so"]);
    agent.repo.agent_json(&["mark", "fail", &agent.id, "--reason=no"]);
    inside(&["mark", "done"]);
    assert_eq!(agent.repo.agent_json(&["show", &agent.id])["state"], "failed");
    // A run begins anew.
    let ran = agent.repo.agent(&["run", &agent.id, "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
    assert_eq!(agent.repo.agent_json(&["show", &agent.id])["state"], "done");
}

#[test]
fn all_lands_in_order_and_gives_each_one_verdict() {
    let first = Agent::new();
    first.write("src/two.rs", "pub fn two() {}\n");
    let path = first.repo.path();
    let more = |whitelist: &str| {
        let task = TASK.replace("src/**", whitelist);
        let report = first.repo.spawn_task(&task, &[]);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        (text("agent_id"), std::path::PathBuf::from(text("worktree_abspath")))
    };
    let fill = |worktree: &std::path::Path, content: &str| {
        for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
            std::fs::write(worktree.join(".agent").join(name), "written\n").expect("written");
        }
        let progress = worktree.join(".agent/progress.json");
        std::fs::write(progress, "{\"status\": \"done\"}\n").expect("written");
        std::fs::write(worktree.join("src/two.rs"), content).expect("written");
    };
    let (conflicting, worktree) = more("src/two.rs");
    fill(&worktree, "pub fn deux() {}\n");
    let (put_off, _) = more("src/put_off.rs");
    let (bare, _) = more("src/bare.rs");
    let (running, _) = more("src/running.rs");
    for id in [&first.id, &conflicting, &put_off, &bare] {
        first.repo.agent_json(&["done", id]);
    }
    first.repo.agent_json(&["defer", &put_off, "--reason", "later"]);
    let output =
        agent_command(&path).args(["merge", "--all", "--format=json"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let verdicts: Vec<_> = report["items"]
        .as_array()
        .expect("agents")
        .iter()
        .map(|one| (one["agent_id"].as_str().expect("id"), one["outcome"].as_str().expect("one")))
        .collect();
    assert_eq!(
        verdicts,
        [
            (first.id.as_str(), "merged"),
            (conflicting.as_str(), "not-merged"),
            (put_off.as_str(), "deferred"),
            (bare.as_str(), "reject-bundle"),
            (running.as_str(), "ready"),
        ]
    );
    let close = &report["close"];
    let ids = |key: &str| -> Vec<&str> {
        let agents = close[key].as_array().expect("agents").iter();
        agents.filter_map(|one| one["agent_id"].as_str()).collect()
    };
    assert_eq!(ids("unfinished"), [&running]);
    assert_eq!(ids("deferred"), [&put_off]);
    assert_eq!(ids("not_landed"), [&conflicting, &bare]);
    first.repo.agent_json(&["reject", &conflicting, "--reason", "too late"]);
    let shown = first.repo.agent_json(&["show", &conflicting]);
    assert_eq!((&shown["state"], &shown["summary"]), (&"rejected".into(), &"too late".into()));
    assert!(worktree.join("src/two.rs").is_file(), "its worktree stays");
}

#[test]
fn a_bare_repository_has_nothing_to_move() {
    let agent = ready();
    let bare = agent.repo.path().join(".git");
    agent.repo.git(["switch", "--quiet", "--detach"]);
    let output = agent_command(&bare).args(["merge", &agent.id]).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    let head = agent.repo.git(["rev-parse", "HEAD"]);
    assert_eq!(agent.repo.git(["rev-parse", "main^"]), head);
    require_sound(&agent);
}

#[test]
fn a_round_closes_with_the_question_or_without_a_word() {
    let agent = ready();
    let close = |format: &str| {
        let arguments = ["merge", "--all", "--dry-run", format];
        let output = agent.repo.agent(&arguments);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = close("--format=text");
    let hint = "to end the work of one, run git agent mark done <agent>";
    assert!(text.ends_with(&format!("not finished: {}\n{hint}\n", &agent.id[..8])), "{text}");
    agent.verify(&[]);
    let text = close("--format=text");
    assert_eq!(text, format!("{} planned\n", &agent.id[..8]));
    let rejected = answer(&agent, "reject", &[]);
    assert_eq!(rejected.get("summary"), None, "no reason was given");
    let task = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
    let task = task.join("task.toml").display().to_string();
    let text = close("--format=text").replace(&task, "<task>");
    insta::assert_snapshot!(text.replace(&agent.id[..8], "<agent>"), @r"
    <agent> rejected
    1 agent has not landed. What next?
      1. begin the rejected ones anew, then land them
         git agent retry <agent>
         git agent merge --all
      2. close now and come back; all of it stays
         git agent list
    ");
    let lines = close("--format=ndjson");
    let last: serde_json::Value =
        serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    let ways = last["close"]["ways"].as_array().expect("ways");
    let ways: Vec<_> = ways.iter().map(|way| way["way"].as_str()).collect();
    assert_eq!(ways, [Some("retry"), Some("close")]);
    // What was begun anew is not asked for again.
    agent.repo.agent_json(&["retry", &agent.id]);
    let last: serde_json::Value = serde_json::from_str(&close("--format=json")).expect("JSON");
    assert_eq!(last["close"].get("question"), None, "{last:#}");
}

#[test]
fn a_deferred_agent_stays_deferred_until_somebody_decides() {
    let agent = ready();
    agent.verify(&[]);
    answer(&agent, "defer", &["--reason", "after the release"]);
    // Judged again, with the same verdict and then with another one.
    agent.verify(&[]);
    agent.repo.write("src/lib.rs", "pub fn none() {}\n");
    agent.repo.commit_all("in the way");
    agent.verify(&[]);
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["deferred"], true, "{shown}");
    let report = agent.repo.agent_json(&["merge", "--all"]);
    assert_eq!(report["items"][0]["outcome"], "deferred");
    assert_eq!(report["items"][0]["reason"], "after the release");
    let ways = report["close"]["ways"].as_array().expect("ways");
    let by_name = format!("git agent merge {}", &agent.id[..8]);
    assert_eq!(ways.len(), 1, "{report}");
    assert_eq!(ways[0]["commands"][0], by_name);
}

#[test]
fn a_round_names_agents_and_what_a_verdict_rejected_them_for() {
    let repo = crate::support::TestRepo::with_commit();
    let task = crate::support::agent::TASK;
    let failed = repo.spawn_task(task, &["--name=fixer"]);
    let running = repo.spawn_task(task, &["--name=second"]);
    let judged = repo.agent(&["verify", "fixer", "--record"]);
    assert_eq!(judged.status.code(), Some(1));
    let output = repo.agent(&["merge", "--all", "--format=json"]);
    assert_eq!(output.status.code(), Some(1), "nothing landed");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let first = &report["items"][0];
    assert_eq!((&first["name"], &first["outcome"]), (&"fixer".into(), &"idle".into()));
    let reason = first["reason"].as_str().expect("why");
    assert!(reason.split(", ").any(|code| code == "bundle.template"), "{reason}");
    let text = describe(&repo.agent(&["merge", "--all"]));
    let short = |agent: &serde_json::Value| agent["agent_id"].to_string()[1..9].to_owned();
    let line = format!("{} fixer idle {reason}\n", short(&failed));
    assert!(text.contains(&line), "{text}");
    let line = format!("not finished: {} second\n", short(&running));
    assert!(text.contains(&line), "{text}");
}

#[test]
fn what_was_said_beyond_one_line_is_the_body_of_the_message() {
    let agent = ready();
    let long = format!("Two and three\n\nIn detail:\n{}\nAgent-Id: bogus", "word ".repeat(800));
    agent.repo.agent_json(&["done", &agent.id, "--summary", &long]);
    answer(&agent, "merge", &[]);
    let body = agent.repo.git(["log", "-1", "--format=%B", "main"]);
    // Long lines are broken at words.
    assert!(body.lines().all(|line| line.len() <= 72), "{body}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(&body),
        words(&format!("merge({}): {long} Agent-Id: {}", &agent.id[..8], agent.id))
    );
    let trailers = ["log", "-1", "--format=%(trailers:key=Agent-Id,valueonly)", "main"];
    assert_eq!(agent.repo.git(trailers).trim(), agent.id);
}

#[test]
fn commits_have_the_identity_that_git_would_choose() {
    let agent = ready();
    let included = agent.repo.path().join(".git/work.inc");
    fs::write(&included, "[user]\nname = At Work\nemail = me@work.example\n").expect("written");
    let key = "includeIf.hasconfig:remote.*.url:https://forge.example/**.path";
    for (key, value) in [
        ("user.name", "At Home"),
        ("user.email", "me@home.example"),
        ("remote.origin.url", "https://forge.example/a.git"),
        (key, included.to_str().expect("UTF-8")),
    ] {
        agent.repo.git(["config", key, value]);
    }
    let output = agent_command(&agent.repo.path())
        .args(["merge", &agent.id])
        .env_remove("GIT_AUTHOR_NAME")
        .env_remove("GIT_AUTHOR_EMAIL")
        .env_remove("GIT_COMMITTER_NAME")
        .env_remove("GIT_COMMITTER_EMAIL")
        .output()
        .expect("git-agent starts");
    assert!(output.status.success(), "{}", describe(&output));
    for commit in ["main", "main^2"] {
        let who = agent.repo.git(["log", "-1", "--format=%an %ae %cn %ce", commit]);
        assert_eq!(who, "At Work me@work.example At Work me@work.example", "{commit}");
    }
}

#[test]
fn what_can_be_no_branch_is_refused_before_anything_is_judged() {
    let agent = Agent::new();
    for name in ["main~0", "", "@{u}", "a b", "refs/heads/"] {
        for verb in ["merge", "train"] {
            let output = agent.repo.agent(&[verb, &agent.id, "--into", name, "--format=json"]);
            let said = describe(&output);
            assert_eq!(output.status.code(), Some(2), "{verb} {name:?}: {said}");
            assert!(said.contains("cannot be the name of a branch"), "{verb} {name:?}: {said}");
        }
    }
}

#[test]
fn a_discard_tells_of_what_landed_as_merged() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    answer(&agent, "merge", &[]);
    // The second time nothing is left to remove.
    for _ in 0..2 {
        assert_eq!(agent.repo.agent_json(&["discard", &agent.id])["state"], "merged");
    }
}
