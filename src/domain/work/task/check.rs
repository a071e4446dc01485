//! The rules of a task, applied all at once.
//!
//! Each rule looks at one field, adds what is wrong to the list and gives the checked value where
//! there is one. A field that the reader could not read has been reported and is passed over.

use super::{Task, TaskDraft, TaskProblems, Warning, parse_duration};
use crate::domain::life::id::AgentName;
use crate::domain::paths::glob::Glob;
use crate::domain::paths::output_file::{self, OutputProblem};
use crate::domain::value::diagnostic::{Field, Located, Problem, Source, nearest};
use crate::domain::value::redaction;
use crate::domain::work::role::{Role, RoleSet, is_role_name};
use crate::error::Code;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;
use unicode_width::UnicodeWidthChar;

/// What was asked for besides the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskOptions {
    /// Whether the default denylist is dropped. Refused for roles that edit.
    pub no_default_deny: bool,
}

impl TaskDraft {
    /// Applies every rule.
    ///
    /// # Errors
    /// Everything that is wrong with the file, the reader's findings included.
    pub fn check(
        mut self,
        roles: &RoleSet,
        options: TaskOptions,
    ) -> Result<(Task, Vec<Warning>), TaskProblems> {
        let mut rules = TaskFindings {
            problems: std::mem::take(&mut self.problems),
            warnings: std::mem::take(&mut self.warnings),
            source: &self.source,
            is_typed: self.is_typed || self.was_accepted,
        };
        for (word, text) in self.recorded_texts() {
            rules.no_secret(word, text);
        }
        let role = rules.role(&self.role, roles);
        let edits = role.is_some_and(|role| role.edits);
        if options.no_default_deny && edits {
            let message = "`--no-default-deny` is refused for roles that edit";
            let help = "the default denylist keeps secrets and build output out of reach";
            rules.problems.push(Problem::of_file(message).help(help));
        }
        let task = Task {
            role: role.map(|role| role.name.clone()).unwrap_or_default(),
            text: rules.text(&self.text).unwrap_or_default(),
            whitelist: rules
                .whitelist(&self.whitelist, edits && !self.is_typed && !self.was_accepted),
            denylist: rules.globs("denylist", &self.denylist, |glob| bare(glob, edits)),
            name: rules.name(&self.name),
            parent: rules.parent(&self.parent),
            base: rules.base(&self.base),
            description: rules.line("the description", &self.description),
            model: rules.line("the model", &self.model),
            briefing: rules.paragraph("the briefing", &self.briefing),
            system_prompt: rules.paragraph("the system prompt", &self.system_prompt),
            profile: rules.line("the profile", &self.profile),
            max_iterations: rules.number("max_iterations", 1000, &self.max_iterations),
            checks: rules.commands("a check", &self.checks),
            min_tests: rules.number("the number of tests", 1_000_000, &self.min_tests),
            no_dep_bump: self.no_dep_bump.given().is_some_and(|field| field.value),
            bundle_required: self.bundle_required.given().map(|field| field.value),
            output_file: rules.output_file(&self.output_file),
            output_overwrite: self.output_overwrite.given().is_some_and(|field| field.value),
            report_fields: rules.report_fields(&self.report_fields),
            // What is copied is ignored by git and lies in the repository already: any glob will do.
            setup_copy: rules
                .globs("list of files to copy", &self.setup_copy, in_git_dir)
                .unwrap_or_default(),
            setup_run: rules.commands("a setup command", &self.setup_run),
            timeout: rules.timeout(&self.timeout),
            max_cost: rules.max_cost(&self.max_cost),
        };
        let TaskFindings { mut problems, mut warnings, .. } = rules;
        let told: Vec<_> = problems.iter().map(|problem| problem.span.clone()).collect();
        // What is wrong by its form is not looked up in the repository as well: one mistake is told
        // once.
        let new = |problem: &Problem| !told.contains(&problem.span);
        problems.extend(self.unfound.into_iter().filter(new));
        if !problems.is_empty() {
            problems.sort_by_key(Problem::position);
            return Err(TaskProblems { source: self.source, problems });
        }
        warnings.sort_by_key(Problem::position);
        let headlines = warnings.iter().map(|warning| self.source.headline(warning));
        Ok((task, headlines.map(|message| Warning { message }).collect()))
    }
}

/// The findings so far.
struct TaskFindings<'a> {
    source: &'a Source,
    is_typed: bool,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl TaskFindings<'_> {
    fn refuse(&mut self, span: &Range<usize>, message: impl Into<String>, help: &str) {
        self.problems.push(Problem::at(span.clone(), message).help(help));
    }

    fn warn(&mut self, span: &Range<usize>, message: impl Into<String>) {
        self.warnings.push(Problem::at(span.clone(), message));
    }

    /// The value of a key that must be there.
    fn required<'f, T>(&mut self, field: &'f Field<T>, help: &str) -> Option<&'f Located<T>> {
        if let Field::Absent { key, header } = field {
            let missing = Problem::of_file(format!("missing key {key}")).help(help);
            self.problems.push(Problem { span: header.clone(), ..missing });
        }
        field.given()
    }

    /// Where something that was found in a value stands in the file. The value's own span where it was
    /// written with escapes.
    fn locate(
        &self,
        span: &Range<usize>,
        find: impl Fn(&str) -> Option<Range<usize>>,
    ) -> Range<usize> {
        find(self.source.slice(span))
            .map_or(span.clone(), |found| span.start + found.start..span.start + found.end)
    }
}

// Rules of texts: the task's own, and what no recorded text may hold.

/// Fewest characters of a task text.
const FEWEST: usize = 20;
/// Most characters of a task text.
const MOST: usize = 4_000;
/// More characters than this are worth a warning.
const MANY: usize = 2_000;

const TEXT_HELP: &str = "say what is to be done, and how to tell that it is";

impl TaskFindings<'_> {
    /// A credential that is recorded is pushed, fetched and never forgotten.
    fn no_secret(&mut self, word: &str, text: &Located<String>) {
        if let Some(found) = redaction::find_secret(&text.value) {
            let secret = |raw: &str| redaction::find_secret(raw).map(|secret| secret.range);
            self.refuse(
                &self.locate(&text.span, secret),
                format!("{word} holds what looks like {}", found.kind),
                "say where it is kept instead, or put it into `briefing`, which is never recorded",
            );
        }
    }

    /// Control characters end commit messages early, and act on terminals.
    fn no_control(&mut self, word: &str, lines: bool, text: &Located<String>) {
        let white = |c: char| lines && matches!(c, '\n' | '\r' | '\t');
        if let Some(control) = text.value.chars().find(|&c| c.is_control() && !white(c)) {
            let message = format!("{word} holds a control character, U+{:04X}", u32::from(control));
            let help = if lines { "remove it" } else { "write it on one line" };
            self.refuse(&text.span, message, help);
        }
    }

    /// The task text, trimmed and with LF line ends.
    fn text(&mut self, field: &Field<String>) -> Option<String> {
        let given = self.required(field, TEXT_HELP)?;
        self.no_control("the task text", true, given);
        let Located { value, span } = given;
        let text = value.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim();
        let length = text.chars().count();
        if length == 0 {
            self.refuse(span, "the task text is empty", TEXT_HELP);
        } else if length < FEWEST && !self.is_typed {
            let message = format!("the task text has {length} characters, and needs {FEWEST}");
            self.refuse(span, message, TEXT_HELP);
        } else if length > MOST && !self.is_typed {
            let message = format!("the task text has {length} characters, and may have {MOST}");
            self.refuse(span, message, "split the task, or name a file that says more");
        } else if length > MANY {
            let message =
                format!("the task text has {length} characters; up to {MANY} work better");
            self.warn(span, message);
        }
        if length > 0 && is_one_word(text) && !self.is_typed {
            self.refuse(span, "the task text is one word", TEXT_HELP);
        }
        for verb in ["commit", "push", "add", "merge"] {
            if git_command(text, verb).is_some() {
                let place = self.locate(span, |raw| git_command(raw, verb));
                let message =
                    format!("the task text speaks of `git {verb}`; agents must not run git");
                self.warn(&place, message);
            }
        }
        Some(text.to_owned())
    }
}

/// Chinese and Japanese put no spaces between words; there, two wide characters are two words.
fn is_one_word(text: &str) -> bool {
    // Languages that write without spaces have wide characters, of which two are more than a word.
    let wide = text.chars().filter(|c| c.width() == Some(2)).count();
    text.split_whitespace().nth(1).is_none() && wide < 2
}

/// The first place that says `git <verb>`, as words of their own.
fn git_command(text: &str, verb: &str) -> Option<Range<usize>> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices("git").find_map(|(start, git)| {
        let after = text.get(start + git.len()..)?;
        let command = after.trim_start();
        let tail = command.strip_prefix(verb)?;
        let alone = !text.get(..start)?.ends_with(part_of_word)
            && command.len() < after.len()
            && !tail.starts_with(part_of_word);
        alone.then(|| start..text.len() - tail.len())
    })
}

// Rules of the optional keys.

/// The longest time an agent gets.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What to do about a timeout that a run cannot have.
pub const TIMEOUTS: &str = "write a time from `1s` to `24h`";

/// Whether a run can have this time limit.
pub fn is_timeout(limit: Duration) -> bool {
    !limit.is_zero() && limit <= LONGEST
}

impl TaskFindings<'_> {
    /// One line of text without the space around it, which must leave something.
    fn line(&mut self, word: &str, field: &Field<String>) -> Option<String> {
        self.filled(word, false, field.given()?)
    }

    /// The same, of any number of lines.
    fn paragraph(&mut self, word: &str, field: &Field<String>) -> Option<String> {
        self.filled(word, true, field.given()?)
    }

    fn filled(&mut self, word: &str, lines: bool, text: &Located<String>) -> Option<String> {
        self.no_control(word, lines, text);
        let filled = text.value.trim();
        if filled.is_empty() {
            self.refuse(&text.span, format!("{word} is empty"), "leave it out");
        }
        Some(filled.to_owned())
    }

    /// An alias.
    fn name(&mut self, field: &Field<String>) -> Option<AgentName> {
        let Located { value, span } = field.given()?;
        AgentName::parse(value)
            .map_err(|message| self.problems.push(Problem::at(span.clone(), message)))
            .ok()
    }

    /// Ids and their prefixes have the characters of a name; a branch is `agent/` and more of the same.
    fn parent(&mut self, field: &Field<String>) -> Option<String> {
        let Located { value, span } = field.given()?;
        let name = value.strip_prefix("agent/").unwrap_or(value);
        if AgentName::parse(name).is_err() {
            let message = format!("the parent `{value}` is no agent");
            self.refuse(span, message, "write its id (4 digits or more), name or branch");
        }
        Some(value.clone())
    }

    /// A revision must not be taken for an option of git.
    fn base(&mut self, field: &Field<String>) -> Option<String> {
        let base = self.line("the base", field)?;
        // Git would take it for an option.
        if base.starts_with('-') {
            let span = &field.given()?.span;
            let message = format!("the base `{base}` is no revision");
            self.refuse(span, message, "write a branch, a tag or a commit");
        }
        Some(base)
    }

    /// Commands, none of them empty.
    fn commands(&mut self, word: &str, field: &Field<Vec<Located<String>>>) -> Vec<String> {
        let commands = field.given().into_iter().flat_map(|list| &list.value);
        commands.filter_map(|command| self.filled(word, true, command)).collect()
    }

    /// Names of fields, as an answer could have them.
    fn report_fields(&mut self, field: &Field<Vec<Located<String>>>) -> Vec<String> {
        let mut names = Vec::new();
        for Located { value, span } in field.given().into_iter().flat_map(|list| &list.value) {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
            let name = value.trim();
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_part) {
                let help = "write up to 64 letters, digits, blanks, `-` and `_`";
                self.refuse(
                    span,
                    format!("the field `{value}` has no name that an answer could have"),
                    help,
                );
            }
            names.push(name.to_owned());
        }
        names
    }

    /// 1 to so many.
    fn number(&mut self, word: &str, most: u32, field: &Field<i64>) -> Option<u32> {
        let Located { value, span } = field.given()?;
        if !(1..=i64::from(most)).contains(value) {
            let message = format!("{word} is {value}");
            self.refuse(span, message, &format!("write a number from 1 to {most}"));
        }
        u32::try_from(*value).ok()
    }

    /// More than nothing, at most a day.
    fn timeout(&mut self, field: &Field<String>) -> Option<Duration> {
        let Located { value, span } = field.given()?;
        match parse_duration(value) {
            Ok(timeout) if is_timeout(timeout) => return Some(timeout),
            Ok(_) => {
                let message = format!("the timeout is `{value}`");
                self.refuse(span, message, TIMEOUTS);
            }
            Err(message) => self.problems.push(Problem::at(span.clone(), message)),
        }
        None
    }

    /// An amount that is more than nothing.
    fn max_cost(&mut self, field: &Field<f64>) -> Option<f64> {
        let Located { value, span } = field.given()?;
        if *value > 0.0 && value.is_finite() {
            return Some(*value);
        }
        let message = format!("the cost is {value}");
        self.refuse(span, message, "write an amount in US dollars, such as 2.50");
        None
    }

    /// A path below the output directory. `run`, which knows that directory, judges symlinks.
    fn output_file(&mut self, field: &Field<String>) -> Option<String> {
        let file = self.line("the output file", field)?;
        match output_file::relative(&file, None) {
            // An empty line and one with a control character have been refused.
            Ok(_) | Err(OutputProblem::Control) => {}
            Err(OutputProblem::Nameless) if file.is_empty() => {}
            Err(problem) => {
                let span = &field.given()?.span;
                let help = "write a relative path without `..`";
                self.refuse(span, problem.to_string(), help);
            }
        }
        Some(file)
    }
}

// Rules of what an agent may be and touch: its role and its globs.

/// The most globs a list has.
const GLOBS: usize = 20;

const ROLES_HELP: &str = "name the role of the agent, such as edit-local";

const WHITELIST_HELP: &str = "name what the agent may touch, in 1 to 20 globs";

impl TaskFindings<'_> {
    /// The role, which must be known and spawnable.
    fn role<'r>(&mut self, field: &Field<String>, roles: &'r RoleSet) -> Option<&'r Role> {
        let Located { value: name, span } = self.required(field, ROLES_HELP)?;
        let role = roles.get(name);
        if let Some(invalid) = roles.invalid().find(|invalid| invalid.name == *name) {
            let message = format!("role `{name}` cannot be used: {} is invalid", invalid.path);
            self.problems.push(
                Problem::at(span.clone(), message)
                    .help(invalid.problems.join("; "))
                    .code(Code::RoleInvalid),
            );
            return None;
        }
        let problem = match role {
            Some(role) if role.spawnable => return Some(role),
            // The wording is the one that users of the older kit know.
            Some(_) if name == "git-ops" => Problem::at(
                span.clone(),
                "role 'git-ops' is NOT spawnable (per RULE 0.13 git-ops is orchestrator-only)",
            )
            .help(ROLES_HELP)
            .code(Code::RoleNotSpawnable),
            Some(_) => Problem::at(span.clone(), format!("role '{name}' is NOT spawnable"))
                .help(ROLES_HELP)
                .code(Code::RoleNotSpawnable),
            None if name.is_empty() => {
                Problem::at(span.clone(), "the role is empty").help(ROLES_HELP)
            }
            None => {
                let near = nearest(name, spawnable(roles));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if is_role_name(name) => {
                        format!("the roles are {}", Vec::from_iter(spawnable(roles)).join(", "))
                    }
                    None => {
                        "a role name has 1 to 64 of a-z, 0-9 and -, beginning with a letter".into()
                    }
                };
                Problem::at(span.clone(), format!("there is no role `{name}`"))
                    .help(help)
                    .code(Code::RoleUnknown)
            }
        };
        self.problems.push(problem);
        role
    }

    /// The whitelist, which must be there and say something.
    fn whitelist(&mut self, field: &Field<Vec<Located<String>>>, edits: bool) -> Vec<Glob> {
        if let Some(list) = self.required(field, WHITELIST_HELP)
            && list.value.is_empty()
        {
            self.refuse(&list.span, "the whitelist is empty", WHITELIST_HELP);
        }
        let wrong =
            |glob: &Glob| in_git_dir(glob).or_else(|| hidden(glob)).or_else(|| bare(glob, edits));
        self.globs("whitelist", field, wrong).unwrap_or_default()
    }

    /// The globs of a list, each once; `None` where the file has no such list. `wrong` says what this list may
    /// not have.
    fn globs(
        &mut self,
        list: &str,
        field: &Field<Vec<Located<String>>>,
        wrong: impl Fn(&Glob) -> Option<Wrong>,
    ) -> Option<Vec<Glob>> {
        let Located { value: given, span } = field.given()?;
        // What was accepted before may hold the globs of control files besides its own.
        if given.len() > GLOBS && !self.is_typed {
            let message = format!("the {list} has {} globs, and may have {GLOBS}", given.len());
            self.refuse(span, message, "name directories (`src/**`) instead of files");
        }
        let mut seen = HashSet::new();
        let mut globs = Vec::new();
        for Located { value, span } in given {
            match not_several(value).and_then(|()| Glob::parse(value)) {
                Err(message) => self.problems.push(Problem::at(span.clone(), message)),
                Ok(glob) => match wrong(&glob) {
                    Some((rule, help)) => self.refuse(span, format!("glob `{value}` {rule}"), help),
                    None if !seen.insert(glob.clone()) => {
                        self.warn(span, format!("glob `{value}` is in the {list} twice"));
                    }
                    None => globs.push(glob),
                },
            }
        }
        Some(globs)
    }
}

/// Refuses two ways to write several globs as one, which would otherwise match files of peculiar names and nothing else.
fn not_several(text: &str) -> Result<(), String> {
    let shown = text.escape_debug();
    if let Some(rest) = text.strip_prefix('!') {
        let rest = rest.escape_debug();
        return Err(format!("glob `{shown}` starts with `!`; put `{rest}` into the denylist"));
    }
    // Commas in braces and brackets belong to one glob.
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                return Err(format!("glob `{shown}` has a `,` between globs; give each by itself"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names of the roles that a task can name.
fn spawnable(roles: &RoleSet) -> impl Iterator<Item = &str> {
    let spawnable = roles.iter().filter(|role| role.spawnable);
    spawnable.map(|role| role.name.as_str())
}

/// The rule that a glob breaks, to be read after it, and what to do instead.
type Wrong = (&'static str, &'static str);

/// A role that edits may not be given everything.
fn bare(glob: &Glob, edits: bool) -> Option<Wrong> {
    (edits && glob.is_bare()).then_some((
        "matches everything, which no role that edits may say",
        "name at least one directory or file",
    ))
}

/// The settings of other programs are only meant where their directory is typed in full.
fn hidden(glob: &Glob) -> Option<Wrong> {
    glob.guesses_hidden_directory().then_some((
        "stands for hidden directories without their name",
        "type a hidden directory in full",
    ))
}

/// Nothing in a git directory is ever in scope, or copied.
fn in_git_dir(glob: &Glob) -> Option<Wrong> {
    glob.needs_git_dir().then_some((
        "allows nothing: no path in a git directory is ever in scope",
        "name what is in the worktree",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_directory_is_typed_in_full() {
        let is_wrong = |text: &str| hidden(&Glob::parse(text).expect(text)).is_some();
        for text in [".*/**", ".g*/**", "[.]github/x", "{src,.githu?}/**"] {
            assert!(is_wrong(text), "{text}");
        }
        for text in [".github/**", "**/*.json", "*/x.json", ".eslintrc*", "src/.g*/x", "[gh]o/x"] {
            assert!(!is_wrong(text), "{text}");
        }
    }

    #[test]
    fn git_commands_are_words_of_their_own() {
        for (text, found) in [
            ("then git commit it", Some("git commit")),
            ("run `git\n  commit -a`", Some("git\n  commit")),
            ("legit git, git commit", Some("git commit")),
            ("a legit commit", None),
            ("gitcommit", None),
            ("git committed", None),
            ("git agent commit", None),
        ] {
            let range = git_command(text, "commit");
            assert_eq!(range.map(|range| &text[range]), found, "{text}");
        }
    }

    #[test]
    fn words_are_counted_in_scripts_without_spaces() {
        assert!(is_one_word("refactoreverythingnow"));
        assert!(!is_one_word("refactor everything"));
        assert!(!is_one_word("修复解析器中的错误并添加测试用例"));
    }
}
