"""Synthetic news: names are introduced in telling contexts, which reveal their type, and recur in blind ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from concord.schemas.document import Document
from concord.workers.synthesis.names import COUNTRIES, FIRMS, GIVEN, PLACE_NAMES, SURNAMES, Draws, adjective
from concord.workers.synthesis.text import (
    BLIND,
    BLIND_LISTS,
    BLIND_PAIRS,
    HALF,
    LEXICON,
    PLAIN_SENTENCES,
    TAG_OF,
    TELLING,
    WORD_TAGS,
)

Phrase = tuple[str, ...]

_FIRM_SUFFIXES = ("Corp", "Inc", "Ltd", "Group", "Holdings", "Bank", "Motors", "Airlines", "Steel", "Industries")
_BODY_ENDINGS = (("National", "Union"), ("Trade", "Council"), ("Workers", "Party"), ("Liberation", "Front"))
_CUP_ENDINGS = ("Cup", "Open", "Prize", "Accord", "Treaty", "Festival")
_PLACE_OPENINGS = ("New", "Port", "North", "South", "San", "Lake", "East")
_CLUB_ENDINGS = ("United", "City", "Rovers", "Athletic")
_AFTER_INITIALS = (("said", "so", "."), ("was", "founded", "last", "year", "."), ("has", "no", "comment", "."))
# Tuned so that a linear chain finds about nine names in ten, and most others need the document as a whole.
_INTRODUCED = 0.93
_RARITY = 5.0
_NAMESAKES = {"TEAM": "LOC", "ORG": "PER"}
_SKIES = ("SUNNY", "CLOUDY", "RAIN", "FOG", "SHOWERS", "SNOW")
_OPENING_PUNCTUATION = frozenset('"(')


class Name(NamedTuple):
    """An entity of a story.

    - ``type``: its entity type.
    - ``role``: key of the patterns that introduce it.
    - ``full``: words of its first mention.
    - ``short``: words of later mentions.
    """

    type: str
    role: str
    full: Phrase
    short: Phrase


class Mention(NamedTuple):
    """A name in a sentence: its entity type and its words."""

    type: str
    words: Phrase


class Story:
    """One document while its sentences are written: words, labels and part-of-speech tags."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.tokens: list[list[str]] = []
        self.labels: list[list[str]] = []
        self.tags: list[list[str]] = []

    def say(self, pattern: str, *mentions: Mention) -> None:
        """Adds a sentence; {X}, {Y} and {Z} in the pattern stand for the mentions, in order."""
        words: list[str] = []
        labels: list[str] = []
        tags: list[str] = []
        for kind, literal, literal_tags in _compiled(pattern):
            if kind == "":
                words += literal
                tags += literal_tags
                labels += _outside(len(literal))
            elif kind in "XYZ":
                self._mention(mentions["XYZ".index(kind)], words, labels, tags)
            else:
                drawn = _drawn_words(kind, self.draws)
                if words and words[-1] == "a" and drawn[0][0] in "aeiou":
                    words[-1] = "an"
                words += drawn
                tags += [WORD_TAGS[kind]] * len(drawn)
                labels += _outside(len(drawn))
        first = 1 if words[0] in _OPENING_PUNCTUATION else 0
        if words[first][0].islower():
            words[first] = words[first].capitalize()
        self._add(words, labels, tags)

    def row(self, *cells: Mention | str) -> None:
        """Adds a sentence of cells, unchanged, such as a line of a table; a plain cell is a word or a number."""
        words: list[str] = []
        labels: list[str] = []
        tags: list[str] = []
        for cell in cells:
            if isinstance(cell, Mention):
                self._mention(cell, words, labels, tags)
            else:
                words.append(cell)
                labels.append("O")
                tags.append("NUM" if cell[0].isdigit() else TAG_OF.get(cell, "NOUN"))
        self._add(words, labels, tags)

    def document(self, doc_id: str) -> Document:
        """All sentences as a document with gold labels and a ``pos`` column."""
        return Document.build(doc_id, self.tokens, labels=self.labels, pos=self.tags)

    def _mention(self, mention: Mention, words: list[str], labels: list[str], tags: list[str]) -> None:
        count = len(mention.words)
        words += mention.words
        labels.append("B-" + mention.type)
        labels += ["I-" + mention.type] * (count - 1)
        tags += ["PROPN"] * count

    def _add(self, words: list[str], labels: list[str], tags: list[str]) -> None:
        self.tokens.append(words)
        self.labels.append(labels)
        self.tags.append(tags)


@cache
def _compiled(pattern: str) -> tuple[tuple[str, Phrase, Phrase], ...]:
    """Parts of a pattern: ('', words, tags) for literal words, otherwise the letter of a mention or a word list."""
    parts: list[tuple[str, Phrase, Phrase]] = []
    literal: list[str] = []
    for piece in [*pattern.split(), "<>"]:
        slot = piece[1:-1] if piece[0] in "{<" else None
        if slot is None:
            literal.append(piece)
            continue
        if literal:
            parts.append(("", tuple(literal), tuple(TAG_OF.get(w, "NOUN") for w in literal)))
            literal = []
        if slot:
            parts.append((slot, (), ()))
    return tuple(parts)


@cache
def _outside(count: int) -> Phrase:
    return ("O",) * count


def _number(draws: Draws) -> str:
    whole = int(2.0 * 5000.0 ** draws.uniform())
    if draws.chance(0.15):
        return f"{whole % 100}.{draws.between(1, 9)}"
    return f"{whole:,}" if whole > 2100 else str(whole)


def _win(draws: Draws) -> tuple[int, int]:
    goals = draws.between(0, 3)
    return goals + draws.between(1, 3), goals


_NUMBERS: dict[str, Callable[[Draws], str]] = {
    "num": _number,
    "few": lambda draws: str(2 + int(38 * draws.uniform() ** 2)),
    "age": lambda draws: str(draws.between(17, 91)),
    "win": lambda draws: "-".join(map(str, _win(draws))),
    "draw": lambda draws: "-".join([str(draws.between(0, 4))] * 2),
    "loss": lambda draws: "-".join(map(str, reversed(_win(draws)))),
}


def _drawn_words(kind: str, draws: Draws) -> Phrase:
    if kind in _NUMBERS:
        return (_NUMBERS[kind](draws),)
    return draws.common(LEXICON[kind])


def person(draws: Draws) -> Name:
    """A person: first with given name and surname, later with the surname alone."""
    surname = SURNAMES.draw(draws)
    return Name("PER", "PER", (GIVEN.draw(draws), surname), (surname,))


def city(draws: Draws) -> Name:
    """A town or city."""
    words: Phrase = (PLACE_NAMES.draw(draws),)
    if draws.chance(0.12):
        words = (draws.choice(_PLACE_OPENINGS), *words)
    return Name("LOC", "LOC", words, words)


def country(draws: Draws) -> Name:
    """A country; there are fewer countries than cities."""
    words = (COUNTRIES.draw(draws),)
    return Name("LOC", "LOC", words, words)


def firm(draws: Draws) -> Name:
    """A company, later called by its first word; some are named after a person or a place."""
    stock = draws.choice((FIRMS, FIRMS, SURNAMES, PLACE_NAMES))
    stem = stock.draw(draws)
    suffix = ("&", "Sons") if draws.chance(0.08) else (draws.choice(_FIRM_SUFFIXES),)
    return Name("ORG", "ORG", (stem, *suffix), (stem,))


def body(draws: Draws) -> Name:
    """A party or an institution of a place, later called by its initials."""
    words = (PLACE_NAMES.draw(draws), *draws.choice(_BODY_ENDINGS))
    return Name("ORG", "ORG", words, ("".join(w[0] for w in words),))


def team(draws: Draws) -> Name:
    """A sports club named after its city; later, and often from the start, called by the city's name alone."""
    place = PLACE_NAMES.draw(draws)
    return Name("ORG", "TEAM", (place, draws.choice(_CLUB_ENDINGS)) if draws.chance(0.3) else (place,), (place,))


def work(draws: Draws) -> Name:
    """A film, a ship, a horse or the like."""
    words = (draws.choice((FIRMS, PLACE_NAMES, SURNAMES)).draw(draws),)
    return Name("MISC", "WORK", words, words)


def event(draws: Draws) -> Name:
    """A cup or a treaty, named after a place."""
    words = (PLACE_NAMES.draw(draws), draws.choice(_CUP_ENDINGS))
    return Name("MISC", "EVENT", words, words)


def nationality(draws: Draws) -> Name:
    """The adjective of a country."""
    words = (adjective(COUNTRIES.draw(draws)),)
    return Name("MISC", "NATION", words, words)


_CASTS: dict[str, tuple[tuple[Callable[[Draws], Name], float], ...]] = {
    "politics": ((person, 1.0), (person, 0.8), (country, 0.9), (city, 0.8), (body, 0.7), (nationality, 0.6)),
    "business": ((firm, 1.0), (firm, 0.9), (person, 0.7), (city, 0.4), (nationality, 0.3), (work, 0.3)),
    "region": ((city, 1.0), (city, 0.8), (person, 0.6), (body, 0.3), (work, 0.3), (country, 0.4)),
    "culture": ((person, 1.0), (work, 0.9), (person, 0.5), (event, 0.5), (city, 0.6), (firm, 0.3)),
    "sport": ((team, 1.0), (team, 1.0), (team, 0.6), (person, 1.0), (person, 0.7), (event, 0.5), (country, 0.3)),
}
_STORIES = ("politics", "politics", "business", "business", "region", "culture", "sport", "sport", "table", "table")


def news(draws: Draws, doc_id: str) -> Document:
    """One news-like document of some 30 to 400 tokens with PER, LOC, ORG and MISC in BIO."""
    story = Story(draws)
    kind = draws.choice(_STORIES)
    if kind == "table":
        _table(story)
    else:
        _report(story, kind)
    return story.document(doc_id)


def _report(story: Story, kind: str) -> None:
    draws = story.draws
    cast = [make(draws) for make, share in _CASTS[kind] if draws.chance(share)]
    if draws.chance(0.5):
        story.row(Mention("LOC", tuple(w.upper() for w in city(draws).full)), _day(draws))
    blind = [Mention(n.type, n.short) for n in cast if n.role != "NATION" for _ in range(_recurrences(draws))]
    blind = draws.shuffled(blind)
    early = int(draws.uniform() * 2.2)
    _mention_blindly(story, blind[:early])
    for name in draws.shuffled(cast):
        if draws.chance(_INTRODUCED):
            _introduce(story, name, cast)
        if draws.chance(0.45):
            story.say(draws.choice(PLAIN_SENTENCES))
    _mention_blindly(story, blind[early:])
    for _ in range(draws.between(1, 5)):
        story.say(draws.choice(PLAIN_SENTENCES))


def _day(draws: Draws) -> str:
    return f"{draws.between(1990, 2025)}-{draws.between(1, 12):02d}-{draws.between(1, 28):02d}"


def _recurrences(draws: Draws) -> int:
    """Number of blind mentions of a name: mostly 0 or 1, at most 5."""
    return int(5.99 * draws.uniform() ** _RARITY)


def _introduce(story: Story, name: Name, cast: Sequence[Name]) -> None:
    """Adds the sentences that reveal, or half reveal, the type of a name."""
    draws = story.draws
    full, short = Mention(name.type, name.full), Mention(name.type, name.short)
    rivals = [Mention(n.type, n.short) for n in cast if n.role == "TEAM" and n is not name]
    _tell(story, name.role, full, rivals)
    if name.short[0] not in name.full:
        _tell_initials(story, full, short)
    if draws.chance(0.7):
        _tell(story, name.role, short, rivals)
    if draws.chance(0.4):
        _tell(story, name.role, short, rivals)
    if name.role != "NATION" and draws.chance(0.3):
        story.say(draws.choice(HALF[name.type]), short)
    # The city of a club, the founder of a firm: the same words with another type, as in real news.
    namesake = _NAMESAKES.get(name.role)
    if namesake is not None and name.short[0] in name.full and draws.chance(0.15):
        _tell(story, namesake, Mention(namesake, name.short), ())


def _tell(story: Story, role: str, mention: Mention, rivals: Sequence[Mention]) -> None:
    draws = story.draws
    pattern = draws.choice(TELLING[role])
    if "{Y}" not in pattern:
        story.say(pattern, mention)
        return
    stranger = team(draws)
    story.say(pattern, mention, draws.choice(rivals) if rivals else Mention(stranger.type, stranger.short))


def _tell_initials(story: Story, full: Mention, short: Mention) -> None:
    story.row(full, "(", short, ")", *story.draws.choice(_AFTER_INITIALS))


def _mention_blindly(story: Story, mentions: Sequence[Mention]) -> None:
    """Adds sentences with one to three different names that reveal nothing about their types."""
    draws = story.draws
    at = 0
    while at < len(mentions):
        size = draws.choice((1, 1, 1, 2, 2, 3))
        group = list(dict.fromkeys(mentions[at : at + size]))
        story.say(draws.choice((BLIND, BLIND_PAIRS, BLIND_LISTS)[len(group) - 1]), *group)
        at += size
        if draws.chance(0.25):
            story.say(draws.choice(PLAIN_SENTENCES))


def _table(story: Story) -> None:
    """Adds results and standings in capitals, or a weather table that looks much the same but lists places."""
    draws = story.draws
    weather = draws.chance(0.3)
    kind = "LOC" if weather else "ORG"
    places = [Mention(kind, (PLACE_NAMES.draw(draws).upper(),)) for _ in range(draws.between(6, 12))]
    day = draws.choice(LEXICON["day"])[0].upper()
    if weather:
        story.row("WEATHER", "ON", day)
        for place in places:
            if draws.chance(0.6):
                story.say(draws.choice(("FLOODS IN {X}", "ROADS TO {X} CLOSED", "AIRPORT OF {X} OPEN")), place)
    else:
        story.row("FIRST", "DIVISION", "RESULTS", "ON", day)
        for home, away in pairwise(draws.shuffled(places)):
            _result(story, home, away)
    for place in draws.shuffled(places):
        sky = (draws.choice(_SKIES),) if weather and draws.chance(0.6) else ()
        story.row(place, *sky, *(str(draws.between(0, 38)) for _ in range(draws.between(2, 5))))
    for place in draws.shuffled(places)[: draws.between(0, 3)]:
        story.say(draws.choice(("SEE ALSO {X}", "{X} : NOTE", "MORE ON {X} LATER")), place)


def _result(story: Story, home: Mention, away: Mention) -> None:
    draws = story.draws
    if draws.chance(0.5):
        story.row(home, str(draws.between(0, 5)), away, str(draws.between(0, 5)))
    else:
        more, fewer = _win(draws)
        story.row(home, "BEAT", away, str(more), "-", str(fewer))
