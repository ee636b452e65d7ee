"""The flows as Prefect deploys them, by ``flows.deployed.reprocess`` in `infra/prefect.yaml` and the like."""

from __future__ import annotations

import flows.codl
import flows.reprocess
import flows.train
from flows.watched import flow_of

reprocess = flow_of(flows.reprocess.reprocess)
train = flow_of(flows.train.train)
codl = flow_of(flows.codl.codl)
