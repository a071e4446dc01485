//! What a task names: base, parent and persona, which have to be there, and the agent itself, whose name may
//! not be another's.

use crate::agents::who::persona::CharacterWish;
use crate::agents::who::{names, persona};
use crate::agents::{Ctx, own_changes};
use crate::domain::life::event::Base;
use crate::domain::work::persona::Character;
use crate::domain::{
    AgentId, AgentName, Oid, RepositorySettings, RoleSet, Slug, Task, TaskDraft, value::redaction,
};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::refs::REMOTE_COPIES;
use crate::ops::error_report::remedy_command;
use crate::ops::spawn::adopt::AdoptedWorktree;
use crate::ops::spawn::contract::SpawnOptions;
use crate::store::ledger::agent_branch::AGENTS_BRANCHES;
use crate::store::settings::{repository_settings, roles};
use crate::store::{Ledger, files::layout};
use std::cmp::Reverse;

/// What was found. Where something was not, the draft says so and there is a stand-in here, which lasts until
/// the draft is checked.
pub(super) struct Found {
    /// The commit to start from.
    pub base: Base,
    /// The commit whose settings and roles hold: the base, unless others wrote that.
    pub settings_at: Oid,
    /// The roles there.
    pub roles: RoleSet,
    /// The repository's settings at the base; the draft has what it lacked of them.
    pub settings: RepositorySettings,
    /// Who the agent is told to be, or why that is not known.
    pub character: Result<Character>,
    /// The parent, where one is named.
    pub parent: Option<AgentId>,
}

/// Looks everything up. What the task file names and does not exist becomes one more problem of the file, so that
/// all of them are told at once.
///
/// # Errors
/// Those of what was asked for besides the file: `base-not-commit`, `agent-unknown`, `agent-ambiguous`;
/// `head-unborn`, `roster-invalid`, `repo-corrupt`.
pub(super) fn look_up(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    draft: &mut TaskDraft,
    bundle_dir: &str,
    options: &SpawnOptions,
    adopted: Option<&AdoptedWorktree>,
) -> Result<Found> {
    let (base, settings_at) = match &options.start {
        Some(start) => (start.base.clone(), start.settings),
        None => {
            let base = named_base(ctx, draft, bundle_dir, options, adopted)?;
            let settings_at = base.oid;
            (base, settings_at)
        }
    };
    let wish =
        CharacterWish { profile: draft.profile().map(str::to_owned), ..CharacterWish::default() };
    let character = match persona::resolve(ctx, settings_at, &wish) {
        Err(error) if error.code() == Code::AgentTypeUnknown => {
            draft.refuse_profile(&error, first_hint(&error));
            Err(error)
        }
        other => Ok(other?),
    };
    let parent = match (&options.parent, draft.parent()) {
        // What the caller asked for fails at once; what the file names joins the other problems of
        // the file.
        (Some(who), _) => Some(ledger.find(who)?.id),
        (None, Some(who)) => match ledger.find(who) {
            Ok(agent) => Some(agent.id),
            Err(error) if matches!(error.code(), Code::AgentUnknown | Code::AgentAmbiguous) => {
                draft.refuse_parent(&error, first_hint(&error));
                None
            }
            Err(error) => return Err(error),
        },
        (None, None) => None,
    };
    let roles = roles::load(&ctx.repo, settings_at)?;
    let settings = repository_settings::load(&ctx.repo, settings_at, &roles)?;
    draft.fill(&settings);
    Ok(Found { settings_at, roles, settings, base, character, parent })
}

/// The advice of an error that becomes a problem of the file.
fn first_hint(error: &Error) -> Option<String> {
    error.hints(remedy_command).into_iter().next()
}

/// The base that the caller, the task or the repository's settings name, with what is uncommitted where that is asked for; for a
/// worktree that is adopted, where its work began.
fn named_base(
    ctx: &Ctx,
    draft: &mut TaskDraft,
    bundle_dir: &str,
    options: &SpawnOptions,
    adopted: Option<&AdoptedWorktree>,
) -> Result<Base> {
    let usual = usual_base(ctx, draft, options)?;
    let wanted = options
        .base
        .as_deref()
        .or(draft.base())
        .or(usual.as_deref())
        // What is uncommitted belongs to HEAD, so it can start from no other base.
        .filter(|_| !options.with_changes);
    let main = match adopted.filter(|_| wanted.is_none()) {
        // Its own HEAD, where the caller may stand, is the work and not what it lands on.
        Some(_) => Some(AdoptedWorktree::main(ctx)?),
        None => None,
    };
    let asked = main.as_ref().unwrap_or(&ctx.repo);
    let resolved = match asked.resolve_commit(wanted.unwrap_or("HEAD")) {
        Err(error) if usual.is_some() && error.code() == Code::BaseNotCommit => {
            return Err(error.hint(
                "`defaults.base` of the repository names it; to begin elsewhere, run git agent spawn --base <revision>",
            ));
        }
        Err(error) if options.base.is_none() && error.code() == Code::BaseNotCommit => {
            draft.refuse_base(&error, first_hint(&error));
            // A stand-in, with which the rest of the file can be checked. The draft is refused in
            // the end.
            ctx.repo.resolve_commit("HEAD")?
        }
        other => other?,
    };
    let begins_at = match adopted {
        Some(adopted) => Some(adopted.start(&ctx.repo, resolved.commit)?),
        None if options.with_changes => own_changes::commit(ctx, resolved.commit, bundle_dir)?,
        None => None,
    };
    let refname = resolved.refname.map(|name| branch_of_copy(&ctx.repo, name)).transpose()?;
    Ok(Base { refname, oid: begins_at.unwrap_or(resolved.commit) })
}

/// The branch that work lands on which begins at a ref: of a copy that was fetched from a remote, such as `origin/main`, the branch whose copy that
/// is. What was pushed of an agent's branch is that in another form, and nothing lands there.
fn branch_of_copy(repo: &Repo, refname: String) -> Result<String> {
    // As nearly always.
    if !refname.starts_with(REMOTE_COPIES) {
        return Ok(refname);
    }
    // As `origin/HEAD` does, it may lead to another.
    let copy = repo.branch_behind(&refname);
    let mut remotes = repo.remotes()?;
    // The name of one may begin that of another.
    remotes.sort_by_key(|remote| Reverse(remote.len()));
    for remote in remotes {
        let short = copy.strip_prefix(REMOTE_COPIES).and_then(|rest| rest.strip_prefix(&remote));
        let branch = short.and_then(|rest| rest.strip_prefix('/'));
        let branch = branch.map(|short| format!("refs/heads/{short}"));
        if let Some(branch) = branch.filter(|branch| !branch.starts_with(AGENTS_BRANCHES)) {
            return Ok(branch);
        }
    }
    Ok(refname)
}

/// The base that the repository's settings at HEAD name, for a task that says none.
fn usual_base(ctx: &Ctx, draft: &TaskDraft, options: &SpawnOptions) -> Result<Option<String>> {
    if options.base.is_some() || draft.base().is_some() {
        return Ok(None);
    }
    // Read at HEAD: the base, whose settings otherwise hold, is what is being looked for.
    base_named_at(ctx, ctx.repo.resolve_commit("HEAD")?.commit)
}

/// The base that the repository's settings at a commit name.
///
/// # Errors
/// `settings-invalid`, `repo-corrupt`.
pub(super) fn base_named_at(ctx: &Ctx, commit: Oid) -> Result<Option<String>> {
    if repository_settings::read(&ctx.repo, commit)?.is_none() {
        return Ok(None);
    }
    let roles = roles::load(&ctx.repo, commit)?;
    Ok(repository_settings::load(&ctx.repo, commit, &roles)?.base)
}

/// The name that the agent gets, where one was asked for. That a live agent has it already is a warning.
///
/// # Errors
/// `usage` for one that breaks a rule, `agent-ambiguous` for one that would reach another agent.
pub(super) fn alias(
    ledger: &Ledger<'_>,
    options: &SpawnOptions,
    task: &Task,
    warnings: &mut Vec<String>,
) -> Result<Option<AgentName>> {
    let name = match &options.name {
        Some(name) => Some(parse_name(name, BY_OPTION)?),
        None => task.name.clone(),
    };
    if let Some(name) = &name {
        require_no_id(ledger, name)?;
        warnings.extend(names::shared(ledger, name, options.succeeds)?);
    }
    Ok(name)
}

/// Another name for an agent, and what the user should know about it.
///
/// # Errors
/// As [`alias`].
pub(crate) fn new_name(
    ledger: &Ledger<'_>,
    name: &str,
    of: AgentId,
) -> Result<(AgentName, Option<String>)> {
    let name = parse_name(name, "give")?;
    require_no_id(ledger, &name)?;
    let warning = names::shared(ledger, &name, Some(of))?;
    Ok((name, warning))
}

/// How an option names an agent.
pub(crate) const BY_OPTION: &str = "pass --name";

/// A name that the caller gives an agent in some `way`, which comes before it in an advice.
///
/// # Errors
/// `usage` for what holds a secret or breaks a rule of names.
pub(crate) fn parse_name(name: &str, way: &str) -> Result<AgentName> {
    if let Some(found) = redaction::find_secret(name) {
        let message = format!("the name holds what looks like {}", found.kind);
        return Err(Error::new(Code::Usage, message)
            .hint(format!("a name is recorded for good; to choose another one, {way} <name>")));
    }
    AgentName::parse(name).map_err(|rule| {
        let words = Slug::from_text(name).to_string();
        // The words alone may be a name that is reserved.
        let other = AgentName::parse(&words).map_or(format!("agent-{words}"), |_| words.clone());
        Error::new(Code::Usage, format!("`{name}` cannot be an agent's name: {rule}"))
            .hint(format!("to choose another one, {way} {other}"))
    })
}

/// A name that an id begins with would reach that agent.
fn require_no_id(ledger: &Ledger<'_>, name: &AgentName) -> Result<()> {
    // Its worktree's name is one of those by which an agent is found.
    let id = layout::agent_of_worktree(name.as_str()).unwrap_or(name.as_str());
    if !ledger.is_prefix_taken(id)? {
        Ok(())
    } else {
        let what = format!("the name `{name}` is the beginning of another agent's id");
        Err(Error::new(Code::AgentAmbiguous, what)
            .hint(format!("to see that agent, run git agent show {id}")))
    }
}
