//! Worktrees that a host asks for on its own, where its person opted in.
//!
//! A name that is an agent's (its short id, the name of its worktree, or its alias) gets that agent's worktree, so that a
//! host can be started in it. Other requests get an agent that the session called for or a new one
//! (below). Where the repository does not say what an agent may touch, there can be no new one: then the answer is
//! a plain linked worktree of `HEAD` on a branch `worktree-<name>`, where the host itself would put it, made by our own
//! fast means. A name that one of ours could have, and has not, is refused: git and we would take the worktree for what
//! it is not.
//!
//! A worktree is removed only if nothing is lost: a plain one that is dirty or in the middle of a merge or rebase stays, as
//! does a branch that is not merged; commits that no ref would hold afterwards are kept first; and of agents only those go
//! that were made for a host and left unused.

use crate::agents::context::ctx::{Ctx, Env, Seams};
use crate::agents::context::untrusted;
use crate::agents::place::{kept_worktree, worktree};
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::{authority, lookup};
use crate::domain::boundary::tool_call::{HookAnswer, HookEvent, Intent, ToolCall};
use crate::domain::life::agent::{Agent, State};
use crate::domain::life::event::{Isolation, What};
use crate::domain::life::id::{AgentId, AgentName};
use crate::domain::life::sandbox::Layering;
use crate::domain::paths::path::Quoted;
use crate::domain::value::oid::Oid;
use crate::domain::value::redaction::redact_secrets;
use crate::domain::value::shell;
use crate::domain::work::task::DESCRIPTION_CHARS;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::all_worktree_changes;
use crate::git::files::admin_dir::belongs_to;
use crate::git::landing::unfinished;
use crate::git::refs::{self, Tip};
use crate::git::worktree::NewWorktree;
use crate::git::{Repo, core::command};
use crate::hosts::{self, WORKTREE_DIR};
use crate::ops::discard::{self, DiscardOptions};
use crate::ops::host_hook::session::{home_of, session_start};
use crate::ops::host_hook::{directory_of, whereabouts};
use crate::ops::spawn::{self, SpawnOptions};
use crate::ops::status;
use crate::store::files::{added, briefing, fsx, layout, lock};
use crate::store::ledger::Ledger;
use crate::store::settings::{repository_settings, roles};
use crate::wire::file::task_file::{self, TaskWords};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest `HEAD`, in bytes.
const LONGEST_HEAD: u64 = 4096;

/// Makes the worktree that a host asked for, or finds it, and answers with its absolute path.
///
/// # Errors
/// `usage` for a payload that names no worktree, `recursion-refused` inside an agent, `branch-exists`,
/// `path-exists`, and those of making a worktree; nothing is left behind then.
pub fn worktree_create(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let HookEvent::WorktreeCreate { name: Some(name) } = &call.event else {
        return Err(Error::new(
            Code::Usage,
            "the hook payload does not say which worktree to create",
        ));
    };
    let directory = directory_of(env, call);
    let asking = CurrentAgent::find(env, &whereabouts(env, &directory))?;
    if let Some(home) = &asking {
        // A worktree of a host is for a subagent, which the agent may not be allowed to start.
        authority::require_may_spawn(home)?;
    }
    let ctx = Ctx::new(Repo::open(&directory)?, env.clone(), Seams::real());
    let path = match worktree_of_agent(&ctx.repo, name)? {
        Some(path) => path,
        None => match hand_out(&ctx.repo, call, name)? {
            Some(path) => path,
            None => new_worktree(&ctx, name, asking.map(|home| home.agent.id))?,
        },
    };
    let stdout = format!("{}\n", path.display());
    Ok(HookAnswer::Say { stdout })
}

/// The worktree of a new agent, or a plain one where the repository does not say what an agent may touch.
fn new_worktree(ctx: &Ctx, name: &str, parent: Option<AgentId>) -> Result<PathBuf> {
    let flat = require_name(name)?;
    // Hosts ask again for a session that they resume.
    if let Some(path) = asked_before(&ctx.repo, &flat) {
        return Ok(path);
    }
    match spawn_for(ctx, name, parent)? {
        Some(path) => Ok(path),
        None => plain_worktree(ctx, &flat),
    }
}

/// Removes a worktree that a host is done with, and its branch, as far as nothing is lost by it.
///
/// # Errors
/// `git-failed` with git's own words where git refuses.
pub fn worktree_remove(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let HookEvent::WorktreeRemove { path: Some(path) } = &call.event else {
        return Ok(HookAnswer::Allow);
    };
    let directory = directory_of(env, call);
    let path = directory.join(path);
    if !path.join(".git").exists() {
        return Ok(HookAnswer::Allow);
    }
    if let Some(home) = CurrentAgent::around(&path)? {
        discard_unused(env, &home.repo, &home.agent, None)?;
        return Ok(HookAnswer::Allow);
    }
    let repo = Repo::open(&path)?;
    let common = repo.common_dir();
    // A `.git` file that leads into the worktree itself names a repository that its agent made.
    if common.starts_with(&path) || repo.current_worktree_name().is_none() {
        return Ok(HookAnswer::Allow);
    }
    let head = untrusted::read(repo.git_dir(), Path::new("HEAD"), LONGEST_HEAD);
    let head = String::from_utf8(head.unwrap_or_default()).unwrap_or_default();
    let short = head.trim_end().strip_prefix("ref: refs/heads/");
    // Git would look for changes under the settings of that worktree, so that is not left to it.
    let changes = all_worktree_changes(&repo, &directory.join(env.temporary_place()))?;
    if let Some(change) = changes.first() {
        return Err(not_clean(&path, &change.path));
    }
    let links = untrusted::gitlinks::of_index(&repo.git_dir().join("index"));
    if let Some(link) = links.unwrap_or_default().first() {
        return Err(not_clean(&path, link));
    }
    require_finished(&path, repo.git_dir())?;
    // Kept first, so that a kill between the two loses nothing.
    let shared = Ctx::new(Repo::open_git_dir(common)?, env.clone(), Seams::real());
    let branch = short.map(refs::full_name).transpose()?;
    let kept = kept_worktree::keep_commits(&shared, repo.git_dir(), branch.as_deref())?;
    // `--force`, because everything that it would ask about was looked at above.
    let remove = ["worktree", "remove", "--force", "--"].map(OsStr::new);
    command::run(common, remove.into_iter().chain([path.as_os_str()]))?;
    // Only branches of the name that we give; others are the user's.
    if let Some(short) = short.filter(|short| short.starts_with("worktree-")) {
        delete_merged(&shared.repo, short)?;
    }
    Ok(match kept {
        Some(kept) => HookAnswer::Say { stdout: format!("{}\n", kept.sentence()) },
        None => HookAnswer::Allow,
    })
}

/// Refuses to remove a worktree in the middle of something: conflicts that were resolved and a list of commits to pick are in
/// no commit.
fn require_finished(path: &Path, git_dir: &Path) -> Result<()> {
    let found = unfinished(git_dir);
    let Some(unfinished) = found.first() else {
        return Ok(());
    };
    let (shown, what) = (path.display(), unfinished.named());
    let error =
        Error::new(Code::WorktreeBusy, format!("{shown} is in the middle of {what}, and stays"));
    let give_up = unfinished.give_up();
    Err(error.hint(format!("to give that up, run git -C {} {give_up}", shell::path(path))))
}

/// Deletes a branch whose commits are all in `HEAD` of the main worktree.
fn delete_merged(main: &Repo, short: &str) -> Result<()> {
    let branch = refs::full_name(short)?;
    let (Tip::At(tip), Ok(head)) = (main.tip(&branch)?, main.resolve_commit("HEAD")) else {
        return Ok(());
    };
    if main.is_ancestor(tip, head.commit)? {
        main.delete_ref(&branch, tip)?;
    }
    Ok(())
}

/// The refusal for a worktree that holds something at a path which removing it would lose.
fn not_clean(worktree: &Path, path: &[u8]) -> Error {
    let shown = worktree.display();
    Error::new(
        Code::GitFailed,
        format!("{shown} holds modified or untracked files, and stays: {}", Quoted(path)),
    )
    .hint(format!(
        "to remove it all the same, run git worktree remove --force {}",
        shell::path(worktree)
    ))
}

/// The worktree of the agent that goes by exactly this name.
fn worktree_of_agent(repo: &Repo, name: &str) -> Result<Option<PathBuf>> {
    let id8 = name.strip_prefix("agent-").unwrap_or(name);
    let agent = match Ledger::new(repo).find(id8) {
        Ok(agent) => agent,
        Err(error) if matches!(error.code(), Code::AgentUnknown | Code::AgentAmbiguous) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let alias = agent.name.as_ref().is_some_and(|alias| alias.as_str() == name);
    let path = worktree::find(repo, &agent);
    Ok(path.filter(|path| (alias || agent.id.short() == id8) && path.join(".git").exists()))
}

/// The name of a worktree for a host's own name, which must not be one that an agent's could have.
fn require_name(name: &str) -> Result<AgentName> {
    let flat = AgentName::parse(&name.replace('/', "-")).map_err(|rule| {
        let shown = name.escape_debug();
        Error::new(Code::PathInvalid, format!("`{shown}` cannot name a worktree: {rule}"))
    })?;
    let is_ours = layout::agent_of_worktree(flat.as_str())
        .or_else(|| layout::agent_of_verify_worktree(flat.as_str()))
        .is_some();
    if is_ours {
        let error = Error::new(
            Code::PathInvalid,
            format!("`{}` is the name of a worktree of an agent", flat.as_str()),
        );
        return Err(error.hint("to see the agents there are, run git agent list"));
    }
    Ok(flat)
}

/// Where the plain worktree of a name is, if it was made before.
fn asked_before(repo: &Repo, flat: &AgentName) -> Option<PathBuf> {
    let path = repo.root().ok()?.join(WORKTREE_DIR).join(flat.as_str());
    belongs_to(&path, &repo.admin_dir(flat.as_str())).then_some(path)
}

fn plain_worktree(ctx: &Ctx, flat: &AgentName) -> Result<PathBuf> {
    let path = ctx.repo.root()?.join(WORKTREE_DIR).join(flat.as_str());
    let admin = ctx.repo.admin_dir(flat.as_str());
    let commit = ctx.repo.resolve_commit("HEAD")?.commit;
    let branch = refs::full_name(&format!("worktree-{}", flat.as_str()))?;
    let who = ctx.identities()?.committer;
    let reason = "git-agent: worktree for a host";
    if !ctx.repo.create_branch(&branch, commit, &who, reason)? {
        return Err(Error::new(Code::BranchExists, format!("{branch} exists already"))
            .hint("to see what is on it, run git log --all --oneline"));
    }
    let is_new = !path.exists();
    let added = add(ctx, flat.as_str(), &path, &branch, commit);
    let made = match &added {
        Ok(()) => fill(ctx, &path, &admin, commit),
        Err(_) => Ok(()),
    };
    if added.is_ok() && made.is_ok() {
        return Ok(path);
    }
    // An admin directory that could not be added belongs to another process, and so is a directory that was
    // there before.
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    if added.is_ok() {
        fsx::remove_by_trash(common, &admin)?;
    }
    if is_new && path.exists() {
        fsx::remove_by_trash(common, &path)?;
    }
    // Created above and still at that commit, so nothing was built on it.
    ctx.repo.delete_ref(&branch, commit)?;
    added.and(made).map(|()| path)
}

fn add(ctx: &Ctx, name: &str, path: &Path, branch: &str, commit: Oid) -> Result<()> {
    let repo = &ctx.repo;
    added::add_exclude(repo, &[WORKTREE_DIR])?;
    let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
    repo.add_worktree(&NewWorktree {
        name,
        path,
        branch: Some(branch),
        commit,
        scratch: &layout::tmp_dir(repo.common_dir()),
        lock_reason: "initializing (git-agent)",
        identity: &ctx.identities()?.committer,
    })
}

fn fill(ctx: &Ctx, path: &Path, admin: &Path, commit: Oid) -> Result<()> {
    worktree::check_out(ctx, "checking out files", path, admin, commit)?;
    ctx.repo.run_post_checkout(path, commit)?;
    let lock = admin.join("locked");
    fs::remove_file(&lock).at("could not remove", &lock)
}

// Agents in the worktrees that a host asks for.
//
// A host names its request as it likes, and several requests at once come in no order. So a call of its agent tool that names a
// waiting agent in its prompt is noted in that agent's directory ([`note_call`]), a request of the same session is given any
// agent that was noted ([`hand_out`]), and the subagent is told the prompt of the agent in whose worktree it finds itself
// ([`subagent_start`]): which of them got which does not matter. A request without such a call becomes a new agent, where the
// settings of the repository say what an agent may touch ([`spawn_for`]). What that agent left unchanged goes when the host is done
// with it ([`discard_unused`]).

/// Names the session that called the agent, below the agent's directory.
const CALLED: &str = "called";
/// Names the host's subagent or session that the agent was made for, or that it was given to.
const HANDED_OUT: &str = "handed-out";
/// There where the agent was made because a host asked for a worktree; empty until it is known what for.
const HOST_MADE: &str = "host-made";

/// What a host puts before the name of a subagent that it asks a worktree for.
const SUBAGENT: &str = "agent-";

/// The longest first line that is read of what a host records, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// The longest prompt that a subagent is told, in bytes; hosts cut off what is longer.
const LONGEST_TOLD: usize = 9_000;

/// Notes that a session calls its agent tool for a waiting agent, isolated in a worktree. Where that cannot be noted, the
/// request for the worktree is answered as any other.
pub(super) fn note_call(env: &Env, call: &ToolCall) {
    let Intent::SpawnsAgent { isolation: Some(isolation), prompt: Some(prompt), .. } = &call.intent
    else {
        return;
    };
    let Some(session) = call.session.as_ref().filter(|_| isolation == "worktree") else {
        return;
    };
    // A prompt is free text, so the id is found by its form alone.
    let words = prompt.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    let Some(id) = words.filter(|word| word.len() == 36).find_map(AgentId::parse) else {
        return;
    };
    let noted = Repo::open(&directory_of(env, call)).and_then(|repo| {
        let agent = Ledger::new(&repo).find(&id.to_string())?;
        if !is_waiting(&agent) {
            return Ok(());
        }
        let directory = layout::agent_dir(repo.common_dir(), agent.id);
        fsx::write_private(&directory.join(CALLED), session.as_bytes())
    });
    let _ = noted;
}

/// Whether an agent was spawned and no run of it was started yet.
fn is_waiting(agent: &Agent) -> bool {
    agent.state == State::Ready
        && agent.run.is_none()
        && agent.isolation == Some(Isolation::Worktree)
}

/// The worktree of an agent that the session of this request called for, if one is left.
///
/// # Errors
/// Those of the ledger.
fn hand_out(repo: &Repo, call: &ToolCall, name: &str) -> Result<Option<PathBuf>> {
    let Some(session) = &call.session else {
        return Ok(None);
    };
    let common = repo.common_dir();
    for agent in Ledger::new(repo).agents()? {
        let directory = layout::agent_dir(common, agent.id);
        let called = directory.join(CALLED);
        // Another session's request must not get what was meant for this one.
        if !is_waiting(&agent) || fs::read(&called).ok().as_deref() != Some(session.as_bytes()) {
            continue;
        }
        let place = worktree::find(repo, &agent).filter(|path| path.join(".git").exists());
        // Of several requests one takes it.
        if place.is_some() && fs::remove_file(&called).is_ok() {
            fsx::write_private(&directory.join(HANDED_OUT), name.as_bytes())?;
            return Ok(place);
        }
    }
    Ok(None)
}

/// A new agent for a request that names none, and its worktree; nothing where the settings at `HEAD` do not say what an
/// agent may touch.
///
/// # Errors
/// Those of [`spawn::plan`] and [`spawn::execute`].
fn spawn_for(ctx: &Ctx, name: &str, parent: Option<AgentId>) -> Result<Option<PathBuf>> {
    let head = ctx.repo.resolve_commit("HEAD")?.commit;
    let settings = repository_settings::load(&ctx.repo, head, &roles::load(&ctx.repo, head)?)?;
    if settings.scope.is_none() {
        return Ok(None);
    }
    let is_subagent = name.starts_with(SUBAGENT);
    let asker = if is_subagent { "subagent" } else { "session" };
    let draft = task_file::of_words(&TaskWords {
        text: format!(
            "Do what the {asker} of the agent host is asked for, which called itself {name}."
        ),
        // A host's subagent was never told of the six files, so they are asked of it only where the
        // settings do.
        bundle: settings.bundle_required.is_none().then_some(false),
        ..TaskWords::default()
    });
    // A subagent's name is made by the host and says nothing to a reader.
    let alias = AgentName::parse(&name.replace('/', "-")).ok();
    let options = SpawnOptions {
        name: alias.filter(|_| !is_subagent).map(|name| name.to_string()),
        parent: parent.map(|id| id.to_string()),
        // The host works there without a mount of ours.
        layered: Some(Layering::Off),
        ..SpawnOptions::default()
    };
    let plan = spawn::plan(ctx, draft, &options)?;
    let (id, place) = (plan.id, plan.directory(ctx)?);
    spawn::execute(ctx, plan)?;
    let directory = layout::agent_dir(ctx.repo.common_dir(), id);
    fsx::write_private(&directory.join(HANDED_OUT), name.as_bytes())?;
    fsx::write_private(&directory.join(HOST_MADE), b"")?;
    Ok(Some(place))
}

/// Records what the agent is for that was made because a host asked for a worktree: when it asks, the host does not say, and requests of
/// several subagents cannot be told apart. A session's prompt comes with its event, a subagent's stands at the top of what the host
/// records of it. What is not known now may be at the next call.
pub(super) fn learn_task(env: &Env, call: &ToolCall, home: &CurrentAgent) {
    let directory = layout::agent_dir(home.repo.common_dir(), home.agent.id);
    let mark = directory.join(HOST_MADE);
    // Empty until the task is known. Most agents have no such file, and most calls end here.
    if !fs::metadata(&mark).is_ok_and(|mark| mark.len() == 0) {
        return;
    }
    let prompt = match (&call.subagent, &call.transcript) {
        (Some(_), Some(transcript)) => first_words(Path::new(transcript)),
        _ => call.prompt.clone(),
    };
    let Some(prompt) = prompt.filter(|prompt| !prompt.trim().is_empty()) else {
        return;
    };
    let prompt = redact_secrets(prompt.trim()).into_owned();
    let line = prompt.lines().next().unwrap_or_default();
    let described =
        What::Renamed { name: None, task: Some(line.chars().take(DESCRIPTION_CHARS).collect()) };
    let recorded = Repo::open(&home.root).and_then(|repo| {
        let ctx = Ctx::new(repo, env.clone(), Seams::real());
        let by = ctx.actor()?;
        for what in [described, What::Noted { text: prompt }] {
            ctx.ledger().append(home.agent.spawn_commit, &by, what, ctx.now())?;
        }
        fsx::write_private(&mark, b"task known\n")
    });
    if let Err(error) = recorded {
        tracing::debug!(%error, "what the agent is for is not recorded");
    }
}

/// What a person or an agent says first in what a host records of a session: a JSON object a line.
fn first_words(transcript: &Path) -> Option<String> {
    let mut line = Vec::new();
    let file = untrusted::open_at(transcript)?.take(LONGEST_LINE);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let line: Value = serde_json::from_slice(&line).ok()?;
    let text = |place| line.pointer(place)?.as_str().map(str::to_owned);
    text("/message/content").or_else(|| text("/message/content/0/text"))
}

/// Tells a subagent in an agent's worktree what the agent is to do.
///
/// # Errors
/// Those of finding the agent, `io`.
pub fn subagent_start(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let Some(home) = home_of(env, call)? else {
        return Ok(HookAnswer::Allow);
    };
    let directory = layout::agent_dir(home.repo.common_dir(), home.agent.id);
    let prompt = directory.join(briefing::PROMPT);
    let told = match session_start(env, call)? {
        HookAnswer::Say { stdout } => stdout,
        _ => String::new(),
    };
    let given = directory.join(HANDED_OUT).exists() && !directory.join(HOST_MADE).exists();
    let text = if given && prompt.exists() {
        let text = fs::read_to_string(&prompt).at("could not read", &prompt)?;
        if text.len() > LONGEST_TOLD {
            let shown = prompt.display();
            format!(
                "{told}\nYour task is in {shown}. Read it whole before you begin. It takes the place of any other.\n"
            )
        } else {
            format!(
                "This is your task, and takes the place of any other that you were given.\n\n{text}"
            )
        }
    } else {
        told
    };
    let stdout = hosts::subagent_context(&text);
    Ok(HookAnswer::Say { stdout })
}

/// Discards an agent that was made for a host, if that is done with it and nothing was changed. `asker` is what asked for the
/// worktree; without one it is enough that the agent was made for a host. Gives whether it is gone.
///
/// # Errors
/// Those of reading the work and of discarding it.
fn discard_unused(env: &Env, repo: &Repo, agent: &Agent, asker: Option<&str>) -> Result<bool> {
    let directory = layout::agent_dir(repo.common_dir(), agent.id);
    let own =
        |name: &str| fs::read(directory.join(HANDED_OUT)).is_ok_and(|held| held == name.as_bytes());
    if !directory.join(HOST_MADE).exists() || asker.is_some_and(|name| !own(name)) {
        return Ok(false);
    }
    // From outside of the worktree: no agent discards itself.
    let root = repo.root()?;
    let env = Env { directory: root.clone(), ..env.clone() };
    let ctx = Ctx::new(Repo::open(&root)?, env, Seams::real());
    if !lookup::is_local(&ctx, agent) {
        return Ok(false);
    }
    let work = status::of(&ctx, agent);
    // What cannot be determined counts as used.
    let is_unused = work.uncommitted.known() == Some(&0) && work.ahead.known() == Some(&0);
    if !is_unused {
        return Ok(false);
    }
    let plan = discard::plan(&ctx, &agent.id.to_string(), DiscardOptions::default())?;
    discard::execute(&ctx, plan)?;
    Ok(true)
}

/// Whether a stop ends the subagent that an agent was made for, and nothing was changed: then the agent goes.
pub(super) fn ends_unused(env: &Env, call: &ToolCall, repo: &Repo, agent: &Agent) -> bool {
    let Some(subagent) = &call.subagent else {
        return false;
    };
    let asker = format!("{SUBAGENT}{subagent}");
    // What cannot be removed stays, and is judged as it is.
    discard_unused(env, repo, agent, Some(&asker)).unwrap_or(false)
}
