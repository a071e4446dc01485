//! Work on a slice, shared out to threads in chunks.

use crate::error::{Error, Result};
use std::sync::Mutex;

/// Items taken at a time: enough to stay in one directory, few enough that no thread idles at the end.
const CHUNK: usize = 64;

/// Calls `work` for each of `items`, on one thread per worker; gives the workers back. After the first
/// error no more chunks are begun.
///
/// # Errors
/// The first error of `work`.
pub(super) fn for_each<T: Send, W: Send>(
    items: &mut [T],
    workers: Vec<W>,
    work: impl Fn(&mut W, &mut T) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let chunks = Mutex::new(items.chunks_mut(CHUNK));
    let next = || chunks.lock().ok()?.next();
    let run = |mut worker: W| -> Result<W> {
        while let Some(chunk) = next() {
            for item in chunk {
                work(&mut worker, item).inspect_err(|_| while next().is_some() {})?;
            }
        }
        Ok(worker)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || run(worker)))
            .collect();
        let panicked = |_| Err(Error::bug("a thread that populates a worktree panicked"));
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    })
}
