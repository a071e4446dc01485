//! Which of a queue of candidates land, so that the target is green at every step and few checks run.
//!
//! ```text
//! queue ─> stack on what is green ─> check its top ─┬ green: all of it lands
//!                                                   └ red: bisect ─> what is below the culprit lands, the culprit is
//!                                                     rejected, the others are stacked anew
//! ```
//!
//! A candidate is rejected only if the stack below it was green and the stack with it was red. Where no other red answer
//! is like that one, the stack is checked a second time. A candidate that conflicts with one that is not decided yet waits until
//! that one is; one that conflicts with what has landed is in conflict for good.
//!
//! With more than one job, once a culprit shows that there may be several, the right half of a search is checked on its
//! own beside the left one (`side`). What that finds is a hint: the suspect is decided last, by the same rule.
//!
//! The number of checks with one job is at most `1 + bad × ceil(log2 n) + bad`, one more for each bad candidate that kept
//! another waiting by a conflict, and one more where the target itself has to be checked because nothing was green. Two
//! jobs take at most what one job may take for one bad candidate more.

mod side;
#[cfg(test)]
mod tests;
mod track;

use side::SideSearch;
pub use track::Track;

/// What became of the candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Landed, in order.
    pub landed: Vec<usize>,
    /// Red on top of what was green.
    pub rejected: Vec<usize>,
    /// In conflict with what landed.
    pub conflicting: Vec<usize>,
    /// Not decided: no more checks could run, or the target itself is red.
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
        green: start,
        queue: (0..candidates).collect(),
        suspects: Vec::new(),
        side_reds: Vec::new(),
        waiting: Vec::new(),
        accused: Vec::new(),
        seen_green: false,
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
    /// How many candidates there are, and how many checks were asked for.
    count: usize,
    checks: usize,
    /// The largest stack that is green; all of it has landed.
    green: T::Stack,
    /// What is to be decided next.
    queue: Vec<usize>,
    /// What a side search suspects; decided after the queue.
    suspects: Vec<usize>,
    /// The stacks on which it found them red.
    side_reds: Vec<(usize, T::Stack)>,
    /// What conflicts with an undecided one, for later.
    waiting: Vec<usize>,
    /// What is to be rejected once it is known that the target alone is green.
    accused: Vec<(usize, T::Stack)>,
    seen_green: bool,
    decided: Decided,
}

/// One candidate and the stack that ends with it.
struct Layer<S> {
    candidate: usize,
    stack: S,
}

impl<T: Track> Train<'_, T> {
    fn run(mut self) -> Result<Decided, T::Error> {
        loop {
            let layers = self.stack_up()?;
            let step = if !layers.is_empty() {
                self.settle(layers)?
            } else if !self.suspects.is_empty() {
                self.settle_suspect()?
            } else {
                break;
            };
            if matches!(step, Step::Stop) {
                return Ok(self.stopped());
            }
        }
        // Nothing was green, so it is not known yet whose fault that is.
        if matches!(self.convict()?, Step::Stop) {
            return Ok(self.stopped());
        }
        Ok(self.decided)
    }

    fn stopped(mut self) -> Decided {
        let accused = self.accused.into_iter().map(|(candidate, _)| candidate);
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
        self.queue.sort_unstable();
        for candidate in std::mem::take(&mut self.queue) {
            let below = layers.last().map_or(&self.green, |layer| &layer.stack);
            match self.track.push(below, candidate)? {
                Some(stack) => layers.push(Layer { candidate, stack }),
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
        let mut wanted = vec![top.clone()];
        let suspect = match self.suspects.first() {
            Some(suspect) if self.jobs > 1 => self.track.push(&top, *suspect)?,
            _ => None,
        };
        wanted.extend(suspect.clone());
        let Some(answers) = self.ask(&wanted)? else {
            return Ok(Step::Stop);
        };
        if !answers[0] {
            return self.search(&layers);
        }
        self.land(&layers)?;
        self.queue.clear();
        if let (Some(stack), Some(is_green)) = (suspect, answers.get(1)) {
            let candidate = self.suspects.remove(0);
            return self.settle_top(candidate, stack, *is_green);
        }
        Ok(Step::On)
    }

    /// Decides about the first suspect, on what is green.
    fn settle_suspect(&mut self) -> Result<Step, T::Error> {
        let candidate = self.suspects[0];
        let Some(stack) = self.track.push(&self.green, candidate)? else {
            self.suspects.remove(0);
            self.decided.conflicting.push(candidate);
            return Ok(Step::On);
        };
        let Some(answers) = self.ask(std::slice::from_ref(&stack))? else {
            return Ok(Step::Stop);
        };
        self.suspects.remove(0);
        self.settle_top(candidate, stack, answers[0])
    }

    fn settle_top(
        &mut self,
        candidate: usize,
        stack: T::Stack,
        mut is_green: bool,
    ) -> Result<Step, T::Error> {
        let is_like =
            |(one, red): &(_, T::Stack)| *one == candidate && self.track.is_alike(red, &stack);
        // As in a search, a red answer that no other one supports may be an accident.
        if !is_green && !self.side_reds.iter().any(is_like) {
            let Some(again) = self.ask(std::slice::from_ref(&stack))? else {
                self.suspects.push(candidate);
                return Ok(Step::Stop);
            };
            is_green = again[0];
        }
        if !is_green {
            return self.accuse(candidate, stack);
        }
        self.land(&[Layer { candidate, stack }])?;
        Ok(Step::On)
    }

    /// Bisects layers whose top is red.
    fn search(&mut self, layers: &[Layer<T::Stack>]) -> Result<Step, T::Error> {
        // The first `low` layers are green together, the first `high` are red.
        let (mut low, mut high) = (0, layers.len());
        let mut side = SideSearch::new(self.may_search_aside(layers.len()));
        let mut reds = vec![high];
        loop {
            let probes = self.probes(low, high);
            let mut wanted: Vec<T::Stack> = { probes.iter() }
                .map(|count| layers[count - 1].stack.clone())
                .collect();
            let base = match low {
                0 => self.green.clone(),
                low => layers[low - 1].stack.clone(),
            };
            let right = probes
                .last()
                .map_or(&[][..], |middle| &layers[*middle..high]);
            let right: Vec<usize> = right.iter().map(|layer| layer.candidate).collect();
            wanted.extend(side.question(self.track, &base, &right)?);
            if wanted.is_empty() {
                // One layer is left. A red answer that no other one supports may be an accident.
                let red = &layers[low].stack;
                let mut others = reds.iter().filter(|count| **count != high);
                if others.any(|count| self.track.is_alike(&layers[count - 1].stack, red)) {
                    break;
                }
                let Some(again) = self.ask(std::slice::from_ref(red))? else {
                    return Ok(Step::Stop);
                };
                if !again[0] {
                    break;
                }
                reds.retain(|count| *count > high);
                low = high;
                let Some(next) = reds.iter().min() else {
                    self.suspects
                        .retain(|one| !layers.iter().any(|layer| layer.candidate == *one));
                    self.queue.clear();
                    self.land(layers)?;
                    return Ok(Step::On);
                };
                high = *next;
                continue;
            }
            let Some(answers) = self.ask(&wanted)? else {
                return Ok(Step::Stop);
            };
            // A smaller stack that is red says more than a larger one that is green.
            for (count, is_green) in probes.iter().zip(&answers) {
                if !is_green {
                    high = *count;
                    reds.push(high);
                    break;
                }
                low = *count;
            }
            if let Some(is_green) = answers.get(probes.len()) {
                let found = side.answer(*is_green);
                if let Some((suspect, red)) = found.filter(|one| !self.suspects.contains(&one.0)) {
                    self.suspects.push(suspect);
                    self.side_reds.push((suspect, red));
                }
            }
            // Both would search the same layers now.
            side.stop_at(layers[low].candidate);
        }
        let culprit = &layers[low];
        self.queue.retain(|one| !self.suspects.contains(one));
        self.land(&layers[..low])?;
        let decided: Vec<usize> = layers[..=low].iter().map(|layer| layer.candidate).collect();
        self.queue.retain(|one| !decided.contains(one));
        self.suspects.retain(|one| !decided.contains(one));
        self.accuse(culprit.candidate, culprit.stack.clone())
    }

    /// Where to check between two counts of layers: evenly spread, one for each job but the one that searches
    /// elsewhere.
    fn probes(&self, low: usize, high: usize) -> Vec<usize> {
        let parts = self.jobs.max(2);
        let mut probes: Vec<usize> = (1..parts)
            .map(|part| low + (high - low) * part / parts)
            .filter(|count| *count > low && *count < high)
            .collect();
        probes.dedup();
        probes
    }

    /// Whether a second culprit is looked for beside the first: once one was found, while the checks stay within what
    /// one culprit more than known may cost.
    fn may_search_aside(&self, layers: usize) -> bool {
        let found = self.decided.rejected.len() + self.accused.len();
        let known = found + self.suspects.len() + 1;
        let steps = |count: usize| count.next_power_of_two().trailing_zeros() as usize;
        let most = 1 + (known + 1) * (steps(self.count) + 1);
        self.jobs > 1 && found > 0 && self.checks + 2 * (steps(layers) + 1) <= most
    }

    fn ask(&mut self, stacks: &[T::Stack]) -> Result<Option<Vec<bool>>, T::Error> {
        let answers = self.track.check(stacks)?;
        self.checks += stacks.len();
        self.seen_green |= answers.iter().flatten().any(|is_green| *is_green);
        Ok(answers)
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

    /// Rejects a candidate; the first one, while nothing has been green, once there is a second one.
    fn accuse(&mut self, candidate: usize, red: T::Stack) -> Result<Step, T::Error> {
        self.accused.push((candidate, red));
        if self.seen_green || self.accused.len() > 1 {
            self.convict()
        } else {
            Ok(Step::On)
        }
    }

    fn convict(&mut self) -> Result<Step, T::Error> {
        if !self.accused.is_empty() && !self.seen_green {
            let answer = self.track.check_target()?;
            self.decided.target_is_red = answer == Some(false);
            if answer != Some(true) {
                return Ok(Step::Stop);
            }
            self.seen_green = true;
        }
        for (candidate, red) in std::mem::take(&mut self.accused) {
            self.track.reject(candidate, &red)?;
            self.decided.rejected.push(candidate);
        }
        Ok(Step::On)
    }
}
