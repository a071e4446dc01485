//! Rules for branches that `git agent` did not make: `[[guard]]` in the settings of a repository.
//!
//! A rule names branches by a glob and says what their commits may touch. Of several rules that name a branch the first
//! one counts, so exceptions come before what they are exceptions of.

use super::scope::Scope;
use super::violation::Boundary;
use crate::domain::paths::glob::Glob;
use crate::domain::value::diagnostic::{Field, Located, Problem};
use std::ops::Range;

/// Matches every branch and every path.
const EVERYTHING: &str = "**";

/// A rule, read as far as it could be.
#[derive(Clone, Debug)]
pub struct GuardDraft {
    /// The branches that the rule is for.
    pub branch: Field<String>,
    /// What they may touch.
    pub scope: Field<Vec<Located<String>>>,
    /// What they may not touch.
    pub deny: Field<Vec<Located<String>>>,
    /// The bytes of the rule.
    pub span: Range<usize>,
}

/// A rule that can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardRule {
    /// The branches that the rule is for.
    pub branch: Glob,
    /// What they may touch; everything where the rule has a denylist alone.
    pub scope: Vec<Glob>,
    /// What they may not touch.
    pub deny: Vec<Glob>,
}

impl GuardDraft {
    /// Applies the rules of globs; `None` where something is wrong, which is then among the problems.
    pub(in crate::domain) fn check(&self, problems: &mut Vec<Problem>) -> Option<GuardRule> {
        let before = problems.len();
        let mut wrong = |span: &Range<usize>, message: String, help: &str| {
            problems.push(Problem::at(span.clone(), message).help(help));
        };
        let branch = match &self.branch {
            Field::Given(Located { value, span }) => match Glob::parse(value) {
                Ok(glob) => Some(glob),
                Err(message) => {
                    wrong(span, message, "write a glob, such as \"bot/*\"");
                    None
                }
            },
            Field::Absent { .. } => {
                let help = "say which branches it is for, such as branch = \"bot/*\"";
                wrong(&self.span, "the rule has no `branch`".to_owned(), help);
                None
            }
            Field::Unreadable => None,
        };
        let mut globs = |field: &Field<Vec<Located<String>>>, is_scope: bool| {
            let given = field.given()?;
            let mut globs = Vec::new();
            for Located { value, span } in &given.value {
                match Glob::parse(value) {
                    Ok(glob) if is_scope && glob.needs_git_dir() => {
                        let message = format!("glob `{value}` allows nothing");
                        wrong(span, message, "no path in a git directory is ever in scope");
                    }
                    Ok(glob) => globs.push(glob),
                    Err(message) => wrong(span, message, "write a glob, such as \"src/**\""),
                }
            }
            Some(globs)
        };
        let (scope, deny) = (globs(&self.scope, true), globs(&self.deny, false));
        if let (Field::Absent { .. }, Field::Absent { .. }) = (&self.scope, &self.deny) {
            let help = "say what the branches may touch (scope), or may not (deny)";
            wrong(&self.span, "the rule allows everything".to_owned(), help);
        }
        // A rule with one mistake is refused as a whole: half of it could allow what the rest
        // forbids.
        (problems.len() == before).then_some(())?;
        Some(GuardRule::new(branch?, scope, deny.unwrap_or_default()))
    }
}

impl GuardRule {
    /// A rule; without a scope everything is allowed that is not denied.
    pub fn new(branch: Glob, scope: Option<Vec<Glob>>, deny: Vec<Glob>) -> GuardRule {
        let everything = || Vec::from_iter(Glob::parse(EVERYTHING).ok());
        GuardRule { branch, scope: scope.unwrap_or_else(everything), deny }
    }

    /// A rule for every branch.
    ///
    /// # Errors
    /// One sentence that names the glob and the rule that it breaks.
    pub fn of_all(scope: &[String], deny: &[String]) -> Result<GuardRule, String> {
        let globs = |texts: &[String]| -> Result<Vec<Glob>, String> {
            texts.iter().map(|text| Glob::parse(text)).collect()
        };
        let scope = (!scope.is_empty()).then(|| globs(scope)).transpose()?;
        Ok(GuardRule::new(Glob::parse(EVERYTHING)?, scope, globs(deny)?))
    }

    /// Whether the rule is for a branch, given by its short name.
    pub fn is_for(&self, branch: &str) -> bool {
        // A branch is matched as a path, so that globs mean the same for both.
        let branches = Scope::new(std::slice::from_ref(&self.branch), &[]);
        branches.is_ok_and(|branches| branches.decide_bytes(branch.as_bytes()).is_allowed())
    }

    /// What the rule allows, with a denylist that holds besides its own.
    ///
    /// # Errors
    /// As [`Scope::new`].
    pub fn boundary(&self, deny: &[Glob]) -> Result<Boundary, String> {
        let denylist = [self.deny.as_slice(), deny].concat();
        Ok(Boundary { scope: Scope::new(&self.scope, &denylist)?, edits: true, bundle: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_for_the_branches_that_its_glob_matches() {
        let check = |glob: &str, branch: &str, expected: bool| {
            let rule = GuardRule::new(Glob::parse(glob).expect("a glob"), None, Vec::new());
            assert_eq!(rule.is_for(branch), expected, "{glob} {branch}");
        };
        check("bot/*", "bot/fix-1", true);
        check("bot/*", "bot/deep/fix", false);
        check("bot/**", "bot/deep/fix", true);
        check("bot/*", "main", false);
        check("{bot,tool}/*", "tool/x", true);
        check("**", "anything/at/all", true);
        check("fix[0-9]", "Fix1", false);
    }
}
