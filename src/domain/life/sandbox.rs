//! The kernel's fence around an agent's command: what was asked for, what it lets through, and how much of
//! it a kernel can enforce.

use crate::domain::value::named::named;
use std::path::PathBuf;

named! {
    /// What the caller asks of the sandbox; the usual one is first.
    #[derive(Default, Hash)]
    pub enum Mode {
        /// As much as the kernel can, and the report says how much that was.
        #[default]
        Auto = "auto",
        /// Nothing is started unless the kernel can refuse writes.
        Require = "require",
        /// As `Require`; of the worktree only what the whitelist's directories hold may be written, and no socket of
        /// another program can be reached.
        Strict = "strict",
        /// No fence.
        Off = "off",
    }
}

impl Mode {
    /// Reads a word of the command line.
    ///
    /// # Errors
    /// One sentence that names the words there are.
    pub fn read(word: &str) -> Result<Mode, String> {
        Mode::parse(word)
            .ok_or_else(|| format!("`{word}` is none of `auto`, `require`, `strict` and `off`"))
    }

    /// Whether nothing may start without a fence.
    pub fn insists(self) -> bool {
        matches!(self, Mode::Require | Mode::Strict)
    }
}

named! {
    /// Whether a worktree is made of an agent's changes alone, over a base that several share.
    #[derive(Default)]
    pub enum Layering {
        /// Every agent gets all files.
        #[default]
        Off = "off",
        /// Where it can be had, and copies elsewhere.
        Auto = "auto",
        /// Nothing else will do.
        On = "on",
    }
}

impl Layering {
    /// Reads a word of the command line.
    ///
    /// # Errors
    /// One sentence that names the words there are.
    pub fn read(word: &str) -> Result<Layering, String> {
        Layering::parse(word).ok_or_else(|| format!("`{word}` is none of `off`, `auto` and `on`"))
    }
}

/// What a fenced command may write: files, and directories with everything below them. The paths are
/// absolute and free of symlinks. Everything else it may read and execute, as far as permissions go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// Each place once.
    pub writable: Vec<PathBuf>,
    /// What its worktree is made of, where that is layered. Only a mount namespace can do that.
    pub layer: Option<LayerMount>,
    /// Caches of the user's that it finds as they are and changes for itself alone. Where a kernel cannot mount one, the place of the
    /// mount is what it was: nothing depends on it.
    pub caches: Vec<LayerMount>,
    /// What stands in the place of git. Only a mount namespace can put it there.
    pub guard: Option<GitGuard>,
    /// Places of its own of which it may write a part only; where the fence has a mount namespace, modes and times may
    /// be changed in all of them.
    pub own: Vec<PathBuf>,
    /// Directories that appear empty to it, but for the places above, and what is named in `shown`. Only a mount
    /// namespace can do that.
    pub hidden: Vec<PathBuf>,
    /// Files and directories below hidden ones that it can read.
    pub shown: Vec<PathBuf>,
    /// Whether it may make sockets that connect to other programs of this machine (unix(7)).
    pub unix_sockets: bool,
    /// Whether it may give commands to its terminal, which is its own: a shell needs that to put jobs into the foreground.
    pub terminal: bool,
}

/// An overlay mount, of a layered worktree or of a cache. Each is a directory; no symlink leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerMount {
    /// The files below: a frozen base, or the user's cache.
    pub base: PathBuf,
    /// What is written goes here.
    pub upper: PathBuf,
    /// What the kernel needs for itself: empty, and new for each mount.
    pub work: PathBuf,
    /// Where it is mounted: for a frozen base where it was set up, because virtual environments and caches hold absolute paths.
    pub place: PathBuf,
    /// The agent's worktree, where the same files appear; a cache has none.
    pub worktree: Option<PathBuf>,
}

impl LayerMount {
    /// Its directories, in the order in which [`LayerMount::from_paths`] takes them.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let four = [&self.base, &self.upper, &self.work, &self.place];
        four.into_iter().chain(&self.worktree)
    }

    /// The mount with these directories; `None` unless there are four or five.
    pub fn from_paths(paths: &[PathBuf]) -> Option<LayerMount> {
        let ([base, upper, work, place], worktree) = paths.split_first_chunk()?;
        Some(LayerMount {
            base: base.clone(),
            upper: upper.clone(),
            work: work.clone(),
            place: place.clone(),
            worktree: worktree.first().cloned(),
        })
    }
}

/// The script that stands in the place of git's programs and keeps a command from pushing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitGuard {
    /// The directory of the scripts. Where there is a mount namespace it is in memory and in that namespace alone.
    pub place: PathBuf,
    /// The programs in whose place they stand, `git` first.
    pub programs: Vec<PathBuf>,
    /// The file for what was refused.
    pub tries: PathBuf,
    /// The short id of the agent.
    pub agent: String,
}

impl GitGuard {
    /// The directory for `PATH`.
    pub fn search(&self) -> PathBuf {
        self.place.join("bin")
    }
}

named! {
    /// How much of Landlock a kernel has; each level contains the ones before.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Landlock {
        /// Creating, writing, renaming, linking and removing of files (Landlock ABI 2, Linux 5.19). A file that can be opened can be
        /// truncated, so this is a fence only together with mounts that are read-only.
        Links = "links",
        /// Those, and truncating (ABI 3, Linux 6.2).
        Files = "files",
        /// Those, and ioctl(2) on devices (ABI 5, Linux 6.10).
        Devices = "devices",
        /// Those, and signals and abstract sockets of processes outside (ABI 6, Linux 6.12).
        Processes = "processes",
    }
}

named! {
    /// Which namespaces a command can have of its own (namespaces(7)).
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Namespaces {
        /// None can be had.
        None = "none",
        /// Of mounts and of System V IPC, in a user namespace where that needs one.
        Mounts = "mounts",
        /// Those, and of processes.
        Processes = "processes",
    }
}

/// How strong a fence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// What Landlock refuses.
    pub landlock: Landlock,
    /// What the command has of its own.
    pub namespaces: Namespaces,
    /// Why that is not all.
    pub why: Option<&'static str>,
}

impl Level {
    /// What the highest level refuses and this one lets through.
    pub fn missing(self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.landlock < Landlock::Devices {
            missing.push("device-ioctl");
        }
        if self.landlock < Landlock::Processes {
            // Where it cannot name a process it cannot signal it either.
            if self.namespaces < Namespaces::Processes {
                missing.push("signals");
            }
            missing.push("abstract-sockets");
        }
        if self.namespaces < Namespaces::Mounts {
            missing.extend(["modes", "times", "attributes", "locks", "ipc"]);
        }
        if self.namespaces < Namespaces::Processes {
            missing.push("processes");
        }
        missing
    }
}

/// What is enforced around a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Nothing, because none was requested.
    Off,
    /// Nothing, although it was asked for.
    Impossible {
        /// What this system lacks.
        why: String,
    },
    /// The fence, as far as this kernel can.
    Fenced(Level),
}

impl Enforcement {
    /// One word for JSON and the ledger.
    pub fn as_str(&self) -> &'static str {
        match self {
            Enforcement::Off => "off",
            Enforcement::Impossible { .. } => "none",
            Enforcement::Fenced(level) if level.missing().is_empty() => "full",
            Enforcement::Fenced(_) => "landlock",
        }
    }
}

/// The last absolute path that a program says it could not write, in the words of the C library, Node, Python or Rust. It is a guess from
/// what others wrote, good for a hint alone: the kernel does not say what it refused.
pub fn refused_write(output: &str) -> Option<&str> {
    const REFUSALS: [&str; 4] = ["Read-only file system", "EROFS", "EACCES", "Permission denied"];
    let is_refusal = |line: &&str| REFUSALS.iter().any(|word| line.contains(word));
    output.lines().rev().filter(is_refusal).find_map(last_path)
}

/// The last absolute path in a line, without the quotes and colons around it.
fn last_path(line: &str) -> Option<&str> {
    let is_around = |c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '_');
    // A path that begins with dots is none that could be allowed as it stands.
    let is_before = |c: char| is_around(c) && c != '.';
    let words = line.split_whitespace();
    let words = words.map(|word| word.trim_start_matches(is_before).trim_end_matches(is_around));
    words.rev().find(|word| word.len() > 1 && word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_modes_start_nothing_without_a_fence() {
        let insisting = Mode::ALL.iter().filter(|mode| mode.insists());
        let words: Vec<_> = insisting.map(|mode| mode.as_str()).collect();
        assert_eq!(words, ["require", "strict"]);
    }

    #[test]
    fn a_refused_write_is_found_in_what_programs_say() {
        for (said, path) in [
            ("touch: cannot touch '/home/a/.x': Read-only file system\n", "/home/a/.x"),
            ("npm error EROFS: read-only file system, mkdir '/home/a/.npm/_x'", "/home/a/.npm/_x"),
            ("OSError: [Errno 30] Read-only file system: '/home/a/__x__'\n\nmore", "/home/a/__x__"),
            (
                "error: failed to open `/c/d`\n\nCaused by:\n  Permission denied: /c/lock (os error 13)",
                "/c/lock",
            ),
        ] {
            assert_eq!(refused_write(said), Some(path), "{said}");
        }
        let above = "touch: cannot touch '../../x': Read-only file system";
        for said in ["", "cannot open /a/b", "a: Permission denied", "/: Permission denied", above]
        {
            assert_eq!(refused_write(said), None, "{said}");
        }
    }

    #[test]
    fn words_come_back_as_what_they_were() {
        for mode in Mode::ALL {
            assert_eq!(Mode::read(mode.as_str()), Ok(mode));
        }
        assert!(Mode::read("on").is_err());
    }

    #[test]
    fn what_a_level_misses_is_named() {
        let check = |landlock, namespaces, word: &str, missing: &[&str]| {
            let level = Level { landlock, namespaces, why: None };
            assert_eq!(Enforcement::Fenced(level).as_str(), word);
            assert_eq!(level.missing(), missing);
        };
        let all = Landlock::Processes;
        check(all, Namespaces::Processes, "full", &[]);
        check(all, Namespaces::Mounts, "landlock", &["processes"]);
        let open = ["modes", "times", "attributes", "locks", "ipc", "processes"];
        check(all, Namespaces::None, "landlock", &open);
        let open = ["device-ioctl", "abstract-sockets"];
        check(Landlock::Files, Namespaces::Processes, "landlock", &open);
    }
}
