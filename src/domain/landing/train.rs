//! Which of a queue of candidates land, so that the target is green at every step and few checks run.
//!
//! ```text
//! queue ─> stack on what is green ─> check its top ─┬ green: all of it lands
//!                                                   └ red: bisect ─> what is below the culprit lands, the culprit is
//!                                                     accused, the others are stacked anew
//! accused ─> check the same stack again ─┬ green: an accident; it waits for the next stack
//!                                        └ red, as often as excludes an accident: rejected
//! ```
//!
//! A candidate is rejected only if the stack below it was green and the stack with it was red, at least twice, and as often as excludes an
//! accident (`accidents`). One job makes sure at once; several do so in jobs that would be idle, and at the end. A candidate that
//! conflicts with one that is not decided yet waits until that one is; one that conflicts with what has landed is in conflict for good.
//!
//! With more than one job, once a culprit shows that there may be several, the right half of a search is checked on its
//! own beside the left one (`side`). What that finds is a hint: the suspect is decided last, by the same rule.
//!
//! If the target moves meanwhile, nothing more lands, but what is being looked for is found: a search goes on where it is, those that it
//! finds are rejected, and all the others are left for another train on the new target. So no culprit is looked for twice.
//!
//! The number of checks with one job that find culprits is at most `1 + bad × ceil(log2 n) + bad`, one more for each bad candidate that kept
//! another waiting by a conflict, and one more where the target itself has to be checked because nothing was green. Two
//! jobs take at most what one job may take for one bad candidate more. Checks that make sure, and those that tell whether a culprit fails
//! alone or together with another candidate, come on top of these.

#[cfg(test)]
mod tests;
mod track;

use track::{Answers, SideSearch};
pub use track::{Culprit, Purpose, Track, WantedCheck};

/// What became of the candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Landed, in order, unless the target had moved.
    pub landed: Vec<usize>,
    /// Red on top of what was green.
    pub rejected: Vec<usize>,
    /// In conflict with what landed.
    pub conflicting: Vec<usize>,
    /// Not decided: no more checks could run, the target itself is red, or it has moved.
    pub undecided: Vec<usize>,
    /// Whether the target is red without any candidate. None is rejected then.
    pub target_is_red: bool,
}

/// Decides about so many candidates, in the order of their numbers. `jobs` is how many checks run at the same time.
///
/// # Errors
/// The first error of the track. What has landed until then has landed.
pub fn decide<T: Track>(
    track: &mut T,
    start: T::Stack,
    candidates: usize,
    jobs: usize,
) -> Result<Decided, T::Error> {
    let train = Train {
        track,
        jobs: jobs.max(1),
        count: candidates,
        checks: 0,
        green: start.clone(),
        start,
        queue: (0..candidates).collect(),
        suspects: Vec::new(),
        waiting: Vec::new(),
        accused: Vec::new(),
        answers: Answers::new(),
        decided: Decided::default(),
    };
    train.run()
}

/// How a part of the work ended.
enum Step {
    /// There may be more to do.
    On,
    /// No more checks may run, or the target is red.
    Stop,
}

struct Train<'t, T: Track> {
    track: &'t mut T,
    jobs: usize,
    /// How many candidates there are, and how many checks were asked for to find culprits.
    count: usize,
    checks: usize,
    /// The target without any candidate.
    start: T::Stack,
    /// The largest stack that is green; all of it has landed.
    green: T::Stack,
    /// What is to be decided next.
    queue: Vec<usize>,
    /// What a side search suspects; decided after the queue.
    suspects: Vec<usize>,
    /// What conflicts with an undecided one, or was red by accident, for the next stack.
    waiting: Vec<usize>,
    /// What is to be rejected once that is certain.
    accused: Vec<Accused<T::Stack>>,
    answers: Answers<T::Stack>,
    decided: Decided,
}

/// One candidate and the stack that ends with it.
struct Layer<S> {
    candidate: usize,
    stack: S,
}

/// Where a search divides its layers.
struct LayerSplit<'l, S> {
    below: &'l [Layer<S>],
    /// The stack that ends with the last layer below.
    top: &'l S,
    above: &'l [Layer<S>],
}

/// A candidate with which a stack turned red.
struct Accused<S> {
    candidate: usize,
    /// The candidates below it, which are green together.
    below: Vec<usize>,
    stack: S,
    /// The candidate alone on the target, and whether that is green; absent where there is nothing below it.
    alone: Option<S>,
    alone_is_green: Option<bool>,
}

impl<T: Track> Train<'_, T> {
    fn run(mut self) -> Result<Decided, T::Error> {
        loop {
            // On a target that has moved nothing new is stacked.
            let layers = if self.track.has_moved() { Vec::new() } else { self.stack_up()? };
            let step = if !layers.is_empty() {
                self.settle(layers)?
            } else if let Some(suspect) = self.suspects.first() {
                self.settle_suspect(*suspect)?
            } else if !self.accused.is_empty() {
                // One that turns out to be green waits for another stack.
                self.convict()?
            } else {
                break;
            };
            if matches!(step, Step::Stop) {
                break;
            }
        }
        Ok(self.ended())
    }

    /// What is not decided stays so.
    fn ended(mut self) -> Decided {
        let accused = self.accused.into_iter().map(|one| one.candidate);
        let left = accused.chain(self.queue);
        self.decided.undecided = left.chain(self.suspects).chain(self.waiting).collect();
        self.decided.undecided.sort_unstable();
        self.decided.undecided.dedup();
        self.decided
    }

    /// Stacks the queue on what is green. What conflicts waits, or is in conflict for good.
    fn stack_up(&mut self) -> Result<Vec<Layer<T::Stack>>, T::Error> {
        let mut layers: Vec<Layer<T::Stack>> = Vec::new();
        self.queue.append(&mut self.waiting);
        // The order of the candidates is the one in which `overlap` finds fewest conflicts, so what
        // waited goes back to its place.
        self.queue.sort_unstable();
        for candidate in std::mem::take(&mut self.queue) {
            let below = layers.last().map_or(&self.green, |layer| &layer.stack);
            match self.track.push(below, candidate)? {
                Some(stack) => layers.push(Layer { candidate, stack }),
                // In conflict with what has landed, which nothing takes back.
                None if layers.is_empty() => self.decided.conflicting.push(candidate),
                None => self.waiting.push(candidate),
            }
        }
        self.queue = layers.iter().map(|layer| layer.candidate).collect();
        Ok(layers)
    }

    /// Lands all layers, or finds one that is to be rejected.
    fn settle(&mut self, layers: Vec<Layer<T::Stack>>) -> Result<Step, T::Error> {
        let Some(top) = layers.last().map(|layer| layer.stack.clone()) else {
            return Ok(Step::On);
        };
        // The first suspect is checked along with what it will stand on.
        let suspect = match self.suspects.first() {
            Some(suspect) if self.jobs > 1 => self.track.push(&top, *suspect)?,
            _ => None,
        };
        let mut wanted = vec![question(top, Purpose::Whole)];
        wanted.extend(suspect.clone().map(|stack| question(stack, Purpose::Suspect)));
        let answers = self.ask(wanted)?.unwrap_or_default();
        let Some((is_green, more)) = answers.split_first() else {
            return Ok(Step::Stop);
        };
        if !is_green {
            return self.search(&layers);
        }
        self.land(&layers)?;
        self.queue.clear();
        if let (Some(stack), Some(is_green)) = (suspect, more.first()) {
            let candidate = self.suspects.remove(0);
            return self.settle_top(candidate, stack, *is_green);
        }
        Ok(Step::On)
    }

    /// Decides about the first suspect, on what is green.
    fn settle_suspect(&mut self, candidate: usize) -> Result<Step, T::Error> {
        let Some(stack) = self.track.push(&self.green, candidate)? else {
            self.suspects.remove(0);
            self.decided.conflicting.push(candidate);
            return Ok(Step::On);
        };
        let Some(is_green) = self.ask_one(stack.clone(), Purpose::Suspect)? else {
            return Ok(Step::Stop);
        };
        self.suspects.remove(0);
        self.settle_top(candidate, stack, is_green)
    }

    fn settle_top(
        &mut self,
        candidate: usize,
        stack: T::Stack,
        mut is_green: bool,
    ) -> Result<Step, T::Error> {
        if !is_green && self.makes_sure_at_once() {
            match self.stays_red(&stack)? {
                Some(is_red) => is_green = !is_red,
                None => {
                    // It was taken out above and is not decided.
                    self.suspects.push(candidate);
                    return Ok(Step::Stop);
                }
            }
        }
        if is_green {
            self.land(&[Layer { candidate, stack }])?;
        } else {
            self.accuse(candidate, stack)?;
        }
        Ok(Step::On)
    }

    /// Bisects layers whose top is red.
    fn search(&mut self, layers: &[Layer<T::Stack>]) -> Result<Step, T::Error> {
        // What is below these layers landed; with all of them it is red, and was so with each of `above`, last one first.
        let (mut open, mut above) = (layers, Vec::new());
        let mut side = SideSearch::new(self.may_search_aside(layers.len()));
        let culprit = loop {
            let probes = self.probes(open);
            let mut wanted: Vec<_> =
                probes.iter().map(|probe| question(probe.top.clone(), Purpose::Search)).collect();
            let right = probes.last().map_or(&[][..], |probe| probe.above);
            let right: Vec<usize> = right.iter().map(|layer| layer.candidate).collect();
            let aside = side.question(self.track, &self.green, &right)?;
            wanted.extend(aside.map(|stack| question(stack, Purpose::Aside)));
            if wanted.is_empty() {
                let [last] = open else {
                    return Ok(Step::Stop);
                };
                if !self.makes_sure_at_once() {
                    break last;
                }
                match self.stays_red(&last.stack)? {
                    None => return Ok(Step::Stop),
                    Some(true) => break last,
                    Some(false) => {}
                }
                // It was red by accident: the search goes on below the next larger stack that was red.
                self.land(open)?;
                self.queue.retain(|one| *one != last.candidate);
                let Some(next) = above.pop() else {
                    self.suspects.retain(|one| !is_among(*one, layers));
                    return Ok(Step::On);
                };
                open = next;
                continue;
            }
            let Some(answers) = self.ask(wanted)? else {
                return Ok(Step::Stop);
            };
            // A smaller stack that is red says more than a larger one that is green.
            let mut green: &[Layer<_>] = &[];
            for (probe, is_green) in probes.iter().zip(&answers) {
                if !is_green {
                    above.push(probe.above);
                    open = probe.below;
                    break;
                }
                green = probe.below;
            }
            open = open.get(green.len()..).unwrap_or_default();
            // What is green lands at once: the target may move while the search goes on.
            self.land(green)?;
            self.queue.retain(|one| !is_among(*one, green));
            if let Some(is_green) = answers.get(probes.len()) {
                let found = side.answer(*is_green);
                if let Some(suspect) = found.filter(|one| !self.suspects.contains(one)) {
                    self.suspects.push(suspect);
                }
            }
            // Both would search the same layers now.
            if let Some(lowest) = open.first() {
                side.stop_at(lowest.candidate);
            }
        };
        // A second culprit, and nothing was green yet: rather than to search on, see whether it is the target.
        if !self.accused.is_empty() && !self.answers.has_green() && !self.target_is_cleared()? {
            return Ok(Step::Stop);
        }
        self.queue.retain(|one| *one != culprit.candidate && !self.suspects.contains(one));
        // The layers are in the order of their candidates, so these are the culprit and what is below it.
        self.suspects.retain(|one| *one > culprit.candidate || !is_among(*one, layers));
        self.accuse(culprit.candidate, culprit.stack.clone())?;
        Ok(Step::On)
    }

    /// Where to check among layers: evenly spread, one for each job but the one that searches elsewhere.
    fn probes<'l>(&self, layers: &'l [Layer<T::Stack>]) -> Vec<LayerSplit<'l, T::Stack>> {
        let parts = self.jobs.max(2);
        let mut counts: Vec<usize> = (1..parts).map(|part| layers.len() * part / parts).collect();
        counts.dedup();
        let probe = |count| {
            let (below, above) = layers.split_at_checked(count)?;
            let top = &below.last()?.stack;
            Some(LayerSplit { below, top, above })
        };
        counts.into_iter().filter_map(probe).collect()
    }

    /// Whether a second culprit is looked for beside the first: once one was found, while the checks stay within what one culprit more may cost.
    fn may_search_aside(&self, layers: usize) -> bool {
        let found = self.decided.rejected.len() + self.accused.len();
        let known = found + self.suspects.len() + 1;
        let steps = |count: usize| count.next_power_of_two().trailing_zeros() as usize;
        let most = 1 + (known + 1) * (steps(self.count) + 1);
        self.jobs > 1 && found > 0 && self.checks + 2 * (steps(layers) + 1) <= most
    }

    /// Whether what is red is checked again before anything else. One job has no idle ones for it, and where checks fail by accident the
    /// search would go astray.
    fn makes_sure_at_once(&self) -> bool {
        self.jobs == 1 || self.answers.has_accidents()
    }

    /// Checks a red stack again until it is green, or red often enough to go on without what is on its top. That is decided at the end, when more
    /// is known of accidents.
    fn stays_red(&mut self, stack: &T::Stack) -> Result<Option<bool>, T::Error> {
        loop {
            let needed =
                if self.answers.has_accidents() { self.answers.needed(self.count) } else { 2 };
            let left = needed.saturating_sub(self.answers.reds(stack));
            if left == 0 {
                return Ok(Some(true));
            }
            let again = vec![question(stack.clone(), Purpose::Again); left.min(self.jobs)];
            match self.ask_once(&again)? {
                None => return Ok(None),
                Some(answers) if answers.contains(&true) => return Ok(Some(false)),
                Some(_) => {}
            }
        }
    }

    /// How often the stack of one that is accused has to be red again. That it is red alone, too, makes one time less. That it is green alone makes
    /// an accident more likely than what it says otherwise: two candidates that fail only together are rare.
    fn left_to_convict(&self, accused: &Accused<T::Stack>) -> usize {
        let reds = self.answers.reds(&accused.stack);
        let needed = match accused.alone_is_green {
            None => self.answers.needed(self.count),
            Some(false) => self.answers.needed(self.count).max(3) - 1,
            Some(true) => self.answers.needed_at_worst(self.count),
        };
        needed.saturating_sub(reds)
    }

    /// Asks whether stacks are green. Jobs that would be idle make sure of those that are accused. Where checks fail by accident, what is red is
    /// asked again before it is believed.
    fn ask(&mut self, wanted: Vec<WantedCheck<T::Stack>>) -> Result<Option<Vec<bool>>, T::Error> {
        self.checks += wanted.len();
        let idle = self.idle_questions(self.jobs.saturating_sub(wanted.len()));
        let all: Vec<_> = wanted.iter().cloned().chain(idle).collect();
        let Some(mut answers) = self.ask_once(&all)? else {
            return Ok(None);
        };
        // The idle questions were noted in `ask_once`; the caller asked only the first ones.
        answers.truncate(wanted.len());
        loop {
            let believable = self.answers.believable();
            let (mut again, mut doubtful) = (Vec::new(), Vec::new());
            for (WantedCheck { stack, .. }, is_green) in wanted.iter().zip(&mut answers) {
                if !*is_green && self.answers.reds(stack) < believable {
                    again.push(question(stack.clone(), Purpose::Again));
                    doubtful.push(is_green);
                }
            }
            if doubtful.is_empty() {
                return Ok(Some(answers));
            }
            let Some(more) = self.ask_once(&again)? else {
                return Ok(None);
            };
            for (answer, is_green) in doubtful.into_iter().zip(more) {
                *answer = is_green;
            }
        }
    }

    fn ask_one(&mut self, stack: T::Stack, purpose: Purpose) -> Result<Option<bool>, T::Error> {
        let answers = self.ask(vec![question(stack, purpose)])?;
        Ok(answers.and_then(|answers| answers.first().copied()))
    }

    fn ask_once(
        &mut self,
        questions: &[WantedCheck<T::Stack>],
    ) -> Result<Option<Vec<bool>>, T::Error> {
        let answers = self.track.check(questions)?;
        for (question, is_green) in questions.iter().zip(answers.iter().flatten()) {
            self.answers.note(&question.stack, *is_green);
            for one in &mut self.accused {
                if one.alone.as_ref() == Some(&question.stack) {
                    one.alone_is_green = Some(*is_green);
                }
            }
            if *is_green {
                self.acquit(&question.stack);
            }
        }
        Ok(answers)
    }

    /// Up to so many checks of stacks that are accused and not certain yet.
    fn idle_questions(&self, count: usize) -> Vec<WantedCheck<T::Stack>> {
        let open = self.accused.iter().flat_map(|one| {
            let alone = one.alone.clone().filter(|_| one.alone_is_green.is_none());
            let alone = alone.map(|stack| question(stack, Purpose::Pair));
            let again = question(one.stack.clone(), Purpose::Again);
            alone.into_iter().chain(std::iter::repeat_n(again, self.left_to_convict(one)))
        });
        open.take(count).collect()
    }

    /// Takes an accusation back: the stack is green after all.
    fn acquit(&mut self, green: &T::Stack) {
        let is_its = |one: &Accused<T::Stack>| one.stack == *green;
        while let Some(at) = self.accused.iter().position(is_its) {
            self.waiting.push(self.accused.remove(at).candidate);
        }
    }

    fn land(&mut self, layers: &[Layer<T::Stack>]) -> Result<(), T::Error> {
        let Some(top) = layers.last() else {
            return Ok(());
        };
        let candidates: Vec<usize> = layers.iter().map(|layer| layer.candidate).collect();
        self.track.land(&top.stack, &candidates)?;
        self.green = top.stack.clone();
        self.decided.landed.extend(candidates);
        Ok(())
    }

    fn accuse(&mut self, candidate: usize, stack: T::Stack) -> Result<(), T::Error> {
        let below = self.decided.landed.clone();
        let alone =
            if below.is_empty() { None } else { self.track.push(&self.start, candidate)? };
        self.accused.push(Accused { candidate, below, stack, alone, alone_is_green: None });
        Ok(())
    }

    /// Whether the target is green without any candidate; not, too, where no more checks may run.
    fn target_is_cleared(&mut self) -> Result<bool, T::Error> {
        let target = self.start.clone();
        let red = match self.ask_one(target.clone(), Purpose::Target)? {
            None => return Ok(false),
            Some(true) => Some(false),
            Some(false) => self.stays_red(&target)?,
        };
        self.decided.target_is_red = red == Some(true);
        Ok(red == Some(false))
    }

    /// Rejects those that are accused, or finds that one of them is green after all.
    fn convict(&mut self) -> Result<Step, T::Error> {
        // Nothing was green, so it is not known yet whose fault that is.
        if !self.answers.has_green() && !self.target_is_cleared()? {
            return Ok(Step::Stop);
        }
        loop {
            let open = self.idle_questions(self.jobs);
            if open.is_empty() {
                break;
            }
            let Some(answers) = self.ask_once(&open)? else {
                // Those that are certain are rejected all the same.
                let accused = std::mem::take(&mut self.accused);
                let (certain, open) =
                    accused.into_iter().partition(|one| self.left_to_convict(one) == 0);
                self.accused = open;
                self.reject(certain)?;
                return Ok(Step::Stop);
            };
            if answers.contains(&true) {
                return Ok(Step::On);
            }
        }
        let accused = std::mem::take(&mut self.accused);
        self.reject(accused)?;
        Ok(Step::On)
    }

    fn reject(&mut self, accused: Vec<Accused<T::Stack>>) -> Result<(), T::Error> {
        for one in accused {
            let partner = self.partner(&one)?;
            self.track.reject(&Culprit { candidate: one.candidate, red: one.stack, partner })?;
            self.decided.rejected.push(one.candidate);
        }
        Ok(())
    }

    /// The candidate below a culprit without which it is green: the last of the smallest part of them with which it is red. `None` where it is
    /// red on its own, and where no more checks may run.
    fn partner(&mut self, accused: &Accused<T::Stack>) -> Result<Option<usize>, T::Error> {
        if accused.alone_is_green != Some(true) {
            return Ok(None);
        }
        let below = &accused.below;
        // With the first `low` of them or fewer it is green, with the first `high` it is red.
        let (mut low, mut high) = (0, below.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let part = below.iter().take(middle).chain([&accused.candidate]);
            let Some(stack) = self.with_part(part)? else {
                return Ok(None);
            };
            match self.ask_once(&[question(stack, Purpose::Pair)])?.as_deref() {
                Some([true]) => low = middle,
                Some([false]) => high = middle,
                _ => return Ok(None),
            }
        }
        Ok(below.get(low).copied())
    }

    /// The target and some candidates.
    fn with_part<'c>(
        &mut self,
        part: impl Iterator<Item = &'c usize>,
    ) -> Result<Option<T::Stack>, T::Error> {
        let mut stack = self.start.clone();
        for candidate in part {
            match self.track.push(&stack, *candidate)? {
                Some(pushed) => stack = pushed,
                None => return Ok(None),
            }
        }
        Ok(Some(stack))
    }
}

fn question<S>(stack: S, purpose: Purpose) -> WantedCheck<S> {
    WantedCheck { stack, purpose }
}

fn is_among<S>(candidate: usize, layers: &[Layer<S>]) -> bool {
    layers.iter().any(|layer| layer.candidate == candidate)
}
