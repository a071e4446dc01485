//! A pull request on GitHub, opened or brought up to date with `gh`.

use crate::agents::forge::ForgeClient;
use crate::error::Result;
use serde_json::Value;

/// A pull request as it is to be.
pub(super) struct Request<'r> {
    pub branch: &'r str,
    pub target: &'r str,
    pub title: &'r str,
    pub body: &'r str,
    pub draft: bool,
}

/// Opens the pull request, or brings the open one of the branch up to date; gives what was done, and its page.
pub(super) fn offer(
    client: &ForgeClient<'_>,
    request: &Request<'_>,
) -> Result<(&'static str, String)> {
    let run = |words: &[&str]| {
        let said = client.run(words);
        said.map_err(|error| {
            error.hint_only(
                "the branch is pushed; to see whether gh is logged in, run gh auth status",
            )
        })
    };
    let body = client.file("body.md", request.body)?;
    let repository = &client.forge.repository();
    let Request {
        branch,
        target,
        title,
        ..
    } = *request;
    let list = ["pr", "list", "--repo", repository, "--head", branch];
    let list = [&list[..], &["--state", "open", "--json", "number,url"]].concat();
    let listed = run(&list)?;
    let text = ["--repo", repository, "--base", target, "--title", title];
    let text = [&text[..], &["--body-file", &body]].concat();
    if let Some((number, url)) = open(&listed) {
        run(&[&["pr", "edit", &number], &text[..]].concat())?;
        return Ok(("updated", url));
    }
    let mut words = [&["pr", "create", "--head", branch], &text[..]].concat();
    words.extend(request.draft.then_some("--draft"));
    let said = run(&words)?;
    let url = said.lines().rev().find(|line| line.starts_with("https://"));
    Ok(("created", url.unwrap_or(said.trim()).to_owned()))
}

/// The number and the page of the first pull request in the answer of `gh pr list`.
fn open(listed: &str) -> Option<(String, String)> {
    let answer: Value = serde_json::from_str(listed).ok()?;
    let first = answer.get(0)?;
    Some((
        first["number"].to_string(),
        first["url"].as_str()?.to_owned(),
    ))
}
