//! Landlock: a process gives up rights, for itself and for all that it will ever start.
//!
//! Each [`Landlock`] level is pinned to one version of the kernel's interface, and all that the version has is
//! demanded, nothing is best effort: a right that a newer kernel adds changes nothing here until a developer
//! looked at it. Below version 3 a process can truncate every file it can open, so that version 2 counts only where
//! mounts are read-only. TCP (version 4) and pathname sockets (version 9) are left alone.

use crate::domain::life::sandbox::{Fence, Landlock, Level};
use crate::proc::sandbox::system_calls;
use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Devices that any program may expect to write to. Terminals are not among them: a process that can write to
/// one can inject commands into the shell that runs there, or print escape sequences that do.
const WRITABLE_DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", OWN_TERMINAL];

/// The terminal of the process that opens it.
const OWN_TERMINAL: &str = "/dev/tty";

/// Devices, and directories of them, that may be read besides.
const READABLE_DEVICES: [&str; 3] = ["/dev/random", "/dev/urandom", "/dev/shm"];

/// The highest level that this kernel can enforce.
///
/// # Errors
/// What it lacks.
pub(super) fn offer() -> Result<Landlock, String> {
    // Asking makes a set of rules and drops it; only `restrict` binds this process.
    Landlock::ALL.into_iter().rev().find(|level| rules(*level).is_ok()).ok_or_else(|| {
        "this kernel has no Landlock of version 2 or later (Linux 5.19), or it is switched off"
            .to_owned()
    })
}

/// Restricts this process for good: files by Landlock, capabilities, system calls.
///
/// # Errors
/// One sentence; the process may have given up capabilities and `setuid` programs then.
pub(super) fn restrict(fence: &Fence, level: Level) -> Result<(), String> {
    let no_rules = |error: RulesetError| format!("the kernel refuses the sandbox: {error}");
    let mut rules = rules(level.landlock).map_err(no_rules)?;
    let abi = abi(level.landlock);
    let add = |rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>| {
        let (place, file_type) =
            open(path).map_err(|error| format!("could not open {}: {error}", path.display()))?;
        // A right that only directories can have is an error on a file.
        let access = match file_type {
            FileType::Directory => access,
            _ => access & AccessFs::from_file(abi),
        };
        rules
            .add_rule(PathBeneath::new(place, access))
            .map_err(|error| format!("could not fence {}: {error}", path.display()))
    };
    // 1. Every directory can be listed, and every file read but for devices: reading a terminal takes the keys
    //    that its user types, and root could read whole disks.
    rules = add(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    for place in readable()? {
        rules = add(rules, &place, AccessFs::from_read(abi))?;
    }
    // 2. What may be written. No device may be made: root could make one that is the whole disk. Of the devices
    //    that exist none takes a command (ioctl), unless the caller opened it or made it a terminal for the command.
    let all = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    for device in present(&WRITABLE_DEVICES) {
        let is_own = fence.terminal && device == Path::new(OWN_TERMINAL);
        let refused = if is_own { BitFlags::empty() } else { AccessFs::IoctlDev.into() };
        rules = add(rules, device, all & !refused)?;
    }
    for place in &fence.writable {
        rules = add(rules, place, all)?;
    }
    // 3. No return from here. The places above were opened with the rights that root gives up now.
    system_calls::give_up()?;
    let status = rules.restrict_self().map_err(no_rules)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => {
            system_calls::restrict(fence.unix_sockets, level.namespaces)
        }
        status => Err(format!("the kernel refuses the sandbox: {status:?}")),
    }
}

/// The places below the root that may be read: everything but `/dev`, and of that the devices named above.
fn readable() -> Result<Vec<PathBuf>, String> {
    let fail = |error: std::io::Error| format!("could not list the root directory: {error}");
    let mut places = Vec::new();
    for entry in std::fs::read_dir("/").map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let file_type = entry.file_type().map_err(fail)?;
        // What a link leads to is another entry, or below one.
        if (file_type.is_dir() || file_type.is_file()) && entry.file_name() != "dev" {
            places.push(entry.path());
        }
    }
    let devices = present(&WRITABLE_DEVICES).chain(present(&READABLE_DEVICES));
    places.extend(devices.map(Path::to_owned));
    Ok(places)
}

/// Those that exist here and are no links: a container has not all of them.
fn present(devices: &'static [&str]) -> impl Iterator<Item = &'static Path> {
    let devices = devices.iter().map(Path::new);
    devices.filter(|device| device.exists() && !device.is_symlink())
}

fn abi(level: Landlock) -> ABI {
    match level {
        Landlock::Links => ABI::V2,
        Landlock::Files => ABI::V3,
        Landlock::Devices => ABI::V5,
        Landlock::Processes => ABI::V6,
    }
}

/// An empty set of rules: all that the level can refuse, it refuses.
fn rules(level: Landlock) -> Result<RulesetCreated, RulesetError> {
    let abi = abi(level);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if level == Landlock::Processes {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    rules.create()
}

/// Opens a place to name it in a rule. A symlink anywhere in the path is an error: an agent may have put
/// it there in an earlier run, to be let out by this one.
pub(super) fn open(path: &Path) -> Result<(OwnedFd, FileType), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let file_type = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
    Ok((place, file_type))
}
