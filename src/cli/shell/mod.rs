//! What a shell is given: man pages and completions, from the one definition of the command line.
//!
//! The completions are a few lines of each shell's own language, which ask [`complete`] what could stand
//! at the end of the line. So they never lag behind the program, and they know the agents.

pub(super) mod complete;
pub(super) mod install;

use crate::cli::command_line;
use crate::error::{Error, Result};
use crate::ops::install_shell::{Part, ShellFile};
use clap::Command;
use clap_mangen::Man;

/// What stands in every page, so that ours are known from others.
const MARK: &str = r#".\" Written by git agent install-shell."#;

/// Every file for a shell.
///
/// # Errors
/// None that is not a bug.
pub(super) fn files() -> Result<Vec<ShellFile>> {
    let (command, mut files) = (built(), scripts());
    pages(&command, &mut files)?;
    Ok(files)
}

/// Those that `doctor` compares with what is installed: of the pages, that of the program alone.
///
/// # Errors
/// None that is not a bug.
pub(super) fn compared() -> Result<Vec<ShellFile>> {
    let mut files = scripts();
    files.push(page(&built())?);
    Ok(files)
}

fn built() -> Command {
    let mut command = command_line();
    command.build();
    command
}

fn scripts() -> Vec<ShellFile> {
    let script = |part, name, content: &str| ShellFile {
        part,
        name: String::from(name),
        content: content.as_bytes().to_vec(),
    };
    vec![
        script(Part::Bash, "git-agent", include_str!("git-agent.bash")),
        script(Part::Zsh, "_git-agent", include_str!("git-agent.zsh")),
        script(Part::Fish, "git-agent.fish", include_str!("git-agent.fish")),
        script(Part::Bash, "agent-cd", include_str!("agent-cd.bash")),
        script(Part::Zsh, "agent-cd.zsh", include_str!("agent-cd.zsh")),
        script(Part::Fish, "agent-cd.fish", include_str!("agent-cd.fish")),
    ]
}

/// The page of a command, and those of the commands below it.
fn pages(command: &Command, files: &mut Vec<ShellFile>) -> Result<()> {
    files.push(page(command)?);
    let visible = |command: &&Command| !command.is_hide_set();
    command
        .get_subcommands()
        .filter(visible)
        .try_for_each(|command| pages(command, files))
}

fn page(command: &Command) -> Result<ShellFile> {
    let man = Man::new(command.clone()).manual("Git Agent");
    let mut page = Vec::new();
    man.render(&mut page)
        .map_err(|error| Error::bug("a page could not be written").because(error))?;
    let page = String::from_utf8_lossy(&page);
    let content = format!("{MARK}\n{}", ascii(&page)).into_bytes();
    Ok(ShellFile {
        part: Part::Man,
        name: man.get_filename(),
        content,
    })
}

/// A page that every roff reads alike: what is beyond ASCII by its number.
fn ascii(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for c in page.chars() {
        if c.is_ascii() {
            text.push(c)
        } else {
            text.push_str(&format!("\\[u{:04X}]", u32::from(c)))
        }
    }
    text
}
