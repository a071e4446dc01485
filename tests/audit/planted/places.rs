//! Each place proves that it fires: plain git in the same worktree starts the planted program.

use super::{Planted, Scene};
use crate::sandbox::level;
use crate::support::agent::describe;
use std::collections::BTreeMap;

/// What is planted, what an unsuspecting user types in the worktree, and the program that runs.
const FIRE: &[(Planted, &str, &str)] = &[
    (&["settings"], "git status", "own-fsmonitor"),
    (&["settings"], "git add src/new.rs", "own-clean"),
    (&["settings"], "rm src/lib.rs; git checkout src/lib.rs", "own-smudge"),
    (&["settings"], "git add src/new.run", "own-process"),
    (&["settings"], "git add src/new.inc", "own-included"),
    (&["settings"], "git diff src/lib.rs", "own-external"),
    (&["settings"], "git diff --no-ext-diff src/lib.rs", "own-textconv"),
    (&["settings"], "git add src/new.drv; git diff --cached src/new.drv", "own-driver"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-pre-commit"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-post-commit"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-reference-transaction"),
    (&["settings"], "git add src/new.txt", "own-hook-post-index-change"),
    (&["settings"], "git checkout --detach", "own-hook-post-checkout"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign", "own-editor"),
    (&["settings"], "git commit --allow-empty -m x", "gpg"),
    (&["settings"], "git -c core.fsmonitor=false rebase -i --root --autostash", "own-sequence"),
    (&["nested"], "script -qec 'git -C src/loose log' /dev/null", "loose-pager"),
    (&["nested"], "script -qec 'git -C src/loose -c diff.external= diff' /dev/null", "loose-pager-diff"),
    (&["settings"], "echo url=https://localhost/ | git credential fill", "own-credential"),
    (
        &["settings"],
        "echo url=https://localhost/ | git -c credential.helper= credential fill",
        "askpass",
    ),
    (&["settings"], "git ls-remote ssh://localhost/x", "own-ssh"),
    (&["settings"], "git ls-remote git://localhost/x", "proxy"),
    (&["settings"], "git ls-remote planted:x", "own-ext"),
    (&["settings"], "git fetch origin", "own-uploadpack"),
    (&["settings"], "git push origin HEAD:refs/heads/x", "own-receivepack"),
    (&["nested"], "git -C src/loose planted", "loose-alias"),
    (&["settings"], "echo q | TERM=xterm script -qec 'git add -p' /dev/null", "own-interactive"),
    (&["settings"], "echo x | git interpret-trailers --trailer Agent-Id:x", "own-trailer"),
    (
        &["settings"],
        "g='git -c core.hooksPath=/dev/null -c commit.gpgSign=false -c filter.planted.clean= -c filter.planted.smudge='
         $g commit -qam one; $g checkout -q -b other HEAD~1; echo 'fn other() {}' >>src/lib.rs
         $g commit -qam two; $g merge -q --no-edit -",
        "own-merge",
    ),
    (&["nested"], "git status", "linked-clean"),
    (&["nested"], "git status", "linked-fsmonitor"),
    (&["nested"], "git -C src/loose status", "loose-fsmonitor"),
    (&["nested"], "git -C src/loose add .", "loose-clean"),
    (&["nested"], "git -C src/linked commit -qam x", "linked-pre-commit"),
    (&["husky"], "git commit --allow-empty -m x", "husky-pre-commit"),
    (&["shims"], "git commit --allow-empty -m x", "shim-pre-commit"),
    (&["pointer"], "git status", "pointer-fsmonitor"),
    (&["pointer"], "git add src/new.rs", "pointer-clean"),
    (&["common"], "git status", "common-fsmonitor"),
    (&["common"], "git add src/new.rs", "common-clean"),
];

#[test]
fn plain_git_runs_what_is_planted() {
    let mut silent = Vec::new();
    let mut scenes: BTreeMap<Planted, Scene> = BTreeMap::new();
    for (what, line, program) in FIRE {
        let scene = scenes.entry(what).or_insert_with(|| Scene::planted(what));
        let mut shell = scene.command("sh", &scene.agent.worktree);
        let output = shell.args(["-c", line]).output().expect("starts");
        let ran = scene.ran();
        if !ran.contains(*program) {
            silent.push(format!(
                "{what:?}: `{line}` ran {ran:?}, not {program}: {}",
                describe(&output)
            ));
        }
        scene.renew();
    }
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
}

#[test]
fn plain_git_runs_what_a_command_in_a_sandbox_planted() {
    if level().is_none() {
        return;
    }
    let what = &["settings", "nested"];
    let during = Scene::during_a_run(what);
    let after = Scene::after_a_run(what);
    for (scene, programs) in [
        (during, &["own-fsmonitor", "own-clean"][..]),
        // Its settings are gone with the run, and a repository that it made is not.
        (after, &["linked-fsmonitor", "linked-clean"]),
    ] {
        let mut shell = scene.command("sh", &scene.agent.worktree);
        let line = "git status; git add src/new.rs";
        let output = shell.args(["-c", line]).output().expect("starts");
        let ran = scene.ran();
        let missing = programs.iter().find(|program| !ran.contains(**program));
        assert_eq!(missing, None, "ran {ran:?}: {}", describe(&output));
    }
}
