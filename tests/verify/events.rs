//! The action under the events of a merge queue and of forks: its own expressions, evaluated over payloads as GitHub sends them.

use super::guard::branch as branch_of;
use super::guard::{Forge, PROGRAM, scripts};
use serde_json::Value;
use std::path::Path;

/// The event of a run, with its payload and what the forge says beside it.
struct Event {
    name: &'static str,
    payload: Value,
    /// `github.sha`, `github.base_ref` and the like.
    context: Vec<(&'static str, String)>,
}

impl Event {
    fn new(
        name: &'static str,
        file: &str,
        words: &[(&str, &str)],
        context: &[(&'static str, &str)],
    ) -> Event {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/events");
        let text = std::fs::read_to_string(place.join(file)).expect("a payload");
        let filled = |text: String, (word, value): &(&str, &str)| text.replace(word, value);
        let text = words.iter().fold(text, filled);
        let context = context.iter().map(|(key, value)| (*key, (*value).to_owned()));
        Event {
            name,
            payload: serde_json::from_str(&text).expect("JSON"),
            context: context.collect(),
        }
    }

    /// What an expression such as `github.head_ref || github.ref_name` comes to.
    fn value(&self, expression: &str) -> String {
        let one = |path: &str| match path.trim().strip_prefix("github.event.") {
            Some(path) => {
                let value = path.split('.').fold(&self.payload, |value, key| &value[key]);
                value.as_str().unwrap_or_default().to_owned()
            }
            None => {
                let key = path.trim().strip_prefix("github.").expect(path);
                let known = self.context.iter().find(|(name, _)| *name == key);
                known.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        };
        let values = expression.split("||").map(one);
        values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
    }

    /// The default of an input of `action.yml`.
    fn input(&self, name: &str) -> String {
        let action = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
        let action = std::fs::read_to_string(action).expect("the action");
        let (_, rest) = action.split_once(&format!("\n  {name}:\n")).expect(name);
        let line = rest
            .lines()
            .find_map(|line| line.trim().strip_prefix("default: "))
            .expect("a default")
            .trim_matches('"');
        match line.strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(expression) => self.value(expression),
            None => line.to_owned(),
        }
    }

    /// Runs the steps of the action in the checkout; gives the status, the summary and the output `verdict`.
    fn run(&self, forge: &Forge, inputs: &[(&str, &str)]) -> (i32, String, String) {
        let input = |name: &str| {
            let given = inputs.iter().find(|(key, _)| *key == name);
            given.map_or_else(|| self.input(name), |(_, value)| (*value).to_owned())
        };
        let file = |name: &str| forge.place.join(name).display().to_string();
        std::fs::create_dir_all(forge.place.join("temporary")).expect("a directory");
        let variables = [
            ("PROGRAM", PROGRAM.to_owned()),
            ("GIT_AGENT_PROGRAM", PROGRAM.to_owned()),
            ("VERSION", input("version")),
            ("BASE", input("base")),
            ("TIP", input("tip")),
            ("BRANCH", input("branch")),
            ("LEDGER", input("ledger")),
            ("REQUIRE_AGENT", input("require-agent")),
            ("SIGNERS", input("signers")),
            ("COMMANDS", input("commands")),
            ("RUNNER_TEMP", file("temporary")),
            ("GITHUB_ENV", file("environment")),
            ("GITHUB_OUTPUT", file("outputs")),
            ("GITHUB_STEP_SUMMARY", file("summary")),
            ("GITHUB_EVENT_NAME", self.name.to_owned()),
        ];
        let variables: Vec<_> =
            variables.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let shell = ["--noprofile", "--norc", "-eo", "pipefail"];
        let scripts = scripts("action.yml");
        let ends = scripts.iter().map(|script| forge.run(script, &shell, &variables));
        // Each of the three scripts runs, and the last one decides.
        let (status, said) = ends.fold((0, String::new()), |_, end| end);
        let outputs = forge.read("outputs");
        let verdict = outputs
            .lines()
            .find_map(|line| line.strip_prefix("verdict="))
            .unwrap_or_else(|| panic!("{outputs}{said}"))
            .to_owned();
        (status, format!("{}\n{said}", forge.read("summary")), verdict)
    }
}

/// A merge of a branch into a commit, as a queue makes it, with this tree or git's own.
fn queued(forge: &Forge, into: &str, branch: &str, tree: Option<&str>) -> String {
    let repo = &forge.agent.repo;
    let merged = repo.git(["merge-tree", "--write-tree", into, branch]);
    let tree = tree.unwrap_or(&merged);
    let subject = format!("Merge pull request of {branch}");
    repo.git(["commit-tree", tree, "-p", into, "-p", branch, "-m", &subject])
}

#[test]
fn a_queue_s_group_is_judged_part_by_part_and_each_part_is_named() {
    let forge = Forge::new();
    let repo = &forge.agent.repo;
    let task = "role = \"edit-local\"\ntask = \"Add a third function to the library.\"\n\
                [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n";
    let other = repo.spawn_task(task, &[]);
    let place = other["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{place}/src/three.rs"), "three\n").expect("written");
    let id = other["agent_id"].as_str().expect("an id");
    repo.agent_json(&["commit", id, "-m", "three"]);
    let other = other["branch"].as_str().expect("a branch").to_owned();
    let (first, base) = (forge.agent.branch.clone(), repo.git(["rev-parse", "main"]));
    let run = |group: &str, inputs: &[(&str, &str)]| {
        let queue = format!("gh-readonly-queue/main/pr-2-{base}");
        repo.git(["update-ref", &format!("refs/heads/{queue}"), group]);
        forge.check_out_commit(group);
        let words = [("HEAD_SHA", group), ("BASE_SHA", &base)];
        // The forge has no base and no head of a request for a group.
        let context = [("sha", group), ("ref_name", queue.as_str())];
        let event = Event::new("merge_group", "merge_group.json", &words, &context);
        event.run(&forge, inputs)
    };
    let one = queued(&forge, &base, &first, None);
    let both = queued(&forge, &one, &other, None);
    let (status, summary, verdict) = run(&both, &[]);
    assert_eq!((status, verdict.as_str()), (0, "accept"), "{summary}");
    for (short, branch) in [(&forge.agent.id[..8], &first), (&id[..8], &other)] {
        assert!(summary.contains(&format!("merge of agent {short}")), "{summary}");
        assert!(summary.contains(&format!("Merge pull request of {branch}")), "{summary}");
    }
    // With a person's among them not all was judged, which is neither of the other answers.
    let mixed = queued(&forge, &both, "ada/fix", None);
    let (status, summary, verdict) = run(&mixed, &[]);
    assert_eq!((status, verdict.as_str()), (0, ""), "{summary}");
    assert!(summary.contains("Merge pull request of ada/fix"), "{summary}");
    let (status, ..) = run(&mixed, &[("require-agent", "true")]);
    assert_eq!(status, 1);
    // One part that changes what it merges rejects the group.
    let evil = repo.git(["rev-parse", "ada/fix^{tree}"]);
    let evil = queued(&forge, &one, &other, Some(&evil));
    let (status, summary, verdict) = run(&evil, &[]);
    assert_eq!((status, verdict.as_str()), (1, "reject"), "{summary}");
    assert!(summary.contains("provenance.merge-changes"), "{summary}");
}

#[test]
fn a_fork_s_request_is_judged_by_its_commits_and_not_by_its_name() {
    let forge = Forge::new();
    let repo = &forge.agent.repo;
    let base = repo.git(["rev-parse", "main"]);
    let agents = forge.agent.branch.clone();
    branch_of(repo, "fork", &["src/theirs.rs"]);
    // A fork's branches are not in the repository: the request's own ref alone has its commits.
    let run = |name: &'static str, head: &str, head_ref: &str, inputs: &[(&str, &str)]| {
        let tip = forge.check_out(head);
        repo.git(["update-ref", "refs/pull/1/head", &tip]);
        if name == "pull_request_target" {
            forge.check_out_commit(&base);
        }
        let words = [("HEAD_SHA", tip.as_str()), ("BASE_SHA", &base), ("HEAD_REF", head_ref)];
        let (sha, ref_name) = match name {
            "pull_request_target" => (base.as_str(), "main"),
            _ => ("MERGE_SHA", "1/merge"),
        };
        let context =
            [("sha", sha), ("ref_name", ref_name), ("base_ref", "main"), ("head_ref", head_ref)];
        let event = Event::new(name, "pull_request_fork.json", &words, &context);
        event.run(&forge, inputs)
    };
    let detached = repo.git(["rev-parse", "fork"]);
    repo.git(["branch", "--quiet", "-D", "fork"]);
    for event in ["pull_request", "pull_request_target"] {
        // Work of a person is judged by nobody, and not even where its branch is called `main`.
        for name in ["patch-1", "main"] {
            let (status, summary, verdict) = run(event, &detached, name, &[]);
            assert_eq!((status, verdict.as_str()), (0, ""), "{event} {name}: {summary}");
            assert!(!summary.contains("accepted"), "{summary}");
            let (status, ..) = run(event, &detached, name, &[("require-agent", "true")]);
            assert_eq!(status, 1, "{event} {name}");
        }
        // It is no agent's because it is called like one.
        for name in ["agent/mine", agents.as_str()] {
            let (status, summary, verdict) = run(event, &detached, name, &[]);
            assert_eq!((status, verdict.as_str()), (1, "reject"), "{event} {name}: {summary}");
        }
        // An agent's work stays that under another name; commands of a stranger do not run with the rights of the base.
        let (status, summary, verdict) = run(event, &agents, "patch-2", &[]);
        assert_eq!((status, verdict.as_str()), (0, "accept"), "{event}: {summary}");
        let is_skipped = summary.contains("commands.skipped");
        assert_eq!(is_skipped, event == "pull_request_target", "{summary}");
    }
}
