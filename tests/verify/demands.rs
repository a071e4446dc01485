//! What a task or a repository asks for beyond commands that succeed: how many tests pass, and that dependencies stay.

use super::{Agent, codes};
use crate::support::TestRepo;
use crate::support::agent::TASK;

/// The agent of a task of the older kit.
fn of_kit(verification: &str) -> Agent {
    Agent::of_task(&format!(
        "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"src/**\", \"Cargo.toml\", \"web/**\"]\n[body]\n\
         text = \"Add a second function to the library and test it.\"\n[verification]\n{verification}\n"
    ))
}

fn printing(least: u32, command: &str) -> Agent {
    let agent =
        Agent::of_task(&format!("{TASK}[checks]\ncommands = [{command:?}]\nmin_tests = {least}\n"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent
}

#[test]
fn so_many_tests_have_to_pass() {
    for (least, command, wanted) in [
        (3, "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'", None),
        (
            4,
            "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'",
            Some("passed 3 of at least 4 tests"),
        ),
        // More than is kept of the output comes after it.
        (2, "echo '2 passed in 0.01s'; yes | head -c 200000", None),
        (1, "echo fine", Some("does not say how many tests passed")),
        (2, "echo '<testsuite><testcase/><testcase></testcase></testsuite>' > report.xml", None),
        (1, "exit 3", Some("ended with status 3")),
    ] {
        let agent = printing(least, command);
        // What was green once is remembered with its number.
        for _ in 0..2 {
            let report = agent.verify(&[]);
            let findings = report["findings"].as_array().expect("a list");
            match wanted {
                None => assert_eq!(codes(&report), [""; 0], "{command}: {report}"),
                Some(words) => {
                    let message = findings[0]["message"].as_str().expect("a text");
                    assert!(message.contains(words), "{command}: {message}");
                }
            }
        }
    }
}

#[test]
fn a_number_of_tests_needs_a_command_that_runs_them() {
    let agent = Agent::of_task(&format!("{TASK}[checks]\nmin_tests = 1\n"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(codes(&agent.verify(&[])), ["commands.test-count"]);
    let agent = of_kit("test-count-min = 1");
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(codes(&agent.verify(&[])), ["commands.test-count"]);
}

#[test]
fn the_count_is_in_the_answer_and_binds_a_train() {
    let agent = printing(2, "echo '2 passed in 0.01s'");
    for _ in 0..2 {
        assert_eq!(agent.verify(&[])["commands"][0]["tests"], 2);
    }
    let poor = printing(5, "echo '2 passed in 0.01s'");
    poor.git(&["add", "-A"]);
    poor.git(&["commit", "-qm", "two"]);
    poor.repo.agent_json(&["done", &poor.id, "-m", "two"]);
    let output = poor.repo.agent(&["train", &poor.id, "--format=json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("passed 2 of at least 5 tests"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn a_repository_asks_for_a_number_of_every_task() {
    let repo = TestRepo::with_commit();
    let settings = "[checks]\ncommands = [\"echo 3 passing\"]\nmin_tests = 4\n[defaults]\nno_dep_bump = true\n";
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    let spawned = repo.agent_json(&["spawn", "add a function", "--name", "two"]);
    let agent = Agent::told_of(repo, &spawned);
    agent.write("requirements.txt", "requests==2.0\n");
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["scope.dependency-changed"], "{report}");
    agent.write("requirements.txt", "# none\n");
    assert_eq!(codes(&agent.verify(&[])), ["commands.test-count"]);
}

#[test]
fn dependencies_stay_as_they_are() {
    let agent = of_kit("no-dep-bump = true");
    let manifest =
        "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nserde = \"1.0\"\n";
    agent.write("Cargo.toml", manifest);
    agent.write("web/package.json", "{\"dependencies\":{\"left-pad\":\"1.0.0\"}}");
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["scope.dependency-changed"; 2], "{report}");
    let findings = report["findings"].as_array().expect("a list");
    let messages: Vec<_> =
        findings.iter().map(|one| one["message"].as_str().expect("a text")).collect();
    assert_eq!(messages, ["Cargo.toml adds serde 1.0", "web/package.json adds left-pad 1.0.0"]);
    // The same in a commit, and taken back in the next one.
    agent.git(&["add", "-A"]);
    agent.git(&["commit", "-qm", "dependencies"]);
    agent.git(&["rm", "-q", "Cargo.toml"]);
    agent.write("web/package.json", "{\"name\":\"web\"}");
    assert_eq!(codes(&agent.verify(&[])), [""; 0]);
}

#[test]
fn a_manifest_that_moves_or_is_reworded_changes_no_dependency() {
    let manifest = "{\"name\":\"web\",\"dependencies\":{\"left-pad\":\"1.0.0\"}}";
    let repo = TestRepo::with_commit();
    repo.write("web/a/package.json", manifest);
    repo.write("Cargo.toml", "[package]\nversion = \"1.0.0\"\n[dependencies]\nserde = \"1\"\n");
    repo.commit_all("manifests");
    let task = "role = \"edit-local\"\ntask = \"Move the package to another place.\"\n[scope]\nno_dep_bump = true\n\
         whitelist = [\"web/**\", \"Cargo.toml\"]\n[bundle]\nrequired = false\n";
    let agent = Agent::spawned_in(repo, task);
    agent.git(&["mv", "web/a", "web/b"]);
    agent.write(
        "Cargo.toml",
        "[package]\nversion = \"2.0.0\"\n[dependencies]\n# one\nserde = '1'\n",
    );
    assert_eq!(codes(&agent.verify(&[])), [""; 0]);
    // A link in its place cannot be read.
    std::fs::remove_file(agent.worktree.join("Cargo.toml")).expect("removed");
    std::os::unix::fs::symlink("web/b/package.json", agent.worktree.join("Cargo.toml"))
        .expect("linked");
    assert_eq!(codes(&agent.verify(&[])), ["scope.dependency-changed"]);
}

/// An agent whose answer needs two fields, and which has made one file.
fn reporting() -> Agent {
    let agent = Agent::of_task(&format!("{TASK}[output]\nfields = [\"verdict\", \"body-sha\"]\n"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent
}

#[test]
fn an_answer_has_the_fields_that_were_asked_for() {
    for (script, missing) in [
        ("printf 'Done.\\n\\nverdict: PASS\\n- **Body_SHA:** abc\\n'", 0),
        ("printf '{\"verdict\": \"PASS\", \"body-sha\": \"abc\"}'", 0),
        ("printf 'verdict: PASS\\n'", 1),
        ("printf '```\\nverdict: PASS\\nbody-sha: abc\\n```\\n'", 2),
        ("yes 'no report' | head -c 3000000; printf '\\nverdict: PASS\\nbody-sha: abc\\n'", 0),
        ("true", 2),
    ] {
        let agent = reporting();
        agent.repo.agent(&["run", &agent.id, "--", "sh", "-c", script]);
        let report = agent.verify(&[]);
        let found = codes(&report);
        assert_eq!(found, vec!["report.field-missing"; missing], "{script}");
    }
}

#[test]
fn an_agent_without_a_run_reports_in_its_bundle() {
    let agent = reporting();
    assert_eq!(codes(&agent.verify(&[])), ["report.field-missing"; 2]);
    agent.write(".agent/review.md", "# Review\n\nverdict: PASS\n");
    agent.write(".agent/progress.json", "{\"status\": \"done\", \"body_sha\": \"abc\"}");
    assert_eq!(codes(&agent.verify(&[])), [""; 0]);
    let prompt = format!(".git/agents/{}/prompt.md", &agent.id[..8]);
    let prompt = std::fs::read_to_string(agent.repo.path().join(prompt)).expect("a prompt");
    assert!(prompt.contains("- `body-sha`"), "{prompt}");
}

#[test]
fn tests_of_another_agents_check_make_up_for_none_that_are_gone() {
    let repo = TestRepo::with_commit();
    let says = |count: &str| format!("echo \"test result: ok. {count} passed; 0 failed\"");
    repo.write("suite.sh", says("$(cat src/count)"));
    repo.write("src/count", "100\n");
    repo.write(
        ".config/git-agent.toml",
        "[checks]\ncommands = [\"sh suite.sh\"]\nmin_tests = 100\n",
    );
    repo.commit_all("a suite");
    let finish = |name: &str, file: &str, text: &str, check: &[&str]| {
        let words = ["spawn", "do it", "--scope=src", "--new=src/new.rs", "--name", name];
        let spawned = repo.agent_json(&[&words[..], check].concat());
        let top = std::path::Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
        std::fs::write(top.join(file), text).expect("written");
        repo.agent_json(&["mark", "done", name]);
    };
    let check = says("50");
    finish("fewer", "src/count", "60\n", &[]);
    finish("other", "src/new.rs", "new\n", &["--check", &check]);
    let output = repo.agent(&["train", "fewer", "other", "--format=json"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("passed 60 of at least 100 tests"), "{said}");
    assert_eq!(repo.git(["show", "main:src/count"]), "100");
    assert_eq!(repo.git(["show", "main:src/new.rs"]), "new");
}
