//! Rules of what an agent may be and touch: its role and its globs.

use super::Rules;
use crate::domain::diagnostic::{Field, Located, Problem, nearest};
use crate::domain::glob::Glob;
use crate::domain::role::{Role, RoleSet, is_role_name};
use crate::error::Code;
use std::collections::HashSet;

/// The most globs a list has.
const GLOBS: usize = 20;

const ROLES_HELP: &str = "name the role of the agent, such as edit-local";

const WHITELIST_HELP: &str = "name what the agent may touch, in 1 to 20 globs";

impl Rules<'_> {
    /// The role, which must be known and spawnable.
    pub(super) fn role<'r>(
        &mut self,
        field: &Field<String>,
        roles: &'r RoleSet,
    ) -> Option<&'r Role> {
        let Located { value: name, span } = self.required(field, ROLES_HELP)?;
        let role = roles.get(name);
        if let Some(invalid) = roles.invalid().find(|invalid| invalid.name == *name) {
            let message = format!("role `{name}` cannot be used: {} is invalid", invalid.path);
            self.problems.push(
                Problem::at(span.clone(), message)
                    .help(invalid.problems.join("; "))
                    .code(Code::RoleInvalid),
            );
            return None;
        }
        let problem = match role {
            Some(role) if role.spawnable => return Some(role),
            // The wording is the one that users of the older kit know.
            Some(_) if name == "git-ops" => Problem::at(
                span.clone(),
                "role 'git-ops' is NOT spawnable (per RULE 0.13 git-ops is orchestrator-only)",
            )
            .help(ROLES_HELP)
            .code(Code::RoleNotSpawnable),
            Some(_) => Problem::at(span.clone(), format!("role '{name}' is NOT spawnable"))
                .help(ROLES_HELP)
                .code(Code::RoleNotSpawnable),
            None if name.is_empty() => {
                Problem::at(span.clone(), "the role is empty").help(ROLES_HELP)
            }
            None => {
                let near = nearest(name, spawnable(roles));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if is_role_name(name) => format!(
                        "the roles are {}",
                        Vec::from_iter(spawnable(roles)).join(", ")
                    ),
                    None => {
                        "a role name has 1 to 64 of a-z, 0-9 and -, beginning with a letter".into()
                    }
                };
                Problem::at(span.clone(), format!("there is no role `{name}`"))
                    .help(help)
                    .code(Code::RoleUnknown)
            }
        };
        self.problems.push(problem);
        role
    }

    /// The whitelist, which must be there and say something.
    pub(super) fn whitelist(
        &mut self,
        field: &Field<Vec<Located<String>>>,
        edits: bool,
    ) -> Vec<Glob> {
        if let Some(list) = self.required(field, WHITELIST_HELP)
            && list.value.is_empty()
        {
            self.refuse(&list.span, "the whitelist is empty", WHITELIST_HELP);
        }
        let wrong = |glob: &Glob| in_git_dir(glob).or_else(|| bare(glob, edits));
        self.globs("whitelist", field, wrong).unwrap_or_default()
    }

    /// The globs of a list, each once; `None` where the file has no such list. `wrong` says what this list may
    /// not have.
    pub(super) fn globs(
        &mut self,
        list: &str,
        field: &Field<Vec<Located<String>>>,
        wrong: impl Fn(&Glob) -> Option<Wrong>,
    ) -> Option<Vec<Glob>> {
        let Located { value: given, span } = field.given()?;
        // What was accepted before may hold the globs of control files besides its own.
        if given.len() > GLOBS && !self.is_typed {
            let message = format!("the {list} has {} globs, and may have {GLOBS}", given.len());
            self.refuse(
                span,
                message,
                "name directories (`src/**`) instead of files",
            );
        }
        let mut seen = HashSet::new();
        let mut globs = Vec::new();
        for Located { value, span } in given {
            match not_several(value).and_then(|()| Glob::parse(value)) {
                Err(message) => self.problems.push(Problem::at(span.clone(), message)),
                Ok(glob) => match wrong(&glob) {
                    Some((rule, help)) => self.refuse(span, format!("glob `{value}` {rule}"), help),
                    None if !seen.insert(glob.clone()) => {
                        self.warn(span, format!("glob `{value}` is in the {list} twice"));
                    }
                    None => globs.push(glob),
                },
            }
        }
        Some(globs)
    }
}

/// Refuses two ways to write several globs as one, which would otherwise match files of peculiar names and nothing else.
fn not_several(text: &str) -> Result<(), String> {
    let shown = text.escape_debug();
    if let Some(rest) = text.strip_prefix('!') {
        let rest = rest.escape_debug();
        return Err(format!(
            "glob `{shown}` starts with `!`; put `{rest}` into the denylist"
        ));
    }
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                return Err(format!(
                    "glob `{shown}` has a `,` between globs; give each by itself"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names of the roles that a task can name.
fn spawnable(roles: &RoleSet) -> impl Iterator<Item = &str> {
    let spawnable = roles.iter().filter(|role| role.spawnable);
    spawnable.map(|role| role.name.as_str())
}

/// The rule that a glob breaks, to be read after it, and what to do instead.
type Wrong = (&'static str, &'static str);

/// A role that edits may not be given everything.
pub(super) fn bare(glob: &Glob, edits: bool) -> Option<Wrong> {
    (edits && glob.is_bare()).then_some((
        "matches everything, which no role that edits may say",
        "name at least one directory or file",
    ))
}

/// Nothing in a git directory is ever in scope, or copied.
pub(super) fn in_git_dir(glob: &Glob) -> Option<Wrong> {
    glob.needs_git_dir().then_some((
        "allows nothing: no path in a git directory is ever in scope",
        "name what is in the worktree",
    ))
}
