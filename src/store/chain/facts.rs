//! Facts that were worked out before, each in a disposable file.
//!
//! A fact is the answer to a question whose words are object names and texts that never change their meaning:
//! what git makes of merging two commits, that a list of commands succeeds on a commit. A verdict is no fact.
//!
//! An answer is believed only with a seal: an HMAC-SHA256 (RFC 2104) of question and answer, made with a key
//! of this clone that its owner alone can read. It keeps out what another clone's files, a restored backup or
//! a program that may write below `agents/cache` puts there. It does not keep out a program that runs as the
//! same user and outside every fence, which can read the key as this program does.

use crate::domain::paths::change::Baseline;
use crate::domain::value::named::{hex, short_hex};
use crate::domain::{Agent, AgentId, Oid};
use crate::error::Result;
use crate::git::Repo;
use crate::store::chain::keep;
use crate::store::files::{fsx, layout};
use crate::wire::row::journal;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The bytes in a key, and in a digest.
const LENGTH: usize = 32;
/// The bytes in a block of SHA-256.
const BLOCK: usize = 64;

/// The facts of one clone.
pub struct Facts {
    directory: PathBuf,
    key: [u8; LENGTH],
}

impl Facts {
    /// The facts of that repository, with a new key if there is none; `None` where no key can be had, as inside
    /// a fence and on a read-only disk. Without facts everything works, only slower.
    pub fn open(common_dir: &Path) -> Option<Facts> {
        Facts::known(common_dir).or_else(|| {
            let key = make_key(&layout::facts_key(common_dir))?;
            Some(Facts { directory: layout::cache_dir(common_dir), key })
        })
    }

    /// The facts of that repository where it has a key, for what only looks and writes nothing.
    pub fn known(common_dir: &Path) -> Option<Facts> {
        let key = read_key(&layout::facts_key(common_dir))?;
        Some(Facts { directory: layout::cache_dir(common_dir), key })
    }

    /// The answer that was kept for a question. `kind` names the sort of question.
    pub fn load(&self, kind: &str, question: &[String]) -> Option<Vec<u8>> {
        let path = self.place(kind, question);
        let content = fsx::load_if_there(&path).ok().flatten()?;
        let (seal, answer) = content.split_at_checked(LENGTH * 2 + 1)?;
        let expected = format!("{}\n", self.seal(kind, question, answer));
        (seal == expected.as_bytes()).then(|| answer.to_owned())
    }

    /// Keeps an answer.
    pub fn store(&self, kind: &str, question: &[String], answer: &[u8]) {
        let mut content = format!("{}\n", self.seal(kind, question, answer)).into_bytes();
        content.extend_from_slice(answer);
        // A fact that is not kept is only worked out again.
        let _ = fsx::create_dir(&self.directory)
            .and_then(|()| fsx::write_atomic(&self.place(kind, question), &content));
    }

    fn place(&self, kind: &str, question: &[String]) -> PathBuf {
        let digest = Sha256::digest(message(kind, question, &[]));
        self.directory.join(format!("{kind}-{}", short_hex(&digest, LENGTH / 2)))
    }

    fn seal(&self, kind: &str, question: &[String], answer: &[u8]) -> String {
        hex(&hmac(&self.key, &message(kind, question, answer)))
    }
}

/// Question and answer as bytes, each part with its length, so that no two of them look alike.
fn message(kind: &str, question: &[String], answer: &[u8]) -> Vec<u8> {
    let words = question.iter().map(String::as_bytes);
    let parts = [kind.as_bytes()].into_iter().chain(words).chain([answer]);
    parts.flat_map(|part| [&part.len().to_be_bytes(), part].concat()).collect()
}

fn hmac(key: &[u8; LENGTH], message: &[u8]) -> [u8; LENGTH] {
    // A key that is shorter than a block counts as one that ends in zeros (RFC 2104), and this one cannot be refused.
    let mut block = [0; BLOCK];
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    let mac = Hmac::<Sha256>::new(&block.into()).chain_update(message);
    mac.finalize().into_bytes().into()
}

/// The key, unless others may read it too.
fn read_key(path: &Path) -> Option<[u8; LENGTH]> {
    let mode = fs::symlink_metadata(path).ok()?.permissions().mode();
    let bytes = fsx::load_if_there(path).ok().flatten()?;
    let key = bytes.try_into().ok()?;
    (mode & 0o077 == 0).then_some(key)
}

/// Of two processes that make a key at once one wins; what the other seals is worked out again.
fn make_key(path: &Path) -> Option<[u8; LENGTH]> {
    let mut key = [0; LENGTH];
    getrandom::fill(&mut key).ok()?;
    fsx::create_dir(path.parent()?).ok()?;
    fsx::write_private(path, &key).ok()?;
    // Read back, so that a process which lost this race uses the key that is there.
    read_key(path)
}

// What a worktree held before its agent began, as objects.

/// Writes a baseline, keeps it, and gives the blob for the `spawned` event to name.
///
/// # Errors
/// As [`keep::keep`].
pub fn keep_baseline(
    repo: &Repo,
    agent: AgentId,
    baseline: &Baseline,
    now: DateTime<Utc>,
) -> Result<Oid> {
    // Named by a kept commit besides, or `git gc` would remove a blob that no ref reaches.
    let blob = repo.write_blob(&journal::to_bytes(baseline))?;
    let what = [("baseline.json", blob)];
    keep::keep_with(repo, &[], &what, &format!("setup {agent}"), now)?;
    Ok(blob)
}

/// What an agent's worktree held before it began; `None` where that was nothing, or nothing that this version can
/// read.
///
/// # Errors
/// `history-incomplete` when the blob is not here; `repo-corrupt` when it cannot be read.
pub fn of_agent(repo: &Repo, agent: &Agent) -> Result<Option<Baseline>> {
    let Some(blob) = agent.baseline else {
        return Ok(None);
    };
    match repo.read_blob(blob) {
        Ok(bytes) => Ok(journal::from_bytes(&bytes)),
        Err(_) if !repo.is_at_hand(blob) => {
            Err(keep::absent(&format!("{blob}, which says what [setup] made for the agent,")))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key is shorter in the RFC's cases, which is the same as one filled up with zeros.
    fn key(bytes: &[u8]) -> [u8; LENGTH] {
        let mut key = [0; LENGTH];
        key[..bytes.len()].copy_from_slice(bytes);
        key
    }

    #[test]
    fn the_seal_is_that_of_rfc_4231() {
        let cases: [(&[u8], &[u8], &str); 2] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
        ];
        for (bytes, message, expected) in cases {
            assert_eq!(hex(&hmac(&key(bytes), message)), expected);
        }
    }

    #[test]
    fn an_answer_is_believed_for_its_question_and_with_its_seal_alone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = Facts::open(dir.path()).expect("a key");
        let question = |word: &str| vec!["merge".to_owned(), word.to_owned()];
        facts.store("merge", &question("a"), b"clean");
        let load = |word| Facts::open(dir.path())?.load("merge", &question(word));
        assert_eq!(load("a").as_deref(), Some(&b"clean"[..]));
        assert_eq!(load("b"), None);

        let place = facts.place("merge", &question("a"));
        std::fs::copy(&place, facts.place("merge", &question("b"))).expect("copied");
        assert_eq!(load("b"), None, "the seal is of another question");
        let mut forged = std::fs::read(&place).expect("there");
        forged.pop();
        std::fs::write(&place, forged).expect("written");
        assert_eq!(load("a"), None, "the answer was changed");

        facts.store("merge", &question("a"), b"clean");
        std::fs::remove_file(layout::facts_key(dir.path())).expect("removed");
        assert_eq!(load("a"), None, "the seal is of another key");
    }

    #[test]
    fn the_key_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let first = Facts::open(dir.path()).expect("a key").key;
        let path = layout::facts_key(dir.path());
        let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        assert_eq!(Facts::open(dir.path()).expect("the key").key, first);
        // One that others could read is replaced.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mode");
        assert_ne!(Facts::open(dir.path()).expect("a key").key, first);
        assert_eq!(mode(), 0o600);
    }
}
