//! Work on a slice, shared out to threads in chunks.

use crate::error::{Error, Result};
use std::slice::ChunksMut;
use std::sync::Mutex;

/// The chunks that no thread has taken yet.
pub(in crate::git) struct Chunks<'i, T>(Mutex<ChunksMut<'i, T>>);

impl<'i, T> Chunks<'i, T> {
    /// Takes the next chunk, in the order of the slice.
    pub(in crate::git) fn next(&self) -> Option<&'i mut [T]> {
        self.0.lock().ok()?.next()
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
    work: impl Fn(&Chunks<'_, T>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let size = size.max(1);
    let helpers = threads.min(items.len().div_ceil(size)).saturating_sub(1);
    let chunks = Chunks(Mutex::new(items.chunks_mut(size)));
    let run = || work(&chunks).inspect_err(|_| while chunks.next().is_some() {});
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..helpers).map(|_| scope.spawn(run)).collect();
        let own = run();
        let panicked = |_| Err(Error::bug("a thread that shares work panicked"));
        let others = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked));
        std::iter::once(own).chain(others).collect()
    })
}
