"""Checks an installation for ``spotfed doctor``: each check fetches what it needs and judges it.

``check`` defines and runs checks, ``installation`` has the settings, addresses and connections that they
share, and every other module holds the checks of one thing. To add a check, write a function there with the
decorator ``check``; only a new module is named here as well.
"""

from __future__ import annotations

from broker.doctor import (
    api,
    clouds,
    contract,
    directories,
    instances,
    jobs,
    keys,
    packages,
    redis,
    settings,
    size_rules,
)
from broker.doctor.check import Check, CheckResult, State
from broker.doctor.installation import Installation

__all__ = ["CHECKS", "Check", "CheckResult", "Installation", "State", "run_checks"]

_MODULES = (settings, packages, directories, keys, redis, clouds, size_rules, contract, jobs, instances, api)
#: All checks, in the order in which they are run and shown: by module, and as they stand there.
CHECKS = tuple(value for module in _MODULES for value in vars(module).values() if isinstance(value, Check))


def run_checks(installation: Installation) -> list[CheckResult]:
    """Run all checks, one after the other, and return their results."""
    return [result for check in CHECKS for result in check.run(installation)]
