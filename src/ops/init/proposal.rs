//! What `init` proposes for a repository: the settings that its lock files, scripts and tools ask for.
//!
//! The files at the top of the worktree are read and nothing is run. Each part of the proposal says why it is there, so that
//! a person can take it out again. Where the repository has settings already, nothing is proposed.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::real_path::{self, BESIDE};
use crate::domain::settings::repository_settings::PATH;
use crate::error::Result;
use crate::git::files::untrusted;
use crate::hosts::{self, Host};
use crate::store::files::fsx;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Files longer than this are no manifests that a person wrote.
const MOST_BYTES: u64 = 1 << 20;

/// Lock files, in the order in which they are looked for: what their tool installs with, and what it runs a script with.
/// The first of each language counts.
const NODE: [(&str, &str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm test"),
    ("bun.lock", "bun install --frozen-lockfile", "bun run test"),
    ("bun.lockb", "bun install --frozen-lockfile", "bun run test"),
    ("yarn.lock", "yarn install --immutable", "yarn test"),
    ("package-lock.json", "npm ci", "npm test"),
];
const PYTHON: [(&str, &str, &str); 3] = [
    ("uv.lock", "uv sync --frozen", "uv run pytest"),
    ("poetry.lock", "poetry install --no-interaction", "poetry run pytest"),
    (
        "requirements.txt",
        "python3 -m venv .venv && .venv/bin/pip install --quiet -r requirements.txt",
        ".venv/bin/python -m pytest",
    ),
];

/// A part of the proposal, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposedPart {
    /// The setting, as its file or `git config` names it, or `run` for a command that a person runs.
    pub setting: String,
    /// Its value.
    pub value: String,
    /// What in the repository asks for it.
    pub because: String,
}

/// What is proposed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// The parts, each with its reason.
    pub parts: Vec<ProposedPart>,
    /// The settings file that they make; empty where they need none.
    pub file: String,
    /// What `git config agent.worktreeDir` would be; absent where the default will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_dir: Option<String>,
    /// Whether it was carried out.
    pub is_written: bool,
    /// The settings file that is there, which the file is added to.
    #[serde(skip)]
    pub(super) before: Option<Vec<u8>>,
}

impl Proposal {
    /// Looks at the files at the top of the worktree and, `with_hosts`, for agent hosts that are installed; `None` where there is
    /// nothing to propose.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub(super) fn of(ctx: &Ctx, top: &Path, with_hosts: bool) -> Result<Option<Proposal>> {
        // A link was put there by a person as well, wherever it leads.
        let has_settings = fs::symlink_metadata(top.join(PATH)).is_ok();
        let mut proposal = if has_settings {
            Proposal::default()
        } else {
            let has_place = ctx.repo.config_string("agent.worktreeDir")?.is_some();
            propose(&|name| text_of(top, name), has_place)
        };
        let hooks = ctx.repo.common_dir().join("hooks");
        // One that is installed needs no advice.
        proposal.parts.retain(|part| part.setting != BY_HAND || !calls(&hooks, &part.value));
        let installed: Vec<&str> = hosts::installed(&ctx.env.search).map(Host::name).collect();
        let unused = hosts::registrations()
            .map(|known| known.host)
            .filter(|host| with_hosts && installed.contains(host));
        proposal.parts.extend(unused.map(|host| ProposedPart {
            setting: BY_HAND.to_owned(),
            value: format!("git agent init --host {host}"),
            because: format!(
                "{host} is installed, and its own sessions are not held to an agent's scope yet"
            ),
        }));
        Ok(Some(proposal).filter(|proposal| !proposal.parts.is_empty()))
    }

    /// What a person has to run.
    pub fn by_hand(&self) -> impl Iterator<Item = &ProposedPart> {
        self.parts.iter().filter(|part| part.setting == BY_HAND)
    }

    /// Whether there is something to write.
    pub fn has_settings(&self) -> bool {
        !self.file.is_empty() || self.worktree_dir.is_some()
    }

    /// Writes the settings file and the place of worktrees.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub(super) fn write(&mut self, ctx: &Ctx, top: &Path) -> Result<()> {
        if !self.file.is_empty() {
            let path = top.join(PATH);
            fsx::create_dir(path.parent().unwrap_or(top))?;
            // What a person wrote there meanwhile is not replaced.
            match &self.before {
                None if !fsx::create_atomic(&path, self.file.as_bytes())? => return Ok(()),
                None => {}
                Some(before) if fsx::load_if_there(&path)?.as_ref() != Some(before) => {
                    return Ok(());
                }
                Some(before) => {
                    fsx::write_atomic(
                        &path,
                        &[before.as_slice(), b"\n", self.file.as_bytes()].concat(),
                    )?;
                }
            }
        }
        if let Some(place) = &self.worktree_dir {
            ctx.repo.add_setting("agent.worktreeDir", place)?;
        }
        self.is_written = self.has_settings();
        Ok(())
    }
}

/// A regular file of a reasonable size as text.
fn text_of(top: &Path, name: &str) -> Option<String> {
    String::from_utf8(untrusted::read(top, Path::new(name), MOST_BYTES)?).ok()
}

/// What stands for a setting in a part that a person carries out.
const BY_HAND: &str = "run";

/// The files of hook managers that install git's hooks once for a clone, and the command for that.
const HOOK_MANAGERS: [(&str, &str); 4] = [
    (".pre-commit-config.yaml", "pre-commit install"),
    ("lefthook.yml", "lefthook install"),
    ("lefthook.yaml", "lefthook install"),
    (".lefthook.yml", "lefthook install"),
];

/// The hooks that husky is used for most.
const HUSKY: [&str; 4] =
    [".husky/pre-commit", ".husky/commit-msg", ".husky/pre-push", ".husky/prepare-commit-msg"];

/// Whether a hook in this directory calls the program of a command.
fn calls(hooks: &Path, command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or(command);
    let names = ["pre-commit", "commit-msg", "pre-push", "prepare-commit-msg"];
    names.iter().any(|name| text_of(hooks, name).is_some_and(|text| text.contains(program)))
}

/// The settings that a proposal can have commands for.
const SET_UP: &str = "setup.run";
const CHECKS: &str = "checks.commands";

/// Files of a Python project that name the tools which it is tested with.
const PYTHON_FILES: [&str; 6] = [
    "pyproject.toml",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
];

/// The rules, over whatever gives the text of a file by its name.
fn propose(read: &dyn Fn(&str) -> Option<String>, has_place: bool) -> Proposal {
    let part = |setting: &str, value: &str, because: String| ProposedPart {
        setting: setting.to_owned(),
        value: value.to_owned(),
        because,
    };
    let package = read("package.json").and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let has_pytest =
        PYTHON_FILES.iter().any(|name| read(name).is_some_and(|text| text.contains("pytest")));
    let node_lock = NODE.iter().find(|(lock, ..)| read(lock).is_some());
    let python_lock = PYTHON.iter().find(|(lock, ..)| read(lock).is_some());
    let mut parts = Vec::new();
    if let (Some((lock, install, _)), Some(_)) = (node_lock, &package) {
        // The first line of a lock file of yarn 1 says so; that version does not know the option of its successors.
        let is_old = *lock == "yarn.lock"
            && read(lock).is_some_and(|text| text.contains("yarn lockfile v1"));
        let install = if is_old { "yarn install --frozen-lockfile" } else { install };
        let because = format!("{lock} is here, and a new worktree has no node_modules");
        parts.push(part(SET_UP, install, because));
    }
    // Its hooks run from a directory that git ignores, so that no new worktree has it.
    let prepare =
        package.as_ref().and_then(|package| package.pointer("/scripts/prepare")?.as_str());
    let has_husky = prepare.is_some_and(|script| script.contains("husky"))
        || HUSKY.iter().any(|hook| read(hook).is_some());
    if has_husky && (node_lock.is_none() || package.is_none()) {
        let install = if package.is_some() { "npm install" } else { "npx husky" };
        let because = "the repository uses husky, whose hooks a new worktree has only once it is installed there";
        parts.push(part(SET_UP, install, because.to_owned()));
    }
    if let Some((lock, install, _)) = python_lock {
        let because = format!("{lock} is here, and a new worktree has no virtual environment");
        parts.push(part(SET_UP, install, because));
    }
    let test = package.as_ref().and_then(|package| package.pointer("/scripts/test")?.as_str());
    // npm writes such a script into every new package, and it fails.
    if test.is_some_and(|script| !script.contains("no test specified")) {
        let run = node_lock.map_or("npm test", |(_, _, run)| run);
        let because = "package.json has a test script".to_owned();
        parts.push(part(CHECKS, run, because));
    }
    if has_pytest {
        let run = python_lock.map_or("python3 -m pytest", |(_, _, run)| run);
        parts.push(part(CHECKS, run, "the project names pytest".to_owned()));
    }
    for (file, run) in [("Cargo.toml", "cargo test"), ("go.mod", "go test ./...")] {
        if read(file).is_some() {
            parts.push(part(CHECKS, run, format!("{file} is here")));
        }
    }
    let managed = HOOK_MANAGERS.iter().find(|(file, _)| read(file).is_some());
    parts.extend(managed.map(|(file, install)| {
        let because = format!(
            "{file} is here, and agents' commits run the hooks that are installed in this clone"
        );
        part(BY_HAND, install, because)
    }));
    let file = file_of(&parts);
    let crawler = package
        .as_ref()
        .and_then(real_path::named_by)
        .or(has_pytest.then_some("pytest"))
        .filter(|_| !has_place);
    parts.extend(crawler.map(|tool| {
        let because =
            format!("{tool} looks through the whole root, agents' worktrees in it included");
        part("git config agent.worktreeDir", BESIDE, because)
    }));
    Proposal {
        file,
        parts,
        worktree_dir: crawler.map(|_| BESIDE.to_owned()),
        is_written: false,
        before: None,
    }
}

/// The settings file with what was proposed.
fn file_of(parts: &[ProposedPart]) -> String {
    let section = |setting: &str, head: &str| {
        let of_it = parts.iter().filter(|part| part.setting == setting);
        let commands: Vec<&str> = of_it.map(|part| part.value.as_str()).collect();
        let list = || format!("{head} = {}\n", toml::Value::from(commands.clone()));
        (!commands.is_empty()).then(list)
    };
    let sections = [
        section(
            SET_UP,
            "# What a new worktree needs before an agent can work in it.\n[setup]\nrun",
        ),
        section(
            CHECKS,
            "# What has to succeed in the merged tree before work lands.\n[checks]\ncommands",
        ),
    ];
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::work::role::RoleSet;
    use crate::wire::file::settings_file;
    use std::collections::BTreeMap;

    fn of(files: &[(&str, &str)]) -> Proposal {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let proposal = propose(&|name| files.get(name).map(|text| (*text).to_owned()), false);
        // What is proposed has to be a file that the next command takes.
        let read = settings_file::parse(PATH, proposal.file.as_bytes());
        assert!(read.check(&RoleSet::built_in()).is_ok(), "{}", proposal.file);
        proposal
    }

    fn values(proposal: &Proposal) -> Vec<&str> {
        proposal.parts.iter().map(|part| part.value.as_str()).collect()
    }

    #[test]
    fn each_lock_file_gets_its_installation() {
        let package = (
            "package.json",
            r#"{"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "3"}}"#,
        );
        let check = |lock: (&str, &str), expected: [&str; 2]| {
            let found = of(&[package, lock]);
            assert_eq!(values(&found), [expected[0], expected[1], BESIDE], "{lock:?}");
        };
        check(("pnpm-lock.yaml", ""), ["pnpm install --frozen-lockfile", "pnpm test"]);
        check(("package-lock.json", ""), ["npm ci", "npm test"]);
        check(
            ("yarn.lock", "# yarn lockfile v1\n"),
            ["yarn install --frozen-lockfile", "yarn test"],
        );
        check(("yarn.lock", "__metadata:\n"), ["yarn install --immutable", "yarn test"]);
    }

    #[test]
    fn projects_in_other_languages_get_theirs() {
        assert_eq!(
            values(&of(&[("Cargo.toml", "[workspace]"), ("Cargo.lock", "")])),
            ["cargo test"]
        );
        assert_eq!(values(&of(&[("go.mod", "module x")])), ["go test ./..."]);
        let uv =
            of(&[("uv.lock", ""), ("pyproject.toml", "[dependency-groups]\ndev = [\"pytest\"]")]);
        assert_eq!(values(&uv), ["uv sync --frozen", "uv run pytest", BESIDE]);
        assert_eq!(uv.worktree_dir.as_deref(), Some(BESIDE));
    }

    #[test]
    fn a_hook_manager_is_set_up() {
        let package = ("package.json", r#"{"scripts": {"prepare": "husky"}}"#);
        assert_eq!(values(&of(&[package])), ["npm install"]);
        let both = [package, ("package-lock.json", ""), (".husky/pre-commit", "")];
        assert_eq!(values(&of(&both)), ["npm ci"]);
        assert_eq!(values(&of(&[(".husky/pre-commit", "")])), ["npx husky"]);
        for (file, command) in HOOK_MANAGERS {
            let found = of(&[(file, "")]);
            assert_eq!(values(&found), [command]);
            assert!(!found.has_settings());
        }
    }

    #[test]
    fn nothing_is_proposed_without_a_reason() {
        let npm = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(of(&[("package.json", npm)]), Proposal::default());
        assert_eq!(of(&[("package.json", "{")]), Proposal::default());
        assert_eq!(of(&[("README.md", "pytest")]), Proposal::default());
    }
}
