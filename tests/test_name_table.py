"""Tables of names find what dicts find."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.workers.storage import name_table
from concord.workers.storage.name_table import FileTable, NameTable, packed
from concord.workers.storage.object_storage import StoredFile

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5) | st.sampled_from(["a", "aa", "é"])
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))


@given(parts=st.lists(st.lists(NAMES, max_size=5), max_size=4), others=st.lists(NAMES, max_size=5))
def test_a_name_is_found_in_its_first_row_and_no_other_name_is(parts: list[list[str]], others: list[str]) -> None:
    names = [name for part in parts for name in part]
    table = NameTable(map(packed, parts))
    assert list(table) == names
    for name in (*names, *others, "longer than all of them", ""):
        assert table.row(name) == (names.index(name) if name in names else None)
        assert (name in table) == (name in names)


@given(files=st.dictionaries(NAMES, st.builds(StoredFile, st.integers(0, 1 << 60), TIMES), max_size=9))
def test_files_are_those_of_a_dict(files: dict[str, StoredFile]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_table, "PACKED_AT_ONCE", 2)
        table = FileTable(iter(files.items()))
    assert dict(table) == files
    assert "longer than all of them" not in table
    with pytest.raises(KeyError, match="longer"):
        table["longer than all of them"]
