//! A task that is typed on the command line of `spawn` or `run`, in the place of a task file.
//!
//! Programs write task files; a person types. So an argument that is no file and holds white space is the text of a task, globs
//! are relative to the directory that the person stands in, and `.` is all of it.

use crate::agents::{Ctx, place::projects};
use crate::domain::paths::glob::from_directory;
use crate::domain::{TaskDraft, branch_name};
use crate::error::{Code, Error, Result};
use crate::ops::spawn::{self, ForgeText, SpawnOptions};
use crate::wire::file::task_file::{self, TaskWords};
use std::path::Path;

/// Where an agent starts that is made here, and what others wrote about its task.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct StartArgs {
    /// Start from HEAD plus the uncommitted changes of this worktree; they stay here too and do not land with the work
    #[arg(long, group = "start")]
    with_changes: bool,
    /// Start from this branch and land on it; if only the remote has it, it is fetched
    #[arg(long, group = "start", value_name = "BRANCH")]
    from: Option<String>,
    /// Start from a pull request and land on its branch; quote its title and text in the task, or use them as the task
    #[arg(long, alias = "mr", group = "start", value_name = "N|URL")]
    pr: Option<String>,
    /// Quote the title and text of an issue in the task, or use them as the task
    #[arg(long, value_name = "N|URL")]
    issue: Option<String>,
}

/// What others wrote about a task.
pub(in crate::cli) struct ForgeTexts(Vec<ForgeText>);

impl StartArgs {
    /// Where the agent starts, as far as that was said, and the texts. The forge and the remote are asked.
    ///
    /// # Errors
    /// Those of [`spawn::of_branch`], [`spawn::of_pull_request`] and [`spawn::of_issue`].
    pub(in crate::cli) fn read(&self, ctx: &Ctx) -> Result<(SpawnOptions, ForgeTexts)> {
        let mut options =
            SpawnOptions { with_changes: self.with_changes, ..SpawnOptions::default() };
        let mut texts = Vec::new();
        if let Some(branch) = &self.from {
            options.start = spawn::of_branch(ctx, branch)?;
            // One that is here is a base as any other, whatever tag has the same name.
            let full = || format!("refs/heads/{}", branch_name(branch));
            options.base = options.start.is_none().then(full);
        }
        if let Some(request) = &self.pr {
            let (begin, text) = spawn::of_pull_request(ctx, request)?;
            options.start = Some(begin);
            texts.push(text);
        }
        if let Some(issue) = &self.issue {
            texts.push(spawn::of_issue(ctx, issue)?);
        }
        Ok((options, ForgeTexts(texts)))
    }

    /// The option that an agent which is there already cannot have.
    pub(in crate::cli) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--with-changes", self.with_changes),
            ("--from", self.from.is_some()),
            ("--pr", self.pr.is_some()),
            ("--issue", self.issue.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }

    /// Refuses an issue beside a task file.
    ///
    /// # Errors
    /// `usage`.
    pub(in crate::cli) fn require_no_issue(&self) -> Result<()> {
        if self.issue.is_none() {
            return Ok(());
        }
        let what = "--issue is for a task that is typed, which can quote it";
        Err(Error::new(Code::Usage, what))
    }
}

impl ForgeTexts {
    /// A task that quotes them: the caller's own, or one that says what they are about.
    pub(in crate::cli) fn task(&self, own: Option<&str>) -> String {
        let mut all = self.0.iter();
        let first = all.next().map(|text| text.task(own));
        let whole = first.or(own.map(str::to_owned)).unwrap_or_default();
        all.fold(whole, |whole, text| text.task(Some(&whole)))
    }
}

/// A task on the command line, in the place of a task file.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "A task without a file")]
pub(in crate::cli) struct TypedTaskArgs {
    /// Text of the task; several make paragraphs, as in git commit
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub(in crate::cli) message: Vec<String>,
    /// Role, instead of the repository's default or edit-local
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Glob or directory that the agent may touch; repeatable. Without one: everything but the denylist and control
    /// files, such as CI workflows
    #[arg(long, value_name = "GLOB")]
    scope: Vec<String>,
    /// As --scope, for what does not exist yet; repeatable
    #[arg(long, value_name = "GLOB")]
    new: Vec<String>,
    /// Glob or directory that the agent may not touch; repeatable
    #[arg(long, value_name = "GLOB")]
    deny: Vec<String>,
    /// Command that `verify` runs; repeatable
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// Let the work land without a complete bundle, even if the repository's settings require one
    #[arg(long)]
    no_bundle: bool,
}

impl TypedTaskArgs {
    /// The text given with `-m`.
    pub(in crate::cli) fn message(&self) -> Option<String> {
        (!self.message.is_empty()).then(|| self.message.join("\n\n"))
    }

    /// Refuses the text of a task beside other tasks.
    ///
    /// # Errors
    /// `usage`.
    pub(in crate::cli) fn require_no_message_beside(&self, tasks: &[String]) -> Result<()> {
        let Some(task) = tasks.first().filter(|_| !self.message.is_empty()) else {
            return Ok(());
        };
        let message = format!("--message is the text of a task, and {task} is another");
        let error = Error::new(Code::Usage, message).hint(
            "to tell an agent more in its session, run git agent run --resume <agent> -m <text>",
        );
        // Other tools take a name in this place.
        Err(match tasks {
            [name] if !name.contains(char::is_whitespace) => {
                error.hint(format!("to give a new agent that name, write --name {name}"))
            }
            _ => error,
        })
    }

    /// The task with this text and these options.
    pub(in crate::cli) fn draft(&self, ctx: &Ctx, text: &str) -> Result<TaskDraft> {
        let new = new_from_here(ctx, &self.new);
        Ok(task_file::of_words(&TaskWords {
            text: text.to_owned(),
            role: self.role.clone(),
            scope: [from_here(ctx, &self.scope), new.clone()].concat(),
            new,
            deny: from_here(ctx, &self.deny),
            checks: self.check.clone(),
            bundle: self.no_bundle.then_some(false),
            ..TaskWords::default()
        }))
    }

    /// Refuses options of a typed task beside something else.
    ///
    /// # Errors
    /// `usage`.
    pub(in crate::cli) fn require_unused(&self, beside: &str) -> Result<()> {
        let given = [
            ("--role", self.role.is_some()),
            ("--scope", !self.scope.is_empty()),
            ("--new", !self.new.is_empty()),
            ("--deny", !self.deny.is_empty()),
            ("--check", !self.check.is_empty()),
            ("--no-bundle", self.no_bundle),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Error::new(
                Code::Usage,
                format!("{option} is for a task that is typed here, and {beside} is none"),
            )
            .hint(
                "to type a task of one word, or to be sure, pass its text with -m \"fix the typo\"",
            )),
        }
    }
}

/// Whether an argument is the text of a task: it holds white space, and there is no file of that name.
pub(in crate::cli) fn is_task_text(ctx: &Ctx, argument: &str) -> bool {
    argument.trim().contains(char::is_whitespace) && !ctx.absolute(Path::new(argument)).exists()
}

/// Globs that were typed where the caller stands, as globs of the whole repository.
pub(in crate::cli) fn from_here(ctx: &Ctx, globs: &[String]) -> Vec<String> {
    let here = projects::directory_in_repository(ctx);
    globs.iter().map(|glob| from_directory(&here, glob)).collect()
}

/// The same of globs for what does not exist yet.
pub(in crate::cli) fn new_from_here(ctx: &Ctx, globs: &[String]) -> Vec<String> {
    let mut new = from_here(ctx, globs);
    // A name without a glob is a file or a directory; which of the two is not known before there is one.
    let plain = |glob: &&String| !glob.contains(['*', '?', '[', '{']) && !glob.ends_with('/');
    let below: Vec<_> = new.iter().filter(plain).map(|name| format!("{name}/**")).collect();
    new.extend(below);
    new
}
