//! The kernel's fence around one child process and everything it starts.
//!
//! ```text
//! supervisor                          helper: this program, started again
//! enforcement(mode) ── asks the kernel
//! wrap(..) ── starts ───────────────> enter(..): opens the report, restricts itself,
//!                                     writes `fenced`, becomes the command
//! read_report(..) <── a file ──────── or why it could not
//! ```
//!
//! A process cannot be restricted from outside, and between fork and exec nothing may allocate, so a
//! second process of ours restricts itself and then becomes the command. The level is decided before it
//! starts and is binding: where the kernel then gives less, the command does not run. So what was written
//! down before the start is what holds.
//!
//! The report is a file that lies outside of the fence. The helper opens it first, the kernel closes it
//! when the command begins, and the command cannot open it.
//!
//! Linux has Landlock. Elsewhere there is no fence: `auto` says so and the other modes refuse.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
use landlock as kernel;
#[cfg(target_os = "linux")]
mod privileges;
mod report;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(not(target_os = "linux"))]
mod without;
#[cfg(not(target_os = "linux"))]
use without as kernel;

pub use report::{Outcome, read_report};

use super::launch;
use crate::domain::sandbox::{Enforcement, Fence, Level, Mode};
use crate::error::{Code, Error, Result};
use report::Report;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// Set for a command behind a fence, so that our hooks in there know of it.
const FENCED: &str = "GIT_AGENT_FENCED";

/// The hidden verb that calls [`enter`].
const VERB: &str = "fenced";

/// What this system can enforce for a mode.
///
/// # Errors
/// `sandbox-unavailable` when the mode insists on a fence and the kernel has none.
pub fn enforcement(mode: Mode) -> Result<Enforcement> {
    if mode == Mode::Off {
        return Ok(Enforcement::Off);
    }
    match kernel::offer() {
        Ok(level) => Ok(Enforcement::Fenced(level)),
        Err(why) if mode.insists() => Err(Error::new(
            Code::SandboxUnavailable,
            format!("--sandbox {} cannot be kept here: {why}", mode.as_str()),
        )
        .hint("to run without a fence where there is none, pass --sandbox auto")),
        Err(why) => Ok(Enforcement::Impossible { why }),
    }
}

/// What a fenced command is to be started with.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// What it may write.
    pub fence: &'a Fence,
    /// What has to be enforced, as [`enforcement`] gave it.
    pub level: Level,
    /// Where the helper reports; what is there already is replaced. Outside of the fence.
    pub report: &'a Path,
}

/// The command line that starts `command` behind a fence; `program` is this program's own file.
pub fn wrap(program: &Path, plan: &Plan<'_>, command: &[OsString]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.into(), VERB.into()];
    words.extend(["--level".into(), plan.level.as_str().into()]);
    words.extend(["--report".into(), plan.report.into()]);
    if !plan.fence.unix_sockets {
        words.push("--no-unix-sockets".into());
    }
    words.extend(plan.fence.terminal.then(|| "--terminal".into()));
    for place in &plan.fence.writable {
        words.extend(["--write".into(), place.into()]);
    }
    words.push("--".into());
    words.extend_from_slice(command);
    words
}

/// Restricts this process and becomes `command`. Comes back only with the reason why it could not:
/// `sandbox-unavailable` when the kernel does not enforce all that `plan` asks for, `io` when nothing can be
/// reported, `command-not-found`, `command-not-runnable`.
pub fn enter(plan: &Plan<'_>, program: &OsStr, arguments: &[OsString]) -> Error {
    restricted(plan).err().unwrap_or_else(|| {
        let mut command = Command::new(program);
        launch::replace(command.args(arguments).env(FENCED, "1"))
    })
}

fn restricted(plan: &Plan<'_>) -> Result<()> {
    let mut report = Report::create(plan.report)?;
    match kernel::restrict(plan.fence, plan.level) {
        Ok(()) => report.say(&Outcome::Fenced),
        Err(why) => {
            report.say(&Outcome::Refused(why.clone()))?;
            Err(Error::new(Code::SandboxUnavailable, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_keeps_the_commands_own_words_apart() {
        let fence = Fence {
            writable: vec!["/a b".into(), "/c".into()],
            unix_sockets: false,
            terminal: true,
        };
        let plan = Plan {
            fence: &fence,
            level: Level::Files,
            report: Path::new("/r"),
        };
        let command = ["sh", "-c", "--write"].map(OsString::from);
        let words = wrap(Path::new("/bin/us"), &plan, &command);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(
            words.join("|"),
            "/bin/us|fenced|--level|files|--report|/r|--no-unix-sockets|--terminal|--write|/a b|--write|/c|--|sh|-c|--write"
        );
    }

    #[test]
    fn off_asks_no_kernel() {
        assert_eq!(enforcement(Mode::Off).expect("off"), Enforcement::Off);
    }
}
