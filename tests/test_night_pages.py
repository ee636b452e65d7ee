"""What an operator is shown of a run: a line and a page, without secrets and without markup of a corpus's making."""

from __future__ import annotations

from concord.flows.environment import page_of_run
from concord.flows.screen.pages import cell, page_of
from concord.schemas.run_report import ChangedDocument, Drift, Movement
from tests.support.made_reports import run_report

MOVED = Movement(figure="unknown words", of="texts", before=0.02, after=0.31, p_value=0.0005, breach=True)


def test_a_night_with_nothing_to_do_does_not_look_like_a_full_one() -> None:
    nothing = page_of(run_report(documents=3267, shards_skipped=40))
    full = page_of(run_report(documents=3267, labelled=3267, shards_done=40, certified=0.998))
    assert nothing is not None
    assert full is not None
    assert nothing.headline == "nothing new: 0 of 3,267 documents"
    assert full.headline == "labelled 3,267 of 3,267 documents; 99.8% certified"
    assert (nothing.tags, full.tags) == (("nothing new",), ("labelled",))
    assert "| skipped | labelled before, nothing has changed | 3,267 |" in nothing.markdown
    assert "| done | labelled now | 3,267 |" in full.markdown


def test_a_page_says_what_was_new_rejected_failed_and_changed() -> None:
    most = (ChangedDocument(doc_id="a|b", spans=7),)
    drift = Drift(against=3, new=30, gone=2, changed=4, movements=(MOVED,), most_changed=most)
    given = {"documents": 100, "labelled": 34, "shards_done": 3, "certified": 0.5, "rejected": 2, "drift": drift}
    page = page_of(run_report(**given, mlflow_page="http://host:5000/#/runs/run"))
    assert page is not None
    assert page.headline == (
        "labelled 34 of 100 documents; 30 new, 4 with another answer; 50.0% certified; 2 rejected; "
        "DRIFT: unknown words (texts) 0.02 → 0.31"
    )
    assert page.tags == ("labelled", "rejects", "drift")
    for row in (
        "| new | in id or text, since the last night | 30 |",
        "| gone | since the last night | 2 |",
        "| changed | have another answer than the last night | 4 |",
        "| rejected | cannot be read or labelled; see \\_rejects | 2 |",
        "| certified | nothing scores higher, by proof | 50.00% |",
        "| unknown words | texts | 0.02 | 0.31 | 0.0005 | beyond |",
        "| a\\|b | 7 |",
        "[MLflow run run](http://host:5000/#/runs/run)",
    ):
        assert row in page.markdown, page.markdown


def test_failed_shards_are_named_and_hold_no_secret() -> None:
    error = "s3://KEY:S3CRET@bucket/a.parquet, row group 3: damaged <b>"
    page = page_of(run_report(shards_failed=1, shards_done=2, labelled=4, errors=(error,), out="/data/S3?token=S3CRET"))
    assert page is not None
    assert page.headline == "1 of 3 shards failed; 4 documents labelled, nothing published"
    assert page.tags == ("failed shards",)
    assert "S3CRET" not in "".join(map(str, page))
    assert "row group 3: damaged \\<b\\>" in page.markdown


def test_texts_of_a_corpus_are_no_markup() -> None:
    assert cell("a*b_[c](d)\n\x1b[31m|") == "a\\*b\\_\\[c\\](d) ␛\\[31m\\|"


def test_the_page_of_a_run_has_no_password_and_is_that_of_a_server() -> None:
    assert page_of_run("http://ada:S3CRET@host:5000/", "r1") == "http://host:5000/#/runs/r1"
    assert page_of_run("sqlite:////data/mlflow.db", "r1") is None


def test_a_headline_is_of_one_line_whatever_it_says() -> None:
    assert "\n" not in run_report(documents=1, labelled=1, shards_done=1).headline
    assert page_of("no report") is None
