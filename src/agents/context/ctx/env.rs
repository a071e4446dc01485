//! The one door to the environment of this process.

use crate::agents::context::real_path::real_path;
use crate::domain::value::named::hex;
use crate::domain::{Oid, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::changes::Staging;
use crate::git::core::command::LOCAL_VARIABLES;
use crate::git::files::untrusted;
use crate::git::repo::open::Environment;
use crate::hosts::{HOSTS, Host};
use crate::proc::{launch, signals, terminal};
use crate::store::files::layout;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that tells our own hooks where those of the repository are.
pub const REPOSITORY_HOOKS: &str = "GIT_AGENT_REPOSITORY_HOOKS";

/// The variable that tells our hooks that one of the repository's has started git.
pub const WITHIN_HOOK: &str = "GIT_AGENT_WITHIN_HOOK";

/// The variable that tells how many commands of `[hooks]` a process is inside of.
pub const HOOK_DEPTH: &str = "GIT_AGENT_HOOK_DEPTH";

/// The variable that tells an agent where its answer goes.
pub const OUTPUT_FILE: &str = "GIT_AGENT_OUTPUT_FILE";

/// The variables that say where managers of hooks keep what their hooks need, and the place below the user's caches that
/// holds otherwise.
pub const HOOK_HOMES: [(&str, &str); 2] =
    [("PRE_COMMIT_HOME", "pre-commit"), ("PREK_HOME", "prek")];

/// What we read from the environment, once.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Where the caller stands.
    pub directory: PathBuf,
    /// The user's home, for `~/` in settings.
    pub home: Option<PathBuf>,
    /// `GIT_AGENT_ID`: set inside an agent that we started.
    pub agent: Option<String>,
    /// `GIT_AGENT_FENCED`: set where a kernel sandbox of ours is around us.
    pub fenced: bool,
    /// `GIT_AGENT_ALLOW_PUSH`: set by a run whose command may push.
    pub allow_push: bool,
    /// Whether a person works here: standard input and output are a terminal. Commands of an agent have none.
    pub at_terminal: bool,
    /// `GIT_AGENT_REPOSITORY_HOOKS`: the directory of the repository's hooks, set by `commit` for the hooks that it
    /// starts; empty where there is none that the agent cannot write.
    pub repository_hooks: Option<PathBuf>,
    /// `GIT_AGENT_WITHIN_HOOK`: set for the repository's own hooks.
    pub within_hook: bool,
    /// `GIT_AGENT_SPOOL`: where messages are left instead of sent, inside a fence that keeps refs from
    /// being written.
    pub spool: Option<PathBuf>,
    /// `GIT_AGENT_OUTPUT_FILE`: where the agent that we started writes its answer.
    pub output_file: Option<PathBuf>,
    /// `GIT_DIR`: the repository that git is told to use.
    pub git_dir: Option<PathBuf>,
    /// What git tells a hook about the commit it is making.
    pub staging: Staging,
    /// This program's own file, for hooks to run.
    pub program: Option<PathBuf>,
    /// `TMPDIR`, where it is set to a directory: files there are no work.
    pub temporary: Option<PathBuf>,
    /// `GIT_AGENT_DEPTH`: how many agents this process is inside of.
    pub depth: u32,
    /// `GIT_AGENT_HOOK_DEPTH`: how many commands of `[hooks]` this process is inside of.
    pub hook_depth: u32,
    /// `GIT_AGENT_LEAD`: the first eight digits of the agent that asked for this from inside its fence.
    pub lead: Option<String>,
    /// Where commands are looked for, in order.
    pub search: Vec<PathBuf>,
    /// The words that this program was called with, to call it in the same way again.
    pub words: Vec<OsString>,
    /// `XDG_CONFIG_HOME`, where it is set.
    pub config: Option<PathBuf>,
    /// `XDG_CACHE_HOME`, where it is set.
    pub cache: Option<PathBuf>,
    /// `XDG_DATA_HOME`, where it is set.
    pub data: Option<PathBuf>,
    /// `XDG_DATA_DIRS`: where the system's data is; empty when it is not set.
    pub data_dirs: Vec<PathBuf>,
    /// Where the user keeps what agent hosts and managers of hooks have, by the variables that they read.
    pub host_variables: BTreeMap<&'static str, PathBuf>,
    /// The agent host in whose shell this is, by the variable that it sets there.
    pub host: Option<&'static dyn Host>,
    /// `SHELL`: the user's own.
    pub shell: Option<PathBuf>,
    /// `BROWSER`: the user's commands that open a page, separated by colons.
    pub browser: Option<String>,
    /// SHA-256 over the kind of machine and the variables that a check command may depend on, in hex.
    pub digest: String,
}

const NO_PROGRAM: &str = "the system does not say which file this program is";

/// Variables that name files of git's configuration.
const CONFIGURATION: [&str; 3] = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];

/// Variables that differ between two terminals of one user and between two calls, or tie a process to a repository or an
/// agent: check commands get none of the latter, and no answer should depend on the others. One with a final underscore is
/// a prefix.
const VOLATILE: [&str; 23] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM",
    "COLUMNS",
    "LINES",
    "WINDOWID",
    "DISPLAY",
    "STY",
    "COLORTERM",
    "LS_COLORS",
    "GIT_",
    "SSH_",
    "TMUX",
    "TMUX_PANE",
    "XDG_SESSION_",
    "XDG_RUNTIME_",
    "DBUS_",
    "INVOCATION_",
    "JOURNAL_",
    "SYSTEMD_",
    "VTE_",
];

impl Env {
    /// `GIT_AGENT_LOG`: how much of what we do is logged. Asked before anything else is read.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the environment")]
    pub fn log_level() -> Option<String> {
        std::env::var("GIT_AGENT_LOG").ok()
    }

    /// Whether this is the command of a run, or was started by it: then `GIT_AGENT_SPOOL` is set.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the environment")]
    pub fn is_in_run() -> bool {
        std::env::var_os("GIT_AGENT_SPOOL").is_some_and(|path| !path.is_empty())
    }

    /// `GIT_PROGRESS_DELAY`: how many seconds git waits before it shows progress.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the environment")]
    pub fn progress_delay() -> Option<u64> {
        std::env::var("GIT_PROGRESS_DELAY").ok()?.parse().ok()
    }

    /// Mends what this process was given. Starts this program anew, in this process, where variables lead to programs that an agent could have put there. Comes back
    /// when there is nothing to mend, or with the reason why it could not.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the environment")]
    pub fn mend(arguments: &[OsString]) -> Option<Error> {
        signals::hear_of_children();
        if std::env::var_os("GIT_AGENT_ID").is_some_and(|id| !id.is_empty()) {
            return None;
        }
        let directory = std::env::current_dir().ok()?;
        let changes = mended(|name| std::env::var_os(name), &directory);
        if changes.is_empty() {
            return None;
        }
        let program = std::env::current_exe().map_err(|error| Error::io(NO_PROGRAM, error));
        Some(match program {
            Ok(program) => launch::again(&program, arguments, &changes),
            Err(error) => error,
        })
    }

    /// Reads the environment of this process.
    ///
    /// # Errors
    /// `io` when the current directory is gone.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the environment")]
    pub fn of_process() -> Result<Env> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let directory = std::env::current_dir().map_err(|source| {
            let error = Error::io("the current directory is gone", source);
            // A shell remembers where it was, and one of the directories above is mostly there.
            let was = path("PWD").unwrap_or_default();
            match was.ancestors().find(|above| above.is_dir()) {
                Some(above) => error.hint(format!("to go on, run cd {}", shell::path(above))),
                None => error.hint("to go on, run cd"),
            }
        })?;
        let paths = |name: &str| -> Vec<PathBuf> {
            let list = std::env::var_os(name).filter(|list| !list.is_empty());
            list.map(|list| std::env::split_paths(&list).collect()).unwrap_or_default()
        };
        let number = |name| -> u32 {
            std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let is_set = |name: &&str| std::env::var_os(name).is_some();
        Environment {
            names_configuration: CONFIGURATION.iter().any(is_set)
                && !LOCAL_VARIABLES.iter().chain(&["GIT_NAMESPACE"]).any(is_set),
            quarantine: path("GIT_QUARANTINE_PATH"),
        }
        .follow();
        Ok(Env {
            directory,
            home: path("HOME"),
            agent: std::env::var("GIT_AGENT_ID").ok().filter(|id| !id.is_empty()),
            fenced: std::env::var_os("GIT_AGENT_FENCED").is_some_and(|fenced| !fenced.is_empty()),
            allow_push: std::env::var_os("GIT_AGENT_ALLOW_PUSH").is_some_and(|set| !set.is_empty()),
            at_terminal: terminal::is_here(),
            repository_hooks: path(REPOSITORY_HOOKS),
            within_hook: is_set(&WITHIN_HOOK),
            spool: std::env::var_os("GIT_AGENT_SPOOL")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            output_file: path(OUTPUT_FILE).filter(|path| path.is_absolute()),
            git_dir: path("GIT_DIR"),
            staging: Staging {
                // git sets this in hooks of a partial commit; another index would be judged without
                // it.
                index: std::env::var_os("GIT_INDEX_FILE").map(PathBuf::from),
                merged: std::env::vars_os()
                    .filter_map(|(name, _)| Oid::from_hex(name.to_str()?.strip_prefix("GITHEAD_")?))
                    .collect(),
            },
            program: std::env::current_exe().ok(),
            // One that is not there would be made, and stay.
            temporary: path("TMPDIR").filter(|place| place.is_dir()),
            depth: number("GIT_AGENT_DEPTH"),
            hook_depth: number(HOOK_DEPTH),
            lead: std::env::var("GIT_AGENT_LEAD").ok(),
            words: std::env::args_os().skip(1).collect(),
            search: paths("PATH"),
            config: path("XDG_CONFIG_HOME").filter(|path| !path.as_os_str().is_empty()),
            cache: path("XDG_CACHE_HOME").filter(|path| path.is_absolute()),
            data: path("XDG_DATA_HOME").filter(|path| path.is_absolute()),
            data_dirs: paths("XDG_DATA_DIRS")
                .into_iter()
                .filter(|path| path.is_absolute())
                .collect(),
            host_variables: HOSTS
                .into_iter()
                .flat_map(|host| host.home_variables().iter().copied())
                .chain(HOOK_HOMES.map(|(variable, _)| variable))
                .filter_map(|name| Some((name, path(name).filter(|path| path.is_absolute())?)))
                .collect(),
            host: HOSTS
                .into_iter()
                .find(|host| host.shell_variable().is_some_and(|name| is_set(&name))),
            shell: path("SHELL"),
            browser: std::env::var("BROWSER").ok(),
            digest: digest(std::env::vars_os()),
        })
    }

    /// Where temporary files go.
    pub fn temporary_place(&self) -> &Path {
        /// What holds when the environment names no other place.
        const TEMPORARY: &str = "/tmp";
        let named = self.temporary.as_deref();
        named.unwrap_or(Path::new(TEMPORARY))
    }

    /// Where this user's caches belong, as the XDG base directories have it.
    pub fn cache_home(&self) -> Option<PathBuf> {
        let home = || self.home.as_ref().map(|home| home.join(".cache"));
        self.cache.clone().or_else(home)
    }

    /// Where this user's data belongs, as the XDG base directories have it.
    pub fn data_home(&self) -> Option<PathBuf> {
        let home = || self.home.as_ref().map(|home| home.join(".local/share"));
        self.data.clone().or_else(home)
    }

    /// Where git finds the user's ignore rules while no setting names another file.
    pub fn default_excludes(&self) -> PathBuf {
        let home = || self.home.as_ref().map(|home| home.join(".config"));
        let config = self.config.clone().or_else(home);
        config.map_or_else(|| "/dev/null".into(), |config| config.join("git/ignore"))
    }

    /// `PATH` with another directory in front; `None` where its name cannot stand in there.
    pub fn search_with(&self, first: &Path) -> Option<OsString> {
        let search = self.search.iter().map(PathBuf::as_path);
        std::env::join_paths(std::iter::once(first).chain(search)).ok()
    }

    /// As [`Env::search_with`], in front of a value of `PATH` that a command is given.
    pub fn in_front(first: &Path, search: &OsStr) -> Option<OsString> {
        let rest = std::env::split_paths(search);
        std::env::join_paths(std::iter::once(first.to_owned()).chain(rest)).ok()
    }

    /// This program's own file, to start it again.
    ///
    /// # Errors
    /// `io` when the system does not tell.
    pub fn require_program(&self) -> Result<&Path> {
        self.program.as_deref().ok_or_else(|| {
            Error::new(Code::Io, NO_PROGRAM)
                .hint("to see whether /proc is mounted, run ls -l /proc/self/exe")
        })
    }
}

/// SHA-256 over the kind of machine, and names and values of all variables that are not volatile.
fn digest(variables: impl Iterator<Item = (OsString, OsString)>) -> String {
    let is_volatile = |name: &OsString| {
        let name = name.to_string_lossy();
        let is_prefix = |one: &str| one.len() > 1 && one.ends_with('_') && name.starts_with(one);
        VOLATILE.iter().any(|one| name == *one || is_prefix(one))
    };
    let mut kept: Vec<_> = variables.filter(|(name, _)| !is_volatile(name)).collect();
    kept.sort_unstable();
    let mut hash = Sha256::new();
    hash.update(std::env::consts::OS);
    hash.update(std::env::consts::ARCH);
    for part in kept.iter().flat_map(|(name, value)| [name, value]) {
        // With their lengths, so that no two sets of variables give the same bytes.
        let bytes = part.as_encoded_bytes();
        hash.update(bytes.len().to_be_bytes());
        hash.update(bytes);
    }
    hex(&hash.finalize())
}

// Where programs are looked for: never in a place that depends on the current directory, and never in an agent's.
//
// `PATH` may hold `.`, `./node_modules/.bin` or an empty entry. The kernel and libc look such an entry up where the *child* stands, and
// we, git, filters and check commands start children in agents' worktrees: a file `git` that an agent put there would be run. So the
// variables that lead to programs are put right once, before anything else is done, by starting this program anew: from there on
// every child inherits them, our own and those of git alike.
//
// Inside an agent (`GIT_AGENT_ID`) nothing is changed: what runs there is the agent's own doing.

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
    let agents = AgentPlaces::default();
    mend(&LISTS, &|name, value| list(name, value, &agents));
    mend(&PATHS, &|_, value| {
        path(Path::new(value), directory, &agents).map(PathBuf::into_os_string)
    });
    mend(&COMMANDS, &|_, value| Some(command(value, directory)));
    changes
}

/// A list without the entries that are relative, empty or in an agent's place.
fn list(name: &str, value: &OsStr, agents: &AgentPlaces) -> Option<OsString> {
    let is_kept = |entry: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        // A library that is named without a path is looked for in the system's directories.
        let is_bare = name == "LD_PRELOAD" && !entry.is_empty() && !entry.contains(&b'/');
        is_bare || path.is_absolute() && !agents.hold(path)
    };
    let kept: Vec<&[u8]> = value.as_bytes().split(|&byte| byte == b':').filter(is_kept).collect();
    // Without `PATH`, libc looks in directories of its own.
    (!kept.is_empty()).then(|| OsString::from_vec(kept.join(&b':')))
}

/// A path that means the same wherever it is used; `None` for one in an agent's place.
fn path(value: &Path, directory: &Path, agents: &AgentPlaces) -> Option<PathBuf> {
    // A program that is named without a path is looked for in `PATH`.
    let is_bare = value.components().count() == 1 && !value.is_absolute();
    if is_bare && value != Path::new(".") && value != Path::new("..") {
        return Some(value.to_owned());
    }
    Some(directory.join(value)).filter(|path| !agents.hold(path))
}

/// A line whose program is a path from the current directory, with that path made absolute.
fn command(line: &OsStr, directory: &Path) -> OsString {
    let bytes = line.as_bytes();
    let mut words = bytes.split(u8::is_ascii_whitespace);
    let program = words.next().unwrap_or_default();
    // Absolute, or something that the shell has to expand first.
    let begins_elsewhere = matches!(program.first(), Some(b'/' | b'~' | b'$' | b'"' | b'\''));
    if begins_elsewhere || !program.contains(&b'/') {
        return line.to_owned();
    }
    let directory = directory.to_string_lossy().replace('\'', "'\\''");
    let mut absolute = OsString::from(format!("'{directory}'/"));
    absolute.push(line);
    absolute
}

/// The places that agents can write: worktrees of theirs, those in which their work is checked, warm ones that will be theirs, clones, and
/// private directories. Each directory is looked at once: a search path leads through the same few again and again, in every process.
#[derive(Default)]
struct AgentPlaces(RefCell<HashMap<PathBuf, bool>>);

impl AgentPlaces {
    /// Whether a path is in one of them.
    fn hold(&self, path: &Path) -> bool {
        let mut known = self.0.borrow_mut();
        let mut is_one = |place: &Path| match known.get(place) {
            Some(is_one) => *is_one,
            None => *known.entry(place.to_owned()).or_insert(is_agents_top(place)),
        };
        // Symlinks that go in circles lead to no program.
        real_path(path).is_none_or(|real| real.ancestors().any(&mut is_one))
    }
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
        && place.ancestors().nth(2).is_some_and(|common| common.join("objects").is_dir());
    // The place may be any that `agent.worktreeDir` names.
    let pointer = untrusted::text(place, ".git");
    let leads = pointer.is_some_and(|text| {
        let admin = text.strip_prefix("gitdir: ").map(|to| Path::new(to.trim_end()));
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
