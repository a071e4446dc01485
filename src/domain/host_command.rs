//! How each agent host is started without a terminal: one table, from what an agent needs to a
//! command line.
//!
//! The prompt may hold credentials, and a command line is read by every process of the machine, so no
//! recipe puts the prompt into it: it goes to standard input, or the host reads the private file that
//! `{prompt_file}` stands for. Where our own sandbox is on, that of the host is off: two of them do not
//! start inside each other. Where it is off, the host's own stays as it is configured.

/// A host that has a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Aider.
    Aider,
    /// The system's shell.
    Shell,
}

/// What an agent needs from its host.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The model.
    pub model: Option<&'a str>,
    /// The most turns.
    pub max_iterations: Option<u32>,
    /// Whether the agent may change files.
    pub edits: bool,
    /// Whether our own sandbox is on.
    pub fenced: bool,
    /// Whether the prompt holds a briefing, which no host should keep a copy of.
    pub private: bool,
    /// More arguments, as the caller gave them.
    pub extra: &'a [String],
}

/// A host's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Needs that the host has no flag for; it finds them in its environment.
    pub without_flag: Vec<&'static str>,
}

impl Host {
    /// Every host.
    pub const ALL: [Host; 5] = [
        Host::Claude,
        Host::Codex,
        Host::Gemini,
        Host::Aider,
        Host::Shell,
    ];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Host::Claude => "claude",
            Host::Codex => "codex",
            Host::Gemini => "gemini",
            Host::Aider => "aider",
            Host::Shell => "shell",
        }
    }

    /// The command line. The caller's arguments come after ours, so that theirs win.
    ///
    /// # Errors
    /// One sentence, when the host cannot be started so.
    pub fn command(self, needs: Needs<'_>) -> Result<HostCommand, String> {
        let mut line = Line::new(self.program());
        match self {
            Host::Claude => {
                line.add(["-p", "--output-format", "json", "--permission-mode"]);
                line.add([if needs.edits {
                    "acceptEdits"
                } else {
                    "default"
                }]);
                if needs.fenced {
                    line.add(["--settings", r#"{"sandbox":{"enabled":false}}"#]);
                }
                if needs.private {
                    line.add(["--no-session-persistence"]);
                }
                line.option("--model", needs.model);
                line.option("--max-turns", needs.max_iterations);
                line.add(needs.extra);
            }
            Host::Codex => {
                line.add(["exec", "--json", "-s"]);
                line.add([match (needs.fenced, needs.edits) {
                    (true, _) => "danger-full-access",
                    (false, true) => "workspace-write",
                    (false, false) => "read-only",
                }]);
                if needs.private {
                    line.add(["--ephemeral"]);
                }
                line.option("-m", needs.model);
                line.lacks("max_iterations", needs.max_iterations);
                line.add(needs.extra);
                line.add(["-"]);
            }
            Host::Gemini => {
                line.add(["-p", "", "--output-format", "json", "--skip-trust"]);
                line.add(["--approval-mode"]);
                line.add([if needs.edits { "auto_edit" } else { "default" }]);
                if needs.fenced {
                    line.add(["--sandbox=false"]);
                }
                line.option("-m", needs.model);
                line.lacks("max_iterations", needs.max_iterations);
                line.add(needs.extra);
            }
            Host::Aider => {
                line.add(["--message-file", "{prompt_file}", "--yes-always"]);
                line.add(["--no-auto-commits", "--no-dirty-commits", "--no-gitignore"]);
                line.add(["--no-check-update", "--no-show-release-notes"]);
                // Its histories and its index of the repository would be out-of-scope files in the worktree.
                line.add(["--chat-history-file", "/dev/null"]);
                line.add(["--input-history-file", "/dev/null", "--map-tokens", "0"]);
                if !needs.edits {
                    line.add(["--chat-mode", "ask"]);
                }
                line.option("--model", needs.model);
                line.lacks("max_iterations", needs.max_iterations);
                line.add(needs.extra);
            }
            Host::Shell => {
                let [script, arguments @ ..] = needs.extra else {
                    return Err("the shell has nothing to run".to_owned());
                };
                line.add(["-c", script, "sh"]);
                line.add(arguments);
            }
        }
        Ok(line.0)
    }

    fn program(self) -> &'static str {
        match self {
            Host::Shell => "sh",
            host => host.as_str(),
        }
    }
}

/// A command line while it is put together.
struct Line(HostCommand);

impl Line {
    fn new(program: &str) -> Line {
        Line(HostCommand {
            words: vec![program.to_owned()],
            without_flag: Vec::new(),
        })
    }

    fn add(&mut self, words: impl IntoIterator<Item = impl AsRef<str>>) {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.0.words.extend(words);
    }

    fn option(&mut self, flag: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add([flag, &value.to_string()]);
        }
    }

    fn lacks<T>(&mut self, need: &'static str, value: Option<T>) {
        if value.is_some() {
            self.0.without_flag.push(need);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Needs<'static> = Needs {
        model: None,
        max_iterations: None,
        edits: true,
        fenced: false,
        private: false,
        extra: &[],
    };

    fn check(host: Host, needs: Needs<'_>, expected: &str) {
        let command = host.command(needs).expect("a command line");
        assert_eq!(command.words.join(" "), expected);
    }

    fn full(extra: &[String]) -> Needs<'_> {
        Needs {
            model: Some("m"),
            max_iterations: Some(7),
            fenced: true,
            private: true,
            extra,
            ..PLAIN
        }
    }

    fn reading() -> Needs<'static> {
        Needs {
            edits: false,
            ..PLAIN
        }
    }

    #[test]
    fn claude() {
        check(
            Host::Claude,
            PLAIN,
            "claude -p --output-format json --permission-mode acceptEdits",
        );
        check(
            Host::Claude,
            full(&["--verbose".into()]),
            r#"claude -p --output-format json --permission-mode acceptEdits --settings {"sandbox":{"enabled":false}} --no-session-persistence --model m --max-turns 7 --verbose"#,
        );
        check(
            Host::Claude,
            reading(),
            "claude -p --output-format json --permission-mode default",
        );
    }

    #[test]
    fn codex() {
        check(Host::Codex, PLAIN, "codex exec --json -s workspace-write -");
        check(
            Host::Codex,
            full(&["-c".into(), "a=1".into()]),
            "codex exec --json -s danger-full-access --ephemeral -m m -c a=1 -",
        );
        check(Host::Codex, reading(), "codex exec --json -s read-only -");
    }

    #[test]
    fn gemini() {
        check(
            Host::Gemini,
            PLAIN,
            "gemini -p  --output-format json --skip-trust --approval-mode auto_edit",
        );
        check(
            Host::Gemini,
            full(&[]),
            "gemini -p  --output-format json --skip-trust --approval-mode auto_edit --sandbox=false -m m",
        );
        check(
            Host::Gemini,
            reading(),
            "gemini -p  --output-format json --skip-trust --approval-mode default",
        );
    }

    #[test]
    fn aider() {
        let always = "aider --message-file {prompt_file} --yes-always --no-auto-commits --no-dirty-commits \
                      --no-gitignore --no-check-update --no-show-release-notes --chat-history-file /dev/null \
                      --input-history-file /dev/null --map-tokens 0";
        check(Host::Aider, PLAIN, always);
        let with_model = format!("{always} --model m src/lib.rs");
        check(Host::Aider, full(&["src/lib.rs".into()]), &with_model);
        check(Host::Aider, reading(), &format!("{always} --chat-mode ask"));
    }

    #[test]
    fn shell() {
        let extra = ["wc -l | tee out".to_owned(), "x".to_owned()];
        check(Host::Shell, full(&extra), "sh -c wc -l | tee out sh x");
        assert!(Host::Shell.command(PLAIN).is_err());
    }

    #[test]
    fn no_recipe_shows_the_prompt() {
        let extra = ["x".to_owned()];
        for host in Host::ALL {
            let command = host.command(full(&extra)).expect("a command line");
            assert!(!command.words.contains(&"{prompt}".to_owned()), "{host:?}");
        }
    }

    #[test]
    fn what_a_host_has_no_flag_for_is_said() {
        for (host, expected) in [
            (Host::Claude, &[][..]),
            (Host::Codex, &["max_iterations"]),
            (Host::Gemini, &["max_iterations"]),
            (Host::Aider, &["max_iterations"]),
        ] {
            let command = host.command(full(&[])).expect("a command line");
            assert_eq!(command.without_flag, expected, "{host:?}");
        }
    }
}
