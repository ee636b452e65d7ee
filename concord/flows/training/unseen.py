"""Documents that judge a model: none of them may be among those that it learns from."""

from __future__ import annotations

from concord.schemas.errors import InputError
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_ids


class ChallengeError(InputError):
    """Documents that cannot judge a model, since it has learned from them."""


def check_unseen(corpus: str, held_out: str) -> None:
    """Raises `ChallengeError` for a document of ``held_out`` whose id is in ``corpus``."""
    learned = {name for shard in plan(corpus) for name in read_ids(shard)}
    for shard in plan(held_out):
        for row, name in enumerate(read_ids(shard)):
            if name is not None and name in learned:
                raise ChallengeError(
                    f"{shard.file.path}, row {shard.first_row + row}: its id is in {corpus}, too; what a "
                    "model has learned from cannot judge it: take it out of one of the corpora"
                )
