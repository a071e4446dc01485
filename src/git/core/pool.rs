//! Work on a slice, shared out to threads in chunks, and work beside other work.

use crate::error::{Error, Result};
use std::panic::resume_unwind;
use std::slice::ChunksMut;
use std::sync::Mutex;
use std::thread;

/// More threads than this only fight for the disk.
const MOST_THREADS: usize = 4;

/// How many threads work where one thing alone is done.
pub(in crate::git) fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST_THREADS)
}

/// Does two things at once, the first on a thread of its own, and gives what both return.
pub(in crate::git) fn beside<T: Send, H>(
    there: impl FnOnce() -> T + Send,
    here: impl FnOnce() -> H,
) -> (T, H) {
    thread::scope(|scope| {
        let there = scope.spawn(there);
        let here = here();
        let there = there.join().unwrap_or_else(|panic| resume_unwind(panic));
        (there, here)
    })
}

/// The chunks that no thread has taken yet, as one thread sees them.
///
/// Each thread has a part of the slice for itself, so that neighbours, which are often files of one
/// directory, are worked on by one thread: two in one directory wait for each other. A thread that is through
/// with its part helps with the next.
pub(in crate::git) struct Chunks<'c, 'i, T> {
    parts: &'c [Mutex<ChunksMut<'i, T>>],
    own: usize,
}

impl<'i, T> Chunks<'_, 'i, T> {
    /// Takes the next chunk: those of a part come in the order of the slice.
    pub(in crate::git) fn next(&self) -> Option<&'i mut [T]> {
        let (before, after) = self.parts.split_at(self.own);
        // Beginning with the own part and then round, so that idle threads spread over the others'
        // parts.
        let mut parts = after.iter().chain(before);
        // A lock is poisoned by a panic, which the caller hears of anyway; its part counts as done.
        parts.find_map(|part| part.lock().ok()?.next())
    }
}

/// Calls `work` on up to `threads` threads, the calling one among them; each takes chunks of `size` items
/// until there are none. Gives what each returned. After the first error no more chunks are given out.
///
/// # Errors
/// The first error of `work`.
pub(in crate::git) fn share<T: Send, R: Send>(
    items: &mut [T],
    size: usize,
    threads: usize,
    work: impl Fn(&Chunks<'_, '_, T>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let size = size.max(1);
    let chunks = items.len().div_ceil(size);
    let threads = threads.min(chunks).max(1);
    // A whole number of chunks, or the last chunk of every part would be a short one.
    let part = chunks.div_ceil(threads).max(1) * size;
    let parts: Vec<_> =
        items.chunks_mut(part).map(|part| Mutex::new(part.chunks_mut(size))).collect();
    let run = |own: usize| {
        let chunks = Chunks { parts: &parts, own };
        // Emptying all parts is what stops the other threads, each at its next chunk.
        work(&chunks).inspect_err(|_| while chunks.next().is_some() {})
    };
    thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (1..parts.len()).map(|own| scope.spawn(move || run(own))).collect();
        let own = run(0);
        let panicked = |_| Err(Error::bug("a thread that shares work panicked"));
        let others = running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        std::iter::once(own).chain(others).collect()
    })
}
