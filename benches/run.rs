//! `git-agent run` against `git-agent spawn` and the bare command, and many runs at once, as whole processes:
//!
//! ```text
//! cargo bench --bench run [-- <repository>] [rounds]
//! ```
//!
//! Without a repository a small one is made. Everything is done in a clone beside the system's temporary
//! files (`TMPDIR`). The sides of a row run in turn; the figures are medians, after one round that does not
//! count.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::clock::{at_once, medians, milliseconds};
use support::repository::clone;
use support::{AGENT, arguments, git, text};

const TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
[bundle]
required = false
"#;
/// Runs that begin at the same moment.
const CROWD: usize = 100;
/// Lists the descriptors of the shell that it is for.
const LIST: &str = "ls /proc/$$/fd";

fn main() {
    let words = arguments();
    let rounds = words.iter().find_map(|word| word.parse().ok());
    let repository = words.iter().find(|word| word.parse::<usize>().is_err());
    let dir = tempfile::tempdir().expect("temporary directory");
    let bench = Bench::new(dir.path(), repository.map(String::as_str), rounds.unwrap_or(21));
    println!("cargo bench --bench run -- {}", words.join(" "));
    println!("{} rounds\n", bench.rounds);
    bench.overhead();
    bench.fence();
    bench.crowd();
}

struct Bench {
    main: PathBuf,
    task: PathBuf,
    temporary: PathBuf,
    rounds: usize,
}

impl Bench {
    fn new(dir: &Path, origin: Option<&str>, rounds: usize) -> Bench {
        let temporary = dir.join("tmp");
        std::fs::create_dir(&temporary).expect("a directory");
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write the task");
        let main = match origin {
            Some(origin) => {
                let origin = std::fs::canonicalize(origin).expect("the repository");
                clone(dir, "main", "--no-bare", &origin)
            }
            None => small(dir),
        };
        Bench { main, task, temporary, rounds }
    }

    /// What a run costs over its parts.
    fn overhead(&self) {
        let task = text(&self.task);
        let sides: [&[&str]; 5] = [
            &["true"],
            &[AGENT, "spawn", task],
            &[AGENT, "run", "--no-verify", "--quiet", task, "--", "true"],
            &[AGENT, "run", "--quiet", task, "--", "true"],
            &[AGENT, "run", "--no-verify", "--background", "--quiet", task, "--", "true"],
        ];
        let [bare, spawn, run, judged, background] = medians(self.rounds, |_| {
            sides.map(|side| {
                let start = Instant::now();
                self.run(side);
                let took = start.elapsed();
                self.run(&[AGENT, "wait"]);
                took
            })
        });
        row("true", &ms(bare));
        row("spawn", &ms(spawn));
        row("run --no-verify of a task: true", &ms(run));
        row("  over spawn and true", &ms(run.saturating_sub(spawn + bare)));
        row("run of a task: true", &ms(judged));
        row("  what judging adds", &ms(judged.saturating_sub(run)));
        row("run --background of a task: true", &ms(background));
    }

    /// What a fence costs a run of an agent that is there: a user namespace around each side decides what the kernel gives to it.
    fn fence(&self) {
        let spawned = self.run(&[AGENT, "spawn", "--format=json", text(&self.task)]);
        let id = field(&spawned, "short_id").expect("an id");
        let id = id.as_str().expect("text");
        let around = ["unshare", "--user", "--map-root-user", "sh", "-ec"];
        let (all, few) = ("exec \"$@\"", "echo 0 > /proc/sys/user/max_mnt_namespaces; exec \"$@\"");
        let side = |limit, sandbox| {
            let run = [AGENT, "run", "--no-verify", "--format=json", sandbox, id];
            let words = [&around[..], &[limit, "sh"], &run, &["--", "true"]];
            words.concat()
        };
        let sides =
            [side(all, "--sandbox=off"), side(few, "--sandbox=auto"), side(all, "--sandbox=auto")];
        println!();
        let enforced = sides.each_ref().map(|side| {
            let output = self.command(side).output().ok()?;
            let sandbox = field(&output, "sandbox")?;
            Some(sandbox["enforced"].as_str()?.to_owned())
        });
        let wanted = ["off", "landlock", "full"].map(|word| Some(word.to_owned()));
        if enforced != wanted {
            println!("no rows for the parts of a fence: this machine gives {enforced:?}");
            return;
        }
        let [off, landlock, full] = medians(self.rounds, |_| {
            sides.each_ref().map(|side| {
                let start = Instant::now();
                self.run(side);
                start.elapsed()
            })
        });
        row("run of an agent: true, no fence", &ms(off));
        row("  Landlock adds", &ms(landlock.saturating_sub(off)));
        row("  namespaces add", &ms(full.saturating_sub(landlock)));
    }

    /// Many at the same moment.
    fn crowd(&self) {
        let go = self.temporary.join("go");
        let script = format!("while [ ! -e {} ]; do sleep 0.05; done; {LIST}", text(&go));
        let words = ["run", "--no-verify", "--background", "--format=json", text(&self.task)];
        let before = self.worktrees();
        let (began, took) = at_once(CROWD, || {
            let mut command = self.command(&[AGENT]);
            command.args(words).args(["--", "sh", "-c", &script]);
            command
        });
        let succeeded = began.iter().filter(|one| one.status.success()).count();
        for failed in began.iter().filter(|one| !one.status.success()) {
            println!("{}", String::from_utf8_lossy(&failed.stderr));
        }
        let pids: Vec<u64> = began.iter().filter_map(|one| field(one, "pid")?.as_u64()).collect();
        let descriptors = pids.iter().map(|pid| {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
            open.map_or(0, Iterator::count)
        });
        println!();
        row(&format!("{CROWD} at once in the background: began"), &succeeded.to_string());
        row("  time until the last one works", &ms(took));
        row("  descriptors of a supervisor, at most", &descriptors.max().unwrap_or(0).to_string());
        let ids: Vec<String> = began
            .iter()
            .filter_map(|one| Some(field(one, "agent_id")?.as_str()?.to_owned()))
            .collect();
        let clock = Instant::now();
        std::fs::write(&go, "").expect("write");
        let all: Vec<&str> = ids.iter().map(String::as_str).collect();
        let waited = self.run(&[&[AGENT, "wait", "--format=ndjson"], &all[..]].concat());
        row("  time until all are over and recorded", &ms(clock.elapsed()));
        let answers: Vec<Value> = String::from_utf8_lossy(&waited.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let bare = self.run(&["sh", "-c", LIST]).stdout;
        let bare = String::from_utf8_lossy(&bare);
        let clean = answers
            .iter()
            .filter(|answer| answer["status"] == "success" && answer["summary"] == bare.trim());
        row("  succeeded, with the descriptors of a bare one", &clean.count().to_string());
        self.left_behind(&before, &ids, &pids);
    }

    fn left_behind(&self, before: &BTreeSet<String>, ids: &[String], pids: &[u64]) {
        // The process that adopted the supervisors reaps them in its own time.
        let clock = Instant::now();
        let alive = || pids.iter().filter(|pid| is_alive(**pid)).count();
        while alive() > 0 && clock.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        let mark = format!("TMPDIR={}/git-agent-", text(&self.temporary));
        let processes = std::fs::read_dir("/proc").expect("readable").filter(|entry| {
            let entry = entry.as_ref().map(|entry| entry.path().join("environ"));
            let environment = entry.ok().and_then(|path| std::fs::read(path).ok());
            String::from_utf8_lossy(&environment.unwrap_or_default()).contains(&mark)
        });
        row("  supervisors left", &alive().to_string());
        row("  other processes left", &processes.count().to_string());
        let scratch = std::fs::read_dir(&self.temporary).expect("readable");
        let scratch = scratch.filter(|entry| {
            let name = entry.as_ref().map(|entry| entry.file_name());
            name.is_ok_and(|name| name.to_string_lossy().starts_with("git-agent-"))
        });
        row("  directories for temporary files left", &scratch.count().to_string());
        let expected: BTreeSet<String> = ids
            .iter()
            .map(|id| format!("agent-{}", &id[..8]))
            .chain(before.iter().cloned())
            .collect();
        let stray = self.worktrees().symmetric_difference(&expected).count();
        row("  worktrees that are no agent's, or missing", &stray.to_string());
        let doctor = self.command(&[AGENT, "doctor"]).output();
        let problems = doctor.expect("starts").stdout;
        let problems = String::from_utf8_lossy(&problems);
        let dead = problems.lines().filter(|line| line.contains("runs.dead")).count();
        row("  runs that doctor takes for dead", &dead.to_string());
    }

    fn worktrees(&self) -> BTreeSet<String> {
        let listed = self.run(&["git", "worktree", "list", "--porcelain"]).stdout;
        let listed = String::from_utf8_lossy(&listed);
        let paths = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        let names = paths.map(|path| Path::new(path).file_name().unwrap_or_default());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        output
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = support::command(&self.main, words);
        command.env("TMPDIR", &self.temporary);
        command
    }
}

/// A repository of one file.
fn small(dir: &Path) -> PathBuf {
    let main = dir.join("main");
    git(dir, &["init", "--quiet", text(&main)]);
    std::fs::create_dir(main.join("src")).expect("a directory");
    std::fs::write(main.join("src/lib.rs"), "pub fn one() {}\n").expect("write");
    git(&main, &["add", "."]);
    git(&main, &["commit", "--quiet", "--message=first"]);
    main
}

fn field(output: &Output, name: &str) -> Option<Value> {
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(answer[name].clone())
}

fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn row(name: &str, figure: &str) {
    println!("{name:44} {figure:>10}");
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", milliseconds(time))
}
