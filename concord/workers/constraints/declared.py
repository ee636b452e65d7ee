"""Constraint sets of declared templates, which are Python objects or entries of a file."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from concord.schemas.document import Batch
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, SpanAgreement
from concord.schemas.run import RuleStrengths, Strength
from concord.workers.constraints.constraint_set import GroundConstraints, Separable
from concord.workers.constraints.rows import ConstraintError, Draft, WeightedDraft, laid_out
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import (
    AgreementTemplate,
    FeatureTemplate,
    RowTemplate,
    Site,
    Template,
    TooLarge,
    TooLargeError,
)
from concord.workers.storage.lined_yaml import Location


@dataclass(frozen=True)
class Origin:
    """The place where an entry was declared.

    - ``file``: the file.
    - ``entry``: number of the entry in its list, from 1.
    - ``lines``: line of each part of the entry.
    """

    file: str
    entry: int
    lines: Mapping[Location, int]

    def at(self, place: Location, kind: str) -> str:
        """``file:line: constraint 3 (lexicon)``, with the line of the deepest part of ``place`` that has one."""
        parts = (place[:i] for i in range(len(place), -1, -1))
        line = next(self.lines[part] for part in parts if part in self.lines)
        return f"{self.file}:{line}: constraint {self.entry} ({kind})"


@dataclass(frozen=True, eq=False)
class DeclaredConstraints:
    """Templates with their weights, as a `ConstraintSet`.

    - ``templates``: the entries.
    - ``origins``: one for each template, or none; for messages only.

    Raises `ConstraintError` for two entries with one name or with the same content.
    """

    templates: tuple[Template, ...]
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        for i, title in enumerate(self.titles):
            first = self.titles.index(title)
            if first < i:
                problems.append(f"{self._at(i, ('name',))}: the same as constraint {first + 1}, {title!r}")
        if problems:
            raise ConstraintError("\n".join(problems))

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The name of every template, local features included: the declared one, or one made from its content.

        A made name depends only on the entry and on the entries that would get the same name.
        """
        short = [t.name or _short_name(t) for t in self.templates]
        times = Counter(short)
        pairs = zip(self.templates, short, strict=True)
        return tuple(s if t.name or times[s] == 1 else f"{s}#{content_digest(t)[:6]}" for t, s in pairs)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(K,) the names of the constraints; local features are not among them."""
        return tuple(self.titles[i] for i, _ in self._constraints)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the entries' tests read, sorted."""
        return tuple(sorted({test.column for template in self.templates for test in template.token_tests()}))

    @cached_property
    def digest(self) -> str:
        """Hex digest of all entries and their names, in order."""
        content = [(title, content_digest(t)) for t, title in zip(self.templates, self.titles, strict=True)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @cached_property
    def strengths(self) -> RuleStrengths:
        """The weight of each constraint, and the local features."""
        features = [template for template in self.templates if isinstance(template, FeatureTemplate)]
        local = json.dumps([content_digest(template) for template in features]) if features else ""
        strengths = (
            Strength(
                name=name,
                form=content_digest(template, but="weight"),
                weights=(float(template.model_dump()["weight"]),),
            )
            for name, (_, template) in zip(self.names, self._constraints, strict=True)
        )
        return RuleStrengths(strengths=tuple(strengths), local=local)

    def bind(self, labels: LabelSet) -> DeclaredConstraints:
        """This set, after a check that every label in it is one of ``labels``.

        Raises `ConstraintError` with file, line, entry and nearest right name of each label that is not.
        """
        problems = [
            f"{self._at(i, place)}: {problem}"
            for i, template in enumerate(self.templates)
            for place, problem in template.check(labels)
        ]
        if problems:
            raise ConstraintError("\n".join(problems))
        return self

    def fitting(self, labels: LabelSet) -> DeclaredConstraints:
        """The entries all of whose labels are among ``labels``."""
        fits = [not any(template.check(labels)) for template in self.templates]
        return self.only([title for title, fit in zip(self.titles, fits, strict=True) if fit])

    def without(self, title: str) -> DeclaredConstraints:
        """The set without one entry. Raises `KeyError` if no entry has that title."""
        if title not in self.titles:
            raise KeyError(f"no constraint {title!r}; there are {', '.join(self.titles)}")
        return self.only([t for t in self.titles if t != title])

    def only(self, titles: Iterable[str]) -> DeclaredConstraints:
        """The set of these entries alone, in their order and with their present names."""
        names = set(titles)
        places = [i for i, title in enumerate(self.titles) if title in names]
        named = tuple(self.templates[i].model_copy(update={"name": self.titles[i]}) for i in places)
        return DeclaredConstraints(named, tuple(self.origins[i] for i in places) if self.origins else ())

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        """The rows and agreements of each document.

        Raises `ConstraintError` with the entry that does not fit the corpus, and `DocumentError` with entry and
        document if the entry is too large there.
        """
        site = Site(batch, labels)
        rows = self._laid_out(site, lambda template: template.rows(site))
        agreements: list[list[SpanAgreement]] = [[] for _ in batch.doc_ids]
        alone = [site.alone(i) for i in range(len(batch))] if self._compares_spans else []
        for k, (i, template) in enumerate(self._constraints):
            if isinstance(template, AgreementTemplate):
                with self._naming(i):
                    for own, of_document in zip(alone, agreements, strict=True):
                        of_document.extend(template.agreements(own, k))
        return [GroundConstraints(own, tuple(of_document)) for own, of_document in zip(rows, agreements, strict=True)]

    def antecedents(self, batch: Batch, labels: LabelSet) -> list[LinearRows]:
        """For each row of `ground`, a row that a labelling exceeds exactly if it has the antecedent.

        A row that holds only for want of its antecedent is no evidence, see `RowTemplate.antecedent`. Raises the same
        errors as `ground`.
        """
        site = Site(batch, labels)
        return self._laid_out(site, lambda template: template.antecedent(site))

    def too_large(self, batch: Batch, labels: LabelSet) -> dict[str, TooLarge]:
        """The constraints that `ground` and `antecedents` refuse because of too many entries in a document, by title.

        Each has the document with most entries, the first of equals. Raises `ConstraintError` as they do.
        """
        site, largest_of = Site(batch, labels), dict[str, TooLarge]()
        for i, template in self._constraints:
            if isinstance(template, RowTemplate):
                with self._naming(i):
                    try:
                        site.check_size(template.rows(site))
                        site.check_size(template.antecedent(site))
                    except TooLargeError as error:
                        largest_of[self.titles[i]] = error.excess
        return largest_of

    def _laid_out(self, site: Site, drafted: Callable[[RowTemplate], Draft]) -> list[LinearRows]:
        drafts: list[WeightedDraft] = []
        for k, (i, template) in enumerate(self._constraints):
            if isinstance(template, RowTemplate):
                with self._naming(i):
                    drafts.append(WeightedDraft(site.check_size(drafted(template)), template.weight, k))
        return laid_out(drafts, site.document_of, site.batch.doc_starts)

    @cached_property
    def _constraints(self) -> list[tuple[int, Template]]:
        """Index among the entries, and template, of each of the K constraints."""
        return [(i, template) for i, template in enumerate(self.templates) if not isinstance(template, FeatureTemplate)]

    @contextmanager
    def _naming(self, i: int) -> Iterator[None]:
        """Adds the entry to errors that its template raises."""
        try:
            yield
        except ConstraintError as error:
            raise ConstraintError(f"{self._at(i, ())}, {error}") from None
        except DocumentError as error:
            raise DocumentError(f"{self._at(i, ())}: {error.reason}", error.doc_id) from None

    @cached_property
    def _compares_spans(self) -> bool:
        return any(isinstance(template, AgreementTemplate) for template in self.templates)

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials with the declared local features added; the same object if there are none."""
        site = Site(batch, labels)
        for i, template in enumerate(self.templates):
            if isinstance(template, FeatureTemplate):
                with self._naming(i):
                    potentials = template.adjust(site, potentials)
        return potentials

    def _at(self, i: int, place: Location) -> str:
        kind = TEMPLATES.name_of(type(self.templates[i]))
        return self.origins[i].at(place, kind) if self.origins else f"constraint {i + 1} ({kind})"


@dataclass(frozen=True, eq=False)
class JoinedConstraints:
    """Several constraint sets as one, with their constraints in the order of the parts.

    Raises `ConstraintError` if two parts use one name.
    """

    parts: tuple[Separable, ...]

    def __post_init__(self) -> None:
        twice = [name for name, times in Counter(self.names).items() if times > 1]
        if twice:
            raise ConstraintError(f"constraints of one name in several sets: {', '.join(twice)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(K,) the names of all parts."""
        return tuple(name for part in self.parts for name in part.names)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The titles of all parts."""
        return tuple(title for part in self.parts for title in part.titles)

    def without(self, title: str) -> JoinedConstraints:
        """The set without one entry, which the first part with that title loses. Raises `KeyError` if none has it."""
        if title not in self.titles:
            raise KeyError(title)
        place = next(i for i, part in enumerate(self.parts) if title in part.titles)
        return JoinedConstraints((*self.parts[:place], self.parts[place].without(title), *self.parts[place + 1 :]))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The token columns of all parts, sorted."""
        return tuple(sorted({name for part in self.parts for name in part.columns}))

    @cached_property
    def digest(self) -> str:
        """Hex digest of the parts' digests."""
        return hashlib.sha256(json.dumps([part.digest for part in self.parts]).encode()).hexdigest()

    @cached_property
    def strengths(self) -> RuleStrengths:
        """Those of all parts."""
        parts = [part.strengths for part in self.parts]
        local = [part.local for part in parts if part.local]
        return RuleStrengths(
            strengths=tuple(one for part in parts for one in part.strengths), local=json.dumps(local) if local else ""
        )

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        """The rows and agreements of all parts, for each document."""
        shifts = itertools.accumulate((len(part.names) for part in self.parts), initial=0)
        grounds = [
            [_shifted(ground, shift) for ground in part.ground(batch, labels)]
            for part, shift in zip(self.parts, shifts, strict=False)
        ]
        return [_together(own) for own in zip(*grounds, strict=True)]

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials after every part's local features."""
        for part in self.parts:
            potentials = part.adjust(batch, potentials, labels)
        return potentials


def _shifted(ground: GroundConstraints, shift: int) -> GroundConstraints:
    """The same constraints with ``shift`` added to the index of each."""
    rows = replace(ground.rows, constraint=ground.rows.constraint + np.int32(shift))
    return GroundConstraints(
        rows, tuple(replace(pair, constraint=pair.constraint + shift) for pair in ground.agreements)
    )


def _together(grounds: Sequence[GroundConstraints]) -> GroundConstraints:
    """The constraints of several sets on one document."""
    rows = LinearRows.join([ground.rows for ground in grounds])
    return GroundConstraints(rows, tuple(pair for ground in grounds for pair in ground.agreements))


def content_digest(template: Template, *, but: str = "name") -> str:
    """Hex digest of an entry without its name, and without the field ``but``: template, labels, weight, options."""
    content = [TEMPLATES.name_of(type(template)), template.model_dump(mode="json", exclude={"name", but})]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _short_name(template: Template) -> str:
    """``precedence(author, title)``: template and labels, a few of them."""
    parts = []
    for field in template.label_fields:
        names: Sequence[str] = getattr(template, field) if field in type(template).model_fields else ()
        if names:
            parts.append("|".join(names[:3]) + ("|…" if len(names) > 3 else ""))
    return TEMPLATES.name_of(type(template)) + (f"({', '.join(parts)})" if parts else "")
