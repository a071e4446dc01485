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
    reason = "a bench reads its arguments and prints"
)]

use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_git-agent");
const GNU_TIME: &str = "/usr/bin/time";
const TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
"#;
/// Agents that start at the same moment.
const CROWD: usize = 32;

fn main() {
    // Cargo adds `--bench` of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let Some(repository) = words.first() else {
        println!("usage: cargo bench --bench spawn -- <repository>|--generate [rounds]");
        return;
    };
    let rounds = words.get(1).and_then(|word| word.parse().ok());
    let dir = tempfile::tempdir().expect("temporary directory");
    let origin = match repository.as_str() {
        "--generate" => generate(&dir.path().join("generated")),
        path => std::fs::canonicalize(path).expect("the repository"),
    };
    let bench = Bench::new(dir.path(), &origin, rounds.unwrap_or(7));
    println!("cargo bench --bench spawn -- {}", words.join(" "));
    println!("{} files, {} rounds\n", bench.files(), bench.rounds);
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
        let clone = |name: &str, option: &str| {
            let clone = dir.join(name);
            let words = ["clone", "--quiet", "--shared", option];
            git(dir, &[&words[..], &[text(origin), text(&clone)]].concat());
            clone
        };
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write the task");
        Bench {
            main: clone("main", "--no-bare"),
            bare: clone("bare", "--bare"),
            worktree: dir.join("worktree"),
            task,
            rounds,
        }
    }

    fn files(&self) -> usize {
        let names = git(&self.main, &["ls-files", "-z"]).stdout;
        names.iter().filter(|&&byte| byte == 0).count()
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
        let mut times: [Vec<Duration>; 2] = Default::default();
        for round in 0..=self.rounds {
            for (side, times) in sides.iter().zip(&mut times) {
                let took = time(repo, side);
                self.remove(repo);
                if round > 0 {
                    times.push(took);
                }
            }
        }
        let [theirs, ours] = times.map(median);
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
        row(
            "everything but the files",
            "",
            &ms(median(rest.collect())),
            "",
        );
    }

    fn version(&self) {
        let [theirs, ours] = ["git", AGENT].map(|program| {
            let runs = (0..50).map(|_| time(&self.main, &[program, "--version"]));
            format!("{:.1} ms", median(runs.collect()).as_secs_f64() * 1e3)
        });
        row("--version", &theirs, &ours, "");
    }

    /// Many at the same moment; git's own disturb each other then.
    fn crowd(&self) {
        let alone = time(&self.main, &self.agent_side());
        let before = self.rows();
        let barrier = Barrier::new(CROWD + 1);
        let spawn = || {
            let mut command = Command::new(AGENT);
            command.current_dir(&self.main).arg("spawn").arg(&self.task);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            barrier.wait();
            command.status().is_ok_and(|status| status.success())
        };
        let (succeeded, took) = std::thread::scope(|scope| {
            let running: Vec<_> = (0..CROWD).map(|_| scope.spawn(spawn)).collect();
            barrier.wait();
            let start = Instant::now();
            let ended = running.into_iter().map(|thread| thread.join());
            let succeeded = ended.filter(|success| matches!(success, Ok(true))).count();
            (succeeded, start.elapsed())
        });
        let check = git(&self.main, &["fsck", "--strict", "--no-dangling"]);
        let times = took.as_secs_f64() / alone.as_secs_f64();
        row(
            &format!("{CROWD} at once: succeeded"),
            "",
            &succeeded.to_string(),
            "",
        );
        row("  time until the last is ready", "", &ms(took), "");
        row("  in times of one alone", "", &format!("{times:.1}"), "");
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

fn time(directory: &Path, words: &[&str]) -> Duration {
    let start = Instant::now();
    run(directory, words);
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn lines(output: &[u8]) -> usize {
    output.iter().filter(|&&byte| byte == b'\n').count()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn git(directory: &Path, words: &[&str]) -> Output {
    run(directory, &[&["git"], words].concat())
}

fn run(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).current_dir(directory).output();
    let output = output.expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output
}

/// A repository of 100,000 files of about two kilobytes in 5,000 directories.
fn generate(path: &Path) -> PathBuf {
    std::fs::create_dir(path).expect("directory");
    git(path, &["init", "--quiet", "--initial-branch=main"]);
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--done"])
        .current_dir(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let stream = import.stdin.take().expect("piped");
    write_commit(BufWriter::new(stream)).expect("git reads");
    assert!(import.wait().expect("git ends").success());
    path.to_owned()
}

fn write_commit(mut out: impl Write) -> std::io::Result<()> {
    writeln!(out, "commit refs/heads/main")?;
    writeln!(
        out,
        "committer A U Thor <author@example.com> 1700000000 +0000"
    )?;
    writeln!(out, "data 5\nmany\n")?;
    let mut random = 1_u64;
    for file in 0..100_000 {
        let mut content = String::new();
        for _ in 0..256 {
            // A linear congruential generator (Knuth's MMIX): the same repository every time.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            content.push_str(&format!("word{:04}", random >> 52));
            content.push(if random >> 48 & 7 == 0 { '\n' } else { ' ' });
        }
        let directory = file / 20;
        let package = directory / 50;
        writeln!(out, "M 100644 inline src/{package}/{directory}/{file}.txt")?;
        writeln!(out, "data {}\n{content}", content.len())?;
    }
    writeln!(out, "done")?;
    out.flush()
}
