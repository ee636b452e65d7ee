"""Contract tests of feature sets: the attributes that models learn from as strings are those they score by tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from concord.schemas.document import TOKENS, Batch, Document
from concord.testing.expect import expect, expect_same
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.derived import needed_columns
from concord.workers.features.gazetteers import Gazetteer
from concord.workers.features.scorer import Scorer, compile_weights
from concord.workers.features.templates import AttributeTemplate, FeatureSet

FEATURE_WORDS = ("a", "Ada", "ADA", "b2", "3.50", "-", "=", "|", "<s>", "é", "東京", "👩\u200d🚀", "\u0301", "x" * 300)
LABEL_COUNT = 3
NONE: Mapping[str, Gazetteer] = {}


def check_features(templates: Sequence[AttributeTemplate], *, lists: Mapping[str, Gazetteer] = NONE) -> None:
    """Runs all `FEATURE_CHECKS` on the templates of a feature set; ``lists`` are the phrase lists that they read.

    Raises `AssertionError` at a broken promise.
    """
    features = FeatureSet("tried", tuple(templates), (), lists)
    for check in FEATURE_CHECKS:
        check(features)


def made_up(features: FeatureSet, *, seed: int = 0, number: int = 12) -> list[Document]:
    """Random documents of up to 4 sentences of up to 6 words, with the columns that the features read."""
    rng, columns = np.random.default_rng(seed), [name for name in needed_columns(features) if name != TOKENS]
    documents = []
    for i in range(number):
        sizes = rng.integers(1, 7, size=rng.integers(1, 5)).tolist()
        drawn = {
            name: [[FEATURE_WORDS[k] for k in rng.integers(len(FEATURE_WORDS), size=size)] for size in sizes]
            for name in (TOKENS, *columns)
        }
        sentences = drawn.pop(TOKENS)
        documents.append(Document.build(f"d{i}", sentences, **drawn))
    return documents


def templates_have_names_of_their_own(features: FeatureSet) -> None:
    """Attributes are ``name=value``: no two templates share a name, and no name contains =."""
    names = [template.name for template in features.templates]
    expect(names, "a template at least")
    expect_same(sorted(set(names)), sorted(names), "names of templates, each once")
    expect_same([name for name in names if "=" in name], [], "names with =")


def attributes_are_of_their_templates(features: FeatureSet) -> None:
    """Each attribute begins with the name of a template and =."""
    names = {template.name for template in features.templates}
    maker = AttributeMaker(features)
    for document in made_up(features):
        rows = maker(document)
        expect_same(len(rows), len(document), f"rows of attributes of {document.tokens}")
        for row in rows:
            expect(all(attribute.partition("=")[0] in names for attribute in row), f"names of templates in {row}")


def equal_documents_have_equal_attributes(features: FeatureSet) -> None:
    """A document's attributes do not depend on documents read before it, and survive pickling."""
    documents = made_up(features)
    maker = AttributeMaker(features)
    first = [maker(document) for document in documents]
    again: FeatureSet = pickle.loads(pickle.dumps(features))  # noqa: S301
    other = AttributeMaker(again)
    expect_same([other(document) for document in reversed(documents)][::-1], first, "attributes of the same documents")


def tables_score_as_attributes_say(features: FeatureSet) -> None:
    """A token's score by tables is the sum of the weights of its attributes."""
    documents, rng = made_up(features), np.random.default_rng(1)
    maker = AttributeMaker(features)
    rows = [row for document in documents for row in maker(document)]
    names = sorted({attribute for row in rows for attribute in row})
    table = {name: rng.normal(size=LABEL_COUNT) for name in names}
    source, target = (axis.ravel().astype(np.int32) for axis in np.indices((len(names), LABEL_COUNT)))
    weight = np.array([table[name] for name in names]).reshape(-1)
    weights = compile_weights(features, names, source, target, weight)
    actual = Scorer(features, weights, LABEL_COUNT).unary(Batch.of(documents))
    expected = np.array([sum((table[attribute] for attribute in row), np.zeros(LABEL_COUNT)) for row in rows])
    worst = float(np.abs(actual - expected).max(initial=0.0))
    expect(worst < 1e-9, f"scores that are the sums of attributes' weights; they differ by up to {worst:.3g} nats")


FEATURE_CHECKS: tuple[Callable[[FeatureSet], None], ...] = (
    templates_have_names_of_their_own,
    attributes_are_of_their_templates,
    equal_documents_have_equal_attributes,
    tables_score_as_attributes_say,
)
"""The single checks, each a function of a feature set."""
