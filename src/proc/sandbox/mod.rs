//! The kernel's fence around one child process and everything it starts.
//!
//! ```text
//! supervisor                          helper: this program, started again
//! Kernel::ask(mode) ── asks the kernel
//! wrap(..) ── starts ───────────────> enter(..): opens the report, makes namespaces
//!                                       │ starts
//!                                       └─> first process in there: arranges the mounts, restricts itself,
//!                                           writes `fenced`, starts the command and stays until nothing is left
//! read_report(..) <── a file ──────── or why it could not
//! ```
//!
//! A process cannot be restricted from outside, and between fork and exec nothing may allocate, so a
//! second process of ours restricts itself. Where it gets no namespace of processes, it becomes the command; where it gets one,
//! a third is needed: the first process of such a namespace takes all others with it when it ends. The level is decided before
//! the helper starts and is binding: where the kernel then gives less, the command does not run. So what was written
//! down before the start is what holds.
//!
//! The order is that of what each step still needs: namespaces, the overlay of a layered worktree (which needs more capabilities
//! than are kept), other mounts, Landlock (which forbids mounting), capabilities, system calls.
//!
//! The report is a file that lies outside of the fence. The helper opens it first, the kernel closes it
//! when the command begins, and the command cannot open it.
//!
//! Linux has all that. Elsewhere there is no fence: `auto` says so and the other modes refuse.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as kernel;
mod git_guard;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod overlay;
mod report;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(not(target_os = "linux"))]
mod without;
#[cfg(not(target_os = "linux"))]
use without as kernel;

pub use git_guard::{NOWHERE, write_guard};
pub use report::{FenceOutcome, read_report};

use crate::domain::life::sandbox::{Enforcement, Fence, LayerMount, Level, Mode, Namespaces};
use crate::error::{Code, Error, Result};
use crate::system::is_younger;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Set for a command behind a fence, so that our hooks in there know of it.
const FENCED: &str = "GIT_AGENT_FENCED";

/// The hidden verb that calls [`enter`].
const VERB: &str = "fenced";

/// So long a yes of the kernel's holds for processes like the one that got it: asking takes as long as a third of a spawn. What it
/// depends on may change meanwhile. Then the command does not start, which is all that a wrong yes can do.
const YES_HOLDS: Duration = Duration::from_secs(10);

/// Questions to the kernel, each of which a process of ours answers by trying.
pub struct Kernel<'a> {
    /// This program's own file.
    program: &'a Path,
    /// The directory where each yes is written down, with whose process got it.
    answers: Option<PathBuf>,
}

impl<'a> Kernel<'a> {
    /// Without `answers` it is asked each time.
    pub fn new(program: &'a Path, answers: Option<PathBuf>) -> Kernel<'a> {
        Kernel { program, answers }
    }

    /// What this system can enforce for a mode.
    ///
    /// # Errors
    /// `sandbox-unavailable` when the mode insists on a fence and the kernel has none.
    pub fn enforcement(self, mode: Mode) -> Result<Enforcement> {
        self.ask(mode).answer()
    }

    /// As [`Kernel::enforcement`], for a caller that has something else to do until there is an answer.
    pub fn ask(self, mode: Mode) -> AskedKernel<'a> {
        let is_known = mode != Mode::Off && self.said_yes(NAMESPACES);
        AskedKernel {
            mode,
            asked: (mode != Mode::Off).then(|| kernel::ask(self.program, is_known)),
            is_known,
            kernel: self,
        }
    }

    /// Why no layered worktree can be had here; tried with a mount of what `trial` makes, which must be nothing but empty directories.
    ///
    /// # Errors
    /// Those of `trial`.
    pub fn layers_refused(
        &self,
        trial: impl FnOnce() -> Result<LayerMount>,
    ) -> Result<Option<String>> {
        if self.said_yes(LAYERS) {
            return Ok(None);
        }
        let why = kernel::layers_refused(self.program, &trial()?);
        if why.is_none() {
            self.keep_yes(LAYERS);
        }
        Ok(why)
    }

    fn said_yes(&self, question: &str) -> bool {
        let Some(answer) = self.answers.as_ref().map(|answers| answers.join(question)) else {
            return false;
        };
        is_younger(&answer, YES_HOLDS)
            && fs::read(&answer).is_ok_and(|whose| whose == surroundings())
    }

    fn keep_yes(&self, question: &str) {
        // Where it cannot be written, the next one asks again. The directories above are not made: a command that only asks leaves a
        // repository as it was.
        if let Some(answers) = &self.answers {
            let _ = fs::create_dir(answers);
            let _ = fs::write(answers.join(question), surroundings());
        }
    }
}

/// What is asked, and what the file with the answer is called.
const NAMESPACES: &str = "namespaces";
const LAYERS: &str = "layers";

/// What the kernel was asked.
pub struct AskedKernel<'a> {
    mode: Mode,
    asked: Option<Result<kernel::PendingLevel, String>>,
    /// Whether the answer about namespaces is an earlier one.
    is_known: bool,
    kernel: Kernel<'a>,
}

impl AskedKernel<'_> {
    /// What it can enforce.
    ///
    /// # Errors
    /// As [`Kernel::enforcement`].
    pub fn answer(self) -> Result<Enforcement> {
        let mode = self.mode;
        match self.asked.map(|asked| asked.and_then(kernel::answer)) {
            None => Ok(Enforcement::Off),
            Some(Ok(level)) => {
                // Every other level has a reason, which is found anew.
                if level.namespaces == Namespaces::Processes && !self.is_known {
                    self.kernel.keep_yes(NAMESPACES);
                }
                Ok(Enforcement::Fenced(level))
            }
            Some(Err(why)) if mode.insists() => Err(Error::new(
                Code::SandboxUnavailable,
                format!("--sandbox {} cannot be kept here: {why}", mode.as_str()),
            )
            .hint("to run without a fence where there is none, pass --sandbox auto")),
            Some(Err(why)) => Ok(Enforcement::Impossible { why }),
        }
    }
}

/// What a fenced command is to be started with.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// What it may write.
    pub fence: &'a Fence,
    /// What has to be enforced, as [`Kernel::enforcement`] gave it.
    pub level: Level,
    /// Where the helper reports; what is there already is replaced. Outside of the fence.
    pub report: &'a Path,
}

/// The command line that starts `command` behind a fence; `program` is this program's own file.
pub fn wrap(program: &Path, plan: &Plan<'_>, command: &[OsString]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.into(), VERB.into()];
    words.extend(["--landlock".into(), plan.level.landlock.as_str().into()]);
    words.extend(["--namespaces".into(), plan.level.namespaces.as_str().into()]);
    words.extend(["--report".into(), plan.report.into()]);
    if !plan.fence.unix_sockets {
        words.push("--no-unix-sockets".into());
    }
    words.extend(plan.fence.terminal.then(|| "--terminal".into()));
    let Fence { writable, own, hidden, shown, .. } = plan.fence;
    for (option, places) in
        [("--write", writable), ("--own", own), ("--hide", hidden), ("--show", shown)]
    {
        words.extend(places.iter().flat_map(|place| [option.into(), place.into()]));
    }
    if let Some(layer) = &plan.fence.layer {
        words.push("--layer".into());
        words.extend(layer.paths().map(OsString::from));
    }
    for cache in &plan.fence.caches {
        words.push("--cache".into());
        words.extend(cache.paths().map(OsString::from));
    }
    if let Some(guard) = &plan.fence.guard {
        words.push("--guard".into());
        words.extend([guard.place.as_os_str(), guard.tries.as_os_str()].map(OsString::from));
        words.push((&guard.agent).into());
        for program in &guard.programs {
            words.extend(["--replace".into(), program.into()]);
        }
    }
    // What follows is the command's own, whatever it begins with.
    words.push("--".into());
    words.extend_from_slice(command);
    words
}

/// The command, without its own words, that starts this program again where a layered worktree is mounted; `program` is its own file.
pub fn mounted(program: &Path, layer: &LayerMount) -> Command {
    within(program, layer, &Command::new(program))
}

/// The same of any other command.
pub fn within(program: &Path, layer: &LayerMount, command: &Command) -> Command {
    let mut inside = Command::new(program);
    inside.args([VERB, "--mounted", "--layer"]);
    inside.args(layer.paths());
    inside.arg("--").arg(command.get_program());
    inside.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        inside.current_dir(directory);
    }
    inside
}

/// Mounts a layered worktree in a namespace of this process and becomes `command`, which is restricted in nothing: it is ours, and finds
/// an ordinary worktree there. The caller holds the lock of the upper directory.
///
/// # Errors
/// `sandbox-unavailable`, `command-not-runnable`.
pub fn become_mounted(layer: &LayerMount, command: &[OsString]) -> Error {
    kernel::become_mounted(layer, command)
}

/// Restricts this process and becomes `command`, or starts it in a namespace of processes and gives the status that it ended
/// with. `is_first` says that this is the first process there.
///
/// # Errors
/// `sandbox-unavailable` when the kernel does not enforce all that `plan` asks for, `io` when nothing can be
/// reported, `command-not-found`, `command-not-runnable`.
pub fn enter(plan: &Plan<'_>, is_first: bool, command: &[OsString]) -> Result<u8> {
    kernel::enter(plan, is_first, command)
}

/// Tries what namespaces this process can have. Gives the status to end with.
pub fn probe() -> u8 {
    kernel::probe()
}

/// Tries the mount of a layered worktree, in namespaces of this process.
///
/// # Errors
/// `sandbox-unavailable`.
pub fn probe_layer(layer: &LayerMount) -> Result<()> {
    kernel::probe_layer(layer).map_err(|why| Error::new(Code::SandboxUnavailable, why))
}

/// What the kernel's answer to a process of ours depends on, as far as `/proc` tells: its user, its namespaces, what another sandbox
/// around it has taken from it, and how many namespaces there may be. Nothing but to be compared.
fn surroundings() -> Vec<u8> {
    let link = |name| fs::read_link(Path::new("/proc/self/ns").join(name)).unwrap_or_default();
    let links = ["mnt", "user", "pid"].map(link).map(PathBuf::into_os_string);
    let status = fs::read("/proc/self/status").unwrap_or_default();
    let is_ours = |line: &&[u8]| {
        let fields: [&[u8]; 5] = [b"Uid:", b"Gid:", b"CapEff:", b"NoNewPrivs:", b"Seccomp:"];
        fields.iter().any(|field| line.starts_with(field))
    };
    let lines = status.split(|&byte| byte == b'\n').filter(is_ours);
    let settings = [
        "self/attr/current",
        "sys/user/max_ipc_namespaces",
        "sys/user/max_mnt_namespaces",
        "sys/user/max_pid_namespaces",
        "sys/user/max_user_namespaces",
        "sys/kernel/unprivileged_userns_clone",
        "sys/kernel/apparmor_restrict_unprivileged_userns",
    ];
    let settings = settings.map(|name| fs::read(Path::new("/proc").join(name)).unwrap_or_default());
    let mut all: Vec<&[u8]> = links.iter().map(|link| link.as_encoded_bytes()).collect();
    all.extend(lines);
    all.extend(settings.iter().map(Vec::as_slice));
    all.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::life::sandbox::{GitGuard, Landlock};

    #[test]
    fn the_command_line_keeps_the_commands_own_words_apart() {
        let fence = Fence {
            writable: vec!["/a b".into(), "/c".into()],
            hidden: vec!["/d".into()],
            guard: Some(GitGuard {
                place: "/g".into(),
                programs: vec!["/git".into()],
                tries: "/t".into(),
                agent: "id".into(),
            }),
            terminal: true,
            ..Fence::default()
        };
        let plan = Plan {
            fence: &fence,
            level: Level { landlock: Landlock::Files, namespaces: Namespaces::None, why: None },
            report: Path::new("/r"),
        };
        let command = ["sh", "-c", "--write"].map(OsString::from);
        let words = wrap(Path::new("/bin/us"), &plan, &command);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(
            words.join("|"),
            "/bin/us|fenced|--landlock|files|--namespaces|none|--report|/r|--no-unix-sockets|--terminal|--write|/a b|--write|/c|--hide|/d|--guard|/g|/t|id|--replace|/git|--|sh|-c|--write"
        );
    }

    #[test]
    fn off_asks_no_kernel() {
        let off = Kernel::new(Path::new("/nothing"), None).enforcement(Mode::Off);
        assert_eq!(off.expect("off"), Enforcement::Off);
    }
}
