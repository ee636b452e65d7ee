"""Programs that run on Ray in a process of their own."""

from __future__ import annotations

LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""


DRIVER = """
import json, sys
from concord.flows.cluster.cluster import cluster
import ray
from tests.integration.lethal import lethal_job
from concord.workers.remote.label import LABEL
with cluster(None, workers=1) as running:
    assert list(running.run(LABEL, [], lethal_job())) == []
    worker = ray.remote(lambda: __import__("os").getpid())
    pid = ray.get(worker.remote())
    print(json.dumps({"gcs": ray.get_runtime_context().gcs_address, "worker": pid}), file=sys.__stdout__, flush=True)
    sys.stdin.readline()
"""


SCRIPT = """
from concord.flows.cluster.cluster import ClusterError, cluster
try:
    with cluster({address!r}, workers=1):
        pass
except ClusterError as error:
    print(error)
"""
