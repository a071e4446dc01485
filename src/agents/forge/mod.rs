//! A forge, asked through its own command line: `gh` for GitHub and `glab` for GitLab.
//!
//! The program is looked for outside of the repository and started in an empty directory, so that nothing that an agent wrote is read
//! or started. What it answers is data that others wrote: names are checked before git gets them, texts are quoted before a model or a
//! terminal does.

mod offered;

use crate::agents::context::ctx::Ctx;
use crate::agents::context::scratch::Scratch;
use crate::domain::landing::forge::Forge;
use crate::domain::value::quoted::visible_line;
use crate::domain::value::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::proc::supervisor::TreeBounds;
use crate::proc::{self, End, Job};
use crate::wire::row::policy::LandsOn;
pub(crate) use offered::{Comment, Offer, OpenRequest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What makes the programs answer as they do to a pipe, whatever the user has set.
const PLAIN: [(&str, &str); 5] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_FORCE_TTY", ""),
    ("NO_PROMPT", "1"),
    ("CLICOLOR_FORCE", "0"),
    ("NO_COLOR", "1"),
];

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What a forge says that has had too many questions.
const RATE_LIMITS: [&str; 5] =
    ["rate limit", "HTTP 429", "Too Many Requests", "abuse detection", "was submitted too quickly"];

/// The answer to a query in GraphQL.
#[derive(Deserialize)]
struct QueryAnswer<T> {
    data: Option<T>,
    #[serde(default)]
    errors: Vec<Value>,
}

/// A forge and the program that speaks to it, with an empty directory to start it in.
pub(crate) struct ForgeClient<'c> {
    ctx: &'c Ctx,
    pub(crate) forge: Forge,
    name: &'static str,
    program: PathBuf,
    scratch: Scratch,
}

/// The forge that the URL of a remote names; `None` for a remote elsewhere.
pub(crate) fn of_remote(ctx: &Ctx, remote: &str) -> Result<Option<Forge>> {
    Ok(forge_url(ctx, remote)?.map(|(_, forge)| forge))
}

/// The URL by which a remote names its forge: as it was set, which may be read from a mirror, else as `url.<base>.insteadOf` makes it.
fn forge_url(ctx: &Ctx, remote: &str) -> Result<Option<(String, Forge)>> {
    let named = |url: Option<String>| url.and_then(|url| Some((Forge::of_url(&url)?, url)));
    let found = match named(ctx.repo.config_string(&format!("remote.{remote}.url"))?) {
        Some(found) => Some(found),
        None => named(ctx.repo.remote_url(remote)?),
    };
    Ok(found.map(|(forge, url)| (url, forge)))
}

/// The remote by which a branch of others was found, and where that branch is reached: a remote, or the URL of that one with the path
/// of the other repository. Names of remotes and URLs are a clone's own, and a URL may hold a password, so no policy names them.
///
/// # Errors
/// `usage` where no remote here leads there.
pub(crate) fn remote_of(ctx: &Ctx, place: &LandsOn) -> Result<(String, String)> {
    let mut own = None;
    let mut there = None;
    // Two remotes may lead to one repository; the first one is taken.
    for remote in ctx.repo.remotes()? {
        let Some((url, forge)) = forge_url(ctx, &remote)? else {
            continue;
        };
        let name = forge.name();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is(&place.beside) && own.is_none() {
            own = Some((remote.clone(), url, forge.clone()));
        }
        if is(&place.repository) && there.is_none() {
            there = Some(remote);
        }
    }
    let (beside, repository) = (&place.beside, &place.repository);
    let Some((own, url, forge)) = own else {
        let what = format!("no remote here is {beside}, where the pull request is");
        return Err(Error::new(Code::Usage, what).hint("to see them, run git remote -v"));
    };
    if let Some(there) = there {
        return Ok((own, there));
    }
    let other = Forge::of_url(&format!("https://{repository}"));
    let Some(other) = other.filter(|other| other.host == forge.host) else {
        let what = "the repository that the pull request came from is gone";
        return Err(
            Error::new(Code::Usage, what).hint("to land it elsewhere, pass --into <branch>")
        );
    };
    Ok((own, forge.url_beside(&url, &other)))
}

impl ForgeClient<'_> {
    /// The program for a forge, where it is on the path; none that lies in the repository or in a worktree.
    pub(crate) fn find<'c>(ctx: &'c Ctx, forge: &Forge) -> Result<Option<ForgeClient<'c>>> {
        let Some(name) = forge.program() else {
            return Ok(None);
        };
        let Some(program) = ctx.trusted_program(name)? else {
            return Ok(None);
        };
        Ok(Some(ForgeClient {
            ctx,
            forge: forge.clone(),
            name,
            program,
            scratch: Scratch::make(ctx, name)?,
        }))
    }

    /// As [`ForgeClient::find`], where nothing can be done without it.
    ///
    /// # Errors
    /// `usage` where the remote's URL names no forge that a program speaks to, or that program is not on the path.
    pub(crate) fn require<'c>(ctx: &'c Ctx, remote: &str) -> Result<ForgeClient<'c>> {
        let forge = of_remote(ctx, remote)?;
        let Some((forge, name)) = forge.and_then(|one| one.program().map(|name| (one, name)))
        else {
            let what =
                format!("the URL of the remote `{remote}` names no repository on GitHub or GitLab");
            return Err(Error::new(Code::Usage, what)
                .hint(format!("to see it, run git remote get-url {remote}")));
        };
        ForgeClient::find(ctx, &forge)?.ok_or_else(|| {
            let what = format!("there is no {name} on the path, which speaks to {}", forge.host);
            Error::new(Code::Usage, what)
                .hint(format!("to see whether it is installed, run command -v {name}"))
        })
    }

    /// Where files for the program can be put.
    pub(crate) fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a text to a file for the program, and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<String> {
        let file = self.directory().join(name);
        fs::write(&file, text).at("could not write", &file)?;
        Ok(file.to_string_lossy().into_owned())
    }

    /// What the program writes to standard output.
    ///
    /// # Errors
    /// `remote-busy` where the forge has had too many questions; `remote-refused`, with what it wrote to standard error, where it fails or takes
    /// longer than two minutes.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        self.run_within(words, LIMIT)
    }

    /// As [`ForgeClient::run`], with another limit.
    pub(crate) fn run_within(&self, words: &[&str], limit: Duration) -> Result<String> {
        // A limit then ends the program itself and not only a shell around it.
        let mut script = format!("exec {}", shell::quoted(&self.program.to_string_lossy()));
        for word in words {
            script.push(' ');
            script.push_str(&shell::quoted(word));
        }
        // Only the end of what a job writes is kept, and an answer can be long.
        let answer = self.scratch.path().join("answer");
        script.push_str(" > answer");
        let done = proc::run(&Job {
            program: self.ctx.env.require_program()?,
            script: &script,
            directory: self.scratch.path(),
            variables: &PLAIN.map(|(name, value)| (Cow::Borrowed(name), value.into())),
            limit,
            bounds: TreeBounds::default(),
            fence: None,
        })?;
        let (name, command) = (self.name, self.subcommand(words));
        let what = match done.end {
            End::Status(0) => {
                let answer = fs::read(&answer).at("could not read", &answer)?;
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            End::Status(_) => format!("{command} failed"),
            End::TimedOut => format!("{command} took longer than {} s", limit.as_secs()),
        };
        let said = done.output.trim().to_owned();
        // A fleet asks often. That is over soon and means no refusal, so callers may try again.
        if RATE_LIMITS.iter().any(|words| said.contains(words)) {
            let what = format!("{command}: {} has had too many questions", self.forge.host);
            return Err(Error::new(Code::RemoteBusy, what)
                .because(visible_line(&said))
                .hint("to go on when the forge answers again, run the same command again"));
        }
        Err(Error::new(Code::RemoteRefused, what)
            .because(said)
            .hint(format!("to see whether {name} is logged in, run {name} auth status")))
    }

    /// The words of a call that say what it does, for people.
    fn subcommand(&self, words: &[&str]) -> String {
        let words = std::iter::once(self.name).chain(words.iter().take(2).copied());
        words.collect::<Vec<_>>().join(" ")
    }

    /// What the program writes, which is JSON.
    ///
    /// # Errors
    /// As [`ForgeClient::run`]; `remote-refused` for an answer that is something else.
    pub(crate) fn ask<T: DeserializeOwned>(&self, words: &[&str], limit: Duration) -> Result<T> {
        let answer = self.run_within(words, limit)?;
        serde_json::from_str(&answer).map_err(|error| {
            let what = format!("the answer of {} cannot be read", self.subcommand(words));
            Error::new(Code::RemoteRefused, what).because(error.to_string())
        })
    }

    /// What the forge answers to a query in GraphQL with these variables, which are texts.
    ///
    /// # Errors
    /// As [`ForgeClient::ask`]; `remote-refused` with its reasons where it answers with nothing else.
    pub(crate) fn query<T: DeserializeOwned>(
        &self,
        query: &str,
        variables: &[(&str, &str)],
        limit: Duration,
    ) -> Result<T> {
        let query = format!("query={query}");
        let mut words = vec!["api", "graphql", "--hostname", &self.forge.host, "-f", &query];
        let pairs: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.extend(pairs.iter().flat_map(|pair| ["-f", pair]));
        let answer: QueryAnswer<T> = self.ask(&words, limit)?;
        answer.data.ok_or_else(|| {
            let reasons = answer.errors.iter().filter_map(|one| one["message"].as_str());
            let what = format!("{} api graphql gave no answer", self.name);
            Error::new(Code::RemoteRefused, what)
                .because(visible_line(&reasons.collect::<Vec<_>>().join("; ")))
        })
    }
}

// Pull requests and issues as the programs of forges write them, in one form.

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
            let words = ["mr", "view", &text, "--repo", &repository, "--output", "json"];
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
        Ok(ForgeIssue { title: found.title, body: found.body.unwrap_or_default() })
    }
}
