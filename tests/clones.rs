//! Agents whose worktree is a repository of its own: a whole life, and what an agent can do to its clone.

/// Objects that stand for more than a machine has.
mod bombs;

use crate::sandbox::level;
use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::support::death;
use crate::support::{TestRepo, git_in, git_output, isolated};
use crate::verify::{Agent, refused};
use git_agent::ops::discard;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A task that lands without a bundle.
fn task() -> String {
    format!("{TASK}[bundle]\nrequired = false\n")
}

/// An agent with a clone.
fn cloned() -> Agent {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(&task(), &["--isolation=clone"]);
    assert_eq!(report["isolation"], "clone");
    Agent::told_of(repo, &report)
}

impl Agent {
    /// The repository of its clone.
    fn own_repository(&self) -> PathBuf {
        self.worktree.join(".git")
    }

    /// Its branch, in the repository that it was spawned in.
    fn known_tip(&self) -> String {
        self.repo.git(["rev-parse", &self.branch])
    }

    /// Whether a commit is kept for good.
    fn keeps(&self, commit: &str) -> bool {
        let kept = self.repo.git(["rev-list", "refs/agents/keep"]);
        kept.lines().any(|line| line == commit)
    }

    /// Discards it, and gives the commit that a name has in the repository that is kept then.
    fn discard_unread(&self, name: &str) -> String {
        let report = self.repo.agent_json(&["discard", &self.id]);
        let warnings = report["warnings"].to_string();
        let (_, kept) = warnings.split_once("is kept in ").expect("a place");
        let kept = kept.split('"').next().expect("a path");
        self.repo.git(["--git-dir", kept, "rev-parse", name])
    }

    fn verdict(&self) -> Value {
        let output = self.repo.agent(&["verify", &self.id, "--format=json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)))
    }
}

#[test]
fn a_clone_needs_nothing_of_the_repository_that_it_was_made_from() {
    let agent = cloned();
    let own = agent.own_repository();
    assert!(own.is_dir());
    assert!(!own.join("objects/info/alternates").exists());
    assert_eq!(git_in(&agent.worktree, ["status", "--porcelain"]), "");
    // It works as well at a place where the repository cannot be seen, as in a container.
    let alone = agent.repo.path().with_file_name("alone");
    fs::rename(&agent.worktree, &alone).expect("moved");
    fs::rename(agent.repo.path(), agent.repo.path().with_file_name("away")).expect("moved");
    assert_eq!(git_in(&alone, ["fsck", "--strict", "--no-dangling"]), "");
    fs::write(alone.join("src/lib.rs"), "pub fn two() {}\n").expect("written");
    let check = |directory: &Path| {
        let mut command = agent_command(directory);
        command.args(["check", "--worktree", "--format=json"]);
        command.output().expect("starts")
    };
    assert!(check(&alone).status.success(), "{}", describe(&check(&alone)));
    git_in(&alone, ["commit", "--quiet", "-a", "-m", "Work"]);
    let message = git_in(&alone, ["log", "-1", "--format=%B"]);
    assert!(message.contains(&format!("Agent-Id: {}", agent.id)), "{message}");
    // Its hooks know its scope.
    fs::write(alone.join("README.md"), "mine\n").expect("written");
    assert_eq!(check(&alone).status.code(), Some(1));
    let refused = git_output(&alone, ["commit", "-a", "-m", "Out of scope"]);
    assert!(!refused.status.success());
    assert!(describe(&refused).contains("README.md"), "{}", describe(&refused));
}

#[test]
fn work_in_a_clone_is_judged_and_lands_as_any_other() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let tip = agent.commit("Work");
    agent.write("src/more.rs", "pub fn three() {}\n");
    agent.git(&["add", "src/more.rs"]);
    // From the outside and from the inside, it is the same agent with the same work.
    for place in [agent.repo.path(), agent.worktree.clone()] {
        let mut show = agent_command(&place);
        show.args(["show", &agent.id, "--format=json"]);
        let shown = json_of(show);
        assert_eq!(shown["isolation"], "clone");
        assert_eq!(shown["tip"], tip.as_str(), "from {}", place.display());
        assert_eq!(shown["uncommitted"], 1, "from {}", place.display());
    }
    assert_eq!(agent.known_tip(), tip);
    assert_eq!(agent.verdict()["verdict"], "accept");
    agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(agent.repo.git(["show", "HEAD:src/more.rs"]), "pub fn three() {}");
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    let log = agent.repo.agent_json(&["log", &agent.id]);
    assert!(log.to_string().contains("merged"), "{log}");
    let gone = agent.repo.agent_json(&["gc", "--yes"]);
    assert!(!agent.worktree.exists(), "{gone}");
    assert!(
        !agent
            .repo
            .path()
            .join(".git/agents/clones")
            .join(format!("agent-{}", &agent.id[..8]))
            .exists()
    );
    assert_eq!(agent.repo.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn a_clone_that_conflicts_is_brought_up_to_date_as_the_hint_says() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn ours() {}\n");
    agent.commit("Work");
    agent.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    agent.repo.commit_all("others");
    assert_eq!(agent.codes(), ["merge.conflict"]);
    let advice = |options: &[&str]| {
        let output = agent.repo.agent(&[&["update", &agent.id], options].concat());
        refused(&output, "agent-state", 3);
        let error = String::from_utf8_lossy(&output.stderr);
        error.trim().split_once(", run ").expect("a command").1.to_owned()
    };
    let hinted = advice(&[]);
    assert_eq!([advice(&["--conflicts"]), advice(&["-n"])], [hinted.clone(), hinted.clone()]);
    let pulled = isolated("sh", &agent.repo.path()).args(["-c", &hinted]).output();
    assert_eq!(pulled.expect("starts").status.code(), Some(1), "{hinted}");
    agent.write("src/lib.rs", "pub fn ours() {}\npub fn theirs() {}\n");
    agent.commit("Both");
    agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(agent.repo.git(["show", "main:src/lib.rs"]), "pub fn ours() {}\npub fn theirs() {}");
}

#[test]
fn a_clone_goes_on_after_each_landing_from_where_it_is() {
    let agent = cloned();
    let file = agent.worktree.join("src/new.txt");
    let mut expected = String::new();
    for (way, how) in [("--no-ff", "left"), ("--no-ff", "committed"), ("--squash", "left")] {
        let text = format!("{how} {way}");
        expected.push_str(&format!("{text}\n"));
        let commit = match how {
            "committed" => "git add --all && git commit --quiet -m work",
            _ => "true",
        };
        let words = format!("echo '{text}' >> src/new.txt && {commit}");
        let ran = agent.repo.agent(&["run", &agent.id, "--", "sh", "-c", &words]);
        assert!(ran.status.success(), "{}", describe(&ran));
        let planned = agent.repo.agent_json(&["merge", &agent.id, "-n", way]);
        assert_eq!(planned["outcome"], "planned");
        let landed = agent.repo.agent_json(&["merge", &agent.id, way]);
        assert_eq!(landed["outcome"], "merged", "{landed}");
        let main = agent.repo.git(["show", "main:src/new.txt"]);
        assert_eq!(format!("{main}\n"), expected, "{way} {how}");
        assert_eq!(fs::read_to_string(&file).expect("read"), expected);
    }
}

#[test]
fn what_landed_of_a_clone_is_no_work_of_it_any_more() {
    for way in ["--no-ff", "--squash"] {
        let agent = cloned();
        let seen = || {
            let shown = agent.repo.agent_json(&["show", &agent.id]);
            let swept = agent.repo.agent_json(&["gc"]);
            (
                shown["state"].clone(),
                shown["uncommitted"].clone(),
                swept["agents"][0]["action"].clone(),
            )
        };
        agent.write("src/more.rs", "pub fn three() {}\n");
        agent.repo.agent_json(&["merge", &agent.id, way]);
        assert_eq!(seen(), ("merged".into(), 0.into(), "remove".into()), "{way}");
        assert_eq!(agent.repo.agent_json(&["list"])["agents"], serde_json::json!([]));
        agent.write("src/again.rs", "pub fn four() {}\n");
        assert_eq!(seen(), ("idle".into(), 2.into(), "keep".into()), "{way}");
        agent.repo.agent_json(&["merge", &agent.id, way]);
        assert_eq!(seen(), ("merged".into(), 0.into(), "remove".into()), "{way}");
    }
}

#[test]
fn a_command_in_the_sandbox_writes_its_clone_and_nothing_of_the_repository() {
    if level().is_none() {
        return;
    }
    let agent = cloned();
    let repository = agent.repo.path();
    let script = format!(
        "echo '// x' >>src/lib.rs; git commit -qam Work; git tag mine; touch {0}/.git/evil {0}/.git/objects/evil; true",
        repository.display()
    );
    for mode in ["require", "strict"] {
        let sandbox = format!("--sandbox={mode}");
        let mut run = agent_command(&repository);
        run.args(["run", &agent.id, "--format=json", &sandbox, "--", "sh", "-c", &script]);
        let report = json_of(run);
        assert_eq!(report["verify"]["verdict"], "accept", "{mode}: {report}");
        assert_eq!(agent.known_tip(), agent.git(&["rev-parse", "HEAD"]), "{mode}");
        assert!(!repository.join(".git/evil").exists(), "{mode}");
        assert!(!repository.join(".git/objects/evil").exists(), "{mode}");
    }
    let tags = agent.repo.git(["tag"]);
    assert_eq!(tags, "", "refs of a clone stay there");
}

#[test]
fn work_out_of_scope_in_a_clone_is_rejected_whatever_its_hooks_say() {
    let agent = cloned();
    agent.write("README.md", "mine\n");
    agent.commit("Out of scope");
    let verdict = agent.verdict();
    assert_eq!(verdict["verdict"], "reject", "{verdict}");
    assert!(verdict.to_string().contains("scope.not-in-whitelist"));
}

#[test]
fn what_was_rewritten_stashed_or_packed_in_a_clone_comes_along() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    agent.commit("Work");
    agent.repo.agent_json(&["list"]);
    agent.git(&["commit", "--quiet", "--no-verify", "--amend", "-m", "Better"]);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    agent.write("src/stashed.rs", "pub fn stashed() {}\n");
    agent.git(&["stash", "--quiet", "--include-untracked"]);
    let stash = agent.git(&["rev-parse", "refs/stash"]);
    agent.git(&["gc", "--quiet", "--prune=now"]);
    agent.repo.agent_json(&["list"]);
    assert_eq!(agent.known_tip(), tip);
    assert!(agent.keeps(&stash));
    assert_eq!(agent.verdict()["verdict"], "accept");
    assert_eq!(agent.repo.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn whatever_a_kill_leaves_a_discard_of_a_clone_loses_nothing() {
    for step in discard::STEPS {
        let agent = cloned();
        agent.write("src/lib.rs", "pub fn two() {}\n");
        let tip = agent.commit("Work");
        agent.write("src/loose.rs", "pub fn loose() {}\n");
        death::die_at("removal::kill::child", &agent.repo.path(), step, &[&agent.id]);
        agent.repo.agent_json(&["discard", &agent.id]);
        assert!(!agent.worktree.exists(), "after {step}");
        assert!(agent.keeps(&tip), "after {step}");
        let to = agent.repo.path().with_file_name("rescued");
        agent.repo.agent_json(&["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")]);
        let loose = fs::read_to_string(to.join("src/loose.rs"));
        assert_eq!(loose.expect("kept"), "pub fn loose() {}\n", "after {step}");
        let records = fs::read_dir(agent.repo.path().join(".git/agents/clones"));
        assert_eq!(records.expect("there").count(), 0, "after {step}");
    }
}

#[test]
fn what_is_committed_in_a_clone_while_it_is_discarded_is_kept_too() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let ctx = death::ctx(&agent.repo.path(), std::sync::Arc::new(|_| ()));
    let options = discard::DiscardOptions::default();
    let plan = discard::plan(&ctx, &agent.id, options).expect("a plan");
    agent.commit("Meanwhile");
    // It is refused, and everything is where it was; the next one finds the commit.
    discard::execute(&ctx, plan).expect_err("it moved");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    agent.repo.agent_json(&["discard", &agent.id]);
    assert!(agent.keeps(&tip));
}

#[test]
fn a_clone_with_damaged_objects_is_rejected_and_kept_as_it_is() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let tip = agent.commit("Work");
    let blob = agent.git(&["rev-parse", "HEAD:src/lib.rs"]);
    // Its content is nowhere else.
    agent.write("src/lib.rs", "pub fn three() {}\n");
    let object = agent.own_repository().join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(object).expect("removed");
    let before = agent.known_tip();
    let output = agent.repo.agent(&["verify", &agent.id]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(describe(&output).contains("work.unreadable"));
    assert_eq!(agent.known_tip(), before);
    // The others are not disturbed, and it can be removed.
    let other = agent.repo.spawn_task(&task(), &[]);
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"].as_array().expect("rows").len(), 2, "{other}");
    assert_eq!(agent.discard_unread("HEAD"), tip);
}

/// What its branch holds is taken in, and the rest of it cannot be.
#[test]
fn a_clone_with_a_damaged_object_keeps_its_stash_when_it_goes() {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let tip = agent.commit("Work");
    agent.write("src/lib.rs", "pub fn three() {}\n");
    agent.git(&["stash", "--quiet"]);
    let stash = agent.git(&["rev-parse", "stash"]);
    agent.write("src/odd", "no commit");
    agent.git(&["hash-object", "-w", "-t", "commit", "--literally", "src/odd"]);
    agent.repo.agent_json(&["list"]);
    assert_eq!(agent.known_tip(), tip);
    assert_eq!(agent.discard_unread("stash"), stash);
}

/// Does something to the repository of a clone, and makes sure that no command follows it, waits or loses the agent's files.
fn with_hostile(name: &str, plant: impl FnOnce(&Agent)) -> Agent {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let before = agent.known_tip();
    plant(&agent);
    for words in [&["list"][..], &["show", &agent.id], &["diff", &agent.id], &["doctor"]] {
        let output = agent.repo.agent(words);
        let said = describe(&output);
        assert!(
            !said.contains("bug") && output.status.code() != Some(101),
            "{name}: {words:?}: {said}"
        );
    }
    assert_eq!(agent.known_tip(), before, "{name}");
    agent
}

#[test]
fn nothing_that_a_clone_leads_to_is_followed() {
    let secret = |agent: &Agent| {
        let other = agent.repo.path().with_file_name("secret");
        fs::create_dir(&other).expect("made");
        git_in(&other, ["init", "--quiet"]);
        fs::write(other.join("src.rs"), "secret\n").expect("written");
        git_in(&other, ["add", "."]);
        git_in(&other, ["commit", "--quiet", "-m", "secret"]);
        let commit = git_in(&other, ["rev-parse", "HEAD"]);
        let reference = agent
            .own_repository()
            .join("refs/heads")
            .join(agent.branch.trim_start_matches("refs/heads/"));
        (other, commit, reference)
    };
    // Objects of another repository by an alternate, or by a link in the place of the objects.
    for way in ["alternate", "link"] {
        let agent = with_hostile(way, |agent| {
            let (other, commit, reference) = secret(agent);
            fs::write(reference, format!("{commit}\n")).expect("written");
            let (objects, own) =
                (other.join(".git/objects"), agent.own_repository().join("objects"));
            if way == "link" {
                fs::rename(&own, own.with_extension("old")).expect("moved");
                symlink(objects, own).expect("linked");
            } else {
                fs::write(own.join("info/alternates"), format!("{}\n", objects.display()))
                    .expect("written");
            }
        });
        let secret = agent.repo.path().with_file_name("secret");
        let commit = git_in(&secret, ["rev-parse", "HEAD"]);
        let had = git_output(&agent.repo.path(), ["cat-file", "-e", &commit]);
        assert!(!had.status.success(), "{way}: the objects of another repository were taken in");
        agent.repo.agent_json(&["discard", &agent.id]);
    }
    // A link to another repository, or a file, in the place of the whole.
    for way in ["link", "file", "nothing"] {
        let agent = with_hostile(way, |agent| {
            let own = agent.own_repository();
            fs::rename(&own, agent.repo.path().with_file_name("own.git")).expect("moved");
            let other = agent.repo.path().with_file_name("own.git");
            match way {
                "link" => symlink(other, own).expect("linked"),
                "file" => {
                    fs::write(own, format!("gitdir: {}\n", other.display())).expect("written")
                }
                _ => {}
            }
        });
        let output = agent.repo.agent(&["verify", &agent.id]);
        assert_eq!(output.status.code(), Some(1), "{way}: {}", describe(&output));
    }
}

#[test]
fn a_clone_that_denies_whose_it_is_is_refused_and_runs_nothing() {
    let agent = cloned();
    let own = agent.own_repository();
    let marker = agent.repo.path().with_file_name("marker");
    let planted = format!("touch {} #", marker.display());
    agent.git(&["config", "core.fsmonitor", &planted]);
    let other = agent.repo.spawn_task(&task(), &[]);
    let id = other["short_id"].as_str().expect("an id");
    let elsewhere = agent.repo.path().join(format!(".git/worktrees/agent-{id}"));
    let pointers = [format!("gitdir: {}\n", elsewhere.display()), "nothing".to_owned()];
    for pointer in pointers {
        fs::write(own.join("agents/worktree"), pointer).expect("written");
        for words in [&["list"][..], &["check", "--worktree"], &["verify", &agent.id]] {
            let mut command = agent_command(&agent.worktree);
            let output = command.args(words).output().expect("starts");
            let said = describe(&output);
            assert_eq!(output.status.code(), Some(4), "{words:?}: {said}");
            assert!(said.contains("does not lead to its repository"), "{said}");
        }
        assert!(!marker.exists(), "a program that the clone names ran");
        let verdict = agent.verdict();
        assert_eq!(verdict["verdict"], "reject", "{verdict}");
    }
}

#[test]
fn an_agent_that_shares_the_directory_gets_no_clone() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(crate::support::agent::SHARED_TASK);
    let output = repo.agent(&["spawn", &task, "--isolation=clone"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
}

/// A command of ours in the clone itself, as in a container: the repository cannot be seen.
fn within(agent: &Agent, words: &[&str]) -> (Option<i32>, String) {
    let (repository, away) = (agent.repo.path(), agent.repo.path().with_file_name("away"));
    fs::rename(&repository, &away).expect("moved");
    let place = away.join(agent.worktree.strip_prefix(&repository).expect("below"));
    let mut command = agent_command(&place);
    let output = command.args(words).output().expect("starts");
    fs::rename(&away, &repository).expect("moved back");
    (output.status.code(), describe(&output))
}

#[test]
fn messages_reach_an_agent_in_its_clone_and_what_it_says_there_is_sent() {
    let agent = cloned();
    let repo = &agent.repo;
    let send = |text: &str| repo.agent_json(&["send", "--to", &agent.id, text]);
    send("the first");
    let (code, said) = within(&agent, &["receive"]);
    assert!(code == Some(0) && said.contains("the first"), "{said}");
    // What it was handed is done with on both sides, and what comes later reaches it as well.
    assert_eq!(within(&agent, &["receive"]).0, Some(1));
    assert_eq!(repo.agent_json(&["inbox", "--agent", &agent.id])["count"], 0);
    send("the second");
    let (_, said) = within(&agent, &["receive", "--format=json"]);
    assert!(said.contains("the second") && !said.contains("the first"), "{said}");
    assert_eq!(within(&agent, &["receive"]).0, Some(1));
    // Its answer, and what it says of its work, are taken over by the next command that looks.
    let id = said.split("MSG-").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let id = format!("MSG-{id}");
    let (code, said) =
        within(&agent, &["send", "--to=user", "--type=notify", "--reply-to", &id, "understood"]);
    assert_eq!(code, Some(0), "{said}");
    fs::write(agent.worktree.join("src/lib.rs"), "pub fn two() {}\n").expect("written");
    git_in(&agent.worktree, ["commit", "-qam", "two"]);
    assert_eq!(within(&agent, &["mark", "done", "-m", "it is two"]).0, Some(0));
    let shown = repo.agent_json(&["show", &agent.id]);
    let inbox = repo.agent_json(&["inbox", "--agent=user"]);
    assert_eq!((&inbox["count"], &inbox["messages"][0]["reply_to"]), (&1.into(), &id.into()));
    assert!(inbox.to_string().contains("understood"), "{inbox:#}");
    assert_eq!(repo.agent_json(&["show", &agent.id])["state"], "done", "{shown:#}");
    assert_eq!(git_in(&agent.worktree, ["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(repo.fsck(), "");
}

#[test]
fn nothing_that_a_clone_leads_to_is_taken_for_its_messages() {
    let agent = cloned();
    let spool = agent.own_repository().join("agents/spool");
    let outside = agent.repo.path().with_file_name("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("letter.json"), "mine").expect("written");
    fs::remove_dir_all(&spool).expect("removed");
    fs::create_dir(&spool).expect("made");
    symlink(&outside, spool.join(&agent.id[..8])).expect("linked");
    agent.repo.agent_json(&["show", &agent.id]);
    agent.repo.agent_json(&["inbox"]);
    assert_eq!(fs::read_to_string(outside.join("letter.json")).expect("there"), "mine");
}

#[test]
fn a_run_receives_each_message_once_in_a_clone_as_in_a_worktree() {
    if level().is_none() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_git-agent");
    for isolation in ["clone", "worktree"] {
        let repo = TestRepo::with_commit();
        let isolation = format!("--isolation={isolation}");
        repo.spawn_task(&task(), &[&isolation, "--name=one"]);
        for (before, text) in [("", "go on"), ("env -u GIT_AGENT_SPOOL", "and on")] {
            repo.agent_json(&["send", "--to=one", text]);
            let script =
                format!("{before} {program} receive; {before} {program} receive || echo none");
            let run = ["run", "one", "--sandbox=require", "--no-verify", "--", "sh", "-c", &script];
            let output = repo.agent(&run);
            assert!(output.status.success(), "{}", describe(&output));
            let said = describe(&repo.agent(&["logs", "one"]));
            assert!(said.contains(text) && said.contains("none"), "{isolation} {before}: {said}");
            assert_eq!(repo.agent_json(&["inbox", "--agent=one"])["count"], 0, "{isolation}");
        }
    }
}

/// A submodule with a commit that no remote has, populated or not.
#[test]
fn what_only_the_submodule_of_a_clone_has_is_kept_and_given_back() {
    for populated in [true, false] {
        let repo = TestRepo::with_commit();
        let inner = repo.make_inner();
        let allow = ["-c", "protocol.file.allow=always"];
        let inner = inner.to_str().expect("UTF-8");
        repo.git([&allow[..], &["submodule", "--quiet", "add", inner, "src/part"]].concat());
        repo.commit_all("a submodule");
        let report = repo.spawn_task(&task(), &["--isolation=clone"]);
        let agent = Agent::told_of(repo, &report);
        let update = [&allow[..], &["submodule", "--quiet", "update", "--init"]].concat();
        agent.git(&update);
        let part = agent.worktree.join("src/part");
        fs::write(part.join("own"), "of the submodule\n").expect("written");
        git_in(&part, ["add", "own"]);
        git_in(&part, ["commit", "--quiet", "-m", "own"]);
        let commit = git_in(&part, ["rev-parse", "HEAD"]);
        agent.commit("lead to it");
        if !populated {
            agent.git(&["submodule", "--quiet", "deinit", "--force", "src/part"]);
        }
        let discarded = agent.repo.agent_json(&["discard", &agent.id]);
        let said = discarded["warnings"].to_string();
        let (_, kept) = said.split_once("their repositories are kept in ").expect("a place");
        let (kept, _) = kept.split_once(',').expect("a path");
        let modules = Path::new(kept).join("src/part");
        let blob = format!("{commit}:own");
        let git_dir = modules.to_str().expect("UTF-8");
        let own = agent.repo.git(["--git-dir", git_dir, "--work-tree=.", "cat-file", "-p", &blob]);
        assert_eq!(own, "of the submodule", "{populated}");
        agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
        agent.git(&update);
        assert_eq!(fs::read(part.join("own")).expect("back"), b"of the submodule\n");
    }
}

/// A worktree that git made of the clone's repository, with what is staged in it.
#[test]
fn a_clone_with_a_worktree_of_its_own_stays_until_that_is_gone() {
    let agent = cloned();
    let beside = agent.repo.path().with_file_name("beside");
    let place = beside.to_str().expect("UTF-8");
    agent.git(&["worktree", "add", "--quiet", "--detach", place]);
    let refused = agent.repo.agent(&["discard", &agent.id]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    assert!(describe(&refused).contains("has a worktree of its own, beside"));
    assert_eq!(git_in(&beside, ["status", "--porcelain"]), "");
    agent.git(&["worktree", "remove", place]);
    agent.repo.agent_json(&["discard", &agent.id]);
}

#[test]
fn a_clone_that_moved_with_its_repository_is_found_again() {
    [false, true].into_iter().for_each(a_clone_that_moved);
}

/// It moves with commits that are not on its branch, or without.
fn a_clone_that_moved(is_changed: bool) {
    let agent = cloned();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let tip = agent.commit("Work");
    agent.write("src/more.rs", "pub fn three() {}\n");
    agent.verdict();
    let tip = if is_changed { agent.commit("What no command has taken over") } else { tip };
    let moved = agent.repo.path().with_file_name("moved");
    fs::rename(agent.repo.path(), &moved).expect("moved");
    let answer = |words: &[&str]| {
        let output = agent_command(&moved).args(words).output().expect("starts");
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let fixed = answer(&["doctor", "--fix"]);
    assert!(fixed.contains("git finds it again"), "{fixed}");
    assert!(!is_changed || fixed.contains("is not published"), "{fixed}");
    let place = moved.join(agent.worktree.strip_prefix(agent.repo.path()).expect("inside"));
    assert!(place.join(".git").is_dir());
    assert_eq!(git_in(&moved, ["rev-parse", &agent.branch]), tip);
    answer(&["verify", &agent.id]);
    answer(&["run", &agent.id, "--", "git", "commit", "--quiet", "--allow-empty", "-m", "more"]);
    answer(&["merge", &agent.id]);
    let landed = git_in(&moved, ["ls-tree", "-r", "--name-only", "main", "src/"]);
    assert!(landed.contains("src/more.rs"), "{landed}");
    answer(&["discard", &agent.id]);
}

#[test]
fn a_clone_that_was_deleted_comes_back_as_a_linked_worktree() {
    for words in [&["doctor", "--fix"][..], &["rescue", "--reopen"]] {
        let agent = cloned();
        agent.write("src/lib.rs", "pub fn two() {}\n");
        agent.commit("Work");
        agent.verdict();
        fs::remove_dir_all(&agent.worktree).expect("removed");
        let mut again = agent_command(&agent.repo.path());
        again.args(words);
        if words[0] == "rescue" {
            again.arg(&agent.id);
        }
        assert!(again.output().expect("starts").status.success());
        assert!(agent.own_repository().is_file());
        assert_eq!(agent.verdict()["verdict"], "accept");
        let commit = ["git", "commit", "--quiet", "--allow-empty", "-m", "more"];
        let ran = agent.repo.agent(&[&["run", &agent.id, "--"][..], &commit].concat());
        assert!(ran.status.success(), "{words:?}: {}", describe(&ran));
        assert_eq!(agent.repo.git(["log", "-1", "--format=%s", &agent.branch]), "more");
        let report = describe(&agent.repo.agent(&["doctor", "--format=json"]));
        assert!(!report.contains("runs.refused"), "{report}");
        agent.repo.agent_json(&["merge", &agent.id]);
    }
}
