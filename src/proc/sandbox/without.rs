//! Systems that have no fence we know how to build.

use super::Plan;
use crate::domain::sandbox::{LayerMount, Level};
use crate::error::{Code, Error, Result};
use std::ffi::OsString;
use std::path::Path;

/// The highest level that can be enforced: none.
///
/// # Errors
/// Always: what this system lacks.
pub(super) fn offer(_: &Path) -> Result<Level, String> {
    Err("only Linux has the kernel sandbox that this program uses".to_owned())
}

/// Gives the status that says so.
pub(super) fn probe() -> u8 {
    u8::MAX
}

pub(super) fn layers_refused(program: &Path, _: &LayerMount) -> Option<String> {
    offer(program).err()
}

pub(super) fn probe_layer(layer: &LayerMount) -> Result<(), String> {
    offer(&layer.base).map(drop)
}

pub(super) fn become_mounted(layer: &LayerMount, _: &[OsString]) -> Error {
    let why = offer(&layer.base).err().unwrap_or_default();
    Error::new(Code::SandboxUnavailable, why)
}

/// # Errors
/// Always, as [`offer`].
pub(super) fn enter(plan: &Plan<'_>, _: bool, _: &[OsString]) -> Result<u8> {
    let why = offer(plan.report).err().unwrap_or_default();
    Err(Error::new(Code::SandboxUnavailable, why))
}
