"""What constraint-driven learning reads: few labelled citations, a pool of others, and rules."""

from __future__ import annotations

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.synthesis.made_up import synthesize
from tests.integration.conftest import World

RULES = """
constraints:
  - {template: starts_with, name: starts with an author, labels: [author], weight: 1}
  - {template: appears_once, name: one title, labels: [title], weight: 1}
"""


def write_citations(world: World, *, pool: int) -> None:
    """Few labelled citations, and a pool of so many in small row groups."""
    gold = synthesize(6, seed=1, kind="citations")
    others = (Document(d.doc_id, d.sentence_starts, d.columns) for d in synthesize(pool, seed=2, kind="citations"))
    write_corpus(gold, world.folder / "few", source="test", overwrite=True)
    write_corpus(others, world.folder / "pool", source="test", layout=IngestSettings(group_documents=3), overwrite=True)
    (world.folder / "rules.yaml").write_text(RULES)


def labelled(world: World, out: str) -> int:
    """How many shards of the pool all cycles have labelled."""
    return len(list((world.folder / out).glob("cycle-*/labels/.shards/predictions/*.parquet")))
