"""Building blocks for parts of other packages: engines, templates, readers, writers, models, trainers, measures, …

A package registers its parts by entry points, see ``docs/extending.md``, and tests them with `concord.testing`. All
names here are public and stay.

    from concord.parts import Budget, Decoded, EngineSettings, Problem, Solver, Status
"""

from __future__ import annotations

from concord.schemas.columns import Misfit, Notice, Reject
from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import CorpusError, DocumentError, InputError, TrainingError
from concord.schemas.exported import Change, ExportedDocument, ExportedSpan, Reason
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem, SpanAgreement
from concord.schemas.settings import EngineSettings, ReaderSettings, TrainerSettings, WriterSettings
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import Draft, edges_in, forbidden_edges, forbidden_labels, tokens_in
from concord.workers.constraints.templates.template import (
    AgreementTemplate,
    FeatureTemplate,
    Names,
    RowTemplate,
    Scope,
    Site,
    Tokens,
)
from concord.workers.corpus.readers.lines import Line, id_prefix, line_groups, line_text
from concord.workers.corpus.readers.reader import (
    BadLineError,
    FileStart,
    Likelihood,
    ReaderEntry,
    SourceForm,
    decoded,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.settings import FileEncoding
from concord.workers.corpus.tokenizers.tokenizer import Cut, Cuts, LanguageError, Tokenizer, TokenizerError
from concord.workers.corpus.writers.writer import FormError, Piece, WriterEntry
from concord.workers.evaluation.measures import Items, Measure, MeasureError, Pair, Places
from concord.workers.features.templates import Conjunction, Single, Source, Window
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED, Solver, proven
from concord.workers.inference.core.incumbent import Search
from concord.workers.learning.mining.miner import Counting, MinedRules, Miner, Mining, MiningTask
from concord.workers.learning.mining.rules import KeptSettings
from concord.workers.learning.trainers.trainer import Iteration, Progress, Trainer, TrainingCounts
from concord.workers.learning.weights.penalties import By, Penalty, PenaltySettings
from concord.workers.models.folder import (
    Manifest,
    ModelError,
    begin,
    file_digest,
    read_manifest,
    write_manifest,
)
from concord.workers.models.model import Model
from concord.workers.parts import Group, PartError, Registry

__all__ = [
    "UNLIMITED",
    "AgreementTemplate",
    "BadLineError",
    "Batch",
    "Budget",
    "By",
    "Change",
    "Column",
    "Conjunction",
    "CorpusError",
    "Counting",
    "Cut",
    "Cuts",
    "DeclaredConstraints",
    "Decoded",
    "Document",
    "DocumentError",
    "Draft",
    "EngineSettings",
    "ExportedDocument",
    "ExportedSpan",
    "FeatureTemplate",
    "FileEncoding",
    "FileStart",
    "FormError",
    "Group",
    "InputError",
    "Items",
    "Iteration",
    "KeptSettings",
    "LabelSet",
    "Labels",
    "LanguageError",
    "Likelihood",
    "Line",
    "LinearRows",
    "Manifest",
    "Measure",
    "MeasureError",
    "MinedRules",
    "Miner",
    "Mining",
    "MiningTask",
    "Misfit",
    "Model",
    "ModelError",
    "Names",
    "Notice",
    "Pair",
    "PartError",
    "Penalty",
    "PenaltySettings",
    "Piece",
    "Places",
    "Potentials",
    "Problem",
    "Progress",
    "ReaderEntry",
    "ReaderSettings",
    "Reason",
    "Registry",
    "Reject",
    "RowTemplate",
    "Scheme",
    "Scope",
    "Search",
    "Single",
    "Site",
    "Solver",
    "Source",
    "SourceForm",
    "SpanAgreement",
    "Status",
    "Tokenizer",
    "TokenizerError",
    "Tokens",
    "Trainer",
    "TrainerSettings",
    "TrainingCounts",
    "TrainingError",
    "Window",
    "WriterEntry",
    "WriterSettings",
    "begin",
    "decoded",
    "edges_in",
    "file_digest",
    "forbidden_edges",
    "forbidden_labels",
    "id_prefix",
    "in_text",
    "line_groups",
    "line_text",
    "or_nothing",
    "proven",
    "read_manifest",
    "source_files",
    "tokens_in",
    "viterbi",
    "write_manifest",
]
