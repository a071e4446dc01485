//! What an agent may touch: whitelist and denylist, deny wins.
//!
//! A path is in scope when a whitelist glob matches its comparison form and no denylist glob does.
//! Everything is compiled once; deciding a path is then a handful of hash and automaton look-ups.
//!
//! Where the two lists could be read either way, both err towards denial: `vendor/**` in a whitelist
//! is what lies below `vendor`, in a denylist it is `vendor` itself as well, because a file, symlink
//! or submodule pointer put in the place of a directory replaces everything below it. So `.ci/tasks.json`
//! denies `.ci` too. What may be in any directory, such as `**/*.pem`, denies no directory.
//!
//! A glob of the denylist that protects a file which programs look up by its name denies all names that some file system takes for that
//! one: `.Husky/x` is `.husky/x` on macOS and Windows ([`CaseRule`]).
//!
//! Deliberately absent: the agent's own bundle directory, which is always writable and never part of
//! a commit; the code that gathers the paths leaves it out.

mod language;

pub use language::{Intersection, ScopeLanguage};

use crate::domain::paths::glob::{self, Glob};
use crate::domain::paths::path::{CaseIndex, PathProblem, RepoPath, fold, is_ignored_by_hfs};
use crate::domain::work::role::{DEFAULT_DENYLIST, Role};
use globset::{Candidate, GlobSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{LazyLock, OnceLock};

/// For a denylist glob the whitelist globs that win over it: what they match, it does not deny.
pub type Opened = BTreeMap<Glob, Vec<Glob>>;

/// A compiled whitelist and denylist.
#[derive(Clone, Debug)]
pub struct Scope {
    whitelist: Matcher,
    denylist: Matcher,
    /// Those globs of the denylist that match names of any case.
    caseless: Matcher,
    /// The same, which match short names as well. Hardly a path has one, and these patterns take longest to compile.
    shortened: OnceLock<Result<Matcher, String>>,
    /// Directories with wildcards in their names that a glob of the denylist goes through, in any case.
    passed: Matcher,
    opened: Vec<(Glob, Matcher)>,
    beginnings: Beginnings,
}

/// The answer for one path, with the glob that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// In scope.
    Allowed {
        /// The first whitelist glob that matches.
        by: Glob,
    },
    /// Out of scope.
    Denied(Denied),
}

/// Why a path is out of scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// This denylist glob matches it.
    ByDenylist(Glob),
    /// No whitelist glob matches it.
    NotInWhitelist,
    /// No scope could allow it.
    Never(PathProblem),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::ByDenylist(glob) => write!(f, "the denylist has `{glob}`"),
            Denied::NotInWhitelist => f.write_str("no glob of the whitelist matches it"),
            Denied::Never(problem) => write!(f, "no scope allows it: {problem}"),
        }
    }
}

impl Decision {
    /// Whether the path is in scope.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }
}

impl Scope {
    /// Compiles a scope. An empty whitelist allows nothing; an empty denylist denies nothing.
    ///
    /// # Errors
    /// One sentence that names the glob and the rule, for a whitelist glob that could only match
    /// inside a git directory, and for lists that globset cannot hold.
    pub fn new(whitelist: &[Glob], denylist: &[Glob]) -> Result<Scope, String> {
        Scope::opening(whitelist, denylist, &Opened::new())
    }

    /// Compiles a scope in which some denylist globs do not deny everything that they match.
    ///
    /// # Errors
    /// As [`Scope::new`].
    pub fn opening(
        whitelist: &[Glob],
        denylist: &[Glob],
        opened: &Opened,
    ) -> Result<Scope, String> {
        Scope::with_case(whitelist, denylist, opened, CaseRule::default())
    }

    /// As [`Scope::opening`], where the caller knows more of names that differ by case.
    ///
    /// # Errors
    /// As [`Scope::new`].
    pub fn with_case(
        whitelist: &[Glob],
        denylist: &[Glob],
        opened: &Opened,
        case: CaseRule<'_>,
    ) -> Result<Scope, String> {
        if let Some(useless) = whitelist.iter().find(|glob| glob.needs_git_dir()) {
            return Err(format!(
                "glob `{useless}` allows nothing: no path in a git directory is ever in scope"
            ));
        }
        let plain = |pattern: &str| vec![pattern.to_owned()];
        // Two automata hold each glob of the denylist once: so they take no longer to make than one.
        let (caseless, exact): (Vec<Glob>, Vec<Glob>) =
            denylist.iter().cloned().partition(|glob| case.is_ignored_in(glob));
        Ok(Scope {
            whitelist: Matcher::new(whitelist, plain)?,
            denylist: Matcher::new(&exact, denied_in)?,
            caseless: Matcher::new(&caseless, |pattern| denied_in(&folded_pattern(pattern)))?,
            shortened: OnceLock::new(),
            passed: Matcher::new(denylist, |pattern| directories_of(&folded_pattern(pattern)).1)?,
            opened: { opened.iter() }
                .map(|(glob, by)| Ok((glob.clone(), Matcher::new(by, plain)?)))
                .collect::<Result<_, String>>()?,
            beginnings: Beginnings::of(whitelist),
        })
    }

    /// What the comparison form of every path in scope begins with.
    pub fn beginnings(&self) -> &Beginnings {
        &self.beginnings
    }

    /// The globs that match names of any case and match this folded name, in order. A list that is too long with short names denies
    /// whatever could be one.
    fn caseless(&self, folded: &[u8]) -> Vec<&Glob> {
        let candidate = Candidate::from_bytes(folded);
        if !folded.split(|&byte| byte == b'/').any(is_short_name) {
            return self.caseless.matches(&candidate).collect();
        }
        let shortened = self.shortened.get_or_init(|| {
            Matcher::new(&self.caseless.globs, |pattern| {
                let patterns = denied_in(&folded_pattern(pattern));
                patterns.iter().map(|pattern| with_short_names(pattern)).collect()
            })
        });
        match shortened {
            Ok(matcher) => matcher.matches(&candidate).collect(),
            Err(_) => self.caseless.globs.iter().collect(),
        }
    }

    /// Decides one path.
    pub fn decide(&self, path: &RepoPath) -> Decision {
        let candidate = Candidate::from_bytes(path.comparison_form());
        // The denylist is asked first: deny wins, and the answer names the glob that denied.
        let is_opened = |denied: &Glob| {
            let mut opened = self.opened.iter().filter(|(glob, _)| glob == denied);
            opened.any(|(_, by)| by.matches(&candidate).next().is_some())
        };
        let folded = one_name(path.comparison_form());
        let denied = self.denylist.matches(&candidate).find(|glob| !is_opened(glob));
        let caseless = self.caseless(&folded).into_iter().find(|glob| !is_opened(glob));
        // As if they were one list.
        if let Some(glob) = denied.into_iter().chain(caseless).min() {
            return Decision::Denied(Denied::ByDenylist(glob.clone()));
        }
        match self.whitelist.matches(&candidate).next() {
            Some(glob) => Decision::Allowed { by: glob.clone() },
            None => Decision::Denied(Denied::NotInWhitelist),
        }
    }

    /// Whether the denylist has more to say of what is below a path than of the same names anywhere else.
    pub fn may_deny_below(&self, path: &RepoPath) -> bool {
        let candidate = Candidate::from_bytes(path.comparison_form());
        let folded = one_name(path.comparison_form());
        self.denylist.matches(&candidate).next().is_some()
            || !self.caseless(&folded).is_empty()
            || self.passed.matches(&Candidate::from_bytes(&folded)).next().is_some()
    }

    /// Decides a path as it came from outside; what is no repository path is denied.
    pub fn decide_bytes(&self, path: &[u8]) -> Decision {
        match RepoPath::parse(path) {
            Ok(path) => self.decide(&path),
            Err(problem) => Decision::Denied(Denied::Never(problem)),
        }
    }

    /// Decides a path and every tracked spelling of it that differs only by case, which on macOS and
    /// Windows is the file that would really be written. Any denial wins.
    pub fn decide_with_case(&self, path: &RepoPath, tracked: &CaseIndex) -> Decision {
        let mut decision = self.decide(path);
        for twin in tracked.case_variants(path) {
            if !decision.is_allowed() {
                break;
            }
            if let denied @ Decision::Denied(_) = self.decide(&twin) {
                decision = denied;
            }
        }
        decision
    }
}

/// Which globs of a denylist match names of any case. A file system that ignores case opens what they protect by each of these names.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaseRule<'a> {
    /// Whether all do, because the clone is on such a file system.
    pub is_ignored: bool,
    /// Globs of control files that hosts and hooks add.
    pub control_files: &'a [&'a str],
}

/// Globs of [`DEFAULT_DENYLIST`] about build output, whose names in another case are ordinary directories of some project.
const ORDINARY_NAMES: [&str; 2] = ["target/**", "dist/**"];

impl CaseRule<'_> {
    fn is_ignored_in(&self, glob: &Glob) -> bool {
        let glob = glob.as_str();
        let is_among = |globs: &[&str]| globs.contains(&glob);
        self.is_ignored
            || is_among(self.control_files)
            || is_spelled_control_file(glob)
            || is_among(DEFAULT_DENYLIST) && !is_among(&ORDINARY_NAMES)
    }
}

/// Whether a glob is one of [`CONTROL_FILES`], or an alternative that one of these stands for.
fn is_spelled_control_file(glob: &str) -> bool {
    static SPELLED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let globs = CONTROL_FILES.iter().filter_map(|text| Glob::parse(text).ok());
        let alternatives = globs.flat_map(|glob| glob.alternatives().collect::<Vec<_>>());
        alternatives.chain(CONTROL_FILES.iter().map(|text| (*text).to_owned())).collect()
    });
    SPELLED.contains(glob)
}

/// As [`fold`], without what HFS+ and NTFS leave out of a name: characters without a glyph, dots and spaces at its end, and a colon with what
/// follows, which names a stream of that file. A backslash separates names there.
fn one_name(path: &[u8]) -> Vec<u8> {
    let mut path = fold(path);
    for byte in &mut path {
        *byte = if *byte == b'\\' { b'/' } else { *byte };
    }
    if !path.is_ascii()
        && let Ok(text) = std::str::from_utf8(&path)
    {
        let seen = text.chars().filter(|c| !is_ignored_by_hfs(*c));
        path = seen.collect::<String>().into_bytes();
    }
    let is_left_out = |byte: &u8| matches!(byte, b'.' | b' ');
    let is_spelled = |name: &[u8]| name.last().is_some_and(is_left_out) || name.contains(&b':');
    if !path.split(|&byte| byte == b'/').any(is_spelled) {
        return path;
    }
    let names = path.split(|&byte| byte == b'/').map(|name| {
        let name = name.split(|&byte| byte == b':').next().unwrap_or(name);
        let last = name.iter().rposition(|byte| !is_left_out(byte));
        last.and_then(|last| name.get(..=last)).unwrap_or_default()
    });
    names.collect::<Vec<_>>().join(&b'/')
}

/// A pattern in lower case that matches the short names as well by which NTFS and FAT open long ones: `GITHUB~1` is `.github`.
fn with_short_names(pattern: &str) -> String {
    let names = pattern.split('/').map(|name| match short_names(name).as_slice() {
        [] => name.to_owned(),
        short => format!("{{{name},{}}}", short.join(",")),
    });
    names.collect::<Vec<_>>().join("/")
}

/// The short names of what a pattern of one name matches, as patterns: six letters at most, without dots and spaces, a number, and three letters of
/// the extension. From the fifth name on that begins so, NTFS keeps two letters and puts a hash of four digits behind them. None where the pattern's
/// own name is short enough, and where it begins with a wildcard and its extension is.
fn short_names(name: &str) -> Vec<String> {
    let wildcard = name.find(['*', '?', '[']);
    let literal = name.get(..wildcard.unwrap_or(name.len())).unwrap_or_default();
    let visible = literal.trim_start_matches('.');
    let (stem, extension) = visible.rsplit_once('.').unwrap_or((visible, ""));
    let has_short_form = stem.len() <= 8 && extension.len() <= 3 && !stem.contains('.');
    // Among alternatives a comma would be one between two of them.
    if wildcard.is_none() && has_short_form && visible == literal || name.contains(',') {
        return Vec::new();
    }
    let first = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    if visible.is_empty() {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_long = extension.len() > 3 && !extension.contains(['*', '?', '[', ']']);
        return is_long.then(|| format!("*~[1-9]*.{}", first(extension, 3))).into_iter().collect();
    }
    let letters: String = stem.chars().filter(|c| !matches!(c, '.' | ' ')).collect();
    // What a wildcard stands for may be letters of the stem, or the extension.
    let end = match (wildcard, extension) {
        (Some(_), _) => "*".to_owned(),
        (None, "") => String::new(),
        (None, extension) => format!(".{}", first(extension, 3)),
    };
    // A number with more digits leaves room for fewer letters.
    let numbered = (1..=3).map(|digits: usize| {
        let begins = first(&letters, 7 - digits);
        let is_open = wildcard.is_some() && begins.chars().count() < 7 - digits;
        let number = format!("[1-9]{}", "[0-9]".repeat(digits - 1));
        format!("{begins}{}~{number}{end}", if is_open { "*" } else { "" })
    });
    let hashed = format!("{}{}~[1-9]{end}", first(&letters, 2), "[0-9a-f]".repeat(4));
    numbered.chain([hashed]).collect()
}

/// Whether a name in lower case has the form of a short name: eight letters at most that end with a tilde and a number, and an extension of three.
fn is_short_name(name: &[u8]) -> bool {
    let mut parts = name.split(|&byte| byte == b'.');
    let (stem, extension) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let length = |part: &[u8]| String::from_utf8_lossy(part).chars().count();
    let number = stem.iter().rposition(|&byte| byte == b'~').and_then(|at| stem.get(at + 1..));
    parts.next().is_none()
        && length(stem) <= 8
        && length(extension) <= 3
        && number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// The denylist that binds an agent: its task's and its role's united, sorted, each glob once.
///
/// `no_default` drops the role's part, but only where the task has no list of its own (an empty list
/// is one) and the role does not edit: asking for fewer defaults never loosens what a person wrote
/// down, and an editing role asking is refused before it comes here.
pub fn effective_denylist(task: Option<&[Glob]>, role: &Role, no_default: bool) -> Vec<Glob> {
    if no_default && task.is_none() && !role.edits {
        return Vec::new();
    }
    let united: BTreeSet<&Glob> =
        task.unwrap_or_default().iter().chain(&role.default_denylist).collect();
    united.into_iter().cloned().collect()
}

/// What the comparison form of whatever a whitelist matches begins with: one of these texts, in order, none of which begins with another.
#[derive(Clone, Debug)]
pub struct Beginnings(Vec<String>);

impl Beginnings {
    /// Those of a whitelist.
    pub fn of(whitelist: &[Glob]) -> Beginnings {
        let literal = |pattern: String| {
            let end = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
            pattern[..end].to_owned()
        };
        let alternatives = whitelist.iter().flat_map(Glob::alternatives);
        let mut beginnings: Vec<String> = Vec::new();
        for text in alternatives.map(literal).collect::<BTreeSet<String>>() {
            // In this order a text comes right after those that it begins with.
            let covered = beginnings.last().is_some_and(|last| text.starts_with(last.as_str()));
            if !covered {
                beginnings.push(text);
            }
        }
        Beginnings(beginnings)
    }

    /// The texts.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a path below the directory may be in scope, as far as they tell.
    pub fn may_allow_below(&self, directory: &RepoPath) -> bool {
        // The comparison form of a path below may be its bytes, though that of the directory is not.
        let forms = [directory.comparison_form(), directory.as_bytes()];
        self.iter().any(|beginning| {
            forms.iter().any(|form| {
                let mut both = beginning.bytes().zip(form.iter().chain(b"/"));
                both.all(|(one, other)| one == *other)
            })
        })
    }
}

/// A pattern of a denylist, and the directories that it denies with what they hold.
fn denied_in(pattern: &str) -> Vec<String> {
    let (directories, _) = directories_of(pattern);
    [pattern.to_owned()].into_iter().chain(directories).collect()
}

/// A pattern for folded names.
fn folded_pattern(pattern: &str) -> String {
    String::from_utf8_lossy(&fold(pattern.as_bytes())).into_owned()
}

/// The directories in which whatever the pattern matches is, as patterns: first those whose last name is written out, then those whose last name
/// has wildcards. `src/*/**` is about the directories in `src`, and `src/*` would be about the files as well. Any directory
/// at all is in neither list.
fn directories_of(pattern: &str) -> (Vec<String>, Vec<String>) {
    let ends = pattern.match_indices('/').filter_map(|(end, _)| pattern.get(..end));
    let named = ends.filter(|directory| directory.split('/').any(|name| name != "**"));
    named.map(str::to_owned).partition(|directory| {
        let name = directory.rsplit('/').next().unwrap_or(directory);
        // A class of one character is how that character is written.
        let is_plain = || Glob::parse(name).is_ok_and(|glob| glob.plain_path().is_some());
        !name.contains(['*', '?', '[']) || is_plain()
    })
}

/// A list of globs as one automaton that remembers which glob each pattern came from.
#[derive(Clone, Debug)]
struct Matcher {
    set: GlobSet,
    /// For each pattern in `set`, the index of its glob; never falling.
    owners: Vec<usize>,
    globs: Vec<Glob>,
}

impl Matcher {
    fn new(globs: &[Glob], spelled: impl Fn(&str) -> Vec<String>) -> Result<Matcher, String> {
        let mut patterns = Vec::new();
        let mut owners = Vec::new();
        for (index, glob) in globs.iter().enumerate() {
            let patterns_of_glob: BTreeSet<String> =
                glob.alternatives().flat_map(|alternative| spelled(&alternative)).collect();
            for pattern in patterns_of_glob {
                let compiled = glob::compile(&pattern)
                    .map_err(|problem| format!("glob `{glob}` does not compile: {problem}"))?;
                patterns.push(compiled);
                owners.push(index);
            }
        }
        let set = GlobSet::new(&patterns).map_err(|error| format!("the globs {error}"))?;
        Ok(Matcher { set, owners, globs: globs.to_vec() })
    }

    /// The globs that match, in order.
    fn matches(&self, candidate: &Candidate<'_>) -> impl Iterator<Item = &Glob> {
        // `GlobSet` gives the indices of the matching patterns in ascending order. Its `matches_all`
        // and the emptiness of a set never matter here: no match is no glob.
        let patterns = self.set.matches_candidate(candidate).into_iter();
        patterns.filter_map(|pattern| self.globs.get(*self.owners.get(pattern)?))
    }
}

// The directories that a sparse worktree has to hold, as a cone of git's sparse checkouts: everything below each of them, and
// the files beside each on the way to the top (git-sparse-checkout(1)).

/// The directories below which everything is that the whitelist matches; what it matches at the top needs none.
///
/// # Errors
/// The first glob that matches in directories of any name.
pub fn cone_directories(whitelist: &[Glob]) -> Result<BTreeSet<String>, &Glob> {
    let mut found = BTreeSet::new();
    for glob in whitelist {
        for pattern in glob.alternatives() {
            // The last part is the name of a file, or what stands for all that is below.
            let Some((parents, _)) = pattern.rsplit_once('/') else {
                if pattern == "**" {
                    return Err(glob);
                }
                continue;
            };
            let parts = parents.split('/');
            let literal: Vec<_> =
                parts.take_while(|part| !part.contains(['*', '?', '['])).collect();
            if literal.is_empty() {
                return Err(glob);
            }
            found.insert(literal.join("/"));
        }
    }
    Ok(found)
}

// Files of a repository that decide what other people's programs run: settings of agent hosts, hooks, workflows, filters.
//
// A task that a person types may mean the whole repository, or every file of a kind, but hardly these: the person who lands the work
// would run what the agent wrote into them. So such a task denies them unless its scope names them. A task file says its whitelist
// itself and gets no such rule.

/// The control files that have fixed names. Those of agent hosts and the repository's own hook directory are added to them.
const CONTROL_FILES: &[&str] = &[
    // What binds the agents of this repository.
    ".config/git-agent.toml",
    "roles/*.toml",
    ".worktreeinclude",
    // What git acts on.
    "**/.gitattributes",
    ".gitmodules",
    // Hook managers.
    "**/.husky/**",
    "**/.huskyrc*",
    "**/{,.}lefthook{,-local}.{yml,yaml,toml,json}",
    "**/.lefthook{,-local}/**",
    "**/.overcommit.yml",
    ".git-hooks/**",
    "**/.pre-commit-config.yaml",
    "**/prek.toml",
    ".githooks/**",
    // Editors and containers that start what they name, and hosts that are none of ours.
    "**/.vscode/{tasks,mcp}.json",
    "**/.devcontainer/**",
    "**/.devcontainer.json",
    "**/.windsurf/hooks.json",
    "**/.roo/mcp.json",
    // Workflows of forges.
    ".github/{workflows,actions}/**",
    ".gitlab-ci.yml",
    ".gitlab-ci/**",
    ".drone.y*ml",
    "{,.}appveyor.y*ml",
    ".gitea/workflows/**",
    ".forgejo/workflows/**",
    ".circleci/**",
    ".buildkite/**",
    ".woodpecker*/**",
    ".woodpecker.y*ml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    ".cirrus.{yml,yaml,star}",
    ".tekton/**",
    "cloudbuild.{yml,yaml,json}",
    ".build.yml",
    ".builds/**",
    ".semaphore/**",
    ".teamcity/**",
    ".azure-pipelines/**",
    "buildspec.y*ml",
];

/// The globs of control files that a whitelist does not mean, each with the globs of the whitelist that name some of them: only what these
/// match is in scope. `others` are further control files: those of agent hosts, and the directory of the repository's hooks.
///
/// A whitelist of named directories and files is taken as it is. In one that reaches any directory a glob names a control file by
/// matching a path of it, as `.config` does, or, where the control file or what the glob matches may lie in any directory, by matching
/// nothing else: `.github/**` does not mean the `.gitattributes` that could be there, nor `**/*.yml` a workflow.
pub fn control_files(whitelist: &[Glob], others: impl IntoIterator<Item = String>) -> Opened {
    let begins_anywhere =
        |it: String| it.split('/').next().is_some_and(|it| it.contains(['*', '?', '[']));
    let is_anywhere = |glob: &Glob| glob.alternatives().any(begins_anywhere);
    if !whitelist.iter().any(is_anywhere) {
        return Opened::new();
    }
    let is_named_by = |control: &Glob, named: &Glob| {
        let beyond = ScopeLanguage::new(std::slice::from_ref(named), std::slice::from_ref(control));
        let may_lie_anywhere = control.as_str().starts_with("**/") || is_anywhere(named);
        !may_lie_anywhere || beyond.intersection(&beyond) == Intersection::Empty
    };
    let texts = CONTROL_FILES.iter().map(|text| (*text).to_owned());
    let globs = texts.chain(others).filter_map(|text| Glob::parse(&text).ok());
    let narrowed = |control| {
        let met = whitelist.iter().filter(|glob| glob.is_bare() || may_meet(&control, glob));
        let met: Vec<&Glob> = met.collect();
        let named = met.iter().filter(|glob| !glob.is_bare() && is_named_by(&control, glob));
        let named: Vec<Glob> = named.map(|glob| (*glob).clone()).collect();
        // Of what every glob that reaches it names, nothing is left to deny.
        (named.len() < met.len()).then_some((control, named))
    };
    globs.filter_map(narrowed).collect()
}

/// Whether some path may match both globs.
pub fn may_meet(one: &Glob, other: &Glob) -> bool {
    let [one, other] = [one, other].map(|glob| ScopeLanguage::new(std::slice::from_ref(glob), &[]));
    one.intersection(&other) != Intersection::Empty
}

/// Adds the globs of control files to a denylist, and returns those that are opened in part. What the denylist has already is denied as a
/// whole, because the task, the role or the settings ask for that.
pub fn deny_control_files(denylist: &mut Vec<Glob>, controls: Opened) -> Opened {
    let mut opened = Opened::new();
    for (control, named) in controls {
        if denylist.contains(&control) {
            continue;
        }
        denylist.push(control.clone());
        if !named.is_empty() {
            opened.insert(control, named);
        }
    }
    opened
}

/// Whether a path is a control file of a fixed name: a scope that names it opens it.
pub fn is_control_file(path: &[u8]) -> bool {
    let globs = CONTROL_FILES.iter().filter_map(|glob| Glob::parse(glob).ok());
    let scope = Scope::new(&globs.collect::<Vec<_>>(), &[]);
    let path = RepoPath::parse(path);
    matches!((scope, path), (Ok(scope), Ok(path)) if matches!(scope.decide(&path), Decision::Allowed { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_directories_of_a_whitelist() {
        let of = |globs: &[&str]| {
            let globs: Vec<Glob> =
                globs.iter().map(|glob| Glob::parse(glob).expect("valid")).collect();
            cone_directories(&globs)
                .map(|found| found.into_iter().collect::<Vec<_>>().join(" "))
                .map_err(|glob| glob.as_str().to_owned())
        };
        let cases: [(&[&str], &str); 7] = [
            (&["src/**", "docs/"], "docs src"),
            (&["src/a/*.rs", "src/b/f[12]/g"], "src/a src/b"),
            (&["{one,two/three}/**", "two/x.md"], "one two two/three"),
            (&["README.md", "*.toml", "f?"], ""),
            (&["a b/c'd/**"], "a b/c'd"),
            (&["src/**/deep/x"], "src"),
            (&["./src//x"], "src"),
        ];
        for (globs, expected) in cases {
            assert_eq!(of(globs), Ok(expected.to_owned()), "{globs:?}");
        }
        for glob in ["**/*.rs", "*/lib.rs", "**", "{src,*}/x", "[s]rc/**"] {
            assert_eq!(of(&["docs/**", glob]), Err(glob.to_owned()));
        }
    }

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect(text)
    }

    /// The globs of control files beside a whitelist, and what names some of each.
    fn controls(whitelist: &[&str]) -> Vec<(String, String)> {
        let globs = whitelist.iter().map(|text| Glob::parse(text).expect(text));
        let others = ["**/.host/settings*".to_owned()];
        let controls = control_files(&globs.collect::<Vec<_>>(), others);
        let named = |by: Vec<Glob>| by.iter().map(Glob::as_str).collect::<Vec<_>>().join(" ");
        controls.into_iter().map(|(glob, by)| (glob.to_string(), named(by))).collect()
    }

    #[test]
    fn every_control_glob_is_a_glob_and_binds_a_whitelist_of_everything() {
        let all = controls(&["**"]);
        assert_eq!(all.len(), CONTROL_FILES.len() + 1, "{all:?}");
        assert!(all.iter().all(|(_, by)| by.is_empty()), "{all:?}");
    }

    #[test]
    fn what_defines_the_jobs_of_a_forge_is_a_control_file() {
        let globs = CONTROL_FILES.iter().map(|text| Glob::parse(text).expect(text));
        let all = Scope::opening(&globs.collect::<Vec<_>>(), &[], &Opened::new()).expect("a scope");
        for name in [
            ".cirrus.yml",
            ".cirrus.star",
            ".gitlab-ci.yml",
            ".tekton/push.yaml",
            ".tekton/tasks/build.yaml",
            "cloudbuild.yaml",
        ] {
            assert!(all.decide(&path(name)).is_allowed(), "{name}");
        }
    }

    #[test]
    fn a_scope_that_names_control_files_opens_these() {
        let found = controls(&[
            "**",
            ".github/**",
            "packages/app/.host/settings.json",
            "roles/x.toml",
            "lib/.gitattributes",
        ]);
        let named: Vec<_> = found.into_iter().filter(|(_, by)| !by.is_empty()).collect();
        let expected = [
            ("**/.gitattributes", "lib/.gitattributes"),
            ("**/.host/settings*", "packages/app/.host/settings.json"),
            (".github/{workflows,actions}/**", ".github/**"),
            ("roles/*.toml", "roles/x.toml"),
        ];
        let expected = expected.map(|(glob, by)| (glob.to_owned(), by.to_owned()));
        assert_eq!(named, expected);
    }

    #[test]
    fn a_scope_of_files_of_a_kind_names_no_control_file() {
        let said = |whitelist: &[&str], control: &str| {
            let found = controls(whitelist);
            found.into_iter().find(|(glob, _)| glob == control).map(|(_, by)| by)
        };
        let (host, workflows) = ("**/.host/settings*", ".github/{workflows,actions}/**");
        for (whitelist, control) in [
            (&["**/*.json"][..], host),
            (&["{**/*.json,lib/**}"], host),
            (&["packages/**", "*.json"], host),
            (&["**/*.yml"], workflows),
            (&["[.]github/**"], workflows),
            (&["**/J*"], "Jenkinsfile"),
            (&[".*"], ".gitlab-ci.yml"),
        ] {
            assert_eq!(said(whitelist, control).as_deref(), Some(""), "{whitelist:?}");
        }
        for whitelist in [&["src/**"][..], &[".github/**"], &[".github/workflows/*.yml", "docs/*"]]
        {
            assert_eq!(said(whitelist, workflows), None, "{whitelist:?}");
        }
        assert_eq!(said(&["**/*.yml", ".github/**"], workflows).as_deref(), Some(".github/**"));
    }

    #[test]
    fn what_opens_a_denied_glob_opens_what_it_matches_alone() {
        let globs = |texts: &[&str]| -> Vec<Glob> {
            texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
        };
        let whitelist = globs(&["**", "ci/a.yml"]);
        let denylist = globs(&["**/*.pem", "ci/**"]);
        let opened = Opened::from([(denylist[1].clone(), globs(&["ci/a.yml", "ci/key.pem"]))]);
        let scope = Scope::opening(&whitelist, &denylist, &opened).expect("a scope");
        let language = ScopeLanguage::opening(&whitelist, &denylist, &opened);
        for (name, expected) in [
            ("ci/a.yml", true),
            ("ci/b.yml", false),
            ("ci/a.yml/b", false),
            ("ci", false),
            // Another glob of the denylist wins as before.
            ("ci/key.pem", false),
            ("src/lib.rs", true),
        ] {
            assert_eq!(scope.decide(&path(name)).is_allowed(), expected, "{name}");
            let meeting = language.intersection(&ScopeLanguage::new(&globs(&[name]), &[]));
            assert_eq!(meeting != Intersection::Empty, expected, "{name}");
        }
    }

    #[test]
    fn what_programs_look_up_by_name_is_denied_in_every_case() {
        let globs = |texts: &[&str]| -> Vec<Glob> {
            texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
        };
        let of_host = "**/.host/settings*";
        let mut denylist = crate::domain::work::role::default_denylist();
        denylist.extend(globs(CONTROL_FILES));
        denylist.extend(globs(&[of_host, "docs/**", "one,or two/**", "a/[[]new]/**"]));
        let decide = |is_ignored, name: &str| {
            let case = CaseRule { is_ignored, control_files: &[of_host] };
            let scope = Scope::with_case(&globs(&["**"]), &denylist, &Opened::new(), case);
            scope.expect("a scope").decide(&path(name)).is_allowed()
        };
        for name in [
            ".Husky/x",
            "a/.HUSKY/x",
            ".Host/settings.json",
            "Secrets/k",
            "a/.ENV.local",
            ".GITHUB/workflows/x.yml",
            ".GitModules",
            ".GitAttributes",
            "jenkinsfile",
            ".hu\u{200c}sky/x",
            ".hu\u{ad}sky/x",
            ".hu\u{17f}ky/x",
            "\u{17f}ecrets/k",
            ".husky./x",
            ".gitmodules ",
            ".github::$INDEX_ALLOCATION/workflows/x.yml",
            ".env::$DATA",
            ".github\\workflows\\x.yml",
            "a\\.husky/x",
            "GITHUB~1/WORKFL~1/x.yml",
            ".github/WORKFL~1",
            ".github/workflows",
            "a/HUSKY~1/x",
            "GITMOD~1",
            "ENV~1.LOC",
            "a/.host/SETTIN~2.JSO",
            "DRONE~1.YML",
            "PRE-C~12.YAM",
            "roles/REVIEW~1.TOM",
            "GI7D29~1",
            "GIB1C2~1/workflows/x",
            "a/[new]",
            "a/[new]/x",
        ] {
            assert!(!decide(false, name), "{name}");
        }
        // What a person denies, and what is ordinary in another case, is denied as it is written.
        for name in
            ["Docs/x", "Target/x", "Dist/x", "src/target./x", "TARGET~1/x", "src/a:b", "b~1"]
        {
            assert!(decide(false, name), "{name}");
        }
        // Some of a glob's alternatives are as good as all.
        let own = globs(&[".github/workflows/**"]);
        let scope = Scope::new(&globs(&["**"]), &own).expect("a scope");
        for name in [".github/Workflows/x.yml", "GITHUB~1/workflows/x.yml"] {
            assert!(!scope.decide(&path(name)).is_allowed(), "{name}");
        }
        // What no file system makes a short name of is one that a person gave.
        for name in [
            "environment~1",
            "src/environment~1.yaml",
            "src/env~1-backup.tar.gz",
            "github~1.txt",
            "src/husky~1.png",
            "roles/review.to",
            "src/env~",
            "src/env~x",
        ] {
            assert!(decide(false, name), "{name}");
        }
        for name in ["Docs/x", "Target/x", "docs/x", "One,or two/x"] {
            assert!(!decide(true, name), "{name}");
        }
    }

    #[test]
    fn a_scope_of_some_directories_is_taken_as_it_is() {
        assert!(controls(&["src/**"]).is_empty());
    }
}
