"""Columns of the feed of changes."""

from __future__ import annotations

import pyarrow as pa

from concord.schemas.columns import DOC_ID, ENTITY, LABELS, STRINGS, Layout

RUN_NUMBER, SINCE, CHANGE_KIND, WHY, MODEL_DIGEST = "run", "since", "what", "why", "model_digest"
ENTITY_SPANS = "entities"
LABELS_BEFORE, ENTITY_SPANS_BEFORE = "labels_before", "entities_before"
TEXT_DIGEST, TEXT_DIGEST_BEFORE = "text_digest", "text_digest_before"

CAUSE = pa.struct([("cause", pa.string()), ("detail", pa.string())])
"""A `schemas.changes.Cause`."""

CHANGES_LAYOUT = Layout(
    "changes",
    1,
    pa.schema(
        [
            (RUN_NUMBER, pa.int64()),
            (SINCE, pa.int64()),
            (DOC_ID, pa.string()),
            (CHANGE_KIND, pa.string()),
            (LABELS_BEFORE, STRINGS),
            (LABELS, STRINGS),
            (ENTITY_SPANS_BEFORE, pa.list_(ENTITY)),
            (ENTITY_SPANS, pa.list_(ENTITY)),
            (TEXT_DIGEST_BEFORE, pa.string()),
            (TEXT_DIGEST, pa.string()),
            (WHY, pa.list_(CAUSE)),
            (MODEL_DIGEST, pa.string()),
        ]
    ),
    pa.schema([]),
    "give a file of `changes/` that `concord reprocess` wrote",
)
"""A row a document whose text or answer a run changed.

- ``run``: number of the run among those of the folder that changed something; 1 is the first
- ``since``: number of the run that it is compared with; 0 for none, then the run's documents are all there
- ``what``: a `schemas.changes.ChangeKind`
- ``labels_before``, ``labels``, ``entities_before``, ``entities``: as in predictions; null where there is no answer
- ``text_digest_before``, ``text_digest``: hex digests of words and sentences
- ``why``: the causes, see `schemas.changes.Why`; none where nothing differs that the runs are made of, as
  under a limit of time
- ``model_digest``: the model of the run
"""

CHANGES_SCHEMA = CHANGES_LAYOUT.required.with_metadata(CHANGES_LAYOUT.metadata)
"""Schema of a file of the feed."""
