//! What the board shows and what a key does to it, without a terminal: an event changes the state and may ask for
//! an effect.
//!
//! Whatever changes something goes the same way: its dry run, or a sentence where it has none, fills a page; `y` alone then
//! does it. All of it is the command that a person would type, so that the board can do nothing that a verb does not.

use crate::cli::out::render::handle;
use crate::cli::out::screen::Key;
use crate::ops::board::{BoardGroup, BoardReport, BoardRow};
use serde_json::json;
use std::collections::BTreeSet;

/// The most characters of a text that is typed or pasted.
const LONGEST_TEXT: usize = 16 << 10;

/// How far a page moves by a page key.
const JUMP: usize = 10;

pub(super) const HELP: &str = "\
arrows, j k, g G     move
enter                look at the agent; tab, h and l turn the pages
/                    filter by name, state and task; esc ends it
space                mark, for t

v                    verify
m                    merge
t                    land the marked agents as a train
r                    answer an agent, or go on with an ended session
e                    enter: a shell in the agent's worktree
s                    stop its run
d                    discard
u                    undo what was done last to the agent
U                    undo what was done last of all
ctrl-z, q            stop, quit

What changes something is shown before it is done, and asks.

! paths out of scope   ~ agents that changed the same paths   + not committed";

/// The pages about one agent: their names and their commands.
const TABS: [(&str, &[&str]); 5] = [
    ("overview", &["show"]),
    ("diff", &["diff"]),
    ("output", &["show", "--output"]),
    ("log", &["show", "--log"]),
    ("messages", &["inbox", "--agent"]),
];

/// A command of ours, as its words after `git agent`.
pub(super) type Words = Vec<String>;

/// What the state asks of its surroundings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// Go.
    Quit,
    /// Run a command that changes nothing, for the page of this number.
    Read(u64, Words),
    /// Run a command that changes something.
    Do(Words),
    /// Give the terminal to a command.
    Lend(Words),
    /// Stop as Ctrl-Z does.
    Stop,
}

/// A text that fills the screen.
#[derive(Debug)]
pub(super) struct Page {
    pub title: String,
    /// What it says; absent until it is known.
    pub text: Option<String>,
    pub scroll: usize,
    pub kind: PageKind,
    /// Which answer belongs to it.
    number: u64,
}

/// What can be done on a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// Nothing but reading it.
    Text,
    /// Pages about one agent, of which one is shown.
    Tabs(String, usize),
    /// A command is agreed to.
    Ask(Words),
    /// A command is shown again and again.
    Follow(Words),
}

/// What the keys mean at the moment.
#[derive(Debug)]
pub(super) enum BoardMode {
    List,
    Filter,
    /// A text for an agent is typed; whether its session goes on with it.
    Compose {
        agent: String,
        resumes: bool,
        text: String,
    },
    Page(Page),
}

/// All that is shown.
pub(super) struct BoardView {
    pub report: BoardReport,
    pub mode: BoardMode,
    pub filter: String,
    pub marked: BTreeSet<String>,
    /// The id of the agent that is chosen, which moves with it.
    chosen: Option<String>,
    /// Its place among the visible rows.
    pub cursor: usize,
    /// What was said last.
    pub note: String,
    /// The command at work that changes something.
    pub busy: Option<Words>,
    /// Whether an agent is chosen for a verb; `enter` then ends with that agent.
    pub picks: bool,
    pub picked: Option<String>,
    last_number: u64,
}

impl BoardView {
    pub(super) fn new(report: BoardReport, picks: bool) -> BoardView {
        let mut view = BoardView {
            report: BoardReport::default(),
            mode: BoardMode::List,
            filter: String::new(),
            marked: BTreeSet::new(),
            chosen: None,
            cursor: 0,
            note: String::new(),
            busy: None,
            picks,
            picked: None,
            last_number: 0,
        };
        view.looked(report);
        view
    }

    /// A view of one command's text alone, which is asked for again and again.
    pub(super) fn following(words: Words) -> BoardView {
        let mut view = BoardView::new(BoardReport::default(), false);
        let title = format!("git agent {}", words.join(" "));
        view.open(title, None, PageKind::Follow(words));
        view
    }

    /// The rows that the filter lets through.
    pub(super) fn visible(&self) -> Vec<&BoardRow> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |row: &&BoardRow| {
            let agent = &row.listed.agent;
            let task = agent.description.as_deref().unwrap_or_default();
            let text = format!("{} {} {task}", handle(agent), agent.state);
            text.to_lowercase().contains(&wanted)
        };
        self.report.rows.iter().filter(is_wanted).collect()
    }

    pub(super) fn selected(&self) -> Option<&BoardRow> {
        self.visible().get(self.cursor).copied()
    }

    /// Takes what there is now. The agent that was chosen stays so wherever it went, and where it is gone, the place does.
    pub(super) fn looked(&mut self, report: BoardReport) -> Option<KeyEffect> {
        let before = self.selected().cloned();
        self.report = report;
        let rows = self.visible();
        let place = |id: &String| rows.iter().position(|row| row.listed.agent.agent_id == *id);
        let cursor = self.chosen.as_ref().and_then(place);
        self.choose(cursor.unwrap_or(self.cursor));
        let is_new = self.selected() != before.as_ref();
        match &self.mode {
            // A page about an agent follows it.
            BoardMode::Page(page) if is_new && matches!(page.kind, PageKind::Tabs(..)) => {
                self.read()
            }
            _ => None,
        }
    }

    /// Agents that need a person now and did not in another report, by their names and why.
    pub(super) fn new_needs(&self, before: &BoardReport) -> Vec<(String, &'static str)> {
        let needed: BTreeSet<_> = before
            .rows
            .iter()
            .filter(|row| row.group == BoardGroup::Needs)
            .map(|row| &row.listed.agent.agent_id)
            .collect();
        let is_new = |row: &&BoardRow| !needed.contains(&row.listed.agent.agent_id);
        self.report
            .rows
            .iter()
            .filter(is_new)
            .filter_map(|row| Some((handle(&row.listed.agent), row.need?)))
            .collect()
    }

    /// Takes the answer of a [`KeyEffect::Read`]. One that failed is not agreed to.
    pub(super) fn answered(&mut self, number: u64, is_success: bool, text: String) {
        if let BoardMode::Page(page) = &mut self.mode
            && page.number == number
        {
            if let PageKind::Ask(words) = &page.kind {
                match agreed_to(words, &text).filter(|_| is_success) {
                    Some(words) => page.kind = PageKind::Ask(words),
                    None => page.kind = PageKind::Text,
                }
            }
            page.text = Some(text);
        }
    }

    /// Takes the answer of a [`KeyEffect::Do`].
    pub(super) fn done(&mut self, is_success: bool, text: String) {
        let words = self.busy.take().unwrap_or_default();
        let how = if is_success { "" } else { " did not succeed" };
        let title = format!("git agent {}{how}", shown(&words));
        // What is typed at the moment is not taken away by an answer.
        if matches!(self.mode, BoardMode::Compose { .. } | BoardMode::Filter) {
            self.note = title;
        } else {
            self.open(title, Some(text), PageKind::Text);
        }
        self.marked.clear();
    }

    /// Asks once more for the text of the page.
    pub(super) fn read(&mut self) -> Option<KeyEffect> {
        let BoardMode::Page(page) = &self.mode else {
            return None;
        };
        let words = match &page.kind {
            PageKind::Tabs(agent, tab) => {
                let words = TABS.get(*tab)?.1.iter().map(|word| (*word).to_owned());
                words.chain([agent.clone()]).collect()
            }
            PageKind::Follow(words) => words.clone(),
            PageKind::Text | PageKind::Ask(_) => return None,
        };
        Some(KeyEffect::Read(page.number, words))
    }

    /// Takes keys that came at once. Agreeing is done by a key alone: in a text that a terminal pastes without saying so,
    /// `d` and `y` are letters.
    pub(super) fn keys(&mut self, keys: Vec<Key>) -> Vec<KeyEffect> {
        let is_alone = keys.len() == 1;
        keys.into_iter().filter_map(|key| self.key(key, is_alone)).collect()
    }

    fn key(&mut self, key: Key, is_alone: bool) -> Option<KeyEffect> {
        self.note.clear();
        match key {
            Key::Ctrl('c') => return Some(KeyEffect::Quit),
            Key::Ctrl('z') => return Some(KeyEffect::Stop),
            _ => {}
        }
        match std::mem::replace(&mut self.mode, BoardMode::List) {
            BoardMode::List => self.list_key(key),
            BoardMode::Filter => self.filter_key(key),
            BoardMode::Compose { agent, resumes, text } => {
                self.compose_key(key, agent, resumes, text)
            }
            BoardMode::Page(page) => self.page_key(key, page, is_alone),
        }
    }

    fn list_key(&mut self, key: Key) -> Option<KeyEffect> {
        let last = self.visible().len().saturating_sub(1);
        match key {
            Key::Char('q') => return Some(KeyEffect::Quit),
            Key::Escape if self.filter.is_empty() && self.picks => {
                return Some(KeyEffect::Quit);
            }
            Key::Escape => {
                self.filter.clear();
                self.refind();
            }
            Key::Down | Key::Char('j') => self.choose((self.cursor + 1).min(last)),
            Key::Up | Key::Char('k') => self.choose(self.cursor.saturating_sub(1)),
            Key::PageDown => self.choose((self.cursor + JUMP).min(last)),
            Key::PageUp => self.choose(self.cursor.saturating_sub(JUMP)),
            Key::Home | Key::Char('g') => self.choose(0),
            Key::End | Key::Char('G') => self.choose(last),
            Key::Char('/') => self.mode = BoardMode::Filter,
            Key::Char('?') => self.open("Keys".to_owned(), Some(HELP.to_owned()), PageKind::Text),
            Key::Enter if self.picks => {
                self.picked = self.selected().map(|row| row.listed.agent.agent_id.clone());
                return self.picked.as_ref().map(|_| KeyEffect::Quit);
            }
            Key::Char(' ') => {
                let id = self.selected()?.listed.agent.agent_id.clone();
                if !self.marked.remove(&id) {
                    self.marked.insert(id);
                }
            }
            Key::Enter => return self.turn_to(0),
            Key::Char(key) if !self.picks => return self.act(key),
            _ => {}
        }
        None
    }

    fn filter_key(&mut self, key: Key) -> Option<KeyEffect> {
        match key {
            Key::Enter => {}
            Key::Escape => self.filter.clear(),
            key => {
                edit(&mut self.filter, key, 80);
                self.mode = BoardMode::Filter;
            }
        }
        self.refind();
        None
    }

    fn compose_key(
        &mut self,
        key: Key,
        agent: String,
        resumes: bool,
        mut text: String,
    ) -> Option<KeyEffect> {
        match key {
            Key::Escape => return None,
            Key::Enter if !text.trim().is_empty() => return self.tell(&agent, resumes, &text),
            Key::Enter => {}
            key => edit(&mut text, key, LONGEST_TEXT),
        }
        self.mode = BoardMode::Compose { agent, resumes, text };
        None
    }

    fn page_key(&mut self, key: Key, mut page: Page, is_alone: bool) -> Option<KeyEffect> {
        let lines = page.text.as_ref().map_or(0, |text| text.lines().count());
        let is_known = page.text.is_some();
        match (key, &page.kind) {
            (Key::Char('y'), PageKind::Ask(words)) if is_alone && is_known => {
                return self.agree(words.clone());
            }
            (Key::Char('n'), PageKind::Ask(_)) => return None,
            (Key::Char('q') | Key::Escape, PageKind::Follow(_)) => return Some(KeyEffect::Quit),
            (Key::Char('q') | Key::Escape, _) => return None,
            (Key::Enter, PageKind::Text) => return None,
            (Key::Tab | Key::Right | Key::Char('l'), PageKind::Tabs(_, tab)) => {
                return self.turn_to((tab + 1) % TABS.len());
            }
            (Key::BackTab | Key::Left | Key::Char('h'), PageKind::Tabs(_, tab)) => {
                return self.turn_to((tab + TABS.len() - 1) % TABS.len());
            }
            (Key::Down | Key::Char('j') | Key::Enter, _) => page.scroll += 1,
            (Key::Up | Key::Char('k'), _) => page.scroll = page.scroll.saturating_sub(1),
            (Key::PageDown | Key::Char(' '), _) => page.scroll += JUMP,
            (Key::PageUp, _) => page.scroll = page.scroll.saturating_sub(JUMP),
            (Key::Home | Key::Char('g'), _) => page.scroll = 0,
            (Key::End | Key::Char('G'), _) => page.scroll = lines,
            (Key::Char(key), PageKind::Tabs(..)) => {
                self.mode = BoardMode::Page(page);
                return self.act(key);
            }
            _ => {}
        }
        page.scroll = page.scroll.min(lines.saturating_sub(1));
        self.mode = BoardMode::Page(page);
        None
    }

    /// What a letter does to the agent that is chosen.
    fn act(&mut self, key: char) -> Option<KeyEffect> {
        if key == 'U' {
            let words = words(&["undo"]);
            return self.preview("undo what was done last".to_owned(), words);
        }
        let row = self.selected()?;
        let agent = &row.listed.agent;
        let (id, name) = (agent.agent_id.clone(), handle(agent));
        let run = agent.run.as_ref();
        let is_running = run.is_some_and(|run| run.state == "running");
        let has_session = run.is_some_and(|run| run.session.session_id.is_some());
        match key {
            'v' => self.explain(
                format!("verify {name}"),
                "The work is judged by its scope, its history and its merge, and the commands of its task run.\nThe verdict is \
                 recorded if the work is finished.",
                words(&["verify", &id]),
            ),
            'm' => self.preview(format!("merge {name}"), words(&["merge", &id])),
            't' if self.marked.is_empty() => {
                self.note = "mark the agents of the train with the space bar first".to_owned();
                None
            }
            't' => {
                let mut words = words(&["train"]);
                words.extend(self.marked.iter().cloned());
                self.preview(format!("land {} agents as a train", self.marked.len()), words)
            }
            'e' => Some(KeyEffect::Lend(words(&["enter", &id]))),
            'r' => {
                self.mode = BoardMode::Compose {
                    agent: id,
                    // A message alone starts no run: a session that is over is told in a run that goes on with it.
                    resumes: has_session && !is_running,
                    text: String::new(),
                };
                None
            }
            's' if !is_running => {
                self.note = format!("nothing runs for {name}");
                None
            }
            's' => self.explain(
                format!("stop {name}"),
                "The command of its run and everything that it started end. Its worktree stays as it is.",
                words(&["stop", &id]),
            ),
            'd' => self.preview(format!("discard {name}"), words(&["discard", &id])),
            'u' => self.preview(format!("undo the last change of {name}"), words(&["undo", &id])),
            _ => None,
        }
    }

    /// Shows what telling an agent something would do.
    fn tell(&mut self, agent: &str, resumes: bool, text: &str) -> Option<KeyEffect> {
        if resumes {
            let message = format!("--message={text}");
            let words = words(&["run", agent, "--resume", "--background", &message]);
            return self.explain(
                "go on with the session".to_owned(),
                &format!("The last session of the agent's host goes on in the background and is told:\n\n{text}"),
                words,
            );
        }
        let payload = json!({ "message": text }).to_string();
        let words =
            words(&["send", "--type=notify", "--from=user", "--to", agent, "--payload", &payload]);
        self.explain("answer".to_owned(), &format!("The agent gets this message:\n\n{text}"), words)
    }

    fn agree(&mut self, words: Words) -> Option<KeyEffect> {
        if let Some(busy) = &self.busy {
            self.note = format!("git agent {} is still at work", shown(busy));
            return None;
        }
        self.busy = Some(words.clone());
        Some(KeyEffect::Do(words))
    }

    /// Opens a page that shows what a command would do and asks.
    fn preview(&mut self, title: String, words: Words) -> Option<KeyEffect> {
        let mut dry = words.clone();
        dry.insert(1, "--dry-run".to_owned());
        self.open(title, None, PageKind::Ask(words));
        Some(KeyEffect::Read(self.last_number, dry))
    }

    /// As [`BoardView::preview`], for a command that has no dry run.
    fn explain(&mut self, title: String, text: &str, words: Words) -> Option<KeyEffect> {
        self.open(title, Some(text.to_owned()), PageKind::Ask(words));
        None
    }

    /// Opens one of the pages about the agent that is chosen.
    fn turn_to(&mut self, tab: usize) -> Option<KeyEffect> {
        let agent = &self.selected()?.listed.agent;
        let (id, name) = (agent.agent_id.clone(), handle(agent));
        self.open(name, None, PageKind::Tabs(id, tab));
        self.read()
    }

    fn open(&mut self, title: String, text: Option<String>, kind: PageKind) {
        self.last_number += 1;
        self.mode =
            BoardMode::Page(Page { title, text, scroll: 0, kind, number: self.last_number });
    }

    fn choose(&mut self, place: usize) {
        self.cursor = place.min(self.visible().len().saturating_sub(1));
        let id = self.selected().map(|row| row.listed.agent.agent_id.clone());
        // While nothing is visible, the choice waits.
        self.chosen = id.or(self.chosen.take());
    }

    /// Finds the agent that is chosen again among what is visible now.
    fn refind(&mut self) {
        let report = std::mem::take(&mut self.report);
        self.looked(report);
    }
}

/// The names of the pages about an agent.
pub(super) fn tabs() -> impl Iterator<Item = &'static str> {
    TABS.iter().map(|(name, _)| *name)
}

/// A command as a person reads it: of an id its beginning.
pub(super) fn shown(words: &[String]) -> String {
    let short = |word: &String| match word.len() {
        36 if !word.starts_with('-') => word[..8].to_owned(),
        _ => word.lines().next().unwrap_or_default().to_owned(),
    };
    words.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The command that a person agrees to who has read `shown`; `None` where that names no operation to undo. Another operation may become
/// the newest meanwhile, so the one that was shown is undone.
fn agreed_to(command: &[String], shown: &str) -> Option<Words> {
    if command.first().is_none_or(|verb| verb != "undo") {
        return Some(command.to_owned());
    }
    let operation = shown.split_whitespace().find(|word| word.starts_with("op-"))?;
    Some(words(&["undo", operation]))
}

/// Types into a text of at most so many bytes. What is pasted becomes one line.
fn edit(text: &mut String, key: Key, longest: usize) {
    match key {
        Key::Char(c) => text.push(c),
        Key::Paste(pasted) => {
            text.extend(pasted.chars().map(|c| if c.is_control() { ' ' } else { c }));
        }
        Key::Backspace => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        _ => {}
    }
    text.truncate(text.floor_char_boundary(longest));
}
