//! How the board looks: a picture of its state, in cells.

use crate::cli::out::neutral::neutral;
use crate::cli::out::render::table::{age, cut};
use crate::cli::out::render::{state_of_work, task};
use crate::cli::verbs::board::state::{BoardMode, BoardView, Page, PageKind, shown, tabs};
use crate::ops::board::{BoardGroup, BoardRow};
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red);
const WARN: Style = Style::new().fg(Color::Yellow);
const HINT: Style = Style::new().fg(Color::Cyan);

/// Where a screen is too small to be read, this is said instead.
const SMALLEST: (u16, u16) = (20, 4);

/// A line in pieces, each with its style.
type DrawnLine = Vec<(Style, String)>;

pub(super) fn draw(view: &BoardView, buffer: &mut Buffer) {
    let (width, height) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    if buffer.area.width < SMALLEST.0 || buffer.area.height < SMALLEST.1 {
        put(buffer, 0, &[(PLAIN, "the terminal is too small".to_owned())]);
        return;
    }
    // The first line says what this is, the last two what is left and which keys there are.
    let room = height - 3;
    let body = match &view.mode {
        BoardMode::Page(page) => page_lines(page, width, room),
        _ => list_lines(view, width, room),
    };
    put(buffer, 0, &title(view));
    for (index, line) in body.iter().take(room).enumerate() {
        put(buffer, index + 1, line);
    }
    put(buffer, height - 2, &[(DIM, view.report.margins.join(" · "))]);
    put(buffer, height - 1, &bottom(view, width));
}

fn put(buffer: &mut Buffer, y: usize, line: &[(Style, String)]) {
    let width = usize::from(buffer.area.width);
    let (mut x, Ok(y)) = (0, u16::try_from(y)) else {
        return;
    };
    for (style, text) in line {
        // A tab has no width that a cell could have.
        let text = neutral(text).replace('\t', "    ");
        let room = width.saturating_sub(usize::from(x));
        (x, _) = buffer.set_stringn(x, y, text, room, *style);
    }
}

fn title(view: &BoardView) -> DrawnLine {
    if let BoardMode::Page(page) = &view.mode {
        return vec![(BOLD, page.title.clone())];
    }
    let count = |group| view.report.rows.iter().filter(|row| row.group == group).count();
    let what = if view.picks { "Which agent?" } else { "git agent board" };
    let counts = format!(
        "  {} need you · {} working · {} later",
        count(BoardGroup::Needs),
        count(BoardGroup::Working),
        count(BoardGroup::Later)
    );
    vec![(BOLD, what.to_owned()), (PLAIN, counts)]
}

fn bottom(view: &BoardView, width: usize) -> DrawnLine {
    match &view.mode {
        BoardMode::Filter => {
            return vec![(BOLD, "/".to_owned()), (PLAIN, end_of(&view.filter, width - 2))];
        }
        BoardMode::Compose { resumes, text, .. } => {
            let what = if *resumes { "go on with: " } else { "answer: " };
            let text = end_of(text, width.saturating_sub(what.width() + 1));
            return vec![(BOLD, what.to_owned()), (PLAIN, text), (CHOSEN, " ".to_owned())];
        }
        _ => {}
    }
    if !view.note.is_empty() {
        return vec![(WARN, view.note.clone())];
    }
    let busy = view.busy.as_ref().map(|words| {
        let text = format!("at work: git agent {}  ", shown(words));
        (WARN, text)
    });
    let keys = match &view.mode {
        BoardMode::Page(page) => match (&page.kind, &page.text) {
            (PageKind::Ask(_), None) => "looking what it would do …  n: leave it".to_owned(),
            (PageKind::Ask(words), Some(_)) => {
                let line = format!("y: git agent {}   n: leave it", shown(words));
                return vec![(HINT, line)];
            }
            (PageKind::Tabs(_, shown), _) => {
                let names = tabs().enumerate();
                let names = names.flat_map(|(index, name)| {
                    let style = if index == *shown { CHOSEN } else { PLAIN };
                    [(style, name.to_owned()), (PLAIN, "  ".to_owned())]
                });
                let keys = (DIM, "tab: next  v m e r s d u  q: back".to_owned());
                return busy.into_iter().chain(names).chain([keys]).collect();
            }
            (PageKind::Follow(_), _) => "q: quit".to_owned(),
            (PageKind::Text, _) => "q: back".to_owned(),
        },
        _ if view.picks => "enter: this one  /: filter  esc: none".to_owned(),
        _ if !view.filter.is_empty() => format!("filter: {}  esc: all agents", view.filter),
        _ => "enter: look  v: verify  m: merge  r: reply  d: discard  ?: all keys  q: quit"
            .to_owned(),
    };
    busy.into_iter().chain([(DIM, keys)]).collect()
}

/// The end of what is typed, which is where one types.
fn end_of(text: &str, width: usize) -> String {
    let mut from = text.len();
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        from = at;
    }
    text[from..].to_owned()
}

/// The groups with their agents, so far down that the chosen one is seen.
fn list_lines(view: &BoardView, width: usize, room: usize) -> Vec<DrawnLine> {
    let rows = view.visible();
    if rows.is_empty() {
        let what = if view.report.rows.is_empty() {
            "There is no agent. To make one, run git agent spawn \"<task>\" or git agent run."
        } else {
            "No agent fits the filter."
        };
        return vec![Vec::new(), vec![(DIM, what.to_owned())]];
    }
    let mut lines: Vec<DrawnLine> = Vec::new();
    let mut chosen = 0;
    let mut group = None;
    for (index, row) in rows.iter().enumerate() {
        if group != Some(row.group) {
            let (style, heading) = match row.group {
                BoardGroup::Needs => (WARN, "NEEDS YOU"),
                BoardGroup::Working => (GOOD, "WORKING"),
                BoardGroup::Later => (DIM, "LATER"),
            };
            lines.push(vec![(style.add_modifier(Modifier::BOLD), heading.to_owned())]);
            group = Some(row.group);
        }
        let is_chosen = index == view.cursor;
        if is_chosen {
            chosen = lines.len();
        }
        let is_marked = view.marked.contains(&row.listed.agent.agent_id);
        lines.extend(row_lines(row, is_chosen, is_marked, width));
    }
    // The chosen agent stands in the middle where there is more than fits.
    let most = lines.len().saturating_sub(room);
    let from = chosen.saturating_sub(room / 2).min(most);
    lines.split_off(from)
}

fn row_lines(row: &BoardRow, is_chosen: bool, is_marked: bool, width: usize) -> [DrawnLine; 2] {
    let (agent, status) = (&row.listed.agent, &row.listed.standing);
    let mark = match (is_chosen, is_marked) {
        (true, true) => ">*",
        (true, false) => "> ",
        (false, true) => " *",
        (false, false) => "  ",
    };
    let base = if is_chosen { CHOSEN } else { PLAIN };
    let state = match agent.state {
        "waiting" => WARN,
        "failed" | "rejected" => BAD,
        "done" | "running" => GOOD,
        _ => PLAIN,
    };
    let changed = row.diff.filter(|diff| diff.files > 0).map(|diff| {
        let (files, added, gone) = (diff.files, diff.insertions, diff.deletions);
        format!("{files}f +{added} -{gone}")
    });
    let cost = agent.run.as_ref().and_then(|run| run.session.cost_usd);
    let some = |count: Option<&usize>| count.copied().filter(|count| *count > 0);
    let signs = [
        (BAD, "!", some(status.out_of_scope.known())),
        (WARN, "~", status.overlap.known().map(|overlap| overlap.agents)),
        (PLAIN, "+", some(status.uncommitted.known())),
    ];
    // The name takes what the other columns leave.
    let room = width.saturating_sub(2 + 1 + 18 + 6 + 16 + 8 + 9).clamp(12, 30);
    let name = agent.name.as_ref().unwrap_or(&agent.short_id);
    let mut line = vec![
        (base, format!("{mark}{} ", fitted(name, room))),
        (base.patch(state), fitted(&state_of_work(agent, status), 18)),
        (base, format!(" {:>4} ", age(row.seconds))),
        (base, format!("{} ", fitted(&changed.unwrap_or_default(), 15))),
        (base, fitted(&cost.map_or(String::new(), |cost| format!("${cost:.2}")), 8)),
    ];
    for (style, sign, count) in signs {
        if let Some(count) = count {
            line.push((base.patch(style), format!("{sign}{count} ")));
        }
    }
    let task = task(agent).unwrap_or_default();
    let said = row.last_line.as_deref().map(str::trim).unwrap_or_default();
    let why = row.need.map(|why| (WARN, format!("{why}: ")));
    // What was said last gets half of the line at the most, and the task the rest.
    let room = width.saturating_sub(4 + why.as_ref().map_or(0, |(_, why)| why.width()));
    let task = cut(&one_line(&task), if said.is_empty() { room } else { room / 2 });
    let left = room.saturating_sub(task.width() + 3);
    let mut below = vec![(PLAIN, "    ".to_owned())];
    below.extend(why);
    below.push((PLAIN, task));
    if !said.is_empty() {
        below.push((DIM, format!(" | {}", cut(&one_line(said), left))));
    }
    [line, below]
}

/// A text without what would take more than one line, or none.
fn one_line(text: &str) -> String {
    neutral(text).replace(['\n', '\t'], " ")
}

/// A text that takes exactly so many cells.
fn fitted(text: &str, width: usize) -> String {
    let text = cut(&one_line(text), width);
    let gap = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(gap))
}

/// As much of a page as fits, long lines folded.
fn page_lines(page: &Page, width: usize, room: usize) -> Vec<DrawnLine> {
    let Some(text) = &page.text else {
        return vec![vec![(DIM, "…".to_owned())]];
    };
    let is_diff = matches!(page.kind, PageKind::Tabs(_, 1));
    let mut lines = Vec::new();
    for line in text.lines().skip(page.scroll) {
        let style = match line.as_bytes().first() {
            Some(b'+') if is_diff => GOOD,
            Some(b'-') if is_diff => BAD,
            Some(b'@') if is_diff => HINT,
            _ => PLAIN,
        };
        lines.extend(folded(line, width).into_iter().map(|part| vec![(style, part)]));
        if lines.len() >= room {
            break;
        }
    }
    lines
}

/// A line in parts that fit; of a very long one, the beginning.
fn folded(line: &str, width: usize) -> Vec<String> {
    const MOST_PARTS: usize = 50;
    let (mut parts, mut used) = (vec![String::new()], 0);
    for c in line.replace('\t', "    ").chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width {
            if parts.len() == MOST_PARTS {
                break;
            }
            parts.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}
