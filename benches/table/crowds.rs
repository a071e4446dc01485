//! What grows: agents, rows of the ledger and messages. All in small repositories made for the purpose.

use crate::Options;
use crate::measure::{Bar, Cost, Side, alternate, cost, figure, ms, readers, row};
use crate::scene::Scene;
use crate::support::clock::time;
use crate::support::repository::{generate, import};
use crate::support::{AGENT, git, run, storm, text};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A row of two events as spawn writes it, about the object whose name has these digits.
const ROW: &str = r#"{"t":"20261120T{time}.000001Z-000-7f3a","a":"{id}","e":"spawning","by":"bench","d":{"base":"{oid}","base_ref":"refs/heads/main","branch":"refs/heads/agent/n{number}-20261120T214929Z","description":"Add a verbose flag to the list command and test it","dna":"sha256:{dna}","isolation":"worktree","name":"n{number}","pid":4711,"role":"edit-local","worktree":"/home/me/project/.claude/worktrees/agent-{number}"}}
{"t":"20261120T{time}.000002Z-000-7f3a","a":"{id}","e":"spawned","by":"bench","p":"0011223344556677","d":{"excludes":[],"policy":"{oid}","spec_sha":"{dna}"}}
"#;
const SHARED: &str = "role = \"read-only\"\ntask = \"Read the library and say what it does.\"\n\
    [scope]\nwhitelist = [\"src/**\"]\n";

pub(crate) fn measure(options: &Options, dir: &Path) {
    let origin = dir.join("small");
    generate(&origin, 100);
    for agents in [1, 20, 50, 200, 1000] {
        fleet(options, dir, &origin, options.size(agents));
    }
    let mut appends = Vec::new();
    for rows in [0, 1_000, 10_000, 100_000] {
        appends.push(ledger(options, dir, &origin, options.size(rows)));
    }
    if let [first, .., last] = appends.as_slice() {
        let ratio = last.time.as_secs_f64() / first.time.as_secs_f64();
        figure(
            "ledger: append at most rows / at none",
            "",
            &format!("{ratio:.2} ×"),
            "≤ 2 ×",
            ratio <= 2.0,
        );
    }
    for messages in [0, 10_000, 100_000] {
        mail(options, dir, &origin, options.size(messages));
    }
    runs(options, dir, &origin);
    sweep(options, dir, &origin);
    let many = dir.join("many");
    generate(&many, if options.quick { 200 } else { 10_000 });
    hooks(options, dir, &many);
}

fn place(dir: &Path, name: &str, origin: &Path) -> Scene {
    let dir = dir.join(name);
    std::fs::create_dir(&dir).expect("directory");
    Scene::clone(&dir, name, origin)
}

fn fleet(options: &Options, dir: &Path, origin: &Path, agents: usize) {
    let scene = place(dir, &format!("fleet{agents}"), origin);
    let workers = scene.spawn(agents);
    let where_ = format!("agents: {agents}, of 100 files");
    let main = &scene.main;
    let each: Vec<_> = workers.iter().map(|worker| text(&worker.worktree)).collect();
    let status = format!(
        "for worktree in {}; do git -C $worktree --no-optional-locks status --porcelain; done",
        each.join(" ")
    );
    let mut sides = vec![
        Side::new("`git worktree list`", main, &["git", "worktree", "list"]),
        Side::new("`git status` of each", main, &["sh", "-c", &status]),
    ];
    if let (Some(wt), true) = (&options.wt, agents <= 200) {
        sides.push(Side::new("`wt list`", main, &[text(wt), "list"]));
    }
    sides.push(Side::new("", main, &[AGENT, "list"]));
    let mut costs = readers(options.rounds(), &sides);
    let ours = costs.pop().expect("the last side");
    let bar = || match agents {
        1000 => Bar::Within(300.0),
        _ => Bar::None,
    };
    for theirs in &costs {
        row("`list`", &where_, Some(theirs), &ours, bar());
    }
    // What a prompt waits for each time that it is drawn.
    let line = Side::new("", main, &[AGENT, "list", "--line"]);
    let bar = if agents == 50 { Bar::Within(20.0) } else { Bar::None };
    row("`list --line`", &where_, None, &readers(options.rounds(), &[line])[0], bar);
    let worker = workers.last().expect("one");
    let sides = [
        Side::new("`git status`", &worker.worktree, &["git", "status", "--short"]),
        Side::new("", main, &[AGENT, "show", &worker.id]),
    ];
    let costs = readers(options.rounds(), &sides);
    row("`show`", &where_, Some(&costs[0]), &costs[1], Bar::None);
    let spawn = Side::new("", main, &[AGENT, "spawn", text(&scene.task)]);
    let costs = readers(options.rounds(), &[spawn]);
    row("spawn", &where_, None, &costs[0], Bar::Within(25.0));
    let page = run(main, &[AGENT, "report", "--html=-"]).stdout.len() as f64 / 1e6;
    figure("size of `report --html`", &where_, &format!("{page:.2} MB"), "< 2 MB", page < 2.0);
    behind(&scene, &where_, options, ours.time);
    std::fs::remove_dir_all(dir.join(format!("fleet{agents}"))).expect("removed");
}

/// What it adds to a list that all its agents are far behind.
fn behind(scene: &Scene, place: &str, options: &Options, before: Duration) {
    let (main, commits) = (&scene.main, options.size(20_000));
    import(main, |out| {
        for number in 0..commits {
            let who = format!("committer bench <bench@localhost> {} +0000", 1_800_000_000 + number);
            write!(out, "commit refs/heads/main\n{who}\ndata 5\nmove\n")?;
            if number == 0 {
                writeln!(out, "from refs/heads/main^0")?;
            }
            writeln!(out)?;
        }
        Ok(())
    });
    for graph in [false, true] {
        if graph {
            git(main, &["commit-graph", "write", "--reachable"]);
        }
        let counts = "--format=%(ahead-behind:refs/heads/main)";
        let sides = [
            Side::new(
                "`git for-each-ref` with `ahead-behind`",
                main,
                &["git", "for-each-ref", counts, "refs/heads/agent"],
            ),
            Side::new("", main, &[AGENT, "list"]),
        ];
        let mut costs = readers(options.rounds(), &sides);
        costs[1].time = costs[1].time.saturating_sub(before);
        let with = if graph { ", with a commit-graph" } else { "" };
        row(
            &format!("  ahead and behind, {commits} commits behind{with}: what `list` takes more"),
            place,
            Some(&costs[0]),
            &costs[1],
            if graph { Bar::Within(150.0) } else { Bar::None },
        );
    }
}

/// Gives the cost of an append.
fn ledger(options: &Options, dir: &Path, origin: &Path, rows: usize) -> Cost {
    let name = format!("ledger{rows}");
    let mut scene = place(dir, &name, origin);
    let main = scene.main.clone();
    let digits = |number: usize| format!("{:040x}", (number as u128 + 1) << 90 | number as u128);
    import(&main, |out| {
        let who = "committer bench <bench@localhost> 1700000000 +0000";
        write!(out, "commit refs/notes/agents\n{who}\ndata 5\nrows\n")?;
        for number in 0..rows {
            let oid = scatter(&digits(number));
            let body = ROW
                .replace("{id}", &id(&oid))
                .replace("{oid}", &oid)
                .replace("{number}", &number.to_string())
                .replace("{dna}", &"0".repeat(64))
                .replace(
                    "{time}",
                    &format!("{:02}{:02}{:02}", number / 3600 % 24, number / 60 % 60, number % 60),
                );
            // Two hex digits to a directory, and two again, as git notes splits so many.
            let split = match rows {
                0..=256 => oid,
                257..=65_536 => format!("{}/{}", &oid[..2], &oid[2..]),
                _ => format!("{}/{}/{}", &oid[..2], &oid[2..4], &oid[4..]),
            };
            write!(out, "M 100644 inline {split}\ndata {}\n{body}\n", body.len())?;
        }
        Ok(())
    });
    std::fs::write(&scene.task, SHARED).expect("write");
    scene.name = format!("{rows} rows");
    let agents: Vec<String> = (0..options.rounds() + 2).map(|_| shared(&scene)).collect();
    git(&main, &["repack", "-a", "-d", "-q"]);
    let mut left = agents.clone();
    let sides = [
        Side::new(
            "`git notes append`",
            &main,
            &["git", "notes", "--ref=agents-copy", "append", "-m", "{}"],
        ),
        Side::new("", &main, &[AGENT, "done"]),
    ];
    git(&main, &["update-ref", "refs/notes/agents-copy", "refs/notes/agents"]);
    let another = |side: &mut Side| {
        if side.name.is_empty() {
            side.words.extend(left.pop());
        }
    };
    let costs = alternate(options.rounds(), &sides, another, |_| ());
    row("ledger: append", &scene.name, Some(&costs[0]), &costs[1], Bar::None);
    let append = costs[1].clone();
    let commit = run(&main, &[AGENT, "show", &agents[0], "--format=json"]).stdout;
    let commit: serde_json::Value = serde_json::from_slice(&commit).expect("JSON");
    let commit = commit["spawn_commit"].as_str().expect("an object").to_owned();
    let sides = [
        Side::new("`git notes show`", &main, &["git", "notes", "--ref=agents", "show", &commit]),
        Side::new("", &main, &[AGENT, "log", &agents[0][..8]]),
    ];
    let costs = readers(options.rounds() * 3, &sides);
    row("ledger: read by id", &scene.name, Some(&costs[0]), &costs[1], Bar::Within(10.0));
    let list = Side::new("", &main, &[AGENT, "list"]);
    let costs = readers(options.rounds(), &[list]);
    let bar = if rows == 1_000 { Bar::Within(150.0) } else { Bar::None };
    row("ledger: `list` of all rows", &scene.name, None, &costs[0], bar);
    append_at_once(&main, &scene.name);
    std::fs::remove_dir_all(dir.join(name)).expect("removed");
    append
}

/// Spreads numbers over all first digits.
fn scatter(digits: &str) -> String {
    let number = u64::from_str_radix(&digits[24..], 16).expect("hex");
    let first = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = first.rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    format!("{first:016x}{second:016x}{:08x}", number as u32)
}

/// The id of the agent whose spawn commit has this name.
fn id(oid: &str) -> String {
    let variant = u8::from_str_radix(&oid[16..17], 16).expect("hex") & 0b11 | 0b1000;
    format!(
        "{}-{}-8{}-{variant:x}{}-{}",
        &oid[..8],
        &oid[8..12],
        &oid[13..16],
        &oid[17..20],
        &oid[20..32]
    )
}

fn shared(scene: &Scene) -> String {
    let words = [AGENT, "spawn", "--format=json", text(&scene.task)];
    let report = run(&scene.main, &words).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    report["agent_id"].as_str().expect("an id").to_owned()
}

/// All but those of the measurement are for another reader.
fn mail(options: &Options, dir: &Path, origin: &Path, messages: usize) {
    let name = format!("mail{messages}");
    let scene = place(dir, &name, origin);
    let main = &scene.main;
    import(main, |out| {
        for number in 0..messages {
            let clock =
                format!("{:02}{:02}{:02}", number / 3600 % 24, number / 60 % 60, number % 60);
            let body = format!(
                "[notify/low] user -> other: x\n\n{{\n  \"message\": \"x\"\n}}\n\n\
                 Message-Id: MSG-202611{day:02}T{clock}934141Z-{short:04x}\nType: notify\nPriority: low\n\
                 From: user\nTo: other\nHlc: 202611{day:02}T{clock}.934141Z-000-6c6d\n\
                 Nonce: {number:016x}\nGit-Agent: 1\n",
                day = 1 + number / 86_400,
                short = number % 65_536,
            );
            writeln!(out, "commit refs/agents/mail")?;
            writeln!(out, "committer bench <bench@localhost> 1793491200 +0000")?;
            write!(out, "data {}\n{body}\n", body.len())?;
        }
        Ok(())
    });
    if messages > 0 {
        git(main, &["repack", "-a", "-d", "-q"]);
    }
    let place = format!("{messages} messages");
    let send = [AGENT, "send", "--type=notify", "--to=bench", "--payload=message=x"];
    let receive = [AGENT, "receive", "--agent=bench", "--limit=1"];
    let rounds = options.rounds() * 3;
    let sides = [Side::new("", main, &send), Side::new("", main, &receive)];
    let costs = alternate(rounds, &sides, |_| (), |_| ());
    row("`send`", &place, None, &costs[0], Bar::Within(25.0));
    row("`receive` of one", &place, None, &costs[1], Bar::Within(25.0));
    let crowd = options.size(64);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..crowd {
            scope.spawn(|| time(main, &send));
        }
    });
    let throughput = crowd as f64 / start.elapsed().as_secs_f64();
    let taken =
        run(main, &[AGENT, "receive", "--agent=bench", "--limit=250", "--format=json"]).stdout;
    let taken: serde_json::Value = serde_json::from_slice(&taken).expect("JSON");
    let all = taken["count"].as_u64() == Some(crowd as u64);
    figure(
        &format!("{crowd} processes that send at once, all received"),
        &place,
        &format!("{throughput:.0}/s"),
        "each once",
        all,
    );
    std::fs::remove_dir_all(dir.join(name)).expect("removed");
}

/// Many processes that append at the same time, and whether every event is in the ledger.
fn append_at_once(main: &Path, place: &str) {
    let events = || -> usize {
        let counted = git(main, &["rev-list", "--count", "refs/notes/agents"]).stdout;
        let counted = String::from_utf8(counted).expect("UTF-8");
        counted.trim().parse().expect("a number")
    };
    let before = events();
    let throughput = storm::appends_per_second(main);
    let lost_nothing = events() - before == storm::APPENDS;
    figure(
        &format!("ledger: {} processes that append at once", storm::PROCESSES),
        place,
        &format!("{throughput:.0}/s"),
        "each once, ≥ 400/s",
        lost_nothing && throughput >= 400.0,
    );
}

/// What `run` costs beyond making the agent, judging it and the command.
fn runs(options: &Options, dir: &Path, origin: &Path) {
    let scene = place(dir, "runs", origin);
    let main = &scene.main;
    let apart = format!(
        "id=$({AGENT} spawn --format=json {} | sed 's/.*\"agent_id\":\"\\([^\"]*\\).*/\\1/') && true && {AGENT} verify $id --format=json >&2; true",
        text(&scene.task)
    );
    let whole = format!("{AGENT} run {} -- true; true", text(&scene.task));
    let sides = [
        Side::new("`spawn`, the command and `verify`", main, &["sh", "-c", &apart]),
        Side::new("", main, &["sh", "-c", &whole]),
    ];
    let costs = alternate(options.rounds() * 3, &sides, |_| (), |_| ());
    row("`run`", "100 files", Some(&costs[0]), &costs[1], Bar::None);
    let added = costs[1].time.saturating_sub(costs[0].time);
    figure("  added", "100 files", &ms(added), "< 20 ms", added < Duration::from_millis(20));
}

/// Two of five agents have landed.
fn sweep(options: &Options, dir: &Path, origin: &Path) {
    let scene = place(dir, "sweep", origin);
    let (main, agents) = (&scene.main, options.size(500));
    for (number, worker) in scene.spawn(agents).iter().enumerate() {
        worker.work(number);
        if number % 5 < 2 {
            git(main, &["merge", "--quiet", "--squash", &worker.branch]);
            git(main, &["commit", "--quiet", "--message=landed"]);
        }
        run(main, &[AGENT, "done", &worker.id]);
    }
    let place = format!("agents: {agents}, of 100 files");
    let look = readers(options.rounds(), &[Side::new("", main, &[AGENT, "gc"])]);
    row("`gc`, what would go", &place, None, &look[0], Bar::Within(2000.0));
    let took = time(main, &[AGENT, "gc", "--yes"]);
    row("`gc --yes`, two of five go (one run)", &place, None, &cost("", vec![took]), Bar::None);
}

/// What the hooks add to a commit, and what an agent host waits for.
fn hooks(options: &Options, dir: &Path, origin: &Path) {
    let scene = place(dir, "hooks", origin);
    let worker = scene.worker(0);
    let here = &worker.worktree;
    let commit = ["commit", "--quiet", "--no-verify", "--message=work"];
    let without = [&["git", "-c", "core.hooksPath=/dev/null"], &commit[..]].concat();
    let with = [&["git"], &commit[..]].concat();
    let sides = [Side::new("without hooks", here, &without), Side::new("", here, &with)];
    let mut number = 0;
    let stage = |_: &mut Side| {
        number += 1;
        worker.write("bench/0", &number.to_string());
        git(here, &["add", "bench/0"]);
    };
    let costs = alternate(options.rounds() * 3, &sides, stage, |_| ());
    row(
        "`git commit` with `reference-transaction`",
        &scene.name,
        Some(&costs[0]),
        &costs[1],
        Bar::None,
    );
    let added = costs[1].time.saturating_sub(costs[0].time);
    figure("  added", &scene.name, &ms(added), "< 20 ms", added < Duration::from_millis(20));
    let call: PathBuf = dir.join("call.json");
    let path = here.join("bench/0");
    let json = format!(
        r#"{{"tool_name":"Write","tool_input":{{"file_path":"{}","content":"x"}}}}"#,
        text(&path)
    );
    std::fs::write(&call, json).expect("write");
    let ours = format!("exec {AGENT} hook pre-tool < {}", text(&call));
    let sides = [
        Side::new("`git rev-parse`", here, &["sh", "-c", "exec git rev-parse --show-toplevel"]),
        Side::new("", here, &["sh", "-c", &ours]),
    ];
    let costs = readers(options.rounds() * 5, &sides);
    row("`hook pre-tool`", &scene.name, Some(&costs[0]), &costs[1], Bar::None);
}
