//! What git does not look into: directories that cannot be read, submodules.

use super::{Agent, codes, refused, report};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, assert_unchanged, git_in, isolated, snapshot};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nobody's user and group on every Linux.
const NOBODY: &str = "65534";

/// Whether files that nobody may read can be read all the same.
fn reads_everything(directory: &Path) -> bool {
    let probe = directory.with_file_name("probe");
    fs::create_dir_all(&probe).expect("made");
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o000)).expect("mode");
    fs::read_dir(&probe).is_ok()
}

/// Makes commands of somebody who cannot read everything; `None` where nobody but such a one is here and
/// cannot be got rid of.
fn ordinary_user(agent: &Agent) -> Option<impl Fn(&[&str]) -> Command> {
    let main = agent.repo.path();
    let is_ordinary = !reads_everything(&main);
    let above = main.parent().expect("a temporary directory").to_owned();
    let command = move |arguments: &[&str]| {
        let mut command = agent_command(&main);
        if !is_ordinary {
            let program = command.get_program().to_owned();
            command = isolated("setpriv", &main);
            command
                .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
                .args(["--clear-groups", "--"])
                .arg(program);
        }
        command.args(arguments);
        command
    };
    if !is_ordinary {
        let owner = format!("{NOBODY}:{NOBODY}");
        let mut owned = Command::new("chown");
        owned.args(["-R", &owner]).arg(above);
        let works = |mut command: Command| {
            let output = command.output();
            output.is_ok_and(|output| output.status.success())
        };
        if !works(owned) || !works(command(&["list"])) {
            return None;
        }
    }
    Some(command)
}

/// One such command.
fn as_ordinary_user(agent: &Agent, arguments: &[&str]) -> Option<Command> {
    ordinary_user(agent).map(|command| command(arguments))
}

#[test]
fn a_directory_that_cannot_be_read_rejects() {
    let agent = Agent::new();
    agent.write("src/hidden/file", "x");
    agent.write("src/two.rs", "");
    let arguments = ["verify", &agent.id, "--format=json"];
    let Some(mut command) = as_ordinary_user(&agent, &arguments) else {
        return;
    };
    let hidden = agent.worktree.join("src/hidden");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).expect("mode");
    let answer = report(&command.output().expect("starts"));
    assert_eq!(codes(&answer), ["worktree.unreadable"], "{answer}");
    assert_eq!(answer["findings"][0]["path"], "src/hidden/");
    let tracked = agent.worktree.join("src/bin");
    fs::set_permissions(&tracked, fs::Permissions::from_mode(0o000)).expect("mode");
    let answer = report(&command.output().expect("starts"));
    assert_eq!(codes(&answer), ["worktree.unreadable", "worktree.unreadable"], "{answer}");
    for directory in [&hidden, &tracked] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("mode");
    }
    let answer = report(&command.output().expect("starts"));
    assert_eq!(answer["verdict"], "accept", "{answer}");
}

#[test]
fn files_that_cannot_be_read_are_no_empty_work() {
    for layered in ["off", "auto"] {
        let repo = TestRepo::with_commit();
        repo.write(".config/git-agent.toml", format!("[worktree]\nlayered = \"{layered}\"\n"));
        repo.commit_all("settings");
        let agent = Agent::spawned_in(repo, TASK);
        let script = "echo // two > src/two.rs";
        let words = ["run", &agent.id, "--no-verify", "--", "sh", "-c", script];
        assert!(agent.repo.agent(&words).status.success());
        let Some(command) = ordinary_user(&agent) else {
            return;
        };
        let short = agent.id.get(..8).expect("a short id");
        let upper = format!(".git/agents/{short}/layer/upper");
        let files = Some(agent.repo.path().join(upper)).filter(|upper| upper.is_dir());
        let files = files.unwrap_or_else(|| agent.worktree.clone());
        let set_mode = |mode| fs::set_permissions(&files, fs::Permissions::from_mode(mode));
        set_mode(0o000).expect("closed");
        let run = |words: &[&str]| command(words).output().expect("starts");
        let answer = report(&run(&["verify", &agent.id, "--format=json"]));
        assert_eq!(codes(&answer), ["work.unreadable"], "{layered}: {answer}");
        let fix = answer["findings"][0]["fix"].as_str().expect("a fix");
        assert!(fix.contains("chmod u+rwX"), "{layered}: {answer}");
        let said = String::from_utf8_lossy(&run(&["doctor"]).stdout).into_owned();
        assert!(said.contains("worktrees.unreadable"), "{layered}: {said}");
        for words in [&["merge", &agent.id][..], &["discard", &agent.id]] {
            assert!(!run(words).status.success(), "{layered}: {words:?}");
        }
        set_mode(0o755).expect("opened");
        let diff = report(&run(&["diff", &agent.id, "--format=json"]));
        assert_eq!(diff["changes"][0]["path"], "src/two.rs", "{layered}: {diff}");
    }
}

#[test]
fn a_name_that_no_commit_can_hold_rejects() {
    for layered in ["off", "auto"] {
        let repo = TestRepo::with_commit();
        repo.write(".config/git-agent.toml", format!("[worktree]\nlayered = \"{layered}\"\n"));
        repo.commit_all("settings");
        let agent = Agent::spawned_in(repo, TASK);
        let names = ["src/.GIT/x", "src/GIT~1", "src/git~1/y"];
        let write = names.map(|name| format!("mkdir -p $(dirname {name}); echo x >{name};"));
        let script = format!("{} echo // >src/two.rs", write.concat());
        let words = ["run", &agent.id, "--no-verify", "--", "sh", "-c", &script];
        assert!(agent.repo.agent(&words).status.success());
        let answer = agent.verify(&[]);
        let found = answer["findings"].as_array().expect("findings").iter();
        let found: Vec<_> = found.filter(|one| one["code"] == "worktree.unstorable").collect();
        let paths: Vec<_> = found.iter().map(|one| one["path"].as_str().expect("a path")).collect();
        assert_eq!(paths, names, "{layered}: {answer:#}");
        let output = agent.repo.agent(&["commit", &agent.id, "-m", "all of it"]);
        refused(&output, "out-of-scope", 3);
        assert!(names.iter().all(|name| describe(&output).contains(name)), "{layered}");
    }
}

/// An agent whose worktree has the submodule `src/sub` checked out.
fn with_submodule() -> Agent {
    let repo = TestRepo::with_commit();
    let inner = repo.make_inner();
    let allow = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", inner.to_str().expect("UTF-8"), "src/sub"];
    repo.git([&allow[..], &add].concat());
    repo.commit_all("a submodule");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/two.rs", "");
    agent
}

fn populate(agent: &Agent) {
    let allow = ["-c", "protocol.file.allow=always"];
    let update = ["submodule", "--quiet", "update", "--init"];
    agent.git(&[&allow[..], &update].concat());
}

#[test]
fn files_in_a_submodule_are_not_left_behind_unseen() {
    let agent = with_submodule();
    assert_eq!(agent.codes(), [""; 0], "an empty directory");
    fs::write(agent.worktree.join("src/sub/stray"), "x").expect("written");
    assert_eq!(agent.codes(), ["worktree.submodule"], "no submodule is there");
    fs::remove_file(agent.worktree.join("src/sub/stray")).expect("removed");
    populate(&agent);
    assert_eq!(agent.codes(), [""; 0], "a clean submodule");

    let inside = agent.worktree.join("src/sub");
    fs::write(inside.join("new"), "x").expect("written");
    git_in(&inside, ["config", "status.showUntrackedFiles", "no"]);
    let answer = agent.verify(&[]);
    assert_eq!(codes(&answer), ["worktree.submodule"]);
    assert_eq!(answer["findings"][0]["path"], "src/sub");
    fs::remove_file(inside.join("new")).expect("removed");
    fs::write(inside.join("file"), "changed\n").expect("written");
    assert_eq!(agent.codes(), ["worktree.submodule"]);
    git_in(&inside, ["add", "file"]);
    assert_eq!(agent.codes(), ["worktree.submodule"]);
    // The new commit is a change of the path itself, which is in scope.
    git_in(&inside, ["commit", "--quiet", "-m", "changed"]);
    let answer = agent.verify(&[]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["uncommitted"], 2);
    // It is one still where the worktree is made again, in which the submodule is not filled.
    for words in [&["undo"][..], &["rescue", &agent.id, "--reopen"]] {
        agent.repo.agent_json(&["discard", &agent.id]);
        agent.repo.agent_json(words);
        let status = agent.git(&["status", "--porcelain"]);
        assert_eq!(status, "M  src/sub\n?? src/two.rs", "{words:?}");
    }
}

#[test]
fn what_a_submodule_hides_or_ignores_is_not_lost_unsaid() {
    let agent = with_submodule();
    populate(&agent);
    let inside = agent.worktree.join("src/sub");
    let discard = |options: &[&str]| {
        let words = [&["discard", &agent.id], options].concat();
        agent.repo.agent(&words)
    };
    for flag in ["assume-unchanged", "skip-worktree"] {
        git_in(&inside, ["update-index", &format!("--{flag}"), "file"]);
        assert_eq!(agent.codes(), [""; 0], "{flag}: unchanged");
        fs::write(inside.join("file"), "changed\n").expect("written");
        assert_eq!(agent.codes(), ["worktree.submodule"], "{flag}");
        refused(&discard(&[]), "discard-refused", 3);
        git_in(&inside, ["update-index", &format!("--no-{flag}"), "file"]);
        git_in(&inside, ["checkout", "--quiet", "file"]);
    }
    let git_dir = git_in(&inside, ["rev-parse", "--absolute-git-dir"]);
    fs::create_dir_all(Path::new(&git_dir).join("info")).expect("made");
    fs::write(Path::new(&git_dir).join("info/exclude"), "*.db\n").expect("written");
    fs::write(inside.join("data.db"), "data\n").expect("written");
    assert_eq!(agent.codes(), [""; 0], "ignored");
    for options in [&["--with-ignored"][..], &["--with-ignored", "--dry-run"]] {
        let output = discard(options);
        refused(&output, "discard-refused", 3);
        assert!(describe(&output).contains("src/sub/data.db"), "{}", describe(&output));
    }
    for options in [&["--dry-run", "--format=json"][..], &["--format=json"]] {
        let answer = crate::support::agent::answer_of(&discard(options));
        assert_eq!(answer["ignored"], serde_json::json!(["src/sub/data.db"]), "{answer}");
    }
}

#[test]
fn a_file_that_is_too_long_is_named_with_its_length_and_the_limit() {
    let agent = Agent::new();
    agent.write("src/huge.bin", "");
    let file = std::fs::File::options().append(true).open(agent.worktree.join("src/huge.bin"));
    file.and_then(|file| file.set_len(3 << 30)).expect("a sparse file");
    let said = "src/huge.bin is 3221225472 bytes long, and the limit is 2147483648 bytes";
    let output = agent.repo.agent(&["diff", &agent.id]);
    super::refused(&output, "file-too-long", 4);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(said), "{error}");
    let report = agent.verify(&[]);
    assert_eq!(super::codes(&report), ["work.unreadable"]);
    let message = report["findings"][0]["message"].as_str().expect("a message");
    assert!(message.ends_with(said), "{message}");
}

#[test]
fn a_repository_that_cannot_be_written_is_looked_at_and_a_verdict_for_it_refused() {
    // What setup made has to be told from what the agent did, which takes git trees of both.
    let setup = "[setup]\nrun = [\"echo made > src/made.rs\"]\n";
    let agent = Agent::of_task(&format!("{TASK}{setup}"));
    agent.write("src/made.rs", "made and changed\n");
    agent.write("src/two.rs", "pub fn two() {}\n");
    let other = agent.repo.spawn_task(TASK, &[]);
    let other = other["worktree_abspath"].as_str().expect("a path");
    fs::write(Path::new(other).join("src/two.rs"), "two\n").expect("written");
    let Some(command) = ordinary_user(&agent) else {
        return;
    };
    let run = |words: &[&str]| command(words).output().expect("starts");
    let chmod = |mode: &str| {
        let git_dir = agent.repo.path().join(".git");
        let changed = Command::new("chmod").args(["-R", mode]).arg(git_dir).status();
        assert!(changed.expect("chmod starts").success());
    };
    let looks = [
        &["list", "--format=json"][..],
        &["show", &agent.id, "--format=json"],
        &["diff", &agent.id],
        &["diff", &agent.id, "--format=json"],
        &["overlap", "--merge", "--order"],
        &["check", &agent.id, "--worktree"],
        &["merge", &agent.id, "--dry-run"],
        &["discard", &agent.id, "--dry-run"],
        &["gc"],
    ];
    let expected = looks.map(run);
    let before = snapshot(&agent.repo.path());
    chmod("a-w");
    let refusal = run(&["verify", &agent.id]);
    let looked = looks.map(run);
    chmod("u+w");
    refused(&refusal, "repo-read-only", 4);
    for ((words, expected), output) in looks.iter().zip(expected).zip(looked) {
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
        assert_eq!(describe(&output), describe(&expected), "{words:?}");
    }
    assert_unchanged(&before, &snapshot(&agent.repo.path()), "looks");
    // What was refused works as soon as it can be recorded.
    let output = run(&["verify", &agent.id]);
    assert!(output.status.success(), "{}", describe(&output));
    // Without a place for temporary files, what is not known has a reason.
    let closed = agent.repo.path().with_file_name("closed");
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("mode");
    let within = |words: &[&str]| {
        let mut command = command(words);
        command.env("TMPDIR", &closed).output().expect("starts")
    };
    let listed = within(&["list"]);
    let why =
        "cannot be written, so not all is known\nhint: to use another one, run export TMPDIR=";
    assert!(describe(&listed).contains(why), "{}", describe(&listed));
    refused(&within(looks[6]), "io", 4);
}

#[test]
fn a_directory_that_becomes_a_link_while_git_reads_shows_nothing_from_outside() {
    let repo = TestRepo::with_commit();
    repo.write(".gitattributes", "*.swap filter=swap\n");
    repo.commit_all("a filter");
    let outside = repo.path().with_file_name("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("file"), "from outside\n").expect("written");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/a.swap", "first\n");
    agent.write("src/b/file", "of the agent\n");
    // Git runs the filter between its looks at the two files.
    let filter = agent.repo.path().with_file_name("filter");
    let directory = agent.worktree.join("src/b");
    let script = format!(
        "#!/bin/sh\nif mv '{0}' '{0}.aside'; then ln -s '{1}' '{0}'; fi 2>/dev/null\nexec cat\n",
        directory.display(),
        outside.display()
    );
    fs::write(&filter, script).expect("written");
    fs::set_permissions(&filter, fs::Permissions::from_mode(0o755)).expect("mode");
    let clean = filter.to_str().expect("UTF-8");
    agent.repo.git(["config", "filter.swap.clean", clean]);
    let output =
        agent_command(&agent.repo.path()).args(["verify", "--no-commands", &agent.id]).output();
    let said = describe(&output.expect("starts"));
    assert!(directory.is_symlink(), "{said}");
    let file = outside.join("file");
    let blob = agent.repo.git(["hash-object", file.to_str().expect("UTF-8")]);
    let all = ["cat-file", "--batch-check", "--batch-all-objects"];
    assert!(!agent.repo.git(all).contains(&blob), "{said}");
}

/// Writes an object as it is, without git's checks, and gives its name.
fn object(agent: &Agent, kind: &str, content: &[u8]) -> String {
    let mut git = isolated("git", &agent.worktree);
    git.args(["hash-object", "-t", kind, "-w", "--literally", "--stdin"]);
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git starts");
    git.stdin.take().expect("a pipe").write_all(content).expect("written");
    let output = git.wait_with_output().expect("git ends");
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// A tree with just these entries, in this order.
fn tree(agent: &Agent, entries: &[(&str, &str, &str)]) -> String {
    let mut content = Vec::new();
    for (mode, name, oid) in entries {
        content.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        let digits = |at| u8::from_str_radix(&oid[at..at + 2], 16).expect("hexadecimal");
        content.extend((0..40).step_by(2).map(digits));
    }
    object(agent, "tree", &content)
}

/// Of two entries with one name git's commands take different ones, and a file that is missing or none makes `git gc` fail.
#[test]
fn trees_that_git_reads_in_two_ways_or_not_at_all_reject() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    let good = agent.commit("two");
    let listed = agent.git(&["ls-tree", "HEAD"]);
    let top: Vec<Vec<String>> =
        listed.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    let as_entry = |words: &Vec<String>| -> (String, String, String) {
        (words[0].trim_start_matches('0').to_owned(), words[3].clone(), words[2].clone())
    };
    let top: Vec<_> = top.iter().map(as_entry).collect();
    let own: Vec<_> = top.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    let evil = object(&agent, "blob", b"evil\n");
    let src = own.iter().find(|one| one.1 == "src").expect("a directory").2;
    let nothing = tree(&agent, &[]);
    let deep = (0..3000).fold(tree(&agent, &[("100644", "f", &evil)]), |below, _| {
        tree(&agent, &[("40000", "d", &below)])
    });
    let missing = "deadbeef".repeat(5);
    let in_src = |mode: &str, name: &str, oid: &str| tree(&agent, &[(mode, name, oid)]);
    let with = |extra: &[(&str, &str, &str)]| -> String {
        let kept = own.iter().filter(|one| one.1 != "src").copied();
        tree(&agent, &kept.chain(extra.iter().copied()).collect::<Vec<_>>())
    };
    let cases = [
        (
            "a file twice",
            tree(&agent, &[&[("100644", "README.md", evil.as_str())], &own[..]].concat()),
        ),
        ("file and directory", with(&[("100644", "src", &evil), ("40000", "src", src)])),
        ("out of order", with(&[("40000", "src", src), ("100644", "a", &evil)])),
        ("a slash", with(&[("40000", "src", src), ("100644", "src/x", &evil)])),
        ("no mode of git's", with(&[("40000", "src", &in_src("130000", "x", &evil))])),
        ("a missing file", with(&[("40000", "src", &in_src("100644", "x", &missing))])),
        ("a directory as a file", with(&[("40000", "src", &in_src("100644", "x", &nothing))])),
        ("a commit as a file", with(&[("40000", "src", &in_src("100644", "x", &good))])),
        ("too deep", with(&[("40000", "src", &in_src("40000", "x", &deep))])),
    ];
    for (what, tree) in cases {
        let commit = agent.git(&["commit-tree", &tree, "-p", &good, "-m", what]);
        agent.git(&[
            "-c",
            "core.hooksPath=/dev/null",
            "update-ref",
            &format!("refs/heads/{}", agent.branch),
            &commit,
        ]);
        assert_eq!(agent.codes(), ["work.unreadable"], "{what}");
        let main = agent.repo.git(["rev-parse", "main"]);
        refused(&agent.repo.agent(&["merge", &agent.id]), "not-accepted", 3);
        assert_eq!(agent.repo.git(["rev-parse", "main"]), main, "{what}");
        // Of what a branch has to itself that is not mended by a commit on top.
        let mended =
            agent.git(&["commit-tree", &format!("{good}^{{tree}}"), "-p", &commit, "-m", "mended"]);
        agent.git(&[
            "-c",
            "core.hooksPath=/dev/null",
            "update-ref",
            &format!("refs/heads/{}", agent.branch),
            &mended,
        ]);
        assert_eq!(agent.codes(), ["work.unreadable"], "{what}");
        let ci = agent.repo.agent(&["verify", "--ci", "--tip", &commit]);
        assert_ne!(ci.status.code(), Some(0), "{what}");
    }
}

#[test]
fn an_index_that_names_what_is_missing_is_no_work_that_can_land() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let entry = format!("100644,{},src/x", "deadbeef".repeat(5));
    agent.git(&["update-index", "--add", "--cacheinfo", &entry]);
    assert_eq!(agent.codes(), ["work.unreadable"]);
    refused(&agent.repo.agent(&["merge", &agent.id]), "not-accepted", 3);
    agent.git(&["rm", "--quiet", "--cached", "src/x"]);
    assert_eq!(agent.codes(), [""; 0]);
}

#[test]
fn what_is_wrong_with_who_judges_is_no_fault_of_the_work() {
    let repo = TestRepo::with_commit();
    let words =
        ["run", "write more", "--name=who", "--no-verify", "--quiet", "--", "touch", "more"];
    let ran = repo.agent(&words);
    assert!(ran.status.success(), "{}", describe(&ran));
    repo.write("docs/more.md", "more\n");
    repo.commit_all("the target moves on");
    repo.git(["config", "user.name", "A U Thor"]);
    repo.git(["config", "user.email", "author@example.com"]);
    let judged = |date: &str| {
        let mut command = agent_command(&repo.path());
        command.args(["verify", "who"]).env("GIT_AUTHOR_DATE", date);
        // What the environment names is taken without git, and the date not looked at.
        for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"] {
            command.env_remove(format!("GIT_{name}"));
        }
        command.output().expect("starts")
    };
    refused(&judged("bogus"), "git-failed", 4);
    assert!(judged("1700000000 +0000").status.success());
}
