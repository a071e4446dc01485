//! The pages written by hand: short enough to be read, and each command on them runs. A page has one repository, in which
//! its ```` ```sh ```` and ```` ```console ```` blocks run in their order. Three comments say what a reader does not see:
//!
//! - `<!-- setup: COMMAND -->` runs before the blocks below it;
//! - `<!-- not run: REASON -->` leaves out the next block;
//! - a ```` ```toml ```` block whose first line is `# FILE` is written to that file, and committed below `.config`.
//!
//! What a `console` block prints is compared by its shape (ids and times differ); `…` stands for anything in a line, and
//! a line `...` for any number of lines.

use super::root;
use crate::readme::shape;
use crate::support::{TestRepo, isolated};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Pages that are made from the program, from its tests or from a measurement.
const GENERATED: [&str; 8] =
    ["attacks", "commands", "doctor", "errors", "findings", "json", "performance", "settings"];

/// The agent host of the pages: it does what it is asked for, without a model.
const CLAUDE: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"5f0c2f9e-8a55-4a0b-9d0e-000000000001"}'
echo 'pub fn verbose() {}' >> src/lib.rs
echo '{"type":"result","subtype":"success","result":"Done.","session_id":"5f0c2f9e-8a55-4a0b-9d0e-000000000001"}'
"#;

/// What a page asks for, in its order.
#[derive(Debug)]
enum Part {
    Setup(String),
    /// A file and its content.
    File(String, String),
    /// A block of commands, and whether it shows what they print.
    Block(String, bool),
    /// A block that cannot run here, and why.
    Left(String),
}

/// The parts of a page.
fn parts(page: &str) -> Vec<Part> {
    let comment = |line: &str, word: &str| {
        let text = line.strip_prefix(word)?.strip_suffix("-->")?;
        Some(text.trim().to_owned())
    };
    let mut parts = Vec::new();
    let mut reason = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(command) = comment(line, "<!-- setup:") {
            parts.push(Part::Setup(command));
        }
        reason = comment(line, "<!-- not run:").or(reason);
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let first = text.first().and_then(|line| line.strip_prefix("# "));
        let body = format!("{}\n", text.join("\n"));
        match (kind, reason.take(), first) {
            ("sh" | "console", Some(reason), _) => parts.push(Part::Left(reason)),
            ("sh" | "console", None, _) => parts.push(Part::Block(body, kind == "console")),
            ("toml", _, Some(name)) if name.ends_with(".toml") => {
                parts.push(Part::File(name.to_owned(), body));
            }
            _ => {}
        }
    }
    parts
}

/// The pages of `docs` that are written by hand, by name.
fn written_by_hand() -> Vec<(String, String)> {
    let pages = super::pages().into_iter().filter_map(|(path, text)| {
        let is_ours = path.parent() == Some(&root().join("docs"));
        let name = path.file_stem()?.to_str()?.to_owned();
        (is_ours && name != "SUMMARY" && !GENERATED.contains(&name.as_str()))
            .then_some((name, text))
    });
    let mut pages: Vec<_> = pages.collect();
    pages.sort();
    pages
}

/// A repository for one page, with a stand-in for an agent host.
struct Stage {
    repo: TestRepo,
    path: std::ffi::OsString,
    home: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        let repo = TestRepo::with_commit();
        repo.write("Cargo.toml", "[package]\nname = \"project\"\n");
        repo.write("README.md", "The project.\n");
        repo.write("src/lib.rs", "pub fn one() {}\n");
        repo.write(".gitignore", ".env.local\n");
        repo.commit_all("a crate");
        repo.write(".env.local", "PORT=1\n");
        let programs = repo.path().with_file_name("programs");
        let home = repo.path().with_file_name("home");
        fs::create_dir(&home).expect("made");
        fs::create_dir(&programs).expect("made");
        let host = programs.join("claude");
        fs::write(&host, CLAUDE).expect("written");
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).expect("executable");
        let ours = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent();
        let others = std::env::var_os("PATH").expect("PATH");
        let places = [ours.expect("a directory").to_owned(), programs];
        let places = places.into_iter().chain(std::env::split_paths(&others));
        let path = std::env::join_paths(places).expect("a path");
        Stage { repo, path, home }
    }

    /// Runs a script as a reader would, and gives what a terminal would show.
    fn run(&self, page: &str, script: &str) -> String {
        let output = isolated("sh", &self.repo.path())
            .args(["-euc", &format!("exec 2>&1\n{script}")])
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .output()
            .expect("sh starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "docs/{page}.md: {script}\n{printed}");
        let place = self.repo.path().to_string_lossy().into_owned();
        printed.replace(&place, "/home/me/project")
    }

    fn play(&self, page: &str, part: &Part) {
        match part {
            Part::Setup(command) => drop(self.run(page, command)),
            Part::File(name, text) => {
                let directory = Path::new(name).parent().expect("a directory");
                fs::create_dir_all(self.repo.path().join(directory)).expect("made");
                self.repo.write(name, text);
                if name.starts_with(".config/") {
                    self.repo.git(["add", name]);
                    self.repo.git(["commit", "--quiet", "-m", "settings", "--", name]);
                }
            }
            Part::Block(text, false) => drop(self.run(page, text)),
            Part::Block(text, true) => {
                let steps = format!("\n{text}");
                for step in steps.split("\n$ ").skip(1) {
                    let (command, expected) = console(step);
                    let printed = self.run(page, &command);
                    let is_told = expected.is_empty() || is_like(&expected, &printed);
                    assert!(is_told, "docs/{page}.md: {command}\n{printed}");
                }
            }
            Part::Left(reason) => assert!(!reason.is_empty(), "docs/{page}.md"),
        }
    }
}

/// A command, which a backslash continues in the next line, and what stands below it.
fn console(step: &str) -> (String, String) {
    let mut lines = step.lines();
    let mut command = String::new();
    for line in lines.by_ref() {
        command.push_str(line);
        command.push('\n');
        if !line.ends_with('\\') {
            break;
        }
    }
    (command, lines.collect::<Vec<_>>().join("\n"))
}

/// Whether a text has the lines that a page shows.
fn is_like(expected: &str, printed: &str) -> bool {
    fn all(expected: &[&str], printed: &[&str]) -> bool {
        match expected {
            [] => printed.is_empty(),
            ["...", rest @ ..] => (0..=printed.len()).any(|at| all(rest, &printed[at..])),
            [first, rest @ ..] => {
                printed.first().is_some_and(|line| is_line(first, line)) && all(rest, &printed[1..])
            }
        }
    }
    all(&expected.lines().collect::<Vec<_>>(), &printed.trim_end().lines().collect::<Vec<_>>())
}

/// Whether two lines are of one shape; `…` stands for anything.
fn is_line(expected: &str, printed: &str) -> bool {
    let plain = |line: &str| shape(line).split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, printed) = (plain(expected), plain(printed));
    let mut pieces = expected.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in between {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// One test for each page, so that a failure names it.
macro_rules! run {
    ($($test:ident $page:literal),* $(,)?) => {
        const RUN: &[&str] = &[$($page),*];
        $(#[test]
        fn $test() {
            let page = fs::read_to_string(root().join("docs").join(concat!($page, ".md"))).expect("the page");
            let stage = Stage::new();
            parts(&page).iter().for_each(|part| stage.play($page, part));
        })*
    };
}

run! {
    start_runs "start", concepts_runs "concepts", tasks_run "tasks", hosts_run "hosts", run_runs "run", look_runs "look",
    messages_run "messages", judge_runs "judge", landing_runs "landing", ci_runs "ci", forge_runs "forge", sync_runs "sync", fleet_runs "fleet",
    safety_runs "safety", sandbox_runs "sandbox", keeping_runs "keeping", trouble_runs "trouble", install_runs "install",
    comparison_runs "comparison", the_kit_runs "from-the-kit",
}

#[test]
fn each_page_is_run_and_opens_with_a_command() {
    let pages = written_by_hand();
    let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let mut run = RUN.to_vec();
    run.sort_unstable();
    assert_eq!(names, run, "add the page to `run!` above, or to GENERATED");
    for (name, text) in &pages {
        let opening = text.lines().take(25);
        let commands = opening.filter(|line| matches!(*line, "```sh" | "```console"));
        assert!(
            commands.count() > 0,
            "docs/{name}.md begins with what it lets one do, and a command"
        );
    }
}

#[test]
fn the_pages_stay_short() {
    let pages = written_by_hand();
    let words = |text: &str| text.split_whitespace().count();
    let all: usize = pages.iter().map(|(_, text)| words(text)).sum();
    assert!(pages.len() <= 20, "{} pages are written by hand", pages.len());
    assert!(all <= 25_000, "{all} words are written by hand");
    let safety = pages.iter().find(|(name, _)| name == "safety");
    assert!(safety.is_some_and(|(_, text)| words(text) < 2_500));
}

/// What the help does not show and a page names all the same: an option of the older kit, and the word of GitLab for `--pr`.
const UNSHOWN: [&str; 2] = ["--kit-root", "--mr"];

#[test]
fn every_option_on_a_page_is_one_of_the_program() {
    let commands = fs::read_to_string(root().join("docs/commands.md")).expect("the reference");
    let mut unknown = Vec::new();
    for (name, text) in written_by_hand() {
        // Every second piece of a line stands between two backticks.
        let pieces = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for piece in pieces.filter(|piece| piece.starts_with("--")) {
            let end = piece.find(|c: char| c != '-' && !c.is_ascii_lowercase());
            let option = &piece[..end.unwrap_or(piece.len())];
            if !commands.contains(option) && !UNSHOWN.contains(&option) {
                unknown.push(format!("docs/{name}.md: {option}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_summary_names_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the summary");
    let pages = super::pages().into_iter().map(|(path, _)| path);
    let pages = pages.filter(|path| path.parent() == Some(&root().join("docs")));
    for page in pages.filter(|path| !path.ends_with("SUMMARY.md")) {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(summary.contains(&format!("]({name})")), "SUMMARY.md leaves out {name}");
    }
}
