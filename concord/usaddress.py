"""Functions of usaddress with their signatures, of which `tag` never raises `RepeatedLabelError`.

    from concord.usaddress import parse, readings, tag

`pip install usaddress` brings the package, whose model and features are used.
"""

from __future__ import annotations

from collections.abc import Mapping

from concord.parserator import LabelledParts, LabelledTokens, Parser, Readings

_PARSER = Parser("usaddress", "usaddr.crfsuite", "usaddress.yaml")


def parse(address_string: str | bytes) -> LabelledTokens:
    """Tokens of an address with their labels, as usaddress gives them."""
    return _PARSER.parse(address_string)


def tag(address_string: str | bytes, tag_mapping: Mapping[str, str] | None = None) -> LabelledParts:
    """Parts of an address by label, or by the names of ``tag_mapping``, and its type.

    What usaddress refuses gets the best labelling in which no label comes back.
    """
    return _PARSER.tag(address_string, tag_mapping, names=tag_mapping or {})


def readings(address_string: str | bytes) -> Readings:
    """Both readings, and by how many nats the model prefers its own to that of `tag`."""
    return _PARSER.readings(address_string)
