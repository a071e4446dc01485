//! Who an agent is told to be: profiles, and the rosters of the base commit.

use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};

const MANIFEST: &str = r#""name","displayName","title","icon","capabilities","role","identity","communicationStyle","principles","module","path","canonicalId"
"analyst","Mary","Business Analyst","x","","Analyst &amp; Expert","Finds &quot;out&quot;","Calm","Evidence first","bmm","x.md","bmad-agent-analyst"
"dev","Amelia","Developer","x","","Codes","","","","bmm","x.md",""
"#;

fn with_profile(profile: &str) -> String {
    format!("profile = \"{profile}\"\n{TASK}")
}

/// The part of the agent's prompt under one heading.
fn part(prompt: &str, heading: &str) -> String {
    let start = prompt.find(&format!("## {heading}\n")).unwrap_or(prompt.len());
    let rest = &prompt[start..];
    let end = rest[1.min(rest.len())..].find("\n## ").map_or(rest.len(), |end| end + 1);
    rest[..end].trim().to_owned()
}

fn prompt_of(repo: &TestRepo, task: &str) -> String {
    let spawned = repo.spawn_task(task, &[]);
    let path = spawned["prompt_path"].as_str().expect("a path");
    std::fs::read_to_string(path).expect("readable")
}

fn refusal(repo: &TestRepo, task: &str) -> String {
    let path = repo.task_file(task);
    describe(&repo.agent(&["spawn", &path]))
}

#[test]
fn a_task_without_profile_has_no_persona() {
    let prompt = prompt_of(&TestRepo::with_commit(), TASK);
    let headings: Vec<&str> = prompt.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## Rules", "## Task", "## Deliverables", "## When you are finished"]);
}

#[test]
fn the_parts_of_a_prompt_come_in_one_order() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", MANIFEST);
    repo.write("_bmad/_config/agents/analyst/b.md", "Prefer tables.\n");
    repo.write("_bmad/_config/agents/analyst/a.yaml", "critical: cite\n");
    repo.write("_bmad/_config/agents/dev/a.md", "Not for analysts.\n");
    repo.commit_all("a roster");
    let task = format!(
        "briefing = \"The token is in the safe.\"\nsystem_prompt = \"Be brief.\"\n{}",
        with_profile("analyst")
    );
    let prompt = prompt_of(&repo, &task);
    let start = prompt.find("## Persona").expect("a persona");
    let end = prompt.find("## Deliverables").expect("deliverables");
    insta::assert_snapshot!(&prompt[start..end], @r#"
    ## Persona

    You are Mary, Business Analyst.

    Role: Analyst & Expert

    Identity: Finds "out"

    Communication style: Calm

    Principles:

    - Evidence first

    ## Customisations

    ### a.yaml

    critical: cite

    ### b.md

    Prefer tables.

    ## Briefing

    The token is in the safe.

    ## System Prompt

    Be brief.

    ## Task

    Add a second function to the library and test it.
    "#);
}

#[test]
fn the_central_roster_is_read_with_its_layers_and_its_skill() {
    let repo = TestRepo::with_commit();
    let roster = "[agents.bmad-agent-pm]\nmodule = \"bmm\"\nname = \"John\"\ntitle = \"PM\"\n";
    repo.write("_bmad/config.toml", roster);
    repo.write("_bmad/custom/config.toml", "[agents.bmad-agent-pm]\ntitle = \"Senior PM\"\n");
    repo.write(
        ".claude/skills/bmad-agent-pm/customize.toml",
        "[agent]\nrole = \"Plans\"\nprinciples = [\"Ask why\"]\npersistent_facts = [\"file:{project-root}/docs/x.md\"]\n",
    );
    repo.write("_bmad/custom/bmad-agent-pm.toml", "[agent]\nprinciples = [\"Ask who\"]\n");
    repo.commit_all("a roster");
    let prompt = prompt_of(&repo, &with_profile("bmad-agent-pm"));
    insta::assert_snapshot!(part(&prompt, "Persona"), @r"
    ## Persona

    You are John, Senior PM.

    Role: Plans

    Principles:

    - Ask why
    - Ask who

    Keep in mind:

    - Read `docs/x.md` and take what it says as given, where there is such a file.
    ");
}

#[test]
fn of_two_with_one_name_and_no_module_none_can_be_chosen() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", "name,role\na,One\na,Two\n");
    repo.commit_all("a roster");
    insta::assert_snapshot!(refusal(&repo, &with_profile("a")), @r"
    ------- stderr -------
    error[agent-type-unknown]: more than one agent type goes by a

    in _bmad/_config/agent-manifest.csv: a, a

    hint: give each of them a name or a module of its own
    hint: the built-in profiles are secretary, server_admin, developer
    [exit status: 2]
    ");
}

#[test]
fn the_manifest_comes_before_the_central_roster() {
    let repo = TestRepo::with_commit();
    repo.write(".bmad/_cfg/agent-manifest.csv", MANIFEST);
    repo.write(
        "_bmad/config.toml",
        "[agents.dev]\nname = \"Other\"\n[agents.kirk]\nname = \"James\"\n",
    );
    repo.commit_all("two rosters");
    let first_line = |profile: &str| {
        let prompt = prompt_of(&repo, &with_profile(profile));
        part(&prompt, "Persona").lines().nth(2).unwrap_or_default().to_owned()
    };
    assert_eq!(first_line("dev"), "You are Amelia, Developer.");
    assert_eq!(first_line("bmad-agent-analyst"), "You are Mary, Business Analyst.");
    assert_eq!(first_line("kirk"), "You are James.");
    assert_eq!(first_line("bmm:dev"), "You are Amelia, Developer.");
}

#[test]
fn a_roster_that_is_not_committed_does_not_count() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", MANIFEST);
    insta::assert_snapshot!(refusal(&repo, &with_profile("analyst")), @r"
    ------- stderr -------
    error[agent-type-unknown]: no agent type goes by analyst
    hint: there is no roster in the base commit; to use one from elsewhere, pass --agent-manifest <file>
    hint: the built-in profiles are secretary, server_admin, developer
    [exit status: 2]
    ");
}

#[test]
fn what_an_agent_commits_is_not_the_persona_of_another() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", MANIFEST);
    repo.commit_all("a roster");
    let agent = repo.spawn();
    let worktree = std::path::PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
    let forged = MANIFEST.replace("Calm", "FORGED");
    std::fs::write(worktree.join("_bmad/_config/agent-manifest.csv"), forged).expect("written");
    let prompt = prompt_of(&repo, &with_profile("analyst"));
    assert!(prompt.contains("Calm") && !prompt.contains("FORGED"));
}

#[test]
fn an_unknown_agent_type_is_told_the_nearest_and_all() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", MANIFEST);
    repo.write("_bmad/config.toml", "[agents.kirk]\nname = \"James\"\n");
    repo.commit_all("two rosters");
    insta::assert_snapshot!(refusal(&repo, &with_profile("analist")), @r"
    ------- stderr -------
    error[agent-type-unknown]: no agent type goes by analist

    there is analyst, dev, kirk (in _bmad/_config/agent-manifest.csv and _bmad/config.toml)

    hint: did you mean analyst?
    hint: the built-in profiles are secretary, server_admin, developer
    [exit status: 2]
    ");
}

#[test]
fn a_malformed_roster_is_told_with_its_line() {
    let repo = TestRepo::with_commit();
    repo.write(
        "_bmad/_config/agent-manifest.csv",
        "\"name\",\"role\"\n\"dev\",\"codes\"\n\"pm\"\n",
    );
    repo.commit_all("a broken roster");
    insta::assert_snapshot!(refusal(&repo, &with_profile("dev")), @r"
    ------- stderr -------
    error[roster-invalid]: _bmad/_config/agent-manifest.csv:3: 1 cells in the row, 2 in the header
    [exit status: 2]
    ");
}

#[test]
fn a_roster_that_is_a_symbolic_link_is_none() {
    let repo = TestRepo::with_commit();
    std::fs::create_dir_all(repo.path().join("_bmad/_config")).expect("made");
    std::os::unix::fs::symlink("/etc/passwd", repo.path().join("_bmad/_config/agent-manifest.csv"))
        .expect("linked");
    repo.commit_all("a link");
    assert!(refusal(&repo, &with_profile("dev")).contains("there is no roster in the base commit"));
}
