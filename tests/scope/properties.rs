//! What holds for every glob and every path.

use super::{naive, scope};
use git_agent::domain::boundary::scope::{Decision, Denied, Intersection, Scope, ScopeLanguage};
use git_agent::domain::paths::glob::Glob;
use git_agent::domain::paths::path::RepoPath;
use proptest::prelude::*;

/// Globs over a small alphabet, so that they meet the paths below.
fn any_glob() -> impl Strategy<Value = Glob> {
    let atom = prop::sample::select(vec![
        "a", "b", "ab", ".", "./", "/", "/", "/", "*", "**", "**/", "/**", "/**/", "?", "[ab]",
        "[!a]", "[a-c.]", "é", "*.b", "a.b",
    ]);
    let flat = prop::collection::vec(atom, 1..5).prop_map(|atoms| atoms.concat());
    let text = flat.prop_recursive(2, 12, 3, |inner| {
        let braces = prop::collection::vec(inner.clone(), 1..3)
            .prop_map(|all| format!("{{{}}}", all.join(",")));
        (inner.clone(), braces, inner)
            .prop_map(|(before, braces, after)| format!("{before}{braces}{after}"))
    });
    text.prop_filter_map("not a glob", |text| Glob::parse(&text).ok())
}

fn any_path() -> impl Strategy<Value = RepoPath> {
    let byte =
        prop::sample::select(vec![&b"a"[..], b"b", b"c", b".", b"\xff", "é".as_bytes(), b" "]);
    let name = prop::collection::vec(byte, 1..4).prop_map(|bytes| bytes.concat());
    prop::collection::vec(name, 1..5)
        .prop_filter_map("not a path", |names| RepoPath::parse(&names.join(&b'/')).ok())
}

/// A path that follows a glob closely: each wildcard becomes something it should match or just not.
fn near(glob: &Glob, picks: &[usize]) -> Option<RepoPath> {
    let mut picks = picks.iter().copied().cycle();
    let alternatives = naive::alternatives(glob.as_str());
    let mut rest = alternatives[picks.next()? % alternatives.len()].as_str();
    let mut text = String::new();
    while let Some(next) = rest.chars().next() {
        let (unit, options): (usize, &[&str]) = match next {
            '*' => (rest.len() - rest.trim_start_matches('*').len(), &["", "a", "b.b", "a/b", "/"]),
            '?' => (1, &["a", "/", "", "é"]),
            '[' => (rest.find(']')? + 1, &["a", "b", "/", ".", "é"]),
            _ => (next.len_utf8(), &[]),
        };
        let (here, after) = rest.split_at(unit);
        text.push_str(match options {
            [] => here,
            options => options[picks.next()? % options.len()],
        });
        rest = after;
    }
    RepoPath::parse(text.as_bytes()).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scope_agrees_with_the_naive_matcher(
        whitelist in prop::collection::vec(any_glob(), 1..4),
        denylist in prop::collection::vec(any_glob(), 0..3),
        paths in prop::collection::vec(any_path(), 4),
        picks in prop::collection::vec(prop::collection::vec(0usize..60, 1..8), 4),
    ) {
        let scope = Scope::new(&whitelist, &denylist).expect("a scope");
        let globs = whitelist.iter().chain(&denylist);
        let nearby = globs.flat_map(|glob| picks.iter().filter_map(|picks| near(glob, picks)));
        for path in &paths.into_iter().chain(nearby).collect::<Vec<_>>() {
            let bytes = path.as_bytes();
            let denier = denylist.iter().find(|glob| naive::denies(glob.as_str(), bytes));
            let allower = whitelist.iter().find(|glob| naive::matches(glob.as_str(), bytes));
            let expected = match (denier, allower) {
                (Some(glob), _) => Decision::Denied(Denied::ByDenylist(glob.clone())),
                (None, Some(by)) => Decision::Allowed { by: by.clone() },
                (None, None) => Decision::Denied(Denied::NotInWhitelist),
            };
            let decision = scope.decide(path);
            let begins = |text: &str| path.comparison_form().starts_with(text.as_bytes());
            prop_assert!(!decision.is_allowed() || scope.beginnings().iter().any(begins));
            let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for directory in slashes.map(|(end, _)| RepoPath::parse(&bytes[..end]).expect("a path")) {
                prop_assert!(!decision.is_allowed() || scope.beginnings().may_allow_below(&directory), "{}", path);
            }
            prop_assert_eq!(decision, expected, "{}", path);
        }
    }

    #[test]
    fn what_is_denied_stays_denied_whatever_is_allowed(
        whitelist in prop::collection::vec(any_glob(), 1..4),
        denied in any_glob(),
        path in any_path(),
    ) {
        let denylist = [denied];
        let alone = Scope::new(&denylist, &[]).expect("a scope");
        let both = Scope::new(&whitelist, &denylist).expect("a scope");
        prop_assert!(!(alone.decide(&path).is_allowed() && both.decide(&path).is_allowed()));
    }

    #[test]
    fn normalising_twice_is_normalising_once(
        glob in any_glob(),
        text in "[a-c./*?{},\\[\\]!é~ -]{0,12}",
        bytes in prop::collection::vec(any::<u8>(), 0..24),
    ) {
        let again = Glob::parse(glob.as_str());
        prop_assert_eq!(again.as_ref(), Ok(&glob));
        if let Ok(once) = Glob::parse(&text) {
            let twice = Glob::parse(once.as_str());
            prop_assert_eq!(twice.as_ref(), Ok(&once));
            prop_assert!(Scope::new(&[], &[once]).is_ok(), "what parses compiles");
        }
        if let Ok(once) = RepoPath::parse(&bytes) {
            prop_assert_eq!(&RepoPath::parse(once.as_bytes()), &Ok(once));
        }
    }

    #[test]
    fn climbing_absolute_and_git_paths_are_never_allowed(
        before in "([a-c]{1,2}/){0,2}",
        bad in prop::sample::select(vec!["..", ".git", ".GIT", "git~1", ".git "]),
        after in "(/[a-c]{1,2}){0,2}",
    ) {
        let everything = scope(&["**"], &[]);
        for text in [format!("{before}{bad}{after}"), format!("/{before}x{after}")] {
            let decision = everything.decide_bytes(text.as_bytes());
            prop_assert!(matches!(decision, Decision::Denied(Denied::Never(_))), "{text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn territories_that_never_meet_share_no_path(
        whitelists in prop::array::uniform2(prop::collection::vec(any_glob(), 1..3)),
        denylists in prop::array::uniform2(prop::collection::vec(any_glob(), 0..3)),
        paths in prop::collection::vec(any_path(), 4),
        picks in prop::collection::vec(prop::collection::vec(0usize..60, 1..8), 6),
    ) {
        let [one, two] = [0, 1].map(|side| ScopeLanguage::new(&whitelists[side], &denylists[side]));
        let meeting = one.intersection(&two);
        prop_assert_eq!(&meeting, &two.intersection(&one));
        let allows = |side: usize, path: &RepoPath| {
            let bytes = path.as_bytes();
            whitelists[side].iter().any(|glob| naive::matches(glob.as_str(), bytes))
                && !denylists[side].iter().any(|glob| naive::denies(glob.as_str(), bytes))
        };
        let both = |path: &RepoPath| allows(0, path) && allows(1, path);
        match meeting {
            Intersection::Witness(path) => prop_assert!(both(&path), "{path} is not in both"),
            Intersection::Unknown => {}
            Intersection::Empty => {
                let globs = whitelists.iter().flatten();
                let nearby = globs.flat_map(|glob| picks.iter().filter_map(|picks| near(glob, picks)));
                for path in paths.into_iter().chain(nearby) {
                    prop_assert!(!both(&path), "{path} is in both");
                }
            }
        }
    }
}
