//! Which agent a branch belongs to, and which policy binds it.

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::death::ctx_with;
use crate::support::{TestRepo, git_in};
use crate::verify::{Agent, codes, refused_json, report};
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::spawn;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().expect("a text")
}

/// A bare repository beside this one that checks every object it is sent.
fn checking_remote(repo: &TestRepo) -> String {
    let path = repo.path().with_file_name("remote.git");
    let path = path.to_str().expect("UTF-8").to_owned();
    repo.git(["init", "--quiet", "--bare", &path]);
    for key in ["receive.fsckObjects", "fetch.fsckObjects"] {
        repo.git(["-C", &path, "config", key, "true"]);
    }
    path
}

#[test]
fn h8_no_id_begins_with_a() {
    let repo = TestRepo::with_commit();
    let drawn = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&drawn);
    let seams = Seams {
        nonce: Arc::new(move || {
            let number = u128::from(counter.fetch_add(1, Ordering::Relaxed));
            Ok(number.to_be_bytes())
        }),
        ..Seams::real()
    };
    let ctx = ctx_with(&repo.path(), seams);
    // One in sixteen draws gives such an id, so that none does in 400 is all but impossible.
    const PLANS: u64 = 400;
    for _ in 0..PLANS {
        let draft = git_agent::wire::file::task_file::parse("task.toml", TASK.as_bytes());
        let plan = spawn::plan(&ctx, draft, &spawn::SpawnOptions::default()).expect("a plan");
        assert!(!plan.id.short().starts_with('a'), "{}", plan.id);
    }
    assert!(drawn.load(Ordering::Relaxed) > PLANS, "none was passed over");
}

#[test]
fn j1_the_spawn_commit_carries_the_policy_in_a_header() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let spawn_commit = text(&report, "spawn_commit");
    let commit = repo.git(["cat-file", "commit", spawn_commit]);
    let headers: Vec<&str> = commit.lines().take_while(|line| !line.is_empty()).collect();
    let names: Vec<&str> = headers.iter().filter_map(|line| line.split(' ').next()).collect();
    let wanted = ["tree", "parent", "author", "committer", "agent-policy"];
    assert_eq!(names, wanted, "{commit}");
    // It is the policy of the ledger but for the hash of the specification, which names the agent's id.
    let (_, header) = headers[4].split_once(' ').expect("a value");
    let mut carried: Value = serde_json::from_str(header).expect("JSON");
    assert_eq!(carried["spec_sha"], "");
    let row = repo.git(["notes", "--ref=agents", "show", spawn_commit]);
    let blob = row.split(r#""policy":""#).nth(1).expect("a policy")[..40].to_owned();
    let recorded: Value =
        serde_json::from_str(&repo.git(["cat-file", "blob", &blob])).expect("JSON");
    carried["spec_sha"] = recorded["spec_sha"].clone();
    assert_eq!(carried, recorded);
    let digest =
        repo.git(["log", "-1", "--format=%(trailers:key=Agent-Policy,valueonly)", spawn_commit]);
    use sha2::Digest;
    // Version 0.2.0 has to come to the same, and does not know the hash of the task.
    let task = format!(r#","task_sha":{}"#, carried["task_sha"]);
    let known = header.replace(&task, "");
    assert_ne!(known, header);
    let hash = sha2::Sha256::digest(format!("{known}\n"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest.trim_end(), format!("sha256:{hash}"));
}

#[test]
fn j1_git_and_a_checking_remote_accept_the_header() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    let repo = &agent.repo;
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
    let remote = checking_remote(repo);
    repo.git(["push", "--quiet", &remote, "main", &agent.branch]);
    assert_eq!(repo.git(["-C", &remote, "fsck", "--strict", "--no-progress"]), "");
    let clone = repo.path().with_file_name("clone");
    let clone = clone.to_str().expect("UTF-8");
    let check = ["-c", "fetch.fsckObjects=true", "-c", "transfer.fsckObjects=true"];
    let url = format!("file://{remote}");
    let words = ["clone", "--quiet", "--branch", &agent.branch, &url, clone];
    repo.git([&check[..], &words].concat());
    let bound = git_in(clone.as_ref(), ["cat-file", "commit", "HEAD~1"]);
    assert!(bound.contains("\nagent-policy {"), "{bound}");
}

/// Runs `verify` in any clone.
fn verify(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = agent_command(directory);
    command.args(["verify", "--format=json"]).args(arguments);
    command.output().expect("git-agent starts")
}

/// A clone beside the repository, made with these options, without any ref of ours.
fn plain_clone(repo: &TestRepo, name: &str, options: &[&str]) -> PathBuf {
    let path = repo.path().with_file_name(name);
    let url = format!("file://{}", repo.path().display());
    let words = [&["clone", "--quiet"], options, &[&url, path.to_str().expect("UTF-8")]];
    git_in(&repo.path(), words.concat());
    let ours = git_in(&path, ["for-each-ref", "refs/notes", "refs/agents"]);
    assert_eq!(ours, "", "a plain clone fetches none of them");
    path
}

/// An agent with one commit in scope that says whose it is, as our hooks and `git agent commit` leave it.
fn at_work() -> Agent {
    let agent = Agent::new();
    work(&agent, "src/two.rs");
    agent
}

/// Commits a new file in the way that names the agent.
fn work(agent: &Agent, path: &str) {
    agent.write(path, "pub fn more() {}\n");
    let output = agent.repo.agent(&["commit", &agent.id, "-m", "work"]);
    assert!(output.status.success(), "{}", describe(&output));
}

/// Moves `main` to a branch and the main worktree along.
fn fast_forward(repo: &TestRepo, branch: &str) {
    repo.git(["merge", "--quiet", "--ff-only", branch]);
}

/// A branch of a person off `main` with one change that is in the scope of every agent here.
fn persons_branch(repo: &TestRepo, message: &str) -> String {
    repo.git(["switch", "--quiet", "--create", "person", "main"]);
    repo.write("src/person.rs", "pub fn person() {}\n");
    let tip = repo.commit_all(message);
    repo.git(["switch", "--quiet", "main"]);
    tip
}

fn error_of(output: &Output) -> String {
    refused_json(output, "agent-unknown", 2);
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    error["error"]["message"].as_str().expect("a text").to_owned()
}

#[test]
fn j1_a_branch_off_main_is_no_agent_s_that_has_landed() {
    let agent = at_work();
    let repo = &agent.repo;
    fast_forward(repo, &agent.branch);
    let plain = persons_branch(repo, "a person's work");
    let ci = ["--ci", "--tip", &plain];
    let said = error_of(&verify(&repo.path(), &ci));
    assert!(said.contains("is on no agent's branch"), "{said}");
    assert!(said.contains("has landed in refs/heads/main"), "{said}");
    // Where the base is named, the answer is that it was not judged.
    let output = verify(&repo.path(), &[&ci[..], &["--base", "main"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["verdict"], Value::Null, "{answer}");
    let said = answer["findings"][0]["message"].as_str().expect("a text");
    assert!(said.contains("has landed in refs/heads/main"), "{said}");
    // A trailer is a claim.
    repo.git(["branch", "--quiet", "-D", "person"]);
    let claim = format!("a person's work\n\nAgent-Id: {}", agent.id);
    let claims = persons_branch(repo, &claim);
    error_of(&verify(&repo.path(), &["--ci", "--tip", &claims]));
    for tip in [&plain, &claims] {
        let answer = report(&verify(&repo.path(), &[&agent.id, "--tip", tip]));
        assert!(codes(&answer).contains(&"provenance.foreign-commit".to_owned()), "{answer}");
    }
    // A clone whose own main is older knows by the remote's.
    let clone = plain_clone(repo, "older", &[]);
    git_in(&clone, ["fetch", "--quiet", "origin", "person"]);
    git_in(&clone, ["reset", "--quiet", "--hard", "main~2"]);
    let said = error_of(&verify(&clone, &["--ci", "--tip", &claims]));
    assert!(said.contains("has landed in refs/remotes/origin/main"), "{said}");
}

#[test]
fn j1_what_follows_a_landing_on_an_agent_s_branch_is_foreign() {
    let agent = at_work();
    let repo = &agent.repo;
    fast_forward(repo, &agent.branch);
    let landed = report(&verify(&repo.path(), &[&agent.id]));
    assert_eq!(landed["verdict"], "accept", "{landed}");
    assert_eq!(landed["merge"]["state"], "merged", "{landed}");
    agent.write("src/three.rs", "pub fn three() {}\n");
    let later = agent.commit("more work on the same branch");
    error_of(&verify(&repo.path(), &["--ci", "--tip", &agent.branch]));
    for tip in [&[][..], &["--tip", &agent.branch]] {
        let answer = report(&verify(&repo.path(), &[&[agent.id.as_str()], tip].concat()));
        let errors = answer["findings"].as_array().expect("a list").iter();
        let errors: Vec<_> = errors.filter(|finding| finding["severity"] == "error").collect();
        assert_eq!(errors.len(), 1, "{answer}");
        assert_eq!(errors[0]["code"], "provenance.foreign-commit", "{answer}");
        assert_eq!(errors[0]["commit"], later.as_str());
    }
}

#[test]
fn j1_a_rebase_of_what_has_landed_is_not_new_work() {
    let agent = at_work();
    let repo = &agent.repo;
    let tip = agent.git(&["rev-parse", "HEAD"]);
    fast_forward(repo, &tip);
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.commit("more work on the same branch");
    // The spawn commit is empty, so git makes it again on any base.
    repo.write("README.md", "# Moved\n");
    repo.commit_all("main moves");
    agent.git(&["rebase", "--quiet", "--onto", "main", "HEAD~3"]);
    let line = agent.git(&["log", "--format=%s", "main..HEAD"]);
    assert!(line.contains("agent: spawn "), "{line}");
    let said = error_of(&verify(&repo.path(), &["--ci", "--tip", &agent.branch]));
    assert!(said.contains("has landed in refs/heads/main"), "{said}");
    let answer = report(&verify(&repo.path(), &[&agent.id, "--tip", &agent.branch]));
    assert!(codes(&answer).contains(&"provenance.foreign-commit".to_owned()), "{answer}");
}

#[test]
fn j1_a_person_s_branch_is_told_that_it_is_no_agent_s() {
    let agent = at_work();
    let repo = &agent.repo;
    persons_branch(repo, "a person's work");
    let said = error_of(&verify(&repo.path(), &["--ci", "--tip", "person"]));
    assert!(said.contains("is on no agent's branch: git agent spawn made none"), "{said}");
    // To merge an agent's work does not make the branch the agent's.
    repo.git(["switch", "--quiet", "person"]);
    repo.git(["merge", "--quiet", "--no-edit", &agent.branch]);
    let said = error_of(&verify(&repo.path(), &["--ci"]));
    assert!(said.contains("is on no agent's branch"), "{said}");
    let answer = report(&verify(&repo.path(), &[&agent.id, "--tip", "HEAD"]));
    assert_eq!(answer["verdict"], "reject", "{answer}");
}

#[test]
fn j1_a_merge_commit_of_a_forge_is_judged_by_the_agent_s_side() {
    let landed = at_work();
    fast_forward(&landed.repo, &landed.branch);
    let agent = Agent::spawned_in(landed.repo, TASK);
    work(&agent, "src/three.rs");
    let repo = &agent.repo;
    let side = agent.git(&["rev-parse", "HEAD"]);
    repo.git(["switch", "--quiet", "--detach", "main"]);
    let no_ff = ["merge", "--quiet", "--no-ff", "--no-edit", &agent.branch];
    repo.git(no_ff);
    let merge = repo.git(["rev-parse", "HEAD"]);
    for asked in [&["--ci"][..], &["--ci", "--base", "main"], &[&agent.id, "--tip", "HEAD"]] {
        let answer = report(&verify(&repo.path(), asked));
        assert_eq!(answer["agent_id"], agent.id.as_str());
        assert_eq!(answer["tip"], side.as_str());
        let codes = codes(&answer);
        let merges = codes
            .iter()
            .position(|code| code == "provenance.merge-commit")
            .expect("it is told which side was judged");
        assert_eq!(answer["findings"][merges]["commit"], merge.as_str());
    }
    let [first, second] = ["HEAD^1", "HEAD^2"].map(|name| repo.git(["rev-parse", name]));
    // A merge with a change of its own is neither the agent's nor the forge's.
    repo.write("src/evil.rs", "");
    repo.git(["add", "--all"]);
    repo.git(["commit", "--quiet", "--amend", "--no-edit"]);
    let [again, other] = ["HEAD^1", "HEAD^2"].map(|name| repo.git(["rev-parse", name]));
    assert_eq!([&first, &second], [&again, &other]);
    let output = verify(&repo.path(), &["--ci"]);
    let said = error_of(&output);
    assert!(said.contains("merges the work of agent"), "{said}");
    assert!(describe(&output).contains(&format!("git agent verify --ci --tip {side}")));
}

#[test]
fn j1_of_several_agents_the_nearest_has_the_branch() {
    let below = at_work();
    let id = below.id.clone();
    let branch = below.branch.clone();
    let report_of = below.repo.spawn_task(TASK, &["--base", &branch]);
    let above = Agent::told_of(below.repo, &report_of);
    work(&above, "src/four.rs");
    let repo = &above.repo;
    let stacked =
        report(&verify(&repo.path(), &["--ci", "--tip", &above.branch, "--base", "main"]));
    assert_eq!(stacked["agent_id"], above.id.as_str());
    assert!(
        codes(&stacked).contains(&"provenance.base-rewritten".to_owned()),
        "what it is stacked on has not landed: {stacked}"
    );
    // The branch of the one above is not that of the one below.
    let answer = report(&verify(&repo.path(), &[&id, "--tip", &above.branch]));
    let foreign = codes(&answer);
    let foreign = foreign.iter().filter(|code| *code == "provenance.foreign-commit");
    assert_eq!(foreign.count(), 2, "the spawn commit above and the work: {answer}");
    // One that merges another's work brings commits that are neither its own nor the base's.
    let merging = Agent::told_of(above.repo, &report_of);
    let other = merging.repo.spawn();
    let other = Agent::told_of(merging.repo, &other);
    other.git(&["merge", "--quiet", "--no-edit", &branch]);
    let answer = report(&verify(&other.repo.path(), &["--ci", "--tip", &other.branch]));
    assert_eq!(answer["agent_id"], other.id.as_str());
    let foreign = codes(&answer);
    let foreign = foreign.iter().filter(|code| *code == "provenance.foreign-commit");
    assert_eq!(foreign.count(), 2, "the other's spawn commit and its work: {answer}");
    assert_ne!(answer["agent_id"], id.as_str());
}

/// What an accepting verdict of `--ci` says if there is no ledger.
const ALONE: [&str; 2] = ["bundle.not-judged", "ledger.not-judged"];

/// The codes but for the note that `--tip` without `--ci` adds.
fn without_worktree(answer: &Value) -> Vec<String> {
    let mut found = codes(answer);
    found.retain(|code| code != "worktree.gone");
    found
}

#[test]
fn j1_a_plain_checkout_of_the_branch_is_enough() {
    let agent = at_work();
    let (repo, branch) = (&agent.repo, agent.branch.as_str());
    let whole = plain_clone(repo, "whole", &["--branch", branch]);
    let single = plain_clone(repo, "single", &["--single-branch", "--branch", branch]);
    for asked in [&["--ci"][..], &["--ci", "--tip", "HEAD"], &[&agent.id[..8], "--tip", "HEAD"]] {
        let answer = report(&verify(&whole, asked));
        assert_eq!(answer["verdict"], "accept", "{answer}");
        assert_eq!(answer["agent_id"], agent.id.as_str());
        assert_eq!(answer["target"]["ref"], "refs/remotes/origin/main");
        assert_eq!(answer["merge"]["state"], "fast-forward");
        assert_eq!(without_worktree(&answer), ALONE);
        let answer = report(&verify(&single, asked));
        assert_eq!(answer["verdict"], "accept", "{answer}");
        assert_eq!(answer["merge"]["state"], "not-judged");
        let [bundle, ledger] = ALONE;
        assert_eq!(without_worktree(&answer), [bundle, "merge.not-judged", ledger]);
    }
    // No row is begun where the agent was not spawned.
    for clone in [&whole, &single] {
        assert_eq!(git_in(clone, ["for-each-ref", "refs/notes", "refs/agents"]), "");
    }
    // Scope is judged, each commit by itself.
    agent.write("README.md", "out of scope\n");
    agent.commit("out of scope");
    agent.git(&["revert", "--no-edit", "HEAD"]);
    let outside = plain_clone(repo, "outside", &["--branch", branch]);
    let answer = report(&verify(&outside, &["--ci"]));
    assert_eq!(answer["verdict"], "reject", "{answer}");
    assert!(codes(&answer).contains(&"scope.not-in-whitelist".to_owned()));
}

#[test]
fn j1_without_the_base_branch_only_commits_that_name_the_agent_are_its_own() {
    let landed = at_work();
    let repo = &landed.repo;
    fast_forward(repo, &landed.branch);
    persons_branch(repo, "a person's work");
    let single = plain_clone(repo, "single", &["--single-branch", "--branch", "person"]);
    let output = verify(&single, &["--ci"]);
    refused_json(&output, "history-incomplete", 4);
    assert!(describe(&output).contains("git fetch origin main:refs/remotes/origin/main"));
    git_in(&single, ["fetch", "--quiet", "origin", "main:refs/remotes/origin/main"]);
    error_of(&verify(&single, &["--ci"]));
}

#[test]
fn j1_an_agent_without_a_branch_owns_no_commit() {
    let repo = TestRepo::with_commit();
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    let tip = persons_branch(&repo, "a person's work");
    let output = verify(&repo.path(), &[text(&shared, "agent_id"), "--tip", &tip]);
    refused_json(&output, "usage", 2);
    let spawn_commit = text(&shared, "spawn_commit");
    repo.git(["switch", "--quiet", "--detach", spawn_commit]);
    repo.write("src/person.rs", "pub fn person() {}\n");
    repo.commit_all("on top of it");
    refused_json(&verify(&repo.path(), &["--ci"]), "usage", 2);
}

#[test]
fn j1_spawn_commits_of_earlier_versions_are_judged_by_the_ledger() {
    let agent = Agent::new().without_policy_in_spawn_commit();
    work_by_hand(&agent);
    let repo = &agent.repo;
    let asked = ["--ci", "--tip", &agent.branch];
    let answer = report(&verify(&repo.path(), &asked));
    assert_eq!(answer["agent_id"], agent.id.as_str());
    assert!(!codes(&answer).iter().any(|code| code.starts_with("ledger.")), "{answer}");
    let clone = plain_clone(repo, "clone", &["--branch", &agent.branch]);
    let output = verify(&clone, &["--ci"]);
    error_of(&output);
    assert!(describe(&output).contains("run git agent sync"));
}

fn work_by_hand(agent: &Agent) {
    agent.write("src/two.rs", "");
    agent.commit("two");
}

#[test]
fn j1_a_rebase_by_git_drops_the_policy_and_the_original_tells_it() {
    let agent = at_work();
    let repo = &agent.repo;
    let original = agent.git(&["rev-parse", "HEAD~1"]);
    repo.write("README.md", "# Moved\n");
    repo.commit_all("main moves");
    agent.git(&["rebase", "--quiet", "main"]);
    let rebased = agent.git(&["cat-file", "commit", "HEAD~1"]);
    assert!(rebased.contains("Agent-Nonce: "), "the message is kept: {rebased}");
    assert!(!rebased.contains("\nagent-policy "), "git keeps no such header: {rebased}");
    // The ledger tells of the original, and the verdict keeps the bundle.
    agent.verify(&[]);
    let here = report(&verify(&repo.path(), &["--ci", "--tip", &agent.branch]));
    assert_eq!(here["verdict"], "accept", "{here}");
    assert_eq!(here["agent_id"], agent.id.as_str());
    // A clone without ledger needs the original itself.
    let clone = plain_clone(repo, "clone", &["--branch", &agent.branch]);
    let output = verify(&clone, &["--ci"]);
    assert!(error_of(&output).contains("was rebased"), "{}", describe(&output));
    repo.git(["config", "uploadpack.allowAnySHA1InWant", "true"]);
    git_in(&clone, ["fetch", "--quiet", "origin", &original]);
    let answer = report(&verify(&clone, &["--ci"]));
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["agent_id"], agent.id.as_str());
    assert_eq!(codes(&answer), ALONE);
}

#[test]
fn j1_a_ledger_that_does_not_know_the_agent_rejects() {
    let agent = at_work();
    let clone = plain_clone(&agent.repo, "clone", &["--branch", &agent.branch]);
    let task = agent.repo.task_file(TASK);
    let spawned = agent_command(&clone).args(["spawn", &task]).output();
    assert!(spawned.expect("starts").status.success());
    let answer = report(&verify(&clone, &["--ci"]));
    let [bundle, _] = ALONE;
    assert_eq!(codes(&answer), [bundle, "ledger.missing"]);
    let ledger = "+refs/notes/agents:refs/notes/agents";
    git_in(&clone, ["fetch", "--quiet", "origin", ledger]);
    let answer = report(&verify(&clone, &["--ci"]));
    assert!(!codes(&answer).iter().any(|code| code.starts_with("ledger.")), "{answer}");
}

#[test]
fn j1_the_row_of_the_ledger_gives_no_agent_another_base_or_isolation() {
    let agent = at_work();
    let repo = &agent.repo;
    agent.write("README.md", "out of scope\n");
    agent.commit("out of scope");
    let spawn_commit = agent.git(&["rev-parse", "HEAD~2"]);
    let row = repo.git(["notes", "--ref=agents", "show", &spawn_commit]);
    let altered = row.replace(r#""isolation":"worktree""#, r#""isolation":"shared""#);
    assert_ne!(altered, row);
    let file = repo.path().with_file_name("row");
    std::fs::write(&file, altered).expect("written");
    let file = file.to_str().expect("UTF-8");
    repo.git(["notes", "--ref=agents", "add", "--force", "-F", file, &spawn_commit]);
    let answer = report(&verify(&repo.path(), &["--ci", "--tip", &agent.branch]));
    let found = codes(&answer);
    for code in ["scope.not-in-whitelist", "ledger.policy"] {
        assert!(found.iter().any(|found| found == code), "{code} in {answer}");
    }
}

/// A base branch that grew by merges while an agent worked, and so did the agent's branch.
fn merge_heavy() -> Agent {
    let agent = at_work();
    let repo = &agent.repo;
    for round in 0..4 {
        repo.git(["switch", "--quiet", "--create", &format!("topic{round}")]);
        repo.write(&format!("docs/{round}.md"), "text\n");
        repo.write("docs/all.md", format!("{round}\n"));
        repo.commit_all("topic");
        repo.git(["switch", "--quiet", "main"]);
        repo.write(&format!("notes/{round}.md"), "text\n");
        repo.commit_all("main");
        let topic = format!("topic{round}");
        repo.git(["merge", "--quiet", "--no-ff", "--no-edit", &topic]);
        agent.git(&["merge", "--quiet", "--no-edit", "main"]);
        work(&agent, &format!("src/{round}.rs"));
    }
    // The last change of the base conflicts with none of the agent's.
    repo.write("notes/last.md", "text\n");
    repo.commit_all("main moves on");
    agent
}

/// What decides, without what depends on which refs a clone has.
fn verdict(answer: &Value) -> Value {
    let mut verdict = answer.clone();
    let base = verdict["target"].as_object_mut().expect("an object");
    base.remove("ref");
    verdict
}

#[test]
fn j1_every_kind_of_clone_gives_the_same_verdict() {
    let agent = merge_heavy();
    let repo = &agent.repo;
    repo.git(["config", "uploadpack.allowFilter", "true"]);
    let same = |tips: &[&str], wanted: &str| {
        for (index, tip) in tips.iter().enumerate() {
            let name = |kind: &str| format!("{kind}-{wanted}-{index}");
            let mirror = plain_clone(repo, &name("mirror"), &["--bare"]);
            let clones = [
                plain_clone(repo, &name("whole"), &[]),
                plain_clone(repo, &name("blobless"), &["--filter=blob:none", "--no-checkout"]),
                mirror,
            ];
            let answers = clones.map(|clone| report(&verify(&clone, &["--ci", "--tip", tip])));
            assert_eq!(answers[0]["verdict"], wanted, "{}", answers[0]);
            assert_eq!(answers[0]["agent_id"], agent.id.as_str());
            for answer in &answers {
                assert_eq!(verdict(answer), verdict(&answers[0]));
            }
        }
    };
    let tip = agent.git(&["rev-parse", "HEAD"]);
    same(&[&tip], "accept");
    // A symlink's target is a blob, and so is what conflicts.
    std::os::unix::fs::symlink("../../outside", agent.worktree.join("src/link")).expect("a link");
    let link = agent.commit("a link that leads out");
    agent.git(&["reset", "--quiet", "--hard", &tip]);
    repo.write("src/lib.rs", "pub fn theirs() {}\n");
    repo.commit_all("main changes the library");
    agent.write("src/lib.rs", "pub fn ours() {}\n");
    let conflict = agent.commit("the agent too");
    repo.git(["branch", "--quiet", "link", &link]);
    same(&[&link, &conflict], "reject");
}
