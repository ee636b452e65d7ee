"""Registry of tokenizers. A tokenizer is asked for as NAME, or as NAME==VERSION to require that version."""

from __future__ import annotations

from functools import lru_cache

from concord.schemas.distribution import DISTRIBUTION, with_extra
from concord.schemas.names import unknown
from concord.schemas.settings import RawTextSettings
from concord.workers.corpus.tokenizers.sentences import TextCutter
from concord.workers.corpus.tokenizers.tokenizer import Cut, Tokenizer, TokenizerError
from concord.workers.corpus.tokenizers.words import VERSION, cutter
from concord.workers.parts import Group, Registry, an_entry

DEFAULT_TOKENIZER = "words"
"""Name of the tokenizer that is used where none is given."""

PIN = "=="
"""Separator of a name and a version."""


def _spacy(language: str) -> Cut:
    from concord.workers.corpus.tokenizers.spacy_rules import SpacyRules

    return SpacyRules(language)


OWN: dict[str, Tokenizer] = {
    DEFAULT_TOKENIZER: Tokenizer(cutter, "words, numbers, marks by rules for all scripts; needs nothing else", VERSION),
    "spacy": Tokenizer(
        _spacy,
        f"rules of spaCy for the language; needs {with_extra('spacy')}",
        library="spacy",
        install=with_extra("spacy"),
    ),
}
"""Concord's own entries. A new tokenizer is one file, and one line here."""


def _wrong(part: object) -> str | None:
    """Reason why a part is not a valid registry entry; None if it is."""
    problem = an_entry(Tokenizer)(part)
    if problem is not None or not isinstance(part, Tokenizer):
        return problem
    if bool(part.version) == bool(part.library):
        return "want a version, or a library whose version it is, and not both"
    return None


TOKENIZERS: Registry[Tokenizer] = Registry(Group.TOKENIZERS, OWN, _wrong)


def pinned(tokenizer: str | None) -> str:
    """``NAME==VERSION`` of a tokenizer; the installed version where ``tokenizer`` names none.

    Raises `TokenizerError` where the installed version is needed and there is none.
    """
    name, _, version = (tokenizer or DEFAULT_TOKENIZER).partition(PIN)
    return f"{name}{PIN}{version or _installed(name)}"


def load_tokenizer(settings: RawTextSettings) -> TextCutter:
    """Cutter of texts into tokens and sentences; a process makes one for equal settings.

    Raises `TokenizerError` where the tokenizer is not installed or has another version, and `LanguageError`.
    """
    return _loaded(
        settings.tokenizer or DEFAULT_TOKENIZER, settings.language, settings.sentence_limit, settings.split_hyphens
    )


@lru_cache(maxsize=4)
def _loaded(tokenizer: str, language: str, sentence_limit: int, split_hyphens: bool) -> TextCutter:  # noqa: FBT001
    name, _, version = tokenizer.partition(PIN)
    here = _installed(name)
    if version and version != here:
        raise TokenizerError(
            f"tokenizer {name}: version {version} is wanted, and {here} is here; {_remedy(name, version)}, or cut with "
            f"this one: --tokenizer {name}"
        )
    return TextCutter(TOKENIZERS[name].open(language), language, sentence_limit, split_hyphens=split_hyphens)


def _installed(name: str) -> str:
    """Installed version of a tokenizer. Raises `TokenizerError` if it is not installed."""
    if name not in TOKENIZERS:
        raise TokenizerError(f"{unknown('tokenizer', name, TOKENIZERS)}; install the package that has it")
    here = TOKENIZERS[name].installed()
    if here is None:
        entry = TOKENIZERS[name]
        raise TokenizerError(
            f"tokenizer {name}: {entry.library} is not installed; pip install '{entry.install or entry.library}'"
        )
    return here


def _remedy(name: str, version: str) -> str:
    """Advice on how to install a version of a tokenizer."""
    library = TOKENIZERS[name].library
    if library:
        return f"pip install '{library}=={version}'"
    package = TOKENIZERS.distribution(name)
    return f"install {'the release of concord' if package == DISTRIBUTION else f'the release of {package}'} that has it"
