//! Locks of other processes, links in the place of worktrees, and text that a terminal would obey.

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::{TestRepo, isolated};
use crate::verify::Agent;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

fn spawned(repo: &TestRepo) -> Output {
    repo.agent(&["spawn", &repo.task_file(TASK)])
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).expect("readable").next().is_none()
}

#[test]
fn f15_a_tracked_symlink_leads_no_worktree_out_of_the_repository() {
    for link in [".claude", ".claude/worktrees"] {
        let repo = TestRepo::with_commit();
        let outside = repo.path().with_file_name("outside");
        fs::create_dir(&outside).expect("made");
        let place = repo.path().join(link);
        fs::create_dir_all(place.parent().expect("a parent")).expect("made");
        symlink(&outside, &place).expect("linked");
        repo.commit_all("a link");

        let output = spawned(&repo);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("error[path-invalid]"), "{said}");
        assert!(is_empty(&outside), "{link}");

        // The configuration may name that very place.
        let named = outside.to_str().expect("UTF-8");
        repo.git(["config", "agent.worktreeDir", named]);
        let output = spawned(&repo);
        assert!(output.status.success(), "{}", describe(&output));
        assert!(!is_empty(&outside), "{link}");
    }
}

#[test]
fn f17_a_landing_never_takes_the_lock_of_a_transaction_that_takes_its_time() {
    let agent = Agent::new();
    agent.write("src/new.rs", "fn new() {}\n");
    agent.commit("work");
    let repo = &agent.repo;
    let (main, first) = (repo.git(["rev-parse", "main"]), "refs/heads/main");
    repo.git(["config", "core.filesRefLockTimeout", "300"]);
    let mut command = isolated("git", &repo.path());
    command.args(["update-ref", "--stdin"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut transaction = command.spawn().expect("git starts");
    let mut orders = transaction.stdin.take().expect("a pipe");
    let next = repo.commit_all("meanwhile");
    repo.git(["reset", "--quiet", "--hard", &main]);
    writeln!(orders, "start\nupdate {first} {next} {main}\nprepare").expect("written");
    let mut answers = BufReader::new(transaction.stdout.take().expect("a pipe")).lines();
    let prepared = answers.find(|line| line.as_ref().is_ok_and(|line| line == "prepare: ok"));
    assert!(prepared.is_some());
    let lock = repo.path().join(".git").join(format!("{first}.lock"));
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = File::options().append(true).open(&lock);
    file.and_then(|file| file.set_modified(long_ago)).expect("aged");

    let output = repo.agent(&["merge", &agent.id]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("hint: "), "{said}");
    assert!(lock.exists(), "{said}");

    writeln!(orders, "commit").expect("written");
    drop(orders);
    assert!(transaction.wait().expect("ends").success());
    assert_eq!(repo.git(["rev-parse", "main"]), next);
}

/// What a terminal obeys: the direction turned around, a title, an emptied screen, hidden text, a byte of C1.
const OBEYED: [&str; 5] = ["\u{202e}", "\x1b]0;t\x07", "\x1b[2J", "\x1b[8m", "\u{9b}1m"];

#[test]
fn f20_no_verb_prints_what_a_terminal_obeys() {
    let agent = Agent::new();
    let poison = OBEYED.concat();
    agent.write(&format!("src/{poison}.rs"), "fn f() {}\n");
    agent.write(&format!("docs/{poison}.md"), "text\n");
    let tip = agent.commit(&format!("subject {poison}"));
    let range = format!("main..{tip}");
    agent.write(&format!("src/{poison}-uncommitted.rs"), "fn g() {}\n");
    let id = agent.id.as_str();
    let message = format!("summary {poison}");
    let verbs: &[&[&str]] = &[
        &["fail", id, "--reason", &message],
        &["verify", id],
        &["check", id, "--range", &range],
        &["check", id, "--worktree"],
        &["list"],
        &["show", id],
        &["log", id],
        &["tree"],
        &["diff", id, "--name-only"],
        &["overlap"],
        &["report"],
        &["report", "--html", "-"],
        &["doctor"],
        &["merge", id],
        &["commit", id, "-m", &message],
        &["show", &poison],
        &["discard", id, "--dry-run"],
        &["gc", "--dry-run"],
        &["discard", id],
        &["rescue", id, "--branch", &poison],
    ];
    for verb in verbs {
        for format in [&[][..], &["--format=json"]] {
            let mut command = agent_command(&agent.repo.path());
            let output = command.args(*verb).args(format).output().expect("starts");
            for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                let text = String::from_utf8_lossy(bytes);
                let obeyed = text
                    .chars()
                    .find(|c| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}');
                assert_eq!(obeyed, None, "{verb:?} {format:?} {stream}: {text:?}");
            }
        }
    }
    // An agent without a worktree tells as much.
    let shared = agent.repo.spawn_task(SHARED_TASK, &[]);
    let id = shared["agent_id"].as_str().expect("an id");
    let output = agent.repo.agent(&["done", id, "--summary", &message]);
    let text = describe(&output);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text:?}");
}

/// What a terminal obeys: a title, hidden text, a changed reading direction, a cleared screen.
const SPOKEN: &str = "\x1b]0;title\x07\x1b[8mhidden\u{202e}\x1b[2J\rend";

/// Runs a line of `sh`, in which `$ga` is the program, in a terminal, and gives what that is sent.
fn in_a_terminal(agent: &Agent, line: &str) -> String {
    let output = isolated("script", &agent.repo.path())
        .args(["-qec", line, "/dev/null"])
        .env("ga", env!("CARGO_BIN_EXE_git-agent"))
        .env("TERM", "xterm")
        .env("GIT_PAGER", "cat")
        .stdin(Stdio::null())
        .output()
        .expect("script starts");
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

#[test]
fn f20_a_terminal_obeys_neither_a_diff_nor_a_run() {
    let agent = Agent::new();
    agent.write("src/two.rs", format!("// {SPOKEN}\n"));
    agent.write(".agent/say", SPOKEN);
    let id = &agent.id;
    let run = format!(
        "\"$ga\" run {id} --sandbox=off --no-verify -- sh -c 'cat .agent/say; cat .agent/say >&2'"
    );
    for line in [format!("\"$ga\" diff {id}"), run, format!("\"$ga\" logs {id}")] {
        let shown = in_a_terminal(&agent, &line);
        for obeyed in ["\x1b]", "\x1b[8m", "\u{202e}", "\x1b[2J", "\r"] {
            assert!(!shown.contains(obeyed), "{line}: {obeyed:?} in {shown:?}");
        }
        assert!(shown.contains("hidden\\u202e"), "{line}: {shown:?}");
    }
    // Git's own shows it all, and colours of git's stay.
    let tree = agent.repo.agent_json(&["diff", id])["tree"].clone();
    let tree = tree.as_str().expect("a tree");
    let plain = in_a_terminal(&agent, &format!("git diff main {tree}"));
    assert!(plain.contains("\x1b[8mhidden"), "{plain:?}");
    let ours = in_a_terminal(&agent, &format!("\"$ga\" diff {id}"));
    assert!(ours.contains("\x1b[32m+"), "{ours:?}");
    // A pipe gets what git writes.
    let piped = agent.repo.agent(&["diff", id]);
    assert!(String::from_utf8_lossy(&piped.stdout).contains(SPOKEN));
}
