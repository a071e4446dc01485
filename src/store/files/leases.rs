//! The values that agents of this clone hold: one symlink each, `<common dir>/agents/leases/<kind>-<value>`, which
//! leads to `<id8>:<VARIABLE>`.
//!
//! To make a symlink is one step that fails where the name exists, so of any number of processes that want the same value
//! one gets it, and no lock is needed. What is taken is seen with its owner from the first moment on.

use crate::domain::life::claim::{LOOPBACK, Lease, LeaseKind, PORTS, WantedLease};
use crate::domain::{AgentId, Slug, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::store::files::{fsx, layout};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;

/// The leases of each agent that holds any, by the first eight digits of its id, in the order of their variables.
pub type HeldLeases = BTreeMap<String, Vec<Lease>>;

/// Takes what is wanted for an agent, by the first eight digits of its id; gives it in the order of the wishes.
///
/// # Errors
/// `lease-exhausted` when every value is taken; `repo-read-only`, `disk-full`, `io`. What was taken until then is taken.
pub fn take(
    common_dir: &Path,
    short: &str,
    slug: &Slug,
    wanted: &[WantedLease],
) -> Result<Vec<Lease>> {
    let directory = layout::leases_dir(common_dir);
    if !wanted.is_empty() {
        fsx::create_dir(&directory)?;
    }
    let take_one = |wanted: &WantedLease| -> Result<Lease> {
        let WantedLease { variable, kind } = wanted;
        // Names of variables are words, so that this is no path that leads anywhere.
        let owner = format!("{short}:{variable}");
        for value in candidates(*kind, short, slug, variable) {
            if *kind == LeaseKind::Loopback {
                require_own_address(&value)?;
            }
            let place = directory.join(format!("{}-{value}", kind.as_str()));
            match symlink(&owner, &place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                taken => {
                    taken.at("could not make", &place)?;
                    let variable = variable.clone();
                    return Ok(Lease { variable, value });
                }
            }
        }
        let what = format!("no {} is left for {variable}", kind.as_str());
        Err(Error::new(Code::LeaseExhausted, what)
            .hint(format!("to see which agents hold them, run ls -l {}", shell::path(&directory))))
    };
    wanted.iter().map(take_one).collect()
}

/// The values that may be given, in the order in which they are tried. Ports begin at a place that depends on the agent, so
/// that other clones of the machine rarely meet.
fn candidates(
    kind: LeaseKind,
    short: &str,
    slug: &Slug,
    variable: &str,
) -> Box<dyn Iterator<Item = String>> {
    match kind {
        LeaseKind::Port => {
            let count = u32::from(PORTS.end - PORTS.start);
            let first = u32::from_str_radix(short, 16).unwrap_or_default() % count;
            let numbers = (0..count).map(move |step| (first + step) % count);
            let ports =
                numbers.filter_map(|number| Some(PORTS.start + u16::try_from(number).ok()?));
            Box::new(ports.filter(|port| is_free(*port)).map(|port| port.to_string()))
        }
        LeaseKind::Loopback => {
            let count = LOOPBACK.end - LOOPBACK.start;
            let first = u32::from_str_radix(short, 16).unwrap_or_default() % count;
            let addresses = (0..count).map(move |step| LOOPBACK.start + (first + step) % count);
            // The last byte of an address is neither 0 nor 255: some programs take those for a network and for all of it.
            let addresses = addresses.filter(|address| !matches!(address & 0xff, 0 | 0xff));
            Box::new(addresses.map(|address| Ipv4Addr::from_bits(address).to_string()))
        }
        LeaseKind::Slug => {
            // Databases take no hyphen in a name without quotes, so it is an underline.
            let name = format!("{}_{short}", slug.as_str().replace('-', "_"));
            let variable = variable.to_lowercase();
            // A second variable of the same agent.
            Box::new([name.clone(), format!("{name}_{variable}")].into_iter())
        }
        LeaseKind::Number => Box::new((1_u32..=100_000).map(|number| number.to_string())),
    }
}

/// Whether nothing listens on a port of this machine.
fn is_free(port: u16) -> bool {
    // A program that no agent started may have it, which no lease says.
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Refuses an address on which nothing can listen: Linux has all of 127.0.0.0/8, others have those that were given to the interface.
fn require_own_address(address: &str) -> Result<()> {
    match TcpListener::bind((address, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Err(Error::new(
            Code::LeaseExhausted,
            format!("nothing can listen on {address} on this machine yet"),
        )
        .hint(format!("to have it, run sudo ifconfig lo0 alias {address} up"))),
        // A process that may not listen at all may still hand the address on.
        _ => Ok(()),
    }
}

/// Every lease of this clone.
///
/// # Errors
/// `io`.
pub fn held(common_dir: &Path) -> Result<HeldLeases> {
    let mut held = HeldLeases::new();
    each(common_dir, |_, short, lease| {
        held.entry(short.to_owned()).or_default().push(lease);
        Ok(())
    })?;
    held.values_mut().for_each(|leases| leases.sort_unstable());
    Ok(held)
}

/// What one agent holds.
///
/// # Errors
/// `io`.
pub fn of(common_dir: &Path, id: AgentId) -> Result<Vec<Lease>> {
    Ok(held(common_dir)?.remove(&id.short()).unwrap_or_default())
}

/// Gives back what the agent with these first eight digits holds.
///
/// # Errors
/// `io`.
pub fn free(common_dir: &Path, short_id: &str) -> Result<()> {
    each(common_dir, |place, short, _| {
        if short != short_id {
            return Ok(());
        }
        let freed = fs::remove_file(place).at_if_there("could not remove", place);
        freed.map(drop)
    })
}

/// Hands on each lease with its place and the first eight digits of its owner's id.
fn each(common_dir: &Path, mut on: impl FnMut(&Path, &str, Lease) -> Result<()>) -> Result<()> {
    let directory = layout::leases_dir(common_dir);
    let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
    for entry in entries.into_iter().flatten() {
        let entry = entry.at("could not list", &directory)?;
        let name = entry.file_name();
        // One that was given back meanwhile leads nowhere.
        let owner = fs::read_link(entry.path()).ok();
        let parts = || {
            let (_, value) = name.to_str()?.split_once('-')?;
            let (short, variable) = owner.as_deref()?.to_str()?.split_once(':')?;
            let (variable, value) = (variable.to_owned(), value.to_owned());
            Some((short, Lease { variable, value }))
        };
        if let Some((short, lease)) = parts() {
            on(&entry.path(), short, lease)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_refused_only_where_this_machine_lacks_it() {
        assert!(require_own_address("127.0.0.1").is_ok());
        // Reserved for documentation (RFC 5737), so no machine has it.
        let refused = require_own_address("192.0.2.1").map_err(|error| error.code());
        assert_eq!(refused, Err(Code::LeaseExhausted));
    }
}
