//! Repositories to measure in, and the agents in them.

use crate::AGENT;
use crate::measure::{git, run, text};
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TASK: &str = r#"role = "edit-local"
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

/// A clone with a checkout, one without, and a task beside them.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) main: PathBuf,
    pub(crate) bare: PathBuf,
    pub(crate) task: PathBuf,
    /// Where one worktree at a time comes and goes.
    pub(crate) spot: PathBuf,
}

/// An agent and where it works.
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) branch: String,
    pub(crate) worktree: PathBuf,
}

impl Scene {
    pub(crate) fn clone(dir: &Path, name: &str, origin: &Path) -> Scene {
        let clone = |to: &str, option: &str| {
            let clone = dir.join(to);
            let words = ["clone", "--quiet", "--shared", option];
            git(dir, &[&words[..], &[text(origin), text(&clone)]].concat());
            // Nobody tidies up meanwhile.
            for key in ["gc.auto", "maintenance.auto"] {
                git(&clone, &["config", key, "0"]);
            }
            clone
        };
        let (main, bare) = (clone("main", "--no-bare"), clone("bare", "--bare"));
        let files = git(&main, &["ls-files", "-z"]).stdout;
        let files = files.iter().filter(|&&byte| byte == 0).count();
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write");
        Scene {
            name: format!("{name}, {:.1}k files", files as f64 / 1e3),
            main,
            bare,
            task,
            spot: dir.join("spot"),
        }
    }

    pub(crate) fn spawn(&self, count: usize) -> Vec<Worker> {
        let mut workers = Vec::new();
        while workers.len() < count {
            let some = (count - workers.len()).min(50);
            let mut words = vec![AGENT, "spawn", "--format=ndjson"];
            words.extend(std::iter::repeat_n(text(&self.task), some));
            let output = run(&self.main, &words).stdout;
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

    /// An agent with a bundle, a commit and something beyond.
    pub(crate) fn worker(&self, number: usize) -> Worker {
        let worker = self.spawn(1).remove(0);
        worker.work(number);
        worker
    }
}

impl Worker {
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    pub(crate) fn work(&self, number: usize) {
        for (name, content) in BUNDLE {
            self.write(&format!(".agent/{name}"), content);
        }
        self.write(&format!("bench/{number}"), "one\ntwo\nthree\n");
        git(&self.worktree, &["add", "bench"]);
        let past = ["-c", "core.hooksPath=/dev/null"];
        let commit = ["commit", "--quiet", "--message=work"];
        git(&self.worktree, &[&past[..], &commit].concat());
        self.write(&format!("bench/{number}.more"), "more\n");
    }
}

/// `Repository::worktree`, which checks out as well.
pub(crate) fn checkout_by_libgit2(repository: &str, worktree: &str) {
    let repository = git2::Repository::open(repository).expect("a repository");
    let worktree = Path::new(worktree);
    let added = repository.worktree("spot", worktree, None);
    added.expect("libgit2 adds it");
}

/// Makes a repository of that many files of about two kilobytes, twenty to a directory.
pub(crate) fn generate(path: &Path, files: usize) {
    std::fs::create_dir(path).expect("directory");
    git(path, &["init", "--quiet", "--initial-branch=main"]);
    import(path, |out| {
        let who = "committer A U Thor <author@example.com> 1700000000 +0000";
        writeln!(out, "commit refs/heads/main\n{who}\ndata 5\nmany\n")?;
        let mut random = 1_u64;
        for file in 0..files {
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
        Ok(())
    });
    git(path, &["reset", "--quiet", "--hard"]);
}

/// Streams into `git fast-import`.
pub(crate) fn import(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::process::ChildStdin>) -> std::io::Result<()>,
) {
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--done", "--force"])
        .current_dir(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let mut stream = BufWriter::new(import.stdin.take().expect("piped"));
    write(&mut stream)
        .and_then(|()| writeln!(stream, "done"))
        .and_then(|()| stream.flush())
        .expect("git reads");
    drop(stream);
    assert!(import.wait().expect("git ends").success());
}
