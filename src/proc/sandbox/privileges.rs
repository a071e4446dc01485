//! Capabilities: what makes root more than an owner of files (capabilities(7)).
//!
//! Landlock restricts files. With capabilities a process could still set the clock, load kernel modules, change
//! the limits of other processes or own the files of other users.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Gives up every capability of this process and of all that it will start. A user without any has nothing to give
/// up.
///
/// # Errors
/// One sentence, when the kernel refuses.
pub(super) fn give_up() -> Result<(), String> {
    let fail = |error: Errno| format!("could not give up capabilities: {error}");
    if { capabilities(None) }.map_err(fail)?.permitted.is_empty() {
        return Ok(());
    }
    // In a container this may be refused. It only doubles what follows: without new privileges (prctl(2)) a
    // program started by root keeps the capabilities of this process at most. A kernel may know more
    // capabilities than have names here, so each bit is tried.
    for bit in 0..u64::BITS {
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
    clear_ambient_capability_set().map_err(fail)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(fail)
}
