//! Sessions of agent hosts that no run of ours started: one small file for each, `<common
//! dir>/agents/<id8>/at-work/<name>`, written by the hooks that the host calls.
//!
//! A session is at work from its prompt, or where the host tells of none from its first tool call, until it stops or ends, or
//! the process that called the hook is gone. Only where no process is known does time count: two minutes after its last hook.
//! A file is written by rename and says nothing that has to be believed: it delays a landing, no more.

use crate::agents::context::ctx::Ctx;
use crate::agents::life::liveness;
use crate::domain::life::limits::TokenPrice;
use crate::domain::value::named::short_hex;
use crate::domain::{Agent, AgentId, HostSession, Run, What};
use crate::error::{Code, Error, Result};
use crate::hosts::output::Told;
use crate::hosts::{self, Host};
use crate::store::files::{fsx, layout};
use crate::system::{Occupant, Process};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a session counts as working after its last hook, where its process is not known.
const SILENCE: Duration = Duration::from_secs(120);

/// So many files are read. A host has a few sessions in one worktree; what lies there besides came from elsewhere.
const MOST: usize = 64;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 256;

/// What a hook tells of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPhase {
    /// It was given a prompt, or uses a tool.
    Working,
    /// It waits for an answer or a permission.
    Waiting,
    /// It began, or has stopped and waits for its next prompt.
    Resting,
}

impl SessionPhase {
    const ALL: [(SessionPhase, &'static str); 3] = [
        (SessionPhase::Working, "working"),
        (SessionPhase::Waiting, "waiting"),
        (SessionPhase::Resting, "resting"),
    ];

    fn as_str(self) -> &'static str {
        let known = SessionPhase::ALL.iter().find(|(phase, _)| *phase == self);
        known.map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Option<SessionPhase> {
        let known = SessionPhase::ALL.iter().find(|(_, known)| *known == word);
        known.map(|(phase, _)| *phase)
    }
}

/// A session as its last hook left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    phase: SessionPhase,
    process: Option<Process>,
    told: SystemTime,
}

impl SessionRecord {
    /// Whether it works, or waits in the middle of its work.
    pub(crate) fn is_at_work(&self) -> bool {
        if self.phase == SessionPhase::Resting {
            return false;
        }
        match &self.process {
            // A process that is there outlasts any silence: a model may think for longer than two
            // minutes.
            Some(process) => process.is_there(),
            // A clock that was set back makes it young, which only delays.
            None => self.told.elapsed().unwrap_or_default() < SILENCE,
        }
    }

    /// Whether it waits for a person.
    pub(crate) fn waits(&self) -> bool {
        self.phase == SessionPhase::Waiting
    }

    /// Whether a process belongs to this session while it rests: its host, or something that the host started.
    pub(crate) fn is_of(&self, one: &Occupant) -> bool {
        let host = self.process.as_ref().filter(|_| self.phase == SessionPhase::Resting);
        host.is_some_and(|host| one.is_at_or_below(host))
    }
}

/// The sessions of an agent of which something is known; those that ended have no file any more.
pub(crate) fn all(common_dir: &Path, id: AgentId) -> Vec<SessionRecord> {
    let entries = fs::read_dir(layout::at_work_dir(common_dir, id));
    let entries = entries.into_iter().flatten().flatten().take(MOST);
    entries.filter_map(|entry| read(&entry.path())).collect()
}

fn read(path: &Path) -> Option<SessionRecord> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let text = String::from_utf8(fsx::load_if_there(path).ok()??).ok()?;
    let mut lines = text.lines();
    let phase = SessionPhase::parse(lines.next()?)?;
    let process = lines.next().and_then(Process::parse);
    Some(SessionRecord { phase, process, told: metadata.modified().ok()? })
}

/// Notes what a hook tells of its session, and says whether that is new. A session that waits for its next prompt is not said to wait in the middle of
/// its work: hosts remind of that, too.
///
/// # Errors
/// `io`, `repo-read-only`, `disk-full`.
pub(crate) fn note(
    common_dir: &Path,
    id: AgentId,
    session: &str,
    phase: SessionPhase,
) -> Result<bool> {
    let directory = layout::at_work_dir(common_dir, id);
    let path = file(&directory, session);
    let known = read(&path);
    let is_resting = known.as_ref().is_none_or(|known| known.phase == SessionPhase::Resting);
    if phase == SessionPhase::Waiting && is_resting {
        return Ok(false);
    }
    // Most hooks repeat what is known, and a write for each of them would cost every tool call.
    let is_told = |known: &SessionRecord| {
        known.phase == phase && known.process.as_ref().is_some_and(Process::is_there)
    };
    if known.as_ref().is_some_and(is_told) {
        return Ok(false);
    }
    let process = Process::of_host();
    let mut text = format!("{}\n", phase.as_str());
    text.extend(process.as_ref().map(|process| format!("{}\n", process.to_line())));
    fsx::create_dir(&directory)?;
    fsx::write_private(&path, text.as_bytes())?;
    Ok(true)
}

/// Notes that a session has ended; `false` where nothing was known of it.
///
/// # Errors
/// `io`.
pub(crate) fn end(common_dir: &Path, id: AgentId, session: &str) -> Result<bool> {
    let path = file(&layout::at_work_dir(common_dir, id), session);
    // What is left says that there was a session once.
    if read(&path).is_none() {
        return Ok(false);
    }
    let text = format!("{}\n", SessionPhase::Resting.as_str());
    fsx::write_private(&path, text.as_bytes())?;
    Ok(true)
}

/// Whether something is known of a session.
pub(crate) fn is_known(common_dir: &Path, id: AgentId, session: &str) -> bool {
    file(&layout::at_work_dir(common_dir, id), session).exists()
}

/// A host names its sessions as it likes; their names are no paths.
fn file(directory: &Path, session: &str) -> PathBuf {
    directory.join(short_hex(&Sha256::digest(session.as_bytes()), 8))
}

// What an agent host told on the streams of a run, read from its logs: at its end, and by whichever command completes a run whose
// supervisor was killed.

/// Stands for the name of the session in a command line. It is filled in when the run has a number.
pub const SESSION: &str = "{session}";

/// How much of the end of a log is read for the message of a host, which may write everything on one line.
const HOST_BYTES: u64 = 16 * 1024 * 1024;

/// The name for a host's session that we choose: a UUID that no other run has, and that can be told again from the row of a run
/// that was killed before its host wrote anything.
pub(crate) fn session_name(id: AgentId, number: u32) -> String {
    let id = id.to_string();
    format!("{}{number:08x}", &id[..id.len() - 8])
}

/// What a host told in a run; `command` is the line that the row of the run has.
pub(crate) fn told(
    common: &Path,
    agent: &Agent,
    (number, command): (u32, &str),
    host: &dyn Host,
) -> Told {
    let [out, err] = ["out", "err"].map(|stream| {
        let log = liveness::log(common, agent, number, stream);
        fsx::end_of(&log, HOST_BYTES).unwrap_or_default()
    });
    let mut told = host.told(&out, &err);
    // We chose the name of the session, so it is known even if the host was killed before it wrote
    // any.
    if told.session.is_none() && command.contains(SESSION) {
        told.session = Some(session_name(agent.id, number));
    }
    told
}

/// What tokens cost by `agent.model.<model>.price`, else by `agent.host.<host>.price`. A worktree's own setting does not count: an
/// agent can write that.
///
/// # Errors
/// `usage` for a value that is no price, `git-failed`.
pub(crate) fn price(ctx: &Ctx, host: &dyn Host, model: Option<&str>) -> Result<Option<TokenPrice>> {
    for (kind, name) in [("model", model), ("host", Some(host.name()))] {
        let Some(key) = name.map(|name| format!("agent.{kind}.{name}.price")) else {
            continue;
        };
        let settings = ctx.repo.shared_settings(&key)?;
        if let Some(last) = settings.iter().rfind(|setting| setting.key == key) {
            let price = TokenPrice::read(&last.value).ok_or_else(|| {
                let what = format!("{key}: `{}` is not a price; write US dollars for a million tokens, such as 0.50/2", last.value);
                Error::new(Code::Usage, what).hint(format!("to remove it, run git config --unset-all {key}"))
            })?;
            return Ok(Some(price));
        }
    }
    Ok(None)
}

/// No session costs so much, in US dollars.
const MOST_USD: f64 = 1e6;

/// What the row of a run keeps of that: what this run cost, so that the sum over the runs is what the session cost. Where the host
/// tells of no cost, or of none that it knows, that is what the tokens cost at this price.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn session(
    ctx: &Ctx,
    agent: &Agent,
    told: &Told,
    price: Option<TokenPrice>,
) -> Result<HostSession> {
    let mut session = HostSession {
        id: (told.session.clone()).filter(|id| HostSession::is_id(id)),
        // A number that is none, or that no session costs, becomes nothing: it would use up what a day may cost.
        cost_micro_usd: (told.cost_usd)
            .filter(|cost| (0.0..MOST_USD).contains(cost))
            .map(|cost| (cost * 1e6).round() as u64),
        input_tokens: told.tokens.map(|tokens| tokens.input),
        output_tokens: told.tokens.map(|tokens| tokens.output),
    };
    if told.is_whole && session.id.is_some() {
        // Several hosts count on from where the session was before.
        for event in ctx.ledger().events(agent.spawn_commit)? {
            if let What::Exited(exited) = event.what
                && exited.session.id == session.id
            {
                session = session.beyond(&exited.session);
            }
        }
    }
    let tokens = session.input_tokens.zip(session.output_tokens);
    let estimate =
        price.zip(tokens).map(|(price, (input, output))| price.micro_usd([input, output]));
    session.cost_micro_usd =
        session.cost_micro_usd.filter(|cost| *cost > 0).or(estimate).or(session.cost_micro_usd);
    Ok(session)
}

/// The session of a run whose end was not recorded, as far as its host came.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn session_of_lost(ctx: &Ctx, agent: &Agent, run: &Run) -> Result<HostSession> {
    let command = run.started.command.as_str();
    let Some(host) = hosts::of_command(command) else {
        return Ok(HostSession::default());
    };
    let price = price(ctx, host, run.started.model.as_deref())?;
    let run = (run.number(), command);
    let told = told(ctx.repo.common_dir(), agent, run, host);
    session(ctx, agent, &told, price)
}
