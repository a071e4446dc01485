//! What a command does at the moment: seen by a person at a terminal, and by nothing else.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::ctx_with;
use crate::support::terminal::{END, Streams, end, read, shown, terminal};
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::spawn::{self, SpawnOptions};
use git_agent::wire::file::task_file;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A repository whose set-up waits for a file, and that file.
fn slow() -> (TestRepo, PathBuf) {
    let repo = TestRepo::with_commit();
    let go = repo.path().with_file_name("go");
    let wait = format!("until test -e '{}'; do sleep 0.01; done", go.display());
    let settings = format!("[setup]\nrun = [\"{wait}\"]\n");
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    (repo, go)
}

fn spawning(repo: &TestRepo, delay: &str, words: &[&str]) -> Command {
    let task = repo.path().with_file_name("task.toml");
    fs::write(&task, TASK).expect("written");
    let mut command = agent_command(&repo.path());
    command.arg("spawn").arg(task).args(words);
    command.env("GIT_PROGRESS_DELAY", delay);
    command
}

#[test]
fn a_step_that_takes_long_is_shown_and_nothing_of_it_is_left() {
    let (repo, go) = slow();
    let (mut outside, inside) = terminal(24, 40);
    let mut command = spawning(&repo, "0", &[]);
    let side = inside.try_clone().expect("shared");
    let mut child = command.stdout(Stdio::null()).stderr(side).spawn().expect("starts");
    let mut seen = read(&mut outside, "running the setup command `until t");
    fs::write(go, "").expect("written");
    assert!(child.wait().expect("ended").success());
    end(&inside);
    seen.push_str(&read(&mut outside, END));
    let seen = seen.trim_end_matches(END);
    // Each line fits and is overwritten with spaces before the next one, and after the last.
    let lines: Vec<_> = seen.split('\r').collect();
    assert_eq!(lines.last(), Some(&""), "{seen:?}");
    for [line, spaces] in lines[..lines.len() - 1].as_chunks().0 {
        assert!(line.ends_with(" ...") && line.chars().count() < 40, "{seen:?}");
        assert_eq!(*spaces, " ".repeat(line.chars().count()), "{seen:?}");
    }
}

#[test]
fn a_short_step_a_pipe_and_a_program_are_told_nothing() {
    let ready = || {
        let (repo, go) = slow();
        fs::write(go, "").expect("written");
        repo
    };
    let piped = spawning(&ready(), "0", &[]).output().expect("starts");
    assert!(piped.status.success() && piped.stderr.is_empty(), "{}", describe(&piped));
    for (delay, words) in [("1000", &[][..]), ("0", &["--format=json"])] {
        let repo = ready();
        let mut command = spawning(&repo, delay, words);
        let (seen, status) = shown(command.stdout(Stdio::null()), (24, 80), Streams::Errors);
        assert_eq!(seen, "", "{words:?}");
        assert!(status.success());
    }
}

/// What a spawn tells.
fn told(repo: &TestRepo, task: &str) -> Vec<String> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let ctx = ctx_with(&repo.path(), Seams::real()).narrated_by(Arc::new(move |_, what| {
        log.lock().expect("unpoisoned").extend(what.map(str::to_owned));
    }));
    let draft = task_file::parse("task.toml", task.as_bytes());
    let plan = spawn::plan(&ctx, draft, &SpawnOptions::default()).expect("a plan");
    spawn::execute(&ctx, plan).expect("an agent");
    let told = told.lock().expect("unpoisoned");
    told.clone()
}

#[test]
fn files_that_are_copied_are_counted() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "/cache/\n");
    repo.commit_all("ignore");
    for number in 0..250 {
        repo.write(&format!("cache/{number}"), "ignored\n");
    }
    let told = told(&repo, &format!("{TASK}[setup]\ncopy = [\"cache/**\"]\n"));
    for count in ["100 of 250", "200 of 250"] {
        let what = format!("copying ignored files: {count}");
        assert!(told.contains(&what), "{told:?}");
    }
}

#[test]
fn files_that_are_checked_out_are_counted() {
    let repo = TestRepo::with_commit();
    repo.write(".gitattributes", "*.txt text eol=crlf\n");
    for number in 0..230 {
        repo.write(&format!("src/{number}.rs"), "plain\n");
        repo.write(&format!("src/{number}.txt"), "converted\n");
    }
    repo.commit_all("files");
    let all = repo.git(["ls-files"]).lines().count();
    let told = told(&repo, TASK);
    let counts: Vec<usize> = told
        .iter()
        .filter_map(|what| what.strip_prefix("checking out files: "))
        .map(|count| {
            let (done, of) = count.split_once(" of ").expect("a count");
            assert_eq!(of, all.to_string());
            done.parse().expect("a number")
        })
        .collect();
    // One for each hundred, whichever thread gets there.
    assert_eq!(counts.len(), all / 100, "{told:?}");
    assert!(counts.iter().all(|done| (100..=all).contains(done)));
}

#[test]
fn files_that_git_checks_out_are_counted() {
    let repo = TestRepo::with_commit();
    // Files that a group may write are left to git.
    repo.git(["config", "core.sharedRepository", "group"]);
    let all = repo.git(["ls-files"]).lines().count();
    let told = told(&repo, TASK);
    let last = format!("checking out files: {all} of {all}");
    assert!(told.contains(&last), "{told:?}");
}
