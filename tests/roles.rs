mod repository;

use git_agent::domain::life::event::Isolation;
use git_agent::domain::life::report::{NamedThing, ReportRules};
use git_agent::domain::paths::glob::Glob;
use git_agent::domain::work::role::{
    DEFAULT_DENYLIST, RoleDraft, RoleSet, Shell, default_denylist,
};
use git_agent::wire::file::role_file;
use std::collections::BTreeMap;
use std::path::Path;

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
}

/// Role files given as name and content, in a set with the built-in roles.
fn with_files(files: &[(&str, &str)]) -> RoleSet {
    let drafts = files
        .iter()
        .map(|(name, text)| {
            role_file::parse(name, &format!("roles/{name}.toml"), text.as_bytes()).expect(name)
        })
        .collect();
    RoleSet::built_in().with(drafts, Vec::new())
}

/// The problems of one definition among several.
fn problems(files: &[(&str, &str)], name: &str) -> Vec<String> {
    let set = with_files(files);
    assert_eq!(set.get(name), None, "an invalid role cannot be had");
    let invalid = set.invalid().find(|role| role.name == name);
    invalid.unwrap_or_else(|| panic!("{name} is invalid")).problems.clone()
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/roles").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_built_in_roles_are_the_four_tiers_and_three_around_a_merge() {
    let table: Vec<String> = RoleSet::built_in()
        .iter()
        .map(|role| {
            format!(
                "{} {} {} edits={} shell={} spawnable={} handoff={}",
                role.name,
                role.subagent_type,
                role.isolation.as_str(),
                role.edits,
                role.shell.as_str(),
                role.spawnable,
                role.handoff.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    let expected = "\
auditor critic shared edits=false shell=read-only spawnable=true handoff=merger
edit-local code-implementer worktree edits=true shell=test-runners spawnable=true handoff=-
edit-shared code-implementer worktree edits=true shell=test-runners spawnable=true handoff=-
explorer researcher shared edits=false shell=read-only spawnable=true handoff=-
git-ops infra-implementer shared edits=false shell=any spawnable=false handoff=-
merger infra-implementer worktree edits=true shell=test-runners spawnable=true handoff=-
read-only researcher shared edits=false shell=none spawnable=true handoff=-";
    assert_eq!(table.join("\n"), expected);
    assert_eq!(default_denylist().len(), DEFAULT_DENYLIST.len());
    for role in RoleSet::built_in().iter() {
        assert_eq!(role.default_denylist, default_denylist(), "{}", role.name);
        assert!(!role.description.is_empty(), "{}", role.name);
    }
}

#[test]
fn the_rules_say_what_the_fields_bind() {
    let set = RoleSet::built_in();
    let rules = |name: &str| set.get(name).expect(name).rules().join("\n");
    assert!(rules("read-only").starts_with("Read only: "));
    assert!(rules("read-only").contains("Run no shell commands."));
    assert!(rules("explorer").contains("Run only shell commands that read, such as"));
    assert!(rules("edit-local").starts_with("Create and change only files that are in scope."));
    assert!(rules("edit-local").contains("tests"));
    assert_ne!(rules("edit-local"), rules("edit-shared"));
}

#[test]
fn every_key_of_a_role_file_is_read() {
    let draft = role_file::parse("site", "roles/site.toml", fixture("site.toml").as_bytes());
    let expected = RoleDraft {
        name: "site".to_owned(),
        path: "roles/site.toml".to_owned(),
        extends: Some("edit-local".to_owned()),
        relaxes: vec!["dist/**".to_owned()],
        subagent_type: Some("web-implementer".to_owned()),
        isolation: Some(Isolation::Worktree),
        spawnable: Some(true),
        edits: Some(true),
        shell: Some(Shell::TestRunners),
        may_spawn: Some(false),
        default_denylist: globs(&["docs/legal/**"]),
        handoff: Some("auditor".to_owned()),
        description: Some("Builds the web site".to_owned()),
        preamble: Some("Keep the links working.".to_owned()),
        report: ReportRules {
            required: vec!["pages".to_owned()],
            values: BTreeMap::from([(
                "links".to_owned(),
                vec!["ok".to_owned(), "broken".to_owned()],
            )]),
            tags: vec!["TYPO".to_owned()],
            names: BTreeMap::from([("built-from".to_owned(), NamedThing::Commit)]),
            audit: None,
        },
    };
    assert_eq!(draft, Ok(expected));
}

#[test]
fn what_a_file_leaves_out_is_inherited() {
    let set = with_files(&[
        (
            "base",
            "extends = \"edit-local\"\nrelaxes = [\"dist/\"]\n[pipeline]\nhandoff = \"auditor\"",
        ),
        ("leaf", "extends = \"base\"\nshell = \"none\"\ndefault_denylist = [\"docs/**\"]"),
    ]);
    let leaf = set.get("leaf").expect("valid");
    assert_eq!(leaf.subagent_type, "code-implementer");
    assert_eq!(leaf.isolation, Isolation::Worktree);
    assert_eq!(leaf.shell, Shell::None);
    assert_eq!(leaf.handoff.as_deref(), Some("auditor"));
    assert_eq!(leaf.defined_in.as_deref(), Some("roles/leaf.toml"));
    let mut denylist = default_denylist();
    denylist.retain(|glob| glob.as_str() != "dist/**");
    denylist.extend(globs(&["docs/**"]));
    denylist.sort();
    assert_eq!(leaf.default_denylist, denylist);
}

#[test]
fn a_role_that_extends_nothing_starts_with_nothing_but_the_default_denylist() {
    let set = with_files(&[
        ("reviewer", &fixture("reviewer.toml")),
        ("writer", "subagent_type = \"x\"\nedits = true"),
    ]);
    let reviewer = set.get("reviewer").expect("valid");
    assert!(!reviewer.edits);
    assert_eq!(reviewer.shell, Shell::ReadOnly);
    assert_eq!(reviewer.isolation, Isolation::Shared);
    assert_eq!(reviewer.default_denylist, default_denylist());
    // A role that edits gets a worktree without asking.
    assert_eq!(set.get("writer").expect("valid").isolation, Isolation::Worktree);
}

#[test]
fn a_built_in_role_is_redefined_only_by_extending_it() {
    let set = with_files(&[
        ("edit-local", &fixture("edit-local.toml")),
        ("child", "extends = \"edit-local\""),
    ]);
    let migrations = &globs(&["migrations/**"])[0];
    for name in ["edit-local", "child"] {
        let role = set.get(name).expect(name);
        assert!(role.default_denylist.contains(migrations), "{name}");
    }
    for text in ["subagent_type = \"x\"", "extends = \"edit-shared\""] {
        assert_eq!(
            problems(&[("edit-local", text)], "edit-local"),
            ["`edit-local` is a role already; to change it, say extends = \"edit-local\""]
        );
    }
}

#[test]
fn loosening_is_named_in_relaxes() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(problems(&[("x", text)], "x"), expected, "{text}");
    };
    check(
        &fixture("invalid/writer.toml"),
        &["`edits` allows more than `explorer` does; to mean it, add \"edits\" to `relaxes`"],
    );
    check(
        "extends = \"read-only\"\nshell = \"any\"\nmay_spawn = true",
        &[
            "`shell` allows more than `read-only` does; to mean it, add \"shell\" to `relaxes`",
            "`may_spawn` allows more than `read-only` does; to mean it, add \"may_spawn\" to `relaxes`",
        ],
    );
    check(
        "extends = \"explorer\"\nrelaxes = [\"docs/**\"]",
        &[
            "`relaxes` names `docs/**`, which is neither an inherited glob nor `edits`, `shell` or `may_spawn`",
        ],
    );
    check(
        "extends = \"explorer\"\nrelaxes = [\".git/**\"]",
        &["`relaxes` cannot lift `.git/**`: no scope reaches a git directory"],
    );
    let set = with_files(&[("x", "extends = \"explorer\"\nrelaxes = [\"edits\"]\nedits = true")]);
    let role = set.get("x").expect("valid");
    assert_eq!((role.edits, role.isolation), (true, Isolation::Worktree));
}

#[test]
fn what_no_file_can_have() {
    let check = |name: &str, text: &str, expected: &str| {
        assert_eq!(problems(&[(name, text)], name), [expected], "{text}");
    };
    check(
        "committer",
        &fixture("invalid/committer.toml"),
        "it builds on a role that is not spawnable, and nothing lifts that",
    );
    check(
        "git-ops",
        "extends = \"git-ops\"\nspawnable = true",
        "it builds on a role that is not spawnable, and nothing lifts that",
    );
    check(
        "x",
        "extends = \"edit-local\"\nisolation = \"shared\"",
        "a role that edits needs isolation = \"worktree\"",
    );
    check("x", "", "`subagent_type` is missing, and it extends no role that has one");
    check("x", "extends = \"nobody\"", "it extends `nobody`, which is no role");
    check(
        "x",
        "extends = \"explorer\"\n[pipeline]\nhandoff = \"nobody\"",
        "`handoff` names `nobody`, which is no role",
    );
    for name in ["X", "1x", "-x", "a_b", "", &"a".repeat(65)] {
        let found = problems(&[(name, "extends = \"explorer\"")], name);
        assert!(found[0].starts_with(&format!("the name `{name}` is not")), "{found:?}");
    }
    let longest = "a".repeat(64);
    let set = with_files(&[(&longest, "extends = \"explorer\"")]);
    assert!(set.get(&longest).is_some());
    assert!(!with_files(&[("x", "extends = \"git-ops\"")]).get("x").expect("valid").spawnable);
}

#[test]
fn circles_are_named_and_chains_end() {
    let circle = [
        ("circle-one", &*fixture("invalid/circle-one.toml")),
        ("circle-two", &*fixture("invalid/circle-two.toml")),
        ("entry", "extends = \"circle-one\""),
    ];
    let round = "`extends` goes in a circle: circle-one -> circle-two -> circle-one";
    assert_eq!(problems(&circle, "circle-one"), [round]);
    assert_eq!(problems(&circle, "entry"), [round]);
    assert_eq!(problems(&[("x", "extends = \"x\"")], "x"), ["`extends` goes in a circle: x -> x"]);

    let names: Vec<String> = (0..17).map(|index| format!("role-{index}")).collect();
    let texts: Vec<String> = std::iter::once("explorer".to_owned())
        .chain(names.iter().cloned())
        .map(|parent| format!("extends = \"{parent}\""))
        .collect();
    let chain: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    assert!(with_files(&chain).get("role-15").is_some(), "16 roles are a chain");
    assert_eq!(problems(&chain, "role-16"), ["`extends` goes through more than 16 roles"]);
}

#[test]
fn a_broken_role_spoils_what_builds_on_it_and_nothing_else() {
    let set = with_files(&[
        ("broken", "extends = \"explorer\"\nedits = true"),
        ("child", "extends = \"broken\""),
        ("sound", "extends = \"explorer\""),
    ]);
    let child = set.invalid().find(|role| role.name == "child").expect("invalid");
    assert!(child.problems[0].starts_with("it builds on `broken`, which is invalid: `edits`"));
    assert!(set.get("sound").is_some());
    assert!(set.require("edit-local").is_ok());
}
