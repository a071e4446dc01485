//! What the forge's checks say about the branches of agents, asked in one call.

use crate::agents::Ctx;
use crate::agents::forge::ForgeClient;
use crate::agents::who::lookup::remote_name;
use crate::error::{Code, Error, Result};
use crate::ops::status::Fact;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// How long the forge is waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// So many pull requests are asked for, newest first.
const MOST: usize = 200;

/// The pull request of a branch, and what the checks say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CiReport {
    /// The number of the pull request.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// `open`, `closed` or `merged`.
    pub state: &'static str,
    /// `failed` where any check did, else `pending` where any has not ended, else `passed`; `none` without checks.
    pub checks: &'static str,
    /// How many checks there are.
    pub total: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How many of them have not ended.
    pub pending: usize,
    /// The commit that they are about.
    pub commit: String,
    /// What reviewers say: `approved`, `changes-requested` or `required`; absent where nothing is asked of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<&'static str>,
    /// Whether the forge merges it as soon as its rules allow that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Its place in the queue of its target; absent where it is in none, or where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueReport>,
}

/// The place of a pull request in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// Its place; the first is 1.
    pub position: u64,
    /// `queued`, `awaiting-checks`, `mergeable`, `locked`, or `unmergeable` where it stands still.
    pub state: &'static str,
}

/// A pull request of a branch.
struct ListedRequest {
    branch: String,
    /// Whether the branch is in the repository itself.
    is_own: bool,
    report: CiReport,
}

/// What the forge said, by branch.
#[derive(Clone, Debug, Default)]
pub struct CiStates {
    by_branch: HashMap<String, CiReport>,
    is_known: bool,
    /// Why it is not known, or not of all branches.
    pub problem: Option<String>,
}

impl CiStates {
    /// Asks the forge of the usual remote; `with_closed` also for pull requests that are closed or merged. Nothing fails: why it
    /// is not known is part of the answer.
    pub fn ask(ctx: &Ctx, with_closed: bool) -> CiStates {
        let mut states = CiStates::default();
        // The list is shown whatever the forge says.
        match pull_requests(ctx, with_closed) {
            Ok(listed) => {
                states.is_known = true;
                states.problem = (listed.len() >= MOST).then(|| {
                    format!("--ci knows only the newest {MOST} pull requests; there may be more")
                });
                states.add(listed);
            }
            Err(error) => {
                let causes = error.causes().into_iter();
                let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
                // One line: `gh` may have said several.
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
                states.problem = Some(format!("--ci knows nothing: {line}"));
            }
        }
        states
    }

    fn add(&mut self, mut listed: Vec<ListedRequest>) {
        // The branch of a fork may have the name of an agent's.
        listed.retain(|request| request.is_own);
        // Of several of one branch, the open one counts, and then the newest.
        listed.sort_by_key(|one| (one.report.state == "open", one.report.number));
        let listed = listed.into_iter();
        self.by_branch = listed.map(|one| (one.branch, one.report)).collect();
    }

    /// What was said about a branch, short name.
    pub(super) fn of(&self, branch: Option<&str>) -> Fact<CiReport> {
        match branch {
            Some(_) if !self.is_known => Fact::Unknown,
            Some(branch) => match self.by_branch.get(branch) {
                Some(report) => Fact::Known(report.clone()),
                None => Fact::NotApplicable,
            },
            None => Fact::NotApplicable,
        }
    }
}

/// The pull requests of the repository that the usual remote names, newest first.
fn pull_requests(ctx: &Ctx, with_closed: bool) -> Result<Vec<ListedRequest>> {
    let client = ForgeClient::require(ctx, &remote_name(ctx, None)?)?;
    if client.forge.is_github() {
        of_github(&client, with_closed)
    } else {
        of_gitlab(&client, with_closed)
    }
}

// GitHub, as `gh pr list --json` writes it.

fn of_github(client: &ForgeClient<'_>, with_closed: bool) -> Result<Vec<ListedRequest>> {
    let fields = "autoMergeRequest,headRefName,headRefOid,isCrossRepository,number,reviewDecision,state,statusCheckRollup,url";
    let (repository, most) = (client.forge.repository(), MOST.to_string());
    let state = if with_closed { "all" } else { "open" };
    let words = ["pr", "list", "--repo", &repository, "--state", state];
    let words = [&words[..], &["--limit", &most, "--json", fields]].concat();
    let listed: Vec<GitHubListed> = client.ask(&words, LIMIT)?;
    let mut listed: Vec<_> = listed.into_iter().map(GitHubListed::listed).collect();
    if listed.iter().any(|one| one.is_own && one.report.state == "open") {
        // gh does not list it, and older servers know no queue.
        let mut places = github_queue(client).unwrap_or_default();
        for one in &mut listed {
            one.report.queue = places.remove(&one.report.number);
            one.report.queued |= one.report.queue.is_some();
        }
    }
    Ok(listed)
}

/// The places of the newest open pull requests in the queues of their targets.
fn github_queue(client: &ForgeClient<'_>) -> Result<HashMap<u64, QueueReport>> {
    const QUERY: &str = "query($owner:String!,$name:String!){repository(owner:$owner,name:$name){pullRequests(states:OPEN,first:100,\
                         orderBy:{field:CREATED_AT,direction:DESC}){nodes{number mergeQueueEntry{position state}}}}}";
    let (owner, name) = client.forge.path.split_once('/').unwrap_or_default();
    let answer: Value = client.query(QUERY, &[("owner", owner), ("name", name)], LIMIT)?;
    let nodes = answer.pointer("/repository/pullRequests/nodes");
    let nodes = nodes.and_then(Value::as_array);
    let place = |node: &Value| {
        let entry = &node["mergeQueueEntry"];
        let report = QueueReport {
            position: entry["position"].as_u64()?,
            state: match entry["state"].as_str()? {
                "AWAITING_CHECKS" => "awaiting-checks",
                "MERGEABLE" => "mergeable",
                "UNMERGEABLE" => "unmergeable",
                "LOCKED" => "locked",
                _ => "queued",
            },
        };
        Some((node["number"].as_u64()?, report))
    };
    Ok(nodes.into_iter().flatten().filter_map(place).collect())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GitHubListed {
    head_ref_name: String,
    head_ref_oid: String,
    is_cross_repository: bool,
    number: u64,
    state: String,
    status_check_rollup: Option<Vec<Check>>,
    #[serde(default)]
    review_decision: Option<String>,
    #[serde(default)]
    auto_merge_request: Option<Value>,
    url: String,
}

/// A check of an app, which has a status and then a conclusion, or a commit status, which has a state.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    status: Option<String>,
    conclusion: Option<String>,
    state: Option<String>,
}

impl GitHubListed {
    fn listed(self) -> ListedRequest {
        let checks = self.status_check_rollup.unwrap_or_default();
        let report = CiReport {
            number: self.number,
            url: self.url,
            state: match &*self.state {
                "OPEN" => "open",
                "MERGED" => "merged",
                _ => "closed",
            },
            commit: self.head_ref_oid,
            review: match self.review_decision.as_deref() {
                Some("APPROVED") => Some("approved"),
                Some("CHANGES_REQUESTED") => Some("changes-requested"),
                Some("REVIEW_REQUIRED") => Some("required"),
                _ => None,
            },
            queued: self.auto_merge_request.is_some(),
            ..CiReport::of_checks(checks.iter().map(Check::word))
        };
        ListedRequest { branch: self.head_ref_name, is_own: !self.is_cross_repository, report }
    }
}

impl CiReport {
    /// What checks say altogether, each with `passed`, `failed` or `pending`.
    fn of_checks(words: impl Iterator<Item = &'static str>) -> CiReport {
        let words: Vec<_> = words.collect();
        let count = |word| words.iter().filter(|one| **one == word).count();
        let (failed, pending) = (count("failed"), count("pending"));
        CiReport {
            checks: match (failed, pending) {
                _ if words.is_empty() => "none",
                (0, 0) => "passed",
                (0, _) => "pending",
                // One that failed decides, however many are still to come.
                _ => "failed",
            },
            total: words.len(),
            failed,
            pending,
            ..CiReport::default()
        }
    }
}

impl Check {
    /// `passed`, `failed` or `pending`, as `gh pr checks` counts them.
    fn word(&self) -> &'static str {
        let end = match self.status.as_deref() {
            None | Some("") => &self.state,
            Some("COMPLETED") => &self.conclusion,
            Some(_) => return "pending",
        };
        match end.as_deref().unwrap_or_default() {
            "SUCCESS" | "NEUTRAL" | "SKIPPED" => "passed",
            "FAILURE" | "ERROR" | "CANCELLED" | "TIMED_OUT" | "ACTION_REQUIRED"
            | "STARTUP_FAILURE" => "failed",
            _ => "pending",
        }
    }
}

// GitLab: its list of merge requests says nothing of pipelines, a query does.

fn of_gitlab(client: &ForgeClient<'_>, with_closed: bool) -> Result<Vec<ListedRequest>> {
    let state = if with_closed { "all" } else { "opened" };
    let query = format!(
        "query($path:ID!){{project(fullPath:$path){{mergeRequests(state:{state},sort:CREATED_DESC,first:100){{nodes{{iid webUrl state \
         sourceBranch sourceProjectId targetProjectId diffHeadSha approved autoMergeEnabled detailedMergeStatus \
         headPipeline{{status}}}}}}}}}}"
    );
    let path = client.forge.path.as_str();
    let mut answer: Value = client.query(&query, &[("path", path)], LIMIT)?;
    let nodes = answer.pointer_mut("/project/mergeRequests/nodes").map(Value::take);
    let nodes = nodes.unwrap_or_default();
    let nodes: Vec<GitLabListed> = serde_json::from_value(nodes).map_err(|error| {
        let what = format!("glab shows no merge requests of {path}");
        Error::new(Code::RemoteRefused, what).because(error.to_string())
    })?;
    Ok(nodes.into_iter().filter_map(GitLabListed::listed).collect())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GitLabListed {
    iid: String,
    web_url: String,
    state: String,
    source_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    diff_head_sha: Option<String>,
    approved: bool,
    auto_merge_enabled: bool,
    detailed_merge_status: Option<String>,
    head_pipeline: Option<GitLabPipeline>,
}

#[derive(Debug, Deserialize)]
struct GitLabPipeline {
    status: String,
}

impl GitLabListed {
    /// `None` for one without a commit.
    fn listed(self) -> Option<ListedRequest> {
        // The pipeline as a whole counts as one check.
        let pipeline = self.head_pipeline.map(|pipeline| match &*pipeline.status {
            "SUCCESS" | "SKIPPED" => "passed",
            "FAILED" | "CANCELED" | "CANCELING" => "failed",
            _ => "pending",
        });
        let report = CiReport {
            number: self.iid.parse().unwrap_or_default(),
            url: self.web_url,
            state: match &*self.state {
                "merged" => "merged",
                "closed" => "closed",
                _ => "open",
            },
            commit: self.diff_head_sha?,
            review: match self.detailed_merge_status.as_deref() {
                Some("REQUESTED_CHANGES") => Some("changes-requested"),
                Some("NOT_APPROVED") => Some("required"),
                _ => self.approved.then_some("approved"),
            },
            queued: self.auto_merge_enabled,
            ..CiReport::of_checks(pipeline.into_iter())
        };
        Some(ListedRequest {
            branch: self.source_branch,
            is_own: self.source_project_id == Some(self.target_project_id),
            report,
        })
    }
}
