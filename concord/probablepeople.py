"""Functions of probablepeople with their signatures, of which `tag` never raises `RepeatedLabelError`.

    from concord.probablepeople import parse, readings, tag

`pip install probablepeople` brings the package, whose models and features are used.
"""

from __future__ import annotations

from concord.parserator import LabelledParts, LabelledTokens, Parser, Readings


def _parser(kind: str | None) -> Parser:
    return Parser("probablepeople", f"{kind or 'generic'}_learned_settings.crfsuite", "probablepeople.yaml")


def parse(raw_string: str | bytes, type: str | None = None) -> LabelledTokens:  # noqa: A002 - theirs
    """Tokens of a name with their labels, as probablepeople gives them; ``type`` is generic, person or company."""
    return _parser(type).parse(raw_string)


def tag(raw_string: str | bytes, type: str | None = None) -> LabelledParts:  # noqa: A002 - theirs
    """Parts of a name by label, and whether it is a person, a household or a corporation.

    What probablepeople refuses gets the best labelling in which no label comes back.
    """
    return _parser(type).tag(raw_string, type, names={})


def readings(raw_string: str | bytes, type: str | None = None) -> Readings:  # noqa: A002 - theirs
    """Both readings, and by how many nats the model prefers its own to that of `tag`."""
    return _parser(type).readings(raw_string)
