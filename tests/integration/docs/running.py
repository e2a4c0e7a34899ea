"""What carries out the blocks of a page: a shell, an interpreter and federations, in a home of their own."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from tests.integration.docs.blocks import EXAMPLES, REPEATED, commands, matches

ROOT = Path(__file__).resolve().parents[3]
COMMAND_LIMIT_S = 120.0
WAIT_LIMIT_S = 150.0
_MARK = "\x01done"
_INTERPRETER = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    block = json.loads(line)
    try:
        exec(compile("\\n" * block["line"] + block["text"], block["file"], "exec"), names)
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        code = 1
    print(f"\\x01done {code}", flush=True)
"""


class Home:
    """A user's home directory, with the commands that users have and the port of their federation."""

    def __init__(self, directory: Path):
        self.directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        programs = directory / "bin"
        programs.mkdir(parents=True)
        main = "import sys; from broker.cli import main; sys.exit(main())"
        self._program(programs / "spotfed", f"{shlex.quote(sys.executable)} -c {shlex.quote(main)}")
        self._program(programs / "python", shlex.quote(sys.executable))
        self._program(programs / "celery", f"{shlex.quote(sys.executable)} -m celery")
        kept = {
            n: v
            for n, v in os.environ.items()
            if not n.startswith(("SPOTFED_", "XDG_")) or n == "SPOTFED_DATA"
        }
        self.environment = {
            **kept,
            "HOME": str(directory),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SPOTFED_PORT": str(self.port),
            "NO_COLOR": "1",
            "COLUMNS": "130",
        }

    @staticmethod
    def _program(path: Path, command: str) -> None:
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)

    def said_here(self, text: str) -> str:
        """A page's text with the port of this home in place of the usual one."""
        return re.sub(r"(127\.0\.0\.1|localhost):8000\b", rf"\1:{self.port}", text)

    def said_there(self, text: str) -> str:
        """Output as a reader would see it."""
        return text.replace(f":{self.port}", ":8000").replace(str(self.directory), "~")


class Background:
    """A command in a terminal of its own, ended as by Ctrl-C."""

    def __init__(self, home: Home, command: str, cwd: Path, log: Path):
        self.home, self.command, self.log = home, command, log
        # Tests in the background of a shell were started to ignore Ctrl-C, and so would be what they start.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                ["bash", "-c", home.said_here(command)],
                cwd=cwd,
                env=home.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has written by now."""
        return self.home.said_there(self.log.read_text(errors="replace"))

    def await_output(self, shown: str) -> None:
        """Waits until it has written what is shown (and whatever else)."""
        deadline_s = time.monotonic() + WAIT_LIMIT_S
        while not matches(f"...\n{shown}\n...", self.output):
            ended = self._process.poll()
            assert ended is None, f"{self.command} ended with {ended}:\n{self.output}"
            assert time.monotonic() < deadline_s, (
                f"{self.command} has not written\n{shown}\nbut\n{self.output}"
            )
            time.sleep(0.2)

    def interrupt(self) -> None:
        """Ctrl-C, and the wait for its end."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise AssertionError(f"{self.command} does not end by Ctrl-C:\n{self.output}") from None


class Terminal:
    """One shell and one Python interpreter for the blocks of a page, and what runs beside them."""

    def __init__(self, home: Home, cwd: Path):
        self.home, self.cwd = home, cwd
        self._shell = self._started("bash", "--noprofile", "--norc")
        self._python: subprocess.Popen[bytes] | None = None
        self._beside: list[Background] = []

    def _started(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.cwd,
            env=self.home.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def console(self, text: str, said: str) -> None:
        """Carries out the commands of a block and compares what they write.

        A command ends with 0, unless the reader is shown its exit code by `echo $?` behind it.
        """
        told = commands(text)
        for at, (command, shown) in enumerate(told):
            if said == "background":
                beside = Background(self.home, command, self.cwd, self.cwd / f".beside-{len(self._beside)}")
                self._beside.append(beside)
                beside.await_output(shown)
                continue
            looked_at = at + 1 < len(told) and told[at + 1][0] == "echo $?"
            deadline_s = time.monotonic() + (WAIT_LIMIT_S if said == REPEATED else 0)
            while True:
                code, output = self._given(command)
                fits = (not code or looked_at) and (
                    not shown or matches(shown, output, examples=said == EXAMPLES)
                )
                if fits or time.monotonic() > deadline_s:
                    break
                time.sleep(0.5)
            assert not code or looked_at, f"$ {command}\nexit code {code}\n{output}"
            assert fits, f"$ {command}\nis shown as\n{shown}\n\nbut wrote\n{output}"

    def python(self, text: str, file: str, line: int) -> str:
        """Runs a block in the page's interpreter; what it prints."""
        if self._python is None:
            self._python = self._started("python", "-W", "error::DeprecationWarning", "-c", _INTERPRETER)
        said = {"text": self.home.said_here(text), "file": file, "line": line}
        code, output = self._asked(self._python, json.dumps(said).encode() + b"\n", f"{file}:{line}")
        assert code == 0, f"{file}:{line}\n{output}"
        return output

    def _given(self, command: str) -> tuple[int, str]:
        # The next command still finds the exit code of this one in $?.
        given = f"{{ {self.home.said_here(command)}\n}} </dev/null\n"
        end = f"__code=$?; echo; echo '{_MARK}' $__code; (exit $__code)\n"
        return self._asked(self._shell, (given + end).encode(), command)

    def _asked(self, process: subprocess.Popen[bytes], line: bytes, what: str) -> tuple[int, str]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        read = b""
        deadline_s = time.monotonic() + COMMAND_LIMIT_S
        while not (end := re.search(rb"\n?\x01done (\d+)\n$", read)):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{what} takes longer than {COMMAND_LIMIT_S:g} s:\n{read.decode()}"
            if select.select([process.stdout], [], [], left_s)[0]:
                part = os.read(process.stdout.fileno(), 65536)
                assert part, f"{what} ended the shell:\n{read.decode()}"
                read += part
        return int(end[1]), self.home.said_there(read[: end.start()].decode(errors="replace"))

    def close(self) -> None:
        """Ends the shell, the interpreter, and in reverse order what runs beside them."""
        with ExitStack() as ends:
            for beside in self._beside:
                ends.callback(beside.interrupt)
            for process in filter(None, (self._shell, self._python)):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.close()
                process.wait(60)
                process.stdout.close()
