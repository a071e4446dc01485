//! The same work on every item of a list, on a few threads.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// More threads than this only get in each other's way at the file system.
const MOST_THREADS: usize = 8;

/// The items that no thread has taken yet.
pub(crate) struct Queue<T>(Mutex<std::vec::IntoIter<T>>);

impl<T> Queue<T> {
    /// Takes the next item.
    pub(crate) fn next(&self) -> Option<T> {
        // Taking from it is one step, so a thread that panicked left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// How many threads look at so many things: as many as there are processors, few enough for the disk.
pub(crate) fn threads(items: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST_THREADS).min(items)
}

/// Runs `work` on so many threads, which share the items and send what they have to tell. `listen` hears it on
/// the calling thread; what it gives is given when all threads have ended.
pub(crate) fn share<T: Send, M: Send, R>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(&Queue<T>, Sender<M>) + Sync,
    listen: impl FnOnce(Receiver<M>) -> R,
) -> R {
    let threads = threads.clamp(1, items.len().max(1));
    let queue = Queue(Mutex::new(items.into_iter()));
    thread::scope(|scope| {
        let (sender, told) = mpsc::channel();
        for _ in 0..threads {
            let (sender, queue, work) = (sender.clone(), &queue, &work);
            scope.spawn(move || work(queue, sender));
        }
        // The threads' own senders are left, so that listening ends with the last of them.
        drop(sender);
        listen(told)
    })
}

/// Calls `work` with every item and gives the answers in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_with(items, || (), |(), item| work(item))
}

/// As [`map`], with something that each thread opens for itself.
pub(crate) fn map_with<T: Sync, R: Send, S>(
    items: &[T],
    open: impl Fn() -> S + Sync,
    work: impl Fn(&S, &T) -> R + Sync,
) -> Vec<R> {
    let each = |queue: &Queue<(usize, &T)>, answers: Sender<(usize, R)>| {
        let own = open();
        while let Some((index, item)) = queue.next() {
            if answers.send((index, work(&own, item))).is_err() {
                return;
            }
        }
    };
    let numbered = items.iter().enumerate().collect();
    let mut answers: Vec<_> =
        share(numbered, threads(items.len()), each, |told| told.into_iter().collect());
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
