//! Man pages and completions: installed where they belong, complete, and understood by the programs that
//! read them.

use crate::support::agent::{TASK, agent_command, describe, verbs};
use crate::support::terminal::OnTerminal;
use crate::support::{TestRepo, isolated};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A user with a home of their own.
struct User {
    home: tempfile::TempDir,
}

impl User {
    fn new() -> User {
        User { home: tempfile::tempdir().expect("temporary directory") }
    }

    fn share(&self) -> PathBuf {
        self.home.path().join(".local/share")
    }

    fn install(&self, arguments: &[&str]) -> Output {
        let mut command = agent_command(self.home.path());
        command.arg("install-shell").args(arguments);
        command.output().expect("git-agent starts")
    }

    fn must_install(&self, arguments: &[&str]) -> Value {
        let output = self.install(&[arguments, &["--format=json"]].concat());
        assert!(output.status.success(), "{}", describe(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.share().join(name)).expect("installed")
    }
}

fn actions(report: &Value) -> Vec<String> {
    let parts = report["parts"].as_array().expect("a list").iter();
    let files = parts.flat_map(|part| part["files"].as_array().expect("a list"));
    let mut actions: Vec<_> = files.map(|file| file["action"].to_string()).collect();
    actions.sort();
    actions.dedup();
    actions
}

#[test]
fn a_directory_is_told_of_by_its_plain_name() {
    let user = User::new();
    fs::create_dir(user.home.path().join("a")).expect("made");
    let report = user.must_install(&["--man", "--dry-run", "--dir=a/../b"]);
    let real = fs::canonicalize(user.home.path()).expect("there");
    let expected = real.join("b/share/man/man1");
    let shown = report.to_string();
    assert!(shown.contains(expected.to_str().expect("UTF-8")), "{shown}");
    assert!(!shown.contains("/../"), "{shown}");
}

/// Says what could not be tried here.
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen to be")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// The path of a program; says on standard error what is not tried without it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").expect("PATH");
    let found = std::env::split_paths(&path).map(|directory| directory.join(program));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("there is no {program} here"));
    }
    found
}

/// A command that finds our program by its name.
pub fn with_program(program: &Path, directory: &Path) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent();
    let ours = ours.expect("a directory").to_owned();
    let path = std::env::var_os("PATH").expect("PATH");
    let paths = [ours].into_iter().chain(std::env::split_paths(&path));
    let mut command = isolated(program, directory);
    command.env("PATH", std::env::join_paths(paths).expect("paths"));
    command
}

#[test]
fn installing_twice_changes_nothing_and_strangers_are_left_alone() {
    let user = User::new();
    assert_eq!(actions(&user.must_install(&["--dry-run"])), ["\"created\""]);
    assert!(!user.share().exists());
    assert_eq!(actions(&user.must_install(&[])), ["\"created\""]);
    assert_eq!(actions(&user.must_install(&[])), ["\"unchanged\""]);
    let (ours, theirs) = ("zsh/site-functions/_git-agent", "man/man1/git-agent.1");
    let outdated = user.read(ours).replace("_describe", "_message");
    fs::write(user.share().join(ours), outdated).expect("write");
    fs::write(user.share().join(theirs), "mine\n").expect("write");
    let report = user.must_install(&["--zsh", "--man"]);
    let expected = ["\"foreign\"", "\"unchanged\"", "\"updated\""];
    assert_eq!(actions(&report), expected);
    assert!(user.read(ours).contains("_describe"));
    assert_eq!(user.read(theirs), "mine\n");
}

#[test]
fn a_part_that_is_not_ours_gets_a_warning_and_no_hint() {
    let user = User::new();
    let prefix = user.home.path().join("prefix");
    let directory = prefix.join("share/bash-completion/completions");
    fs::create_dir_all(&directory).expect("made");
    for name in ["git-agent", "agent-cd"] {
        fs::write(directory.join(name), "mine\n").expect("written");
    }
    let output = user.install(&["--bash", "--dir", prefix.to_str().expect("UTF-8")]);
    let said = describe(&output).replace(&*directory.to_string_lossy(), "<directory>");
    insta::assert_snapshot!(said, @r"
    warning: <directory>/agent-cd is not ours and stays
    warning: <directory>/git-agent is not ours and stays
    ------- stderr -------
    [exit status: 0]
    ");
}

#[test]
fn what_takes_one_of_a_few_words_offers_them() {
    let repo = TestRepo::with_commit();
    let sandbox = "auto off require strict";
    let types = "clarify collaborate escalate handoff notify review";
    for (words, expected) in [
        (
            &["list", "--state"][..],
            "discarded done failed idle merged ready rejected running spawning waiting",
        ),
        (&["list", "--sort"], "activity age cost name state"),
        (&["run", "--host"], "aider claude codex copilot gemini opencode qwen shell"),
        (&["run", "--sandbox"], sandbox),
        (&["send", "--type"], types),
        (&["receive", "--type"], types),
        (&["send", "--priority"], "critical high low medium"),
        (&["init", "--host"], "claude codex copilot cursor gemini opencode qwen"),
        (&["merge", "--format"], "json ndjson text"),
        (&["verify", "--format"], "json markdown ndjson sarif text"),
    ] {
        let output = repo.agent(&[&["complete", "--"], words, &[""]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let mut offers: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        offers.sort_unstable();
        assert_eq!(offers.join(" "), expected, "{words:?}");
        let help = repo.agent(&[words[0], "--help"]);
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        for word in expected.split(' ') {
            assert!(help.contains(word), "{words:?}: {word}");
        }
    }
}

#[test]
fn the_answer_names_the_places_and_what_is_left_to_do() {
    let user = User::new();
    let output =
        user.install(&["--dir", "/nowhere/at/all", "--dry-run", "--bash", "--zsh", "--fish"]);
    insta::assert_snapshot!(describe(&output), @r#"
    bash: /nowhere/at/all/share/bash-completion/completions (2 created)
    fish: /nowhere/at/all/share/fish/vendor_completions.d (2 created)
    zsh: /nowhere/at/all/share/zsh/site-functions (2 created)
    hint: to complete in bash, add to ~/.bashrc: source /nowhere/at/all/share/bash-completion/completions/git-agent
    hint: to have agent-cd <agent>, which goes to an agent's worktree, in bash, add to ~/.bashrc: source /nowhere/at/all/share/bash-completion/completions/agent-cd
    hint: to complete in fish, add to config.fish: set -a fish_complete_path /nowhere/at/all/share/fish/vendor_completions.d
    hint: to have agent-cd <agent>, which goes to an agent's worktree, in fish, add to config.fish: source /nowhere/at/all/share/fish/vendor_completions.d/agent-cd.fish
    hint: to complete in zsh, add to ~/.zshrc before compinit: fpath+=(/nowhere/at/all/share/zsh/site-functions)
    hint: to have agent-cd <agent>, which goes to an agent's worktree, in zsh, add to ~/.zshrc: source /nowhere/at/all/share/zsh/site-functions/agent-cd.zsh
    ------- stderr -------
    [exit status: 0]
    "#);
    let output = agent_command(user.home.path())
        .args(["install-shell", "--dry-run"])
        .env_remove("HOME")
        .output()
        .expect("git-agent starts");
    insta::assert_snapshot!(describe(&output), @r#"
    ------- stderr -------
    error[usage]: neither XDG_DATA_HOME nor HOME says where your files belong
    hint: to say it here, run git agent setup shell --dir /usr/local
    [exit status: 2]
    "#);
}

/// What bash offers for a line.
fn bash_offers(user: &User, repo: &TestRepo, words: &[&str]) -> Option<Vec<String>> {
    let bash = find("bash")?;
    let git = Path::new("/usr/share/bash-completion/completions/git");
    let start = match words[0] {
        "git" if !git.is_file() => {
            skipped("git's own completion is not where Debian has it");
            return None;
        }
        "git" => "source /usr/share/bash-completion/completions/git; run=__git_wrap__git_main",
        _ => "run=_git_agent_itself",
    };
    let script = format!(
        r#"{start}
        source "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9 COMP_KEY=9
        COMP_POINT=${{#COMP_LINE}}
        $run
        printf '%s\n' "${{COMPREPLY[@]}}""#
    );
    let ours = user.share().join("bash-completion/completions/git-agent");
    let output = with_program(&bash, &repo.path())
        .args(["--norc", "-c", &script, "bash"])
        .arg(ours)
        .args(words)
        .output()
        .expect("bash starts");
    let offers = String::from_utf8_lossy(&output.stdout);
    assert!(output.stderr.is_empty(), "{}", describe(&output));
    Some(offers.lines().map(|offer| offer.trim().to_owned()).collect())
}

#[test]
fn bash_completes_commands_options_values_and_agents() {
    let user = User::new();
    user.must_install(&["--bash"]);
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let short = &agent["agent_id"].as_str().expect("an id")[..8];
    let cases: [(&[&str], &str); 7] = [
        (&["git-agent", "help", "sp"], "spawn"),
        (&["git-agent", "sp"], "spawn"),
        (&["git-agent", "show", &short[..3]], short),
        (&["git-agent", "list", "--form"], "--format"),
        (&["git", "agent", "sp"], "spawn"),
        (&["git", "agent", "show", &short[..3]], short),
        (&["git", "agent", "merge", "--squ"], "--squash"),
    ];
    for (words, expected) in cases {
        if let Some(offers) = bash_offers(&user, &repo, words) {
            assert_eq!(offers, [expected], "{words:?}");
        }
    }
    // Bash splits words at `=`.
    if let Some(offers) =
        bash_offers(&user, &repo, &["git", "agent", "list", "--format", "=", "js"])
    {
        assert_eq!(offers, ["json"]);
    }
}

#[test]
fn agent_cd_goes_to_a_worktree_and_completes_agents() {
    let user = User::new();
    user.must_install(&[]);
    let repo = TestRepo::with_commit();
    let named = format!("name = \"parser\"\n{TASK}");
    let agent = repo.spawn_task(&named, &[]);
    let expected = agent["worktree_abspath"].as_str().expect("a path");
    for (shell, file) in [
        ("bash", "bash-completion/completions/agent-cd"),
        ("zsh", "zsh/site-functions/agent-cd.zsh"),
        ("fish", "fish/vendor_completions.d/agent-cd.fish"),
    ] {
        let Some(program) = find(shell) else { continue };
        let file = user.share().join(file);
        let run = |script: &str| {
            let script = format!("source {}; {script}", file.display());
            let output = with_program(&program, &repo.path()).args(["-c", &script]).output();
            let output = output.expect("starts");
            let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
            (output.status.code(), said, describe(&output))
        };
        let (status, place, all) = run("agent-cd parser; pwd");
        assert_eq!((status, place.as_str()), (Some(0), expected), "{shell}: {all}");
        let here = repo.path().display().to_string();
        let (_, place, all) = run("agent-cd nobody; pwd");
        assert_eq!(place, here, "{shell}: {all}");
    }
    let Some(bash) = find("bash") else { return };
    let file = user.share().join("bash-completion/completions/agent-cd");
    let script = format!(
        "source {}; COMP_WORDS=(agent-cd pa) COMP_CWORD=1; _agent_cd; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let output = with_program(&bash, &repo.path()).args(["-c", &script]).output();
    let output = output.expect("bash starts");
    assert_eq!(output.stdout, b"parser\n", "{}", describe(&output));
}

#[test]
fn a_landed_agent_is_no_candidate_and_no_repository_no_trouble() {
    let repo = TestRepo::with_commit();
    let named = format!("name = \"parser\"\n{TASK}");
    let agent = repo.spawn_task(&named, &[]);
    let offered_to = |verb| {
        let output = repo.agent(&["complete", "--", verb, ""]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let offered = || offered_to("show");
    assert!(offered().starts_with("parser\tAdd a second function"), "{}", offered());
    assert!(!offered_to("rescue").contains("parser"));
    repo.agent_json(&["discard", agent["agent_id"].as_str().expect("an id")]);
    assert!(!offered().contains("parser"), "{}", offered());
    // A verb that takes those is offered them.
    assert!(offered_to("rescue").starts_with("parser\t"), "{}", offered_to("rescue"));
    assert!(!offered_to("discard").contains("parser"));
    let nowhere = tempfile::tempdir().expect("temporary directory");
    let output = agent_command(nowhere.path())
        .args(["complete", "--", "show", ""])
        .output()
        .expect("git-agent starts");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn other_shells_can_read_their_completions() {
    let user = User::new();
    user.must_install(&[]);
    for (shell, file) in [
        ("zsh", "zsh/site-functions/_git-agent"),
        ("fish", "fish/vendor_completions.d/git-agent.fish"),
    ] {
        if let Some(shell) = find(shell) {
            let mut command = with_program(&shell, user.home.path());
            let output = command.arg("-n").arg(user.share().join(file)).output();
            let output = output.expect("starts");
            assert!(output.status.success(), "{}", describe(&output));
        }
    }
}

/// Every command that help lists, with those below it: `hooks status`.
pub fn commands() -> Vec<Vec<String>> {
    let mut found: Vec<_> = verbs().into_iter().map(|verb| vec![verb]).collect();
    let mut open = found.clone();
    while let Some(above) = open.pop() {
        let help = help(&above);
        let list = help.split_once("Commands:\n").map_or("", |(_, list)| list);
        for line in list.lines().take_while(|line| !line.is_empty()) {
            let verb = line.strip_prefix("  ").and_then(|line| line.split(' ').next());
            if let Some(verb) = verb.filter(|verb| !matches!(*verb, "" | "help")) {
                let mut path = above.clone();
                path.push(verb.to_owned());
                open.push(path.clone());
                found.push(path);
            }
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

fn help(command: &[String]) -> String {
    let nowhere = tempfile::tempdir().expect("temporary directory");
    let output = agent_command(nowhere.path()).args(command).arg("--help").output();
    String::from_utf8(output.expect("git-agent starts").stdout).expect("UTF-8")
}

#[test]
fn every_command_and_option_stands_in_a_page() {
    let user = User::new();
    user.must_install(&["--man"]);
    let first = user.read("man/man1/git-agent.1").replace('\\', "");
    for command in commands() {
        let name = format!("git-agent-{}", command.join("-"));
        let page = user.read(&format!("man/man1/{name}.1")).replace('\\', "");
        assert!(command.len() > 1 || first.contains(&format!("{name}(1)")), "{name}");
        let help = help(&command);
        let words = help.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        for option in words.filter(|word| word.starts_with("--") && word.len() > 2) {
            assert!(page.contains(option), "{name}: {option}");
        }
    }
}

#[test]
fn the_pages_are_clean_roff() {
    let Some(groff) = find("groff") else { return };
    let user = User::new();
    user.must_install(&["--man"]);
    let pages = fs::read_dir(user.share().join("man/man1")).expect("pages");
    let pages = pages.map(|page| page.expect("readable").path());
    let output = isolated(groff, user.home.path())
        .args(["-man", "-Tutf8", "-ww", "-z"])
        .args(pages)
        .output()
        .expect("groff starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", describe(&output));
}

#[test]
fn doctor_misses_the_completion_of_the_user_s_shell() {
    let user = User::new();
    let repo = TestRepo::with_commit();
    let found = || {
        let output = agent_command(&repo.path())
            .args(["doctor", "--format=json"])
            .env("HOME", user.home.path())
            .env("SHELL", "/usr/bin/zsh")
            .env("XDG_DATA_DIRS", "/nowhere")
            .output()
            .expect("git-agent starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").iter();
        let of_shell =
            findings.filter(|finding| finding["command"] == "git agent setup shell --zsh");
        of_shell.map(|finding| finding["code"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(), ["\"git.completion-missing\""]);
    user.must_install(&["--zsh"]);
    assert!(found().is_empty());
    let file = user.share().join("zsh/site-functions/_git-agent");
    fs::write(file, "#compdef git-agent\n").expect("write");
    assert_eq!(found(), ["\"git.completion-outdated\""]);
}

#[test]
fn doctor_finds_a_page_of_another_version() {
    let (Some(_), user) = (find("man"), User::new()) else {
        return;
    };
    let repo = TestRepo::with_commit();
    user.must_install(&["--man"]);
    let found = || {
        let output = agent_command(&repo.path())
            .args(["doctor", "--format=json"])
            .env("MANPATH", user.share().join("man"))
            .output()
            .expect("git-agent starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").iter();
        let of_man = findings.filter(|finding| finding["command"] == "git agent setup shell");
        of_man.map(|finding| finding["code"].to_string()).collect::<Vec<_>>()
    };
    assert!(found().is_empty(), "{:?}", found());
    let page = user.read("man/man1/git-agent.1").replace("spawn", "conjure");
    fs::write(user.share().join("man/man1/git-agent.1"), page).expect("write");
    assert_eq!(found(), ["\"git.man-page-outdated\""]);
}

/// What the documentation tells people to put into a file of theirs for a program.
fn snippet(program: &str) -> String {
    let page = include_str!("../docs/look.md");
    let section = page.split("\n## In a prompt\n").nth(1).expect("the section");
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut parts = block.expect("a block").split("# ").skip(1);
    let part = parts.find(|part| part.starts_with(&format!("{program}: ")));
    let (_, text) = part.expect("a part").split_once('\n').expect("lines");
    text.to_owned()
}

#[test]
fn every_prompt_of_the_documentation_shows_the_agents() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &[]);
    let home = tempfile::tempdir().expect("temporary directory");
    let file = home.path().join("snippet");
    let name = file.display();
    for (program, arguments) in [
        (
            "bash",
            vec!["--norc".to_owned(), "-c".to_owned(), format!(". {name}; echo \"${{PS1@P}}\"")],
        ),
        ("zsh", vec!["-f".to_owned(), "-c".to_owned(), format!(". {name}; print -P \"$RPROMPT\"")]),
        (
            "fish",
            vec!["--no-config".to_owned(), "-c".to_owned(), format!(". {name}; fish_right_prompt")],
        ),
        ("starship", vec!["module".to_owned(), "custom.agents".to_owned()]),
    ] {
        fs::write(&file, snippet(program)).expect("written");
        let Some(path) = find(program) else { continue };
        let output = with_program(&path, &repo.path())
            .args(arguments)
            .env("HOME", home.path())
            .env("STARSHIP_CONFIG", &file)
            .output()
            .expect("starts");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("1 ready"), "{program}: {}", describe(&output));
    }
}

#[test]
fn the_status_line_of_claude_code_shows_the_agents() {
    let settings: Value = serde_json::from_str(&snippet("Claude Code")).expect("JSON");
    let line = &settings["statusLine"];
    assert_eq!(line["type"], "command");
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &[]);
    let shell = find("sh").expect("a shell");
    // Claude Code tells of the session on standard input.
    let mut child = with_program(&shell, &repo.path())
        .args(["-c", line["command"].as_str().expect("a command")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let input = child.stdin.take().expect("a pipe");
    // The command may be over before it has read any of it.
    let _ = (&input).write_all(br#"{"session_id": "s", "workspace": {"current_dir": "/"}}"#);
    drop(input);
    let output = child.wait_with_output().expect("over");
    assert_eq!(output.stdout, b"1 ready\n", "{}", describe(&output));
}

#[test]
fn the_status_line_of_tmux_shows_the_agents_and_runs_no_name_of_a_directory() {
    let Some(tmux) = find("tmux") else { return };
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &[]);
    let home = tempfile::tempdir().expect("temporary directory");
    let file = home.path().join("tmux.conf");
    fs::write(&file, snippet("tmux")).expect("written");
    let hostile = repo.path().join("a $(touch owned); touch 'owned");
    fs::create_dir(&hostile).expect("made");
    let tmux = || {
        let mut command = with_program(&tmux, &hostile);
        command.env("TMUX_TMPDIR", home.path()).env_remove("TMUX");
        command.env("TERM", "xterm").arg("-f").arg(&file);
        command
    };
    let mut session = tmux();
    session.args(["new-session", "sleep 600"]);
    let mut session = OnTerminal::of(session, 100, 10);
    // tmux runs the command beside, and shows what it said when it is over.
    session.until(|screen| screen.contains("1 ready"));
    let ended = tmux().arg("kill-server").status().expect("starts");
    assert!(ended.success());
    session.child.wait().expect("over");
    assert!(!hostile.join("owned").exists() && !repo.path().join("owned").exists());
}
