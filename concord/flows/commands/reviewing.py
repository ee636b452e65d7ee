"""A review of a run in a folder of its own: what is read next, the answers, and what they promise.

The folder has ``review.json`` (the method), ``answers.jsonl`` (a line for each answer, on the disk before the next
thing is shown; the last line about a thing counts), and what follows from these: ``promise.json``,
``promised.parquet`` and ``corrections.jsonl``.
"""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from concord.flows.commands.review_fit import LabelledRun, fit_to
from concord.flows.inputs.output_places import check_output_place
from concord.flows.nights.record import read_record
from concord.flows.runfolder.published import Published, published, row_of
from concord.schemas.arrays import Floats
from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT
from concord.schemas.errors import InputError, UsageError
from concord.schemas.review import (
    ReadAnswer,
    ReaderConsistency,
    ReadVerdict,
    ReviewMethod,
    ReviewPromise,
    ReviewQuestion,
    ReviewRequest,
    things,
)
from concord.workers.corpus.parquet import table_bytes
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.review.nested import (
    FITTED_SHARE,
    NOT_READ,
    READ_RIGHT,
    READ_SKIPPED,
    READ_WRONG,
    UNFITTED_SHARE,
    PromiseLimits,
    ReviewPlan,
    ahead,
    nested_plan,
    promised_level,
    standing,
    whole_plan,
)
from concord.workers.review.predicted import LogisticFit
from concord.workers.review.questions import question_of
from concord.workers.review.review_items import NO_ORDER, ReviewItem, ReviewItems, items_of
from concord.workers.storage.files import make_folder, write_whole, writing
from concord.workers.storage.storage import file_bytes

METHOD, ANSWER_LOG, PROMISE = "review.json", "answers.jsonl", "promise.json"
PROMISED, CORRECTIONS = "promised.parquet", "corrections.jsonl"
NUMBERS = {
    ReadVerdict.RIGHT: READ_RIGHT,
    ReadVerdict.WRONG: READ_WRONG,
    ReadVerdict.SKIPPED: READ_SKIPPED,
    ReadVerdict.UNREAD: NOT_READ,
}


REPEAT_EVERY, REPEAT_GAP = 20, 10
"""Answers for which one question is asked again, and the last ones, none of which is."""


class ReviewError(InputError):
    """A review that cannot go on: it is of another run, made otherwise, or damaged."""


def run_digest(run: Published) -> str:
    """Digest of a run: of its manifest, which names every file."""
    return hashlib.sha256(run.manifest.model_dump_json().encode()).hexdigest()


class Review:
    """A review that is open: it knows what was answered, and writes down what is."""

    def __init__(self, run: Published, method: ReviewMethod, listed: ReviewItems, folder: Path, log: BinaryIO) -> None:
        self.run, self.method, self.things, self.folder = run, method, listed.things, folder
        self.predicted, self.unscored = fitted(method, listed), listed.unscored
        self.plan = plan_of(method, self.predicted)
        self.answers: dict[int, ReadAnswer] = {}
        self.verdicts = np.full(method.size, NOT_READ, np.int64)
        self.places = {(one.doc_id, one.start, one.end): number for number, one in enumerate(self.things)}
        self._log = log
        self.repeats: dict[int, ReadAnswer] = {}
        self._last_repeat: int | None = None
        self._put_off = set[int]()
        self._documents: dict[str, tuple[str, str]] | None = None
        self._table: tuple[str, pa.Table] | None = None
        for answer in _logged(folder / ANSWER_LOG):
            self._take(answer)
        self.standing = standing(self.plan, self.verdicts)

    def _take(self, answer: ReadAnswer) -> None:
        if answer.place not in self.places:
            raise ReviewError(
                f"{self.folder / ANSWER_LOG}: {answer.place} is nothing that this run has; restore the file"
            )
        number = self.places[answer.place]
        self.repeats.pop(number, None)
        if answer.again:
            self._last_repeat = None if answer.verdict is ReadVerdict.UNREAD else number
            if self._last_repeat is not None:
                self.repeats[number] = answer
            return
        self._last_repeat = None
        self.answers.pop(number, None)
        if answer.verdict is not ReadVerdict.UNREAD:
            self.answers[number] = answer
        self.verdicts[number] = NUMBERS[answer.verdict]

    def add(self, answer: ReadAnswer) -> None:
        """Writes an answer to the disk, and takes it into account. Raises `OutputError`."""
        with writing(self.folder / ANSWER_LOG):
            self._log.write(answer.model_dump_json().encode() + b"\n")
            self._log.flush()
            os.fsync(self._log.fileno())
        number = self.places[answer.place]
        before = self.verdicts[number]
        self._take(answer)
        if answer.again:
            return
        if answer.verdict is ReadVerdict.SKIPPED:
            self._put_off.add(number)
        levels = self.standing.levels if before == NOT_READ else 0
        self.standing = standing(self.plan, self.verdicts, levels)

    def undo(self) -> int | None:
        """Takes the last answer back; the number of its thing, or None where there is none."""
        if not self.answers:
            return None
        number, last = list(self.answers.items())[-1]
        if self._last_repeat is not None:
            number, last = self._last_repeat, self.repeats[self._last_repeat]
        self.add(last.model_copy(update={"verdict": ReadVerdict.UNREAD, "right_type": None, "no_entity": False}))
        return number

    @property
    def promised(self) -> int:
        """How many things the promise is about."""
        level = promised_level(self.plan, self.verdicts, self.standing.levels)
        if not level:
            return 0
        return self.method.size if self.method.request.whole is not None else int(self.plan.sizes[level - 1])

    @property
    def types(self) -> list[str]:
        """Types of the entities, sorted."""
        return sorted({one.type for one in self.things if one.type is not None})

    @property
    def place(self) -> int | None:
        """What is asked next: what the next step needs; where none is possible, what was skipped another day."""
        if self.standing.place is not None:
            return self.standing.place if self.repeat is None else self.repeat
        return next((number for number in self._skipped if number not in self._put_off), None)

    @property
    def repeat(self) -> int | None:
        """What is asked again next, as a check of the reader; None where no repeated question is due.

        One in `REPEAT_EVERY`, never two in a row; every second one was said to be wrong, as an error that is passed
        costs more than one that is seen where there is none.
        """
        if self._last_repeat is not None or len(self.answers) // REPEAT_EVERY <= len(self.repeats):
            return None
        early = list(self.answers.items())[:-REPEAT_GAP]
        judged = [(n, one) for n, one in early if n not in self.repeats and one.verdict is not ReadVerdict.SKIPPED]
        wrong = [pair for pair in judged if pair[1].verdict is ReadVerdict.WRONG]
        some = wrong if wrong and len(self.repeats) % 2 else judged
        rng = np.random.default_rng([self.method.request.seed, len(self.repeats)])
        return some[int(rng.integers(len(some)))][0] if some else None

    @property
    def _skipped(self) -> list[int]:
        return [number for number, answer in self.answers.items() if answer.verdict is ReadVerdict.SKIPPED]

    def waiting(self, count: int) -> list[int]:
        """The next things to be read, in that order, if as many are wrong as is predicted; skipped ones come last."""
        return [*ahead(self.plan, self.verdicts, self.predicted, count), *self._skipped][:count]

    def row(self, doc_id: str) -> Mapping[str, Any]:
        """The row of predictions of a document. Raises `PublishedError`."""
        if self._documents is None:
            self._documents = {}
            for path, digest in self.run.files_in(PREDICTIONS):
                ids = self.run.table(path, digest, PREDICTIONS_LAYOUT).column(DOC_ID).to_pylist()
                self._documents |= dict.fromkeys(ids, (path, digest))
        path, digest = self._documents[doc_id]
        if self._table is None or self._table[0] != path:
            self._table = path, self.run.table(path, digest, PREDICTIONS_LAYOUT)
        row = row_of(self._table[1], doc_id)
        assert row is not None
        return row

    def question(self, number: int) -> ReviewQuestion:
        """What a reader is shown of a thing. Raises `PublishedError`."""
        thing = self.things[number]
        return question_of(self.row(thing.doc_id), thing, self.method.request.by, float(self.predicted[number]))

    @property
    def line(self) -> str:
        """What can be promised by now, and how many more answers the next step needs."""
        request, now, read = self.method.request, self.standing, len(self.answers)
        error, size = f"{100 * request.error:g} %", self.method.size
        promised = self.promised
        share = f"{promised:,} of {size:,} ({promised / size:.1%})" if promised else "nothing yet"
        alike = ReaderConsistency.of(self.answers.values(), self.repeats.values())
        doubt = f"; {alike.line}" if alike.is_doubtful else ""
        begun = f"{read:,} read{doubt}; promised at {error}: {share}"
        if now.more is not None:
            return f"{begun}; at least {now.more:,} more for the next step"
        if now.levels == len(self.plan.sizes):
            return f"{begun}; that is everything"
        skipped = " or skipped" if self._skipped else ""
        return f"{begun}; no more can be promised, too many of the next set are wrong{skipped}"

    def promise(self) -> ReviewPromise:
        """What is promised by now."""
        wrong = sum(answer.verdict is not ReadVerdict.RIGHT for answer in self.answers.values())
        promised = self.promised
        return ReviewPromise(
            method=self.method,
            answers=tuple(self.answers.values()),
            promised=promised,
            read=len(self.answers),
            wrong=wrong,
            listed=PROMISED if promised else None,
            repeats=tuple(self.repeats.values()),
            folder=str(self.folder),
        )

    def write(self) -> ReviewPromise:
        """Writes the promise, what is promised, and the corrections. Raises `OutputError`."""
        promise = self.promise()
        write_whole(self.folder / PROMISE, promise.model_dump_json(indent=1).encode() + b"\n")
        if promise.promised:
            write_whole(self.folder / PROMISED, _promised_table(self, promise.promised))
        else:
            (self.folder / PROMISED).unlink(missing_ok=True)
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in corrections(promise)]
        write_whole(self.folder / CORRECTIONS, "".join(lines).encode())
        return promise


def reader_name() -> str:
    """Name of the user; an empty text where the machine does not know it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _promised_table(review: Review, promised: int) -> bytes:
    chosen = np.flatnonzero(review.plan.rank < promised).tolist()
    some = [review.things[number] for number in chosen]
    columns: dict[str, Any] = {name: [getattr(one, name) for one in some] for name in ReviewItem._fields}
    kinds = (pa.string(), pa.int32(), pa.int32(), pa.string())
    schema = pa.schema(list(zip(ReviewItem._fields, kinds, strict=True)))
    return table_bytes(pa.table(columns, schema=schema))


def corrections(promise: ReviewPromise) -> list[dict[str, Any]]:
    """Spans (tokens, end exclusive) with the type that they have in truth, null for none.

    What was only called wrong, or has other bounds, is not among them: it says nothing that could be kept.
    """
    return [
        {
            "doc_id": answer.doc_id,
            "start": answer.start,
            "end": answer.end,
            "type": answer.right_type,
            "by": answer.by,
            "reason": answer.reason,
        }
        for answer in promise.answers
        if answer.type is not None and (answer.right_type is not None or answer.no_entity)
    ]


def fitted(method: ReviewMethod, listed: ReviewItems) -> Floats:
    """Predicted errors, by the method's fit where it has one."""
    return listed.predicted if method.fit is None else LogisticFit(*method.fit).error(listed.predicted)


def plan_of(method: ReviewMethod, predicted: Floats) -> ReviewPlan:
    """The plan, which follows from the method and the things of the run alone."""
    request = method.request
    limits = PromiseLimits(request.error, request.alpha)
    rng = np.random.default_rng([request.seed, int(method.things[:15], 16)])
    if request.whole is not None:
        return whole_plan(predicted, limits, request.whole, rng)
    if method.order == NO_ORDER:
        return whole_plan(predicted, limits, 0.0, rng)
    return nested_plan(predicted, limits, rng, most=UNFITTED_SHARE if method.fit is None else FITTED_SHARE)


def check_review_place(out: Path, inputs: Iterable[str | Path | None]) -> Path:
    """The folder of a review. Raises `OutputError` where it is another kind's, or would destroy what is read."""
    folder = out.expanduser()
    check_output_place(folder, inputs, makes=None)
    return folder


@contextmanager
def open_review(
    run: str, out: Path, options: Mapping[str, Any], *, labelled: LabelledRun | None = None
) -> Iterator[Review]:
    """Opens the review of a run in the folder ``out``, or begins it there.

    - ``options``: fields of `ReviewRequest` that were asked for; a review that goes on has the others
    - ``labelled``: what predicted errors are fitted to, when it begins

    Raises `ReviewError`, `NoConfidenceError`, and the errors of reading and writing.
    """
    folder = check_review_place(out, [run, *(labelled or ())])
    done = published(run)
    make_folder(folder)
    with writing(folder / ANSWER_LOG):
        log = (folder / ANSWER_LOG).open("ab")
    with log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ReviewError(f"{folder}: somebody else is reading there; wait, or give another --out") from None
        try:
            method, listed = _method(done, folder, options, labelled)
        except (InputError, UsageError):
            _leave(folder)
            raise
        yield Review(done, method, listed, folder, log)


def _leave(folder: Path) -> None:
    """Takes away what a review that cannot begin has made."""
    if not (folder / METHOD).exists():
        (folder / ANSWER_LOG).unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def _method(
    run: Published, folder: Path, options: Mapping[str, Any], labelled: LabelledRun | None
) -> tuple[ReviewMethod, ReviewItems]:
    there = read_method(folder)
    request = _request(options) if there is None else there.request
    listed = items_of(run.tables(PREDICTIONS, PREDICTIONS_LAYOUT), request.by, run=run.uri)
    if there is not None:
        _check_same(there, run, listed, folder, options, labelled)
        return there, listed
    if not listed.things:
        raise ReviewError(f"{run.uri}: has no {things(request.by)} to read")
    if request.whole is not None and listed.order == NO_ORDER:
        raise UsageError(
            f"--whole reads the least sure first, and nothing says how sure its {things(request.by)} are; leave it out"
        )
    fit = None if labelled is None else fit_to(labelled, request, listed.order)
    method = ReviewMethod(
        request=request,
        order=listed.order,
        fit=None if fit is None else tuple(fit),
        **digests(run),
        things=listed.digest,
        size=len(listed.things),
        night=read_record(run.storage).last,
    )
    write_whole(folder / METHOD, method.model_dump_json(indent=1).encode() + b"\n")
    return method, listed


def _request(options: Mapping[str, Any]) -> ReviewRequest:
    try:
        return ReviewRequest.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--{first['loc'][0]}: {first['msg'].lower()}") from None


def digests(run: Published) -> dict[str, str]:
    """Digests of a run, its model and its corpus."""
    return {"run": run_digest(run), "model": run.manifest.run.model, "corpus": run.manifest.dataset}


def read_method(folder: Path) -> ReviewMethod | None:
    """The method of the review in a folder; None where there is none. Raises `ReviewError`."""
    path = folder / METHOD
    if not path.is_file():
        return None
    try:
        return ReviewMethod.model_validate_json(file_bytes(path))
    except ValidationError:
        raise ReviewError(f"{path}: is damaged, or of another version of concord; give another --out") from None


def _check_same(
    there: ReviewMethod,
    run: Published,
    listed: ReviewItems,
    folder: Path,
    options: Mapping[str, Any],
    labelled: LabelledRun | None,
) -> None:
    fault = other_run(there, run, listed)
    if fault is not None:
        raise ReviewError(f"{folder}: is a review of another run ({fault}); give another --out")
    if labelled is not None:
        raise ReviewError(f"{folder}: this review has begun, and its order is settled; leave --fit-run out")
    for name, value in options.items():
        if getattr(there.request, name) != value:
            raise ReviewError(
                f"{folder}: this review has begun with --{name} {getattr(there.request, name)}; leave it out, or give "
                "another --out"
            )


def other_run(method: ReviewMethod, run: Published, listed: ReviewItems) -> str | None:
    """Why a review is not one of a run; None if it is."""
    now = digests(run)
    for name, phrase in (("model", "the model"), ("corpus", "the corpus"), ("run", "the run")):
        if now[name] != getattr(method, name):
            return f"{phrase} is another one"
    return None if listed.digest == method.things and listed.order == method.order else "its answers are other ones"


def _logged(path: Path) -> Iterator[ReadAnswer]:
    """The answers of a log; a last line that is cut off was never confirmed, and is taken away."""
    data = file_bytes(path)
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        os.truncate(path, len(whole))
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield ReadAnswer.model_validate_json(line)
        except ValidationError:
            raise ReviewError(f"{path}, line {number}: is no answer; restore the file, or delete the line") from None
