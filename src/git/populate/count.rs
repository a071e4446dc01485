//! How many files are written, for a person who waits.

use gix::objs::{Data, Find};
use std::sync::atomic::{AtomicUsize, Ordering};

/// After so many files more, the number is told.
const TOLD: usize = 100;

/// What is written so far; threads share it.
pub(super) struct Count<'a> {
    written: AtomicUsize,
    all: usize,
    observer: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Count<'a> {
    /// Of this many files none is written.
    pub(super) fn new(all: usize, observer: &'a (dyn Fn(usize, usize) + Sync)) -> Count<'a> {
        Count {
            written: AtomicUsize::new(0),
            all,
            observer,
        }
    }

    /// Adds files that were written.
    pub(super) fn add(&self, files: usize) {
        let before = self.written.fetch_add(files, Ordering::Relaxed);
        let now = before + files;
        if before / TOLD < now / TOLD {
            (self.observer)(now.min(self.all), self.all);
        }
    }
}

/// Objects that count those which are read: gitoxide's checkout reads one for each file that it writes.
#[derive(Clone)]
pub(super) struct Counted<'a, Objects> {
    pub(super) objects: Objects,
    pub(super) count: &'a Count<'a>,
}

impl<Objects: Find> Find for Counted<'_, Objects> {
    fn try_find<'b>(
        &self,
        id: &gix::oid,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Data<'b>>, gix::Error> {
        self.count.add(1);
        self.objects.try_find(id, buffer)
    }
}
