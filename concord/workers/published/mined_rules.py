"""Files of rules that are mined in gold labels, as `concord constraints mine --all` finds and weighs them.

They are made for a table and not shipped, as the corpus that they are of is not shipped either.
"""

from __future__ import annotations

from pathlib import Path

from concord.schemas.labels import LabelSet
from concord.schemas.published import PublishedRules
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.learning.mining.miner import MinerHere, MiningTask
from concord.workers.learning.mining.registry import miner_named
from concord.workers.learning.mining.rule_counts import RuleKind
from concord.workers.learning.mining.rules import MiningSettings
from concord.workers.learning.weights.penalties import COUNTED_PENALTY
from concord.workers.published.made_corpora import documents_in, label_names
from concord.workers.storage.files import make_folder, write_whole


def mined_file(name: str, rules: PublishedRules, corpus: Path, folder: Path) -> Path:
    """A constraint file below ``folder``, made if it is not there yet; its name has the corpus and the kinds.

    Raises `CorpusError` and `OutputError`.
    """
    kinds = tuple(map(RuleKind, rules.kinds)) or tuple(RuleKind)
    place = folder / f"{name}-{'-'.join(sorted(rules.kinds)) or 'all'}-of-{corpus.name}.yaml"
    if not place.exists():
        documents = documents_in(corpus)
        labels = LabelSet.infer(label_names(documents))
        task = MiningTask(labels, MiningSettings(kinds=kinds), seed=0)
        here = MinerHere(miner_named("counting"), task, COUNTED_PENALTY["odds"])
        make_folder(folder)
        write_whole(place, constraints_text(here.rules(documents, documents), {}).encode())
    return place
