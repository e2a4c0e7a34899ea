"""A filter and a weigher for Nova's scheduler, to which instances of leases are free room for all others.

Placement sells each host more than once, and the filter keeps its real size: a request of a preemptible
project, one that holds instances of leases, must find room beside everything that runs; any other request
only beside what is not preemptible. The weigher prefers hosts where nothing has to leave. Whatever is too
much on a host then, the cloud agent of spotfed ends: to it, the new server is an own user's that needs room.

This is the dual state of hosts of Garcia et al., "An efficient cloud scheduler design supporting preemptible
instances" (FGCS 2019), for a scheduler that asks Placement first. Written for Nova of release Zed.
"""

import nova.conf
from nova.scheduler import filters, weights
from oslo_config import cfg

OPTIONS = [
    cfg.ListOpt(
        "preemptible_projects", default=[], help="Ids of the projects that hold instances of leases."
    ),
    cfg.FloatOpt("cpu_ratio", default=1.0, help="Cores to be sold for each real one."),
    cfg.FloatOpt("ram_ratio", default=1.0, help="Memory to be sold for each real unit."),
    cfg.FloatOpt("weight_multiplier", default=10.0, help="Weight of leaving instances of leases alone."),
]
CONF = nova.conf.CONF
CONF.register_opts(OPTIONS, "spotfed")


def excess(host_state, spec, *, displaces):
    """Return the cores and the memory in MB by which the host is too small for a request; 0 where it fits.

    displaces: instances of leases may leave for it.
    """
    cores = host_state.vcpus_used + spec.vcpus
    memory_mb = host_state.total_usable_ram_mb - host_state.free_ram_mb + spec.memory_mb
    if displaces:
        for instance in host_state.instances.values():
            if instance.project_id in CONF.spotfed.preemptible_projects:
                cores -= instance.vcpus
                memory_mb -= instance.memory_mb
    return (
        max(0, cores - host_state.vcpus_total * CONF.spotfed.cpu_ratio),
        max(0, memory_mb - host_state.total_usable_ram_mb * CONF.spotfed.ram_ratio),
    )


class PreemptibleFilter(filters.BaseHostFilter):
    """Pass hosts that have room, where instances of leases leave for all who are not preemptible."""

    def host_passes(self, host_state, spec_obj):
        """Return True if the request fits."""
        displaces = spec_obj.project_id not in CONF.spotfed.preemptible_projects
        return not any(excess(host_state, spec_obj, displaces=displaces))


class PreemptibleWeigher(weights.BaseHostWeigher):
    """Prefer hosts where nothing has to leave, then those where the fewest cores have to."""

    def weight_multiplier(self, _host_state):
        """Return how much this weighs beside Nova's own weighers, which have 1."""
        return CONF.spotfed.weight_multiplier

    def _weigh_object(self, host_state, weight_properties):
        cores, memory_mb = excess(host_state, weight_properties, displaces=False)
        return -max(cores, memory_mb * host_state.vcpus_total / max(1, host_state.total_usable_ram_mb))
