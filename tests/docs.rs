//! The pages lead somewhere, and no command is without one.

use crate::support::TestRepo;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README and everything in `docs`, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs")).expect("docs");
    let docs = docs.map(|page| page.expect("readable").path());
    let pages = docs.chain([root().join("README.md")]);
    pages
        .map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8")))
        .collect()
}

/// The heading's name in a link: lower case, words joined by hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>()
        .trim()
        .to_lowercase()
        .replace(' ', "-")
}

#[test]
fn every_link_leads_to_a_page_and_its_section() {
    let pages = pages();
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in &pages {
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
        for link in links.filter(|link| !link.contains("://") && !link.contains(' ')) {
            count += 1;
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("a directory").join(file),
            };
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

#[test]
fn every_command_has_a_row_and_a_page() {
    let help = TestRepo::empty().agent(&["-h"]);
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let verbs = list.lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let (readme, docs): (Vec<_>, Vec<_>) = pages()
        .into_iter()
        .partition(|(path, _)| path.ends_with("README.md"));
    let rows = readme[0].1.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows.filter_map(|line| line.split(" | ").next()).collect();
    let mut missing = Vec::new();
    for verb in verbs.filter(|verb| !matches!(*verb, "" | "help")) {
        let begins = |text: &str| {
            let mut words = text.split('`').skip(1).step_by(2);
            words.any(|word| word.split(' ').next() == Some(verb))
        };
        if !rows.iter().any(|row| begins(row)) {
            missing.push(format!("README.md has no row of `{verb}`"));
        }
        let named = |(_, text): &(PathBuf, String)| {
            begins(text) || text.contains(&format!("git agent {verb}"))
        };
        if !docs.iter().any(named) {
            missing.push(format!("no page says anything of `{verb}`"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
