"""Drivers of real clouds, one module for each kind of cloud.

A driver is a module of this package and a line in ``DRIVERS``. Its module holds the pydantic model of the
table ``[cloud.instances]`` in a federation file, and the class that calls the cloud; ``base`` has what they
share. For example:

    [cloud.instances]
    driver = "ec2"
    endpoint = "https://ec2.eu-west-1.amazonaws.com"
    region = "eu-west-1"
    image = "ami-0c1f9f6a1e2d3b4c5"
    sizes = { 1 = "m1.small", 4 = "m1.xlarge" } # cores of leases, and the cloud's names of such instances

Credentials never stand in the file: the settings SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cloudsim.model.errors import SpecError
from workers.cloud_agent.drivers.base import CommonOptions, HttpOptions, InstanceDriver

#: The drivers by the names that federation files give them: module, model of the options, class.
DRIVERS = {
    "ec2": ("ec2", "Ec2Options", "Ec2Driver"),
    "openstack": ("openstack", "OpenStackOptions", "OpenStackDriver"),
    "slurm": ("slurm", "SlurmOptions", "SlurmDriver"),
}
INSTALL = "instances of EC2 and OpenStack need Apache Libcloud: pip install 'spotfed[clouds]'"
CREDENTIALS = (
    "set SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET: the credentials with which the cloud is called"
)


def read_options(table: Mapping[str, object], where: str, beside: Path | None = None) -> CommonOptions:
    """Check a table ``[cloud.instances]`` and return it as the options of its driver.

    Parameters
    ----------
    where:
        The name of the table in its file, for errors.
    beside:
        The directory of that file, from where the paths in it are written.

    Raises
    ------
    SpecError
        When something is wrong; it names the field, as in ``cloud[0].instances.image``. Also when the driver
        needs an optional package that is not installed.
    """
    name = table.get("driver")
    if not isinstance(name, str) or name not in DRIVERS:
        *others, last = (f'"{driver}"' for driver in DRIVERS)
        raise SpecError(f"name a driver: {', '.join(others)} or {last}", field=f"{where}.driver")
    options_type, _ = _load(name)
    try:
        options: CommonOptions = options_type.model_validate(table, context={"beside": beside or Path()})
    except ValidationError as error:
        raise _field_error(error.errors(include_url=False)[0], where) from error
    return options


def make_driver(options: CommonOptions, cloud: str, user: str | None, secret: str | None) -> InstanceDriver:
    """Return the driver of the cloud with that id, without calling the cloud yet.

    Only clouds that are called over HTTP need credentials; Slurm knows its users by itself.

    Raises
    ------
    SpecError
        When credentials or an optional package are missing.
    """
    if isinstance(options, HttpOptions):
        if not user or not secret:
            raise SpecError(CREDENTIALS)
        credentials = [user, secret]
    else:
        credentials = []
    _, driver_type = _load(options.driver)
    driver: InstanceDriver = driver_type(options, cloud, *credentials)
    return driver


def _load(name: str) -> tuple[Any, Any]:
    """Import a driver's module, when it is used: those of HTTP APIs need an optional package."""
    module_name, options_type, driver_type = DRIVERS[name]
    try:
        module = import_module(f"{__name__}.{module_name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("libcloud", "requests"):
            raise
        raise SpecError(INSTALL) from error
    return getattr(module, options_type), getattr(module, driver_type)


def _field_error(error: ErrorDetails, where: str) -> SpecError:
    names = [str(part) for part in error["loc"] if part != "[key]"]
    message = {
        "missing": "is missing",
        "extra_forbidden": "unknown field",
        "value_error": str(error.get("ctx", {}).get("error", "")),
    }.get(error["type"], error["msg"])
    return SpecError(message, field=".".join([where, *names]))
