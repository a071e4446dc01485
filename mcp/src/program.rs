//! The program that does the work: found once, started for each call, and what it answers.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use tokio::process::{Child, Command};

/// `git-agent`, in the directory that the server was started in.
pub struct Program(PathBuf);

impl Program {
    /// The one that `--git-agent PATH` names, as `git agent mcp` does; else the one beside this program, else the one on `PATH`.
    ///
    /// # Errors
    /// For other arguments.
    pub fn find(mut arguments: impl Iterator<Item = OsString>) -> Result<Program, String> {
        match arguments.next() {
            Some(option) if option == "--git-agent" => match arguments.next() {
                Some(path) => Ok(Program(path.into())),
                None => Err("--git-agent needs a path".to_owned()),
            },
            Some(other) => Err(format!("unexpected argument {}", other.display())),
            None => {
                // Installed through a link, it is still beside the file that the link leads to.
                let own = std::env::current_exe().and_then(|own| own.canonicalize());
                let beside = own.map(|own| own.with_file_name("git-agent")).ok();
                let beside = beside.filter(|path| path.is_file());
                Ok(Program(beside.unwrap_or_else(|| "git-agent".into())))
            }
        }
    }

    /// Starts a command. Its standard input is empty: the server's own is the protocol.
    ///
    /// # Errors
    /// Where there is no such program.
    pub fn start(&self, words: &[String], ends_with_handle: bool) -> Result<Child, Value> {
        let child = Command::new(&self.0)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(ends_with_handle)
            .spawn();
        child.map_err(|error| {
            let what = format!("could not start {}: {error}", self.0.display());
            let hint = "install git-agent beside git-agent-mcp or on PATH";
            refusal("command-not-found", &what, &[hint])
        })
    }

    /// What `git-agent schema` prints of a command.
    ///
    /// # Errors
    /// A sentence, where it prints none.
    pub async fn schema(&self, words: &[&str]) -> Result<Value, String> {
        let words = [&["schema", "--format=json"], words].concat();
        let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        let ended = match self.start(&words, true) {
            Ok(child) => child.wait_with_output().await,
            Err(refusal) => return Err(message(&refusal)),
        };
        let place = self.0.display();
        answer(ended).map_err(|refusal| format!("{place} schema: {}", message(&refusal)))
    }
}

/// The sentence of an error.
fn message(refusal: &Value) -> String {
    let message = refusal["error"]["message"].as_str();
    message.map_or_else(|| refusal.to_string(), str::to_owned)
}

/// An error of this server in the form that those of `git-agent` have.
pub fn refusal(code: &str, message: &str, hints: &[&str]) -> Value {
    json!({
        "schema": "git-agent.error/2",
        "error": { "code": code, "message": message, "causes": [], "hints": hints },
    })
}

/// The JSON that a command wrote; a "no" has one too.
///
/// # Errors
/// The error that it wrote to standard error in place of that.
pub fn answer(ended: std::io::Result<Output>) -> Result<Value, Value> {
    let output = ended.map_err(|error| refusal("io", &error.to_string(), &[]))?;
    let read = serde_json::from_slice(&output.stdout);
    if let Ok(value @ Value::Object(_)) = read {
        return Ok(value);
    }
    // Warnings, and lines of the programs that it starts, come before its error.
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line.get("error").is_some().then_some(line)
    });
    Err(error.unwrap_or_else(|| {
        let message = match said.trim() {
            "" => format!("git-agent gave no answer ({})", output.status),
            said => said.to_owned(),
        };
        refusal("bug", &message, &[])
    }))
}
