//! Kills at random moments, with fenced runs among the verbs: nothing is lost, and no lock is left.
//!
//! The suite kills a few dozen times. `GIT_AGENT_KILLS=500 cargo test --test suite kill::` is the long form, and
//! `GIT_AGENT_KILLS_SEED` another order of events.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use walkdir::WalkDir;

/// What is run, some of it more often.
const VERBS: [&str; 11] = [
    "spawn", "spawn", "spawn", "run", "run", "run", "commit", "verify", "merge", "discard",
    "doctor",
];

const SPAWN: [&str; 7] = [
    "spawn",
    "-m",
    "Write a file with some content.",
    "--scope",
    "src/**",
    "--no-bundle",
    "--format=json",
];

/// How many kills there are unless more are asked for.
const SHORT: u64 = 40;

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Numbers that look random and are the same each time (Knuth: MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// A repository in which commands are killed.
pub(super) struct KillLoop {
    pub(super) repo: TestRepo,
    dice: Dice,
    wanted: u64,
    pub(super) kills: u64,
    pub(super) step: u64,
    usual_times: BTreeMap<&'static str, usize>,
    /// Lines, each the content of a file, that are not to be lost.
    pub(super) promised: Vec<String>,
}

impl KillLoop {
    /// As many kills as are asked for, else `short`.
    pub(super) fn new(repo: TestRepo, short: u64) -> KillLoop {
        KillLoop {
            repo,
            dice: Dice(number("GIT_AGENT_KILLS_SEED", 7)),
            wanted: number("GIT_AGENT_KILLS", short),
            kills: 0,
            step: 0,
            usual_times: BTreeMap::new(),
            promised: Vec::new(),
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.kills < self.wanted
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.dice.below(limit)
    }

    /// Spawns an agent, without a kill; gives its id and its worktree.
    pub(super) fn spawn(&self) -> (String, PathBuf) {
        let report = self.repo.agent_json(&SPAWN[..SPAWN.len() - 1]);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        (text("agent_id"), text("worktree_abspath").into())
    }

    /// Runs a verb, and kills it at a random moment. The first of each goes on to its end, and shows how long that takes on this machine.
    /// `None` for one that was killed, else its status and its answer.
    pub(super) fn killed(&mut self, verb: &'static str, words: &[&str]) -> Option<(i32, Vec<u8>)> {
        let usual = self.usual_times.get(verb).copied();
        let patience = usual.map(|usual| self.dice.below(usual * 5 / 4 + 1));
        let begun = Instant::now();
        let ended = run(&self.repo, words, patience);
        if usual.is_none() {
            let took = usize::try_from(begun.elapsed().as_millis()).expect("not for ever");
            self.usual_times.insert(verb, took);
        }
        self.kills += u64::from(ended.is_none());
        ended
    }

    /// What a kill leaves, `doctor --fix` mends, and nothing is in the way of anybody.
    pub(super) fn require_mended(&self) {
        let step = self.step;
        // What the killed command had started in the background may still be at work, and hold a lock.
        for again in (0..50).rev() {
            let fixed = self.repo.agent(&["doctor", "--fix"]);
            let left = locks(&self.repo);
            if fixed.status.success() && left.is_empty() {
                return;
            }
            assert!(again > 0, "step {step}: {left:?} {}", describe(&fixed));
        }
    }

    /// Nothing that was promised is lost, and the repository is whole.
    pub(super) fn require_whole(&self) {
        // Supervisors of runs that were killed end what is left of them first.
        let temporary = temporary(&self.repo);
        while std::fs::read_dir(&temporary).is_ok_and(|left| left.count() > 0) {
            run(&self.repo, &["gc", "--yes"], None);
        }
        self.repo.agent(&["doctor", "--fix"]);
        assert_eq!(locks(&self.repo), Vec::<PathBuf>::new(), "locks are left");
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(self.repo.git(fsck), "");
        let lost = self.lost();
        assert!(lost.is_empty(), "lost of {}: {lost:?}", self.promised.len());
    }

    /// What of the promised contents is neither in a commit that is kept, nor in a worktree.
    fn lost(&self) -> Vec<&String> {
        let reachable = self.repo.git(["rev-list", "--objects", "--all", "--reflog"]);
        let reachable: BTreeSet<&str> =
            reachable.lines().filter_map(|line| line.split(' ').next()).collect();
        let files = WalkDir::new(self.repo.path()).into_iter().flatten();
        let files = files.filter(|entry| {
            let above = entry.path().parent();
            above.is_some_and(|above| above.ends_with("src"))
        });
        let there: BTreeSet<String> = files
            .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
            .map(|text| text.trim_end().to_owned())
            .collect();
        let named = blobs(&self.repo, &self.promised);
        self.promised
            .iter()
            .zip(&named)
            .filter(|(text, blob)| !reachable.contains(blob.as_str()) && !there.contains(*text))
            .map(|(text, _)| text)
            .collect()
    }

    /// Says what was done.
    pub(super) fn tell(&self, what: &str) {
        let (kills, steps, contents) = (self.kills, self.step, self.promised.len());
        writeln!(std::io::stdout(), "{what}: {kills} kills in {steps} steps, {contents} contents")
            .expect("written");
    }
}

/// Runs a command in a process group of its own, which is killed after so many milliseconds. `None` for one that was.
pub(super) fn run(
    repo: &TestRepo,
    arguments: &[&str],
    patience: Option<usize>,
) -> Option<(i32, Vec<u8>)> {
    let mut command = agent_command(&repo.path());
    command.args(arguments).process_group(0).env("TMPDIR", temporary(repo)).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    let group = format!("-{}", child.id());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let limit = patience.map_or(600_000, |patience| patience as u64);
    let output = receiver.recv_timeout(Duration::from_millis(limit));
    let output = match output {
        Ok(output) => output,
        Err(_) => {
            let kill = ["-9", "--", &group];
            let _ = Command::new("kill").args(kill).status().expect("starts");
            assert!(patience.is_some(), "{arguments:?} does not end");
            receiver.recv().expect("an end")
        }
    };
    let output = output.expect("ends");
    if output.status.signal().is_some() {
        return None;
    }
    let code = output.status.code().expect("a status");
    assert_ne!(code, 70, "{arguments:?}: {}", describe(&output));
    Some((code, output.stdout))
}

/// The place for temporary files of every command.
fn temporary(repo: &TestRepo) -> PathBuf {
    repo.path().with_file_name("temporary")
}

/// The lock files of git's that are left.
fn locks(repo: &TestRepo) -> Vec<PathBuf> {
    let git_dir = repo.path().join(".git");
    let entries = WalkDir::new(&git_dir).into_iter().flatten();
    entries
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|end| end == "lock"))
        .filter(|path| !path.starts_with(git_dir.join("agents")))
        .collect()
}

/// The blobs of these texts, as git names them.
fn blobs(repo: &TestRepo, texts: &[String]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut words = vec!["hash-object".to_owned(), "--no-filters".to_owned()];
    for (index, text) in texts.iter().enumerate() {
        let file = directory.path().join(index.to_string());
        std::fs::write(&file, format!("{text}\n")).expect("written");
        words.push(file.display().to_string());
    }
    let named = repo.git(words);
    named.lines().map(str::to_owned).collect()
}

#[test]
fn f13_random_kills_lose_nothing_and_leave_no_lock() {
    let mut all = KillLoop::new(TestRepo::with_commit(), SHORT);
    let mut agents: Vec<String> = Vec::new();
    // So long that there is something to lose.
    while all.goes_on() || agents.len() < 4 || all.promised.is_empty() {
        all.step += 1;
        let step = all.step;
        let verb = if agents.is_empty() { "spawn" } else { VERBS[all.below(VERBS.len())] };
        let recent = agents.len().saturating_sub(8);
        let id = match agents.len() {
            0 => String::new(),
            count => agents[recent + all.below(count - recent)].clone(),
        };
        let message = format!("step {step}");
        let script = format!(
            "echo content-{step} > src/f{step} && git add -A && git commit -qm c{step} && echo un-{step} > src/u{step}"
        );
        let words: &[&str] = match verb {
            "spawn" => &SPAWN,
            "run" => &["run", &id, "--no-verify", "--", "sh", "-c", &script],
            "commit" => &["commit", &id, "-m", &message],
            "doctor" => &["doctor", "--fix"],
            verb => &[verb, &id],
        };
        let is_killed = all.below(3) != 0;
        let ended = if is_killed { all.killed(verb, words) } else { run(&all.repo, words, None) };
        match ended {
            Some((0, stdout)) if verb == "spawn" => {
                let report: Value = serde_json::from_slice(&stdout).expect("JSON");
                agents.push(report["agent_id"].as_str().expect("an id").to_owned());
            }
            Some((0, _)) if verb == "run" => {
                let contents = [format!("content-{step}"), format!("un-{step}")];
                all.promised.extend(contents);
            }
            _ => {}
        }
    }
    all.require_whole();
    let rows = all.repo.agent_json(&["list", "--all"])["agents"].to_string();
    let gone: Vec<_> = agents.iter().filter(|id| !rows.contains(*id)).collect();
    assert!(gone.is_empty(), "no rows: {gone:?}");
    all.tell("all verbs");
}
