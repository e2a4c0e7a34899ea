"""System calls that confine the calling process and all that it starts (Linux).

The shim loads this file by its path, so it may import only the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
#: Flags of the kinds of namespaces, by their names in /proc/PID/ns; a user namespace is entered first.
NAMESPACES = {"user": 0x10000000, "mnt": 0x00020000, "ipc": 0x08000000, "net": 0x40000000}
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
#: Directories in which all users may leave files. In a mount namespace a job has its own.
TEMPORARY, SHARED_MEMORY, LOCKS = ("/tmp", "/var/tmp"), "/dev/shm", ("/run/lock", "/var/lock")  # noqa: S108
MESSAGE_QUEUES = "/dev/mqueue"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_IPC_RMID = 0
#: Rights of Landlock to files, bits 0 to 15: execute, write, read a file, read a directory, remove, make,
#: refer, truncate, ioctl on devices.
_FILES = (1 << 16) - 1
_EXECUTE, _WRITE, _READ, _READ_DIRECTORY, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
#: The first version that also keeps signals inside, of Linux 6.12.
LANDLOCK_NEEDED = 6

#: By machine: its name for seccomp, and the number of socket(2). io_uring_setup(2) is 425 everywhere.
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
#: By machine: add_key(2), request_key(2) and keyctl(2) of 64-bit and of 32-bit programs, by their names.
_KEY_CALLS = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
}
_IO_URING_SETUP = 425
_X32 = 0x40000000
_AF_UNIX, _AF_INET, _SOCK_DGRAM = 1, 2, 2
_EPERM, _ESRCH, _EAFNOSUPPORT = 1, 3, 97
#: Instructions of seccomp: load, jump if equal, jump if not below, return; and what is returned.
_LOAD, _EQUAL, _REACHES, _RETURN = 0x20, 0x15, 0x35, 0x06
_REFUSE, _ALLOW = 0x00050000, 0x7FFF0000


def landlock_version() -> int:
    """Return the Landlock version of the running kernel, 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def can_refuse_calls() -> bool:
    """Return True if system calls can be refused on this machine."""
    return platform.machine() in _MACHINES


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send the signal when the parent ends. Call this after any change of the user."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def forbid_new_privileges() -> None:
    """Forbid all later programs to gain privileges, as set-user-ID programs do."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def become_user(uid: int) -> None:
    """Become an unprivileged user and its group, without any other groups."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def enter_namespaces(names: Collection[str]) -> None:
    """Move this process into new namespaces; its loopback device is up in that of the network.

    Without CAP_SYS_ADMIN it takes ``user`` among the names.

    Raises
    ------
    OSError
        When the kernel does not permit it.
    """
    uid, gid = os.geteuid(), os.getegid()
    _checked(_libc.unshare(sum(NAMESPACES[name] for name in names)), "unshare")
    if "user" in names:
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{file}", "w", encoding="ascii") as target:
                target.write(text)
    if "mnt" in names:
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    if "net" in names:
        _start_loopback()


def _start_loopback() -> None:
    descriptor = _checked(_libc.socket(_AF_INET, _SOCK_DGRAM, 0), "socket")
    try:
        answer = fcntl.ioctl(descriptor, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", answer)[1] | _IFF_UP
        fcntl.ioctl(descriptor, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))
    finally:
        os.close(descriptor)


def join_namespaces(pid: int, is_it: Callable[[], bool]) -> None:
    """Move this process into the namespaces of another, where they differ from its own.

    ``is_it``: asked once they are open, returns False if the id is that of another process meanwhile.

    Raises
    ------
    OSError
        When the process is gone, or the kernel does not permit it.
    """
    others = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in NAMESPACES}
    try:
        if not is_it():
            raise ProcessLookupError(_ESRCH, os.strerror(_ESRCH))
        for name, descriptor in others.items():
            if os.fstat(descriptor).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                _checked(_libc.setns(descriptor, NAMESPACES[name]), f"setns {name}")
    finally:
        for descriptor in others.values():
            os.close(descriptor)


def shared_directories() -> dict[str, str]:
    """Return the directories of this machine in which all users may leave files, each with its usual name."""
    names = (*TEMPORARY, SHARED_MEMORY, *LOCKS)
    return {os.path.realpath(name): name for name in reversed(names) if os.path.isdir(name)}


def list_ipc_objects() -> list[tuple[str, int, int]]:
    """Return the kind, id and user of each System V object of this IPC namespace: shm, sem or msg."""
    objects = []
    for kind in ("shm", "sem", "msg"):
        with suppress(OSError), open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:
            names, *lines = [line.split() for line in file]
            for line in lines:
                fields = dict(zip(names, map(int, line), strict=False))
                objects += [(kind, int(line[1]), fields[user]) for user in ("uid", "cuid")]
    return objects


def remove_ipc_objects(uid: int) -> None:
    """Remove the System V objects of a user in this IPC namespace."""
    remove = {
        "shm": lambda number: _libc.shmctl(number, _IPC_RMID, None),
        "sem": lambda number: _libc.semctl(number, 0, _IPC_RMID),
        "msg": lambda number: _libc.msgctl(number, _IPC_RMID, None),
    }
    for kind, number, owner in list_ipc_objects():
        if owner == uid:
            remove[kind](number)


def mount_places(hidden: Iterable[str], shown: Iterable[str], temporary: str, memory_mb: int | None) -> None:
    """Replace ``hidden`` by empty directories in this mount namespace, and the shared ones by own ones.

    What is temporary goes into the directory ``temporary``, shared memory into at most ``memory_mb``, by
    default half of the machine's. ``shown`` stays visible.

    Raises
    ------
    OSError
        When it is not permitted.
    """
    hidden = tuple(hidden)
    covered = shared_directories()
    seen = [path for path in (*shown, temporary) if os.path.isdir(path)]
    descriptors = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in seen}
    try:
        for path in hidden:
            _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=711,size=64k")
        for path, name in covered.items():
            if name in TEMPORARY:
                _mount(f"/proc/self/fd/{descriptors[temporary]}", path, None, _MS_BIND, None)
            else:
                memory = "50%" if memory_mb is None else f"{memory_mb}000000"
                size = memory if name == SHARED_MEMORY else "1m"
                _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={size}")
        if os.path.ismount(MESSAGE_QUEUES):
            _mount("mqueue", MESSAGE_QUEUES, "mqueue", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
        for path, descriptor in descriptors.items():
            if any(path.startswith(f"{directory}/") for directory in (*hidden, *covered)):
                _make(path)
                _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND, None)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _make(path: str) -> None:
    """Create a directory and those above it, through which everybody may pass."""
    if not os.path.isdir(path):
        _make(os.path.dirname(path))
        os.mkdir(path)
        os.chmod(path, 0o711)  # noqa: S103  (to pass through, not to list)


def apply_landlock(reads: Iterable[str], writes: Iterable[str]) -> None:
    """Allow only files beneath ``reads`` (read, execute) and ``writes`` (also change).

    Signals to processes outside are refused. Paths that do not exist are skipped.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    attributes = struct.pack("=QQQ", _FILES, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "landlock")
    try:
        for path in reads:
            _allow(ruleset, path, _EXECUTE | _READ | _READ_DIRECTORY)
        for path in writes:
            _allow(ruleset, path, _FILES)
        forbid_new_privileges()
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, descriptor)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), f"landlock {path}")
    finally:
        os.close(descriptor)


def refuse_keys() -> None:
    """Refuse keyrings of the kernel to this process and all that it starts: a user's keys outlive its jobs.

    Raises
    ------
    OSError
        When this machine cannot refuse calls.
    """
    program = []
    for kind, (add, request, control) in _KEY_CALLS.get(platform.machine(), {}).items():
        program += [(_LOAD, 0, 0, 4), (_EQUAL, 0, 6, kind), (_LOAD, 0, 0, 0)]
        program += [(_REACHES, 3, 0, _X32), (_EQUAL, 2, 0, add), (_EQUAL, 1, 0, request)]
        program += [(_EQUAL, 0, 1, control), (_RETURN, 0, 0, _REFUSE | _EPERM)]
    _filter_calls(program)


def refuse_sockets(*, local_only: bool) -> None:
    """Refuse sockets to this process and all that it starts; pairs of connected ones stay.

    ``local_only``: refuse those between processes of this machine, which Landlock lets pass.

    Raises
    ------
    OSError
        When this machine cannot refuse them.
    """
    kind, call = _MACHINES.get(platform.machine(), (0, 0))
    program = [
        (_LOAD, 0, 0, 4),  # the kind of program
        (_EQUAL, 1, 0, kind),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_REACHES, 1, 0, _X32),
        (_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_EQUAL, 0, 3, call),
        (_LOAD, 0, 0, 16),  # its first argument
        (_EQUAL, 0, 1, _AF_UNIX) if local_only else (_REACHES, 0, 1, 0),
        (_RETURN, 0, 0, _REFUSE | _EAFNOSUPPORT),
    ]
    _filter_calls(program)


def _filter_calls(program: list[tuple[int, int, int, int]]) -> None:
    if not can_refuse_calls():
        raise OSError(_EPERM, f"calls cannot be refused on {platform.machine()}")
    text = b"".join(struct.pack("=HBBI", *line) for line in (*program, (_RETURN, 0, 0, _ALLOW)))
    buffer = ctypes.create_string_buffer(text, len(text))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) + 1, ctypes.addressof(buffer)))
    forbid_new_privileges()
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(header), 0, 0), "seccomp")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    options = None if data is None else data.encode()
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), options), f"mount {target}")


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), "prctl")


def _checked(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer
