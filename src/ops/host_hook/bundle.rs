//! What an agent's bundle still lacks, in words for the agent.

use crate::domain::bundle;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The longest `progress.json` that is read.
const LONGEST: u64 = 1 << 20;

/// One line for each of the six files that is not there or says nothing, and for a `progress.json`
/// that does not say that the work is done. Only feedback: `verify` looks harder.
pub(super) fn lacking(directory: &Path) -> Vec<String> {
    let problem = |name: &str| {
        let path = directory.join(name);
        match fs::symlink_metadata(&path) {
            Err(_) => Some("it is not there"),
            Ok(metadata) if !metadata.is_file() => Some("it is not a regular file"),
            Ok(metadata) if metadata.len() == 0 => Some("it is empty"),
            Ok(_) if name == bundle::PROGRESS && !is_done(&path) => {
                Some("its `status` is not \"done\"")
            }
            Ok(_) => None,
        }
    };
    let lines = bundle::FILES.into_iter().filter_map(|(name, content)| {
        let problem = problem(name)?;
        Some(format!("{name}: {problem} ({content})"))
    });
    lines.collect()
}

fn is_done(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    let value: Option<Value> = serde_json::from_slice(&bytes).ok();
    read.is_ok() && value.is_some_and(|value| value["status"] == "done")
}
