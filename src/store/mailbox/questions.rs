//! Questions (`clarify`) that no message answers yet: for each an empty file `<common dir>/agents/questions/<asker>.<message id>`.
//!
//! An agent that waits for an answer is shown as waiting, and a list of agents must not read the mailbox for that. The files
//! say no more than the mailbox: one that a kill left out, or left there, changes what is shown and nothing else.

use super::Mailbox;
use crate::domain::agent::Agent;
use crate::domain::message::{Kind, MessageId};
use crate::domain::message::{Message, Receivers};
use crate::error::Result;
use crate::git::Repo;
use crate::store::{fsx, layout};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// So many questions are looked at. An agent has a few.
const MOST: usize = 1024;

/// Whether a question of the agent has no answer.
pub fn is_open(common_dir: &Path, agent: &Agent) -> bool {
    all(common_dir).any(|(asker, ..)| is_of(agent, &asker))
}

/// Notes a question that was sent, and that a message answers others. The message is sent already, so nothing here makes it fail.
pub(super) fn note(mailbox: &Mailbox<'_>, message: &Message) {
    let common_dir = mailbox.repo.common_dir();
    let letter = &message.letter;
    for (asker, id, path) in all(common_dir) {
        let is_to_asker = match &letter.to {
            Receivers::Named(names) => names.iter().any(|name| name.as_str() == asker),
            Receivers::Everybody => false,
        };
        // The name is compared first: reading the question walks the mailbox.
        if letter.re.as_ref() == Some(&id) || is_to_asker && was_asked(mailbox, &id, message) {
            let _ = fs::remove_file(path);
        }
    }
    if letter.kind == Kind::Clarify {
        let directory = layout::questions_dir(common_dir);
        let file = format!("{}.{}", letter.from.as_str(), message.id.as_str());
        let _ = fsx::create_dir(&directory).map(|()| File::create(directory.join(file)));
    }
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

/// Whether the sender of a message is one of those whom a question was for.
fn was_asked(mailbox: &Mailbox<'_>, question: &MessageId, answer: &Message) -> bool {
    let asked = mailbox.messages(std::slice::from_ref(question));
    let asked = asked.ok().and_then(|mut found| found.remove(question));
    asked.is_some_and(|question| match question.letter.to {
        Receivers::Named(names) => names.contains(&answer.letter.from),
        Receivers::Everybody => true,
    })
}

/// Forgets questions that are answered by messages which came from another clone.
///
/// # Errors
/// `repo-corrupt`.
pub(in crate::store) fn settle(repo: &Repo) -> Result<()> {
    let mailbox = Mailbox::new(repo);
    for (_, id, path) in all(repo.common_dir()) {
        let conversation = mailbox.conversation(&id)?;
        if { conversation.iter() }.any(|message| message.letter.re.as_ref() == Some(&id)) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// The open questions: who asks, the message, and the file.
fn all(common_dir: &Path) -> impl Iterator<Item = (String, MessageId, PathBuf)> {
    let entries = fs::read_dir(layout::questions_dir(common_dir));
    let entries = entries.into_iter().flatten().flatten().take(MOST);
    entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (asker, id) = name.rsplit_once('.')?;
        Some((asker.to_owned(), MessageId::parse(id)?, entry.path()))
    })
}
