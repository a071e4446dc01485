//! Posting messages: those that agents left in their spools, and what a question does to the agent that asks it.

use crate::agents::context::ctx::Ctx;
use crate::agents::life::at_work::{at_work, shown_state};
use crate::agents::who::authority;
use crate::agents::who::names::{Whom, handle, own, resolve};
use crate::domain::mail::message::{Handing, Kind};
use crate::domain::mail::message_rules::Draft;
use crate::domain::value::named::hex;
use crate::domain::{Agent, Letter, Message, MessageId, State, What};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::files::untrusted;
use crate::git::worktree::own_repository::{
    OwnCommit, OwnHistory, own_repository_in, write_histories,
};
use crate::proc::launch;
use crate::store::files::{fsx, layout, lock, place};
use crate::store::mailbox::spool::Taken;
use crate::store::mailbox::{Mailbox, Nonce, Reader, reader, spool as mailbox_spool};
use crate::wire::row::message::payload;
use crate::wire::row::message::spooled::{self, Content, Declared, Received, Spooled};
use crate::wire::row::request::SpooledRequest;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a note about a message that could not be posted comes from.
const POSTER: &str = "git-agent";

/// Leaves something in a spool, whole or not at all, and gives its place. The names sort in the order of leaving.
pub(crate) fn leave(ctx: &Ctx, spool: &Path, nonce: &str, content: &[u8]) -> Result<PathBuf> {
    let name = format!("{:020}-{nonce}.json", ctx.now().timestamp_micros());
    mailbox_spool::leave(spool, &name, content)?;
    Ok(spool.join(name))
}

/// Checks that messages are for the agent whose spool this is: the receipts in it are its agent's.
///
/// # Errors
/// `orchestrator-only`.
pub(crate) fn require_own_reader(spool: &Path, reader: &Reader) -> Result<()> {
    let (own, name) = (spool.file_name().unwrap_or_default(), handle(reader.name.as_str()));
    if own == name.as_str() {
        return Ok(());
    }
    let what = format!("an agent receives its own messages, and these are for {name}");
    Err(Error::new(Code::OrchestratorOnly, what)
        .remedy("to look at them", Remedy::Messages(Some(name))))
}

/// Leaves word in a spool that its agent was handed messages, where it may not write that down itself.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`.
pub(crate) fn leave_receipt(
    ctx: &Ctx,
    spool: &Path,
    ids: &[MessageId],
    handing: Handing,
) -> Result<()> {
    let nonce = hex(&ctx.nonce()?);
    leave(ctx, spool, &nonce, &Received::new(ids, handing).to_bytes()).map(drop)
}

/// Leaves word in the spool of the agent that this process works for how its work ended, where it may not write that
/// down itself; `false` where there is no spool.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`.
pub(crate) fn leave_declaration(ctx: &Ctx, what: &What) -> Result<bool> {
    let spool = ctx.env.spool.clone().or_else(|| own_spool(ctx));
    let (Some(spool), Some(declared)) = (spool, Declared::new(what)) else {
        return Ok(false);
    };
    let nonce = hex(&ctx.nonce()?);
    leave(ctx, &spool, &nonce, &declared.to_bytes())?;
    Ok(true)
}

/// What [`post_spool`] goes through for one message.
pub const SPOOL_STEPS: &[&str] = &["spool-taken", "spooled-posted", "spool-cleared"];

/// How long one call posts. What is left then is left in its place.
const PATIENCE: Duration = Duration::from_secs(1);

/// Posts what is in an agent's spool, as much as can be posted in a moment, each message once even if we are killed in between, and
/// gives how many there were. The agent is the sender, whatever a message claims, and receipts are for
/// its own messages. What is neither comes back to the agent as a note that names it. Nothing is done
/// while another process posts.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`; what was not posted stays.
pub fn post_spool(ctx: &Ctx, agent: &Agent) -> Result<usize> {
    post_spool_serving(ctx, agent, None)
}

/// Carries a request of the agent out; the text is the name of its answer.
pub type Serve<'a> = Option<&'a dyn Fn(SpooledRequest, String)>;

/// As [`post_spool`], where requests are carried out if the agent may make any.
///
/// # Errors
/// As [`post_spool`].
pub fn post_spool_serving(ctx: &Ctx, agent: &Agent, serve: Serve<'_>) -> Result<usize> {
    let common = ctx.repo.common_dir();
    let directory = layout::spool_dir(common, agent.id);
    let Some(guard) = mailbox_spool::begin(common, agent.id)? else {
        return Ok(0);
    };
    if let Some(own) = own_repository(ctx, agent) {
        mailbox_spool::collect(common, agent.id, &own, &guard)?;
    }
    let taken = mailbox_spool::take(common, agent.id, &directory, &guard)?;
    ctx.reached("spool-taken");
    let end = Instant::now() + PATIENCE;
    let mut posted = 0;
    for taken in taken {
        // At least one each time, so that a slow disk cannot keep a spool from ever becoming empty.
        if posted > 0 && Instant::now() > end {
            break;
        }
        let nonce = taken.nonce(agent.id);
        posted += usize::from(post(ctx, agent, &taken, nonce, serve)?);
        ctx.reached("spooled-posted");
        taken.clear(common)?;
        ctx.reached("spool-cleared");
    }
    // What cannot be written into a clone now is tried again by the next command that looks at its agent.
    if posted > 0 {
        drop(deliver_all(ctx));
    }
    Ok(posted)
}

// Mail of agents whose worktree is a repository of its own (`super::clone`), which see no other: what there is for them is written into
// it, and what they leave there is posted.

/// The repository of its own that an agent has; `None` where it has none, or that is gone.
fn own_repository(ctx: &Ctx, agent: &Agent) -> Option<PathBuf> {
    if !layout::clone_record(ctx.repo.common_dir(), agent.id).exists() {
        return None;
    }
    own_repository_in(&ctx.repo.worktree(&layout::worktree_name(agent.id))?.path)
}

/// Shows an agent in its own repository what there is for it, where it has one and that is new.
///
/// # Errors
/// Those of the mailbox, of git and of writing there.
fn deliver(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let Some(own) = own_repository(ctx, agent) else { return Ok(()) };
    let (common, reader) = (ctx.repo.common_dir(), Reader::agent(agent)?);
    // Files are put into place by one name, and what is read first must not be written last.
    fsx::create_dir(&layout::agent_dir(common, agent.id))?;
    let _writing = lock::hold_for(common, &layout::clone_lock(agent.id), PATIENCE)?;
    let mailbox = Mailbox::new(&ctx.repo);
    let state = mailbox.state_for(&reader)?;
    let note = layout::run_repo(common, agent.id).with_extension("mail");
    let known = fsx::load_if_there(&note)?;
    if known.as_deref() == Some(state.as_bytes()) {
        return Ok(());
    }
    let copy = mailbox.copy_for(&reader)?;
    // Most agents are never written to.
    if known.is_none() && copy.messages.is_empty() {
        return Ok(());
    }
    let commit = |message| OwnCommit { message, note: None };
    let subject = "agent: receipts of this clone\n".to_owned();
    let histories = [
        OwnHistory {
            name: layout::MAIL_REF,
            commits: copy.messages.into_iter().map(commit).collect(),
        },
        OwnHistory {
            name: layout::RECEIPTS_REF,
            commits: vec![OwnCommit { message: subject, note: Some(copy.note) }],
        },
    ];
    write_histories(&own, &fsx::unique_name(&layout::tmp_dir(common).join("mail")), &histories)?;
    fsx::write_private(&note, state.as_bytes())
}

/// Shows every agent with a repository of its own what there is for it. Gives what could not be shown.
pub(crate) fn deliver_all(ctx: &Ctx) -> Vec<String> {
    let ledger = ctx.ledger();
    let agents = place::cloned(ctx.repo.common_dir())
        .into_iter()
        .filter_map(|short_id| ledger.find(&short_id).ok());
    let failed = agents.filter_map(|agent| {
        let error = deliver(ctx, &agent).err()?;
        let id = agent.id.short();
        Some(format!("what agent {id} is to see in its clone could not be written there: {error}"))
    });
    failed.collect()
}

/// The agents that left messages in their spools and that no process of ours works for; who has a
/// supervisor is served by it.
///
/// # Errors
/// Those of the ledger and of its locks.
pub fn uncollected(ctx: &Ctx) -> Result<Vec<Agent>> {
    let common = ctx.repo.common_dir();
    let mut agents = Vec::new();
    // What an agent left there is for the repository that made the clone.
    if is_agents_own(&ctx.repo) {
        return Ok(agents);
    }
    let has_left = |short_id: &String| {
        let own = ctx.ledger().find(short_id).ok().and_then(|agent| own_repository(ctx, &agent));
        own.is_some_and(|own| mailbox_spool::has_files(&layout::spools_dir(&own).join(short_id)))
    };
    let mut waiting = mailbox_spool::waiting(common);
    waiting.extend(place::cloned(ctx.repo.common_dir()).into_iter().filter(has_left));
    waiting.sort_unstable();
    waiting.dedup();
    for short_id in waiting {
        match ctx.ledger().find(&short_id) {
            Ok(agent) if agent.id.short() == short_id => {
                // A held lock means a supervisor, whose own thread empties the spool.
                if lock::try_hold(common, &layout::live_lock(agent.id))?.is_some() {
                    agents.push(agent);
                }
            }
            // A directory that is no agent's.
            Ok(_) => {}
            Err(error) if error.code() == Code::AgentUnknown => {}
            Err(error) => return Err(error),
        }
    }
    Ok(agents)
}

/// Posts the spools of all agents without a supervisor, and gives how many messages there were.
///
/// # Errors
/// As [`post_spool`].
pub fn sweep_spools(ctx: &Ctx) -> Result<usize> {
    let mut posted = 0;
    for agent in uncollected(ctx)? {
        posted += post_spool(ctx, &agent)?;
    }
    Ok(posted)
}

/// Posts one file; `false` when that was done before. A repository that cannot be read or written is no
/// fault of the file's.
fn post(ctx: &Ctx, agent: &Agent, taken: &Taken, nonce: Nonce, serve: Serve<'_>) -> Result<bool> {
    let mailbox = Mailbox::for_fenced(&ctx.repo);
    let content = taken.content.as_ref().map_err(String::clone);
    let letter = match content.and_then(|content| spooled::read(content)) {
        Ok(Content::Receipt(ids, handing)) => {
            match mailbox.record_handed(&Reader::agent(agent)?, &ids, handing, ctx.now()) {
                Ok(fresh) => return Ok(!fresh.is_empty()),
                Err(error) if error.code() == Code::MessageUnknown => Err(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(Content::Declaration(what)) => match authority::post_declaration(ctx, agent, what) {
            Ok(()) => return Ok(true),
            // It was recorded before its poster died.
            Err(error) if error.code() == Code::AgentState && taken.is_doubtful => {
                return Ok(false);
            }
            Err(error) if error.code() == Code::AgentState => Err(error.to_string()),
            Err(error) => return Err(error),
        },
        // Its asker is gone with the process that took it out.
        Ok(Content::Request(_)) if taken.is_doubtful => return Ok(false),
        Ok(Content::Request(asked)) => match serve {
            Some(serve) => {
                serve(*asked, hex(&nonce.0));
                return Ok(true);
            }
            None => Err("this agent asks for nothing to be done".to_owned()),
        },
        Ok(Content::Message(message)) => match checked(agent, &message) {
            Ok(letter) => match resolve(ctx, letter) {
                Ok((letter, _)) => Ok(letter),
                Err(error) => match error.code() {
                    Code::MessageUnknown | Code::AgentAmbiguous => Err(error.to_string()),
                    _ => return Err(error),
                },
            },
            Err(reason) => Err(reason),
        },
        Err(reason) => Err(reason),
    };
    // Its poster may have died between posting and clearing; the nonce tells whether it was posted.
    if taken.is_doubtful && mailbox_spool::posted(&ctx.repo, nonce, agent.started)?.is_some() {
        return Ok(false);
    }
    let letter = match letter {
        Ok(letter) => letter,
        // The agent hears of what was not sent, as it would have from `send`.
        Err(reason) => note(agent, &taken.name, &reason)?,
    };
    post_message(ctx, &mailbox, letter, nonce)?;
    Ok(true)
}

fn checked(agent: &Agent, spooled: &Spooled) -> std::result::Result<Letter, String> {
    // The sender is the agent whose spool it is, whatever the message says.
    let from = agent.id.to_string();
    let draft = Draft {
        kind: &spooled.kind,
        priority: Some(&spooled.priority),
        from: &from,
        to: spooled.to.iter().map(String::as_str).collect(),
        re: spooled.re.as_deref(),
        payload: Some(spooled.payload()?),
        ..Draft::default()
    };
    draft.check().map_err(|problems| problems.join("; "))
}

fn note(agent: &Agent, name: &str, reason: &str) -> Result<Letter> {
    let shown: String = name.chars().take(100).collect();
    let reason: String = reason.chars().take(1000).collect();
    let text = format!(
        "the message `{}` was not sent: {}",
        shown.escape_debug(),
        crate::domain::value::redaction::redact_secrets(&reason)
    );
    let letter = Draft {
        kind: Kind::Notify.as_str(),
        from: POSTER,
        to: vec![&agent.id.to_string()],
        payload: payload::parse(&serde_json::json!({ "message": text }).to_string()).ok(),
        ..Draft::default()
    }
    .check();
    letter.map_err(|problems| Error::bug(problems.join("; ")))
}

/// As [`own_spool`], of an agent in a repository of its own: what it writes of messages there reaches no other repository.
pub(crate) fn spool_of_clone(ctx: &Ctx) -> Option<PathBuf> {
    own_spool(ctx).filter(|_| is_agents_own(&ctx.repo))
}

/// Whether this repository is an agent's own, in its clone.
fn is_agents_own(repo: &Repo) -> bool {
    repo.common_dir().join("agents/worktree").is_file()
}

/// Brings the messages of an agent in a repository of its own out of it and into it.
///
/// # Errors
/// As [`post_spool`].
pub(crate) fn exchange(ctx: &Ctx, agent: &Agent) -> Result<()> {
    post_spool(ctx, agent)?;
    deliver(ctx, agent)
}

/// The spool of the agent that we are, where it has one.
pub(crate) fn own_spool(ctx: &Ctx) -> Option<PathBuf> {
    let Ok(Whom::Agent(agent)) = own(ctx) else {
        return None;
    };
    let spool = layout::spool_dir(ctx.repo.common_dir(), agent.id);
    spool.is_dir().then_some(spool)
}

// Sending messages, and what a question (`clarify`) does to the agent that asks: it waits, and the user is told.

/// Posts a letter. The user's command for agents that wait is run where this one begins to: another question while one is
/// open is no news.
///
/// # Errors
/// Those of [`Mailbox::post`].
pub(crate) fn post_message(
    ctx: &Ctx,
    mailbox: &Mailbox<'_>,
    letter: Letter,
    nonce: Nonce,
) -> Result<Message> {
    // A sender that is no agent, such as `user`, has no state that could change.
    let asker = (letter.kind == Kind::Clarify)
        .then(|| ctx.ledger().find(letter.from.as_str()).ok())
        .flatten()
        .filter(|agent| !is_waiting(ctx, agent));
    let message = mailbox.post(letter, nonce, ctx.now())?;
    if let Some(agent) = asker.filter(|agent| is_waiting(ctx, agent)) {
        notify(&ctx.repo, Notice::Waiting, &agent, State::Waiting.as_str());
    }
    Ok(message)
}

/// What the sender should know of an agent that gets a letter: one that waits and in which nothing works reads it only in
/// another run. A run that is about to end is waited for.
pub(crate) fn sleeps(ctx: &Ctx, name: &str) -> Option<Agent> {
    let agent = ctx.ledger().find(name).ok()?;
    let is_asleep = is_waiting(ctx, &agent) && at_work(ctx, &agent).is_none();
    is_asleep.then_some(agent)
}

/// Whether an agent was answered while it ran, and its run neither received that nor was told of it by the hooks of its host, which keep
/// what they told in one of these directories.
pub(crate) fn has_unheard_answer(ctx: &Ctx, agent: &Agent, places: &[&Path]) -> bool {
    let mut answers = reader::answers(ctx.repo.common_dir(), agent);
    // Nearly every run asks nothing, and reads no file for it.
    if answers.is_empty() {
        return false;
    }
    for place in places {
        let told = untrusted::text(place, layout::TOLD_MESSAGES).unwrap_or_default();
        answers.retain(|id| !told.lines().any(|line| line == id.as_str()));
    }
    let unread = Reader::agent(agent).and_then(|reader| Mailbox::new(&ctx.repo).open(&reader));
    unread.is_ok_and(|open| open.iter().any(|it| it.read.is_none() && answers.contains(&it.id)))
}

/// Whether a question of the agent is open.
pub(crate) fn is_waiting(ctx: &Ctx, agent: &Agent) -> bool {
    shown_state(ctx.repo.common_dir(), agent) == State::Waiting
}

// Commands of the user that run when something happened to an agent: `agent.onEnd`, `agent.onWaiting`, `agent.onLanded`.
//
// Only git's own configuration names them: no file of the repository does, and no configuration of a worktree, because an
// agent can write those. What comes from an agent goes into variables of the command's environment and is never a part of
// its command line, so that no name and no task is run.

/// What happened to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A run has ended, and its work was judged where that was wanted.
    End,
    /// A session waits for an answer or a permission.
    Waiting,
    /// Its work has landed.
    Landed,
}

/// Runs the command that is set for this, and does not wait for it. Where none is set, or it cannot be started, nothing
/// happens: what it tells of is done all the same.
pub(crate) fn notify(repo: &Repo, notice: Notice, agent: &Agent, state: &str) {
    let (key, word) = match notice {
        Notice::End => ("agent.onend", "end"),
        Notice::Waiting => ("agent.onwaiting", "waiting"),
        Notice::Landed => ("agent.onlanded", "landed"),
    };
    let settings = repo.shared_settings(key).unwrap_or_default();
    // The last setting of a key counts, as in git.
    let Some(command) = settings.iter().rfind(|setting| setting.key == key) else {
        return;
    };
    // A notification has one line, and what it shows obeys no control character.
    let plain = |text: &str| text.replace(char::is_control, " ");
    let name = agent.name.as_ref().map(ToString::to_string);
    let task = agent.description.as_deref().unwrap_or_default();
    let variables = [
        ("GIT_AGENT_NOTICE", word.to_owned()),
        ("GIT_AGENT_NOTICE_ID", agent.id.to_string()),
        ("GIT_AGENT_NOTICE_NAME", plain(&name.unwrap_or_else(|| agent.id.short()))),
        ("GIT_AGENT_NOTICE_STATE", plain(state)),
        ("GIT_AGENT_NOTICE_TASK", plain(task)),
    ];
    let words = ["-c", command.value.as_str()].into_iter();
    launch::start(Path::new("/bin/sh"), words, repo.common_dir(), &variables);
}
