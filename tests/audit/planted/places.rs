//! Each place proves that it fires: plain git in the same worktree starts the planted program.

use super::{Planted, Scene};
use crate::sandbox::level;
use crate::support::agent::describe;
use std::collections::BTreeMap;

/// What is planted, what an unsuspecting user types in the worktree, the program that runs, and how the page on safety
/// names the place.
pub const FIRE: &[(Planted, &str, &str, &str)] = &[
    (&["settings"], "git status", "own-fsmonitor", "`core.fsmonitor` in `config.worktree`"),
    (&["settings"], "git add src/new.rs", "own-clean", "`filter.*.clean` in `config.worktree`, applied by a tracked `.gitattributes`"),
    (&["settings"], "rm src/lib.rs; git checkout src/lib.rs", "own-smudge", "`filter.*.smudge` in `config.worktree`"),
    (&["settings"], "git add src/new.run", "own-process", "`filter.*.process` in `config.worktree`"),
    (&["settings"], "git add src/new.inc", "own-included", "a filter in a file that `include.path` in `config.worktree` names"),
    (&["settings"], "git diff src/lib.rs", "own-external", "`diff.external` in `config.worktree`"),
    (&["settings"], "git diff --no-ext-diff src/lib.rs", "own-textconv", "`diff.*.textconv` in `config.worktree`"),
    (&["settings"], "git add src/new.drv; git diff --cached src/new.drv", "own-driver", "`diff.*.command` in `config.worktree`"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-pre-commit", "a `pre-commit` hook below `core.hooksPath` of `config.worktree`"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-post-commit", "a `post-commit` hook below such a `core.hooksPath`"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign -m x", "own-hook-reference-transaction", "a `reference-transaction` hook below such a `core.hooksPath`"),
    (&["settings"], "git add src/new.txt", "own-hook-post-index-change", "a `post-index-change` hook below such a `core.hooksPath`"),
    (&["settings"], "git checkout --detach", "own-hook-post-checkout", "a `post-checkout` hook below such a `core.hooksPath`"),
    (&["settings"], "git commit --allow-empty --no-gpg-sign", "own-editor", "`core.editor` in `config.worktree`"),
    (&["settings"], "git commit --allow-empty -m x", "gpg", "`gpg.program` and `commit.gpgSign` in `config.worktree`"),
    (&["settings"], "git -c core.fsmonitor=false rebase -i --root --autostash", "own-sequence", "`sequence.editor` in `config.worktree`"),
    (&["nested"], "script -qec 'git -C src/loose log' /dev/null", "loose-pager", "`core.pager` of an untracked repository inside the worktree"),
    (&["nested"], "script -qec 'git -C src/loose -c diff.external= diff' /dev/null", "loose-pager-diff", "`pager.diff` of an untracked repository inside the worktree"),
    (&["settings"], "echo url=https://localhost/ | git credential fill", "own-credential", "`credential.helper` in `config.worktree`"),
    (
        &["settings"],
        "echo url=https://localhost/ | git -c credential.helper= credential fill",
        "askpass",
        "`core.askPass` in `config.worktree`",
    ),
    (&["settings"], "git ls-remote ssh://localhost/x", "own-ssh", "`core.sshCommand` in `config.worktree`"),
    (&["settings"], "git ls-remote git://localhost/x", "proxy", "`core.gitProxy` in `config.worktree`"),
    (&["settings"], "git ls-remote planted:x", "own-ext", "`url.*.insteadOf` with the `ext::` protocol in `config.worktree`"),
    (&["settings"], "git fetch origin", "own-uploadpack", "`remote.*.uploadpack` in `config.worktree`"),
    (&["settings"], "git push origin HEAD:refs/heads/x", "own-receivepack", "`remote.*.receivepack` in `config.worktree`"),
    (&["nested"], "git -C src/loose planted", "loose-alias", "an alias of an untracked repository inside the worktree"),
    (&["settings"], "echo q | TERM=xterm script -qec 'git add -p' /dev/null", "own-interactive", "`interactive.diffFilter` in `config.worktree`"),
    (&["settings"], "echo x | git interpret-trailers --trailer Agent-Id:x", "own-trailer", "`trailer.*.cmd` in `config.worktree`"),
    (
        &["settings"],
        "g='git -c core.hooksPath=/dev/null -c hook.git-agent-pre-commit.enabled=false -c hook.git-agent-reference-transaction.enabled=false -c commit.gpgSign=false -c filter.planted.clean= -c filter.planted.smudge='
         $g commit -qam one; $g checkout -q -b other HEAD~1; echo 'fn other() {}' >>src/lib.rs
         $g commit -qam two; $g merge -q --no-edit -",
        "own-merge",
        "`merge.*.driver` in `config.worktree`",
    ),
    (&["nested"], "git status", "linked-clean", "a filter of a submodule that the agent made"),
    (&["nested"], "git status", "linked-fsmonitor", "`core.fsmonitor` of a submodule that the agent made"),
    (&["nested"], "git -C src/loose status", "loose-fsmonitor", "`core.fsmonitor` of an untracked repository inside the worktree"),
    (&["nested"], "git -C src/loose add .", "loose-clean", "a filter of an untracked repository inside the worktree"),
    (&["nested"], "git -C src/linked commit -qam x", "linked-pre-commit", "a hook of a submodule that the agent made"),
    (&["husky"], "git commit --allow-empty -m x", "husky-pre-commit", "a hook in the ignored directory that the repository's own `core.hooksPath` names"),
    (&["shims"], "git commit --allow-empty -m x", "shim-pre-commit", "one of git-agent's own hooks, altered"),
    (&["pointer"], "git status", "pointer-fsmonitor", "`core.fsmonitor` of another repository, put in the place of `.git`"),
    (&["pointer"], "git add src/new.rs", "pointer-clean", "a filter of a repository in the place of `.git`"),
    (&["common"], "git status", "common-fsmonitor", "`core.fsmonitor` of another repository, to which `commondir` leads"),
    (&["common"], "git add src/new.rs", "common-clean", "a filter of a repository to which `commondir` leads"),
];

#[test]
fn plain_git_runs_what_is_planted() {
    let mut silent = Vec::new();
    let mut scenes: BTreeMap<Planted, Scene> = BTreeMap::new();
    for (what, line, program, _) in FIRE {
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
