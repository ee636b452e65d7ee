"""What the tokens of a corpus look like, as far as it may show that a file was read in another form than its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.document import TOKENS, Batch

LONG_SENTENCE = 1000
"""Number of tokens from which on a sentence is told of."""
LONG_TOKEN = 12
"""Mean number of characters from which on tokens are told of; words of no language have so many."""


class Shape(NamedTuple):
    """Lengths of the sentences and tokens of a corpus.

    - ``longest``: tokens of the longest sentence, which is in the document ``where``.
    - ``characters``: characters of all tokens.
    """

    longest: int = 0
    where: str = ""
    tokens: int = 0
    characters: int = 0

    def with_batch(self, batch: Batch) -> Shape:
        """The shape of these documents, too."""
        lengths = np.diff(batch.sentence_bounds)
        words = batch.columns[TOKENS]
        sizes = np.array([len(word) for word in words.values], np.int64)
        whole = self._replace(
            tokens=self.tokens + batch.token_count, characters=self.characters + int(sizes[words.codes].sum())
        )
        if lengths.max(initial=0) <= self.longest:
            return whole
        at = int(np.argmax(lengths))
        document = int(np.searchsorted(batch.doc_starts, batch.sentence_starts[at], side="right")) - 1
        return whole._replace(longest=int(lengths[at]), where=batch.doc_ids[document])

    @property
    def notices(self) -> tuple[str, ...]:
        """What is unusual, and most often a mistake."""
        notices = list[str]()
        if self.longest >= LONG_SENTENCE:
            notices.append(
                f"the longest sentence has {self.longest:,} tokens (document {self.where}); if that is no sentence, "
                "look where the source ends them"
            )
        if self.tokens and self.characters >= LONG_TOKEN * self.tokens:
            notices.append(
                f"tokens have {self.characters / self.tokens:.0f} characters on average, as lines of text have; if "
                "they are no words, `concord ingest text` cuts texts into words"
            )
        return tuple(notices)
