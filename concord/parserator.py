"""Parsers of strings that parserator has made, such as usaddress, by concord: `tag` takes every string.

The package's own model, features and tokens are used unchanged, and its own `tag` puts parts together. Where that
refuses a labelling, since a label comes back, it gets the best one that it takes: the package's rule is a hard
constraint. The model is imported once for each release, into a folder of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import yaml

from concord.flows.commands.importing import import_crfsuite
from concord.flows.environment import applied
from concord.labelling import Labeller, load
from concord.rules import Constraints
from concord.workers.models.crfsuite import TRUST
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.storage.files import user_folder

LabelledTokens = list[tuple[str, str]]
"""Tokens with their labels."""
LabelledParts = tuple[dict[str, str], str]
"""Parts of a string by label, and what kind of string it is."""


class Readings(NamedTuple):
    """Both readings of a string.

    - ``alone``: that of the model alone, which `parse` gives.
    - ``tagged``: that of `tag`, in which no label comes back.
    - ``nats``: by which the model prefers its own; 0 where both are the same. A small number is a doubt.
    """

    alone: LabelledTokens
    tagged: LabelledTokens
    nats: float


class Parser(NamedTuple):
    """A package of parserator.

    - ``package``: its module.
    - ``model``: file of its model, in the package.
    - ``rules``: file of constraints that comes with concord: when `tag` takes a labelling.
    """

    package: str
    model: str
    rules: str

    def parse(self, text: str | bytes) -> LabelledTokens:
        """The package's own labels of a string. Raises `InputError` where the package is not what it was."""
        return self.readings(text).alone

    def readings(self, text: str | bytes) -> Readings:
        """Both readings of a string."""
        tokens: Sequence[str] = import_module(self.package).tokenize(text)
        if not tokens:
            return Readings([], [], 0.0)
        answer = _labeller(self).label_tokens([tokens])
        alone, tagged = (list(zip(tokens, own, strict=True)) for own in (answer.viterbi_labels, answer.labels))
        return Readings(alone, tagged, answer.viterbi_local - answer.local)

    def tag(self, text: str | bytes, *given: Any, names: Mapping[str, str]) -> LabelledParts:
        """Parts of a string; ``given`` goes to the package's own function.

        - ``names``: other names for labels, several of which may have one.
        """
        package, readings = import_module(self.package), self.readings(text)
        for parsed in (readings.alone, readings.tagged):
            with suppress(package.RepeatedLabelError):
                return _own_tag(package, parsed)(text, *given)
        parts, kind = _own_tag(package, readings.tagged)(text)
        return _merged(parts, names), kind


def _own_tag(package: ModuleType, parsed: LabelledTokens) -> Callable[..., LabelledParts]:
    """The package's function `tag`, for which ``parsed`` is what `parse` gives."""
    own = package.tag
    return FunctionType(own.__code__, {**vars(package), "parse": lambda *_: parsed}, own.__name__, own.__defaults__)


def _merged(parts: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Parts by their names, in the order in which these first come; labels of one name need not stand together."""
    merged: dict[str, str] = {}
    for label, part in parts.items():
        name = names.get(label) or label
        merged[name] = f"{merged[name]} {part}" if name in merged else part
    return merged


@cache
def _labeller(parser: Parser) -> Labeller:
    features, tokenizer = f"{parser.package}:tokens2features", f"{parser.package}:tokenize"
    place = (
        user_folder("XDG_CACHE_HOME", ".cache")
        / "parsers"
        / f"{parser.package}-{version(parser.package)}-{Path(parser.model).stem}"
    )
    if not (place / MANIFEST).is_file():
        module = import_module(parser.package)
        import_crfsuite(Path(str(module.__file__)).with_name(parser.model), place, features, tokenizer=tokenizer)
    rules = yaml.safe_load((files("concord.workers.constraints") / "shipped" / parser.rules).read_text())
    known = parse_manifest(place / MANIFEST).labels
    hard = Constraints([_hard(rule, known) for rule in rules["constraints"]])
    with applied({TRUST: f"{features},{tokenizer}"}):  # who calls this has imported the package
        return load(place, constraints=hard)


def _hard(rule: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The rule without labels that the model does not have, never to be broken."""
    entries = {key: value for key, value in rule.items() if key != "tokens"}  # any word may be labelled a separator
    own = {key: [n for n in value if n in known] for key, value in entries.items() if isinstance(value, list)}
    return {**entries, **own, "weight": "hard"}
