//! The commits of a target: the change that each makes, and what their messages say of agents' work: that it came there, and that it was taken
//! back. A message proves nothing alone. It says where to look, and the trees tell.

use super::replay::{Replay, goes_on_from};
use super::spawn_commit::own_line;
use crate::domain::life::operation::Reverted;
use crate::domain::{Agent, Oid};
use crate::error::{Error, Result};
use crate::git::{Commit, Repo};
use crate::store::chain::remote_names::load_clone_id;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The paths of a change.
pub(in crate::store) type Paths = BTreeSet<Vec<u8>>;

/// The change that a commit makes to the one before it.
pub struct CommitChange {
    pub(in crate::store) commit: Commit,
    pub(in crate::store) before: Commit,
    paths: OnceCell<Paths>,
}

impl CommitChange {
    /// That of a commit with one parent; `None` for every other one, and where the parent is not here.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub(in crate::store) fn of(repo: &Repo, commit: Commit) -> Result<Option<CommitChange>> {
        let [parent] = commit.parents[..] else {
            return Ok(None);
        };
        if !repo.has_object(parent) {
            return Ok(None);
        }
        Ok(Some(CommitChange::between(repo.read_commit(parent)?, commit)))
    }

    /// That from any commit to another.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn from_to(repo: &Repo, before: Oid, commit: Oid) -> Result<CommitChange> {
        Ok(CommitChange::between(repo.read_commit(before)?, repo.read_commit(commit)?))
    }

    pub(in crate::store) fn between(before: Commit, commit: Commit) -> CommitChange {
        CommitChange { commit, before, paths: OnceCell::new() }
    }

    /// The paths that it changes.
    pub(in crate::store) fn paths(&self, repo: &Repo) -> Result<&Paths> {
        if let Some(paths) = self.paths.get() {
            return Ok(paths);
        }
        let paths = repo.changed_paths(self.before.tree, self.commit.tree)?;
        Ok(self.paths.get_or_init(|| paths))
    }

    /// Whether it is no merge, and changes something of those paths and nothing besides.
    pub(in crate::store) fn touches_only(&self, repo: &Repo, touched: &Paths) -> Result<bool> {
        Ok(self.commit.parents.len() <= 1 && self.stays_within(repo, touched)?)
    }

    /// Whether it changes something, and only what was `touched`.
    pub(in crate::store) fn stays_within(&self, repo: &Repo, touched: &Paths) -> Result<bool> {
        Ok(self.commit.tree != self.before.tree && self.paths(repo)?.is_subset(touched))
    }

    /// Whether it makes the change that merging `tip` in its place would have made, or the one that `tip` holds.
    pub(in crate::store) fn lands(&self, repo: &Repo, tip: Oid) -> Result<bool> {
        let Some(fork) = repo.merge_base(self.before.oid, tip)? else {
            return Ok(false);
        };
        self.brings(repo, (fork, tip))
    }

    /// Whether it makes another change again, or the very opposite of that; `None` where it does neither.
    fn repeats(&self, repo: &Repo, other: &CommitChange) -> Result<Option<bool>> {
        // Paths first, because a patch id takes reading every file that differs.
        if self.paths(repo)?.is_empty() || self.paths(repo)? != other.paths(repo)? {
            return Ok(None);
        }
        let own = repo.patch_id(self.before.tree, self.commit.tree)?;
        let (before, after) = (other.before.tree, other.commit.tree);
        if own == repo.patch_id(before, after)? {
            return Ok(Some(true));
        }
        Ok((own == repo.patch_id(after, before)?).then_some(false))
    }

    /// Whether it makes the change from one commit to the other, or the one that merging that in its place would have made.
    pub(in crate::store) fn brings(&self, repo: &Repo, (from, tip): (Oid, Oid)) -> Result<bool> {
        let (old, new) = (repo.tree_of(from)?, repo.tree_of(tip)?);
        // The cheaper question first: the other one takes a merge.
        if repo.patch_id(old, new)? == repo.patch_id(self.before.tree, self.commit.tree)? {
            return Ok(true);
        }
        let merged = repo.merge(self.before.oid, tip)?.result.clean();
        Ok(merged == Some(self.commit.tree))
    }
}

/// The newest commits of a branch along first parents, newest first, back to the oldest of `starts`; without any, as many as are searched.
///
/// # Errors
/// `repo-corrupt`.
pub(in crate::store) fn first_parents(
    repo: &Repo,
    tip: Oid,
    mut starts: BTreeSet<Oid>,
) -> Result<Vec<CommitChange>> {
    let (mut line, mut commit) = (Vec::new(), repo.read_commit(tip)?);
    while line.len() < SEARCHED {
        if starts.remove(&commit.oid) && starts.is_empty() {
            break;
        }
        // A shallow clone ends somewhere.
        let parent = commit.parents.first().copied();
        let Some(parent) = parent.filter(|oid| repo.has_object(*oid)) else {
            break;
        };
        let before = repo.read_commit(parent)?;
        line.push(CommitChange::between(before.clone(), commit));
        commit = before;
    }
    Ok(line)
}

/// How many comparisons of a commit with a part of a branch may be in vain: each may take a merge.
const MISSED: usize = 64;

/// A commit that brought a part of an agent's branch.
pub(in crate::store) struct LandingStep {
    pub(in crate::store) change: CommitChange,
    /// The commit of the branch up to which it did.
    pub(in crate::store) own: Oid,
    is_taken_back: bool,
}

/// Which of the named commits bring parts of a branch, given where that begins and its commits, the newest first: each goes on where the
/// one before it ends. What it brings may be the same up to several commits, as where one takes back what was on the target before, so its message is
/// asked first, which tells of as many as it has subjects of; people edit it.
pub(in crate::store) fn steps_of(
    repo: &Repo,
    (begins, own): (Oid, &[Oid]),
    named: Vec<(Oid, bool)>,
) -> Result<Vec<LandingStep>> {
    let mut rest = Vec::new();
    let mut touched = Paths::new();
    for oid in own.iter().rev() {
        let commit = repo.read_commit(*oid)?;
        if let Some(parent) = commit.parents.first() {
            touched.append(&mut repo.changed_paths(repo.tree_of(*parent)?, commit.tree)?);
        }
        rest.push(commit);
    }
    let (mut rest, mut from) = (rest.as_slice(), begins);
    let (mut landings, mut missed) = (Vec::new(), 0);
    for (named, is_taken_back) in named {
        let change = CommitChange::of(repo, repo.read_commit(named)?)?;
        let Some(change) = change else { continue };
        if !change.touches_only(repo, &touched)? {
            continue;
        }
        let count = told(&change.commit.message, rest);
        let ends = (1..=count).rev().chain(count + 1..=rest.len());
        for end in ends {
            let (part, after) = rest.split_at(end);
            let Some(last) = part.last().filter(|_| missed < MISSED) else {
                break;
            };
            if change.brings(repo, (from, last.oid))? {
                (rest, from) = (after, last.oid);
                landings.push(LandingStep { change, own: from, is_taken_back });
                break;
            }
            missed += 1;
        }
    }
    Ok(landings)
}

/// How many commits of a branch, parents first, a message tells of by their subjects, each on a line: it is the message of one of them, or what a forge
/// or git itself makes of several. A merge changes nothing of its own, and need not be told of.
fn told(message: &str, own: &[Commit]) -> usize {
    let mut subjects: HashMap<&str, usize> = HashMap::new();
    for line in message.lines() {
        *subjects.entry(subject(line)).or_default() += 1;
    }
    let mut count = 0;
    for (at, commit) in own.iter().enumerate() {
        let own = subject(commit.message.lines().next().unwrap_or_default());
        match subjects.get_mut(own).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                count = at + 1;
            }
            None if commit.parents.len() > 1 => {}
            None => break,
        }
    }
    count
}

/// A line as the subject that it may be: without the mark of a list, and without the number that a forge adds.
fn subject(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("* ").or_else(|| line.strip_prefix("- ")).unwrap_or(line);
    let number = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    let is_number = |text: &str| {
        let digits = text.strip_prefix(['#', '!']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    number.filter(|(_, number)| is_number(number)).map_or(line, |(line, _)| line)
}

/// Whether all of these landings, or the whole change that they make between two commits, was taken back and not made again. Not each message says
/// what its commit takes back, and what of several is gone only in part has landed.
pub(in crate::store) fn are_taken_back(
    repo: &Repo,
    mut landings: Vec<LandingStep>,
    (begins, own): (Oid, Oid),
    target: Oid,
) -> Result<bool> {
    let whole = CommitChange::from_to(repo, begins, own)?;
    let first = landings.first().map(|first| first.change.commit.oid);
    for since in repo.commits_between(first.as_slice(), target)? {
        let Some(change) = CommitChange::of(repo, repo.read_commit(since)?)? else {
            continue;
        };
        let of_all = change.repeats(repo, &whole)?;
        for landing in &mut landings {
            let again =
                of_all.map_or_else(|| change.repeats(repo, &landing.change), |it| Ok(Some(it)));
            if let Some(is_again) = again? {
                landing.is_taken_back = !is_again;
            }
        }
    }
    Ok(landings.iter().all(|landing| landing.is_taken_back))
}

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

/// How many commits of a target are searched.
const SEARCHED: usize = 1000;

/// How the message that `git revert` writes names the commit that it takes back.
const REVERTS: &str = "This reverts commit ";

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
pub struct TargetMessages(RefCell<HashMap<Oid, Rc<Said>>>);

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
                (Rc::new(Said::read(repo, &line)?), line)
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

    fn on(&self, repo: &Repo, target: Oid) -> Result<Rc<Said>> {
        if let Some(known) = self.0.borrow().get(&target) {
            return Ok(Rc::clone(known));
        }
        let said = Rc::new(Said::read(repo, &repo.newest_commits(target, SEARCHED)?)?);
        self.0.borrow_mut().insert(target, Rc::clone(&said));
        Ok(said)
    }
}

/// The names of commits that a commit says it takes back, as the message of `git revert` does.
pub(in crate::store) fn reverted_by(commit: &Commit) -> Vec<String> {
    let reverts = commit.message.lines().filter_map(|line| line.strip_prefix(REVERTS));
    let names = reverts.map(|rest| rest.chars().take_while(char::is_ascii_hexdigit).collect());
    names.filter(|name: &String| name.len() >= ABBREVIATED).collect()
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

/// The shortest name that a message is taken to name a commit by; git's own are not shorter.
const ABBREVIATED: usize = 7;

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
