use crate::support::agent::describe;
use crate::support::hub::*;
use crate::support::{git_in, isolated};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

const LEDGER: &str = "refs/notes/agents";

/// Writes a hook of a clone.
fn hook(clone: &Path, name: &str, script: &str) {
    let path = clone.join(".git/hooks").join(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// `git push`, with `git agent` on its search path.
fn push(clone: &Path, words: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_git-agent"));
    let own = program.parent().expect("a directory");
    let path = std::env::var("PATH").expect("a search path");
    let mut command = isolated("git", clone);
    command.env("PATH", format!("{}:{path}", own.display()));
    let output = command.arg("push").args(words).output();
    output.expect("git starts")
}

/// The hooks that the documentation shows, by their names.
fn documented() -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let pages = fs::read_dir(docs).expect("docs").map(|page| page.expect("a page").path());
    let texts = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
    let mut hooks = Vec::new();
    for text in texts.map(|page| fs::read_to_string(page).expect("a page")) {
        for block in text.split("```sh\n").skip(1) {
            let script = block.split("```").next().unwrap_or_default();
            let name = script.strip_prefix("#!/bin/sh\n# .git/hooks/");
            if let Some(name) = name.and_then(|rest| rest.lines().next()) {
                hooks.push((name.to_owned(), script.to_owned()));
            }
        }
    }
    hooks
}

/// A clone with an agent and a commit that `git push` has to send.
fn clone_with_news() -> (Hub, PathBuf) {
    let hub = Hub::new(1);
    let clone = hub.clones[0].clone();
    spawn(&clone, &[]);
    git_in(&clone, ["commit", "--quiet", "--allow-empty", "-m", "news"]);
    (hub, clone)
}

#[test]
fn every_hook_that_the_documentation_shows_lets_a_push_through() {
    let hooks = documented();
    assert!(hooks.iter().any(|(name, _)| name == "pre-push"), "{hooks:?}");
    for (name, script) in hooks {
        let (hub, clone) = clone_with_news();
        hook(&clone, &name, &script);
        let output = push(&clone, &["origin", "HEAD:main"]);
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(hub.remote_tip("refs/heads/main"), tip(&clone, "HEAD"));
        // What a slow machine did not send in time goes with the next exchange.
        json(&clone, &["sync"]);
        assert_eq!(hub.remote_tip(LEDGER), tip(&clone, LEDGER));
    }
}

#[test]
fn a_hook_that_synchronises_sends_rows_and_branches() {
    for line in
        ["sync --best-effort --timeout 60s", "sync --best-effort --timeout=60s -- origin", "sync"]
    {
        let (hub, clone) = clone_with_news();
        hook(&clone, "pre-push", &format!("#!/bin/sh\ngit agent {line}\n"));
        let output = push(&clone, &["origin", "HEAD:main"]);
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(hub.remote_tip("refs/heads/main"), tip(&clone, "HEAD"));
        assert_eq!(hub.remote_tip(LEDGER), tip(&clone, LEDGER), "{line}");
        let agents = git_in(&hub.bare, ["for-each-ref", "refs/heads/agent"]);
        assert_eq!(agents.lines().count(), 1, "{line}");
    }
}

#[test]
fn a_push_of_ours_that_asks_a_hook_which_synchronises_ends() {
    let (hub, clone) = clone_with_news();
    git_in(&clone, ["push", "--quiet", "origin", "HEAD:main"]);
    for line in ["sync --best-effort", "sync"] {
        let program = env!("CARGO_BIN_EXE_git-agent");
        hook(&clone, "pre-push", &format!("#!/bin/sh\nexec {program} {line}\n"));
        let spawned = spawn(&clone, &["--no-bundle"]);
        let id = spawned["agent_id"].as_str().expect("an id").to_owned();
        let tree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        fs::write(tree.join("src/new.rs"), line).expect("written");
        let output = agent(&clone, &["merge", &id, "--push"]);
        assert!(output.status.success(), "{line}: {}", describe(&output));
        assert_eq!(hub.remote_tip("refs/heads/main"), tip(&clone, "HEAD"));
    }
}

#[test]
fn a_hook_waits_for_no_other_exchange_and_no_repository_keeps_it_from_ending_with_0() {
    let (hub, clone) = clone_with_news();
    hook(&clone, "pre-push", "#!/bin/sh\nexec git agent sync --best-effort --timeout 60s\n");
    json(&clone, &["list"]);
    fs::create_dir_all(clone.join(".git/agents")).expect("made");
    let lock = File::create(clone.join(".git/agents/sync.lock")).expect("made");
    lock.lock().expect("locked");
    let output = push(&clone, &["origin", "HEAD:main"]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(describe(&output).contains("goes with the next sync"), "{}", describe(&output));
    assert_eq!(hub.remote_tip(LEDGER), "");
    drop(lock);
    json(&clone, &["sync"]);
    assert_eq!(hub.remote_tip(LEDGER), tip(&clone, LEDGER));
    // A repository that git-agent cannot open is no reason to refuse a push.
    let nowhere = tempfile::tempdir().expect("a directory");
    let output = agent(nowhere.path(), &["sync", "--best-effort"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn a_remote_that_never_answers_ends_with_the_push_and_leaves_no_process() {
    let (hub, clone) = clone_with_news();
    let pid = clone.with_file_name("pid");
    let silent = clone.with_file_name("silent");
    fs::write(&silent, format!("#!/bin/sh\necho $$ >{}\nexec sleep 1000\n", pid.display()))
        .expect("written");
    fs::set_permissions(&silent, fs::Permissions::from_mode(0o755)).expect("executable");
    git_in(&clone, ["remote", "add", "silent", &format!("ext::{}", silent.display())]);
    git_in(&clone, ["config", "protocol.ext.allow", "always"]);
    hook(&clone, "pre-push", "#!/bin/sh\ngit agent sync --best-effort silent\n");
    let output = push(&clone, &["origin", "HEAD:main"]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(hub.remote_tip("refs/heads/main"), tip(&clone, "HEAD"));
    // Where the machine was too slow to come as far as the remote, there is nothing to look for.
    let Ok(pid) = fs::read_to_string(pid) else {
        return;
    };
    let command = fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert!(!command.is_ok_and(|line| line.contains("1000")), "process {pid} is left");
}
