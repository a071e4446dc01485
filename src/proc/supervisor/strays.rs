//! What a command leaves behind when it killed its supervisor.
//!
//! No process adopted it then, so only its environment tells whose it was: the place for temporary files that
//! was made for this one run. A process that changed its environment is not found.

use crate::system::Process;
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// How long KILL is given before it is sent to whatever was started meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
/// How often KILL is sent. What is left after five seconds hangs in the kernel.
const VOLLEYS: u32 = 250;

/// Ends every process that has `scratch` as its `TMPDIR`.
pub(super) fn end(scratch: &Path) {
    let mut wanted = OsString::from("TMPDIR=").into_vec();
    wanted.extend_from_slice(scratch.as_os_str().as_bytes());
    for _ in 0..VOLLEYS {
        // Where the kernel does not list processes, none is found.
        let mut strays = Process::all().unwrap_or_default();
        strays.retain(|process| process.has_variable(&wanted));
        if strays.is_empty() {
            return;
        }
        strays.iter().for_each(|one| one.signal(Signal::KILL));
        std::thread::sleep(PAUSE);
    }
}
