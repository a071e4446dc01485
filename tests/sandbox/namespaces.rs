use super::kernel::Setting;
use super::{Fenced, beside};
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::verify::Agent;
use git_agent::domain::life::sandbox::{Landlock, Level, Mode, Namespaces};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What shows that a process is one of ours.
const MARK: &str = "git-agent-test-of-survivors";

/// A fence with namespaces, and one without.
fn both(mode: Mode) -> Option<[Setting; 2]> {
    let with = Fenced::new(mode)?;
    if with.level.namespaces == Namespaces::None {
        return None;
    }
    let without = Fenced::new(mode)?.without_namespaces();
    Some([Setting::around(with)?, Setting::around(without)?])
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn files_outside_keep_their_modes_times_owners_and_attributes() {
    let Some([with, without]) = both(Mode::Require) else {
        return;
    };
    let attacks = ["mode", "mode-of-open", "times", "owner", "attribute", "flags"];
    let agent = &with.fenced.agent;
    let files = [
        agent.repo.path().join("README.md"),
        agent.repo.path(),
        agent.repo.path().join(".git/config"),
        with.fenced.beside("out"),
    ];
    for file in &files {
        for attack in attacks {
            let works = with.refused(attack, text(file), Stdio::null);
            assert!(works, "{attack} works without a fence");
        }
    }
    let missing = without.fenced.level.missing();
    assert!(["modes", "times", "attributes"].iter().all(|one| missing.contains(one)));
    for attack in attacks {
        let output = without.attempt(true, attack, text(&files[0]), Stdio::null());
        assert!(output.status.success(), "{attack}: {}", describe(&output));
    }
}

#[test]
fn what_the_command_has_open_is_closed_to_changes_too() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    let file = with.fenced.beside("out").join("input");
    fs::write(&file, "text").expect("written");
    let input = || Stdio::from(fs::File::open(&file).expect("there"));
    let output = with.attempt(true, "mode-of-open", "/proc/self/fd/0", input());
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let mut command = with.fenced.command(&["sh", "-ec", "cat; ! chmod 777 . ../."]);
    let output = command.stdin(input()).output().expect("starts");
    assert!(output.stdout.starts_with(b"text"), "{}", describe(&output));
}

#[test]
fn its_own_files_are_its_own() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    for script in [
        "chmod 600 src/lib.rs; touch -d 2001-01-01 src/lib.rs; chmod +x src/lib.rs",
        "mv src/lib.rs moved; mv moved src/lib.rs; mkdir -p a/b; mv a/b c; rmdir a c",
        "chmod 700 \"$TMPDIR\"; echo x > \"$TMPDIR/x\"; mv \"$TMPDIR/x\" src/x; rm src/x",
        "test \"$(pwd -P)\" = \"$(readlink /proc/self/cwd)\"; test -d /proc/$$",
        "git status --porcelain; git add -A; git commit -q --allow-empty -m x",
    ] {
        let output = with.fenced.shell(script);
        assert!(output.status.success(), "{script}: {}", describe(&output));
    }
}

/// The paths of all files below the directory of all agents.
fn files_of_agents(fenced: &Fenced) -> Vec<PathBuf> {
    let directory = fenced.agent.repo.path().join(".git/agents");
    let entries = walkdir::WalkDir::new(directory).into_iter();
    let entries = entries.map(|entry| entry.expect("readable"));
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

#[test]
fn no_lock_that_others_wait_for_is_seen() {
    let Some([with, without]) = both(Mode::Require) else {
        return;
    };
    let agent = &with.fenced.agent;
    let other = agent.repo.spawn();
    let ran = agent.repo.agent(&[
        "run",
        "--no-verify",
        other["agent_id"].as_str().expect("an id"),
        "--",
        "true",
    ]);
    assert!(ran.status.success(), "{}", describe(&ran));
    agent.verify(&[]);
    let files = files_of_agents(&with.fenced);
    let locks: Vec<&PathBuf> =
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "lock")).collect();
    let has = |name: &str| locks.iter().any(|path| path.ends_with(name));
    assert!(has("ledger.lock") && has("spawn.lock") && has("live.lock"), "{locks:?}");
    for lock in &locks {
        for attack in ["lock", "read-lock", "lease"] {
            with.refused(attack, text(lock), Stdio::null);
        }
    }
    // Another agent's worktree, and what we keep of it.
    let worktree = Path::new(other["worktree_abspath"].as_str().expect("a path"));
    let own = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
    let above = own.parent().expect("the directory of all agents");
    let shown = ["added", "cache", "clone-id", "closed", "own-lines"].map(|name| above.join(name));
    let is_shown =
        |path: &&PathBuf| path.starts_with(&own) || shown.iter().any(|one| path.starts_with(one));
    let foreign = files.iter().filter(|path| !is_shown(path));
    for path in foreign.chain([&worktree.join("README.md")]) {
        let output = with.fenced.shell(&format!("test -e '{}'", path.display()));
        assert_eq!(output.status.code(), Some(1), "{}", path.display());
    }
    // A lease can be refused everywhere.
    for setting in [&with, &without] {
        let readme = agent.repo.path().join("README.md");
        assert!(setting.refused("lease", text(&readme), Stdio::null));
    }
}

#[test]
fn other_processes_keep_their_priorities_and_processors() {
    let Some(both) = both(Mode::Require) else {
        return;
    };
    for setting in &both {
        let victim = setting.victim.id().to_string();
        for attack in ["processors", "policy", "priority", "limits", "priority-of-user"] {
            let works = setting.refused(attack, &victim, Stdio::null);
            assert!(works, "{attack} works without a fence");
        }
        for allowed in ["processors", "policy"] {
            let output = setting.attempt(true, allowed, "0", Stdio::null());
            assert!(output.status.success(), "{allowed}: {}", describe(&output));
        }
    }
    // A thread of its own is named by its number.
    let output = both[0].fenced.shell("taskset -p 1 $$ > /dev/null; renice -n 5 -p $$ > /dev/null");
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn shared_memory_of_others_is_out_of_reach_where_it_can_be() {
    for (mode, reachable) in [(Mode::Require, true), (Mode::Strict, false)] {
        let Some([with, without]) = both(mode) else {
            return;
        };
        let made = with.attempt(false, "make-memory", "", Stdio::null());
        let id = String::from_utf8(made.stdout).expect("a number");
        assert!(with.refused("memory", &id, Stdio::null));
        let output = with.attempt(true, "own-memory", "", Stdio::null());
        assert!(output.status.success(), "{}", describe(&output));
        let output = without.attempt(true, "memory", &id, Stdio::null());
        assert_eq!(output.status.success(), reachable, "{}", describe(&output));
        assert!(without.fenced.level.missing().contains(&"ipc"));
        with.attempt(false, "remove-memory", &id, Stdio::null());
    }
}

/// Whether a process that was started with [`MARK`] and this word is there.
fn is_alive(word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line);
        line.contains(MARK) && line.contains(word) && !line.contains("fenced")
    })
}

#[test]
fn nothing_of_a_command_survives_it_and_its_end_is_told() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    // It left its parent and does not listen.
    let word = with.fenced.agent.id.clone();
    let stubborn = format!(
        "setsid sh -c 'trap \"\" TERM; : {MARK} {word}; touch src/ready; while :; do sleep 1000; done'"
    );
    let script = format!("{stubborn} & until test -e src/ready; do :; done; exit 7");
    let output = with.fenced.shell(&script);
    assert_eq!(output.status.code(), Some(7), "{}", describe(&output));
    assert!(!is_alive(&word));
    let output = with.fenced.shell("kill -SEGV $$");
    assert_eq!(output.status.signal(), Some(11), "{}", describe(&output));
    // Nor does it survive the helper.
    let ready = with.fenced.agent.worktree.join("src/ready");
    fs::remove_file(&ready).expect("there");
    let mut helper = with.fenced.command(&["sh", "-ec", &stubborn]).spawn().expect("starts");
    while !ready.exists() {
        assert!(helper.try_wait().expect("known").is_none(), "it works");
        crate::support::pause();
    }
    assert!(is_alive(&word));
    helper.kill().expect("killed");
    helper.wait().expect("ends");
    while is_alive(&word) {
        crate::support::pause();
    }
}

#[test]
fn only_its_own_processes_exist() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    let script = "set -- /proc/[0-9]*; test $# -le 4; test \"$(ps -o sid= -p $$ | tr -d ' ')\" = 1";
    let output = with.fenced.shell(script);
    assert!(output.status.success(), "{}", describe(&output));
}

fn run(agent: &Agent, before: &[&str], options: &[&str], script: &str) -> Output {
    run_in(agent, before, options, script).output().expect("starts")
}

/// The words before a command for which no namespaces are left, in a user namespace in which limits can be set; `None` where that cannot be
/// had, or this kernel has no fence without namespaces.
pub(super) fn without_mounts() -> Option<Vec<String>> {
    let inside = ["unshare", "--user", "--map-root-user"];
    let able = Command::new(inside[0]).args(&inside[1..]).arg("true").output();
    let is_fence = |level: &Level| level.landlock >= Landlock::Files;
    super::level().filter(is_fence).filter(|_| able.is_ok_and(|output| output.status.success()))?;
    let none = "echo 0 > /proc/sys/user/max_mnt_namespaces; exec \"$@\"";
    let words = inside.into_iter().chain(["sh", "-ec", none, "sh"]);
    Some(words.map(str::to_owned).collect())
}

/// A run of the agent, with these words before the command.
pub(super) fn run_in(agent: &Agent, before: &[&str], options: &[&str], script: &str) -> Command {
    let ours = agent_command(&agent.repo.path());
    let words: Vec<&str> =
        before.iter().copied().chain([text(Path::new(ours.get_program()))]).collect();
    let mut command = Command::new(words[0]);
    command.env_clear();
    for (name, value) in ours.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .current_dir(agent.repo.path())
        .args(&words[1..])
        .args(["run", "--no-verify", "--format=json"])
        .args(options)
        .args([&agent.id, "--", "sh", "-ec", script])
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("TMPDIR", beside(agent, "temporary"));
    command
}

fn told(output: &Output) -> Value {
    answer_of(output)
}

#[test]
fn a_run_changes_no_mode_and_says_what_is_open() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    let agent = &with.fenced.agent;
    let outside = beside(agent, "outside");
    let attack = format!(
        "! chmod 777 '{0}'; ! touch -d 2001-01-01 '{0}'; ! chmod +x '{1}/README.md'",
        outside.display(),
        agent.repo.path().display()
    );
    let before = fs::metadata(&outside).expect("there").modified().expect("a time");
    let report = told(&run(agent, &[], &["--sandbox=require"], &attack));
    assert_eq!(report["exit_code"], 0, "{report}");
    let after = fs::metadata(&outside).expect("there").modified();
    assert_eq!(after.expect("a time"), before);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    if with.fenced.level.missing().is_empty() {
        assert_eq!(report["sandbox"]["enforced"], "full", "{report}");
        assert_eq!(report["sandbox"].get("missing"), None, "{report}");
    }
}

/// In a user namespace in which ids are ours, limits can be set and all that a container can have is there.
#[test]
fn without_namespaces_a_run_says_so_and_strict_closes_what_it_can() {
    let Some(used_up) = without_mounts() else {
        return;
    };
    let used_up: Vec<&str> = used_up.iter().map(String::as_str).collect();
    let agent = Agent::of_task(TASK);
    let script = "test \"$(id -u)\" = 0; ! touch ../../../new";
    let report = told(&run(&agent, &used_up[..3], &["--sandbox=require"], script));
    assert_eq!(report["exit_code"], 0, "{report}");
    let is_all = super::level().is_some_and(|level| level.missing().is_empty());
    let enforced = if is_all { "full" } else { "landlock" };
    assert_eq!(report["sandbox"]["enforced"], enforced, "{report}");

    let report = told(&run(&agent, &used_up, &["--sandbox=require"], script));
    assert_eq!(report["exit_code"], 0, "{report}");
    let sandbox = &report["sandbox"];
    assert_eq!(sandbox["enforced"], "landlock", "{report}");
    let missing = sandbox["missing"].as_array().expect("a list");
    for open in ["modes", "times", "attributes", "locks", "ipc", "processes"] {
        assert!(missing.iter().any(|one| one == open), "{report}");
    }
    assert!(sandbox["why"].as_str().expect("why").contains("limited"), "{report}");
    let ipc = "ipcmk -M 64 > /dev/null 2>&1";
    let report = told(&run(&agent, &used_up, &["--sandbox=strict"], &format!("! {ipc}")));
    assert_eq!(report["exit_code"], 0, "{report}");
}

#[test]
fn inside_another_fence_there_are_no_namespaces_to_have() {
    let Some([with, _]) = both(Mode::Require) else {
        return;
    };
    let output = with.fenced.shell("\"$US\" fenced --probe");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let probe =
        with.fenced.unfenced(&[env!("CARGO_BIN_EXE_git-agent"), "fenced", "--probe"]).output();
    assert!(probe.expect("starts").status.success());
}
