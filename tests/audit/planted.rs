//! F1, F2, F8: no program that an agent planted runs outside the sandbox, at any verb.
//!
//! A worktree is prepared in which every known place that can name a program does (`plant.sh`). Each place first proves
//! with plain git that it fires (`places`). Then every verb of the command line runs (`verbs`), from the main worktree
//! and from the agent's, and no program may have left a marker. A verb without a row fails the test.

/// What plain git does in the same places.
pub mod places;
/// Every verb, and how it is called.
mod verbs;

use crate::sandbox::level;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::saved::Saved;
use crate::support::{TestRepo, isolated};
use crate::verify::Agent;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const PLANT: &str = include_str!("planted/plant.sh");

/// What is planted together; more at once would keep each other from firing.
pub type Planted = &'static [&'static str];

/// An agent's worktree with planted programs.
pub struct Scene {
    pub agent: Agent,
    markers: PathBuf,
    evil: PathBuf,
    /// What each verb that changes something is to find.
    saved: Saved,
    /// What a command in a sandbox plants that goes on while verbs are tried.
    goes_on: Option<Planted>,
    /// That command, and what lets it end.
    run: Option<(Child, fs::File)>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.let_the_run_end();
    }
}

impl Scene {
    /// An agent that nothing was planted for yet.
    fn new() -> Scene {
        Scene::with(&[])
    }

    /// As [`Scene::new`], with more arguments for the spawn.
    fn with(arguments: &[&str]) -> Scene {
        let repo = TestRepo::with_commit();
        repo.git(["config", "core.hooksPath", ".husky/_"]);
        let origin = repo.path().with_file_name("origin.git");
        repo.git(["clone", "-q", "--bare", ".", origin.to_str().expect("UTF-8")]);
        repo.git(["remote", "add", "origin", origin.to_str().expect("UTF-8")]);
        let agent = Agent::spawned_with(repo, TASK, arguments);
        let beside = |name: &str| agent.repo.path().with_file_name(name);
        let (markers, evil) = (beside("markers"), beside("evil"));
        fs::create_dir(&markers).expect("made");
        let script = format!(
            "#!/bin/sh\n: >{}/$1 2>/dev/null\ncase $1 in *-clean | *-smudge | *-included) exec cat ;; esac\nexit 0\n",
            markers.display()
        );
        // Some settings name a program without arguments.
        let alone = ["gpg", "askpass", "proxy"].map(|name| {
            let text = format!("#!/bin/sh\n: >{}/{name} 2>/dev/null\nexit 1\n", markers.display());
            (beside(&format!("evil-{name}")), text)
        });
        for (path, text) in alone.into_iter().chain([(evil.clone(), script)]) {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        let scene =
            Scene { saved: agent.repo.save(), agent, markers, evil, goes_on: None, run: None };
        // A command can read it; that it does is how the test knows that everything is planted.
        let mut fifo = scene.command("mkfifo", &scene.agent.repo.path());
        let made = fifo.arg(scene.end()).status();
        assert!(made.expect("starts").success());
        scene
    }

    fn end(&self) -> PathBuf {
        self.markers.with_file_name("end")
    }

    /// One in which a command in a sandbox has planted and goes on.
    fn during_a_run(what: Planted) -> Scene {
        let mut scene = Scene::new();
        scene.save();
        scene.goes_on = Some(what);
        scene.start_a_run(what);
        scene
    }

    /// One in which a command in a sandbox has planted and is over.
    fn after_a_run(what: Planted) -> Scene {
        let mut scene = Scene::new();
        scene.start_a_run(what);
        scene.let_the_run_end();
        scene
    }

    fn start_a_run(&mut self, what: Planted) {
        let end = self.end();
        let script = format!("{PLANT}\ncat {}", end.display());
        let mut run = agent_command(&self.agent.repo.path());
        run.args(["run", &self.agent.id, "--sandbox=require", "--", "sh", "-c", &script, "plant"])
            .args(what)
            .env("EVIL", &self.evil)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = run.spawn().expect("starts");
        let end = fs::File::options().write(true).open(&end);
        self.run = Some((child, end.expect("opened")));
    }

    fn let_the_run_end(&mut self) {
        if let Some((mut child, end)) = self.run.take() {
            drop(end);
            child.wait().expect("ends");
        }
    }

    /// Whether a run of it was stopped.
    fn is_over(&mut self) -> bool {
        let run = self.run.as_mut();
        run.is_some_and(|(child, _)| child.try_wait().expect("ours").is_some())
    }

    /// One in which an agent without a sandbox has planted.
    pub fn planted(what: Planted) -> Scene {
        Scene::new().with_planted(what)
    }

    fn with_planted(mut self, what: Planted) -> Scene {
        let scene = &mut self;
        let mut plant = scene.command("sh", &scene.agent.worktree);
        let output = plant.args(["-c", PLANT, "plant"]).args(what).output();
        let output = output.expect("starts");
        assert!(output.status.success(), "{}", describe(&output));
        scene.forget();
        scene.save();
        self
    }

    fn save(&mut self) {
        self.saved = self.agent.repo.save();
    }

    /// Makes it what it was.
    fn renew(&mut self) {
        self.let_the_run_end();
        self.saved.restore();
        if let Some(what) = self.goes_on {
            self.start_a_run(what);
        }
    }

    /// A command that knows the program.
    fn command(&self, program: &str, directory: &Path) -> Command {
        let mut command = isolated(program, directory);
        command.env("EVIL", &self.evil).stdin(Stdio::null());
        command
    }

    /// The programs that ran, by their names.
    pub fn ran(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.markers).expect("readable");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names.map(|name| name.into_string().expect("UTF-8")).collect()
    }

    /// Removes the markers.
    pub fn forget(&self) {
        for name in self.ran() {
            fs::remove_file(self.markers.join(name)).expect("removed");
        }
    }

    /// Calls a verb and gives what it said.
    fn call(&self, words: &[String], input: &str, directory: &Path) -> Output {
        let file = self.markers.with_file_name("input");
        fs::write(&file, input).expect("written");
        let mut command = agent_command(directory);
        // What is asked for above all, and what starts a pager.
        command.args(words).env("TERM", "dumb");
        command.stdin(fs::File::open(&file).expect("there"));
        command.output().expect("starts")
    }
}

/// Runs every verb in this scene: no planted program runs.
fn try_every_verb(mut shared: Scene) {
    let mut broken = Vec::new();
    for verb in verbs::VERBS {
        for line in verb.lines {
            let main = shared.agent.repo.path();
            let places = [main.clone(), shared.agent.worktree.clone()];
            for place in places {
                if !place.is_dir() {
                    continue;
                }
                let words = verbs::words(line, &shared);
                let output = shared.call(&words, verbs::input(line, &shared).as_str(), &place);
                let said = describe(&output);
                let is_misused = said.contains("Usage: git agent") && verb.name != "help";
                assert!(!is_misused, "{line}: {said}");
                let from = if place == main { "main" } else { "its worktree" };
                let mut ran = shared.ran();
                ran.retain(|name| verb.own.is_none_or(|own| !name.starts_with(own)));
                if !ran.is_empty() {
                    broken.push(format!("`{line}` from {from} ran {ran:?}"));
                }
                shared.forget();
                if verb.changes && shared.run.is_none() || shared.is_over() {
                    shared.renew();
                }
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn every_verb_has_a_row() {
    let known: BTreeSet<&str> = verbs::VERBS.iter().map(|verb| verb.name).collect();
    let internal: BTreeSet<&str> = verbs::INTERNAL.into_iter().collect();
    let named: BTreeSet<&str> = known.union(&internal).copied().collect();
    let verbs = git_agent::cli::verbs();
    let all: BTreeSet<&str> = verbs.iter().map(String::as_str).collect();
    assert_eq!(all, named, "each verb is tried against planted programs");
}

/// What an agent without a sandbox has planted, at every verb.
mod f2_no_verb_runs_what_an_agent_without_a_sandbox_planted {
    use super::{Scene, try_every_verb};

    #[test]
    fn in_settings() {
        try_every_verb(Scene::planted(&["settings"]));
    }

    #[test]
    fn in_repositories_inside() {
        try_every_verb(Scene::planted(&["settings", "nested"]));
    }

    #[test]
    fn in_hooks() {
        try_every_verb(Scene::planted(&["husky", "shims"]));
    }

    #[test]
    fn in_another_repository() {
        try_every_verb(Scene::planted(&["pointer"]));
    }

    #[test]
    fn in_a_clone_of_its_own() {
        let scene = Scene::with(&["--isolation=clone"]).with_planted(&["clone"]);
        let mut git = scene.command("git", &scene.agent.worktree);
        assert!(git.args(["status", "--short"]).output().is_ok());
        let ran = scene.ran();
        assert!(ran.contains("clone-fsmonitor"), "plain git runs {ran:?}");
        scene.forget();
        try_every_verb(scene);
    }

    #[test]
    fn in_another_common_directory() {
        try_every_verb(Scene::planted(&["common"]));
    }
}

#[test]
fn f1_no_verb_runs_what_is_planted_in_a_sandbox_while_the_command_goes_on() {
    if level().is_some() {
        try_every_verb(Scene::during_a_run(&["settings", "nested"]));
    }
}

/// Tries every verb after a command in a sandbox has planted.
fn try_after_a_run(what: Planted) {
    if level().is_none() {
        return;
    }
    let mut scene = Scene::after_a_run(what);
    let ran = scene.ran();
    assert!(ran.is_empty(), "{what:?}: the supervisor ran {ran:?}");
    scene.save();
    try_every_verb(scene);
}

#[test]
fn f1_no_verb_runs_what_a_command_in_a_sandbox_planted() {
    try_after_a_run(&["settings", "nested"]);
}

#[test]
fn f1_no_verb_runs_what_a_command_in_a_sandbox_planted_in_another_repository() {
    try_after_a_run(&["pointer"]);
}
