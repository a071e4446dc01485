//! Where programs are looked for: never in a place that depends on the current directory, and never in an agent's.
//!
//! `PATH` may hold `.`, `./node_modules/.bin` or an empty entry. The kernel and libc look such an entry up where the *child* stands, and
//! we, git, filters and check commands start children in agents' worktrees: a file `git` that an agent put there would be run. So the
//! variables that lead to programs are put right once, before anything else is done, by starting this program anew: from there on
//! every child inherits them, our own and those of git alike.
//!
//! Inside an agent (`GIT_AGENT_ID`) nothing is changed: what runs there is the agent's own doing.

use crate::agents::real_path::real_path;
use crate::git::files::untrusted;
use crate::store::layout;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Lists of directories, and of libraries that a child loads.
const LISTS: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PERL5LIB"];

/// A single directory or program.
const PATHS: [&str; 8] = [
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_TEMPLATE_DIR",
    "SHELL",
    "SSH_ASKPASS",
];

/// A line for the shell, which begins with a program.
const COMMANDS: [&str; 8] = [
    "EDITOR",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH_COMMAND",
    "PAGER",
    "VISUAL",
];

/// The variables that are not as they should be, each with what it should be; `None` for one that goes. `directory` is where the
/// caller stands.
pub(super) fn mended(
    load: impl Fn(&str) -> Option<OsString>,
    directory: &Path,
) -> Vec<(&'static str, Option<OsString>)> {
    let mut changes = Vec::new();
    let mut mend = |names: &[&'static str],
                    mend: &dyn Fn(&'static str, &OsStr) -> Option<OsString>| {
        for &name in names {
            let Some(value) = load(name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let mended = mend(name, &value);
            if mended.as_ref() != Some(&value) {
                changes.push((name, mended));
            }
        }
    };
    mend(&LISTS, &|name, value| list(name, value));
    mend(&PATHS, &|_, value| {
        path(Path::new(value), directory).map(PathBuf::into_os_string)
    });
    mend(&COMMANDS, &|_, value| Some(command(value, directory)));
    changes
}

/// A list without the entries that are relative, empty or in an agent's place.
fn list(name: &str, value: &OsStr) -> Option<OsString> {
    let is_kept = |entry: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        // A library that is named without a path is looked for in the system's directories.
        let is_bare = name == "LD_PRELOAD" && !entry.is_empty() && !entry.contains(&b'/');
        is_bare || path.is_absolute() && !is_agents(path)
    };
    let kept: Vec<&[u8]> = { value.as_bytes().split(|&byte| byte == b':') }
        .filter(is_kept)
        .collect();
    // Without `PATH`, libc looks in directories of its own.
    (!kept.is_empty()).then(|| OsString::from_vec(kept.join(&b':')))
}

/// A path that means the same wherever it is used; `None` for one in an agent's place.
fn path(value: &Path, directory: &Path) -> Option<PathBuf> {
    // A program that is named without a path is looked for in `PATH`.
    let is_bare = value.components().count() == 1 && !value.is_absolute();
    if is_bare && value != Path::new(".") && value != Path::new("..") {
        return Some(value.to_owned());
    }
    Some(directory.join(value)).filter(|path| !is_agents(path))
}

/// A line whose program is a path from the current directory, with that path made absolute.
fn command(line: &OsStr, directory: &Path) -> OsString {
    let bytes = line.as_bytes();
    let end = bytes.iter().position(|byte| byte.is_ascii_whitespace());
    let program = &bytes[..end.unwrap_or(bytes.len())];
    let begins_elsewhere = matches!(program.first(), Some(b'/' | b'~' | b'$' | b'"' | b'\''));
    if begins_elsewhere || !program.contains(&b'/') {
        return line.to_owned();
    }
    let directory = directory.to_string_lossy().replace('\'', "'\\''");
    let mut absolute = OsString::from(format!("'{directory}'/"));
    absolute.push(line);
    absolute
}

/// Whether a path is in a place that an agent can write: a worktree of one, one in which its work is checked, a warm one that will be
/// one's, a clone of one, or its private directories.
fn is_agents(path: &Path) -> bool {
    // Symlinks that go in circles lead to no program.
    real_path(path).is_none_or(|real| real.ancestors().any(is_agents_top))
}

fn is_agents_top(place: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let is_named = |path: &Path| name(path).is_some_and(|name| layout::is_made_by_us(&name));
    let above = place.parent().and_then(name);
    if above.as_deref() == Some("worktrees") && is_named(place) {
        return true;
    }
    // `<common dir>/agents/<id8>`: a private home, temporary files, what a run left.
    let is_private = above.as_deref() == Some("agents")
        && name(place).is_some_and(|name| layout::is_short_id(&name))
        && { place.ancestors().nth(2) }.is_some_and(|common| common.join("objects").is_dir());
    // The place may be any that `agent.worktreeDir` names.
    let pointer = untrusted::text(place, ".git");
    let leads = pointer.is_some_and(|text| {
        let admin = text
            .strip_prefix("gitdir: ")
            .map(|to| Path::new(to.trim_end()));
        admin.is_some_and(is_named)
    });
    is_private || leads || place.join(".git/agents/worktree").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mended_as(name: &'static str, value: &str) -> Option<Option<String>> {
        let load = |asked: &str| (asked == name).then(|| value.into());
        let mut changes = mended(load, Path::new("/here"));
        let (_, value) = changes.pop()?;
        Some(value.map(|value| value.to_string_lossy().into_owned()))
    }

    #[test]
    fn only_entries_that_lead_everywhere_to_the_same_place_stay() {
        let to = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(mended_as("PATH", "/usr/bin:/bin"), None);
        for relative in [".", "", "./node_modules/.bin", "bin", "..", "a/../b"] {
            let list = format!("/usr/bin:{relative}:/bin");
            assert_eq!(mended_as("PATH", &list), to("/usr/bin:/bin"), "{list}");
        }
        assert_eq!(mended_as("PATH", "."), Some(None));
        assert_eq!(mended_as("LD_LIBRARY_PATH", "/lib:"), to("/lib"));
        assert_eq!(mended_as("LD_PRELOAD", "libx.so"), None);
        assert_eq!(mended_as("LD_PRELOAD", "./libx.so"), Some(None));
        assert_eq!(mended_as("GIT_SSH", "./ssh"), to("/here/./ssh"));
        assert_eq!(mended_as("GIT_SSH", "ssh"), None);
        assert_eq!(mended_as("GIT_EXEC_PATH", "."), to("/here/."));
        assert_eq!(mended_as("GIT_EDITOR", "vim -f"), None);
        assert_eq!(mended_as("GIT_EDITOR", "./e -f"), to("'/here'/./e -f"));
    }

    #[test]
    fn an_entry_in_an_agents_place_goes_however_it_is_named() {
        let top = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(top.path()).expect("resolved");
        let standard = top.join(".claude/worktrees/agent-0badcafe/bin");
        let chosen = top.join("elsewhere/bin");
        let link = top.join("link");
        fs::create_dir_all(&chosen).expect("made");
        let pointer = "gitdir: /r/.git/worktrees/agent-0badcafe\n";
        fs::write(top.join("elsewhere/.git"), pointer).expect("written");
        std::os::unix::fs::symlink(&chosen, &link).expect("linked");
        for entry in [standard, chosen, link] {
            let list = format!("/bin:{}", entry.display());
            let rest = Some(Some("/bin".to_owned()));
            assert_eq!(mended_as("PATH", &list), rest, "{list}");
        }
        let own = top.join("bin");
        assert_eq!(mended_as("PATH", &format!("/bin:{}", own.display())), None);
    }
}
