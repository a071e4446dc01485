//! What a newcomer meets in the first hour: names that go on, work without a branch, files that were not meant to land.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use crate::support::terminal::{OnTerminal, Streams, shown};
use serde_json::Value;
use std::process::{Output, Stdio};

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", describe(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn in_worktree(agent: &Value, arguments: &[&str]) -> Output {
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    let mut command = crate::support::agent::agent_command(std::path::Path::new(worktree));
    command.args(arguments).output().expect("git-agent starts")
}

#[test]
fn a_retry_takes_the_name_over() {
    let repo = TestRepo::with_commit();
    let first = repo.agent_json(&["spawn", "try it", "--name=worker"]);
    repo.agent_json(&["mark", "fail", "worker", "-m", "no"]);
    let planned = repo.agent(&["retry", "worker", "--dry-run"]);
    assert!(planned.status.success(), "{}", describe(&planned));
    assert_eq!(repo.agent_json(&["show", "worker"])["agent_id"], first["agent_id"]);
    let second = repo.agent_json(&["retry", "worker"]);
    assert_eq!(second["name"], "worker");
    assert_eq!(second["warnings"], serde_json::json!([]), "{second}");
    assert_eq!(repo.agent_json(&["show", "worker"])["agent_id"], second["agent_id"]);
    let old = repo.agent_json(&["show", first["agent_id"].as_str().expect("an id")]);
    assert_eq!(old.get("name"), None, "{old}");
    // The new one can be tried again in its turn.
    repo.agent_json(&["mark", "fail", "worker", "-m", "no"]);
    let third = repo.agent_json(&["retry", "worker"]);
    assert_eq!(repo.agent_json(&["path", "worker"])["agent_id"], third["agent_id"]);
    let list = repo.agent(&["list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert_eq!(list.matches(" worker ").count(), 1, "{list}");
}

#[test]
fn a_spawn_without_a_branch_says_where_the_work_can_land() {
    let repo = TestRepo::with_commit();
    let warnings = |words: &[&str]| {
        let output = repo.agent(&[&["spawn", "do it"], words].concat());
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(warnings(&[]), "");
    let head = repo.git(["rev-parse", "HEAD"]);
    assert!(warnings(&["--base", &head]).contains("the base is no branch"));
    repo.git(["checkout", "--quiet", "--detach"]);
    let text = warnings(&[]);
    assert!(
        text.contains("HEAD is detached") && text.contains("merge <agent> --into <branch>"),
        "{text}"
    );
    assert_eq!(warnings(&["--base", "main"]), "");
    // A rebase that stops leaves HEAD detached as well.
    repo.git(["checkout", "--quiet", "-b", "topic", "main"]);
    repo.write("src/lib.rs", "topic\n");
    repo.commit_all("topic");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("src/lib.rs", "main\n");
    repo.commit_all("main");
    repo.git(["checkout", "--quiet", "topic"]);
    let rebase = crate::support::isolated("git", &repo.path()).args(["rebase", "main"]).output();
    assert!(!rebase.expect("starts").status.success());
    let text = warnings(&[]);
    assert!(text.contains("a rebase of topic is under way"), "{text}");
}

#[test]
fn what_is_committed_on_the_way_is_named_and_what_editors_leave_is_not_work() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "do it", "--name=worker"]);
    let worktree = std::path::PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
    let left = [".DS_Store", "src/lib.rs~", "src/.lib.rs.swp"];
    for name in left {
        std::fs::write(worktree.join(name), "left\n").expect("write");
    }
    // Alone they are no work, nothing to ask about, and nothing to land.
    assert_eq!(repo.agent_json(&["show", "worker"])["uncommitted"], 0);
    assert!(in_worktree(&agent, &["check", "--worktree"]).status.success());
    let text = refused(&repo.agent(&["merge", "worker"]), 1);
    assert!(text.contains("changed nothing"), "{text}");
    std::fs::write(worktree.join("README.md"), "# Text\n").expect("write");
    std::fs::write(worktree.join("src/new.rs"), "").expect("write");
    let dry = repo.agent_json(&["merge", "worker", "--dry-run"]);
    assert_eq!(dry["uncommitted_paths"], serde_json::json!(["README.md", "src/new.rs"]));
    assert_eq!(
        dry["editor_files"],
        serde_json::json!([".DS_Store", "src/.lib.rs.swp", "src/lib.rs~"])
    );
    let landed = repo.agent(&["merge", "worker"]);
    let text = String::from_utf8_lossy(&landed.stdout).into_owned();
    assert!(text.contains("commits first: README.md, src/new.rs\n"), "{text}");
    assert!(text.contains(".DS_Store, src/.lib.rs.swp, src/lib.rs~\n"), "{text}");
    assert_eq!(
        repo.git(["ls-tree", "-r", "--name-only", "HEAD", "README.md", "src/new.rs"])
            .lines()
            .count(),
        2
    );
    assert!(!repo.git(["ls-tree", "-r", "--name-only", "HEAD"]).contains("DS_Store"));
    // A file that someone adds on purpose is work, and a discard loses none of them.
    std::fs::write(worktree.join("kept~"), "kept\n").expect("write");
    crate::support::git_in(&worktree, ["add", "kept~"]);
    assert_eq!(
        repo.agent_json(&["merge", "worker", "--dry-run"])["uncommitted_paths"],
        serde_json::json!(["kept~"])
    );
    repo.agent_json(&["discard", "worker"]);
    let rescued = repo.path().join("../rescued");
    repo.agent_json(&["rescue", "worker", "--to", rescued.to_str().expect("UTF-8")]);
    for name in left {
        assert_eq!(std::fs::read_to_string(rescued.join(name)).expect(name), "left\n");
    }
}

#[test]
fn what_is_proposed_next_can_be_done() {
    let repo = TestRepo::with_commit();
    let told = |words: &[&str]| describe(&repo.agent(words));
    // A name that two live agents have names neither.
    repo.agent_json(&["spawn", "do it", "--name=worker"]);
    let second = told(&["spawn", "do it", "--name=worker"]);
    assert!(!second.contains("git agent run worker"), "{second}");
    let shown = repo.agent_json(&["list"]);
    let ids: Vec<&str> = shown["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .map(|agent| agent["short_id"].as_str().expect("an id"))
        .collect();
    let names_id = |id: &&str| second.contains(&format!("git agent run {id} "));
    assert!(ids.iter().any(names_id), "{second}");
    // Words without quotes are one task.
    let words = told(&["spawn", "fix", "the", "typo"]);
    assert!(words.contains("git agent spawn 'fix the typo'"), "{words}");
    let word = told(&["spawn", "fix"]);
    assert!(word.contains("git agent spawn -m fix"), "{word}");
    // What was spawned from no branch lands on none unasked.
    repo.git(["checkout", "--quiet", "--detach"]);
    let work = ["--", "sh", "-c", "echo new >new.txt"];
    let ran = told(&[&["run", "write a file"][..], &work].concat());
    assert!(ran.contains(" --into <branch>\n"), "{ran}");
    repo.git(["checkout", "--quiet", "main"]);
    let ran = told(&[&["run", "write a file"][..], &work].concat());
    assert!(!ran.contains("--into"), "{ran}");
    // Nothing is discarded twice.
    let id = ids.first().expect("an agent");
    assert!(told(&["discard", id]).starts_with("discarded "));
    assert!(told(&["discard", id]).starts_with("had already discarded "));
}

#[test]
fn a_directory_that_no_rule_ignores_is_a_line() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "do it", "--name=worker", "--scope=src"]);
    let worktree = std::path::PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
    std::fs::create_dir_all(worktree.join(".venv/lib")).expect("made");
    for number in 0..300 {
        std::fs::write(worktree.join(format!(".venv/lib/{number}")), "").expect("write");
    }
    std::fs::write(worktree.join("other"), "").expect("write");
    let told = |output: Output| {
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for text in [
        told(repo.agent(&["verify", "worker"])),
        told(in_worktree(&agent, &["check", "--worktree"])),
        told(repo.agent(&["commit", "worker", "-m", "all"])),
        told(repo.agent(&["merge", "worker"])),
    ] {
        assert!(text.contains(".venv/") && text.contains(" paths)"), "{text}");
        assert!(text.lines().count() < 20, "{text}");
    }
    let report = repo.agent(&["verify", "worker", "--format=json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(301));
}

/// The name of a kind of repository, what it holds before its first agent, and the file that the agent changes.
type Kind = (&'static str, Files, &'static str);

/// Files with what they hold.
type Files = &'static [(&'static str, &'static str)];

const KINDS: [Kind; 4] = [
    (
        "TypeScript",
        &[
            ("package.json", "{\"name\": \"app\", \"scripts\": {\"test\": \"vitest run\"}}\n"),
            ("tsconfig.json", "{\"include\": [\"src\"]}\n"),
            ("src/index.ts", "export const one = 1;\n"),
            (".gitignore", "node_modules/\ndist/\n"),
        ],
        "src/index.ts",
    ),
    (
        "Python",
        &[
            ("pyproject.toml", "[project]\nname = \"app\"\nversion = \"0.1\"\n"),
            ("app/__init__.py", "ONE = 1\n"),
            ("tests/test_app.py", "from app import ONE\n"),
            (".gitignore", ".venv/\n__pycache__/\n"),
        ],
        "app/__init__.py",
    ),
    (
        "Rust",
        &[
            ("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\n"),
            ("src/lib.rs", "pub const ONE: u32 = 1;\n"),
            (".gitignore", "/target\n"),
        ],
        "src/lib.rs",
    ),
    (
        "submodules",
        &[("README.md", "# App\n"), ("main.c", "int main(void) { return 0; }\n")],
        "main.c",
    ),
];

/// How a newcomer reads what a command prints.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    Terminal,
    Pipe,
}

/// All that a command prints, on either stream; it must succeed.
fn printed(repo: &TestRepo, arguments: &[&str], reader: Reader) -> String {
    let mut command = agent_command(&repo.path());
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    if reader == Reader::Pipe {
        let output = command.output().expect("starts");
        assert!(output.status.success(), "{}", describe(&output));
        return String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    }
    let (seen, status) = shown(&mut command, (24, 80), Streams::Both);
    assert!(status.success(), "{seen}");
    seen
}

/// From `git init` to landed work, as a newcomer would type it; the shell stands in for the agent.
fn first_hour((kind, files, changed): Kind, reader: Reader) {
    let repo = TestRepo::empty();
    for (name, content) in files {
        repo.write(name, content);
    }
    if kind == "submodules" {
        let other = TestRepo::with_commit();
        let url = other.path();
        let url = url.to_str().expect("UTF-8");
        repo.git([
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            url,
            "vendor/lib",
        ]);
    }
    repo.commit_all("begin");
    let work = format!("echo '// more' >> {changed}; echo done");
    let commands: [&[&str]; 4] = [
        &["run", "add a --verbose flag", "--name=verbose", "--", "sh", "-c", &work],
        &["list"],
        &["show", "verbose"],
        &["merge", "verbose"],
    ];
    let mut transcript = String::new();
    for arguments in commands {
        let said = printed(&repo, arguments, reader);
        // A program that reads the table gets all of its columns.
        let is_table = reader == Reader::Pipe && arguments[0] == "list";
        let wide = said.lines().find(|line| line.chars().count() > 80 && !is_table);
        assert_eq!(wide, None, "{kind} {arguments:?}:\n{said}");
        transcript.push_str(&format!("$ git agent {}\n{said}", arguments.join(" ")));
    }
    let landed = repo.git(["show", &format!("HEAD:{changed}")]);
    assert!(landed.ends_with("// more"), "{kind}\n{transcript}");
    assert_eq!(repo.git(["status", "--porcelain"]), "", "{kind}\n{transcript}");
    // Nothing has to be looked up: each answer names what comes next.
    for next in ["next: git agent diff verbose, then git agent merge verbose", "git agent discard"]
    {
        assert!(transcript.contains(next), "{kind}: {next}\n{transcript}");
    }
    let warnings = usize::from(kind == "submodules");
    assert_eq!(transcript.matches("warning:").count(), warnings, "{kind}\n{transcript}");
}

#[test]
fn four_commands_lead_from_git_init_to_landed_work_on_a_terminal() {
    KINDS.into_iter().for_each(|kind| first_hour(kind, Reader::Terminal));
}

#[test]
fn four_commands_lead_from_git_init_to_landed_work_in_a_pipe() {
    KINDS.into_iter().for_each(|kind| first_hour(kind, Reader::Pipe));
}

#[test]
fn what_a_newcomer_reads_first_fits_80_columns() {
    let repo = TestRepo::with_commit();
    for arguments in
        [&["-h"][..], &["help"], &["help", "--all"], &["spawn", "fix the typo"], &["list"]]
    {
        let said = printed(&repo, arguments, Reader::Terminal);
        let wide = said.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{arguments:?}");
    }
    let long = "a task of many words that goes on for longer than a line of a terminal is wide";
    for reader in [Reader::Terminal, Reader::Pipe] {
        let said = printed(&repo, &["spawn", long], reader);
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    }
}

#[test]
fn what_is_said_of_the_commonest_slips_fits_80_columns() {
    let repo = TestRepo::with_commit();
    for arguments in [
        &["show", "a-name-of-an-agent-that-is-not-there"][..],
        &["spawn", "fix"],
        &["spawn", "fix the typo", "--scope", "srx"],
        &["spwan", "fix the typo"],
        &["create", "fix the typo"],
        &["merge"],
        &["run", "fix the typo"],
        &["run", "fix", "--host=claude"],
        &["spawn", "  "],
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        let wide = said.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{arguments:?}");
        assert!(said.contains("hint: "), "{arguments:?}: {said}");
    }
}

/// What a refusal prints on a terminal of 80 columns.
fn refused_on_a_terminal(repo: &TestRepo, arguments: &[&str]) -> String {
    let mut command = agent_command(&repo.path());
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    let (seen, status) = shown(&mut command, (24, 80), Streams::Both);
    assert!(!status.success(), "{seen}");
    seen
}

#[test]
fn a_refusal_is_broken_at_words_where_the_terminal_ends_and_its_command_is_not() {
    let repo = TestRepo::with_commit();
    let long = "a-name-of-an-agent-that-is-longer-than-half-a-line-of-a-terminal-of-80-columns";
    let seen = refused_on_a_terminal(&repo, &["discard", long]);
    insta::assert_snapshot!(seen, @r"
    error[agent-unknown]: there is no agent
      `a-name-of-an-agent-that-is-longer-than-half-a-line-of-a-terminal-of-80-columns`
    hint: to see the agents there are, run git agent list --all
    ");
    let seen = refused_on_a_terminal(&repo, &["run", "do it", "--host=clade"]);
    insta::assert_snapshot!(seen, @r"
    error[usage]: invalid value 'clade' for '--host <HOST>': `clade` is none of
      claude, codex, gemini, qwen, copilot, opencode, aider, shell
    hint: a similar value exists: 'claude'
    hint: to see what it takes, run git agent run -h
    ");
    let name = "a name that no agent can have, of more words than a line of a terminal can hold";
    let seen = refused_on_a_terminal(&repo, &["spawn", "do it", "--name", name]);
    insta::assert_snapshot!(seen, @r"
    error[usage]: `a name that no agent can have, of more words than a line of a
      terminal can hold` cannot be an agent's name: a name has at most 64 characters
    hint: to choose another one, pass --name a-name-that-no-agent-can
    ");
    repo.agent_json(&["spawn", "do it", "--name=worker", "--scope=src"]);
    let worktree = repo.agent_json(&["path", "worker"])["worktree_abspath"].clone();
    let worktree = std::path::PathBuf::from(worktree.as_str().expect("a path"));
    std::fs::write(worktree.join("a file [of] ours.md"), "text\n").expect("write");
    let seen = refused_on_a_terminal(&repo, &["verify", "worker"]);
    let wide = seen.lines().find(|line| line.chars().count() > 80 && line.contains(" is "));
    assert_eq!(wide, None, "{seen}");
    // The command is for the agent's worktree: here it would remove a file of the same name.
    assert!(
        seen.contains("fix: in the agent's worktree, run rm -r -- 'a file [of] ours.md'"),
        "{seen}"
    );
    // The other way is a command that works as it stands.
    let amend = seen
        .lines()
        .find_map(|line| line.split_once("to let the agent change it: git agent "))
        .expect("a way");
    let arguments = amend.1.replace('\'', "");
    let words: Vec<_> = arguments.splitn(4, ' ').collect();
    repo.agent_json(&words);
    assert!(repo.agent(&["verify", "worker"]).status.success());
}

#[test]
fn a_run_names_its_agent_and_says_why_the_work_is_rejected() {
    let repo = TestRepo::with_commit();
    let run = ["run", "do it", "--name=worker", "--scope=src", "--", "sh", "-c"];
    let output = repo.agent(&[&run[..], &["touch a b c d"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.starts_with("run 1 of worker ended with status 0"), "{said}");
    for line in [
        "  verdict reject\n    scope.not-in-whitelist a (added in the worktree): ",
        "    and 1 more\n",
        "hint: to see how to mend it, run git agent verify worker\n",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

#[test]
fn the_host_that_comes_next_is_one_that_is_installed() {
    let repo = TestRepo::with_commit();
    let programs = repo.path().join("../programs");
    std::fs::create_dir_all(&programs).expect("made");
    std::fs::write(programs.join("qwen"), "").expect("write");
    let said = |host: &str, words: &[&str]| {
        let mut command = agent_command(&repo.path());
        let path = std::env::join_paths(
            [programs.clone()]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").expect("a path"))),
        );
        command.env("PATH", path.expect("joined"));
        let output = command.args(words).output().expect("starts");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        assert!(said.contains(host), "{said}");
    };
    said("--host qwen, or git agent enter", &["spawn", "do it"]);
    said("hint: hosts that are installed: qwen", &["run", "do it", "--host=copilot"]);
}

#[test]
fn a_spawn_shows_the_task_and_asks_where_a_person_can_answer() {
    let repo = TestRepo::with_commit();
    let refused = refused(&repo.agent(&["spawn", "-i", "do it"]), 2);
    assert!(refused.contains("--interactive requires a terminal"), "{refused}");
    for (answer, made) in [("n\r", 0), ("\r", 0), ("y\r", 1)] {
        let mut spawn = OnTerminal::start(&repo, &["spawn", "-i", "do it at once"], 100, 40);
        spawn.until(|screen| {
            screen.contains("do it at once") && screen.contains("Spawn this? [y/N]")
        });
        assert_eq!(agents(&repo), 0, "nothing is made before the answer");
        spawn.press(answer);
        let status = spawn.child.wait().expect("ends");
        assert_eq!(status.code(), Some(1 - made), "{answer:?}");
        assert_eq!(agents(&repo), made, "{answer:?}");
    }
}

/// How many agents there are.
fn agents(repo: &TestRepo) -> i32 {
    let list = repo.agent_json(&["list"]);
    i32::try_from(list["agents"].as_array().expect("agents").len()).expect("few")
}
