//! The README's tour, run word for word. Ids, times and places differ from run to run and are compared
//! by their shape.

use crate::support::{TestRepo, isolated};
use std::path::Path;

/// Takes what differs between two runs out of a text.
fn shape(text: &str, home: &str) -> String {
    let mut shaped = String::new();
    let mut word = String::new();
    let text = text.replace(home, "/home/me/project");
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || c == '-' || c == ':' {
            word.push(c);
            continue;
        }
        shaped.push_str(&word_shape(&word));
        word.clear();
        shaped.push(c);
    }
    shaped.trim_end().to_owned()
}

fn word_shape(word: &str) -> String {
    let hex = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if word
        .split('-')
        .all(|part| part.len() >= 4 && hex(&part.repeat(2)))
        && hex(&word.replace('-', ""))
    {
        return "<id>".to_owned();
    }
    if let Some(rest) = word.strip_prefix("sha256:") {
        return format!("sha256:<{}>", rest.len());
    }
    if let Some(id) = word.strip_prefix("agent-").filter(|id| hex(id)) {
        return format!("agent-<{}>", id.len());
    }
    if let Some((name, id)) = word.rsplit_once("Z-").filter(|(_, id)| hex(id)) {
        return format!("{}-<{}>", word_shape(&format!("{name}Z")), id.len());
    }
    if word.ends_with('Z') && digits >= 14 {
        let name = word
            .rsplit_once('-')
            .filter(|(name, _)| !name.starts_with("20"));
        return name.map_or("<time>".to_owned(), |(name, _)| format!("{name}-<time>"));
    }
    if word.len() <= 3 && word.ends_with('s') && digits == word.len() - 1 {
        return "<age>".to_owned();
    }
    word.to_owned()
}

/// The text between a fence that opens with this line and its end.
fn block<'a>(page: &'a str, fence: &str) -> &'a str {
    let start = page.find(fence).expect("the block") + fence.len();
    let length = page[start..].find("\n```").expect("its end");
    &page[start..start + length]
}

#[test]
fn the_tour_of_the_readme_is_true() {
    let page = include_str!("../README.md");
    let repo = TestRepo::with_commit();
    repo.write("Cargo.toml", "[package]\n");
    repo.write("tasks/verbose.toml", block(page, "```toml\n"));
    repo.commit_all("a task");
    let home = repo.path().to_string_lossy().into_owned();
    let binaries = Path::new(env!("CARGO_BIN_EXE_git-agent"))
        .parent()
        .expect("a directory");
    let path = std::env::var("PATH").expect("PATH");
    let mut branch = String::new();
    for step in block(page, "```console\n").split("$ ").skip(1) {
        let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
        // The branch's name holds the time of the run.
        let command = command.replace("agent/verbose-20261121T101500Z-6a48ca7b", &branch);
        let output = isolated("sh", &repo.path())
            .args(["-c", &command])
            .env("PATH", format!("{}:{path}", binaries.display()))
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(shape(&said, &home), shape(expected, &home), "{command}");
        if let Some(line) = said.lines().find_map(|line| line.strip_prefix("Branch:")) {
            branch = line.trim().to_owned();
        }
    }
    assert!(!branch.is_empty(), "the tour spawns");
}

#[test]
fn the_readme_opens_with_two_commands() {
    let commands: Vec<_> = block(include_str!("../README.md"), "```sh\n")
        .lines()
        .collect();
    assert_eq!(commands.len(), 2);
    assert!(commands[0].starts_with("cargo run ") && commands[0].contains(" spawn "));
    assert!(commands[1].starts_with("cargo test"));
}
