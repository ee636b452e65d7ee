"""The digest of code covers what can change an answer, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from concord.schemas.distribution import PACKAGE
from concord.workers.compiling.code import (
    COMPILERS,
    LABELLING_CODE,
    LIBRARIES,
    ROOT,
    files_behind,
    imports_of,
    with_registered,
)
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.parts import LABELLING_PARTS
from tests.support.copied import copied

ROOMS_OUT = {
    "workers/features/own_resources.py": "names files: what is read of them is in the model's digest",
    "workers/learning/": "learns: what it makes is in the model's digest, or in constraints, which are in the key",
    "workers/features/clustering/": "groups words: the clusters are in the model's digest",
    "workers/remote/": "hands shards to `workers.labelling.shard`, or learns and counts",
    "workers/verification/": "checks a run that is there",
    "workers/synthesis/": "makes a corpus, whose rows are in the key",
    "workers/audit/": "looks at constraints before a run",
    "workers/drift/": "compares a run with the last one",
    "workers/review/": "promises something of a run that is there",
    "workers/corpus/writers/": "writes answers in the forms of other programs",
    "workers/report/": "draws a run that is there",
    "workers/published/": "compares results of sweeps with published figures",
    "workers/sweeps/": "hands documents to `workers.labelling.labelled`, and has the digest of it in its keys",
}
"""Folders of which labelling imports nothing, and what they are for."""


@cache
def behind() -> set[Path]:
    """Files in the digest."""
    return set(files_behind(with_registered(LABELLING_CODE, LABELLING_PARTS)))


OUT = {
    "workers/papers/canisius/trigram_trainer.py": "trains: what it learns is in the model's digest",
    "workers/papers/canisius/trigram_trials.py": "trains: what it learns is in the model's digest",
    "workers/papers/stokman/hmm2_trainer.py": "trains: what it learns is in the model's digest",
    "workers/features/phrase_choice.py": "makes a file of phrases: those that a model reads are in its digest",
    "workers/features/phrase_sources.py": "makes a file of phrases: those that a model reads are in its digest",
    "workers/constraints/beside_model.py": "puts constraints together, which are in the key",
    "workers/constraints/declared_weights.py": "weighs constraints, which are in the key",
    "schemas/adopting.py": "what a run of answers is asked for, which is in the key",
    "schemas/audit.py": "reports of `concord constraints check`",
    "schemas/run_report.py": "what `concord reprocess` answers",
    "schemas/train_report.py": "what `concord train` answers",
    "schemas/labelled.py": "what `concord label` answers",
    "schemas/reports.py": "what flows answer",
    "schemas/gains.py": "compares figures of labellings",
    "schemas/learning_requests.py": "what flows that learn are asked for",
    "schemas/requests.py": "what flows are asked for; what decides an answer is in the settings, which are in the key",
    "schemas/run_context.py": "the addresses of Ray and MLflow",
    "schemas/challenge.py": "what `concord` answers about a challenger",
    "schemas/review.py": "what `concord review` asks for and answers",
    "schemas/changes.py": "what `concord changes` answers",
    "schemas/feed.py": "columns of the feed of changes, which is made of answers that are there",
    "schemas/nights.py": "the record of an output folder's runs",
    "schemas/run_plan.py": "what `concord reprocess --dry-run` answers",
    "schemas/run_changes.py": "how a run was asked for otherwise than the last one",
    "schemas/drift.py": "how a night differs from the last one",
    "schemas/doctor.py": "what `concord doctor` answers",
    "workers/evaluation/runs.py": "compares results of sweeps",
    "workers/evaluation/gate.py": "compares two models",
    "schemas/sweep.py": "sweep files, and what sweeps answer",
    "schemas/published.py": "tables of papers, and what is measured beside them",
    "workers/evaluation/bootstrap.py": "scores what is labelled",
    "workers/evaluation/label_ids.py": "scores what is labelled",
    "workers/evaluation/tally.py": "scores what is labelled",
    "workers/inference/sampling/diagnostics.py": "figures of `benchmarks/bench_chains.py`",
    "workers/corpus/chosen_rows.py": "chooses rows, which are in the key",
    "schemas/why.py": "what `concord why` answers",
    "workers/labelling/reasons.py": "explains an answer that is there",
    "workers/corpus/correction_file.py": "reads corrections, which are in the keys of their shards",
    "workers/corpus/plan.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/shard_size.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/surveyed.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/kept_survey.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/id_file.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/compiling/kept_digests.py": "keeps this digest",
    "workers/corpus/row_runs.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/repeated_ids.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/run_table.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/shard_table.py": "cuts a corpus into shards, whose rows are in the key",
    "workers/corpus/ingestion.py": "writes a corpus, whose rows are in the key",
    "workers/corpus/taggers.py": "puts answers into a corpus, whose rows are in the key",
    "workers/evaluation/randomization.py": "mines constraints, which are in the key",
    "workers/constraints/constraint_writer.py": "writes constraints, which are in the key",
    "workers/constraints/file_schema.py": "tells editors what constraints look like",
    "workers/features/made_resources.py": "trains: what it learns is in the model's digest",
    "workers/features/settings.py": "settings of making lists and clusters, which are in the model's digest",
    "workers/features/resources.py": "trains: what it learns is in the model's digest",
    "workers/models/named_encoder.py": "trains: what it learns is in the model's digest",
    "workers/features/attributes.py": "trains: what it learns is in the model's digest",
    "schemas/codl.py": "settings of training, which are in the model's digest",
    "workers/features/incidence.py": "trains: what it learns is in the model's digest",
    "workers/models/crfsuite_import.py": "makes a model, whose digest is in the key",
    "workers/models/label_files.py": "makes a model, whose digest is in the key",
    "workers/models/attribute_names.py": "trains: what it learns is in the model's digest",
    "workers/corpus/readers/citations.py": "read at ingestion",
    "workers/corpus/readers/addresses.py": "read at ingestion",
    "workers/corpus/readers/fields.py": "read at ingestion",
    "workers/corpus/readers/mail.py": "read at ingestion",
    "workers/corpus/readers/pubtator.py": "read at ingestion",
    "workers/corpus/readers/spans.py": "read at ingestion",
    "workers/corpus/readers/umass.py": "read at ingestion",
    "workers/corpus/readers/columns.py": "read at ingestion",
    "workers/corpus/readers/column_guess.py": "read at ingestion",
    "workers/corpus/readers/unread_forms.py": "read at ingestion",
    "workers/corpus/readers/brat.py": "read at ingestion",
    "workers/corpus/readers/conllu.py": "read at ingestion",
    "workers/corpus/readers/doc_bin.py": "read at ingestion",
    "workers/corpus/readers/parquet_rows.py": "read at ingestion",
    "workers/corpus/readers/json_forms.py": "read at ingestion",
    "workers/corpus/readers/raw_text.py": "read at ingestion",
    "workers/corpus/readers/span_files.py": "read at ingestion",
    "workers/corpus/readers/span_places.py": "read at ingestion",
    "workers/corpus/readers/span_shapes.py": "read at ingestion",
    "workers/corpus/readers/tagged_xml.py": "read at ingestion",
    "workers/corpus/readers/xml_tree.py": "read at ingestion",
    "workers/corpus/fitting.py": "finds the reader that fits a file, at ingestion",
    "workers/corpus/shape.py": "tells what is unusual of a corpus, at ingestion",
    "schemas/exported.py": "answers in the forms of other programs",
    "workers/corpus/readers/registry.py": "read at ingestion",
    "workers/evaluation/surety.py": "says how sure a model is beside gold, for training",
    "workers/evaluation/corpus_counts.py": "counts what is in a corpus",
    "workers/storage/html_page.py": "writes pages for people",
    "workers/labelling/warming.py": "compiles, and throws away what it labels",
}
"""Other files that labelling does not import, and what they are for."""

PARSERS = {"pydantic", "yaml"}
"""Libraries whose results, settings and constraints, are in the key themselves."""

MOVERS = {"obstore", "_typeshed"}
"""Libraries that move bytes, and types."""

DISTRIBUTIONS = {"pycrfsuite": "python-crfsuite"}


def test_what_labelling_does_not_import_is_known() -> None:
    """A new file is either in the digest or stands above with its reason."""
    every = {path for package in ("schemas", "workers") for path in (ROOT / package).rglob("*.py")}
    apart = {path.relative_to(ROOT).as_posix() for path in every - behind()}
    assert {name for name in apart if not name.startswith(tuple(ROOMS_OUT))} == set(OUT)
    for room in ROOMS_OUT:
        assert {path.relative_to(ROOT).as_posix() for path in (ROOT / room).rglob("*.py")} <= apart, room


def test_labelling_imports_nothing_that_the_files_do_not_show() -> None:
    """What Python really imports to label is among the files found by reading."""
    script = f"""
import importlib, pathlib, sys
for name in {LABELLING_CODE}: importlib.import_module(name)
for module in list(sys.modules.values()):
    if (getattr(module, "__name__", "")).startswith(("concord.workers", "concord.schemas")):
        print(pathlib.Path(module.__file__).resolve())
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    imported = {Path(line) for line in run.stdout.splitlines()}
    assert len(imported) > 60
    assert imported <= behind()


def test_every_library_that_labelling_imports_is_in_the_digest() -> None:
    roots = {name.split(".")[0] for path in behind() for name in imports_of(path)}
    libraries = {
        DISTRIBUTIONS.get(name, name) for name in roots - set(sys.stdlib_module_names) - {PACKAGE} - PARSERS - MOVERS
    }
    named = {tokenizer.library for tokenizer in TOKENIZERS.values()} - {""}  # in a run's key with their version
    named |= {"onnxruntime", "tokenizers"}  # in the digest of a model in ONNX
    assert libraries | {"llvmlite"} == {*LIBRARIES, *named}
    assert set(COMPILERS) <= set(LIBRARIES)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("tree"))


def digests(tree: Path, of: str = "code_digest") -> tuple[str, str]:
    script = (
        f"from concord.workers.compiling.kept_digests import {of}; "
        "from concord.workers.compiling.definitions import kernel_digests; "
        f"print({of}(), sum(int(digest, 16) for digest in kernel_digests().values()))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tree.parent)
    code, kernels = run.stdout.split()
    return code, kernels


@pytest.fixture(scope="module")
def before(tree: Path) -> tuple[str, str]:
    """The digests of the copy without a change."""
    return digests(tree)


def edited(tree: Path, file: str, change: Callable[[str], str], of: str = "code_digest") -> tuple[str, str]:
    path = tree / file
    before = path.read_text()
    assert change(before) != before
    path.write_text(change(before))
    try:
        return digests(tree, of)
    finally:
        path.write_text(before)


def test_docstrings_comments_and_layout_change_nothing(tree: Path, before: tuple[str, str]) -> None:
    file = "workers/inference/core/engine.py"
    assert (
        edited(tree, file, lambda text: text.replace("A function that labels one document.", "Labels one document."))
        == before
    )
    assert edited(tree, file, lambda text: text.replace("The contract of an engine", "An engine")) == before
    assert edited(tree, file, lambda text: "# A comment.\n\n" + text) == before
    assert edited(tree, file, lambda text: text.replace("def proven(", "def proven(\n    ")) == before


def test_a_constant_changes_both(tree: Path, before: tuple[str, str]) -> None:
    after = edited(tree, "workers/inference/numerics.py", lambda text: text.replace("1e-6", "1e-5"))
    assert not set(before) & set(after)


@pytest.mark.parametrize("file", ["schemas/settings.py", "schemas/problem.py", "workers/inference/sampling/sweep.py"])
def test_what_kernels_do_not_hold_leaves_them_as_they_are(tree: Path, before: tuple[str, str], file: str) -> None:
    """An edit of settings, of a data class, or of plain Python beside a kernel compiles nothing."""
    after = edited(tree, file, lambda text: text + "\ndef plain() -> int:\n    return 1\n")
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.parametrize("file", ["stokman/evolution.py", "stokman/hmm2.py", "canisius/csp.py"])
def test_what_entry_points_of_concord_lead_to_changes_the_code(tree: Path, before: tuple[str, str], file: str) -> None:
    after = edited(tree, f"workers/papers/{file}", lambda text: text + "\ndef plain() -> int:\n    return 1\n")
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_workers_are_compared_by_the_trainers_of_papers_too(tree: Path) -> None:
    first = digests(tree, "workers_digest")
    after = edited(tree, "workers/papers/stokman/hmm2_trainer.py", lambda text: text + "\nX = 1\n", "workers_digest")
    assert after[0] != first[0]


def test_made_up_news_changes_nothing(tree: Path, before: tuple[str, str]) -> None:
    assert edited(tree, "workers/synthesis/text.py", lambda text: text + "\nX = 1\n") == before
