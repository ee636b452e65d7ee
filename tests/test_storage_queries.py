"""Questions to a storage: each is asked once and answered in its place, by threads where answers take a while."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from concord.flows.runfolder import storage_queries
from concord.flows.runfolder.storage_queries import ask_all
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import FolderStorage, Storage

FOLDER, OBJECTS = FolderStorage(Path("out")), ObjectStorage("s3://bucket/out")


@pytest.mark.parametrize(("storage", "seconds"), [(FOLDER, 0.0), (FOLDER, 0.003), (OBJECTS, 0.0)])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 30])
def test_answers_come_in_the_order_of_questions(
    storage: Storage, seconds: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_queries, "ASKED_FIRST", 4)
    monkeypatch.setattr(storage_queries, "ASKED_AT_ONCE", 7)
    asked_of: list[int] = []
    askers: set[int] = set()
    monkeypatch.setattr(storage_queries, "time", SimpleNamespace(perf_counter=lambda: seconds * len(asked_of)))

    def ask(number: int) -> int:
        asked_of.append(number)
        askers.add(threading.get_ident())
        return number * number

    assert list(ask_all(storage, ask, iter(range(count)))) == [(number, number**2) for number in range(count)]
    assert sorted(asked_of) == list(range(count))
    aside = bool(askers - {threading.get_ident()})
    assert aside == (count > 0 if storage is OBJECTS else seconds > 0 and count > 4)


@pytest.mark.parametrize("storage", [FOLDER, OBJECTS])
def test_the_error_of_a_question_is_raised(storage: Storage) -> None:
    def ask(number: int) -> int:
        raise OSError(f"{number} cannot be read")

    with pytest.raises(OSError, match="0 cannot be read"):
        list(ask_all(storage, ask, range(3)))
