//! What an agent of a role has to report, and what is wrong with what it reported. Roles say it as data; nothing here
//! knows one of them.
//!
//! A report is fields of the final answer. An audit is a report that judges another agent: it names that agent and the tip
//! of its work, and one field is its verdict. Only [`standing`] says what an audit means for the agent that it is about.

use super::id::AgentId;
use crate::domain::value::named::named;
use crate::domain::value::oid::Oid;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many fields, values and tags a role may name, and how long each may be in bytes: they travel in every spawn commit.
const MOST: usize = 32;
const LONGEST: usize = 64;

/// A key as it is compared: without regard to case, and `-`, `_` and a blank are one.
pub fn key(text: &str) -> String {
    text.trim().to_lowercase().replace(['_', ' '], "-")
}

/// What a role asks of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRules {
    /// Fields that it has to have.
    pub required: Vec<String>,
    /// The values that a field may have.
    pub values: BTreeMap<String, Vec<String>>,
    /// Words one of which stands in brackets at each of the `findings`.
    pub tags: Vec<String>,
    /// What a field names.
    pub names: BTreeMap<String, NamedThing>,
    /// The field that is the verdict of an audit.
    pub audit: Option<String>,
}

named! {
    /// What a field can name.
    pub enum NamedThing {
        /// Another agent.
        Agent = "agent",
        /// The tip of that agent's branch, or the tree of its work with what is not committed.
        Tip = "tip",
        /// A commit, which holds the work of that agent.
        Commit = "commit",
    }
}

impl NamedThing {
    /// What it is called in a prompt.
    fn words(self) -> &'static str {
        match self {
            NamedThing::Agent => "the id of that agent",
            NamedThing::Tip => "the commit that you judged, or the tree of uncommitted work",
            NamedThing::Commit => "the commit that holds the work",
        }
    }
}

named! {
    /// What an audit says.
    pub enum AuditVerdict {
        /// The work is good.
        Pass = "pass",
        /// It must not land.
        Fail = "fail",
        /// That could not be told.
        Inconclusive = "inconclusive",
    }
}

impl ReportRules {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == ReportRules::default()
    }

    /// These rules on top of inherited ones. A role narrows what it inherits, so fields add up, and of values and tags only
    /// some of the inherited ones may be left.
    ///
    /// # Errors
    /// One sentence for each rule that is broken.
    pub fn narrowing(&self, inherited: &ReportRules) -> Result<ReportRules, Vec<String>> {
        let mut problems = Vec::new();
        let mut rules = inherited.clone();
        for name in &self.required {
            if !rules.required.iter().any(|known| key(known) == key(name)) {
                rules.required.push(name.clone());
            }
        }
        let is_some_of =
            |own: &[String], theirs: &[String]| own.iter().all(|it| theirs.contains(it));
        for (name, own) in &self.values {
            let known = rules.values.keys().find(|known| key(known) == key(name)).cloned();
            let theirs = known.as_ref().and_then(|known| rules.values.get(known));
            // A role that extends another may narrow it only; see `domain::role`.
            if theirs.is_some_and(|theirs| !is_some_of(own, theirs)) {
                problems.push(format!(
                    "`report.values.{name}` allows a value that the inherited role does not"
                ));
            }
            rules.values.insert(known.unwrap_or_else(|| name.clone()), own.clone());
        }
        if !self.tags.is_empty() {
            if !rules.tags.is_empty() && !is_some_of(&self.tags, &rules.tags) {
                problems
                    .push("`report.tags` has a tag that the inherited role does not".to_owned());
            }
            rules.tags.clone_from(&self.tags);
        }
        for (name, own) in &self.names {
            let known = rules.names.iter().find(|(known, _)| key(known) == key(name));
            if known.is_some_and(|(_, theirs)| theirs != own) {
                problems.push(format!(
                    "`report.names.{name}` names something else in the inherited role"
                ));
            }
            if known.is_none() {
                rules.names.insert(name.clone(), *own);
            }
        }
        match (&self.audit, &inherited.audit) {
            (Some(own), Some(theirs)) if key(own) != key(theirs) => {
                problems.push("`report.audit` is another field in the inherited role".to_owned());
            }
            (Some(own), _) => rules.audit = Some(own.clone()),
            (None, _) => {}
        }
        problems.extend(rules.problems());
        if problems.is_empty() { Ok(rules) } else { Err(problems) }
    }

    /// What is wrong with the rules themselves.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let keys = self.required.iter().chain(self.values.keys()).chain(self.names.keys());
        for name in keys {
            if name.trim().is_empty() || name.len() > LONGEST || !name.chars().all(is_name) {
                problems
                    .push(format!("`{}` is no name of a field of a report", name.escape_debug()));
            }
        }
        for word in self.tags.iter().chain(self.values.values().flatten()) {
            if plain(word).is_empty() || word.len() > LONGEST || word.contains(['\n', '[', ']']) {
                problems
                    .push(format!("`{}` is no value and no tag of a report", word.escape_debug()));
            }
        }
        let lengths = [self.required.len(), self.values.len(), self.names.len(), self.tags.len()];
        if lengths.into_iter().chain(self.values.values().map(Vec::len)).any(|length| length > MOST)
        {
            problems.push(format!("`report` has a list of more than {MOST}"));
        }
        if self.values.values().any(Vec::is_empty) {
            problems.push("`report.values` has a field that may have no value".to_owned());
        }
        if let Some(field) = &self.audit {
            let known = |word: &String| AuditVerdict::parse(&word.to_lowercase()).is_some();
            let verdicts = self.values.iter().find(|(name, _)| key(name) == key(field));
            if !verdicts.is_some_and(|(_, words)| words.iter().all(known)) {
                problems.push(format!("`report.audit` names `{field}`, whose values have to be some of PASS, FAIL and INCONCLUSIVE"));
            }
            if [NamedThing::Agent, NamedThing::Tip].iter().any(|kind| self.naming(*kind).is_none())
            {
                problems.push(
                    "`report.audit` needs a field that names an agent and one that names its tip"
                        .to_owned(),
                );
            }
        }
        problems
    }

    /// The field that names such a thing.
    pub fn naming(&self, kind: NamedThing) -> Option<&str> {
        let named = self.names.iter().find(|(_, names)| **names == kind);
        named.map(|(name, _)| name.as_str())
    }

    /// Every field that a report has to have, or may, with what it may hold, as lines of a prompt.
    pub fn lines<'a>(&'a self, more: &'a [String]) -> Vec<String> {
        let bound = |name: &String| {
            let is_it = |known: &&String| key(known) == key(name);
            let values = self.values.keys().find(is_it).and_then(|known| self.values.get(known));
            let named = self.names.keys().find(is_it).and_then(|known| self.names.get(known));
            if let Some(values) = values {
                return Some(values.join(" | "));
            }
            if key(name) == FINDINGS && !self.tags.is_empty() {
                return Some(format!("none, or each with one of [{}]", self.tags.join("], [")));
            }
            named.map(|named| named.words().to_owned())
        };
        let line = |name: &String| match bound(name) {
            Some(bound) => format!("{name}: {bound}"),
            None => name.clone(),
        };
        let is_in = |list: &[String], name: &String| list.iter().any(|one| key(one) == key(name));
        let new = more.iter().filter(|name| !is_in(&self.required, name));
        let tagged = Some(FINDINGS.to_owned()).filter(|_| !self.tags.is_empty());
        let others: BTreeSet<&String> =
            self.values.keys().chain(self.names.keys()).chain(&tagged).collect();
        let others = others.into_iter().filter(|it| !is_in(&self.required, it) && !is_in(more, it));
        let others: Vec<String> = others.map(|name| line(name) + " (if you have it)").collect();
        self.required.iter().chain(new).map(line).chain(others).collect()
    }
}

/// A value without what Markdown puts around it.
pub fn plain(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '"' | '\''))
}

/// The field whose findings carry tags.
pub const FINDINGS: &str = "findings";

/// What an agent reported, as far as rules ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleReport {
    /// The values of each field, by its key.
    pub fields: BTreeMap<String, BTreeSet<String>>,
    /// How many tags stand in it.
    pub tags: usize,
    /// How many findings it lists.
    pub listed: usize,
    /// What is wrong with what its fields name.
    pub dangling: Vec<Dangling>,
}

/// A field that does not name what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The field.
    pub field: String,
    /// What it should name.
    pub names: NamedThing,
    /// Why it does not, as the end of a sentence that begins with the field.
    pub why: String,
}

impl RoleReport {
    /// The one value of a field; `None` where there is none, or several.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.get(&key(name))?.iter().map(|value| plain(value));
        let first = values.next()?;
        // A field that is given twice with different values says nothing that could be relied upon.
        values.all(|other| other == first).then_some(first)
    }

    /// The verdict of an audit; `None` where the report is none.
    pub fn verdict(&self, rules: &ReportRules) -> Option<AuditVerdict> {
        AuditVerdict::parse(&self.value(rules.audit.as_ref()?)?.to_lowercase())
    }
}

/// An audit as the row of the audited agent has it, or what a person said of those before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audited {
    /// The agent that audited; absent where a person accepts the work in spite of the audits before.
    pub auditor: Option<AgentId>,
    /// The number of the run in which it said so.
    pub run: Option<u32>,
    /// What it says.
    pub verdict: AuditVerdict,
    /// The tip of the audited branch.
    pub tip: Oid,
    /// The tree that was audited.
    pub tree: Oid,
    /// What was found, or why it is accepted.
    pub reason: String,
}

/// The audit that forbids this tree to land. A failed one stands against all work of the agent until a person accepts it or a
/// later audit passes exactly what would land. The tree that failed is not made good by another opinion of it.
pub fn standing(audits: &[Audited], tree: Oid) -> Option<&Audited> {
    // The word of a person settles what came before it, and nothing that comes after.
    let open = audits.rsplit(|audit| audit.auditor.is_none()).next()?;
    let mut failed = open.iter().rev().filter(|audit| audit.verdict == AuditVerdict::Fail);
    let last = failed.clone().next()?;
    // Only an audit after the last failure can clear it: an earlier one did not know of it.
    let after = open.iter().rev().take_while(|audit| audit.verdict != AuditVerdict::Fail);
    let mut passed = after.filter(|audit| audit.verdict == AuditVerdict::Pass);
    let is_passed = passed.any(|audit| audit.tree == tree);
    let has_failed = failed.any(|audit| audit.tree == tree);
    (!is_passed || has_failed).then_some(last)
}

#[cfg(test)]
pub(in crate::domain) mod tests {
    use super::*;

    /// Those of an auditor, also for the tests of `judge`.
    pub(in crate::domain) fn rules() -> ReportRules {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        ReportRules {
            required: words(&["audited-agent", "body-sha", "findings", "verdict"]),
            values: BTreeMap::from([("verdict".to_owned(), words(&["PASS", "FAIL"]))]),
            tags: words(&["HIGH", "LOW"]),
            names: BTreeMap::from([
                ("audited-agent".to_owned(), NamedThing::Agent),
                ("body-sha".to_owned(), NamedThing::Tip),
            ]),
            audit: Some("verdict".to_owned()),
        }
    }

    #[test]
    fn a_role_narrows_what_it_inherits() {
        let own = |change: fn(&mut ReportRules)| {
            let mut rules = ReportRules::default();
            change(&mut rules);
            rules.narrowing(&self::rules())
        };
        let more = own(|rules| rules.required.push("coverage".into())).expect("sound");
        assert_eq!(more.required.len(), 5);
        assert!(own(|rules| rules.tags.push("HIGH".into())).is_ok());
        assert!(own(|rules| rules.tags.push("NIT".into())).is_err());
        assert!(
            own(|rules| drop(rules.values.insert("Verdict".into(), vec!["MAYBE".into()]))).is_err()
        );
        assert!(
            own(|rules| {
                rules.names.insert("body-sha".into(), NamedThing::Commit);
            })
            .is_err()
        );
        assert!(own(|rules| rules.audit = Some("outcome".into())).is_err());
        assert!(own(|rules| rules.required.push("a: b".into())).is_err());
        let alone = ReportRules { audit: Some("verdict".into()), ..ReportRules::default() };
        assert_eq!(alone.narrowing(&ReportRules::default()).expect_err("unsound").len(), 2);
    }

    #[test]
    fn a_failed_audit_stands_until_a_person_or_a_later_audit_of_a_later_tree() {
        let tree = |byte| Oid::from_bytes([byte; 20]);
        let auditor = AgentId::from_spawn_commit(tree(9));
        for (life, now, stands) in [
            ("", 1, false),
            ("P1", 1, false),
            ("I1", 1, false),
            ("F1", 1, true),
            ("F1", 2, true),
            ("F1 P2", 2, false),
            // What is not what was passed, and what failed and was put back.
            ("F1 P2", 3, true),
            ("F1 P2", 1, true),
            // Another opinion of the same work.
            ("F1 P1", 1, true),
            ("P1 F1", 1, true),
            ("P2 F1", 2, true),
            ("F1 P2 F2", 2, true),
            ("F1 F2 P3", 3, false),
            ("F1 A1", 1, false),
            ("F1 A1", 2, false),
            ("F1 A1 F2", 2, true),
            ("A1 F1", 1, true),
        ] {
            let audits: Vec<Audited> = life
                .split_whitespace()
                .map(|word| Audited {
                    auditor: (!word.starts_with('A')).then_some(auditor),
                    run: None,
                    verdict: match &word[..1] {
                        "F" => AuditVerdict::Fail,
                        "I" => AuditVerdict::Inconclusive,
                        _ => AuditVerdict::Pass,
                    },
                    tip: tree(0),
                    tree: tree(word[1..].parse().expect("a number")),
                    reason: String::new(),
                })
                .collect();
            assert_eq!(standing(&audits, tree(now)).is_some(), stands, "{life} at {now}");
        }
    }

    #[test]
    fn a_prompt_tells_all_that_binds_a_report() {
        let mut own = rules();
        own.required.retain(|name| name != "findings" && name != "verdict");
        own.values.insert("mood".to_owned(), vec!["good".to_owned()]);
        let lines = own.lines(&["Verdict".to_owned(), "more".to_owned()]);
        let expected = [
            "audited-agent: the id of that agent",
            "body-sha: the commit that you judged, or the tree of uncommitted work",
            "Verdict: PASS | FAIL",
            "more",
            "findings: none, or each with one of [HIGH], [LOW] (if you have it)",
            "mood: good (if you have it)",
        ];
        assert_eq!(lines, expected);
    }
}
