//! The commands that take back what an agent was not allowed to do: out of its worktree, out of a commit, out of a whole branch.
//!
//! They are printed, and a person or the agent runs them. So each is one line of a shell, stops where a step of it fails, and loses
//! nothing that was allowed.

use super::change::ChangeKind;
use crate::domain::value::oid::Oid;
use crate::domain::value::shell;
use std::collections::{HashMap, HashSet};

/// How a path is taken out of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRemoval {
    /// It is as it was before.
    Restore,
    /// It is not there any more, as it was not before.
    Delete,
    /// Git does not track it, and it stays in the worktree, where it belongs.
    Untrack,
}

/// The command that takes paths out of a commit and of all that came after it, as far as they are what that changed; what else the
/// commits did becomes one commit. Undoing a change in a later commit would leave it in the history.
///
/// Each path comes with how the first of these commits that touched it is undone. One that was added then is not in the commit before:
/// `git restore` fails on it where a later commit, or the agent, removed it again, and would stop the command half-way.
///
/// `parents` are those of every commit of the branch: where there are merges among the commits, what they brought is merged by the new
/// commit as well. Else it would be work of the agent's own.
pub fn out_of_commit<'a>(
    elsewhere: &str,
    commit: Oid,
    parents: &Parents,
    paths: impl IntoIterator<Item = (&'a [u8], PathRemoval)>,
) -> String {
    let merges = merges_since(commit, parents);
    let is_merge = merges.first().is_some_and(|(merge, _)| *merge == commit);
    let commit = commit.short();
    let git = format!("git{elsewhere}");
    let (mut old, mut new, mut own) = (String::new(), String::new(), String::new());
    for (path, removal) in paths {
        let list = match removal {
            PathRemoval::Restore => &mut old,
            PathRemoval::Delete => &mut new,
            PathRemoval::Untrack => &mut own,
        };
        list.push(' ');
        list.push_str(&pathspec(path));
    }
    let mut steps = vec![format!("reset --soft {commit}^")];
    for (list, option) in [(new, ""), (own, "--cached ")] {
        if !list.is_empty() {
            steps.push(format!("rm -rfq {option}--ignore-unmatch --{list}"));
        }
    }
    if !old.is_empty() {
        // A merge is judged by what git would have merged.
        let source = if is_merge {
            format!("$({git} merge-tree --write-tree {commit}^1 {commit}^2 | sed 1q)")
        } else {
            format!("{commit}^")
        };
        steps.push(format!("restore --source={source} --staged --worktree --{old}"));
    }
    let steps: Vec<_> = steps.iter().map(|step| format!("{git} {step}")).collect();
    let steps = steps.join(" && ");
    if merges.is_empty() {
        // Where nothing else was committed, git refuses a commit, and none is needed.
        return format!("{steps} && ({git} diff --cached --quiet || {git} commit -C {commit})");
    }
    let brought: Vec<_> =
        merges.iter().flat_map(|(_, brought)| *brought).map(|one| one.to_hex()).collect();
    // As `git merge` says what is being merged.
    format!(
        "{steps} && printf '%s\\n' {} >\"$({git} rev-parse --absolute-git-dir)/MERGE_HEAD\" && {git} commit -C {commit}",
        brought.join(" ")
    )
}

/// As [`out_of_commit`], of the branch that is checked out, for these commits, parents first. A merge that brought commits of others is
/// taken back first, or their work would become the agent's own; an editor serves where work after it has to be changed, too.
pub fn out_of_branch<'a>(
    commits: &[Oid],
    mut foreign: impl Iterator<Item = &'a Oid>,
    parents: &Parents,
    paths: impl IntoIterator<Item = (&'a [u8], PathRemoval)>,
) -> String {
    let Some(merge) = foreign.find_map(|commit| brought_by(*commit, parents)) else {
        let Some(first) = commits.first() else {
            return String::new();
        };
        if brought_by(*first, parents).is_none() {
            return out_of_commit("", *first, parents, paths);
        }
        // One commit of all that came since would hold what other merges brought, as work of that one.
        let out = out_of_commit("", *first, &Parents::new(), paths);
        let first = first.short();
        return format!(
            "branch=$(git symbolic-ref --short HEAD) && git checkout --quiet --detach {first} && {out} && git rebase --autostash --rebase-merges --onto HEAD {first} \"$branch\""
        );
    };
    let is_after = |it: &Oid| *it != merge && leads_to(*it, merge, parents);
    let is_mixed = commits.iter().any(|it| is_after(it) && brought_by(*it, parents).is_none());
    let merge = merge.short();
    let way = if is_mixed { "--interactive" } else { "--autostash" };
    let end = if is_mixed { format!("{merge}^") } else { format!("--onto {merge}^ {merge}") };
    format!("git rebase {way} --rebase-merges {end}")
}

/// The first merge of a branch that brought a commit; `None` for a commit of the branch's own line.
fn brought_by(commit: Oid, parents: &Parents) -> Option<Oid> {
    let mut found = None;
    for (at, brought) in own_line(parents) {
        if at == commit {
            return None;
        }
        if brought.iter().any(|one| leads_to(*one, commit, parents)) {
            found = Some(at);
        }
    }
    found
}

/// The commits of a branch's own line, newest first, each with what it brought as a merge.
fn own_line(parents: &Parents) -> impl Iterator<Item = (Oid, &[Oid])> {
    let below: HashSet<Oid> = parents.values().flatten().copied().collect();
    let tip = parents.keys().find(|oid| !below.contains(oid)).copied();
    let step = |at: Oid| match parents.get(&at)?.as_slice() {
        [line, brought @ ..] => Some((at, *line, brought)),
        [] => None,
    };
    std::iter::successors(tip.and_then(step), move |(_, line, _)| step(*line))
        .map(|(at, _, brought)| (at, brought))
}

/// The parents of every commit that a branch has and its base lacks.
pub type Parents = HashMap<Oid, Vec<Oid>>;

/// The merges among a commit and those above it, each with what it brought, oldest first; none where they brought the commit too.
fn merges_since(first: Oid, parents: &Parents) -> Vec<(Oid, &[Oid])> {
    let mut merges = Vec::new();
    for (at, brought) in own_line(parents) {
        if !brought.is_empty() {
            merges.push((at, brought));
        }
        if at == first {
            merges.reverse();
            return merges;
        }
        if brought.iter().any(|one| leads_to(*one, first, parents)) {
            break;
        }
    }
    Vec::new()
}

fn leads_to(from: Oid, to: Oid, parents: &Parents) -> bool {
    let (mut open, mut seen) = (vec![from], HashSet::new());
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(parents.get(&at).into_iter().flatten());
        }
    }
    false
}

/// The command that takes back a change that is not committed: of a file that git does not track, of one that was added to the index, or of
/// one that HEAD has. `prefix` is the top of the worktree with a final slash, for a caller who stands elsewhere.
pub fn out_of_worktree(elsewhere: &str, prefix: &[u8], kind: ChangeKind, path: &[u8]) -> String {
    match kind {
        ChangeKind::Untracked => format!("rm -r -- {}", shell::word(&[prefix, path].concat())),
        ChangeKind::Added => format!("git{elsewhere} rm --force -- {}", pathspec(path)),
        _ => format!(
            "git{elsewhere} restore --source=HEAD --staged --worktree -- {}",
            pathspec(path)
        ),
    }
}

/// How the advice begins whose command takes something back: typed in another worktree, it would take back what is there.
pub const IN_WORKTREE: &str = "in the agent's worktree, run ";

/// Such an advice.
pub fn in_worktree(command: &str) -> String {
    format!("{IN_WORKTREE}{command}")
}

/// A path as an argument that git takes for exactly this path.
pub fn pathspec(path: &[u8]) -> String {
    let magic = path.first() == Some(&b':') || path.iter().any(|byte| b"*?[\\".contains(byte));
    if magic { shell::word(&[b":(literal)", path].concat()) } else { shell::word(path) }
}
