"""What an operator is shown of a run: a line and a page, without secrets and without markup of a corpus's making."""

from __future__ import annotations

from concord.flows.environment import page_of_run
from concord.flows.screen.pages import cell, page_of
from concord.schemas.blocks import per_cent
from concord.schemas.drift import ChangedDocument, Drift, FigureUnit, Movement, NightBefore
from concord.schemas.run import Reuse
from concord.schemas.run_report import RejectedRow
from tests.support.made_reports import run_report

MOVED = Movement(
    figure="unknown words",
    of="texts",
    before=0.02,
    after=0.31,
    unit="share",
    p_value=0.0005,
    breach=True,
    file="a.parquet",
    in_file=30,
    most=("a", "b"),
)
BEFORE = NightBefore(night=3, time="2026-11-27T13:36:59+00:00", otherwise={"model_version": ("1", "2")})


def test_a_night_with_nothing_to_do_does_not_look_like_a_full_one() -> None:
    nothing = page_of(run_report(documents=3267, shards_skipped=40))
    full = page_of(run_report(documents=3267, labelled=3267, shards_done=40, certified=0.998))
    assert nothing is not None
    assert full is not None
    assert nothing.headline == "nothing new: 0 of 3,267 documents"
    assert full.headline == "labelled 3,267 of 3,267 documents; 99.8% certified"
    assert (nothing.tags, full.tags) == (("nothing new",), ("labelled",))
    assert "| skipped | labelled before, nothing has changed | 3,267 |" in nothing.markdown
    assert "| labelled | by this run, without an answer to keep | 3,267 |" in full.markdown


def test_a_page_says_what_was_new_rejected_failed_and_changed() -> None:
    most = (ChangedDocument(doc_id="a|b", spans=7),)
    drift = Drift(against=3, last=68, new=30, gone=2, missing=2, changed=4, movements=(MOVED,), most_changed=most)
    given = {
        "documents": 100,
        "labelled": 34,
        "shards_done": 3,
        "certified": 0.5,
        "rejected": 2,
        "drift": drift,
    }
    page = page_of(run_report(**given, before=BEFORE, mlflow_page="http://host:5000/#/runs/run"))
    assert page is not None
    assert page.headline == (
        "labelled 34 of 100 documents, kept 66 answers; 2 of the last 68 documents are gone; 30 new, "
        "4 with another answer; 50.0% certified; 2 rejected; "
        "DRIFT: unknown words (texts) 2 % → 31 %"
    )
    assert page.tags == ("labelled", "rejects", "gone", "drift")
    for row in (
        "| new | compared with night 3 (2026-11-27 13:36 UTC) | 30 |",
        "| gone | compared with night 3 (2026-11-27 13:36 UTC) | 2 |",
        "| with another answer | compared with night 3 (2026-11-27 13:36 UTC) | 4 |",
        "asked for otherwise than in night 3 (2026-11-27 13:36 UTC): model\\_version 1 → 2",
        "| rejected | cannot be read or labelled; see \\_rejects | 2 |",
        "| certified | nothing scores higher, by proof | 50.00% |",
        "unknown words: 16 times more frequent in the new texts (2 % → 31 %), most of all in a.parquet (30 documents)",
        "| unknown words | texts | 2 % → 31 % | 0.0005 | a, b |",
        "| a\\|b | 7 |",
        "[MLflow run run](http://host:5000/#/runs/run)",
    ):
        assert row in page.markdown, page.markdown


def test_a_night_says_what_readers_have() -> None:
    nothing = run_report(documents=9, shards_skipped=2, before=BEFORE)
    assert nothing.headline == "nothing new: 0 of 9 documents"
    page = page_of(nothing)
    assert page is not None
    assert "the same documents and answers as night 3 (2026-11-27 13:36 UTC)" in page.markdown
    failed = run_report(documents=9, shards_failed=2, before=BEFORE)
    assert failed.headline.endswith("nothing published; readers still have night 3 (2026-11-27 13:36 UTC)")
    cancelled = run_report(documents=9, labelled=4, cancelled=True, before=BEFORE)
    assert cancelled.headline.endswith("does the rest; readers still have night 3 (2026-11-27 13:36 UTC)")
    assert (nothing.title, failed.title, cancelled.title) == ("nothing new", "failed shards", "cancelled")


def test_a_changed_text_is_one_change_and_kept_answers_are_not_labelled_anew() -> None:
    drift = Drift(against=3, new=0, gone=0, texts=3, changed=1)
    reuse = Reuse(kept=39, stood=1)
    report = run_report(documents=43, labelled=43, shards_done=1, reuse=reuse, drift=drift, before=BEFORE)
    assert report.headline == (
        "labelled 3 of 43 documents, kept 40 answers; 3 with another text, 1 with another answer; 0.0% certified"
    )
    assert report.title == "3 with another text, 1 with another answer"


def test_all_are_certified_only_where_none_is_missing() -> None:
    shares = (1.0, 3266 / 3267, 0.9985, 0.5, 0.0)
    assert [per_cent(share) for share in shares] == ["100.0%", "99.9%", "99.9%", "50.0%", "0.0%"]
    assert per_cent(0.99999, 2) == "99.99%"


def test_rejects_are_named_with_their_rows() -> None:
    reject = RejectedRow(place="a.parquet, row 4", doc_id="x|y", reason="no tokens")
    page = page_of(run_report(documents=9, rejected=2, rejects=(reject,)))
    assert page is not None
    assert "| a.parquet, row 4 | x\\|y | no tokens |" in page.markdown


def test_a_figure_says_in_words_how_it_moved() -> None:
    def sentence(before: float, after: float, unit: FigureUnit | None) -> str:
        return MOVED.model_copy(update={"before": before, "after": after, "unit": unit, "file": None}).sentence

    assert sentence(0.7, 0.01, "share").startswith("unknown words: 70 times rarer in the new texts (70 % → 1 %)")
    assert sentence(10, 12, "words").startswith("unknown words: 20% higher in")
    assert sentence(10, 2.5, "nats").startswith("unknown words: 4 times lower in the new texts (10 → 2.5 nats)")
    assert sentence(-10, -12, "nats").startswith("unknown words: lower in")
    assert sentence(0, 12, "per 1,000 words").startswith("unknown words: none before, some now in")


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
