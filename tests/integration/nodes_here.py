"""Nodes that Ray's autoscaler adds on this machine; its process imports this."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any
from unittest.mock import patch

from ray._private.parameter import RayParams
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider


class NodesHere(FakeMultiNodeProvider):
    """That of Ray's own tests, for jobs with memory and a working directory.

    Nodes look themselves how much memory they have. Each has a folder of its own in the configured one: in a shared
    one it would replace the working directory of the others' workers.
    """

    def _create_node_with_resources_and_labels(self, config: Any, tags: Any, count: int, has: Any, labels: Any) -> None:
        own = tempfile.mkdtemp(prefix="n", dir=self.provider_config["folder"])
        left = {name: size for name, size in has.items() if name != "memory"}
        with patch("ray._private.parameter.RayParams", partial(RayParams, temp_dir=own)):
            super()._create_node_with_resources_and_labels(config, tags, count, left, labels)  # type: ignore[no-untyped-call]
