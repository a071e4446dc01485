//! The page of attacks names for each attack the tests that try it; its beginning is `attacks.md` beside this file.

use super::generated::up_to_date;
use super::root;
use crate::audit::planted::places::FIRE;
use crate::audit::states::table::{BROKEN, BUSY};
use crate::sandbox::escapes::WAYS_OUT;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

/// Attacks that do not go through files, each with its test.
/// The tests of what a mount namespace keeps.
const FILES: &str = "files_outside_keep_their_modes_times_owners_and_attributes";
const LOCKS: &str = "no_lock_that_others_wait_for_is_seen";
const KERNEL: [(&str, &str); 21] = [
    (
        "write into a file outside through a hard link that a set-up made",
        "what_the_set_up_linked_is_written_in_one_worktree_alone",
    ),
    ("change the mode of a file of the same user", FILES),
    ("change the times of such a file", FILES),
    ("change its extended attributes and flags", FILES),
    ("hold a lock that others wait for", LOCKS),
    ("take a lease on a file that others write", LOCKS),
    (
        "change the processors or the scheduling of another process",
        "other_processes_keep_their_priorities_and_processors",
    ),
    (
        "write into shared memory of another process",
        "shared_memory_of_others_is_out_of_reach_where_it_can_be",
    ),
    ("leave a process behind", "nothing_of_a_command_survives_it_and_its_end_is_told"),
    ("change a terminal's settings", TERMINAL),
    ("print on a terminal", TERMINAL),
    ("read the keys of a terminal", TERMINAL),
    ("make a terminal the controlling one", TERMINAL),
    ("type into a terminal by its path (`TIOCSTI`)", TERMINAL),
    ("type into an inherited terminal", TERMINAL),
    ("change the limits of another process", MACHINE),
    ("change the priority of another process", MACHINE),
    ("use a capability of root", "f19_no_capability_is_left_and_none_comes_back"),
    ("look at the descriptors of another process", PROCESSES),
    ("connect to an abstract socket", PROCESSES),
    ("stop or kill a process", PROCESSES),
];
const TERMINAL: &str = "f3_no_terminal_is_typed_into_read_or_taken";
const MACHINE: &str = "f19_the_machine_and_other_processes_stay_as_they_are";
const PROCESSES: &str = "processes_outside_are_out_of_reach";

/// Attacks whose tests are of one kind each.
const OTHERS: [(&str, &str); 3] = [
    (
        "connect to a socket that is a file, as Docker, `ssh-agent` and the session bus have; only `strict` refuses it",
        "only_strict_keeps_a_command_from_sockets_that_are_files",
    ),
    (
        "links in the ref directory that lead to themselves",
        "f11_a_link_among_the_refs_keeps_no_command_waiting",
    ),
    ("a chain of harmless links that leads out", "f9_a_chain_of_links_is_not_accepted"),
];

/// The page of attacks, and what stands above its last table.
const PAGE: &str = "docs/attacks.md";
const HEAD: &str = include_str!("attacks.md");

/// The sources of all tests.
fn sources() -> String {
    let files = walkdir::WalkDir::new(root().join("tests")).into_iter();
    let paths = files.map(|entry| entry.expect("readable").into_path());
    let rust = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    rust.map(|path| fs::read_to_string(path).expect("UTF-8")).collect()
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
fn every_attack_on_the_page_names_tests_that_exist() {
    let page = fs::read_to_string(root().join(PAGE)).expect("UTF-8");
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

/// The tests that try what an agent planted, by what was planted.
fn tests_of(what: &[&str]) -> &'static [&'static str] {
    match what {
        ["settings"] => &[
            "f2_no_verb_runs_what_an_agent_without_a_sandbox_planted",
            "f1_no_verb_runs_what_is_planted_in_a_sandbox_while_the_command_goes_on",
        ],
        ["nested"] => &[
            "f2_no_verb_runs_what_an_agent_without_a_sandbox_planted",
            "f1_no_verb_runs_what_a_command_in_a_sandbox_planted",
        ],
        ["pointer"] => &[
            "f2_no_verb_runs_what_an_agent_without_a_sandbox_planted",
            "f1_no_verb_runs_what_a_command_in_a_sandbox_planted_in_another_repository",
        ],
        _ => &["f2_no_verb_runs_what_an_agent_without_a_sandbox_planted"],
    }
}

#[test]
fn every_attack_that_is_tried_has_a_row() {
    let mut attacks: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for (what, _, _, place) in FIRE {
        let mut tests = vec!["plain_git_runs_what_is_planted"];
        tests.extend(tests_of(what));
        attacks.push((format!("a program named by {place}"), "plain git runs it", tests));
    }
    for (states, is_judged) in [
        (BROKEN, "f10_a_broken_state_is_a_finding_about_its_agent"),
        (BUSY, "f11_what_is_no_file_keeps_no_command_waiting"),
    ] {
        let stops = "plain git fails or waits";
        let left = |name: &str| format!("what is left: {name}");
        attacks.extend(states.iter().map(|state| (left(state.name), stops, vec![is_judged])));
    }
    for (what, _) in WAYS_OUT {
        let what = format!("in the sandbox, write: {what}");
        attacks.push((what, "without the sandbox", vec!["every_way_out_is_closed"]));
    }
    for (what, test) in KERNEL {
        let what = format!("in the sandbox: {what}");
        attacks.push((what, "without the sandbox", vec![test]));
    }
    let others = OTHERS
        .map(|(what, test)| (what.to_owned(), "plain git, or without the sandbox", vec![test]));
    attacks.extend(others);

    let different: BTreeSet<&str> = attacks.iter().map(|(what, ..)| what.as_str()).collect();
    assert_eq!(different.len(), attacks.len(), "each is a different one");
    assert!(attacks.len() >= 60, "{}", attacks.len());
    let mut rows = String::new();
    for (number, (what, works, tests)) in attacks.iter().enumerate() {
        let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
        let tests = tests.join(", ");
        writeln!(rows, "| {} | {what} | {works} | {tests} |", number + 1).expect("written");
    }
    up_to_date(PAGE, &format!("{HEAD}{rows}"));
}

/// The files of the suite that attacks.
const HOSTILE: [&str; 8] = [
    "audit/planted.rs",
    "audit/planted/places.rs",
    "audit/states.rs",
    "audit/links.rs",
    "audit/locks.rs",
    "audit/field.rs",
    "kill/random.rs",
    "sandbox/escapes.rs",
];

#[test]
fn every_hostile_test_is_named_by_a_row() {
    let page = fs::read_to_string(root().join(PAGE)).expect("UTF-8");
    let named: BTreeSet<&str> = rows(&page).flat_map(|(_, tests)| tests).collect();
    let mut missing = Vec::new();
    for file in HOSTILE {
        let text = fs::read_to_string(root().join("tests").join(file)).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        let alone = lines.windows(2).filter(|pair| pair[0] == "#[test]");
        let alone = alone.filter_map(|pair| pair[1].strip_prefix("fn ")?.strip_suffix("() {"));
        let several = lines.iter().filter_map(|line| {
            let name = line.trim_start().strip_prefix("mod f")?;
            let name = name.strip_suffix(" {").or_else(|| name.strip_suffix(','))?;
            Some(&line.trim_start()["mod ".len()..][..name.len() + 1])
        });
        let tests: Vec<&str> = alone.chain(several).collect();
        assert!(!tests.is_empty(), "{file} has tests");
        missing.extend(tests.into_iter().filter(|test| !named.contains(test)).map(str::to_owned));
    }
    assert!(missing.is_empty(), "no row names {missing:?}");
}
