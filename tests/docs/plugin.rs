//! The plugin: its command lines are those of the program, and the extension for Gemini CLI says the same.

use super::generated::up_to_date;
use super::root;
use crate::support::agent::describe;
use crate::support::isolated;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The texts below a directory of the plugin, each with its path there.
fn texts(directory: &str) -> Vec<(PathBuf, String)> {
    let top = root().join("plugin").join(directory);
    let files = walkdir::WalkDir::new(&top).sort_by_file_name().into_iter();
    let files = files.map(|entry| entry.expect("readable").into_path());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let name = path.strip_prefix(&top).expect("below").to_owned();
            (name, text)
        })
        .collect()
}

/// What stands for a value, as a word that no shell reads as more than that.
fn filled(line: &str) -> String {
    let mut filled = String::new();
    for (at, part) in line.split(['<', '>']).enumerate() {
        filled.push_str(if at % 2 == 0 { part } else { "x" });
    }
    filled
}

/// Outside of a repository a line that the program understands fails for that reason alone.
#[test]
fn each_command_line_of_the_plugin_is_one_of_the_program() {
    let nowhere = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_git-agent"));
    let programs = program.parent().expect("a directory").display();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let run = |line: &str| {
        let mut shell = isolated("sh", nowhere.path());
        shell.env("PATH", &path).args(["-c", line]);
        shell.output().expect("sh starts")
    };
    let mut count = 0;
    for (name, text) in texts("") {
        let pieces = text.split('`').skip(1).step_by(2);
        for line in pieces.filter(|piece| piece.starts_with("git-agent ")) {
            let output = run(&filled(line));
            let is_understood = output.status.success() || output.status.code() == Some(4);
            assert!(is_understood, "{}: {line}\n{}", name.display(), describe(&output));
            count += 1;
        }
    }
    assert!(count > 50, "{count} lines were found");
    assert_eq!(run("git-agent merge x --no-such-option").status.code(), Some(2));
}

#[test]
fn the_extension_for_gemini_is_the_plugin() {
    let manifest = json!({
        "name": "git-agent",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Gives work to coding agents, each in a git worktree of its own, and lands what was judged",
    });
    up_to_date("plugin/gemini/gemini-extension.json", &format!("{manifest:#}\n"));
    for (name, text) in texts("git-agent/skills") {
        up_to_date(&format!("plugin/gemini/skills/{}", name.display()), &text);
    }
    for (name, text) in texts("git-agent/commands") {
        let (head, prompt) = text.split_once("\n---\n\n").expect("a head");
        let description = head.lines().find_map(|line| line.strip_prefix("description: "));
        let prompt = prompt.replace("$ARGUMENTS", "{{args}}");
        assert!(prompt.contains("{{args}}") && !prompt.contains("'''"), "{}", name.display());
        let command = format!(
            "description = {}\nprompt = '''\n{prompt}'''\n",
            json!(description.expect("a description"))
        );
        let file = name.with_extension("toml");
        up_to_date(&format!("plugin/gemini/commands/git-agent/{}", file.display()), &command);
    }
}
