"""Two hosts with what deploy/README.md expects: directories of their own, systemd, spotfed, a way to copy.

What is written in ``/etc``, ``/opt``, ``/root``, ``/usr/local`` and ``/var`` is seen on its own host alone.
Python, its packages and the project are below ``/opt``, where other users than root may read them too.
"""

from __future__ import annotations

import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from tests.integration.hosts import Host, hosts
from tests.integration.worker_processes import ROOT

_TOOLS = ("openssl", "redis-server", "runuser", "useradd")

_DIRECTORIES = """
for place in /etc /var /usr/local; do
  mkdir -p "$1/layers$place" "$1/work$place"
  mount -t overlay overlay -o "lowerdir=$place,upperdir=$1/layers$place,workdir=$1/work$place" "$place"
done
mkdir -p "$1/opt/python" "$1/opt/packages" "$1/opt/source"
mount --bind "$2" "$1/opt/python"
mount --bind "$3" "$1/opt/packages"
mount --bind "$4" "$1/opt/source"
mount --rbind "$1/opt" /opt
mount --bind "$1/root" /root
mount -t tmpfs tmpfs /run
"""


@contextmanager
def two_hosts(directory: Path, names: tuple[str, str]) -> Iterator[dict[str, Host]]:
    """By name. The test is skipped where they cannot be made."""
    with hosts(directory, names, _TOOLS) as (_, made):
        lines = "".join(f"{host.address} {host.name}\n" for host in made.values())
        for host in made.values():
            told = (str(host.directory), sys.base_prefix, *site.getsitepackages()[:1], str(ROOT))
            host.run(f"set -- {' '.join(map(quote, told))}\n{_DIRECTORIES}").check_returncode()
            host.run(f"cat >> /etc/hosts <<END\n127.0.0.1 localhost\n{lines}END").check_returncode()
            _tools(host, made)
        yield made


def _tools(host: Host, hosts: dict[str, Host]) -> None:
    """What a host has that this machine has not: an installed spotfed, systemd, and a way to copy files."""
    (host.directory / "opt/spotfed/bin").mkdir(parents=True)
    here = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    paths = "LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/source:/opt/packages PYTHONDONTWRITEBYTECODE=1"
    python = f'{paths} exec {here} "$@"'
    main = "import sys; from broker.cli import main; sys.exit(main())"
    _script(host.directory / "opt/spotfed/bin/python", python)
    _script(host.directory / "opt/spotfed/bin/spotfed", python.replace('"$@"', f"-c '{main}' \"$@\""))
    _script(
        host.directory / "bin/systemctl",
        f'{paths} exec {here} /opt/source/tests/integration/unit_starter.py {host.directory}/logs "$@"',
    )
    cases = " ".join(f'{one.name}:/root/) to="{one.directory}/root" ;;' for one in hosts.values())
    last = '"${@: -1}"'
    _script(host.directory / "bin/scp", f'case {last} in {cases} *) exit 1 ;; esac; cp "${{@:1:$#-1}}" "$to"')


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
