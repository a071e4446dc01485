//! The rules of a task, applied all at once.
//!
//! Each rule looks at one field, adds what is wrong to the list and gives the checked value where
//! there is one. A field that the reader could not read has been reported and is passed over.

mod scope;
mod text;
mod values;

use scope::{bare, in_git_dir};

use super::{Task, TaskDraft, TaskProblems, Warning};
use crate::domain::diagnostic::{Field, Located, Problem, Source};
use crate::domain::role::RoleSet;
use std::ops::Range;

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
        let mut rules = Rules {
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
            whitelist: rules.whitelist(
                &self.whitelist,
                edits && !self.is_typed && !self.was_accepted,
            ),
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
            output_overwrite: self
                .output_overwrite
                .given()
                .is_some_and(|field| field.value),
            report_fields: rules.report_fields(&self.report_fields),
            // What is copied is ignored by git and lies in the repository already: any glob will do.
            setup_copy: rules
                .globs("list of files to copy", &self.setup_copy, in_git_dir)
                .unwrap_or_default(),
            setup_run: rules.commands("a setup command", &self.setup_run),
            timeout: rules.timeout(&self.timeout),
            max_cost: rules.max_cost(&self.max_cost),
        };
        let Rules {
            mut problems,
            mut warnings,
            ..
        } = rules;
        let told: Vec<_> = problems
            .iter()
            .map(|problem| problem.span.clone())
            .collect();
        let new = |problem: &Problem| !told.contains(&problem.span);
        problems.extend(self.unfound.into_iter().filter(new));
        if !problems.is_empty() {
            problems.sort_by_key(Problem::position);
            return Err(TaskProblems {
                source: self.source,
                problems,
            });
        }
        warnings.sort_by_key(Problem::position);
        let headlines = warnings.iter().map(|warning| self.source.headline(warning));
        Ok((task, headlines.map(|message| Warning { message }).collect()))
    }
}

/// The findings so far.
struct Rules<'a> {
    source: &'a Source,
    is_typed: bool,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Rules<'_> {
    fn refuse(&mut self, span: &Range<usize>, message: impl Into<String>, help: &str) {
        self.problems
            .push(Problem::at(span.clone(), message).help(help));
    }

    fn warn(&mut self, span: &Range<usize>, message: impl Into<String>) {
        self.warnings.push(Problem::at(span.clone(), message));
    }

    /// The value of a key that must be there.
    fn required<'f, T>(&mut self, field: &'f Field<T>, help: &str) -> Option<&'f Located<T>> {
        if let Field::Absent { key, header } = field {
            let missing = Problem::of_file(format!("missing key {key}")).help(help);
            self.problems.push(Problem {
                span: header.clone(),
                ..missing
            });
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
        find(self.source.slice(span)).map_or(span.clone(), |found| {
            span.start + found.start..span.start + found.end
        })
    }
}
