//! Spools: where an agent leaves messages that may not write refs, and how they are taken out.
//!
//! ```text
//! spool/<id8>/<file>          the agent's to write
//!    └─ renamed ─> <id8>/posting/<file>    out of its reach; posted; removed
//! ```
//!
//! What is found in `posting` when no process is posting was perhaps posted before its poster died; the
//! message's nonce, made of the agent and the content of the file, tells.

use super::{Mailbox, Nonce};
use crate::domain::mail::message::PAYLOAD_LIMIT;
use crate::domain::value::named::first_half;
use crate::domain::{AgentId, Message, MessageId, Oid, Stamp};
use crate::error::{Code, IoContext, Result};
use crate::git::files::untrusted;
use crate::git::{Commit, Repo};
use crate::store::chain::{self, Chain};
use crate::store::files::lock::{self, Guard};
use crate::store::files::{fsx, layout};
use crate::wire::row::message::{self, Envelope};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes: a payload and what stands around it.
const LONGEST: u64 = 2 * PAYLOAD_LIMIT as u64;

/// The most files that are taken out of a spool at once. Each is a commit, and an agent can leave any number; what is left waits for the
/// next round, and where no run goes on `doctor` names it.
pub const AT_ONCE: usize = 256;

/// A file that was taken out of a spool.
#[derive(Debug)]
pub struct Taken {
    /// What the agent called it.
    pub name: String,
    /// Its content, or why it has none.
    pub content: std::result::Result<Vec<u8>, String>,
    /// Whether it may have been posted by a process that died before it could be removed.
    pub is_doubtful: bool,
    path: PathBuf,
}

/// What tells what an agent left from all else, however often posting is tried.
pub fn nonce_of(id: AgentId, content: &[u8]) -> Nonce {
    let mut hash = Sha256::new();
    hash.update(id.to_string());
    hash.update(content);
    Nonce(first_half(hash.finalize()))
}

impl Taken {
    /// [`nonce_of`] what is in the file.
    pub fn nonce(&self, id: AgentId) -> Nonce {
        match &self.content {
            Ok(content) => nonce_of(id, content),
            Err(problem) => nonce_of(id, format!("{} {problem}", self.name).as_bytes()),
        }
    }

    /// Removes the file for good.
    ///
    /// # Errors
    /// `io`.
    pub fn clear(self, common_dir: &Path) -> Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => fsx::remove_by_trash(common_dir, &self.path),
            Ok(_) => fs::remove_file(&self.path).at("could not remove", &self.path),
            Err(_) => Ok(()),
        }
    }
}

/// Leaves a message in a spool, whole or not at all.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`.
pub fn leave(spool: &Path, name: &str, content: &[u8]) -> Result<()> {
    fsx::write_atomic(&spool.join(name), content)
}

/// Takes what an agent left in the spool of its own repository over into what is being posted: each file is known by its content, so
/// that one which is taken twice is posted once. Names are followed nowhere, and what is no regular file of bearable length stays.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`.
pub fn collect(common_dir: &Path, id: AgentId, own: &Path, _guard: &Guard) -> Result<()> {
    let spool = layout::spool_dir(Path::new(""), id);
    let posting = layout::posting_dir(common_dir, id);
    for path in files(&own.join(&spool)).into_iter().take(AT_ONCE) {
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        let relative = spool.join(name);
        let Some(content) = untrusted::read(own, &relative, LONGEST) else { continue };
        fsx::create_dir(&posting)?;
        leave(&posting, name, &content)?;
        untrusted::remove(own, &relative).at("could not remove", &path)?;
    }
    Ok(())
}

/// Whether there is something in an agent's spool.
pub fn is_waiting(common_dir: &Path, id: AgentId) -> bool {
    has_files(&layout::spool_dir(common_dir, id))
}

/// The agents, by the first eight digits of their ids, that have something in their spools or half
/// posted.
pub fn waiting(common_dir: &Path) -> Vec<String> {
    let spools = fs::read_dir(layout::spools_dir(common_dir));
    let names = spools
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let is_waiting = |name: &String| {
        let posting = layout::agents_dir(common_dir).join(name).join("posting");
        let spool = layout::spools_dir(common_dir).join(name);
        name.len() == 8 && (has_files(&spool) || has_files(&posting))
    };
    names.filter(is_waiting).collect()
}

/// Makes sure that one process posts an agent's messages; `None` while another does.
///
/// # Errors
/// `repo-read-only`, `io`.
pub fn begin(common_dir: &Path, id: AgentId) -> Result<Option<Guard>> {
    lock::try_hold(common_dir, &layout::posting_lock(id))
}

/// Takes at most [`AT_ONCE`] files out of an agent's spool, oldest name first; what was taken out before and is still
/// there comes first. The caller holds what [`begin`] gives.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`.
pub fn take(common_dir: &Path, id: AgentId, spool: &Path, _guard: &Guard) -> Result<Vec<Taken>> {
    let posting = layout::posting_dir(common_dir, id);
    // What a dead poster left comes first, so that the order of sending stays.
    let mut taken: Vec<_> =
        files(&posting).into_iter().take(AT_ONCE).map(|path| open(path, true)).collect();
    for path in files(spool).into_iter().take(AT_ONCE - taken.len()) {
        fsx::create_dir(&posting)?;
        let target = posting.join(path.file_name().unwrap_or_default());
        // The agent may have taken it back meanwhile.
        let moved = fs::rename(&path, &target).at_if_there("could not take", &path)?;
        taken.extend(moved.map(|()| open(target, false)));
    }
    Ok(taken)
}

/// What is in a directory but for half-written files, in the order of the names. No message has a hidden name; the sandbox of
/// a host makes such directories in every place that it leaves writable, and starts no command if one goes meanwhile.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = entries(directory).collect();
    paths.sort_unstable();
    paths
}

/// Whether anything is in a spool.
pub fn has_files(directory: &Path) -> bool {
    entries(directory).next().is_some()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    entries
        .filter(move |entry| !is_hidden(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none_or(|ending| ending != "tmp"))
}

fn open(path: PathBuf, is_doubtful: bool) -> Taken {
    let name = path.file_name().unwrap_or_default();
    Taken { name: name.to_string_lossy().into_owned(), content: content(&path), is_doubtful, path }
}

/// Nothing but a regular file of bearable length is read: a FIFO would hang, a link may lead anywhere.
fn content(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let mut content = Vec::new();
    let file = untrusted::open_at(path).ok_or("it is no regular file")?;
    let read = file.take(LONGEST).read_to_end(&mut content);
    read.map(|_| content).map_err(|error| error.to_string())
}

/// The stamp of the message with this nonce, if it was sent since then.
///
/// # Errors
/// `repo-corrupt` when the chain is damaged beyond its reflog.
pub fn posted(repo: &Repo, nonce: Nonce, since: DateTime<Utc>) -> Result<Option<Stamp>> {
    let nonce = nonce.text();
    Mailbox::new(repo).walk(|found: &mut Option<Stamp>, _, envelope| {
        let Some(envelope) = envelope else {
            return ControlFlow::Continue(());
        };
        *found = (envelope.nonce == nonce).then_some(envelope.at);
        if found.is_some() || envelope.at.time() < since {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

// Walking the chain, newest first, over merges and over damage.

/// A commit in line: those without a stamp (merges and repairs) first, then by stamp, the latest first.
struct Queued {
    commit: Commit,
    envelope: Option<Envelope>,
}

impl Queued {
    fn key(&self) -> (bool, Option<Stamp>, Oid) {
        let at = self.envelope.as_ref().map(|envelope| envelope.at);
        (at.is_none(), at, self.commit.oid)
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Queued {}

impl Mailbox<'_> {
    /// Shows every commit of the chain to `visit`, messages in the order of their stamps, the latest first,
    /// until it breaks; gives what it made of them. Where the chain is damaged, begins again with what
    /// the reflog gives back and passes over what is gone.
    ///
    /// # Errors
    /// `repo-corrupt` when the chain is damaged beyond its reflog.
    pub(super) fn walk<T: Default>(
        &self,
        visit: impl Fn(&mut T, &Commit, Option<&Envelope>) -> ControlFlow<()>,
    ) -> Result<T> {
        let walked = chain::read(self.repo, Chain::Mail, |tip, is_recovered| {
            self.walk_from(tip, is_recovered, &visit)
        })?;
        Ok(walked.unwrap_or_default())
    }

    fn walk_from<T: Default>(
        &self,
        tip: Commit,
        over_gaps: bool,
        visit: &impl Fn(&mut T, &Commit, Option<&Envelope>) -> ControlFlow<()>,
    ) -> Result<T> {
        let mut made = T::default();
        let mut seen = HashSet::from([tip.oid]);
        let queued =
            |commit: Commit| Queued { envelope: message::envelope(&commit.message), commit };
        let mut queue = BinaryHeap::from([queued(tip)]);
        while let Some(next) = queue.pop() {
            if visit(&mut made, &next.commit, next.envelope.as_ref()).is_break() {
                break;
            }
            for parent in next.commit.parents {
                if !seen.insert(parent) {
                    continue;
                }
                match self.repo.read_commit(parent) {
                    Ok(commit) => queue.push(queued(commit)),
                    // Only where the chain was recovered is a gap expected. Elsewhere the error
                    // makes the caller recover it first.
                    Err(error) if error.code() == Code::RepoCorrupt && over_gaps => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(made)
    }

    /// The messages with these ids, as far as there are any.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn messages(&self, ids: &[MessageId]) -> Result<HashMap<MessageId, Message>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let wanted: HashSet<_> = ids.iter().collect();
        self.walk(|found: &mut HashMap<MessageId, Message>, commit, envelope| {
            let Some(envelope) = envelope else {
                return ControlFlow::Continue(());
            };
            if wanted.contains(&envelope.id) {
                let message = message::decode(&commit.message);
                found.extend(message.map(|message| (message.id.clone(), message)));
            }
            let all_found = found.len() == wanted.len();
            // An id holds the time of its message, and the walk goes back in time.
            let too_old = || wanted.iter().all(|id| id.is_after(envelope.at));
            if all_found || too_old() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// The ids that begin like this, at most two.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn ids_like(&self, beginning: &str) -> Result<Vec<MessageId>> {
        self.walk(|found: &mut Vec<MessageId>, _, envelope| {
            let id = envelope.map(|envelope| &envelope.id);
            found.extend(id.filter(|id| id.as_str().starts_with(beginning)).cloned());
            if found.len() > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// Every message that belongs to the conversation of one: what it answers, what answers it, and so on;
    /// oldest first. Empty when there is no such message.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn conversation(&self, id: &MessageId) -> Result<Vec<Message>> {
        // The root is the oldest of them, and known only once it is found.
        let mut root = id.clone();
        while let Some(above) = self
            .messages(std::slice::from_ref(&root))?
            .remove(&root)
            .and_then(|message| message.letter.re)
        {
            // An answer is younger; anything else is a forgery that could go round in a ring.
            if above >= root {
                break;
            }
            root = above;
        }
        let mut later = self.walk(|found: &mut Vec<Message>, commit, envelope| {
            let Some(envelope) = envelope else {
                return ControlFlow::Continue(());
            };
            let is_linked = envelope.re.is_some() || envelope.id == root || envelope.id == *id;
            found.extend(message::decode(&commit.message).filter(|_| is_linked));
            if root.is_after(envelope.at) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        later.reverse();
        let mut within = HashSet::from([root, id.clone()]);
        later.retain(|message| {
            let re = message.letter.re.as_ref();
            let belongs = within.contains(&message.id) || re.is_some_and(|re| within.contains(re));
            if belongs {
                within.insert(message.id.clone());
            }
            belongs
        });
        Ok(later)
    }
}
