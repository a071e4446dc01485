//! Which agents' work a branch has already, proved from objects and asked for all of them at once.
//!
//! Work has landed when its tip, or what stands for it without the spawn commit ([`replay`]), is an ancestor of the branch; when every path that it changed is there as it left it; when
//! merging it would change nothing; when the commit that its row names is on the branch, and merging the work into that
//! commit's parent makes just that commit's tree; or when merging it conflicts and the branch itself, since the agent
//! started, has one commit that makes exactly the same change, or one for each of the work's commits: squashed or rebased, and
//! then built upon. The last is looked for among the newest commits only, and white space counts. What is not known counts as
//! not landed, and so does an agent that has committed nothing, and work that a commit on top took back.

use super::commit_change::{CommitChange, are_taken_back, first_parents, makes_the_same, steps_of};
use super::replay::Replay;
use super::taken_back::TargetMessages;
use super::{replay, spawn_commit};
use crate::domain::{Agent, AgentId, Change, ChangeKind, Oid};
use crate::error::{Error, Result};
use crate::git::history::gained::Gained;
use crate::git::{Repo, Tip};
use std::collections::{BTreeSet, HashMap};

/// So many of the newest landings are proved of which other clones tell: a row may claim any number, and each takes git a while.
const MOST_CLAIMS: usize = 128;

/// What is known of each agent, or why nothing is.
pub type Answers = HashMap<AgentId, Result<bool>>;

/// Committed work whose landing is in question.
struct UnlandedWork<'a> {
    agent: &'a Agent,
    tip: Oid,
    /// Where it began.
    started: Oid,
    /// From where its change counts: what landed before is none.
    from: Oid,
    /// Whether it goes on beyond a landing by what the branch has not.
    goes_on: bool,
}

/// Whether the branch that an agent's row says it was merged into has its work, whose `tip` is given: here, or as it was fetched from a remote.
/// A row `from_elsewhere` does not choose that branch: it could name one that merely holds the work, such as the agent's
/// own. It has to be the branch that the agent started from.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub fn as_claimed(
    repo: &Repo,
    agent: &Agent,
    tip: Option<Oid>,
    from_elsewhere: bool,
) -> Result<bool> {
    let (Some((_, into)), Some(tip)) = (&agent.landed, tip) else {
        return Ok(false);
    };
    let base = agent.base.as_ref().and_then(|base| base.refname.as_ref());
    let tip = if from_elsewhere { tip } else { top(repo, agent, tip)? };
    // The agent's own branch always holds the work, which proves no landing.
    if agent.branch.as_ref() == Some(into) || from_elsewhere && base != Some(into) {
        return Ok(false);
    }
    let copies = std::iter::once_with(|| copies_ahead(repo, into)).flatten();
    for target in std::iter::once(into.clone()).chain(copies) {
        let answer = landed(repo, vec![(agent, tip, target)]);
        if answer.into_values().next().unwrap_or(Ok(false))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a landing of which another clone told is proved here, of a branch that is at `tip`: with that or with the tip that landed, from which
/// the branch goes on.
///
/// # Errors
/// As [`as_claimed`].
pub fn is_proved_elsewhere(repo: &Repo, agent: &Agent, tip: Option<Oid>) -> Result<bool> {
    if as_claimed(repo, agent, tip, true)? {
        return Ok(true);
    }
    let (Some(tip), Some(last)) = (tip, agent.landed_tip) else {
        return Ok(false);
    };
    let is_own = repo.has_object(last) && spawn_commit::is_held_by(repo, last, agent);
    Ok(is_own
        && replay::goes_on_from(repo, agent, last, tip)?.is_some()
        && as_claimed(repo, agent, Some(last), true)?)
}

/// The commit by which an agent whose branch is at `tip` landed last on what is at `target`, and the tip that it brought. A landing that was reset away
/// there is none; of one that is not here, as in a shallow or partial clone, nothing can be proved.
///
/// # Errors
/// `git-failed`.
pub fn last(
    repo: &Repo,
    agent: &Agent,
    (target, tip): (Oid, Oid),
    messages: &TargetMessages,
) -> Result<Option<(Oid, Oid)>> {
    let recorded = recorded(repo, agent, target)?;
    if agent.base.as_ref().is_some_and(|base| base.oid == target) {
        return Ok(recorded);
    }
    // Of what a forge merged no row may tell yet; what stands for its commits does, and so does what it made of them.
    let merged = Replay::of(repo, agent, target, tip)?.last_held(repo, target)?;
    let merged = merged.filter(|(_, own)| spawn_commit::is_held_by(repo, *own, agent));
    let known = match (recorded, merged) {
        (Some((_, tip)), Some((_, own))) if repo.is_ancestor(own, tip)? => recorded,
        (_, Some(_)) => merged,
        (_, None) => recorded,
    };
    remade(repo, agent, known, (target, tip), messages)
}

/// The newest landing of which the agent's row tells that `target` has.
fn recorded(repo: &Repo, agent: &Agent, target: Oid) -> Result<Option<(Oid, Oid)>> {
    let last = agent.landed.as_ref().map(|(landed, _)| *landed).zip(agent.landed_tip);
    let newest = last.into_iter().chain(agent.landed_before.iter().rev().copied());
    let (mut recorded, mut told, mut claims) = (None, Vec::new(), 0);
    for landing in newest {
        let is_own = agent.landed_here.contains(&landing.0);
        claims += usize::from(!is_own);
        let is_here = repo.has_object(landing.0) && repo.has_object(landing.1);
        if !is_own && claims > MOST_CLAIMS || !is_here || !repo.is_ancestor(landing.0, target)? {
            continue;
        }
        if is_own {
            recorded = Some(landing);
            break;
        }
        told.push(landing);
    }
    // Each begins where the one before it ends.
    for landing in told.into_iter().rev() {
        if is_proved(repo, agent, recorded, landing)? {
            recorded = Some(landing);
        }
    }
    Ok(recorded)
}

/// Whether a commit brought an agent's branch up to a tip, beyond what landed `before`: it holds the tip, or what stands for that, or makes the
/// change. Anyone who may push the ledger can write a row that says so of any commit.
fn is_proved(
    repo: &Repo,
    agent: &Agent,
    before: Option<(Oid, Oid)>,
    (commit, tip): (Oid, Oid),
) -> Result<bool> {
    if !spawn_commit::is_held_by(repo, tip, agent) {
        return Ok(false);
    }
    if repo.is_ancestor(tip, commit)? || replay::is_held(repo, agent, commit, tip)? {
        return Ok(true);
    }
    let from = match before {
        Some((_, last)) => replay::goes_on_from(repo, agent, last, tip)?,
        None => spawn_commit::own_line(repo, tip, agent).map(|(_, ground)| ground),
    };
    let parent = repo.read_commit(commit)?.parents.first().copied();
    let (Some(from), Some(parent)) = (from, parent.filter(|oid| repo.has_object(*oid))) else {
        return Ok(false);
    };
    let change = CommitChange::from_to(repo, parent, commit)?;
    Ok(change.commit.tree != change.before.tree && change.brings(repo, (from, tip))?)
}

/// The landing of more of an agent's branch than `known` brought, where `target` has that in another form: as commits that name the agent and
/// bring just what the branch had beyond the landing before, up to one of its commits. So a forge squashes a pull request or rebases it.
/// `known` where there is none, and where that was taken back.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
fn remade(
    repo: &Repo,
    agent: &Agent,
    known: Option<(Oid, Oid)>,
    (target, tip): (Oid, Oid),
    messages: &TargetMessages,
) -> Result<Option<(Oid, Oid)>> {
    let mut named = messages.naming(repo, agent, target)?;
    if let Some((landed, _)) = known {
        named.retain(|(oid, _)| !repo.is_ancestor(*oid, landed).unwrap_or(false));
    }
    // Mostly none does.
    if named.is_empty() {
        return Ok(known);
    }
    let Some((own, ground)) = spawn_commit::own_line(repo, tip, agent) else {
        return Ok(known);
    };
    let begins = match known {
        Some((_, last)) => replay::goes_on_from(repo, agent, last, tip)?,
        None => Some(ground),
    };
    let Some(begins) = begins else {
        return Ok(known);
    };
    let own: Vec<Oid> = own.into_iter().take_while(|oid| *oid != begins).collect();
    // A branch that was rebased onto what the target has not is no work that came there, such as its old form. Where it began, it may stand on
    // another agent's branch, or on what its owner had not committed.
    let below = repo.read_commit(ground).ok().and_then(|below| below.parents.first().copied());
    let mut stands_on = [Some(ground), below].into_iter().flatten();
    let is_held = |oid| repo.has_object(oid) && repo.is_ancestor(oid, target).unwrap_or(false);
    let is_moved = ground != agent.spawn_commit && !stands_on.any(is_held);
    if own.is_empty() || is_moved {
        return Ok(known);
    }
    let landings = steps_of(repo, (begins, &own), named)?;
    let last = landings.last().map(|last| (last.change.commit.oid, last.own));
    match last {
        Some((_, own)) if !are_taken_back(repo, landings, (begins, own), target)? => Ok(last),
        _ => Ok(known),
    }
}

/// The commit that holds all committed work of an agent whose branch is at `tip`: what landed last, where the branch stayed behind that, as
/// that of a clone does.
///
/// # Errors
/// `git-failed`.
pub fn top(repo: &Repo, agent: &Agent, tip: Oid) -> Result<Oid> {
    let last = agent.landed_tip.filter(|last| *last != tip && repo.has_object(*last));
    Ok(match last {
        Some(last) if repo.is_ancestor(tip, last)? => last,
        _ => tip,
    })
}

/// Which branch has the work of each agent, whose tip is given: the one that it started from, or what was last fetched of that
/// from a remote, where a forge may have merged what this clone has not pulled yet.
pub fn found(repo: &Repo, works: &[(&Agent, Oid)]) -> HashMap<AgentId, Result<Option<String>>> {
    let mut found: HashMap<_, _> = works.iter().map(|(agent, _)| (agent.id, Ok(None))).collect();
    let mut copies: HashMap<&str, Vec<String>> = HashMap::new();
    for name in works.iter().filter_map(|(agent, _)| started_from(agent)) {
        copies.entry(name).or_insert_with(|| {
            std::iter::once(name.to_owned()).chain(copies_ahead(repo, name)).collect()
        });
    }
    // One target of each agent at a time, so that agents of one branch share one pass over its
    // history.
    for round in 0..copies.values().map(Vec::len).max().unwrap_or(0) {
        let questions = works.iter().filter_map(|(agent, tip)| {
            let target = copies.get(started_from(agent)?)?.get(round)?;
            let is_open = matches!(found.get(&agent.id), Some(Ok(None)));
            is_open.then(|| (*agent, *tip, target.clone()))
        });
        let questions: Vec<_> = questions.collect();
        let targets: HashMap<_, _> =
            questions.iter().map(|(agent, _, target)| (agent.id, target.clone())).collect();
        for (agent, answer) in landed(repo, questions) {
            let target = targets.get(&agent).cloned();
            found.insert(agent, answer.map(|is_there| target.filter(|_| is_there)));
        }
    }
    found
}

/// The copies of a branch that were fetched from remotes and have commits that it lacks. For the commits of the others the branch
/// answers itself, and it may have taken back since what they brought.
fn copies_ahead(repo: &Repo, branch: &str) -> Vec<String> {
    let own = repo.branch_tip(branch).ok().and_then(Tip::oid);
    let is_behind = |oid: Oid| own.is_some_and(|own| repo.is_ancestor(oid, own).unwrap_or(false));
    let fetched = repo.fetched_branches(branch).unwrap_or_default().into_iter();
    fetched.filter(|(_, oid)| !is_behind(*oid)).map(|(copy, _)| copy).collect()
}

/// The branch that an agent started from.
fn started_from(agent: &Agent) -> Option<&str> {
    agent.base.as_ref()?.refname.as_deref()
}

/// Asks whether a branch has an agent's work, given its tip and the full name of the branch.
pub fn landed(repo: &Repo, questions: Vec<(&Agent, Oid, String)>) -> Answers {
    let mut answers = Answers::new();
    let mut there = Vec::new();
    let mut tips: HashMap<String, Option<Tip>> = HashMap::new();
    for (agent, tip, target) in questions {
        let is = tips.entry(target).or_insert_with_key(|name| repo.branch_tip(name).ok());
        match is.as_ref() {
            Some(Tip::At(oid)) => there.push((agent, tip, *oid)),
            // Absent, or unreadable.
            _ => drop(answers.insert(agent.id, Ok(false))),
        }
    }
    answers.extend(landed_at(repo, there));
    answers
}

/// Asks whether the history of a commit, which a branch is at, has an agent's work, given its tip and that commit.
pub fn landed_at(repo: &Repo, questions: Vec<(&Agent, Oid, Oid)>) -> Answers {
    let mut answers = Answers::new();
    let mut open: HashMap<Oid, Vec<UnlandedWork<'_>>> = HashMap::new();
    let targets = targets(repo, &questions);
    let messages = TargetMessages::default();
    for (agent, tip, base) in questions {
        let gained = targets.get(&base).and_then(Option::as_ref);
        match first_look(repo, agent, tip, (base, gained), &messages) {
            Ok(LandedLook::Answer(landed)) => drop(answers.insert(agent.id, Ok(landed))),
            Ok(LandedLook::Open(work)) => open.entry(base).or_default().push(work),
            Err(error) => drop(answers.insert(agent.id, Err(error))),
        }
    }
    for (base, works) in open {
        // What is in doubt for all of them is not said of any: they are kept.
        let found = look_closer(repo, base, &works).unwrap_or_else(|_| vec![false; works.len()]);
        for (work, is_there) in works.into_iter().zip(found) {
            // What an update brought into the branch merges to nothing, also where the target took it back.
            let is_gone = || messages.taken_back(repo, work.agent, base, work.tip);
            let landed = if is_there { is_gone().map(|gone| gone.is_none()) } else { Ok(false) };
            answers.insert(work.agent.id, landed);
        }
    }
    answers
}

/// The history of each commit that is asked about beside those of all work in question; `None` where one pass cannot tell.
fn targets(repo: &Repo, questions: &[(&Agent, Oid, Oid)]) -> HashMap<Oid, Option<Gained>> {
    let mut tips: HashMap<Oid, Vec<Oid>> = HashMap::new();
    for (agent, tip, base) in questions {
        // Beside a branch that has not moved since no history is asked for.
        if agent.base.as_ref().map(|it| it.oid) != Some(*base) && repo.has_object(*base) {
            tips.entry(*base).or_default().push(*tip);
        }
    }
    let pass = |(base, tips): (Oid, Vec<Oid>)| (base, repo.gained(base, &tips).ok().flatten());
    tips.into_iter().map(pass).collect()
}

enum LandedLook<'a> {
    Answer(bool),
    /// Merging has to tell.
    Open(UnlandedWork<'a>),
}

/// What trees alone can tell.
fn first_look<'a>(
    repo: &Repo,
    agent: &'a Agent,
    tip: Oid,
    (base, gained): (Oid, Option<&Gained>),
    messages: &TargetMessages,
) -> Result<LandedLook<'a>> {
    let not = Ok(LandedLook::Answer(false));
    let Some(began) = &agent.base else {
        return not;
    };
    let objects = [tip, base, began.oid];
    if objects.iter().any(|oid| !repo.has_object(*oid)) {
        return not;
    }
    // A target that has not moved since cannot have taken anything, nor one that the work contains.
    if base == began.oid {
        return not;
    }
    // Its commits are in the history still, and a commit on top took back what they changed.
    if let Some(reverted) = &agent.reverted
        && (!repo.has_object(reverted.commit)
            || messages.taken_back(repo, agent, base, tip)?.is_some())
    {
        return not;
    }
    let (holds_target, is_held) = holding(repo, (base, gained), tip)?;
    if holds_target && base != tip {
        let is_landed = replay::is_level_again(repo, agent, (base, tip))?
            && messages.taken_back(repo, agent, base, tip)?.is_none();
        return Ok(LandedLook::Answer(is_landed));
    }
    if is_only_the_targets(repo, agent, (base, is_held), tip)? {
        return not;
    }
    let (tree, now, then) = (repo.tree_of(tip)?, repo.tree_of(base)?, repo.tree_of(began.oid)?);
    let changes = repo.tree_changes(&[then], tree)?;
    if changes.is_empty() {
        // As after the landing of a commit that takes back what landed before. Nothing can be lost of work that is no change.
        let is_it = agent.landed.as_ref().filter(|_| agent.landed_tip == Some(tip));
        let landing = is_it.map(|(landing, _)| *landing).filter(|oid| repo.has_object(*oid));
        let is_there = landing.map_or(Ok(false), |landing| repo.is_ancestor(landing, base))?;
        return Ok(LandedLook::Answer(is_there));
    }
    let differing: BTreeSet<_> = repo.changed_paths(now, tree)?;
    let is_as_left = |one: &Change| !differing.contains(&one.path);
    let is_in_place = changes.iter().all(is_as_left);
    // Against where it started, work that takes back what landed is no change.
    let from = goes_on_since(repo, agent, (base, tip), messages)?;
    let since =
        from.map_or(Ok(Vec::new()), |from| repo.tree_changes(&[repo.tree_of(from)?], tree))?;
    let goes_on = !since.iter().all(is_as_left);
    // A file that the target renamed is gone as well as one that the work removed.
    let is_moved = || -> Result<bool> {
        let removes = changes.iter().any(|one| one.kind == ChangeKind::Deleted);
        Ok(removes && repo.clean_merges(base, &[tip])? == [None])
    };
    let is_there = is_in_place && !goes_on && !is_moved()?;
    // Of work that goes on, the last landing brought a part.
    let is_brought = || -> Result<bool> {
        let is_last = !goes_on && is_brought(repo, agent, tip, base)?;
        Ok(is_last || replay::is_held(repo, agent, base, tip)?)
    };
    if is_there || is_held || is_brought()? {
        // Of one with an undo it was asked above.
        let is_gone = !is_there
            && agent.reverted.is_none()
            && messages.taken_back(repo, agent, base, tip)?.is_some();
        return Ok(LandedLook::Answer(!is_gone));
    }
    if is_in_place {
        return not;
    }
    // What was there and is as it was: merging would change it.
    let moved: BTreeSet<_> = repo.changed_paths(then, now)?;
    let is_untouched = |one: &Change| one.kind != ChangeKind::Added && !moved.contains(&one.path);
    // Nor was it where all that the work adds is in no change of the branch's: merging adds it.
    let is_apart = changes.iter().all(|one| !moved.contains(&one.path));
    if is_apart || changes.iter().any(is_untouched) {
        return not;
    }
    let from = from.filter(|_| goes_on).unwrap_or(began.oid);
    let work = UnlandedWork { agent, tip, started: began.oid, from, goes_on };
    Ok(LandedLook::Open(work))
}

/// The commit from which a branch goes on since its last landing on `base`; `None` where it did not land, or begins anew.
fn goes_on_since(
    repo: &Repo,
    agent: &Agent,
    (base, tip): (Oid, Oid),
    messages: &TargetMessages,
) -> Result<Option<Oid>> {
    let last = last(repo, agent, (base, tip), messages)?;
    let Some((landed, last)) = last.filter(|(_, last)| *last != tip) else {
        return Ok(None);
    };
    if repo.is_ancestor(landed, tip)? {
        repo.merge_base(base, tip)
    } else {
        replay::goes_on_from(repo, agent, last, tip)
    }
}

/// Whether a tip has nothing but what came from the target, `base`: by an update or a rebase, or because the branch was set to a commit of
/// the target's. The target has that of course, and an agent that has not begun is no landed one.
fn is_only_the_targets(
    repo: &Repo,
    agent: &Agent,
    (base, is_held): (Oid, bool),
    tip: Oid,
) -> Result<bool> {
    let spawn = agent.spawn_commit;
    if !repo.has_object(spawn) {
        return Ok(false);
    }
    let is_below =
        |commit| Ok::<_, Error>(repo.has_object(commit) && repo.is_ancestor(commit, base)?);
    if is_held {
        // A branch that was set to such a commit has none of the agent's, not even the first. After a landing that is no loss.
        let landed = agent.landed.as_ref().map_or(Ok(false), |(commit, _)| is_below(*commit));
        return Ok(!spawn_commit::is_held_by(repo, tip, agent) && !landed?);
    }
    let nonce = spawn_commit::nonce(&repo.read_commit(spawn)?);
    let mut commit = repo.read_commit(tip)?;
    while commit.oid != spawn {
        // With nothing of the agent's below it, the merge of an update is just what the target was, and any other commit is empty.
        let (parent, from) = match commit.parents[..] {
            [parent] => (parent, parent),
            [parent, merged] if is_below(merged)? => (parent, merged),
            _ => return Ok(false),
        };
        if repo.tree_of(from)? != commit.tree {
            return Ok(false);
        }
        // What a rebase made of the first commit. A rebase onto what was offered of the branch, as with commits of a review, leaves that
        // commit on top, and drops those that are there already.
        if nonce.is_some() && spawn_commit::nonce(&commit) == nonce {
            return Ok(is_below(parent)? && !spawn_commit::is_held_by(repo, parent, agent));
        }
        commit = repo.read_commit(parent)?;
    }
    Ok(true)
}

/// Whether the work holds the branch, and whether the branch holds the work.
fn holding(repo: &Repo, (base, gained): (Oid, Option<&Gained>), tip: Oid) -> Result<(bool, bool)> {
    if let Some(gained) = gained
        && let Some(since) = gained.since(tip)
    {
        return Ok((since == 0, gained.holds(tip)));
    }
    let fork = repo.merge_base(base, tip)?;
    // Only in a shallow clone the history between them may be missing.
    let is_held = fork == Some(tip) || repo.is_shallow() && repo.is_ancestor(tip, base)?;
    Ok((fork == Some(base), is_held))
}

/// Whether the commit that the row names as the landing is on the branch and brought exactly this work.
fn is_brought(repo: &Repo, agent: &Agent, tip: Oid, base: Oid) -> Result<bool> {
    let Some((commit, _)) = agent.landed.as_ref().filter(|(commit, _)| repo.has_object(*commit))
    else {
        return Ok(false);
    };
    let landing = repo.read_commit(*commit)?;
    let Some(parent) = landing.parents.first().filter(|oid| repo.has_object(**oid)) else {
        return Ok(false);
    };
    // An empty commit equals the merge of any work that is there already.
    if repo.tree_of(*parent)? == landing.tree || !repo.is_ancestor(*commit, base)? {
        return Ok(false);
    }
    Ok(repo.clean_merges(*parent, &[tip])? == [Some(landing.tree)])
}

/// What merges and the branch's own commits tell.
fn look_closer(repo: &Repo, tip: Oid, works: &[UnlandedWork<'_>]) -> Result<Vec<bool>> {
    let tree = repo.tree_of(tip)?;
    let tips: Vec<Oid> = works.iter().map(|work| work.tip).collect();
    let merged = repo.clean_merges(tip, &tips)?;
    let unsaid = works.iter().zip(&merged).filter(|(work, tree)| tree.is_none() || work.goes_on);
    let starts: BTreeSet<Oid> = unsaid.map(|(work, _)| work.started).collect();
    let line = if starts.is_empty() { Vec::new() } else { first_parents(repo, tip, starts)? };
    let answer = |(work, merged): (&UnlandedWork<'_>, &Option<Oid>)| match merged {
        // What merges cleanly and would change something is not there, or was taken back. Merged from where it began, what takes back a
        // part of what landed changes nothing.
        Some(merged) if *merged != tree || !work.goes_on => Ok(*merged == tree),
        _ => was_made(repo, &line, work),
    };
    works.iter().zip(&merged).map(answer).collect()
}

/// Whether one commit since the work began makes the same change. Where the line does not lead to the
/// beginning, nothing is known to be since.
fn was_made(repo: &Repo, line: &[CommitChange], work: &UnlandedWork<'_>) -> Result<bool> {
    let first = line.iter().position(|one| one.before.oid == work.started);
    let Some(since) = first.and_then(|first| line.get(..=first)) else {
        return Ok(false);
    };
    makes_the_same(repo, since, work.from, work.tip)
}
