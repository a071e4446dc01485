use super::answer;
use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, git_in, isolated};
use crate::verify::{Agent, codes};

const METHODS: [&str; 3] = ["--no-ff", "--squash", "--ff-only"];

/// The paths by which two commits of the repository differ.
fn changed(agent: &Agent, from: &str, to: &str) -> String {
    agent.repo.git(["diff", "--name-only", from, to])
}

/// Lands the work and gives the paths that this changed.
fn landed(agent: &Agent, method: &str) -> String {
    let before = agent.repo.git(["rev-parse", "main"]);
    answer(agent, "merge", &[method]);
    changed(agent, &before, "main")
}

/// Commits a file as a person in the worktree does it, hooks and all.
fn commit(agent: &Agent, name: &str) -> String {
    agent.write(name, format!("// {name}\n"));
    git_in(&agent.worktree, ["add", name]);
    git_in(&agent.worktree, ["commit", "--quiet", "-m", name]);
    git_in(&agent.worktree, ["rev-parse", "HEAD"])
}

#[test]
fn updates_after_a_landing_leave_nothing_to_land() {
    for method in METHODS {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        answer(&agent, "done", &[]);
        let landed = answer(&agent, "merge", &[method])["commit"].clone();
        let swept = || agent.repo.agent_json(&["gc"])["agents"][0].clone();
        for number in 0..3 {
            agent.repo.agent_json(&["update", &agent.id]);
            assert_eq!(swept()["action"], "remove", "{method}: {}", swept());
            let told = swept()["landed"]["commit"].clone();
            assert!(told.is_null() || told == landed, "{method}: {told}");
            agent.repo.write("README.md", format!("{number}\n"));
            agent.repo.commit_all("a person's");
        }
        // What it adds then is new.
        agent.write("src/later.rs", "pub fn later() {}\n");
        agent.commit("later");
        assert_eq!(swept()["action"], "keep", "{method}");
        answer(&agent, "merge", &[]);
        assert!(agent.repo.path().join("src/later.rs").exists(), "{method}");
    }
}

#[test]
fn what_landed_and_was_dropped_from_the_branch_stays_on_the_target() {
    for first in METHODS {
        for to in ["HEAD~1", "main"] {
            let agent = Agent::new();
            commit(&agent, "src/one.rs");
            assert_eq!(landed(&agent, first), "src/one.rs", "{first}");
            agent.git(&["reset", "--quiet", "--hard", to]);
            commit(&agent, "src/two.rs");
            // Nothing depends on what the reflogs still tell.
            let common = agent.repo.path().join(".git/logs/refs/heads").join(&agent.branch);
            std::fs::remove_file(common).expect("a reflog");
            let judged = agent.verify(&[]);
            assert_eq!(codes(&judged), [""; 0], "{first}, {to}: {judged:#}");
            // As git merges it.
            assert_eq!(landed(&agent, "--no-ff"), "src/two.rs", "{first}, {to}");
            agent.repo.git(["cat-file", "-e", "main:src/one.rs"]);
        }
    }
}

/// Lands the work as a forge does, takes it back, and lets something else come to the same place.
fn taken_back_by_hand(land: &str, back: &str) -> Agent {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn work() {}\n");
    agent.commit("one");
    commit(&agent, "src/new.rs");
    let script = format!("set -e; tip={}; {land}; {back}", agent.branch);
    let done = isolated("sh", &agent.repo.path()).args(["-c", &script]).output();
    assert!(done.expect("starts").status.success(), "{script}");
    agent.repo.write("src/lib.rs", "pub fn other() {}\n");
    agent.repo.commit_all("something else");
    agent
}

#[test]
fn work_that_was_taken_back_has_not_landed_whatever_came_since() {
    let squash = "git merge -q --squash $tip; git commit -qm squashed";
    let picks = "git cherry-pick $tip~1 $tip";
    let each = "git revert --no-edit HEAD HEAD~1";
    let at_once = "git revert --no-commit HEAD HEAD~1; git commit -qm 'took both back'";
    let cases = [(squash, "git revert --no-edit HEAD"), (picks, each), (picks, at_once)];
    for (land, back) in cases {
        let agent = taken_back_by_hand(land, back);
        assert_eq!(agent.codes(), ["merge.conflict"], "{land}; {back}");
        let told = agent.repo.agent_json(&["gc"]);
        assert_eq!(told["agents"][0]["action"], "keep", "{land}; {back}: {told:#}");
    }
    // Brought again, it is there.
    let agent = taken_back_by_hand(squash, "git revert --no-edit HEAD; git revert --no-edit HEAD");
    assert_eq!(agent.codes(), [""; 0]);
    assert_eq!(agent.verify(&[])["merge"]["state"], "merged");
}

#[test]
fn what_a_landing_brings_again_is_counted_and_shown() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    landed(&agent, "--squash");
    agent.repo.git(["revert", "--no-edit", "HEAD"]);
    commit(&agent, "src/two.rs");
    let shown = answer(&agent, "show", &[]);
    assert_eq!(shown["ahead"], 2, "{shown:#}");
    assert_eq!(shown["diff"]["files"], 2, "{shown:#}");
    let back = agent.repo.git(["rev-parse", "HEAD"]);
    let said = answer(&agent, "merge", &["--squash"])["warnings"].to_string();
    assert!(said.contains(&format!("commit {} took back", &back[..7])), "{said}");
    assert_eq!(changed(&agent, &back, "main"), "src/one.rs\nsrc/two.rs");
}

#[test]
fn the_agent_s_own_commits_are_its_own_in_whatever_order_they_are() {
    // The branch as it was before a rebase is merged into what came of it, as `git pull` does.
    let agent = Agent::new();
    let before = commit(&agent, "src/one.rs");
    agent.repo.write("docs/new.md", "new\n");
    agent.repo.commit_all("docs");
    agent.git(&["rebase", "--quiet", "main"]);
    git_in(&agent.worktree, ["merge", "--quiet", "--no-edit", &before]);
    assert_eq!(agent.codes(), [""; 0]);
    assert_eq!(landed(&agent, "--no-ff"), "src/one.rs");

    // The commit by which the agent was spawned is moved above its work.
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    let mut rebase = isolated("git", &agent.worktree);
    rebase.args(["rebase", "--quiet", "--interactive", "main"]);
    rebase.env("GIT_SEQUENCE_EDITOR", "sed -i '1{h;d};${G}'");
    assert!(rebase.status().expect("starts").success());
    assert_eq!(agent.codes(), [""; 0]);
    assert_eq!(landed(&agent, "--no-ff"), "src/one.rs");
}

/// A rebase, as is advised otherwise, leaves out what a merge changed itself.
#[test]
fn a_branch_with_merges_gets_its_first_commit_back_by_a_merge() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    agent.git(&["rebase", "--quiet", "--onto", "main", "HEAD~1"]);
    agent.repo.write("docs/new.md", "new\n");
    agent.repo.commit_all("docs");
    agent.git(&["merge", "--quiet", "--no-commit", "main"]);
    commit(&agent, "src/adapted.rs");
    let judged = agent.verify(&[]);
    assert_eq!(codes(&judged), ["provenance.spawn-commit"]);
    let fix = judged["findings"][0]["fix"].as_str().expect("advice");
    let (_, command) = fix.split_once("run ").expect("a command");
    let status = isolated("sh", &agent.worktree).args(["-c", command]).status();
    assert!(status.expect("starts").success(), "{command}");
    assert_eq!(agent.codes(), [""; 0]);
    assert_eq!(landed(&agent, "--no-ff"), "src/adapted.rs\nsrc/one.rs");
}

#[test]
fn what_another_agent_made_is_foreign_by_a_fast_forward_too() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    let words = ["spawn", "--from", &agent.branch, "go on from there", "--scope", "src"];
    let other = agent.repo.agent_json(&words);
    let place = other["worktree_abspath"].as_str().expect("a path").to_owned();
    let place = std::path::Path::new(&place);
    std::fs::write(place.join("src/other.rs"), "// of another\n").expect("written");
    git_in(place, ["add", "."]);
    git_in(place, ["commit", "--quiet", "-m", "of another"]);
    // Without the commit by which that one was spawned.
    git_in(place, ["rebase", "--quiet", "--onto", &agent.branch, "HEAD~1"]);
    let theirs = git_in(place, ["rev-parse", "HEAD"]);
    agent.git(&["merge", "--quiet", "--ff-only", &theirs]);
    let judged = agent.verify(&[]);
    assert_eq!(codes(&judged), ["provenance.foreign-commit"], "{judged:#}");
    assert_eq!(judged["findings"][0]["commit"], theirs);
    // A copy is the agent's own, whoever goes on from it.
    agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    commit(&agent, "src/two.rs");
    agent.git(&["cherry-pick", &theirs]);
    agent.repo.agent_json(&["spawn", "--from", &agent.branch, "go on from that", "--scope", "src"]);
    assert_eq!(agent.codes(), [""; 0]);

    // After a landing, too, on whichever branch they stand.
    landed(&agent, "--no-ff");
    git_in(place, ["rebase", "--quiet", "--onto", "main", &theirs]);
    std::fs::write(place.join("src/other.rs"), "// of another, again\n").expect("written");
    git_in(place, ["commit", "--quiet", "--all", "-m", "of another, again"]);
    let theirs = git_in(place, ["rev-parse", "HEAD"]);
    agent.git(&["reset", "--quiet", "--hard", &theirs]);
    assert_eq!(agent.codes(), ["provenance.foreign-commit"]);
    agent.repo.git(["switch", "--quiet", "--create", "topic"]);
    agent.repo.write("src/topic.rs", "// a person's\n");
    agent.repo.commit_all("a person's");
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.git(&["reset", "--quiet", "--hard", "topic"]);
    assert_eq!(agent.codes(), ["provenance.foreign-commit"]);
}

#[test]
fn what_a_merge_of_several_brings_is_not_the_agent_s() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    let files = ["docs/one.md", "docs/two.md"];
    for name in files {
        let branch = name.trim_start_matches("docs/").trim_end_matches(".md");
        agent.repo.git(["switch", "--quiet", "--create", branch, "main"]);
        agent.repo.write(name, "a person's\n");
        agent.repo.commit_all(name);
    }
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.repo.git(["merge", "--quiet", "--no-edit", "one", "two"]);
    git_in(&agent.worktree, ["merge", "--quiet", "--no-edit", "one", "two"]);
    assert_eq!(agent.git(&["show", "--no-patch", "--format=%p"]).split(' ').count(), 3);
    assert_eq!(agent.codes(), [""; 0]);
    // What the merge itself changed is.
    agent.write("README.md", "changed beside\n");
    agent.git(&["commit", "--quiet", "--all", "--amend", "--no-edit"]);
    assert_eq!(agent.codes(), ["scope.not-in-whitelist"]);
}

#[test]
fn a_landing_that_was_taken_back_commit_by_commit_stays_so_with_new_work_on_top() {
    for method in ["--no-ff", "--ff-only"] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        landed(&agent, method);
        for name in ["src/two.rs", "src/one.rs"] {
            let found =
                agent.repo.git(["log", "--format=%H", "-1", "--fixed-strings", "--grep", name]);
            agent.repo.git(["revert", "--no-edit", &found]);
        }
        assert_eq!(agent.codes(), ["merge.reverted"], "{method}");
        commit(&agent, "src/three.rs");
        assert_eq!(agent.codes(), ["merge.reverted"], "{method}");
    }
}

#[test]
fn what_an_update_brought_and_the_target_took_back_has_not_landed() {
    for method in ["--no-ff", "--squash", "a forge's squash"] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        if method.starts_with("--") {
            landed(&agent, method);
        } else {
            let branch = git_in(&agent.worktree, ["branch", "--show-current"]);
            agent.repo.git(["merge", "--quiet", "--squash", &branch]);
            agent.repo.commit_all(&format!("src/one.rs (#1)\n\nAgent-Id: {}", agent.id));
        }
        let landing = agent.repo.git(["rev-parse", "HEAD"]);
        agent.repo.write("README.md", "changed since\n");
        agent.repo.commit_all("a person's");
        answer(&agent, "update", &[]);
        let first = if method == "--no-ff" { "--mainline=1" } else { "--no-gpg-sign" };
        agent.repo.git(["revert", "--no-edit", first, &landing]);
        let back = agent.repo.git(["rev-parse", "HEAD"]);
        // Merging the branch brings none of it, with new work or without.
        for name in [None, Some("src/three.rs")] {
            name.map(|name| commit(&agent, name));
            assert_eq!(agent.codes(), ["merge.reverted"], "{method}: {name:?}");
            let swept = agent.repo.agent_json(&["gc"]);
            assert_eq!(swept["agents"][0]["action"], "keep", "{method}: {swept:#}");
            let shown = answer(&agent, "show", &[]);
            assert_eq!(shown["state"], "idle", "{method}: {shown:#}");
        }
        agent.repo.git(["revert", "--no-edit", &back]);
        assert_eq!(agent.codes(), [""; 0], "{method}");
        assert_eq!(landed(&agent, "--no-ff"), "src/three.rs", "{method}");
    }
}

#[test]
fn what_a_branch_took_from_the_target_is_not_shown_as_its_work() {
    for method in METHODS {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        landed(&agent, method);
        agent.repo.write("docs/new.md", "a person's\n");
        agent.repo.commit_all("docs");
        agent.git(&["reset", "--quiet", "--hard", "main"]);
        commit(&agent, "src/two.rs");
        let shown = answer(&agent, "show", &[]);
        assert_eq!(
            (&shown["diff"]["files"], &shown["ahead"]),
            (&1.into(), &1.into()),
            "{method}: {shown:#}"
        );
    }
}

#[test]
fn what_a_rewritten_branch_takes_back_is_work_and_what_it_dropped_is_none() {
    for method in ["--no-ff", "--squash"] {
        for extra in [false, true] {
            let agent = Agent::new();
            for name in ["src/one.rs", "src/two.rs", "src/dropped.rs"] {
                commit(&agent, name);
            }
            landed(&agent, method);
            agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
            agent.git(&["commit", "--quiet", "--amend", "-m", "better words"]);
            // What landed is no work of now, whatever its commits are called.
            assert_eq!(answer(&agent, "show", &[])["state"], "merged", "{method}");
            agent.git(&["rm", "--quiet", "src/one.rs"]);
            agent.git(&["commit", "--quiet", "-m", "one was wrong"]);
            let mut paths = vec!["src/one.rs"];
            if extra {
                commit(&agent, "src/three.rs");
                paths.push("src/three.rs");
            }
            let shown = answer(&agent, "show", &[]);
            assert_eq!(
                (&shown["state"], &shown["ahead"]),
                (&"idle".into(), &paths.len().into()),
                "{method}: {shown:#}"
            );
            let diff = answer(&agent, "diff", &[]);
            let changes = diff["changes"].as_array().expect("a list");
            let changes: Vec<_> = changes.iter().map(|one| &one["path"]).collect();
            assert_eq!(changes, paths, "{method}");
            let kept = agent.repo.agent_json(&["gc"]);
            assert_eq!(kept["agents"][0]["action"], "keep", "{method}: {kept:#}");
            assert_eq!(landed(&agent, method), paths.join("\n"), "{method}");
            agent.repo.git(["cat-file", "-e", "main:src/dropped.rs"]);
            assert_eq!(answer(&agent, "show", &[])["state"], "merged", "{method}");
        }
    }
}

/// What `diff` names, which is what the next landing brings, and nothing is left of it after that.
#[track_caller]
fn lands_as_shown(agent: &Agent, method: &str, expected: &str) {
    let diff = answer(agent, "diff", &[]);
    let changes = diff["changes"].as_array().expect("a list");
    let changes: Vec<_> = changes.iter().map(|one| one["path"].as_str().expect("text")).collect();
    assert_eq!(changes.join("\n"), expected, "{method}: {diff:#}");
    let kept = agent.repo.agent_json(&["gc"]);
    assert_eq!(kept["agents"][0]["action"], "keep", "{method}: {kept:#}");
    assert_eq!(landed(agent, method), expected, "{method}");
    assert_eq!(answer(agent, "show", &[])["state"], "merged", "{method}");
}

fn removed(agent: &Agent, name: &str) {
    agent.git(&["rm", "--quiet", name]);
    agent.git(&["commit", "--quiet", "-m", "it was wrong"]);
}

#[test]
fn a_landing_brings_what_came_since_the_last_one_however_the_ones_before_landed() {
    for first in METHODS {
        for second in ["--no-ff", "--squash"] {
            let agent = Agent::new();
            commit(&agent, "src/one.rs");
            landed(&agent, first);
            commit(&agent, "src/two.rs");
            commit(&agent, "src/kept.rs");
            landed(&agent, second);
            removed(&agent, "src/two.rs");
            agent.write("src/kept.rs", "// it has other lines by now\n");
            agent.commit("other lines");
            commit(&agent, "src/three.rs");
            lands_as_shown(&agent, second, "src/kept.rs\nsrc/three.rs\nsrc/two.rs");
        }
    }
}

/// What a forge makes of a pull request, with the messages of its commits and no row.
fn merged_by_a_forge(agent: &Agent, is_squash: bool) {
    let script = if is_squash {
        "git merge -q --squash $branch && git commit -qF- <<end
A title of its own (#1)

$(git log --reverse --format='* %B' HEAD..$branch -- src)
end"
    } else {
        "git cherry-pick $(git log --reverse --format=%H HEAD..$branch -- src)"
    };
    let mut shell = isolated("sh", &agent.repo.path());
    shell.env("branch", &agent.branch).env("GIT_COMMITTER_NAME", "forge");
    let done = shell.args(["-c", script]).output().expect("starts");
    assert!(done.status.success(), "{}", describe(&done));
}

#[test]
fn what_a_forge_made_other_commits_of_has_landed_though_no_row_says_so() {
    for is_squash in [true, false] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        agent.repo.write("other.txt", "of others\n");
        agent.repo.commit_all("others");
        merged_by_a_forge(&agent, is_squash);
        // Someone takes a part of it away, and the agent takes back another.
        agent.repo.git(["rm", "--quiet", "src/one.rs"]);
        agent.repo.commit_all("not that one");
        removed(&agent, "src/two.rs");
        commit(&agent, "src/three.rs");
        lands_as_shown(&agent, "--squash", "src/three.rs\nsrc/two.rs");
        assert!(!agent.repo.path().join("src/one.rs").exists(), "{is_squash}");
    }
}

#[test]
fn a_landing_of_which_no_row_tells_is_none_once_it_is_taken_back() {
    for is_squash in [true, false] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        merged_by_a_forge(&agent, is_squash);
        let count = if is_squash { 1 } else { 2 };
        for back in 0..count {
            agent.repo.git(["revert", "--no-edit", &format!("HEAD~{}", 2 * back)]);
        }
        commit(&agent, "src/three.rs");
        lands_as_shown(&agent, "--squash", "src/one.rs\nsrc/three.rs\nsrc/two.rs");
    }
}

#[test]
fn what_was_taken_back_and_brought_again_has_landed() {
    // By the revert of a revert, by the forge a second time, and by hand.
    for again in 0..3 {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        merged_by_a_forge(&agent, true);
        agent.repo.git(["revert", "--no-edit", "HEAD"]);
        match again {
            0 => drop(agent.repo.git(["revert", "--no-edit", "HEAD"])),
            1 => merged_by_a_forge(&agent, true),
            _ => {
                agent.repo.git(["checkout", "HEAD~1", "--", "src"]);
                agent.repo.commit_all("it is wanted after all");
            }
        }
        removed(&agent, "src/two.rs");
        lands_as_shown(&agent, "--squash", "src/two.rs");
    }
}

#[test]
fn what_another_made_alike_is_no_landing() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    commit(&agent, "src/two.rs");
    removed(&agent, "src/one.rs");
    // Of others, with a word that is the name of the branch.
    agent.repo.write("src/one.rs", "// src/one.rs\n");
    agent.repo.commit_all(&format!("src/one.rs, see {}", agent.branch));
    lands_as_shown(&agent, "--squash", "src/two.rs");
    assert!(agent.repo.path().join("src/one.rs").exists());
}

#[test]
fn the_message_of_a_squash_tells_how_much_it_brought() {
    let agent = Agent::new();
    for count in 0..40 {
        commit(&agent, &format!("src/file{count}.rs"));
    }
    // A part of it is on the target already, so that the squash brings as much up to the commit before.
    agent.repo.write("src/file39.rs", "// src/file39.rs\n");
    agent.repo.commit_all("of others");
    merged_by_a_forge(&agent, true);
    removed(&agent, "src/file39.rs");
    removed(&agent, "src/file7.rs");
    lands_as_shown(&agent, "--squash", "src/file39.rs\nsrc/file7.rs");
}

/// The agent's work as one commit of the target, with a message of a person's.
fn squashed_as(agent: &Agent, message: &str) {
    agent.repo.git(["merge", "--quiet", "--squash", &agent.branch]);
    agent.repo.git(["commit", "--quiet", "-m", &format!("{message}\n\nAgent-Id: {}", agent.id)]);
}

#[test]
fn the_message_of_a_squash_may_tell_of_more_or_less_than_it_brought() {
    for message in [
        "src/one.rs (#1)\n\n* src/one.rs\n\n* src/two.rs\n\nto do:\n- it was wrong",
        "Two files (#1)",
    ] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        squashed_as(&agent, message);
        // Its subject is a line of the message, or no line tells of any.
        removed(&agent, "src/one.rs");
        lands_as_shown(&agent, "--squash", "src/one.rs");
    }
}

#[test]
fn a_rebase_of_many_commits_is_known_to_its_end() {
    let agent = Agent::new();
    for count in 0..70 {
        commit(&agent, &format!("src/file{count}.rs"));
    }
    merged_by_a_forge(&agent, false);
    removed(&agent, "src/file69.rs");
    lands_as_shown(&agent, "--squash", "src/file69.rs");
}

#[test]
fn a_single_commit_that_a_forge_squashed_is_not_brought_again() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    merged_by_a_forge(&agent, true);
    agent.repo.git(["mv", "src/one.rs", "src/moved.rs"]);
    agent.repo.commit_all("it moves");
    agent.repo.agent_json(&["done", &agent.id]);
    assert_eq!(landed(&agent, "--no-ff"), "");
}

#[test]
fn a_file_that_the_target_renamed_is_not_removed_by_that() {
    let agent = Agent::new();
    agent.git(&["rm", "--quiet", "src/lib.rs"]);
    agent.git(&["commit", "--quiet", "-m", "it goes"]);
    agent.repo.git(["mv", "src/lib.rs", "src/moved.rs"]);
    agent.repo.commit_all("it moves");
    assert_eq!(agent.codes(), ["merge.conflict"]);
    let kept = agent.repo.agent_json(&["gc"]);
    assert_eq!(kept["agents"][0]["action"], "keep", "{kept:#}");
}

#[test]
fn a_landing_before_one_that_the_target_lost_again_is_the_last() {
    for method in ["--no-ff", "--squash"] {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        landed(&agent, method);
        let before = agent.repo.git(["rev-parse", "main"]);
        commit(&agent, "src/two.rs");
        landed(&agent, method);
        agent.repo.git(["reset", "--quiet", "--hard", before.trim()]);
        removed(&agent, "src/one.rs");
        commit(&agent, "src/three.rs");
        lands_as_shown(&agent, method, "src/one.rs\nsrc/three.rs\nsrc/two.rs");
    }
}

#[test]
fn what_takes_an_earlier_landing_back_has_not_landed_with_the_last_one() {
    let agent = Agent::new();
    commit(&agent, "src/one.rs");
    landed(&agent, "--no-ff");
    commit(&agent, "src/two.rs");
    landed(&agent, "--squash");
    removed(&agent, "src/one.rs");
    lands_as_shown(&agent, "--squash", "src/one.rs");
}

#[test]
fn work_that_goes_back_to_what_landed_first_has_not_landed() {
    let agent = Agent::new();
    for content in ["// one\n", "// two\n"] {
        agent.write("src/new.rs", content);
        agent.commit("changes its mind");
        // As a forge does when it lands by a rebase.
        agent.repo.git(["cherry-pick", "--no-gpg-sign", &agent.git(&["rev-parse", "HEAD"])]);
    }
    agent.write("src/new.rs", "// one\n");
    agent.commit("changes its mind again");
    let kept = agent.repo.agent_json(&["gc"]);
    assert_eq!(kept["agents"][0]["action"], "keep", "{kept:#}");
    let listed = agent.repo.agent_json(&["list"]);
    assert_ne!(listed["agents"][0]["verdict"], "landed", "{listed:#}");
}

/// Another commit on the target, which the branch gets.
fn rebased(agent: &Agent) {
    agent.repo.write("docs/new.md", "a person's\n");
    agent.repo.commit_all("docs");
    agent.git(&["rebase", "--quiet", "main"]);
}

#[test]
fn what_is_taken_back_lands_whether_the_branch_was_rebased_or_updated_before() {
    for method in ["--no-ff", "--squash"] {
        // Rebased before the landing, it begins with a twin of its spawn commit.
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        rebased(&agent);
        landed(&agent, method);
        removed(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        lands_as_shown(&agent, method, "src/one.rs\nsrc/two.rs");
        // Rebased after it, and left behind by the target.
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        landed(&agent, method);
        agent.git(&["rebase", "--quiet", "main"]);
        removed(&agent, "src/one.rs");
        agent.repo.write("docs/new.md", "a person's\n");
        agent.repo.commit_all("docs");
        lands_as_shown(&agent, method, "src/one.rs");
        // Brought up to date by a merge, landed, and its last commit reworded.
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        agent.repo.write("docs/new.md", "a person's\n");
        agent.repo.commit_all("docs");
        answer(&agent, "update", &[]);
        commit(&agent, "src/two.rs");
        landed(&agent, method);
        agent.git(&["commit", "--quiet", "--amend", "-m", "better words"]);
        removed(&agent, "src/one.rs");
        lands_as_shown(&agent, method, "src/one.rs");
    }
}

#[test]
fn what_is_not_committed_after_a_landing_is_all_that_is_shown() {
    for method in METHODS {
        let agent = Agent::new();
        commit(&agent, "src/one.rs");
        commit(&agent, "src/two.rs");
        landed(&agent, method);
        std::fs::remove_file(agent.worktree.join("src/one.rs")).expect("removed");
        agent.write("src/three.rs", "// three\n");
        let shown = answer(&agent, "show", &[]);
        assert_eq!(shown["diff"]["files"], 2, "{method}: {shown:#}");
        let into = if method == "--ff-only" { "--no-ff" } else { method };
        lands_as_shown(&agent, into, "src/one.rs\nsrc/three.rs");
    }
}

#[test]
fn the_upper_agent_of_a_stack_takes_its_landed_work_back() {
    for method in ["--no-ff", "--squash"] {
        let below = Agent::new();
        commit(&below, "src/one.rs");
        let above = Agent::spawned_with(below.repo, TASK, &["--base", &below.branch]);
        commit(&above, "src/two.rs");
        above.repo.agent_json(&["merge", &below.id, "--no-ff"]);
        answer(&above, "merge", &[method]);
        removed(&above, "src/two.rs");
        commit(&above, "src/three.rs");
        let before = above.repo.git(["rev-parse", "main"]);
        answer(&above, "merge", &[method]);
        assert_eq!(changed(&above, &before, "main"), "src/three.rs\nsrc/two.rs", "{method}");
    }
}

/// Thirty lines, some of them in other words.
fn lines(changed: &[(usize, &str)]) -> String {
    let word = |number: usize| {
        let found = changed.iter().find(|(at, _)| *at == number);
        found.map_or_else(|| number.to_string(), |(_, word)| (*word).to_owned())
    };
    (1..=30).map(|number| word(number) + "\n").collect()
}

#[test]
fn of_several_changes_to_one_file_that_landed_one_is_taken_back() {
    for method in METHODS {
        let agent = Agent::new();
        agent.write("src/list.txt", lines(&[(16, "sixteen")]));
        agent.commit("one");
        agent.write("src/list.txt", lines(&[(1, "wrong"), (16, "sixteen")]));
        agent.commit("two");
        landed(&agent, method);
        agent.write("src/list.txt", lines(&[(16, "sixteen")]));
        agent.commit("two was wrong");
        let into = if method == "--ff-only" { "--no-ff" } else { method };
        lands_as_shown(&agent, into, "src/list.txt");
        let text = agent.repo.git(["show", "main:src/list.txt"]) + "\n";
        assert_eq!(text, lines(&[(16, "sixteen")]), "{method}");
    }
}

#[test]
fn new_work_lands_on_the_target_of_now_and_conflicts_with_that_alone() {
    for method in ["--no-ff", "--squash"] {
        let repo = TestRepo::with_commit();
        repo.write("src/list.txt", lines(&[]));
        repo.commit_all("a list");
        let agent = Agent::spawned_in(repo, TASK);
        agent.write("src/list.txt", lines(&[(20, "twenty")]));
        commit(&agent, "src/one.rs");
        agent.commit("twenty");
        let persons = |words: &[(usize, &str)]| {
            agent.repo.write("src/list.txt", lines(words));
            agent.repo.commit_all("a person's");
        };
        persons(&[(5, "person")]);
        landed(&agent, method);
        agent.write("src/list.txt", lines(&[(5, "agent"), (20, "TWENTY")]));
        agent.git(&["rm", "--quiet", "src/one.rs"]);
        agent.commit("more");
        assert_eq!(agent.codes(), ["merge.conflict"], "{method}");
        // A plain merge of the target would bring the removed file back.
        let judged = agent.verify(&[]);
        let fix = judged["findings"][0]["fix"].as_str().expect("a text");
        let update = format!("run git agent update {} --conflicts", &agent.id[..8]);
        assert!(fix.ends_with(&update), "{fix}");
        // git itself would see the target's line as it was when the agent began, and no conflict.
        persons(&[(5, "5"), (20, "20")]);
        assert_eq!(agent.codes(), ["merge.conflict"], "{method}");
        answer(&agent, "done", &[]);
        // A person is told the same.
        assert!(agent.repo.agent(&["report", "--html"]).status.success());
        let page = agent.repo.path().join(".git/agents/cache/report.html");
        let page = std::fs::read_to_string(page).expect("a page");
        assert!(page.contains("its work conflicts with what has landed"), "{method}");
        persons(&[(20, "twenty")]);
        lands_as_shown(&agent, method, "src/list.txt\nsrc/one.rs");
        let text = agent.repo.git(["show", "main:src/list.txt"]) + "\n";
        assert_eq!(text, lines(&[(5, "agent"), (20, "TWENTY")]), "{method}");
    }
}
