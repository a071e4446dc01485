//! F9: no chain of symlinks leads out of the worktree, and nothing of ours is written through one.

use crate::verify::Agent;
use std::fs;
use std::os::unix::fs::symlink;

/// The links of a chain, each with its target; the last one leads out.
type Chain = &'static [(&'static str, &'static str)];

/// Chains of which every link but the last stays inside by its text.
const CHAINS: [Chain; 4] = [
    &[("src/a/up", "../../src"), ("src/a/esc", "up/../../outside.txt")],
    &[("src/a/b/top", "../../.."), ("src/a/b/esc", "top/../outside.txt")],
    &[("src/a/one", "../../src"), ("src/a/two", "one"), ("src/a/esc", "./two/..//../outside.txt")],
    // The name does not exist yet: another agent may make it a link.
    &[("src/a/esc", "later/../../outside.txt")],
];

#[test]
fn f9_a_chain_of_links_is_not_accepted() {
    for chain in CHAINS {
        let agent = Agent::new();
        let outside = agent.worktree.with_file_name("outside.txt");
        for (path, target) in chain {
            let path = agent.worktree.join(path);
            fs::create_dir_all(path.parent().expect("above")).expect("made");
            symlink(target, path).expect("made");
        }
        let (last, target) = chain.last().expect("a link");
        if chain.len() > 1 {
            fs::write(agent.worktree.join(last), "escaped\n").expect("written");
            let written = fs::read_to_string(&outside).expect("the chain leads out");
            assert_eq!(written, "escaped\n", "{last} -> {target}");
        }
        for commits in [false, true] {
            if commits {
                agent.commit("a chain of links");
            }
            assert_eq!(agent.codes(), ["scope.symlink-target"], "{last} -> {target}");
        }
        let landed = agent.repo.agent(&["merge", &agent.id]);
        assert!(!landed.status.success(), "{last} -> {target}");
        assert_eq!(agent.repo.git(["ls-files", "src/a"]), "");
    }
}

/// What an agent without a fence can put in the place of a file or a directory of ours.
#[test]
fn what_is_linked_to_in_the_place_of_our_own_files_stays_as_it_is() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let (top, common) = (agent.repo.path(), agent.repo.path().join(".git"));
    // The reflog of its branch.
    let reflog = common.join("logs/refs/heads").join(&agent.branch);
    fs::remove_file(&reflog).expect("removed");
    symlink(top.join("README.md"), &reflog).expect("a link");
    agent.repo.write("README.md", "mine\n");
    agent.repo.commit_all("mine");
    agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(fs::read_to_string(top.join("README.md")).expect("readable"), "mine\n");
    // Its directory, which a discard would empty of what is confidential.
    let other = agent.repo.spawn_task(crate::support::agent::TASK, &[]);
    let short = other["short_id"].as_str().expect("an id");
    let victim = top.with_file_name("victim");
    fs::create_dir(&victim).expect("made");
    fs::write(victim.join("prompt.md"), "mine").expect("written");
    let place = common.join("agents").join(short);
    fs::rename(&place, top.with_file_name("place")).expect("moved");
    symlink(&victim, &place).expect("a link");
    let refused = agent.repo.agent(&["discard", short, "--force"]);
    crate::verify::refused(&refused, "repo-corrupt", 4);
    assert!(victim.join("prompt.md").exists() && !victim.join("discarding").exists());
    // The repository's own hooks stay, where it leads to them.
    fs::remove_file(&place).expect("removed");
    symlink("..", &place).expect("a link");
    let hook = common.join("hooks/pre-commit");
    fs::create_dir_all(common.join("hooks")).expect("made");
    fs::write(&hook, "#!/bin/sh\n").expect("written");
    for words in
        [&["doctor", "--fix"][..], &["doctor", "hooks", "repair"], &["run", short, "--", "true"]]
    {
        let output = agent.repo.agent(words);
        assert!(!output.status.success(), "{words:?}");
        assert!(hook.exists() && !common.join("live.lock").exists(), "{words:?}");
    }
    fs::remove_file(&place).expect("removed");
    fs::rename(top.with_file_name("place"), &place).expect("moved");
    // Its admin directory, where `doctor` makes one anew and writes nothing through the link.
    let admin = common.join("worktrees").join(format!("agent-{short}"));
    fs::rename(&admin, top.with_file_name("admin")).expect("moved");
    symlink("../../.git", &admin).expect("a link");
    agent.repo.agent_json(&["doctor", "--fix"]);
    assert!(!common.join("commondir").exists() && admin.join("commondir").is_file());
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    agent.repo.agent_json(&["discard", short]);
}
