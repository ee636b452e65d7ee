"""Synthetic citations: fields in order, with one label for each token, in many styles, and with missing fields."""

from __future__ import annotations

from collections.abc import Callable

from concord.schemas.document import Document
from concord.workers.synthesis.names import FIRMS, GIVEN, PLACE_NAMES, SURNAMES, Draws, words
from concord.workers.synthesis.text import LEXICON

_METHODS = words(
    "Learning|Parsing|Planning|Search|Estimation|Scheduling|Compression|Induction|Sampling|Verification|Routing"
    "|Caching|Segmentation|Rendering|Retrieval|Inference|Classification|Optimisation|Recognition|Synthesis",
    "|",
)
_QUALITIES = words(
    "efficient|robust|incremental|parallel|optimal|probabilistic|lazy|distributed|adaptive|hierarchical|recursive"
    "|approximate|interactive|declarative|sparse|modular|online|symbolic|stochastic|concurrent",
    "|",
)
_OBJECTS = words(
    "networks|graphs|programs|grammars|databases|images|speech|robots|theories|trees|documents|markets|proteins"
    "|compilers|logics|processors|agents|signals|rules|files",
    "|",
)
_JOURNAL_HEADS = ("Journal of", "Annals of", "Transactions on", "Letters in", "Advances in", "Archive for")
_MEETINGS = ("Conference on", "Workshop on", "Symposium on", "Meeting on")
_MONTHS = (
    *(month[0] for month in LEXICON["month"]),
    "Jan",
    "Mar",
    "Apr",
    "June",
    "July",
    "Aug",
    "Sept",
    "Oct",
    "Dec",
)
_NOTES = (
    "( in press )",
    "To appear .",
    "Submitted for publication .",
    "Draft .",
    "In preparation .",
    "Available by ftp .",
)


class Citation:
    """A citation while its fields are written one after the other: tokens and labels.

    - ``style``: style of the citation, 0 to 3.
    - ``end``: punctuation that closes most fields.
    - ``dated``: has the date been written?
    """

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.style = draws.between(0, 3)
        self.end = draws.choice((" .", " .", " ,", " ,", ""))
        self.dated = False
        self.tokens: list[str] = []
        self.labels: list[str] = []

    def add(self, label: str, text: str) -> None:
        """Adds the blank-separated tokens of ``text`` under one label."""
        split = text.split()
        self.tokens += split
        self.labels += [label] * len(split)


def citation(draws: Draws, doc_id: str) -> Document:
    """One citation of some 10 to 50 tokens; punctuation belongs to the field that it closes."""
    cite = Citation(draws)
    fields: list[Callable[[Citation], None]] = [_author, _early_date, _title]
    if draws.chance(0.08):
        fields = [_title, _author]
    for field in (*fields, draws.choice(_VENUES)):
        field(cite)
    if draws.chance(0.08):
        cite.add("note", draws.choice(_NOTES))
    if cite.tokens[-1] in {",", ":"}:
        cite.tokens[-1] = "."
    return Document.build(doc_id, [cite.tokens], labels=[cite.labels])


def _author(cite: Citation) -> None:
    if cite.draws.chance(0.95):
        cite.add("author", _people(cite.draws, cite.style) + cite.draws.choice((cite.end, cite.end, "", " :")))


def _early_date(cite: Citation) -> None:
    if cite.style == 0 or cite.draws.chance(0.1):
        cite.add("date", cite.draws.choice(("( {} )", "( {} ) .", "{} .", "{} :", "{}")).format(_year(cite.draws)))
        cite.dated = True


def _title(cite: Citation) -> None:
    draws = cite.draws
    text = draws.choice(_TITLES)(draws)
    text = text.title() if draws.chance(0.4) else text[0].upper() + text[1:]
    cite.add("title", (f'" {text} "' if cite.style == 3 and draws.chance(0.6) else text) + cite.end)


def _people(draws: Draws, style: int) -> str:
    names = [_person(draws, style) for _ in range(draws.choice((1, 1, 2, 2, 3, 4)))]
    if len(names) > 2 and draws.chance(0.3):
        return names[0] + " et al"
    joint = draws.choice((" and ", " & ", " , and ")) if len(names) > 1 else ""
    return " , ".join(names[:-1]) + joint + names[-1]


def _person(draws: Draws, style: int) -> str:
    surname = SURNAMES.draw(draws)
    initials = " ".join(draws.choice("ABCDEFGHJKLMNPRSTW") + "." for _ in range(draws.between(1, 2)))
    if style == 1:
        return f"{GIVEN.draw(draws)} {surname}"
    return f"{surname} , {initials}" if style == 2 else f"{initials} {surname}"


def _topic(draws: Draws) -> str:
    """A subject of research; sometimes with an invented term."""
    subject = draws.choice(_OBJECTS) if draws.chance(0.7) else FIRMS.draw(draws).lower() + " " + draws.choice(_OBJECTS)
    return subject if draws.chance(0.6) else f"{draws.choice(_QUALITIES)} {subject}"


_TITLES: tuple[Callable[[Draws], str], ...] = (
    lambda draws: f"{draws.choice(_QUALITIES)} {draws.choice(_METHODS).lower()} of {_topic(draws)}",
    lambda draws: f"{draws.choice(_METHODS)} with {_topic(draws)}",
    lambda draws: f"{FIRMS.draw(draws)} : a system for {draws.choice(_METHODS).lower()} in {_topic(draws)}",
    lambda draws: f"on the {draws.choice(_QUALITIES)} {draws.choice(_METHODS).lower()} of {_topic(draws)}",
    lambda draws: f"{draws.choice(_METHODS)} , {draws.choice(_METHODS).lower()} and {_topic(draws)}",
    lambda draws: f"the {SURNAMES.draw(draws)} {draws.choice(_METHODS).lower()} : {_topic(draws)} . an introduction",
    lambda draws: f"{_topic(draws)} : proceedings of a debate in {PLACE_NAMES.draw(draws)}",
    lambda draws: f"{_topic(draws)} and {_topic(draws)}",
    lambda draws: f"{draws.choice(_QUALITIES)} {FIRMS.draw(draws)} in {draws.between(1950, 2003)}",
    lambda draws: f"{draws.choice(_METHODS)} , {PLACE_NAMES.draw(draws)} , {draws.between(1950, 2003)}",
)


def _year(draws: Draws) -> str:
    return f"{draws.between(1968, 2004)}{draws.choice(('', '', '', 'a', 'b'))}"


def _date(cite: Citation) -> None:
    draws = cite.draws
    if cite.dated or draws.chance(0.05):
        return
    cite.dated = True
    month = draws.choice(_MONTHS) + " " if draws.chance(0.3) else ""
    cite.add("date", draws.choice(("{} .", "( {} ) .", "{} ,", "{}")).format(month + _year(draws)))


def _pages(cite: Citation) -> None:
    draws = cite.draws
    if draws.chance(0.2):
        return
    first = draws.between(1, 900)
    last = first + draws.between(2, 40)
    dash = draws.choice((f"{first}-{last}", f"{first} - {last}", f"{first}--{last}", f"{first}"))
    cite.add("pages", draws.choice(("pp .", "pages", "", "", "p .")) + f" {dash}{cite.end}")


def _location(cite: Citation) -> None:
    if cite.draws.chance(0.4):
        cite.add("location", PLACE_NAMES.draw(cite.draws) + cite.draws.choice((" ,", " :", "", cite.end)))


def _publisher(cite: Citation) -> None:
    draws = cite.draws
    if draws.chance(0.35):
        return
    house = draws.choice((SURNAMES, PLACE_NAMES, FIRMS)).draw(draws)
    cite.add("publisher", f"{house} {draws.choice(('Press', 'Verlag', '& Sons', 'Books', '', ''))}{cite.end}")


def _volume(cite: Citation) -> None:
    draws = cite.draws
    if draws.chance(0.12):
        return
    number = draws.between(1, 60)
    issue = draws.between(1, 12)
    forms = (
        f"{number} ( {issue} ) :",
        f"vol . {number} ,",
        f"{number} ,",
        f"{number} :",
        f"{number}",
        f"{number} , {issue}",
    )
    cite.add("volume", draws.choice(forms))


def _journal_name(cite: Citation) -> None:
    draws = cite.draws
    names = (
        f"{draws.choice(_JOURNAL_HEADS)} {_topic(draws).title()}",
        f"{draws.choice(_JOURNAL_HEADS)} {draws.choice(_METHODS)}",
        f"{draws.choice(_METHODS)} {draws.choice(('Review', 'Letters', 'Quarterly', 'and Computation'))}",
        f"{draws.choice(_METHODS)} and {_topic(draws).title()}",
        FIRMS.draw(draws),
    )
    cite.add("journal", draws.choice(names) + draws.choice((" ,", "", " :", cite.end)))


def _editor(cite: Citation) -> None:
    draws = cite.draws
    if draws.chance(0.25):
        opening, closing = draws.choice(
            (("In", ", editors ,"), ("In", "( eds . ) ,"), ("", ", editor ,"), ("edited by", ","))
        )
        cite.add("editor", f"{opening} {_people(draws, draws.between(0, 3))} {closing}")


def _booktitle(cite: Citation) -> None:
    draws = cite.draws
    head = draws.choice(("In Proceedings of the", "In Proc .", "Proc . of the", "In", "In", ""))
    ordinal = draws.choice(("", f" {draws.between(4, 29)}th", " International", " Annual"))
    names = (
        f"{head}{ordinal} {draws.choice(_MEETINGS)} {_topic(draws).title()}",
        f"{head} {draws.choice(_METHODS)} and {_topic(draws).title()}",
        f"{head} {FIRMS.draw(draws).upper()}-{draws.between(70, 99)}",
        f"{head} {_topic(draws).title()}",
    )
    cite.add("booktitle", draws.choice(names) + cite.end)


def _tech(cite: Citation) -> None:
    draws = cite.draws
    kind = draws.choice(("Technical Report", "Tech . Rep .", "PhD thesis", "Research memo", "Memo"))
    number = f" {draws.choice('ABCT')}{draws.choice('RMS')}-{draws.between(10, 999)}" if kind[0] != "P" else ""
    cite.add("tech", f"{kind}{number}{cite.end}")


def _institution(cite: Citation) -> None:
    form = cite.draws.choice(
        ("{} University", "University of {}", "Dept . of Computing , {} College", "{} Laboratories", "{}")
    )
    cite.add("institution", form.format(PLACE_NAMES.draw(cite.draws)) + cite.end)


def _in_order(cite: Citation, *fields: Callable[[Citation], None]) -> None:
    """Writes the fields in the given order; sometimes two neighbours are exchanged."""
    order = list(fields)
    if cite.draws.chance(0.25):
        at = cite.draws.between(0, len(order) - 2)
        order[at], order[at + 1] = order[at + 1], order[at]
    for field in order:
        field(cite)


def _article(cite: Citation) -> None:
    _journal_name(cite)
    _in_order(cite, _volume, _pages, _date)


def _paper(cite: Citation) -> None:
    _in_order(cite, _editor, _booktitle)
    _in_order(cite, _pages, _location, _publisher, _date)


def _report(cite: Citation) -> None:
    _in_order(cite, _tech, _institution, _location, _date)


def _book(cite: Citation) -> None:
    _in_order(cite, _volume, _location, _publisher, _date)


_VENUES = (_article, _article, _article, _paper, _paper, _paper, _report, _book)
