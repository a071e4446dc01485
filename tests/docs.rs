//! The pages lead somewhere, no command is without one, and what is made from the code is up to date.

/// Documentation that is made from the code.
pub mod generated;
/// The page of JSON answers.
pub mod json;
/// What is written by hand, and whether its commands run.
mod pages;
/// The plugin's command lines, and the same for Gemini CLI.
mod plugin;
/// Attacks, and the tests that try them.
mod safety;

use crate::support::agent::verbs;
use generated::COMMANDS;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files at the top of the repository and in `docs`, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let directories = [root().to_owned(), root().join("docs")];
    let entries = directories.map(|directory| fs::read_dir(directory).expect("a directory"));
    let paths = entries.into_iter().flatten();
    paths
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8")))
        .collect()
}

/// The pages, and those of the directories that have one of their own.
fn all_pages() -> Vec<(PathBuf, String)> {
    let directories = ["fleet", "fuzz", "plugin", "proof"].map(|name| root().join(name));
    let files = directories
        .iter()
        .flat_map(walkdir::WalkDir::new)
        .map(|entry| entry.expect("readable").into_path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let more = files.map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8")));
    pages().into_iter().chain(more).collect()
}

/// What a link into the repository on its forge begins with; a site made of `docs` has no other way out.
const FORGE: [&str; 2] = [
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/"),
    concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/"),
];

/// The heading's name in a link: lower case, words joined by hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn every_link_leads_to_a_page_and_its_section() {
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in &all_pages() {
        let is_of_the_site = path.starts_with(root().join("docs"));
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
        for link in links.filter(|link| !link.contains(' ')) {
            let here = path.parent().expect("a directory");
            let inside = FORGE.iter().find_map(|start| link.strip_prefix(start));
            let (start, rest) = inside.map_or((here, link), |rest| (root(), rest));
            if rest.contains("://") {
                continue;
            }
            count += 1;
            let (file, section) = rest.split_once('#').unwrap_or((rest, ""));
            let target = match file {
                "" => path.clone(),
                file => start.join(file),
            };
            if is_of_the_site && rest.starts_with("../") {
                broken.push(format!("{}: {link} leads out of the site", path.display()));
            }
            let content = fs::read_to_string(&target).unwrap_or_default();
            let headings = content.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
            let there = section.is_empty() || anchors.any(|anchor| anchor == section);
            if !target.exists() || !there {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(count > 20, "the links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Words that leave open whether an agent, a clone, a process or a person is meant.
const WITHOUT_ACTOR: &[&str] = &["somebody", "nobody", "anybody", "whoever", "whomever"];

#[test]
fn pages_and_sources_name_who_acts() {
    let sources = ["src", "benches"].into_iter().flat_map(|directory| {
        let files = walkdir::WalkDir::new(root().join(directory)).into_iter();
        files.map(|entry| entry.expect("readable").into_path())
    });
    let sources = sources
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8")));
    let mut found = Vec::new();
    for (path, text) in pages().into_iter().chain(sources) {
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let mut words = lower.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| WITHOUT_ACTOR.contains(&word)) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_page_says_what_every_command_is_for() {
    // The page that is made from the program has every command by itself.
    let docs: Vec<_> = pages()
        .into_iter()
        .filter(|(path, _)| path.starts_with(root().join("docs")) && !path.ends_with(COMMANDS))
        .collect();
    let mut missing = Vec::new();
    for verb in verbs().iter().map(String::as_str).filter(|verb| *verb != "help") {
        let begins = |text: &str| {
            let mut words = text.split('`').skip(1).step_by(2);
            words.any(|word| word.split(' ').next() == Some(verb))
        };
        let named = |(_, text): &(PathBuf, String)| {
            begins(text) || text.contains(&format!("git agent {verb}"))
        };
        if !docs.iter().any(named) {
            missing.push(format!("no page says anything of `{verb}`"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn u13_no_page_names_a_place_that_does_not_exist() {
    let mut broken = Vec::new();
    for (path, text) in pages() {
        for (index, line) in text.lines().enumerate() {
            // The crate is not published, so it can only be installed from its sources.
            let unpublished = line.contains("cargo install git-agent-worktree");
            if unpublished || line.contains("example.com") {
                broken.push(format!("{}:{}: {line}", path.display(), index + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_pages_and_the_manifest_name_one_repository() {
    let repository = env!("CARGO_PKG_REPOSITORY");
    assert!(repository.starts_with("https://"), "{repository}");
    let host = "https://github.com/git-agent";
    for (path, text) in pages() {
        for (at, _) in text.match_indices(host) {
            assert!(text[at..].starts_with(repository), "{}", path.display());
        }
    }
}

#[test]
fn contributing_names_files_that_exist() {
    let page = include_str!("../CONTRIBUTING.md");
    let words = page.split('`').skip(1).step_by(2);
    let paths = words.filter(|word| word.contains('/') && !word.contains(['<', ' ']));
    let missing: Vec<_> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_manifest_packs_both_licences() {
    let manifest = include_str!("../Cargo.toml");
    assert_eq!(env!("CARGO_PKG_LICENSE"), "MIT OR Apache-2.0");
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root().join(name).exists(), "{name}");
        assert!(manifest.contains(&format!("\"/{name}\"")), "{name}");
    }
}
