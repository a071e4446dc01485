//! The contract of one agent: what a task file says once every rule has been checked.
//!
//! A reader ([`crate::wire`] has the one for `task.toml`) makes a [`TaskDraft`]: raw values with their
//! positions, and what it already found wrong. The draft names its base and its role, so that the roles
//! of the base commit can be loaded; then [`TaskDraft::check`] applies every rule at once and
//! gives either a [`Task`] with warnings or all [`TaskProblems`] in order of position.
//!
//! A [`Task`] is valid by construction and never checked again.
//!
//! Deliberately absent: whether base and parent exist, and whether a glob matches anything. That
//! takes a repository.

mod check;

use crate::domain::life::id::AgentName;
use crate::domain::paths::glob::Glob;
use crate::domain::value::diagnostic::{Field, Located, Problem, Source};
use crate::domain::value::shell;
use crate::error::{Code, Error, ErrorFacts, Remedy};
use std::fmt;
use std::time::Duration;

pub use check::{TIMEOUTS, TaskOptions, is_timeout};

/// How many characters of a task stand in a row.
pub const DESCRIPTION_CHARS: usize = 60;

/// What a task is called that the command line says itself.
pub const COMMAND_LINE: &str = "<command line>";

/// More problems than this are counted, not shown.
const SHOWN_PROBLEMS: usize = 20;

/// How many problems programs are told of. Finding the line of one takes a walk through the file.
const TOLD_PROBLEMS: usize = 100;

/// A task that obeys every rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name of a spawnable role.
    pub role: String,
    /// The task text, trimmed, with LF line ends; 20 to 4000 characters.
    pub text: String,
    /// 1 to 20 globs, each once, in the order of the file.
    pub whitelist: Vec<Glob>,
    /// The task's own denylist; `None` when the file has none (that matters to `--no-default-deny`).
    pub denylist: Option<Vec<Glob>>,
    /// An alias for the agent.
    pub name: Option<AgentName>,
    /// The parent agent, as the file names it: an id, a prefix of one, a name or a branch.
    pub parent: Option<String>,
    /// The revision to start from.
    pub base: Option<String>,
    /// A one-line description that replaces the first 60 characters of the text.
    pub description: Option<String>,
    /// The model to ask the host for.
    pub model: Option<String>,
    /// System-level context; may hold credentials and is never recorded.
    pub briefing: Option<String>,
    /// Text on top of the role's own.
    pub system_prompt: Option<String>,
    /// A persona.
    pub profile: Option<String>,
    /// How many turns the agent may take; 1 to 1000.
    pub max_iterations: Option<u32>,
    /// Commands that `verify` runs in the merged tree.
    pub checks: Vec<String>,
    /// How many tests have to pass in them, where any have to.
    pub min_tests: Option<u32>,
    /// Whether dependencies have to stay as they are.
    pub no_dep_bump: bool,
    /// Whether the bundle is required; `None` follows the isolation.
    pub bundle_required: Option<bool>,
    /// The file an output-only agent writes, relative to where it works.
    pub output_file: Option<String>,
    /// Whether that file may exist already.
    pub output_overwrite: bool,
    /// Fields that the agent's final answer has to have.
    pub report_fields: Vec<String>,
    /// Ignored files to bring into the worktree; at most 20 globs.
    pub setup_copy: Vec<Glob>,
    /// Commands to run in the new worktree.
    pub setup_run: Vec<String>,
    /// How long `run` lets the agent work; more than nothing, at most 24 hours.
    pub timeout: Option<Duration>,
    /// The most that a session of the host may cost in a run, in US dollars; more than nothing.
    pub max_cost: Option<f64>,
}

/// Something in a valid task that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// One line: `file:line:column: message`.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with one task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskProblems {
    /// The file.
    pub source: Source,
    /// What is wrong, in order of position; what has none (something missing) comes last.
    pub problems: Vec<Problem>,
}

impl TaskProblems {
    /// Whether there is one problem, and it has this code.
    pub fn is_only(&self, code: Code) -> bool {
        matches!(self.problems.as_slice(), [only] if only.code == Some(code))
    }
}

impl TaskProblems {
    /// A block for each of the first problems, and how many more there are.
    pub fn details(&self) -> Vec<String> {
        let shown = self.problems.iter().take(SHOWN_PROBLEMS);
        let mut details: Vec<_> = shown.map(|problem| self.source.render(problem)).collect();
        if let Some(hidden @ 1..) = self.problems.len().checked_sub(SHOWN_PROBLEMS) {
            details.push(format!("… and {hidden} more"));
        }
        details
    }
}

impl TaskProblems {
    /// Adds every problem to an error: for people the first ones as blocks, for programs the first hundred as values.
    #[must_use]
    pub fn told(&self, error: Error) -> Error {
        let problems =
            self.problems.iter().take(TOLD_PROBLEMS).map(|problem| self.source.fact(problem));
        let facts = ErrorFacts { problems: problems.collect(), ..ErrorFacts::default() };
        self.details().into_iter().fold(error, Error::detail).facts(facts)
    }
}

impl From<TaskProblems> for Error {
    /// One detail per problem. A file with a single problem goes by that problem's own code, so that a
    /// script can tell an unknown role from a typing error.
    fn from(task: TaskProblems) -> Error {
        let name = task.source.name();
        let (code, count) = match task.problems.as_slice() {
            [only] => (only.code.unwrap_or(Code::TaskInvalid), "1 problem".into()),
            more => (Code::TaskInvalid, format!("{} problems", more.len())),
        };
        let is_about_role = matches!(code, Code::RoleUnknown | Code::RoleNotSpawnable);
        let error = Error::new(code, format!("{name} has {count}"));
        let mut error = task.told(error);
        if is_about_role {
            error = error.remedy("to see all roles", Remedy::Roles);
        }
        let argument = match name.as_str() {
            "<stdin>" => "-".to_owned(),
            COMMAND_LINE => "-m <task> --scope <glob>".to_owned(),
            file => shell::word(file.as_bytes()),
        };
        error.remedy(
            "fix the task, give it a smaller scope, or abort; to check it again without spawning",
            Remedy::CheckTask(argument),
        )
    }
}

// Spans of time as people write them: `90s`, `5m`, `1h30m`, `90d`, `12w`.

/// The units, longest first, in seconds.
const UNITS: [(char, u64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads a span of time: whole numbers with the units `w`, `d`, `h`, `m` and `s`, each at most once,
/// longest first.
///
/// # Errors
/// One sentence that names the text and the rule.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time; write it like `90s`, `5m` or `1h30m`");
    let mut seconds: u64 = 0;
    // One pass over the units for all parts: a larger unit after a smaller one, or one twice, is a
    // slip.
    let mut units = UNITS.iter();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit = tail.chars().next().ok_or_else(wrong)?;
        let &(_, length) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let part = number.parse::<u64>().map_err(|_| wrong())?;
        seconds = part
            .checked_mul(length)
            .and_then(|part| seconds.checked_add(part))
            .ok_or_else(wrong)?;
        rest = tail.split_at(unit.len_utf8()).1;
    }
    Ok(Duration::from_secs(seconds))
}

/// A span of time of whole seconds as [`parse_duration`] reads it, in one unit.
pub fn duration_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let fits = |(_, length): &&(char, u64)| seconds > 0 && seconds.is_multiple_of(*length);
    let &(unit, length) = UNITS.iter().find(fits).unwrap_or(&('s', 1));
    format!("{}{unit}", seconds / length)
}

// What a task file says, before its rules are checked.

/// A task file of either accepted form, read as far as it could be.
#[derive(Clone, Debug, Default)]
pub struct TaskDraft {
    /// The file.
    pub source: Source,
    /// What the reader already found wrong: syntax, unknown keys, wrong types.
    pub problems: Vec<Problem>,
    /// What it names and the repository does not have. Told of values that obey the rules alone: others are
    /// wrong already.
    pub unfound: Vec<Problem>,
    /// What the reader accepted but nothing will act on.
    pub warnings: Vec<Problem>,
    /// The role of a task that names none, where neither the file nor the repository has one.
    pub fallback_role: Option<String>,
    /// Whether a person typed the task. What a person types is taken as meant: the rules that keep programs from writing
    /// careless task files (length of the text, a whitelist that reaches everything, a bundle) do not hold.
    pub is_typed: bool,
    /// Whether an agent was spawned of it already, so that its limits are not asked for again.
    pub was_accepted: bool,
    /// Globs of a typed task that are to match what the agent will make; all others have to match something.
    pub new_globs: Vec<String>,
    /// The name of the role. Required.
    pub role: Field<String>,
    /// The task text. Required.
    pub text: Field<String>,
    /// Globs that may be touched. Required.
    pub whitelist: Field<Vec<Located<String>>>,
    /// Globs that may not.
    pub denylist: Field<Vec<Located<String>>>,
    /// An alias for the agent.
    pub name: Field<String>,
    /// The parent agent.
    pub parent: Field<String>,
    /// The revision to start from.
    pub base: Field<String>,
    /// A one-line description.
    pub description: Field<String>,
    /// The model to ask the host for.
    pub model: Field<String>,
    /// System-level context; may hold credentials.
    pub briefing: Field<String>,
    /// Text on top of the role's own.
    pub system_prompt: Field<String>,
    /// A persona.
    pub profile: Field<String>,
    /// How many turns the agent may take.
    pub max_iterations: Field<i64>,
    /// Commands that `verify` runs.
    pub checks: Field<Vec<Located<String>>>,
    /// How many tests have to pass in them.
    pub min_tests: Field<i64>,
    /// Whether dependencies have to stay as they are.
    pub no_dep_bump: Field<bool>,
    /// Whether the bundle is required.
    pub bundle_required: Field<bool>,
    /// The file an output-only agent writes.
    pub output_file: Field<String>,
    /// Whether that file may exist already.
    pub output_overwrite: Field<bool>,
    /// Fields that the agent's final answer has to have.
    pub report_fields: Field<Vec<Located<String>>>,
    /// Globs of ignored files to bring into the worktree.
    pub setup_copy: Field<Vec<Located<String>>>,
    /// Commands to run in the new worktree.
    pub setup_run: Field<Vec<Located<String>>>,
    /// How long `run` lets the agent work, as written: `1h30m`.
    pub timeout: Field<String>,
    /// The most that a session of the host may cost, in US dollars.
    pub max_cost: Field<f64>,
}

impl TaskDraft {
    /// A file of which nothing could be read.
    pub fn unreadable(source: Source, problem: Problem) -> TaskDraft {
        TaskDraft { source, problems: vec![problem], ..TaskDraft::default() }
    }

    /// The revision to start from, where the file names one.
    pub fn base(&self) -> Option<&str> {
        self.base.given().map(|base| base.value.as_str())
    }

    /// The parent, where the file names one.
    pub fn parent(&self) -> Option<&str> {
        self.parent.given().map(|parent| parent.value.as_str())
    }

    /// Whether the file has something to set up.
    pub fn has_setup(&self) -> bool {
        let lists = [&self.setup_copy, &self.setup_run];
        let mut given = lists.into_iter().filter_map(Field::given);
        given.any(|list| !list.value.is_empty())
    }

    /// The persona, where the file names one.
    pub fn profile(&self) -> Option<&str> {
        let profile = self.profile.given().map(|profile| profile.value.trim());
        profile.filter(|profile| !profile.is_empty())
    }

    /// Says that the repository does not have the base. Which roles there are is not known then.
    pub fn refuse_base(&mut self, error: &Error, hint: Option<String>) {
        self.unfound.extend(unfound(&self.base, error, hint));
        // Roles are read from the base, so without one nothing can be said of the role.
        if self.role.given().is_some() {
            self.role = Field::Unreadable;
        }
    }

    /// Says that the repository does not have the parent.
    pub fn refuse_parent(&mut self, error: &Error, hint: Option<String>) {
        self.unfound.extend(unfound(&self.parent, error, hint));
    }

    /// Says that neither we nor the repository have the persona.
    pub fn refuse_profile(&mut self, error: &Error, hint: Option<String>) {
        self.unfound.extend(unfound(&self.profile, error, hint));
    }

    /// Every text that is recorded or shown, with the word for it in messages. The briefing is not among
    /// them: it is handed to the agent and never recorded.
    fn recorded_texts(&self) -> Vec<(&'static str, &Located<String>)> {
        let single = [
            ("the role", &self.role),
            ("the task text", &self.text),
            ("the name", &self.name),
            ("the parent", &self.parent),
            ("the base", &self.base),
            ("the description", &self.description),
            ("the model", &self.model),
            ("the system prompt", &self.system_prompt),
            ("the profile", &self.profile),
            ("the output file", &self.output_file),
            ("the timeout", &self.timeout),
        ];
        let lists = [
            ("a glob of the whitelist", &self.whitelist),
            ("a glob of the denylist", &self.denylist),
            ("a check", &self.checks),
            ("a field of the report", &self.report_fields),
            ("a glob to copy", &self.setup_copy),
            ("a setup command", &self.setup_run),
        ];
        let mut texts = Vec::new();
        for (word, field) in single {
            texts.extend(field.given().map(|text| (word, text)));
        }
        for (word, field) in lists {
            let items = field.given().into_iter().flat_map(|list| &list.value);
            texts.extend(items.map(|text| (word, text)));
        }
        texts
    }
}

/// An error about the value of a field as a problem of the file.
fn unfound(field: &Field<String>, error: &Error, help: Option<String>) -> Option<Problem> {
    let span = field.given()?.span.clone();
    Some(Problem { help, ..Problem::at(span, error.message()).code(error.code()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_read_longest_unit_first() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5_400),
            ("1d", 86_400),
            ("1d2h3m4s", 93_784),
            ("2w1d", 1_296_000),
            (" 0s ", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in [
            "",
            "5",
            "m",
            "5 m",
            "30m1h",
            "1h1h",
            "-5m",
            "1.5h",
            "5min",
            "5µs",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["0s", "59s", "90s", "5m", "36h", "30d", "2w"] {
            let span = parse_duration(text).expect("a span");
            assert_eq!(duration_text(span), text);
        }
        assert_eq!(duration_text(Duration::from_secs(86_400)), "1d");
    }
}
