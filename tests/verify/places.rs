use super::{Agent, codes, refused, report, run_in};
use crate::support::agent::{agent_command, describe};
use crate::support::{git_in, git_output};
use std::fs;
use std::path::{Path, PathBuf};

/// A clone beside the repository, with the ledger and what it keeps.
fn clone(agent: &Agent, options: &[&str]) -> PathBuf {
    let path = agent.repo.path().with_file_name("clone");
    let url = format!("file://{}", agent.repo.path().display());
    let mut words = vec!["clone", "--quiet"];
    words.extend(options);
    words.extend([url.as_str(), path.to_str().expect("UTF-8")]);
    git_in(&agent.repo.path(), words);
    let refs = ["refs/notes/agents:refs/notes/agents", "refs/agents/*:refs/agents/*"];
    git_in(&path, [&["fetch", "--quiet", "origin"][..], &refs].concat());
    path
}

fn finished() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    agent.verify(&[]);
    agent
}

#[test]
fn a_worktree_that_goes_away_while_it_is_read_is_not_judged() {
    let agent = Agent::new();
    agent.write("src/two.rs", "not committed\n");
    let away = agent.worktree.with_file_name("away");
    // Git runs it when the file is read: what a discard at that moment does.
    let clean = format!("mv {} {}; cat", agent.worktree.display(), away.display());
    agent.repo.git(["config", "filter.away.clean", &clean]);
    agent.repo.write(".git/info/attributes", "two.rs filter=away\n");
    for verb in ["verify", "merge"] {
        let words = [verb, &agent.id];
        refused(&agent.repo.agent(&words), "lost-race", 5);
        fs::rename(&away, &agent.worktree).expect("it was moved");
        // `show` would read the file as well, to count its lines.
        assert_eq!(agent.repo.agent_json(&["list"])["agents"][0]["state"], "idle");
    }
}

#[test]
fn a_bare_clone_can_judge_a_branch() {
    let agent = finished();
    let bare = clone(&agent, &["--bare"]);
    let answer = report(&run_in(&bare, &agent.id, &["--tip", &agent.branch, "--format=json"]));
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(codes(&answer), ["worktree.gone"]);
    // The branch says whose it is, also where no ledger does.
    git_in(&bare, ["update-ref", "-d", "refs/notes/agents"]);
    let mut verify = agent_command(&bare);
    verify.args(["verify", "--tip", &agent.branch, "--format=json"]);
    let answer = report(&verify.output().expect("starts"));
    assert_eq!(answer["agent_id"], agent.id.as_str(), "{answer}");
    assert_eq!(answer["verdict"], "accept", "{answer}");
}

#[test]
fn a_worktree_that_nobody_looked_at_is_not_said_to_be_gone() {
    let agent = finished();
    let message = |arguments: &[&str]| {
        let answer = agent.verify(arguments);
        assert_eq!(codes(&answer), ["worktree.gone"], "{answer}");
        let message = answer["findings"][0]["message"].as_str();
        message.expect("a message").to_owned()
    };
    let named = message(&["--tip", &agent.branch]);
    assert!(named.contains("a commit was named"), "{named}");
    let path = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "unlock", path]);
    agent.repo.git(["worktree", "remove", "--force", path]);
    let gone = message(&[]);
    assert!(gone.contains("there is no worktree here"), "{gone}");
    assert_eq!(message(&["--tip", &agent.branch]), named);
}

/// Says something about the agent in another clone.
fn say(clone: &Path, arguments: &[&str]) {
    let output = agent_command(clone).args(arguments).output();
    let output = output.expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
}

/// Unites the ledger of the repository with that of a clone, as a user's git does it.
fn unite(agent: &Agent, clone: &Path) {
    let main = agent.repo.path();
    let from = clone.to_str().expect("UTF-8");
    let theirs = "refs/notes/clone/agents";
    let notes = format!("+refs/notes/agents:{theirs}");
    git_in(&main, ["fetch", "--quiet", from, &notes]);
    let merge = ["notes", "--ref=agents", "merge", "--quiet"];
    git_in(&main, [&merge[..], &["-s", "cat_sort_uniq", theirs]].concat());
}

fn marks(agent: &Agent) -> usize {
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    shown["irregular"].as_array().map_or(0, Vec::len)
}

#[test]
fn what_two_clones_said_without_each_other_is_no_tampering() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    let path = clone(&agent, &[]);
    // Both after the same event: judged here, and declared there.
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    say(&path, &["done", &agent.id, "-m", "It is done"]);
    say(&path, &["defer", &agent.id, "-m", "Not today"]);
    unite(&agent, &path);
    assert_eq!(marks(&agent), 0);
    let answer = agent.verify(&[]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(codes(&answer), [""; 0]);
    let landed = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(landed["outcome"], "merged");
}

#[test]
fn decisions_that_do_not_go_together_are_told_and_do_not_reject() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    let path = clone(&agent, &[]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    say(&agent.repo.path(), &["reject", &agent.id, "-m", "Not wanted"]);
    say(&path, &["done", &agent.id, "-m", "It is done"]);
    say(&path, &["defer", &agent.id, "-m", "Not today"]);
    unite(&agent, &path);
    assert_eq!(marks(&agent), 1, "what came after this clone rejected it");
    let answer = agent.verify(&[]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(codes(&answer), ["ledger.disorder"]);
}

#[test]
fn a_row_that_doctor_mended_is_acceptable_again() {
    let agent = finished();
    let spawn = format!("main..{}", agent.branch);
    let spawn = agent.repo.git(["rev-list", "--reverse", &spawn]);
    let spawn = spawn.lines().next().expect("the spawn commit");
    let row = agent.repo.git(["notes", "--ref=agents", "show", spawn]);
    let (before, verdict) = row.rsplit_once('\n').expect("several lines");
    assert!(verdict.contains("\"verified\""), "{verdict}");
    // Somebody's rewrite drops the verdict, and the next line follows the one before it.
    let rewrite = ["notes", "--ref=agents", "add", "--force", "-m", before, spawn];
    agent.repo.git(rewrite);
    say(&agent.repo.path(), &["done", &agent.id, "-m", "It is done"]);
    let doctor = agent.repo.agent(&["doctor", "--fix"]);
    let mended = agent.repo.git(["notes", "--ref=agents", "show", spawn]);
    assert!(mended.contains(verdict), "{}", describe(&doctor));
    let answer = agent.verify(&[]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(codes(&answer), [""; 0]);
}

#[test]
fn ci_finds_the_agent_by_its_trailers_also_after_a_rebase() {
    let agent = finished();
    agent.repo.write("README.md", "# Moved\n");
    agent.repo.commit_all("main moves");
    agent.git(&["rebase", "--quiet", "main"]);
    let path = clone(&agent, &[]);
    git_in(&path, ["checkout", "--quiet", "--detach", &format!("origin/{}", agent.branch)]);
    let ci = || {
        let output = agent_command(&path).args(["verify", "--ci", "--format=json"]).output();
        report(&output.expect("starts"))
    };
    assert_eq!(ci()["agent_id"], agent.id.as_str());
    git_in(&path, ["branch", "--quiet", "-D", "main"]);
    assert_eq!(ci()["target"]["ref"], "refs/remotes/origin/main");
    git_in(&path, ["checkout", "--quiet", "--detach", "origin/main"]);
    let output = agent_command(&path).args(["verify", "--ci"]).output().expect("starts");
    refused(&output, "agent-unknown", 2);
}

#[test]
fn a_shallow_clone_says_what_it_lacks() {
    let agent = finished();
    let path = agent.repo.path().with_file_name("clone");
    let url = format!("file://{}", agent.repo.path().display());
    let shallow = ["clone", "--quiet", "--depth=1", "--branch", &agent.branch, &url];
    git_in(&agent.repo.path(), [&shallow[..], &[path.to_str().expect("UTF-8")]].concat());
    git_in(
        &path,
        ["fetch", "--quiet", "--depth=1", "origin", "refs/notes/agents:refs/notes/agents"],
    );
    let output = run_in(&path, &agent.id, &["--tip=HEAD"]);
    refused(&output, "history-incomplete", 4);
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let agent = finished();
    refused(&run_in(&agent.repo.path(), "0123abcd", &[]), "agent-unknown", 2);
    refused(&agent.run(&["--base=nowhere"]), "base-not-commit", 2);
    let other = agent.repo.spawn();
    let theirs = other["worktree_path"].as_str().expect("a path");
    refused(&agent.run(&[theirs]), "worktree-foreign", 2);
    refused(&agent.run(&["src"]), "worktree-foreign", 2);
    agent.git(&["checkout", "--quiet", "--detach"]);
    agent.repo.git(["branch", "--quiet", "-D", &agent.branch]);
    refused(&agent.run(&[]), "branch-gone", 4);
    // Nobody has discarded it, so there is nothing to rescue; doctor knows where the branch was.
    let diff = agent.repo.agent(&["diff", &agent.id]);
    refused(&diff, "branch-gone", 4);
    let said = String::from_utf8_lossy(&diff.stderr).into_owned();
    assert!(said.ends_with("run git agent doctor\n"), "{said}");
    let doctor = agent.repo.agent(&["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(told.contains(&format!("git branch {}", agent.branch)), "{told}");
}

#[test]
fn a_worktree_is_known_by_its_admin_directory_not_by_its_pointer() {
    let agent = finished();
    let other = agent.repo.spawn();
    let theirs = other["worktree_abspath"].as_str().expect("a path");
    fs::copy(PathBuf::from(theirs).join(".git"), agent.worktree.join(".git")).expect("copy");
    let answer = agent.verify(&[]);
    assert_eq!(codes(&answer), ["worktree.unlinked"]);
    assert_eq!(answer["uncommitted"], 0);
}

#[test]
fn a_row_that_was_tampered_with_rejects() {
    let agent = finished();
    let spawn = agent.repo.git(["rev-list", "--reverse", &format!("main..{}", agent.branch)]);
    let spawn = spawn.lines().next().expect("the spawn commit").to_owned();
    let note = |text: &str| {
        let file = agent.repo.path().with_file_name("note");
        fs::write(&file, text).expect("write");
        let file = file.to_str().expect("UTF-8");
        agent.repo.git(["notes", "--ref=agents", "add", "--force", "-F", file, &spawn]);
    };
    let row = agent.repo.git(["notes", "--ref=agents", "show", &spawn]);
    let lines: Vec<&str> = row.lines().collect();
    note(&row.replace("\"e\":\"spawned\",\"by\":\"", "\"e\":\"spawned\",\"by\":\"not "));
    assert_eq!(agent.codes(), ["ledger.chain"]);
    note(&lines[1..].join("\n"));
    assert!(agent.codes().contains(&"ledger.irregular".to_owned()));
    note("garbage\n");
    refused(&agent.run(&[]), "agent-unknown", 2);
    let output = git_output(&agent.repo.path(), ["fsck", "--strict"]);
    assert!(output.status.success());
}

#[test]
fn a_copied_index_is_as_old_as_the_original() {
    use git_agent::domain::value::oid::Oid;
    use git_agent::git::Repo;
    use git_agent::git::uncommitted::{WorktreeSource, snapshot_by_git};
    use git_agent::git::worktree::view::WorktreeView;
    let agent = Agent::new();
    let admin = format!(".git/worktrees/agent-{}", &agent.id[..8]);
    let admin = agent.repo.path().join(admin);
    let written = |path: &Path| fs::metadata(path).expect("there").modified().expect("a time");
    // As when a file is written in the moment in which the index was: only its content tells.
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let index = fs::File::open(admin.join("index")).expect("open");
    index.set_modified(long_ago).expect("set");
    let copy = agent.repo.path().with_file_name("copy");
    let tip = Oid::from_hex(&agent.git(&["rev-parse", "HEAD"])).expect("an oid");
    let own = Repo::open_git_dir(&admin).expect("opens");
    let rules = own.ignore_rules(Path::new("/dev/null")).expect("rules");
    let view =
        WorktreeView::make(&own, &admin, &agent.worktree, &std::env::temp_dir()).expect("made");
    let found = snapshot_by_git(&WorktreeSource {
        repo: &own,
        worktree: &agent.worktree,
        admin_dir: &admin,
        view: &view,
        tip,
        staged: false,
        sparse: false,
        rules: &rules,
        names_ignored: false,
        index: &copy,
    });
    assert_eq!(found.expect("looked at").tree, None);
    assert_eq!(written(&copy), long_ago);
}
