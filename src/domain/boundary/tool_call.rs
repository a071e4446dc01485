//! What an agent host is about to do, and what we answer it.
//!
//! A host sends one JSON payload per hook; `hosts::payload` turns any of them into a [`ToolCall`], `ops`
//! decides, and a [`HookAnswer`] goes back.
//!
//! Paths stay as the host wrote them: [`locate`] makes them absolute by text alone, and resolving
//! symlinks, finding the worktree and judging the scope is the caller's. Shell commands are carried
//! along unjudged, apart from the patches found in them: what a shell really writes cannot be read
//! off its text, so the commit hooks and `verify` judge the result instead.

/// One payload of an agent host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The hook that fired. For information; a tool call is judged by `intent` alone.
    pub event: HookEvent,
    /// The absolute directory that relative paths of this call start from; `None` when the payload
    /// names none, and then it is the hook's own working directory.
    pub cwd: Option<String>,
    /// The session of the host, by the name that the host gives it.
    pub session: Option<String>,
    /// The host's subagent that this is about, by the name that the host gives it.
    pub subagent: Option<String>,
    /// The prompt that a person gave, at the event that tells of one.
    pub prompt: Option<String>,
    /// The file in which the host records that subagent, else the session.
    pub transcript: Option<String>,
    /// What the tool would do.
    pub intent: Intent,
    /// SHA-256 of the whole payload.
    pub digest: [u8; 32],
    /// Whether something in the payload tells this call from every other: its own name, or its time.
    pub is_marked: bool,
}

/// The moment in a session at which a host calls us, whatever the host calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a tool runs; also assumed when a payload names a tool but no event.
    PreTool,
    /// After a tool ran: nothing can be prevented any more.
    PostTool,
    /// A session begins or resumes.
    SessionStart,
    /// An agent or one of its subagents wants to end.
    Stop {
        /// Whether it goes on only because a stop hook made it: then it must be let go.
        again: bool,
    },
    /// The host wants a worktree and takes ours in place of its own.
    WorktreeCreate {
        /// The name the host chose for it.
        name: Option<String>,
    },
    /// The host is done with a worktree.
    WorktreeRemove {
        /// Where it is.
        path: Option<String>,
    },
    /// An event that this version does not know, by its name.
    Other(String),
    /// The payload names neither an event nor a tool.
    Unstated,
}

/// What a tool call would do, as far as its payload tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It changes these files: at least one, in the order of the payload, without repetition.
    Writes(Vec<TouchedPath>),
    /// It runs a command. Only the files of an `apply_patch` in it are known.
    Shell {
        /// The command, as the host gives it.
        command: String,
        /// The files of the patches in it; mostly none.
        patched: Vec<TouchedPath>,
    },
    /// It starts an agent inside the host.
    SpawnsAgent {
        /// The agent type asked for.
        subagent_type: Option<String>,
        /// The isolation asked for.
        isolation: Option<String>,
        /// What it is told.
        prompt: Option<String>,
    },
    /// It enters or leaves a worktree of the host's own making.
    EntersWorktree,
    /// It only looks.
    Reads,
    /// A tool that is not known and whose input gives no sign of a file being written.
    Unknown {
        /// The tool's name, as the host spells it.
        tool: String,
    },
    /// No tool is involved: a session event.
    NoTool,
    /// The payload breaks the rules for the tool it names, so what it would write is unknown.
    /// To be denied.
    Unreadable {
        /// The tool's name, where at least that could be read.
        tool: Option<String>,
        /// What is wrong, in words for the agent.
        why: String,
    },
}

/// A file that a tool call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedPath {
    /// The path as the host wrote it: absolute, or relative to the call's `cwd`.
    pub path: String,
    /// What happens to it.
    pub touch: FileTouch,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTouch {
    /// It is created or changed, or something is moved onto it.
    Write,
    /// It is deleted or moved away.
    Delete,
}

/// The absolute path that `path` means in `cwd`, cleaned as text: no `.`, no `..`, no doubled or
/// final `/`. `..` at the root stays at the root, as in POSIX. `None` when `path` is relative and
/// `cwd` is not absolute, or when `path` is empty.
///
/// No symlink is followed. The kernel follows one before it steps back over `..`, so where there are
/// symlinks it may mean another file, and both have to be judged. Bytes, because a working
/// directory need not be UTF-8.
pub fn locate(cwd: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let start: &[u8] = match (path.first()?, cwd.first()) {
        (b'/', _) => b"",
        (_, Some(b'/')) => cwd,
        _ => return None,
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    let slash = |byte: &u8| *byte == b'/';
    for part in start.split(slash).chain(path.split(slash)) {
        match part {
            b"" | b"." => {}
            b".." => {
                // At the top `..` leads to the top again, as it does for the kernel.
                parts.pop();
            }
            named => parts.push(named),
        }
    }
    let mut clean = vec![b'/'];
    clean.extend_from_slice(&parts.join(&b'/'));
    Some(clean)
}

/// What a hook of ours tells the host. There are only these forms, because no JSON answer is
/// understood alike by all hosts: one takes an explicit "allow" for an error and lets the call
/// through, another shows the user whatever an allowing hook writes to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Go on: status 0 and silence.
    Allow,
    /// Do not: status 2 and the reason on standard error, which the host shows the model.
    Deny {
        /// Why, and what to do instead.
        reason: String,
    },
    /// Go on: status 0 and this on standard output, for the events whose output the host reads (the
    /// context of a session, the path of a worktree).
    Say {
        /// All of standard output.
        stdout: String,
    },
}

impl HookAnswer {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            HookAnswer::Allow | HookAnswer::Say { .. } => 0,
            HookAnswer::Deny { .. } => 2,
        }
    }

    /// All that goes to standard output.
    pub fn stdout(&self) -> &str {
        match self {
            HookAnswer::Say { stdout } => stdout,
            HookAnswer::Allow | HookAnswer::Deny { .. } => "",
        }
    }

    /// All that goes to standard error. Never blank on a denial: some hosts let a call through when a
    /// denying hook gives no reason.
    pub fn stderr(&self) -> &str {
        match self {
            HookAnswer::Deny { reason } if reason.trim().is_empty() => "denied by git-agent",
            HookAnswer::Deny { reason } => reason,
            HookAnswer::Allow | HookAnswer::Say { .. } => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_located_by_text_alone() {
        let cases: [(&str, &str, Option<&str>); 12] = [
            ("/w", "src/a.rs", Some("/w/src/a.rs")),
            ("/w/", "./src//a.rs/", Some("/w/src/a.rs")),
            ("/w/sub", "../a", Some("/w/a")),
            ("/w", "../../../etc/passwd", Some("/etc/passwd")),
            ("/w", "/etc/../etc/passwd", Some("/etc/passwd")),
            ("/w", "a/../../b", Some("/b")),
            ("", "/x", Some("/x")),
            ("relative", "/x", Some("/x")),
            ("/w", ".", Some("/w")),
            ("/", "..", Some("/")),
            ("relative", "x", None),
            ("/w", "", None),
        ];
        for (cwd, path, expected) in cases {
            let located = locate(cwd.as_bytes(), path.as_bytes());
            assert_eq!(located.as_deref(), expected.map(str::as_bytes), "{path} in {cwd}");
        }
        assert_eq!(locate(b"/\xff", b"a"), Some(b"/\xff/a".to_vec()));
    }

    #[test]
    fn a_denial_always_has_a_reason() {
        for reason in ["", " \n"] {
            let answer = HookAnswer::Deny { reason: reason.to_owned() };
            assert_eq!((answer.status(), answer.stdout()), (2, ""));
            assert!(!answer.stderr().trim().is_empty());
        }
        let allow = HookAnswer::Allow;
        assert_eq!((allow.status(), allow.stdout(), allow.stderr()), (0, "", ""));
    }
}
