"""What shipped constraints gain by the measures that their users care for, each rule beside the others.

Documents are scored by models of the default trainer that have not seen them: by five folds, and development parts by a
model of the training part. Citations are answered by crfsuite's models, too. For citations and talks the rules of
published tables, of which those that help are shipped, are judged beside the shipped ones.

    python benchmarks/bench_shipped.py                  # what is in the real corpora; figures of other sets are kept
    python benchmarks/bench_shipped.py --only citations
    python benchmarks/bench_shipped.py --packages PACKAGES --sources SOURCES    # usaddress and probablepeople, too

See `bench_imported.py` for PACKAGES and SOURCES: addresses and names that those packages have labelled by hand.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench_imported import gold_strings
from common import ROOT, known_figures, save
from corpora import documents_of

from concord.schemas.audit import MeasuredEffect
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.audit.effects import Effects
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.inference.registry import Decoder
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.learning.weights.unseen import Unseen, scored_by_others

FOLDS = 5
SHIPPED = ROOT / "infra" / "constraints"
PUBLISHED = ROOT / "concord" / "workers" / "published" / "tables" / "constraints"
FIELDS, PLAIN_NEWS = {"features": "fields"}, {"features": "core+mentions+entities"}
GOLD = {
    "usaddress": ("training", ("labeled", "us50_train_tagged", "us50_messiest_manual_label")),
    "probablepeople": ("name_data/labeled", ("person_labeled", "company_labeled")),
}
"""By package: the folder of its source with strings that were labelled by hand, and their files."""


class Case(NamedTuple):
    """Documents scored by models that have not seen them, and the files of constraints that are judged there."""

    part: str
    trainer: str
    unseen: Unseen
    files: Sequence[Path]


def main() -> None:
    """Judges what is asked for and there, and writes ``benchmarks/results/shipped.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["citations", "seminars", "news", *GOLD], help="judge this set alone")
    parser.add_argument("--packages", type=Path, help="folder that pip has installed the packages into")
    parser.add_argument("--sources", type=Path, help="folder with their unpacked sources")
    args = parser.parse_args()
    figures: dict[str, Any] = known_figures("shipped").get("sets", {})
    made = {"citations": citations, "seminars": seminars, "news": news}
    wanted = [args.only] if args.only else [*made, *(GOLD if args.packages else ())]
    for name in wanted:
        cases = made[name]() if name in made else labelled_by_hand(name, args.packages, args.sources)
        figures[name] = [row for case in cases for row in judged(case)]
    save("shipped", {"sets": figures})


def citations() -> Iterator[Case]:
    """Cora's training citations by folds, and its development citations."""
    files = (PUBLISHED / "citations.yaml", SHIPPED / "citations.yaml")
    train, dev = documents_of("citations"), documents_of("citations-dev")
    for trainer in ("sgd", "crfsuite"):
        yield Case("folds", trainer, by_folds(train, trainer, FIELDS), files)
        yield Case("dev", trainer, by_training_part(train, dev, trainer, FIELDS), files)


def seminars() -> Iterator[Case]:
    """Announcements of talks by folds."""
    unseen = by_folds(documents_of("mails"), "sgd", PLAIN_NEWS)
    yield Case("folds", "sgd", unseen, (PUBLISHED / "seminars.yaml", SHIPPED / "seminars.yaml"))


def news() -> Iterator[Case]:
    """CoNLL-2003's testa."""
    unseen = by_training_part(documents_of("news"), documents_of("news-dev"), "sgd", {})
    yield Case("dev", "sgd", unseen, (SHIPPED / "news.yaml",))


def labelled_by_hand(name: str, packages: Path, sources: Path) -> Iterator[Case]:
    """Strings of a package by folds; its own model was trained on them."""
    sys.path.insert(0, str(packages))
    module = importlib.import_module(name)
    folder, files = GOLD[name]
    source = next(sources.glob(f"{name}-*/"))
    found = [one for file in files for one in gold_strings(source / folder / f"{file}.xml", module)]
    once = {one.text: one for one in found}
    documents = [Document.build(str(i), [one.tokens], labels=[one.labels]) for i, one in enumerate(once.values())]
    yield Case("folds", "sgd", by_folds(documents, "sgd", FIELDS), (SHIPPED / f"{name}.yaml",))


def by_folds(documents: Sequence[Document], trainer: str, options: dict[str, Any]) -> Unseen:
    """Documents scored by models of the other folds."""
    entry = TRAINERS[trainer]
    return Unseen.of(documents, entry.train, entry.settings.model_validate(options), FOLDS)


def by_training_part(
    train: Sequence[Document], dev: Sequence[Document], trainer: str, options: dict[str, Any]
) -> Unseen:
    """Development documents scored by a model of the training documents."""
    entry = TRAINERS[trainer]
    labels = LabelSet.infer(name for document in (*train, *dev) for name in gold_of(document))
    scores = scored_by_others(train, dev, entry.train, entry.settings.model_validate(options), labels)
    return Unseen(dev, scores, labels)


def judged(case: Case) -> Iterator[dict[str, Any]]:
    """A row for each file: the effect of all its rules, and of each beside the others."""
    for file in case.files:
        rules = load_constraints(str(file)).bind(case.unseen.labels)
        decoder = Decoder.of("certify")
        effects = Effects(case.unseen.labels, len(rules.names), decoder)
        for i, document in enumerate(case.unseen.documents):
            problem = build_problem(document, case.unseen.potentials[i], case.unseen.labels, rules)
            answer = decoder(problem, document.doc_id).labels
            effects.look_at(document, problem, None, case.unseen.gold(i), answer)
        yield {
            "rules": "published" if file.is_relative_to(PUBLISHED) else "shipped",
            "part": case.part,
            "trainer": case.trainer,
            "documents": len(case.unseen.documents),
            "all": told(effects.whole()),
            "each": {name: told(effects.of(k)) for k, name in enumerate(rules.names)},
        }


def told(effect: MeasuredEffect | None) -> dict[str, Any]:
    """An effect as it is kept: documents changed, and figures by measure."""
    assert effect is not None
    figures = {one.measure: one.model_dump(exclude={"measure", "figure"}) for one in effect.figures}
    return {"changed": effect.documents} | figures


if __name__ == "__main__":
    main()
