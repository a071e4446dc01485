//! The pull requests of our own branches: found, opened, kept current, queued and read.

use super::{ForgeClient, LIMIT};
use crate::domain::value::quoted::visible_line;
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
    #[serde(default)]
    state: String,
}

/// Puts a pull request into the queue of its target.
const ENQUEUE: &str = "mutation($pull:ID!,$tip:GitObjectID!){enqueuePullRequest(input:{pullRequestId:$pull,expectedHeadOid:$tip}){clientMutationId}}";

#[derive(Deserialize)]
struct AskedRules {
    repository: LandingRules,
}

/// How the forge lands a pull request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LandingRules {
    auto_merge_allowed: bool,
    merge_commit_allowed: bool,
    squash_merge_allowed: bool,
    merge_queue: Option<Value>,
    pull_request: Option<QueuedRequest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueuedRequest {
    id: String,
    is_in_merge_queue: bool,
}

impl Default for LandingRules {
    fn default() -> LandingRules {
        LandingRules {
            auto_merge_allowed: true,
            merge_commit_allowed: true,
            squash_merge_allowed: true,
            merge_queue: None,
            pull_request: None,
        }
    }
}

impl ForgeClient<'_> {
    /// The open pull requests of branches of the repository itself, of one branch or of all. A fork may call its branch as we call
    /// ours, and its pull request is never touched.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn open_requests(&self, branch: Option<&str>) -> Result<Vec<OpenRequest>> {
        self.requests(branch, false)
    }

    /// The newest pull request of a branch that a person closed without merging it.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn closed_request(&self, branch: &str) -> Result<Option<OpenRequest>> {
        Ok(self.requests(Some(branch), true)?.into_iter().next())
    }

    fn requests(&self, branch: Option<&str>, is_closed: bool) -> Result<Vec<OpenRequest>> {
        let repository = self.forge.repository();
        let state = if is_closed { "closed" } else { "open" };
        let mut words = if self.forge.is_github() {
            vec!["pr", "list", "--repo", &repository, "--state", state, "--limit", MOST]
        } else {
            let words = ["mr", "list", "--repo", &repository, "--per-page", "100"];
            [&words[..], if is_closed { &["--closed"] } else { &[] }].concat()
        };
        let by_branch = if self.forge.is_github() { "--head" } else { "--source-branch" };
        words.extend(branch.iter().flat_map(|branch| [by_branch, branch]));
        words.extend(if self.forge.is_github() {
            ["--json", "number,url,headRefName,isCrossRepository,state"]
        } else {
            ["--output", "json"]
        });
        let listed: Vec<ListedBranch> = self.ask(&words, LIMIT)?;
        let own = listed
            .into_iter()
            // GitHub says outright whether it comes from a fork; GitLab gives both projects.
            .filter(|one| !one.is_cross && one.source_project_id == one.target_project_id);
        // What was merged counts as closed to gh.
        let own = own.filter(|one| !is_closed || one.state.eq_ignore_ascii_case("closed"));
        // The program's own filter may match more than the very name.
        let own = own.filter(|one| branch.is_none_or(|branch| one.branch == branch));
        Ok(own
            .map(|one| OpenRequest { number: one.number, url: one.url, branch: one.branch })
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
        if let Some(url) = said.lines().rev().map(str::trim).find(|it| it.starts_with("https://")) {
            return Ok(url.to_owned());
        }
        let opened = self.open_requests(Some(offer.branch))?.into_iter().next();
        opened.map(|request| request.url).ok_or_else(|| {
            let what = format!("{} says that it is done, and there is no pull request", self.name);
            Error::new(Code::RemoteRefused, what).because(visible_line(&said))
        })
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
        let add = if self.forge.is_github() { "--add-label" } else { "--label" };
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
        let named = ["--repo", repository, onto, offer.target, "--title", offer.title];
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
            self.run(&["pr", "edit", &number, "--repo", &repository, "--add-reviewer", &names])
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
    pub(crate) fn queue(&self, number: u64, target: &str, tip: &str) -> Result<()> {
        let (text, repository) = (number.to_string(), self.forge.repository());
        if !self.forge.is_github() {
            let words = ["mr", "merge", &text, "--repo", &repository, "--auto-merge"];
            return self.run(&[&words[..], &["--sha", tip, "--yes"]].concat()).map(drop);
        }
        let rules = self.landing_rules(number, target)?;
        let (has_queue, pull) = (rules.merge_queue.is_some(), rules.pull_request);
        if pull.as_ref().is_some_and(|pull| pull.is_in_merge_queue) {
            return Ok(());
        }
        // `gh pr merge` reaches a queue through auto-merge, which the repository may not allow.
        if let Some(pull) = pull.filter(|_| has_queue && !rules.auto_merge_allowed) {
            let variables = [("pull", pull.id.as_str()), ("tip", tip)];
            return self.query::<Value>(ENQUEUE, &variables, LIMIT).map(drop);
        }
        let words = ["pr", "merge", &text, "--repo", &repository, "--auto"];
        // What is pushed after the verdict is not merged by it.
        let mut words = [&words[..], &["--match-head-commit", tip]].concat();
        // The queue has a method of its own and refuses another; without one, gh asks which on a terminal.
        let method = if rules.merge_commit_allowed {
            "--merge"
        } else if rules.squash_merge_allowed {
            "--squash"
        } else {
            "--rebase"
        };
        words.extend((!has_queue).then_some(method));
        self.run(&words).map(drop)
    }

    /// How a pull request may land on its target.
    fn landing_rules(&self, number: u64, target: &str) -> Result<LandingRules> {
        let Some((owner, name)) = self.forge.path.split_once('/') else {
            return Err(Error::bug("a repository of GitHub has an owner"));
        };
        let query = format!(
            "query($owner:String!,$name:String!,$branch:String!){{repository(owner:$owner,name:$name){{autoMergeAllowed \
             mergeCommitAllowed squashMergeAllowed mergeQueue(branch:$branch){{id}} \
             pullRequest(number:{number}){{id isInMergeQueue}}}}}}"
        );
        let variables = [("owner", owner), ("name", name), ("branch", target)];
        match self.query::<AskedRules>(&query, &variables, LIMIT) {
            Ok(answer) => Ok(answer.repository),
            Err(error) if error.code() == Code::RemoteBusy => Err(error),
            // A server from before there were queues knows no such field.
            Err(_) => Ok(LandingRules::default()),
        }
    }

    /// What was written under a pull request, oldest first.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn comments(&self, number: u64) -> Result<Vec<Comment>> {
        let path = &self.forge.path;
        let places = if self.forge.is_github() {
            ["pulls/{n}/comments", "pulls/{n}/reviews", "issues/{n}/comments"]
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
    let author =
        ["/user/login", "/author/username"].into_iter().find_map(|place| text(one.pointer(place)?));
    let written = [&one["submitted_at"], &one["created_at"]].into_iter().find_map(text)?;
    let file =
        ["/path", "/position/new_path"].into_iter().find_map(|place| text(one.pointer(place)?));
    let line =
        ["/line", "/position/new_line"].into_iter().find_map(|place| one.pointer(place)?.as_u64());
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
