//! The example scripts: they tell what became of an agent by codes alone.

use crate::support::agent::describe;
use crate::support::{TestRepo, isolated};
use std::path::Path;

const COMMANDS: [(&str, &str); 6] = [
    ("landed", "echo 'pub fn two() {}' > src/lib.rs"),
    ("conflict", "echo 'pub fn three() {}' > src/lib.rs"),
    ("violation", "echo more > README.md"),
    ("timeout", "sleep 1000"),
    ("crash", "kill -9 $$"),
    ("failed", "exit 3"),
];

fn play(program: &str, script: &str) {
    let repo = TestRepo::with_commit();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(script);
    let ours = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent();
    let ours = ours.expect("a directory").display().to_string();
    let path = std::env::var("PATH").expect("PATH");
    let output = isolated(program, &repo.path())
        .env("PATH", format!("{ours}:{path}"))
        .arg(script)
        .args(["src/**", "3"])
        .args(COMMANDS.map(|(_, command)| command))
        .output();
    let output = output.expect("starts");
    let expected = COMMANDS.map(|(fate, command)| format!("{fate}\t{command}\n"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, expected.concat(), "{}", describe(&output));
    let landed = repo.git(["show", "main:src/lib.rs"]);
    assert_eq!(landed, "pub fn two() {}");
}

#[test]
fn the_example_in_python_tells_every_outcome_by_codes() {
    play("python3", "orchestrate.py");
}

#[test]
fn the_example_in_bash_tells_every_outcome_by_codes() {
    play("bash", "orchestrate.sh");
}
