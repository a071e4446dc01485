//! The kernel's fence around an agent's command: what was asked for, what it lets through, and how much of
//! it a kernel can enforce.

use crate::domain::named::named;
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

/// What a fenced command may write: files, and directories with everything below them. The paths are
/// absolute and free of symlinks. Everything else it may read and execute, as far as permissions go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// Each place once.
    pub writable: Vec<PathBuf>,
    /// Whether it may make sockets that connect to other programs of this machine (unix(7)).
    pub unix_sockets: bool,
    /// Whether it may give commands to its terminal, which is its own: a shell needs that to put jobs into the foreground.
    pub terminal: bool,
}

named! {
    /// How much of a fence a kernel can enforce; each level contains the ones before.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Level {
        /// Creating, writing, truncating, renaming, linking and removing of files (Landlock ABI 3, Linux 6.2).
        Files = "files",
        /// Those, and ioctl(2) on devices (ABI 5, Linux 6.10).
        Devices = "devices",
        /// Those, and signals and abstract sockets of processes outside (ABI 6, Linux 6.12).
        Processes = "processes",
    }
}

impl Level {
    /// What the highest level refuses and this one lets through.
    pub fn missing(self) -> &'static [&'static str] {
        const MISSING: [&str; 3] = ["device-ioctl", "signals", "abstract-sockets"];
        match self {
            Level::Files => &MISSING,
            Level::Devices => &MISSING[1..],
            Level::Processes => &[],
        }
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
            Enforcement::Fenced(_) => "partial",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_what_they_were() {
        for mode in Mode::ALL {
            assert_eq!(Mode::read(mode.as_str()), Ok(mode));
        }
        assert!(Mode::read("on").is_err());
    }

    #[test]
    fn what_a_level_misses_is_named() {
        let check = |level: Level, word: &str, missing: usize| {
            assert_eq!(Enforcement::Fenced(level).as_str(), word);
            assert_eq!(level.missing().len(), missing);
        };
        check(Level::Files, "partial", 3);
        check(Level::Devices, "partial", 2);
        check(Level::Processes, "full", 0);
    }
}
