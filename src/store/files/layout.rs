//! The name of every ref and file that this program keeps.
//!
//! All files live below `<common dir>/agents/`, shared by the repository's worktrees and invisible
//! to git's own commands.

use crate::domain::{AgentId, Isolation, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::{CLONES, STAND_IN};
use crate::wire::row::policy::Policy;
use std::path::{Path, PathBuf};

/// The ledger: one note per spawn commit.
pub const LEDGER_REF: &str = "refs/notes/agents";
/// The chain of empty-tree commits whose extra parents must stay reachable.
pub const KEEP_REF: &str = "refs/agents/keep";

/// The mailbox: a chain with one commit for each message.
pub const MAIL_REF: &str = "refs/agents/mail";
/// Who has read which message: one note per reader, and one per page of a long one.
pub const RECEIPTS_REF: &str = "refs/notes/agents-mail";

/// The file locked while the ledger or the keep chain is written.
pub const LEDGER_LOCK: &str = "ledger.lock";
/// The file locked while a worktree is published.
pub const SPAWN_LOCK: &str = "spawn.lock";
/// The file locked while a message or a receipt is written.
pub const MAIL_LOCK: &str = "mail.lock";
/// The file locked while work lands.
pub const LANDING_LOCK: &str = "landing.lock";
/// Held by one of those whose landing came too late, while it judges the work anew.
pub const LANDING_TURN: &str = "landing-turn.lock";

/// The file locked while refs are exchanged with a remote.
pub const SYNC_LOCK: &str = "sync.lock";

/// The file locked while the pool of warm worktrees is filled or emptied.
pub const POOL_LOCK: &str = "pool.lock";

/// The file locked while a frozen base is made.
pub const BASE_LOCK: &str = "base.lock";

/// The file locked while a frozen base is taken for an agent, or removed.
pub const BASE_TAKING_LOCK: &str = "base-taking.lock";

/// The file locked while a command takes its place in the order of arrival.
pub const TICKETS_LOCK: &str = "tickets.lock";

/// What the name of a warm worktree begins with.
pub const SLOT_PREFIX: &str = "warm-";

/// What the `locked` file of such a worktree says.
pub const SLOT_LOCK_REASON: &str = "git-agent pool";

/// What stands before the first eight digits of an agent's id in the name of its admin directory.
pub const WORKTREE_PREFIX: &str = "agent-";

/// What stands before them in the name of the worktree that check commands run in.
const VERIFY_PREFIX: &str = "verify-";

/// What the `locked` file of such a worktree says.
pub const VERIFY_LOCK_REASON: &str = "git-agent verify";

/// The directory that holds all our files.
pub fn agents_dir(common_dir: &Path) -> PathBuf {
    common_dir.join("agents")
}

/// Directories below [`agents_dir`] out of which something is removed that was found by listing them.
const SWEPT: [&str; 12] = [
    "bases",
    "builds",
    "clones",
    "leases",
    "locks",
    "pool",
    "questions",
    "spawning",
    "spool",
    "tickets",
    "tmp",
    "trash",
];

/// Checks that no link stands in the place of a directory that is swept: what it leads to would be taken for leftovers of ours.
///
/// # Errors
/// `repo-corrupt`, naming the link.
pub fn require_no_links(common_dir: &Path) -> Result<()> {
    let agents = agents_dir(common_dir);
    SWEPT.iter().try_for_each(|name| require_no_link(&agents.join(name)))
}

/// Checks that no link stands in the place of a directory of ours.
///
/// # Errors
/// `repo-corrupt`, naming the link.
pub fn require_no_link(link: &Path) -> Result<()> {
    if !link.is_symlink() {
        return Ok(());
    }
    let shown = shell::path(link);
    let what = format!(
        "{} is a symbolic link, and what it leads to would be taken for files of git-agent",
        link.display()
    );
    Err(Error::new(Code::RepoCorrupt, what)
        .hint(format!("to see where it leads, run ls -l {shown}"))
        .hint(format!("to remove it, run rm {shown}")))
}

/// What belongs to one agent: prompt, task, hooks, logs.
pub fn agent_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agents_dir(common_dir).join(id.short())
}

/// The directory of an agent's six files, seen from its worktree or, for a shared agent, from the root, where each has one of its
/// own. `None` where they are in the agent's own directory: those of a shared agent in a bare repository, which has no root, or
/// of a version before 0.3.
pub fn bundle_inside(id: AgentId, policy: &Policy) -> Option<String> {
    let inside = policy.bundle_dir.as_ref()?;
    Some(if policy.isolation == Isolation::Shared.as_str() {
        format!("{inside}/{}", id.short())
    } else {
        inside.clone()
    })
}

/// The same directory, absolute; `top` is the worktree or the root.
pub fn bundle(common_dir: &Path, id: AgentId, policy: &Policy, top: &Path) -> PathBuf {
    match bundle_inside(id, policy) {
        Some(inside) => top.join(inside),
        None => agent_dir(common_dir, id).join(BUNDLE),
    }
}

/// The directory of the six files in an agent's own directory.
pub const BUNDLE: &str = "bundle";

/// What keeps the absolute path of an agent's worktree, in the agent's directory.
pub const WORKTREE_PLACE: &str = "worktree";

/// The absolute path of an agent's worktree that is outside the root.
pub fn worktree_place(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join(WORKTREE_PLACE)
}

/// What keeps the agent type of the persona that an agent's prompt was made for, which its task need not name.
pub fn agent_type_note(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("agent-type")
}

/// Where the worktree of the agent with these first eight digits finds its git hooks.
pub fn hooks_dir(common_dir: &Path, short_id: &str) -> PathBuf {
    agents_dir(common_dir).join(short_id).join("hooks")
}

/// Answers to what an agent asks of its supervisor, where it can read and not write.
pub fn answers_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("answers")
}

/// A file for each warm worktree.
pub fn pool_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("pool")
}

/// A directory for each frozen base.
pub fn bases_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("bases")
}

/// Where the layer of an agent lies in the agent's directory.
pub const LAYER: &str = "layer";

/// As [`LAYER`], of what checks run in.
pub const CHECK_LAYER: &str = "check-layer";

/// What a layered worktree is made of.
pub fn layer_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join(LAYER)
}

/// What the layered worktree is made of that the checks of the agent with these first eight digits, or of a train, run in.
pub fn check_layer(common_dir: &Path, short_id: &str) -> PathBuf {
    agents_dir(common_dir).join(short_id).join(CHECK_LAYER)
}

/// What an agent's commands wrote to their views of the user's caches.
pub fn caches_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("caches")
}

/// A file for each command that works for an agent or waits for its turn.
pub fn tickets_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("tickets")
}

/// A file for each compile job that runs share.
pub fn builds_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("builds")
}

/// What agents hold, one symlink for each value.
pub fn leases_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("leases")
}

/// What the patterns of a `.worktreeinclude` matched last.
pub fn included_files(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("included-files")
}

/// Half-written things; whatever is old in here is debris.
pub fn tmp_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("tmp")
}

/// Removed worktrees on their way out.
pub fn trash_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("trash")
}

/// What can be deleted at any time and is made again.
pub fn cache_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("cache")
}

/// What the kernel has said lately, a file for each question.
pub fn kernel_answers(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("kernel")
}

/// The page of a report for which the user named no file.
pub fn report_page(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("report.html")
}

/// The key that seals the facts of this clone.
pub fn facts_key(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("facts.key")
}

/// The folded-in notes of one notes tree.
pub fn ledger_cache(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("ledger")
}

/// What finding agents takes of the rows of one notes tree.
pub fn row_index(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("rows")
}

/// The scopes of live agents, by their spawn commits.
pub fn scope_cache(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("scopes")
}

/// What one reader of the mailbox has not read yet; `reader` is 16 hex digits.
pub fn mail_cursor(common_dir: &Path, reader: &str) -> PathBuf {
    cache_dir(common_dir).join(format!("mail-{reader}"))
}

/// Where what agents leave waits that may not write refs: a directory for each, named by the first eight digits
/// of its id.
pub fn spools_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("spool")
}

/// Where one agent leaves it for us to post.
pub fn spool_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    spools_dir(common_dir).join(id.short())
}

/// Messages that were taken out of an agent's spool and are being posted. Out of the agent's reach.
pub fn posting_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("posting")
}

/// What of an agent that goes on is about to land, until its row says so.
pub fn landing_note(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("landing")
}

/// The key of the claim that this clone saw the agent lose.
pub fn lost_claim(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("claim-lost")
}

/// The questions of agents that no message answers yet.
pub fn questions_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("questions")
}

/// The messages that answered an agent since its last run began, each a file of that name.
pub fn answered_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("answered")
}

/// The file in which a host hook keeps what it told an agent: the tip of the mailbox when it was last looked at, then the ids of the
/// messages.
pub const TOLD_MESSAGES: &str = "told-messages";

/// The file, below [`agents_dir`], locked while the messages of an agent's spool are posted.
pub fn posting_lock(id: AgentId) -> String {
    format!("{}/posting.lock", id.short())
}

/// Where a remote's copy of a ref of ours is fetched to.
pub fn fetched_ref(refname: &str, remote: &str) -> String {
    match refname.strip_prefix("refs/notes/") {
        Some(rest) => format!("refs/notes/{remote}/{rest}"),
        None => {
            let rest = refname.strip_prefix("refs/agents/").unwrap_or(refname);
            format!("refs/agents/remote/{remote}/{rest}")
        }
    }
}

/// What this clone knows of a claim that it made: its nonce and those of earlier attempts, and the agent that works on it.
pub fn claim_record(common_dir: &Path, key: &str) -> PathBuf {
    agents_dir(common_dir).join("claims").join(key)
}

/// The file, below [`agents_dir`], locked while a process of ours holds that claim.
pub fn claim_lock(key: &str) -> String {
    format!("claims/{key}.lock")
}

/// What the copies of all remotes' refs begin with.
pub const COPIES: &str = "refs/agents/remote/";

/// What the copies of a remote's refs begin with, which are what it was last seen to have.
pub fn copies(remote: &str) -> String {
    format!("{COPIES}{remote}/")
}

/// Sixteen hex digits that name this clone on remotes; the last four tell its stamps from those of others.
pub fn clone_id(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("clone-id")
}

/// The agents that this clone has merged, rejected or discarded itself, one a line.
pub fn closed(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("closed")
}

/// The lines of rows that this clone wrote: the digest of each.
pub fn own_lines(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("own-lines")
}

/// The branches that this clone made under names that do not hold their agents' ids, one a line.
pub fn branches(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("branches")
}

/// The journals of spawns under way.
pub fn journals_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("spawning")
}

/// The name of an agent's admin directory and, by default, of its worktree.
pub fn worktree_name(id: AgentId) -> String {
    format!("{WORKTREE_PREFIX}{}", id.short())
}

/// Where a worktree with this admin directory is while it is being discarded: beside its own place, so that
/// a rename reaches it.
pub fn aside(worktree: &Path, name: &str) -> PathBuf {
    worktree.with_file_name(format!(".{name}.leaving"))
}

/// The first eight digits of the id of the agent whose admin directory has this name; `None` for one that
/// cannot be an agent's.
pub fn agent_of_worktree(name: &str) -> Option<&str> {
    name.strip_prefix(WORKTREE_PREFIX).filter(|id| is_short_id(id))
}

/// The file, below [`agents_dir`], locked while the check commands of the agent with these first eight digits
/// run.
pub fn verify_lock(short_id: &str) -> String {
    format!("{short_id}/verify.lock")
}

/// The files of an agent that were set aside because they are too long to be read.
pub fn large_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("large")
}

/// The repositories of an agent's submodules that were set aside, each time below a number.
pub fn modules_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("modules")
}

/// As [`large_dir`], on the file system of a worktree, where that is another one.
pub fn large_beside(worktree: &Path, id: AgentId) -> PathBuf {
    worktree.with_file_name(format!(".{}.large", worktree_name(id)))
}

/// What runs put in the place of the worktree's `.git` file, where the worktree with this admin directory is on another file system
/// than the repository.
pub fn replaced_git_beside(worktree: &Path, name: &str) -> PathBuf {
    worktree.with_file_name(format!(".{name}.git"))
}

/// There while everything of a discarded agent is kept and its places are being removed.
pub fn discarding(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("discarding")
}

/// The commit that an agent's worktree is at while what came to its branch since then could not be brought there.
pub fn behind(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("behind")
}

/// The file, below [`agents_dir`], locked while a process of ours works for an agent or removes it.
pub fn live_lock(id: AgentId) -> String {
    format!("{}/live.lock", id.short())
}

/// The repository of its own that a fenced command of this agent works in.
pub fn run_repo(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join(STAND_IN)
}

/// What hosts recorded of an agent's sessions, in a directory for each host.
pub fn records_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("sessions")
}

/// Where the worktrees that have a repository of their own are noted.
pub fn clones_dir(common_dir: &Path) -> PathBuf {
    common_dir.join(CLONES)
}

/// What notes that the worktree of this agent has one.
pub fn clone_record(common_dir: &Path, id: AgentId) -> PathBuf {
    clones_dir(common_dir).join(worktree_name(id))
}

/// The file, below [`agents_dir`], locked while what a clone has is taken in.
pub fn clone_lock(id: AgentId) -> String {
    format!("{}/clone.lock", id.short())
}

/// What the sessions of agent hosts in an agent's worktree told of themselves, one file each.
pub fn at_work_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("at-work")
}

/// The agent's final answer in its last run, as far as it is kept. By its name and place it is a log: what was said in confidence is taken
/// out of it as out of those.
pub fn answer(common_dir: &Path, id: AgentId) -> PathBuf {
    runs_dir(common_dir, id).join("answer.out")
}

/// Where the streams of an agent's runs are kept.
pub fn runs_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agent_dir(common_dir, id).join("run")
}

/// The name of the worktree that the check commands of the agent with these first eight digits run in.
pub fn verify_worktree_name(short_id: &str) -> String {
    format!("{VERIFY_PREFIX}{short_id}")
}

/// What stands for the eight digits in the name of a worktree that the checks of a train run in.
pub fn train_place(number: usize) -> String {
    format!("{number:08}")
}

/// Whether these eight digits stand for a check worktree of a train.
pub fn is_train_place(digits: &str) -> bool {
    // A train has few places, so their numbers begin with zeros; an agent's id does so by a chance
    // of one in sixteen million.
    digits.starts_with("000000")
}

/// The first eight digits of the id of the agent whose check commands run in a worktree of this name;
/// `None` for one that cannot be such a worktree.
pub fn agent_of_verify_worktree(name: &str) -> Option<&str> {
    name.strip_prefix(VERIFY_PREFIX).filter(|id| is_short_id(id))
}

/// Whether the name of a worktree or its admin directory is one that we give: an agent's, a check's, that of a warm worktree, or of
/// one on its way out.
pub fn is_made_by_us(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_suffix(".leaving").unwrap_or(name);
    name.starts_with(SLOT_PREFIX)
        || agent_of_worktree(name).is_some()
        || name.strip_prefix(VERIFY_PREFIX).is_some_and(is_short_id)
}

/// Whether a text can be the first eight digits of an id.
pub fn is_short_id(id: &str) -> bool {
    id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What the `locked` file of an agent's worktree says while the agent is neither landed nor removed.
pub fn lock_reason(id: AgentId) -> String {
    format!("git-agent {}", id.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_a_train_is_told_from_an_agents() {
        assert!(is_train_place(&train_place(0)) && is_train_place(&train_place(63)));
        assert!(!is_train_place("6a48ca7b") && !is_train_place("00000c7b"));
    }
}
