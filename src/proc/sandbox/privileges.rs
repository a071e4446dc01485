//! Capabilities: what makes root more than an owner of files (capabilities(7)).
//!
//! Landlock restricts files. With capabilities a process could still set the clock, load kernel modules, change
//! the limits of other processes or own the files of other users.

use caps::CapSet;
use caps::errors::CapsError;

/// Gives up every capability of this process and of all that it will start. A user without any has nothing to give
/// up.
///
/// # Errors
/// One sentence, when the kernel refuses.
pub(super) fn give_up() -> Result<(), String> {
    let fail = |error: CapsError| format!("could not give up capabilities: {error}");
    if caps::read(None, CapSet::Permitted)
        .map_err(fail)?
        .is_empty()
    {
        return Ok(());
    }
    // In a container this may be refused. It only doubles what follows: without new privileges (prctl(2)) a
    // program started by root keeps the capabilities of this process at most.
    for capability in caps::all() {
        let _ = caps::drop(None, CapSet::Bounding, capability);
    }
    // The kernel wants the effective ones to be among the permitted ones at any time.
    for set in [
        CapSet::Ambient,
        CapSet::Effective,
        CapSet::Inheritable,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(fail)?;
    }
    Ok(())
}
