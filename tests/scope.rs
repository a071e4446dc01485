mod control_files;
mod dna;
mod naive;
mod properties;
mod typed;

use crate::support::{TestRepo, git_output};
use git_agent::domain::boundary::scope::{Decision, Denied, Scope, effective_denylist};
use git_agent::domain::paths::glob::Glob;
use git_agent::domain::paths::path::CaseIndex;
use git_agent::domain::paths::path::{PathProblem, RepoPath};
use git_agent::domain::work::role::{RoleSet, default_denylist};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
}

fn scope(whitelist: &[&str], denylist: &[&str]) -> Scope {
    Scope::new(&globs(whitelist), &globs(denylist)).expect("a scope")
}

fn path(bytes: impl AsRef<[u8]>) -> RepoPath {
    RepoPath::parse(bytes.as_ref()).expect("a path")
}

fn allowed(scope: &Scope, name: impl AsRef<[u8]>) -> bool {
    scope.decide(&path(name)).is_allowed()
}

#[test]
fn deny_wins_and_the_deciding_glob_is_named() {
    let scope = scope(
        &["docs/**", "src/**", "src/main.rs", "{Cargo,deny}.toml"],
        &["**/secret.*", "src/gen/**"],
    );
    let check = |name: &str, expected: &str| {
        let found = match scope.decide_bytes(name.as_bytes()) {
            Decision::Allowed { by } => format!("allowed by {by}"),
            Decision::Denied(why) => why.to_string(),
        };
        assert_eq!(found, expected, "{name}");
    };
    check("src/main.rs", "allowed by src/**");
    check("./src//lib.rs", "allowed by src/**");
    check("deny.toml", "allowed by {Cargo,deny}.toml");
    check("src/gen/a/b.rs", "the denylist has `src/gen/**`");
    check("docs/secret.md", "the denylist has `**/secret.*`");
    check("secret.md", "the denylist has `**/secret.*`");
    check("README.md", "no glob of the whitelist matches it");
    check("src/../README.md", "no scope allows it: it has a `..` part");
    check("/src/main.rs", "no scope allows it: it is absolute");
    check("src/.git/config", "no scope allows it: it leads into a git directory");
}

#[test]
fn the_default_denylist_covers_every_depth_it_names() {
    let denylist = default_denylist();
    let scope = Scope::new(&globs(&["**"]), &denylist).expect("a scope");
    for name in [
        "secrets/key",
        ".env",
        "prod.env",
        "a/b/.env",
        "a/.env.local",
        ".env.production",
        "target/debug/x",
        "node_modules/x/y.js",
        "dist/app.js",
        ".keisei/state",
    ] {
        assert!(!allowed(&scope, name), "{name}");
    }
    for name in ["src/secrets.rs", "environment", "a/target/x", "env", "distance/x"] {
        assert!(allowed(&scope, name), "{name}");
    }
}

/// Each of these is what globset does by itself, and what a scope must not do.
mod globset_traps {
    use super::*;

    #[test]
    fn star_crosses_the_separator() {
        assert!(
            globset::Glob::new("src/*").expect("glob").compile_matcher().is_match("src/b/c.rs")
        );
        let scope = scope(&["src/*"], &[]);
        assert!(allowed(&scope, "src/c.rs"));
        assert!(!allowed(&scope, "src/b/c.rs"));
    }

    #[test]
    fn everything_below_a_directory_is_not_the_directory() {
        let scope = scope(&["src/**"], &[]);
        assert!(!allowed(&scope, "src"));
        assert!(allowed(&scope, "src/a"));
    }

    #[test]
    fn a_denied_directory_cannot_be_replaced_by_a_file_or_submodule() {
        let scope = scope(&["**"], &["vendor/**", "src/*/**"]);
        assert!(!allowed(&scope, "vendor"));
        assert!(allowed(&scope, "src/a.rs"), "files beside the denied directories stay allowed");
    }

    #[test]
    fn a_trailing_slash_matches_nothing() {
        for text in ["src/", "src/**/", "{src/,x}"] {
            assert!(allowed(&scope(&[text], &[]), "src/a/b.rs"), "{text}");
        }
    }

    #[test]
    fn a_leading_dot_slash_matches_nothing() {
        for text in ["./src/**", "{./src,x}/**"] {
            assert!(allowed(&scope(&[text], &[]), "src/a.rs"), "{text}");
        }
    }

    #[test]
    fn a_whitelisted_directory_matches_what_climbs_out_of_it() {
        assert!(globset::Glob::new("src/**").expect("glob").compile_matcher().is_match("src/../x"));
        let decision = scope(&["src/**"], &[]).decide_bytes(b"src/../x");
        assert_eq!(decision, Decision::Denied(Denied::Never(PathProblem::Parent)));
    }

    #[test]
    fn an_empty_set_matches_all() {
        assert!(globset::GlobSet::empty().matches_all("x"));
        assert_eq!(scope(&[], &[]).decide(&path("x")), Decision::Denied(Denied::NotInWhitelist));
    }

    #[test]
    fn a_negated_class_matches_the_separator() {
        let trap = globset::GlobBuilder::new("src[!x]a").literal_separator(true).build();
        assert!(trap.expect("glob").compile_matcher().is_match("src/a"));
        let scope = scope(&["src[!x]a"], &[]);
        assert!(!allowed(&scope, "src/a"));
        assert!(allowed(&scope, "src-a"));
    }

    #[test]
    fn an_empty_alternative_is_dropped() {
        assert!(!allowed(&scope(&["**"], &["key{,.pem}"]), "key"));
    }
}

#[test]
fn bytes_and_unicode_forms_are_judged() {
    let scope = scope(&["caf\u{e9}/**", "raw/*"], &["raw/*.bin"]);
    assert!(allowed(&scope, "cafe\u{301}/x"), "decomposed");
    assert!(allowed(&scope, "caf\u{e9}/x"), "composed");
    assert!(!allowed(&scope, b"caf\xe9/x"), "Latin-1 is another name");
    assert!(allowed(&scope, b"raw/\xff\xfe"));
    assert!(!allowed(&scope, b"raw/\xff.bin"));
    assert!(allowed(&scope, "raw/.hidden"), "a leading dot is no exception");
}

#[test]
fn directories_without_anything_in_scope_are_told_apart() {
    let scope = scope(&["docs/guide/*.md", "be*/x", "cafe\u{301}/**"], &[]);
    for (directory, may) in [
        ("docs", true),
        ("docs/guide", true),
        ("docs/guide/deeper", true),
        ("docs/other", false),
        ("doc", false),
        ("docs2", false),
        ("b", false),
        ("bench", true),
        ("caf\u{e9}", true),
        ("cafe\u{301}", true),
        ("cafe", false),
    ] {
        assert_eq!(scope.beginnings().may_allow_below(&path(directory)), may, "{directory}");
    }
}

#[test]
fn a_path_that_differs_by_case_is_judged_as_the_tracked_one_too() {
    let tracked = ["secrets/old.pem", "src/lib.rs"].map(path);
    let tracked = CaseIndex::of(&tracked);
    let scope = scope(&["**"], &["secrets/**"]);
    let check = |name: &str, expected: bool| {
        let decision = scope.decide_with_case(&path(name), &tracked);
        assert_eq!(decision.is_allowed(), expected, "{name}");
    };
    check("Secrets/new.pem", false);
    check("SECRETS/OLD.PEM", false);
    check("Src/Lib.rs", true);
    check("other/Secrets/x", true);
    let narrow = super::scope::scope(&["Src/**"], &[]);
    assert!(allowed(&narrow, "Src/lib.rs"));
    assert!(!narrow.decide_with_case(&path("Src/lib.rs"), &tracked).is_allowed());
}

#[test]
fn a_whitelist_inside_a_git_directory_is_refused() {
    let refused = Scope::new(&globs(&["src/**", ".git/hooks/*"]), &[]).expect_err("useless");
    assert!(refused.starts_with("glob `.git/hooks/*` allows nothing"), "{refused}");
    assert!(Scope::new(&globs(&[".claude/**"]), &globs(&[".git/**"])).is_ok());
}

#[test]
fn the_effective_denylist_unites_and_only_a_reader_without_a_list_drops_it() {
    let set = RoleSet::built_in();
    let reader = set.require("read-only").expect("built in");
    let editor = set.require("edit-local").expect("built in");
    let own = globs(&["z/**", "a/**", "dist/**"]);
    let mut united = default_denylist();
    united.extend(globs(&["z/**", "a/**"]));
    united.sort();
    assert_eq!(effective_denylist(Some(&own), editor, false), united);
    assert_eq!(effective_denylist(Some(&own), reader, true), united);
    assert_eq!(effective_denylist(Some(&[]), reader, true), default_denylist());
    assert_eq!(effective_denylist(None, reader, false), default_denylist());
    assert_eq!(effective_denylist(None, reader, true), []);
    assert_eq!(effective_denylist(None, editor, true), default_denylist());
}

#[test]
fn git_takes_the_same_names_for_its_own_directory() {
    let repo = TestRepo::with_commit();
    let blob = repo.git(["hash-object", "-w", "README.md"]);
    for name in [
        ".git",
        ".GIT",
        "a/.Git/b",
        "git~1",
        "GIT~1",
        "x/git~1/y",
        "git~2",
        "git~10",
        ".git ",
        ".git.",
        ".git . .",
        ".git.x",
        ".gitx",
        ".git:x",
        ".git::$INDEX_ALLOCATION",
        "a\\.git",
        ".git\\x",
        "a\\b",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".gi\u{206f}T/x",
        "\u{e9}.git",
        ".gitmodules",
        "..",
        "a/..",
        "...",
        "..a",
    ] {
        let output = git_output(
            &repo.path(),
            [
                "-c",
                "core.protectNTFS=true",
                "-c",
                "core.protectHFS=true",
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("100644,{blob},{name}"),
            ],
        );
        assert_eq!(
            RepoPath::parse(name.as_bytes()).is_ok(),
            output.status.success(),
            "{name:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn paths_are_quoted_as_git_quotes_them() {
    let repo = TestRepo::with_commit();
    let blob = repo.git(["hash-object", "-w", "README.md"]);
    for name in [
        &b"plain name"[..],
        b"a\tb",
        b"a\nb\x01\x7f",
        b"say \"hi\"",
        b"back\\slash",
        b"caf\xe9\n",
        "caf\u{e9}".as_bytes(),
        "\u{e9}\r".as_bytes(),
    ] {
        repo.git(["read-tree", "--empty"]);
        let entry = [format!("100644,{blob},").as_bytes(), name].concat();
        let arguments: [OsString; 4] = ["update-index", "--add", "--cacheinfo"]
            .map(OsString::from)
            .into_iter()
            .chain([OsStr::from_bytes(&entry).to_owned()])
            .collect::<Vec<_>>()
            .try_into()
            .expect("four");
        repo.git(&arguments);
        // Git writes bytes that are not UTF-8 as they are when told not to quote them.
        let setting = format!("core.quotePath={}", std::str::from_utf8(name).is_err());
        assert_eq!(path(name).to_string(), repo.git(["-c", &setting, "ls-files"]));
    }
}
