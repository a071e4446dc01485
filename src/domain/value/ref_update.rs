//! What a reference transaction asks for, and whose ref it is: githooks(5), `reference-transaction`.

use crate::domain::value::oid::Oid;
use std::collections::BTreeMap;

/// One line of a transaction: `<old> SP <new> SP <ref>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// Where the ref is to point.
    pub new: Target,
    /// The full name of the ref.
    pub name: String,
}

/// Where a ref is to point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// At an object.
    At(Oid),
    /// Nowhere: it is deleted.
    Gone,
    /// At another ref, or something that is no name of ours.
    Other,
}

/// Whose ref it is, seen from an agent's worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The agent's own branch.
    Branch,
    /// The worktree alone has it: `HEAD`, `ORIG_HEAD` and their like, bisect's and rebase's marks.
    Worktree,
    /// Another tool keeps it beside commits, and nothing here believes it.
    Tool,
    /// Everybody shares it, or another worktree has it.
    Others,
}

/// Refs below these are a worktree's own (git's `refs.c: is_per_worktree_ref`).
const PER_WORKTREE: [&str; 3] = ["refs/worktree/", "refs/bisect/", "refs/rewritten/"];

/// git-ai's notes on commits, which a hook of its own writes with each commit.
const TOOLS: [&str; 1] = ["refs/notes/ai"];

impl RefUpdate {
    /// Reads a line without its line feed; `None` when it is no such line.
    pub fn parse(line: &str) -> Option<RefUpdate> {
        let mut words = line.splitn(3, ' ');
        let (_, new, name) = (words.next()?, words.next()?, words.next()?);
        let new = match Oid::from_hex(new) {
            Some(oid) if oid.is_zero() => Target::Gone,
            Some(oid) => Target::At(oid),
            None => Target::Other,
        };
        Some(RefUpdate { new, name: name.to_owned() })
    }

    /// Whose ref it is for the agent with this branch (its full name).
    pub fn owner(&self, branch: &str) -> Owner {
        let name = self.name.as_str();
        if name == branch {
            Owner::Branch
        } else if !name.contains('/') || PER_WORKTREE.iter().any(|own| name.starts_with(own)) {
            Owner::Worktree
        } else if TOOLS.contains(&name) {
            Owner::Tool
        } else {
            Owner::Others
        }
    }
}

// Exchanges with a remote: what a later list of the remote says about a push, and what may be deleted there.
//
// A push tells nothing: its answer may be lost, and a hook may say anything. What the remote lists afterwards is what counts.

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The remote has it.
    There,
    /// Another clone was quicker.
    Late,
    /// The remote does not take it.
    Refused,
}

/// What became of the push of `tip` to a ref that was at `from`, and is at `is` now. `is_passing` says that the remote gave a reason
/// that passes, such as a lock.
pub fn arrival(tip: Oid, from: Option<Oid>, is: Option<Oid>, is_passing: bool) -> Arrival {
    if is == Some(tip) {
        Arrival::There
    } else if is != from || is_passing {
        Arrival::Late
    } else {
        Arrival::Refused
    }
}

/// The outboxes that the remote's shared ref contains. `united` are those that were united with what this clone has seen the shared ref
/// to hold, each with the commit that it was at. One that has moved on since holds more, and stays.
pub fn contained<'u>(
    united: &'u BTreeMap<String, Oid>,
    listed: &BTreeMap<String, Oid>,
) -> Vec<(&'u String, Oid)> {
    united
        .iter()
        .filter(|(refname, oid)| listed.get(*refname) == Some(oid))
        .map(|(refname, oid)| (refname, *oid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_belong_to_the_branch_the_worktree_or_others() {
        let check = |name: &str, expected: Owner| {
            let line = format!("{} {} {name}", "0".repeat(40), "1".repeat(40));
            let update = RefUpdate::parse(&line).expect("a line");
            assert_eq!(update.owner("refs/heads/agent/x"), expected, "{name}");
        };
        check("refs/heads/agent/x", Owner::Branch);
        for own in [
            "HEAD",
            "ORIG_HEAD",
            "AUTO_MERGE",
            "refs/bisect/bad",
            "refs/worktree/a/b",
            "refs/rewritten/onto",
        ] {
            check(own, Owner::Worktree);
        }
        check("refs/notes/ai", Owner::Tool);
        for other in [
            "refs/notes/ai-2",
            "refs/heads/agent/x-2",
            "refs/heads/main",
            "refs/tags/v1",
            "refs/stash",
            "refs/notes/agents",
            "refs/remotes/origin/main",
            "main-worktree/HEAD",
            "worktrees/other/refs/bisect/bad",
            "refs/bisectors",
        ] {
            check(other, Owner::Others);
        }
    }

    #[test]
    fn lines_are_read() {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let new = |line: String| RefUpdate::parse(&line).map(|update| update.new);
        assert_eq!(new(format!("{one} {zero} refs/x")), Some(Target::Gone));
        assert_eq!(new(format!("{zero} ref:refs/heads/a HEAD")), Some(Target::Other));
        assert!(matches!(new(format!("{zero} {one} a")), Some(Target::At(_))));
        assert_eq!(new(format!("{zero} {one}")), None);
        assert_eq!(new(String::new()), None);
    }

    const A: Oid = Oid::from_bytes([1; 20]);
    const B: Oid = Oid::from_bytes([2; 20]);
    const C: Oid = Oid::from_bytes([3; 20]);

    #[test]
    fn the_list_tells_what_became_of_a_push() {
        assert_eq!(arrival(B, Some(A), Some(B), false), Arrival::There);
        assert_eq!(arrival(B, Some(A), Some(C), false), Arrival::Late);
        assert_eq!(arrival(B, Some(A), Some(A), true), Arrival::Late);
        assert_eq!(arrival(B, Some(A), Some(A), false), Arrival::Refused);
        assert_eq!(arrival(B, None, None, false), Arrival::Refused);
        assert_eq!(arrival(B, Some(A), None, false), Arrival::Late);
    }

    #[test]
    fn an_outbox_that_moved_on_stays() {
        let united = BTreeMap::from([("a".to_owned(), A), ("b".to_owned(), B)]);
        let listed = BTreeMap::from([("a".to_owned(), A), ("b".to_owned(), C)]);
        assert_eq!(contained(&united, &listed), [(&"a".to_owned(), A)]);
    }
}
