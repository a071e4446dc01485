//! The settings of a repository: what its tasks and landings default to.
//!
//! A reader ([`crate::wire::file::settings_file`] has the one for `.config/git-agent.toml`) makes a [`SettingsDraft`]. The values that
//! a task could have said itself are held to the rules of a task by [`SettingsDraft::check`], so a setting is never
//! looser than a task file. [`TaskDraft::fill`] then gives a task what it does not say.
//!
//! A task's own value wins. Lists unite where they restrict (`deny`, `checks`) and are replaced elsewhere.

use crate::domain::boundary::guard::{GuardDraft, GuardRule};
use crate::domain::life::claim::{LeaseKind, WantedLease, variable_problem};
use crate::domain::life::limits::{Limit, Limits};
use crate::domain::life::sandbox::Layering;
use crate::domain::mail::message::{Kind, Priority};
use crate::domain::mail::message_rules::MessageRules;
use crate::domain::paths::glob::Glob;
use crate::domain::settings::project::{ProjectDraft, Projects};
use crate::domain::value::diagnostic::{Field, Located, Problem};
use crate::domain::value::named::named;
use crate::domain::value::shell;
use crate::domain::work::role::RoleSet;
use crate::domain::work::task::{TaskDraft, TaskOptions, TaskProblems, parse_duration};
use chrono::TimeDelta;
use std::collections::BTreeMap;
use std::ops::Range;

/// The file, from the top of the base commit's tree.
pub const PATH: &str = ".config/git-agent.toml";

/// The command that commits the settings file, in whichever directory of the repository it is run.
pub fn to_commit(subject: &str) -> String {
    let file = shell::quoted(&format!(":/{PATH}"));
    format!("git add {file} && git commit -m \"{subject}\" -- {file}")
}

/// Patterns in the form of a `.gitignore` file, from the top of the base commit's tree: ignored files of the main worktree
/// that they match are copied into a new worktree.
pub const INCLUDE_PATH: &str = ".worktreeinclude";

named! {
    /// A moment of an agent's life at which the repository may have commands run, in `[hooks]`.
    #[derive(PartialOrd, Ord)]
    pub enum HookMoment {
        /// The worktree is ready and the ledger says so.
        AfterSpawn = "after_spawn",
        /// The work is judged and nothing has landed.
        BeforeMerge = "before_merge",
        /// The work has landed.
        AfterMerge = "after_merge",
        /// Worktree and branch are about to be removed.
        BeforeDiscard = "before_discard",
    }
}

/// The ways to land that a repository can choose, as `merge` names them.
pub const MERGE_METHODS: [&str; 3] = ["no-ff", "squash", "ff-only"];

/// The git hooks that a landing can run: those that git starts without arguments, on what is staged.
pub const MERGE_HOOKS: [&str; 2] = ["pre-commit", "pre-merge-commit"];

/// What a landing's subject may name, in braces.
pub const SUBJECT_FIELDS: [&str; 7] = ["summary", "type", "id", "id8", "name", "role", "branch"];

/// Stands for the role and the task that a settings file does not have while its values are checked.
const STAND_IN: TaskStandIn =
    TaskStandIn { role: "edit-local", text: "checks what a settings file says", glob: "src/**" };

struct TaskStandIn {
    role: &'static str,
    text: &'static str,
    glob: &'static str,
}

/// A settings file, read as far as it could be.
#[derive(Clone, Debug, Default)]
pub struct SettingsDraft {
    /// What a task could have said itself, and what is wrong with the file.
    pub task: TaskDraft,
    /// How work lands.
    pub merge_method: Field<String>,
    /// The subject of a landing commit, with fields in braces.
    pub merge_subject: Field<String>,
    /// The repository's own git hooks that run before work lands.
    pub merge_hooks: Field<Vec<Located<String>>>,
    /// Commands that a train runs besides those of its agents.
    pub train_checks: Field<Vec<Located<String>>>,
    /// Commands by moment.
    pub hooks: BTreeMap<HookMoment, Field<Vec<Located<String>>>>,
    /// Whether worktrees are layered.
    pub layered: Field<String>,
    /// How many warm worktrees are kept.
    pub pool_size: Field<i64>,
    /// Variables and the kinds of what they are to hold.
    pub leases: Vec<(String, Located<String>)>,
    /// What agents may take of a machine, as written.
    pub limits: Vec<(Limit, Field<String>)>,
    /// Rules for branches that `git agent` did not make.
    pub guards: Vec<GuardDraft>,
    /// The projects that the repository holds.
    pub projects: Vec<ProjectDraft>,
    /// Whether the results of checks are taken over where the target moved elsewhere.
    pub reuse: Field<String>,
    /// The most messages that are not archived.
    pub active: Field<i64>,
    /// When a message that was handed out is archived.
    pub archive_after: Field<String>,
    /// When a message that was archived is deleted.
    pub delete_after: Field<String>,
    /// The priority of messages by type.
    pub priorities: Vec<(Kind, Field<String>)>,
    /// Further fields of messages, as `type.field`.
    pub message_fields: Field<Vec<Located<String>>>,
}

/// Settings that obey every rule. What is absent is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositorySettings {
    /// The role of a task that names none.
    pub role: Option<String>,
    /// The whitelist of a task that has none.
    pub scope: Option<Vec<String>>,
    /// Globs that no task of this repository may touch.
    pub deny: Vec<Glob>,
    /// The revision to start from.
    pub base: Option<String>,
    /// How long a run may take, as written.
    pub timeout: Option<String>,
    /// Whether the bundle is required.
    pub bundle_required: Option<bool>,
    /// Commands that `verify` runs for every task.
    pub checks: Vec<String>,
    /// How many tests have to pass in the checks of every task, where any have to.
    pub min_tests: Option<u32>,
    /// Whether the dependencies have to stay as they are, unless a task says otherwise.
    pub no_dep_bump: bool,
    /// Ignored files that a new worktree gets.
    pub setup_copy: Option<Vec<String>>,
    /// Commands that are run in a new worktree.
    pub setup_run: Option<Vec<String>>,
    /// The content of [`INCLUDE_PATH`].
    pub include: Option<Vec<u8>>,
    /// Commands that a train runs besides those of its agents.
    pub train_checks: Vec<String>,
    /// Commands by moment.
    pub hooks: BTreeMap<HookMoment, Vec<String>>,
    /// Whether worktrees are layered over bases that agents share; what holds without it depends on what they are for.
    pub layered: Option<Layering>,
    /// How many warm worktrees are kept; none unless it is set.
    pub pool_size: usize,
    /// What each agent gets of its own.
    pub leases: Vec<WantedLease>,
    /// What agents may take of a machine.
    pub limits: Limits,
    /// How work lands: one of [`MERGE_METHODS`].
    pub merge_method: Option<String>,
    /// The subject of a landing commit, with [`SUBJECT_FIELDS`] in braces.
    pub merge_subject: Option<String>,
    /// The repository's own git hooks that run before work lands: some of [`MERGE_HOOKS`].
    pub merge_hooks: Vec<String>,
    /// Rules for branches that `git agent` did not make, in order; the first that names a branch counts.
    pub guards: Vec<GuardRule>,
    /// The projects that the repository holds, each with its own set-up and checks.
    pub projects: Projects,
    /// Whether the results of checks are taken over where the target moved in other projects alone.
    pub reuses_checks: bool,
    /// What messages need, how urgent they are and how long they are kept.
    pub messages: MessageRules,
}

impl SettingsDraft {
    /// Applies every rule of a task to what the file says, and the rules of the other sections.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn check(self, roles: &RoleSet) -> Result<RepositorySettings, TaskProblems> {
        let mut problems = Vec::new();
        let method = one_of(&self.merge_method, &mut problems);
        let subject = subject(&self.merge_subject, &mut problems);
        let merge_hooks = merge_hooks(&self.merge_hooks, &mut problems);
        let leases = leases(&self.leases, &mut problems);
        let layered = layered(&self.layered, &mut problems);
        let limits = limits(&self.limits, &mut problems);
        let pool_size = pool_size(&self.pool_size, &mut problems);
        let messages = self.messages(&mut problems);
        let guards = self.guards.iter().filter_map(|rule| rule.check(&mut problems)).collect();
        let projects = Projects::of(&self.projects, &mut problems);
        let reuses_checks = reuse(&self.reuse, &mut problems);
        // What projects copy belongs to every worktree, so that one that waits for an agent has it too.
        let mut copy = values_of(&self.task.setup_copy);
        copy.extend(self.projects.iter().flat_map(ProjectDraft::copies));
        // A task of these values is checked, so that no rule exists twice; what a task needs
        // besides is made up.
        let mut probe = self.task.clone();
        probe.setup_copy = Field::Given(Located::unplaced(copy.clone()));
        probe.problems.extend(problems);
        let placeholder = |text: &str| Located::unplaced(text.to_owned());
        probe.text = Field::Given(placeholder(STAND_IN.text));
        if probe.role.given().is_none() {
            probe.role = Field::Given(placeholder(STAND_IN.role));
        }
        if probe.whitelist.given().is_none() {
            probe.whitelist = Field::Given(Located::unplaced(vec![placeholder(STAND_IN.glob)]));
        }
        // Commands of hooks and trains obey the rules of set-up commands.
        let mut commands = values_of(&self.task.setup_run);
        commands.extend(self.hooks.values().flat_map(values_of));
        commands.extend(values_of(&self.train_checks));
        commands.extend(self.projects.iter().flat_map(|one| one.commands().cloned()));
        probe.setup_run = Field::Given(Located::unplaced(commands));
        let (task, _) = probe.check(roles, TaskOptions::default())?;
        let hooks = self.hooks.iter().filter_map(|(moment, field)| Some((*moment, values(field)?)));
        Ok(RepositorySettings {
            // As given and not as checked: what a task leaves open is what these fill in, not what
            // the made-up task says.
            role: value(&self.task.role),
            scope: values(&self.task.whitelist),
            deny: task.denylist.unwrap_or_default(),
            base: task.base,
            timeout: value(&self.task.timeout),
            bundle_required: task.bundle_required,
            checks: task.checks,
            min_tests: task.min_tests,
            no_dep_bump: task.no_dep_bump,
            setup_copy: (!copy.is_empty() || self.task.setup_copy.given().is_some())
                .then(|| copy.into_iter().map(|glob| glob.value).collect()),
            setup_run: values(&self.task.setup_run),
            // It is another file, which the reader of the repository adds.
            include: None,
            train_checks: values(&self.train_checks).unwrap_or_default(),
            hooks: hooks.collect(),
            leases,
            layered,
            limits,
            pool_size,
            merge_method: method,
            merge_subject: subject,
            merge_hooks,
            guards,
            projects,
            reuses_checks,
            messages,
        })
    }

    /// What the file says of messages.
    fn messages(&self, problems: &mut Vec<Problem>) -> MessageRules {
        let mut rules = MessageRules::default();
        let mut refuse = |span: &Range<usize>, what: String, help: &str| {
            problems.push(Problem::at(span.clone(), what).help(help));
        };
        if let Field::Given(Located { value, span }) = &self.active {
            match usize::try_from(*value) {
                Ok(active @ 1..) => rules.retention.active = active,
                _ => refuse(span, format!("`active` is {value}"), "give a number from 1"),
            }
        }
        let spans = [
            (&self.archive_after, &mut rules.retention.archive_after),
            (&self.delete_after, &mut rules.retention.delete_after),
        ];
        for (field, into) in spans {
            let Field::Given(Located { value, span }) = field else {
                continue;
            };
            let parsed = parse_duration(value).and_then(|time| {
                TimeDelta::from_std(time).map_err(|_| format!("`{value}` is too long"))
            });
            match parsed {
                Ok(time) => *into = time,
                Err(problem) => refuse(span, problem, "write it like `7d` or `2w`"),
            }
        }
        for (kind, field) in &self.priorities {
            let Field::Given(Located { value, span }) = field else {
                continue;
            };
            match Priority::parse(value) {
                Some(priority) => {
                    rules.priorities.insert(*kind, priority);
                }
                None => {
                    let words = Priority::ALL.map(Priority::as_str).join(", ");
                    refuse(
                        span,
                        format!("`{value}` is no priority"),
                        &format!("use one of {words}"),
                    );
                }
            }
        }
        for Located { value, span } in
            self.message_fields.given().into_iter().flat_map(|list| &list.value)
        {
            let parts = value.split_once('.').map(|(kind, field)| (Kind::parse(kind), field));
            match parts {
                Some((Some(kind), field)) if !field.is_empty() => {
                    rules.required.entry(kind).or_default().push(field.to_owned());
                }
                _ => refuse(
                    span,
                    format!("`{value}` names no field of a message"),
                    "write the type and the field, as in `handoff.deadline`",
                ),
            }
        }
        rules
    }
}

impl TaskDraft {
    /// Gives a task what it does not say itself. The denylist stays its own: whether it has one matters to
    /// `--no-default-deny`.
    pub fn fill(&mut self, settings: &RepositorySettings) {
        let role = settings.role.clone();
        give(&mut self.role, role.or_else(|| self.fallback_role.clone()));
        give(&mut self.base, settings.base.clone());
        give(&mut self.timeout, settings.timeout.clone());
        give(&mut self.bundle_required, settings.bundle_required);
        give(&mut self.whitelist, located(settings.scope.as_deref()));
        if self.is_typed {
            // Without a scope a typed task means the whole repository; what that leaves out is decided at the spawn.
            give(&mut self.whitelist, located(Some(&["**".to_owned()])));
            give(&mut self.bundle_required, Some(false));
        }
        give(&mut self.setup_copy, located(settings.setup_copy.as_deref()));
        give(&mut self.setup_run, located(settings.setup_run.as_deref()));
        give(&mut self.no_dep_bump, settings.no_dep_bump.then_some(true));
        // A number of tests is a bound from below: the higher one holds.
        let own = self.min_tests.given().map_or(0, |own| own.value);
        if let Some(wanted) =
            settings.min_tests.map(i64::from).filter(|wanted| own < *wanted && own >= 0)
        {
            self.min_tests = Field::Given(Located::unplaced(wanted));
        }
        let own = self.checks.given().map(|own| own.value.clone());
        let own = own.unwrap_or_default();
        let mut checks = located(Some(&settings.checks)).unwrap_or_default();
        checks.retain(|check| own.iter().all(|mine| mine.value != check.value));
        if !checks.is_empty() {
            checks.extend(own);
            self.checks = Field::Given(Located::unplaced(checks));
        }
    }
}

/// Puts a value where the file has none. What the file has and could not be read is a problem already.
fn give<T>(field: &mut Field<T>, value: Option<T>) {
    if let (None, Some(value)) = (field.given(), value) {
        *field = Field::Given(Located::unplaced(value));
    }
}

fn located(texts: Option<&[String]>) -> Option<Vec<Located<String>>> {
    let at_start = |text: &String| Located::unplaced(text.clone());
    Some(texts?.iter().map(at_start).collect())
}

fn value(field: &Field<String>) -> Option<String> {
    field.given().map(|field| field.value.clone())
}

fn values(field: &Field<Vec<Located<String>>>) -> Option<Vec<String>> {
    let list = &field.given()?.value;
    Some(list.iter().map(|item| item.value.clone()).collect())
}

fn values_of(field: &Field<Vec<Located<String>>>) -> Vec<Located<String>> {
    field.given().map(|list| list.value.clone()).unwrap_or_default()
}

fn one_of(field: &Field<String>, problems: &mut Vec<Problem>) -> Option<String> {
    let Located { value, span } = field.given()?;
    if !MERGE_METHODS.contains(&value.as_str()) {
        let problem = Problem::at(span.clone(), format!("there is no merge method `{value}`"));
        problems.push(problem.help("write \"no-ff\", \"squash\" or \"ff-only\""));
    }
    Some(value.clone())
}

fn merge_hooks(field: &Field<Vec<Located<String>>>, problems: &mut Vec<Problem>) -> Vec<String> {
    let wanted = values_of(field);
    let unknown = wanted.iter().filter(|hook| !MERGE_HOOKS.contains(&hook.value.as_str()));
    problems.extend(unknown.map(|Located { value, span }| {
        let message = format!("a landing runs no git hook `{value}`");
        Problem::at(span.clone(), message).help("write \"pre-commit\" or \"pre-merge-commit\"")
    }));
    wanted.into_iter().map(|hook| hook.value).collect()
}

fn layered(field: &Field<String>, problems: &mut Vec<Problem>) -> Option<Layering> {
    let Located { value, span } = field.given()?;
    let layered = Layering::parse(value);
    if layered.is_none() {
        let problem = Problem::at(span.clone(), format!("no worktree is layered by `{value}`"));
        problems.push(problem.help("write \"off\", \"auto\" or \"on\""));
    }
    layered
}

fn reuse(field: &Field<String>, problems: &mut Vec<Problem>) -> bool {
    let Some(Located { value, span }) = field.given() else {
        return false;
    };
    if !matches!(value.as_str(), "off" | "projects") {
        let problem = Problem::at(span.clone(), format!("no results are taken over by `{value}`"));
        problems.push(problem.help("write \"off\" or \"projects\""));
    }
    value == "projects"
}

/// The most warm worktrees that a repository can ask for.
const MOST_SLOTS: usize = 64;

fn pool_size(field: &Field<i64>, problems: &mut Vec<Problem>) -> usize {
    let Some(Located { value, span }) = field.given() else {
        return 0;
    };
    match usize::try_from(*value) {
        Ok(size) if size <= MOST_SLOTS => size,
        _ => {
            let problem = Problem::at(span.clone(), format!("the pool's size is {value}"));
            problems.push(problem.help(format!("write a number from 0 to {MOST_SLOTS}")));
            0
        }
    }
}

/// At most so many variables can be leased.
const MOST_LEASES: usize = 20;

fn leases(wanted: &[(String, Located<String>)], problems: &mut Vec<Problem>) -> Vec<WantedLease> {
    let mut leases = Vec::new();
    for (variable, Located { value, span }) in wanted {
        if let Some(wrong) = variable_problem(variable) {
            problems.push(Problem::at(span.clone(), format!("`{variable}` {wrong}")));
        }
        match LeaseKind::parse(value) {
            Some(kind) => leases.push(WantedLease { variable: variable.clone(), kind }),
            None => {
                let problem =
                    Problem::at(span.clone(), format!("there is no lease of a `{value}`"));
                problems.push(problem.help("write \"port\", \"slug\", \"number\" or \"loopback\""));
            }
        }
    }
    if let Some((_, over)) = wanted.get(MOST_LEASES) {
        let message = format!("more than {MOST_LEASES} variables are leased");
        problems.push(Problem::at(over.span.clone(), message));
    }
    leases
}

fn limits(wanted: &[(Limit, Field<String>)], problems: &mut Vec<Problem>) -> Limits {
    let mut limits = Limits::default();
    for (limit, field) in wanted {
        let Some(Located { value, span }) = field.given() else {
            continue;
        };
        match limit.read(value) {
            Ok(value) => drop(limits.tighten(*limit, value)),
            Err((wrong, help)) => problems.push(Problem::at(span.clone(), wrong).help(help)),
        }
    }
    limits
}

/// A subject is one line whose braces name fields.
fn subject(field: &Field<String>, problems: &mut Vec<Problem>) -> Option<String> {
    let Located { value, span } = field.given()?;
    let wrong = if value.trim().is_empty() {
        Some("the subject is empty".to_owned())
    } else if value.chars().any(char::is_control) {
        Some("the subject is more than one line".to_owned())
    } else {
        unknown_field(value).map(|name| format!("there is no field {{{name}}} for a subject"))
    };
    if let Some(message) = wrong {
        let fields = SUBJECT_FIELDS.map(|name| format!("{{{name}}}")).join(", ");
        problems.push(Problem::at(span.clone(), message).help(format!("the fields are {fields}")));
    }
    Some(value.clone())
}

fn unknown_field(template: &str) -> Option<&str> {
    let names = template.split('{').skip(1);
    let mut names = names.filter_map(|rest| rest.split_once('}').map(|(name, _)| name));
    names.find(|name| !SUBJECT_FIELDS.contains(name))
}

/// A subject with its fields filled in; `value` gives the text of each.
pub fn filled_subject(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut rest = template;
    let mut subject = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        subject.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) => {
                // What is put in is not looked at again: a summary may hold braces of its own.
                subject.push_str(&value(name));
                rest = tail;
            }
            None => {
                subject.push('{');
                rest = after;
            }
        }
    }
    subject.push_str(rest);
    subject
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_s_fields_are_filled_in_once() {
        let value = |name: &str| match name {
            "id" => "6a48ca7b".to_owned(),
            _ => "add {id} to {the list".to_owned(),
        };
        assert_eq!(
            filled_subject("{summary} [{id}] {", value),
            "add {id} to {the list [6a48ca7b] {"
        );
        assert_eq!(unknown_field("{summary} {nmae}"), Some("nmae"));
        assert_eq!(unknown_field("{summary} {"), None);
    }
}
