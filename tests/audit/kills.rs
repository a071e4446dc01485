//! Kills at random moments, with fenced runs among the verbs: nothing is lost, and no lock is left.
//!
//! The suite kills a few dozen times. `GIT_AGENT_KILLS=1500 cargo test --test suite audit::kills` is the long form, and
//! `GIT_AGENT_KILLS_SEED` another order of events.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
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

/// Runs a command in a process group of its own, which is killed after so many milliseconds. `None` for one that was.
fn run(repo: &TestRepo, arguments: &[&str], patience: Option<usize>) -> Option<(i32, Vec<u8>)> {
    let mut command = agent_command(&repo.path());
    command
        .args(arguments)
        .process_group(0)
        .env("TMPDIR", temporary(repo))
        .stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    let group = format!("-{}", child.id());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let limit = patience.map_or(60_000, |patience| patience as u64);
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
    let repo = TestRepo::with_commit();
    let mut dice = Dice(number("GIT_AGENT_KILLS_SEED", 7));
    let wanted = number("GIT_AGENT_KILLS", SHORT);
    let (mut kills, mut step) = (0, 0);
    let mut usual_times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut agents: Vec<String> = Vec::new();
    let mut promised: Vec<String> = Vec::new();
    // So long that there is something to lose.
    while kills < wanted || agents.len() < 4 || promised.is_empty() {
        step += 1;
        let verb = if agents.is_empty() {
            "spawn"
        } else {
            VERBS[dice.below(VERBS.len())]
        };
        let recent = agents.len().saturating_sub(8);
        let id = match agents.len() {
            0 => String::new(),
            all => agents[recent + dice.below(all - recent)].clone(),
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
        // The first of each verb goes on to its end, and shows how long that takes on this machine.
        let usual = usual_times.get(verb).copied();
        let patience = usual.filter(|_| dice.below(3) != 0);
        let patience = patience.map(|usual| dice.below(usual * 5 / 4 + 1));
        let begun = Instant::now();
        let ended = run(&repo, words, patience);
        if usual.is_none() {
            let took = usize::try_from(begun.elapsed().as_millis()).expect("not for ever");
            usual_times.insert(verb, took);
        }
        match ended {
            None => kills += 1,
            Some((0, stdout)) if verb == "spawn" => {
                let report: serde_json::Value = serde_json::from_slice(&stdout).expect("JSON");
                agents.push(report["agent_id"].as_str().expect("an id").to_owned());
            }
            Some((0, _)) if verb == "run" => {
                promised.extend([format!("content-{step}"), format!("un-{step}")]);
            }
            Some(_) => {}
        }
    }
    // Supervisors of runs that were killed end what is left of them first.
    let temporary = temporary(&repo);
    while std::fs::read_dir(&temporary).is_ok_and(|left| left.count() > 0) {
        run(&repo, &["gc", "--yes"], None);
    }
    repo.agent(&["doctor", "--fix"]);
    assert_eq!(locks(&repo), Vec::<PathBuf>::new(), "locks are left");
    let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
    assert_eq!(repo.git(fsck), "");
    let rows = repo.agent_json(&["list", "--all"])["agents"].to_string();
    let gone: Vec<_> = { agents.iter() }.filter(|id| !rows.contains(*id)).collect();
    assert!(gone.is_empty(), "no rows: {gone:?}");
    // What a run had written when it ended well is in a commit that is kept, or in a worktree.
    let reachable = repo.git(["rev-list", "--objects", "--all", "--reflog"]);
    let reachable: BTreeSet<&str> = { reachable.lines() }
        .filter_map(|line| line.split(' ').next())
        .collect();
    let files = WalkDir::new(repo.path()).into_iter().flatten();
    let files = files.filter(|entry| {
        entry
            .path()
            .parent()
            .is_some_and(|above| above.ends_with("src"))
    });
    let there: BTreeSet<String> = files
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .map(|text| text.trim_end().to_owned())
        .collect();
    let named = blobs(&repo, &promised);
    let lost: Vec<_> = { promised.iter().zip(&named) }
        .filter(|(text, blob)| !reachable.contains(blob.as_str()) && !there.contains(*text))
        .collect();
    assert!(lost.is_empty(), "lost of {}: {lost:?}", promised.len());
    writeln!(
        std::io::stdout(),
        "{kills} kills in {step} steps, {} agents, {} contents",
        agents.len(),
        promised.len()
    )
    .expect("written");
}
