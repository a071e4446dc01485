//! The rules of the house: which layer may know which, which door each effect goes through, and how
//! large a room may grow. A rule that only a document states does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each layer and the layers it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("system", &[]),
    ("domain", &["error"]),
    ("wire", &["domain", "error"]),
    ("git", &["system", "domain", "error"]),
    ("proc", &["system", "git", "domain", "error"]),
    ("store", &["system", "wire", "git", "domain", "error"]),
    ("hosts", &["proc", "wire", "domain", "error"]),
    ("agents", &["system", "hosts", "store", "proc", "git", "wire", "domain", "error"]),
    ("ops", &["system", "agents", "hosts", "store", "proc", "git", "wire", "domain", "error"]),
    ("cli", &["ops", "agents", "hosts", "wire", "domain", "error"]),
];

/// Words that may appear only below the given places.
const DOORS: &[(&str, &[&str])] = &[
    ("git2::", &["git/"]),
    (
        "gix::",
        &["git/worktree/populate", "git/history/gained.rs", "git/objects/raw.rs", "git/repo.rs"],
    ),
    ("gix_", &["git/worktree/populate"]),
    ("Command::new", &["git/core/command.rs", "proc/", "system/elsewhere.rs"]),
    ("target_os", &["system/mod.rs", "proc/sandbox/mod.rs"]),
    ("std::env", &["agents/context/ctx/env.rs", "main.rs"]),
    ("SystemTime::now", &["agents/context/ctx.rs"]),
    ("Utc::now", &["agents/context/ctx.rs"]),
    ("println!", &[]),
    ("eprintln!", &[]),
    ("io::stdout", &["cli/out/ui.rs"]),
    ("io::stderr", &["cli/mod.rs", "cli/out/ui.rs"]),
    // Where it panicked.
    ("process::exit", &["main.rs"]),
    ("anstream::", &["cli/out/ui.rs"]),
    ("unsafe ", &[]),
    ("derive(Serialize", &["wire/", "ops/"]),
    // What changes a ref. A name from a row gets there through `store/ledger/agent_branch.rs` alone, which proves whose it is.
    (
        ".delete_ref",
        &[
            "git/",
            "store/ledger/agent_branch.rs",
            // The journal of a spawn of this clone names the branch, and it must still be at the spawn commit.
            "agents/upkeep/half_made.rs",
            "ops/spawn/execute.rs",
            // Branches that the command itself made, or that a host's worktree is on.
            "ops/host_hook/worktree.rs",
            // Below `refs/agents/`.
            "ops/sync/",
            "ops/uninstall/",
        ],
    ),
    (".delete_broken_ref", &["git/", "store/ledger/agent_branch.rs", "ops/sync/"]),
    (
        ".swap_ref",
        &[
            "git/",
            "store/ledger/agent_branch.rs",
            "store/chain/",
            // Its callers move the target of a landing, or the branch that `own_checkout` found to be the agent's.
            "agents/context/branch_swap.rs",
            "ops/sync/exchange.rs",
        ],
    ),
    (
        ".create_branch",
        &[
            "git/",
            "ops/spawn/execute.rs",
            // Under a name that the caller chose, below `rescued/`, or that `require_own_branch` let pass.
            "ops/rescue/",
            "ops/host_hook/worktree.rs",
        ],
    ),
    ("RefPush {", &["git/", "ops/gc/expire.rs", "ops/merge/remote.rs", "ops/pr/", "ops/sync/"]),
];

/// What `domain` must not name at all.
const IMPURE: &[&str] = &["std::fs", "std::net", "std::thread", "serde_json", "Instant"];

/// The most lines a file may have, unit tests not counted.
const CEILING: usize = 600;

struct File {
    name: String,
    code: String,
}

/// Every file of `src`, without its unit tests and without comments.
fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("readable") {
            let path: PathBuf = entry.expect("readable").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("below src");
            let name = name.to_string_lossy().replace('\\', "/");
            if path.extension().is_none_or(|ending| ending != "rs") || name.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("UTF-8");
            let code = without_unit_tests(&text);
            files.push(File { name, code: code.to_owned() });
        }
    }
    assert!(files.len() > 10, "the sources were found");
    files
}

/// A file as far as its unit tests, which stand at its end. Those in a file of their own end nothing here.
fn without_unit_tests(text: &str) -> &str {
    let is_module = |at: &usize| {
        let line = text[*at..].lines().nth(1).unwrap_or_default();
        line.starts_with("mod ") && line.ends_with('{')
    };
    let mut marks = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    marks.find(is_module).map_or(text, |at| &text[..at])
}

/// The lines that are code, with their numbers.
fn code_lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.code
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn report(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// The paths of a `use` tree: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let inside = inside.rsplit_once('}').expect("a closing brace").0;
    let mut depth = 0;
    let parts = inside.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts
        .filter(|part| !part.trim().is_empty())
        .flat_map(paths_of)
        .map(|path| format!("{}{path}", before.trim()))
        .collect()
}

/// Every path from the crate's root that a file names, in `use` declarations and elsewhere.
fn crate_paths(file: &File) -> Vec<String> {
    let lines: Vec<&str> = code_lines(file).map(|(_, line)| line.trim()).collect();
    let mut code = lines.join(" ");
    let module = file.name.trim_end_matches(".rs").trim_end_matches("/mod");
    let module: Vec<&str> = module.split('/').collect();
    for above in (1..=module.len()).rev() {
        let rest: String = module[..module.len() - above].join("::");
        let path = format!("crate::{rest}::").replace("::::", "::");
        code = code.replace(&"super::".repeat(above), &path);
    }
    let mut paths = Vec::new();
    for found in code.split("crate::").skip(1) {
        let end = found.find(';').unwrap_or(found.len());
        let brace = found[..end].find("::{");
        let plain = found
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
            .unwrap_or(found.len());
        match brace {
            Some(brace) if brace + 2 == plain => paths.extend(paths_of(&found[..end])),
            _ if found.starts_with('{') => paths.extend(paths_of(&found[..end])),
            _ => paths.push(found[..plain].trim_end_matches(':').to_owned()),
        }
    }
    paths
}

#[test]
fn a_use_tree_is_read_with_its_braces() {
    let file = File {
        name: "ops/show/mod.rs".to_owned(),
        code: "use crate::{ops::run, wire};\nuse crate::ops::{Ctx, a::{b, c}};\nlet x = crate::git::y(z);\nuse super::d;"
            .to_owned(),
    };
    let expected = ["ops::run", "wire", "ops::Ctx", "ops::a::b", "ops::a::c", "git::y", "ops::d"];
    assert_eq!(crate_paths(&file), expected);
}

#[test]
fn arrows_between_layers_point_down() {
    let mut broken = Vec::new();
    for file in files() {
        let layer = file.name.split(['/', '.']).next().unwrap_or_default();
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            continue;
        };
        for path in crate_paths(&file) {
            let used = path.split("::").next().unwrap_or_default();
            let is_layer = LAYERS.iter().any(|(name, _)| *name == used);
            if is_layer && used != layer && !below.contains(&used) {
                broken.push(format!("src/{}: {layer} names {path}", file.name));
            }
        }
    }
    report(&broken);
}

/// The rooms of a layer and the rooms of the same layer that each names.
fn arrows_within(layer: &str) -> BTreeMap<String, BTreeSet<String>> {
    let inside = format!("{layer}/");
    let files: Vec<File> = files()
        .into_iter()
        .filter(|file| file.name.starts_with(&inside) && file.name != format!("{layer}/mod.rs"))
        .collect();
    let room_of = |file: &File| {
        let name = &file.name[inside.len()..];
        name.split(['/', '.']).next().unwrap_or_default().to_owned()
    };
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        arrows.entry(room_of(file)).or_default();
    }
    let rooms: BTreeSet<String> = arrows.keys().cloned().collect();
    let prefix = format!("{}::", layer.replace('/', "::"));
    for file in &files {
        let own = room_of(file);
        let used = crate_paths(file).into_iter().filter_map(|path| {
            let room = path.strip_prefix(&prefix)?.split("::").next()?.to_owned();
            (rooms.contains(&room) && room != own).then_some(room)
        });
        arrows.entry(own.clone()).or_default().extend(used);
    }
    arrows
}

/// The floor of each room: one above the highest room that it names. Panics on a circle.
fn floors(arrows: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, usize> {
    let mut floors: BTreeMap<String, usize> = BTreeMap::new();
    while floors.len() < arrows.len() {
        let ready: Vec<(String, usize)> = arrows
            .iter()
            .filter(|(room, _)| !floors.contains_key(*room))
            .filter_map(|(room, used)| {
                let below: Option<Vec<usize>> =
                    used.iter().map(|room| floors.get(room).copied()).collect();
                let highest = below?.into_iter().max().unwrap_or(0);
                Some((room.clone(), highest + 1))
            })
            .collect();
        let open = arrows.keys().filter(|room| !floors.contains_key(*room));
        assert!(
            !ready.is_empty(),
            "these rooms name each other in a circle: {:?}",
            open.collect::<Vec<_>>()
        );
        floors.extend(ready);
    }
    floors
}

/// The most floors that the verbs may have above each other.
const FLOORS: usize = 6;

/// Which verb may name another verb.
const VERBS_OF_VERBS: &[(&str, &[&str])] = &[
    // A tournament defers those that did not win.
    ("run", &["spawn", "commit", "mounted", "verify", "close"]),
    ("merge", &["verify"]),
    // What an agent may touch is read as it was at the spawn.
    ("amend", &["spawn"]),
    // A name is given by the rules of the spawn.
    ("rename", &["spawn"]),
    ("gc", &["discard"]),
    // What was discarded is brought back, or discarded again; the prompt tells of the policy that binds.
    ("undo", &["discard", "rescue", "amend"]),
    // What lands on a remote lands with its claim.
    ("merge", &["sync"]),
    // A hook says what those two would say.
    ("host_hook", &["check", "verify"]),
    // A worktree that a host asks for is an agent's, and goes when it was not used.
    ("host_hook", &["spawn", "discard"]),
    // A train lands what it checked, in the order that `overlap` finds.
    ("train", &["merge", "overlap"]),
    // A host resolves what an update left, and the update ends.
    ("solve", &["run", "update", "verify"]),
    // The page is made of what those answer, and made again when the board would be.
    ("report", &["overlap", "tree", "show", "board", "list"]),
    // The board is `list` again and again, with the last output and the counts that `show` has.
    ("board", &["list", "show"]),
    // What `init` put in is taken out with the rest.
    ("uninstall", &["init"]),
    // What is offered was judged, and is pushed as `sync` pushes; what has landed already is recorded as `merge` does.
    ("pr", &["verify", "sync", "merge"]),
    // What those wrote is looked at and repaired.
    ("doctor", &["discard", "hooks", "install_shell", "pool"]),
    // A worktree that is gone is made again in one way.
    ("doctor", &["rescue"]),
];

/// Rooms of `ops` that are no verbs: parts of answers that several verbs give.
const SHARED_ANSWERS: &[&str] =
    &["agent_report", "error_report", "host_trust", "mail", "run_row", "status", "usage"];

#[test]
fn verbs_stand_on_few_floors_and_name_few_verbs() {
    let arrows = arrows_within("ops");
    let highest = floors(&arrows).into_values().max().unwrap_or(0);
    assert!(highest <= FLOORS, "{highest} floors, {FLOORS} allowed");
    let mut broken = Vec::new();
    for (verb, used) in &arrows {
        for other in used {
            let other = other.as_str();
            let allowed = VERBS_OF_VERBS
                .iter()
                .any(|(name, allowed)| name == verb && allowed.contains(&other));
            if !allowed && !SHARED_ANSWERS.contains(&other) {
                broken.push(format!("ops/{verb} names the verb {other}"));
            }
        }
    }
    report(&broken);
}

#[test]
fn no_rooms_name_each_other_in_a_circle() {
    for layer in ["agents", "hosts", "store", "proc", "git", "wire", "domain"] {
        floors(&arrows_within(layer));
    }
    for layer in IN_ROOMS {
        for room in arrows_within(layer).into_keys() {
            floors(&arrows_within(&format!("{layer}/{room}")));
        }
    }
}

/// The layers whose files all stand in rooms.
const IN_ROOMS: [&str; 6] = ["agents", "cli", "domain", "git", "store", "wire"];

#[test]
fn a_floor_has_few_rooms_and_hardly_a_loose_file() {
    for layer in IN_ROOMS {
        let inside = format!("{layer}/");
        let names: Vec<String> = files().into_iter().map(|file| file.name).collect();
        let on_floor = names.iter().filter_map(|name| name.strip_prefix(&inside));
        let (in_rooms, loose): (Vec<&str>, Vec<&str>) =
            on_floor.partition(|name| name.contains('/'));
        let rooms: BTreeSet<&str> =
            in_rooms.iter().filter_map(|name| name.split('/').next()).collect();
        // What stands beside a folder of its name is the head of that room.
        let is_loose = |name: &&&str| {
            let name = name.trim_end_matches(".rs");
            name != "mod" && !rooms.contains(name)
        };
        let loose: Vec<_> = loose.iter().filter(is_loose).collect();
        assert!(rooms.len() <= 12 && loose.len() <= 2, "{layer}: {rooms:?}, {loose:?}");
    }
}

/// A file below `ops` that may hold what looks like a command of ours, and why.
const SPEAKS_OF_COMMANDS: &str = "domain/work/task/check.rs"; // It looks for such words in tasks.

#[test]
fn only_verbs_know_what_commands_are_called() {
    let mut broken = Vec::new();
    for file in files() {
        let above = ["ops/", "cli/", "lib.rs", "main.rs", SPEAKS_OF_COMMANDS];
        if above.iter().any(|place| file.name.starts_with(place)) {
            continue;
        }
        for (number, line) in code_lines(&file) {
            let mut after = line.split("git agent ").skip(1);
            if after.any(|word| word.starts_with(|c: char| c.is_ascii_lowercase() || c == '-')) {
                broken.push(format!("src/{}:{number}: {}", file.name, line.trim()));
            }
        }
    }
    report(&broken);
}

/// Commands of a shell whose next word is a path, as they stand in advice.
const BEFORE_PATHS: [&str; 14] = [
    "git -C",
    "cd",
    "cat",
    "run rm",
    "run mv",
    "ls -l",
    "ls -ld",
    "worktree remove",
    "worktree remove --force",
    "worktree unlock",
    "worktree repair",
    "worktree move -f -f",
    "is: mv",
    "worktree: mv",
];

#[test]
fn paths_in_commands_are_words_of_a_shell() {
    let mut broken = Vec::new();
    for file in files() {
        for before in BEFORE_PATHS {
            for (at, _) in file.code.match_indices(&format!("{before} {{")) {
                let rest = &file.code[at + before.len() + 2..];
                let (name, rest) = rest.split_once('}').expect("a placeholder");
                // The argument stands behind the text, or is the variable of that name that was bound last.
                let value = if name.is_empty() {
                    rest.split(';').next().unwrap_or_default()
                } else {
                    let above = &file.code[..at];
                    let bound =
                        [format!("let {name} "), format!("{name}) = ("), format!("|{name}|")];
                    let bound = bound.iter().filter_map(|text| above.rfind(text)).max();
                    above[bound.unwrap_or(0)..].split(';').next().unwrap_or_default()
                };
                // The names of a host's settings files are ours, and a tilde in quotes leads nowhere.
                let is_constant =
                    file.name.starts_with("domain/") || file.name == "ops/init/mod.rs";
                if !is_constant && !value.contains("shell::") && !value.contains("quoted(") {
                    let line = file.code[..at].lines().count();
                    broken.push(format!("src/{}:{line}: {before} {{{name}}}", file.name));
                }
            }
        }
    }
    report(&broken);
}

#[test]
fn a_type_name_means_one_type() {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files() {
        // It has the items of Linux, in its own way.
        if file.name == "system/elsewhere.rs" {
            continue;
        }
        for (_, line) in code_lines(&file) {
            let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
            let kind = words.next().unwrap_or_default();
            // A macro that declares types has their names further to the right.
            let is_inner = line.starts_with(char::is_whitespace) && !line.contains("pub");
            if is_inner || !["struct", "enum", "trait"].contains(&kind) {
                continue;
            }
            let name = words.next().unwrap_or_default();
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            types.entry(name.to_owned()).or_default().push(file.name.clone());
        }
    }
    types.retain(|_, files| files.len() > 1);
    assert_eq!(types, BTreeMap::new(), "names of more than one type");
}

#[test]
fn every_effect_has_one_door() {
    let mut broken = Vec::new();
    for file in files() {
        for (number, line) in code_lines(&file) {
            for (word, places) in DOORS {
                let inside = places.iter().any(|place| file.name.starts_with(place));
                if line.contains(word) && !inside {
                    broken.push(format!("src/{}:{number}: `{word}`", file.name));
                }
            }
        }
    }
    report(&broken);
}

#[test]
fn the_domain_is_pure() {
    let mut broken = Vec::new();
    for file in files() {
        for (number, line) in code_lines(&file) {
            for word in IMPURE {
                if file.name.starts_with("domain/") && line.contains(word) {
                    broken.push(format!("src/{}:{number}: `{word}`", file.name));
                }
            }
        }
    }
    report(&broken);
}

/// The files that start git, and where. Every other file looks at an agent's worktree through
/// `agents::untrusted::WorktreeView`: git started there would obey what the agent wrote.
const STARTS_GIT: &[(&str, &str)] = &[
    ("ops/ask.rs", "the agent's own git, in a command of its own run"),
    ("git/history/ancestry.rs", "in the common dir, without a worktree"),
    (
        "git/changes/staged.rs",
        "on an index that git alone can read, compared with a tree; no file is looked at",
    ),
    (
        "git/changes/index/write_tree.rs",
        "on an index that git alone can read; no file is looked at",
    ),
    ("git/changes/gitlinks.rs", "through a stand-in for a nested repository"),
    ("git/landing.rs", "in the user's worktrees; an agent's has a view"),
    ("git/worktree/populate/mod.rs", "in a new worktree, where no agent has worked"),
    ("git/config.rs", "in the common dir, on a copy"),
    ("git/worktree/own_repository.rs", "in the common dir, and in a clone that no agent has had"),
    ("git/objects/quarantine.rs", "in the common dir"),
    ("git/repo/scratch_objects.rs", "in a repository of ours"),
    ("git/config/programs.rs", "where new files are written, with no program from among them"),
    ("git/record/commit.rs", "for trailers, in the common dir"),
    ("git/record/diff.rs", "in the main worktree or the common dir"),
    ("git/repo/program.rs", "in the common dir, and a new worktree where no agent has worked"),
    (
        "git/uncommitted/fingerprint.rs",
        "in a warm worktree that becomes a base, which no agent has had",
    ),
    ("git/uncommitted/layer.rs", "in a warm worktree that becomes a base, which no agent has had"),
    ("git/worktree/view.rs", "through the view itself"),
    ("ops/doctor/branches.rs", "in the common dir, for the refs"),
    ("ops/doctor/worktrees.rs", "in the common dir, on a new index"),
    ("ops/host_hook/worktree.rs", "in the common dir"),
    ("ops/materialize.rs", "in a base and in a new worktree, which no agent has had"),
    ("agents/stock/furnish.rs", "in a warm worktree, which no agent has had"),
    ("agents/place/ignored_files.rs", "in the main worktree"),
    ("store/chain/keep.rs", "in the common dir"),
];

/// What starts git.
const STARTS: &[&str] = &["command::git(", "command::run(", "command::output("];

#[test]
fn git_is_started_where_no_agent_can_write() {
    let is_listed = |file: &File| STARTS_GIT.iter().any(|(name, _)| *name == file.name);
    require_list("starts git", STARTS, STARTS_GIT, &is_listed);
}

/// The files that open files without `agents::untrusted`, and what they open. None of it may be in a place that an
/// agent can write, but for those that say so.
const OPENS_FILES: &[(&str, &str)] = &[
    ("agents/checks/check_worktree.rs", "a worktree that we made for a merged tree"),
    ("agents/life/host_session.rs", "what hooks told of sessions, in the common directory"),
    ("agents/forge/mod.rs", "what gh answered, in a scratch directory of ours"),
    ("agents/place/hidden_places.rs", "the names in our own directory of an agent"),
    ("agents/upkeep/half_made.rs", "/proc, and whether a directory is empty"),
    ("ops/uninstall/mod.rs", "the names in our own directories"),
    ("ops/discard/remove.rs", "the names below a directory that no commit has, through no link"),
    ("agents/who/persona.rs", "personas of the user"),
    ("agents/stock/pool.rs", "state of ours"),
    ("agents/context/run_repo.rs", "names of refs of the shared repository"),
    ("cli/verbs/run/inputs.rs", "what the user names"),
    ("cli/verbs/spawn.rs", "what the user names"),
    ("git/changes/glance.rs", "an agent's: names of files, no content"),
    ("git/changes/ignore.rs", "an agent's: names of files, no content"),
    ("git/files/lock_file.rs", "notes of ours"),
    ("git/landing/interrupted.rs", "notes of ours"),
    ("git/worktree/populate/", "worktrees that git-agent copies from, each file by its stat data"),
    ("git/objects/quarantine.rs", "objects of a run, each of which is checked by its hash"),
    ("git/worktree/own_repository.rs", "the shared repository, for one that no agent has yet"),
    ("git/refs/transaction.rs", "packed-refs of the shared repository"),
    ("git/uncommitted/salvage", "an agent's: names in its directories, no content"),
    ("git/repo/scratch_objects.rs", "the shared repository"),
    ("git/history/gained.rs", "the shared repository"),
    ("git/files/temporary.rs", "names of temporary directories, no content"),
    ("git/uncommitted/fingerprint.rs", "an agent's: names below those that a walk saw; and a base"),
    ("git/files/layer.rs", "names in a base, no content"),
    ("git/uncommitted/base.rs", "a base, which no agent can write"),
    ("git/files/untrusted.rs", "the road itself"),
    ("git/worktree", "names of admin directories"),
    ("ops/doctor/", "state of ours"),
    ("ops/git_hook/mod.rs", "the message that git names"),
    ("ops/host_hook/pre_tool.rs", "an agent's: names of files, no content"),
    ("ops/host_hook/worktree.rs", "notes and a prompt of ours"),
    ("ops/init/mod.rs", "settings of hosts"),
    ("ops/pool/", "a warm worktree, which no agent has had"),
    ("ops/rescue/branch.rs", "a directory of the user"),
    ("ops/run/fence.rs", "names of directories of ours"),
    ("ops/runs/mod.rs", "logs of ours"),
    ("ops/send/mod.rs", "what the user names"),
    ("ops/show.rs", "a prompt of ours"),
    ("agents/place/ignored_files.rs", "ignored files of the main worktree"),
    ("agents/stock/frozen.rs", "a base, which no agent can write"),
    ("agents/stock/furnish.rs", "a warm worktree, which no agent has had"),
    ("agents/stock/layered.rs", "a base, and names and files of ours in the directory of an agent"),
    ("git/uncommitted/layer.rs", "an agent's: names in its upper directory, no content"),
    ("ops/materialize.rs", "an agent's: names in its upper directory, no content; and a base"),
    ("ops/spawn/setup.rs", "names in the admin directory of a warm worktree"),
    ("proc/", "/proc, and files of ours"),
    ("store/mailbox/spool.rs", "an agent's: names in its spool, no content"),
    ("agents/stock/disk.rs", "names in our own directory, no content"),
    ("store/", "state of ours"),
    ("system/", "proc(5), and a file in /tmp"),
];

/// What opens a file or lists a directory.
const OPENS: &[&str] =
    &["fs::read(", "fs::read_to_string(", "File::open(", "fs::copy(", "read_dir(", "WalkDir::new("];

#[test]
fn what_agents_can_write_is_opened_in_one_module() {
    let is_listed = |file: &File| OPENS_FILES.iter().any(|(name, _)| file.name.starts_with(name));
    require_list("opens files", OPENS, OPENS_FILES, &is_listed);
}

/// Requires that exactly the listed files use one of the words.
fn require_list(
    what: &str,
    words: &[&str],
    list: &[(&str, &str)],
    is_listed: &dyn Fn(&File) -> bool,
) {
    let uses = |file: &&File| {
        code_lines(file).any(|(_, line)| words.iter().any(|word| line.contains(word)))
    };
    let files = files();
    let using: Vec<&File> = files.iter().filter(uses).collect();
    let unlisted = using.iter().filter(|file| !is_listed(file));
    let mut broken: Vec<_> = unlisted
        .map(|file| format!("src/{} {what}, which agents::untrusted is for", file.name))
        .collect();
    let idle =
        list.iter().filter(|(name, _)| !using.iter().any(|file| file.name.starts_with(name)));
    broken.extend(
        idle.map(|(name, _)| format!("src/{name} no longer {what}; take it from the list")),
    );
    report(&broken);
}

/// Names of hosts that are also words of ours: a message's cursor, the user's shell.
const COMMON_WORDS: &[&str] = &["cursor", "shell"];

/// The files that may name a host besides its own: the list of hosts, and the page that lists what we
/// write and the list of settings, for the default place of worktrees.
const LISTS: &[&str] = &["hosts/mod.rs", "lib.rs", "ops/config.rs"];

#[test]
fn a_host_is_named_in_its_own_file_and_the_list_alone() {
    let files = files();
    let list = files.iter().find(|file| file.name == LISTS[0]);
    let list = &list.expect("the list of hosts").code;
    let (_, listed) = list.split_once("pub const HOSTS").expect("the list");
    let (listed, _) = listed.split_once("];").expect("its end");
    let hosts: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix('&')?.split("::").next())
        .collect();
    assert!(hosts.len() > 5, "{hosts:?}");
    let mut broken = Vec::new();
    for file in &files {
        let own = hosts.iter().any(|host| file.name == format!("hosts/{host}.rs"));
        if own || LISTS.contains(&file.name.as_str()) {
            continue;
        }
        // Comments too: what is said of one host belongs into its file.
        for (number, line) in file.code.lines().enumerate() {
            let line = line.to_ascii_lowercase();
            let named = |host: &&&str| !COMMON_WORDS.contains(host) && line.contains(**host);
            if let Some(host) = hosts.iter().find(named) {
                broken.push(format!("src/{}:{}: names {host}", file.name, number + 1));
            }
        }
    }
    report(&broken);
}

#[test]
fn no_room_is_crowded() {
    let mut broken = Vec::new();
    for file in files() {
        let lines = file.code.lines().count();
        if lines > CEILING {
            broken.push(format!("src/{}: {lines} lines, {CEILING} allowed", file.name));
        }
    }
    report(&broken);
}

#[test]
fn public_modules_say_what_they_are_for() {
    let silent: Vec<_> = files()
        .into_iter()
        .filter(|file| !file.code.trim_start().starts_with("//!"))
        .map(|file| format!("src/{} has no module doc", file.name))
        .collect();
    report(&silent);
}

/// The files that the `mod` lines of a test file name, without those that say a path of their own.
fn named(file: &Path, text: &str) -> Vec<PathBuf> {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let directory = file.parent().expect("a directory");
    let directory = match stem {
        Some("suite" | "mod") | None => directory.to_owned(),
        Some(stem) => directory.join(stem),
    };
    let modules = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    modules
        .flat_map(|name| {
            let file = directory.join(format!("{name}.rs"));
            [file, directory.join(name).join("mod.rs")]
        })
        .filter(|path| path.exists())
        .collect()
}

/// Every Rust file below a directory.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("readable");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

#[test]
fn no_test_file_is_forgotten() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut reached = vec![tests.join("suite.rs")];
    let mut next = 0;
    while let Some(file) = reached.get(next).cloned() {
        let text = fs::read_to_string(&file).expect("UTF-8");
        reached.extend(named(&file, &text));
        next += 1;
    }
    let files = rust_files(&tests);
    assert!(reached.len() > 50, "the modules were followed");
    let forgotten: Vec<_> = files
        .iter()
        .filter(|file| !reached.contains(file))
        .map(|file| format!("{} is named by no `mod`, so it never runs", file.display()))
        .collect();
    report(&forgotten);
}
