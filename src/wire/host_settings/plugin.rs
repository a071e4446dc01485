//! opencode's plugin: a file that is ours as a whole, known by its first line.

use super::{Host, Removal, registration};
use crate::error::{Code, Error, Result};

/// How the first line of every version begins.
const MARK: &str = "// git-agent opencode plugin, version ";

/// The text to write; line ends that a checkout converted count as unchanged.
pub(super) fn merge(host: Host, existing: &str) -> Result<String> {
    let registration = registration(host);
    if existing.replace("\r\n", "\n") == registration.template {
        Ok(existing.to_owned())
    } else if existing.trim().is_empty() || is_ours(existing) {
        Ok(registration.template.to_owned())
    } else {
        Err(Error::new(
            Code::PathExists,
            format!("{} is not a file of git-agent's", registration.path),
        )
        .hint("move it away, then run git agent init --host opencode"))
    }
}

pub(super) fn remove(existing: &str) -> Removal {
    match is_ours(existing) {
        true => Removal::Delete,
        false => Removal::Unchanged,
    }
}

fn is_ours(text: &str) -> bool {
    text.strip_prefix('\u{feff}')
        .unwrap_or(text)
        .starts_with(MARK)
}
