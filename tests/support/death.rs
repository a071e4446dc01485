//! Death at a chosen step. The process that dies is this test binary run again for one test, its `child`,
//! which does its work through the library and aborts, without any destructor, as soon as it is told that
//! the step is complete.

use super::agent::describe;
use super::{isolated, temporary_of};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Env;
use git_agent::agents::context::ctx::Seams;
use git_agent::git::Repo;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const SIGABRT: i32 = 6;
const STEP: &str = "GIT_AGENT_TEST_STEP";
const WORDS: &str = "GIT_AGENT_TEST_WORDS";

/// Whoever is told the name of every step that was just completed.
pub type Reached = Arc<dyn Fn(&str) + Send + Sync>;

/// What the process that dies was told.
pub struct Order {
    /// Where it works.
    pub directory: PathBuf,
    /// What else it needs to know.
    pub words: Vec<String>,
    /// The last step it completes.
    pub step: String,
}

impl Order {
    /// The order of this process; `None` in every process that is not to die.
    pub fn received() -> Option<Order> {
        let (Ok(step), Ok(words)) = (std::env::var(STEP), std::env::var(WORDS)) else {
            return None;
        };
        Some(Order {
            directory: std::env::current_dir().expect("a directory"),
            words: serde_json::from_str(&words).expect("words"),
            step,
        })
    }

    /// Aborts when the step is complete.
    pub fn dying(&self) -> Reached {
        let step = self.step.clone();
        Arc::new(move |name| {
            if name == step {
                std::process::abort();
            }
        })
    }
}

/// Runs the test named `child` in a process that must die at that step.
pub fn die_at(child: &str, directory: &Path, step: &str, words: &[&str]) {
    die_with(child, directory, step, words, &[]);
}

/// As [`die_at`], with further variables for what that process starts.
pub fn die_with(
    child: &str,
    directory: &Path,
    step: &str,
    words: &[&str],
    variables: &[(&str, PathBuf)],
) {
    let program = std::env::current_exe().expect("this binary");
    let output = isolated(program, directory)
        .args(["--exact", child, "--nocapture"])
        .env(STEP, step)
        .env(WORDS, serde_json::json!(words).to_string())
        .envs(variables.iter().cloned())
        .output()
        .expect("starts");
    // Anything else than an abort is a failure of the child's own, before the step.
    let signal = output.status.signal();
    let said = describe(&output);
    assert_eq!(signal, Some(SIGABRT), "{step} was never reached: {said}");
}

/// Every step that some work tells of, in order.
pub fn steps_of(work: impl FnOnce(Reached)) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    work(Arc::new(move |name| {
        log.lock().expect("unpoisoned").push(name.to_owned());
    }));
    seen.lock().expect("unpoisoned").clone()
}

/// Nobody who cares about steps.
pub fn unwatched() -> Reached {
    Arc::new(|_| ())
}

/// The surroundings of somebody who stands in a directory.
pub fn ctx(directory: &Path, reached: Reached) -> Ctx {
    let seams = Seams { reached, ..Seams::real() };
    ctx_with(directory, seams)
}

/// As [`ctx`], with other seams than the real ones.
pub fn ctx_with(directory: &Path, seams: Seams) -> Ctx {
    let env = Env {
        directory: directory.to_owned(),
        program: Some(env!("CARGO_BIN_EXE_git-agent").into()),
        temporary: temporary_of(directory),
        ..Env::default()
    };
    let repo = Repo::open(directory).expect("a repository");
    Ctx::new(repo, env, seams)
}
