//! Roles: the permission profiles that a task chooses from.
//!
//! A repository offers the built-in roles and those that its base commit defines. A definition is a
//! [`RoleDraft`]; [`RoleSet::with`] fills in what it inherits and checks the outcome. One rule keeps
//! inheritance safe: **a role may narrow what it inherits, and every loosening is named in `relaxes`**,
//! so that one line of a file says what it gives away.
//!
//! A definition that breaks a rule spoils its own name and the roles that extend it, nothing else:
//! [`RoleSet::require`] refuses those and serves the rest.

mod resolve;

use crate::domain::life::event::Isolation;
use crate::domain::life::report::{NamedThing, ReportRules};
use crate::domain::paths::glob::Glob;
use crate::domain::value::named::named;
use crate::error::{Code, Error, Remedy, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// A permission profile with everything inherited already filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// `^[a-z][a-z0-9-]{0,63}$`
    pub name: String,
    /// The agent type that a host is asked for.
    pub subagent_type: String,
    /// Whether its agents get a worktree. A role that edits always has one.
    pub isolation: Isolation,
    /// Whether a task may name it.
    pub spawnable: bool,
    /// Whether its agents may change files.
    pub edits: bool,
    /// What its agents may run.
    pub shell: Shell,
    /// Whether its agents may spawn agents.
    pub may_spawn: bool,
    /// Globs united with every task's denylist; sorted.
    pub default_denylist: Vec<Glob>,
    /// The role that takes over when this one is finished.
    pub handoff: Option<String>,
    /// What its agents have to report.
    pub report: ReportRules,
    /// One sentence about it, for `git agent roles`.
    pub description: String,
    /// What it is told beyond [`Role::rules`]; empty when that says all.
    pub preamble: String,
    /// Where it is defined: the path of a file in the base commit, or the section of git's
    /// configuration that adjusts it; `None` when it is built in.
    pub defined_in: Option<String>,
}

impl Role {
    /// What its agents may do, as sentences for the prompt. The first ones follow from the fields
    /// that bind, so that the text cannot promise anything else.
    pub fn rules(&self) -> Vec<&str> {
        let edits = if self.edits {
            "Create and change only files that are in scope."
        } else {
            "Read only: create, change and delete no file of the repository."
        };
        let spawns = if self.may_spawn {
            "You may let other agents do parts of the task, and you land their work on your branch: \
             `git-agent spawn -m <task> --scope <glob>`, `git-agent run <agent> --host <host> --background`, \
             `git-agent wait`, `git-agent diff <agent>`, `git-agent verify <agent>`, `git-agent train <agent>…`. They may do no \
             more than you, and start from what you have committed."
        } else {
            "Spawn no further agents."
        };
        let mut rules = vec![edits, self.shell.rule(), spawns];
        if !self.preamble.is_empty() {
            rules.push(&self.preamble);
        }
        rules
    }
}

named! {
    /// How much of a shell a role's agents have; each level contains the ones before.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Shell {
        /// None.
        None = "none",
        /// Commands that only look: listing, searching, printing.
        ReadOnly = "read-only",
        /// Those, and the project's own builds, tests, linters and formatters.
        TestRunners = "test-runners",
        /// Any command.
        Any = "any",
    }
}

impl Shell {
    fn rule(self) -> &'static str {
        match self {
            Shell::None => "Run no shell commands.",
            Shell::ReadOnly => {
                "Run only shell commands that read, such as ls, cat, find and rg; redirect nothing into files."
            }
            Shell::TestRunners => {
                "Run only shell commands that read, and the project's own builds, tests, linters and formatters."
            }
            Shell::Any => "Run the shell commands that the task needs.",
        }
    }
}

/// What a definition says. Absent keys are inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleDraft {
    /// The name that it is stored under.
    pub name: String,
    /// Where it stands, for people: its path in the base commit, or a section of git's configuration.
    pub path: String,
    /// The role it builds on.
    pub extends: Option<String>,
    /// What it inherits and lifts: globs of the inherited denylist, and the words `edits`, `shell`
    /// and `may_spawn`.
    pub relaxes: Vec<String>,
    /// As [`Role::subagent_type`].
    pub subagent_type: Option<String>,
    /// As [`Role::isolation`].
    pub isolation: Option<Isolation>,
    /// As [`Role::spawnable`].
    pub spawnable: Option<bool>,
    /// As [`Role::edits`].
    pub edits: Option<bool>,
    /// As [`Role::shell`].
    pub shell: Option<Shell>,
    /// As [`Role::may_spawn`].
    pub may_spawn: Option<bool>,
    /// Globs added to the inherited ones.
    pub default_denylist: Vec<Glob>,
    /// As [`Role::handoff`].
    pub handoff: Option<String>,
    /// As [`Role::description`].
    pub description: Option<String>,
    /// As [`Role::preamble`].
    pub preamble: Option<String>,
    /// Added to what is inherited.
    pub report: ReportRules,
}

/// A role that is defined and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidRole {
    /// The name that it is stored under; not necessarily a valid one.
    pub name: String,
    /// Where it stands, for people: its path in the base commit, or a section of git's configuration.
    #[serde(rename = "source")]
    pub path: String,
    /// What is wrong, one sentence each, with the place where there is one.
    pub problems: Vec<String>,
}

/// The roles that a repository offers: the built-in ones and those its base commit defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleSet {
    roles: BTreeMap<String, Role>,
    invalid: BTreeMap<String, InvalidRole>,
}

impl RoleSet {
    /// The roles that every repository has.
    pub fn built_in() -> RoleSet {
        RoleSet::of(built_in_roles())
    }

    /// A set of roles that are complete already.
    pub fn of(roles: Vec<Role>) -> RoleSet {
        RoleSet {
            roles: roles.into_iter().map(|role| (role.name.clone(), role)).collect(),
            invalid: BTreeMap::new(),
        }
    }

    /// This set and the roles that `drafts` define on top of it. Drafts that break a rule join
    /// `unreadable` among the invalid ones; an invalid definition hides a role of the same name,
    /// because a redefinition is meant to differ from the original.
    #[must_use]
    pub fn with(mut self, drafts: Vec<RoleDraft>, unreadable: Vec<InvalidRole>) -> RoleSet {
        let (resolved, broken) = resolve::resolve(&self.roles, drafts, &unreadable);
        self.roles.extend(resolved.into_iter().map(|role| (role.name.clone(), role)));
        for invalid in unreadable.into_iter().chain(broken) {
            // A built-in role of that name must not take its place: the repository meant another
            // one.
            self.roles.remove(&invalid.name);
            self.invalid.insert(invalid.name.clone(), invalid);
        }
        self
    }

    /// The role of that name.
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// All roles, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// The definitions that cannot be used, by name.
    pub fn invalid(&self) -> impl Iterator<Item = &InvalidRole> {
        self.invalid.values()
    }

    /// The role that a task names, spawnable or not.
    ///
    /// # Errors
    /// `role-invalid` with every problem of its definition, or `role-unknown` with the nearest name.
    pub fn require(&self, name: &str) -> Result<&Role> {
        if let Some(role) = self.get(name) {
            return Ok(role);
        }
        if let Some(invalid) = self.invalid.get(name) {
            let what = format!("role `{name}` cannot be used: {} is invalid", invalid.path);
            let mut error = Error::new(Code::RoleInvalid, what);
            for problem in &invalid.problems {
                error = error.detail(problem);
            }
            return Err(error.remedy("to see all roles", Remedy::Roles));
        }
        let error =
            Error::new(Code::RoleUnknown, format!("there is no role `{}`", name.escape_debug()));
        let near = self
            .roles
            .keys()
            .map(|known| (strsim::damerau_levenshtein(known, name), known))
            .min()
            // Names further apart than this are different words and no slips.
            .filter(|(distance, _)| *distance <= 3);
        let error = match near {
            Some((_, known)) => error.hint(format!("did you mean `{known}`?")),
            None => error,
        };
        Err(error.remedy("to see all roles", Remedy::Roles))
    }

    /// The role that a task names, if an agent may have it.
    ///
    /// # Errors
    /// As [`RoleSet::require`], and `role-not-spawnable`.
    pub fn require_spawnable(&self, name: &str) -> Result<&Role> {
        let role = self.require(name)?;
        if role.spawnable {
            return Ok(role);
        }
        let what = format!("role `{name}` is not spawnable: its work stays with the orchestrator");
        Err(Error::new(Code::RoleNotSpawnable, what)
            .remedy("to see which roles are spawnable", Remedy::Roles))
    }
}

/// Whether a text is `^[a-z][a-z0-9-]{0,63}$`.
pub fn is_role_name(text: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(part)
}

// The roles that every repository has, as data.

/// What no agent touches unless its role relaxes it: credentials, build output, and the directories
/// of other tools.
pub const DEFAULT_DENYLIST: &[&str] = &[
    "secrets/**",
    "**/*.env",
    "**/.env",
    "**/.env.*",
    "target/**",
    "node_modules/**",
    ".git/**",
    "dist/**",
    ".keisei/**",
];

/// [`DEFAULT_DENYLIST`] as globs, sorted.
pub fn default_denylist() -> Vec<Glob> {
    let mut globs: Vec<Glob> =
        DEFAULT_DENYLIST.iter().filter_map(|text| Glob::parse(text).ok()).collect();
    globs.sort_unstable();
    globs
}

/// The four tiers, each adding one thing to the one before, and the three roles around a merge.
fn built_in_roles() -> Vec<Role> {
    use Isolation::{Shared, Worktree};
    vec![
        Role {
            description: "Reads and answers; changes and runs nothing".to_owned(),
            preamble: "Answer with what you found and where: file and line for every claim."
                .to_owned(),
            ..role("read-only", "researcher", Shared, Shell::None)
        },
        Role {
            description: "Explores with a shell that only reads".to_owned(),
            preamble: "Answer with what you found and where: file and line for every claim."
                .to_owned(),
            ..role("explorer", "researcher", Shared, Shell::ReadOnly)
        },
        Role {
            description: "Changes one area in a worktree of its own and runs the tests".to_owned(),
            preamble:
                "Stay within one area: where the task needs a change outside it, stop and say so."
                    .to_owned(),
            ..role(
                "edit-local",
                "code-implementer",
                Worktree,
                Shell::TestRunners,
            )
        },
        Role {
            description: "Changes several areas and what they share, and runs the tests".to_owned(),
            preamble:
                "Others build on the files you share with them: keep manifests, interfaces and \
                       formats compatible unless the task says otherwise."
                    .to_owned(),
            ..role(
                "edit-shared",
                "code-implementer",
                Worktree,
                Shell::TestRunners,
            )
        },
        Role {
            description: "Judges another agent's work and hands it on to the merger".to_owned(),
            preamble: "Tag every finding [HIGH], [MEDIUM] or [LOW]; `findings` is their number or `none`. `body-sha` \
                       is the tip of its branch, or the tree of the work where that is not committed, with all its \
                       digits; a verdict names both as `tip` and `tree`."
                .to_owned(),
            report: ReportRules {
                required: words(&["audited-agent", "body-sha", "findings", "verdict"]),
                values: BTreeMap::from([(
                    "verdict".to_owned(),
                    words(&["PASS", "FAIL", "INCONCLUSIVE"]),
                )]),
                tags: words(&["HIGH", "MEDIUM", "LOW"]),
                names: BTreeMap::from([
                    ("audited-agent".to_owned(), NamedThing::Agent),
                    ("body-sha".to_owned(), NamedThing::Tip),
                ]),
                audit: Some("verdict".to_owned()),
            },
            handoff: Some("merger".to_owned()),
            ..role("auditor", "critic", Shared, Shell::ReadOnly)
        },
        Role {
            description: "Prepares a merge: resolves conflicts and proves the result".to_owned(),
            preamble: "The orchestrator lands what you prepare. `FORK_AGENT_ID` is the agent whose work you merge, and \
                       `COMMIT_SHA` the commit that holds it. Take the work over as commits of your own, by a squash or \
                       by cherry-picking: those of another agent are rejected on your branch."
                .to_owned(),
            report: ReportRules {
                required: words(&[
                    "FORK_AGENT_ID",
                    "MERGE_METHOD",
                    "COMMIT_SHA",
                    "LEDGER_STATUS",
                ]),
                values: BTreeMap::from([
                    (
                        "LEDGER_STATUS".to_owned(),
                        words(&["done", "merged", "failed", "still-running", "running"]),
                    ),
                    (
                        "MERGE_METHOD".to_owned(),
                        words(&["merge-no-ff", "no-ff", "ff-only", "squash", "rebase", "cherry-pick"]),
                    ),
                ]),
                names: BTreeMap::from([
                    ("FORK_AGENT_ID".to_owned(), NamedThing::Agent),
                    ("COMMIT_SHA".to_owned(), NamedThing::Commit),
                ]),
                ..ReportRules::default()
            },
            ..role("merger", "infra-implementer", Worktree, Shell::TestRunners)
        },
        Role {
            description: "Branches, commits, merges and pushes; the orchestrator alone".to_owned(),
            spawnable: false,
            ..role("git-ops", "infra-implementer", Shared, Shell::Any)
        },
    ]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A spawnable role with the default denylist; a worktree of its own is what makes it edit.
fn role(name: &str, subagent_type: &str, isolation: Isolation, shell: Shell) -> Role {
    Role {
        name: name.to_owned(),
        subagent_type: subagent_type.to_owned(),
        isolation,
        spawnable: true,
        edits: isolation == Isolation::Worktree,
        shell,
        may_spawn: false,
        default_denylist: default_denylist(),
        handoff: None,
        report: ReportRules::default(),
        description: String::new(),
        preamble: String::new(),
        defined_in: None,
    }
}
