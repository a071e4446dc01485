//! Worktrees that were made before they are asked for.

use crate::Options;
use crate::measure::{Bar, Side, alternate, figure, row};
use crate::scene::Scene;
use crate::support::{AGENT, command, git, run, text};
use serde_json::Value;
use std::path::Path;

/// So many files differ between a warm worktree and the base, where the base has moved.
const MOVED: usize = 50;

/// A spawn that claims a warm worktree, of the base and of an older one, and what such a worktree takes of the disk. The
/// pool is filled again between two runs, outside the clock. Leaves settings behind, so it is measured last.
pub(crate) fn measure(options: &Options, scene: &Scene) {
    let (main, spot) = (&scene.main, text(&scene.spot));
    let settings = main.join(".config");
    std::fs::create_dir_all(&settings).expect("directory");
    std::fs::write(settings.join("git-agent.toml"), "[pool]\nsize = 1\n").expect("write");
    git(main, &["add", ".config"]);
    git(main, &["commit", "--quiet", "--message=a pool"]);
    let add = ["git", "worktree", "add", "--quiet", "--detach", spot];
    let spawn = [AGENT, "spawn", text(&scene.task), "--path", spot];
    let sides = [Side::new("`git worktree add`", main, &add), Side::new("", main, &spawn)];

    // That it is claimed, and how much of the disk it takes.
    fill(main);
    let pool = json(main, &[AGENT, "pool", "--format=json"]);
    let slot = pool["slots"][0]["disk_bytes"].as_u64().expect("bytes");
    let report = json(main, &[&spawn[..], &["--format=json"]].concat());
    assert_eq!(report["claimed"], true, "{report}");
    clear(scene);
    git(main, &add[1..]);
    let plain = disk_use(&scene.spot);
    clear(scene);
    figure(
        "disk of a warm worktree / of git's",
        &scene.name,
        &format!("{:.1} / {:.1} MB", slot as f64 / 1e6, plain as f64 / 1e6),
        "",
        true,
    );

    let costs = alternate(options.rounds(), &sides, |_| fill(main), |_| clear(scene));
    row("spawn, claimed from the pool", &scene.name, Some(&costs[0]), &costs[1], Bar::Within(15.0));
    let files = git(main, &["ls-files", "--stage", "-z"]).stdout;
    let files = String::from_utf8_lossy(&files).into_owned();
    let regular = files.split('\0').filter_map(|line| line.strip_prefix("100644 "));
    let named = regular.filter_map(|line| line.split_once('\t'));
    // Settings stay as they are.
    let named: Vec<&str> =
        named.map(|(_, name)| name).filter(|name| !name.starts_with('.')).collect();
    let every = (named.len() / MOVED).max(1);
    let mut number = 0;
    let move_on = |_: &mut Side| {
        fill(main);
        number += 1;
        for name in named.iter().step_by(every).take(MOVED) {
            std::fs::write(main.join(name), format!("moved {number} times\n")).expect("write");
        }
        git(main, &["commit", "--quiet", "--all", "--message=moved"]);
    };
    let costs = alternate(options.rounds(), &sides, move_on, |_| clear(scene));
    row(
        &format!("  {MOVED} files behind the base"),
        &scene.name,
        Some(&costs[0]),
        &costs[1],
        Bar::Within(40.0),
    );
    // What was started in the background ends before the repository goes.
    fill(main);
}

fn fill(main: &Path) {
    run(main, &[AGENT, "pool", "fill"]);
}

fn json(main: &Path, words: &[&str]) -> Value {
    serde_json::from_slice(&run(main, words).stdout).expect("JSON")
}

/// Takes away what was made beside the pool.
fn clear(scene: &Scene) {
    let words = ["git", "worktree", "remove", "--force", "--force"];
    let words = [&words[..], &[text(&scene.spot)]].concat();
    assert!(command(&scene.main, &words).status().expect("git starts").success());
}

fn disk_use(directory: &Path) -> u64 {
    let said = run(directory, &["du", "--summarize", "--block-size=1", "."]).stdout;
    let said = String::from_utf8_lossy(&said);
    let bytes = said.split_whitespace().next();
    bytes.and_then(|word| word.parse().ok()).expect("bytes")
}
