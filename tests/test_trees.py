"""Trees of words that others have learned: both forms, their prefixes, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.workers.features.clustering.trees import TreeError, WordPath, prefix_clusters, read_tree
from concord.workers.features.settings import TreeSettings

SHORT = TreeSettings(prefixes=(1, 3))
TEXT = "0\tthe\t90\n100\tRome\t5\n1010\tOslo\t7\n101\tKyiv\t5\n"
TABLE = {"the": 0b10, ",": 0, "Oslo": 0b0101, "Rome": 0b001}


@given(paths=st.lists(st.text("01", min_size=1, max_size=6), min_size=2, max_size=8), length=st.integers(1, 8))
def test_words_are_together_whose_paths_begin_with_the_same_bits(paths: list[str], length: int) -> None:
    own = [WordPath(str(number), bits) for number, bits in enumerate(paths)]
    codes = prefix_clusters(own, (length,)).codes[:, 0].tolist()
    for one, code in zip(paths, codes, strict=True):
        for other, other_code in zip(paths, codes, strict=True):
            assert (code == other_code) == (one[:length] == other[:length])


def test_brown_clusters_in_text_are_read_by_count(tmp_path: Path) -> None:
    plain, packed = tmp_path / "paths", tmp_path / "paths.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    table = read_tree(plain, SHORT)
    assert table.words.to_pylist() == ["the", "Oslo", "Rome", "Kyiv"]
    assert table.names == ("brown-1", "brown-3")
    assert table.codes.tolist() == [[0b10, 0b10], [0b11, 0b1101], [0b11, 0b1100], [0b11, 0b1101]]
    assert read_tree(packed, SHORT).codes.tolist() == table.codes.tolist()
    assert read_tree(plain, TreeSettings(words=2)).words.to_pylist() == ["the", "Oslo"]


def test_a_table_of_spacy_has_the_lowest_bit_first_and_no_cluster_0(tmp_path: Path) -> None:
    file = tmp_path / "en_lexeme_cluster.json.gz"
    file.write_bytes(gzip.compress(json.dumps(TABLE).encode()))
    table = read_tree(file, SHORT)
    assert table.words.to_pylist() == ["the", "Oslo", "Rome"]
    assert table.codes.tolist() == [[0b10, 0b101], [0b11, 0b1101], [0b11, 0b11]]
    (tmp_path / "plain.json").write_text(json.dumps(TABLE))
    assert read_tree(tmp_path / "plain.json", SHORT).codes.tolist() == table.codes.tolist()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("0\tthe\t9\n012\tRome\t5\n", r"line 2: '012\\tRome\\t5' is not a path of 0 and 1"),
        ("the 0.1 0.2\n", "line 1: .* for word vectors there is `concord clusters import`"),
        ("0\tthe\n", "line 1: .* is not a path"),
        ("0\tthe\t9\n\n", "line 2: '' is not a path"),
        ("\tthe\t9\n", "line 1: .* is not a path"),
        ("0\tthe\t-9\n", "line 1: .* is not a path"),
        ("0\tthe\t9\n1\tthe\t5\n", "line 2: the word 'the' is there twice"),
        ("", "there are no words with a path"),
    ],
)
def test_bad_text_names_the_line(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "paths").write_text(text)
    with pytest.raises(TreeError, match=fault):
        read_tree(tmp_path / "paths", SHORT)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"the": 3', "not JSON .* was the file cut"),
        ('["the"]', "not an object of words and numbers"),
        ('{"the": 3, "Rome": -1}', "'Rome': -1 is no number of a cluster"),
        ('{"the": 3.5}', "'the': 3.5 is no number of a cluster"),
        ('{"the": true}', "'the': True is no number of a cluster"),
        ('{"the": 0}', "there are no words with a path"),
    ],
)
def test_a_bad_table_names_the_word(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(TreeError, match=fault):
        read_tree(tmp_path / "table.json", SHORT)


def test_files_that_are_cut_or_not_there_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match=r"paths: there is no such file"):
        read_tree(tmp_path / "paths", SHORT)
    whole = gzip.compress(TEXT.encode())
    for data in (whole[:-9], whole[:20] + b"\xff\xff" + whole[22:], TEXT.encode()):
        (tmp_path / "paths.gz").write_bytes(data)
        with pytest.raises(TreeError, match=r"paths\.gz: cannot be unpacked .* was the file cut"):
            read_tree(tmp_path / "paths.gz", SHORT)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "paths").write_bytes(b"0\t\xff\t3\n")
    with pytest.raises(TreeError, match=r"line 1: .* is not a path"):
        read_tree(tmp_path / "paths", SHORT)
