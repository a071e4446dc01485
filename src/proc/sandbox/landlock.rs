//! Landlock: a process gives up rights, for itself and for all that it will ever start.
//!
//! Each [`Level`] is pinned to one version of the kernel's interface, and all that the version has is
//! demanded, nothing is best effort: a right that a newer kernel adds changes nothing here until somebody
//! looked at it. Below version 3 a process could truncate every file it can open, so that counts as
//! nothing. TCP (version 4) and pathname sockets (version 9) are left alone.

use crate::domain::sandbox::{Fence, Level};
use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Devices that any program may expect to write to. `ptmx` and `pts` make pseudo-terminals.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The highest level that this kernel can enforce.
///
/// # Errors
/// What it lacks.
pub(super) fn offer() -> Result<Level, String> {
    // Asking makes a set of rules and drops it; only `restrict` binds this process.
    Level::ALL
        .into_iter()
        .rev()
        .find(|level| rules(*level).is_ok())
        .ok_or_else(|| {
            "this kernel has no Landlock of version 3 or later (Linux 6.2), or it is switched off"
                .to_owned()
        })
}

/// Restricts this process for good.
///
/// # Errors
/// One sentence; the process may already have given up `setuid` programs then.
pub(super) fn restrict(fence: &Fence, level: Level) -> Result<(), String> {
    let no_rules = |error: RulesetError| format!("the kernel refuses the sandbox: {error}");
    let mut rules = rules(level).map_err(no_rules)?;
    let abi = abi(level);
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
    rules = add(rules, Path::new("/"), AccessFs::from_read(abi))?;
    // Device files are not made in a worktree: root could make one that is the whole disk.
    let all = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    for device in DEVICES.map(Path::new) {
        // A container need not have them all, and there `ptmx` is often a symlink into `pts`.
        if device.exists() && !device.is_symlink() {
            rules = add(rules, device, all)?;
        }
    }
    for place in &fence.writable {
        rules = add(rules, place, all)?;
    }
    let status = rules.restrict_self().map_err(no_rules)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        status => Err(format!("the kernel refuses the sandbox: {status:?}")),
    }
}

fn abi(level: Level) -> ABI {
    match level {
        Level::Files => ABI::V3,
        Level::Devices => ABI::V5,
        Level::Processes => ABI::V6,
    }
}

/// An empty set of rules: all that the level can refuse, it refuses.
fn rules(level: Level) -> Result<RulesetCreated, RulesetError> {
    let abi = abi(level);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if level == Level::Processes {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    rules.create()
}

/// Opens a place to name it in a rule. A symlink anywhere in the path is an error: an agent may have put
/// it there in an earlier run, to be let out by this one.
fn open(path: &Path) -> Result<(OwnedFd, FileType), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let file_type = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
    Ok((place, file_type))
}
