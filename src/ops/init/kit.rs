//! What the configuration of an older kit comes to in the settings of the repository, taken over once.

use super::{Proposal, ProposedPart};
use crate::agents::untrusted;
use crate::domain::repository_settings::PATH;
use crate::error::{Code, Error, Result};
use crate::store::fsx;
use crate::wire::messenger_config::{self, section};
use std::path::{Path, PathBuf};

/// The kit's file.
const NAME: &str = "messenger-config.yaml";

/// A configuration is a screenful; anything bigger is something else.
const MOST_BYTES: u64 = 64 * 1024;

/// Where the kit keeps its configuration.
const PLACES: [&str; 8] = [
    "",
    "_bmad",
    "_bmad/_config",
    "_bmad/core",
    "_bmad/core/messenger",
    "_bmad/messenger",
    "_bmad/bmm/messenger",
    "_bmad-output/messenger",
];

/// The settings that the kit's configuration comes to. `file` names it, relative to the top; without it, it is looked for.
///
/// # Errors
/// `path-exists` where the settings say something of messages already; `settings-invalid` for a file that is not there or cannot
/// be read; `io`.
pub(super) fn proposal(top: &Path, file: Option<&Path>) -> Result<Proposal> {
    let path = file.map(Path::to_owned).or_else(|| found(top));
    let path = path.ok_or_else(|| {
        Error::new(
            Code::SettingsInvalid,
            format!("there is no {NAME} to take over"),
        )
        .hint("to name it, run git agent init --from-kit=<file>")
    })?;
    let shown = path.display().to_string();
    let unusable = |why: &str| {
        Error::new(
            Code::SettingsInvalid,
            format!("{shown} cannot be taken over: {why}"),
        )
        .hint(format!(
            "to go on without it, write [messages] into {PATH} by hand"
        ))
    };
    let text =
        // A file of the worktree may be a link to anywhere, which is not followed.
        untrusted::read(top, &path, MOST_BYTES).and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| unusable("it is no text file of at most 64 KiB in this worktree"))?;
    let config = messenger_config::parse(&text).map_err(|problem| unusable(&problem))?;
    let before = fsx::load_if_there(&top.join(PATH))?;
    let existing = String::from_utf8_lossy(before.as_deref().unwrap_or_default());
    let settings: toml::Table = existing
        .parse()
        .map_err(|_| unusable(&format!("{PATH} is no TOML")))?;
    if settings.contains_key("messages") {
        let what = format!("{PATH} has [messages] already, and {shown} is taken over once");
        return Err(Error::new(Code::PathExists, what).hint(format!(
            "to take it over again, remove [messages] from {PATH}"
        )));
    }
    let section = section(&config.rules);
    let mut parts: Vec<ProposedPart> = { section.lines().skip(1) }
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, value)| ProposedPart {
            setting: format!("messages.{key}"),
            value: value.to_owned(),
            because: format!("{shown} says so"),
        })
        .collect();
    parts.extend(config.unknown.iter().map(|kind| ProposedPart {
        setting: format!("messages.{kind}"),
        value: "left out".to_owned(),
        because: "there is no such type of messages here".to_owned(),
    }));
    let file = if section.is_empty() {
        section
    } else {
        format!("# Taken over from {shown}, which is not read any more.\n{section}")
    };
    Ok(Proposal {
        parts,
        file,
        before,
        ..Proposal::default()
    })
}

/// The kit's file, by its path from the top.
fn found(top: &Path) -> Option<PathBuf> {
    let paths = PLACES.iter().map(|place| Path::new(place).join(NAME));
    { paths }.find(|path| untrusted::read(top, path, MOST_BYTES).is_some())
}
