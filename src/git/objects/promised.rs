//! Objects that a partial clone left out and its remote has promised to send.
//!
//! libgit2 knows no promises: to it such an object is missing. git fetches one when it is asked for it; this
//! module asks, with the command that git itself uses.

use crate::domain::oid::Oid;
use crate::git::{Repo, command};

impl Repo {
    /// The remotes that have promised objects; none where the clone is not partial.
    fn promisors(&self) -> Vec<String> {
        let Ok(config) = self.inner.config().and_then(|mut all| all.snapshot()) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        if let Ok(mut entries) = config.entries(Some(r"^remote\..*\.promisor$")) {
            while let Some(Ok(entry)) = entries.next() {
                let name = entry.name().unwrap_or_default();
                let name = name.strip_prefix("remote.");
                let name = name.and_then(|name| name.strip_suffix(".promisor"));
                let is_promisor = name.is_some_and(|_| {
                    let key = entry.name().unwrap_or_default();
                    config.get_bool(key).unwrap_or(false)
                });
                names.extend(name.filter(|_| is_promisor).map(str::to_owned));
            }
        }
        names
    }

    /// Whether this clone left objects out when it was made.
    pub fn is_partial(&self) -> bool {
        !self.promisors().is_empty()
    }

    /// Fetches what is missing of these objects, all at once. What cannot be had stays missing, and is told
    /// by its reader.
    pub fn fetch_promised(&self, oids: &[Oid]) {
        let remotes = self.promisors();
        let mut missing: Vec<Oid> = match remotes.as_slice() {
            [] => return,
            _ => oids.to_vec(),
        };
        missing.retain(|oid| !self.has_object(*oid));
        for remote in remotes {
            if missing.is_empty() {
                return;
            }
            let mut command = self.plumbing();
            command
                .args(["-c", "fetch.negotiationAlgorithm=noop"])
                .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
                .args(["fetch", "--quiet", &remote, "--no-tags"])
                .args(["--no-write-fetch-head", "--recurse-submodules=no"])
                .args(["--filter=blob:none", "--stdin"]);
            let names: String = missing.iter().map(|oid| format!("{oid}\n")).collect();
            let _ = command::feed(command, names.as_bytes());
            missing.retain(|oid| !self.has_object(*oid));
        }
    }

    /// Has git fetch every blob that the difference between two trees needs.
    pub(in crate::git) fn fetch_promised_between(&self, old: Oid, new: Oid) {
        if self.is_partial() {
            let mut command = self.plumbing();
            command
                .args(["diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv"])
                .args(["--no-renames", "--output=/dev/null"])
                .args([old.to_hex(), new.to_hex()]);
            let _ = command::finish(&mut command);
        }
    }
}
