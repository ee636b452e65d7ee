"""Tables of the docs that stand beside one paper's figures: they go where `concord papers` has them.

As in `tables`, a function for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tables import Results, Rows, across, against, bold, count, ends, percent, plain, row, table


@table
def finkel(results: Results) -> Rows:
    """Finkel's costs as printed and tuned."""
    rows = results["finkel"]["rows"]
    for own in rows:
        over = [
            ends(*own[name][1:]) if name in own and any(own[name]) else "" for name in ("over Viterbi", "over printed")
        ]
        engine = "Viterbi" if own["engine"] == "viterbi" else own["engine"]
        yield [own["costs"], engine, percent(own["f1"][0]), *over]


@table
def little_gold(results: Results) -> Rows:
    """Models of few citations, and constraints."""
    rows = results["little_gold"]["rows"]
    for size in (5, 10, 20, 300):
        both = [row(rows, model=model, citations=size) for model in ("hmm", "perceptron")]
        cells = [(own["alone"], own["constrained"]["50.0"]) for own in both]
        yield [
            str(size),
            *(
                against(*pair)
                for own, p in zip(both, cells, strict=True)
                for pair in zip(p, own["published"], strict=True)
            ),
        ]


@table
def constrained_learning(results: Results) -> Rows:
    """Learning under constraints."""
    for own in results["constrained_learning"]["rows"]:
        published = dict(zip(("L", "L+CI", "cibt beam", "wcibt beam"), own["published"], strict=True))
        names = ("L", "L+CI", "cibt beam", "cibt certify", "wcibt beam", "wcibt certify")
        cells = [against(own[n], published[n]) if n in published else plain(own[n], 1) for n in names]
        yield [str(own["citations"]), cells[0], *bold(cells[1:])]


@table
def seminars(results: Results) -> Rows:
    """Announcements of talks under the constraints of Finkel et al."""
    own = results["seminars"]
    fields = ("stime", "etime", "speaker", "location")
    yield across("the paper: CRF", plain, own["published"]["viterbi"])
    yield across("the paper: consistent", plain, own["published"]["gibbs"])
    for title, engine, strength in (
        (f"Viterbi, `{own['features']}`", "viterbi", None),
        ("certify, a quarter of the printed weights", "certify", 0.25),
        ("certify, half", "certify", 0.5),
        ("certify, as printed (4 nats; of times for each token)", "certify", 1.0),
    ):
        one = row(own["rows"], engine=engine, strength=strength)
        yield across(title, plain, [*(one["fields"][field] for field in fields), one["mean"]])


CORPORA = {"Cora": "Cora dev", "us50": "us50 dev", "CoNLL-2003": "CoNLL-2003 testa"}


@table
def fersini_tau(results: Results) -> Rows:
    """The path of τ on held-out documents."""
    curves = [results["fersini"]["corpora"][name]["curves"] for name in CORPORA.values()]
    both = [[row(own, weights="odds", violations=way)["curve"] for way in ("degree", "once")] for own in curves]
    largest = [max(one["accuracy"] for one in degree) for degree, _ in both]
    for place, step in enumerate(both[0][0]):
        cells = [f"{step['tau']:g}" + (" (Viterbi)" if step["tau"] == 1 else "")]
        for (degree, once), top in zip(both, largest, strict=True):
            one, other = (percent(curve[place]["accuracy"]) for curve in (degree, once))
            first = degree[place]["accuracy"] == top and all(c["accuracy"] < top for c in degree[:place])
            cells.append((f"**{one}**" if first else one) + (f" ({other})" if other != one else ""))
        yield cells


def _rules(results: Results, corpus: str) -> Rows:
    own = results["fersini"]["corpora"][corpus]
    found = {
        (one["rules"], one.get("violations", "degree")): one for one in own["rows"] if one.get("weights") != "fersini"
    }
    ranked = sorted(own["rules"], key=lambda kind: -found[kind, "degree"]["accuracy"])
    whole = [("all", "degree"), *([("all", "once")] if corpus == CORPORA["Cora"] else [])]
    for kind, way in [("none", "degree"), *whole, *((kind, "degree") for kind in ranked)]:
        one = found[kind, way]
        title = {"none": "none (Viterbi)", "all": "all" + (", charged once" if way == "once" else "")}.get(
            kind, f"`{kind}` alone"
        )
        number = {"none": "", "all": count(sum(own["rules"].values()))}.get(kind) or count(own["rules"].get(kind, 0))
        over = "" if kind == "none" else ends(*one["gain"]["accuracy"][1:])
        macro = (percent(one[f"macro_{name}"]) for name in ("precision", "recall", "f1"))
        yield [title, "" if kind == "none" else number, percent(one["accuracy"]), over, *macro]


@table
def fersini_cora(results: Results) -> Rows:
    """Two stages under mined rules on citations."""
    return _rules(results, "Cora dev")


@table
def fersini_us50(results: Results) -> Rows:
    """Two stages under mined rules on addresses."""
    return _rules(results, "us50 dev")


@table
def segments(results: Results) -> Rows:
    """Semi-Markov CRFs beside Viterbi and two stages."""
    macro, micro = ("macro_precision", "macro_recall", "macro_f1"), ("precision", "recall", "f1")
    for corpus in CORPORA.values():
        yield [f"**{corpus}**", *[""] * 9]
        viterbi, _, whole, single, ruled, _ = results["fersini_segments"]["corpora"][corpus]["rows"]
        soft = row(results["fersini"]["corpora"][corpus]["rows"], rules="all", weights="odds", violations="degree")
        alike = soft["accuracy"] == viterbi["accuracy"]
        rows = {"CRF-Viterbi, CRF-Soft" if alike else "CRF-Viterbi": viterbi, **({} if alike else {"CRF-Soft": soft})}
        rows |= {"SemiCRF": whole, "its features, one token a segment": single, "SemiCRF under the rules": ruled}
        for title, own in rows.items():
            begins = own["spans"] < 0.5  # each token begins a name: only figures by type can be compared
            over = "" if own is viterbi or begins else ends(*own["gain"]["accuracy"][1:])
            first, last = ("" if begins else percent(own[name]) for name in ("accuracy", "spans"))
            yield [title, first, over, *(percent(own[name]) for name in (*macro, *micro)), last]


def _beside(parts: Sequence[Mapping[str, Any]], name: str, published: Sequence[float | None] = ()) -> Iterator[str]:
    """F1 of a row in each part, with a published figure, and its interval; empty where it has none."""
    for place, part in enumerate(parts):
        own = next((one for one in part["rows"] if one["name"] == name), None)
        told = "" if own is None else plain(own["f1"])
        yield told + (f" ({published[place]:.1f})" if published else "")
        yield "" if own is None or not own["low"] else ends(own["low"] / 100, own["high"] / 100)


@table
def csi(results: Results) -> Rows:
    """Memory-based classifiers and constraint satisfaction inference."""
    parts = [results["csi_chunks"], results["csi_names"]]
    for name, title, published in (
        ("baseline", "baseline: single labels", (91.6, 76.5)),
        ("voting", "voting", (93.1, 82.5)),
        ("CSI", "constraint-satisfaction inference", (93.8, 85.6)),
        ("CSI, legal", "the same, legal labels alone", ()),
        ("CSI, all labels of the neighbours", "the same, all labels of the neighbours", ()),
        ("oracle", "oracle among the candidates", (96.2, 88.9)),
    ):
        yield [title, *_beside(parts, name, published)]
    right = [f"{percent(own['trigrams_right'], 1)} ({p})" for own, p in zip(parts, (88.2, 92.3), strict=True)]
    yield "trigrams right", right[0], "", right[1], ""
    told = [
        f"{plain(own['sequences_mean'], 1)} ({p}), {own['sequences_median']:.0f}, {own['sequences_largest']:,.0f}"
        for own, p in zip(parts, (57.8, 19.1), strict=True)
    ]
    yield "candidate labellings of a sentence: mean, median, most", told[0], "", told[1], ""


@table
def csi_lengths(results: Results) -> Rows:
    """Classes of several labels."""
    rows = results["csi_lengths_chunks"]["rows"]
    for n in range(2, 6):
        own = [row(rows, n=n, settings=given) for given in ({}, {"metric": "mvdm"}, {"learner": "igtree"})]
        yield [str(n), *(f"{plain(one['f1'])} ({percent(one['classes_right'], 1)} %)" for one in own)]


@table
def csi_more(results: Results) -> Rows:
    """Memory-based trigrams beside a CRF."""
    parts = [results["csi_more_chunks"], results["csi_more_names"]]
    for name, title in {
        "CRF": "a CRF of the same columns, Viterbi",
        "CSI": "memory-based trigrams, inference",
        "CSI, rules": "the same under mined rules",
        "CSI, consistency": "the same under label consistency",
        "CSI over all labels, consistency": "with all labels of the neighbours, under consistency",
        "CRF's trigrams: CSI": "the CRF's own trigrams, inference",
        "both together: CSI": "these and the memory-based ones, half of the weight each",
        "CRF, rules": "the CRF under mined rules, certified",
        "CRF, consistency": "the CRF under label consistency, certified",
    }.items():
        yield [title, *_beside(parts, name)]
