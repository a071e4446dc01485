//! Locks of ours that a command behind a fence holds where it has no mount namespace, and so sees them.

use super::Fenced;
use super::namespaces::{run_in, text, without_mounts};
use crate::support::agent::{agent_command, describe};
use crate::verify::Agent;
use git_agent::domain::life::sandbox::Mode;
use git_agent::error::Code;
use git_agent::store::files::layout;
use git_agent::store::files::lock;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// All of our locks that exist for a repository, and those of an agent.
fn names(id: &str) -> Vec<String> {
    let common = [
        layout::LEDGER_LOCK,
        layout::SPAWN_LOCK,
        layout::MAIL_LOCK,
        layout::LANDING_LOCK,
        layout::LANDING_TURN,
        layout::SYNC_LOCK,
        layout::POOL_LOCK,
        layout::TICKETS_LOCK,
    ];
    let own = ["live.lock", "verify.lock", "posting.lock", "clone.lock"];
    let own = own.map(|name| format!("{}/{name}", &id[..8]));
    common.map(str::to_owned).into_iter().chain(own).collect()
}

/// A script that holds a lock and says so in a file. The process that took it is gone by then.
fn hold(path: &Path, options: &str) -> String {
    let path = path.display();
    format!("exec 9<'{path}'; flock {options} 9; touch src/held; exec sleep 1000")
}

fn wait_for(path: &Path, child: &mut Child) {
    while !path.exists() {
        assert_eq!(child.try_wait().expect("known"), None, "it holds the lock");
        crate::support::pause();
    }
}

#[test]
fn a_lock_that_is_held_behind_a_fence_is_told_of_in_time() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let fenced = fenced.without_namespaces();
    let common = fenced.agent.repo.path().join(".git");
    let held = fenced.agent.worktree.join("src/held");
    for name in names(&fenced.agent.id) {
        let path = layout::agents_dir(&common).join(&name);
        fs::write(&path, "").expect("made");
        for options in ["-x", "-s"] {
            // Without a supervisor to end it, it stays.
            let mut holder = fenced.command(&["sh", "-ec", &hold(&path, options)]);
            let mut holder = holder.spawn().expect("starts");
            wait_for(&held, &mut holder);
            let error = lock::hold(&common, &name).expect_err("held");
            assert_eq!(error.code(), Code::LockHeld, "{name}: {error}");
            let said = error.to_string();
            let process = format!("sleep (process {})", holder.id());
            assert!(said.contains(&process) && said.contains(text(&path)), "{said}");
            holder.kill().expect("killed");
            holder.wait().expect("ended");
            fs::remove_file(&held).expect("there");
            drop(lock::hold(&common, &name).expect("free"));
        }
    }
    // Who may write the lock is no command in a fence, and is waited for.
    let ours = lock::hold(&common, layout::POOL_LOCK).expect("free");
    let zero = std::time::Duration::ZERO;
    let error = lock::hold_for(&common, layout::POOL_LOCK, zero).expect_err("held");
    assert_eq!(error.code(), Code::LockTimeout);
    drop(ours);
}

/// A run in which no namespaces can be had, that holds a lock of ours.
fn holding_run(agent: &Agent, unable: &[&str], lock: &Path) -> Child {
    let script = hold(lock, "-x");
    let mut run = run_in(agent, unable, &["--sandbox=require"], &script);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut run = run.expect("starts");
    wait_for(&agent.worktree.join("src/held"), &mut run);
    run
}

#[test]
fn a_run_that_holds_a_lock_is_ended_when_another_command_waits() {
    let Some(unable) = without_mounts() else {
        return;
    };
    let unable: Vec<&str> = unable.iter().map(String::as_str).collect();
    let holder = Agent::new();
    let other = holder.repo.spawn();
    let other = other["agent_id"].as_str().expect("an id");
    let ran = holder.repo.agent(&["run", "--no-verify", other, "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
    let agents = holder.repo.path().join(".git/agents");
    let live = format!("{}/live.lock", &other[..8]);
    for (lock, verb) in [
        ("spawn.lock", &["spawn", "-m", "a task of another agent"][..]),
        ("ledger.lock", &["done", other]),
        (&live, &["run", "--no-verify", other, "--", "true"]),
        (&live, &["discard", other, "--force"]),
    ] {
        let run = holding_run(&holder, &unable, &agents.join(lock));
        let output = holder.repo.agent(verb);
        assert!(output.status.success(), "{lock}: {}", describe(&output));
        let ended = run.wait_with_output().expect("ends");
        let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!(report["ended"], "stopped", "{lock}: {report}");
        assert_eq!(report["exit_code"], 125, "{lock}: {report}");
        let shown = holder.repo.agent_json(&["show", &holder.id]);
        assert!(shown["summary"].to_string().contains("lock-held"), "{shown}");
        let held: PathBuf = holder.worktree.join("src/held");
        fs::remove_file(held).expect("there");
    }
    // One that only looks whether a lock is free holds it for a moment.
    let ours = agent_command(&holder.repo.path());
    let script = format!("for i in 1 2 3; do '{}' list; done", text(Path::new(ours.get_program())));
    let mut looks: Command = run_in(&holder, &unable, &["--sandbox=require"], &script);
    let looks = looks.output().expect("starts");
    assert!(looks.status.success(), "{}", describe(&looks));
}

/// One that an ordinary user cannot look into (prctl(2): PR_SET_DUMPABLE), as the kernel names it.
#[test]
fn a_lock_that_a_hidden_process_took_behind_a_fence_is_told_of_in_time() {
    let python = Command::new("python3").arg("--version").output();
    let is_there = python.is_ok_and(|output| output.status.success());
    let fenced = Fenced::new(Mode::Require).filter(|_| is_there);
    let Some(fenced) = fenced else {
        return;
    };
    let fenced = fenced.without_namespaces();
    let common = fenced.agent.repo.path().join(".git");
    let path = layout::agents_dir(&common).join(layout::POOL_LOCK);
    fs::write(&path, "").expect("made");
    let script = format!(
        "import ctypes, fcntl, time\n\
         lock = open('{}')\n\
         assert ctypes.CDLL(None).prctl(4, 0) == 0\n\
         fcntl.flock(lock, fcntl.LOCK_EX)\n\
         open('src/held', 'w').close()\n\
         time.sleep(1000)\n",
        text(&path)
    );
    let mut holder = fenced.command(&["python3", "-c", &script]);
    let mut holder = holder.spawn().expect("starts");
    wait_for(&fenced.agent.worktree.join("src/held"), &mut holder);
    let error = lock::hold(&common, layout::POOL_LOCK).expect_err("held");
    assert_eq!(error.code(), Code::LockHeld, "{error}");
    holder.kill().expect("killed");
    holder.wait().expect("ended");
}

/// Runs a program as a user without capabilities, where no mount namespaces can be had.
const AS_ANOTHER_USER: &str = "
import ctypes, os, sys
(told, tell), (mapped, map) = os.pipe(), os.pipe()
child = os.fork()
if child:
    os.read(told, 1)
    for name in ('uid_map', 'gid_map'):
        open(f'/proc/{child}/{name}', 'w').write('0 0 65536')
    os.write(map, b'x')
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert ctypes.CDLL(None).unshare(0x10000000) == 0
os.write(tell, b'x')
os.read(mapped, 1)
open('/proc/sys/user/max_mnt_namespaces', 'w').write('0')
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.execvp(sys.argv[1], sys.argv[1:])
";

/// Neither who took the lock nor who has it can be seen then, if one is gone and the other hides itself.
#[test]
fn a_run_that_hides_itself_with_a_lock_that_it_was_handed_is_ended() {
    let is_root = rustix::process::geteuid().is_root();
    let python = Command::new("python3").arg("--version").output();
    if !is_root || python.is_err() || without_mounts().is_none() {
        return;
    }
    let holder = Agent::new();
    let lock = holder.repo.path().join(".git/agents/spawn.lock");
    let held = holder.worktree.join("src/held");
    let all = holder.repo.path();
    let all = all.parent().expect("a directory of its own");
    let give = |user: &str| {
        let mut given = Command::new("chown");
        let given = given.args(["-R", user]).arg(all).status();
        assert!(given.expect("chown starts").success());
    };
    give("65534");
    let hold = format!(
        "import ctypes, subprocess, time\n\
         lock = open('{}')\n\
         taken = ['flock', '-x', str(lock.fileno())]\n\
         subprocess.run(taken, pass_fds=[lock.fileno()], check=True)\n\
         assert ctypes.CDLL(None).prctl(4, 0) == 0\n\
         open('src/held', 'w').close()\n\
         time.sleep(1000)\n",
        text(&lock)
    );
    // The run ends before the spawn does, so that the script ends too.
    let script = "\"$1\" run --no-verify --sandbox=require \"$2\" -- python3 -c \"$3\" > \"$4.run\" &\n\
                  until [ -e \"$4\" ]; do kill -0 $! || exit 9; done\n\
                  \"$1\" spawn -m 'a task of another agent'\n\
                  wait\n";
    let program = env!("CARGO_BIN_EXE_git-agent");
    let before = ["python3", "-c", AS_ANOTHER_USER, "sh", "-ec", script, "sh"];
    let before = before.iter().map(|word| (*word).to_owned());
    let words = before.chain([program, &holder.id, &hold, text(&held)].map(str::to_owned));
    let words: Vec<String> = words.collect();
    let mut command = crate::support::isolated(&words[0], &holder.repo.path());
    for (name, value) in agent_command(&holder.repo.path()).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.args(&words[1..]).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    give("0");
    let shown = holder.repo.agent_json(&["show", &holder.id]);
    assert!(shown["summary"].to_string().contains("lock-held"), "{shown}");
}
