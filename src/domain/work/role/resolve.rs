//! From drafts to roles: follows `extends` and applies each draft to what it builds on.

use super::{InvalidRole, Role, RoleDraft, Shell, default_denylist, is_role_name};
use crate::domain::life::event::Isolation;
use crate::domain::life::report::ReportRules;
use crate::domain::paths::glob::Glob;
use std::collections::{BTreeMap, BTreeSet};

/// How long a chain of `extends` may be.
const MAX_DEPTH: usize = 16;

/// Everything that has a name while drafts are resolved.
struct Names<'a> {
    existing: &'a BTreeMap<String, Role>,
    drafts: BTreeMap<&'a str, &'a RoleDraft>,
    unreadable: BTreeSet<&'a str>,
}

/// Resolves `drafts` on top of `existing` roles. Every draft comes back as one or the other.
pub(super) fn resolve(
    existing: &BTreeMap<String, Role>,
    drafts: Vec<RoleDraft>,
    unreadable: &[InvalidRole],
) -> (Vec<Role>, Vec<InvalidRole>) {
    let names = Names {
        existing,
        drafts: drafts.iter().map(|draft| (draft.name.as_str(), draft)).collect(),
        unreadable: unreadable.iter().map(|role| role.name.as_str()).collect(),
    };
    let mut resolved = Vec::new();
    let mut broken = Vec::new();
    for draft in names.drafts.values() {
        match names.resolve(draft) {
            Ok(role) => resolved.push(role),
            Err(problems) => broken.push(InvalidRole {
                name: draft.name.clone(),
                path: draft.path.clone(),
                problems,
            }),
        }
    }
    (resolved, broken)
}

impl<'a> Names<'a> {
    /// One draft with its ancestors applied, the oldest first.
    fn resolve(&self, draft: &'a RoleDraft) -> Result<Role, Vec<String>> {
        let (root, ancestors) = self.ancestors(draft).map_err(|problem| vec![problem])?;
        let mut parent = root.cloned();
        for ancestor in ancestors.into_iter().rev() {
            let role = self.apply(parent.as_ref(), ancestor).map_err(|problems| {
                vec![format!(
                    "it builds on `{}`, which is invalid: {}",
                    ancestor.name,
                    problems.join("; ")
                )]
            })?;
            parent = Some(role);
        }
        self.apply(parent.as_ref(), draft)
    }

    /// The drafts that a draft builds on, nearest first, and the existing role at their end.
    fn ancestors(
        &self,
        draft: &'a RoleDraft,
    ) -> Result<(Option<&'a Role>, Vec<&'a RoleDraft>), String> {
        let mut chain = vec![draft];
        let mut current = draft;
        while let Some(target) = current.extends.as_deref() {
            let existing = self.existing.get(target);
            let next = match self.drafts.get(target) {
                // A draft of an existing name builds on what it redefines.
                Some(_) if target == current.name && existing.is_some() => None,
                next => next.copied(),
            };
            let Some(next) = next else {
                if self.unreadable.contains(target) {
                    return Err(format!("it builds on `{target}`, which is invalid"));
                }
                let root =
                    existing.ok_or_else(|| format!("it extends `{target}`, which is no role"))?;
                chain.remove(0);
                return Ok((Some(root), chain));
            };
            let circle = chain.iter().skip_while(|seen| seen.name != next.name);
            let mut names: Vec<&str> = circle.map(|draft| draft.name.as_str()).collect();
            if !names.is_empty() {
                names.push(&next.name);
                return Err(format!("`extends` goes in a circle: {}", names.join(" -> ")));
            }
            chain.push(next);
            if chain.len() > MAX_DEPTH {
                return Err(format!("`extends` goes through more than {MAX_DEPTH} roles"));
            }
            current = next;
        }
        chain.remove(0);
        Ok((None, chain))
    }

    /// One draft on top of the role it extends, if the names in it are sound.
    fn apply(&self, parent: Option<&Role>, draft: &RoleDraft) -> Result<Role, Vec<String>> {
        let mut problems = Vec::new();
        let name = draft.name.as_str();
        if !is_role_name(name) {
            problems.push(format!(
                "the name `{}` is not 1 to 64 of a-z, 0-9 and `-`, starting with a letter",
                name.escape_debug()
            ));
        }
        if self.existing.contains_key(name) && draft.extends.as_deref() != Some(name) {
            problems.push(format!(
                "`{name}` is a role already; to change it, say extends = \"{name}\""
            ));
        }
        if let Some(unknown) = draft.handoff.as_ref().filter(|name| !self.knows(name)) {
            problems.push(format!("`handoff` names `{unknown}`, which is no role"));
        }
        match inherit(parent, draft) {
            Ok(role) if problems.is_empty() => Ok(role),
            Ok(_) => Err(problems),
            Err(more) => Err([problems, more].concat()),
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.existing.contains_key(name)
            || self.drafts.contains_key(name)
            || self.unreadable.contains(name)
    }
}

// One draft on top of the role it extends: what it inherits, what it may change.

/// The words that `relaxes` takes beside globs: the keys whose widening has to be named.
const CAPABILITIES: [&str; 3] = ["edits", "shell", "may_spawn"];

/// What a draft starts from. A role that extends nothing starts with nothing but the default
/// denylist; it loosens nothing by saying what it needs.
struct Inherited {
    edits: bool,
    shell: Shell,
    may_spawn: bool,
    spawnable: bool,
    denylist: Vec<Glob>,
}

impl From<Option<&Role>> for Inherited {
    fn from(parent: Option<&Role>) -> Inherited {
        Inherited {
            edits: parent.is_some_and(|role| role.edits),
            shell: parent.map_or(Shell::None, |role| role.shell),
            may_spawn: parent.is_some_and(|role| role.may_spawn),
            spawnable: parent.is_none_or(|role| role.spawnable),
            denylist: parent.map_or_else(default_denylist, |role| role.default_denylist.clone()),
        }
    }
}

/// Completes a draft from its parent.
///
/// # Errors
/// Every rule that the outcome breaks.
pub(super) fn inherit(parent: Option<&Role>, draft: &RoleDraft) -> Result<Role, Vec<String>> {
    let inherited = Inherited::from(parent);
    let mut problems = Vec::new();
    let edits = draft.edits.unwrap_or(inherited.edits);
    let shell = draft.shell.unwrap_or(inherited.shell);
    let may_spawn = draft.may_spawn.unwrap_or(inherited.may_spawn);
    let spawnable = draft.spawnable.unwrap_or(inherited.spawnable);
    if let Some(parent) = parent {
        let widened =
            [edits && !inherited.edits, shell > inherited.shell, may_spawn && !inherited.may_spawn];
        problems.extend(unnamed_loosenings(parent, draft, widened));
    }
    if spawnable && !inherited.spawnable {
        problems
            .push("it builds on a role that is not spawnable, and nothing lifts that".to_owned());
    }
    let isolation = match draft.isolation {
        Some(isolation) => isolation,
        None if edits => Isolation::Worktree,
        None => parent.map_or(Isolation::Shared, |role| role.isolation),
    };
    if edits && isolation == Isolation::Shared {
        problems.push("a role that edits needs isolation = \"worktree\"".to_owned());
    }
    let subagent_type = text(&draft.subagent_type, parent, |role| &role.subagent_type);
    if subagent_type.is_empty() {
        problems.push("`subagent_type` is missing, and it extends no role that has one".to_owned());
    }
    let default_denylist = denylist(inherited.denylist, draft, &mut problems);
    let theirs = parent.map(|role| role.report.clone()).unwrap_or_default();
    let report = draft.report.narrowing(&theirs).unwrap_or_else(|more| {
        problems.extend(more);
        ReportRules::default()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Role {
        name: draft.name.clone(),
        subagent_type,
        isolation,
        spawnable,
        edits,
        shell,
        may_spawn,
        default_denylist,
        handoff: draft.handoff.clone().or_else(|| parent?.handoff.clone()),
        description: text(&draft.description, parent, |role| &role.description),
        preamble: text(&draft.preamble, parent, |role| &role.preamble),
        report,
        defined_in: Some(draft.path.clone()),
    })
}

/// The draft's own text, else the inherited one, else none.
fn text(own: &Option<String>, parent: Option<&Role>, field: fn(&Role) -> &String) -> String {
    own.as_ref().or(parent.map(field)).cloned().unwrap_or_default()
}

/// One problem for each of [`CAPABILITIES`] that is `widened` and not relaxed.
fn unnamed_loosenings(
    parent: &Role,
    draft: &RoleDraft,
    widened: [bool; CAPABILITIES.len()],
) -> Vec<String> {
    let unnamed = |key: &str| !draft.relaxes.iter().any(|word| word == key);
    CAPABILITIES
        .into_iter()
        .zip(widened)
        .filter(|(key, widened)| *widened && unnamed(key))
        .map(|(key, _)| {
            let parent = &parent.name;
            format!(
                "`{key}` allows more than `{parent}` does; to mean it, add \"{key}\" to `relaxes`"
            )
        })
        .collect()
}

/// The inherited denylist without what is relaxed and with what is added, sorted.
fn denylist(inherited: Vec<Glob>, draft: &RoleDraft, problems: &mut Vec<String>) -> Vec<Glob> {
    let mut denylist: BTreeSet<Glob> = inherited.into_iter().collect();
    let globs = draft.relaxes.iter().filter(|word| !CAPABILITIES.contains(&word.as_str()));
    for word in globs {
        match Glob::parse(word) {
            Ok(glob) if glob.needs_git_dir() => {
                problems.push(format!("`relaxes` cannot lift `{glob}`: no scope reaches a git directory"));
            }
            Ok(glob) if denylist.remove(&glob) => {}
            _ => problems.push(format!(
                "`relaxes` names `{}`, which is neither an inherited glob nor `edits`, `shell` or `may_spawn`",
                word.escape_debug()
            )),
        }
    }
    denylist.extend(draft.default_denylist.iter().cloned());
    denylist.into_iter().collect()
}
