//! From drafts to roles: follows `extends` and applies each draft to what it builds on.

use super::inherit::inherit;
use super::{InvalidRole, Role, RoleDraft, is_role_name};
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
        drafts: drafts
            .iter()
            .map(|draft| (draft.name.as_str(), draft))
            .collect(),
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
            if let Some(start) = chain.iter().position(|seen| seen.name == next.name) {
                let names = chain[start..].iter().chain([&next]);
                let names: Vec<&str> = names.map(|draft| draft.name.as_str()).collect();
                return Err(format!(
                    "`extends` goes in a circle: {}",
                    names.join(" -> ")
                ));
            }
            chain.push(next);
            if chain.len() > MAX_DEPTH {
                return Err(format!(
                    "`extends` goes through more than {MAX_DEPTH} roles"
                ));
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
