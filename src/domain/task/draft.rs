//! What a task file says, before its rules are checked.

use crate::domain::diagnostic::{Field, Located, Problem, Source};
use crate::error::Error;

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
        TaskDraft {
            source,
            problems: vec![problem],
            ..TaskDraft::default()
        }
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
    pub fn refuse_base(&mut self, error: &Error) {
        self.unfound.extend(unfound(&self.base, error));
        if self.role.given().is_some() {
            self.role = Field::Unreadable;
        }
    }

    /// Says that the repository does not have the parent.
    pub fn refuse_parent(&mut self, error: &Error) {
        self.unfound.extend(unfound(&self.parent, error));
    }

    /// Says that neither we nor the repository have the persona.
    pub fn refuse_profile(&mut self, error: &Error) {
        self.unfound.extend(unfound(&self.profile, error));
    }

    /// Every text that is recorded or shown, with the word for it in messages. The briefing is not among
    /// them: it is handed to the agent and never recorded.
    pub(super) fn recorded_texts(&self) -> Vec<(&'static str, &Located<String>)> {
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
fn unfound(field: &Field<String>, error: &Error) -> Option<Problem> {
    let span = field.given()?.span.clone();
    let problem = Problem::at(span, error.message()).code(error.code());
    Some(Problem {
        help: error.plain_hint().map(str::to_owned),
        ..problem
    })
}
