"""What processes read when they start, and how they end where the state directory cannot be used."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from broker.settings import Settings, settings
from cloudsim.model.errors import SpecError
from workers.owner.__main__ import load_process_specs, parser


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    earlier = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    settings.cache_clear()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    for number, handler in earlier.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("module", ["workers.owner", "workers.node_agent", "workers.cloud_agent"])
def test_a_state_directory_that_cannot_be_used_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", "/dev/null")
    settings.cache_clear()
    assert import_module(f"{module}.__main__").main(["--cloud", "a", "--federation", "f.toml"]) == 2
    told = capsys.readouterr().err
    assert told == f"{module}: SPOTFED_STATE_DIR: cannot use /dev/null: Not a directory\n"


def test_an_owner_in_wall_time_reads_the_load_of_no_other_cloud(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    ours = '[[cloud]]\nid = "a"\nnodes = "2x4"\ntrace = { synthetic = "table-1", hours = 24, seed = 1 }\n'
    file.write_text(f'{ours}[[cloud]]\nid = "b"\nnodes = "2x4"\ntrace = "absent.txt"\n')
    arguments = ["--federation", str(file), "--cloud", "a"]
    (spec,) = load_process_specs(parser().parse_args(arguments), Settings())
    assert spec.owner.own_load is not None
    assert (spec.info.id, len(spec.owner.own_load) > 0) == ("a", True)
    for more in (["--cloud", "b"], ["--time", "trace"]):
        with pytest.raises(SpecError, match="absent"):
            load_process_specs(parser().parse_args([*arguments, *more]), Settings())
