//! The picture of the board in the documentation: agents of real runs on a real terminal, in the colours of the program.

use super::{BOARD, OnTerminal, TestRepo, agent_command};
use crate::docs::generated::up_to_date;
use crate::readme::recording;
use vt100::{Color, Screen};

/// Where the ages stand in a line of an agent, and how the free disk is told of, which differ from run to run.
const AGE: std::ops::Range<u16> = 52..56;
const DISK: &str = " free on disk";

fn code(color: Color) -> &'static str {
    match color {
        Color::Idx(1) => ";31",
        Color::Idx(2) => ";32",
        Color::Idx(3) => ";33",
        Color::Idx(6) => ";36",
        _ => "",
    }
}

/// The lines of a screen with the sequences that colour them.
fn coloured(screen: &Screen) -> Vec<String> {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let line = |row: u16| {
        let plain = screen.contents_between(row, 0, row, columns);
        if let Some((_, rest)) = plain.split_once(DISK) {
            return format!("\x1b[0;2m48.2 GiB{DISK}{rest}\x1b[0m");
        }
        let age = &plain.chars().skip(AGE.start.into()).take(AGE.len()).collect::<String>();
        let is_age = age.trim_start().trim_end_matches(['s', 'm']).parse::<u32>().is_ok();
        let (mut line, mut last) = (String::new(), String::new());
        for column in 0..columns {
            let cell = screen.cell(row, column).expect("a cell");
            let bold = if cell.bold() { ";1" } else { "" };
            let dim = if cell.dim() { ";2" } else { "" };
            let style = format!("\x1b[0{bold}{dim}{}m", code(cell.fgcolor()));
            if style != last {
                line.push_str(&style);
                last = style;
            }
            let text = match cell.contents() {
                _ if is_age && AGE.contains(&column) => {
                    &"  2m"[usize::from(column - AGE.start)..][..1]
                }
                "" => " ",
                text => text,
            };
            line.push_str(text);
        }
        format!("{}\x1b[0m", line.trim_end())
    };
    (0..rows).map(line).collect()
}

#[test]
fn the_picture_of_the_board_is_what_it_shows() {
    let repo = TestRepo::with_commit();
    let spawn =
        |name: &str, task: &str| repo.agent_json(&["spawn", task, "--no-bundle", "--name", name]);
    let run = |name: &str, script: &str| {
        repo.agent(&["run", name, "--", "sh", "-c", script]);
    };
    spawn("flaky-test", "Find out why the clock test fails now and then");
    repo.agent_json(&[
        "send",
        "--type=clarify",
        "--from=flaky-test",
        "--to=user",
        "--payload=context=clock",
        "--payload=question=may I change it?",
    ]);
    spawn("verbose", "Add a --verbose flag");
    run("verbose", "echo 'pub fn verbose() {}' >> src/lib.rs; echo 'Added the flag.'");
    spawn("parser", "Speed up the parser");
    run("parser", "echo 'pub fn fast() {}' > src/fast.rs; echo 'error: linking failed'; exit 101");
    spawn("docs", "Describe every option");
    let script = "echo '> cargo doc'; echo 'pub fn described() {}' > src/docs.rs; sleep 600";
    repo.agent(&["run", "docs", "--background", "--", "sh", "-c", script]);
    spawn("next", "Translate the messages");
    let mut command = agent_command(&repo.path());
    command.args(BOARD).env("TERM", "xterm-256color");
    let mut board = OnTerminal::of(command, 100, 18);
    board.until(|screen| {
        screen.contains("| > cargo doc")
            && screen.contains("1f +1 -0     ")
            && screen.contains("LATER")
    });
    let lines = coloured(board.screen.screen());
    board.press("q");
    assert_eq!(board.child.wait().expect("ends").code(), Some(0));
    assert!(repo.agent(&["stop", "docs"]).status.success());
    let picture = recording::of_screen("Five agents on the board", "git agent board", &lines);
    up_to_date("docs/board.svg", &picture);
}
