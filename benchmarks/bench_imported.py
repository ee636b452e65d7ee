"""Models of usaddress and probablepeople, as their packages ship them: labels, speed, and strings that ``tag`` refuses.

    pip install --no-deps --target PACKAGES usaddress probablepeople probableparsing doublemetaphone fastaddress
    pip download --no-deps --no-binary usaddress,probablepeople usaddress probablepeople   # unpacked: SOURCES
    python benchmarks/bench_imported.py --packages PACKAGES --sources SOURCES

Labels are compared with the packages' own ``parse``; at most 20,000 strings of a file count. Speed is that of one
core from a list of raw strings to the labels of each, in CPU seconds: the package's tokenizer in Python, word tables
that are empty at first, and Viterbi, beside fastaddress's ``parse`` (the same model in Rust, which makes a list of
pairs of token and label), the best of three rounds of each in turn, and beside usaddress's own on its first 2,000
strings, once. Strings that ``tag`` refuses are decoded again by certify under the constraints in
``infra/constraints``. Where there is gold a string is right where all of its labels are; the models were trained on
most of it, so the model alone looks better than it is. ``--count`` prints the weights of the constraints instead,
counted on what was labelled by hand.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from xml.etree import ElementTree

from common import MADE, REAL, ROOT, concord, save

from concord.flows.commands.importing import import_crfsuite
from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.readers.text import batch_from_texts
from concord.workers.labelling.labelled import Labelled, check_settings, label_batch
from concord.workers.models.crfsuite import TRUST, CrfsuiteModel, load
from concord.workers.models.model import text_tokenizer, viterbi_labels

ROUNDS = 3
MOST_STRINGS = 20_000


class Gold(NamedTuple):
    """A string with the label of each of its tokens."""

    text: str
    tokens: list[str]
    labels: list[str]


class Package(NamedTuple):
    """A package, its model, the constraints that make its ``tag`` content, and strings to try it on."""

    module: ModuleType
    model: CrfsuiteModel
    rules: Path
    strings: dict[str, list[str]]
    gold: dict[str, list[Gold]]


def main() -> None:
    """Measures and writes ``benchmarks/results/imported.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder that pip has installed the packages into")
    parser.add_argument("--sources", type=Path, required=True, help="folder with their unpacked sources")
    parser.add_argument("--count", action="store_true", help="print the weights of the constraints")
    args = parser.parse_args()
    sys.path.insert(0, str(args.packages))
    packages = [
        _usaddress(args.packages, next(args.sources.glob("usaddress-*/"), None)),
        _probablepeople(args.packages, next(args.sources.glob("probablepeople-*/"), None)),
    ]
    found = [package for package in packages if package is not None]
    if args.count:
        for package in found:
            _count(package)
        return
    figures: dict[str, Any] = {}
    for package in found:
        name = package.module.__name__
        figures[name] = {"equal": _equal(package), "refused": _refused(package)}
        print(name, figures[name])
    if packages[0] is not None:
        figures["speed"] = _speed(packages[0])
        for row in figures["speed"].items():
            print(*row)
    save("imported", figures)


def _imported(name: str, packages: Path, file: str) -> tuple[ModuleType, CrfsuiteModel] | None:
    """The package and its model as a folder of concord's; says so where the package is not there."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {name} is not in {packages} ({error})")
        return None
    features, tokenizer = f"{name}:tokens2features", f"{name}:tokenize"
    os.environ[TRUST] = f"{features},{tokenizer}"
    out = MADE / "models" / f"imported-{name}"
    shutil.rmtree(out, ignore_errors=True)
    report = import_crfsuite(packages / name / file, out, features, tokenizer=tokenizer)
    print(f"{name} {report.release}: word tables {report.word_tables} {report.departure}")
    return module, load(out)


def _usaddress(packages: Path, source: Path | None) -> Package | None:
    imported = _imported("usaddress", packages, "usaddr.crfsuite")
    if imported is None or source is None:
        return None
    module, training = imported[0], source / "training"
    names = ("labeled", "us50_train_tagged", "us50_messiest_manual_label", "synthetic_osm_data_xml")
    gold = {name: list(gold_strings(training / f"{name}.xml", module)) for name in names}
    with (training / "unparseable.csv").open(newline="") as file:
        hard = [row[0] for row in csv.reader(file) if row]
    linn = [g.text for g in gold_strings(training / "openaddress_us_ia_linn.xml", module)]
    strings = {"unparseable.csv": hard, "openaddress_us_ia_linn": linn}
    strings |= {name: [g.text for g in found] for name, found in gold.items()}
    raw = REAL / "us50" / "us50.train.raw"
    if raw.is_file():
        strings["us50.train.raw"] = [line.strip() for line in raw.read_text().splitlines() if line.strip()]
    return Package(*imported, ROOT / "infra" / "constraints" / "usaddress.yaml", strings, gold)


def _probablepeople(packages: Path, source: Path | None) -> Package | None:
    imported = _imported("probablepeople", packages, "generic_learned_settings.crfsuite")
    if imported is None or source is None:
        return None
    names = ("person_labeled", "company_labeled")
    gold = {name: list(gold_strings(source / "name_data" / "labeled" / f"{name}.xml", imported[0])) for name in names}
    strings = {name: [g.text for g in found] for name, found in gold.items()}
    return Package(*imported, ROOT / "infra" / "constraints" / "probablepeople.yaml", strings, gold)


def gold_strings(path: Path, module: ModuleType) -> Iterator[Gold]:
    """The strings of a file of parserator's, each token with the label of the element that its first character is in.

    Strings with a token outside every element are left out.
    """
    for node in ElementTree.parse(path).getroot():
        text, label_at = node.text or "", [""] * len(node.text or "")
        for part in node:
            inside, after = part.text or "", part.tail or ""
            text += inside + after
            label_at += [part.tag] * len(inside) + [""] * len(after)
        tokens, labels, end = module.tokenize(text), [], 0
        for token in tokens:
            start = text.find(token, end)
            labels.append(label_at[start] if start >= 0 else "")
            end = max(end, start + len(token))
        if tokens and all(labels):
            yield Gold(text, tokens, labels)


def _batch(package: Package, strings: Sequence[str]) -> Batch:
    own = text_tokenizer(package.model)
    return batch_from_texts([str(i) for i in range(len(strings))], strings, TextSettings(), tokenizer=own)


def _labels(package: Package, strings: Sequence[str]) -> list[list[str]]:
    """From raw strings to the labels of each."""
    batch = _batch(package, strings)
    names = package.model.labels.decode(viterbi_labels(package.model, batch))
    return [names[a:b] for a, b in pairwise(batch.doc_starts.tolist())]


def _takes(package: Package, text: str) -> bool:
    """Can the package's features be made of it? Those of usaddress cannot of a token of punctuation alone."""
    try:
        package.module.parse(text)
    except IndexError:
        return False
    return bool(package.module.tokenize(text))


def _equal(package: Package) -> dict[str, list[int]]:
    """By file: strings whose labels are those of the package's own ``parse``, and all."""
    counts = {}
    for name, strings in package.strings.items():
        taken = [text for text in strings[:MOST_STRINGS] if _takes(package, text)]
        own = [[label for _, label in package.module.parse(text)] for text in taken]
        counts[name] = [sum(a == b for a, b in zip(own, _labels(package, taken), strict=True)), len(taken)]
    return counts


def _accepts(module: ModuleType, tokens: Sequence[str], labels: Sequence[str]) -> bool:
    """Would the package's ``tag`` take these labels?"""
    parse = module.parse
    module.__dict__["parse"] = lambda *_: list(zip(tokens, labels, strict=True))
    try:
        module.tag("")
    except module.RepeatedLabelError:
        return False
    finally:
        module.__dict__["parse"] = parse
    return True


def _solved(package: Package, batch: Batch, constraints: DeclaredConstraints) -> tuple[Labelled, float]:
    """The answers of certify, and its CPU seconds."""
    started = time.process_time()
    settings = check_settings(RunSettings(engine="certify"))
    labelled = label_batch(batch, model=package.model, constraints=constraints, settings=settings)
    return labelled, time.process_time() - started


def _hard(constraints: DeclaredConstraints) -> DeclaredConstraints:
    return DeclaredConstraints(tuple(t.model_copy(update={"weight": float("inf")}) for t in constraints.templates))


def _refused(package: Package) -> dict[str, dict[str, Any]]:
    """By file: what ``tag`` refuses, and what becomes of it under the constraints, soft and hard."""
    soft = load_constraints(package.rules)
    figures: dict[str, dict[str, Any]] = {}
    for name, strings in package.strings.items():
        taken = [text for text in dict.fromkeys(strings[:MOST_STRINGS]) if _takes(package, text)]
        module, refused = package.module, []
        for text in taken:
            tokens, labels = zip(*module.parse(text), strict=True)
            if not _accepts(module, tokens, labels):
                refused.append(text)
        row: dict[str, Any] = {"strings": len(taken), "refused": len(refused)}
        figures[name] = row
        if not refused:
            continue
        gold = {g.text: g.labels for g in package.gold.get(name, [])}
        wanted = [gold.get(text) for text in refused]
        batch = _batch(package, refused)
        documents = list(batch)
        row["gold repeats a label"] = sum(
            not _accepts(module, d.tokens, w) for d, w in zip(documents, wanted, strict=True) if w
        )
        row["right"] = {"with gold": sum(w is not None for w in wanted)}
        for kind, rules in (("soft", soft), ("hard", _hard(soft))):
            labelled, seconds = _solved(package, batch, rules)
            answers = [package.model.labels.decode(d.labels) for d in labelled.decoded]
            first = [package.model.labels.decode(labels) for labels in labelled.first]
            apart = sorted(b.local - d.local for b, d in zip(labelled.before, labelled.decoded, strict=True))
            row["right"] |= {"alone": _right(first, wanted), kind: _right(answers, wanted)}
            row[kind] = {
                "proven": sum(d.certified for d in labelled.decoded),
                "taken by tag": sum(_accepts(module, d.tokens, a) for d, a in zip(documents, answers, strict=True)),
                "changed": sum(a != b for a, b in zip(answers, first, strict=True)),
                "median nats apart": apart[len(apart) // 2],
                "strings a CPU second": len(refused) / seconds,
            }
    return figures


def _right(answers: Sequence[list[str]], wanted: Sequence[list[str] | None]) -> int:
    return sum(a == w for a, w in zip(answers, wanted, strict=True))


def _speed(package: Package) -> dict[str, dict[str, float]]:
    """Tokens and strings a CPU second from raw strings to labels, by file and program."""
    module = package.module
    programs: dict[str, Callable[[list[str]], object]] = {
        "concord, tables empty": lambda strings: _labels(_fresh(package), strings),
        "concord, tables full": lambda strings: _labels(package, strings),
        "usaddress tokenize alone": lambda strings: [module.tokenize(text) for text in strings],
    }
    slow: dict[str, Callable[[list[str]], object]] = {
        "usaddress parse": lambda strings: [module.parse(text) for text in strings],
        "usaddress tag": lambda strings: [_tagged(module, text) for text in strings],
    }
    try:
        rust = importlib.import_module("fastaddress")
        programs["fastaddress parse"] = lambda strings: [rust.parse(text) for text in strings]
    except ImportError as error:
        print(f"skipped: fastaddress is not there ({error})")
    figures = {}
    for name in ("unparseable.csv", "labeled", "synthetic_osm_data_xml", "openaddress_us_ia_linn"):
        strings = [text for text in package.strings[name][:MOST_STRINGS] if _takes(package, text)]
        tokens, first = _size(module, strings), strings[:2000]
        figures[f"{name}: strings"] = {"strings": float(len(strings)), "tokens": float(tokens)}
        best = dict.fromkeys(programs, float("inf"))
        _labels(package, strings)
        for _ in range(ROUNDS):
            for program, run in programs.items():
                best[program] = min(best[program], _seconds(run, strings))
        for program, seconds in best.items():
            figures[f"{name}: {program}"] = _rates(tokens, len(strings), seconds)
        for program, run in slow.items():
            figures[f"{name}: {program}"] = _rates(_size(module, first), len(first), _seconds(run, first))
    return figures


def _size(module: ModuleType, strings: Sequence[str]) -> int:
    return sum(len(module.tokenize(text)) for text in strings)


def _rates(tokens: int, strings: int, seconds: float) -> dict[str, float]:
    return {"tokens a second": tokens / seconds, "strings a second": strings / seconds}


def _fresh(package: Package) -> Package:
    """The same with a model whose tables hold nothing."""
    m = package.model
    model = CrfsuiteModel(m.labels, m.weights, m.functions, m.features, m.words, m.manifest)
    return package._replace(model=model)


def _tagged(module: ModuleType, text: str) -> object:
    try:
        return module.tag(text)
    except module.RepeatedLabelError:
        return None


def _seconds(run: Callable[[list[str]], object], strings: list[str]) -> float:
    """Without the collector of garbage, as in ``timeit``: what it looks at is all that this process ever made."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    run(strings)
    taken = time.process_time() - started
    gc.enable()
    return taken


def _count(package: Package) -> None:
    """Prints what the constraints weigh on what was labelled by hand."""
    corpus = MADE / "corpora" / f"imported-{package.module.__name__}"
    by_hand = [name for name in package.gold if not name.startswith("synthetic")]
    rows = [(name, i, g) for name in by_hand for i, g in enumerate(package.gold[name])]
    documents = [Document.build(f"{name}-{i}", [g.tokens], labels=[g.labels]) for name, i, g in rows]
    write_corpus(documents, corpus, source=package.module.__name__, overwrite=True)
    for row in concord("constraints", "weigh", package.rules, "--corpus", corpus)["constraints"]:
        print(row)


if __name__ == "__main__":
    main()
