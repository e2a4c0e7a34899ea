"""`[cloud.instances]` of a federation file: how the leases of a cloud become instances of a real one.

    [cloud.instances]
    driver = "ec2"                              # or "openstack", or "slurm" (slurm_options.py)
    endpoint = "https://ec2.eu-west-1.amazonaws.com"
    region = "eu-west-1"
    image = "ami-0c1f9f6a1e2d3b4c5"
    sizes = { 1 = "m1.small", 4 = "m1.xlarge" } # cores of leases, and the cloud's words for them

Credentials never stand in the file: the settings SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, ValidationInfo
from pydantic import field_validator as checked
from pydantic_core import ErrorDetails

from cloudsim.model.errors import SpecError
from workers.cloud_agent.drivers.common_options import HttpOptions, Word
from workers.cloud_agent.drivers.slurm_options import SlurmOptions


class Dialect(StrEnum):
    """Whose EC2 API it is."""

    AWS = "aws"
    EUCALYPTUS = "eucalyptus"


class Ec2Options(HttpOptions):
    """Of the driver "ec2": AWS, Eucalyptus, and what else speaks their API.

    image: its id. zone: an availability zone. subnet: its id; security groups are ids then, else names.
    all_users: instances of all accounts are listed (Eucalyptus, for its administrator). spot: instances are
    the cloud's own spot instances (AWS).
    """

    driver: Literal["ec2"]
    dialect: Dialect = Field(Dialect.AWS, strict=False)
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] = "us-east-1"
    subnet: Word | None = None
    all_users: bool = False
    spot: bool = False


class OpenStackOptions(HttpOptions):
    """Of the driver "openstack": Keystone v3 and Nova v2.1 of release Pike (microversion 2.47) or newer.

    endpoint: Keystone's, as https://cloud.example.org:5000/v3. image: its id. sizes: names of flavors.
    networks: ids. region, interface: which of Nova's endpoints in Keystone's catalog. project: the name of
    the one that instances of leases belong to; project_domain: the id of its domain; user_domain: the name of
    the user's. application_credential: user and secret are those of one, and no project is named. all_users:
    servers of all projects are listed, which takes an administrator's role.
    """

    driver: Literal["openstack"]
    project: Word | None = None
    project_domain: Word = "default"
    user_domain: Word = "Default"
    application_credential: bool = Field(False, validate_default=True)
    region: Word = "RegionOne"
    interface: Literal["public", "internal", "admin"] = "public"
    networks: tuple[Word, ...] = Field((), strict=False)
    all_users: bool = False

    @checked("application_credential")
    @classmethod
    def _in_a_project(cls, application_credential: bool, info: ValidationInfo) -> bool:
        if (info.data.get("project") is None) is not application_credential:
            raise ValueError(
                "name a project, or take an application credential, which is of one project already"
            )
        return application_credential


InstanceOptions = Annotated[Ec2Options | OpenStackOptions | SlurmOptions, Field(discriminator="driver")]
_OPTIONS: TypeAdapter[Ec2Options | OpenStackOptions | SlurmOptions] = TypeAdapter(InstanceOptions)


def options_of(table: Mapping[str, object], where: str, beside: Path | None = None) -> InstanceOptions:
    """What the table says. where: of the table in its file, for errors; beside: the directory of that file.

    Raises SpecError naming the field, as ``cloud[0].instances.image``.
    """
    try:
        return _OPTIONS.validate_python(dict(table), context={"beside": beside or Path()})
    except ValidationError as error:
        raise _told(error.errors(include_url=False)[0], where) from error


def _told(error: ErrorDetails, where: str) -> SpecError:
    if error["type"].startswith("union_tag"):
        return SpecError('name a driver: "ec2", "openstack" or "slurm"', field=f"{where}.driver")
    names = [str(part) for part in error["loc"][1:] if part != "[key]"]
    message = {
        "missing": "is missing",
        "extra_forbidden": "unknown field",
        "value_error": str(error.get("ctx", {}).get("error", "")),
    }.get(error["type"], error["msg"])
    return SpecError(message, field=".".join([where, *names]))
