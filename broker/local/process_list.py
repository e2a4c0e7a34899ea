"""The processes that a federation on one machine is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from broker.signing.parties import BROKER, JOBS, cloud_party

QUEUE = "queue"

#: Up to this number of clouds, each has an owner process of its own: a crash concerns one cloud.
MOST_OWNERS_APART = 8
#: Clouds whose owners share a process where there are more: each further one takes a tenth of the memory.
CLOUDS_A_PROCESS = 25


def api_url(host: str, port: int, *, tls: bool) -> str:
    """Return the address of an API that listens here, also if it listens on all addresses or on IPv6."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (not to listen)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


@dataclass(frozen=True)
class ProcessSpec:
    """One process of a federation.

    name: its name in the Procfile. arguments: arguments of Python. parties: those that it signs as.
    calls_api: it is a client of the API, as an operator. afterwards: arguments of Python for a command that
    runs once the process was stopped for good, while the queue still runs. clouds: those whose owners it
    runs.
    """

    name: str
    arguments: tuple[str, ...]
    parties: tuple[str, ...] = ()
    calls_api: bool = False
    afterwards: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()


def wall_time(*, speed: float, history: str, samples: int, seed: int) -> tuple[str, ...]:
    """Return options of owners that play their loads at a speed, after some replayed history."""
    return (
        *("--time", "wall", "--speed", f"{speed:g}", "--history", history),
        *("--samples", str(samples), "--seed", str(seed)),
    )


def trace_time(*, until: str | None, samples: int, seed: int) -> tuple[str, ...]:
    """Return options of owners whose time moves with the requests."""
    limit = () if until is None else ("--until", until)
    return ("--time", "trace", *limit, "--samples", str(samples), "--seed", str(seed))


@dataclass(frozen=True)
class ProcessList:
    """The processes for a federation file.

    They are the queue, the API, Monte-Carlo workers and one owner for each cloud; where clouds are real, a
    cloud agent for each of these; where clouds run commands, the job managers, and a node agent for each that
    runs them on this machine.

    cloud_options: further options of ``python -m workers.owner``. monte_carlo: number of Monte-Carlo workers.
    host, port: where the API listens. tls: the API has the certificate that the settings name. commanded:
    clouds that run the commands of jobs here. managers: number of job managers. instanced: clouds that are
    real. boots_agents: some of these run jobs, on instances that start node agents.
    """

    federation: Path
    clouds: tuple[str, ...]
    cloud_options: tuple[str, ...] = ()
    monte_carlo: int = 1
    host: str = "127.0.0.1"
    port: int = 8000
    tls: bool = False
    commanded: tuple[str, ...] = ()
    managers: int = 1
    instanced: tuple[str, ...] = ()
    boots_agents: bool = False

    @property
    def url(self) -> str:
        """Address of the API."""
        return api_url(self.host, self.port, tls=self.tls)

    def specs(self) -> tuple[ProcessSpec, ...]:
        """Return the processes in the order of starting; the queue, which all others need, is the first."""
        samplers = tuple(
            ProcessSpec(
                f"montecarlo-{number}", ("-m", "workers.montecarlo", "--name", f"montecarlo-{number}")
            )
            for number in range(1, self.monte_carlo + 1)
        )
        group = 1 if len(self.clouds) <= MOST_OWNERS_APART else CLOUDS_A_PROCESS
        owners = tuple(
            self._owner(self.clouds[first : first + group]) for first in range(0, len(self.clouds), group)
        )
        queue = ProcessSpec(QUEUE, ("-m", "broker.local", "queue"))
        real = tuple(
            ProcessSpec(
                f"instances-{cloud}",
                ("-m", "workers.cloud_agent", "--cloud", cloud, "--federation", str(self.federation)),
                (cloud_party(cloud),),
            )
            for cloud in self.instanced
        )
        api = ProcessSpec("api", ("-m", "broker.api"), (BROKER,))
        return (queue, api, *samplers, *owners, *real, *self._job_processes())

    def _job_processes(self) -> tuple[ProcessSpec, ...]:
        if not (self.commanded or self.boots_agents):
            return ()
        agents = tuple(
            ProcessSpec(
                f"agent-{cloud}",
                agent := ("-m", "workers.node_agent", "--cloud", cloud, "--federation", str(self.federation)),
                (cloud_party(cloud),),
                afterwards=(*agent, "--end-work"),
            )
            for cloud in self.commanded
        )
        managers = tuple(
            ProcessSpec(f"jobs-{number}", ("-m", "workers.job_manager"), (JOBS,), calls_api=True)
            for number in range(1, self.managers + 1)
        )
        return (*agents, *managers)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all processes."""
        variables = {"SPOTFED_HOST": self.host, "SPOTFED_PORT": str(self.port)}
        if not self.tls:
            variables |= dict.fromkeys(("SPOTFED_TLS_CERT", "SPOTFED_TLS_KEY", "SPOTFED_TLS_CLIENT_CA"), "")
        return variables

    def _owner(self, clouds: tuple[str, ...]) -> ProcessSpec:
        return ProcessSpec(
            f"cloud-{clouds[0]}" + (f"-and-{len(clouds) - 1}" if len(clouds) > 1 else ""),
            (
                *("-m", "workers.owner"),
                *(word for cloud in clouds for word in ("--cloud", cloud)),
                *("--federation", str(self.federation), *self.cloud_options),
            ),
            tuple(map(cloud_party, clouds)),
            clouds=clouds,
        )
