//! Deletes what an agent was told in confidence as soon as the agent is merged or discarded.
//!
//! A briefing and a system prompt may hold credentials. While the agent works they are in two files that only
//! their owner can read: `prompt.md`, and `task.toml`, from which the prompt is composed; a run that is told something else
//! has a prompt of its own while it lasts. A command may have repeated them in its logs. [`forget`] deletes the prompt, writes the task again without the two keys, so that
//! it can still be given to another agent, and takes what is confidential out of the logs. No git object holds
//! any of it: the policy has no such field, and `spec.md` holds the task text alone.
//!
//! Absent on purpose: what the agent itself wrote into its worktree or its bundle. That is work, and work is kept.

use super::{fsx, layout};
use crate::domain::{AgentId, value::redaction};
use crate::error::{IoContext, Result};
use crate::wire::file::task_file;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The prompt of an agent's last run, below its directory.
pub const PROMPT: &str = "prompt.md";
/// The prompt of a run that is told something else than the agent's other runs, while it lasts.
const RUN_PROMPT: &str = "run-prompt.md";
/// The task of an agent, below its directory.
pub const TASK: &str = "task.toml";

/// An empty file below an agent's directory: that there was something which [`forget`] has deleted from its task.
const FORGOTTEN: &str = "briefing-deleted";

/// What a log says in place of a confidential text.
const REMOVED: &[u8] = b"[briefing]";

/// Fewest bytes of a line that is taken out of a log. Shorter ones say nothing and occur everywhere.
const SHORTEST: usize = 4;

/// The headings below which a prompt is confidential; these parts follow one another.
const CONFIDENTIAL: [&str; 2] = ["\n## Briefing\n", "\n## System Prompt\n"];
/// The heading of the part after them.
const PUBLIC: &str = "\n## Task\n";

/// Whether the prompt of an agent is still here, and with it whatever else [`forget`] deletes.
pub fn is_here(common_dir: &Path, id: AgentId) -> bool {
    layout::agent_dir(common_dir, id).join(PROMPT).exists()
}

/// Whether the task of an agent had a briefing or a system prompt that [`forget`] deleted.
pub fn was_deleted(common_dir: &Path, id: AgentId) -> bool {
    layout::agent_dir(common_dir, id).join(FORGOTTEN).exists()
}

/// Deletes the prompt of an agent, and its briefing and system prompt from its task and its logs. The prompt goes
/// last: a killed deletion is finished by the next call.
///
/// # Errors
/// `repo-corrupt` where a link stands in the place of the agent's directory; `io`, `repo-read-only`, `disk-full`.
pub fn forget(common_dir: &Path, id: AgentId) -> Result<()> {
    let directory = layout::agent_dir(common_dir, id);
    layout::require_no_link(&directory)?;
    let (prompt, task) = (directory.join(PROMPT), directory.join(TASK));
    end_run_prompt(common_dir, id)?;
    let Some(source) = fsx::load_if_there(&task)? else {
        return remove_file(&prompt);
    };
    let told = task_file::without_confidential(&source);
    let mut confidential = Needles::default();
    for text in &told.confidential {
        confidential.add(text);
    }
    confidential.add(&confidential_part(&load_text(&prompt)?));
    // Before the task and the prompt go, which alone say what has to be taken out.
    strip_logs(&layout::runs_dir(common_dir, id), &confidential)?;
    if !told.confidential.is_empty() {
        fsx::write_private(&directory.join(FORGOTTEN), b"")?;
        fsx::write_private(&task, &told.rest)?;
    }
    for name in half_written(&directory) {
        remove_file(&name)?;
    }
    remove_file(&prompt)
}

/// Deletes the prompt and the task of an agent that was never completed, before its directory is taken apart: what is
/// in the trash may lie there for a while.
///
/// # Errors
/// As [`forget`].
pub fn delete(common_dir: &Path, id: AgentId) -> Result<()> {
    let directory = layout::agent_dir(common_dir, id);
    layout::require_no_link(&directory)?;
    for name in half_written(&directory) {
        remove_file(&name)?;
    }
    for name in [TASK, RUN_PROMPT, PROMPT] {
        remove_file(&directory.join(name))?;
    }
    Ok(())
}

/// Writes the prompt of a run where only its owner can read it, and gives the file. What only the prompt before it
/// said in confidence is taken out of the logs of earlier runs: nothing else would remember it.
///
/// # Errors
/// Those of [`fsx::write_private`], `io`.
pub fn write_prompt(common_dir: &Path, id: AgentId, prompt: &str) -> Result<PathBuf> {
    let directory = layout::agent_dir(common_dir, id);
    fsx::create_dir(&directory)?;
    let path = directory.join(PROMPT);
    // Before the new prompt takes the place of the only text that says what is to be taken out.
    strip_lost(common_dir, id, &load_text(&path)?, prompt)?;
    fsx::write_private(&path, prompt.as_bytes())?;
    Ok(path)
}

/// Writes the prompt of a run that is told something else than the agent's other runs, and gives the file; the agent's own
/// stays as it is. [`end_run_prompt`] ends it.
///
/// # Errors
/// As [`write_prompt`].
pub fn write_run_prompt(common_dir: &Path, id: AgentId, prompt: &str) -> Result<PathBuf> {
    end_run_prompt(common_dir, id)?;
    let directory = layout::agent_dir(common_dir, id);
    fsx::create_dir(&directory)?;
    let path = directory.join(RUN_PROMPT);
    fsx::write_private(&path, prompt.as_bytes())?;
    Ok(path)
}

/// Deletes the prompt that one run had, and takes what only that said in confidence out of the logs. Nothing is done where
/// there is none.
///
/// # Errors
/// As [`forget`].
pub fn end_run_prompt(common_dir: &Path, id: AgentId) -> Result<()> {
    let directory = layout::agent_dir(common_dir, id);
    let path = directory.join(RUN_PROMPT);
    let told = load_text(&path)?;
    strip_lost(common_dir, id, &told, &load_text(&directory.join(PROMPT))?)?;
    remove_file(&path)
}

/// Takes what one prompt says in confidence, and another does not, out of the logs.
fn strip_lost(common_dir: &Path, id: AgentId, before: &str, now: &str) -> Result<()> {
    let (before, now) = (confidential_part(before), confidential_part(now));
    if before.is_empty() || before == now {
        return Ok(());
    }
    let mut lost = Needles::default();
    let is_lost = |line: &&str| !now.contains(line.trim());
    let lines: Vec<&str> = before.lines().filter(is_lost).collect();
    lost.add(&lines.join("\n"));
    strip_logs(&layout::runs_dir(common_dir, id), &lost)
}

/// What a prompt says between the public rules and the public task.
fn confidential_part(prompt: &str) -> String {
    let start = CONFIDENTIAL.iter().filter_map(|it| prompt.find(it)).min();
    // The last one: a briefing may quote such a heading, and a cut too late takes out more, never
    // less.
    let end = prompt.rfind(PUBLIC).unwrap_or(prompt.len());
    let part = start.and_then(|start| prompt.get(start..end));
    let is_heading = |line: &&str| CONFIDENTIAL.iter().any(|it| it.trim() == *line);
    let lines = part.unwrap_or_default().lines();
    let lines: Vec<&str> = lines.filter(|line| !is_heading(line)).collect();
    lines.join("\n")
}

fn load_text(path: &Path) -> Result<String> {
    let bytes = fsx::load_if_there(path)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a killed writer left beside the two files.
fn half_written(directory: &Path) -> Vec<PathBuf> {
    let is_ours = |name: &str| [PROMPT, RUN_PROMPT, TASK].iter().any(|file| name.starts_with(file));
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            fsx::is_unique_name(&name) && is_ours(&name.to_string_lossy())
        })
        .map(|entry| entry.path())
        .collect()
}

fn remove_file(path: &Path) -> Result<()> {
    let removed = fs::remove_file(path).at_if_there("could not remove", path);
    removed.map(drop)
}

/// Texts to take out of logs.
#[derive(Debug, Default)]
struct Needles {
    /// As they stand.
    plain: BTreeSet<Vec<u8>>,
    /// As JSON spells them.
    json: BTreeSet<Vec<u8>>,
}

impl Needles {
    /// Adds the lines of a text, and what in it looks like a credential.
    fn add(&mut self, text: &str) {
        let lines = text.lines().map(str::trim);
        // A log rarely repeats a whole line; it repeats what is in it.
        let words = redaction::credentials(text).into_iter();
        let compounds = text.split_whitespace().filter(|word| is_compound(word));
        for needle in lines.chain(words).chain(compounds) {
            if needle.len() < SHORTEST {
                continue;
            }
            self.plain.insert(needle.as_bytes().to_vec());
            let json = serde_json::to_string(needle).unwrap_or_default();
            let json = json.get(1..json.len().saturating_sub(1));
            self.json.extend(json.map(|json| json.as_bytes().to_vec()));
        }
    }
}

/// Whether a word is made of parts, as identifiers and keys are and words of a sentence are not.
fn is_compound(word: &str) -> bool {
    word.len() >= 12 && word.contains(['-', '_']) && !word.contains('/')
}

/// Takes the needles out of what the runs of an agent wrote and answered.
fn strip_logs(directory: &Path, needles: &Needles) -> Result<()> {
    let streams: Vec<&[u8]> =
        needles.plain.iter().chain(&needles.json).map(Vec::as_slice).collect();
    // A text as it stands could match across an escape of JSON and leave half of it.
    let answers: Vec<&[u8]> = needles.json.iter().map(Vec::as_slice).collect();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let needles = match path.extension().and_then(|it| it.to_str()) {
            Some("out" | "err") => &streams,
            Some("json") => &answers,
            _ => continue,
        };
        // A log has a limit of some megabytes.
        let log = fsx::load_if_there(&path)?.unwrap_or_default();
        if let Some(stripped) = stripped(&log, needles) {
            fsx::write_private(&path, &stripped)?;
        }
    }
    Ok(())
}

/// A log without the needles; `None` where it has none of them.
fn stripped(log: &[u8], needles: &[&[u8]]) -> Option<Vec<u8>> {
    // By their first byte, the longest first, so that a needle that begins like another is found whole.
    let mut by_first: BTreeMap<u8, Vec<&[u8]>> = BTreeMap::new();
    for needle in needles {
        if let Some(first) = needle.first() {
            by_first.entry(*first).or_default().push(needle);
        }
    }
    for needles in by_first.values_mut() {
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
    }
    let mut left = Vec::with_capacity(log.len());
    let mut found = false;
    let mut rest = log;
    while let Some((&first, after)) = rest.split_first() {
        let mut candidates = by_first.get(&first).into_iter().flatten();
        if let Some(behind) = candidates.find_map(|needle| rest.strip_prefix(*needle)) {
            found = true;
            left.extend_from_slice(REMOVED);
            rest = behind;
        } else {
            left.push(first);
            rest = after;
        }
    }
    found.then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(told: &str, log: &str, expected: Option<&str>) {
        let mut needles = Needles::default();
        needles.add(told);
        let all: Vec<&[u8]> =
            needles.plain.iter().chain(&needles.json).map(Vec::as_slice).collect();
        let left = stripped(log.as_bytes(), &all);
        let left = left.map(|left| String::from_utf8(left).expect("UTF-8"));
        assert_eq!(left.as_deref(), expected, "{told} in {log}");
    }

    #[test]
    fn lines_and_credentials_of_a_briefing_leave_the_logs() {
        check("Work at \"night\".", "nothing of it", None);
        let whole = Some("> [briefing]\n");
        check("  Work at night.\n", "> Work at night.\n", whole);
        let json = Some(r#"{"text":"[briefing]"}"#);
        check("Say \"no\"\tnow", r#"{"text":"Say \"no\"\tnow"}"#, json);
        check("use a1b2c3d4e5 there", "a1b2c3d4e5!", Some("[briefing]!"));
        check("the word is some-secret_word", "some-secret_word", Some("[briefing]"));
        check("abc", "abc", None);
        check("abcd", "abcd", Some("[briefing]"));
    }

    #[test]
    fn the_confidential_part_of_a_prompt_ends_at_its_task() {
        let prompt = "# Agent\n\n## Briefing\n\nold ## Task\n\n## System Prompt\n\nslow\n\n## Task\n\nDo it.\n";
        let part = confidential_part(prompt);
        assert!(part.contains("old") && part.contains("slow"), "{part}");
        assert!(!part.contains("Do it.") && !part.contains("## Sys"), "{part}");
        assert_eq!(confidential_part("# Agent\n\n## Task\n\nDo it.\n"), "");
    }
}
