//! What happens in one repository, from spawn to discard.

use crate::Options;
use crate::measure::{Bar, Side, alternate, cost, figure, readers, row};
use crate::scene::Scene;
use crate::support::clock::at_once as all_at_once;
use crate::support::{AGENT, command, git, run, text};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Agents that start at the same moment.
const CROWD: usize = 32;
/// Worktrees in a list, the main one included.
const LISTED: usize = 17;

/// Against git with and without parallel checkout, libgit2's own checkout, and peers.
pub(crate) fn spawn(options: &Options, scene: &Scene) {
    let (main, spot) = (&scene.main, text(&scene.spot));
    let add = ["worktree", "add", "--quiet", "--detach", spot];
    let plain = [&["git"], &add[..]].concat();
    let mut sides = vec![Side::new("`git worktree add`", main, &plain), libgit2(scene)];
    for workers in ["0", "4"] {
        let setting = format!("checkout.workers={workers}");
        let words = [&["git", "-c", &setting], &add[..]].concat();
        sides.push(Side::new(&format!("the same, `{setting}`"), main, &words));
    }
    if let Some(wt) = &options.wt {
        let words = [text(wt), "switch", "--create", "spot", "--no-cd", "--yes"];
        sides.push(Side::new("`wt switch --create`", main, &words));
    }
    if let Some(gtr) = &options.gtr {
        let words = [text(gtr), "new", "spot", "--yes", "--no-fetch"];
        sides.push(Side::new("`git gtr new`", main, &words));
    }
    let words = [AGENT, "spawn", text(&scene.task), "--path", spot];
    sides.push(Side::new("", main, &words));
    let mut costs = alternate(options.rounds(), &sides, |_| (), |_| scene.clear(main));
    let ours = costs.pop().expect("the last side");
    for theirs in &costs {
        let bar = if theirs.name == "`git worktree add`" { Bar::Ratio(0.35) } else { Bar::None };
        row("spawn, a clean worktree to copy from", &scene.name, Some(theirs), &ours, bar);
    }
    let bare = &scene.bare;
    let sides = [Side::new("`git worktree add`", bare, &plain), Side::new("", bare, &words)];
    let costs = alternate(options.rounds(), &sides, |_| (), |_| scene.clear(bare));
    row("spawn, none to copy from", &scene.name, Some(&costs[0]), &costs[1], Bar::Ratio(0.65));
    let rest = (0..options.rounds()).map(|_| {
        let report = run(main, &[&words[..], &["--format=json"]].concat()).stdout;
        scene.clear(main);
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let field = |name: &str| report[name].as_u64().expect("milliseconds");
        Duration::from_millis(field("timing_ms") - field("populate_ms"))
    });
    let rest = cost("", rest.collect());
    row("spawn, everything but the files", &scene.name, None, &rest, Bar::Within(10.0));
}

fn libgit2(scene: &Scene) -> Side {
    let program = std::env::current_exe().expect("this program");
    let words = [text(&program), "libgit2", text(&scene.main), text(&scene.spot)];
    Side::new("libgit2's `Repository::worktree`", &scene.main, &words)
}

/// Against commands that keep nothing of what was in the worktree.
pub(crate) fn remove(options: &Options, scene: &Scene) {
    let main = &scene.main;
    let spot = text(&scene.spot);
    let remove = ["git", "worktree", "remove", "--force", spot];
    let mut sides = vec![Side::new("`git worktree remove --force`", main, &remove)];
    if let Some(wt) = &options.wt {
        let words = [text(wt), "remove", "spot", "--force", "-D", "--yes"];
        sides.push(Side::new("`wt remove --force -D`", main, &words));
    }
    sides.push(Side::new("", main, &[AGENT, "discard"]));
    let mut number = 0;
    let before = |side: &mut Side| match &options.wt {
        _ if side.name.is_empty() => {
            number += 1;
            side.words.push(scene.worker(number).id);
        }
        Some(wt) if side.words[0] == text(wt) => {
            run(main, &[text(wt), "switch", "--create", "spot", "--no-cd", "--yes"]);
        }
        _ => drop(git(main, &["worktree", "add", "--quiet", "--detach", spot])),
    };
    let mut costs = alternate(options.rounds(), &sides, before, |_| scene.clear(main));
    let ours = costs.pop().expect("the last side");
    for theirs in &costs {
        let bar = if theirs.name == sides[0].name { Bar::Ratio(0.3) } else { Bar::None };
        row("remove, after keeping what is in it", &scene.name, Some(theirs), &ours, bar);
    }
}

/// `check`, `verify` and `merge` of an agent with committed and uncommitted work.
pub(crate) fn check_and_judge(options: &Options, scene: &Scene) {
    let (rounds, main) = (options.rounds(), &scene.main);
    let worker = scene.worker(0);
    let here = &worker.worktree;
    let sides = [
        Side::new(
            "`git diff --cached --name-only`",
            here,
            &["git", "diff", "--cached", "--name-only"],
        ),
        Side::new("", here, &[AGENT, "check", "--staged"]),
    ];
    let costs = readers(rounds * 3, &sides);
    row("`check --staged`", &scene.name, Some(&costs[0]), &costs[1], Bar::Ratio(1.2));

    git(main, &["commit", "--quiet", "--allow-empty", "--message=the base moves"]);
    let both = format!(
        "git merge-tree --write-tree HEAD {} && git -C {} --no-optional-locks status --porcelain -uall",
        worker.branch,
        text(here)
    );
    let sides = [
        Side::new("`git merge-tree` and `git status`", main, &["sh", "-c", &both]),
        Side::new("", main, &[AGENT, "verify", &worker.id]),
    ];
    let mut round = 0;
    let unseen = |_: &mut Side| {
        round += 1;
        worker.write("bench/unseen", &round.to_string());
    };
    let costs = alternate(rounds, &sides, unseen, |_| ());
    row(
        "`verify`, a state not seen before",
        &scene.name,
        Some(&costs[0]),
        &costs[1],
        Bar::Ratio(1.0),
    );
    let costs = readers(rounds, &sides);
    row(
        "`verify`, a known verdict, the worktree read",
        &scene.name,
        Some(&costs[0]),
        &costs[1],
        Bar::None,
    );
    let tip = ["--tip", &worker.branch];
    let words = [&[AGENT, "verify", &worker.id], &tip[..]].concat();
    let costs = readers(rounds, &[Side::new("", main, &words)]);
    row("`verify --tip`, a known verdict", &scene.name, None, &costs[0], Bar::Within(10.0));

    let sides = [
        Side::new(
            "`git merge --no-ff`",
            main,
            &["git", "merge", "--quiet", "--no-ff", "--no-edit"],
        ),
        Side::new("", main, &[AGENT, "merge"]),
    ];
    let mut number = 1000;
    let judged = |side: &mut Side| {
        number += 1;
        let worker = scene.worker(number);
        if side.name.is_empty() {
            run(main, &[AGENT, "verify", &worker.id]);
            side.words.push(worker.id);
        } else {
            side.words.push(worker.branch);
        }
    };
    let back = |_: &Side| drop(git(main, &["reset", "--quiet", "--hard", "HEAD^1"]));
    let costs = alternate(rounds, &sides, judged, back);
    row("`merge`, a known verdict", &scene.name, Some(&costs[0]), &costs[1], Bar::Ratio(0.7));
    scene.clear(main);
}

/// With dirty, ahead and behind.
pub(crate) fn list(options: &Options, scene: &Scene) {
    let main = &scene.main;
    let workers = scene.spawn(options.size(LISTED - 1));
    for (number, worker) in workers.iter().enumerate() {
        worker.work_on(number);
    }
    let what = format!("`list` of {} worktrees", workers.len() + 1);
    let mut sides = vec![Side::new("`git worktree list`", main, &["git", "worktree", "list"])];
    if let Some(wt) = &options.wt {
        sides.push(Side::new("`wt list`", main, &[text(wt), "list"]));
    }
    sides.push(Side::new("", main, &[AGENT, "list"]));
    let mut costs = readers(options.rounds(), &sides);
    let ours = costs.pop().expect("the last side");
    for theirs in &costs {
        let bar = if theirs.name == "`wt list`" { Bar::Ratio(0.1) } else { Bar::None };
        row(&what, &scene.name, Some(theirs), &ours, bar);
    }
    let first = (0..options.rounds()).map(|_| {
        let mut command = command(main, &[AGENT, "list", "--format=ndjson"]);
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        lines.next().expect("a row").expect("read");
        let took = start.elapsed();
        lines.for_each(drop);
        assert!(child.wait().expect("ends").success());
        took
    });
    let first = cost("", first.collect());
    row("  its first row", &scene.name, None, &first, Bar::Within(20.0));
    scene.clear(main);
}

/// Many spawns at the same moment, against as many in turn: git's own disturb each other then. On both sides
/// all worktrees stay until the end, and the first time does not count: memory that is used for the first time
/// costs more than all the rest.
pub(crate) fn at_once(options: &Options, scene: &Scene) {
    let (main, crowd) = (&scene.main, options.size(CROWD));
    let alone = Side::new("", main, &[AGENT, "spawn", text(&scene.task)]);
    let in_turn = || -> Duration {
        let took = (0..crowd).map(|_| alone.time()).sum();
        scene.clear(main);
        took
    };
    in_turn();
    let in_turn = in_turn();
    let (ended, took) = all_at_once(crowd, || {
        let mut spawn = command(main, &[AGENT, "spawn", text(&scene.task)]);
        spawn.stdout(Stdio::null()).stderr(Stdio::null());
        spawn
    });
    let succeeded = ended.iter().filter(|one| one.status.success()).count();
    let what = format!("{crowd} spawns at once: that succeed");
    let of = format!("{crowd} of {crowd}");
    figure(&what, &scene.name, &succeeded.to_string(), &of, succeeded == crowd);
    let times = took.as_secs_f64() / in_turn.as_secs_f64();
    figure(
        &format!("  their time / that of {crowd} in turn"),
        &scene.name,
        &format!("{times:.2} ×"),
        "≤ 1.2 ×",
        times <= 1.2,
    );
    scene.clear(main);
}

impl Scene {
    /// Takes every linked worktree away, and the branch that peers and libgit2 make.
    fn clear(&self, repo: &std::path::Path) {
        let listed = git(repo, &["worktree", "list", "--porcelain"]).stdout;
        let listed = String::from_utf8(listed).expect("UTF-8");
        let paths = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        for path in paths.skip(1) {
            // A peer may be deleting it itself at this moment.
            let words = ["git", "worktree", "remove", "--force", "--force", path];
            let _ = command(repo, &words).output();
        }
        git(repo, &["worktree", "prune"]);
        let _ = command(repo, &["git", "branch", "--quiet", "-D", "spot"]).output();
    }
}
