//! What took the landing of a branch back on its target. The messages of a target's commits say of agents' work that it came there, and that it
//! was taken back. A message proves nothing alone. It says where to look, and the trees tell.

use super::commit_change::{SEARCHED, reverted_by, steps_of};
use super::replay::{Replay, goes_on_from};
use super::spawn_commit::own_line;
use crate::domain::life::operation::Reverted;
use crate::domain::{Agent, Oid};
use crate::error::{Error, Result};
use crate::git::{Commit, Repo};
use crate::store::chain::remote_names::load_clone_id;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What took a landing of a branch with that tip back on `target`, where the history of `target` has commits of the branch still: merging
/// it again brings nothing of what they changed. What landed in another form, such as a squash, is brought again.
///
/// # Errors
/// As [`Replay::of`].
pub fn reverted_on(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<Option<Reverted>> {
    // Nothing has come to a target that is where the agent began.
    if agent.base.as_ref().is_none_or(|base| base.oid == target) {
        return Ok(None);
    }
    let Some(back) = TargetMessages::default().taken_back(repo, agent, target, tip)? else {
        return Ok(None);
    };
    let is_held = match back.form {
        LandingForm::Branch => is_in_history(repo, agent, target, tip)?,
        LandingForm::Updated => true,
        LandingForm::Other => false,
    };
    if !is_held {
        return Ok(None);
    }
    // What another clone did is taken back there, and here as git takes any commit back; so is what something stands on by now.
    let own = load_clone_id(repo.common_dir())?;
    let is_by_own = |it: &Reverted| it.commit == target && target == back.commit && it.clone == own;
    let by_own = agent.reverted.clone().filter(is_by_own);
    let by_hand = Reverted { commit: back.commit, operation: None, clone: None };
    Ok(Some(by_own.unwrap_or(by_hand)))
}

/// Whether the history of `target` has commits of the branch, or what stands for them.
fn is_in_history(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<bool> {
    let is_below = |oid| Ok::<_, Error>(repo.has_object(oid) && repo.is_ancestor(oid, target)?);
    if is_below(agent.spawn_commit)? {
        return Ok(true);
    }
    let replay = Replay::of(repo, agent, target, tip)?;
    // What it was built upon may have landed without it.
    let started = agent.base.as_ref().map(|base| base.oid);
    let own = started.and_then(|started| repo.line(started, tip));
    let is_own = |oid: &Oid| own.as_ref().is_none_or(|own| own.iter().any(|one| one.oid == *oid));
    let first = replay.commits().iter().find(|(old, ..)| is_own(old));
    first.map_or(Ok(false), |(_, first, _)| is_below(*first))
}

/// What took a landing back.
pub struct TakenBack {
    /// The commit that did it.
    pub commit: Oid,
    /// In which form the target had got it.
    form: LandingForm,
}

/// In which form a target got work.
#[derive(Clone, Copy)]
enum LandingForm {
    /// As the commits of the branch, or by a merge of them.
    Branch,
    /// As a commit of another form, such as a squash, that an update has brought into the branch.
    Updated,
    /// As a commit that is none of the branch, so that the branch is merged again as if it had never landed.
    Other,
}

/// So many commits of a target are read each time, rather than the newest of all once.
const FEW: usize = 64;

/// What the messages of commits say that they take back: names of commits, shortened or not.
type NamedIn = HashMap<Oid, Vec<String>>;

/// What the messages of commits say.
#[derive(Default)]
struct Said {
    reverts: NamedIn,
    messages: HashMap<Oid, String>,
}

impl Said {
    fn read(repo: &Repo, commits: &[Oid]) -> Result<Said> {
        let mut said = Said::default();
        for oid in commits {
            let commit = repo.read_commit(*oid)?;
            let names = reverted_by(&commit);
            if !names.is_empty() {
                said.reverts.insert(*oid, names);
            }
            said.messages.insert(*oid, commit.message);
        }
        Ok(said)
    }
}

/// The messages on any number of targets; those of each are read once.
#[derive(Default)]
pub struct TargetMessages(Mutex<HashMap<Oid, Arc<Said>>>);

impl TargetMessages {
    /// The commits on `target` whose messages name an agent by its id, as a forge repeats the trailers of its commits, the oldest first. Each with
    /// whether another message says that it was taken back.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-failed`.
    pub(in crate::store) fn naming(
        &self,
        repo: &Repo,
        agent: &Agent,
        target: Oid,
    ) -> Result<Vec<(Oid, bool)>> {
        let Some(base) = &agent.base else {
            return Ok(Vec::new());
        };
        let id = agent.id.to_string();
        // Mostly the target has a few commits since, or nothing names it: then no more of history is read. The order of dates is not that of parents.
        let few = repo.line(base.oid, target).filter(|line| line.len() <= FEW);
        let (said, line) = match few {
            Some(few) => {
                let line: Vec<Oid> = few.into_iter().map(|lineage| lineage.oid).collect();
                (Arc::new(Said::read(repo, &line)?), line)
            }
            None => {
                let said = self.on(repo, target)?;
                if !said.messages.values().any(|text| text.contains(&id)) {
                    return Ok(Vec::new());
                }
                (said, repo.commits_between(&[base.oid], target)?)
            }
        };
        let names = |oid: &Oid| said.messages.get(oid).is_some_and(|text| text.contains(&id));
        let reverts = RevertMessages::of(repo, &said.reverts, &line, &[])?;
        let naming = line.iter().copied().filter(names);
        Ok(naming.map(|oid| (oid, reverts.name(oid))).collect())
    }

    /// The commit on `target` that took back what a landing of the branch brought: by an undo, or as `git revert` does, where it names the merge
    /// that brought it, the commit that the row names, or each of its commits. What was there again since is not taken back, by whichever commit it
    /// came, and nor is what the branch itself brings back. Of a commit by hand only the message tells, and only the newest are read.
    ///
    /// # Errors
    /// As [`Replay::of`].
    pub fn taken_back(
        &self,
        repo: &Repo,
        agent: &Agent,
        target: Oid,
        tip: Oid,
    ) -> Result<Option<TakenBack>> {
        let said = self.on(repo, target)?;
        // Mostly nothing took anything back, and then no history is walked.
        match &agent.base {
            Some(base) if agent.reverted.is_some() || !said.reverts.is_empty() => {
                let named = self.naming(repo, agent, target)?;
                let remade = remade(repo, agent, tip, named)?;
                taken_back(repo, agent, (base.oid, target), tip, (&said.reverts, &remade))
            }
            _ => Ok(None),
        }
    }

    fn on(&self, repo: &Repo, target: Oid) -> Result<Arc<Said>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = known.get(&target) {
            return Ok(Arc::clone(said));
        }
        let said = Arc::new(Said::read(repo, &repo.newest_commits(target, SEARCHED)?)?);
        known.insert(target, Arc::clone(&said));
        Ok(said)
    }
}

/// Which of the commits that name an agent brought parts of its branch, as a forge does of whose merge no row tells, where any is taken back.
fn remade(repo: &Repo, agent: &Agent, tip: Oid, named: Vec<(Oid, bool)>) -> Result<Vec<Oid>> {
    let line = || own_line(repo, tip, agent);
    let is_any_back = named.iter().any(|(_, is_taken_back)| *is_taken_back);
    let Some((mut own, ground)) = is_any_back.then(line).flatten() else {
        return Ok(Vec::new());
    };
    let last = agent.landed_tip.filter(|last| repo.has_object(*last));
    let from = last.map_or(Ok(None), |last| goes_on_from(repo, agent, last, tip))?;
    let begins = from.unwrap_or(ground);
    own.truncate(own.iter().position(|oid| *oid == begins).unwrap_or(own.len()));
    let steps = steps_of(repo, (begins, &own), named)?;
    Ok(steps.into_iter().map(|step| step.change.commit.oid).collect())
}

fn taken_back(
    repo: &Repo,
    agent: &Agent,
    (base, target): (Oid, Oid),
    tip: Oid,
    (named, remade): (&NamedIn, &[Oid]),
) -> Result<Option<TakenBack>> {
    let line = repo.commits_between(&[base], target)?;
    let newest = repo.commits_between(&[target], tip)?;
    let reverts = RevertMessages::of(repo, named, &line, &newest)?;
    let all = [line.as_slice(), &newest].concat();
    if let Some(Reverted { commit, .. }) = &agent.reverted
        && line.contains(commit)
        && !reverts.name(*commit)
        && !is_brought_back(repo, *commit, None, &all)?
    {
        return Ok(Some(TakenBack { commit: *commit, form: LandingForm::Branch }));
    }
    if reverts.0.iter().all(|(_, by)| by.is_none()) {
        return Ok(None);
    }
    let replay = Replay::of(repo, agent, target, tip)?;
    let own = replay.own_changes(repo, base, tip)?;
    let names = replay.commits().iter().flat_map(|(old, new, _)| [*old, *new]);
    let names: HashSet<Oid> = names.chain([agent.spawn_commit]).chain(agent.landed_tip).collect();
    let mut last = None;
    for oid in &line {
        let Some(by) = reverts.by(*oid) else { continue };
        let commit = repo.read_commit(*oid)?;
        let is_own = own.iter().any(|own| own.contains(oid));
        let is_gone = |own: &Vec<Oid>| own.iter().any(|oid| reverts.name(*oid));
        let is_merge = commit.parents.len() == 2;
        // What the branch has got since has not landed yet.
        let has_landed = |own: &&Vec<Oid>| own.iter().any(|oid| line.contains(oid));
        let is_landing = match commit.parents[..] {
            _ if is_own => own.iter().filter(has_landed).all(is_gone),
            // What was there before it, such as what another branch was begun upon, a merge does not bring.
            [first, second] => {
                let brought = repo.commits_between(&[first], second)?;
                brought.iter().any(|oid| names.contains(oid))
                    && is_work_in(repo, &commit, first, (base, tip))?
            }
            _ => {
                remade.contains(oid)
                    || agent.landed.as_ref().is_some_and(|(landed, _)| landed == oid)
            }
        };
        if is_landing && !is_brought_back(repo, by, Some(&commit), &all)? {
            let form = match is_own || is_merge {
                true => LandingForm::Branch,
                false if repo.is_ancestor(*oid, tip)? => LandingForm::Updated,
                false => LandingForm::Other,
            };
            last = Some(TakenBack { commit: by, form });
        }
    }
    Ok(last)
}

/// The names of commits that are taken back, each with the commit that does it; that is `None` for one of the branch, which `target` lacks.
struct RevertMessages(Vec<(String, Option<Oid>)>);

impl RevertMessages {
    /// Those of these commits, each list parents first; of `on_target` given what is named in its messages.
    fn of(
        repo: &Repo,
        named: &NamedIn,
        on_target: &[Oid],
        on_branch: &[Oid],
    ) -> Result<RevertMessages> {
        let mut reverts = RevertMessages(Vec::new());
        // One that was taken back itself takes nothing back.
        for oid in on_branch.iter().rev().take(SEARCHED) {
            if !reverts.name(*oid) {
                let names = reverted_by(&repo.read_commit(*oid)?);
                reverts.0.extend(names.into_iter().map(|name| (name, None)));
            }
        }
        for oid in on_target.iter().rev() {
            if let Some(names) = named.get(oid)
                && !reverts.name(*oid)
            {
                reverts.0.extend(names.iter().map(|name| (name.clone(), Some(*oid))));
            }
        }
        Ok(reverts)
    }

    /// Whether one of them names a commit.
    fn name(&self, oid: Oid) -> bool {
        self.newest(oid).is_some()
    }

    /// The commit on `target` that is the newest to name it.
    fn by(&self, oid: Oid) -> Option<Oid> {
        self.newest(oid)?.1
    }

    fn newest(&self, oid: Oid) -> Option<&(String, Option<Oid>)> {
        let digits = oid.to_string();
        self.0.iter().find(|(name, _)| digits.starts_with(name))
    }
}

/// Whether what a merge changed in `first` is of the work between `start` and `tip`: nothing else, or a file just as the work has it. Where the
/// work has landed without its spawn commit, a merge of what was built upon it brings its commits, and none of its changes.
fn is_work_in(repo: &Repo, merge: &Commit, first: Oid, (start, tip): (Oid, Oid)) -> Result<bool> {
    let work: HashSet<_> = repo.changed_paths(repo.tree_of(start)?, repo.tree_of(tip)?)?;
    let differing: HashSet<Vec<u8>> = repo.changed_paths(repo.tree_of(tip)?, merge.tree)?;
    let brought: HashSet<_> = repo.changed_paths(repo.tree_of(first)?, merge.tree)?;
    Ok(brought.is_subset(&work)
        || work.intersection(&brought).any(|path| !differing.contains(path)))
}

/// Whether `by` left what the landing changed as it was, or all of it if none is given, or one of these commits that stands on it has that as
/// it was before. The commits are in order, parents first.
fn is_brought_back(
    repo: &Repo,
    by: Oid,
    landing: Option<&Commit>,
    commits: &[Oid],
) -> Result<bool> {
    let below = |commit: &Commit| -> Result<Option<Oid>> {
        let parent = commit.parents.first();
        parent.map(|parent| repo.tree_of(*parent)).transpose()
    };
    let back = repo.read_commit(by)?;
    let Some(before) = below(&back)? else {
        return Ok(false);
    };
    let mut taken = repo.differences(back.tree, before)?;
    if let Some(landing) = landing {
        let changes = repo.tree_changes(below(landing)?.as_slice(), landing.tree)?;
        let landed: HashSet<_> = changes.iter().map(|change| &change.path).collect();
        taken.retain(|one| landed.contains(&one.path));
    }
    let is_there = |tree: Oid| -> Result<bool> {
        for one in &taken {
            let entry = repo.entry_at(tree, &String::from_utf8_lossy(&one.path))?;
            if entry.map(|entry| entry.oid) != one.new.map(|(_, oid)| oid) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if taken.is_empty() {
        return Ok(true);
    }
    let mut since = HashSet::from([by]);
    for oid in commits.iter().skip_while(|oid| **oid != by).skip(1) {
        let commit = repo.read_commit(*oid)?;
        if commit.parents.iter().any(|parent| since.contains(parent)) {
            if is_there(commit.tree)? {
                return Ok(true);
            }
            since.insert(*oid);
        }
    }
    Ok(false)
}
