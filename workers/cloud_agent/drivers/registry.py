"""The driver of a cloud's instances, from what its federation file says."""

from __future__ import annotations

from cloudsim.model.errors import SpecError
from workers.cloud_agent.drivers.base import InstanceDriver
from workers.cloud_agent.drivers.options import Ec2Options, InstanceOptions
from workers.cloud_agent.drivers.slurm_options import SlurmOptions

INSTALL = "instances of EC2 and OpenStack need Apache Libcloud: pip install 'spotfed[clouds]'"
CREDENTIALS = (
    "set SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET: the credentials with which the cloud is called"
)


def driver_of(options: InstanceOptions, cloud: str, user: str | None, secret: str | None) -> InstanceDriver:
    """Of the cloud of that id; nothing is called yet.

    Raises SpecError where credentials or the optional package are missing. Slurm needs neither: it knows
    its users by themselves.
    """
    if isinstance(options, SlurmOptions):
        from workers.cloud_agent.drivers.slurm import SlurmDriver

        return SlurmDriver(options, cloud)
    if not user or not secret:
        raise SpecError(CREDENTIALS)
    try:
        if isinstance(options, Ec2Options):
            from workers.cloud_agent.drivers.ec2 import Ec2Driver

            return Ec2Driver(options, cloud, user, secret)
        from workers.cloud_agent.drivers.openstack import OpenStackDriver

        return OpenStackDriver(options, cloud, user, secret)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("libcloud", "requests"):
            raise
        raise SpecError(INSTALL) from error
