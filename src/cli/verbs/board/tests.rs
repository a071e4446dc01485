//! The board without a terminal: keys, and pictures.

use super::draw::draw;
use super::state::{BoardMode, BoardView, KeyEffect, PageKind};
use crate::cli::out::screen::Key;
use crate::ops::agent_report::{AgentReport, LastRun, SessionReport};
use crate::ops::board::{BoardGroup, BoardReport, BoardRow};
use crate::ops::list::ListedAgent;
use crate::ops::show::DiffCountsReport;
use crate::ops::status::{Fact, OverlapCount, WorkStatus};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

fn id(number: usize) -> String {
    format!("{number:08x}-2c37-8335-8fe0-895afb72066a")
}

fn row(number: usize, name: &str, state: &'static str, group: BoardGroup) -> BoardRow {
    let agent = AgentReport {
        agent_id: id(number),
        short_id: id(number)[..8].to_owned(),
        name: Some(name.to_owned()),
        state,
        claimed_state: None,
        deferred: false,
        role: None,
        isolation: None,
        layered: false,
        parent_id: None,
        description: Some(format!("Do what {name} is for")),
        dna: None,
        branch: None,
        worktree_path: None,
        worktree_abspath: None,
        clone_id: "0001".to_owned(),
        local: true,
        base: None,
        spawn_commit: String::new(),
        created_at: String::new(),
        updated_at: String::new(),
        summary: None,
        leases: Vec::new(),
        run: None,
        irregular: Vec::new(),
        age_seconds: 0,
    };
    let mut standing = WorkStatus::default();
    standing.uncommitted = Fact::Known(number);
    let need = standing.need(&agent);
    BoardRow {
        listed: ListedAgent { agent, standing, ci: Fact::NotApplicable, warnings: Vec::new() },
        group,
        need,
        diff: Some(DiffCountsReport { files: number, insertions: 10 * number, deletions: number }),
        last_line: None,
        seconds: 61 * number as i64,
    }
}

fn with_run(mut row: BoardRow, state: &'static str) -> BoardRow {
    row.listed.agent.run = Some(LastRun {
        run: 1,
        state,
        command: "host".to_owned(),
        started_at: String::new(),
        ended_at: None,
        exit_code: None,
        ended: None,
        session: SessionReport {
            session_id: Some("s-1".to_owned()),
            cost_usd: Some(0.42),
            ..SessionReport::default()
        },
    });
    row
}

fn report() -> BoardReport {
    let mut asks = row(1, "asks", "waiting", BoardGroup::Needs);
    asks.last_line = Some("Which of the two do you want?".to_owned());
    let mut over = with_run(row(2, "over", "failed", BoardGroup::Needs), "exited");
    over.listed.standing.out_of_scope = Fact::Known(3);
    over.listed.standing.overlap = Fact::Known(OverlapCount { agents: 1, paths: 2 });
    let mut works = with_run(row(3, "works", "running", BoardGroup::Working), "running");
    works.last_line =
        Some("> cargo test --all-features in every crate of the workspace".to_owned());
    BoardReport {
        rows: vec![asks, over, works, row(4, "later", "ready", BoardGroup::Later)],
        margins: vec!["12.0 GiB free on disk".to_owned(), "jobs 1 of 4".to_owned()],
    }
}

fn picture(view: &BoardView, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(view, &mut buffer);
    let lines = buffer.content.chunks(usize::from(width)).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

fn press(view: &mut BoardView, keys: &str) -> Vec<KeyEffect> {
    let keys = keys.chars().map(|c| match c {
        '\n' => Key::Enter,
        '\t' => Key::Tab,
        '\x1b' => Key::Escape,
        c => Key::Char(c),
    });
    keys.flat_map(|key| view.keys(vec![key])).collect()
}

fn words(line: &str) -> Vec<String> {
    let line = ["1", "2", "3", "4"].iter().fold(line.to_owned(), |line, number| {
        line.replace(&format!("#{number}"), &id(number.parse().expect("a number")))
    });
    line.split(' ').map(str::to_owned).collect()
}

/// What is asked for on the page that is open.
fn asked(view: &BoardView) -> &PageKind {
    match &view.mode {
        BoardMode::Page(page) => &page.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_that_changes_something_shows_it_first_and_asks() {
    for (keys, dry, real) in [
        ("m", Some("merge --dry-run #1"), "merge #1"),
        ("jm", Some("merge --dry-run #2"), "merge #2"),
        ("d", Some("discard --dry-run #1"), "discard #1"),
        ("u", Some("undo --dry-run #1"), "undo #1"),
        ("U", Some("undo --dry-run"), "undo"),
        (" jjj t", Some("train --dry-run #1 #4"), "train #1 #4"),
        ("v", None, "verify #1"),
        ("jjs", None, "stop #3"),
        ("jrhello\n", None, "run #2 --resume --background --message=hello"),
        ("rno\n", None, "send --type=notify --from=user --to #1 --payload {\"message\":\"no\"}"),
        // The same from the pages about an agent.
        ("j\n\td", Some("discard --dry-run #2"), "discard #2"),
    ] {
        let mut view = BoardView::new(report(), false);
        let read = press(&mut view, keys).pop();
        assert_eq!(asked(&view), &PageKind::Ask(words(real)), "{keys}");
        if let Some(dry) = dry {
            let Some(KeyEffect::Read(number, read)) = read else {
                panic!("{keys}: {read:?}");
            };
            assert_eq!(read, words(dry), "{keys}");
            // Before it is known what would happen, it cannot be agreed to.
            assert_eq!(press(&mut view, "y"), []);
            view.answered(number, true, "would undo op-9\n".to_owned());
        }
        // The operation that was shown is undone, whichever is the newest by then.
        let real = if real.starts_with("undo") { "undo op-9" } else { real };
        // A paste that the terminal does not mark is no agreement, and neither is any other key.
        assert_eq!(view.keys(vec![Key::Char('y'), Key::Char('y')]), [], "{keys}");
        assert_eq!(view.keys(vec![Key::Paste("y".to_owned())]), [], "{keys}");
        assert_eq!(press(&mut view, "jkY"), [], "{keys}");
        assert_eq!(press(&mut view, "y"), [KeyEffect::Do(words(real))], "{keys}");
        assert_eq!(view.busy, Some(words(real)));
        assert!(matches!(view.mode, BoardMode::List));
        // One after the other.
        press(&mut view, "v");
        assert_eq!(press(&mut view, "y"), []);
        view.done(true, "it was done".to_owned());
        assert!(view.busy.is_none());
        assert_eq!(asked(&view), &PageKind::Text);
    }
}

#[test]
fn what_is_refused_is_not_agreed_to() {
    let mut view = BoardView::new(report(), false);
    let Some(KeyEffect::Read(number, _)) = press(&mut view, "m").pop() else {
        panic!("nothing was asked");
    };
    view.answered(number + 1, true, "of another page".to_owned());
    assert_eq!(press(&mut view, "y"), []);
    view.answered(number, false, "error[dirty]: no".to_owned());
    assert_eq!(press(&mut view, "y"), []);
    assert_eq!(asked(&view), &PageKind::Text);
    press(&mut view, "q");
    assert!(matches!(view.mode, BoardMode::List));
    // `n` and Esc leave it.
    for leave in ["n", "\x1b", "q"] {
        press(&mut view, "v");
        assert_eq!(press(&mut view, leave), []);
        assert!(matches!(view.mode, BoardMode::List), "{leave}");
    }
    // Nothing runs, and nothing is marked.
    for key in ["s", "t"] {
        assert_eq!(press(&mut view, key), []);
        assert!(!view.note.is_empty());
    }
}

#[test]
fn the_pages_about_an_agent_are_turned_and_follow_it() {
    let mut view = BoardView::new(report(), false);
    let commands = ["show #1", "diff #1", "show --output #1", "show --log #1", "inbox --agent #1"];
    let mut effects = press(&mut view, "\n");
    for expected in commands.into_iter().chain(["show #1"]) {
        let Some(KeyEffect::Read(number, read)) = effects.pop() else {
            panic!("{expected}");
        };
        assert_eq!(read, words(expected));
        view.answered(number, true, "a\nb\nc".to_owned());
        effects = press(&mut view, "\t");
    }
    // It is read again when the agent did something, and not else.
    assert_eq!(view.looked(report()), None);
    let mut changed = report();
    changed.rows[0].last_line = Some("done".to_owned());
    assert!(
        matches!(view.looked(changed), Some(KeyEffect::Read(_, read)) if read == words("diff #1"))
    );
    assert_eq!(press(&mut view, "e"), [KeyEffect::Lend(words("enter #1"))]);
    press(&mut view, "q");
    assert_eq!(press(&mut view, "q"), [KeyEffect::Quit]);
    assert_eq!(view.keys(vec![Key::Ctrl('z')]), [KeyEffect::Stop]);
    assert_eq!(view.keys(vec![Key::Ctrl('c')]), [KeyEffect::Quit]);
}

#[test]
fn the_choice_stays_with_its_agent() {
    let mut view = BoardView::new(report(), false);
    press(&mut view, "jj");
    let chosen = |view: &BoardView| view.selected().map(|row| row.listed.agent.agent_id.clone());
    assert_eq!(chosen(&view), Some(id(3)));
    let mut moved = report();
    moved.rows.rotate_right(1);
    view.looked(moved);
    assert_eq!(chosen(&view), Some(id(3)));
    // Where it is gone, the place stays.
    let mut gone = report();
    gone.rows.truncate(2);
    view.looked(gone);
    assert_eq!(chosen(&view), Some(id(2)));
    view.looked(BoardReport::default());
    assert_eq!(chosen(&view), None);
    assert_eq!(press(&mut view, "mdvse\n"), []);
    view.looked(report());
    // The filter knows names, states and tasks.
    for (filter, count) in [("WORKS", 1), ("failed", 1), ("is for", 4), ("nothing", 0)] {
        press(&mut view, &format!("/{filter}\n"));
        assert_eq!(view.visible().len(), count, "{filter}");
        press(&mut view, "\x1b");
        assert_eq!(view.visible().len(), 4);
    }
}

#[test]
fn who_needs_a_person_now_is_told_once() {
    let mut view = BoardView::new(report(), false);
    let before = view.report.clone();
    assert_eq!(view.new_needs(&before), []);
    let mut changed = report();
    changed.rows[2] = row(3, "works", "done", BoardGroup::Needs);
    view.looked(changed);
    let expected = ("00000003 works".to_owned(), "its work is finished and not judged");
    assert_eq!(view.new_needs(&before), [expected]);
    assert_eq!(crate::cli::out::ui::bell("a\x1b\x07;b é"), "\x1b]9;git agent: a;b \x1b\\\x07");
}

#[test]
fn an_agent_is_picked() {
    let mut view = BoardView::new(report(), true);
    assert!(picture(&view, 80, 24).starts_with("Which agent?"));
    // Nothing can be done there.
    assert_eq!(press(&mut view, "mdvsu"), []);
    assert_eq!(press(&mut view, "j\n"), [KeyEffect::Quit]);
    assert_eq!(view.picked, Some(id(2)));
    let mut view = BoardView::new(report(), true);
    assert_eq!(press(&mut view, "\x1b"), [KeyEffect::Quit]);
    assert_eq!(view.picked, None);
}

#[test]
fn a_megabyte_that_is_pasted_is_one_line_of_a_bounded_text() {
    let mut view = BoardView::new(report(), false);
    let paste = || vec![Key::Paste("dy\n日".repeat(1 << 18))];
    assert_eq!(view.keys(paste()), []);
    assert!(matches!(view.mode, BoardMode::List));
    press(&mut view, "r");
    assert_eq!(view.keys(paste()), []);
    let BoardMode::Compose { text, .. } = &view.mode else {
        panic!("{:?}", view.mode);
    };
    assert!(text.len() <= 16 << 10 && !text.contains('\n'));
    assert_eq!(picture(&view, 80, 24).lines().count(), 24);
    // The same without the terminal's marks: letter by letter, all at once.
    let mut view = BoardView::new(report(), false);
    let keys = "dymyvyuyUy\n".repeat(10_000);
    let keys = keys.chars().map(|c| if c == '\n' { Key::Enter } else { Key::Char(c) });
    let effects = view.keys(keys.collect());
    assert!(effects.iter().all(|effect| matches!(effect, KeyEffect::Read(..))));
}

#[test]
fn pictures() {
    let mut view = BoardView::new(report(), false);
    press(&mut view, "j ");
    insta::assert_snapshot!("board_80x24", picture(&view, 80, 24));
    insta::assert_snapshot!("board_120x40", picture(&view, 120, 40));
    press(&mut view, "v");
    insta::assert_snapshot!("board_asks", picture(&view, 80, 12));
    press(&mut view, "n?");
    insta::assert_snapshot!("board_help", picture(&view, 80, 24));
    assert_eq!(picture(&view, 10, 3).trim(), "the termin");
}

#[test]
fn two_hundred_agents_scroll_and_hostile_names_stay_in_their_cells() {
    let hostile = "a\x1b[2J\u{202e}b\u{200d}日本語👩‍👩‍👧\t\r\nc";
    let rows = (0..200).map(|number| {
        let mut row = row(number, hostile, "ready", BoardGroup::Later);
        row.last_line = Some(hostile.repeat(20));
        row
    });
    let report = BoardReport { rows: rows.collect(), margins: vec![hostile.to_owned()] };
    let mut view = BoardView::new(report, false);
    press(&mut view, "G");
    for (width, height) in [(20, 4), (33, 9), (80, 24), (300, 100)] {
        let picture = picture(&view, width, height);
        assert!(!picture.contains(['\x1b', '\u{202e}', '\t', '\r']), "{picture:?}");
        assert_eq!(picture.lines().count(), usize::from(height));
        assert!(picture.contains('>'), "the chosen one is seen: {picture}");
    }
}
