use super::{Agent, codes};
use crate::support::agent::describe;
use crate::support::isolated;
use std::fs;
use std::process::Command;

fn check(spoil: impl FnOnce(&Agent), expected: &[&str]) {
    let agent = Agent::new();
    spoil(&agent);
    assert_eq!(agent.codes(), expected);
}

#[test]
fn each_file_must_be_what_it_is_meant_to_be() {
    let remove = |agent: &Agent, name: &str| {
        fs::remove_file(agent.worktree.join(".agent").join(name)).expect(name);
    };
    check(|_| {}, &[]);
    check(|a| remove(a, "plan.md"), &["bundle.missing"]);
    check(|a| a.write(".agent/plan.md", " \n"), &["bundle.empty"]);
    check(|a| a.write(".agent/plan.md", "\u{feff}\u{200b}\0\n"), &["bundle.empty"]);
    check(|a| a.write(".agent/review.md", b"\xff\xfe"), &["bundle.not-utf8"]);
    check(|a| a.write(".agent/spec.md", "easier\n"), &["bundle.spec-changed"]);
    for progress in ["[]", "done", "{\"status\": \"running\"}", "{\"status\": 1}"] {
        check(|a| a.write(".agent/progress.json", progress), &["bundle.not-done"]);
    }
}

#[test]
fn nothing_in_a_files_place_holds_us_up_or_leads_us_astray() {
    let spoiled = |make: &dyn Fn(&std::path::Path)| {
        let agent = Agent::new();
        let path = agent.worktree.join(".agent/plan.md");
        fs::remove_file(&path).expect("remove");
        make(&path);
        agent.codes()
    };
    let directory = |path: &std::path::Path| fs::create_dir(path).expect("mkdir");
    assert_eq!(spoiled(&directory), ["bundle.not-file"]);
    let fifo = |path: &std::path::Path| {
        let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
        assert!(made.success());
    };
    assert_eq!(spoiled(&fifo), ["bundle.not-file"]);
    let link = |path: &std::path::Path| {
        std::os::unix::fs::symlink("/etc/passwd", path).expect("symlink");
    };
    assert_eq!(spoiled(&link), ["bundle.not-file"]);
    let huge = |path: &std::path::Path| {
        let file = fs::File::create(path).expect("create");
        file.set_len(2 << 30).expect("a sparse file");
    };
    assert_eq!(spoiled(&huge), ["bundle.too-large"]);
}

#[test]
fn a_bundle_directory_that_is_a_symlink_is_none() {
    let agent = Agent::new();
    let bundle = agent.worktree.join(".agent");
    let elsewhere = agent.repo.path().with_file_name("elsewhere");
    fs::rename(&bundle, &elsewhere).expect("move");
    std::os::unix::fs::symlink(&elsewhere, &bundle).expect("symlink");
    let report = agent.verify(&[]);
    let of_bundle = codes(&report);
    assert_eq!(of_bundle.iter().filter(|code| *code == "bundle.not-file").count(), 6);
    // The link itself is no longer the directory that is left out.
    assert!(of_bundle.contains(&"scope.bundle".to_owned()), "{of_bundle:?}");
}

#[test]
fn what_is_missing_is_listed_on_standard_error() {
    let agent = Agent::new();
    for name in ["plan.md", "review.md"] {
        fs::remove_file(agent.worktree.join(".agent").join(name)).expect(name);
    }
    let output = agent.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let expected =
        format!("MISSING for {}:\n  plan.md is missing\n  review.md is missing\n", agent.id);
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    // The answer names the files once more, in one line for each code.
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = answer.lines().skip(1).collect();
    let fix = format!(
        "    fix: the agent writes them; to see what is left to write, run git agent bundle {}",
        &agent.id[..8]
    );
    assert_eq!(lines, ["  bundle.missing .agent/plan.md, .agent/review.md", &fix]);
}

#[test]
fn a_committed_bundle_is_out_of_scope() {
    let agent = Agent::new();
    agent.git(&["add", "--force", ".agent/plan.md"]);
    assert_eq!(agent.codes(), ["scope.bundle"]);
    // What takes it out of a commit leaves it where it belongs.
    agent.write("src/lib.rs", "pub fn own() {}\n");
    agent.commit("with the bundle");
    let verdict = agent.verify(&[]);
    assert_eq!(codes(&verdict), ["scope.bundle"]);
    let fix = verdict["findings"][0]["fix"].as_str().expect("advice");
    let (_, command) = fix.split_once("run ").expect("a command");
    let sh = isolated("sh", &agent.worktree).args(["-c", command]).status();
    assert!(sh.expect("starts").success(), "{command}");
    assert_eq!(agent.codes(), [""; 0]);
    assert_eq!(std::fs::read(agent.worktree.join(".agent/plan.md")).expect("kept"), b"written\n");
}
