//! Hook managers as people install them, from their registries: their hooks run in an agent's worktree
//! beside the fence. `hook_managers.sh` has the steps; what it installs is kept for the next run.

use std::path::Path;
use std::process::Command;

fn check(manager: &str) {
    run_script("hook_managers.sh", "hook-managers", manager);
}

/// Runs a script of this directory with our program, a directory for what it installs, and the name of what it is to
/// install. It may skip, and says so.
#[track_caller]
pub fn run_script(script: &str, cache: &str, subject: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    // Where this is an agent's worktree, the sandbox finds no program below it: the agent could have written that.
    let is_linked = Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").is_file();
    let caches = if is_linked {
        std::env::temp_dir().join("git-agent-tests")
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned()
    };
    let output = Command::new("sh")
        .arg(tests.join(script))
        .arg(env!("CARGO_BIN_EXE_git-agent"))
        .arg(caches.join(cache))
        .arg(subject)
        .output()
        .expect("sh starts");
    let said = String::from_utf8_lossy(&output.stdout);
    print_line(said.trim_end());
    let status = output.status.code();
    assert!(
        status == Some(0) || (status == Some(77) && said.contains("skipped:")),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Past the test harness, which shows what a test prints only when it fails: a skipped test must say so.
fn print_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn husky() {
    check("husky");
}

#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn lefthook() {
    check("lefthook");
}

#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn pre_commit() {
    check("pre-commit");
}

#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn prek() {
    check("prek");
}

#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn git_lfs() {
    check("git-lfs");
}
