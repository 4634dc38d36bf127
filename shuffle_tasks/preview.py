"""The plan of a shuffle, without running it."""

from __future__ import annotations

from shuffle_tasks.completed import complete_record
from shuffle_tasks.graph import cluster
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.request import check_disk, check_target, open_request, plan_request


def plan_shuffle(config: ShuffleConfig) -> Plan:
    """Return the plan of a shuffle: metadata is read, nothing is written.

    Raises
    ------
    RequestError
        If the request is wrong, or cannot work with the memory and the disks there are.
    """
    request = open_request(config)
    if complete_record(request) is None:
        check_target(request)
    if config.scheduler in (None, "synchronous"):
        resources = cluster.local_resources(config)
    else:
        with cluster.connect(str(config.scheduler)) as client:
            resources = cluster.cluster_resources(client, config)
    plan, _ = plan_request(request, resources)
    check_disk(request, plan)
    return plan
