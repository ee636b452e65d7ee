"""Local features, Stokman (2011) §5.3: declared scores that are added to the potentials instead of a penalty."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from concord.schemas.potentials import Potentials
from concord.workers.constraints.templates.template import FeatureTemplate, Names, Site, Tokens


class TransitionFeature(FeatureTemplate):
    """``weight`` nats for every transition from a label of ``first`` to one of ``second`` in a sentence."""

    first: Names
    second: Names
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def adjust(self, site: Site, potentials: Potentials) -> Potentials:
        """The potentials with the weight added to the transition table."""
        pairs = np.outer(site.mask_of(self.first), site.mask_of(self.second))
        transition = potentials.transition + self.weight * pairs
        return Potentials(potentials.unary, transition, potentials.sentence_starts)


class TokenFeature(FeatureTemplate):
    """``weight`` nats for every token that passes ``tokens`` and has one of the labels."""

    tokens: Tokens
    labels: Names

    def adjust(self, site: Site, potentials: Potentials) -> Potentials:
        """The potentials with the weight added to the unary table."""
        held = np.outer(site.mask(self.tokens), site.mask_of(self.labels))
        return Potentials(potentials.unary + self.weight * held, potentials.transition, potentials.sentence_starts)
