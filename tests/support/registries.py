"""All registries of parts."""

from __future__ import annotations

from typing import Any

from concord.flows.cli.commands import COMMANDS
from concord.flows.labelling.pages import PAGES
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.evaluation.measures import MEASURES
from concord.workers.features.templates import FEATURE_SETS
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.mining.registry import MINERS
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.penalties import PENALTIES
from concord.workers.models.loaders import LOADERS
from concord.workers.parts import Group, Registry
from concord.workers.remote.registry import TASKS

REGISTRIES: dict[Group, Registry[Any]] = {
    Group.COMMANDS: COMMANDS,
    Group.ENGINES: SOLVERS,
    Group.FEATURES: FEATURE_SETS,
    Group.MEASURES: MEASURES,
    Group.METHODS: MINERS,
    Group.MODELS: LOADERS,
    Group.PAGES: PAGES,
    Group.PENALTIES: PENALTIES,
    Group.READERS: READERS,
    Group.TASKS: TASKS,
    Group.TEMPLATES: TEMPLATES,
    Group.TOKENIZERS: TOKENIZERS,
    Group.TRAINERS: TRAINERS,
    Group.WRITERS: WRITERS,
}
