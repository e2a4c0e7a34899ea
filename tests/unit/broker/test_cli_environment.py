"""Places in which commands cannot work: one line names the setting, and what only reads works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli import up
from broker.cli.errors import CommandError
from broker.client import Client, UnavailableError
from broker.local.process_list import ProcessList
from broker.settings import is_local, settings
from tests.unit.broker.running import Run, runner

MAIN = "import sys; sys.argv[0] = 'spotfed'; from broker.cli import main; main()"


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)
    settings.cache_clear()
    return runner(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _settings_are_read_again() -> Iterator[None]:
    yield
    settings.cache_clear()


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> tuple[int, str]:
    """Run a command in a process of its own; return its exit code and standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPOTFED_")}
    # The directory is removed by the shell, once the process is in it.
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'rmdir "$PWD" 2>/dev/null; exec "$@"',
            "sh",
            sys.executable,
            "-c",
            MAIN,
            *arguments,
        ],
        env={**kept, **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("directory", "why"), [("/dev/null", "Not a directory"), ("/dev/null/below", "Not a directory")]
)
def test_a_state_directory_that_cannot_be_used_is_named(
    spotfed: Run, monkeypatch: pytest.MonkeyPatch, directory: str, why: str
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", directory)
    for command in (["up"], ["demo"], ["trust", "create", "cloud.a"]):
        done = spotfed(*command)
        assert done.code == 2, command
        assert done.err.startswith("spotfed: SPOTFED_STATE_DIR: cannot use /dev/null")
        assert (done.err.endswith(f": {why}\n"), done.err.count("\n")) == (True, 1)
    assert spotfed("ps").code == 4
    assert spotfed("config", "show").code == 0
    assert "/dev/null" in spotfed("doctor").out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_state_directory_of_another_user_is_named(
    spotfed: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir(mode=0)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path / "other" / "state"))
    assert spotfed("up").code == 2
    assert spotfed("config", "show").code == 0
    assert spotfed("doctor").code == 1


def test_other_paths_and_a_full_disk_are_failures_without_a_traceback(
    spotfed: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))

    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr("broker.cli.ps.read_record", fail)
    raised: OSError = PermissionError(13, "Permission denied", "/etc/x")
    assert (spotfed("ps").code, spotfed("ps").err) == (1, "spotfed: /etc/x: Permission denied\n")
    raised = OSError(28, "No space left on device")
    assert (spotfed("ps").code, spotfed("ps").err) == (1, "spotfed: No space left on device\n")
    raised = OSError(22, "Invalid argument")  # a bug
    monkeypatch.setattr(sys, "argv", ["spotfed", "ps"])
    with pytest.raises(OSError, match="Invalid"):
        run_main()


def run_main() -> None:
    from broker import cli

    cli.main()


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code, told = run("ps", cwd=tmp_path / "gone", SPOTFED_STATE_DIR=str(tmp_path))
    assert (code, f"no federation runs in {tmp_path}" in told) == (4, True)
    (tmp_path / "cwd").mkdir()
    done = run("ps", cwd=tmp_path / "cwd", SPOTFED_STATE_DIR="state")
    assert done == (2, "spotfed: SPOTFED_STATE_DIR: is relative to the working directory, which is gone\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_that_is_stopped_before_it_began_ends_as_later(number: signal.Signals) -> None:
    code = (
        "import os, sys; sys.argv = ['spotfed', 'up']\nfrom broker.cli import app\n"
        f"app.load_command = lambda _: os.kill(os.getpid(), {int(number)})\napp.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("::1", "http://[::1]:8000"),
        ("::", "http://[::1]:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("broker.example", "http://broker.example:8000"),
    ],
)
def test_the_api_may_listen_on_ipv6_and_on_all_addresses(host: str, url: str) -> None:
    assert ProcessList(Path("f.toml"), ("a",), host=host).url == url


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    up._check_port(ProcessList(Path("f.toml"), ("a",), host="127.0.0.1", port=0))
    if Path("/proc/net/if_inet6").exists():
        up._check_port(ProcessList(Path("f.toml"), ("a",), host="::1", port=0))
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(CommandError, match=f"cannot listen on {host}:8000: .*SPOTFED_HOST"):
            up._check_port(ProcessList(Path("f.toml"), ("a",), host=host))


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.8.0.1", True),
        ("http://[::1]:8000", True),
        ("http://localhost", True),
        ("http://0.0.0.0:1", True),
        ("unix:///run/redis.sock", True),
        ("http://10.0.0.1", False),
        ("https://broker.example", False),
    ],
)
def test_no_proxy_lies_before_this_machine(url: str, here: bool) -> None:
    assert is_local(url) is here


def test_the_client_goes_around_proxies_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with Client("http://127.0.0.1:8000", "key") as here, Client("http://broker.example", "key") as there:
        assert not here._http._mounts
        assert there._http._mounts


def test_an_api_key_that_cannot_be_sent_is_named_and_not_repeated(
    spotfed: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SPOTFED_URL", "http://127.0.0.1:1")
    for key in ("sf_s3cret s3cret", "sf_s3cr\rs3cret", "sf_s3crét"):
        monkeypatch.setenv("SPOTFED_API_KEY", key)
        settings.cache_clear()
        done = spotfed("clouds")
        assert (done.code, done.err[:26], done.err.count("\n")) == (2, "spotfed: SPOTFED_API_KEY: ", 1)
        assert "s3" not in done.err + done.out
        with pytest.raises(ValueError, match="this one has others") as caught:
            Client("http://127.0.0.1:1", key)
        assert "s3" not in str(caught.value)
    monkeypatch.delenv("SPOTFED_API_KEY")
    settings.cache_clear()
    (tmp_path / "api-key").write_bytes(b"sf_s3\xffcret\n")
    done = spotfed("clouds")
    assert (done.code, str(tmp_path / "api-key") in done.err, "s3" in done.err) == (2, True, False)


def test_a_password_in_the_address_of_the_api_is_not_repeated() -> None:
    with (
        Client("http://me:s3cret@127.0.0.1:1", "key", deadline_s=0.01) as client,
        pytest.raises(UnavailableError, match=r"^http://me:\*\*\*@127.0.0.1:1 does not answer"),
    ):
        client.clouds.list()
