//! What a command does at the moment, for a person who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Told under a number what is done from now on; without a text, that it is over.
pub type ActivityObserver = Arc<dyn Fn(u64, Option<&str>) + Send + Sync>;

/// Something that takes long, until this is dropped.
pub(crate) struct Activity {
    number: u64,
    observer: ActivityObserver,
}

impl Activity {
    pub(crate) fn begin(observer: &ActivityObserver, what: &str) -> Activity {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let activity = Activity {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            observer: Arc::clone(observer),
        };
        activity.now(what);
        activity
    }

    /// Replaces what was said before.
    pub(crate) fn now(&self, what: &str) {
        (self.observer)(self.number, Some(what));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        (self.observer)(self.number, None);
    }
}
