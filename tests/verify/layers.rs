//! Checks over a frozen base: the files of the commit that is judged, and nothing of theirs anywhere else.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// What git finds in the check's worktree, and what set-up made there.
const TELL: &str = r#"#!/bin/sh
set -e
out=$1
find . -name .git -prune -o ! -type d -print | LC_ALL=C sort > "$out/names"
git status --porcelain > "$out/status"
common=$(cd "$(git rev-parse --git-common-dir)" && pwd)
cp "$(git rev-parse --git-dir)/index" "$TMPDIR/index"
mkdir -p "$TMPDIR/objects"
export GIT_INDEX_FILE="$TMPDIR/index" GIT_OBJECT_DIRECTORY="$TMPDIR/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$common/objects"
git add -A .
git write-tree > "$out/tree"
test "$(cat made.o)" = made
echo junk > junk.txt
rm -rf lib/a.txt made.o
echo written >> lib/b.txt
"#;

struct Scene {
    repo: TestRepo,
    outside: PathBuf,
}

impl Scene {
    fn new(checks: &str, settings: &str) -> Scene {
        let repo = TestRepo::with_commit();
        // The one place outside of the worktree that a check may write.
        let outside = repo.path().with_file_name("outside");
        fs::create_dir(&outside).expect("made");
        let allowed = outside.display().to_string();
        repo.git(["config", "agent.run.allowWrite", &allowed]);
        let checks = checks.replace("OUT", &allowed);
        repo.write(
            ".config/git-agent.toml",
            format!(
                "[bundle]\nrequired = false\n[checks]\ncommands = [{checks}]\n[setup]\nrun = [\"echo made > made.o\"]\n{settings}"
            ),
        );
        repo.write("tell.sh", TELL);
        repo.write(".gitignore", "*.o\n");
        for name in ["a", "b", "c"] {
            repo.write(&format!("lib/{name}.txt"), format!("{name}\n"));
            repo.write(&format!("lib/deep/{name}.txt"), format!("deep {name}\n"));
            repo.write(&format!("docs/{name}.md"), format!("# {name}\n"));
        }
        std::os::unix::fs::symlink("lib/a.txt", repo.path().join("link")).expect("linked");
        repo.commit_all("files");
        Scene { repo, outside }
    }

    /// An agent over a base; `None` where the kernel of this machine has no layered worktrees.
    fn spawn(&self, name: &str) -> Option<Value> {
        let words = [
            "spawn",
            "-m",
            "Change what there is",
            "--name",
            name,
            "--layered",
            "--scope",
            "**",
            "--format",
            "json",
        ];
        let output = self.repo.agent(&words);
        let said = describe(&output);
        if said.contains("no layered worktree can be had here: ") {
            return None;
        }
        assert!(output.status.success(), "{said}");
        Some(serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    fn edit(&self, name: &str, script: &str) {
        let output = self.repo.agent(&["run", name, "--no-verify", "--", "sh", "-c", script]);
        assert!(output.status.success(), "{}", describe(&output));
    }

    fn verify(&self, name: &str) -> Value {
        let output = self.repo.agent(&["verify", name, "--format", "json"]);
        let answer = serde_json::from_slice(&output.stdout);
        answer.unwrap_or_else(|_| panic!("{}", describe(&output)))
    }

    fn told(&self, name: &str) -> String {
        fs::read_to_string(self.outside.join(name)).expect("told")
    }

    /// No check has left anything, and the base is as it was.
    fn require_clean(&self, agent: &Value) {
        let agents = self.repo.path().join(".git/agents");
        let short = agent["short_id"].as_str().expect("an id");
        assert!(!agents.join(short).join("check-layer").exists());
        let worktrees = self.repo.git(["worktree", "list"]);
        assert!(!worktrees.contains("verify-"), "{worktrees}");
        let doctor = self.repo.agent(&["doctor"]);
        assert!(doctor.status.success(), "{}", describe(&doctor));
    }
}

const EDITS: &str = "echo more >> lib/b.txt; chmod +x lib/c.txt; rm docs/a.md; rm -r lib/deep; echo file > lib/deep; \
    rm docs/c.md; mkdir docs/c.md; echo inside > docs/c.md/inside; ln -sf lib/b.txt link; mkdir -p one/two; echo deep > one/two/three";

#[test]
fn a_check_over_a_base_sees_the_merged_tree_and_writes_nowhere() {
    let scene = Scene::new("\"sh tell.sh OUT\", \"test -e junk.txt && test ! -e lib/a.txt\"", "");
    let Some(agent) = scene.spawn("one") else {
        return;
    };
    scene.edit("one", EDITS);
    // What landed meanwhile is in the tree that is judged, and not in the base.
    scene.repo.write("landed.txt", "landed\n");
    scene.repo.git(["rm", "-q", "docs/b.md"]);
    scene.repo.commit_all("meanwhile");
    for _ in 0..2 {
        // What was green is not checked again.
        scene.edit("one", "echo once >> rounds.txt");
        let report = scene.verify("one");
        let commands = report["commands"].as_array().expect("commands");
        assert_eq!(commands.len(), 2, "{report:#}");
        for command in commands {
            assert_eq!(command["exit_code"], 0, "{report:#}");
            assert_eq!(command["layered"], true, "{report:#}");
        }
        let tree = report["merged_tree"].as_str().expect("a tree");
        assert_eq!(scene.told("tree").trim_end(), tree);
        assert_eq!(scene.told("status"), "");
        let tracked = scene.repo.git(["ls-tree", "-r", "--name-only", tree]);
        let mut names: Vec<String> = tracked.lines().map(|name| format!("./{name}")).collect();
        names.push("./made.o".to_owned());
        names.sort_unstable();
        let told = scene.told("names");
        assert_eq!(told.lines().collect::<Vec<_>>(), names);
        scene.require_clean(&agent);
    }
}

#[test]
fn a_check_copies_where_layers_are_off_or_set_up_reads_what_changed() {
    let scene = Scene::new("\"sh tell.sh OUT\"", "");
    let Some(agent) = scene.spawn("one") else {
        return;
    };
    scene.edit("one", "echo '{}' > package.json");
    let report = scene.verify("one");
    let command = &report["commands"][0];
    assert_eq!(
        (&command["exit_code"], &command["layered"]),
        (&0.into(), &Value::Null),
        "{report:#}"
    );
    scene.edit("one", "rm package.json; echo more >> lib/b.txt");
    assert_eq!(scene.verify("one")["commands"][0]["layered"], true);
    let settings = fs::read_to_string(scene.repo.path().join(".config/git-agent.toml"));
    let off = settings.expect("read") + "[worktree]\nlayered = \"off\"\n";
    scene.repo.write(".config/git-agent.toml", off);
    scene.repo.commit_all("no layers");
    let report = scene.verify("one");
    let command = &report["commands"][0];
    assert_eq!(
        (&command["exit_code"], &command["layered"]),
        (&0.into(), &Value::Null),
        "{report:#}"
    );
    assert_eq!(scene.told("tree").trim_end(), report["merged_tree"]);
    scene.require_clean(&agent);
}

#[test]
fn a_base_of_an_unlanded_branch_serves_no_check_of_other_work() {
    let scene = Scene::new("\"sh test.o\"", "");
    let repo = &scene.repo;
    let settings = fs::read_to_string(repo.path().join(".config/git-agent.toml")).expect("read");
    repo.write(".config/git-agent.toml", settings.replace("echo made > made.o", "sh ci/setup.sh"));
    repo.write("ci/setup.sh", ". ci/lib.sh\n");
    repo.write("ci/lib.sh", "echo 'test ! -e bad.txt' > test.o\n");
    repo.commit_all("a check that set-up makes");
    repo.git(["checkout", "-q", "-b", "side"]);
    // A file that no set-up command names, so the trees look the same to set-up.
    repo.write("ci/lib.sh", "echo 'exit 0' > test.o\n");
    repo.commit_all("every check succeeds");
    let words = ["spawn", "-m", "Work on the side", "--layered", "--base", "side", "--scope", "**"];
    let output = repo.agent(&words);
    if describe(&output).contains("no layered worktree can be had here: ") {
        return;
    }
    assert!(output.status.success(), "{}", describe(&output));
    repo.git(["checkout", "-q", "main"]);
    repo.agent_json(&["spawn", "-m", "Break it", "--name", "one", "--scope", "**"]);
    scene.edit("one", "touch bad.txt");
    for _ in 0..2 {
        let report = scene.verify("one");
        assert_eq!(report["commands"][0]["exit_code"], 1, "{report:#}");
    }
    // One that was made of the target's own history serves.
    let Some(_) = scene.spawn("two") else {
        return;
    };
    let report = scene.verify("one");
    let command = &report["commands"][0];
    assert_eq!(
        (&command["exit_code"], &command["layered"]),
        (&1.into(), &true.into()),
        "{report:#}"
    );
}

#[test]
fn eight_checks_at_once_share_a_base() {
    let scene = Scene::new(
        "\"mkdir \\\"$TMPDIR/o\\\" && sh tell.sh \\\"$TMPDIR/o\\\" && cat mine.txt\"",
        "",
    );
    let mut agents = Vec::new();
    for number in 0..8 {
        let name = format!("agent-{number}");
        let Some(agent) = scene.spawn(&name) else {
            return;
        };
        scene.edit(&name, &format!("echo {number} > mine.txt; rm lib/c.txt"));
        agents.push((name, agent));
    }
    let reports: Vec<Value> = std::thread::scope(|scope| {
        let verify = |(name, _): &(String, Value)| {
            let (scene, name) = (&scene, name.clone());
            scope.spawn(move || scene.verify(&name))
        };
        let started: Vec<_> = agents.iter().map(verify).collect();
        started.into_iter().map(|one| one.join().expect("joined")).collect()
    });
    for report in &reports {
        let command = &report["commands"][0];
        assert_eq!(
            (&command["exit_code"], &command["layered"]),
            (&0.into(), &true.into()),
            "{report:#}"
        );
    }
    let bases = scene.repo.agent_json(&["pool", "status"])["bases"].clone();
    assert_eq!(bases.as_array().expect("bases").len(), 1, "{bases}");
    for (_, agent) in &agents {
        scene.require_clean(agent);
    }
}

#[test]
fn a_killed_check_leaves_no_process_and_no_layer() {
    let scene =
        Scene::new("\"test -e OUT/goes-on || { echo begun > OUT/fifo; exec sleep 86731; }\"", "");
    let Some(agent) = scene.spawn("one") else {
        return;
    };
    scene.edit("one", "echo more >> lib/b.txt");
    let fifo = scene.outside.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("made");
    let mut killed = agent_command(&scene.repo.path())
        .args(["verify", "one"])
        .stdout(Stdio::null())
        .spawn()
        .expect("git-agent starts");
    // Opened by the check alone.
    assert_eq!(fs::read_to_string(&fifo).expect("read"), "begun\n");
    killed.kill().expect("killed");
    killed.wait().expect("waited for");
    fs::write(scene.outside.join("goes-on"), "").expect("written");
    // What it started goes with it, which takes a moment; the next one waits for its lock, and clears the place.
    let report = scene.verify("one");
    assert_eq!(report["commands"][0]["layered"], true, "{report:#}");
    scene.require_clean(&agent);
    let is_over = || {
        let processes = fs::read_dir("/proc").expect("listed").flatten();
        let mut lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
        !lines.any(|line| line.starts_with(b"sleep\x0086731"))
    };
    assert!((0..1_000_000).any(|_| is_over()), "the check goes on");
    // Nothing holds the base any more once the agent is gone.
    scene.repo.agent_json(&["discard", "one"]);
    let collected = scene.repo.agent_json(&["gc", "--yes"]);
    assert_eq!(collected["bases"].as_array().map(Vec::len), Some(1), "{collected:#}");
}

#[test]
fn a_train_makes_one_base_and_sets_up_once() {
    let scene = Scene::new("\"test \\\"$(cat made.o)\\\" = made && ! grep -qs bad parts/*\"", "");
    let count = "echo once >> OUT/ran".replace("OUT", &scene.outside.display().to_string());
    let path = scene.repo.path().join(".config/git-agent.toml");
    let settings = fs::read_to_string(path).expect("read");
    let settings = settings.replace("echo made > made.o", &format!("echo made > made.o; {count}"));
    scene.repo.write(".config/git-agent.toml", settings);
    scene.repo.commit_all("set-up that is counted");
    for (number, part) in ["one", "bad", "three"].iter().enumerate() {
        let name = format!("a{number}");
        scene.repo.agent_json(&["spawn", "-m", "Write a part", "--name", &name, "--new=parts/**"]);
        let place = scene.repo.agent_json(&["show", &name])["worktree_abspath"].clone();
        let place = PathBuf::from(place.as_str().expect("a path")).join("parts");
        fs::create_dir_all(&place).expect("made");
        fs::write(place.join(&name), format!("{part}\n")).expect("written");
        scene.repo.agent_json(&["done", &name]);
    }
    let set_up = scene.told("ran");
    let output = scene.repo.agent(&["train", "--all", "--jobs=2", "--format=json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outcomes: Vec<_> = answer["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["outcome"].as_str().expect("a word"))
        .collect();
    assert_eq!(outcomes, ["landed", "rejected", "landed"], "{answer:#}");
    let ran = answer["runs"].as_array().expect("runs").iter();
    let ran: Vec<_> = ran.filter(|run| run["duration_ms"] != 0).collect();
    let layered = ran.iter().filter(|run| run["layered"] == true).count();
    if layered == 0 && scene.spawn("other").is_none() {
        return;
    }
    assert_eq!(layered, ran.len(), "{answer:#}");
    assert_eq!(scene.told("ran"), set_up + "once\n", "{answer:#}");
    let bases = scene.repo.agent_json(&["pool", "status"])["bases"].clone();
    assert_eq!(bases.as_array().expect("bases").len(), 1, "{bases}");
}

#[test]
fn a_view_of_a_cache_of_the_user_serves_every_command() {
    let script = "store=$npm_config_store_dir; echo one >> \\\"$store/count\\\"; cat \\\"$store/count\\\" > OUT/count";
    let scene = Scene::new(&format!("\"{script}\", \"{script} && true\""), "");
    let store = scene.repo.path().join(".local/share/pnpm/store");
    fs::create_dir_all(&store).expect("made");
    let Some(_) = scene.spawn("one") else {
        return;
    };
    scene.edit("one", "echo more >> lib/b.txt");
    let report = scene.verify("one");
    let commands = report["commands"].as_array().expect("commands");
    assert!(commands.iter().all(|command| command["exit_code"] == 0), "{report:#}");
    assert_eq!(scene.told("count"), "one\none\n");
    assert!(!store.join("count").exists());
}
