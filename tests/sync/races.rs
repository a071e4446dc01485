use super::{
    Hub, OLD_SERVER, REFS, agent, asks, branch_of, claims, json, names, row, spawn, state, tip,
};
use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

/// Starts a command in every clone, and lets them all begin at one moment: each reads its first byte from a pipe.
fn all_at_once(hub: &Hub, words: &str) -> Vec<i32> {
    let program = env!("CARGO_BIN_EXE_git-agent");
    let line = format!("read go; exec {program} {words}");
    let mut started: Vec<Child> = hub
        .clones
        .iter()
        .map(|clone| {
            let mut command = crate::support::isolated("sh", clone);
            command.args(["-c", &line]).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("starts")
        })
        .collect();
    // A pipe that is closed ends the waiting.
    started.iter_mut().for_each(|child| drop(child.stdin.take()));
    let ended = started.iter_mut().map(|child| child.wait().expect("ends"));
    ended.map(|status| status.code().unwrap_or(-1)).collect()
}

#[test]
fn thirty_two_clones_at_once_lose_no_row_and_have_one_winner_and_equal_refs() {
    let hub = Hub::new(32);
    hub.send_all();
    let task = claims::task(&hub);
    // The one agent of the task that all of them claim has no name.
    let mut expected = vec!["-".to_owned()];
    for (number, clone) in hub.clones.iter().enumerate() {
        let name = format!("agent-{number:02}");
        row(clone, &name);
        expected.push(name);
    }
    let send = ["send", "--type=notify", "--to=bob", "--payload=message=x"];
    json(&hub.clones[7], &send);
    json(&hub.clones[7], &["receive", "--agent=bob"]);
    let ended = all_at_once(&hub, &format!("spawn {task} --claim=task-1 --sync=origin"));
    let ended_with = |code| ended.iter().filter(|status| **status == code).count();
    assert_eq!([ended_with(0), ended_with(3)], [1, 31], "{ended:?}");
    let ended = all_at_once(&hub, "sync");
    assert!(ended.iter().all(|status| *status == 0), "{ended:?}");
    // Every row is on the remote now, in the shared ref or in an outbox: one clone that knows nothing gets them all.
    let reader = &hub.clones[0];
    json(reader, &["sync"]);
    assert_eq!(names(reader), expected);
    for clone in &hub.clones {
        let output = agent(clone, &["sync"]);
        assert!(output.status.success(), "{}", describe(&output));
        hub.assert_equal(clone);
    }
    assert!(REFS.iter().all(|name| !hub.remote_tip(name).is_empty()));
    assert_eq!(hub.outboxes(), Vec::<String>::new());
}

#[test]
fn a_clone_that_is_overtaken_uses_its_outbox_and_waits_for_no_other() {
    let hub = Hub::new(3);
    let [one, two, three] = [0, 1, 2].map(|n| hub.clones[n].clone());
    row(&one, "a");
    row(&two, "b");
    json(&two, &["sync"]);
    let overtaking = tip(&two, "refs/notes/agents");
    git_in(&hub.bare, ["update-ref", "-d", "refs/notes/agents"]);
    // Just before the shared ref of the first clone would move, that of the second is there.
    hub.hook(
        "update",
        &format!("test $1 != refs/notes/agents || git update-ref refs/notes/agents {overtaking}"),
    );
    // A clone that is new expects others like it, and pushes ledger and outbox together.
    assert_eq!(asks(&one), [2, 0, 1]);
    assert_eq!(hub.outboxes().len(), 1);
    assert_ne!(hub.remote_tip(&hub.outboxes()[0]), overtaking);
    hub.hook("update", "exit 0");
    // Any other clone takes the outbox over and deletes it.
    let report = json(&three, &["sync"]);
    assert_eq!(state(&report, "refs/notes/agents"), "pushed", "{report:#}");
    assert_eq!(names(&three), ["a", "b"]);
    assert_eq!(hub.outboxes(), Vec::<String>::new());
    json(&one, &["sync"]);
    assert_eq!(names(&one), ["a", "b"]);
    let copies = git_in(&three, ["for-each-ref", "refs/agents/remote/origin/from"]);
    json(&three, &["sync"]);
    let left = git_in(&three, ["for-each-ref", "refs/agents/remote/origin/from"]);
    assert!(left.is_empty(), "{copies} then {left}");
}

#[test]
fn a_clone_that_is_overtaken_everywhere_ends_with_5_in_time() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    // A lock that another process holds looks like a race for ever.
    for place in ["refs/notes", "refs/agents/from"] {
        std::fs::create_dir_all(hub.bare.join(place)).expect("made");
    }
    std::fs::write(hub.bare.join("refs/notes/agents.lock"), "").expect("written");
    json_fails_busy(clone, &hub);
    std::fs::remove_file(hub.bare.join("refs/notes/agents.lock")).expect("removed");
    json(clone, &["sync"]);
}

#[test]
fn an_outbox_that_another_clone_has_replaced_is_taken_back() {
    let hub = Hub::new(1);
    hub.send_all();
    let clone = &hub.clones[0];
    row(clone, "a");
    json(clone, &["sync"]);
    row(clone, "b");
    let name = std::fs::read_to_string(clone.join(".git/agents/clone-id")).expect("a name");
    let outbox = format!("refs/agents/from/{}/ledger", name.trim());
    let main = hub.remote_tip("refs/heads/main");
    git_in(&hub.bare, ["update-ref", &outbox, &main]);
    let lock = hub.bare.join("refs/notes/agents.lock");
    std::fs::write(&lock, "").expect("written");
    let report = json(clone, &["sync"]);
    assert!(report["warnings"].to_string().contains(&outbox), "{report:#}");
    assert_eq!(state(&report, "refs/notes/agents"), "outbox", "{report:#}");
    assert_eq!(hub.remote_tip(&outbox), tip(clone, "refs/notes/agents"));
    std::fs::remove_file(lock).expect("removed");
    json(clone, &["sync"]);
    hub.assert_equal(clone);
    assert_eq!(hub.outboxes(), Vec::<String>::new());
}

/// The outbox is taken away as soon as it is there, so that it proves nothing.
fn json_fails_busy(clone: &std::path::Path, hub: &Hub) {
    hub.hook(
        "post-receive",
        "git for-each-ref --format='delete %(refname)' refs/agents/from | git update-ref --stdin",
    );
    let mut command = agent_command(clone);
    let output = command.args(["sync", "--timeout=2s"]).output();
    let output = output.expect("starts");
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    std::fs::remove_file(hub.bare.join("hooks/post-receive")).expect("removed");
}

#[test]
fn an_outbox_that_vanishes_between_list_and_fetch_is_a_race() {
    let (hub, [one, two]) = Hub::synchronised();
    // The remote has news in the shared ref and in an outbox, which goes as soon as the first clone asks for it.
    row(&two, "b");
    json(&two, &["sync"]);
    let outbox = "refs/agents/from/0123456789abcdef/ledger";
    git_in(&hub.bare, ["update-ref", outbox, "refs/notes/agents"]);
    git_in(&hub.bare, ["update-ref", "refs/notes/agents", "refs/notes/agents~1"]);
    row(&two, "c");
    json(&two, &["sync"]);
    git_in(&hub.bare, ["update-ref", outbox, "refs/notes/agents"]);
    let place = hub.bare.parent().expect("a directory");
    let script = place.join("upload-pack");
    // Listing is the first call, fetching the second.
    let text = format!(
        "#!/bin/sh\necho x >>{0}/calls\n\
         test $(wc -l <{0}/calls) != 2 || git --git-dir={1} update-ref -d {outbox}\n\
         exec git-upload-pack \"$@\"\n",
        place.display(),
        hub.bare.display()
    );
    std::fs::write(&script, text).expect("written");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let words = ["config", "remote.origin.uploadpack", script.to_str().expect("UTF-8")];
    git_in(&one, words);
    let report = json(&one, &["sync"]);
    assert_eq!(report["warnings"], serde_json::json!([]), "{report:#}");
    assert_eq!(names(&one), ["a", "b", "c"]);
    assert_eq!(hub.outboxes(), Vec::<String>::new());
    let calls = std::fs::read_to_string(place.join("calls")).expect("calls");
    assert!(calls.lines().count() > 3, "the race did not happen");
}

#[test]
fn a_branch_that_vanishes_between_list_and_fetch_is_told_of_and_keeps_no_other_away() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let [gone, stays] = [(); 2].map(|()| branch_of(&spawn(&one, &[])));
    json(&one, &["sync"]);
    // The first fetch is of the ledger.
    let deletes = format!("test $(wc -l <../bin/calls) = 1 || git update-ref -d {gone}");
    let output = sync_around_fetches(&hub, &two, 1000, [&deletes, ""]);
    let said = describe(&output);
    assert!(output.status.success() && said.contains(&gone) && !said.contains(&stays), "{said}");
    let copy = |branch: &str| tip(&two, &branch.replace("refs/heads", "refs/remotes/origin"));
    assert_eq!((copy(&gone), copy(&stays)), (String::new(), tip(&one, &stays)), "{said}");
}

/// Two clones, and an outbox on their remote with a row, `b`, that the first clone does not have; gives the commit of the outbox.
fn with_news_in_an_outbox() -> (Hub, [PathBuf; 2], String) {
    let (hub, [one, two]) = Hub::synchronised();
    row(&two, "b");
    let push = format!("refs/notes/agents:{OUTBOX}");
    git_in(&two, ["push", "--quiet", "origin", &push]);
    let commit = hub.remote_tip(OUTBOX);
    (hub, [one, two], commit)
}

const OUTBOX: &str = "refs/agents/from/0123456789abcdef/ledger";

/// `git agent sync` with a git that runs `before` and `after`, in the repository of the remote, around each of the first `times` fetches.
fn sync_around_fetches(
    hub: &Hub,
    clone: &Path,
    times: usize,
    [before, after]: [&str; 2],
) -> Output {
    let place = hub.bare.with_file_name("bin");
    std::fs::create_dir_all(&place).expect("made");
    let script = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\n\
         case \" $* \" in *\" fetch \"*) ;; *) exec git \"$@\" ;; esac\n\
         echo x >>{0}/calls\n\
         test $(wc -l <{0}/calls) -le {times} || exec git \"$@\"\n\
         in_remote() {{ (cd {1} && unset GIT_DIR GIT_WORK_TREE && eval \"$1\") </dev/null; }}\n\
         in_remote '{before}'\ngit \"$@\"\nstatus=$?\nin_remote '{after}'\nexit $status\n",
        place.display(),
        hub.bare.display()
    );
    std::fs::write(place.join("git"), script).expect("written");
    use std::os::unix::fs::PermissionsExt;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.join("git"), executable).expect("executable");
    let mut command = agent_command(clone);
    let path = std::env::var("PATH").expect("a search path");
    command.env("PATH", format!("{}:{path}", place.display()));
    let output = command.arg("sync").output().expect("starts");
    let calls = std::fs::read_to_string(place.join("calls")).expect("calls");
    assert!(calls.lines().count() > 2, "{}", describe(&output));
    output
}

#[test]
fn an_outbox_that_comes_back_at_the_same_commit_after_each_fetch_is_a_race() {
    // The newer protocol gives the commit without its ref. By the older one it can be had as soon as a fetch finds the ref.
    for (server, times) in [("git-upload-pack", 1000), (OLD_SERVER, 8)] {
        let (hub, [one, _], commit) = with_news_in_an_outbox();
        git_in(&one, ["config", "remote.origin.uploadpack", server]);
        let deletes = format!("git update-ref -d {OUTBOX}");
        let puts_back = format!("git update-ref {OUTBOX} {commit}");
        let output = sync_around_fetches(&hub, &one, times, [&deletes, &puts_back]);
        let said = describe(&output);
        assert!(output.status.success(), "{server}: {said}");
        assert_eq!(names(&one), ["a", "b"]);
        assert_eq!(hub.outboxes(), Vec::<String>::new());
    }
}

#[test]
fn a_commit_that_the_remote_lacks_for_two_attempts_is_no_damage() {
    let (hub, [one, _], commit) = with_news_in_an_outbox();
    let object = format!("objects/{}/{}", &commit[..2], &commit[2..]);
    let [lacks, has] = [format!("mv {object} missing"), format!("mv missing {object}")];
    // One fetch of all refs, then two attempts of two each: by the name of the ref, and by the commit.
    let output = sync_around_fetches(&hub, &one, 5, [&lacks, &has]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(names(&one), ["a", "b"]);
}

#[test]
fn clones_that_synchronise_again_and_again_have_no_wrong_answer() {
    let hub = Hub::new(6);
    let program = env!("CARGO_BIN_EXE_git-agent");
    let wrong = hub.bare.with_file_name("wrong");
    let line = format!(
        "read go; for n in 1 2 3 4; do {program} send --type=notify --to=bob --payload=message=$n >/dev/null; \
         {program} spawn -m 'Read the library and say what is missing.' --role=read-only --scope='src/**' >/dev/null; \
         {program} sync 2>error >/dev/null || cat error >>{0}; done",
        wrong.display()
    );
    hub.send_all();
    let mut started: Vec<Child> = hub
        .clones
        .iter()
        .map(|clone| {
            let mut command = crate::support::isolated("sh", clone);
            command.args(["-c", &line]).stdin(Stdio::piped());
            command.stderr(Stdio::null()).spawn().expect("starts")
        })
        .collect();
    started.iter_mut().for_each(|child| drop(child.stdin.take()));
    started.iter_mut().for_each(|child| assert!(child.wait().expect("ends").success()));
    let wrong = std::fs::read_to_string(wrong).unwrap_or_default();
    assert_eq!(wrong, "");
    let reader = &hub.clones[0];
    json(reader, &["sync"]);
    assert_eq!(names(reader).len(), 6 * 4);
    hub.assert_equal(reader);
}

/// A hook by which another clone is at that ref, with a commit on top, before the push that moved it has ended.
fn build_on_top(hub: &Hub, refname: &str) {
    let commit = format!(
        "git -c user.name=E -c user.email=e commit-tree -p {refname} -m top '{refname}^{{tree}}'"
    );
    let script = format!(
        "while read -r old new name; do
  test $name = {refname} || continue
  test -e once || {{ touch once; git update-ref {refname} $({commit}); }}
done"
    );
    hub.hook("post-receive", &script);
}

#[test]
fn a_landing_on_which_another_clone_builds_at_once_has_landed() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let spawned = spawn(clone, &["--no-bundle"]);
    let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/two.rs"), "pub fn two() {}\n").expect("written");
    let id = spawned["agent_id"].as_str().expect("an id");
    build_on_top(&hub, "refs/heads/main");
    let report = json(clone, &["merge", id, "--push=origin"]);
    assert_eq!(report["outcome"], "merged", "{report:#}");
    assert_eq!(report["commit"], tip(&hub.bare, "main^").as_str());
    assert_eq!(json(clone, &["show", id])["state"], "merged");
}

#[test]
fn what_another_clone_pushes_meanwhile_is_named_by_no_ref_of_this_one() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    build_on_top(&hub, "refs/notes/agents");
    json(clone, &["sync"]);
    let theirs = hub.remote_tip("refs/notes/agents");
    assert_ne!(tip(clone, "refs/notes/agents"), theirs);
    assert_eq!(git_in(clone, ["fsck", "--no-progress", "--no-dangling"]), "");
    json(clone, &["sync"]);
    let [here, there] = [tip(clone, "refs/notes/agents"), hub.remote_tip("refs/notes/agents")];
    assert_eq!(here, there);
}
