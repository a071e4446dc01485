//! Pull requests and issues as the programs of forges write them, in one form.

use super::{ForgeClient, LIMIT};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use serde::Deserialize;

/// How far a pull request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    Open,
    Closed,
    Merged,
}

impl RequestState {
    fn of(word: &str) -> RequestState {
        match word {
            "OPEN" | "opened" => RequestState::Open,
            "MERGED" | "merged" => RequestState::Merged,
            _ => RequestState::Closed,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            RequestState::Open => "open",
            RequestState::Closed => "closed",
            RequestState::Merged => "merged",
        }
    }
}

/// A pull request, or a merge request.
#[derive(Clone, Debug)]
pub(crate) struct PullRequest {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) state: RequestState,
    /// Its branch, short name, in the repository that this is in.
    pub(crate) head: String,
    /// The branch that it is to land on, short name.
    pub(crate) target: String,
    /// Where its branch is, unless that is the same repository.
    pub(crate) fork: Option<RequestFork>,
}

/// The repository of someone else that the branch of a pull request is in.
#[derive(Clone, Debug)]
pub(crate) struct RequestFork {
    /// Its path on the forge; `None` where it is gone, or may not be seen.
    pub(crate) path: Option<String>,
    /// Whether those who may push to the target may push to the branch.
    pub(crate) can_push: bool,
}

/// An issue.
#[derive(Clone, Debug)]
pub(crate) struct ForgeIssue {
    pub(crate) title: String,
    pub(crate) body: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GitHubRequest {
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: Option<String>,
    state: String,
    head_ref_name: String,
    base_ref_name: String,
    is_cross_repository: bool,
    #[serde(default)]
    maintainer_can_modify: bool,
    head_repository: Option<HeadRepository>,
    head_repository_owner: Option<HeadOwner>,
}

#[derive(Deserialize)]
struct HeadRepository {
    name: String,
}

#[derive(Deserialize)]
struct HeadOwner {
    login: String,
}

#[derive(Deserialize)]
struct GitLabRequest {
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
    state: String,
    source_branch: String,
    target_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    #[serde(default)]
    allow_collaboration: Option<bool>,
}

#[derive(Deserialize)]
struct GitLabProject {
    path_with_namespace: String,
}

#[derive(Deserialize)]
struct AnyIssue {
    #[serde(default)]
    title: String,
    #[serde(alias = "description", default)]
    body: Option<String>,
}

impl ForgeClient<'_> {
    /// A pull request by its number.
    ///
    /// # Errors
    /// As [`ForgeClient::run`]; `remote-refused` for branches that git could not name.
    pub(crate) fn pull_request(&self, number: u64) -> Result<PullRequest> {
        let (text, repository) = (number.to_string(), self.forge.repository());
        let request = if self.forge.is_github() {
            let fields = "title,body,state,headRefName,baseRefName,isCrossRepository,\
                          maintainerCanModify,headRepository,headRepositoryOwner";
            let words = ["pr", "view", &text, "--repo", &repository, "--json", fields];
            let found: GitHubRequest = self.ask(&words, LIMIT)?;
            let owner = found.head_repository_owner.zip(found.head_repository);
            PullRequest {
                title: found.title,
                body: found.body.unwrap_or_default(),
                state: RequestState::of(&found.state),
                head: found.head_ref_name,
                target: found.base_ref_name,
                fork: found.is_cross_repository.then(|| RequestFork {
                    path: owner.map(|(owner, one)| format!("{}/{}", owner.login, one.name)),
                    can_push: found.maintainer_can_modify,
                }),
            }
        } else {
            let words = [
                "mr",
                "view",
                &text,
                "--repo",
                &repository,
                "--output",
                "json",
            ];
            let found: GitLabRequest = self.ask(&words, LIMIT)?;
            // Without a source the project is gone, which is no branch of ours either.
            let is_fork = found.source_project_id != Some(found.target_project_id);
            let fork = is_fork.then(|| RequestFork {
                path: { found.source_project_id }.and_then(|id| self.project(id).ok()),
                can_push: found.allow_collaboration == Some(true),
            });
            PullRequest {
                title: found.title,
                body: found.description.unwrap_or_default(),
                state: RequestState::of(&found.state),
                head: found.source_branch,
                target: found.target_branch,
                fork,
            }
        };
        let names = [&request.head, &request.target].map(|name| format!("refs/heads/{name}"));
        // A name with a colon or a star would be a refspec to git, and the copy of one that is called HEAD is a link to another copy.
        let is_usable = |name: &String| Repo::is_valid_ref(name) && name != "refs/heads/HEAD";
        if !names.iter().all(is_usable) {
            let what = format!("pull request {number} names a branch that git cannot name");
            return Err(Error::new(Code::RemoteRefused, what));
        }
        Ok(request)
    }

    /// The path of a project of GitLab.
    fn project(&self, id: u64) -> Result<String> {
        let place = format!("projects/{id}");
        let words = ["api", &place, "--hostname", &self.forge.host];
        let found: GitLabProject = self.ask(&words, LIMIT)?;
        Ok(found.path_with_namespace)
    }

    /// An issue by its number.
    ///
    /// # Errors
    /// As [`ForgeClient::run`].
    pub(crate) fn issue(&self, number: u64) -> Result<ForgeIssue> {
        let (text, repository) = (number.to_string(), self.forge.repository());
        let mut words = vec!["issue", "view", &text, "--repo", &repository];
        words.extend(if self.forge.is_github() {
            ["--json", "title,body"]
        } else {
            ["--output", "json"]
        });
        let found: AnyIssue = self.ask(&words, LIMIT)?;
        Ok(ForgeIssue {
            title: found.title,
            body: found.body.unwrap_or_default(),
        })
    }
}
