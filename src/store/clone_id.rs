//! The number that tells this clone's stamps from those of every other clone, and its name on remotes.

use super::{fsx, layout, lock};
use crate::domain::hex::is_lower_hex;
use crate::error::{Error, Result};
use std::path::Path;

/// The clone's number, drawn the first time it is asked for. Of processes that ask at the same moment
/// one draws, and all get its answer.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub(super) fn load_or_make(common_dir: &Path) -> Result<u16> {
    let path = layout::clone_id(common_dir);
    if let Some(number) = read(&path)? {
        return Ok(number);
    }
    fsx::create_dir(&layout::agents_dir(common_dir))?;
    let drawn = getrandom::u32()
        .map_err(|error| Error::bug("the system must have random numbers").because(error))?;
    let text = format!("{:04x}\n", drawn & 0xffff);
    if !fsx::create_atomic(&path, text.as_bytes())? && read(&path)?.is_none() {
        // A power loss emptied it. Any number will do again.
        fsx::write_atomic(&path, text.as_bytes())?;
    }
    read(&path)?.ok_or_else(|| Error::bug("a clone id must be readable once written"))
}

/// The name under which this clone writes on remotes: sixteen hex digits, of which the last four are its number. Made
/// the first time it is asked for, under the ledger's lock.
///
/// # Errors
/// `lock-timeout`, `repo-read-only`, `disk-full`, `io`.
pub fn long_name(common_dir: &Path) -> Result<String> {
    if let Some(name) = read_long_name(common_dir)? {
        return Ok(name);
    }
    let _guard = lock::hold(common_dir, layout::LEDGER_LOCK)?;
    if let Some(name) = read_long_name(common_dir)? {
        return Ok(name);
    }
    let number = load_or_make(common_dir)?;
    let drawn = getrandom::u64()
        .map_err(|error| Error::bug("the system must have random numbers").because(error))?;
    let name = format!("{:016x}", drawn & !0xffff | u64::from(number));
    fsx::write_atomic(
        &layout::clone_id(common_dir),
        format!("{name}\n").as_bytes(),
    )?;
    Ok(name)
}

fn read_long_name(common_dir: &Path) -> Result<Option<String>> {
    let content = fsx::load_if_there(&layout::clone_id(common_dir))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&content).trim_end().to_owned();
    Ok(Some(text).filter(|text| is_long_name(text)))
}

/// How many digits the long name of a clone has.
const LONG: usize = 16;

/// Whether a text can be the long name of a clone.
pub fn is_long_name(text: &str) -> bool {
    text.len() == LONG && is_lower_hex(text)
}

/// The clone's number; `None` before it was drawn.
///
/// # Errors
/// `io`.
pub(super) fn load(common_dir: &Path) -> Result<Option<u16>> {
    read(&layout::clone_id(common_dir))
}

fn read(path: &Path) -> Result<Option<u16>> {
    let content = fsx::load_if_there(path)?.unwrap_or_default();
    let text = std::str::from_utf8(&content).unwrap_or_default();
    let number = u64::from_str_radix(text.trim_end(), 16).ok();
    Ok(number.map(|number| (number & 0xffff) as u16))
}
