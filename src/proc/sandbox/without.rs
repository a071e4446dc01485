//! Systems that have no fence we know how to build.

use super::Plan;
use crate::domain::life::sandbox::{LayerMount, Level};
use crate::error::{Code, Error, Result};
/// An answer that never comes.
pub(super) use std::convert::Infallible as PendingLevel;
use std::ffi::OsString;
use std::path::Path;

/// Asks for the highest level that can be enforced: none.
///
/// # Errors
/// Always: what this system lacks.
pub(super) fn ask(_: &Path, _: bool) -> Result<PendingLevel, String> {
    Err("only Linux has the kernel sandbox that this program uses".to_owned())
}

pub(super) fn answer(asked: PendingLevel) -> Result<Level, String> {
    match asked {}
}

/// Gives the status that says so.
pub(super) fn probe() -> u8 {
    u8::MAX
}

pub(super) fn layers_refused(program: &Path, _: &LayerMount) -> Option<String> {
    ask(program, false).err()
}

pub(super) fn probe_layer(layer: &LayerMount) -> Result<(), String> {
    ask(&layer.base, false).map(drop)
}

pub(super) fn become_mounted(layer: &LayerMount, _: &[OsString]) -> Error {
    let why = ask(&layer.base, false).err().unwrap_or_default();
    Error::new(Code::SandboxUnavailable, why)
}

/// # Errors
/// Always, as [`ask`].
pub(super) fn enter(plan: &Plan<'_>, _: bool, _: &[OsString]) -> Result<u8> {
    let why = ask(plan.report, false).err().unwrap_or_default();
    Err(Error::new(Code::SandboxUnavailable, why))
}
