//! `gh`, the command line of GitHub.

use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::domain::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::proc::{self, End, Job};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The program, with an empty directory to start it in.
pub(super) struct Gh<'c> {
    ctx: &'c Ctx,
    program: PathBuf,
    scratch: Scratch,
}

/// A pull request as it is to be.
pub(super) struct Request<'r> {
    pub repository: &'r str,
    pub branch: &'r str,
    pub target: &'r str,
    pub title: &'r str,
    pub body: &'r str,
    pub draft: bool,
}

impl Gh<'_> {
    /// The program, where it is on the path; none that lies in the repository or in a worktree.
    pub(super) fn find(ctx: &Ctx) -> Result<Option<Gh<'_>>> {
        let mut inside = vec![ctx.repo.root()?];
        inside.extend(ctx.repo.worktrees()?.into_iter().map(|one| one.path));
        let is_outside = |place: &&PathBuf| {
            let real = fs::canonicalize(place);
            place.is_absolute()
                && real.is_ok_and(|real| !inside.iter().any(|top| real.starts_with(top)))
        };
        let places = ctx.env.search.iter().filter(is_outside);
        let found = places
            .map(|place| place.join("gh"))
            .find(|file| file.is_file());
        let Some(program) = found else {
            return Ok(None);
        };
        let scratch = Scratch::make(ctx, "pr")?;
        Ok(Some(Gh {
            ctx,
            program,
            scratch,
        }))
    }

    /// Opens the pull request, or brings the open one of the branch up to date; gives what was done, and its page.
    pub(super) fn offer(&self, request: &Request<'_>) -> Result<(&'static str, String)> {
        let body = self.scratch.path().join("body.md");
        fs::write(&body, request.body).at("could not write", &body)?;
        let body = body.to_string_lossy();
        let Request {
            repository,
            branch,
            target,
            title,
            ..
        } = *request;
        let list = ["pr", "list", "--repo", repository, "--head", branch];
        let list = [&list[..], &["--state", "open", "--json", "number,url"]].concat();
        let listed = self.run(&list)?;
        let text = ["--repo", repository, "--base", target, "--title", title];
        let text = [&text[..], &["--body-file", &body]].concat();
        if let Some((number, url)) = open(&listed) {
            self.run(&[&["pr", "edit", &number], &text[..]].concat())?;
            return Ok(("updated", url));
        }
        let mut words = [&["pr", "create", "--head", branch], &text[..]].concat();
        words.extend(request.draft.then_some("--draft"));
        let said = self.run(&words)?;
        let url = said.lines().rev().find(|line| line.starts_with("https://"));
        Ok(("created", url.unwrap_or(said.trim()).to_owned()))
    }

    /// What the program says.
    fn run(&self, words: &[&str]) -> Result<String> {
        let program: &Path = &self.program;
        let mut script = format!("exec {}", shell::quoted(&program.to_string_lossy()));
        for word in words {
            script.push(' ');
            script.push_str(&shell::quoted(word));
        }
        let done = proc::run(&Job {
            program: self.ctx.env.require_program()?,
            script: &script,
            directory: self.scratch.path(),
            variables: &[],
            limit: LIMIT,
            fence: None,
        })?;
        if done.end == End::Status(0) {
            return Ok(done.output);
        }
        let what = format!("gh {} {} failed", words[0], words[1]);
        Err(Error::new(Code::RemoteRefused, what)
            .because(done.output.trim().to_owned())
            .hint("the branch is pushed; to see whether gh is logged in, run gh auth status"))
    }
}

/// The number and the page of the first pull request in the answer of `gh pr list`.
fn open(listed: &str) -> Option<(String, String)> {
    let answer = listed.lines().find(|line| line.starts_with('['))?;
    let answer: Value = serde_json::from_str(answer).ok()?;
    let first = answer.get(0)?;
    Some((
        first["number"].to_string(),
        first["url"].as_str()?.to_owned(),
    ))
}
