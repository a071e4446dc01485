//! The page on safety names for each attack the tests that try it.

use super::root;
use std::fs;

/// The sources of all tests.
fn sources() -> String {
    let files = walkdir::WalkDir::new(root().join("tests")).into_iter();
    let paths = files.map(|entry| entry.expect("readable").into_path());
    let rust = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    rust.map(|path| fs::read_to_string(path).expect("UTF-8"))
        .collect()
}

/// The rows of the page's tables whose last column names tests.
fn rows(page: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| {
        let (rest, tests) = row.strip_suffix(" |")?.rsplit_once(" | ")?;
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let is_test = |name: &&str| name.contains('_') && !name.contains([' ', '.']);
        tests.iter().all(is_test).then_some((rest, tests))
    })
    .filter(|(_, tests)| !tests.is_empty())
}

#[test]
fn every_attack_on_the_page_about_safety_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/safety.md")).expect("UTF-8");
    let sources = sources();
    let is_there = |name: &str| {
        let alone = format!("#[test]\nfn {name}()");
        let several = [format!("mod {name} {{"), format!("mod {name},")];
        sources.contains(&alone) || several.iter().any(|text| sources.contains(text))
    };
    let named: Vec<&str> = rows(&page).flat_map(|(_, tests)| tests).collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}
