//! A reader of messages, and the questions that wait for an answer.

use crate::domain::mail::message::{Kind, Name};
use crate::domain::{Agent, AgentId, Letter, Message, MessageId, Oid, Receivers};
use crate::error::Result;
use crate::git::{Identity, NewCommit, Repo};
use crate::store::files::{fsx, layout};
use crate::store::mailbox::{Mailbox, chain};
use crate::system::ClosingWatch;
use crate::wire::row::message::Envelope;
use chrono::{DateTime, Utc};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The trailer that names the reader for whom a commit stands.
pub(super) const TRAILER: &str = "Reader";

/// A receiver of messages, with everything that it goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// What it is called: an agent by its id.
    pub name: Name,
    /// The commit that carries its receipts: an agent's spawn commit, or one that stands for a name.
    pub(super) key: Oid,
    /// Everything that a message may call it.
    pub(super) names: Vec<String>,
    /// Since when it is there; a reader that is no agent always was.
    pub(super) since: Option<DateTime<Utc>>,
    /// Whether messages may have been written to one of its names before it was there.
    pub(super) was_expected: bool,
}

impl Reader {
    /// An agent.
    ///
    /// # Errors
    /// Never for an agent's id.
    pub fn agent(agent: &Agent) -> Result<Reader> {
        let id = agent.id.to_string();
        let mut names = vec![id.clone()];
        names.extend(agent.name.as_ref().map(|name| name.as_str().to_owned()));
        if let Some(branch) = &agent.branch {
            names.push(branch.clone());
            names.extend(branch.strip_prefix("refs/heads/").map(str::to_owned));
        }
        Ok(Reader {
            name: Name::parse(&id).map_err(crate::error::Error::bug)?,
            key: agent.spawn_commit,
            names,
            since: Some(agent.started),
            // A branch's name holds the time of its spawn; an alias may be known long before.
            was_expected: agent.name.is_some(),
        })
    }

    /// No agent: a person, an outside tool.
    ///
    /// # Errors
    /// `git-failed` when libgit2 cannot hash.
    pub fn stranger(name: &Name) -> Result<Reader> {
        let message = stand_in_message(name, None);
        Ok(Reader {
            name: name.clone(),
            key: with_stand_in(&message, |commit| commit.oid())?,
            names: vec![name.as_str().to_owned()],
            since: None,
            was_expected: true,
        })
    }

    /// Whether a message is for this reader. A broadcast is for the agents that were there when it was sent,
    /// but its sender, and for everybody who is no agent.
    pub(super) fn is_for(&self, envelope: &Envelope) -> bool {
        let is_me = |name: &Name| self.names.iter().any(|own| own == name.as_str());
        match &envelope.to {
            Receivers::Named(names) => names.iter().any(is_me),
            Receivers::Everybody => {
                let was_there = self.since.is_none_or(|since| since <= envelope.at.time());
                was_there && !is_me(&envelope.from)
            }
        }
    }
}

/// The message of an empty commit that stands for a reader, or for a page of its receipts.
pub(super) fn stand_in_message(name: &Name, page: Option<&str>) -> String {
    let page = page.map_or_else(String::new, |page| format!("Page: {page}\n"));
    format!("agent: receipts of {name}\n\n{TRAILER}: {name}\n{page}{}: 1\n", chain::TRAILER)
}

/// Writes the commit that stands for a reader or a page: the same in every clone.
pub(super) fn write_stand_in(repo: &Repo, message: &str) -> Result<Oid> {
    // git knows the empty tree without an object, libgit2 does not.
    repo.write_tree(Vec::new())?;
    with_stand_in(message, |commit| repo.write_commit(commit))
}

fn with_stand_in(message: &str, then: impl FnOnce(&NewCommit<'_>) -> Result<Oid>) -> Result<Oid> {
    let who = Identity::stand_in(0);
    then(&NewCommit::ours(&who, Oid::EMPTY_TREE, &[], message))
}

// Waiting for mail.
//
// Every writer of ours opens the lock file of the mailbox and closes it when its ref has moved, and the
// file is never removed: the kernel tells of the closing, so no polling is needed. A ref that
// another process moves (a fetch) is noticed by a slow look, and so is everything where the kernel
// tells nothing.

/// How long to wait at most before looking at the mailbox without having been told.
const SLOW_LOOK: Duration = Duration::from_secs(1);

/// The same where the kernel tells nothing.
const LOOK: Duration = Duration::from_millis(150);

/// An ear at the mailbox.
pub struct Watch {
    kernel: Option<ClosingWatch>,
}

impl Watch {
    /// Begins to listen: whatever is written from now on ends the next [`Watch::wait`].
    pub fn begin(common_dir: &Path) -> Watch {
        let directory = layout::agents_dir(common_dir);
        let path = directory.join(layout::MAIL_LOCK);
        let made = fsx::create_dir(&directory).is_ok()
            && std::fs::File::options().create(true).append(true).open(&path).is_ok();
        Watch {
            // Where the lock file could not be made there is nothing to watch.
            kernel: ClosingWatch::begin(&path).filter(|_| made),
        }
    }

    /// Waits until something may have changed, for `patience` at most.
    pub fn wait(&self, patience: Duration) {
        match &self.kernel {
            Some(watch) => watch.wait(patience.min(SLOW_LOOK)),
            None => std::thread::sleep(patience.min(LOOK)),
        }
    }
}

// Questions (`clarify`) that no message answers yet: for each an empty file `<common dir>/agents/questions/<asker>.<message id>`.
//
// An agent that waits for an answer is shown as waiting, and a list of agents must not read the mailbox for that. The files
// say no more than the mailbox: one that a kill left out, or left there, changes what is shown and nothing else.

/// What the file of an answer holds for which no run is to begin.
const ASLEEP: &[u8] = b"asleep\n";

/// So many questions of one agent are noted, and so many answers are looked at. An agent has a few, and waits as long as one is open.
const MOST: usize = 16;

/// Whether a question of the agent has no answer.
pub fn is_open(common_dir: &Path, agent: &Agent) -> bool {
    all(common_dir).any(|(asker, ..)| is_of(agent, &asker))
}

/// Notes a question that was sent, and that a message answers others. The message is sent already, so nothing here makes it fail.
pub(super) fn note(mailbox: &Mailbox<'_>, message: &Message) {
    let common_dir = mailbox.repo.common_dir();
    let letter = &message.letter;
    let replied = LazyCell::new(|| question_of(letter, |id| read(mailbox, id)));
    for (asker, id, path) in all(common_dir) {
        let is_about = letter.re.as_ref() == Some(&id) || is_named(letter, &asker);
        // The names are compared first: reading the question walks the mailbox.
        let is_answered_in =
            |question| is_answer(&question, message, replied.as_ref(), !mailbox.is_for_fenced);
        if is_about && read(mailbox, &id).is_some_and(is_answered_in) {
            answered(common_dir, &asker, &message.id, &path);
        }
    }
    let from = letter.from.as_str();
    let open = || all(common_dir).filter(|(asker, ..)| asker == from).take(MOST).count();
    if letter.kind == Kind::Clarify && open() < MOST {
        let directory = layout::questions_dir(common_dir);
        let file = format!("{from}.{}", message.id.as_str());
        let _ = fsx::create_dir(&directory).map(|()| File::create(directory.join(file)));
    }
}

/// Whether a message answers a question: one to who asked, from one of those whom it was for, or, where its sender may be a person, any that
/// names it. An agent that was not asked answers no other one's question, and none its own, or it could let itself go on for ever. What
/// replies to another question of the asker answers that one; `replied` is the question that it replies to.
fn is_answer(
    question: &Message,
    message: &Message,
    replied: Option<&Message>,
    may_be_person: bool,
) -> bool {
    let (asked, letter) = (&question.letter, &message.letter);
    let is_reply = letter.re.as_ref() == Some(&question.id);
    let is_for_asker = match &letter.to {
        Receivers::Named(_) => is_named(letter, asked.from.as_str()),
        Receivers::Everybody => is_reply,
    };
    let was_asked = match &asked.to {
        Receivers::Named(names) => names.contains(&letter.from),
        Receivers::Everybody => true,
    };
    let is_asked_one = was_asked && letter.from != asked.from;
    let is_for_another =
        replied.is_some_and(|other| other.id != question.id && other.letter.from == asked.from);
    is_for_asker && !is_for_another && (is_asked_one || is_reply && may_be_person)
}

/// The question to which a letter replies, or to an answer of it, and so on.
fn question_of(letter: &Letter, find: impl Fn(&MessageId) -> Option<Message>) -> Option<Message> {
    let mut replied = find(letter.re.as_ref()?)?;
    for _ in 0..MOST {
        if replied.letter.kind == Kind::Clarify {
            return Some(replied);
        }
        replied = find(replied.letter.re.as_ref()?)?;
    }
    None
}

/// Whether a letter names this receiver.
fn is_named(letter: &Letter, name: &str) -> bool {
    match &letter.to {
        Receivers::Named(names) => names.iter().any(|to| to.as_str() == name),
        Receivers::Everybody => false,
    }
}

fn read(mailbox: &Mailbox<'_>, id: &MessageId) -> Option<Message> {
    mailbox.messages(std::slice::from_ref(id)).ok()?.remove(id)
}

/// Takes a question for answered. The run that asked may end without having heard of it, so that the answer is noted first.
fn answered(common_dir: &Path, asker: &str, answer: &MessageId, question: &Path) {
    let id = AgentId::parse(asker).filter(|id| layout::agent_dir(common_dir, *id).is_dir());
    if let Some(id) = id {
        let made = fsx::create_dir(&layout::answered_dir(common_dir, id));
        let _ = made.map(|()| File::create(answer_file(common_dir, id, answer)));
    }
    let _ = fs::remove_file(question);
}

/// The messages that answered an agent since its last run began.
pub fn answers(common_dir: &Path, agent: &Agent) -> Vec<MessageId> {
    let entries = fs::read_dir(layout::answered_dir(common_dir, agent.id));
    let entries = entries.into_iter().flatten().flatten().take(MOST);
    entries.filter_map(|entry| MessageId::parse(entry.file_name().to_str()?)).collect()
}

/// Notes of an answer that no run is to begin for it.
pub fn let_sleep(common_dir: &Path, agent: &Agent, answer: &MessageId) {
    let file = answer_file(common_dir, agent.id, answer);
    if file.exists() {
        let _ = fs::write(file, ASLEEP);
    }
}

/// Whether a run may begin for an answer.
pub fn may_wake(common_dir: &Path, agent: &Agent, answer: &MessageId) -> bool {
    fs::read(answer_file(common_dir, agent.id, answer)).is_ok_and(|content| content != ASLEEP)
}

fn answer_file(common_dir: &Path, agent: AgentId, answer: &MessageId) -> PathBuf {
    layout::answered_dir(common_dir, agent).join(answer.as_str())
}

/// Forgets what answered an agent: a run of it begins, which is told of everything that is unread.
pub fn forget_answers(common_dir: &Path, agent: &Agent) {
    let _ = fs::remove_dir_all(layout::answered_dir(common_dir, agent.id));
}

/// Forgets the questions of an agent, which were answered in another way than by a message.
pub fn close(common_dir: &Path, agent: &Agent) {
    for (asker, _, path) in all(common_dir) {
        if is_of(agent, &asker) {
            let _ = fs::remove_file(path);
        }
    }
}

fn is_of(agent: &Agent, asker: &str) -> bool {
    let name = agent.name.as_ref().map(|name| name.as_str());
    asker == agent.id.to_string() || Some(asker) == name
}

/// Forgets questions that are answered by messages which came from another clone.
///
/// # Errors
/// `repo-corrupt`.
pub(in crate::store) fn settle(repo: &Repo) -> Result<()> {
    let mailbox = Mailbox::new(repo);
    for (asker, id, path) in all(repo.common_dir()) {
        let conversation = mailbox.conversation(&id)?;
        let Some(question) = conversation.iter().find(|message| message.id == id) else {
            continue;
        };
        // What wrote it is known by its name alone.
        let is_answer = |answer: &&Message| {
            let is_agent = AgentId::parse(answer.letter.from.as_str()).is_some();
            let find = |id: &MessageId| conversation.iter().find(|other| other.id == *id).cloned();
            let replied = question_of(&answer.letter, find);
            is_answer(question, answer, replied.as_ref(), !is_agent)
        };
        if let Some(answer) = conversation.iter().find(is_answer) {
            answered(repo.common_dir(), &asker, &answer.id, &path);
        }
    }
    Ok(())
}

/// Those whose questions have no answer, by the names under which they asked.
pub fn askers(common_dir: &Path) -> BTreeSet<String> {
    all(common_dir).map(|(asker, ..)| asker).collect()
}

/// The open questions: who asks, the message, and the file.
fn all(common_dir: &Path) -> impl Iterator<Item = (String, MessageId, PathBuf)> {
    let entries = fs::read_dir(layout::questions_dir(common_dir));
    entries.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (asker, id) = name.rsplit_once('.')?;
        Some((asker.to_owned(), MessageId::parse(id)?, entry.path()))
    })
}
