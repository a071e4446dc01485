//! Answers that were given before, under a name made of everything they were made from.

use super::VerifyReport;
use crate::domain::hex::hex;
use crate::store::{fsx, layout};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Where the answer for these facts is, or would be.
pub(super) fn place(common_dir: &Path, facts: &[String]) -> PathBuf {
    let digest = Sha256::digest(facts.join("\n").as_bytes());
    let name = format!("verify-{}", hex(&digest[..16]));
    layout::cache_dir(common_dir).join(name)
}

/// The answer, if it was given before and can be read.
pub(super) fn load(path: &Path) -> Option<VerifyReport> {
    let bytes = fsx::load_if_there(path).ok().flatten()?;
    serde_json::from_slice(&bytes).ok()
}

/// Keeps a file of the cache. Without a cache everything works, only slower.
pub(super) fn store(path: &Path, content: &[u8]) {
    if let Some(directory) = path.parent() {
        let _ = fsx::create_dir(directory).and_then(|()| fsx::write_atomic(path, content));
    }
}
