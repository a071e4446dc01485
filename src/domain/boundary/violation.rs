//! Judging changes: which of them an agent was not allowed to make, and why.
//!
//! Pure: the scope, the bundle's place and the tracked spellings come in, violations go out. `check`,
//! the hooks and `verify` all judge by [`Boundary::violation`], so they cannot disagree.

use super::scope::{Decision, Denied, Scope};
use crate::domain::paths::change::{Change, ChangeKind};
use crate::domain::paths::path::{CaseIndex, PathProblem, Quoted, RepoPath, directories, fold};
use crate::domain::paths::removal::PathRemoval;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// What an agent may touch.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Whitelist and denylist.
    pub scope: Scope,
    /// Whether it may change files at all.
    pub edits: bool,
    /// The directory of its own six files; `None` when that is outside every worktree.
    pub bundle: Option<RepoPath>,
}

/// What changes in the bundle's directory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleRule {
    /// Allowed: these are files of a worktree, and the agent writes its bundle there.
    Writable,
    /// Out of scope: these are staged or committed, and a bundle never becomes part of history.
    NeverCommitted,
}

/// A change that the agent was not allowed to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path, as git has it.
    pub path: Vec<u8>,
    /// What was done to it.
    pub kind: ChangeKind,
    /// Why it is out of scope.
    pub reason: Reason,
}

impl Violation {
    /// How the path is taken out of a commit.
    pub fn removal(&self) -> PathRemoval {
        match (&self.reason, self.kind) {
            (Reason::Bundle, _) => PathRemoval::Untrack,
            (_, ChangeKind::Added) => PathRemoval::Delete,
            _ => PathRemoval::Restore,
        }
    }
}

/// Why a change is out of scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The scope says so.
    Scope(Denied),
    /// The scope says so about another name of the same file: a tracked path that differs from this
    /// one only by case, or where a symlink leads.
    Alias {
        /// The other name.
        path: RepoPath,
        /// What the scope says about it.
        denied: Denied,
    },
    /// The role changes no files.
    ReadOnly,
    /// A bundle is never committed.
    Bundle,
    /// A symlink that points out of the worktree, or into a git directory.
    Link {
        /// Where it points.
        target: Vec<u8>,
    },
    /// The path is not below the worktree, or becomes so where a symlink is followed.
    Outside,
    /// A directory whose files git does not see: a repository of its own, or one that cannot be read.
    Unseen,
}

impl Reason {
    /// The stable word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Scope(denied) | Reason::Alias { denied, .. } => match denied {
                Denied::ByDenylist(_) => "denylist",
                Denied::NotInWhitelist => "not-in-whitelist",
                Denied::Never(_) => "never",
            },
            Reason::ReadOnly => "read-only",
            Reason::Bundle => "bundle",
            Reason::Link { .. } => "symlink-target",
            Reason::Outside => "outside-worktree",
            Reason::Unseen => "unseen-directory",
        }
    }

    /// The glob that decided, when one did.
    pub fn glob(&self) -> Option<&str> {
        match self {
            Reason::Scope(Denied::ByDenylist(glob))
            | Reason::Alias { denied: Denied::ByDenylist(glob), .. } => Some(glob.as_str()),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Scope(denied) => write!(f, "{denied}"),
            Reason::Alias { path, denied } => write!(f, "it is also {path}: {denied}"),
            Reason::ReadOnly => f.write_str("the role changes no files"),
            Reason::Bundle => f.write_str("the agent's own bundle is never committed"),
            Reason::Link { target } => {
                write!(
                    f,
                    "the symlink leads out of the worktree, or could through another one: {}",
                    Quoted(target)
                )
            }
            Reason::Outside => f.write_str("it is outside the agent's worktree"),
            Reason::Unseen => f.write_str(
                "it is a git repository of its own, or cannot be read, and no commit would hold its files",
            ),
        }
    }
}

impl Boundary {
    /// Judges one change; `None` when it is in scope. Of spellings, `others` needs to know only those near
    /// paths that may be new.
    pub fn violation(
        &self,
        change: &Change,
        bundle: BundleRule,
        others: &OtherNames,
    ) -> Option<Violation> {
        let reason = self.reason(change, bundle, others)?;
        Some(Violation { path: change.path.clone(), kind: change.kind, reason })
    }

    fn reason(&self, change: &Change, bundle: BundleRule, others: &OtherNames) -> Option<Reason> {
        let path = match RepoPath::parse(&change.path) {
            Ok(path) => path,
            Err(problem) => return Some(Reason::Scope(Denied::Never(problem))),
        };
        if self.is_bundle(&path) {
            match bundle {
                BundleRule::NeverCommitted => return Some(Reason::Bundle),
                // A symlink in the bundle is still no way out of the worktree.
                BundleRule::Writable => return link_reason(&path, change),
            }
        }
        if !self.edits {
            return Some(Reason::ReadOnly);
        }
        if let Decision::Denied(denied) = self.scope.decide(&path) {
            return Some(Reason::Scope(denied));
        }
        for twin in others.spellings.case_variants(&path) {
            if let Decision::Denied(denied) = self.scope.decide(&twin) {
                return Some(Reason::Alias { path: twin, denied });
            }
        }
        // The whitelist says where the agent works, and that is not where a symlink stands that leads there.
        for name in others.through_links(&path) {
            if let Decision::Denied(denied @ Denied::ByDenylist(_)) = self.scope.decide(&name) {
                return Some(Reason::Alias { path: name, denied });
            }
        }
        // Git names a directory only where it does not look into it.
        if change.kind == ChangeKind::Untracked && change.path.ends_with(b"/") {
            return Some(Reason::Unseen);
        }
        link_reason(&path, change)
    }

    fn is_bundle(&self, path: &RepoPath) -> bool {
        self.bundle.as_ref().is_some_and(|bundle| {
            let rest = path.as_bytes().strip_prefix(bundle.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }
}

/// Other names of paths: those that differ by case, and those that symlinks give them.
#[derive(Clone, Debug, Default)]
pub struct OtherNames {
    spellings: CaseIndex,
    /// From a path, folded, to the names under which symlinks show it, where the denylist may deny something below them.
    shown_as: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

/// Symlinks, each with the targets that it has in any of some trees.
pub type Links = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

// What follows symlinks ends at these numbers. Work that makes so many symlinks for a denied name is out of scope by each of them.

/// As many places are gone through from one symlink as Linux follows symlinks in one path (path_resolution(7)).
const MOST_PLACES: usize = 40;
/// The names of one path.
const MOST_NAMES: usize = 40;
/// The symlinks that are met behind others.
const MOST_MET: usize = 20_000;

impl From<CaseIndex> for OtherNames {
    fn from(spellings: CaseIndex) -> OtherNames {
        OtherNames { spellings, ..OtherNames::default() }
    }
}

impl OtherNames {
    /// Of the paths of trees with these symlinks, as far as a scope minds them.
    pub fn new(spellings: CaseIndex, scope: &Scope, links: &Links) -> OtherNames {
        let mut others = OtherNames::from(spellings);
        let minds =
            |name: &[u8]| RepoPath::parse(name).is_ok_and(|name| scope.may_deny_below(&name));
        // Each symlink with a name under which it is shown.
        let own = links.keys().filter(|link| minds(link));
        let mut open: VecDeque<_> = own.map(|link| (link.clone(), link)).collect();
        let mut met = 0;
        while let Some((name, link)) = open.pop_front() {
            for place in places(links, link) {
                let names = others.shown_as.entry(fold(&place)).or_default();
                if names.len() == MOST_NAMES || !names.insert(name.clone()) {
                    continue;
                }
                // A symlink in the directory is shown by this one as well.
                for inner in links.range(place.clone()..).map(|(inner, _)| inner) {
                    let Some(rest) = inner.strip_prefix(place.as_slice()) else {
                        break;
                    };
                    met += 1;
                    if met > MOST_MET {
                        break;
                    }
                    let is_below = place.is_empty() || rest.starts_with(b"/");
                    let name = [name.as_slice(), b"/", rest].concat();
                    if is_below && minds(&name) {
                        open.push_back((name, inner));
                    }
                }
            }
        }
        others
    }

    /// The names that symlinks give a path.
    fn through_links<'a>(&'a self, path: &'a RepoPath) -> impl Iterator<Item = RepoPath> + 'a {
        let path = path.as_bytes();
        let places = [path].into_iter().chain(directories(path)).chain([&b""[..]]);
        // Most trees have no such symlink.
        let places = places.filter(|_| !self.shown_as.is_empty());
        places.flat_map(move |place| {
            let names = self.shown_as.get(&fold(place)).into_iter().flatten();
            let rest = path.strip_prefix(place).unwrap_or_default();
            names.filter_map(move |name| {
                RepoPath::parse(&[name.as_slice(), b"/", rest].concat()).ok()
            })
        })
    }
}

/// Where a symlink leads: what its target says, and where symlinks on the way lead on to.
fn places(links: &Links, link: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut open = vec![link.to_vec()];
    while let Some(place) = open.pop()
        && found.len() < MOST_PLACES
    {
        for step in [place.as_slice()].into_iter().chain(directories(&place)) {
            let rest = place.strip_prefix(step).unwrap_or_default();
            let targets = links.get(step).into_iter().flatten();
            let led = targets.filter_map(|target| joined(step, target, rest));
            open.extend(led.filter(|led| led != link && found.insert(led.clone())));
        }
    }
    found
}

/// The path `rest` behind a symlink with this target; `None` where that is outside.
fn joined(link: &[u8], target: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    if target.first() == Some(&b'/') {
        return None;
    }
    let mut parts: Vec<&[u8]> = link.split(|&byte| byte == b'/').collect();
    parts.pop();
    for part in [target, rest].into_iter().flat_map(|path| path.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            named => parts.push(named),
        }
    }
    Some(parts.join(&b'/'))
}

fn link_reason(path: &RepoPath, change: &Change) -> Option<Reason> {
    let target = change.link.as_deref()?;
    (!stays_inside(path, target)).then(|| Reason::Link { target: target.to_owned() })
}

/// Whether a symlink at `path` leads to something inside the worktree and outside git directories, by
/// the text of its target alone: what is on the way may not exist yet, and may come from another agent.
///
/// The directories above a symlink are directories, so `..` at the beginning is what it says. After a name it is not:
/// the name may be a symlink, whose target has another parent. Such a target is refused. Then any chain of symlinks
/// stays inside, since each of them does.
fn stays_inside(path: &RepoPath, target: &[u8]) -> bool {
    if target.first() == Some(&b'/') {
        return false;
    }
    let mut parts: Vec<&[u8]> = path.parts().collect();
    parts.pop();
    let mut is_below_name = false;
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if is_below_name || parts.pop().is_none() {
                    return false;
                }
            }
            named => {
                is_below_name = true;
                parts.push(named);
            }
        }
    }
    // The top itself is inside.
    matches!(RepoPath::parse(&parts.join(&b'/')), Ok(_) | Err(PathProblem::Empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::paths::glob::Glob;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect(text)
    }

    fn boundary() -> Boundary {
        let globs = |texts: &[&str]| -> Vec<Glob> {
            let parse = |text: &&str| Glob::parse(text).expect("a glob");
            texts.iter().map(parse).collect()
        };
        Boundary {
            scope: Scope::new(&globs(&["src/**"]), &globs(&["src/gen/**"])).expect("a scope"),
            edits: true,
            bundle: Some(path(".agent")),
        }
    }

    #[test]
    fn every_reason_has_its_case() {
        let tracked = CaseIndex::of(&[path("src/gen/a.rs")]).into();
        let check = |name: &[u8], bundle: BundleRule, expected: Option<&str>| {
            let violation = boundary().violation(&Change::named(name), bundle, &tracked);
            let code = violation.as_ref().map(|violation| violation.reason.code());
            assert_eq!(code, expected, "{}", Quoted(name));
        };
        use BundleRule::{NeverCommitted, Writable};
        check(b"src/a.rs", NeverCommitted, None);
        check(b"src/\xff.rs", NeverCommitted, None);
        check(b"README.md", Writable, Some("not-in-whitelist"));
        check(b"src/gen/b.rs", Writable, Some("denylist"));
        check(b"src/Gen/b.rs", Writable, Some("denylist"));
        check(b"src/.GIT/config", Writable, Some("never"));
        check(b"src/../src/a.rs", Writable, Some("never"));
        check(b".agent/plan.md", Writable, None);
        check(b".agent/plan.md", NeverCommitted, Some("bundle"));
        check(b".agent", NeverCommitted, Some("bundle"));
        check(b".agents/plan.md", NeverCommitted, Some("not-in-whitelist"));
        let reader = Boundary { edits: false, ..boundary() };
        let change = Change::named("src/a.rs");
        let violation = reader.violation(&change, Writable, &tracked);
        assert_eq!(violation.map(|it| it.reason), Some(Reason::ReadOnly));
        let change = Change::named(".agent/plan.md");
        assert_eq!(reader.violation(&change, Writable, &tracked), None);
    }

    #[test]
    fn a_directory_whose_files_git_does_not_see_is_no_work() {
        let change = |path: &str, kind| Change { kind, ..Change::named(path) };
        let reason = |change: &Change| {
            let nothing = OtherNames::default();
            let violation = boundary().violation(change, BundleRule::NeverCommitted, &nothing);
            violation.map(|violation| violation.reason.code())
        };
        let nested = change("src/nested/", ChangeKind::Untracked);
        assert_eq!(reason(&nested), Some("unseen-directory"));
        let outside = change("nested/", ChangeKind::Untracked);
        assert_eq!(reason(&outside), Some("not-in-whitelist"));
        assert_eq!(reason(&change("src/dir/", ChangeKind::Named)), None);
    }

    #[test]
    fn a_symlink_stays_inside_the_worktree() {
        let check = |target: &str, inside: bool| {
            let change = Change { link: Some(target.into()), ..Change::named("src/a/link") };
            let violation =
                boundary().violation(&change, BundleRule::Writable, &OtherNames::default());
            let expected = (!inside).then(|| Reason::Link { target: target.into() });
            assert_eq!(violation.map(|it| it.reason), expected, "{target}");
        };
        check("sibling", true);
        check("../../README.md", true);
        check("./b//c/./d/", true);
        check("./b//c/../d/", false);
        check(".././../src/b", true);
        check("../..", true);
        check("../../..", false);
        check("../../../repo/src", false);
        check("b/../../../../x", false);
        check("/etc/passwd", false);
        check("../../.git/config", false);
        check("../../.GIT", false);
    }
}
