"""System calls that confine the calling process and all that it starts (Linux).

The shim loads this file by its path, so it may import only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
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
_IO_URING_SETUP = 425
_X32 = 0x40000000
_AF_UNIX = 1
_EPERM, _EAFNOSUPPORT = 1, 97


def landlock_version() -> int:
    """Return the Landlock version of the running kernel, 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def can_refuse_sockets() -> bool:
    """Return True if sockets can be refused on this machine."""
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


def hide_directories(hidden: Iterable[str], shown: Iterable[str]) -> None:
    """Replace ``hidden`` by empty directories in a new mount namespace, but leave ``shown`` visible.

    It needs CAP_SYS_ADMIN.

    Raises
    ------
    OSError
        When that is not permitted.
    """
    _checked(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    descriptors = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in shown}
    try:
        for path in hidden:
            _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=711,size=64k")
        for path, descriptor in descriptors.items():
            if any(path.startswith(f"{directory}/") for directory in hidden):
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


def refuse_local_sockets() -> None:
    """Refuse socket(AF_UNIX) and io_uring.

    Landlock does not keep a process from the local sockets of its own user, such as a queue's. Pairs of
    sockets remain possible.

    Raises
    ------
    OSError
        When this machine cannot refuse them.
    """
    if not can_refuse_sockets():
        raise OSError(_EPERM, f"sockets cannot be refused on {platform.machine()}")
    audit, socket = _MACHINES[platform.machine()]
    load, equal, greater, ret = 0x20, 0x15, 0x35, 0x06
    refuse, allow = 0x00050000, 0x7FFF0000
    program = (
        (load, 0, 0, 4),  # the machine's name
        (equal, 1, 0, audit),
        (ret, 0, 0, refuse | _EPERM),
        (load, 0, 0, 0),  # the number of the call
        (greater, 4, 0, _X32),
        (equal, 3, 0, _IO_URING_SETUP),
        (equal, 0, 3, socket),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, _AF_UNIX),
        (ret, 0, 0, refuse | _EAFNOSUPPORT),
        (ret, 0, 0, allow),
    )
    # The jumps of lines 4 and 5 lead to line 9.
    text = b"".join(struct.pack("=HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(text, len(text))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(buffer)))
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
