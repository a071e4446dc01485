//! Who works for agents at the same time: one ticket for each command, `<common dir>/agents/tickets/<number>`, in the order of arrival.
//!
//! A ticket is held from the arrival of a command until nothing of it is left, by a lock on its file that its supervisor shares. So the
//! kernel takes it back however they end. Numbers grow in the order of arrival, under a lock of their own, and a command that waits counts the
//! tickets before its own that are held: those at work **and those that wait**. A command begins when that many leave room for it. From
//! this follow both promises, without any word between the processes:
//!
//! - The limit holds. Of all that are at work, take the last to arrive: when it began, each of the others was held already, and counted.
//! - Order holds. Where one that waits has no room, one behind it counts at least as many, and has none either.

use super::lock::{self, Holding};
use super::{fsx, layout};
use crate::error::{IoContext, Result};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How many digits a number has, so that names sort as numbers do.
const DIGITS: usize = 12;

/// A place in the order of arrival; dropping it gives it back.
#[derive(Debug)]
pub struct Ticket {
    path: PathBuf,
    /// Locked, together with the supervisor of the command.
    file: File,
    /// Those that were held on arrival. None is ever added: who comes later gets a higher number.
    ahead: Vec<(PathBuf, u64)>,
}

impl Ticket {
    /// Takes the next one, for a command that may take so much memory.
    ///
    /// # Errors
    /// `lock-timeout`, `disk-full`, `repo-read-only`, `io`.
    pub fn take(common_dir: &Path, memory: u64) -> Result<Ticket> {
        let directory = layout::tickets_dir(common_dir);
        fsx::create_dir(&directory)?;
        // While a ticket is made and not yet locked, it must not look like one that a killed command left.
        let _arrivals = lock::hold(common_dir, layout::TICKETS_LOCK)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).at("could not list", &directory)? {
            names.push(entry.at("could not list", &directory)?.file_name());
        }
        names.sort_unstable();
        let last = names.last().and_then(|name| name.to_str()?.parse::<u64>().ok());
        let path = directory.join(format!("{:0DIGITS$}", last.unwrap_or(0) + 1));
        let mut ahead = Vec::new();
        for name in names {
            let one = directory.join(name);
            if is_held(&one)? {
                let text = fsx::load_if_there(&one)?.unwrap_or_default();
                let memory = std::str::from_utf8(&text).ok();
                // One that cannot be read is on its way out.
                ahead.push((one, memory.and_then(|text| text.trim().parse().ok()).unwrap_or(0)));
            }
        }
        // Open for writing, as no command behind a fence can have it: that tells our locks from theirs (`FencedHolder`).
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let mut file = made.map_err(|error| fsx::not_writable(&path, error))?;
        // Shared, because the supervisor takes the same lock on a descriptor of its own.
        file.lock_shared().at("could not lock", &path)?;
        let written = writeln!(file, "{memory}");
        let ticket = Ticket { path, file, ahead };
        // A ticket without its memory is given back by being dropped here.
        written.at("could not write", &ticket.path)?;
        Ok(ticket)
    }

    /// The memory that each command may take that arrived before and is not over.
    ///
    /// # Errors
    /// `io`, `lock-held`.
    pub fn ahead(&mut self) -> Result<Vec<u64>> {
        let mut held = Vec::with_capacity(self.ahead.len());
        for (path, memory) in std::mem::take(&mut self.ahead) {
            if is_held(&path)? {
                held.push((path, memory));
            }
        }
        self.ahead = held;
        Ok(self.ahead.iter().map(|(_, memory)| *memory).collect())
    }

    /// Its file, which the supervisor of the command locks as well.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // By name and not by closing: a child that is being started may have the file open for a
        // moment.
        let _ = self.file.unlock();
        // Where a supervisor is left that still ends its command, the next one to ask removes it.
        let _ = is_held(&self.path);
    }
}

/// Whether a ticket is held. One that is not was left by a killed command, and is removed: it is never taken again.
fn is_held(path: &Path) -> Result<bool> {
    match lock::holding(path)? {
        Holding::Held => return Ok(true),
        Holding::Free => drop(fs::remove_file(path).at_if_there("could not remove", path)?),
        Holding::Gone => {}
    }
    Ok(false)
}
