//! What one agent leaves broken is a finding about that agent, and no error of a command that looks at all of them.
//! What it puts in the place of a file keeps no command waiting.

/// The states, and how an agent comes to be in them.
pub mod table;

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use crate::support::saved::Saved;
use crate::support::{git_in, git_output, isolated};
use crate::verify::Agent;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use table::{BROKEN, BUSY, State};

/// A task whose work is complete without a bundle.
const TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
[bundle]
required = false
"#;

/// After this time a command is taken to wait for something that never comes. None takes a tenth of it.
const GUARD: Duration = Duration::from_secs(120);

/// Two agents that are done: one is brought into a state, the other has work that can land.
pub struct Scene {
    bad: Agent,
    good_id: String,
    admin_dir: PathBuf,
    /// What each state is brought about in.
    saved: Mutex<Saved>,
}

/// Commands that look at all agents or show one; none may fail because of one agent.
const LOOKS: [&[&str]; 6] =
    [&["list"], &["show", ID], &["overlap"], &["report"], &["doctor"], &["gc", "--dry-run"]];

/// Commands that may fail to look at an agent, but end.
const LOOKS_AT_ONE: [&[&str]; 2] = [&["diff", ID], &["check", ID, "--worktree"]];

/// Stands for the id of the bad agent.
const ID: &str = "{id}";

impl Scene {
    fn new() -> Scene {
        let bad = Agent::spawned_in(TestRepo::with_commit(), TASK);
        let good = bad.repo.spawn_task(TASK, &[]);
        let good_worktree = PathBuf::from(good["worktree_abspath"].as_str().expect("a path"));
        let good_id = good["agent_id"].as_str().expect("an id").to_owned();
        for (worktree, name) in [(&bad.worktree, "bad"), (&good_worktree, "good")] {
            std::fs::write(worktree.join(format!("src/{name}.rs")), "fn more() {}\n")
                .expect("written");
            git_in(worktree, ["add", "--all"]);
            git_in(worktree, ["commit", "--quiet", "-m", "work"]);
        }
        for id in [&bad.id, &good_id] {
            let output = bad.repo.agent(&["done", id]);
            assert!(output.status.success(), "{}", describe(&output));
        }
        let short = &bad.id[..8];
        let admin_dir = bad.repo.path().join(".git/worktrees");
        Scene {
            admin_dir: admin_dir.join(format!("agent-{short}")),
            saved: Mutex::new(bad.repo.save()),
            bad,
            good_id,
        }
    }

    fn git_dir(&self) -> PathBuf {
        self.bad.repo.path().join(".git")
    }

    /// The file of the agent's branch.
    fn branch_file(&self) -> PathBuf {
        self.git_dir().join("refs/heads").join(&self.bad.branch)
    }

    /// The file of a loose object.
    fn object_file(&self, revision: &str) -> PathBuf {
        let oid = git_in(&self.bad.worktree, ["rev-parse", revision]);
        let (directory, file) = oid.split_at(2);
        self.git_dir().join("objects").join(directory).join(file)
    }

    /// Runs git-agent, which must end.
    fn run(&self, state: &str, arguments: &[impl AsRef<OsStr> + Debug]) -> Output {
        let mut command = agent_command(&self.bad.repo.path());
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("git-agent starts");
        let id = child.id().to_string();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = receiver.recv_timeout(GUARD) else {
            let _ = std::process::Command::new("kill").args(["-9", &id]).status();
            panic!("{state}: {arguments:?} does not end");
        };
        output.expect("ends")
    }

    /// Runs git-agent, which must succeed.
    fn goes_on(&self, state: &str, arguments: &[impl AsRef<OsStr> + Debug]) -> Output {
        let output = self.run(state, arguments);
        let status = output.status.code();
        // A doctor that found something says so with 1.
        let expected: &[i32] = if arguments[0].as_ref() == "doctor" { &[0, 1] } else { &[0] };
        assert!(
            status.is_some_and(|status| expected.contains(&status)),
            "{state}: {arguments:?}\n{}",
            describe(&output)
        );
        output
    }

    /// Discards the bad one: nothing of it is left but what is kept, and that is all that it wrote.
    fn is_discarded(&self, state: &State) {
        let (name, id) = (state.name, self.bad.id.as_str());
        let blob = "hash-object";
        let blob = self.bad.repo.git([blob, self.kept_file().to_str().expect("UTF-8")]);
        let had_files = self.bad.worktree.join("src/kept.rs").exists();
        self.goes_on(name, &["discard", id, "--dry-run"]);
        self.goes_on(name, &["discard", id]);
        let shown = self.bad.repo.agent_json(&["show", id]);
        assert_eq!(shown["state"], "discarded", "{name}: {shown}");
        for gone in [&self.bad.worktree, &self.admin_dir, &self.branch_file()] {
            let there = std::fs::symlink_metadata(gone).is_ok();
            assert!(!there, "{name}: {}", gone.display());
        }
        let kept = git_output(&self.bad.repo.path(), ["rev-list", "refs/agents/keep"]);
        let kept = String::from_utf8_lossy(&kept.stdout).into_owned();
        let holds = |commit: &str| {
            let tree = git_output(&self.bad.repo.path(), ["ls-tree", "-r", commit]);
            String::from_utf8_lossy(&tree.stdout).contains(&blob)
        };
        assert!(!had_files || kept.lines().any(holds), "{name}: not kept");
        self.goes_on(name, &["list"]);
        self.goes_on(name, &["merge", "--all"]);
    }

    /// What a user would do with the agent's worktree, in seconds after which git counts as waiting for ever.
    fn plain_git(&self, limit: f32) -> Output {
        let script = "set -e
            cd \"$1\"
            [ \"$(git rev-parse --show-toplevel)\" = \"$1\" ]
            git() { command git -c core.hooksPath=/dev/null \"$@\"; }
            git status
            git write-tree
            git add --all
            git commit --allow-empty -m more
            git fsck --no-progress
            git log -p -g HEAD
            git worktree list --porcelain
            cd \"$2\"
            git worktree list --porcelain | grep -qx \"worktree $1\"
            git worktree unlock \"$1\"
            git worktree remove --force \"$1\"";
        let limit = format!("{limit}");
        let mut command = isolated("timeout", &self.bad.repo.path());
        command.args([limit.as_str(), "sh", "-c", script, "sh"]);
        command.args([&self.bad.worktree, &self.bad.repo.path()]);
        command.stdin(Stdio::null()).output().expect("starts")
    }

    /// A copy of what the bad one wrote last and did not commit.
    fn kept_file(&self) -> PathBuf {
        self.bad.repo.path().with_file_name("kept.rs")
    }

    fn write_kept_file(&self) {
        let content = "fn kept() {}\n";
        std::fs::write(self.kept_file(), content).expect("written");
        self.bad.write("src/kept.rs", content);
    }

    /// Looks at all agents, then judges the bad one, then lands what can land.
    fn is_the_agents_matter(&self, state: &State) {
        let (name, id) = (state.name, self.bad.id.as_str());
        let plain = self.plain_git(0.4);
        assert!(!plain.status.success(), "{name}: git copes with it");
        self.saved.lock().expect("whole").restore();
        (state.bring_about)(self);
        // None of them changes anything, so they need not wait for each other.
        let with_id = |verb: &[&str]| -> Vec<String> {
            let words = verb.iter().map(|word| word.replace(ID, id));
            words.collect()
        };
        thread::scope(|threads| {
            for verb in LOOKS {
                threads.spawn(|| self.goes_on(name, &with_id(verb)));
            }
            for verb in LOOKS_AT_ONE {
                threads.spawn(|| self.run(name, &with_id(verb)));
            }
        });
        let verdict = self.run(name, &["verify", id, "--format=json"]);
        let report: Value = serde_json::from_slice(&verdict.stdout)
            .unwrap_or_else(|_| panic!("{name}: {}", describe(&verdict)));
        let expected = if state.is_rejected { "reject" } else { "accept" };
        assert_eq!(report["verdict"], expected, "{name}: {report}");

        let all = self.run(name, &["merge", "--all", "--format=json"]);
        let report: Value = serde_json::from_slice(&all.stdout)
            .unwrap_or_else(|_| panic!("{name}: {}", describe(&all)));
        let agents = report["items"].as_array().expect("agents");
        let verdict_of = |id: &str| {
            let agent = agents.iter().find(|agent| agent["agent_id"] == id);
            agent.expect("decided")["outcome"].clone()
        };
        assert_eq!(verdict_of(&self.good_id), "merged", "{name}: {report}");
        // A verdict that was recorded before made finished work idle.
        let expected: &[&str] =
            if state.is_rejected { &["not-merged", "idle"] } else { &["merged"] };
        let decided = verdict_of(id);
        assert!(expected.contains(&decided.as_str().unwrap_or_default()), "{name}: {report}");
        let landed = self.bad.repo.git(["ls-tree", "-r", "--name-only", "main"]);
        assert!(landed.contains("src/good.rs"), "{name}: {landed}");
    }
}

/// Tries these states, and names all in which something is wrong.
fn each<'a>(
    states: impl IntoIterator<Item = &'a State>,
    prepare: impl Fn(&Scene),
    attempt: impl Fn(&Scene, &State),
) {
    let scene = Scene::new();
    // Without the state git copes, so that it is the state that stops it.
    let plain = scene.plain_git(60.0);
    assert!(plain.status.success(), "{}", describe(&plain));
    scene.saved.lock().expect("whole").restore();
    prepare(&scene);
    *scene.saved.lock().expect("whole") = scene.bad.repo.save();
    let fails = |state: &&State| {
        scene.saved.lock().expect("whole").restore();
        let tried = catch_unwind(AssertUnwindSafe(|| {
            (state.bring_about)(&scene);
            attempt(&scene, state);
        }));
        tried.is_err()
    };
    let failed: Vec<_> = states.into_iter().filter(fails).map(|state| state.name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Two tests of one kind, each with half of the states, so that they run beside each other.
macro_rules! halves {
    (mod $name:ident, $states:expr, $prepare:expr, $attempt:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn even() {
                each($states.iter().step_by(2), $prepare, $attempt);
            }

            #[test]
            fn odd() {
                each($states.iter().skip(1).step_by(2), $prepare, $attempt);
            }
        }
    };
}

halves!(
    mod f10_a_broken_state_is_a_finding_about_its_agent,
    BROKEN,
    |_| {},
    Scene::is_the_agents_matter
);
halves!(
    mod f11_what_is_no_file_keeps_no_command_waiting,
    BUSY,
    |_| {},
    Scene::is_the_agents_matter
);
halves!(
    mod f10_an_agent_in_a_broken_state_can_be_discarded,
    BROKEN,
    Scene::write_kept_file,
    Scene::is_discarded
);
// A file of 3 GB is kept as well, which takes long.
halves!(
    mod f11_an_agent_whose_files_are_none_can_be_discarded,
    BUSY.split_last().expect("states").1,
    Scene::write_kept_file,
    Scene::is_discarded
);

#[test]
fn f11_a_link_among_the_refs_keeps_no_command_waiting() {
    let scene = Scene::new();
    for name in ["aa", "bb"] {
        let link = scene.git_dir().join("refs/heads/agent").join(name);
        std::os::unix::fs::symlink(".", link).expect("linked");
    }
    let output = scene.run("link", &["doctor"]);
    let said = describe(&output);
    assert!(said.contains("is a link to a directory"), "{said}");
    for verb in [&["list"][..], &["report"], &["overlap"], &["merge", "--all"]] {
        scene.goes_on("link", verb);
    }
}

/// What git and libgit2 open of the directory that worktrees share.
const SHARED: [&str; 9] = [
    "packed-refs",
    "shallow",
    "info/grafts",
    "info/attributes",
    "info/exclude",
    "objects/info/alternates",
    "objects/info/commit-graph",
    "objects/pack/pack-0123456789012345678901234567890123456789.idx",
    "objects/pack/pack-0123456789012345678901234567890123456789.pack",
];

#[test]
fn f11_what_is_no_file_in_the_shared_repository_is_named_and_keeps_no_command_waiting() {
    let scene = Scene::new();
    for name in SHARED {
        let path = scene.git_dir().join(name);
        let before = std::fs::read(&path).ok();
        table::fifo(&path);
        for verb in [
            &["list"][..],
            &["verify", &scene.bad.id],
            &["merge", "--all"],
            &["run", &scene.bad.id, "--timeout", "5s", "--", "true"],
        ] {
            let output = scene.run(name, verb);
            let said = describe(&output);
            assert_eq!(output.status.code(), Some(4), "{name}: {verb:?}: {said}");
            assert!(said.contains("repo-corrupt"), "{name}: {verb:?}: {said}");
            assert!(said.contains(name), "{name}: {verb:?}: {said}");
        }
        std::fs::remove_file(&path).expect("removed");
        if let Some(content) = before {
            std::fs::write(&path, content).expect("written");
        }
    }
    scene.goes_on("nothing", &["list"]);
}
