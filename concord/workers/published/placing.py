"""A table to measure: the corpora and mined rules that it needs, and its sweep with the places of these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from concord.schemas.published import MINED, PaperFile, PublishedRules, PublishedTable
from concord.schemas.sweep import SweepFile, SweptConstraints, SweptCorpus, SweptModel
from concord.workers.published.made_corpora import DataFolders, MissingDataError, made_corpus
from concord.workers.published.mined_rules import mined_file
from concord.workers.published.paper_file import mined_in, taught_beside


class TableRequest(NamedTuple):
    """A table to measure; ``name``: of its paper's file."""

    name: str
    file: PaperFile
    number: str

    @property
    def table(self) -> PublishedTable:
        """The table as published."""
        return self.file.tables[self.number]

    @property
    def corpora(self) -> list[str]:
        """Names of the corpora that it is measured on."""
        if self.table.pairs is not None:
            return [self.table.pairs.corpus]
        if self.table.sweep is None:
            return []
        swept, models = self.table.sweep.corpora.values(), self.table.sweep.models.values()
        names = [name for corpus in swept for name in (corpus.train, corpus.test) if name is not None]
        return list(dict.fromkeys([*names, *(name for model in models for name in taught_beside(model).values())]))

    @property
    def rules(self) -> dict[str, PublishedRules]:
        """The mined rules that it uses."""
        entries = () if self.table.sweep is None else self.table.sweep.constraints.values()
        return {name: self.file.mined[name] for entry in entries for name in mined_in(entry)}

    @property
    def place(self) -> str:
        """Name of its sweep."""
        return f"{self.name}-{self.number}".replace(" ", "-")


class MadeCorpora(NamedTuple):
    """Corpora of a table.

    - ``places``: folders by name
    - ``missing``: why others are not there, by name
    """

    places: Mapping[str, Path]
    missing: Mapping[str, str]

    @property
    def why(self) -> str:
        """Every reason once."""
        return "; ".join(dict.fromkeys(self.missing.values()))


def gathered(request: TableRequest, sources: DataFolders, folder: Path) -> MadeCorpora:
    """The corpora that a table is measured on, and those that its rules are mined in. Raises `CorpusError`."""
    places, missing = dict[str, Path](), dict[str, str]()
    for name in dict.fromkeys([*request.corpora, *(rules.corpus for rules in request.rules.values())]):
        try:
            places[name] = made_corpus(name, request.file.corpora, sources=sources, folder=folder)
        except MissingDataError as error:
            missing[name] = str(error)
    return MadeCorpora(places, missing)


def placed(request: TableRequest, corpora_made: MadeCorpora, folder: Path) -> SweepFile | None:
    """The sweep of a table on the corpora that are there; mined rules are made below ``folder``.

    None where there is no sweep, or none of its corpora, or where a model or mined rules want one that is missing.
    """
    sweep, missing, places = request.table.sweep, set(corpora_made.missing), corpora_made.places
    if sweep is None:
        return None
    corpora = {name: corpus for name, corpus in sweep.corpora.items() if not {corpus.train, corpus.test} & missing}
    beside = {corpus for model in sweep.models.values() for corpus in taught_beside(model).values()}
    if not corpora or (beside | {rules.corpus for rules in request.rules.values()}) & missing:
        return None
    crossings = ((one, one.corpus and tuple(name for name in one.corpus if name in corpora)) for one in sweep.cross)
    rules = {name: str(mined_file(name, one, places[one.corpus], folder)) for name, one in request.rules.items()}
    return sweep.model_copy(
        update={
            "corpora": {name: _with_corpora(corpus, places) for name, corpus in corpora.items()},
            "models": {name: _beside(model, places) for name, model in sweep.models.items()},
            "constraints": {name: _with_rules(entry, rules) for name, entry in sweep.constraints.items()},
            "cross": tuple(one.model_copy(update={"corpus": names}) for one, names in crossings if names != ()),
        }
    )


def _with_corpora(corpus: SweptCorpus, places: Mapping[str, Path]) -> SweptCorpus:
    names = {part: getattr(corpus, part) for part in ("train", "test")}
    return corpus.model_copy(update={part: name and str(places[name]) for part, name in names.items()})


def _beside(model: SweptModel, places: Mapping[str, Path]) -> SweptModel:
    """A model with the places of corpora among its options."""
    options = {option: str(places[name]) for option, name in taught_beside(model).items()}
    return model.model_copy(update={"options": {**model.options, **options}})


def _with_rules(entry: SweptConstraints, rules: Mapping[str, str]) -> SweptConstraints:
    """Constraints with the files of their mined rules."""
    files = tuple(rules[file.removeprefix(MINED)] if file.startswith(MINED) else file for file in entry.files)
    return entry.model_copy(update={"files": files})
