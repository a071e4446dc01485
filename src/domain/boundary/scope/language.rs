//! Whether two scopes could ever allow the same path, whether or not there is such a file.
//!
//! Globs are regular, so the question has an exact answer: both whitelists and the two denylists run
//! side by side as automata, and what can be reached is searched, shortest first, for a path that both
//! whitelists match and neither denylist does. Bytes that no pattern here tells apart are tried once.
//!
//! The answer "never" is sound: it is given only when everything was searched. Where the search would
//! grow too large, and where the path that was found is one that only a peculiar file system minds, the
//! answer is "possibly".

use crate::domain::boundary::scope::{Opened, directories_of};
use crate::domain::paths::glob::{Glob, split_class};
use crate::domain::paths::path::RepoPath;
use std::collections::{HashSet, VecDeque};
use std::iter::zip;

/// How many states are looked at before the answer is "possibly". Pairs of real scopes need some tens.
const MAX_STATES: usize = 4_000;

/// All paths that one scope allows, as automata.
#[derive(Clone, Debug, Default)]
pub struct ScopeLanguage {
    whitelist: Program,
    denylist: Program,
}

/// Whether two languages meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intersection {
    /// No path is in both.
    Empty,
    /// This path is in both.
    Witness(RepoPath),
    /// It could not be ruled out.
    Unknown,
}

impl ScopeLanguage {
    /// The language of the scope with these lists.
    pub fn new(whitelist: &[Glob], denylist: &[Glob]) -> ScopeLanguage {
        ScopeLanguage::opening(whitelist, denylist, &Opened::new())
    }

    /// The language of a scope in which some denylist globs do not deny everything that they match.
    pub fn opening(whitelist: &[Glob], denylist: &[Glob], opened: &Opened) -> ScopeLanguage {
        let mut language = ScopeLanguage::default();
        for pattern in whitelist.iter().flat_map(Glob::alternatives) {
            language.whitelist.add(&pattern, PatternStep::End);
        }
        for (index, glob) in denylist.iter().enumerate() {
            for pattern in glob.alternatives() {
                // A denied directory is denied itself, too, where a link or a file takes its place.
                for directory in directories_of(&pattern).0 {
                    language.denylist.add(&directory, PatternStep::EndUnlessOpened(index));
                }
                language.denylist.add(&pattern, PatternStep::EndUnlessOpened(index));
            }
            let by = opened.get(glob).into_iter().flatten();
            for pattern in by.flat_map(Glob::alternatives) {
                language.denylist.add(&pattern, PatternStep::Opened(index));
            }
        }
        language
    }

    /// Looks for a path that both scopes allow.
    pub fn intersection(&self, other: &ScopeLanguage) -> Intersection {
        let nothing = Program::default();
        // What the whitelists alone keep apart, which is the usual case, needs no look at the denylists.
        let apart = Search::new([&self.whitelist, &other.whitelist], [&nothing, &nothing]).run();
        if apart == SearchResult::Nothing {
            return Intersection::Empty;
        }
        let whitelists = [&self.whitelist, &other.whitelist];
        let denylists = [&self.denylist, &other.denylist];
        match Search::new(whitelists, denylists).run() {
            SearchResult::Nothing => Intersection::Empty,
            SearchResult::TooMuch => Intersection::Unknown,
            SearchResult::Path(bytes) => {
                // No path compares as bytes that are not composed.
                let exactly = |path: &RepoPath| path.comparison_form() == bytes;
                let path = RepoPath::parse(&bytes).ok().filter(exactly);
                path.map_or(Intersection::Unknown, Intersection::Witness)
            }
        }
    }
}

/// What a search came to.
#[derive(Debug, PartialEq, Eq)]
enum SearchResult {
    Nothing,
    TooMuch,
    Path(Vec<u8>),
}

/// How much of the current name is what no path may be called: `.`, `..` or `.git`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ForbiddenName {
    Empty,
    Dot,
    DotDot,
    DotG,
    DotGi,
    DotGit,
    Fine,
}

impl ForbiddenName {
    /// Whether a path may end, or another name may begin, after it.
    fn may_end(self) -> bool {
        !matches!(
            self,
            ForbiddenName::Empty
                | ForbiddenName::Dot
                | ForbiddenName::DotDot
                | ForbiddenName::DotGit
        )
    }

    /// With one more byte; `None` for a path that cannot be.
    fn after(self, byte: u8) -> Option<ForbiddenName> {
        Some(match (self, byte) {
            (name, b'/') => return name.may_end().then_some(ForbiddenName::Empty),
            (ForbiddenName::Empty, b'.') => ForbiddenName::Dot,
            (ForbiddenName::Dot, b'.') => ForbiddenName::DotDot,
            (ForbiddenName::Dot, b'g' | b'G') => ForbiddenName::DotG,
            (ForbiddenName::DotG, b'i' | b'I') => ForbiddenName::DotGi,
            (ForbiddenName::DotGi, b't' | b'T') => ForbiddenName::DotGit,
            _ => ForbiddenName::Fine,
        })
    }

    /// The bytes that matter to [`ForbiddenName::after`].
    fn distinctions(self) -> &'static [&'static [u8]] {
        match self {
            ForbiddenName::Empty => &[b"/", b"."],
            ForbiddenName::Dot => &[b"/", b".", b"gG"],
            ForbiddenName::DotG => &[b"/", b"iI"],
            ForbiddenName::DotGi => &[b"/", b"tT"],
            _ => &[b"/"],
        }
    }
}

/// Where a path stands in everything at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SearchState {
    name: ForbiddenName,
    allowed: [Standing; 2],
    denied: [Standing; 2],
}

struct Search<'p> {
    whitelists: [&'p Program; 2],
    denylists: [&'p Program; 2],
}

impl<'p> Search<'p> {
    fn new(whitelists: [&'p Program; 2], denylists: [&'p Program; 2]) -> Search<'p> {
        Search { whitelists, denylists }
    }

    fn run(&self) -> SearchResult {
        let start = SearchState {
            name: ForbiddenName::Empty,
            allowed: self.whitelists.map(Program::start),
            denied: self.denylists.map(Program::start),
        };
        let mut seen = HashSet::from([start.clone()]);
        // Each state with the path that leads to it.
        let mut open = VecDeque::from([(start, Vec::new())]);
        while let Some((state, path)) = open.pop_front() {
            if seen.len() > MAX_STATES {
                return SearchResult::TooMuch;
            }
            if self.is_found(&state) {
                return SearchResult::Path(path);
            }
            for byte in self.ways_on(&state) {
                if let Some(next) = self.after(&state, byte)
                    && seen.insert(next.clone())
                {
                    open.push_back((next, [path.as_slice(), &[byte]].concat()));
                }
            }
        }
        SearchResult::Nothing
    }

    fn is_found(&self, state: &SearchState) -> bool {
        let accepts = |(program, standing): (&&Program, &Standing)| program.accepts(standing);
        state.name.may_end()
            && zip(&self.whitelists, &state.allowed).all(accepts)
            && !zip(&self.denylists, &state.denied).any(accepts)
    }

    /// One byte for each way on that differs from the others.
    fn ways_on(&self, state: &SearchState) -> Vec<u8> {
        let both = zip(self.whitelists, &state.allowed)
            .map(|(program, standing)| program.going_on(standing))
            .fold(ByteSet::ALL, ByteSet::and);
        let mut classes = vec![both];
        let mut split = |by: ByteSet| {
            let mut others = Vec::new();
            for class in &mut classes {
                let (inside, outside) = (class.and(by), class.without(by));
                if !inside.is_empty() && !outside.is_empty() {
                    *class = inside;
                    others.push(outside);
                }
            }
            classes.append(&mut others);
        };
        for bytes in state.name.distinctions() {
            let set = bytes.iter().map(|byte| ByteSet::of(*byte));
            split(set.fold(ByteSet::NONE, ByteSet::or));
        }
        zip(self.whitelists, &state.allowed)
            .chain(zip(self.denylists, &state.denied))
            .flat_map(|(program, standing)| program.distinctions(standing))
            .for_each(split);
        let mut bytes: Vec<u8> = classes.into_iter().filter_map(ByteSet::representative).collect();
        // So that it does not matter which of the two is asked about the other.
        bytes.sort_unstable_by_key(|byte| (!byte.is_ascii_lowercase(), *byte));
        bytes
    }

    /// `None` where one of the whitelists can match no more.
    fn after(&self, state: &SearchState, byte: u8) -> Option<SearchState> {
        let name = state.name.after(byte)?;
        let step = |[one, two]: [&Program; 2], [at, other]: &[Standing; 2]| {
            [one.after(at, byte), two.after(other, byte)]
        };
        let allowed = step(self.whitelists, &state.allowed);
        // One whitelist that leads nowhere any more ends the search here, however much the other
        // still matches.
        if allowed.iter().any(Vec::is_empty) {
            return None;
        }
        Some(SearchState { name, allowed, denied: step(self.denylists, &state.denied) })
    }
}

// A list of patterns as one automaton over the bytes of a path.
//
// Each pattern is a row of steps; a path is matched by the set of steps it may stand at. `**` as a whole
// name is two steps, one at the start of a name and one inside, so that it ends only between names.

/// One step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternStep {
    /// One byte of these.
    One(ByteSet),
    /// Any bytes of one name, or none.
    Star,
    /// Whole directories, or none: between two names.
    Directories,
    /// The same, inside a name. Always follows [`PatternStep::Directories`].
    InsideDirectory,
    /// The first byte of whatever is left.
    Everything,
    /// What is left after it. Always follows [`PatternStep::Everything`].
    Rest,
    /// The end of a pattern.
    End,
    /// The same, of a pattern that does not match what a pattern with this number opens.
    EndUnlessOpened(usize),
    /// The end of a pattern that opens.
    Opened(usize),
}

/// Patterns without braces, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    steps: Vec<PatternStep>,
    starts: Vec<usize>,
}

/// The steps at which a path may stand, ascending.
pub(super) type Standing = Vec<usize>;

impl Program {
    /// Adds a pattern, normalised and without braces, with its last step.
    pub(super) fn add(&mut self, pattern: &str, end: PatternStep) {
        self.starts.push(self.steps.len());
        let parts: Vec<&str> = pattern.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            match (*part, last) {
                ("**", true) => self.steps.extend([PatternStep::Everything, PatternStep::Rest]),
                ("**", false) => {
                    self.steps.extend([PatternStep::Directories, PatternStep::InsideDirectory])
                }
                (name, last) => {
                    self.add_name(name);
                    self.steps.extend((!last).then(|| PatternStep::One(ByteSet::of(b'/'))));
                }
            }
        }
        self.steps.push(end);
    }

    fn add_name(&mut self, mut name: &str) {
        let mut chars = name.chars();
        while let Some(first) = chars.next() {
            let (step, rest) = match first {
                '*' => (PatternStep::Star, name.trim_start_matches('*')),
                '?' => (PatternStep::One(ByteSet::in_names()), chars.as_str()),
                '[' => match split_class(name) {
                    Ok(class) => {
                        let set = ByteSet::of_class(class.members.as_bytes(), class.negated);
                        (PatternStep::One(set), class.rest)
                    }
                    // Every glob was checked; accepting more than it says errs on the safe side.
                    Err(_) => (PatternStep::Star, ""),
                },
                other => {
                    let mut encoded = [0; 4];
                    let bytes = other.encode_utf8(&mut encoded).bytes();
                    let steps = bytes.map(|byte| PatternStep::One(ByteSet::of(byte)));
                    self.steps.extend(steps);
                    name = chars.as_str();
                    continue;
                }
            };
            self.steps.push(step);
            name = rest;
            chars = name.chars();
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a pattern ends with an end, which leads to no step, and all others lead to steps of their pattern"
    )]
    fn step(&self, at: usize) -> PatternStep {
        self.steps[at]
    }

    /// Where every path begins.
    pub(super) fn start(&self) -> Standing {
        let mut standing = Standing::new();
        for start in &self.starts {
            self.enter(*start, &mut standing);
        }
        tidy(standing)
    }

    /// Where a path stands after one more byte.
    pub(super) fn after(&self, standing: &Standing, byte: u8) -> Standing {
        let mut next = Standing::new();
        for &at in standing {
            let to = match self.step(at) {
                PatternStep::One(set) => set.contains(byte).then_some(at + 1),
                PatternStep::Star => (byte != b'/').then_some(at),
                PatternStep::Directories => (byte != b'/').then_some(at + 1),
                PatternStep::InsideDirectory if byte == b'/' => Some(at - 1),
                PatternStep::InsideDirectory | PatternStep::Rest => Some(at),
                PatternStep::Everything => Some(at + 1),
                PatternStep::End | PatternStep::EndUnlessOpened(_) | PatternStep::Opened(_) => None,
            };
            if let Some(to) = to {
                self.enter(to, &mut next);
            }
        }
        tidy(next)
    }

    /// Whether a path that ends here is matched.
    pub(super) fn accepts(&self, standing: &Standing) -> bool {
        let mut steps = standing.iter().map(|at| self.step(*at));
        let is_opened = |number| {
            let mut steps = standing.iter().map(|at| self.step(*at));
            steps.any(|step| step == PatternStep::Opened(number))
        };
        steps.any(|step| match step {
            PatternStep::EndUnlessOpened(number) => !is_opened(number),
            step => step == PatternStep::End,
        })
    }

    /// The bytes with which a path can go on from here.
    pub(super) fn going_on(&self, standing: &Standing) -> ByteSet {
        standing.iter().fold(ByteSet::NONE, |set, at| {
            set.or(match self.step(*at) {
                PatternStep::One(one) => one,
                PatternStep::Star | PatternStep::Directories => ByteSet::in_names(),
                PatternStep::InsideDirectory | PatternStep::Everything | PatternStep::Rest => {
                    ByteSet::ALL
                }
                PatternStep::End | PatternStep::EndUnlessOpened(_) | PatternStep::Opened(_) => {
                    ByteSet::NONE
                }
            })
        })
    }

    /// The sets of single bytes that tell one way on from another.
    pub(super) fn distinctions<'a>(
        &'a self,
        standing: &'a Standing,
    ) -> impl Iterator<Item = ByteSet> + 'a {
        standing.iter().filter_map(|at| match self.step(*at) {
            PatternStep::One(set) => Some(set),
            _ => None,
        })
    }

    /// Adds a step and those that are reached from it without a byte.
    fn enter(&self, at: usize, standing: &mut Standing) {
        standing.push(at);
        // These match nothing as well, so where one may stand, the step behind it may, too.
        match self.step(at) {
            PatternStep::Star | PatternStep::Rest => self.enter(at + 1, standing),
            PatternStep::Directories => self.enter(at + 2, standing),
            _ => {}
        }
    }
}

fn tidy(mut standing: Standing) -> Standing {
    standing.sort_unstable();
    standing.dedup();
    standing
}

// A set of bytes: what a pattern accepts at one position.

/// Some of the 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet {
    /// One bit for each byte below 128, and for each of the others.
    low: u128,
    high: u128,
}

impl ByteSet {
    /// Every byte but NUL, which no path holds.
    pub(super) const ALL: ByteSet = ByteSet { low: !1, high: !0 };
    /// No byte.
    pub(super) const NONE: ByteSet = ByteSet { low: 0, high: 0 };

    pub(super) fn of(byte: u8) -> ByteSet {
        let bit = 1 << (byte & 127);
        let (low, high) = if byte < 128 { (bit, 0) } else { (0, bit) };
        ByteSet { low, high }
    }

    /// Every byte that a name can hold.
    pub(super) fn in_names() -> ByteSet {
        ByteSet::ALL.without(ByteSet::of(b'/'))
    }

    /// What stands between the brackets of a class: single bytes and ranges `a-z`.
    pub(super) fn of_class(members: &[u8], negated: bool) -> ByteSet {
        let mut set = ByteSet::NONE;
        let mut rest = members;
        loop {
            rest = match rest {
                [] => break,
                [low, b'-', high, after @ ..] => {
                    set = (*low..=*high).map(ByteSet::of).fold(set, ByteSet::or);
                    after
                }
                [one, after @ ..] => {
                    set = set.or(ByteSet::of(*one));
                    after
                }
            };
        }
        if negated { ByteSet::in_names().without(set) } else { set }
    }

    pub(super) fn contains(self, byte: u8) -> bool {
        !self.and(ByteSet::of(byte)).is_empty()
    }

    pub(super) fn is_empty(self) -> bool {
        self == ByteSet::NONE
    }

    pub(super) fn and(self, other: ByteSet) -> ByteSet {
        let (low, high) = (self.low & other.low, self.high & other.high);
        ByteSet { low, high }
    }

    pub(super) fn or(self, other: ByteSet) -> ByteSet {
        let (low, high) = (self.low | other.low, self.high | other.high);
        ByteSet { low, high }
    }

    pub(super) fn without(self, other: ByteSet) -> ByteSet {
        let (low, high) = (!other.low, !other.high);
        self.and(ByteSet { low, high })
    }

    /// The byte that stands for all of them: a letter where there is one, so that people can read it.
    pub(super) fn representative(self) -> Option<u8> {
        // A letter first, because the path is shown to people; NUL never, as no path holds it.
        let readable = std::iter::once(b'x').chain(b'a'..=b'z');
        readable.chain(1..=255).find(|byte| self.contains(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(whitelist: &[&str], denylist: &[&str]) -> ScopeLanguage {
        let globs = |texts: &[&str]| -> Vec<Glob> {
            texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
        };
        ScopeLanguage::new(&globs(whitelist), &globs(denylist))
    }

    /// Where two whitelists meet, with a denylist for the first; `-` for never.
    fn check(one: &str, denied: &[&str], two: &str, expected: &str) {
        let (one, two) = (language(&[one], denied), language(&[two], &[]));
        for meeting in [one.intersection(&two), two.intersection(&one)] {
            let shown = match meeting {
                Intersection::Empty => "-".to_owned(),
                Intersection::Witness(path) => path.to_string(),
                Intersection::Unknown => "?".to_owned(),
            };
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn directories_keep_apart_and_wildcards_meet() {
        check("src/cli/**", &[], "src/core/**", "-");
        check("src/**", &[], "src/core/**", "src/core/x");
        check("src/**", &[], "src", "-");
        check("**/*.rs", &[], "src/**", "src/.rs");
        check("**/*.rs", &[], "docs/*.md", "-");
        check("a/**/z", &[], "a/?/**", "a/x/z");
        check("a/*", &[], "a/*/b", "-");
        check("[a-m]*", &[], "[n-z]*", "-");
        check("[a-m]*", &[], "[!a-l]*", "m");
        check("{a,b}/**", &[], "{b,c}/**", "b/x");
        check("café/**", &[], "caf?/**", "-");
        check("café/**", &[], "caf??/**", "café/x");
    }

    #[test]
    fn denylists_win() {
        check("src/**", &["src/**"], "src/*.rs", "-");
        check("src/**", &["**/*.rs"], "src/*.rs", "-");
        check("src/**", &["src/gen/**"], "src/gen/**", "-");
        check("src/**", &["src/gen/**"], "src/gen?", "src/genx");
        check("src/**", &["src/[a-y]*"], "src/[a-z]", "src/z");
        // A directory's own name is denied with what is below it.
        check("vendor", &["vendor/**"], "vendor", "-");
    }

    #[test]
    fn no_path_is_called_like_a_git_directory() {
        check(".g*", &[], "*it", ".giit");
        check(".[Gg]i[tT]", &[], "?git", "-");
        check("?git", &[], "[.-]git", "-git");
        check(".*", &[], "[.]", "-");
    }

    #[test]
    fn what_would_take_too_long_is_possible() {
        // To tell "never", every set of places where the last letters could begin would have to be tried.
        let one = language(&["[ab]*"], &["*a?????????????????", "*b?????????????????"]);
        let two = language(&["*[ab]??????????????????[ab]"], &[]);
        assert_eq!(one.intersection(&two), Intersection::Unknown);
    }
}
