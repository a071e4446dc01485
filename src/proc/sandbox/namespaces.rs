//! Namespaces of the command's own: of mounts, of System V IPC, and of processes (namespaces(7)).
//!
//! Landlock has no right for modes, times and attributes of files, for locks, and for what lies in no file system. What a
//! process cannot name it cannot change, so the command gets a view of the machine in which only its own places are
//! writable ([`super::mounts`]) and only its own processes exist.
//!
//! Root makes them as root. Other users need a user namespace for that; in it their ids stay what they are, and those of
//! others show as 65534. Root gets none, because there the files of all other users would show so.
//!
//! Whether a kernel gives them is not written anywhere: some refuse the user namespace, some the mounts in it, some count them,
//! and another sandbox around us may forbid any. So a process of ours tries ([`probe`]) before the command is
//! recorded as started.

use super::overlay;
use crate::domain::life::sandbox::{Fence, LayerMount, Namespaces};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a process of these namespaces needs to arrange its mounts and to give up the bounding set afterwards.
const NEEDED: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// What lies below `/proc` on every system, on directories that hold nothing else. Any other mount there hides a part of
/// it, and then the kernel lets no user namespace have a `/proc` of its own.
const USUAL_BELOW_PROC: [&str; 2] = ["/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd"];

/// The statuses of a probe.
const ALL: u8 = 0;
const NO_PROCESSES: u8 = 1;
const USED_UP: u8 = 2;

/// What tells which namespaces can be had here.
pub(super) enum Probe {
    /// All can.
    Known,
    /// A process that tries; `None` where it could not be started.
    Started(Option<Child>),
}

impl Probe {
    pub(super) fn start(program: &Path) -> Probe {
        let mut probe = Command::new(program);
        probe.args([super::VERB, "--probe"]);
        for stream in [Command::stdin, Command::stdout, Command::stderr] {
            stream(&mut probe, Stdio::null());
        }
        Probe::Started(probe.spawn().ok())
    }

    /// What can be had, and why not all.
    pub(super) fn answer(self) -> (Namespaces, Option<&'static str>) {
        let status = match self {
            Probe::Known => Some(i32::from(ALL)),
            Probe::Started(probe) => probe.and_then(|mut probe| probe.wait().ok()?.code()),
        };
        match status.and_then(|code| u8::try_from(code).ok()) {
            Some(ALL) => (Namespaces::Processes, None),
            Some(NO_PROCESSES) => (
                Namespaces::Mounts,
                Some("a part of /proc is hidden here, so processes get no namespace"),
            ),
            Some(USED_UP) => (
                Namespaces::None,
                Some("no namespaces: their number is limited to fewer (user.max_user_namespaces)"),
            ),
            _ => (
                Namespaces::None,
                Some("no namespaces: the system, or another sandbox around this one, refuses them"),
            ),
        }
    }
}

/// Tries what a fence does, in this process. Gives the status to end with.
pub(super) fn probe() -> u8 {
    let wanted = if hides_proc() { Namespaces::Mounts } else { Namespaces::Processes };
    match make(wanted).and_then(|()| try_mounts()) {
        Ok(()) if wanted == Namespaces::Processes => ALL,
        Ok(()) => NO_PROCESSES,
        // There are limits for each kind, for each user and for the depth.
        Err(Errno::NOSPC | Errno::USERS) => USED_UP,
        Err(_) => USED_UP + 1,
    }
}

/// As [`super::Kernel::layers_refused`].
pub(super) fn layers_refused(program: &Path, layer: &LayerMount) -> Option<String> {
    let mut probe = Command::new(program);
    probe.args([super::VERB, "--probe", "--layer"]);
    probe.args(layer.paths());
    probe.stdin(Stdio::null());
    match probe.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            // Where there are no namespaces at all, that is the reason; where there are, one process was enough to find out.
            if let (Namespaces::None | Namespaces::Mounts, why) = Probe::start(program).answer() {
                return Some(why.unwrap_or("no namespaces can be had here").to_owned());
            }
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or_default();
            // `error[<code>]: <why>`
            let why = line.split_once("]: ").filter(|(code, _)| code.starts_with("error["));
            Some(why.map_or(line, |(_, why)| why).to_owned())
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Some systems let a process have the namespaces and refuse it what they are for.
fn try_mounts() -> Result<(), Errno> {
    // Both lie on the root from now on, where no path of this process leads.
    mount_bind_recursive("/", "/")?;
    mount("tmpfs", "/", "tmpfs", MountFlags::empty(), None)
}

/// Gives this process namespaces of its own and the capabilities to arrange them, which its children inherit, and mounts the
/// layer and the caches of the fence there. What could be mounted of the caches may be written. The namespace of processes is for the
/// children alone. No other thread may be there.
///
/// # Errors
/// One sentence.
pub(super) fn enter(wanted: Namespaces, fence: &mut Fence) -> Result<(), String> {
    let fail = |error: Errno| format!("the kernel refuses the sandbox its namespaces: {error}");
    make(wanted).map_err(fail)?;
    // Here, because the kernel does all that the mount writes with the capabilities of the process that mounted it, and of those
    // only two are kept.
    fence.layer.as_ref().map_or(Ok(()), overlay::mount_layer)?;
    for cache in std::mem::take(&mut fence.caches) {
        if overlay::mount_cache(&cache).is_ok() {
            fence.writable.push(cache.place);
        }
    }
    if wanted == Namespaces::Processes {
        keep_capabilities().map_err(fail)?;
    }
    Ok(())
}

fn make(wanted: Namespaces) -> Result<(), Errno> {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    if wanted == Namespaces::Processes {
        flags |= UnshareFlags::NEWPID;
    }
    // A container's root can lack this capability, and a sandbox may forbid what the capability allows.
    let is_able =
        capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    if !is_able || unshare(flags).is_err() {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        unshare(flags | UnshareFlags::NEWUSER)?;
        // In this order: the kernel lets a process map its group only after it gave up changing its groups.
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
        write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    }
    // Root's namespace passes mounts on to the one that it was made from, until it is told not to; none that comes later may reach it.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Else a user other than root loses its capabilities with the next program it starts, and that is the process which
/// arranges the mounts.
fn keep_capabilities() -> Result<(), Errno> {
    // All else is given up: a process can be looked into only by one that has at least its capabilities, and ours hands on a
    // descriptor that way.
    let needed = NEEDED.into_iter().collect();
    let inheritable = capabilities(None)?.inheritable | needed;
    let sets = CapabilitySets { effective: needed, permitted: needed, inheritable };
    set_capabilities(None, sets)?;
    // The kernel takes into the ambient set only what is permitted and inheritable.
    NEEDED
        .into_iter()
        .try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

#[expect(
    deprecated,
    reason = "its successor differs in one flag, that for a table of descriptors, which is not used here"
)]
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    rustix::thread::unshare(flags)
}

fn write(path: &str, text: &str) -> Result<(), Errno> {
    fs::write(path, text).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Whether a part of `/proc` is hidden behind a mount, as container engines do.
pub(super) fn hides_proc() -> bool {
    let mounts = super::mounts::all().unwrap_or_default();
    mounts
        .iter()
        .filter(|mount| mount.path.starts_with("/proc") && mount.path != Path::new("/proc"))
        .any(|mount| !USUAL_BELOW_PROC.iter().any(|usual| mount.path == Path::new(usual)))
}
