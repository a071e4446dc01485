//! Where an agent starts that works on what others wrote: a pull request, a branch that only a remote has, or an agent's branch.
//!
//! ```text
//! pull request ─> its head, fetched ───> base commit       nothing of it is obeyed
//!              └> the branch it is for ─> settings, roles, set-up, hooks
//!              └> title and text ───────> quoted in the task
//! ```
//!
//! The author of a pull request writes its files, so none of them decides what runs here: its settings, its list of ignored files to
//! copy and its instructions are read from the branch that it is for. The set-up commands of that branch run behind the fence, because
//! they run programs of the pull request, such as the scripts of its `package.json`.

use crate::agents::context::real_path::real_path;
use crate::agents::forge::{ForgeClient, RequestState};
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::lookup::remote_name;
use crate::agents::work::base_of;
use crate::agents::{Ctx, forge, own_changes, who::authority};
use crate::domain::landing::forge::Forge;
use crate::domain::life::event::Base;
use crate::domain::value::quoted::{beginning, quoted};
use crate::domain::{Agent, Oid, TaskDraft, branch_name};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::refs::remote::Fetched;
use crate::ops::spawn::contract::SpawnOptions;
use crate::ops::spawn::{named, place};
use crate::store::landing::spawn_commit;
use crate::wire::row::policy::LandsOn;
use std::time::{Duration, Instant};

/// How long the remote is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// How much of a text is quoted, in bytes: as much as a long description has, and no log that was pasted into it.
const MOST: usize = 16 << 10;

/// Where an agent starts, and whose settings hold for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The commit, and the name of the branch that the work lands on.
    pub base: Base,
    /// The commit whose settings and roles hold.
    pub settings: Oid,
    /// The repository and the branch that the work lands back onto, where the remote's URL names a forge.
    pub lands_on: Option<LandsOn>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// What a forge says of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgeText {
    lead: String,
    quoted: String,
}

impl ForgeText {
    /// The text of a task: the caller's own words, or else what it is about; then the words of others, quoted.
    pub fn task(&self, own: Option<&str>) -> String {
        format!("{}\n{}", own.unwrap_or(&self.lead).trim_end(), self.quoted)
    }
}

/// A branch that is not here, fetched from the usual remote; `None` for one that is here. Its files are those of its author, so
/// the settings are those of HEAD of the main worktree.
///
/// # Errors
/// `usage` where the remote has no such branch; those of the network.
pub fn of_branch(ctx: &Ctx, branch: &str) -> Result<Option<Start>> {
    let short = branch_name(branch);
    let full = format!("refs/heads/{short}");
    // `refs/heads/HEAD` is a valid ref, but git refuses to make a branch of that name.
    if !Repo::is_valid_ref(&full) || short == "HEAD" {
        let what = format!("`{branch}` cannot be the name of a branch");
        return Err(Error::new(Code::Usage, what));
    }
    if ctx.repo.branch_tip(&full)?.oid().is_some() {
        return Ok(None);
    }
    let remote = remote_name(ctx, None)?;
    let copy = format!("refs/remotes/{remote}/{short}");
    fetch(ctx, &remote, &[(&full, &copy)], &format!("branch {short}"))?;
    // Wherever the caller stands: an agent's own HEAD says nothing.
    let settings = ctx.repo.main_head()?;
    let repository = forge::of_remote(ctx, &remote)?.map(|forge| forge.name());
    Ok(Some(Start {
        base: Base { refname: Some(full.clone()), oid: require_tip(ctx, &copy)? },
        settings,
        lands_on: repository.map(|repository| LandsOn {
            beside: repository.clone(),
            repository,
            branch: full,
        }),
        warnings: vec![format!(
            "{short} was fetched from {remote}; settings, roles and hooks are those of the main worktree's HEAD"
        )],
    }))
}

/// A pull request by its number or its page.
///
/// # Errors
/// `usage` for what names none, and for one that is closed; those of the forge and of the network.
pub fn of_pull_request(ctx: &Ctx, who: &str) -> Result<(Start, ForgeText)> {
    let (remote, number) = named(ctx, who, &["pull", "merge_requests"])?;
    let client = ForgeClient::require(ctx, &remote)?;
    let request = client.pull_request(number)?;
    let called = client.forge.request_name(number);
    if request.state != RequestState::Open {
        let what = format!("{called} is {}, so no work lands on it", request.state.as_str());
        return Err(Error::new(Code::Usage, what));
    }
    // 1. The commits: that of the request, and that of the branch it is for. A fork's branch can be called as one of ours.
    let local = match &request.fork {
        Some(_) => format!("{}/{number}", client.forge.request_word()),
        None => request.head.clone(),
    };
    let copy = format!("refs/remotes/{remote}/{local}");
    let there = match &request.fork {
        Some(_) => client.forge.request_ref(number),
        None => format!("refs/heads/{}", request.head),
    };
    let target = format!("refs/heads/{}", request.target);
    // The branch that it is for may have moved since this clone fetched it.
    let target_copy = format!("refs/remotes/{remote}/{}", request.target);
    let pairs = [(there.as_str(), copy.as_str()), (&target, &target_copy)];
    fetch(ctx, &remote, &pairs, &called)?;
    // 2. Where the work lands.
    let own = client.forge.name();
    let mut warnings =
        vec![format!("settings, roles and hooks are those of {}, not of {called}", request.target)];
    let repository = match &request.fork {
        None => own.clone(),
        Some(fork) => {
            let forge = fork.path.as_deref().and_then(|path| client.forge.with_path(path));
            let name = forge.map(|forge| forge.name());
            if name.is_none() || !fork.can_push {
                let place = name.as_deref().unwrap_or("a repository that is gone");
                warnings.push(format!(
                    "the branch of {called} is in {place}, where you cannot push unless its owner allows it: the work can be judged, \
                     and lands only on a branch of yours (merge --into <branch>)"
                ));
            }
            name.unwrap_or_default()
        }
    };
    let refname = format!("refs/heads/{local}");
    let oid = require_tip(ctx, &copy)?;
    if let Some(here) = ctx.repo.tip(&refname)?.oid().filter(|here| *here != oid) {
        warnings.push(format!(
            "{local} is at {} here and at {} on {remote}; to land on the latter, pass --push to merge",
            here.short(),
            oid.short()
        ));
    }
    let lands_on =
        LandsOn { repository, branch: format!("refs/heads/{}", request.head), beside: own };
    let texts = [("title", &request.title), ("text", &request.body)];
    Ok((
        Start {
            base: Base { refname: Some(refname), oid },
            settings: require_tip(ctx, &target_copy)?,
            lands_on: Some(lands_on),
            warnings,
        },
        forge_text(&client.forge, format!("Continue {called}."), &called, texts),
    ))
}

/// An issue by its number or its page.
///
/// # Errors
/// `usage` for what names none; those of the forge.
pub fn of_issue(ctx: &Ctx, who: &str) -> Result<ForgeText> {
    let (remote, number) = named(ctx, who, &["issues"])?;
    let client = ForgeClient::require(ctx, &remote)?;
    let issue = client.issue(number)?;
    let called = format!("issue {number}");
    let texts = [("title", &issue.title), ("text", &issue.body)];
    let lead = format!("Resolve {called}.");
    Ok(forge_text(&client.forge, lead, &called, texts))
}

/// What a spawn asks for in an agent's worktree without naming a base. It starts from that agent's branch, and nothing there is obeyed: the
/// settings that bind the agent hold, as for what it spawns in a sandbox. Where these name a base, it starts from that. `None` elsewhere,
/// where the options hold as they are.
///
/// # Errors
/// Those of finding the agent, of its settings and of own changes.
pub(super) fn in_agents_worktree(
    ctx: &Ctx,
    draft: &TaskDraft,
    options: &SpawnOptions,
    warns: bool,
) -> Result<Option<SpawnOptions>> {
    let is_named = options.base.is_some() || draft.base().is_some();
    let Some(top) = ctx
        .repo
        .workdir()
        .filter(|_| !is_named && options.start.is_none() && options.adopt.is_none())
    else {
        return Ok(None);
    };
    // The worktree around a nested repository is another one's.
    let is_own =
        |home: &CurrentAgent| real_path(home.repo.git_dir()) == real_path(ctx.repo.git_dir());
    let Some(home) = CurrentAgent::around(top)?.filter(is_own) else {
        return Ok(None);
    };
    let Some(settings) = spawn_commit::settings_commit(&ctx.repo, &home.agent)? else {
        return Ok(None);
    };
    let mut options = options.clone();
    // What is uncommitted belongs to HEAD, so it can start from no other base.
    if !options.with_changes {
        options.base = named::base_named_at(ctx, settings)?;
    }
    if options.base.is_some() {
        return Ok(Some(options));
    }
    let head = ctx.repo.resolve_commit("HEAD")?;
    let mut oid = head.commit;
    if options.with_changes {
        oid = own_changes::commit(ctx, oid, &place::bundle_dir(ctx)?)?.unwrap_or(oid);
    }
    let id = home.agent.id.short();
    let from = head
        .refname
        .as_deref()
        .map_or_else(|| head.commit.short(), |name| branch_name(name).to_owned());
    let warning = format!(
        "this is the worktree of agent {id}, so the new agent starts from {from}, and settings, roles and hooks are those that bind \
         agent {id}; to start from elsewhere, pass --base <rev>"
    );
    options.start = Some(Start {
        base: Base { refname: head.refname, oid },
        settings,
        lands_on: None,
        warnings: warns.then_some(warning).into_iter().collect(),
    });
    Ok(Some(options))
}

/// Where an agent starts once more that works on what others wrote, or whose target has come to hold what no person took over, as the branch
/// of an agent does: from what is there by now, with the settings of before. `None` for every other.
///
/// # Errors
/// Those of the spawn commit, of refs, and of [`authority::trusted_settings`].
pub(super) fn again(ctx: &Ctx, agent: &Agent) -> Result<Option<Start>> {
    let policy = spawn_commit::if_here(&ctx.repo, agent)?;
    let (Some(policy), Some(base)) = (policy, &agent.base) else {
        return Ok(None);
    };
    let (_, tip) = base_of(ctx, agent, None)?;
    // What others have pushed since is what the work continues.
    let oid = tip.unwrap_or(base.oid);
    let is_as_before = oid == base.oid && ctx.ledger().is_made_here(agent)?;
    let is_trusted = || Ok::<_, Error>(authority::trusted_part(ctx, oid)? == Some(oid));
    if policy.settings().is_none() && (is_as_before || is_trusted()?) {
        return Ok(None);
    }
    let settings = match authority::trusted_settings(ctx, agent)? {
        Some(settings) => settings,
        None => authority::trusted_head(ctx)?,
    };
    Ok(Some(Start {
        base: Base { refname: base.refname.clone(), oid },
        settings,
        lands_on: policy.lands_on,
        warnings: Vec::new(),
    }))
}

fn forge_text(forge: &Forge, lead: String, called: &str, texts: [(&str, &String); 2]) -> ForgeText {
    let texts = texts.map(|(name, text)| (format!("{name} of {called}"), beginning(text, MOST)));
    ForgeText { lead, quoted: quoted(&format!("others on {}", forge.host), &texts) }
}

/// The remote and the number that are meant: by a number, for the usual remote, or by a page of the repository of one. A page has one
/// of these words before the number.
fn named(ctx: &Ctx, who: &str, words: &[&str]) -> Result<(String, u64)> {
    let refuse = |why: &str| {
        let what = format!("`{who}` {why}");
        Err(Error::new(Code::Usage, what).hint("write its number, or the address of its page"))
    };
    // GitHub writes `#7`, and GitLab `!7` for a merge request.
    if let Ok(number) = who.trim_start_matches(['#', '!']).parse() {
        return Ok((remote_name(ctx, None)?, number));
    }
    let page = who.split(['?', '#']).next().unwrap_or_default();
    let Some((repository, rest)) = words.iter().find_map(|word| {
        let (before, after) = page.split_once(&format!("/{word}/"))?;
        // A page of GitLab has `/-/` before the word.
        Some((before.trim_end_matches("/-"), after))
    }) else {
        return refuse("is neither a number nor a page of a forge");
    };
    let number = rest.split('/').next().unwrap_or_default();
    let (Some(forge), Ok(number)) = (Forge::of_url(repository), number.parse()) else {
        return refuse("is no page of a forge");
    };
    for remote in ctx.repo.remotes()? {
        let own = forge::of_remote(ctx, &remote)?.map(|own| own.name());
        if own.is_some_and(|own| own.eq_ignore_ascii_case(&forge.name())) {
            return Ok((remote, number));
        }
    }
    refuse("is in a repository that no remote here names")
}

/// Fetches branches to where git keeps their copies; what is there is overwritten, as `git fetch` does.
fn fetch(ctx: &Ctx, remote: &str, pairs: &[(&str, &str)], what: &str) -> Result<()> {
    let refspecs: Vec<String> = pairs
        .iter()
        // A force push has rewritten the branch there, and the copy follows it.
        .map(|(there, copy)| format!("+{there}:{copy}"))
        .collect();
    let error = |why: &str| {
        let names = pairs.iter().map(|(there, _)| *there).collect::<Vec<_>>();
        let message = format!("{what} cannot be fetched: the remote `{remote}` {why}");
        Error::new(Code::Usage, message)
            .hint(format!("to see what it has, run git ls-remote {remote} {}", names.join(" ")))
    };
    match ctx.repo.fetch_refs(remote, &refspecs, Instant::now() + LIMIT)? {
        Fetched::All => Ok(()),
        Fetched::Missing | Fetched::Unadvertised => Err(error("does not have it")),
        Fetched::Locked(said) => Err(error("could not be copied").because(said)),
    }
}

fn require_tip(ctx: &Ctx, copy: &str) -> Result<Oid> {
    let tip = ctx.repo.tip(copy)?.oid();
    tip.ok_or_else(|| Error::new(Code::LostRace, format!("{copy} went away while it was read")))
}
