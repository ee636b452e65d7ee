"""What stands in the tables of the log and of the docs: a function for each, from results to the rows below the head.

Results are those of `benchmarks/results` by name. `figures.py` writes the rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from typing import Any

Results = Mapping[str, Any]
Rows = Iterator[Sequence[str]]


TABLES: dict[str, Callable[[Results], Rows]] = {}
"""By the name that stands in a page's mark."""


def table(function: Callable[[Results], Rows]) -> Callable[[Results], Rows]:
    """Registers a function as the table of its name, with hyphens."""
    TABLES[function.__name__.replace("_", "-")] = function
    return function


def plain(value: float, digits: int = 2, sign: str = "") -> str:
    """A number, halves rounded up; no sign where it rounds to nothing."""
    rounded = float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)) + 0.0
    return f"{rounded:{sign if rounded else ''}.{digits}f}".replace("-", "−")


def percent(value: float, digits: int = 2) -> str:
    """A share in per cent."""
    return plain(100.0 * value, digits)


def points(value: float, digits: int = 2) -> str:
    """A difference of shares in points, signed."""
    return plain(100.0 * value, digits, "+")


def ends(low: float, high: float, digits: int = 2) -> str:
    """The interval of a difference of shares."""
    return f"{points(low, digits)} to {points(high, digits)}"


def gain(difference: float, low: float, high: float) -> str:
    """A difference of shares, with its interval."""
    return f"{points(difference)} ({ends(low, high)})"


def share(value: float, low: float, high: float) -> str:
    """A share in per cent, with its interval."""
    return f"{percent(value)} ({percent(low)} to {percent(high)})"


def count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def against(value: float, published: float) -> str:
    """A figure in per cent, and what a paper has."""
    return f"{plain(value, 1)} ({plain(published, 1)})"


def bold(told: Sequence[str]) -> Sequence[str]:
    """The cells, those bold that begin with the largest number."""
    numbers = [float(found[0]) if (found := re.match(r"[\d.]+", text)) else -1.0 for text in told]
    largest = max(numbers)
    pairs = zip(told, numbers, strict=True)
    return [re.sub(r"^[\d.]+", r"**\g<0>**", text) if number == largest else text for text, number in pairs]


def across(title: str, told: Callable[[Any], str], values: Iterable[Any]) -> list[str]:
    """A row: its title, and values told in one way."""
    return [title, *map(told, values)]


def fields(titles: Mapping[str, str], told: Callable[[Any], str], parts: Sequence[Mapping[str, Any]]) -> Rows:
    """A row for each title: the field of that name of each part."""
    for title, name in titles.items():
        yield across(title, told, [part[name] for part in parts])


def row(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> Mapping[str, Any]:
    """The only row that has these values. Raises `ValueError` for none and for several."""
    found = [one for one in rows if all(one.get(name) == value for name, value in wanted.items())]
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows have {wanted}")
    return found[0]


@table
def expected(results: Results) -> Rows:
    """What a user can expect: a question, the figure, and the page that says more."""
    proofs, novels, false = (results[name] for name in ("certify", "eltec", "false_bounds"))
    proven = f"{proofs['tuned_certified']:,.0f} of {proofs['tuned_documents']:,.0f} documents of news"
    chapters = (
        f"{novels['certified_share'] * novels['documents_out']:,.0f} of {novels['documents_in']:,} chapters of novels"
    )
    yield "How many answers are proven?", f"{proven}; {chapters}", "[proofs](speed.md#a-proof-for-every-document)"
    microseconds = 1e6 * proofs["tuned_cpu_seconds"] / proofs["tuned_tokens"]
    cost = f"{microseconds:.0f} CPU microseconds a token of news beyond scoring"
    yield "What does a proof cost?", cost, "[by length](speed.md#a-proof-for-every-document)"
    accepted = f"{len(false['accepted'])} of {false['false_bounds']:,} false bounds were accepted by the checker"
    yield "Can a certificate lie?", accepted, "[certificates](engines.md#certificates)"
    speed, ratio = results["scoring"], "times python-crfsuite with the same features"
    scorer = f"{speed['scorer_over_crfsuite']:.0f} {ratio}, {count(speed['scorer_tokens_per_second'])} tokens a second"
    yield "How fast are scores?", scorer, "[scoring](speed.md#scoring-and-viterbi)"
    whole = f"{count(novels['tokens_per_second'])} tokens of novels a second on two cores, raw text to proven labels"
    yield "How fast is a run?", whole, "[long documents](speed.md#long-documents-of-raw-text)"
    found = [_sweep(results, "words", corpus="news", model="words", engine=engine) for engine in ("viterbi", "certify")]
    alone, agreed = (percent(own["value"]) for own in found)
    names = f"F1 of names in later news {alone} by the model, {agreed} with it"
    yield "What does agreement within a document gain?", names, "[agreement](quality.md#agreement)"
    own = results["taggers"]["taggers"]["spacy"]["F1"]
    tagger = f"spaCy's small model on news {percent(own['alone'])}, {percent(own['ours'])} with 300 documents of gold"
    yield "And beside my own tagger?", tagger, "[your own tagger](quality.md#your-own-tagger)"
    rows = results["nights"]["rows"]
    changed, equal = row(rows, night="1 % of rows changed"), all(one["equal_bytes"] for one in rows)
    seconds = [plain(changed[run]["cpu_seconds"], 0) for run in ("this", "whole")]
    bytes_ = "the same bytes" if equal else "**not** the same bytes"
    night = f"{seconds[0]} CPU seconds in place of {seconds[1]} where 1 % of the rows changed; {bytes_}"
    yield "What does the next night cost?", night, "[nights](rerun.md#what-is-done-again)"
    tried = [one for one in results["faults"].values() if "tried" in one]
    held = (
        f"{sum(one['held'] for one in tried)} of {sum(one['tried'] for one in tried)} kills and full disks did no harm"
    )
    yield "And if something fails?", held, "[reliability](reliability.md)"


@table
def certify(results: Results) -> Rows:
    """Proofs on testa under tuned and under counted costs."""
    own, runs = results["certify"], ("tuned", "scale_1")

    def line(title: str, name: str, told: Callable[[Any], str] = count) -> list[str]:
        return across(title, told, [own[f"{run}_{name}"] for run in runs])

    yield line("documents", "documents")
    yield line("certified", "certified")
    yield line("largest gap, nats", "largest_gap_nats", "{:.1e}".format)
    yield line("CPU seconds beyond scoring, all documents", "cpu_seconds", plain)
    yield line("Java reference's Gibbs (110 s CPU) over certify", "cpu_seconds", lambda value: f"{110 / value:.0f} ×")
    yield line("documents on which Gibbs (100 sweeps) had the optimum", "gibbs_had_the_optimum")
    yield line("documents on which certify is worse than Gibbs", "worse_than_gibbs")
    for engine in ("viterbi", "gibbs", "certify"):
        yield line(f"entity F1 of {engine}", f"f1_{engine}", lambda value: f"{percent(value)}%")


@table
def certify_length(results: Results) -> Rows:
    """Cost of proofs by length of the document."""
    own = results["certify"]
    for tuned, counted in zip(own["tuned_by_length"], own["scale_1_by_length"], strict=True):
        costs = [count(one["microseconds_a_token"]) for one in (tuned, counted)]
        yield [tuned["tokens"], count(tuned["documents"]), *costs]


@table
def together(results: Results) -> Rows:
    """Certify where rules and agreement meet, before and after."""
    for own in results["together"]["sets"]:
        before, after = own["before"], own["after"]
        seconds = [f"{side['CPU seconds']:.2f}" for side in (before, after)]
        words = [percent(side["by solver"], 1) for side in (before, after)]
        answers = [count(own["better answers"]), count(own["worse answers"])]
        yield own["name"], count(own["documents"]), count(own["rows"]), *seconds, *words, *answers


@table
def certificates(results: Results) -> Rows:
    """Certificates written, checked, damaged."""
    parts = [results["certificates"][name] for name in ("Cora dev", "testa", "novels-sample")]
    before = [own["statuses_before"].get("optimal-by-solver", 0) for own in parts]
    seconds, damage = ([own[name] for own in parts] for name in ("seconds", "damage"))
    costs = {"CPU seconds of certify": "certify", "of writing": "write", "of checking": "check"}
    met = {"refused": "refused", "still proofs of their bound": "still_proofs", "accepted for a false bound": "false"}
    yield across("documents verified", lambda own: f"{own['verified']} of {own['documents']}", parts)
    yield across("on CP-SAT's word before", count, before)
    yield from fields({"on a solver's word after": "certified_unverified"}, count, parts)
    yield from fields(costs, lambda value: plain(value, 1), seconds)
    yield from fields({"numbers in all certificates": "numbers"}, count, parts)
    yield from fields({f"damaged: {title}": name for title, name in met.items()}, count, damage)


@table
def scoring(results: Results) -> Rows:
    """Speed from Parquet to labels."""
    own = results["scoring"]
    yield "tables and Viterbi", count(own["scorer_tokens_per_second"])
    yield "python-crfsuite", count(own["crfsuite_tokens_per_second"])
    yield "ratio", f"{own['scorer_over_crfsuite']:.1f} ×"


@table
def imported_refused(results: Results) -> Rows:
    """Strings that packages refuse to tag."""
    for package, file in (
        ("usaddress", "unparseable.csv"),
        ("usaddress", "labeled"),
        ("probablepeople", "person_labeled"),
        ("probablepeople", "company_labeled"),
    ):
        own = results["imported"][package]["refused"][file]
        refused, right, ways = own["refused"], own["right"], (own["soft"], own["hard"])
        known = right["with gold"]
        yield [
            f"{package}, `{file}`",
            f"{refused} of {own['strings']:,}",
            *(count(way["taken by tag"]) for way in ways),
            *(f"{right[name]} of {known}" if known else "–" for name in ("alone", "soft", "hard")),
            *(count(way["strings a CPU second"]) for way in ways),
        ]


@table
def imported_speed(results: Results) -> Rows:
    """Speed of imported models beside their packages."""
    files = ("unparseable.csv", "labeled", "synthetic_osm_data_xml", "openaddress_us_ia_linn")
    for way in (
        "concord, tables full",
        "concord, tables empty",
        "fastaddress parse",
        "usaddress parse",
        "usaddress tag",
        "usaddress tokenize alone",
    ):
        found = [results["imported"]["speed"][f"{file}: {way}"] for file in files]
        yield across(way, lambda own: f"{own['tokens a second']:,.0f} ({own['strings a second']:,.0f})", found)


@table
def taggers(results: Results) -> Rows:
    """Taggers that people have: alone, with names copied, and through concord."""
    for own in results["taggers"]["taggers"].values():
        if "error" in own:
            yield [own["package"], own["error"], *["–"] * 10]
            continue
        scores, gains = own.get("F1"), own.get("gain")
        judged = [percent(scores[way]) for way in ("alone", "copied", "ours")] if scores else ["–"] * 3
        change = gain(*(gains["ours"][name] for name in ("gain", "low", "high"))) if gains else "–"
        speeds = [count(own["tokens a second"][way]) for way in ("alone", "ours")]
        equal = f"{own['equal']:,} of {own['documents'] - own['illegal']:,}"
        title = [own["package"], f"`{own['road']}`", own["texts"] + (" (learned from)" if own["learned from"] else "")]
        certain = percent(own["certified"], 1)
        yield [*title, equal, *judged, change, certain, *speeds, str(len(own["commands"]))]


@table
def surety_choices(results: Results) -> Rows:
    """What a choice of one type for each name can do."""
    names = ("entities", "own", "sum", "surest", "best")
    for own in results["surety"]["choices"]:
        title = own["part"] if own["part"] == "news" else own["part"].capitalize()
        yield [title, *(count(own["right"][name]) for name in names)]


PRICES: dict[tuple[float, float, float], str] = {
    (0.1, 1.0, 1.0): "prior, λ = 0.1",
    (0.3, 1.0, 1.0): "prior, λ = 0.3",
    (0.0, 0.5, 1.0): "unsure names × ½",
    (0.0, 2.0, 1.0): "unsure names × 2",
    (0.0, 1.0, 0.5): "sure names × ½",
    (0.0, 1.0, 2.0): "sure names × 2",
    (0.0, 2.0, 0.5): "unsure × 2, sure × ½",
}
"""Prices of agreement: of the prior from the surest place, and factors where no place is sure and where one is."""


@table
def surety_prices(results: Results) -> Rows:
    """Agreement priced by how sure a name's places are, on later documents and on testa."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for own in results["surety"]["prices"]:
        price = own.get("price", {})
        title = PRICES.get(tuple(price.get(name) for name in ("prior", "unsure", "sure")), own["what"].capitalize())
        found.setdefault(title, []).append(own)
    parts = ("news, last fifth", "news-dev", "dutch, last fifth", "spanish, last fifth")
    for title, rows in found.items():
        cells = [row(rows, part=part) for part in parts]
        yield title, *(_priced(own) for own in cells)


def _priced(own: Mapping[str, Any]) -> str:
    """F1, the interval of its gain over consistency as it is, and whether the price was chosen."""
    interval = f" ({ends(*own['gain'][1:])})" if any(own.get("gain", ())) else ""
    return percent(own["f1"]) + interval + (", chosen" if own.get("chosen") else "")


@table
def codl(results: Results) -> Rows:
    """Constraint-driven learning from a pool."""
    for own in results["codl"]["rows"]:
        if own["gamma"] == 0.7:
            names = ("alone", "constrained", "semi-supervised", "codl")
            cells = [against(own[name], p) for name, p in zip(names, own["published"], strict=True)]
            gains = [own[f"codl against {name}"][1:] for name in ("constrained", "alone")]
            yield [
                str(own["citations"]),
                *bold(cells),
                *(f"{plain(a, 1, '+')} to {plain(b, 1, '+')}" for a, b in gains),
            ]


@table
def codl_perceptron(results: Results) -> Rows:
    """The same with a perceptron."""
    rows = results["codl_perceptron"]["rows"]
    for size, penalties in ((20, "learned"), (20, "hard"), (300, "learned")):
        own = row(rows, citations=size, penalties=penalties, gamma=0.7)
        cells = [plain(own[name], 1) for name in ("alone", "constrained", "semi-supervised", "codl")]
        low, high = (plain(bound, 1, "+") for bound in own["codl against constrained"][1:])
        yield [str(size), "as counted" if penalties == "learned" else "hard", *bold(cells), f"{low} to {high}"]


@table
def eltec(results: Results) -> Rows:
    """A run over novels."""
    own = results["eltec"]
    gaps = sorted(one["gap"] for one in own["open_documents"])
    yield "chapters in", count(own["documents_in"])
    yield "chapters out, rejected", f"{own['documents_out']:,}, {own['rejected']}"
    yield "tokens", count(own["tokens"])
    yield "certified", count(own["certified_share"] * own["documents_out"])
    yield f"largest gap, nats: {len(gaps)} chapters of Dickens", ", ".join(plain(gap, 1) for gap in gaps)
    yield "wall clock, start to end", f"{own['seconds']:.0f} s"
    yield "tokens a second", count(own["tokens_per_second"])
    yield "peak memory of a worker, resident", f"{own['worker_peak_mib']:,.0f} MiB"
    yield "the same without pages that others share", f"{own['worker_peak_own_mib']:,.0f} MiB"
    yield "memory in the last quarter of the run over the second", plain(own["memory_last_quarter_over_second"])
    yield "share of reading, tokenising, sentence splitting", f"{percent(own['share_of_read'], 1)}%"
    shares = (f"{percent(own[f'share_of_{part}'], 1)}%" for part in ("score", "decode", "write"))
    yield "share of scoring, of decoding, of writing", ", ".join(shares)


@table
def eltec_length(results: Results) -> Rows:
    """Cost of proofs by length of the chapter."""
    for own in results["eltec"]["by_length"]:
        yield own["tokens"], count(own["documents"]), count(own["microseconds_a_token"])


CUTS = ("words", "spacy")
CEILINGS = {
    "seminars, cut at hyphens": "seminars, cut at hyphens",
    "seminars, whole": "seminars, whole words",
    "BC5CDR training, cut at hyphens": "BC5CDR training, cut at hyphens",
    "BC5CDR training, whole": "BC5CDR training, whole words",
    "BC5CDR development, cut at hyphens": "BC5CDR development, cut at hyphens",
    "BC5CDR development, whole": "BC5CDR development, whole words",
    "CoNLL-2003, English": "CoNLL-2003 testa",
    "CoNLL-2000, English chunks": "CoNLL-2000 chunks",
    "CoNLL-2002, Dutch": "CoNLL-2002, Dutch testa",
    "CoNLL-2002, Spanish": "CoNLL-2002, Spanish testa",
    "WNUT-2017": "WNUT-2017 training",
}
"""Titles of corpora by what results call them."""


@table
def ceilings(results: Results) -> Rows:
    """F1 of perfect labels by tokenizer."""
    for name, title in CEILINGS.items():
        yield across(title, percent, [results["tokenizers"]["ceilings"][cut][name] for cut in CUTS])


@table
def cuts(results: Results) -> Rows:
    """Tokens that are the same in two tokenizers, and in them and corpora."""
    own = results["tokenizers"]
    for name, alike in own["alike"].items():
        gold = [percent(own["tokens"][cut][name]) if name in own["tokens"][cut] else "" for cut in CUTS]
        yield [CEILINGS.get(name, name), percent(alike), *gold]


@table
def growth(results: Results) -> Rows:
    """Speed by size of the corpus."""
    names = ("documents", "tokens", "shards", "tokens_per_second", "tokens_per_second_of_the_worker")
    for own in results["growth"]["sizes"]:
        yield [count(own[name]) for name in names]


SCALED = ("resume", "publish", "nothing_new", "again", "answers", "read")
"""Steps of `bench_scale.py`, in the order of the table's columns."""


@table
def scale(results: Results) -> Rows:
    """What a driver does for many shards."""
    yield from _scale(results["scale"])


@table
def scale_no_disk(results: Results) -> Rows:
    """The same without the files of shards."""
    yield from _scale(results["scale_no_disk"])


def _scale(measured: Mapping[str, Any]) -> Rows:
    for own in measured["sizes"]:
        seconds = [plain(own[f"{step}_seconds"]) for step in SCALED]
        sizes = [own["manifest_bytes"] / 1e6, own["markers_bytes"] / 1e6, own["disk_bytes"] / 1e6]
        peak = own["read_peak_mib"]  # the last step; the peak of a process never falls
        yield [count(own["shards"]), *seconds, count(peak), *(plain(size, 1) for size in sizes)]


@table
def ids(results: Results) -> Rows:
    """What planning of very many documents takes."""
    for own in results["ids"]["sizes"]:
        seconds = [plain(own[f"{step}_seconds"], 1) for step in ("first", "keep", "known")]
        peak = max(own["first_mib"], own["keep_mib"], own["known_mib"])
        yield [count(own["documents"]), count(own["shards"]), *seconds, count(peak), count(own["survey_bytes"] / 1e6)]


@table
def planning(results: Results) -> Rows:
    """MB of text that a survey reads a second."""
    for own in results["planning"]["rows"]:
        seconds = [own[f"seconds_{way}"] for way in ("alone", "workers_1", "workers_2")]
        rates = [count(own["text_mb"] / each) for each in seconds]
        known = [plain(own["seconds_known"]), plain(own["record_mb"], 1)]
        yield [own["name"], count(own["text_mb"]), count(own["documents"]), count(own["shards"]), *rates, *known]


@table
def nights(results: Results) -> Rows:
    """What nights after a change took, beside runs from nothing."""
    for own in results["nights"]["rows"]:
        night, whole = own["this"], own["whole"]
        counts = [count(night[name]) for name in ("labelled", "kept", "stood", "confirmed", "decoded")]
        seconds = [plain(run["cpu_seconds"], 1) for run in (whole, night)]
        yield [own["night"], *counts, *seconds, "yes" if own["equal_bytes"] else "**no**"]


@table
def sweeps(results: Results) -> Rows:
    """Seconds of sweeps of 100 and of 1,000 cells."""
    few, many = results["sweeps"]["hundred"], results["sweeps"]["thousand"]
    yield ["100 cells on one worker", plain(few["seconds_workers_1"], 0)]
    yield [f"on two: {plain(few['speed_up'])} times as fast", plain(few["seconds_workers_2"], 0)]
    yield ["the same command again: nothing is done", plain(few["seconds_again"], 1)]
    yield [f"one constraint file edited: {few['made_when_edited']} cells", plain(few["seconds_edited"], 0)]
    yield ["1,000 cells planned", plain(many["seconds_plan"], 1)]
    yield [f"killed when {many['done_when_killed']} were done", plain(many["seconds_until_killed"], 0)]
    yield ["figures of these shown", plain(many["seconds_list"], 1)]
    yield [f"the other {many['made_by_the_rest']} done", plain(many["seconds_rest"], 0)]
    yield ["1,000 cells on one worker, undisturbed", plain(many["seconds_workers_1"], 0)]
    yield [f"on two: {plain(many['speed_up'])} times as fast", plain(many["seconds_workers_2"], 0)]


MINED = {
    "none": "none",
    "holds": "all that hold",
    **{f"helps, level {x}": f"that help, `level={x}`" for x in ("0.05", "0.2", "1")},
}


def _mined(results: Results, corpora: Mapping[str, str], method: str = "counting") -> Rows:
    """Rows about mined rules, of corpora each with the figure that judges it."""
    found = [(results["mining"]["corpora"][f"{name}, by {method}"], figure) for name, figure in corpora.items()]
    ranges = [sorted({part["hold"] for part in own["parts"]}) for own, _ in found]
    told = ["rules that hold"]
    for holds in ranges:
        told += [f"{holds[0]} to {holds[-1]}" if len(holds) > 1 else f"{holds[0]}", ""]
    yield told
    for rules, title in MINED.items():
        cells = [title]
        for own, figure in found:
            one, largest = row(own["rows"], rules=rules), max(each[figure] for each in own["rows"])
            value, low, high = one[figure], one["low"], one["high"]
            shown = f"**{percent(value)}**" if value == largest and (low or high) else percent(value)
            cells += [shown, ends(low, high) if low or high else ""]
        yield cells


@table
def mining(results: Results) -> Rows:
    """What mined rules gain where the level was chosen."""
    return _mined(results, {"Cora": "accuracy", "us50": "accuracy"})


@table
def mining_others(results: Results) -> Rows:
    """What mined rules gain where nothing was chosen."""
    return _mined(results, {"CoNLL-2003": "f1", "seminars": "f1", "UMass": "f1"})


@table
def mining_logic(results: Results) -> Rows:
    """What clauses gain."""
    return _mined(results, {"Cora": "accuracy", "us50": "accuracy", "seminars": "f1"}, "logic")


@table
def logic(results: Results) -> Rows:
    """Clauses that are found."""
    parts = [results["logic"]["corpora"][name] for name in ("Cora dev", "us50 dev")]
    yield across("documents learned from, held out", lambda own: f"{own['learned from']}, {own['held out']}", parts)
    yield across("runs, distinct", lambda own: f"{own['runs']:,}, {own['distinct']}", parts)
    titles = {
        "clauses, all proven to cost least": "proven to cost least",
        "of these beyond chance where held out": "beyond chance",
        "kept: in nine of ten documents, implied by no other": "kept",
        "of these said by a constraint": "said",
    }
    yield from fields(titles, count, parts)
    seconds = {"CPU seconds, nearly all CP-SAT's": "CPU seconds"}
    yield from fields(seconds, lambda value: plain(value, 0 if value > 1 else 1), parts)


@table
def logic_accuracy(results: Results) -> Rows:
    """What clauses gain."""
    parts = [results["logic"]["corpora"][name] for name in ("Cora dev", "us50 dev")]
    titles = {"none": "none (Viterbi)", "counting": "counted", "logic": "by logic", "both": "both"}
    bests = [max(one["accuracy"] for one in own["accuracy"]) for own in parts]
    for name, title in titles.items():
        cells = [title]
        for own, largest in zip(parts, bests, strict=True):
            one = row(own["accuracy"], constraints=name)
            value = percent(one["accuracy"])
            over = (
                ""
                if name == "none"
                else ends(*(row(own["gains"], to=name, **{"from": "none"})[x] for x in ("low", "high")))
            )
            cells += [
                count(one["rules"]) if one["rules"] else "",
                f"**{value}**" if one["accuracy"] == largest else value,
                over,
            ]
            cells += [plain(one["CPU seconds"], 1) if over else ""] if own is parts[0] else []
        yield cells


@table
def umass(results: Results) -> Rows:
    """Mined rules on nested fields."""
    own = results["umass"]
    yield "none (CRF alone)", "0", percent(own["alone"]), "", "", ""
    numbers = {"counted": own["rules"], "learned": own["rules with a learned penalty"]}
    for name, title in (("counted", "counted (`odds`)"), ("learned", "`learned`")):
        one = row(own["rows"], penalties=name)
        cells = [percent(one["f1"]), ends(one["low"], one["high"]), f"{percent(one['fewer errors'], 1)} %"]
        yield [title, count(numbers[name]), *cells, plain(one["CPU seconds"], 1)]


@table
def penalties(results: Results) -> Rows:
    """Constraints weighed in every way."""
    rows = results["penalties"]["rows"]
    for name, title in (
        ("nothing", "0 nats: Viterbi"),
        ("declared", "of the file"),
        ("odds", "`odds`"),
        ("fersini", "`fersini`"),
        ("bayes", "`bayes`"),
        ("fixed", "`fixed`, 1 nat"),
        ("tuned odds", "`tuned`, from `odds`"),
        ("tuned fersini", "`tuned`, from `fersini`"),
        ("learned", "`learned`"),
    ):
        own = row(rows, penalty=name)["labels.accuracy"]
        gain = own["over"].get("nothing")
        yield title, percent(own["value"]), "" if gain is None else ends(*gain[1:])


@table
def beside(results: Results) -> Rows:
    """Constraints beside two trainers."""
    trainers = results["beside"]["trainers"]
    parts = [trainers[trainer][part] for part in ("folds", "dev") for trainer in ("lbfgs", "sgd")]

    def line(title: str, cells: Iterable[tuple[str, str]]) -> list[str]:
        return [title, *chain.from_iterable(cells)]

    def certified(own: Mapping[str, Any], name: str) -> tuple[str, str]:
        one = own["certified"].get(name)
        return ("", "") if one is None else (percent(one["accuracy"]), ends(one["low"], one["high"]))

    yield line("Viterbi", ((percent(own["viterbi"]), "") for own in parts))
    ways = {"x 0.5": "weights × ½", "x 1": "as declared", "x 2": "× 2", "x 4": "× 4", "learned": "`learned`"}
    for name, title in ways.items():
        yield line(title, (certified(own, name) for own in parts))
    yield line("temperature", ((plain(own["temperature"]), "") for own in parts))
    errors = {
        "wrong": "wrong tokens",
        "in sight": "of these in sight of a constraint",
        "documents": "in so many citations",
    }
    for name, title in errors.items():
        yield line(title, ((count(own[name]), "") for own in parts))


def _race(own: Mapping[str, Any]) -> Rows:
    for engine, one in own["anytime"].items():
        shares = [f"{percent(one[name], 1)}%" for name in ("optimum", "proves")]
        gaps = plain(one["mean gap"], 3), plain(one["largest gap"])
        yield [engine, shares[0], *gaps, shares[1], plain(one["milliseconds, mean"], 1)]


@table
def race_citations(results: Results) -> Rows:
    """Engines within 800 ms on citations."""
    return _race(results["engines"]["citations"])


@table
def race_news(results: Results) -> Rows:
    """Engines within 800 ms on news."""
    return _race(results["engines"]["news"])


@table
def throughput(results: Results) -> Rows:
    """Tokens a second of each engine."""
    both = [results["engines"][name]["throughput"] for name in ("citations", "news")]
    for engine in (*(name for name in both[0] if name != "grounding"), "grounding"):
        found = [own[engine] for own in both]
        title = "*grounding alone*" if engine == "grounding" else engine
        yield across(title, lambda own: count(own["tokens per second"]) + (" *" if own.get("clock") else ""), found)


def _cited(results: Results, constraints: str, engine: str) -> Mapping[str, Any]:
    return row(results["citations"]["rows"], constraints=constraints, engine=engine)


@table
def citations(results: Results) -> Rows:
    """Citations under the rules of published tables."""
    alone, under = _cited(results, "none", "viterbi"), _cited(results, "rules", "certify")
    yield "token accuracy of `viterbi`", f"{percent(alone['labels.accuracy']['value'])} %"
    accuracy = under["labels.accuracy"]
    yield "token accuracy of `certify` under all constraints", f"{percent(accuracy['value'])} %"
    yield "certified", f"{under['certified']:.0f} of {under['documents']}"


@table
def ablation(results: Results) -> Rows:
    """Constraints that change more than a token (0.0003 of the accuracy), without them and alone."""
    alone, whole = (
        _cited(results, *pair)["labels.accuracy"]["value"] for pair in (("none", "viterbi"), ("rules", "certify"))
    )
    rows = {own["constraints"]: own["labels.accuracy"]["value"] for own in results["citations"]["rows"]}
    found = {name.partition(" without ")[2]: value for name, value in rows.items() if " without " in name}
    for name, without in sorted(found.items(), key=lambda pair: pair[1]):
        only = rows[f"rules only {name}"]
        if max(abs(without - whole), abs(only - alone)) > 0.0004:
            yield name, percent(without), percent(only)


@table
def shipped(results: Results) -> Rows:
    """What files of constraints gain, all of their rules together."""
    for name, rows in results["shipped"]["sets"].items():
        for row in rows:
            effect = row["all"]
            yield (
                f"{name}, {row['rules']} ({count(len(row['each']))})",
                f"{row['part']}, {count(row['documents'])}",
                f"`{row['trainer']}`",
                count(effect["changed"]),
                f"{percent(effect['spans']['before'])} → {percent(effect['spans']['after'])}",
                *(_gained(effect, measure) for measure in ("spans", "documents", "labels")),
            )


@table
def shipped_citation_rules(results: Results) -> Rows:
    """Published rules on citations that change an answer: gain of field F1 by each beside the others."""
    rows = results["shipped"]["sets"]["citations"]
    published = [row["each"] for row in rows if row["rules"] == "published"]
    kept = next(row["each"] for row in rows if row["rules"] == "shipped")
    for rule in published[0]:
        if any(own[rule]["changed"] for own in published):
            yield rule, *(_gained(own[rule], "spans") for own in published), "yes" if rule in kept else ""


@table
def shipped_rules(results: Results) -> Rows:
    """The same of the other sets, on the one part where they are judged."""
    for name, rows in results["shipped"]["sets"].items():
        if name != "citations":
            kept = next(row["each"] for row in rows if row["rules"] == "shipped")
            for rule, effect in rows[0]["each"].items():
                yield name, rule, count(effect["changed"]), _gained(effect, "spans"), "yes" if rule in kept else ""


def _gained(effect: Mapping[str, Any], measure: str) -> str:
    """Gain of a measure with its interval; a dash where it was not counted, and nothing where no answer changed."""
    found = effect.get(measure)
    if found is None:
        return "–"
    return gain(found["after"] - found["before"], found["low"], found["high"]) if effect["changed"] else ""


@table
def tau_path(results: Results) -> Rows:
    """Two-stage inference at falling τ."""
    for own in results["citations"]["rows"]:
        _, found, tau = own["engine"].partition("tau=")
        if found:
            yield (
                tau,
                plain(own["penalty_nats"], 1),
                percent(own["labels.accuracy"]["value"]),
                plain(own["cpu_seconds"], 1),
            )


@table
def confidence(results: Results) -> Rows:
    """Calibration, margins and their cost."""
    own = results["confidence"]
    parts = [
        {key.removeprefix(mark): value for key, value in own.items() if key.startswith(mark)}
        for mark in ("viterbi: ", "certify: ")
    ]

    def one(title: str, name: str, told: Callable[[Any], str]) -> list[str]:
        return across(title, told, [part[name] for part in parts])

    def rate(value: float) -> str:
        return f"{percent(value, 1)} %"

    exact = [f"margins, {name}" for name in ("exact", "exact-by-solver", "bound")]
    yield across(
        "entities, share that is right", lambda part: f"{part['entities']:,}, {rate(part['precision'])}", parts
    )
    yield one("mean marginal", "mean probability", rate)
    yield one(
        "expected calibration error of the marginals, ten bins", "expected calibration error", lambda x: plain(x, 3)
    )
    shares = [" / ".join(percent(part[name], 0) for name in exact) + " %" for part in parts]
    yield "margins: exact / on CP-SAT's word / a bound", *shares
    yield one("right among the surest 90 %, by marginal", "precision of the surest 90% by probability", rate)
    yield one("right among the surest 90 %, by margin", "precision of the surest 90% by margin", rate)
    yield one("milliseconds a document for marginals", "CPU ms a document, marginals", lambda x: plain(x, 1))
    yield one("milliseconds a document for margins", "CPU ms a document, margins", count)


@table
def n_best(results: Results) -> Rows:
    """Lists of the best labellings."""
    own, engines = results["n_best"], ("viterbi", "certify")

    def line(title: str, name: str, told: Callable[[float], str]) -> list[str]:
        return across(title, told, [own[f"{engine}: {name}"] for engine in engines])

    def whole(value: float) -> str:
        return (
            "100 %" if value == 1.0 else f"{percent(value, 1)} % ({value * own['documents']:.0f} of {own['documents']})"
        )

    yield line("labellings listed", "labellings", count)
    yield line("rank proven", "proven", lambda value: f"{round(100 * value, 1):g} %")
    most = own["labellings a document"]
    yield line(f"documents with all {most} proven", "documents with all of them proven", whole)
    yield line(
        f"nats of the {most}th below the first, median",
        "median nats of the last below the first",
        lambda v: plain(v, 1),
    )
    yield line("milliseconds a document for the list", "CPU ms a document, the list", count)
    yield line("milliseconds a document for the answer", "CPU ms a document, the answer", count)


FAULTS = {
    "worker killed": "SIGKILL of a Ray worker",
    "driver killed": "SIGKILL of the command, also while it starts",
    "raylet killed": "SIGKILL of the raylet",
    "GCS killed": "SIGKILL of Ray's head (GCS)",
    "SIGTERM": "SIGTERM",
    "Ctrl-C": "Ctrl-C at a terminal, once or twice, also while it starts",
    "MLflow killed": "SIGKILL of MLflow's server",
    "Prefect killed": "SIGKILL of the Prefect server that watches",
    "lethal documents": "one or two documents that kill every worker",
    "1, 2, 4 workers": "none: 1, 2 and 4 workers",
    "train killed": "SIGKILL of `train`",
    "codl killed": "SIGKILL of `codl`",
}
EXITS = {"None": "0", "-9": "killed"}


@table
def faults(results: Results) -> Rows:
    """Faults and how commands met them."""
    for name, title in FAULTS.items():
        own = results["faults"][name]
        codes = {EXITS.get(code, code): number for code, number in own["exit codes"].items()}
        told = [f"{code} {'once' if n == 1 else f'{n} times'}" for code, n in sorted(codes.items(), reverse=True)]
        yield title, str(own["tried"]), str(own["held"]), ", ".join(told) if len(told) > 1 else next(iter(codes))


FAILPOINTS = {
    "kill": "SIGKILL",
    "disk full": "no room from then on; what is there can be renamed and removed",
    "read-only": "the disk takes nothing from then on",
    "503": "a request is refused once",
    "503 for good": "every request from then on is refused",
    "answer lost": "a request is done, and its answer does not come back",
    "connection lost": "a request does not arrive",
    "slow": "an effect takes its time",
    "frozen": "SIGSTOP; another run goes to its end, or is refused; SIGCONT",
    "clock": "the clock jumps 400 days, ahead or back",
}
STORAGES = ("folder", "objects")


@table
def failpoint_faults(results: Results) -> Rows:
    """Faults, and how often a run held what it promises."""
    for fault, what in FAILPOINTS.items() if _failpoints(results) else ():
        yield fault, what, *(_held(results, storage, fault=fault) for storage in STORAGES)


@table
def failpoint_steps(results: Results) -> Rows:
    """Steps of a run, and how often it held what it promises after a fault there."""
    for step in dict.fromkeys(row["step"] for row in _failpoints(results)):
        yield step, *(_held(results, storage, step=step) for storage in STORAGES)


def _failpoints(results: Results) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.get("failpoints", {}).get("rows", [])
    return rows


def _held(results: Results, storage: str, **wanted: str) -> str:
    wanted["storage"] = storage
    found = [row for row in _failpoints(results) if wanted.items() <= row.items()]
    tried = sum(row["tried"] for row in found)
    return f"{sum(row['held'] for row in found)} of {tried}" if tried else ""


def _sweep(results: Results, name: str, figure: str = "spans.f1", **wanted: Any) -> Mapping[str, Any]:
    """A figure of a sweep: its value, its interval, and what it gains ``over`` others."""
    found: Mapping[str, Any] = row(results[name]["rows"], **wanted)[figure]
    return found


def _over(found: Mapping[str, Any]) -> str:
    """The gain of a figure over the only base that it is compared with; nothing for the base itself."""
    over = list(found["over"].values())
    return gain(*over[0]) if over else ""


SWEPT = {
    "news": "news (CoNLL-2003)",
    "testa": "news (CoNLL-2003), testa",
    "posts": "posts (WNUT-17)",
    "abstracts": "abstracts (BC5CDR, words kept whole)",
    "mails": "mails (seminars)",
    "chunks": "chunks (CoNLL-2000)",
    "dutch": "Dutch (CoNLL-2002)",
    "spanish": "Spanish (CoNLL-2002)",
    "addresses": "addresses (us50)",
    "citations": "citations (Cora)",
    "nested-citations": "nested citations (UMass)",
    "references": "reference lists (EXCITE)",
}
"""Titles of corpora."""


@table
def efforts(results: Results) -> Rows:
    """What each effort of training gives on parts that nothing was chosen by, and what `best` keeps."""
    models = results.get("efforts", {}).get("models", {})
    for corpus in dict.fromkeys(name.partition("/")[0] for name in models):
        own = {effort: models.get(f"{corpus}/{effort}") for effort in ("quick", "normal", "best")}
        kept = own["best"] and [step["step"] for step in own["best"]["search"]["steps"][1:] if step["is_kept"]]
        yield SWEPT[corpus], *map(_effort, own.values()), "–" if kept is None else ", ".join(kept) or "nothing"


def _effort(found: Mapping[str, Any] | None) -> str:
    """F1 by Viterbi and certified, what that gains over the effort before, CPU seconds; a dash for none."""
    if found is None:
        return "–"
    judged = found["evaluation"]
    spans, over = judged["measures"]["spans"], judged["against"]
    f1 = f"{percent(spans['viterbi']['f1'])} / {percent(spans['figures']['f1'])}"
    difference = {} if over is None else over["measures"]["spans"]["f1"]
    gained = f", {gain(*(difference[name] for name in ('difference', 'low', 'high')))}" if difference else ""
    return f"{f1}{gained}; {count(found['CPU seconds'])} s"


@table
def outside_cost(results: Results) -> Rows:
    """What the outside cost gains on documents that had no part in it."""
    for name, one in results.get("outside-cost", {}).get("draws", {}).items():
        corpus, size, *encoder, draw = name.split("/")
        documents = "all" if size == "all" else f"{size}, draw {int(draw) + 1}"
        before, after = map(percent, one["unseen"])
        told = gain(*(one["gain"][end] for end in ("difference", "low", "high"))) if one["cost"] else one["kept_for"]
        yield (
            SWEPT[corpus] + "".join(f", {part}" for part in encoder),
            documents,
            plain(one["cost"]),
            before,
            after,
            told,
        )


@table
def training(results: Results) -> Rows:
    """The default trainer against what it was, and CRFsuite."""
    ways = ("before", "default", "crfsuite")
    found: dict[tuple[str, int | None], dict[str, Mapping[str, Any]]] = {}
    for own in results["training"]["rows"]:
        found.setdefault((own["corpus"], own["size"]), {})[own["model"].partition(",")[0]] = own
    order = {corpus: place for place, corpus in enumerate(SWEPT)}
    for corpus, size in sorted(found, key=lambda own: (order[own[0]], own[1] or math.inf)):
        rows = found[corpus, size]
        told = bold([percent(rows[way]["spans.f1"]["value"]) if way in rows else "–" for way in ways])
        over = _over(rows["default"]["spans.f1"])
        seconds = [plain(rows[way]["training_cpu_seconds"], 1) if way in rows else "–" for way in ways]
        yield [f"{SWEPT[corpus]}, {size or 'all'}", *told[:2], over, told[2], *seconds]


FEATURES = "features="


@table
def features(results: Results) -> Rows:
    """Feature sets by folds."""
    base = "ten passes features=core+pos"
    for own in results["features"]["rows"]:
        name, found = own["model"].partition(FEATURES)[2], own["spans.f1"]
        over = found["over"].get(base)
        yield f"`{name}`", percent(found["value"]), "" if over is None else gain(*over)


@table
def public_clusters(results: Results) -> Rows:
    """Feature sets with clusters of public word vectors."""
    public = {one["model"].partition(FEATURES)[2]: one for one in results["features_public"]["rows"]}
    public["rich+mentions+clusters+entities"] = row(results["features_public"]["rows"], model="ten passes")
    for name in ("core+pos+mentions+clusters", "rich+mentions+clusters", "rich+mentions+clusters+entities"):
        yield f"`{name}`", percent(public[name]["spans.f1"]["value"])


@table
def features_later(results: Results) -> Rows:
    """Feature sets by later documents."""
    was = "`rich` by the trainer as it was, without dropout and in ten passes"
    rows = results["features_later"]["rows"]
    values = bold([percent(own["spans.f1"]["value"]) for own in rows])
    for own, value in zip(rows, values, strict=True):
        yield was if "was" in own["model"] else f"`{own['model']}`", value, _over(own["spans.f1"])


STEPS = {
    "default": "the former default",
    "bilou": "`--set scheme=bilou`",
    "six": "`--trainer ensemble`",
    "six, consistent": "`--trainer ensemble`",
    "lists": "`--gazetteer`",
    "vectors": "`--vectors`",
    "clusters": "`--clusters` of public vectors",
    "public clusters": "`--clusters` of public vectors",
    "clusters and vectors": "both",
    "encoder": "`--encoder`",
    "all but the encoder": "`--trainer ensemble`, `--gazetteer`, `--clusters` and `--vectors`",
    "all": "`--gazetteer`, `--clusters`, `--vectors` and `--encoder`",
    "tree": "`--clusters` of a tree of English words",
    "Spanish tree": "`--clusters` of a tree of Spanish words",
    "state clusters": "`--encoder` with `state_clusters`",
    "everything": "`--trainer ensemble`, `--gazetteer`, `--clusters`, `--vectors`, `--encoder` with `state_clusters`",
    "less dropout": "`--trainer ensemble --set dropout=0.3`",
    "pairs": "`pairs:kinds`",
    "pairs and six": "`pairs:kinds`, `--trainer ensemble`",
}
"""What is said of the models of the sweeps of steps."""
STEPS_OF_SOME = {
    "posts, all": "`--trainer ensemble`, `--gazetteer`, `--clusters` and `--vectors`",
    "posts, all but the encoder": "`--trainer ensemble --set dropout=0.3`, `--gazetteer`, `--clusters` and `--vectors`",
    "posts, everything": "`--trainer ensemble --set dropout=0.3`, `--gazetteer`, `--clusters`, `--vectors`, "
    "`--encoder` with `state_clusters`",
    "chunks, all": "`--set scheme=bilou`, `--trainer ensemble` and `--vectors`",
    "chunks, pairs": "`pairs:pos`",
    "chunks, tree": "`--set scheme=bilou`, `--clusters` of a tree",
    "chunks, tree and pairs": "`--set scheme=bilou`, `--clusters` of a tree and `pairs:pos`",
    "chunks, everything": "`--set scheme=bilou`, `--clusters` of a tree and of public vectors, `--trainer ensemble`",
}
"""The same of models whose steps are not those of other corpora."""


@table
def steps(results: Results) -> Rows:
    """What each step gains on later documents, by Viterbi and with label consistency."""
    return _steps(results["steps"]["rows"], results["steps_public"]["rows"])


WORD_MODELS = {
    "tags": "`core+pos+mentions+entities`",
    "no tags": "`core+mentions+entities`",
    "words": "`core+mentions+clusters+entities`, the default",
    "words and tags": "`core+pos+mentions+clusters+entities`",
    "fields": "`fields`",
    "fields, words": "`fields+clusters`",
}
"""What is said of the models of the sweep of the table of words."""


@table
def words(results: Results) -> Rows:
    """What the table of words gains on later documents."""
    return _steps(results["words"]["rows"])


@table
def steps_once(results: Results) -> Rows:
    """The same on development parts."""
    return _steps(results["steps_once"]["rows"])


def _steps(*sweeps: Sequence[Any]) -> Rows:
    """The rows of sweeps by corpus; figures under label consistency beside those of Viterbi."""
    found: dict[tuple[str, str], list[str]] = {}
    for rows in sweeps:
        for own in (row for row in rows if row["constraints"] == "none"):
            same = [one["spans.f1"] for one in rows if all(one[key] == own[key] for key in ("corpus", "model"))]
            cells = [cell for figure in same for cell in (percent(figure["value"]), _over(figure))]
            place = own["corpus"], _step(own["corpus"], own["model"])
            # What both have is shown as in the first, whose times belong together, if that says as much.
            if place not in found or (len(same) > 1 and not found[place][2]):
                found[place] = [*(*cells, "", "")[:4], count(own["training_cpu_seconds"])]
    order = list(SWEPT)
    for corpus, title in sorted(found, key=lambda step: order.index(step[0])):
        yield [SWEPT[corpus], title, *found[corpus, title]]


def _step(corpus: str, model: str) -> str:
    return (
        STEPS_OF_SOME.get(model)
        or WORD_MODELS.get(model)
        or STEPS[model.removeprefix(f"{corpus}, ").removeprefix("fields, ")]
    )


@table
def dropout(results: Results) -> Rows:
    """More passes, and dropout."""
    titles = {
        "ten passes": "ten passes, `passes=10,decay=0.85,dropout=0`",
        "thirty passes": "thirty passes, slower decay",
        "dropout": "the same, `dropout=0.3`",
    }
    for name, title in titles.items():
        own = row(results["features_public"]["rows"], model=name)
        cells = percent(own["spans.f1"]["value"]), _over(own["spans.f1"])
        yield [title, *cells, count(own["training_cpu_seconds"])]


KINDS_OF_MODELS = {"default": ", the default", "dropout": ", `dropout=0.3`"}
"""What is said of models beside their features."""


def _models(results: Results, name: str) -> Rows:
    """F1 of each model by Viterbi, gibbs and certify."""
    for model in dict.fromkeys(own["model"] for own in results[name]["rows"]):
        kind, _, features = model.partition(" features=")
        default = kind == "default"
        title = f"`{'core+pos+mentions+entities' if default else features or 'rich+mentions+clusters+entities'}`"
        title += KINDS_OF_MODELS.get(kind, "")
        found = [_sweep(results, name, model=model, engine=engine) for engine in ("viterbi", "gibbs", "certify")]
        yield across(title, lambda own: share(own["value"], own["low"], own["high"]), found)


@table
def models(results: Results) -> Rows:
    """Models without clusters on testa."""
    return _models(results, "models")


@table
def models_public(results: Results) -> Rows:
    """Models with clusters of public vectors on testa."""
    return _models(results, "models_public")


@table
def corpora(results: Results) -> Rows:
    """Features of names on corpora of every kind."""
    rows = results["corpora"]["rows"]
    for corpus in dict.fromkeys(own["corpus"] for own in rows):
        base, *others = (own for own in rows if own["corpus"] == corpus)
        told = [_over(own["spans.f1"]) for own in others]
        yield [SWEPT[corpus], f"`{base['model']}`", percent(base["spans.f1"]["value"]), *told, *[""] * (2 - len(told))]


@table
def offsets(results: Results) -> Rows:
    """Abstracts by tokens and by characters."""
    for corpus, title in (("whole", "whole"), ("cut", "cut at hyphens, the default")):
        spans, characters = (_sweep(results, "offsets", f"{name}.f1", corpus=corpus) for name in ("spans", "offsets"))
        over = _over(characters)
        yield title, percent(spans["value"]), percent(characters["value"]) + (f", {over}" if over else "")


@table
def layers_corpora(results: Results) -> Rows:
    """A weak tagger on nine corpora: alone, copied, and the way that cross-validation chooses."""
    for own in results["layers"]["corpora"]:
        figures = [percent(own[name]) for name in ("alone", "copied", "ours")]
        gains = [gain(*own[f"against_{name}"]) for name in ("alone", "copied")]
        yield own["name"], count(own["gold"]), *figures, own["way"], *gains


@table
def made_taggers(results: Results) -> Rows:
    """Made-up taggers beside gold documents: runs that are worse or better than they are."""
    rows = results["made_taggers"]["rows"]
    kinds = list(dict.fromkeys(own["kind"] for own in rows))
    for gold in dict.fromkeys(own["gold"] for own in rows):
        for kind in [*kinds, "all"]:
            own = [one for one in rows if one["gold"] == gold and kind in (one["kind"], "all")]
            gains = [one["difference"] for one in own]
            worse, better = sum(high < 0 for _, _, high in gains), sum(low > 0 for _, low, _ in gains)
            as_it_is, copied = (sum(one["way"].endswith(way) for one in own) for way in ("as it is", "copied"))
            ways = map(count, (as_it_is, copied, len(own) - as_it_is - copied))
            mean = sum(difference for difference, _, _ in gains) / len(own)
            lowest = min(gains, key=lambda one: one[0])
            yield count(gold), kind, count(len(own)), count(worse), count(better), *ways, points(mean), gain(*lowest)


@table
def layers_news(results: Results) -> Rows:
    """Taggers on news, without gold labels and with some."""
    for own in results["layers"]["news"]:
        gains = [gain(*own[f"against_{name}"]) for name in ("alone", "copied")]
        yield own["title"], ", ".join(own["taggers"]), count(own["gold"]), percent(own["f1"]), *gains


@table
def candidates(results: Results) -> Rows:
    """Candidates of two taggers on news: greedy sets, its own answers, the best sets."""
    for tagger, measured in results["candidates"]["taggers"].items():
        for own in measured["rows"]:
            more = ["", "", "", ""]
            if "gain" in own:
                lost = f"{own['nats_lost']:.1f}, at most {own['most_nats_lost']:.1f}"
                more = [gain(*own["gain"]), count(own["proven"]), percent(own["greedy_not_best"], 0), lost]
            yield tagger, own["title"], percent(own["f1"]), *more


@table
def review(results: Results) -> Rows:
    """What a review promises of four corpora, beside a plain sample and a threshold from labelled data."""
    for title, own in _reviewed(results):
        promised = [
            " / ".join(percent(share, 0) for share in own[order][way]["promised"])
            for order, way in (("marginals", "review"), ("fit", "review"), ("marginals", "clopper-pearson"))
        ]
        accepted = f"{percent(own['conformal']['accepted'], 0)}, {percent(own['conformal']['wrong'], 1)} wrong"
        entities = f"{own['entities']:,}, {percent(own['wrong'], 1)} %"
        yield title, entities, percent(own["possible"], 0), *promised, accepted


@table
def review_false(results: Results) -> Rows:
    """How often a review's promise is false, in runs as they are and in runs that mislead."""
    for title, own in _reviewed(results):
        parts = [own["marginals"], own["fit"], *(own["misled"][way] for way in ("ties", "clusters", "shift", "limit"))]
        yield title, *(percent(part["review"]["false"], 1) for part in parts), percent(own["whole"]["false"], 1)


@table
def review_whole(results: Results) -> Rows:
    """What has to be read until a whole run is promised."""
    for title, own in _reviewed(results):
        whole = own["whole"]
        yield title, percent(whole["read"], 0), percent(whole["read by nine of ten draws"], 0)


@table
def adopted_false(results: Results) -> Rows:
    """How often a review of another program's answers promises what is false, by the share that is wrong."""
    for share, own in results["adopted"]["runs"].items():
        yield share, *(percent(own[kind]["false"], 1) for kind in ("scores", "none"))


def _reviewed(results: Results) -> Iterator[tuple[str, Any]]:
    return ((name, own) for name, own in results["review"].items() if isinstance(own, dict) and "entities" in own)


@table
def corrections(results: Results) -> Rows:
    """F1 after so many answers are read, by the order in which they are."""
    for corpus, own in (("CoNLL-2003", "news"), ("Cora", "citations")):
        for name, curve in results["corrections"][own]["f1"].items():
            yield corpus, name, *map(percent, curve)


@table
def twelve_nights(given: Results) -> Rows:
    """What each of a dozen nights says."""
    for night in given["twelve_nights"]["nights"]:
        said = night["what is said"].replace("|", "\\|")
        yield [str(night["night"]), night["what happened"], said, night["tags"]]
