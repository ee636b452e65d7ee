"""Label sets and their span codecs (BIO and plain), and which transitions are legal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from concord.schemas.errors import InputError

Labels = NDArray[np.int32]

OUTSIDE = "O"
BIO_PREFIX = {"E-": "I-", "L-": "I-", "S-": "B-", "U-": "B-"}
"""Prefixes of BIOES and BILOU that BIO does not have, and BIO's prefix for each."""
SPAN_PREFIXES = ("B-", "I-", *BIO_PREFIX)
"""Prefixes of labels that are part of a span, in BIO, BIOES and BILOU."""


class Scheme(StrEnum):
    """How token labels encode spans."""

    BIO = "bio"
    """``B-T`` opens a span of type T, ``I-T`` continues it, ``O`` is outside (also called IOB2)."""
    LOOSE = "loose"
    """Labels of BIO in any order; an ``I-T`` that continues nothing opens a span too, as in IOB1."""
    PLAIN = "plain"
    """A label is a type; a span is a maximal run of one label inside a sentence."""

    def can_name(self, label: str) -> bool:
        """Can a label set of this scheme have the label?"""
        return self is Scheme.PLAIN or label == OUTSIDE or label[:2] in ("B-", "I-")


class LabelError(InputError):
    """A label that the label set does not know, or a label set that contradicts its scheme."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Labelled spans of one document, ordered by position.

    ``start`` and ``end`` (M,) are token positions, end exclusive; ``type`` (M,) indexes
    `LabelSet.types`.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    type: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class LabelSet:
    """An ordered set of token labels (L of them) and the span types (T) they encode."""

    names: tuple[str, ...]
    scheme: Scheme

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise LabelError(f"duplicate label in {self.names}")
        for name in self.names:
            if not self.scheme.can_name(name):
                raise LabelError(
                    f"label {name!r} is not BIO (want 'O', 'B-TYPE' or 'I-TYPE'); "
                    "for one label a token use the plain scheme"
                )

    @classmethod
    def bio(cls, types: Iterable[str]) -> LabelSet:
        """``O`` first, then ``B-T, I-T`` for every type, in the order given."""
        names = [OUTSIDE]
        for kind in types:
            names += [f"B-{kind}", f"I-{kind}"]
        return cls(tuple(names), Scheme.BIO)

    @classmethod
    def infer(cls, names: Iterable[str], *, plain: bool = False) -> LabelSet:
        """The label set of observed label names, sorted; BIO when every name fits BIO, unless they are ``plain``.

        The names were read before: `schemas.label_names.read_label_names` refuses what fits no scheme. A BIO set is
        completed: a type seen only as ``I-T`` (or ``B-T``) gets its twin, and ``O`` is always there, so that every
        sequence has a legal continuation.
        """
        observed = set(names)
        if observed and not plain and all(n == OUTSIDE or n[:2] in ("B-", "I-") for n in observed):
            return cls.bio(sorted({n[2:] for n in observed if n != OUTSIDE}))
        return cls(tuple(sorted(observed)), Scheme.PLAIN)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        """Label name → label id."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Span types: BIO types sorted by first appearance; in a plain set every label but ``O``."""
        if self.scheme is Scheme.PLAIN:
            return tuple(n for n in self.names if n != OUTSIDE)
        return tuple(dict.fromkeys(n[2:] for n in self.names if n != OUTSIDE))

    @cached_property
    def type_of(self) -> NDArray[np.int32]:
        """(L,) span type of each label; −1 for ``O``."""
        position = {t: i for i, t in enumerate(self.types)}
        strip = 0 if self.scheme is Scheme.PLAIN else 2
        return np.array([-1 if n == OUTSIDE else position[n[strip:]] for n in self.names], np.int32)

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """(L, L): does label b, right after label a in one sentence, continue a's span?"""
        same: NDArray[np.bool_] = (self.type_of[:, None] == self.type_of[None, :]) & (self.type_of >= 0)
        return same & self._continuing[None, :]

    @cached_property
    def _continuing(self) -> NDArray[np.bool_]:
        """(L,) can this label continue a span of its type?"""
        return np.array([self.scheme is Scheme.PLAIN or n.startswith("I-") for n in self.names], np.bool_)

    @cached_property
    def opening(self) -> NDArray[np.int32]:
        """(T,) label of a span's first token: ``B-T``, or the plain label."""
        return self._of_types("B-")

    @cached_property
    def first_labels(self) -> NDArray[np.int32]:
        """(T, K) all labels that a span's first token can have: ``opening``, and of loose labels ``I-T`` too."""
        both = (self.opening, self.inside) if self.scheme is Scheme.LOOSE else (self.opening,)
        return np.stack(both, axis=1)

    @cached_property
    def inside(self) -> NDArray[np.int32]:
        """(T,) label of a span's later tokens: ``I-T``, or the plain label."""
        return self._of_types("I-")

    def _of_types(self, prefix: str) -> NDArray[np.int32]:
        """(T,) label of each type with the prefix, which plain labels do without; `LabelError` names one missing."""
        names = self.types if self.scheme is Scheme.PLAIN else [prefix + t for t in self.types]
        missing = [name for name in names if name not in self.index]
        if missing:
            raise LabelError(
                f"the label set has no {missing[0]!r}, and spans need B-TYPE and I-TYPE of each type; "
                "LabelSet.bio and LabelSet.infer make both"
            )
        return np.array([self.index[name] for name in names], np.int32)

    @cached_property
    def legal_start(self) -> NDArray[np.bool_]:
        """(L,) may a sentence start with this label? Only ``I-T`` of BIO may not."""
        if self.scheme is not Scheme.BIO:
            return np.ones(len(self), np.bool_)
        return np.array([not n.startswith("I-") for n in self.names])

    @cached_property
    def legal_transition(self) -> NDArray[np.bool_]:
        """(L, L) may label b follow label a inside a sentence? ``I-T`` of BIO needs ``B-T`` or ``I-T``."""
        return self.legal_start[None, :] | self.continues

    def encode(self, names: Sequence[str]) -> Labels:
        """Label names → ids (N,). Raises `LabelError` naming the first unknown label."""
        try:
            return np.fromiter((self.index[n] for n in names), np.int32, len(names))
        except KeyError as error:
            raise LabelError(f"unknown label {error.args[0]!r}; this set has {', '.join(self.names)}") from None

    def decode(self, labels: Labels) -> list[str]:
        """Label ids (N,) → names."""
        return [self.names[i] for i in labels.tolist()]

    def spans(self, labels: Labels, sentence_starts: NDArray[np.int64]) -> Spans:
        """The spans a label sequence (N,) encodes; a sentence boundary always ends a span.

        An ``I-T`` that continues nothing opens a span, as conlleval counts it.
        """
        count = len(labels)
        if count == 0:
            empty = np.zeros(0, np.int64)
            return Spans(empty, empty, np.zeros(0, np.int32))
        # `continues` has a cell for every two labels, and gold may have a label of its own for every token.
        kinds = self.type_of[labels]
        opens = np.ones(count, np.bool_)
        opens[1:] = (kinds[1:] != kinds[:-1]) | (kinds[1:] < 0) | ~self._continuing[labels[1:]]
        opens[sentence_starts] = True
        bounds = np.flatnonzero(opens)
        ends = np.append(bounds[1:], count)
        real = kinds[bounds] >= 0
        return Spans(bounds[real], ends[real], kinds[bounds][real])


def bio_label(name: str) -> str:
    """A label of BIOES or BILOU as BIO writes it: the token opens a span, or goes on with one."""
    return BIO_PREFIX.get(name[:2], name[:2]) + name[2:]


def to_bio(names: Sequence[str]) -> list[str]:
    """The tags of one sentence in BIO, IOB1, BIOES or BILOU as BIO; BIO comes back unchanged.

    IOB1 (Tjong Kim Sang & De Meulder 2003) writes ``B-T`` only between adjacent spans of one type.
    BIOES and BILOU (Ratinov & Roth 2009) mark the last token of a span, ``E-T`` or ``L-T``, and a span
    of one token, ``S-T`` or ``U-T``; see `broken_span` for what they forbid.
    """
    bio: list[str] = []
    previous = OUTSIDE
    for name in names:
        plain = bio_label(name)
        opens = plain.startswith("I-") and previous[2:] != name[2:]
        bio.append("B-" + name[2:] if opens else plain)
        previous = name
    return bio


def broken_span(names: Sequence[str]) -> int | None:
    """The first BIOES or BILOU tag of a sentence that its neighbours forbid; None if there is none.

    ``B-T`` and ``I-T`` need a next tag that continues or ends the span (``I-T``, ``E-T``, ``L-T``), and such a tag
    needs one of them before it. A sentence with tags of BIO alone is never at fault: these do not mark ends of spans.
    """
    if BIO_PREFIX.keys().isdisjoint([name[:2] for name in names]):
        return None
    open_type = ""
    for position, name in enumerate(names):
        goes_on = name[:2] in ("I-", "E-", "L-")
        if open_type != (name[2:] if goes_on else ""):
            return position
        open_type = name[2:] if name[:2] in ("B-", "I-") else ""
    return len(names) - 1 if open_type else None
