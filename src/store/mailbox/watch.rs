//! Waiting for mail.
//!
//! Every writer of ours opens the lock file of the mailbox and closes it when its ref has moved, and the
//! file is never removed: the kernel tells of the closing, so no polling is needed. A ref that
//! another process moves (a fetch) is noticed by a slow look, and so is everything where the kernel
//! tells nothing.

use crate::store::{fsx, layout};
use crate::system::ClosingWatch;
use std::path::Path;
use std::time::Duration;

/// How long to wait at most before looking at the mailbox without having been told.
const SLOW_LOOK: Duration = Duration::from_secs(1);

/// The same where the kernel tells nothing.
const LOOK: Duration = Duration::from_millis(150);

/// An ear at the mailbox.
pub struct Watch {
    kernel: Option<ClosingWatch>,
}

impl Watch {
    /// Begins to listen: whatever is written from now on ends the next [`Watch::wait`].
    pub fn begin(common_dir: &Path) -> Watch {
        let directory = layout::agents_dir(common_dir);
        let path = directory.join(layout::MAIL_LOCK);
        let made = fsx::create_dir(&directory).is_ok()
            && std::fs::File::options()
                .create(true)
                .append(true)
                .open(&path)
                .is_ok();
        Watch {
            kernel: ClosingWatch::begin(&path).filter(|_| made),
        }
    }

    /// Waits until something may have changed, for `patience` at most.
    pub fn wait(&self, patience: Duration) {
        match &self.kernel {
            Some(watch) => watch.wait(patience.min(SLOW_LOOK)),
            None => std::thread::sleep(patience.min(LOOK)),
        }
    }
}
