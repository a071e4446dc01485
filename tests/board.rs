//! The board on a terminal of the test's own: drawn, used key by key, and gone without a trace.

/// The picture of it in the documentation.
mod picture;

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::terminal::OnTerminal;
use crate::support::{TestRepo, death, signing};
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::board::{BoardRow, BoardWatch};
use git_agent::ops::list::ListOptions;
use rustix::process::{Signal, WaitOptions, waitpid};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

const BOARD: &[&str] = &["board", "--interval=1s"];

/// A repository with an agent whose work was accepted.
fn with_accepted(name: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    let id = repo.agent_json(&["spawn", "Add a file", "--no-bundle", "--name", name]);
    let worktree = id["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/new.rs"), "// new\n").expect("written");
    repo.agent_json(&["done", name]);
    let verdict = repo.agent_json(&["verify", name, "--record"]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    repo
}

#[test]
fn it_draws_redraws_and_leaves() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=fixer"]);
    let mut board = OnTerminal::start(&repo, &["list", "--watch", "--interval=0.1"], 80, 24);
    board.until_sent("\x1b[?1049h");
    board.until(|screen| screen.contains("LATER") && screen.contains("fixer"));
    assert!(!board.echoes());
    repo.agent_json(&["done", "fixer"]);
    // Nobody reads its work before a person looks: the bell rings.
    board.until(|screen| screen.contains("NEEDS YOU") && screen.contains("1 need you"));
    board.until_sent("]9;git agent: ");
    repo.spawn_task(TASK, &["--name=second"]);
    board.until(|screen| screen.contains("second"));
    board.resized(10, 44);
    board.signal(Signal::WINCH);
    board.until_sent("\x1b[2J");
    board.until(|screen| screen.contains("second") && screen.lines().all(|line| line.len() <= 60));
    board.signal(Signal::INT);
    board.until_sent("\x1b[?1049l");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
    assert!(board.echoes());
}

#[test]
fn every_way_out_leaves_the_terminal_as_it_was() {
    let repo = TestRepo::with_commit();
    let ways: [(&str, Option<Signal>); 6] = [
        ("q", None),
        ("\x03", None),
        ("", Some(Signal::TERM)),
        ("", Some(Signal::HUP)),
        ("", Some(Signal::INT)),
        ("", Some(Signal::QUIT)),
    ];
    for (keys, signal) in ways {
        let mut board = OnTerminal::start(&repo, BOARD, 80, 24);
        let before = board.usual_modes.clone();
        board.until(|screen| screen.contains("There is no agent"));
        assert_ne!(board.modes(), before);
        board.press(keys);
        if let Some(signal) = signal {
            board.signal(signal);
        }
        assert_eq!(board.child.wait().expect("ends").code(), Some(0), "{keys:?} {signal:?}");
        assert_eq!(board.modes(), before, "{keys:?} {signal:?}");
        board.until_sent("\x1b[?2004l\x1b[?25h\x1b[?1049l");
    }
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_it_goes_on() {
    let repo = TestRepo::with_commit();
    let mut board = OnTerminal::start(&repo, BOARD, 80, 24);
    let before = board.usual_modes.clone();
    board.until(|screen| screen.contains("There is no agent"));
    for _ in 0..2 {
        board.press("\x1a");
        let stopped = waitpid(Some(board.pid()), WaitOptions::UNTRACED).expect("waited");
        assert!(stopped.is_some_and(|(_, status)| status.stopped()));
        assert_eq!(board.modes(), before);
        board.until_sent("\x1b[?1049l");
        board.signal(Signal::CONT);
        board.until_sent("\x1b[?1049h");
        board.until(|screen| screen.contains("There is no agent"));
        assert_ne!(board.modes(), before);
    }
    board.press("q");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn work_is_judged_landed_and_taken_back() {
    let repo = with_accepted("fixer");
    let mut board = OnTerminal::start(&repo, BOARD, 100, 30);
    board.until(|screen| screen.contains("its work is accepted and has not landed"));
    board.press("v");
    board.until(|screen| screen.contains("y: git agent verify"));
    board.press("y");
    board.until(|screen| screen.contains("accepted") && screen.contains("q: back"));
    board.press("q");
    // It says what would land, and nothing has.
    let before = repo.git(["rev-parse", "main"]);
    board.press("m");
    board.until(|screen| screen.contains("would merge") && screen.contains("y: git agent merge"));
    assert_eq!(repo.git(["rev-parse", "main"]), before);
    board.press("n");
    board.until(|screen| screen.contains("NEEDS YOU"));
    board.press("m");
    board.until(|screen| screen.contains("y: git agent merge"));
    board.press("y");
    board.until(|screen| screen.contains("merged ") && screen.contains("q: back"));
    assert_eq!(repo.git(["show", "main:src/new.rs"]).trim(), "// new");
    board.press("q");
    board.until(|screen| screen.contains("There is no agent"));
    board.press("U");
    board.until(|screen| screen.contains("would undo"));
    board.press("y");
    board.until(|screen| screen.contains("undone ") && screen.contains("q: back"));
    assert_eq!(repo.git(["rev-parse", "main"]), before);
    board.press("q");
    // The same as a train of what is marked.
    board.until(|screen| screen.contains("NEEDS YOU"));
    board.press(" ");
    board.until(|screen| screen.contains(">*fixer"));
    board.press("t");
    board.until(|screen| screen.contains("y: git agent train"));
    board.press("y");
    board.until(|screen| screen.contains("q: back") && !screen.contains("at work"));
    assert_eq!(repo.git(["show", "main:src/new.rs"]).trim(), "// new");
    board.press("qq");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn agents_are_looked_at_entered_answered_stopped_and_discarded() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "Add a file", "--name=fixer"]);
    let command = ["run", "fixer", "--background", "--", "sh", "-c", "echo at it; sleep 600"];
    assert!(repo.agent(&command).status.success());
    let mut board = OnTerminal::start(&repo, BOARD, 100, 40);
    board.until(|screen| screen.contains("WORKING") && screen.contains("| at it"));
    board.press("\r");
    board.until(|screen| screen.contains("Agent ID:"));
    board.press("\t\t");
    board.until(|screen| screen.contains("at it") && !screen.contains("Agent ID:"));
    board.press("\t");
    board.until(|screen| screen.contains("EVENT"));
    board.press("\t");
    board.until(|screen| screen.contains("No messages in queue"));
    board.press("qs");
    board.until(|screen| screen.contains("y: git agent stop"));
    board.press("y");
    board.until(|screen| screen.contains("run 1 of") && screen.contains("q: back"));
    board.press("q");
    board.until(|screen| screen.contains("failed"));
    board.press("rplease");
    board.until(|screen| screen.contains("answer: please"));
    board.press("\r");
    board.until(|screen| screen.contains("y: git agent send"));
    board.press("y");
    board.until(|screen| screen.contains("sent successfully"));
    let inbox = repo.agent_json(&["inbox", "--agent=fixer"]);
    assert!(inbox.to_string().contains("please"), "{inbox:#}");
    board.press("qe");
    board.until_sent("\x1b[?1049l");
    // A shell has the terminal until it ends.
    board.press("echo in; pwd; exit\r");
    board.until_sent("\x1b[?1049h");
    board.until(|screen| screen.contains("NEEDS YOU"));
    board.press("d");
    board.until(|screen| screen.contains("would discard"));
    board.press("y");
    board.until(|screen| screen.contains("to have it back"));
    assert_eq!(repo.git(["branch", "--list", "agent/*"]), "");
    board.press("qq");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn work_that_conflicts_with_what_landed_needs_a_person() {
    let repo = TestRepo::with_commit();
    for name in ["first", "second", "third"] {
        let answer = repo.agent_json(&["spawn", "Change it", "--no-bundle", "--name", name]);
        let worktree = answer["worktree_abspath"].as_str().expect("a path");
        // The third one changes what the others leave alone. None of it is committed.
        let file = if name == "third" { "new.rs" } else { "lib.rs" };
        std::fs::write(format!("{worktree}/src/{file}"), format!("// {name}\n")).expect("written");
        repo.agent_json(&["done", name]);
    }
    let ctx = death::ctx_with(&repo.path(), Seams::real());
    let mut watch = BoardWatch::new(&ctx, ListOptions::default());
    let mut needs = || -> Vec<(String, &str)> {
        let rows = watch.look().expect("a look").rows.into_iter();
        let need = |row: BoardRow| Some((row.listed.agent.name?, row.need?));
        rows.filter_map(need).collect()
    };
    let objects = || repo.git(["count-objects"]);
    let finished = "its work is finished and not judged";
    let named = |name: &str, why| (name.to_owned(), why);
    assert_eq!(needs(), ["first", "second", "third"].map(|name| named(name, finished)));
    repo.agent_json(&["merge", "first"]);
    let before = objects();
    let conflict = "its work conflicts with what has landed";
    assert_eq!(needs(), [named("second", conflict), named("third", finished)]);
    assert_eq!(needs(), [named("second", conflict), named("third", finished)]);
    assert_eq!(objects(), before, "looking adds nothing to the repository");
    let page = repo.agent(&["report", "--html=-"]);
    let page = String::from_utf8(page.stdout).expect("UTF-8");
    assert_eq!(page.matches(conflict).count(), 1);
    // As git merges them.
    let merged = repo.agent(&["merge", "second", "--now"]);
    assert_eq!(merged.status.code(), Some(3), "{}", describe(&merged));
    repo.agent_json(&["merge", "third"]);
    assert_eq!(needs(), [named("second", conflict)]);
}

#[test]
fn what_an_agent_changed_is_counted_again_when_it_says_something() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "Change it", "--name=talker"]);
    let script = "for n in 1 2; do echo // $n >> src/lib.rs; echo said $n; until [ -e src/go-$n ]; do sleep 0.05; done; done";
    let run = repo.agent(&["run", "talker", "--background", "--", "sh", "-c", script]);
    assert!(run.status.success(), "{}", describe(&run));
    let path = repo.agent_json(&["path", "talker"])["worktree_abspath"].clone();
    let worktree = std::path::PathBuf::from(path.as_str().expect("a path"));
    let ctx = death::ctx_with(&repo.path(), Seams::real());
    let mut watch = BoardWatch::new(&ctx, ListOptions::default());
    let mut until = |said: &str, insertions: usize| loop {
        let row = watch.look().expect("a look").rows.remove(0);
        let counted = row.diff.is_some_and(|diff| diff.insertions == insertions);
        if counted && row.last_line.as_deref() == Some(said) {
            break;
        }
        crate::support::pause();
    };
    until("said 1", 1);
    // The file lies deep enough that neither the index nor the top of the worktree tells.
    std::fs::write(worktree.join("src/go-1"), "").expect("written");
    until("said 2", 2);
    std::fs::write(worktree.join("src/go-2"), "").expect("written");
    repo.agent_json(&["wait", "talker"]);
}

#[test]
fn a_program_that_asks_on_the_terminal_has_it_for_itself() {
    let repo = with_accepted("fixer");
    let keys = signing::set_up(&repo);
    repo.git(["config", "commit.gpgSign", "true"]);
    let mut board = OnTerminal::start(&repo, BOARD, 100, 30);
    board.until(|screen| screen.contains("NEEDS YOU"));
    let terminal = format!("/proc/{}/fd/0", board.child.id());
    let terminal = std::fs::read_link(terminal).expect("a terminal");
    // As ssh-keygen asks for the passphrase of a key.
    let asks = keys.join("asks");
    let (heard, terminal) = (keys.join("heard"), terminal.display());
    let script = format!(
        "#!/bin/sh\nheard={}\n[ -e $heard ] || {{ printf 'Passphrase: ' > {terminal}; read word < {terminal}; echo \"$word\" > $heard; }}\n\
         exec ssh-keygen \"$@\"\n",
        heard.display()
    );
    std::fs::write(&asks, script).expect("written");
    std::fs::set_permissions(&asks, Permissions::from_mode(0o755)).expect("set");
    repo.git(["config", "gpg.ssh.program", asks.to_str().expect("UTF-8")]);
    board.press("m");
    board.until(|screen| screen.contains("y: git agent merge"));
    board.press("y");
    board.until_sent("\x1b[?1049l");
    board.until_sent("Passphrase: ");
    // The letters are keys of the board, too.
    board.press("quddy\r");
    board.until_sent("\x1b[?1049h");
    board.until(|screen| screen.contains("merged ") && screen.contains("q: back"));
    let heard = std::fs::read_to_string(heard).expect("asked");
    assert_eq!(heard, "quddy\n");
    board.press("qq");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn without_colours_it_shows_the_same() {
    let repo = with_accepted("fixer");
    for no_color in ["", "1"] {
        let mut command = agent_command(&repo.path());
        command.args(BOARD).env("NO_COLOR", no_color).env("TERM", "xterm-256color");
        let mut board = OnTerminal::of(command, 80, 24);
        board.until(|screen| screen.contains("NEEDS YOU") && screen.contains("q: quit"));
        board.press("q");
        assert_eq!(board.child.wait().expect("ends").code(), Some(0));
        board.until_sent("\x1b[?1049l");
        let sent = board.sent();
        // The heading of those who need a person is yellow.
        let is_coloured = sent.contains("[38;5;3;49m");
        assert_eq!(is_coloured, no_color.is_empty(), "{sent:?}");
    }
}

#[test]
fn what_is_pasted_is_no_command() {
    let repo = with_accepted("fixer");
    let branch = repo.git(["branch", "--list", "agent/*"]);
    let main = repo.git(["rev-parse", "main"]);
    let mut board = OnTerminal::start(&repo, BOARD, 80, 24);
    board.until(|screen| screen.contains("NEEDS YOU"));
    let text = "dy\rmy\r".repeat(1 << 18);
    board.press(&format!("\x1b[200~{text}\x1b[201~"));
    board.press("?");
    board.until(|screen| screen.contains("What changes something"));
    board.press("q");
    // A terminal that does not mark what is pasted.
    board.press(&text[..1 << 16]);
    board.press("\x03");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
    assert_eq!(repo.git(["branch", "--list", "agent/*"]), branch);
    assert_eq!(repo.git(["rev-parse", "main"]), main);
}

#[test]
fn hostile_texts_stay_texts() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=fixer"]);
    let command = "printf '\\033[2J\\033]0;owned\\007\\342\\200\\256日本 said\\r'";
    repo.agent(&["run", "fixer", "--", "sh", "-c", command]);
    let mut board = OnTerminal::start(&repo, BOARD, 180, 24);
    board.until(|screen| screen.contains("fixer") && screen.contains("said"));
    board.press("\r");
    board.until(|screen| screen.contains("Agent ID:"));
    board.press("\t\t");
    board.until(|screen| screen.contains("said") && !screen.contains("Agent ID:"));
    board.press("qq");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
    assert!(!board.sent().contains("\x1b]0;") && !board.sent().contains('\u{202e}'));
}

#[test]
fn the_inbox_is_followed() {
    let repo = TestRepo::with_commit();
    let mut inbox = OnTerminal::start(&repo, &["inbox", "--watch"], 80, 24);
    inbox.until(|screen| screen.contains("q: quit"));
    let payload = r#"{"message": "look here"}"#;
    repo.agent_json(&["send", "--type=notify", "--from=b", "--to=user", "--payload", payload]);
    inbox.until(|screen| screen.contains("Messages for user: 1"));
    inbox.press("q");
    assert_eq!(inbox.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn a_verb_without_its_agent_lets_a_person_pick() {
    let repo = TestRepo::with_commit();
    let id = repo.spawn_task(TASK, &["--name=fixer"])["agent_id"].to_string();
    let mut path = OnTerminal::start(&repo, &["show"], 80, 24);
    path.until(|screen| screen.contains("Which agent?") && screen.contains("fixer"));
    path.press("\r");
    assert_eq!(path.child.wait().expect("ends").code(), Some(0));
    path.until(|screen| screen.contains(id.trim_matches('"')));
    for (arguments, keys) in
        [(&["show"][..], "\x1b"), (&["show", "--no-pick"], ""), (&["show", "--format=json"], "")]
    {
        let mut none = OnTerminal::start(&repo, arguments, 80, 24);
        if !keys.is_empty() {
            none.until(|screen| screen.contains("Which agent?"));
            none.press(keys);
        }
        assert_eq!(none.child.wait().expect("ends").code(), Some(2));
        assert!(none.echoes());
    }
    // A pipe picks nothing.
    assert_eq!(repo.agent(&["show"]).status.code(), Some(2));
}

#[test]
fn without_a_terminal_it_names_what_to_use_instead() {
    let repo = TestRepo::with_commit();
    for (arguments, instead) in [
        (&["board"][..], "git agent list --format ndjson"),
        (&["list", "--watch"], "git agent list --format ndjson"),
        (&["list", "--watch", "--format=json"], "git agent list --format ndjson"),
        (&["inbox", "--watch"], "git agent receive --wait"),
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(instead), "{error}");
        assert!(output.stdout.is_empty());
    }
}
