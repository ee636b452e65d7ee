"""Search errors and model errors against a definition by sets, and what certify reports on a batch with gold."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.run import RunSettings, ShardReport
from concord.workers.evaluation.search_errors import DocumentErrors, EntityErrors, Objectives
from concord.workers.inference.registry import EngineError
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.report import report_of
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import LABELS, HashModel, consistency

SMALL = LabelSet.bio(["ORG", "PER"])
START = np.zeros(1, np.int64)


def entities(labels: Labels) -> set[tuple[int, int, int]]:
    spans = SMALL.spans(labels, START)
    return set(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8), st.booleans())
def test_entity_errors_are_set_differences(columns: list[tuple[int, int, int]], proven: bool) -> None:
    gold, heuristic, best = (np.array(c, np.int32) for c in zip(*columns, strict=True))
    found = EntityErrors.of(gold, heuristic, best, SMALL, START, proven=proven)
    g, h, b = entities(gold), entities(heuristic), entities(best)
    wrong = h ^ g
    expected = Counter(search=len(wrong - (b ^ g)), lucky=len((b ^ g) - wrong))
    expected["model" if proven else "open"] = len(wrong & (b ^ g))
    assert {kind: found.total(kind) for kind in EntityErrors.kinds} == {k: expected[k] for k in EntityErrors.kinds}
    assert found.total("search") + found.total("model") + found.total("open") == len(wrong)


def test_documents_by_what_the_objectives_say() -> None:
    def kind(gold: float, heuristic: float, best: float, *, proven: bool = True, right: bool = False) -> str:
        counts = DocumentErrors.of(Objectives(gold, heuristic, best, proven), right=right).row("documents")
        assert sum(counts.values()) == 1
        return max(counts, key=counts.__getitem__)

    assert kind(3.0, 3.0, 3.0, right=True) == "right"
    assert kind(3.0, 2.0, 3.0) == "search"
    assert kind(3.0, 2.0, 4.0) == "both"
    assert kind(3.0, 2.0, 3.0, proven=False) == "open"
    assert kind(2.0, 3.0, 3.0) == "model"
    assert kind(-np.inf, 3.0, 3.0, proven=False) == "model"


def test_only_an_engine_that_proves_can_examine_another() -> None:
    with pytest.raises(EngineError, match="engine gibbs proves nothing, so it cannot tell the errors of beam apart"):
        check_settings(RunSettings(engine="gibbs", errors_of="beam"))
    with pytest.raises(EngineError, match="no engine is called 'guess'"):
        check_settings(RunSettings(engine="certify", errors_of="guess"))


def test_certify_tells_them_apart_and_who_is_not_asked_stays_silent() -> None:
    batch = Batch.of(list(synthesize(12, seed=1, kind="news")))
    constraints = consistency()
    reports: dict[str, ShardReport] = {}
    for engine in ("certify", "gibbs"):
        examined = "gibbs" if engine == "certify" else None
        settings = check_settings(RunSettings(engine=engine, errors_of=examined))
        labelled = label_batch(batch, model=HashModel(), constraints=constraints, settings=settings)
        reports[engine] = report_of(batch, labelled, labels=LABELS, names=constraints.names, rejected=0)
    gibbs, certify = reports["gibbs"], reports["certify"]
    assert gibbs.search_errors == gibbs.search_documents == {}
    assert certify.certified >= 10
    assert sum(certify.search_documents["documents"].values()) == 12
    joined = np.concatenate([decoded.labels for decoded in labelled.decoded])
    assert batch.labels is not None
    gold = LABELS.encode(batch.labels.strings())
    wanted, given_ = (LABELS.spans(y, batch.sentence_starts) for y in (gold, joined))
    spans = [set(zip(s.start.tolist(), s.end.tolist(), s.type.tolist(), strict=True)) for s in (wanted, given_)]
    counted = sum(row["search"] + row["model"] + row["open"] for row in certify.search_errors.values())
    assert counted == len(spans[0] ^ spans[1]) > 0
    assert sum(row["model"] for row in certify.search_errors.values()) > 0
    merged = ShardReport.merge([certify, certify])
    assert merged.search_documents["documents"]["model"] == 2 * certify.search_documents["documents"]["model"]
