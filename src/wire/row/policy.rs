//! The policy that binds an agent: `git-agent.policy/1`.
//!
//! It is what `verify` reads instead of anything in the agent's tree, so it holds all that decides:
//! role, scope, checks, base and where the bundle is. It holds no task text, briefing or prompt.
//!
//! It is written twice. The spawn commit carries it in a header, without the hash of the specification: that hash
//! depends on the agent's id, and the id on the commit. The ledger names a blob that holds all of it. The agent's
//! id is made from the spawn commit, so no rewrite of the ledger gives an agent another policy, and the agent's branch alone
//! is enough to judge it. Spawn commits of earlier versions have no header; they name the digest of the policy
//! in a trailer, or nothing.

use crate::domain::boundary::scope::{CaseRule, Opened};
use crate::domain::judge::evidence::TestBound;
use crate::domain::life::report::key;
use crate::domain::value::named::hex;
use crate::domain::{Glob, Oid, ReportRules, RequiredChecks, Scope, ScopeLanguage};
use crate::wire::output::answer::ReportTable;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.policy/1";

/// The trailer of the spawn commit that holds [`Policy::digest`].
pub const TRAILER: &str = "Agent-Policy";

/// The header of the spawn commit that holds [`Policy::header`].
pub const HEADER: &str = "agent-policy";

/// What was decided at spawn and holds until the end.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// [`SCHEMA`].
    pub schema: String,
    /// The role's name.
    pub role: String,
    /// The agent type that the host is asked for.
    pub subagent_type: String,
    /// `worktree` or `shared`.
    pub isolation: String,
    /// Whether the agent may change files.
    pub edits: bool,
    /// Whether the agent may spawn agents.
    pub may_spawn: bool,
    /// The globs it may touch.
    pub whitelist: Vec<String>,
    /// The globs it must not touch: the task's united with the defaults, sorted.
    pub denylist: Vec<String>,
    /// For globs of the denylist the globs of the whitelist that win over them. A version that does not know this denies all that the
    /// denylist has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub opened: BTreeMap<String, Vec<String>>,
    /// Commands that `verify` runs in the merged tree.
    pub checks: Vec<String>,
    /// The commit it started from.
    pub base_oid: String,
    /// The ref that was named as base, when one was.
    pub base_ref: Option<String>,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// The bundle's directory, relative to the worktree; of a shared agent relative to the root, and in it a directory of its own.
    /// Absent for a shared agent of a bare repository or of a version before 0.3.
    pub bundle_dir: Option<String>,
    /// SHA-256 of the `spec.md` that spawn wrote, in hex; empty where only the spawn commit is known.
    pub spec_sha: String,
    /// SHA-256 of the task without what it says in confidence, in hex; absent where an earlier version spawned.
    pub task_sha: Option<String>,
    /// How long a run may take, in milliseconds, where an amendment says so.
    pub timeout_ms: Option<u64>,
    /// How many tests have to pass in the checks, where any have to.
    pub min_tests: Option<u32>,
    /// Whether dependencies have to stay as they are.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_dep_bump: bool,
    /// Fields that the agent's final answer has to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report_fields: Vec<String>,
    /// What the role asks of that answer, where it asks for anything.
    pub report: Option<ReportTable>,
    /// The commit whose settings and roles hold, where others wrote the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_oid: Option<String>,
    /// The commit whose `[[project]]`s hold, where an amendment took those of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects_oid: Option<String>,
    /// The branch of others that the work lands back onto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lands_on: Option<LandsOn>,
}

/// Where the work of an agent goes that works on a branch of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandsOn {
    /// The repository of that branch, such as `github.com/a/b`; empty where it is gone.
    pub repository: String,
    /// The full name of the branch there.
    pub branch: String,
    /// The repository of the remote that it was found by.
    pub beside: String,
}

impl LandsOn {
    /// Whether the branch is in the repository of someone else, who wrote what it holds.
    pub fn is_fork(&self) -> bool {
        self.repository != self.beside
    }
}

/// What is opened of a denylist, as [`Policy::opened`] has it.
pub fn recorded(opened: &Opened) -> BTreeMap<String, Vec<String>> {
    let entry = |(glob, by): (&Glob, &Vec<Glob>)| {
        let by = by.iter().map(ToString::to_string);
        (glob.to_string(), by.collect())
    };
    opened.iter().map(entry).collect()
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Policy {
    /// The bytes of the blob: one line of JSON, the same for the same policy.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, booleans and lists of strings always serialize.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// `sha256:` and 64 hex digits over [`Policy::terms`], less the keys that version 0.2.0 does not know: it computes the
    /// digest anew from what it has read, and would take an agent of ours for a forged one.
    pub fn digest(&self) -> String {
        let known = Policy {
            opened: BTreeMap::new(),
            task_sha: None,
            timeout_ms: None,
            min_tests: None,
            no_dep_bump: false,
            report_fields: Vec::new(),
            report: None,
            settings_oid: None,
            projects_oid: None,
            lands_on: None,
            ..self.terms()
        };
        format!("sha256:{}", hex(&Sha256::digest(known.to_bytes())))
    }

    /// The policy with what an amendment may change: scope, checks, whether a bundle is required, how long a run may take.
    #[must_use]
    pub fn amended_by(&self, amended: Policy) -> Policy {
        Policy {
            whitelist: amended.whitelist,
            denylist: amended.denylist,
            opened: amended.opened,
            checks: amended.checks,
            min_tests: amended.min_tests,
            bundle_required: amended.bundle_required,
            timeout_ms: amended.timeout_ms,
            projects_oid: amended.projects_oid,
            task_sha: amended.task_sha,
            ..self.clone()
        }
    }

    /// The policy without the hash of the specification: what is known before the agent has an id.
    #[must_use]
    pub fn terms(&self) -> Policy {
        Policy {
            // The specification names the agent, and the agent's id is made from the commit that
            // holds this.
            spec_sha: String::new(),
            ..self.clone()
        }
    }

    /// The value of the header that carries [`Policy::terms`]: one line of JSON.
    pub fn header(&self) -> String {
        // JSON of Unicode text is UTF-8, and line feeds inside of texts are escaped.
        let bytes = self.terms().to_bytes();
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    /// Reads the header of a spawn commit; `None` when it holds no policy of a version we know.
    pub fn from_header(value: &[u8]) -> Option<Policy> {
        // A header that claims a specification was not written by us, and what it claims is not
        // taken over.
        Policy::from_bytes(value).map(|policy| policy.terms())
    }

    /// The commit whose settings and roles hold, where that is not the base.
    pub fn settings(&self) -> Option<Oid> {
        self.settings_oid.as_deref().and_then(Oid::from_hex)
    }

    /// The commit whose `[[project]]`s hold.
    pub fn projects(&self) -> Option<Oid> {
        let amended = self.projects_oid.as_deref().and_then(Oid::from_hex);
        let base = || Oid::from_hex(&self.base_oid);
        amended.or_else(|| self.settings()).or_else(base)
    }

    /// Whether someone wrote the base who could not have pushed it.
    pub fn is_of_fork(&self) -> bool {
        self.lands_on.as_ref().is_some_and(LandsOn::is_fork)
    }

    /// Whitelist and denylist as globs.
    ///
    /// # Errors
    /// One sentence, for a glob that no version of ours would have recorded.
    pub fn globs(&self) -> Result<[Vec<Glob>; 2], String> {
        let parse = |globs: &[String]| -> Result<Vec<Glob>, String> {
            // A glob that cannot be read is an error and is not left out: less denylist would allow
            // more.
            globs.iter().map(|glob| Glob::parse(glob)).collect()
        };
        Ok([parse(&self.whitelist)?, parse(&self.denylist)?])
    }

    /// The scope that binds.
    ///
    /// # Errors
    /// As [`Policy::globs`].
    pub fn scope(&self, case: CaseRule<'_>) -> Result<Scope, String> {
        let [whitelist, denylist] = self.globs()?;
        Scope::with_case(&whitelist, &denylist, &self.opened_globs()?, case)
    }

    /// All paths that the scope allows.
    ///
    /// # Errors
    /// As [`Policy::globs`].
    pub fn language(&self) -> Result<ScopeLanguage, String> {
        let [whitelist, denylist] = self.globs()?;
        Ok(ScopeLanguage::opening(&whitelist, &denylist, &self.opened_globs()?))
    }

    /// Globs of the denylist, each with those of the whitelist that win over it.
    ///
    /// # Errors
    /// As [`Policy::globs`].
    pub fn opened_globs(&self) -> Result<Opened, String> {
        let entry = |(denied, by): (&String, &Vec<String>)| {
            let by = by.iter().map(|glob| Glob::parse(glob));
            Ok((Glob::parse(denied)?, by.collect::<Result<_, String>>()?))
        };
        self.opened.iter().map(entry).collect()
    }

    /// The globs of the whitelist that win over some of the denylist, each once.
    pub fn opened_by(&self) -> Vec<String> {
        let globs: BTreeSet<&String> = self.opened.values().flatten().collect();
        globs.into_iter().cloned().collect()
    }

    /// The denylist without what is opened in part: for a comparison that may find too much, and for a spawn, which denies control
    /// files anew.
    pub fn wholly_denied(&self) -> Vec<String> {
        let globs = self.denylist.iter();
        let wholly = globs.filter(|glob| !self.opened.contains_key(*glob));
        wholly.cloned().collect()
    }

    /// The denylist in words.
    pub fn denied_in_words(&self) -> Vec<String> {
        let quoted = |glob: &String| format!("`{glob}`");
        let words = |glob| match self.opened.get(glob) {
            None => quoted(glob),
            Some(by) => {
                let by: Vec<_> = by.iter().map(quoted).collect();
                format!("{}, except {}", quoted(glob), by.join(", "))
            }
        };
        self.denylist.iter().map(words).collect()
    }

    /// What has to hold in the merged tree.
    pub fn required_checks(&self) -> RequiredChecks {
        RequiredChecks {
            commands: self.checks.clone(),
            test_bounds: TestBound::new(&self.checks, self.min_tests).into_iter().collect(),
            ..RequiredChecks::default()
        }
    }

    /// Whether anything is asked of the agent's final answer.
    pub fn asks_for_a_report(&self) -> bool {
        self.report.is_some() || !self.report_fields.is_empty()
    }

    /// What the agent's final answer has to hold, by its task and by its role.
    pub fn report_rules(&self) -> ReportRules {
        let mut rules =
            self.report.as_ref().and_then(|table| table.rules().ok()).unwrap_or_default();
        for name in &self.report_fields {
            // The answer's keys are compared without case and dashes, so one field would be asked
            // for twice.
            if !rules.required.iter().any(|known| key(known) == key(name)) {
                rules.required.push(name.clone());
            }
        }
        rules
    }

    /// Reads the blob; `None` when it holds no policy of a version we know.
    pub fn from_bytes(bytes: &[u8]) -> Option<Policy> {
        let policy: Policy = serde_json::from_slice(bytes).ok()?;
        // Rules that this version does not know are not left out: what they ask for could not be judged.
        let is_known = policy.report.as_ref().is_none_or(|table| table.rules().is_ok());
        (policy.schema == SCHEMA && is_known).then_some(policy)
    }
}
