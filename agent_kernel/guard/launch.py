"""Launcher: the small process that stands between us and a command, and outlives neither.

It runs by path as `python -I -S launch.py CONFIG -- ARGV`, so it may import nothing but the stdlib.
"""

import contextlib
import ctypes
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Collection, Iterable
from typing import Any

if sys.platform != "win32":
    import resource

STRAY_GRACE = 0.2  # seconds a left-over child of a finished command has between TERM and KILL
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
CHUNK = 1 << 16


# ---------------------------------------------------------------- the process tree
def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command name, or None when PID is gone.

    Field 0 is the state, 1 the parent, 19 the start time in clock ticks since boot (proc(5)).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return text[text.rfind(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Return when PID started, in clock ticks since boot; None when it is gone or a zombie."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return int(fields[19])


def pids() -> list[int]:
    """Return the pids /proc shows; empty where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    return [int(name) for name in names if name.isdigit()]


def descendants(root: int) -> dict[int, int]:
    """Return {pid: start time} of every live process below `root`, which is not itself in it."""
    children: dict[int, list[tuple[int, list[str]]]] = {}
    for pid in pids():
        fields = stat_fields(pid)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append((pid, fields))
    found: dict[int, int] = {}
    todo = [root]
    while todo:
        for pid, fields in children.get(todo.pop(), ()):
            todo.append(pid)
            if fields[0] not in "ZX":
                found[pid] = int(fields[19])
    return found


def comm(pid: int) -> str:
    """Return the short name of PID, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def send(pid: int, started: int | None, signum: int) -> bool:
    """Signal PID only if it is still the process that started at `started`; tell whether it was.

    The descriptor is taken first and the start time compared after, so a pid that was given to
    another process in between is never hit.
    """
    try:
        fd = os.pidfd_open(pid)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        if started is None or start_time(pid) != started:
            return False
        signal.pidfd_send_signal(fd, signum)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(fd)
    return True


def send_all(tree: dict[int, int], signum: int) -> int:
    """Signal every process of `tree`; return how many were still themselves.

    On TERM bwrap is spared: it would take its namespace down before the command can clean up.
    """
    hit = 0
    for pid, started in tree.items():
        if signum == signal.SIGTERM and comm(pid) == "bwrap":
            continue
        hit += send(pid, started, signum)
    return hit


# ---------------------------------------------------------------- confinement (kernel ABI)
_ARCH = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
_WRITE = 0b1_1111_1111_0010 | 1 << 13 | 1 << 14  # write, remove, make, refer, truncate
_SYSCALL_CREATE, _SYSCALL_ADD, _SYSCALL_RESTRICT = 444, 445, 446  # the same on every architecture
AF_NETLINK = 16


def libc() -> Any:
    """Return the C library with errno kept."""
    return ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Return the Landlock ABI version of this kernel, 0 when it has none."""
    return max(0, int(libc().syscall(_SYSCALL_CREATE, None, ctypes.c_size_t(0), 1)))


def _checked(value: int, what: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def landlock(writable: Iterable[str], network: bool) -> None:
    """Let this process write only below `writable`, and use no TCP unless `network`.

    Numbers from linux/landlock.h; a right that the kernel does not know is left out.
    """
    abi, call = landlock_abi(), libc().syscall
    rights = _WRITE & ~(0 if abi >= 2 else 1 << 13) & ~(0 if abi >= 3 else 1 << 14)
    net = 0b11 if abi >= 4 and not network else 0
    scoped = 0b11 if abi >= 6 else 0  # no signal and no abstract socket to a process outside
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    attributes = struct.pack("QQQ", rights, net, scoped)[:size]
    ruleset = _checked(call(_SYSCALL_CREATE, attributes, ctypes.c_size_t(size), 0), "landlock")
    for path in writable:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        allowed = rights if os.path.isdir(path) else rights & (1 << 1 | 1 << 14)
        rule = struct.pack("=Qi", allowed, parent)
        _checked(call(_SYSCALL_ADD, ruleset, 1, rule, 0), f"landlock rule for {path!r}")
        os.close(parent)
    _checked(libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(call(_SYSCALL_RESTRICT, ruleset, 0), "landlock restrict")
    os.close(ruleset)


def deny_sockets() -> None:
    """Refuse every socket() but netlink with EPERM, and io_uring, which opens them by another door.

    A classic BPF program (linux/filter.h, linux/seccomp.h); a foreign architecture is killed.
    """
    arch, socket_number, uring = _ARCH[os.uname().machine]
    load, equal, above, ret = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | 1, 0x80000000
    program = [
        (load, 0, 0, 4),  # the architecture
        (equal, 1, 0, arch),
        (ret, 0, 0, kill),
        (load, 0, 0, 0),  # the system call
        (above, 5, 0, 0x40000000),  # x32: other numbers for the same calls
        (equal, 4, 0, uring),
        (equal, 0, 2, socket_number),
        (load, 0, 0, 16),  # its first argument, the family
        (equal, 0, 1, AF_NETLINK),
        (ret, 0, 0, allow),
        (ret, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("HBBI", op, yes, no, k) for op, yes, no, k in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    )
    _checked(libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(libc().prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


# ---------------------------------------------------------------- the command
def limit(which: int, value: int) -> None:
    """Lower a soft and hard limit to `value`; a lower hard limit that is already set stays."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def own_threads() -> int:
    """Return how many threads this user runs now: RLIMIT_NPROC counts them, not processes."""
    uid, count = os.getuid(), 0
    for pid in pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return count


def set_limits(config: dict[str, Any]) -> None:
    """Apply the limits of CONFIG to this process: core, file size, processes, memory (bytes)."""
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, config["file_bytes"])
    if config["memory_bytes"] is not None:
        limit(resource.RLIMIT_AS, config["memory_bytes"])
    if os.getuid() != 0:  # the kernel does not count root's processes
        limit(resource.RLIMIT_NPROC, own_threads() + config["processes"])


def run_child(config: dict[str, Any], argv: list[str], status: int) -> None:
    """Become the command; a failure is written to `status` and ends the process with 127."""
    try:
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if sys.platform == "linux":
            libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        set_limits(config)
        if config["landlock"] is not None:
            landlock(config["landlock"], config["network"])
            if not config["network"]:
                deny_sockets()
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is wanted
    except OSError as error:
        report(status, {"errno": error.errno, "error": str(error)})
        os._exit(127)


def report(status: int, record: dict[str, Any]) -> None:
    """Write one JSON line to the status pipe; the reader may be gone, then nobody is to be told."""
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(record).encode() + b"\n")


def kill_tree(root: int, grace: float, spare: Collection[int] = ()) -> int:
    """Stop every process below `root` but `spare`: TERM, `grace` seconds, KILL until none is left.

    Returns how many there were. Reaps what this process is the parent of.
    """

    def tree() -> dict[int, int]:
        return {pid: at for pid, at in descendants(root).items() if pid not in spare}

    found = tree()
    count = len(found)
    if not found:
        return 0
    if grace:
        send_all(found, signal.SIGTERM)
    until = time.monotonic() + grace
    while found and time.monotonic() < until:
        time.sleep(0.005)
        reap()
        found = tree()
    for _ in range(200):  # a fork bomb makes new ones while the list is read
        if not found:
            break
        send_all(found, signal.SIGKILL)
        reap()
        time.sleep(0.002)
        found = tree()
    reap()
    return count


def reap() -> None:
    """Collect every ended child of this process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def drain(source: int, path: str, cap: int) -> None:
    """Copy `source` to `path` up to `cap` bytes, then read on and discard, so no writer blocks."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    left = cap
    while chunk := os.read(source, CHUNK):
        kept = chunk[:left]
        left -= len(kept)
        while kept:
            kept = kept[os.write(target, kept) :]
    os.close(target)


def fork_drain(config: dict[str, Any]) -> int:
    """Start the process that writes the output file of a task that may outlive us; its pid."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_WRONLY)
        for fd in (1, 2):
            os.dup2(null, fd)
        os.close(sink)
        drain(source, config["drain"], config["drain_bytes"])
        os._exit(0)
    for fd in (1, 2):
        os.dup2(sink, fd)
    os.close(source)
    os.close(sink)
    return pid


def watch(main: int) -> int:
    """Reap children until the command ends; its wait status."""
    while True:
        pid, code = os.waitpid(-1, 0)
        if pid == main:
            return code


def main(arguments: list[str]) -> int:
    """Run a command under CONFIG, stop what it leaves behind, report how it ended."""
    config: dict[str, Any] = json.loads(arguments[0])
    argv, status, parent = arguments[2:], int(config["status"]), int(config["parent"])
    os.set_inheritable(status, False)

    def orphaned(_signum: int, _frame: object) -> None:
        if config["die"] and os.getppid() != parent:  # the kernel is gone, so is its command
            kill_tree(os.getpid(), STRAY_GRACE)
            os._exit(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, orphaned)
    if sys.platform == "linux":
        libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if config["die"]:
            libc().prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)
            orphaned(0, None)
    writer = fork_drain(config) if config["drain"] is not None else None
    child = os.fork()
    if child == 0:
        run_child(config, argv, status)
    code = watch(child)
    strays = kill_tree(os.getpid(), STRAY_GRACE, () if writer is None else (writer,))
    if writer is not None:
        os.closerange(1, 3)  # the last writing ends, so the file gets its end
        with contextlib.suppress(ChildProcessError):  # reaped while the command ran: it is done
            os.waitpid(writer, 0)
    report(status, {"exit": os.waitstatus_to_exitcode(code), "strays": strays})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
