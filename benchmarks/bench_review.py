"""How much of a run a review promises after 300 and 600 answers, and how often a promise is false.

    python benchmarks/bench_review.py

Four corpora with gold: a CRF is trained on four fifths of the training part, the last fifth is the labelled data for
the logistic fit and for split-conformal prediction, and the development part is the run that is reviewed. An answer is
right where gold has the entity. Each figure is over draws of the order in which entities are read:

- review: nested sets and betting, `concord.workers.review`
- Clopper-Pearson: a plain sample of a size that is fixed before, the same nested sets, an exact binomial bound each
- split-conformal: a threshold from the labelled data, no answers read, and the errors that are then in what it accepts
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, batches, save
from corpora import corpus, documents_of
from numpy.typing import NDArray
from scipy.stats import beta

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.report import with_gold
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.loaders import load_model
from concord.workers.review.nested import (
    FITTED_SHARE,
    UNFITTED_SHARE,
    PromiseLimits,
    ReviewPlan,
    least_answers,
    nested_plan,
    promised_sizes,
    whole_plan,
)
from concord.workers.review.predicted import LogisticFit, error_of_marginal
from concord.workers.review.wealth import least_refused, promised_at

CORPORA = {"CoNLL-2003": "news", "Cora": "citations", "UMass": "nested-citations", "BC5CDR": "abstracts"}
"""Training parts by what they are called; their development parts are the runs."""
FEATURES = "core+mentions+entities"
LIMITS, BUDGETS = PromiseLimits(error=0.05, alpha=0.05), (300, 600)
"""What is promised, and after how many answers."""
WHOLE = 0.25
"""Share that is read first where the whole run is promised."""
LABELLED = 0.2
"""Share of the training part that the model has not learned from."""


class Judged(NamedTuple):
    """The entities of a labelled corpus: how sure, whether gold has them, and the number of their document."""

    probability: NDArray[np.float64]
    right: NDArray[np.bool_]
    document: NDArray[np.int64]


def judged_corpus(name: str) -> tuple[Judged, Judged]:
    """The entities of the labelled fifth of a training part, and of the development part; kept once labelled."""
    kept = MADE / "review" / f"{name}.npz"
    if not kept.is_file():
        model = MADE / "models" / f"{name}-review"
        documents = documents_of(name)
        cut = int((1 - LABELLED) * len(documents))
        if not (model / "manifest.json").is_file():
            trainer = trainer_named("sgd")
            trainer.train(documents[:cut], settings=trainer.settings.model_validate({"features": FEATURES}), out=model)
        labelled = MADE / "corpora" / f"{name}-labelled"
        if not labelled.is_dir():
            write_corpus(documents[cut:], labelled, source=name)
        parts = [_judged(list(batches(path)), model) for path in (labelled, corpus(f"{name}-dev"))]
        kept.parent.mkdir(parents=True, exist_ok=True)
        columns = {f"{field}{n}": value for n, part in enumerate(parts) for field, value in part._asdict().items()}
        np.savez(kept, **columns)
    with np.load(kept) as data:
        first, second = (Judged(*(data[f"{field}{n}"] for field in Judged._fields)) for n in (0, 1))
    return first, second


def _judged(documents: list[Batch], folder: Path) -> Judged:
    model = load_model(folder)
    settings = check_settings(RunSettings(engine="viterbi", confidence="marginal"))
    probability, right, place = [np.zeros(0)], [np.zeros(0, np.bool_)], [np.zeros(0, np.int64)]
    number = 0
    for batch in documents:
        labelled = label_batch(batch, model=model, constraints=Unconstrained(), settings=settings)
        for document, decoded, sure in zip(batch, labelled.decoded, labelled.confidence, strict=True):
            some = _right(document, decoded.labels, model.labels)
            probability.append(sure.probability)
            right.append(some)
            place.append(np.full(len(some), number))
            number += 1
    return Judged(np.concatenate(probability), np.concatenate(right), np.concatenate(place))


def _right(document: Document, answer: NDArray[Any], labels: LabelSet) -> NDArray[np.bool_]:
    """(M,) which of the entities gold has."""
    joint, gold = with_gold(labels, document)
    wanted, have = (joint.spans(some, document.sentence_starts) for some in (gold, answer))
    known = set(zip(wanted.start.tolist(), wanted.end.tolist(), wanted.type.tolist(), strict=True))
    triples = zip(have.start.tolist(), have.end.tolist(), have.type.tolist(), strict=True)
    return np.array([triple in known for triple in triples], np.bool_)


def _clopper_pearson(plan: ReviewPlan, wrong: NDArray[np.bool_], sample: int) -> int:
    """Size of the promised set after a sample of a size fixed before: the same sets, one after the other.

    The first is the first of which the sample is expected to hold as many as are needed where none is wrong.
    """
    drawn, total = plan.draw[:sample], len(wrong)
    promised = 0
    for size in plan.sizes.tolist():
        if size * sample / total < least_answers(LIMITS):
            continue
        inside = drawn[plan.rank[drawn] < size]
        mistakes = int(wrong[inside].sum())
        if beta.ppf(1 - LIMITS.alpha, mistakes + 1, max(len(inside) - mistakes, 1e-9)) > LIMITS.error:
            break
        promised = size
    return promised


def _conformal(labelled: Judged, run: Judged) -> tuple[float, float]:
    """Share of a run that split-conformal prediction accepts, and the errors in it.

    The threshold is the lowest at which the labelled data, with one more error, have at most the limit of errors
    (conformal risk control, Angelopoulos et al. 2022).
    """
    order = np.argsort(-labelled.probability, kind="stable")
    number = np.arange(1, len(order) + 1)
    fine = np.flatnonzero((np.cumsum(~labelled.right[order]) + 1) / (number + 1) <= LIMITS.error)
    if not len(fine):
        return 0.0, 0.0
    accepted = run.probability >= labelled.probability[order][fine[-1]]
    return float(accepted.mean()), float((~run.right[accepted]).mean())


def _spread(sizes: NDArray[np.int64], false: NDArray[np.bool_], total: int) -> dict[str, Any]:
    return {
        "promised": [float(share) for share in sizes.mean(axis=0) / total],
        "promised by nine of ten draws": [float(share) for share in np.percentile(sizes, 10, axis=0) / total],
        "false": float(false.mean()),
    }


def _is_false(plan: ReviewPlan, wrong: NDArray[np.bool_], size: int) -> bool:
    return size > 0 and int(wrong[plan.rank < size].sum()) >= least_refused(size, LIMITS.error)


def _draws(predicted: NDArray[np.float64], wrong: NDArray[np.bool_], draws: int, most: float) -> dict[str, Any]:
    """A review, and the plain sample beside it, over draws; false is one that is so after either number of answers."""
    sizes, false = [], []
    for seed in range(draws):
        plan = nested_plan(predicted, LIMITS, np.random.default_rng(seed), most=most)
        ways = [promised_sizes(plan, wrong, list(BUDGETS)), [_clopper_pearson(plan, wrong, n) for n in BUDGETS]]
        sizes.append(ways)
        false.append([any(_is_false(plan, wrong, size) for size in way) for way in ways])
    return {
        name: _spread(np.array(sizes)[:, number], np.array(false)[:, number], len(wrong))
        for number, name in enumerate(("review", "clopper-pearson"))
    }


def _whole(predicted: NDArray[np.float64], wrong: NDArray[np.bool_], draws: int) -> dict[str, Any]:
    """Share of the run that is read until the whole of it is promised: the middle draw, and nine of ten."""
    total, needed, false = len(wrong), [], 0
    for seed in range(draws):
        plan = whole_plan(predicted, LIMITS, WHOLE, np.random.default_rng(seed))
        members = plan.members(0)
        reached = promised_at(wrong[members], len(members), int(plan.refused[0]), LIMITS.alpha)
        needed.append(np.inf if reached is None else (len(plan.first) + reached) / total)
        false += reached is not None and int(wrong[members].sum()) >= plan.refused[0]
    middle, most = np.percentile(needed, [50, 90], method="higher")
    return {
        "read": None if np.isinf(middle) else float(middle),
        "read by nine of ten draws": None if np.isinf(most) else float(most),
        "false": false / draws,
    }


def _made_worse(run: Judged, rng: np.random.Generator) -> dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """The run in ways that mislead: predicted errors and what is wrong.

    - ties: marginals rounded to one digit
    - clusters: a tenth of the documents is wrong from end to end, however sure
    - shift: as many sure answers are made wrong as there are wrong ones
    - limit: predicted errors say nothing, and errors are one more than a promise of the whole allows
    """
    predicted, wrong = error_of_marginal(run.probability), ~run.right
    total, documents = len(wrong), np.unique(run.document)
    bad = rng.choice(documents, max(1, len(documents) // 10), replace=False)
    sure = np.flatnonzero(run.right & (predicted <= np.median(predicted)))
    shifted = wrong.copy()
    shifted[rng.choice(sure, min(int(wrong.sum()), len(sure)), replace=False)] = True
    limit = np.zeros(total, np.bool_)
    limit[rng.choice(total, least_refused(total, LIMITS.error), replace=False)] = True
    return {
        "ties": (np.round(predicted, 1), wrong),
        "clusters": (predicted, wrong | np.isin(run.document, bad)),
        "shift": (predicted, shifted),
        "limit": (np.zeros(total), limit),
    }


def main() -> None:
    """Measures all corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="orders of reading, for each figure")
    draws = parser.parse_args().draws
    figures: dict[str, Any] = {"draws": draws, "answers": list(BUDGETS), "error": LIMITS.error, "alpha": LIMITS.alpha}
    for title, name in CORPORA.items():
        labelled, run = judged_corpus(name)
        raw, wrong = error_of_marginal(run.probability), ~run.right
        fit = LogisticFit.of(error_of_marginal(labelled.probability), ~labelled.right)
        order = np.argsort(raw, kind="stable")
        number = np.arange(1, len(order) + 1)
        possible = number[np.cumsum(wrong[order]) <= LIMITS.error * number].max(initial=0)
        accepted, errors = _conformal(labelled, run)
        figures[title] = {
            "entities": len(wrong),
            "wrong": float(wrong.mean()),
            "possible": float(possible / len(wrong)),
            "marginals": _draws(raw, wrong, draws, UNFITTED_SHARE),
            "fit": _draws(fit.error(raw), wrong, draws, FITTED_SHARE),
            "whole": _whole(raw, wrong, draws),
            "conformal": {"accepted": accepted, "wrong": errors},
            "misled": {
                way: _draws(predicted, made, draws, UNFITTED_SHARE)
                for way, (predicted, made) in _made_worse(run, np.random.default_rng(0)).items()
            },
        }
        print(title, figures[title])
    save("review", figures)


if __name__ == "__main__":
    main()
