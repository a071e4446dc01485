//! The file that an agent writes its answer to: which names are accepted, and what the agent is told.
//!
//! A name is judged twice. Here it must be a path below the output directory by its text alone, on
//! every system and in every encoding; `ops` then walks the real directories and follows no symlink.

use super::path::RepoPath;
use crate::domain::value::named::named;
use chrono::{DateTime, Utc};

/// Said of a file that is there already. Callers match on these words.
pub const EXISTS: &str = "output_file already exists; set allow_overwrite=true to overwrite";

named! {
    /// Why a name is no output file.
    pub enum OutputProblem {
        /// It leads out of the output directory, or tries to hide that it might. Callers match on these words, braces and all.
        Outside = "output_file must be under {output_dir}; path traversal not allowed",
        /// It names a directory, or nothing.
        Nameless = "the output file has no name",
        /// It holds a character that acts on terminals.
        Control = "the name of the output file holds a control character",
    }
}

/// The path of an output file relative to the output directory. An absolute name is accepted when it
/// starts with `directory`, the output directory's own absolute path.
///
/// # Errors
/// The first rule that the name breaks.
pub fn relative(name: &str, directory: Option<&str>) -> Result<RepoPath, OutputProblem> {
    if name.chars().any(char::is_control) {
        return Err(OutputProblem::Control);
    }
    let inside = directory
        .map(|directory| directory.trim_end_matches('/'))
        .and_then(|directory| name.strip_prefix(directory)?.strip_prefix('/'));
    let name = inside.unwrap_or(name);
    if leads_outside(name) {
        return Err(OutputProblem::Outside);
    }
    if name.ends_with(['/', '\\']) || name.split(['/', '\\']).next_back() == Some(".") {
        return Err(OutputProblem::Nameless);
    }
    // What is left to refuse after the empty name is a git directory: no place for answers.
    match RepoPath::parse(name.as_bytes()) {
        Ok(path) => Ok(path),
        Err(super::path::PathProblem::Empty) => Err(OutputProblem::Nameless),
        Err(_) => Err(OutputProblem::Outside),
    }
}

/// The name for an agent that was given none: `temp/<agent_type>-<time>.md`, the time in UTC to the
/// second.
pub fn default_name(agent_type: &str, now: DateTime<Utc>) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let kind: String = agent_type
        .trim_start_matches('.')
        .chars()
        .map(|c| if safe(c) { c } else { '-' })
        .take(64)
        .collect();
    let kind = if kind.is_empty() { "agent" } else { &kind };
    format!("temp/{kind}-{}.md", now.format("%Y%m%dT%H%M%SZ"))
}

/// The name for the `nth` agent that would be given this default name, counted from 2.
pub fn numbered(name: &str, nth: u32) -> String {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    format!("{stem}-{nth}.md")
}

/// What the agent is told about its file, given the path as text.
pub fn instructions(file: &str) -> String {
    format!(
        "Write your complete output to: `{file}`\n\
         Return only a brief summary (under 500 words) to this conversation.\n"
    )
}

/// Whether a path is absolute or climbs, on any system. Percent-encoded dots, slashes and percent signs
/// serve nothing but hiding that.
fn leads_outside(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace('\\', "/");
    matches!(path.as_bytes(), [b'a'..=b'z', b':', ..])
        || path.starts_with(['/', '~'])
        || path.split('/').any(|part| part == "..")
        || ["%2e", "%2f", "%5c", "%25"].iter().any(|code| path.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Result<&str, OutputProblem>) {
        let path = relative(name, Some("/srv/out/"));
        let path = path.as_ref().map(ToString::to_string);
        assert_eq!(path.map_err(|problem| *problem), expected.map(str::to_owned), "{name:?}");
    }

    #[test]
    fn paths_that_climb_are_recognised_in_every_disguise() {
        for name in [
            "/etc/passwd",
            "/srv/outside/x",
            "/srv/out/../x",
            "/srv/out//etc/passwd",
            "~/x",
            "../x",
            "a/../../x",
            "..\\x",
            "a\\..\\..\\x",
            "C:\\x",
            "c:x",
            "\\\\server\\x",
            "%2e%2e/x",
            "..%2fx",
            "..%5cx",
            "%252e%252e/x",
            "%25252e/x",
            "..",
            "a/..",
            ".git/hooks/x",
            "a/.GIT/x",
        ] {
            check(name, Err(OutputProblem::Outside));
        }
    }

    #[test]
    fn a_name_below_the_directory_is_taken_relative_to_it() {
        check("report.md", Ok("report.md"));
        check("./out//report..md", Ok("out/report..md"));
        check("a/.b/c", Ok("a/.b/c"));
        check("50%.md", Ok("50%.md"));
        check("...", Ok("..."));
        check("/srv/out/a/b.md", Ok("a/b.md"));
        for name in ["", ".", "a/", "a/.", "/srv/out/"] {
            check(name, Err(OutputProblem::Nameless));
        }
        check("a\nb", Err(OutputProblem::Control));
    }

    #[test]
    fn default_names_are_counted_before_the_ending() {
        assert_eq!(numbered("a.md-1.md", 2), "a.md-1-2.md");
    }

    #[test]
    fn a_default_name_is_always_accepted() {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        assert_eq!(default_name("analyst", now), "temp/analyst-19700101T000000Z.md");
        for kind in ["../../x", "..", "", "a/b", "é\n", ".git", "C:\\x"] {
            let name = default_name(kind, now);
            assert!(relative(&name, None).is_ok(), "{kind:?} became {name}");
        }
    }
}
