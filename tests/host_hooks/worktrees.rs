use super::{Agent, agent, assert_allowed, denied, hook, write_call};
use crate::support::agent::{TASK, describe};
use crate::support::{git_in, git_output};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn create(directory: &Path, name: &str) -> Output {
    let call = json!({"hook_event_name": "WorktreeCreate", "cwd": directory, "name": name});
    hook(directory, "worktree-create", &call)
}

/// The one line of an answer, which must be an absolute path.
fn made(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", describe(output));
    let text = String::from_utf8_lossy(&output.stdout);
    let path = PathBuf::from(text.strip_suffix('\n').expect("a line"));
    assert!(path.is_absolute() && path.is_dir(), "{text}");
    path
}

fn remove(directory: &Path, path: &Path) -> Output {
    let call =
        json!({"hook_event_name": "WorktreeRemove", "cwd": directory, "worktree_path": path});
    hook(directory, "worktree-remove", &call)
}

#[test]
fn a_host_gets_a_plain_worktree_and_gives_it_back() {
    let Agent { repo, .. } = agent();
    let main = repo.path();
    let path = made(&create(&main, "bold-otter"));
    assert_eq!(path, main.join(".claude/worktrees/bold-otter"));
    assert_eq!(git_in(&path, ["branch", "--show-current"]), "worktree-bold-otter");
    assert_eq!(git_in(&path, ["status", "--porcelain"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let entry = listed.split("\n\n").find(|entry| entry.contains("bold-otter"));
    assert!(!entry.expect("listed").contains("locked"), "{listed}");
    assert_eq!(made(&create(&main, "bold-otter")), path, "asked twice, made once");
    assert_allowed(&hook(&path, "pre-tool", &write_call(&path, "README.md")), "no agent");

    assert_allowed(&remove(&main, &path), "clean");
    assert!(!path.exists());
    assert_eq!(repo.git(["branch", "--list", "worktree-*"]), "");
    assert_allowed(&remove(&main, &path), "gone already");
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
}

#[test]
fn nothing_is_lost_when_a_host_is_done() {
    let agent = agent();
    let main = agent.repo.path();
    let path = made(&create(&main, "work"));
    fs::write(path.join("new.txt"), "work").expect("written");
    assert_eq!(remove(&main, &path).status.code(), Some(4), "untracked work");
    assert!(path.join("new.txt").exists());
    git_in(&path, ["add", "."]);
    git_in(&path, ["commit", "--quiet", "-m", "work"]);
    assert_allowed(&remove(&main, &path), "committed work");
    assert!(!path.exists());
    assert_eq!(agent.repo.git(["log", "-1", "--format=%s", "worktree-work"]), "work");

    for kept in [&agent.worktree, &main] {
        remove(&main, kept);
        assert!(kept.join("README.md").exists());
    }
    // Neither the lock alone keeps an agent's worktree.
    let path = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "unlock", path]);
    assert_allowed(&remove(&main, &agent.worktree), "an agent's");
    assert!(agent.worktree.join(".agent/spec.md").exists());
}

#[test]
fn files_that_git_was_told_to_pass_over_are_not_lost_when_a_host_is_done() {
    let agent = agent();
    let main = agent.repo.path();
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let path = made(&create(&main, "marked"));
        git_in(&path, ["update-index", flag, "README.md"]);
        let before = fs::read(path.join("README.md")).expect("read");
        fs::write(path.join("README.md"), "work").expect("written");
        assert_eq!(git_in(&path, ["status", "--porcelain"]), "", "{flag} hides it");
        let output = remove(&main, &path);
        assert_eq!(output.status.code(), Some(4), "{flag}");
        assert!(describe(&output).contains("README.md"), "{}", describe(&output));
        fs::write(path.join("README.md"), before).expect("written");
        assert_allowed(&remove(&main, &path), flag);
        assert!(!path.exists(), "{flag}");
        // What a sparse checkout left out is no change.
        let path = made(&create(&main, "marked"));
        git_in(&path, ["sparse-checkout", "set", "src"]);
        assert_allowed(&remove(&main, &path), "sparse");
        assert!(!path.exists(), "sparse");
    }
}

#[test]
fn a_name_of_an_agent_is_that_agents_worktree() {
    let agent = agent();
    let main = agent.repo.path();
    let named = agent.repo.spawn_task(TASK, &["--name", "parser"]);
    let named = PathBuf::from(named["worktree_abspath"].as_str().expect("one"));
    let id8 = &agent.id[..8];
    assert_eq!(made(&create(&main, id8)), agent.worktree);
    assert_eq!(made(&create(&main, &format!("agent-{id8}"))), agent.worktree);
    assert_eq!(made(&create(&main, "parser")), named);
    let part = made(&create(&main, &agent.id[..6]));
    assert_ne!(part, agent.worktree, "a part of an id is a name like any other");
}

#[test]
fn a_subagent_gets_an_agent_that_its_session_called_and_is_told_its_task() {
    let agent = agent();
    let main = agent.repo.path();
    fs::create_dir_all(main.join(".claude")).expect("made");
    let init = agent.repo.agent(&["init", "--host=claude", "--worktrees"]);
    assert!(init.status.success(), "{}", describe(&init));
    let call = agent.repo.agent_json(&["show", &agent.id, "--invocation"]);
    assert_eq!(call["isolation"], "worktree", "the host asks us");
    let called = |session: &str| {
        let call = json!({"hook_event_name": "PreToolUse", "tool_name": "Agent", "cwd": main, "session_id": session, "tool_input": call});
        assert_allowed(&hook(&main, "pre-tool", &call), "a call");
    };
    let asked = |session: &str, name: &str| {
        let call = json!({"hook_event_name": "WorktreeCreate", "cwd": main, "session_id": session, "name": name});
        made(&hook(&main, "worktree-create", &call))
    };
    called("one");
    assert_ne!(asked("two", "agent-a2"), agent.worktree, "another session");
    assert_eq!(asked("one", "agent-a1"), agent.worktree);
    assert_ne!(asked("one", "agent-a3"), agent.worktree, "once");
    let start =
        json!({"hook_event_name": "SubagentStart", "cwd": agent.worktree, "agent_id": "a1"});
    let told = hook(&agent.worktree, "subagent-start", &start);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let context = &told["hookSpecificOutput"]["additionalContext"];
    let context = context.as_str().expect("a text");
    assert!(context.contains(&agent.id) && context.contains("## Task"), "{context}");
    let outside = json!({"hook_event_name": "SubagentStart", "cwd": main, "agent_id": "a1"});
    assert_allowed(&hook(&main, "subagent-start", &outside), "no agent");
    // An agent with a task stays, whatever its host is done with.
    assert_allowed(&remove(&main, &agent.worktree), "an agent's");
    assert!(agent.worktree.exists());
}

#[test]
fn a_worktree_for_a_host_is_an_agent_where_the_repository_has_defaults() {
    let Agent { repo, .. } = agent();
    let main = repo.path();
    repo.write(".config/git-agent.toml", "[defaults]\nscope = [\"src/**\"]\n");
    repo.commit_all("settings");
    let path = made(&create(&main, "bold-otter"));
    assert_eq!(made(&create(&main, "bold-otter")), path, "asked twice, made once");
    let shown = repo.agent_json(&["show", "bold-otter"]);
    assert_eq!(shown["worktree_abspath"], path.to_str().expect("UTF-8"));
    assert_eq!(shown["whitelist"], json!(["src/**"]));
    denied(&hook(&path, "pre-tool", &write_call(&path, "README.md")), "scope");
    assert_allowed(&remove(&main, &path), "unused");
    assert!(!path.exists());
    assert_eq!(repo.agent_json(&["show", "bold-otter"])["state"], "discarded");

    let path = made(&create(&main, "agent-a0123456789"));
    let stop = |subagent: &str| {
        let call = json!({"hook_event_name": "SubagentStop", "cwd": path, "agent_id": subagent});
        hook(&path, "stop", &call);
        path.exists()
    };
    fs::write(path.join("src/new.rs"), "").expect("written");
    assert!(stop("a0123456789"), "work");
    assert_allowed(&remove(&main, &path), "work");
    assert!(path.exists(), "work");
    fs::remove_file(path.join("src/new.rs")).expect("removed");
    assert!(stop("another"), "of this subagent alone");
    assert!(!stop("a0123456789"), "clean");
}

#[test]
fn each_worktree_of_a_host_has_the_task_that_it_was_made_for() {
    let Agent { repo, .. } = agent();
    let main = repo.path();
    repo.write(".config/git-agent.toml", "[defaults]\nscope = [\"src/**\"]\n");
    repo.commit_all("settings");
    let session = main.with_file_name("session.jsonl");
    let of_subagents = main.with_file_name("session").join("subagents");
    fs::create_dir_all(&of_subagents).expect("made");
    let tasks = ["Write the parser", "Write the lexer", "Write the printer"];
    let mut places = Vec::new();
    for (n, task) in tasks.iter().enumerate() {
        let name = format!("a012345678{n}");
        let place = made(&create(&main, &format!("agent-{name}")));
        let begun = json!({"hook_event_name": "SubagentStart", "session_id": "s", "transcript_path": session,
            "cwd": place, "agent_id": name});
        hook(&place, "subagent-start", &begun);
        // The host writes it after the subagent has begun.
        let line = json!({"type": "user", "message": {"role": "user", "content": format!("{task}\n\nThe rest.")}});
        let file = of_subagents.join(format!("agent-{name}.jsonl"));
        fs::write(file, format!("{line}\n{{}}\n")).expect("written");
        places.push((name, place));
    }
    for (name, place) in &places {
        let mut call = write_call(place, "src/new.rs");
        call["session_id"] = "s".into();
        call["agent_id"] = name.as_str().into();
        call["transcript_path"] = session.to_str().expect("UTF-8").into();
        assert_allowed(&hook(place, "pre-tool", &call), "in scope");
        fs::write(place.join("src/new.rs"), "").expect("written");
    }
    let listed = |key: &str| -> Vec<String> {
        let listed = repo.agent_json(&["list"])["agents"].clone();
        let agents = listed.as_array().expect("a list").iter();
        let made = agents.filter(|agent| {
            agent["description"] != "Add a second function to the library and test it."
        });
        made.map(|agent| agent[key].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(listed("description"), tasks);
    assert_eq!(listed("state"), ["running"; 3]);
    for (name, place) in &places {
        let stop = json!({"hook_event_name": "SubagentStop", "session_id": "s", "cwd": place, "agent_id": name,
            "transcript_path": session});
        hook(place, "stop", &stop);
    }
    assert_eq!(listed("state"), ["idle"; 3]);
    let log = repo.agent(&["log", &listed("agent_id")[0]]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.contains("is for: Write the parser") && log.contains("The rest."), "{log}");
}

#[test]
fn a_session_in_a_worktree_of_a_host_has_its_first_prompt_for_a_task() {
    let Agent { repo, .. } = agent();
    let main = repo.path();
    repo.write(".config/git-agent.toml", "[defaults]\nscope = [\"src/**\"]\n");
    repo.commit_all("settings");
    let place = made(&create(&main, "bold-otter"));
    for prompt in ["Mend the build", "And the tests"] {
        let call = json!({"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": place, "prompt": prompt});
        assert_allowed(&hook(&place, "prompt", &call), "a prompt");
    }
    assert_eq!(repo.agent_json(&["show", "bold-otter"])["description"], "Mend the build");
}

#[test]
fn impossible_worktrees_are_refused_and_leave_nothing() {
    let agent = agent();
    let main = agent.repo.path();
    let refused = |output: Output, code: &str| {
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("error[{code}]")), "{said}");
    };
    let ours = ["verify-0123abcd", "agent-0123abcd"];
    for name in ["..", "../x", "/tmp/x", "", "-x", "a b"].iter().chain(&ours) {
        refused(create(&main, name), "path-invalid");
    }
    refused(hook(&main, "worktree-create", &json!({"cwd": main})), "usage");
    refused(create(&agent.worktree, "nested"), "recursion-refused");
    agent.repo.git(["branch", "worktree-taken"]);
    refused(create(&main, "taken"), "branch-exists");
    agent.repo.write(".claude/worktrees/full/file", "x");
    refused(create(&main, "full"), "path-exists");
    assert!(main.join(".claude/worktrees/full/file").exists());
    let branches = agent.repo.git(["branch", "--list", "worktree-*"]);
    assert_eq!(branches.trim(), "worktree-taken");
    denied(&hook(&agent.worktree, "pre-tool", &json!({"tool_name": "EnterWorktree"})), "enter");
}

/// A commit with a file of its own, on whatever is checked out there.
fn commit(directory: &Path, name: &str) -> String {
    fs::write(directory.join(name), name).expect("written");
    git_in(directory, ["add", "."]);
    git_in(directory, ["commit", "--quiet", "-m", name]);
    git_in(directory, ["rev-parse", "HEAD"])
}

/// What git still has after everything that no ref and no reflog holds is gone.
fn survives(repo: &Path, commit: &str) -> bool {
    git_in(repo, ["reflog", "expire", "--expire=now", "--all"]);
    git_in(repo, ["gc", "--quiet", "--prune=now"]);
    git_output(repo, ["cat-file", "-e", commit]).status.success()
}

#[test]
fn commits_that_only_a_worktree_names_outlive_it() {
    // What a person does in a worktree, and the commit that is on no branch afterwards.
    type Deed = fn(&Path) -> String;
    let deeds: [(&str, Deed); 6] = [
        ("detached", |path| {
            git_in(path, ["switch", "--quiet", "--detach"]);
            commit(path, "detached.txt")
        }),
        ("reflog", |path| {
            let amended = commit(path, "amended.txt");
            git_in(path, ["reset", "--quiet", "--hard", "HEAD^"]);
            amended
        }),
        ("own-ref", |path| {
            let own = commit(path, "own.txt");
            git_in(path, ["update-ref", "refs/worktree/mine", &own]);
            git_in(path, ["reset", "--quiet", "--hard", "HEAD^"]);
            fs::remove_dir_all(git_dir(path).join("logs")).expect("a reflog");
            fs::remove_file(git_dir(path).join("ORIG_HEAD")).expect("a file");
            own
        }),
        ("bisect", |path| {
            git_in(path, ["switch", "--quiet", "--detach"]);
            let bad = commit(path, "bad.txt");
            git_in(path, ["bisect", "start", "HEAD", "HEAD^"]);
            git_in(path, ["switch", "--quiet", "--detach", "main"]);
            bad
        }),
        ("rewritten", |path| {
            let own = commit(path, "rewritten.txt");
            git_in(path, ["update-ref", "refs/rewritten/onto", &own]);
            git_in(path, ["reset", "--quiet", "--hard", "HEAD^"]);
            own
        }),
        ("tag", |path| {
            let own = commit(path, "tagged.txt");
            git_in(path, ["tag", "-a", "-m", "mine", "passing"]);
            let tag = git_in(path, ["rev-parse", "passing"]);
            git_in(path, ["update-ref", "refs/worktree/tagged", &tag]);
            git_in(path, ["tag", "-d", "passing"]);
            git_in(path, ["reset", "--quiet", "--hard", "HEAD^"]);
            fs::remove_dir_all(git_dir(path).join("logs")).expect("a reflog");
            fs::remove_file(git_dir(path).join("ORIG_HEAD")).expect("a file");
            own
        }),
    ];
    for (name, deed) in deeds {
        let Agent { repo, .. } = agent();
        let path = made(&create(&repo.path(), name));
        let lost = deed(&path);
        let removed = remove(&repo.path(), &path);
        assert!(removed.status.success(), "{name}: {}", describe(&removed));
        assert!(!path.exists(), "{name}");
        let said = String::from_utf8_lossy(&removed.stdout);
        assert!(said.contains(&lost), "{name}: {said}");
        assert!(survives(&repo.path(), &lost), "{name}");
    }
}

#[test]
fn a_worktree_in_the_middle_of_something_stays() {
    let begin: [(&str, &[&str]); 4] = [
        ("merge", &["merge", "theirs"]),
        ("rebase", &["rebase", "theirs"]),
        ("cherry-pick", &["cherry-pick", "theirs"]),
        ("revert", &["revert", "--no-edit", "HEAD^"]),
    ];
    for (name, words) in begin {
        let Agent { repo, .. } = agent();
        let path = made(&create(&repo.path(), name));
        git_in(&path, ["switch", "--quiet", "-c", "theirs"]);
        fs::write(path.join("both.txt"), "theirs\n").expect("written");
        commit(&path, "t.txt");
        git_in(&path, ["switch", "--quiet", "--detach", "HEAD^"]);
        for text in ["mine\n", "mine again\n"] {
            fs::write(path.join("both.txt"), text).expect("written");
            commit(&path, &format!("{}.txt", text.len()));
        }
        let own = git_in(&path, ["rev-parse", "HEAD"]);
        assert!(!git_output(&path, words).status.success(), "{name}");
        // Resolved, so that no file differs from the commit; what is unfinished is in the admin directory alone.
        git_in(&path, ["checkout", "--quiet", "HEAD", "--", "."]);
        git_in(&path, ["reset", "--quiet"]);
        git_in(&path, ["clean", "-fdq"]);
        let is_unfinished = ["MERGE_HEAD", "rebase-merge", "CHERRY_PICK_HEAD", "REVERT_HEAD"]
            .iter()
            .any(|file| git_dir(&path).join(file).exists());
        let removed = remove(&repo.path(), &path);
        if is_unfinished {
            assert_eq!(removed.status.code(), Some(4), "{name}: {}", describe(&removed));
            assert!(path.exists(), "{name}");
        } else {
            // What stands in the admin directory alone, an older git does not keep.
            assert!(survives(&repo.path(), &own), "{name}");
        }
    }
}

fn git_dir(worktree: &Path) -> PathBuf {
    git_in(worktree, ["rev-parse", "--absolute-git-dir"]).into()
}
