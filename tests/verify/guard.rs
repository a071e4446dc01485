use super::{Agent, codes, refused, report};
use crate::support::agent::{agent_command, describe};
use crate::support::{TestRepo, git_in, git_output, snapshot};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const RULES: &str = "[[guard]]\nbranch = \"bot/docs-*\"\ndeny = [\"src/**\"]\n\n\
                     [[guard]]\nbranch = \"bot/*\"\nscope = [\"src/**\", \"docs/**\"]\ndeny = [\"src/gen/**\"]\n";

/// A repository whose settings are these, and that is on `main`.
fn repo_with(settings: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    repo
}

/// Makes a branch at `main` with a commit for each of these files.
pub(super) fn branch(repo: &TestRepo, name: &str, files: &[&str]) {
    repo.git(["switch", "--quiet", "--create", name, "main"]);
    for file in files {
        repo.write(file, format!("{name}\n"));
        repo.commit_all(file);
    }
    repo.git(["switch", "--quiet", "main"]);
}

fn guard(directory: &Path, arguments: &[&str]) -> Value {
    let output = agent_command(directory)
        .args(["guard", "--base=main", "--format=json"])
        .args(arguments)
        .output();
    report(&output.expect("git-agent starts"))
}

#[test]
fn the_first_rule_of_the_base_that_names_a_branch_decides() {
    let repo = repo_with(RULES);
    let check = |name: &str, files: &[&str], expected: &[&str]| {
        branch(&repo, name, files);
        let answer = guard(&repo.path(), &["--tip", name]);
        assert_eq!(codes(&answer), expected, "{name}: {answer}");
        assert_eq!(answer["branch"], name);
        answer
    };
    let answer = check("bot/fine", &["src/two.rs", "docs/two.md"], &[]);
    assert_eq!(answer["rule"]["branch"], "bot/*");
    assert_eq!(answer["merge"]["state"], "fast-forward");
    assert_eq!(answer["merge"]["ahead"], 2);
    let tree = repo.git(["rev-parse", "bot/fine^{tree}"]);
    assert_eq!(answer["merged_tree"], tree);
    check("bot/wide", &["notes.txt"], &["scope.not-in-whitelist"]);
    check("bot/made", &["src/gen/two.rs"], &["scope.denylist"]);
    check("bot/docs-1", &["src/two.rs"], &["scope.denylist"]);
    check("bot/docs-2", &["notes.txt"], &[]);
    // The denylist that every task has.
    check("bot/key", &["src/.env"], &["scope.denylist"]);
    let answer = check("ada/fix", &["notes.txt"], &["guard.no-rule"]);
    assert!(answer.get("rule").is_none() && answer.get("merge").is_none());
}

#[test]
fn every_commit_is_judged_by_the_rules_of_the_base() {
    let repo = repo_with(RULES);
    branch(&repo, "bot/sly", &["notes.txt"]);
    repo.git(["switch", "--quiet", "bot/sly"]);
    // What it undoes, it did; and what it allows itself does not count.
    repo.git(["revert", "--no-edit", "HEAD"]);
    repo.write(".config/git-agent.toml", "");
    repo.commit_all("free");
    // What it gets from the base is the base's.
    repo.git(["switch", "--quiet", "main"]);
    repo.write("CHANGES", "1\n");
    repo.commit_all("of the base");
    repo.git(["switch", "--quiet", "bot/sly"]);
    repo.git(["merge", "--quiet", "--no-edit", "main"]);
    let answer = guard(&repo.path(), &[]);
    assert_eq!(codes(&answer), ["scope.not-in-whitelist"; 2], "{answer}");
    let paths: Vec<_> = answer["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|finding| finding["path"].as_str().expect("a path"))
        .collect();
    assert_eq!(paths, ["notes.txt", ".config/git-agent.toml"]);
}

#[test]
fn a_commit_without_a_name_needs_one_where_rules_go_by_branches() {
    let repo = repo_with(RULES);
    branch(&repo, "bot/one", &["notes.txt"]);
    let tip = repo.git(["rev-parse", "bot/one"]);
    let run = |arguments: &[&str]| {
        let output =
            agent_command(&repo.path()).args(["guard", "--base=main"]).args(arguments).output();
        output.expect("git-agent starts")
    };
    refused(&run(&["--tip", &tip]), "usage", 2);
    for name in ["--branch=bot/one", "--branch=refs/heads/bot/one"] {
        let answer = guard(&repo.path(), &["--tip", &tip, name]);
        assert_eq!(answer["verdict"], "reject", "{answer}");
    }
    // The command line takes the place of the rules.
    let answer = guard(&repo.path(), &["--tip", &tip, "--scope=*.txt"]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert!(answer["rule"].get("branch").is_none());
    let answer = guard(&repo.path(), &["--tip", &tip, "--deny=notes.*"]);
    assert_eq!(codes(&answer), ["scope.denylist"]);
    refused(&run(&["--tip", &tip, "--scope=a\\b"]), "usage", 2);
    refused(&run(&["--tip=nothing"]), "base-not-commit", 2);
}

#[test]
fn a_rule_that_says_nothing_is_a_problem_of_the_settings() {
    let settings =
        "[[guard]]\nscope = [\"src/**\", \".git/x\"]\n\n[[guard]]\nbranch = \"a/*\"\nlevel = 1\n";
    let repo = repo_with(settings);
    let output = repo.agent(&["guard", "--base=main"]);
    refused(&output, "settings-invalid", 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "git-agent.toml:1:1: the rule has no `branch`",
        "`.git/x` allows nothing",
        "the rule allows everything",
        "git-agent.toml:6:1: unknown key `level`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    repo.write(".config/git-agent.toml", "[guard]\nbranch = \"a\"\n");
    repo.commit_all("a table");
    let output = repo.agent(&["guard", "--base=main"]);
    refused(&output, "settings-invalid", 2);
    let error = describe(&output);
    assert!(error.contains("write [[guard]]"), "{error}");
}

#[test]
fn a_plain_checkout_is_enough_and_stays_as_it_is() {
    let repo = repo_with(RULES);
    branch(&repo, "bot/one", &["notes.txt"]);
    let main = repo.path();
    // What a forge makes for a pull request, while the base goes on.
    repo.git(["switch", "--quiet", "--detach", "main"]);
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "bot/one"]);
    repo.git(["update-ref", "refs/pull/1/merge", "HEAD"]);
    repo.git(["switch", "--quiet", "main"]);
    repo.write("CHANGES", "1\n");
    repo.commit_all("of the base");
    let clone = main.with_file_name("checkout");
    let url = format!("file://{}", main.display());
    git_in(&main, ["init", "--quiet", clone.to_str().expect("UTF-8")]);
    git_in(&clone, ["remote", "add", "origin", &url]);
    let fetch = |more: &[&str]| {
        let words = [&["fetch", "--quiet", "--no-tags"], more].concat();
        git_in(&clone, words);
    };
    let merge = "+refs/pull/1/merge:refs/remotes/pull/1/merge";
    fetch(&["--depth=1", "origin", merge]);
    git_in(&clone, ["checkout", "--quiet", "refs/remotes/pull/1/merge"]);
    let named = ["guard", "--base=main", "--branch=bot/one"];
    let run = || {
        let output = agent_command(&clone).args(named).output();
        output.expect("git-agent starts")
    };
    refused(&run(), "base-not-commit", 2);
    fetch(&["--depth=1", "origin", "+refs/heads/main:refs/remotes/origin/main"]);
    refused(&run(), "history-incomplete", 4);
    fetch(&["--unshallow", "origin", "+refs/heads/main:refs/remotes/origin/main"]);
    let before = snapshot(&clone.join(".git"));
    let answer = guard(&clone, &["--branch=bot/one"]);
    assert_eq!(codes(&answer), ["scope.not-in-whitelist"], "{answer}");
    assert_eq!(answer["target"]["ref"], "refs/remotes/origin/main");
    assert_eq!(snapshot(&clone.join(".git")), before);
}

#[test]
fn a_server_can_ask_while_it_receives_a_push() {
    let repo = repo_with(RULES);
    let bare = repo.path().join(".git/server.git");
    repo.git(["clone", "--quiet", "--bare", ".", ".git/server.git"]);
    let hook = bare.join("hooks/pre-receive");
    let script = format!(
        "#!/bin/sh\nread -r old new ref\n'{}' guard --base main --tip \"$new\" --branch \"${{ref#refs/heads/}}\"\n",
        env!("CARGO_BIN_EXE_git-agent"),
    );
    fs::create_dir_all(bare.join("hooks")).expect("made");
    fs::write(&hook, script).expect("written");
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("set");
    // Until the hook has ended, the commits of the push are in no object directory of the repository.
    for (name, file, is_taken) in
        [("bot/fine", "src/two.rs", true), ("bot/wide", "notes.txt", false)]
    {
        branch(&repo, name, &[file]);
        let output = git_output(&repo.path(), ["push", "--quiet", ".git/server.git", name]);
        assert_eq!(output.status.success(), is_taken, "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.contains("scope.not-in-whitelist"), !is_taken, "{said}");
    }
}

#[test]
fn fingerprints_stay_when_the_commit_changes() {
    let repo = repo_with(RULES);
    branch(&repo, "bot/one", &["notes.txt", "other.txt"]);
    let prints = || -> Vec<String> {
        let words = ["guard", "--base=main", "--tip=bot/one", "--format=sarif"];
        let log: Value = serde_json::from_slice(&repo.agent(&words).stdout).expect("JSON");
        let results = log["runs"][0]["results"].as_array().expect("results").iter();
        let print = |result: &Value| {
            let prints = &result["partialFingerprints"];
            let print = prints["gitAgentFinding/v1"].as_str().expect("a text");
            assert_eq!(prints["primaryLocationLineHash"], print);
            print.to_owned()
        };
        results.map(print).collect()
    };
    let before = prints();
    assert_eq!(before.len(), 2);
    assert_ne!(before[0], before[1]);
    repo.git(["switch", "--quiet", "bot/one"]);
    repo.git(["rebase", "--quiet", "--force-rebase", "--reset-author-date", "main"]);
    repo.git(["commit", "--quiet", "--amend", "-m", "said otherwise"]);
    assert_eq!(prints(), before);
}

const CONFLICT: &str = "<<<<<<< main\none\n=======\ntwo\n>>>>>>> work\n";

/// The files of a branch that git finds conflict markers in.
fn marked_for_git(agent: &Agent) -> String {
    let range = format!("main...{}", agent.branch);
    let output = git_output(&agent.repo.path(), ["diff", "--check", &range]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_conflict_that_was_committed_is_found() {
    let repo = TestRepo::with_commit();
    repo.write("src/how.md", CONFLICT);
    repo.write(".gitattributes", "*.txt conflict-marker-size=32\n");
    repo.commit_all("a page about conflicts");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    // A page that has had one, one that may, a heading, and a binary file.
    agent.write("src/how.md", format!("{CONFLICT}\n{CONFLICT}"));
    agent.write("src/tour.txt", CONFLICT);
    agent.write("src/title.md", "Title\n=======\n");
    agent.write("src/data.bin", [b"\0", CONFLICT.as_bytes()].concat());
    assert_eq!(agent.codes(), [""; 0]);
    agent.write("src/two.rs", format!("fn two() {{}}\n{CONFLICT}"));
    let answer = agent.verify(&[]);
    assert_eq!(codes(&answer), ["merge.conflict-markers"]);
    let finding = &answer["findings"][0];
    assert_eq!(finding["path"], "src/two.rs");
    let message = finding["message"].as_str().expect("a text");
    assert!(message.ends_with("on line 2"), "{message}");
    agent.commit("two");
    assert_eq!(agent.codes(), ["merge.conflict-markers"]);
    let marked = marked_for_git(&agent);
    assert!(marked.contains("src/two.rs:2: leftover conflict marker"), "{marked}");
    for name in ["src/tour.txt", "src/data.bin"] {
        assert!(!marked.contains(name), "{marked}");
    }
}

/// The scripts of `action.yml` or of the template for GitLab, in order: the blocks that YAML keeps as they are.
pub(super) fn scripts(file: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(file)).expect("the file");
    let mut scripts = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.trim_start().ends_with("run: |") && line.trim() != "- |" {
            continue;
        }
        let depth = |line: &str| line.len() - line.trim_start().len();
        let begin = lines.peek().map_or(0, |first| depth(first));
        let mut script = String::new();
        while let Some(line) = lines.next_if(|line| line.is_empty() || depth(line) >= begin) {
            script.push_str(line.get(begin..).unwrap_or_default());
            script.push('\n');
        }
        scripts.push(script);
    }
    scripts
}

/// A remote with a branch of each kind, and a shallow checkout of it as a forge makes one.
pub(super) struct Forge {
    pub(super) agent: Agent,
    pub(super) place: std::path::PathBuf,
}

impl Forge {
    pub(super) fn new() -> Forge {
        let task = "role = \"edit-local\"\ntask = \"\"\"\nAdd a second function to the library.\n\"\"\"\n\
                    [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n\
                    [checks]\ncommands = [\"test ! -e src/broken\"]\n";
        let agent = Agent::spawned_in(repo_with(RULES), task);
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        branch(&agent.repo, "bot/wide", &["notes.txt"]);
        branch(&agent.repo, "ada/fix", &["notes.txt"]);
        let place = agent.repo.path().with_file_name("forge");
        Forge { agent, place }
    }

    /// The checkout of a request to merge a branch: one commit deep, of the merge that the forge made.
    pub(super) fn check_out(&self, branch: &str) -> String {
        let (tree, tip) = (format!("{branch}^{{tree}}"), format!("{branch}^0"));
        let tip = self.agent.repo.git(["rev-parse", &tip]);
        let words = ["commit-tree", &tree, "-p", "main", "-p", &tip, "-m", "merge"];
        let merge = self.agent.repo.git(words);
        self.check_out_commit(&merge);
        tip
    }

    /// The checkout of a commit, one commit deep.
    pub(super) fn check_out_commit(&self, commit: &str) {
        let _ = std::fs::remove_dir_all(&self.place);
        let repo = &self.agent.repo;
        repo.git(["update-ref", "refs/pull/1/merge", commit]);
        let clone = self.place.join("clone");
        std::fs::create_dir_all(&clone).expect("a directory");
        let git = |words: &[&str]| git_in(&clone, words);
        git(&["init", "--quiet"]);
        let url = format!("file://{}", repo.path().display());
        git(&["remote", "add", "origin", &url]);
        let refspec = "+refs/pull/1/merge:refs/remotes/pull/1/merge";
        let fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "origin"];
        git(&[&fetch[..], &[refspec]].concat());
        let place = "refs/remotes/pull/1/merge";
        git(&["checkout", "--quiet", "--detach", place]);
    }

    /// Runs a script as a forge does; gives its status and what it wrote.
    pub(super) fn run(
        &self,
        script: &str,
        shell: &[&str],
        variables: &[(&str, &str)],
    ) -> (i32, String) {
        let mut command = crate::support::isolated("bash", &self.place.join("clone"));
        command.args(shell).args(["-c", script]);
        let output = command.envs(variables.iter().copied()).output();
        let output = output.expect("bash starts");
        (output.status.code().expect("a status"), describe(&output))
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.join(name)).unwrap_or_default()
    }
}

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_git-agent");

#[test]
fn the_action_judges_a_request_and_says_why() {
    let forge = Forge::new();
    let scripts = scripts("action.yml");
    let check = |branch: &str, more: &[(&str, &str)], expected: i32, summary: &[&str]| {
        let tip = forge.check_out(branch);
        let file = |name: &str| forge.place.join(name).display().to_string();
        let (temporary, environment) = (file("temporary"), file("environment"));
        let (outputs, page) = (file("outputs"), file("summary"));
        std::fs::create_dir_all(&temporary).expect("a directory");
        let variables = [
            ("PROGRAM", PROGRAM),
            ("GIT_AGENT_PROGRAM", PROGRAM),
            ("VERSION", ""),
            ("BASE", "main"),
            ("TIP", &tip),
            ("BRANCH", branch),
            ("LEDGER", "true"),
            ("REQUIRE_AGENT", "false"),
            ("SIGNERS", ".config/allowed-signers"),
            ("COMMANDS", "true"),
            ("RUNNER_TEMP", &temporary),
            ("GITHUB_ENV", &environment),
            ("GITHUB_OUTPUT", &outputs),
            ("GITHUB_STEP_SUMMARY", &page),
            ("GITHUB_EVENT_NAME", "pull_request"),
        ];
        let variables = [&variables[..], more].concat();
        let shell = ["--noprofile", "--norc", "-eo", "pipefail"];
        let mut ends = scripts.iter().map(|script| forge.run(script, &shell, &variables));
        let last = ends.by_ref().take(3).last().expect("three scripts");
        assert_eq!(last.0, expected, "{branch}: {}", last.1);
        assert_eq!(forge.read("environment"), format!("GIT_AGENT_PROGRAM={PROGRAM}\n"));
        let page = forge.read("summary");
        for part in summary {
            assert!(page.contains(part), "{branch}: {part}: {page}{}", last.1);
        }
        forge.read("outputs")
    };
    assert_eq!(scripts.len(), 3);
    let branch = forge.agent.branch.clone();
    let accepted = format!("## git agent accepted agent {}", &forge.agent.id[..8]);
    let outputs = check(&branch, &[], 0, &["guard.no-rule", &accepted]);
    assert!(outputs.ends_with("verdict=accept\n"), "{outputs}");
    // What code hosts take, one file for each command.
    let found = forge.place.join("temporary/git-agent-findings");
    for verb in ["guard", "verify"] {
        let log = std::fs::read(found.join(format!("{verb}.sarif"))).expect("a log");
        let log: Value = serde_json::from_slice(&log).expect("JSON");
        let id = format!("git-agent/{verb}/");
        assert_eq!(log["runs"][0]["automationDetails"]["id"], id);
    }
    let no_task = "provenance.not-judged";
    let outputs = check("bot/wide", &[], 1, &["rejected branch bot/wide", "notes.txt", no_task]);
    assert!(outputs.ends_with("verdict=reject\n"), "{outputs}");
    // Nothing is called accepted that was not judged.
    let outputs = check("ada/fix", &[], 0, &["not judged: branch ada/fix", no_task]);
    assert!(outputs.ends_with("verdict=\n"), "{outputs}");
    assert!(!forge.read("summary").contains("accepted"));
    for strict in ["true", "signed"] {
        let strict = [("REQUIRE_AGENT", strict)];
        check("ada/fix", &strict, 1, &["no agent's work"]);
    }
    let unsigned = [("REQUIRE_AGENT", "signed")];
    check(&branch, &unsigned, 1, &["The ledger is not signed"]);
    // What names an agent without being its branch, and a queue of both.
    let repo = &forge.agent.repo;
    let squash = ["commit-tree", &format!("{branch}^{{tree}}"), "-p", "main", "-m", "squash"];
    let squash = repo.git(squash);
    repo.git(["update-ref", "refs/heads/queue", &squash]);
    let outputs = check("queue", &[], 0, &["squash of agent", "accepted"]);
    assert!(outputs.ends_with("verdict=accept\n"), "{outputs}");
    repo.git(["update-ref", "refs/heads/agent/forged", "ada/fix"]);
    check("agent/forged", &[], 1, &["rejected", "holds no spawn commit"]);
    // A check command is the branch's own program.
    forge.agent.write("src/broken", "");
    forge.agent.commit("broken");
    check(&branch, &[], 1, &["commands.failed", "Output of test \\! -e src/broken"]);
    let stranger = [("GITHUB_EVENT_NAME", "pull_request_target")];
    check(&branch, &stranger, 0, &["commands.skipped"]);
}

#[test]
fn the_template_for_gitlab_judges_a_request() {
    let forge = Forge::new();
    let scripts = scripts("docs/gitlab-ci.yml").concat();
    let check = |branch: &str, expected: i32, part: &str| {
        let tip = forge.check_out(branch);
        git_in(&forge.place.join("clone"), ["fetch", "--quiet", "--unshallow", "origin", &tip]);
        let variables = [
            ("GIT_AGENT_PROGRAM", PROGRAM),
            ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
            ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", branch),
            ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", &tip),
            ("CI_COMMIT_SHA", "refs/remotes/pull/1/merge"),
        ];
        let (status, said) = forge.run(&scripts, &[], &variables);
        assert_eq!(status, expected, "{branch}: {said}");
        assert!(said.contains(part), "{branch}: {said}");
        let kept = forge.read("clone/git-agent-findings/guard.md");
        assert!(kept.starts_with("## git agent "), "{kept}");
    };
    check(&forge.agent.branch, 0, "accepted: ");
    check("bot/wide", 1, "scope.not-in-whitelist");
    check("ada/fix", 0, "provenance.not-judged");
}
