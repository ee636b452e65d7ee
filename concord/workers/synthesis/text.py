"""Sentence patterns and words of synthetic news; patterns are grouped by how much they reveal of a name's type.

In a pattern, ``{X}``, ``{Y}`` and ``{Z}`` are mentions of names, and ``<noun>`` is a random word of that list in
`LEXICON`. Patterns are split at blanks. They start without a capital; the writer adds it.
"""

from __future__ import annotations

from concord.workers.synthesis.names import words

TELLING: dict[str, tuple[str, ...]] = {
    "PER": (
        "<title> {X} said on <day> that the <noun> would <verb> in <month> .",
        "<title> {X} , <age> , resigned on <day> .",
        "the <noun> was opened by <title> {X} .",
        "{X} , <age> , was born to a family of <people> .",
        "a lawyer for {X} told the court that he was innocent .",
        "{X} told reporters she would not <act> the <noun> .",
        "police arrested {X} at his home on <day> .",
        "{X} , a former <title> , has written <few> books on the <noun> .",
        "doctors said that {X} was in <adj> condition .",
        '" we must <act> the <noun> , " {X} told a <adj> crowd .',
        "mr {X} denied it .",
        "mrs {X} called the <noun> <adj> .",
        "the family of {X} sold the <noun> in <month> .",
        "as <title> , {X} earned <num> a year .",
    ),
    "LOC": (
        "in the city of {X} <num> schools were closed on <day> .",
        "residents of {X} fled when the <noun> began to <verb> .",
        "the <noun> lies <few> km north of {X} .",
        "<num> people died in {X} after a <adj> <noun> .",
        "heavy rain fell across {X} on <day> .",
        "the road to {X} was blocked by <people> .",
        "trains between the port of {X} and the coast stopped in <month> .",
        "the river flooded parts of {X} .",
        "he flew to {X} on <day> for talks about the <noun> .",
        "the population of {X} fell to <num> last year .",
        "an earthquake shook {X} early on <day> .",
        "exports from {X} rose <few> percent in <month> .",
        "the border with {X} was closed after the <noun> .",
    ),
    "ORG": (
        "shares of {X} rose <few> percent on <day> .",
        "{X} reported a net profit of <num> million in <month> .",
        "the board of {X} agreed to <act> the <noun> .",
        "{X} , a maker of <goods> , will cut <num> jobs .",
        "{X} shares fell after the <noun> .",
        "a merger with {X} would <act> the <noun> , analysts said .",
        "workers at {X} went on strike over the <noun> .",
        "{X} said its earnings would <verb> this year .",
        "he joined {X} as <title> in <month> .",
        "creditors of {X} met on <day> .",
        "the <adj> subsidiary of {X} makes <goods> .",
    ),
    "TEAM": (
        "{X} beat {Y} <win> in the first division on <day> .",
        "{X} drew <draw> with {Y} at home .",
        "{X} signed the defender for <num> million .",
        "the {X} coach praised his players after the match .",
        "{X} lead the league by <few> points from {Y} .",
        "{X} fans jeered when the side lost <loss> .",
        "{X} lost at home to {Y} , <loss> .",
        "a late goal gave {X} a <adj> win over {Y} .",
        "{X} are without their injured captain .",
    ),
    "WORK": (
        "the film {X} opened in <month> to <adj> reviews .",
        "the tanker {X} ran aground on <day> .",
        "her novel {X} sold <num> copies .",
        "the space probe {X} sent <adj> pictures .",
        "a new version of the {X} rifle was shown on <day> .",
        "the horse {X} won by <few> lengths .",
    ),
    "EVENT": (
        "the final of the {X} is on <day> .",
        "the {X} was signed in <month> after <few> days of talks .",
        "they withdrew from the {X} .",
        "he won the {X} <few> times .",
    ),
    "NATION": (
        "<num> {X} tourists were on board .",
        "the {X} embassy said it would <act> the <noun> .",
        "{X} <goods> cost less .",
        "the {X} parliament will <act> the <noun> on <day> .",
        "a {X} <title> was among the dead .",
    ),
}

BLIND: tuple[str, ...] = (
    "{X} was mentioned again .",
    "nobody had expected this of {X} .",
    "there was no word on {X} .",
    "it was about {X} once more .",
    "much depends on {X} , observers said .",
    "the talk soon turned to {X} .",
    "earlier reports about {X} were wrong .",
    "{X} remains the open question .",
    "the same goes for {X} .",
    "then there is {X} .",
    "others pointed to {X} .",
    "for {X} it was a <adj> week .",
    "{X} did not come up at the meeting .",
    "few have forgotten {X} .",
    "{X} has changed since <month> .",
    "without {X} the <noun> cannot <verb> .",
    "the <noun> has little to do with {X} .",
    "a <adj> <noun> linked to {X} came to light .",
    "what happens to {X} is not clear .",
    "{X} may yet <verb> .",
    "critics of {X} kept silent .",
    "questions about {X} remain .",
    "this time it was {X} that had to <verb> .",
    "one <noun> named {X} as the reason .",
    "letters about {X} filled the <adj> page .",
)
BLIND_PAIRS: tuple[str, ...] = (
    "{X} and {Y} were mentioned .",
    "first {X} , then {Y} .",
    "{X} is close to {Y} , it is said .",
    "some see {X} behind it , others {Y} .",
    "not {X} but {Y} was the <noun> .",
    "after {X} comes {Y} .",
)
BLIND_LISTS: tuple[str, ...] = (
    "{X} , {Y} and {Z} .",
    "among them were {X} , {Y} and {Z} .",
    "also : {X} , {Y} , {Z} .",
)
# Half telling: the name may be a person or an organisation, or an organisation or a place.
HALF: dict[str, tuple[str, ...]] = {
    "PER": (
        "{X} said so on <day> .",
        "{X} agreed to <verb> .",
        "{X} won <num> of the votes .",
        "{X} 's <noun> was <adj> .",
    ),
    "ORG": (
        "{X} said so on <day> .",
        "{X} agreed to <verb> .",
        "<people> from {X} came .",
        "{X} 's <noun> was <adj> .",
    ),
    "LOC": (
        "{X} agreed to <verb> .",
        "<people> from {X} came .",
        "{X} 's <noun> was <adj> .",
        "{X} won <num> of the votes .",
    ),
    "MISC": ("{X} won <num> of the votes .", "{X} 's <noun> was <adj> ."),
}
PLAIN_SENTENCES: tuple[str, ...] = (
    "the <noun> was <adj> , and <num> <goods> were counted .",
    "no date was set for the <noun> .",
    "it was the <adj> <noun> in <few> years .",
    "on <day> the <people> will <verb> again .",
    "prices of <goods> rose <few> percent in <month> .",
    "a decision on the <noun> is expected in <month> .",
    "the <noun> , <adj> as it is , will <verb> .",
    '" this is a <adj> <noun> , " an official said .',
    "traders spoke of a <adj> <noun> .",
    "the government wants to <act> the <noun> by <month> .",
    "Parliament meets on <day> .",
    "in <month> the <noun> cost <num> .",
)

_WORDS: dict[str, tuple[str, str]] = {
    "title": (
        "NOUN",
        "president|prime minister|chairman|foreign minister|judge|coach|police chief|opposition leader|analyst"
        "|goalkeeper|spokeswoman|chief executive|senator|governor|mayor|economist|captain|novelist|general|colonel"
        "|ambassador|midfielder|bishop|surgeon|pianist|rebel commander|union leader|professor|sergeant|striker"
        "|deputy finance minister|chess champion|rally driver|cyclist|archaeologist|hostage negotiator",
    ),
    "noun": (
        "NOUN",
        "plan|report|vote|budget|law|bank|bridge|strike|treaty|match|harbour|factory|deal|price|crisis|accident"
        "|court|tax|dam|offer|debt|inquiry|storm|market|pipeline|tariff|quarrel|mine|ferry|rumour|schedule|loan"
        "|auction|railway|ban|ceasefire|boycott|sewer|canal|lawsuit|harvest|curfew|refinery|subsidy|verdict",
    ),
    "people": (
        "NOUN",
        "workers|farmers|players|police|miners|teachers|students|refugees|fishermen|nurses|bakers|dockers|pensioners"
        "|pilots|doctors|weavers|drivers",
    ),
    "goods": (
        "NOUN",
        "engines|cars|ships|phones|pipes|lorries|buses|pumps|shoes|bottles|turbines|tractors|tyres|cables|bricks|carpets"
        "|lamps|boilers|bicycles",
    ),
    "adj": (
        "ADJ",
        "new|small|large|old|bitter|quiet|long|grave|stable|sharp|early|rare|local|angry|mild|sudden|narrow|private"
        "|public|costly|heavy|weak|strange|joint|formal|vague|calm|rural|northern|southern|coastal|minor",
    ),
    "verb": (
        "VERB",
        "change|fall|rise|stop|continue|help|fail|return|grow|close|move|collapse|expand|resume|suffer|shrink|recover"
        "|improve|decline|matter|wait|suffice|decide|lose",
    ),
    "act": (
        "VERB",
        "approve|reject|delay|repair|finance|extend|open|close|sell|oppose|end|stop|discuss|support|block|replace"
        "|review|cancel|postpone|accept|defend",
    ),
    "day": ("PROPN", "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"),
    "month": (
        "PROPN",
        "January|February|March|April|May|June|July|August|September|October|November|December",
    ),
}
LEXICON: dict[str, tuple[tuple[str, ...], ...]] = {
    name: tuple(words(entry) for entry in words(entries, "|")) for name, (_, entries) in _WORDS.items()
}
WORD_TAGS: dict[str, str] = {name: tag for name, (tag, _) in _WORDS.items()} | dict.fromkeys(
    ("num", "few", "age", "win", "draw", "loss"), "NUM"
)

_TAGS: dict[str, str] = {
    "DET": "the a an no this some few what its their his her he's",
    "ADP": "of in on by for to with at about near across between after over from from behind among as without since",
    "PRON": "it he she they there nobody others we one them him much that",
    "CCONJ": "and but",
    "SCONJ": "when",
    "AUX": "was were would will is are may has have had must did cannot can be been",
    "ADV": "again not soon then once more north early yet also first so again less home last late silent",
    "PUNCT": '. , " ( ) : - --',
    "PART": "'s",
    "ADJ": "heavy net former injured earlier open same clear close wrong expected innocent next dead closed live",
    "VERB": "said told resigned opened arrested called sold earned fled began lies died fell blocked stopped flooded "
    "flew rose shook agreed makes met joined beat drew signed praised founded lead jeered lost gave ran sent shown won "
    "withdrew cost mentioned expected depends turned remains goes pointed come forgotten changed linked happens kept "
    "remain named filled see comes came counted set spoke wants meets denied written reported cut went played based",
    "PROPN": "Parliament",
}
TAG_OF: dict[str, str] = {word: tag for tag, text in _TAGS.items() for word in words(text)}
