//! The same work on every item of a list, on a few threads.

use std::sync::Mutex;
use std::thread;

/// More threads than this only fight for the disk.
const MOST_THREADS: usize = 4;

/// Calls `work` with every item, on as many threads as there are processors, and gives the answers in the
/// order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MOST_THREADS).min(items.len());
    let queue = Mutex::new(items.iter().enumerate());
    let next = || match queue.lock() {
        Ok(mut queue) => queue.next(),
        // A thread that panicked left the queue whole: taking from it is one step.
        Err(poisoned) => poisoned.into_inner().next(),
    };
    let mut answers: Vec<(usize, R)> = thread::scope(|scope| {
        let run = || -> Vec<(usize, R)> {
            std::iter::from_fn(&next)
                .map(|(index, item)| (index, work(item)))
                .collect()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let finished = running.into_iter().map(|thread| match thread.join() {
            Ok(answers) => answers,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        finished.flatten().collect()
    });
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
