//! Roles as a repository has them: its base commit's files and git's configuration.

use super::fixture;
use crate::support::TestRepo;
use git_agent::domain::value::oid::Oid;
use git_agent::error::{Code, Error};
use git_agent::git::Repo;
use git_agent::ops::error_report;
use git_agent::ops::roles::roles;
use git_agent::store;

#[test]
fn roles_come_from_the_base_commit_and_not_from_the_worktree() {
    let test = TestRepo::with_commit();
    test.write("roles/reviewer.toml", fixture("reviewer.toml"));
    test.write("roles/edit-local.toml", fixture("invalid/misspelt.toml"));
    test.write("roles/Bad Name.toml", "extends = \"explorer\"");
    test.write("roles/huge.toml", vec![b'#'; 65 * 1024]);
    test.write("roles/README.md", "no role");
    test.write("roles/nested/deep.toml", "no role");
    test.write("target.toml", "extends = \"explorer\"");
    let link = test.git(["hash-object", "-w", "target.toml"]);
    test.git(["add", "--all"]);
    test.git(["update-index", "--add", "--cacheinfo", &format!("120000,{link},roles/link.toml")]);
    test.git(["commit", "--quiet", "-m", "roles"]);
    let base = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("an oid");
    test.write("roles/late.toml", "extends = \"explorer\"");
    let repo = Repo::open(&test.path()).expect("a repository");

    let report = roles(&repo, Some(base)).expect("a report");
    let names: Vec<&str> = report.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(
        names,
        ["auditor", "edit-shared", "explorer", "git-ops", "merger", "read-only", "reviewer"]
    );
    let invalid: Vec<String> = report
        .invalid
        .iter()
        .map(|role| format!("{}: {}", role.path, role.problems.join("; ")))
        .collect();
    let starts = [
        "roles/Bad Name.toml: the name `Bad Name` is not",
        "roles/edit-local.toml: roles/edit-local.toml:1:1: unknown field `extend`",
        "roles/huge.toml: roles/huge.toml: it is larger than 64 KiB",
        "roles/link.toml: roles/link.toml: it is not a regular file",
    ];
    assert_eq!(invalid.len(), starts.len(), "{invalid:?}");
    for (found, start) in invalid.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }

    let set = store::settings::roles::load(&repo, base).expect("roles");
    let code = |result: Result<_, Error>| result.map(|_| ()).map_err(|error| error.code());
    assert_eq!(code(set.require_spawnable("reviewer")), Ok(()));
    assert_eq!(code(set.require_spawnable("edit-local")), Err(Code::RoleInvalid));
    assert_eq!(code(set.require_spawnable("git-ops")), Err(Code::RoleNotSpawnable));
    assert_eq!(code(set.require_spawnable("late")), Err(Code::RoleUnknown));
    let unknown = set.require("reviwer").expect_err("a slip");
    assert_eq!(unknown.hints(error_report::remedy_command)[0], "did you mean `reviewer`?");
}

#[test]
fn the_report_is_stable_json() {
    let test = TestRepo::with_commit();
    let repo = Repo::open(&test.path()).expect("a repository");
    let report = roles(&repo, None).expect("a report");
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["schema"], "git-agent.roles/1");
    assert_eq!(json["invalid"], serde_json::json!([]));
    assert_eq!(
        json["roles"][0],
        serde_json::json!({
            "name": "auditor",
            "description": "Judges another agent's work and hands it on to the merger",
            "subagent_type": "critic",
            "isolation": "shared",
            "spawnable": true,
            "edits": false,
            "shell": "read-only",
            "may_spawn": false,
            "default_denylist": [
                "**/*.env", "**/.env", "**/.env.*", ".git/**", ".keisei/**", "dist/**",
                "node_modules/**", "secrets/**", "target/**",
            ],
            "handoff": "merger",
            "report": {
                "required": ["audited-agent", "body-sha", "findings", "verdict"],
                "values": {"verdict": ["PASS", "FAIL", "INCONCLUSIVE"]},
                "tags": ["HIGH", "MEDIUM", "LOW"],
                "names": {"audited-agent": "agent", "body-sha": "tip"},
                "audit": "verdict",
            },
            "source": "built-in",
        })
    );
    assert!(json["roles"][1].get("handoff").is_none(), "absent, not null");
}

#[test]
fn configuration_renames_and_narrows_a_role_and_never_loosens_it() {
    let test = TestRepo::with_commit();
    let base = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("an oid");
    let config = |key: &str, value: &str| {
        test.git(["config", "--add", &format!("agent.role.{key}"), value]);
    };
    config("explorer.subagentType", "Explore");
    config("edit-local.denylist", "docs/");
    config("edit-local.denylist", "migrations/**");
    config("auditor.spawnable", "no");
    config("elsewhere.subagentType", "x");
    config("git-ops.spawnable", "yes");
    config("merger.isolation", "shared");
    config("edit-shared.relaxes", "dist/**");
    test.git(["config", "extensions.worktreeConfig", "true"]);
    test.git(["config", "--worktree", "agent.role.explorer.subagentType", "Nearest"]);
    let repo = Repo::open(&test.path()).expect("a repository");
    let set = store::settings::roles::load(&repo, base).expect("roles");

    assert_eq!(set.get("explorer").expect("valid").subagent_type, "Nearest");
    assert!(!set.get("auditor").expect("valid").spawnable);
    let edit_local = set.get("edit-local").expect("valid");
    let added = |text: &str| edit_local.default_denylist.iter().any(|glob| glob.as_str() == text);
    assert!(added("docs/**") && added("migrations/**") && added("secrets/**"));
    assert_eq!(edit_local.defined_in.as_deref(), Some("git config agent.role.edit-local"));
    let invalid: Vec<String> =
        set.invalid().map(|role| format!("{}: {}", role.name, role.problems.join("; "))).collect();
    assert_eq!(
        invalid,
        [
            "edit-shared: agent.role.edit-shared.relaxes: there is no such setting",
            "git-ops: it builds on a role that is not spawnable, and nothing lifts that",
            "merger: a role that edits needs isolation = \"worktree\"",
        ]
    );
}
