//! A call that a host makes twice, because our hooks stand in the project's settings and in its user's, or in those of a run besides.
//!
//! Several hosts leave out the second of two equal commands; others start both, at once or one after the other, with the same
//! payload. The first process takes a place that the payload leads to and holds it while it answers. The other finds the place
//! taken, or finds its own payload there and a mark in it that no other call has, and is silent: the host heeds the first answer.
//! What an agent writes there in place of us can silence feedback, and no judge.

use crate::agents::{CurrentAgent, Env};
use crate::domain::ToolCall;
use crate::domain::boundary::tool_call::HookEvent;
use crate::ops::host_hook::own_place;
use crate::store::files::fsx;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How many places there are: a call is forgotten when another one comes that leads to its place.
const PLACES: u8 = 16;

/// How often, and how long after the last time, is looked into a place that is held.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_micros(300);

/// A place that is held while the call is answered; without a file where it could not be taken.
pub(super) struct CallClaim(Option<File>);

impl CallClaim {
    /// Takes the call; `None` where another process answers it or has answered it.
    pub(super) fn take(env: &Env, home: &CurrentAgent, call: &ToolCall) -> Option<CallClaim> {
        // Two equal calls without a mark may be two calls, and both are judged before they run.
        if call.event == HookEvent::PreTool && !call.is_marked {
            return Some(CallClaim(None));
        }
        let directory = own_place(env, home);
        let place = directory.join(format!("answered-{}", call.digest[0] % PLACES));
        let opened = fsx::create_dir(&directory).and_then(|()| fsx::open_private(&place));
        // A call that cannot be taken is answered all the same.
        let Ok(file) = opened else {
            return Some(CallClaim(None));
        };
        for _ in 0..LOOKS {
            let is_free = file.try_lock().is_ok();
            let mut known = call.digest.map(|_| 0);
            let is_known = file.read_exact_at(&mut known, 0).is_ok() && known == call.digest;
            if is_known && (call.is_marked || !is_free) {
                return None;
            }
            if is_free {
                let noted = file.write_all_at(&call.digest, 0).is_ok();
                return Some(CallClaim(noted.then_some(file)));
            }
            // The other process may have taken the place a moment ago and not yet said for what.
            std::thread::sleep(LOOK);
        }
        Some(CallClaim(None))
    }
}

impl Drop for CallClaim {
    fn drop(&mut self) {
        // Closing the file would do, but for a child that has it open, too.
        let _ = self.0.as_ref().map(File::unlock);
    }
}
