//! Repositories that hold several projects: `[[project]]` in the settings. Checks write down that they ran, so what ran is seen and
//! not what was said.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe, json_of};
use crate::support::git_in;
use crate::verify::Agent;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// `app` needs `core`; `docs` needs nothing; `shared.lock` lies in none of them. Every check of a project reads what it needs.
const SETTINGS: &str = r#"
[[project]]
path = "packages/core"

[project.setup]
run = ["cp source built"]

[project.checks]
commands = ["grep -q right built"]

[[project]]
path = "packages/app"
depends = ["packages/core"]

[project.setup]
copy = [".env.local"]
run = ["cp ../core/built uses"]

[project.checks]
commands = ["grep -q right source", "grep -q right uses; true"]

[[project]]
path = "docs"

[project.checks]
commands = ["grep -q right source"]
"#;
const NO_BUNDLE: &str = "[bundle]\nrequired = false\n";

fn repository(more: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    for project in ["packages/core", "packages/app", "docs"] {
        repo.write(&format!("{project}/source"), "right\n");
    }
    repo.write("shared.lock", "1\n");
    repo.write(".gitignore", "built\nuses\n.env.local\n");
    repo.write(".config/git-agent.toml", format!("{more}{NO_BUNDLE}{SETTINGS}"));
    repo.commit_all("projects");
    repo
}

/// An agent that may touch what a scope says, spawned from a directory.
fn agent(repo: TestRepo, here: &str, scope: &[&str]) -> (Agent, Value) {
    let mut command = agent_command(&repo.path().join(here));
    command.args(["spawn", "mend what is wrong there", "--format=json"]);
    for glob in scope {
        command.args(["--scope", glob]);
    }
    let report = json_of(command);
    (Agent::told_of(repo, &report), report)
}

/// The project of each command that ran, in order; empty for one of the whole repository.
fn checked(verdict: &Value) -> Vec<&str> {
    let commands = verdict["commands"].as_array().expect("commands");
    let project = |one| Value::get(one, "project").and_then(Value::as_str);
    commands.iter().map(|one| project(one).unwrap_or_default()).collect()
}

/// Whether each result was taken over.
fn taken_over(verdict: &Value) -> Vec<bool> {
    let commands = verdict["commands"].as_array().expect("commands");
    let is_from = |one: &Value| one.get("taken_over_from").is_some();
    commands.iter().map(is_from).collect()
}

#[test]
fn the_checks_of_projects_run_where_work_touches_them() {
    let core_and_app = ["packages/core", "packages/app", "packages/app"];
    for (touched, expected) in [
        ("packages/app/more", &core_and_app[1..]),
        // Whoever needs it is checked as well.
        ("packages/core/more", &core_and_app),
        ("docs/more", &["docs"]),
        // It lies in no project, and no setting says who reads it.
        ("shared.lock", &["packages/core", "packages/app", "packages/app", "docs"]),
        ("packages/application/more", &["packages/core", "packages/app", "packages/app", "docs"]),
    ] {
        let (agent, _) = agent(repository(""), "", &["packages/**", "docs", "shared.lock"]);
        agent.write(touched, "2\n");
        let verdict = agent.verify(&[]);
        assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
        assert_eq!(checked(&verdict), expected, "{touched}");
    }

    // Those of the whole repository run always, and first.
    let (agent, _) = agent(repository("[checks]\ncommands = [\"true\"]\n"), "", &["docs"]);
    agent.write("docs/more", "2\n");
    assert_eq!(checked(&agent.verify(&[])), ["", "docs"]);
    let text = String::from_utf8(agent.run(&[]).stdout).expect("text");
    assert!(text.contains("docs: `cd ./docs && grep -q right source` passed"), "{text}");
}

#[test]
fn what_breaks_another_project_is_found_there() {
    let (agent, _) = agent(repository(""), "", &["packages/core"]);
    agent.write("packages/core/source", "wrong\n");
    let verdict = agent.verify(&[]);
    assert_eq!(checked(&verdict), ["packages/core"], "until the first that fails");
    let finding = &verdict["findings"][0];
    assert_eq!(finding["code"], "commands.failed");
    let message = finding["message"].as_str().expect("a text");
    assert!(message.contains("of project packages/core"), "{message}");

    // The agent has no say in it: the projects are those of its base.
    let settings = SETTINGS.replace("grep -q right", "true");
    fs::write(agent.repo.path().join(".config/git-agent.toml"), settings).expect("written");
    agent.repo.commit_all("the target checks less");
    assert_eq!(agent.verify(&[])["verdict"], "reject");
    // Its owner has.
    agent.repo.agent_json(&["amend", &agent.id, "--checks=target"]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

#[test]
fn a_project_that_the_work_removes_is_checked_no_more() {
    let (agent, _) = agent(repository(""), "", &["docs"]);
    agent.git(&["rm", "-rq", "docs"]);
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    assert_eq!(checked(&verdict), Vec::<&str>::new());
}

#[test]
fn an_agent_gets_the_set_up_of_the_projects_that_it_may_touch() {
    let there = |worktree: &Path| {
        ["packages/core/built", "packages/app/uses", "packages/app/.env.local"]
            .map(|name| worktree.join(name).exists())
    };
    let repo = || {
        let repo = repository("");
        repo.write("packages/app/.env.local", "own\n");
        repo
    };
    // What it needs comes first; files are copied for every agent.
    let (app, report) = agent(repo(), "packages/app", &["."]);
    assert_eq!(there(&app.worktree), [true, true, true]);
    assert_eq!(report["warnings"], json!([]));
    let prompt = fs::read_to_string(report["prompt_path"].as_str().expect("a path"));
    let spec = fs::read_to_string(app.worktree.join(".agent/spec.md")).expect("a spec");
    assert!(spec.contains("cd ./packages/app && grep -q right source"), "{spec}");
    assert!(prompt.expect("a prompt").contains("packages/app/**"));
    // It may touch nothing else.
    app.write("docs/more", "2\n");
    assert_eq!(app.codes(), ["scope.not-in-whitelist"]);

    let (docs, _) = agent(repo(), "", &["docs"]);
    assert_eq!(there(&docs.worktree), [false, false, true]);
    // Without a scope it is the whole repository, wherever the caller stands, and that is said.
    let (all, report) = agent(repo(), "packages/app", &[]);
    assert_eq!(there(&all.worktree), [true, true, true]);
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("--scope ."), "{warning}");
    // None of that is work.
    assert_eq!(git_in(&all.worktree, ["status", "--porcelain"]), "");
}

#[test]
fn a_warm_worktree_is_set_up_for_the_project_that_its_agent_works_in() {
    let repo = repository("[setup]\nrun = [\"echo once >> .git-agent-ran\"]\n[pool]\nsize = 1\n");
    repo.write(".gitignore", "built\nuses\n.env.local\n.git-agent-ran\n");
    repo.commit_all("ignored");
    repo.agent_json(&["pool", "fill"]);
    let (agent, report) = agent(repo, "", &["packages/core"]);
    assert_eq!(report["claimed"], true, "{report:#}");
    let ran = fs::read_to_string(agent.worktree.join(".git-agent-ran"));
    assert_eq!(ran.expect("it ran"), "once\n");
    assert!(agent.worktree.join("packages/core/built").exists());
    agent.write("packages/core/more", "2\n");
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
}

#[test]
fn a_set_up_that_fails_names_the_project() {
    let repo = repository("");
    let broken = SETTINGS.replace("cp source built", "echo broken >&2; false");
    repo.write(".config/git-agent.toml", &broken);
    repo.commit_all("broken");
    let output = repo.agent(&["spawn", "mend what is wrong", "--scope", "packages/core"]);
    let told = describe(&output);
    let line = 1 + broken.lines().position(|line| line == "path = \"packages/core\"").expect("it");
    assert!(told.contains(&format!(".config/git-agent.toml:{line}")), "{told}");
    assert!(told.contains("cd ./packages/core && { echo broken >&2; false; }"), "{told}");
    // Others are not held up.
    let other = repo.agent(&["spawn", "mend what is wrong", "--scope", "docs"]);
    assert!(other.status.success(), "{}", describe(&other));
}

#[test]
fn a_sparse_worktree_holds_a_project_and_what_it_needs() {
    let holds = |words: &[&str]| {
        let repo = repository("");
        let report = repo.agent_json(&[&["spawn", "mend what is wrong"], words].concat());
        let worktree = PathBuf::from(report["worktree_abspath"].as_str().expect("a path"));
        assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
        ["packages/core", "packages/app", "docs", "src", "shared.lock"]
            .map(|name| worktree.join(name).exists())
    };
    let app = [true, true, false, false, true];
    assert_eq!(holds(&["--sparse=app"]), app);
    assert_eq!(holds(&["--sparse=packages/app/"]), app);
    // By the scope: the whole project, with what it needs.
    assert_eq!(holds(&["--sparse", "--scope", "packages/app/source"]), app);
    assert_eq!(holds(&["--sparse=core", "--sparse=docs"]), [true, false, true, false, true]);

    let repo = repository("");
    let unknown = repo.agent(&["spawn", "mend what is wrong", "--sparse=apps"]);
    let told = describe(&unknown);
    assert_eq!(unknown.status.code(), Some(2), "{told}");
    assert!(told.contains("`apps` names no project") && told.contains("packages/app"), "{told}");
}

#[test]
fn a_train_checks_the_projects_that_its_agents_touch() {
    let repo = repository("");
    let spawn = |name: &str, scope: &str| {
        let words = ["spawn", "mend what is wrong", "--name", name, "--scope", scope];
        let report = repo.agent_json(&words);
        PathBuf::from(report["worktree_abspath"].as_str().expect("a path"))
    };
    let (app, docs) = (spawn("app", "packages/app"), spawn("docs", "docs"));
    fs::write(app.join("packages/app/more"), "2\n").expect("written");
    fs::write(docs.join("docs/source"), "wrong\n").expect("written");
    for name in ["app", "docs"] {
        repo.agent_json(&["mark", "done", name]);
    }
    let output = repo.agent(&["train", "--all", "--format=json"]);
    let answer = serde_json::from_slice(&output.stdout);
    let answer: Value = answer.unwrap_or_else(|_| panic!("{}", describe(&output)));
    let commands: Vec<&str> = answer["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .flat_map(|run| run["commands"].as_array().expect("commands"))
        .filter_map(Value::as_str)
        .collect();
    assert!(commands.contains(&"cd ./docs && grep -q right source"), "{answer:#}");
    assert!(commands.iter().all(|command| !command.contains("./packages/core")), "{answer:#}");
    // What is right landed, and what is wrong did not.
    assert_eq!(repo.git(["show", "HEAD:packages/app/more"]), "2");
    assert_eq!(repo.git(["show", "HEAD:docs/source"]), "right");
}

/// A repository whose check results are taken over, and an agent of `packages/app` that was accepted there.
fn accepted(reuse: &str) -> Agent {
    let (agent, _) = agent(repository(reuse), "", &["packages/app"]);
    agent.write("packages/app/more", "2\n");
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    assert_eq!(taken_over(&verdict), [false, false]);
    agent
}

const REUSE: &str = "[checks]\nreuse = \"projects\"\n";

#[test]
fn results_are_taken_over_where_the_target_moved_in_other_projects_alone() {
    for (moved, expected) in [
        ("docs/other", true),
        // Its checks read what it needs, and everybody reads what is in no project.
        ("packages/core/other", false),
        ("packages/app/other", false),
        ("shared.lock", false),
        ("packages/new/other", false),
    ] {
        let agent = accepted(REUSE);
        agent.repo.write(moved, "moved\n");
        agent.repo.commit_all("the target moved");
        let verdict = agent.verify(&[]);
        assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
        assert_eq!(taken_over(&verdict), [expected; 2], "{moved}");
    }
}

#[test]
fn a_result_that_was_taken_over_is_called_so_and_is_never_signed() {
    let agent = accepted(REUSE);
    agent.repo.write("docs/other", "moved\n");
    agent.repo.commit_all("the target moved");
    let text = String::from_utf8(agent.run(&[]).stdout).expect("text");
    assert!(text.contains("taken over from tree"), "{text}");
    // The tree is that of what was checked, as git merges it.
    let verdict = agent.verify(&[]);
    let from = verdict["commands"][0]["taken_over_from"].as_str().expect("a tree");
    assert_eq!(agent.repo.git(["cat-file", "-t", from]), "tree");
    assert_eq!(agent.repo.git(["show", &format!("{from}:packages/app/more")]), "2");
    // Signed events tell others that the checks ran.
    agent.repo.git(["config", "agent.sign", "true"]);
    let output = agent.run(&["--format=json"]);
    let signed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(taken_over(&signed), [false, false]);
}

#[test]
fn nothing_is_taken_over_unless_that_is_asked_for_and_projects_alone_are_checked() {
    for reuse in ["", "[checks]\nreuse = \"off\"\n"] {
        let agent = accepted(reuse);
        agent.repo.write("docs/other", "moved\n");
        agent.repo.commit_all("the target moved");
        assert_eq!(taken_over(&agent.verify(&[])), [false, false]);
    }
    // A command of the whole repository reads all of it.
    let everywhere = format!("{REUSE}commands = [\"true\"]\n");
    let (agent, _) = agent(repository(&everywhere), "", &["packages/app"]);
    agent.write("packages/app/more", "2\n");
    agent.verify(&[]);
    agent.repo.write("docs/other", "moved\n");
    agent.repo.commit_all("the target moved");
    assert_eq!(taken_over(&agent.verify(&[])), [false; 3]);
}

#[test]
fn work_that_changed_since_is_checked_again() {
    let agent = accepted(REUSE);
    agent.write("packages/app/source", "wrong\n");
    agent.repo.write("docs/other", "moved\n");
    agent.repo.commit_all("the target moved");
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "reject", "{verdict:#}");
    assert_eq!(taken_over(&verdict), [false]);
}

#[test]
fn mistakes_in_projects_are_told_at_once() {
    let repo = repository("");
    repo.write(
        ".config/git-agent.toml",
        "[checks]\nreuse = \"always\"\n[[project]]\npath = \"../up\"\n[[project]]\npath = \"docs\"\ndepends = [\"package/core\"]\nname = \"x\"\n\
         [[project]]\npath = \"docs/\"\n[[project]]\n[[project]]\npath = \"packages/core\"\n",
    );
    repo.commit_all("wrong");
    let output = repo.agent(&["spawn", "mend what is wrong"]);
    let told = describe(&output);
    for part in [
        "no results are taken over by `always`",
        "no project can be in `../up`",
        "did you mean \"packages/core\"?",
        "`docs` is a project already",
        "the project has no `path`",
        "`name`",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
