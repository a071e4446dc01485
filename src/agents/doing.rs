//! What a command does at the moment, for a person who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Told under a number what is done from now on; without a text, that it is over.
pub type Narrator = Arc<dyn Fn(u64, Option<&str>) + Send + Sync>;

/// Something that takes long, until this is dropped.
pub(crate) struct Doing {
    number: u64,
    narrator: Narrator,
}

impl Doing {
    pub(crate) fn begin(narrator: &Narrator, what: &str) -> Doing {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let doing = Doing {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            narrator: Arc::clone(narrator),
        };
        doing.now(what);
        doing
    }

    /// Replaces what was said before.
    pub(crate) fn now(&self, what: &str) {
        (self.narrator)(self.number, Some(what));
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        (self.narrator)(self.number, None);
    }
}
