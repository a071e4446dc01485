//! What reaches past files: terminals, system calls, capabilities, sockets of other programs.
//!
//! Each attack is a few lines of C. It is tried without a fence first, where it has to work (as far as the user who
//! runs the tests may), and then behind the fence.

use super::Fenced;
use crate::support::agent::describe;
use crate::support::terminal::program_side;
use git_agent::domain::life::sandbox::Mode;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Exits with 0 when the attack that its first argument names worked. The second argument is a path or a pid.
const PROBE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int terminal(const char *path, int flags) {
    int fd = strcmp(path, "-") ? open(path, flags | O_NOCTTY) : 0;
    if (fd < 0) { perror("open"); exit(1); }
    return fd;
}

/* Nobody but root may ask for a number below the one that there is, as under nice. */
static int nicer(int process) {
    int now = getpriority(PRIO_PROCESS, process);
    return now < 19 ? now + 1 : now;
}

int main(int argc, char **argv) {
    const char *what = argv[1], *where = argc > 2 ? argv[2] : "";
    int result = -1;
    if (!strcmp(what, "type")) {
        result = ioctl(terminal(where, O_RDWR), TIOCSTI, "x");
    } else if (!strcmp(what, "select-and-paste")) {
        char paste = 3;
        result = ioctl(terminal(where, O_RDWR), 0x541C, &paste);
        if (result < 0 && errno != EPERM && errno != EACCES) result = 0; /* the call got through to the terminal */
    } else if (!strcmp(what, "settings")) {
        struct termios settings;
        int fd = terminal(where, O_RDWR);
        result = tcgetattr(fd, &settings) ? -1 : tcsetattr(fd, TCSANOW, &settings);
    } else if (!strcmp(what, "print")) {
        result = write(terminal(where, O_WRONLY), "\033[2J", 4) == 4 ? 0 : -1;
    } else if (!strcmp(what, "read")) {
        result = terminal(where, O_RDONLY | O_NONBLOCK) < 0 ? -1 : 0;
    } else if (!strcmp(what, "control")) {
        setsid();
        result = open(where, O_RDONLY) < 0 || open("/dev/tty", O_RDONLY) < 0 ? -1 : 0;
    } else if (!strcmp(what, "io-uring")) {
        char parameters[120] = {0};
        result = syscall(SYS_io_uring_setup, 1, parameters);
    } else if (!strcmp(what, "bpf")) {
        union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
        result = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map);
    } else if (!strcmp(what, "clock")) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        result = clock_settime(CLOCK_REALTIME, &now);
    } else if (!strcmp(what, "host-name")) {
        char name[65];
        gethostname(name, sizeof name);
        result = sethostname(name, strlen(name));
    } else if (!strcmp(what, "limits")) {
        struct rlimit limit;
        result = prlimit(atoi(where), RLIMIT_NOFILE, NULL, &limit) ? -1 : prlimit(atoi(where), RLIMIT_NOFILE, &limit, NULL);
    } else if (!strcmp(what, "priority")) {
        result = setpriority(PRIO_PROCESS, atoi(where), nicer(atoi(where)));
    } else if (!strcmp(what, "priority-of-user")) {
        result = setpriority(PRIO_USER, 0, getpriority(PRIO_USER, 0));
        if (result < 0 && errno == EACCES) result = 0; /* one of them is nicer already, which only root may take back */
    } else if (!strcmp(what, "processors")) {
        cpu_set_t set;
        result = sched_getaffinity(0, sizeof set, &set) ? -1 : sched_setaffinity(atoi(where), sizeof set, &set);
    } else if (!strcmp(what, "policy")) {
        struct sched_param parameters = {0};
        result = sched_setscheduler(atoi(where), SCHED_BATCH, &parameters);
    } else if (!strcmp(what, "mode")) {
        result = chmod(where, 0777);
    } else if (!strcmp(what, "mode-of-open")) {
        result = fchmod(open(where, O_RDONLY), 0777);
    } else if (!strcmp(what, "times")) {
        struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
        result = utimensat(AT_FDCWD, where, times, 0);
    } else if (!strcmp(what, "owner")) {
        result = chown(where, getuid(), getgid());
    } else if (!strcmp(what, "attribute")) {
        result = setxattr(where, "user.x", "x", 1, 0);
        if (result < 0 && errno == EOPNOTSUPP) result = chmod(where, 0777); /* the file system has none */
    } else if (!strcmp(what, "flags")) {
        int flags, fd = open(where, O_RDONLY);
        result = ioctl(fd, FS_IOC_GETFLAGS, &flags);
        if (result < 0 && errno == ENOTTY) result = chmod(where, 0777); /* the file system has none */
        else flags |= FS_NODUMP_FL, result = ioctl(fd, FS_IOC_SETFLAGS, &flags);
    } else if (!strcmp(what, "lock")) {
        result = flock(open(where, O_RDONLY), LOCK_EX | LOCK_NB);
    } else if (!strcmp(what, "read-lock")) {
        struct flock lock = {.l_type = F_RDLCK};
        result = fcntl(open(where, O_RDONLY), F_SETLK, &lock);
    } else if (!strcmp(what, "lease")) {
        result = fcntl(open(where, O_RDONLY), F_SETLEASE, F_RDLCK);
    } else if (!strcmp(what, "make-memory")) {
        result = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        printf("%d", result);
    } else if (!strcmp(what, "remove-memory")) {
        result = shmctl(atoi(where), IPC_RMID, NULL);
    } else if (!strcmp(what, "memory")) {
        char *memory = shmat(atoi(where), NULL, 0);
        result = memory == (void *)-1 ? -1 : (*memory = 'x', 0);
    } else if (!strcmp(what, "own-memory")) {
        result = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        if (result >= 0) result = shmctl(result, IPC_RMID, NULL);
    } else if (!strcmp(what, "own-priority")) {
        result = setpriority(PRIO_PROCESS, 0, nicer(0));
    } else if (!strcmp(what, "mount")) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) { perror("unshare"); return 1; }
        result = syscall(SYS_fsopen, "tmpfs", 0);
    } else if (!strcmp(what, "handle")) {
        struct { unsigned bytes; int type; char data[8]; } handle = {8, 1, {0}};
        result = syscall(SYS_open_by_handle_at, open("/", O_RDONLY), &handle, O_RDONLY);
        if (result < 0 && errno != EPERM) result = 0; /* the handle is stale, and root may ask */
    } else if (!strcmp(what, "connect") || !strcmp(what, "socket")) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        strncpy(address.sun_path, where, sizeof address.sun_path - 1);
        result = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
    } else if (!strcmp(what, "pair")) {
        int pair[2];
        result = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    }
    if (result < 0) perror(what);
    return result < 0;
}
"#;

/// A fenced agent, the probe, a terminal and a process outside.
pub(super) struct Setting {
    pub(super) fenced: Fenced,
    probe: PathBuf,
    /// Keeps the terminal open.
    _master: OwnedFd,
    terminal: PathBuf,
    pub(super) victim: Child,
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl Setting {
    fn new(mode: Mode) -> Option<Setting> {
        Setting::around(Fenced::new(mode)?)
    }

    pub(super) fn around(fenced: Fenced) -> Option<Setting> {
        let out = fenced.beside("out");
        let source = out.join("probe.c");
        fs::write(&source, PROBE).expect("written");
        let probe = out.join("probe");
        let compiler = Command::new("cc").arg("-o").args([&probe, &source]).output();
        let compiler = compiler.expect("a C compiler");
        assert!(compiler.status.success(), "{}", describe(&compiler));
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let terminal = ptsname(&master, Vec::new()).expect("named");
        let terminal = PathBuf::from(terminal.into_string().expect("UTF-8"));
        let victim = Command::new("sleep").arg("1000").spawn().expect("starts");
        Some(Setting { fenced, probe, _master: master, terminal, victim })
    }

    pub(super) fn attempt(
        &self,
        behind_fence: bool,
        attack: &str,
        argument: &str,
        input: Stdio,
    ) -> Output {
        let words = [self.probe.to_str().expect("UTF-8"), attack, argument];
        let mut command =
            if behind_fence { self.fenced.command(&words) } else { self.fenced.unfenced(&words) };
        command.stdin(input).output().expect("starts")
    }

    fn terminal(&self) -> Stdio {
        program_side(&self.terminal).into()
    }

    /// Refused behind the fence, and whether it works without one.
    pub(super) fn refused(&self, attack: &str, argument: &str, input: impl Fn() -> Stdio) -> bool {
        let without = self.attempt(false, attack, argument, input());
        let output = self.attempt(true, attack, argument, input());
        assert_eq!(output.status.code(), Some(1), "{attack}: {}", describe(&output));
        without.status.success()
    }
}

/// Whether the tests run as a user who may do everything.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn f3_no_terminal_is_typed_into_read_or_taken() {
    let Some(setting) = Setting::new(Mode::Require) else {
        return;
    };
    let path = setting.terminal.to_str().expect("UTF-8").to_owned();
    for attack in ["settings", "print", "read", "control"] {
        let works = setting.refused(attack, &path, Stdio::null);
        assert!(works, "{attack} works without a fence");
    }
    // Some kernels let only root do this (the setting dev.tty.legacy_tiocsti).
    let works = setting.refused("type", &path, Stdio::null);
    assert!(works || !is_root(), "root can type");
    setting.refused("select-and-paste", &path, Stdio::null);
    // A terminal that it was handed.
    let works = setting.refused("type", "-", || setting.terminal());
    assert!(works || !is_root(), "root can type");
    setting.refused("select-and-paste", "-", || setting.terminal());
}

#[test]
fn f19_the_machine_and_other_processes_stay_as_they_are() {
    let Some(setting) = Setting::new(Mode::Require) else {
        return;
    };
    let victim = setting.victim.id().to_string();
    for attack in ["limits", "priority"] {
        let works = setting.refused(attack, &victim, Stdio::null);
        assert!(works, "{attack} works without a fence");
    }
    for attack in ["bpf", "clock", "host-name", "mount", "handle", "io-uring"] {
        // Containers refuse some of these to everybody, and most are refused to ordinary users.
        setting.refused(attack, "", Stdio::null);
    }
    for allowed in ["own-priority", "pair"] {
        let output = setting.attempt(true, allowed, "", Stdio::null());
        assert!(output.status.success(), "{allowed}: {}", describe(&output));
    }
}

#[test]
fn f19_no_capability_is_left_and_none_comes_back() {
    let Some(setting) = Setting::new(Mode::Require) else {
        return;
    };
    let script = "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -v 0000000000000000";
    let output =
        setting.fenced.shell(&format!("! {script}; grep -q '^NoNewPrivs:.1$' /proc/self/status"));
    assert!(output.status.success(), "{}", describe(&output));
    if is_root() {
        let output = setting.fenced.unfenced(&["sh", "-ec", script]).output();
        assert!(output.expect("starts").status.success(), "root has some");
    }
}

#[test]
fn only_strict_keeps_a_command_from_sockets_that_are_files() {
    for (mode, reachable) in [(Mode::Require, true), (Mode::Strict, false)] {
        let Some(setting) = Setting::new(mode) else {
            return;
        };
        let socket = setting.fenced.beside("out").join("engine.sock");
        let _listener = UnixListener::bind(&socket).expect("listens");
        let path = socket.to_str().expect("UTF-8");
        assert!(Path::new(path).exists());
        let output = setting.attempt(true, "connect", path, Stdio::null());
        assert_eq!(output.status.success(), reachable, "{mode:?}: {}", describe(&output));
        let output = setting.attempt(true, "pair", "", Stdio::null());
        assert!(output.status.success(), "{}", describe(&output));
    }
}
