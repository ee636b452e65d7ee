"""Which phrases of their sources a gazetteer gets, and with which types.

A phrase of one word that is mostly a common word, such as the family names Long and May, misleads more than it helps: a
model that trusts the list finds them everywhere. Such a phrase gets a type of its own, or is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from concord.workers.features.clusters import lower_zeros
from concord.workers.features.gazetteers import LONGEST, PhraseEntry
from concord.workers.features.phrase_sources import TypedPhrase
from concord.workers.features.settings import PhraseSettings

COMMON = "-common"
"""End of the type of a phrase that is one common word."""


@dataclass(frozen=True)
class CommonWords:
    """Which words are common: by their letter case in text, and where that says too little by their frequency.

    - ``all_uses``, ``lower_uses``: uses of each word of the text, in lower case and with digits as 0: in any letter
      case, and in lower case.
    - ``frequency``: frequency of a word on Zipf's scale, without regard to letter case; None if it is not known.
    """

    all_uses: Mapping[str, int]
    lower_uses: Mapping[str, int]
    frequency: Callable[[str], float] | None
    settings: PhraseSettings

    @classmethod
    def of(
        cls, counts: Mapping[str, int], frequency: Callable[[str], float] | None, settings: PhraseSettings
    ) -> CommonWords:
        """From the uses of each word of the text as it is written, with digits as 0."""
        every, lower = Counter[str](), Counter[str]()
        for word, times in counts.items():
            every[word.lower()] += times
            if word == word.lower():
                lower[word] += times
        return cls(every, lower, frequency, settings)

    def has(self, word: str) -> bool:
        """Is the word a common one?"""
        form = lower_zeros(word)
        uses = self.all_uses.get(form, 0)
        if uses >= self.settings.uses:
            return self.lower_uses.get(form, 0) >= self.settings.lower_case * uses
        return self.frequency is not None and self.frequency(word) >= self.settings.zipf


@dataclass
class PhraseChoice:
    """Phrases for a gazetteer, and what became of those that were read.

    - ``entries``: the phrases.
    - ``read``: number of phrases read.
    - ``common``: number of phrases of one common word.
    - ``too_long``: number of phrases left out since no such number of words can be looked up.
    """

    entries: set[PhraseEntry] = field(default_factory=set)
    read: int = 0
    common: int = 0
    too_long: int = 0

    def add(self, phrases: Iterable[TypedPhrase], common: CommonWords) -> None:
        """Adds the phrases of a source."""
        for phrase, kind in phrases:
            self.read += 1
            words, own = tuple(phrase.split()), kind
            if len(words) > LONGEST:
                self.too_long += 1
                continue
            if len(words) == 1 and common.has(words[0]):
                self.common += 1
                if common.settings.common == "drop":
                    continue
                own += COMMON
            self.entries.add((words, own))
