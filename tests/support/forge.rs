//! A forge that is not there: `gh` and `glab` as scripts that answer recorded command lines.

use super::agent::{agent_command, answer_of, describe};
use super::hub::Hub;
use super::{git_in, git_output};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Answers with the first entry whose words the command line begins with. An entry that has `once` is gone after that, and the
/// commands of one that has `then` are run, so that the forge changes between two questions.
const PROGRAM: &str = r##"#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
line="$(basename "$0") $*"
printf '%s' "$line" | tr '\n' '~' >> "$here/log"
echo >> "$here/log"
env | grep '^GIT_' >> "$here/env"
[ "$(ls -A . | grep -v -e '^answer$' -e '\.md$')" = "" ] || echo "not empty: $PWD" >> "$here/log"
for entry in "$here"/answers/*/; do
    [ -e "$entry/when" ] || continue
    words=$(cat "$entry/when")
    case $line in
        "$words"*)
            for word in "$@"; do case $word in */body.md) cp "$word" "$here/body" ;; esac; done
            cat "$entry/out"
            cat "$entry/err" >&2
            status=$(cat "$entry/status")
            [ -e "$entry/then" ] && (cd "$here" && sh "$entry/then")
            [ -e "$entry/once" ] && rm -r "$entry"
            exit "$status" ;;
    esac
done
echo "no such question: $line" >&2
exit 64
"##;

/// A clone whose remote has the URL of a forge, a fork beside it, and the forge's program.
pub struct FakeForge {
    pub hub: Hub,
    pub clone: PathBuf,
    pub fork: PathBuf,
    pub programs: PathBuf,
}

impl FakeForge {
    /// A forge at `host`, whose repository is `a/b` and whose fork of it is `f/b`.
    pub fn new(host: &str) -> FakeForge {
        let hub = Hub::new(1);
        let clone = hub.clones[0].clone();
        let fork = clone.with_file_name("fork.git");
        let words = [hub.bare.to_str(), fork.to_str()].map(|path| path.expect("UTF-8"));
        git_in(&clone, ["clone", "--quiet", "--bare", words[0], words[1]]);
        let url = |path: &str| format!("https://{host}/{path}/b.git");
        git_in(&clone, ["remote", "set-url", "origin", &url("a")]);
        for (path, place) in [("a", &hub.bare), ("f", &fork)] {
            let key = format!("url.file://{}.insteadOf", place.display());
            git_in(&clone, ["config", &key, &url(path)]);
        }
        let programs = clone.with_file_name("programs");
        fs::create_dir_all(programs.join("answers")).expect("made");
        for name in ["gh", "glab"] {
            let program = programs.join(name);
            fs::write(&program, PROGRAM).expect("written");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
        }
        FakeForge { hub, clone, fork, programs }
    }

    /// What is answered to command lines that begin so. A newer answer goes before an older one.
    pub fn answers(&self, when: &str, out: &str) -> PathBuf {
        self.answer(when, out, "", 0)
    }

    /// A failure.
    pub fn fails(&self, when: &str, error: &str, status: i32) -> PathBuf {
        self.answer(when, "", error, status)
    }

    fn answer(&self, when: &str, out: &str, error: &str, status: i32) -> PathBuf {
        let answers = self.programs.join("answers");
        let taken = fs::read_dir(&answers).expect("readable").map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.to_string_lossy().parse::<usize>().expect("a number")
        });
        let next = taken.min().unwrap_or(10_000) - 1;
        let entry = answers.join(format!("{next:04}"));
        fs::create_dir(&entry).expect("made");
        let status = status.to_string();
        for (name, text) in [("when", when), ("out", out), ("err", error), ("status", &status)] {
            fs::write(entry.join(name), text).expect("written");
        }
        entry
    }

    /// git-agent with the forge's programs on the path.
    pub fn run(&self, words: &[&str]) -> Output {
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let places = [self.programs.clone()].into_iter().chain(std::env::split_paths(&usual));
        let mut command = agent_command(&self.clone);
        command.env("PATH", std::env::join_paths(places).expect("a path"));
        command.args(words).output().expect("starts")
    }

    /// The same, which must succeed, with its JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--format=json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
        answer_of(&output)
    }

    /// The command lines since the last time, one a line.
    pub fn told(&self) -> String {
        let log = self.programs.join("log");
        let told = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        told
    }

    /// A commit with these files on top of a branch of a bare repository, which becomes the tip of `name`.
    pub fn commit(
        &self,
        bare: &Path,
        (onto, name): (&str, &str),
        files: &[(&str, &str)],
    ) -> String {
        let work = self.clone.with_file_name("work");
        let _ = fs::remove_dir_all(&work);
        let words = [bare.to_str(), work.to_str()].map(|path| path.expect("UTF-8"));
        git_in(&self.clone, ["clone", "--quiet", "--branch", onto, words[0], words[1]]);
        for (file, text) in files {
            let file = work.join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            fs::write(file, text).expect("written");
        }
        git_in(&work, ["add", "--all", "--force"]);
        git_in(&work, ["commit", "--quiet", "--allow-empty", "-m", "of others"]);
        git_in(&work, ["push", "--quiet", "--force", "origin", &format!("HEAD:{name}")]);
        git_in(&work, ["rev-parse", "HEAD"])
    }

    /// Whether a bare repository has a ref.
    pub fn has(bare: &Path, name: &str) -> bool {
        git_output(bare, ["rev-parse", "--verify", "--quiet", name]).status.success()
    }
}
