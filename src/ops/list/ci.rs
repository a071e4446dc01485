//! What the forge's checks say about the branches of agents, asked in one call.

use crate::agents::ctx::Ctx;
use crate::agents::forge::{self, ForgeClient};
use crate::agents::remote_name::remote_name;
use crate::domain::forge::Forge;
use crate::error::Result;
use crate::ops::status::Fact;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

/// How long the forge is waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// So many pull requests are asked for, newest first.
const MOST: usize = 200;

/// The pull request of a branch, and what the checks say about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
            Ok(Ok(listed)) => {
                states.is_known = true;
                states.problem = (listed.len() >= MOST).then(|| {
                    format!("--ci knows only the newest {MOST} pull requests; there may be more")
                });
                states.add(listed);
            }
            Ok(Err(why)) => states.problem = Some(format!("--ci knows nothing: {why}")),
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                let text = format!("{error}{}", cause.unwrap_or_default());
                // One line: `gh` may have said several.
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
                states.problem = Some(format!("--ci knows nothing: {line}"));
            }
        }
        states
    }

    fn add(&mut self, mut listed: Vec<ListedRequest>) {
        // The branch of a fork may have the name of an agent's.
        listed.retain(|request| !request.is_cross_repository);
        // Of several of one branch, the open one counts, and then the newest.
        listed.sort_by_key(|request| (request.state == "OPEN", request.number));
        for request in listed {
            let branch = request.head_ref_name.clone();
            self.by_branch.insert(branch, request.report());
        }
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

/// The pull requests of the repository that the usual remote names, or why they cannot be asked for.
fn pull_requests(
    ctx: &Ctx,
    with_closed: bool,
) -> Result<std::result::Result<Vec<ListedRequest>, String>> {
    let remote = remote_name(ctx, None)?;
    let forge = forge::of_remote(ctx, &remote)?;
    let Some(forge) = forge.filter(Forge::is_github) else {
        let why = format!("the URL of the remote `{remote}` names no repository on GitHub");
        return Ok(Err(why));
    };
    let Some(client) = ForgeClient::find(ctx, &forge)? else {
        return Ok(Err("there is no gh on the path".to_owned()));
    };
    let fields = "autoMergeRequest,headRefName,headRefOid,isCrossRepository,number,reviewDecision,state,statusCheckRollup,url";
    let answer = client.run_within(
        &[
            "pr",
            "list",
            "--repo",
            &forge.repository(),
            "--state",
            if with_closed { "all" } else { "open" },
            "--limit",
            &MOST.to_string(),
            "--json",
            fields,
        ],
        LIMIT,
    )?;
    Ok(serde_json::from_str(&answer)
        .map_err(|error| format!("the answer of gh pr list cannot be read: {error}")))
}

/// A pull request, as `gh pr list --json` writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedRequest {
    head_ref_name: String,
    head_ref_oid: String,
    is_cross_repository: bool,
    number: u64,
    state: String,
    status_check_rollup: Option<Vec<Check>>,
    #[serde(default)]
    review_decision: Option<String>,
    #[serde(default)]
    auto_merge_request: Option<serde_json::Value>,
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

impl ListedRequest {
    fn report(self) -> CiReport {
        let checks = self.status_check_rollup.unwrap_or_default();
        let count = |word| checks.iter().filter(|check| check.word() == word).count();
        let (failed, pending) = (count("failed"), count("pending"));
        CiReport {
            number: self.number,
            url: self.url,
            state: match &*self.state {
                "OPEN" => "open",
                "MERGED" => "merged",
                _ => "closed",
            },
            checks: match (failed, pending) {
                _ if checks.is_empty() => "none",
                (0, 0) => "passed",
                (0, _) => "pending",
                // One that failed decides, however many are still to come.
                _ => "failed",
            },
            total: checks.len(),
            failed,
            pending,
            commit: self.head_ref_oid,
            review: match self.review_decision.as_deref() {
                Some("APPROVED") => Some("approved"),
                Some("CHANGES_REQUESTED") => Some("changes-requested"),
                Some("REVIEW_REQUIRED") => Some("required"),
                _ => None,
            },
            queued: self.auto_merge_request.is_some(),
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
