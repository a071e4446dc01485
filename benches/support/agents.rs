//! Agents to measure with.

use super::{AGENT, git, run, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The task of a [`Worker`].
pub(crate) const TASK: &str = r#"role = "edit-local"
task = "Change one file and add another one beside it."
[scope]
whitelist = ["bench/**"]
"#;
const BUNDLE: [(&str, &str); 5] = [
    ("plan.md", "written\n"),
    ("chatlog.md", "written\n"),
    ("handoffs.md", "written\n"),
    ("review.md", "written\n"),
    ("progress.json", "{\"status\": \"done\"}\n"),
];

/// An agent and where it works.
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) branch: String,
    pub(crate) worktree: PathBuf,
}

/// Makes that many agents of a task file.
pub(crate) fn spawn(main: &Path, task: &Path, count: usize) -> Vec<Worker> {
    let mut workers = Vec::new();
    while workers.len() < count {
        let some = (count - workers.len()).min(50);
        let mut words = vec![AGENT, "spawn", "--format=ndjson"];
        words.extend(std::iter::repeat_n(text(task), some));
        let output = run(main, &words).stdout;
        let reports = serde_json::Deserializer::from_slice(&output).into_iter::<Value>();
        workers.extend(reports.map(|report| {
            let report = report.expect("JSON");
            let field = |key: &str| report[key].as_str().expect(key).to_owned();
            Worker {
                id: field("agent_id"),
                branch: field("branch"),
                worktree: field("worktree_abspath").into(),
            }
        }));
    }
    workers
}

impl Worker {
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    /// Writes the bundle and commits a file of that number.
    pub(crate) fn work(&self, number: usize) {
        for (name, content) in BUNDLE {
            self.write(&format!(".agent/{name}"), content);
        }
        self.write(&format!("bench/{number}"), "one\ntwo\nthree\n");
        git(&self.worktree, &["add", "bench"]);
        let past = ["-c", "core.hooksPath=/dev/null"];
        let commit = ["commit", "--quiet", "--message=work"];
        git(&self.worktree, &[&past[..], &commit].concat());
    }

    /// Works, and leaves something that is not committed yet.
    pub(crate) fn work_on(&self, number: usize) {
        self.work(number);
        self.write(&format!("bench/{number}.more"), "more\n");
    }
}
