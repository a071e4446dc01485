//! Systems that have no fence we know how to build.

use crate::domain::sandbox::{Fence, Level};

/// The highest level that can be enforced: none.
///
/// # Errors
/// Always: what this system lacks.
pub(super) fn offer() -> Result<Level, String> {
    Err("only Linux has the kernel sandbox that this program uses".to_owned())
}

/// # Errors
/// Always, as [`offer`].
pub(super) fn restrict(_: &Fence, _: Level) -> Result<(), String> {
    offer().map(|_| ())
}
