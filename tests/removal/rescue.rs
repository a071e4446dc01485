use super::{WRITTEN, assert_kept, busy, discarded};
use crate::support::agent::{SHARED_TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use crate::verify::{Agent, refused};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// What brings the keep chain of another clone.
const KEEP: &str = "+refs/agents/keep*:refs/agents/remote/origin/keep*";

fn rescue(agent: &Agent, arguments: &[&str]) -> Output {
    agent_command(&agent.repo.path())
        .args(["rescue", &agent.id])
        .args(arguments)
        .output()
        .expect("git-agent starts")
}

/// Every file below a directory, by its path in there, with content and execute bit; git's own files
/// left out.
fn files(top: &Path) -> BTreeMap<PathBuf, (Vec<u8>, bool)> {
    use std::os::unix::fs::PermissionsExt;
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    walk.filter_entry(|entry| entry.file_name() != ".git")
        .map(|entry| entry.expect("readable"))
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| {
            let path = entry.path().strip_prefix(top).expect("below").to_owned();
            let metadata = entry.metadata().expect("readable");
            let link = fs::read_link(entry.path()).map(|link| link.into_os_string());
            let content = match link {
                Ok(target) => target.into_encoded_bytes(),
                Err(_) => fs::read(entry.path()).expect("readable"),
            };
            (path, (content, metadata.permissions().mode() & 0o100 != 0))
        })
        .collect()
}

/// As a power loss leaves it: git, too, takes an object for written if there is a file of its name.
#[test]
fn a_file_comes_back_whose_object_was_there_in_name_alone() {
    let agent = Agent::new();
    agent.write("src/new.rs", "pub fn new() {}\n");
    agent.write("src/more.rs", "pub fn more() {}\n");
    agent.write("src/half.rs", "pub fn half() {}\n");
    // The last begins as deflated data does.
    let lefts = [&[0; 24][..], &[], b"\x78\x01\x4b\xca\xc9"];
    for (file, left) in ["src/new.rs", "src/more.rs", "src/half.rs"].into_iter().zip(lefts) {
        let name = agent.git(&["hash-object", file]);
        let (directory, rest) = name.split_at(2);
        let directory = agent.repo.path().join(".git/objects").join(directory);
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(rest), left).expect("written");
    }
    let before = files(&agent.worktree);
    discarded(&agent, &[]);
    let to = agent.repo.path().with_file_name("back");
    assert!(rescue(&agent, &["--to", to.to_str().expect("UTF-8")]).status.success());
    assert_eq!(files(&to), before);
    assert_eq!(agent.repo.fsck(), "");
}

#[test]
fn the_files_come_back_byte_for_byte() {
    let agent = busy();
    agent.write("src/binary", [0, 1, 2, 255, b'\r', b'\n']);
    let script = agent.worktree.join("src/run.sh");
    agent.write("src/run.sh", "#!/bin/sh\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).expect("permissions");
    std::os::unix::fs::symlink("lib.rs", agent.worktree.join("src/link")).expect("link");
    let before = files(&agent.worktree);
    discarded(&agent, &[]);
    let to = agent.repo.path().with_file_name("back");
    let words = ["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")];
    let report = agent.repo.agent_json(&words);
    assert_eq!(report["rescued_directory"], words[3]);
    assert_eq!(files(&to), before);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    let log = agent.repo.agent_json(&["log", &agent.id]);
    let last = log["events"].as_array().expect("events").last().cloned();
    assert_eq!(last.expect("one")["event"], "rescued");
    // A way there that goes around is not told.
    let report = agent.repo.agent_json(&["rescue", &agent.id, "--to=src/../../again"]);
    let again = agent.repo.path().with_file_name("again");
    assert_eq!(report["rescued_directory"], again.to_str().expect("UTF-8"));
}

#[test]
fn the_branch_comes_back_with_the_work_as_its_tip() {
    let agent = busy();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    discarded(&agent, &[]);
    let slug = agent.branch.strip_prefix("agent/").expect("ours");
    for expected in [format!("rescued/{slug}"), format!("rescued/{slug}-2")] {
        let report = agent.repo.agent_json(&["rescue", &agent.id]);
        assert_eq!(report["rescued_branch"], expected.as_str());
        assert_eq!(agent.repo.git(["rev-parse", &format!("{expected}^1")]), tip);
        let lib = agent.repo.git(["show", &format!("{expected}:src/lib.rs")]);
        assert_eq!(lib, WRITTEN[4].trim_end());
    }
    let report = agent.repo.agent_json(&["rescue", &agent.id, "--branch", "mine"]);
    assert_eq!(report["rescued_branch"], "mine");
}

#[test]
fn committed_work_alone_comes_back_as_it_was() {
    let agent = Agent::new();
    agent.write("src/one.rs", "one\n");
    let tip = agent.commit("one");
    discarded(&agent, &[]);
    agent.repo.agent_json(&["rescue", &agent.id, "--branch=back"]);
    assert_eq!(agent.repo.git(["rev-parse", "back"]), tip);
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let agent = busy();
    let full = agent.repo.path().with_file_name("full");
    refused(&rescue(&agent, &[]), "agent-state", 3);
    discarded(&agent, &[]);
    fs::create_dir(&full).expect("create");
    fs::write(full.join("mine"), "mine\n").expect("write");
    let to = ["--to", full.to_str().expect("UTF-8")];
    refused(&rescue(&agent, &to), "path-exists", 3);
    assert_eq!(files(&full).len(), 1);
    let link = agent.repo.path().with_file_name("link");
    let empty = agent.repo.path().with_file_name("empty");
    fs::create_dir(&empty).expect("create");
    std::os::unix::fs::symlink(&empty, &link).expect("link");
    let to = ["--to", link.to_str().expect("UTF-8")];
    refused(&rescue(&agent, &to), "path-exists", 3);
    refused(&rescue(&agent, &["--branch=main"]), "branch-exists", 3);
    refused(&rescue(&agent, &["--branch=a..b"]), "branch-invalid", 2);
}

#[test]
fn a_shared_agents_bundle_comes_back_as_files() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    let id = report["agent_id"].as_str().expect("an id");
    repo.agent_json(&["discard", id]);
    let output = repo.agent(&["rescue", id]);
    refused(&output, "agent-state", 3);
    let to = repo.path().with_file_name("back");
    repo.agent_json(&["rescue", id, "--to", to.to_str().expect("UTF-8")]);
    assert!(to.join(".agent/spec.md").is_file());
}

#[test]
fn a_discarded_shared_agent_comes_back_with_its_bundle() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    let id = report["agent_id"].as_str().expect("an id");
    let bundle = repo.path().join(".agent").join(&id[..8]);
    fs::write(bundle.join("review.md"), "a review\n").expect("written");
    let before = files(&bundle);
    let state = || repo.agent_json(&["show", id])["state"].clone();
    for words in [&["rescue", id, "--reopen"][..], &["undo"]] {
        repo.agent_json(&["discard", id]);
        assert!(!bundle.exists());
        repo.agent_json(words);
        assert_eq!(files(&bundle), before, "{words:?}");
        assert_ne!(state(), "discarded", "{words:?}");
    }
    // Redone, and taken back again.
    let listed = repo.agent_json(&["undo", "--list"]);
    let undo = listed["operations"][0]["operation"].as_str().expect("an id");
    repo.agent_json(&["undo", undo]);
    assert!(!bundle.exists());
    assert_eq!(state(), "discarded");
    repo.agent_json(&["undo"]);
    assert_eq!(files(&bundle), before);
    // Where there was no bundle to keep, what the agent began with comes back.
    fs::remove_dir_all(&bundle).expect("removed");
    repo.agent_json(&["discard", id]);
    repo.agent_json(&["undo"]);
    assert!(bundle.join("spec.md").is_file());
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn a_clone_without_the_kept_commits_says_so() {
    let agent = busy();
    discarded(&agent, &[]);
    let path = agent.repo.path().with_file_name("clone");
    let url = format!("file://{}", agent.repo.path().display());
    let to = path.to_str().expect("UTF-8");
    git_in(&agent.repo.path(), ["clone", "--quiet", &url, to]);
    let notes = "refs/notes/agents:refs/notes/agents";
    git_in(&path, ["fetch", "--quiet", "origin", notes]);
    let output = agent_command(&path).args(["rescue", &agent.id]).output();
    let output = output.expect("starts");
    refused(&output, "history-incomplete", 4);
    let said = describe(&output);
    let hint = "git config agent.sync all && git agent sync";
    assert!(said.contains(hint), "{said}");
    git_in(&path, ["fetch", "--quiet", "origin", KEEP]);
    let output = agent_command(&path).args(["rescue", &agent.id]).output();
    assert!(output.expect("starts").status.success());
}

#[test]
fn what_is_still_there_comes_back_with_a_word_about_the_rest() {
    let agent = busy();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let discarded = discarded(&agent, &[]);
    let lose = |oid: &str| {
        let directory = agent.repo.path().join(".git/objects").join(&oid[..2]);
        fs::remove_file(directory.join(&oid[2..])).expect("a loose object");
    };
    let salvage = discarded["salvage_commit"].as_str().expect("a salvage");
    lose(salvage);
    // Once the agent is back, its row says nothing any more of what was kept.
    let said = rescue(&agent, &["--reopen"]);
    refused(&said, "history-incomplete", 4);
    assert!(describe(&said).contains("to have what is here as a branch"), "{}", describe(&said));
    let report = agent.repo.agent_json(&["rescue", &agent.id]);
    assert_eq!(report["commit"], tip.as_str());
    let warnings = report["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 1, "{report:#}");
    assert!(warnings[0].to_string().contains(salvage), "{report:#}");
    let said = describe(&rescue(&agent, &["--branch=again"]));
    assert!(said.contains(&format!("warning: commit {salvage}")), "{said}");

    lose(&tip);
    refused(&rescue(&agent, &["--branch=third"]), "history-incomplete", 4);
    let to = agent.repo.path().with_file_name("back");
    let report = agent.repo.agent_json(&["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")]);
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(2));
    assert!(to.join(".agent/plan.md").is_file(), "the bundle is there");
}

#[test]
fn no_branch_is_made_whose_history_has_a_hole() {
    let agent = busy();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    discarded(&agent, &[]);
    let objects = agent.repo.path().join(".git/objects");
    fs::remove_file(objects.join(&tip[..2]).join(&tip[2..])).expect("a loose object");
    refused(&rescue(&agent, &[]), "history-incomplete", 4);
    assert_eq!(agent.repo.git(["branch", "--list", "rescued/*"]), "");
    let to = agent.repo.path().with_file_name("back");
    agent.repo.agent_json(&["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")]);
    let lib = fs::read_to_string(to.join("src/lib.rs")).expect("readable");
    assert_eq!(lib, WRITTEN[4]);
}

#[test]
fn nothing_is_given_back_into_the_git_dir() {
    let agent = busy();
    discarded(&agent, &[]);
    for place in [".git/x", ".git/agents/../x", ".claude/../.git/x"] {
        let output = agent.repo.agent(&["rescue", &agent.id, "--to", place]);
        crate::verify::refused(&output, "path-invalid", 2);
    }
    assert!(!agent.repo.path().join(".git/x").exists());
}

#[test]
fn work_in_the_bundles_place_does_not_keep_either_from_coming_back() {
    let agent = busy();
    agent.write(".agent/spec.md", "of the bundle\n");
    agent.git(&["add", "--force", ".agent/spec.md"]);
    agent.git(&["commit", "--quiet", "--message=forced"]);
    discarded(&agent, &[]);
    let to = agent.repo.path().with_file_name("back");
    let words = ["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")];
    let report = agent.repo.agent_json(&words);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("the bundle is in .agent.rescued"), "{report}");
    let work = fs::read_to_string(to.join(".agent/spec.md")).expect("the work");
    assert_eq!(work, "of the bundle\n");
    assert!(to.join(".agent.rescued/spec.md").is_file());
}

#[test]
fn an_agent_comes_back_where_it_was_and_goes_on() {
    let agent = busy();
    let (tip, before) = (agent.git(&["rev-parse", "HEAD"]), files(&agent.worktree));
    let index = || (agent.git(&["status", "--porcelain"]), agent.git(&["write-tree"]));
    let staged = index();
    let repo = &agent.repo;
    // Not while it is there.
    refused(&rescue(&agent, &["--reopen"]), "agent-state", 3);
    discarded(&agent, &[]);
    fs::create_dir_all(&agent.worktree).expect("made");
    fs::write(agent.worktree.join("other"), "x").expect("written");
    let output = rescue(&agent, &["--reopen"]);
    refused(&output, "path-exists", 3);
    let said = describe(&output);
    assert!(said.contains("run mv ") && !said.contains("--to"), "{said}");
    fs::remove_dir_all(&agent.worktree).expect("removed");
    repo.git(["branch", &agent.branch, "main"]);
    refused(&rescue(&agent, &["--reopen"]), "branch-exists", 3);
    repo.git(["branch", "-D", &agent.branch]);
    let report = repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    assert_eq!(report["state"], "idle");
    assert_eq!(report["rescued_branch"], agent.branch.as_str());
    assert_eq!(report["rescued_directory"], agent.worktree.to_str().expect("UTF-8"));
    assert_eq!(files(&agent.worktree), before);
    assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);
    assert_eq!(agent.git(&["symbolic-ref", "--short", "HEAD"]), agent.branch);
    assert_eq!(index(), staged);
    let hooks = repo.agent(&["hooks", "status", &agent.id]);
    assert!(hooks.status.success(), "{}", describe(&hooks));
    let doctor = describe(&repo.agent(&["doctor"]));
    assert!(!doctor.contains("[worktrees."), "{doctor}");
    let shown = repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "idle");
    assert_eq!(shown.get("irregular"), None, "{shown:#}");
    // All staged, or nothing of it, comes back so as well.
    for words in [&["add", "--all"][..], &["reset", "--quiet"]] {
        agent.git(words);
        let staged = index();
        discarded(&agent, &[]);
        repo.agent_json(&["undo"]);
        assert_eq!(index(), staged, "{words:?}");
    }
    // It is an agent like any other: its work is kept again.
    agent.write("src/later.rs", "later\n");
    discarded(&agent, &[]);
    let shown = repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "discarded");
    assert_kept(repo, &["later\n", WRITTEN[4]], "again");
}

#[test]
fn a_file_whose_filter_fails_comes_back_as_it_was() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::with_commit();
    let program = repo.path().with_file_name("rotate");
    let script = "#!/bin/sh\ntext=$(cat)\ncase $1:$text in clean:*FAIL*) exit 1;; esac\nprintf '%s\\n' \"$text\" | tr a-z b-za\n";
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("mode");
    let program = program.to_str().expect("UTF-8");
    for action in ["clean", "smudge"] {
        let key = format!("filter.rotate.{action}");
        repo.git(["config", &key, &format!("{program} {action}")]);
    }
    repo.git(["config", "filter.rotate.required", "true"]);
    repo.write(".gitattributes", "*.x filter=rotate\n*.txt text eol=crlf\n");
    repo.write("there.x", "there\n");
    repo.commit_all("attributes");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    agent.write("src/new.x", "FAIL and work\n");
    agent.write("src/new.txt", "unix\n");
    agent.write(".agent/plan.txt", "unix\n");
    fs::set_permissions(agent.worktree.join("src/new.txt"), fs::Permissions::from_mode(0o755))
        .expect("mode");
    std::os::unix::fs::symlink("new.x", agent.worktree.join("src/link")).expect("linked");
    let before = files(&agent.worktree);
    discarded(&agent, &[]);
    let to = agent.repo.path().with_file_name("back");
    let place = to.to_str().expect("UTF-8");
    agent.repo.agent_json(&["rescue", &agent.id, "--to", place]);
    assert_eq!(files(&to), before);
    let branch = agent.repo.agent_json(&["rescue", &agent.id, "--branch", "back"]);
    let warnings = branch["warnings"].to_string();
    assert!(warnings.contains("would convert"), "{warnings}");
    agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    assert_eq!(files(&agent.worktree), before);
    assert_eq!(agent.git(&["diff", "--cached", "--name-only"]), "");
}

#[test]
fn work_after_a_landing_re_opens_the_agent() {
    let repo = TestRepo::with_commit();
    let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let top = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    fs::write(top.join("src/one.rs"), "// one\n").expect("written");
    repo.agent_json(&["merge", id]);
    repo.agent_json(&["discard", id]);
    repo.agent_json(&["undo"]);
    refused(&repo.agent(&["rescue", id, "--reopen"]), "agent-state", 3);
    fs::write(top.join("src/later.rs"), "// later\n").expect("written");
    repo.agent_json(&["discard", id]);
    let back = repo.agent_json(&["rescue", id, "--reopen"]);
    assert_eq!(back["state"], "idle", "{back}");
    let shown = repo.agent_json(&["show", id]);
    assert_eq!(shown["state"], "idle", "{shown}");
    let landed = repo.agent_json(&["merge", id]);
    let commit = landed["commit"].as_str().expect("a commit");
    let changed = repo.git(["diff", "--name-only", &format!("{commit}^"), commit]);
    assert_eq!(changed, "src/later.rs");
    refused(&repo.agent(&["rescue", id, "--reopen"]), "agent-state", 3);
}

#[test]
fn an_agent_that_was_discarded_after_its_landing_comes_back_as_commands_advise() {
    let agent = Agent::new();
    agent.write("src/one.rs", "// one\n");
    let tip = agent.commit("one");
    agent.repo.agent_json(&["merge", &agent.id]);
    discarded(&agent, &[]);
    let command = format!("git agent rescue {} --reopen", &agent.id[..8]);
    let said = describe(&agent.repo.agent(&["run", &agent.id, "--", "true"]));
    assert!(said.contains(&command), "{said}");
    let back = agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    assert_eq!(back["state"], "idle", "{back}");
    assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);
    agent.write("src/two.rs", "// two\n");
    agent.commit("two");
    let landed = agent.repo.agent_json(&["merge", &agent.id]);
    let commit = landed["commit"].as_str().expect("a commit");
    let changed = agent.repo.git(["diff", "--name-only", &format!("{commit}^"), commit]);
    assert_eq!(changed, "src/two.rs");
}

#[test]
fn a_worktree_that_was_removed_by_hand_comes_back_from_its_branch() {
    for how in ["directory", "prune", "remove"] {
        let agent = Agent::new();
        let repo = &agent.repo;
        agent.write("src/lib.rs", "committed\n");
        let tip = agent.commit("one");
        agent.write("src/staged.rs", "staged\n");
        agent.git(&["add", "--all"]);
        let spec = fs::read(agent.worktree.join(".agent/spec.md")).expect("written by spawn");
        let place = agent.worktree.to_str().expect("UTF-8");
        if how == "remove" {
            repo.git(["worktree", "remove", "-f", "-f", place]);
        } else {
            fs::remove_dir_all(&agent.worktree).expect("removed");
        }
        if how == "prune" {
            repo.git(["worktree", "unlock", place]);
            repo.git(["worktree", "prune"]);
        }
        let command = format!("git agent rescue {} --reopen", &agent.id[..8]);
        for words in [&["run", &agent.id, "--", "true"][..], &["commit", &agent.id, "-m", "x"]] {
            let said = describe(&repo.agent(words));
            assert!(said.contains(&command), "{how}: {said}");
        }
        let doctor = describe(&repo.agent(&["doctor"]));
        assert_eq!(doctor.contains(&command), how != "directory", "{doctor}");
        let report = repo.agent_json(&["rescue", &agent.id, "--reopen"]);
        assert_eq!(report["state"], "idle", "{how}: it has a commit");
        assert_eq!(report["rescued_branch"], agent.branch.as_str(), "{how}");
        assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip, "{how}");
        let head = agent.git(&["symbolic-ref", "--short", "HEAD"]);
        assert_eq!(head, agent.branch, "{how}");
        // What was staged was in git's record of the worktree, and went with that.
        let staged = ["A  src/staged.rs", ""][usize::from(how != "directory")];
        assert_eq!(agent.git(&["status", "--porcelain"]), staged, "{how}");
        let again = fs::read(agent.worktree.join(".agent/spec.md")).expect("made again");
        assert_eq!(again, spec, "{how}");
        let hooks = repo.agent(&["doctor", "hooks", "status", &agent.id]);
        assert!(hooks.status.success(), "{how}: {}", describe(&hooks));
        let worktrees = repo.git(["worktree", "list", "--porcelain"]);
        let lock = format!("locked git-agent {}", &agent.id[..8]);
        assert!(worktrees.contains(&lock), "{how}: {worktrees}");
        let doctor = describe(&repo.agent(&["doctor"]));
        assert!(!doctor.contains("[worktrees."), "{how}: {doctor}");
        let shown = repo.agent_json(&["show", &agent.id]);
        assert_eq!(shown.get("irregular"), None, "{how}: {shown:#}");
        refused(&rescue(&agent, &["--reopen"]), "agent-state", 3);
        let ran = repo.agent(&["run", &agent.id, "--no-verify", "--", "true"]);
        assert!(ran.status.success(), "{how}: {}", describe(&ran));
    }
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_gets_no_second_worktree() {
    let agent = Agent::new();
    let place = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "remove", "-f", "-f", place]);
    agent.repo.git(["switch", "--quiet", &agent.branch]);
    refused(&rescue(&agent, &["--reopen"]), "agent-state", 3);
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.repo.git(["branch", "-D", &agent.branch]);
    refused(&rescue(&agent, &["--reopen"]), "agent-state", 3);
}

#[test]
fn what_was_discarded_before_comes_back_in_place_of_what_was_discarded_since() {
    let agent = Agent::new();
    for (content, back) in [
        ("one\n", &["rescue", &agent.id, "--reopen"][..]),
        ("two\n", &["undo"]),
        ("one\n", &["rescue", &agent.id, "--reopen"]),
        ("two\n", &["undo"]),
    ] {
        agent.write("src/new.rs", content);
        discarded(&agent, &[]);
        agent.repo.agent_json(back);
        let found = fs::read_to_string(agent.worktree.join("src/new.rs")).expect("it came back");
        assert_eq!(found, content);
    }
}

#[test]
fn what_was_dropped_since_it_came_back_stays_away() {
    let agent = Agent::new();
    for back in [&["undo"][..], &["rescue", &agent.id, "--reopen"]] {
        agent.write("src/lib.rs", "dropped\n");
        discarded(&agent, &[]);
        agent.repo.agent_json(back);
        agent.git(&["checkout", "--quiet", "src/lib.rs"]);
        fs::remove_file(agent.worktree.join(".agent/review.md")).expect("removed");
        discarded(&agent, &[]);
        agent.repo.agent_json(back);
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{back:?}");
        assert!(!agent.worktree.join(".agent/review.md").exists(), "{back:?}");
        agent.write(".agent/review.md", "again\n");
    }
}

#[test]
fn what_is_back_is_not_rescued_a_second_time() {
    let agent = Agent::new();
    agent.write("src/new.rs", "new\n");
    agent.commit("new");
    let to = agent.repo.path().with_file_name("back");
    let to = to.to_str().expect("UTF-8");
    for back in [&["undo"][..], &["rescue", &agent.id, "--reopen"]] {
        agent.write("src/new.rs", "changed\n");
        discarded(&agent, &[]);
        agent.repo.agent_json(back);
        for words in [&["--to", to][..], &["--branch", "back"], &[]] {
            let output = rescue(&agent, words);
            refused(&output, "agent-state", 3);
            let said = describe(&output);
            assert!(said.contains("was put away"), "{back:?} {words:?}: {said}");
        }
    }
}

#[test]
fn a_branch_that_another_worktree_has_is_not_given_a_second_one() {
    let agent = Agent::new();
    agent.write("src/new.rs", "new\n");
    agent.commit("new");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    discarded(&agent, &[]);
    agent.repo.git(["switch", "--quiet", "--create", &agent.branch, &tip]);
    refused(&rescue(&agent, &["--reopen"]), "agent-state", 3);
    assert_eq!(agent.repo.git(["worktree", "list"]).lines().count(), 1);
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);
}

#[test]
fn what_lies_upon_another_commit_than_the_branchs_takes_nothing_back() {
    // Nothing, also where the files are gone; what fits on the branch; what conflicts with it.
    for (name, text, is_more) in [
        ("", "", false),
        ("", "", true),
        ("src/new.rs", "new\n", false),
        ("src/a.rs", "mine\n", false),
        ("src/a.rs", "mine\n", true),
    ] {
        let agent = Agent::new();
        agent.write("src/a.rs", "a\n");
        agent.commit("one");
        agent.write("src/a.rs", "aa\n");
        agent.write("src/b.rs", "b\n");
        let tip = agent.commit("two");
        agent.git(&["checkout", "--quiet", "--detach", "HEAD~1"]);
        // What conflicts with nothing beside what does.
        let is_new = name == "src/new.rs" || name == "src/a.rs" && is_more;
        if !name.is_empty() {
            agent.write(name, text);
        } else if is_more {
            fs::remove_dir_all(&agent.worktree).expect("removed");
        }
        if is_new {
            agent.write("src/new.rs", "new\n");
        }
        let report = agent.repo.agent_json(&["discard", &agent.id]);
        assert_eq!(report["salvage_commit"].is_string(), is_new, "{report}");
        if name == "src/a.rs" {
            let kept = report["other_commits"][0].as_str().expect("a commit");
            let file = format!("{kept}:src/a.rs");
            assert_eq!(agent.repo.git(["show", &file]), "mine");
            assert!(report["warnings"].to_string().contains(&kept[..7]), "{report}");
        }
        assert!(rescue(&agent, &["--reopen"]).status.success());
        assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip, "{name}");
        let changed = agent.git(&["status", "--porcelain"]);
        let expected = if is_new { "?? src/new.rs" } else { "" };
        assert_eq!(changed, expected, "{name}");
    }
}
