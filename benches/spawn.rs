//! `git-agent spawn` against `git worktree add`, as whole processes, on any repository:
//!
//! ```text
//! cargo bench --bench spawn -- <repository> [rounds]
//! cargo bench --bench spawn -- --generate [rounds]
//! ```
//!
//! The second makes a repository of 100,000 files first. Everything is done in clones beside the
//! system's temporary files (`TMPDIR`), so a directory in memory takes the disk out of the figures.
//! Both sides of a row run in turn; the figures are medians, after one run of each that does not count.
//! Peak memory is that of one more run of each under GNU time, where there is one.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::clock::{at_once, median, medians, milliseconds, time};
use support::repository::{clone, count_files, generate};
use support::{AGENT, arguments, command, git, run, text};

const GNU_TIME: &str = "/usr/bin/time";
const TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
"#;
/// Agents that start at the same moment.
const CROWD: usize = 32;

fn main() {
    let words = arguments();
    let Some(repository) = words.first() else {
        println!("usage: cargo bench --bench spawn -- <repository>|--generate [rounds]");
        return;
    };
    let rounds = words.get(1).and_then(|word| word.parse().ok());
    let dir = tempfile::tempdir().expect("temporary directory");
    let origin = match repository.as_str() {
        "--generate" => {
            let origin = dir.path().join("generated");
            generate(&origin, 100_000);
            origin
        }
        path => std::fs::canonicalize(path).expect("the repository"),
    };
    let bench = Bench::new(dir.path(), &origin, rounds.unwrap_or(7));
    println!("cargo bench --bench spawn -- {}", words.join(" "));
    let files = count_files(&bench.main);
    println!("{files} files, {} rounds\n", bench.rounds);
    row("", "git", "git-agent", "ratio");
    bench.one_worktree("with a clean worktree to copy from", &bench.main);
    bench.one_worktree("without one", &bench.bare);
    bench.everything_but_the_files();
    bench.version();
    bench.crowd();
}

struct Bench {
    main: PathBuf,
    bare: PathBuf,
    worktree: PathBuf,
    task: PathBuf,
    rounds: usize,
}

impl Bench {
    fn new(dir: &Path, origin: &Path, rounds: usize) -> Bench {
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write the task");
        Bench {
            main: clone(dir, "main", "--no-bare", origin),
            bare: clone(dir, "bare", "--bare", origin),
            worktree: dir.join("worktree"),
            task,
            rounds,
        }
    }

    fn git_side(&self) -> Vec<&str> {
        let words = ["git", "worktree", "add", "--quiet", "--detach"];
        [&words[..], &[text(&self.worktree)]].concat()
    }

    fn agent_side(&self) -> Vec<&str> {
        let [task, worktree] = [&self.task, &self.worktree].map(|path| text(path));
        vec![AGENT, "spawn", task, "--path", worktree, "--format=json"]
    }

    fn one_worktree(&self, name: &str, repo: &Path) {
        let sides = [self.git_side(), self.agent_side()];
        let [theirs, ours] = medians(self.rounds, |_| {
            [0, 1].map(|side: usize| {
                let took = time(repo, &sides[side]);
                self.remove(repo);
                took
            })
        });
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        row(name, &ms(theirs), &ms(ours), &format!("{ratio:.2}"));
        let peaks = sides.map(|side| self.peak(repo, &side));
        if let [Some(theirs), Some(ours)] = peaks {
            let ratio = format!("{:.2}", ours / theirs);
            let [theirs, ours] = [theirs, ours].map(|kib| format!("{:.0} MB", kib / 1024.0));
            row("  peak memory", &theirs, &ours, &ratio);
        }
    }

    /// By spawn's own clock.
    fn everything_but_the_files(&self) {
        let rest = (0..self.rounds).map(|_| {
            let output = run(&self.main, &self.agent_side());
            self.remove(&self.main);
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let field = |name: &str| report[name].as_u64().expect("milliseconds");
            Duration::from_millis(field("timing_ms") - field("populate_ms"))
        });
        row("everything but the files", "", &ms(median(rest.collect())), "");
    }

    fn version(&self) {
        let [theirs, ours] = ["git", AGENT].map(|program| {
            let runs = (0..50).map(|_| time(&self.main, &[program, "--version"]));
            format!("{:.1} ms", milliseconds(median(runs.collect())))
        });
        row("--version", &theirs, &ours, "");
    }

    /// Many at the same moment; git's own disturb each other then.
    fn crowd(&self) {
        let alone = [AGENT, "spawn", text(&self.task)];
        let in_turn: Duration = (0..CROWD).map(|_| time(&self.main, &alone)).sum();
        let before = self.rows();
        let (ended, took) = at_once(CROWD, || {
            let mut spawn = command(&self.main, &[AGENT, "spawn", text(&self.task)]);
            spawn.stdout(Stdio::null()).stderr(Stdio::null());
            spawn
        });
        let succeeded = ended.iter().filter(|one| one.status.success()).count();
        let check = git(&self.main, &["fsck", "--strict", "--no-dangling"]);
        let times = took.as_secs_f64() / in_turn.as_secs_f64();
        row(&format!("{CROWD} at once: succeeded"), "", &succeeded.to_string(), "");
        row("  time until the last is ready", "", &ms(took), "");
        row("  in times of as many in turn", "", &format!("{times:.2}"), "");
        let rows = (self.rows() - before).to_string();
        row("  rows added to the ledger", "", &rows, "");
        let complaints = lines(&check.stdout).to_string();
        row("  complaints of git fsck --strict", "", &complaints, "");
    }

    fn rows(&self) -> usize {
        lines(&run(&self.main, &[AGENT, "list", "--format=ndjson"]).stdout)
    }

    /// The peak memory of one run, in KiB.
    fn peak(&self, repo: &Path, side: &[&str]) -> Option<f64> {
        let figure = self.task.with_extension("peak");
        let mut command = Command::new(GNU_TIME);
        command.args(["--format=%M", "--output", text(&figure)]);
        command.args(side).current_dir(repo);
        let status = command.stdout(Stdio::null()).status().ok()?;
        assert!(status.success(), "{side:?}");
        self.remove(repo);
        std::fs::read_to_string(figure).ok()?.trim().parse().ok()
    }

    fn remove(&self, repo: &Path) {
        let words = ["worktree", "remove", "--force", "--force"];
        git(repo, &[&words[..], &[text(&self.worktree)]].concat());
    }
}

fn row(name: &str, theirs: &str, ours: &str, ratio: &str) {
    println!("{name:36} {theirs:>10} {ours:>10} {ratio:>6}");
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", milliseconds(time))
}

fn lines(output: &[u8]) -> usize {
    output.iter().filter(|&&byte| byte == b'\n').count()
}
