//! Settings that name programs, so that git finds none of them in a tree that an agent can write.
//!
//! Trusted settings may name a program by a path into the tree: `filter.x.clean = scripts/f.sh`, `sh tools/clean.sh`. Git starts
//! filters at the top of the worktree that it works in, which in an agent's worktree, or in one of its merged work, means the agent's
//! copy of the program. Here such settings are replaced for one call of git: filters start at the top of the main worktree (they
//! read standard input, and what git says of the path is only a name), and of other programs the path is made absolute there.

use super::{Setting, settings_of};
use crate::error::Result;
use crate::git::repo::failed;
use crate::git::{Repo, core::command};
use std::path::Path;
use std::process::Command;

/// What of a filter is a command.
const FILTER_COMMANDS: [&str; 3] = [".clean", ".smudge", ".process"];

/// The programs that git starts in a worktree, by the beginning and the end of the key.
const PROGRAMS: [(&str, &str); 9] = [
    ("core.askpass", ""),
    ("core.editor", ""),
    ("core.sshcommand", ""),
    ("diff.", ".command"),
    ("diff.", ".textconv"),
    ("gpg.", "command"),
    ("gpg.", "program"),
    ("merge.", ".driver"),
    ("trailer.", ".cmd"),
];

impl Repo {
    /// Settings for one call of git, each as `-c` takes it, that take the place of those whose programs would be looked for in
    /// the worktree that git works in.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub(in crate::git) fn program_settings(&self) -> Result<Vec<String>> {
        let main = self.main_worktree()?;
        // Nothing lies below a bare repository under such a path, so what is named by one fails there.
        let top = main.as_deref().unwrap_or(self.common_dir());
        let mut settings = self.shared_settings("")?;
        // New worktrees and views take over what the main worktree has for itself.
        let own = self.common_dir().join("config.worktree");
        if own.exists() {
            let what = "could not read the configuration";
            let own = git2::Config::open(&own).map_err(|error| failed(what, error))?;
            settings.extend(settings_of(&own, "", |_| true)?);
        }
        Ok(replaced(&settings, top))
    }

    /// A git in a directory whose files an agent may have written; see [`Repo::program_settings`].
    ///
    /// # Errors
    /// As [`Repo::program_settings`].
    pub(in crate::git) fn git_among_files(&self, directory: &Path) -> Result<Command> {
        let mut command = command::git(directory);
        for setting in self.program_settings()? {
            command.args(["-c", &setting]);
        }
        Ok(command)
    }

    /// A program that a setting names, as this process may start it: a path into the tree is one into the main worktree.
    ///
    /// # Errors
    /// Those of [`Repo::main_worktree`].
    pub(in crate::git) fn program_at(&self, program: String) -> Result<String> {
        let Some(path) = path_in_tree(&program) else {
            return Ok(program);
        };
        let main = self.main_worktree()?;
        let top = main.as_deref().unwrap_or(self.common_dir());
        Ok(top.join(path).to_string_lossy().into_owned())
    }
}

/// As [`Repo::program_settings`], of the settings of the user and the system alone and with nothing in place of the tree: in a
/// repository inside of an agent's worktree every file is the agent's.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub(in crate::git) fn program_settings_without_tree() -> Result<Vec<String>> {
    let what = "could not read the configuration";
    let config = git2::Config::open_default().map_err(|error| failed(what, error))?;
    Ok(replaced(&settings_of(&config, "", |_| true)?, Path::new("/")))
}

/// The settings that take the place of some of these, with programs found below `top`.
fn replaced(settings: &[Setting], top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for setting in settings {
        let (key, value) = (&setting.key, &setting.value);
        let is_one_of = |(begin, end): &(&str, &str)| key.starts_with(begin) && key.ends_with(end);
        let in_tree = path_in_tree(value);
        if value.is_empty() {
            continue;
        }
        if FILTER_COMMANDS.iter().any(|end| is_one_of(&("filter.", end))) {
            found.push(format!("{key}=cd {} && {value}", quoted(top)));
            let is_missing = in_tree.is_some_and(|path| !top.join(path).exists());
            let (filter, _) = key.rsplit_once('.').unwrap_or_default();
            // Git takes the content as it is when a filter fails that is not required, and what it stores would differ from what
            // the user's own git stores. So it says which program is missing.
            found.extend(is_missing.then(|| format!("{filter}.required=true")));
        } else if PROGRAMS.iter().any(is_one_of)
            && let Some(line) = led_to(top, value)
        {
            found.push(format!("{key}={line}"));
        }
    }
    found
}

/// A command line whose program, and each argument that names a file of the tree, is the one below `top`; `None` where there is
/// neither.
fn led_to(top: &Path, command: &str) -> Option<String> {
    let mut line = String::new();
    let mut is_led = false;
    for word in command.split_inclusive(char::is_whitespace) {
        let path = word.trim_start_matches(['"', '\'']);
        let (quotes, name) = (&word[..word.len() - path.len()], path.trim_end());
        // An interpreter is found by PATH, and the program in the tree is its argument (`sh tools/merge.sh`). An argument
        // that names no file may be anything, such as an expression with slashes.
        let is_in_tree = if line.is_empty() {
            path_in_tree(word).is_some()
        } else {
            let name = name.trim_end_matches(['"', '\'']);
            !name.is_empty() && !name.starts_with('/') && top.join(name).is_file()
        };
        if is_in_tree && quotes.is_empty() {
            line += &format!("{}/", quoted_unless_plain(top));
        } else if is_in_tree {
            line += &format!("{quotes}{}/", top.display());
        } else {
            line += quotes;
        }
        line += path;
        is_led |= is_in_tree;
    }
    is_led.then_some(line)
}

/// The program of a command line, where it is named by a path that begins at the current directory.
fn path_in_tree(command: &str) -> Option<&str> {
    let program = command.split_whitespace().next()?;
    let is_path = program.contains('/') && !program.starts_with(['/', '~', '$', '"', '\'', '%']);
    is_path.then_some(program)
}

/// A path as the shell reads it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// As [`quoted`]; some of these programs are started without a shell, which takes a path as it is.
fn quoted_unless_plain(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:".contains(c);
    if text.chars().all(is_plain) { text.into_owned() } else { quoted(path) }
}

#[cfg(test)]
mod tests {
    use super::{led_to, path_in_tree};
    use std::fs;

    #[test]
    fn a_program_in_the_tree_is_told_by_its_path() {
        for (command, expected) in [
            ("scripts/f.sh %f", Some("scripts/f.sh")),
            ("./f.sh", Some("./f.sh")),
            ("../f.sh", Some("../f.sh")),
            ("git-lfs clean -- %f", None),
            ("/usr/bin/f a/b", None),
            ("~/bin/f", None),
        ] {
            assert_eq!(path_in_tree(command), expected, "{command}");
        }
    }

    #[test]
    fn a_program_that_an_interpreter_reads_is_the_one_of_the_main_worktree() {
        let place = tempfile::tempdir().expect("a directory");
        let top = place.path();
        fs::create_dir(top.join("tools")).expect("made");
        for name in ["tools/m.py", "m.py", "sh"] {
            fs::write(top.join(name), "").expect("written");
        }
        let shown = top.display();
        for (command, expected) in [
            ("tools/gone %O", Some(format!("{shown}/tools/gone %O"))),
            ("python3 -u tools/m.py  %O %A", Some(format!("python3 -u {shown}/tools/m.py  %O %A"))),
            ("python3 m.py", Some(format!("python3 {shown}/m.py"))),
            ("sh -c 'tools/m.py \"$@\"'", Some(format!("sh -c '{shown}/tools/m.py \"$@\"'"))),
            ("sh -c \"m.py\"", Some(format!("sh -c \"{shown}/m.py\""))),
            ("sh %O %A", None),
            ("sed -e s/a/b/ tools", None),
            ("/bin/sh /etc/passwd", None),
        ] {
            assert_eq!(led_to(top, command), expected, "{command}");
        }
    }
}
