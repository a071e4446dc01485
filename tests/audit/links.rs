//! F9: no chain of symlinks leads out of the worktree.

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
