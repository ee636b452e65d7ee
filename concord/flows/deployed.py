"""The flows as Prefect deploys them: `infra/prefect.yaml` names ``flows.deployed.reprocess``, for example."""

from __future__ import annotations

import concord.flows.challenge
import concord.flows.codl
import concord.flows.monthly
import concord.flows.reprocess
import concord.flows.train
from concord.flows.watched import flow_of

reprocess = flow_of(concord.flows.reprocess.reprocess)
train = flow_of(concord.flows.train.train)
challenge = flow_of(concord.flows.challenge.challenge)
monthly = flow_of(concord.flows.monthly.monthly)
codl = flow_of(concord.flows.codl.codl)
