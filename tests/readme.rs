//! The README's tour, run word for word. Ids, times and places differ from run to run and are compared
//! by their shape.

/// The tour as a picture.
pub mod recording;

use crate::docs::generated::up_to_date;
use crate::support::{TestRepo, isolated};
use std::path::Path;

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == ':'
}

/// Takes what differs between two runs out of a text.
pub fn shape(text: &str) -> String {
    let shapes = words(text.trim_end())
        .map(|word| if word.starts_with(is_word) { word_shape(word) } else { word.to_owned() });
    shapes.collect()
}

fn word_shape(word: &str) -> String {
    if let Some(word) = word.strip_suffix(':') {
        return format!("{}:", word_shape(word));
    }
    let hex = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if word.split('-').all(|part| part.len() >= 4 && hex(&part.repeat(2)))
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
        let name = word.rsplit_once('-').filter(|(name, _)| !name.starts_with("20"));
        return name.map_or("<time>".to_owned(), |(name, _)| format!("{name}-<time>"));
    }
    if word.len() <= 3 && word.ends_with(['s', 'm']) && digits + 1 == word.len() {
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

/// The commands of the README that show a life from a task to landed work, each with what it prints.
fn tour() -> &'static str {
    let page = include_str!("../README.md");
    let start = page.find("$ git agent spawn ").expect("the tour");
    &page[start..start + page[start..].find("\n```").expect("its end")]
}

/// One command of the tour.
pub struct Step {
    /// As the README has it.
    command: String,
    /// What the README says that it prints.
    expected: String,
    /// What it printed, colours included.
    printed: String,
}

/// The words of a text and what stands between them, one character each.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|c: char| !is_word(c)).flat_map(|part| {
        let end = part.trim_end_matches(|c: char| !is_word(c)).len();
        [&part[..end], &part[end..]].into_iter().filter(|piece| !piece.is_empty())
    })
}

/// Runs the tour in a new repository.
fn play() -> Vec<Step> {
    let repo = TestRepo::with_commit();
    repo.write("Cargo.toml", "[package]\n");
    repo.write("src/lib.rs", "pub fn one() {}\n");
    repo.commit_all("a crate");
    let home = repo.path().to_string_lossy().into_owned();
    let binaries = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent().expect("a directory");
    let path = std::env::var("PATH").expect("PATH");
    // A `$` inside a command is followed by something other than a blank.
    let steps = tour().split("$ ").skip(1);
    steps
        .map(|step| {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            let output = isolated("sh", &repo.path())
                .args(["-c", command])
                .env("PATH", format!("{}:{path}", binaries.display()))
                .env("CLICOLOR_FORCE", "1")
                .output()
                .expect("starts");
            let complaints = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {complaints}");
            // The reader would see them too.
            assert_eq!(complaints, "", "{command}");
            let printed = String::from_utf8_lossy(&output.stdout);
            Step {
                command: command.to_owned(),
                expected: expected.trim_end().to_owned(),
                printed: printed.replace(&home, "/home/me/project"),
            }
        })
        .collect()
}

#[test]
fn the_tour_of_the_readme_is_true() {
    let steps = play();
    let now = steps.iter().map(|step| {
        let printed = recording::coloured(&step.printed).0;
        format!("$ {}\n{printed}", step.command)
    });
    let now = now.collect::<String>();
    // What differs from one run to the next does not make it another tour.
    if shape(&now) != shape(tour()) {
        let page = include_str!("../README.md").replace(tour(), now.trim_end());
        up_to_date("README.md", &page);
    }
    let commands: Vec<_> = steps.iter().map(|step| step.command.as_str()).collect();
    for verb in ["spawn", "merge"] {
        let verb = format!("git agent {verb} ");
        assert!(commands.iter().any(|command| command.starts_with(&verb)));
    }
}

#[test]
fn the_recording_of_the_tour_is_what_the_program_prints() {
    let picture = recording::svg(&play());
    assert!(!picture.contains("/tmp/"), "{picture}");
    up_to_date("docs/tour.svg", &picture);
}

#[test]
fn the_readme_opens_with_two_commands() {
    let commands: Vec<_> = block(include_str!("../README.md"), "```sh\n").lines().collect();
    assert_eq!(commands.len(), 2);
    assert!(commands[0].starts_with("cargo run ") && commands[0].contains(" spawn "));
    assert!(commands[1].starts_with("cargo test"));
}
