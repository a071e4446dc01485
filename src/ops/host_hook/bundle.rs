//! What an agent's bundle still lacks, in words for the agent.

use crate::agents::untrusted;
use crate::domain::bundle;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;

/// How much of a file is read.
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
            Ok(_) if is_template(&path, name) => Some("it is still the template"),
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
    let value: Option<Value> =
        beginning(path).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.is_some_and(|value| value["status"] == "done")
}

fn is_template(path: &Path, name: &str) -> bool {
    let text = beginning(path).and_then(|bytes| String::from_utf8(bytes).ok());
    text.is_some_and(|text| bundle::is_template(name, &text))
}

fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = untrusted::open(path.parent()?, Path::new(path.file_name()?))?;
    let read = file.take(LONGEST).read_to_end(&mut bytes);
    read.is_ok().then_some(bytes)
}
