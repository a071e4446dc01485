use super::oracle::assert_same_files;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, isolated};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A shell script in the main worktree; `$agent` is the built program, `$task` a task file.
fn script(repo: &TestRepo, command: &mut Command, script: &str) -> std::process::Output {
    let agent = agent_command(Path::new("/"));
    command
        .args(["-eu", "-c", script])
        .current_dir(repo.path())
        .env("agent", agent.get_program())
        .env("task", repo.task_file(TASK))
        .output()
        .expect("starts")
}

#[test]
fn the_umask_is_obeyed() {
    let repo = super::oracle::varied();
    let words = "umask 077
        git worktree add --quiet --detach ../theirs
        \"$agent\" spawn \"$task\" --path ../ours";
    let output = script(&repo, &mut isolated("sh", &repo.path()), words);
    assert!(output.status.success(), "{}", describe(&output));
    let [ours, theirs] = ["ours", "theirs"].map(|name| repo.path().with_file_name(name));
    fs::remove_dir_all(ours.join(".agent")).expect("the bundle");
    assert_same_files(&ours, &theirs);
}

#[test]
fn a_repository_that_is_shared_with_a_group_stays_so() {
    let repo = TestRepo::with_commit();
    repo.git(["init", "--quiet", "--shared=group"]);
    let words = "umask 022
        chmod -R g+w .git
        for _ in 1 2 3 4; do \"$agent\" spawn \"$task\" --format=json; done
        find .git/objects .git/refs .git/logs .git/worktrees .git/agents/*.lock \\
            ! -perm -g+w ! -path '*/objects/??/*' ! -path '*/pack/*' >&2";
    let output = script(&repo, &mut isolated("sh", &repo.path()), words);
    assert!(output.status.success(), "{}", describe(&output));
    let closed = String::from_utf8_lossy(&output.stderr);
    let closed: Vec<_> = closed.lines().filter(|line| line.starts_with(".git")).collect();
    assert_eq!(closed, [""; 0]);
    assert!(repo.path().join(".git/agents/ledger.lock").is_file());
}

/// Needs a user namespace that may mount; where there is none, nothing is tested.
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let repo = TestRepo::with_commit();
    repo.write("src/large", vec![7; 1 << 20]);
    repo.commit_all("large");
    let disk = repo.path().with_file_name("disk");
    fs::create_dir(&disk).expect("directory");
    let in_namespace = |words: &str| {
        let mut unshare = isolated("unshare", &repo.path());
        unshare.args(["--user", "--map-root-user", "--mount", "sh"]);
        script(&repo, &mut unshare, words)
    };
    let mount = "mount -t tmpfs -o size=256k none ../disk";
    let possible = isolated("unshare", &repo.path()).arg("--version").output().is_ok();
    if !possible || !in_namespace(mount).status.success() {
        return;
    }
    let words = format!(
        "{mount}
        \"$agent\" spawn \"$task\" --path ../disk/worktree --format=json && exit 1
        ls -A ../disk
        git branch --list 'agent/*'
        find .git/worktrees .git/agents/spawning .git/agents/tmp -mindepth 1
        git status --porcelain"
    );
    let output = in_namespace(&words);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("\"code\":\"disk-full\""), "{said}");
}
