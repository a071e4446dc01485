//! System calls that a fenced command is refused (seccomp(2)).
//!
//! Landlock decides about files. What is refused here reaches past files: typing into a terminal, settings of the
//! whole machine, the limits of other processes, and io_uring, whose operations no such filter sees. Each
//! refused call fails with `EPERM`, as it does for a user without privileges; container engines refuse
//! the same calls by default.

use crate::domain::life::sandbox::Namespaces;
use libc::c_long;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Calls that are refused whatever their arguments are.
const REFUSED: [c_long; 36] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_vhangup,
];

/// Commands to a terminal that simulate input (ioctl_tty(2)): `TIOCSTI`, and `TIOCLINUX`, which selects and pastes
/// text on a console. C libraries differ in their types, and not all name the second.
const TERMINAL_COMMANDS: [u64; 2] = [0x5412, 0x541C];

/// Calls that give a priority, a policy or processors to the process or thread that their first argument names.
const OF_OTHERS: [c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// System V shared memory, semaphores and message queues (sysvipc(7)), and POSIX message queues (mq_overview(7)). What
/// they reach has no place in the file system.
const IPC: [c_long; 12] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
];

/// `F_SETLEASE` of fcntl(2): a process that has a lease on a file stops others that open it, for as long as the kernel waits
/// for the lease to be given back (45 s), and reading the file is enough to get one.
const SET_LEASE: u64 = libc::F_SETLEASE as u64;

/// `F_SETDELEG`, the same for whole directories (Linux 6.19).
const SET_DELEGATION: u64 = 1024 + 16;

/// What setpriority(2) and ioprio_set(2) call all processes of a user.
const PRIO_USER: u64 = 2;
const IOPRIO_WHO_USER: u64 = 3;

/// The bit that marks a call of the x32 interface, which the kernel runs under the number of the machine's own.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;
/// The number of `ioctl` there.
#[cfg(target_arch = "x86_64")]
const X32_IOCTL: c_long = X32 | 514;

/// Refuses the calls above to this process and all that it will start; with `unix_sockets` false also to
/// make sockets that connect to other programs of this machine, such as a container engine, and, where the command has no
/// namespace of its own for that, all that [`IPC`] lists.
///
/// A program for another architecture, such as a 32-bit one, is ended by its first call.
///
/// # Errors
/// One sentence, when the kernel has no filters.
pub(super) fn restrict(unix_sockets: bool, namespaces: Namespaces) -> Result<(), String> {
    let fail = |error: String| format!("the kernel refuses the filter of system calls: {error}");
    let Some(architecture) = ARCHITECTURE else {
        return Err("there is no filter of system calls for this processor".to_owned());
    };
    let filter = filter(unix_sockets, namespaces, architecture);
    let filter = filter.map_err(|error| fail(error.to_string()))?;
    seccompiler::apply_filter(&filter).map_err(|error| fail(error.to_string()))
}

fn filter(
    unix_sockets: bool,
    namespaces: Namespaces,
    architecture: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, Ne};
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED {
        // A call without a rule of its own is refused with any arguments.
        rules.insert(call, Vec::new());
    }
    for command in TERMINAL_COMMANDS {
        add(&mut rules, libc::SYS_ioctl, 1, Eq, command)?;
    }
    add(&mut rules, libc::SYS_fcntl, 1, Eq, SET_LEASE)?;
    add(&mut rules, libc::SYS_fcntl, 1, Eq, SET_DELEGATION)?;
    // "All processes of a user" means it, whatever the user's number is.
    add(&mut rules, libc::SYS_setpriority, 0, Eq, PRIO_USER)?;
    add(&mut rules, libc::SYS_ioprio_set, 0, Eq, IOPRIO_WHO_USER)?;
    if namespaces < Namespaces::Processes {
        // Another process's limits and priority; 0 is the caller itself. In a namespace of its own the command can name no
        // other process, and programs set these of their own threads by number.
        for call in OF_OTHERS {
            add(&mut rules, call, 0, Ne, 0)?;
        }
        add(&mut rules, libc::SYS_setpriority, 1, Ne, 0)?;
        add(&mut rules, libc::SYS_ioprio_set, 1, Ne, 0)?;
    }
    if !unix_sockets {
        // Only the making of such a socket can be refused by its number; what `connect` is given
        // lies in memory, where no filter looks.
        add(&mut rules, libc::SYS_socket, 0, Eq, libc::AF_UNIX as u64)?;
        if namespaces < Namespaces::Mounts {
            rules.extend(IPC.map(|call| (call, Vec::new())));
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        // Else each refused call could be made under its other number.
        let doubled: Vec<_> = rules.iter().map(|(call, rule)| (call | X32, rule.clone())).collect();
        rules.extend(doubled);
        let ioctl = rules.get(&libc::SYS_ioctl).cloned().unwrap_or_default();
        rules.insert(X32_IOCTL, ioctl);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

/// Adds a rule that refuses a call where the lower half of one argument, counted from 0, compares so with a value.
fn add(
    rules: &mut BTreeMap<i64, Vec<SeccompRule>>,
    call: c_long,
    argument: u8,
    compares: SeccompCmpOp,
    value: u64,
) -> Result<(), seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compares, value)?;
    rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    Ok(())
}

/// What the filter is compiled for; absent where the crate that compiles it does not know the processor.
const ARCHITECTURE: Option<TargetArch> = if cfg!(target_arch = "x86_64") {
    Some(TargetArch::x86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(TargetArch::aarch64)
} else if cfg!(target_arch = "riscv64") {
    Some(TargetArch::riscv64)
} else {
    None
};

// Capabilities: what makes root more than an owner of files (capabilities(7)).
//
// Landlock restricts files. With capabilities a process could still set the clock, load kernel modules, change
// the limits of other processes or own the files of other users.

/// Gives up every capability of this process and of all that it will start. A user without any has nothing to give
/// up.
///
/// # Errors
/// One sentence, when the kernel refuses.
pub(super) fn give_up() -> Result<(), String> {
    let fail = |error: Errno| format!("could not give up capabilities: {error}");
    if capabilities(None).map_err(fail)?.permitted.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_one_that_the_kernel_takes() {
        let architecture = ARCHITECTURE.expect("a processor that we know");
        for unix_sockets in [true, false] {
            for namespaces in Namespaces::ALL {
                // More instructions than this are refused by the kernel (BPF_MAXINSNS).
                let filter = filter(unix_sockets, namespaces, architecture).expect("a filter");
                assert!(filter.len() < 4096, "{}", filter.len());
            }
        }
    }
}
