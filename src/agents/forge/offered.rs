//! The pull requests of our own branches: found, opened, kept current, queued and read.

use super::{ForgeClient, LIMIT};
use crate::error::{Code, Error, Result};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

/// So many open requests are asked for, newest first.
const MOST: &str = "200";

/// A pull request as it is to be.
pub(crate) struct Offer<'o> {
    pub(crate) branch: &'o str,
    pub(crate) target: &'o str,
    pub(crate) title: &'o str,
    pub(crate) body: &'o str,
    pub(crate) labels: &'o [String],
    pub(crate) draft: bool,
}

/// An open pull request of a branch of the repository itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenRequest {
    pub(crate) number: u64,
    pub(crate) url: String,
    pub(crate) branch: String,
}

/// A comment under a pull request.
pub(crate) struct Comment {
    /// What tells it from every other of the forge.
    pub(crate) key: String,
    pub(crate) author: String,
    pub(crate) body: String,
    /// The file and the line that it is about.
    pub(crate) place: Option<String>,
    pub(crate) written: DateTime<Utc>,
}

#[derive(Deserialize)]
struct ListedBranch {
    #[serde(alias = "iid")]
    number: u64,
    #[serde(alias = "web_url")]
    url: String,
    #[serde(rename = "headRefName", alias = "source_branch")]
    branch: String,
    #[serde(rename = "isCrossRepository", default)]
    is_cross: bool,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
}

impl ForgeClient<'_> {
    /// The open pull requests of branches of the repository itself, of one branch or of all. A fork may call its branch as we call
    /// ours, and its pull request is never touched.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn open_requests(&self, branch: Option<&str>) -> Result<Vec<OpenRequest>> {
        let repository = self.forge.repository();
        let mut words = if self.forge.is_github() {
            vec![
                "pr",
                "list",
                "--repo",
                &repository,
                "--state",
                "open",
                "--limit",
                MOST,
            ]
        } else {
            vec!["mr", "list", "--repo", &repository, "--per-page", "100"]
        };
        let by_branch = if self.forge.is_github() {
            "--head"
        } else {
            "--source-branch"
        };
        words.extend({ branch.iter() }.flat_map(|branch| [by_branch, branch]));
        words.extend(if self.forge.is_github() {
            ["--json", "number,url,headRefName,isCrossRepository"]
        } else {
            ["--output", "json"]
        });
        let listed: Vec<ListedBranch> = self.ask(&words, LIMIT)?;
        let own = listed
            .into_iter()
            // GitHub says outright whether it comes from a fork; GitLab gives both projects.
            .filter(|one| !one.is_cross && one.source_project_id == one.target_project_id);
        // The program's own filter may match more than the very name.
        let own = own.filter(|one| branch.is_none_or(|branch| one.branch == branch));
        Ok(own
            .map(|one| OpenRequest {
                number: one.number,
                url: one.url,
                branch: one.branch,
            })
            .collect())
    }

    /// Opens a pull request; gives its page.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn open(&self, offer: &Offer<'_>) -> Result<String> {
        let (repository, labels) = (self.forge.repository(), offer.labels.join(","));
        // A body may be longer than a command line takes.
        let body = self.file("body.md", offer.body)?;
        let begin = if self.forge.is_github() {
            ["pr", "create", "--head", offer.branch]
        } else {
            ["mr", "create", "--source-branch", offer.branch]
        };
        let mut words = self.describing(&begin, &repository, offer, &body);
        // Without it the program asks on a terminal.
        words.extend((!self.forge.is_github()).then_some("--yes"));
        if !offer.labels.is_empty() {
            words.extend(["--label", &labels]);
        }
        words.extend(offer.draft.then_some("--draft"));
        let said = self.run(&words)?;
        // It may write more than the address, which comes last.
        let url = said
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| line.starts_with("https://"));
        Ok(url.unwrap_or(said.trim()).to_owned())
    }

    /// Brings an open pull request up to date: its target, its title, its text; labels are only added.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn edit(&self, number: u64, offer: &Offer<'_>) -> Result<()> {
        let (number, repository) = (number.to_string(), self.forge.repository());
        let labels = offer.labels.join(",");
        let body = self.file("body.md", offer.body)?;
        let begin = if self.forge.is_github() {
            ["pr", "edit", &number]
        } else {
            ["mr", "update", &number]
        };
        let mut words = self.describing(&begin, &repository, offer, &body);
        let add = if self.forge.is_github() {
            "--add-label"
        } else {
            "--label"
        };
        if !offer.labels.is_empty() {
            words.extend([add, &labels]);
        }
        self.run(&words).map(drop)
    }

    /// A command that says what is offered: where it is to land, its title and its text, which GitHub's program reads from a file.
    fn describing<'w>(
        &self,
        begin: &[&'w str],
        repository: &'w str,
        offer: &Offer<'w>,
        body: &'w str,
    ) -> Vec<&'w str> {
        let (onto, text) = if self.forge.is_github() {
            ("--base", ["--body-file", body])
        } else {
            ("--target-branch", ["--description", offer.body])
        };
        let named = [
            "--repo",
            repository,
            onto,
            offer.target,
            "--title",
            offer.title,
        ];
        [begin, &named, &text].concat()
    }

    /// Asks people to review it.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn ask_reviewers(&self, number: u64, reviewers: &[String]) -> Result<()> {
        let (number, repository) = (number.to_string(), self.forge.repository());
        let words = if self.forge.is_github() {
            let names = reviewers.join(",");
            self.run(&[
                "pr",
                "edit",
                &number,
                "--repo",
                &repository,
                "--add-reviewer",
                &names,
            ])
        } else {
            let names: Vec<_> = reviewers.iter().map(|name| format!("+{name}")).collect();
            self.run(&[
                "mr",
                "update",
                &number,
                "--repo",
                &repository,
                "--reviewer",
                &names.join(","),
            ])
        };
        words.map(drop)
    }

    /// Has the forge merge it by its own rules, through its queue where the branch has one, and only while it is at `tip`: what was
    /// judged.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn queue(&self, number: u64, tip: &str) -> Result<()> {
        let (number, repository) = (number.to_string(), self.forge.repository());
        let words = if self.forge.is_github() {
            vec![
                "pr",
                "merge",
                &number,
                "--repo",
                &repository,
                "--auto",
                "--merge",
                // What is pushed after the verdict is not merged by it.
                "--match-head-commit",
                tip,
            ]
        } else {
            vec![
                "mr",
                "merge",
                &number,
                "--repo",
                &repository,
                "--auto-merge",
                "--sha",
                tip,
                "--yes",
            ]
        };
        self.run(&words).map(drop)
    }

    /// What was written under a pull request, oldest first.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn comments(&self, number: u64) -> Result<Vec<Comment>> {
        let path = &self.forge.path;
        let places = if self.forge.is_github() {
            [
                "pulls/{n}/comments",
                "pulls/{n}/reviews",
                "issues/{n}/comments",
            ]
            .map(|place| format!("repos/{path}/{}", place.replace("{n}", &number.to_string())))
            .to_vec()
        } else {
            let project = path.replace('/', "%2F");
            vec![format!("projects/{project}/merge_requests/{number}/notes")]
        };
        let mut comments = Vec::new();
        for place in places {
            let words = ["api", &place, "--hostname", &self.forge.host, "--paginate"];
            let answer = self.run(&words)?;
            // A page each is an array; several follow one another.
            for page in serde_json::Deserializer::from_str(&answer).into_iter::<Vec<Value>>() {
                let page = page.map_err(|error| {
                    let what = format!("the answer about {place} cannot be read");
                    Error::new(Code::RemoteRefused, what).because(error.to_string())
                })?;
                comments.extend(page.iter().filter_map(|one| comment(&place, one)));
            }
        }
        comments.sort_by_key(|one| one.written);
        Ok(comments)
    }
}

/// One entry; `None` for what holds no words, as an approval does.
fn comment(place: &str, one: &Value) -> Option<Comment> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // A review that only approves has no text.
    let body = text(&one["body"]).filter(|body| !body.trim().is_empty())?;
    // What GitLab writes by itself, such as that a label was added, is no comment.
    if one["system"] == true {
        return None;
    }
    let author = [&one["user"]["login"], &one["author"]["username"]]
        .into_iter()
        .find_map(text);
    let written = [&one["submitted_at"], &one["created_at"]]
        .into_iter()
        .find_map(text)?;
    let file = [&one["path"], &one["position"]["new_path"]]
        .into_iter()
        .find_map(text);
    let line = [&one["line"], &one["position"]["new_line"]]
        .into_iter()
        .find_map(Value::as_u64);
    Some(Comment {
        key: format!("{place}/{}", one["id"]),
        author: author.unwrap_or_default(),
        body,
        place: file.map(|file| match line {
            Some(line) => format!("{file}:{line}"),
            None => file,
        }),
        written: written.parse().ok()?,
    })
}
