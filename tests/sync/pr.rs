//! `pr`: pushed without force, offered by `gh`, or the page to open.

use super::{Hub, agent, json as agent_json, spawn, tip};
use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
use crate::verify::refused_json;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Records its words, one a line, and answers as `gh` does.
const GH: &str = r##"#!/bin/sh
here=$(dirname "$0")
{ echo "# $PWD"; printf '%s\n' "$@"; } >> "$here/log"
env | grep '^GIT_' >> "$here/env"
while [ $# -gt 0 ]; do
    case $1 in
        list) cat "$here/open" && ! [ -e "$here/broken" ] || { cat "$here/broken" >&2; exit 1; } ;;
        create) creating=yes ;;
        --head) shift; head=$1 ;;
        --body-file) shift; cp "$1" "$here/body" ;;
    esac
    shift
done
[ "$creating" ] || exit 0
printf '[{"number":7,"url":"https://github.com/a/b/pull/7","headRefName":"%s","isCrossRepository":false}]' "$head" > "$here/open"
echo https://github.com/a/b/pull/7
"##;

/// A clone whose remote has the URL of a forge, and a `gh` beside it.
struct Offer {
    hub: Hub,
    clone: PathBuf,
    gh: PathBuf,
}

impl Offer {
    fn new(url: &str) -> Offer {
        let hub = Hub::new(1);
        let clone = hub.clones[0].clone();
        let real = format!("file://{}", hub.bare.display());
        git_in(&clone, ["remote", "set-url", "origin", url]);
        let key = format!("url.{real}.insteadOf");
        git_in(&clone, ["config", &key, url]);
        let gh = clone.with_file_name("programs");
        plant(&gh);
        Offer { hub, clone, gh }
    }

    /// An agent with work that is committed; gives its id and its branch.
    fn ready(&self, words: &[&str], file: &str) -> (String, String) {
        let spawned = spawn(&self.clone, &[&["--no-bundle"], words].concat());
        let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        fs::write(worktree.join(file), "pub fn two() {}\n").expect("written");
        let id = spawned["agent_id"].as_str().expect("an id").to_owned();
        agent_json(&self.clone, &["commit", &id, "-m", "two"]);
        let branch = spawned["branch"].as_str().expect("a branch").to_owned();
        (id, branch)
    }

    /// `pr`, with `gh` on the path.
    fn pr(&self, words: &[&str]) -> Output {
        self.pr_with(&[&self.gh], words)
    }

    fn pr_with(&self, programs: &[&Path], words: &[&str]) -> Output {
        self.run(programs, &[&["pr", "--format=json"], words].concat())
    }

    /// git-agent, with these directories before those on the path.
    fn run(&self, programs: &[&Path], words: &[&str]) -> Output {
        let mut command = agent_command(&self.clone);
        let path = command.get_envs().find(|(name, _)| *name == "PATH");
        let path = path.and_then(|(_, value)| value).expect("PATH").to_owned();
        let programs = programs.iter().map(|place| place.to_path_buf());
        let path: Vec<PathBuf> = programs.chain(std::env::split_paths(&path)).collect();
        command
            .env("PATH", std::env::join_paths(path).expect("paths"))
            .args(words)
            .output()
            .expect("git-agent starts")
    }

    fn answer(&self, words: &[&str]) -> Value {
        let output = self.pr(words);
        assert!(output.status.success(), "{}", describe(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What `gh` was told since the last time.
    fn told(&self) -> String {
        let log = self.gh.join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        text.replace('\n', " ")
    }
}

fn plant(programs: &Path) {
    fs::create_dir_all(programs).expect("made");
    let gh = programs.join("gh");
    fs::write(&gh, GH).expect("written");
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).expect("set");
    fs::write(programs.join("open"), "[]\n").expect("written");
}

#[test]
fn the_branch_to_land_on_need_not_be_in_the_clone() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, _) = offer.ready(&[], "src/two.rs");
    git_in(&offer.clone, ["checkout", "--quiet", "--detach"]);
    git_in(&offer.clone, ["branch", "--quiet", "-D", "main"]);
    let done = offer.answer(&[&id]);
    assert_eq!(done["target"]["ref"], "refs/heads/main", "{done}");
    assert!(offer.told().contains("--base main "));
}

#[test]
fn accepted_work_is_pushed_and_offered_and_then_brought_up_to_date() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, branch) = offer.ready(&[], "src/two.rs");
    let full = format!("refs/heads/{branch}");
    let planned = offer.answer(&[&id, "--dry-run"]);
    assert_eq!(planned["outcome"], "planned");
    let page = format!("https://github.com/a/b/compare/main...{branch}?expand=1");
    assert_eq!(planned["url"], page);
    assert_eq!(offer.told(), "");
    assert!(!git_in(&offer.hub.bare, ["for-each-ref"]).contains(&full));

    let done = offer.answer(&[&id, "--draft"]);
    assert_eq!(done["outcome"], "created", "{done}");
    assert_eq!(done["url"], "https://github.com/a/b/pull/7");
    assert_eq!(offer.hub.remote_tip(&full), done["tip"]);
    let told = offer.told();
    assert!(!told.contains(&*offer.clone.to_string_lossy()), "{told}");
    let list = format!(
        "pr list --repo github.com/a/b --state open --limit 200 --head {branch} --json number,url"
    );
    assert!(told.contains(&list), "{told}");
    let create = format!("pr create --head {branch} --repo github.com/a/b --base main --title ");
    assert!(told.contains(&create) && told.contains(" --draft"), "{told}");
    let body = fs::read_to_string(offer.gh.join("body")).expect("a text");
    assert!(body.contains("git agent accepted"), "{body}");
    let env = fs::read_to_string(offer.gh.join("env")).unwrap_or_default();
    assert!(!env.contains("GIT_DIR") && !env.contains("GIT_AGENT_ID"), "{env}");

    // More work: the same pull request, and the branch moves forward.
    let worktree = agent_json(&offer.clone, &["path", &id])["worktree_abspath"].clone();
    let file = Path::new(worktree.as_str().expect("a path")).join("src/three.rs");
    fs::write(file, "pub fn three() {}\n").expect("written");
    refused_json(&offer.pr(&[&id]), "worktree-dirty", 3);
    agent_json(&offer.clone, &["commit", &id, "-m", "three"]);
    let again = offer.answer(&[&id, "--title", "It's \"three\" $(now)"]);
    assert_eq!(again["outcome"], "updated", "{again}");
    assert_eq!(offer.hub.remote_tip(&full), again["tip"]);
    let before = git_in(&offer.hub.bare, ["rev-parse", &format!("{full}^")]);
    assert_eq!(before, done["tip"]);
    let told = offer.told();
    assert!(told.contains("pr edit 7 --repo"), "{told}");
    assert!(told.contains("--title It's \"three\" $(now) "), "{told}");
}

#[test]
fn nothing_is_forced_and_nothing_rejected_is_offered() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, branch) = offer.ready(&["--check=false"], "src/one.rs");
    refused_json(&offer.pr(&[&id]), "not-accepted", 3);
    let (good, other) = offer.ready(&[], "src/two.rs");
    // The branch of the remote has a commit that the agent lacks.
    let theirs = format!("refs/heads/{other}");
    let tree = git_in(&offer.hub.bare, ["rev-parse", "main^{tree}"]);
    let words = ["commit-tree", "-p", "main", "-m", "theirs", &tree];
    let commit = git_in(&offer.hub.bare, words);
    git_in(&offer.hub.bare, ["update-ref", &theirs, &commit]);
    refused_json(&offer.pr(&[&good]), "not-fast-forward", 3);
    assert_eq!(offer.hub.remote_tip(&theirs), commit);
    assert_eq!(offer.told(), "");
    assert!(!git_in(&offer.hub.bare, ["for-each-ref"]).contains(&branch));
    // A program of the agent's is not the user's.
    let worktree = agent_json(&offer.clone, &["path", &good])["worktree_abspath"].clone();
    let inside = Path::new(worktree.as_str().expect("a path")).join("src");
    let exclude = offer.clone.join(".git/info/exclude");
    fs::write(&exclude, "/.claude/\n/.agent/\n/src/[gobel]*\n").expect("written");
    plant(&inside);
    git_in(&offer.hub.bare, ["update-ref", "-d", &theirs]);
    let output = offer.pr_with(&[&inside, &offer.gh], &[&good]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(offer.told().contains("pr create"));
    assert!(!inside.join("log").exists());
}

#[test]
fn what_is_offered_is_judged_against_what_the_remote_has() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (bare, clone) = (&offer.hub.bare, &offer.clone);
    // A landing that was never pushed is in no one's way.
    let (landed, _) = offer.ready(&[], "src/one.rs");
    let (good, branch) = offer.ready(&[], "src/two.rs");
    agent_json(clone, &["merge", &landed]);
    fs::write(clone.join("src/two.rs"), "pub fn other() {}\n").expect("written");
    git_in(clone, ["add", "src/two.rs"]);
    git_in(clone, ["commit", "--quiet", "-m", "not pushed"]);
    assert_eq!(offer.answer(&[&good])["outcome"], "created");
    assert_eq!(git_in(bare, ["log", "--format=%s", &format!("main..{branch}")]), "two");
    // What the remote has conflicts, though this clone does not know it yet.
    let (late, _) = offer.ready(&["--base=origin/main"], "src/three.rs");
    let other = clone.with_file_name("other");
    let from = bare.to_str().expect("UTF-8");
    git_in(clone, ["clone", "--quiet", from, other.to_str().expect("UTF-8")]);
    fs::write(other.join("src/three.rs"), "pub fn other() {}\n").expect("written");
    git_in(&other, ["add", "src/three.rs"]);
    git_in(&other, ["commit", "--quiet", "-m", "theirs"]);
    git_in(&other, ["push", "--quiet"]);
    let refused = offer.pr(&[&late]);
    refused_json(&refused, "not-accepted", 3);
    assert!(describe(&refused).contains("merge.conflict"), "{}", describe(&refused));
}

#[test]
fn work_that_begins_at_what_was_fetched_lands_on_the_branch_of_that() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (bare, clone) = (&offer.hub.bare, &offer.clone);
    let tree = git_in(bare, ["rev-parse", "main^{tree}"]);
    let theirs = git_in(bare, ["commit-tree", "-p", "main", "-m", "theirs", &tree]);
    git_in(bare, ["update-ref", "refs/heads/main", &theirs]);
    git_in(clone, ["fetch", "--quiet"]);
    git_in(clone, ["remote", "set-head", "origin", "main"]);
    for (base, file) in [("origin/main", "src/one.rs"), ("origin", "src/two.rs")] {
        let (id, branch) = offer.ready(&["--base", base], file);
        let shown = agent_json(clone, &["show", &id]);
        assert_eq!(shown["base"]["ref"], "refs/heads/main", "{base}");
        assert_eq!(shown["base"]["oid"], theirs.as_str(), "{base}");
        // It is judged against that. This clone's branch is behind, and takes the work once it is not.
        let judged = agent_json(clone, &["verify", &id]);
        assert_eq!(judged["verdict"], "accept", "{judged:#}");
        let output = offer.run(&[], &["merge", &id, "--format=json"]);
        refused_json(&output, "not-accepted", 3);
        assert!(
            describe(&output).contains("verify {} --base main".replace("{}", &id[..8]).as_str()),
            "{}",
            describe(&output)
        );
        plant(&offer.gh);
        assert_eq!(offer.answer(&[&id])["outcome"], "created", "{base}");
        assert_eq!(git_in(bare, ["log", "--format=%s", &format!("main..{branch}")]), "two");
    }
    git_in(clone, ["merge", "--quiet", "--ff-only", "origin/main"]);
    let (id, _) = offer.ready(&["--base=origin/main"], "src/three.rs");
    assert_eq!(agent_json(clone, &["merge", &id])["target"]["ref"], "refs/heads/main");
    let (id, _) = offer.ready(&["--base=origin/main"], "src/four.rs");
    agent_json(clone, &["merge", &id, "--push"]);
    assert_eq!(git_in(bare, ["ls-tree", "--name-only", "main", "src/four.rs"]), "src/four.rs");
}

#[test]
fn what_others_put_on_the_pushed_branch_is_taken_in_as_the_hint_says() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, branch) = offer.ready(&[], "src/two.rs");
    offer.answer(&[&id]);
    let theirs = offer.clone.with_file_name("theirs");
    let bare = offer.hub.bare.display().to_string();
    git_in(&offer.clone, ["clone", "--quiet", "-b", &branch, &bare, &theirs.display().to_string()]);
    fs::write(theirs.join("src/four.rs"), "pub fn four() {}\n").expect("written");
    git_in(&theirs, ["add", "."]);
    git_in(&theirs, ["commit", "--quiet", "-m", "four"]);
    git_in(&theirs, ["push", "--quiet"]);
    let worktree = agent_json(&offer.clone, &["path", &id])["worktree_abspath"].clone();
    let file = Path::new(worktree.as_str().expect("a path")).join("src/three.rs");
    fs::write(file, "pub fn three() {}\n").expect("written");
    agent_json(&offer.clone, &["commit", &id, "-m", "three"]);

    let refused = offer.pr(&[&id]);
    refused_json(&refused, "not-fast-forward", 3);
    let error: Value = serde_json::from_slice(&refused.stderr).expect("JSON");
    let hint = error["error"]["hints"][0].as_str().expect("a hint");
    let command = hint.split_once("run ").expect("a command").1;
    let mut shell = crate::support::isolated("sh", &offer.clone);
    let output = shell.args(["-c", command]).output().expect("sh starts");
    assert!(output.status.success(), "{}", describe(&output));
    let done = offer.answer(&[&id]);
    let full = format!("refs/heads/{branch}");
    assert_eq!(offer.hub.remote_tip(&full), done["tip"]);
    let subjects = git_in(&offer.hub.bare, ["log", "--format=%s", &format!("main..{full}")]);
    assert_eq!(subjects, "three\nfour\ntwo");
    let headers = git_in(&offer.hub.bare, ["log", "--format=raw", &format!("main..{full}")]);
    assert_eq!(headers.matches("\nagent-spawn ").count(), 1, "{headers}");
}

#[test]
fn a_branch_that_has_nothing_on_top_of_what_was_taken_in_lands() {
    for words in [&["--squash"][..], &["--no-ff", "-m", "Merge pull request #1"]] {
        let offer = Offer::new("https://github.com/a/b.git");
        let (id, branch) = offer.ready(&[], "src/two.rs");
        offer.answer(&[&id]);
        let theirs = offer.clone.with_file_name("theirs");
        let bare = offer.hub.bare.display().to_string();
        git_in(&offer.clone, ["clone", "--quiet", &bare, &theirs.display().to_string()]);
        git_in(&theirs, ["checkout", "--quiet", &branch]);
        fs::write(theirs.join("src/two.rs"), "pub fn reviewed() {}\n").expect("written");
        git_in(&theirs, ["commit", "--quiet", "-a", "-m", "review"]);
        git_in(&theirs, ["push", "--quiet", "origin", "HEAD"]);
        // The rebase drops what is there already, and leaves the spawn commit on top.
        git_in(&offer.clone, ["fetch", "--quiet"]);
        let worktree = agent_json(&offer.clone, &["path", &id])["worktree_abspath"].clone();
        let worktree = Path::new(worktree.as_str().expect("a path"));
        git_in(worktree, ["rebase", "--quiet", &format!("origin/{branch}")]);
        git_in(&theirs, ["checkout", "--quiet", "main"]);
        git_in(&theirs, [&["merge", "--quiet"], words, &[&branch]].concat());
        if words == ["--squash"] {
            git_in(&theirs, ["commit", "--quiet", "-m", "two (#1)"]);
        }
        git_in(&theirs, ["push", "--quiet", "origin", "main", &format!(":{branch}")]);
        git_in(&offer.clone, ["pull", "--quiet", "--prune"]);
        let swept = agent_json(&offer.clone, &["gc"]);
        assert_eq!(swept["agents"][0]["action"], "remove", "{words:?}: {swept}");
        let sent = agent_json(&offer.clone, &["sync"]);
        assert_eq!(sent["branches"][0]["state"], "landed", "{words:?}: {sent}");
    }
}

#[test]
fn other_forges_get_the_page_and_a_stack_the_branch_below() {
    let offer = Offer::new("git@gitlab.com:a/b.git");
    let (below, branch) = offer.ready(&[], "src/two.rs");
    let (above, top) = offer.ready(&["--base", &branch], "src/three.rs");
    let output = offer.pr(&[&above]);
    refused_json(&output, "usage", 2);
    let hint = format!("git agent pr {}", &below[..8]);
    assert!(describe(&output).contains(&hint), "{}", describe(&output));
    let first = offer.answer(&[&below]);
    assert_eq!(first["outcome"], "pushed", "{first}");
    assert_eq!(first.get("stacked_on"), None);
    let second = offer.answer(&[&above]);
    assert_eq!(second["stacked_on"]["agent_id"], below.as_str(), "{second}");
    let page = format!(
        "https://gitlab.com/a/b/-/merge_requests/new?merge_request%5Bsource_branch%5D={top}&merge_request%5Btarget_branch%5D={branch}"
    );
    assert_eq!(second["url"], page);
    assert_eq!(offer.told(), "");
    // A path names no forge.
    let real = format!("file://{}", offer.hub.bare.display());
    git_in(&offer.clone, ["remote", "set-url", "origin", &real]);
    assert_eq!(offer.answer(&[&below]).get("url"), None);
    let output = agent(&offer.clone, &["pr", &below, "--remote=nowhere"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
}

/// What `gh` says of a pull request.
fn request(number: u32, state: &str, branch: &str, commit: &str, checks: &Value) -> Value {
    json!({
        "headRefName": branch,
        "headRefOid": commit,
        "isCrossRepository": number == 99,
        "number": number,
        "state": state,
        "statusCheckRollup": checks,
        "url": format!("https://github.com/a/b/pull/{number}"),
    })
}

#[test]
fn the_list_shows_what_the_checks_of_the_forge_say() {
    let offer = Offer::new("https://github.com/a/b.git");
    let agents: Vec<_> = ["src/two.rs", "src/three.rs", "src/four.rs", "src/five.rs"]
        .map(|file| offer.ready(&[], file))
        .into();
    let commit = |n: usize| tip(&offer.clone, &format!("refs/heads/{}", agents[n].1));
    let ended =
        |end: &str| json!({"__typename": "CheckRun", "status": "COMPLETED", "conclusion": end});
    let running = json!({"__typename": "CheckRun", "status": "IN_PROGRESS", "conclusion": ""});
    let status = |state: &str| json!({"__typename": "StatusContext", "state": state});
    let good = json!([ended("SUCCESS"), ended("SKIPPED"), status("SUCCESS")]);
    let bad = json!([ended("SUCCESS"), ended("TIMED_OUT"), status("ERROR"), running]);
    let half = json!([status("PENDING"), ended("SUCCESS")]);
    // What reviewers say, and that the forge will merge it.
    let mut reviewed = request(6, "OPEN", &agents[2].1, &commit(2), &half);
    reviewed["reviewDecision"] = json!("CHANGES_REQUESTED");
    reviewed["autoMergeRequest"] = json!({"mergeMethod": "MERGE"});
    let listed = json!([
        request(7, "OPEN", &agents[0].1, &commit(0), &good),
        // Neither a later one that is closed nor the one of a fork speaks for the branch.
        request(8, "CLOSED", &agents[0].1, &commit(0), &bad),
        request(99, "OPEN", &agents[0].1, &commit(0), &bad),
        request(5, "MERGED", &agents[1].1, &commit(0), &bad),
        reviewed,
    ]);
    fs::write(offer.gh.join("open"), listed.to_string()).expect("written");
    let list = |words: &[&str]| {
        let output = offer.run(&[&offer.gh], &[&["list", "--ci"], words].concat());
        assert!(output.status.success(), "{}", describe(&output));
        output
    };
    let rows = |output: &Output| -> Vec<Value> {
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["agents"].as_array().expect("rows").clone()
    };

    let output = list(&["--format=json"]);
    assert_eq!(output.stderr, b"", "{}", describe(&output));
    let shown = rows(&output);
    let expected = json!({
        "number": 7, "url": "https://github.com/a/b/pull/7", "state": "open", "checks": "passed",
        "total": 3, "failed": 0, "pending": 0, "commit": commit(0),
    });
    assert_eq!(shown[0]["ci"], expected);
    let brief = |row: &Value| {
        let ci = &row["ci"];
        json!([ci["state"], ci["checks"], ci["total"], ci["failed"], ci["pending"]])
    };
    assert_eq!(brief(&shown[1]), json!(["merged", "failed", 4, 2, 1]));
    assert_eq!(brief(&shown[2]), json!(["open", "pending", 2, 0, 1]));
    let said = [&shown[2]["ci"]["review"], &shown[2]["ci"]["queued"]];
    assert_eq!(said, [&json!("changes-requested"), &json!(true)]);
    assert_eq!(shown[3].get("ci"), None, "it has no pull request");
    let told = offer.told();
    assert_eq!(told.matches("pr list").count(), 1, "{told}");
    assert!(told.contains("--repo github.com/a/b --state open "), "{told}");
    assert!(!told.contains(&*offer.clone.to_string_lossy()), "{told}");

    let text = String::from_utf8(list(&["--all"]).stdout).expect("UTF-8");
    for cell in [
        " CI ",
        " passed ",
        " failed 2/4 (old) (merged) ",
        " pending 1/2, changes-requested, queued ",
    ] {
        assert!(text.contains(cell), "{cell}: {text}");
    }
    assert!(offer.told().contains(" --state all "));

    // Why it says nothing, in one line: `gh` fails, answers nonsense, is not there, or is not asked.
    let silent = |output: &Output, why: &str| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}", describe(output));
        assert!(said.starts_with("warning: --ci knows nothing: "), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    };
    fs::write(offer.gh.join("broken"), "not logged in\ntry again\n").expect("written");
    silent(&list(&[]), "gh pr list failed: not logged in try again");
    let output = list(&["--format=json"]);
    assert_eq!(output.stderr, b"", "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let why = "--ci knows nothing: gh pr list failed: not logged in try again";
    assert_eq!(answer["warnings"], json!([why]));
    assert!(rows(&output).iter().all(|row| row.get("ci") == Some(&Value::Null)));
    let output = list(&["--format=ndjson"]);
    assert_eq!(output.stderr, b"", "{}", describe(&output));
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!lines.is_empty());
    for line in lines.lines() {
        let agent: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(agent["warnings"], json!([why]), "{line}");
    }
    let output = list(&[]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains(" CI "));
    fs::remove_file(offer.gh.join("broken")).expect("removed");
    fs::write(offer.gh.join("open"), "{}").expect("written");
    silent(&list(&[]), "the answer of gh pr list cannot be read");
    git_in(&offer.clone, ["remote", "set-url", "origin", "https://gitlab.com/a/b"]);
    offer.told();
    silent(&list(&[]), "there is no glab on the path");
    git_in(&offer.clone, ["remote", "set-url", "origin", "https://codeberg.org/a/b"]);
    silent(&list(&[]), "names no repository on GitHub or GitLab");
    assert_eq!(offer.told(), "");
}

#[test]
fn a_pull_request_holds_no_spawn_commit_and_sync_goes_on_from_it() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, branch) = offer.ready(&[], "src/two.rs");
    let subjects = |hub: &Hub| git_in(&hub.bare, ["log", "--format=%s", &branch, "--not", "main"]);
    // `sync` pushed the branch as it is; the pull request takes its place.
    agent_json(&offer.clone, &["sync"]);
    assert!(subjects(&offer.hub).contains("agent: spawn"));
    let offered = offer.answer(&[&id]);
    assert_eq!(subjects(&offer.hub), "two");
    assert_eq!(offered["tip"], tip(&offer.hub.bare, &branch));
    // More work is one more commit on top, by whichever command.
    let place = agent_json(&offer.clone, &["path", &id])["worktree_abspath"].clone();
    let place = PathBuf::from(place.as_str().expect("a path"));
    for (file, verb) in [("three", "sync"), ("four", "pr"), ("five", "sync")] {
        let before = tip(&offer.hub.bare, &branch);
        fs::write(place.join(format!("src/{file}.rs")), "more\n").expect("written");
        agent_json(&offer.clone, &["commit", &id, "-m", file]);
        match verb {
            "sync" => drop(agent_json(&offer.clone, &["sync"])),
            _ => drop(offer.answer(&[&id])),
        }
        let after = tip(&offer.hub.bare, &branch);
        let parent = git_in(&offer.hub.bare, ["rev-parse", &format!("{after}^")]);
        assert_eq!(parent, before, "{file} by {verb}");
    }
    assert_eq!(subjects(&offer.hub), "five\nfour\nthree\ntwo");
    // Another clone reads and judges it, and a forge's merge of it is known here.
    let mut hub = offer.hub;
    let other = hub.add("other", &[]);
    agent_json(&other, &["sync"]);
    let judged = crate::support::agent::json_of({
        let mut command = agent_command(&other);
        command.args(["verify", &id, "--no-commands", "--format=json"]);
        command
    });
    assert_eq!(judged["verdict"], "accept", "{judged:#}");
    git_in(&other, ["merge", "--quiet", "--no-ff", "-m", "Merge", &format!("origin/{branch}")]);
    fs::write(other.join("src/two.rs"), "written anew\n").expect("written");
    git_in(&other, ["commit", "--quiet", "--all", "-m", "later"]);
    git_in(&other, ["push", "--quiet", "origin", "HEAD:main"]);
    git_in(&offer.clone, ["fetch", "--quiet", "origin"]);
    let planned = agent_json(&offer.clone, &["merge", &id, "--dry-run"]);
    assert_eq!(planned["outcome"], "already-merged", "{planned:#}");
}

#[test]
fn what_is_not_committed_since_a_landing_has_not_landed() {
    let offer = Offer::new("https://github.com/a/b.git");
    let (id, _) = offer.ready(&[], "src/two.rs");
    agent_json(&offer.clone, &["merge", &id, "--push"]);
    let shown = agent_json(&offer.clone, &["show", &id]);
    let worktree = PathBuf::from(shown["worktree_abspath"].as_str().expect("a path"));
    fs::write(worktree.join("src/three.rs"), "pub fn three() {}\n").expect("written");
    for words in [&[id.as_str()][..], &[&id, "--dry-run"]] {
        refused_json(&offer.pr(words), "worktree-dirty", 3);
    }
    fs::remove_file(worktree.join("src/three.rs")).expect("removed");
    refused_json(&offer.pr(&[&id]), "nothing-to-land", 1);
}
