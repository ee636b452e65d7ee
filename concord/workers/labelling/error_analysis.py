"""Error analysis: whether a wrong entity is a search error or a model error, by the proofs of another engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from concord.schemas.decoded import Decoded
from concord.schemas.document import Document
from concord.schemas.problem import Problem
from concord.schemas.run import RunSettings
from concord.workers.evaluation.search_errors import DocumentErrors, EntityErrors, Objectives
from concord.workers.inference.registry import Decoder
from concord.workers.labelling.report import with_gold


@dataclass
class ErrorAnalysis:
    """Errors of the ``examined`` engine on documents with gold, compared with the answers of an engine with proofs.

    Nothing is counted where ``examined`` is None.
    """

    examined: Decoder | None
    entities: EntityErrors = field(default_factory=EntityErrors.empty)
    documents: DocumentErrors = field(default_factory=DocumentErrors.empty)

    @classmethod
    def nothing(cls) -> ErrorAnalysis:
        """Counts nothing."""
        return cls(None)

    @classmethod
    def by(cls, settings: RunSettings) -> ErrorAnalysis:
        """Error analysis of a run: examines `RunSettings.errors_of`, with its default options and the run's seed."""
        return cls(None if settings.errors_of is None else Decoder.of(settings.errors_of, seed=settings.seed))

    def add(self, document: Document, problem: Problem, answer: Decoded) -> None:
        """Runs the examined engine on a document with gold, and counts its errors by ``answer``."""
        if self.examined is None or document.labels is None:
            return
        heuristic = self.examined(problem, document.doc_id)
        joint, gold = with_gold(problem.labels, document)
        is_known = int(gold.max(initial=0)) < len(problem.labels)
        objective = problem.score(gold).objective if is_known else -np.inf
        objectives = Objectives(objective, heuristic.objective, answer.objective, answer.certified)
        self.entities += EntityErrors.of(
            gold, heuristic.labels, answer.labels, joint, document.sentence_starts, proven=answer.certified
        )
        self.documents += DocumentErrors.of(objectives, right=bool((gold == heuristic.labels).all()))
