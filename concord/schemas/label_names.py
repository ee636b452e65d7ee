"""Names of labels as taggers and corpora write them: of which scheme a set of them is, and what spoils it.

`read_label_names` decides it wherever a set enters: corpora, files of labels, models of other programs, gold labels
that a model learns from. A set is of spans if its names have prefixes (BIO, IOB1, BIOES, BILOU); it is plain if none
has one, or if the user says so. A set in which some names have prefixes and others do not is refused: as plain types
it would give wrong answers without a word about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from concord.schemas.labels import BIO_PREFIX, OUTSIDE, SPAN_PREFIXES, LabelError, LabelSet, Scheme, bio_label

PREFIX_LETTERS = "BIELSU"
"""Letters of the prefixes of BIO, BIOES and BILOU."""
PADDING = re.compile(r"<[^<>]+>|\[[A-Z]+\]|\[PAD\]|(?i:pad|padding)")
"""Labels that models have for padding and for the ends of sentences, such as ``<pad>``, ``[CLS]`` and ``PAD``."""
MEANT = (
    re.compile(rf"(?P<letter>[{PREFIX_LETTERS}])[_:/.|+](?P<kind>.+)"),
    re.compile(rf"(?P<letter>[{PREFIX_LETTERS.lower()}])[-_](?P<kind>.+)"),
    re.compile(rf"(?P<kind>.+)[-_:/.|+](?P<letter>[{PREFIX_LETTERS}])"),
)
"""Forms of names that mean a prefix and a type: another separator, lower case, and the prefix behind the type."""
OTHER_FORMS = (
    (re.compile(r"M-(?P<kind>.+)"), "I", "BMES"),
    (re.compile(r"\((?P<kind>[^()*\s]+)\*?\)?"), "B", "CoNLL-2012's brackets"),
    (re.compile(r"(?P<kind>.+)\[[0-9]+\]"), "B", "WebAnno TSV"),
)
"""Labels of other forms: how they look, the prefix that they stand for, and the form's name."""
TYPE = "NAME"
"""Type of a span, in examples of labels that have none."""

PLAIN_LABELS = "if every label is a type by itself, say so: --scheme plain"
GOLD_IS_PLAIN = (
    "if every label is a type by itself, say so: `concord ingest columns --set scheme=plain`, or the metadata "
    "concord.labels=plain of the Parquet file"
)


@dataclass(frozen=True)
class WrittenLabels:
    """A set of W names of labels that was read.

    - ``scheme``: BIO for all schemes of spans, or plain.
    - ``names`` (W,): the names as they came.
    - ``written`` (W,): the label of `label_set` for each name; empty for padding.
    """

    scheme: Scheme
    names: tuple[str, ...]
    written: tuple[str, ...]

    @property
    def label_set(self) -> LabelSet:
        """The label set, completed: O and both labels of each type."""
        used = {name for name in self.written if name}
        if self.scheme is Scheme.PLAIN:
            return LabelSet(tuple(sorted(used)), Scheme.PLAIN)
        return LabelSet.bio(sorted({name[2:] for name in used if name != OUTSIDE}))

    @property
    def padding(self) -> tuple[str, ...]:
        """Names that are labels of no token."""
        return tuple(name for name, written in zip(self.names, self.written, strict=True) if not written)

    @property
    def converted(self) -> tuple[str, ...]:
        """Names that became other labels."""
        return tuple(name for name, written in zip(self.names, self.written, strict=True) if written not in ("", name))

    @property
    def marks_ends(self) -> bool:
        """Do names mark where spans end, as in BIOES and BILOU?"""
        return self.scheme is Scheme.BIO and any(name[:2] in BIO_PREFIX for name in self.names)


def read_label_names(
    names: Iterable[str], *, plain: bool = False, padding: bool = False, remedy: str = PLAIN_LABELS
) -> WrittenLabels:
    """The scheme of a set of names, and the label that each stands for.

    - ``plain``: is every label a type by itself, whatever its name looks like?
    - ``padding``: may there be labels of padding, as models have them?
    - ``remedy``: what to do if the labels are plain after all.

    Raises `LabelError` that names the label which spoils the set and says what to write instead.
    """
    given = tuple(names)
    pads = {name for name in given if padding and PADDING.fullmatch(name)}
    kinds = [name for name in given if name not in pads and name != OUTSIDE]
    if not plain:
        spoiler = _spoiler(kinds)
        if spoiler is not None:
            raise LabelError(f"{spoiled_by(spoiler, kinds)}; {remedy}")
    prefixed = not plain and bool(kinds) and has_prefix(kinds[0])
    only_outside = not plain and not kinds and OUTSIDE in given
    scheme = Scheme.BIO if prefixed or only_outside else Scheme.PLAIN
    write: Callable[[str], str] = bio_label if prefixed else str
    return WrittenLabels(scheme, given, tuple("" if name in pads else write(name) for name in given))


def gold_label_set(names: Iterable[str], *, plain: bool) -> LabelSet:
    """Label set of gold labels, ``plain`` if their corpus says so. Raises `LabelError`, see `read_label_names`."""
    return read_label_names(sorted(set(names)), plain=plain, remedy=GOLD_IS_PLAIN).label_set


def has_prefix(name: str) -> bool:
    """Does the name begin with a prefix of BIO, BIOES or BILOU, and have a type behind it?"""
    return name.startswith(SPAN_PREFIXES) and len(name) > len(SPAN_PREFIXES[0])


def spoiled_by(spoiler: str, names: Sequence[str]) -> str:
    """What is wrong with a name among others of a set, and what to write instead."""
    others = [name for name in names if has_prefix(name)]
    beside = f" beside {others[0]!r}" if others else ""
    return f"label {spoiler!r}{beside} is of no scheme of spans: {advice(spoiler)}"


def may_be_type(name: str) -> bool:
    """May the name be a type by itself? Not if it has a prefix, or one in another form."""
    forms = [*MEANT, *(pattern for pattern, _, _ in OTHER_FORMS)]
    return not (has_prefix(name) or _is_bare(name) or any(form.fullmatch(name) for form in forms))


def advice(name: str) -> str:
    """What to write in place of a name without a prefix that BIO knows."""
    for pattern, prefix, form in OTHER_FORMS:
        if other := pattern.fullmatch(name):
            return f"it looks like {form}, so write '{prefix}-{other['kind']}'"
    if _is_bare(name):
        letter = name[0].upper()
        return f"a prefix alone names no type, so write one behind it, such as '{letter}-{TYPE}'"
    if name.lower() == OUTSIDE.lower():
        return f"write {OUTSIDE!r}"
    for pattern in MEANT:
        meant = pattern.fullmatch(name)
        if meant:
            return f"write '{meant['letter'].upper()}-{meant['kind']}'"
    if PADDING.fullmatch(name):
        return f"no token has such a label, so write {OUTSIDE!r} where it stands"
    return f"write 'B-{name}' for the first token of a span and 'I-{name}' for the others, or {OUTSIDE!r}"


def _spoiler(kinds: Sequence[str]) -> str | None:
    """The first name that spoils a set of spans; None if all names have prefixes, or none was meant to have one."""
    without = [name for name in kinds if not has_prefix(name)]
    if not without:
        return None
    if len(without) < len(kinds):
        return without[0]
    bare = [name for name in kinds if _is_bare(name)]
    if bare and (len(bare) == len(kinds) or {"B", "I"} <= set(kinds)):
        return bare[0]
    for pattern in MEANT:
        meant = [match for name in kinds if (match := pattern.fullmatch(name))]
        opening, inside = ({m["kind"] for m in meant if m["letter"].upper() == letter} for letter in "BI")
        if meant and (len(meant) == len(kinds) or opening & inside):
            return meant[0][0]
    return None


def _is_bare(name: str) -> bool:
    """Is the name a prefix without a type?"""
    return name[:1].upper() in tuple(PREFIX_LETTERS) and name[1:] in ("", "-")
