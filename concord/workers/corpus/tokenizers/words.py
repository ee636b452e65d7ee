"""Concord's default tokenizer: rules for raw text in any script, without any other package.

Texts are cut at white space into chunks, and each distinct chunk is cut into tokens once, by one regular expression. It
reads a sketch of the chunk, of equal length, in which one character stands for a whole class of Unicode; so the rules
are about classes, and the text itself is not changed. Cuts of a chunk are kept, and applied to the texts by arrays.

    whole    It costs 1,000.50; 3:30; 1996-08-22; 6-3; well-known; U.S.-based; Mr.; J.; p.m.; AT&T; node.js; R2-D2
    cut      do|n't  Ada|'s  we|'ll  dogs|'  5|km  3|pm  $|10  US$|5  7|%  and|/|or  a|=|b  one|—|two  wait|...
    script   a Chinese character, a kana, a letter of Thai with its marks: each by itself, as there are no blanks;
             words in katakana, Hangul and all other scripts as a whole

's, n't and the like are cut off in English, l' and d' in languages that have them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.workers.corpus.tokenizers.tokenizer import RUN_LIMIT, Cut, Cuts

VERSION = "1"
"""Version of the rules. It changes whenever a text may be cut differently; models state the one they were made with."""

CHUNK_LIMIT = 200_000
"""Number of distinct chunks after which all are forgotten, so that memory stays flat."""

SPACE = np.array([chr(point).isspace() for point in range(0x3001)])
"""(C,) mask of the code points that are white space; none from C on is."""

# The sketch: what a character stands for. ASCII stands for itself.

UPPERCASE, LOWERCASE, MARK, JOINER = "À", "à", "\u0300", "\u200d"
HAN, HIRAGANA, KATAKANA, UNSPACED, PICTURE, FLAG, OTHER = "一", "あ", "ア", "ก", "☺", "🇦", "§"
ITSELF = "°·…"
APOSTROPHES, HYPHENS = "’ʼ＇", "‐‑−"
ZERO_WIDTH_SPACE = "\u200b"

CLASSES = {
    **dict.fromkeys(("Lu", "Lt"), UPPERCASE),
    **dict.fromkeys(("Ll", "Lm", "Lo"), LOWERCASE),
    **dict.fromkeys(("Mn", "Mc", "Me", "Cf"), MARK),
    **dict.fromkeys(("Nd", "Nl", "No"), "0"),
    **dict.fromkeys(("Sm", "So"), PICTURE),
    "Sc": "$",
    "Pd": "—",
    "Pc": "_",
}
"""By Unicode's category; all others are `OTHER`."""

SCRIPTS = (
    (0x0E00, 0x0EFF, UNSPACED),  # Thai, Lao
    (0x0F00, 0x0FFF, LOWERCASE),  # Tibetan: its marks between syllables are punctuation
    (0x1000, 0x109F, UNSPACED),  # Burmese
    (0x1780, 0x17FF, UNSPACED),  # Khmer
    (0x3005, 0x3007, HAN),
    (0x3041, 0x309F, HIRAGANA),
    (0x30A0, 0x30FF, KATAKANA),
    (0x31F0, 0x31FF, KATAKANA),
    (0x3400, 0x4DBF, HAN),
    (0x4E00, 0x9FFF, HAN),
    (0xF900, 0xFAFF, HAN),
    (0xFF66, 0xFF9F, KATAKANA),
    (0x1F1E6, 0x1F1FF, FLAG),
    (0x1F3FB, 0x1F3FF, MARK),  # colours of skin
    (0x20000, 0x3FFFF, HAN),
)
"""Ranges (first and last code point) of letters and pictures that are cut otherwise than their category says."""


def sketched(character: str) -> str:
    """The class of a character that is not ASCII."""
    if character in ITSELF or character == JOINER:
        return character
    if character in APOSTROPHES:
        return "'"
    if character in HYPHENS:
        return "-"
    category = unicodedata.category(character)
    if character == ZERO_WIDTH_SPACE:
        return OTHER
    if category in ("Lo", "Lm", "So", "Sk", "Nl"):
        point = ord(character)
        for first, last, kind in SCRIPTS:
            if first <= point <= last:
                return kind
    return CLASSES.get(category, OTHER)


class _Sketch(dict[int, str]):
    """Table for `str.translate`: the sketch of each character. Nothing is kept, so that no text can fill it."""

    def __missing__(self, point: int) -> str:
        return chr(point) if point < 0x80 else sketched(chr(point))


SKETCH = _Sketch()

# The rules, on sketches.

LETTER = f"A-Za-z{UPPERCASE}{LOWERCASE}"
CAPITAL = f"A-Z{UPPERCASE}"
SMALL = f"a-z{LOWERCASE}"
TAIL = f"{MARK}{JOINER}"
INNER = f"{LETTER}0-9{KATAKANA}{TAIL}"
"""Characters of words."""
ALONE = rf"(?<![{INNER}_])"
ENDS = rf"(?![{INNER}_])"

TITLES = (
    "Adm|Brig|Capt|Cmdr|Col|Cpl|Dr|Gen|Gov|Hon|Lt|Maj|Messrs|Mr|Mrs|Ms|Mx|Pres|Prof|Rep|Rev|Sen|Sgt|Supt|St|Ste|"
    "Dra|Herr|Hr|Fr|Sra|Srta|Mlle|Ing|Dipl|dhr|mevr|Jr|Sr|Esq"
)
NAMES = (
    "Bros|Co|Corp|Inc|Ltd|Plc|Univ|Dept|Ave|Blvd|Mt|Ft|Rd|Jan|Feb|Apr|Aug|Sept|Sep|Oct|Nov|Dec|"
    "Ariz|Calif|Colo|Conn|Fla|Mich|Minn|Nev|Okla|Tenn|Tex|Wis"
)
OTHERS = "al|approx|bzw|ca|cf|ed|eds|esp|etc|Fig|Figs|fig|figs|resp|usw|v|viz|vol|Vol|vs|bijv|enz|pp"
DEGREES = r"Ph\.D|[BM]\.Sc|[BM]\.Ed|[BM]\.Eng|D\.Phil|Litt\.D"
UNITS = (
    "[km]?Hz|GHz|[KMGT]B|kB|bps|°[CF]?|[dcmkn]?m|[mk]?g|[mcd]?l|mL|dL|mmol|mol|ha|h|mph|kph|[mk]W|kWh|cc|cm²|"
    "lbs?|oz|ft|in|hrs?|min|sec|ms|bn|[ap]m|[AP]M"
)

WEB = r"(?:(?:https?|ftp)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?'()\[\]{}…]"
MAIL = rf"[{INNER}_.+-]+@[{INNER}-]+(?:\.[{INNER}-]+)+"
HASHTAG = rf"{ALONE}(?:@[{INNER}_]+|\#[{LETTER}][{INNER}_]*)"
SMILEY = rf"{ALONE}[:;=]-?[)(DPp]{ENDS}"
PICTURES = rf"{FLAG}{FLAG}?|{PICTURE}{MARK}*(?:{JOINER}{PICTURE}{MARK}*)*"
DOLLARS = rf"{ALONE}[A-Z]{{1,3}}\$"
SIGNED = rf"(?<![{INNER}_)\]}}%])[+-]?\.?(?=[0-9])"
AMOUNT = rf"(?:{SIGNED})[0-9]+(?:[.,:][0-9]+)*(?=(?:{UNITS}|[ap]\.m\.){ENDS})"
SHORT = (
    rf"{ALONE}(?:(?:{TITLES}|{NAMES}|{OTHERS}|{DEGREES})\.(?!\.)|(?:[{LETTER}][{TAIL}]*\.)+[{LETTER}](?![{INNER}_.])|"
    rf"(?:[{LETTER}][{TAIL}]*\.){{2,}}|[{CAPITAL}][{TAIL}]*\.(?!\.))"
)
UNITED = "|".join(
    (
        rf"-(?=[{INNER}])",
        r"(?<=[0-9])[.,:/](?=[0-9])",
        rf"\.(?=[{SMALL}])",
        rf"(?<=[{LETTER}])\.(?=[0-9])",
        rf"(?<=[{CAPITAL}])&(?=[{CAPITAL}])",
        rf"_+(?=[{INNER}])",
        rf"·(?=[{LETTER}])",
    )
)
"""Marks that do not end a word."""

ENGLISH_END = r"(?:[sS]|[mM]|[dD]|ll|LL|re|RE|ve|VE)"
NOT = rf"[nN]'[tT]{ENDS}"
CLIPPED = {
    "en": "em|tis|twas|twere|cause|cos|bout|til|till|round|n",
    "nl": "s|t|n|k|m|r",
}
"""Words that are written with an apostrophe before them, by language."""
ELIDED = {
    "fr": "[cdjlmnstCDJLMNST]|[qQ]u|[jJ]usqu|[lL]orsqu|[pP]uisqu|[qQ]uoiqu",
    "ca": "[dlmnstDLMNST]",
    "it": "[cdlmnstvCDLMNSTV]|[dD]ell|[nN]ell|[aA]ll|[dD]all|[sS]ull|[uU]n|[qQ]uest|[qQ]uell|[cC]oll",
}
"""Words that lose their last vowel, with the apostrophe, before the next one, by language."""

RUNS = r"\.{2,}|-{2,}|''|``|_+|—+|…+|([=*~\#<>|+^\\])\1*"


def _rules(language: str) -> re.Pattern[str]:
    """Regular expression of all tokens of a language; where several rules match, the first one applies."""
    english = language == "en"
    inner = (rf"(?!'{ENGLISH_END}{ENDS})" if english else "") + rf"'(?=[{LETTER}])"
    one = rf"(?!{NOT})[{INNER}]" if english else rf"[{INNER}]"
    rest = rf"(?:{one}|{UNITED}|{inner})*"
    own = [NOT, rf"'{ENGLISH_END}{ENDS}", rf"{ALONE}[cC]an(?=not{ENDS})"] if english else []
    clipped, elided = CLIPPED.get(language), ELIDED.get(language)
    own += [rf"{ALONE}'(?:{clipped}){ENDS}"] if clipped else []
    own += [rf"{ALONE}(?:{elided})'(?=[{LETTER}])"] if elided else []
    words = [
        *(WEB, MAIL, HASHTAG, SMILEY, DOLLARS, AMOUNT, r"(?<=[0-9])[ap]\.m\."),
        rf"{SHORT}(?:-(?=[{INNER}]){rest})?",
        *own,
        rf"{ALONE}'[0-9]0s{ENDS}",
        rf"[{HAN}{HIRAGANA}{UNSPACED}][{TAIL}]*|{KATAKANA}[{KATAKANA}{TAIL}]*",
        rf"(?:{SIGNED})?[{INNER}]{rest}",
        *(rf"°[CF]{ENDS}", PICTURES, RUNS, r"\S"),
    ]
    return re.compile("|".join(f"(?:{rule})" for rule in words))


class Words:
    """Tokenizer of one language, see `Cut`. Its cache of chunks never changes a token."""

    def __init__(self, language: str) -> None:
        self._pattern = _rules(language)
        self._forget()

    def _forget(self) -> None:
        self._chunks = _StringNumbers()
        self._words = _StringNumbers()
        self._first = np.zeros(1, np.int64)
        self._word, self._left, self._right = (np.zeros(0, np.int32) for _ in range(3))

    def __call__(self, texts: Sequence[str]) -> Cuts:
        """See `Cut`."""
        if len(self._chunks) > CHUNK_LIMIT:
            self._forget()
        whole = "\n".join(texts)
        begin, end = _chunk_bounds(whole)
        long = len(begin) > 0 and int((end - begin).max()) > RUN_LIMIT
        if long:
            begin, end = _shorter(begin, end)
        chunks = [whole[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)] if long else whole.split()
        before = len(self._chunks)
        ids = np.fromiter(map(self._chunks.__getitem__, chunks), np.int64, len(chunks))
        if len(self._chunks) > before:
            self._learn(self._chunks.names[before:])
        text_begin = np.array(list(accumulate((len(text) + 1 for text in texts), initial=0)), np.int64)
        counts = self._first[ids + 1] - self._first[ids]
        tokens_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        owner = np.searchsorted(begin, text_begin)
        at = np.repeat(self._first[ids] - tokens_before[:-1], counts) + np.arange(tokens_before[-1])
        shift = begin - np.repeat(text_begin[:-1], np.diff(owner))
        place = np.repeat(shift, counts).astype(np.int32)
        tokens = self._column(self._word[at])
        return Cuts(tokens, tokens_before[owner], place + self._left[at], place + self._right[at])

    def _learn(self, chunks: Sequence[str]) -> None:
        """Cuts chunks that were never seen."""
        words, lefts, rights, counts = list[int](), list[int](), list[int](), list[int]()
        word_of, cut = self._words.__getitem__, self._pattern.finditer
        for chunk in chunks:
            before = len(words)
            for match in cut(chunk.translate(SKETCH)):
                left, right = match.span()
                words.append(word_of(chunk[left:right]))
                lefts.append(left)
                rights.append(right)
            counts.append(len(words) - before)
        self._first = np.concatenate([self._first, self._first[-1] + np.cumsum(counts)])
        ints = partial(np.array, dtype=np.int32)
        self._word = np.concatenate([self._word, ints(words)])
        self._left = np.concatenate([self._left, ints(lefts)])
        self._right = np.concatenate([self._right, ints(rights)])

    def _column(self, words: NDArray[np.int32]) -> Column:
        """Words (N,), given by their numbers here, as a column; its values are in the order of the texts."""
        names = self._words.names
        first = np.full(len(names), len(words), np.int64)
        first[words[::-1]] = np.arange(len(words))[::-1]
        used = np.flatnonzero(first < len(words))
        used = used[np.argsort(first[used])]
        code = np.zeros(len(names), np.int32)
        code[used] = np.arange(len(used))
        return Column(code[words], [names[i] for i in used.tolist()])


class _StringNumbers(dict[str, int]):
    """Numbers of strings, given in the order in which they are first asked for; ``names`` has the strings by number."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, chunk: str) -> int:
        number = self[chunk] = len(self.names)
        self.names.append(chunk)
        return number


def _chunk_bounds(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and end character of each chunk between white space, as `str.split` finds them."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    black = np.concatenate([[False], ~SPACE[np.minimum(points, len(SPACE) - 1)] | (points >= len(SPACE)), [False]])
    bounds = np.flatnonzero(black[1:] != black[:-1])
    return bounds[::2], bounds[1::2]


def _shorter(begin: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chunks in pieces of at most `RUN_LIMIT` characters."""
    pieces = -(-(end - begin) // RUN_LIMIT)
    within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    left = np.repeat(begin, pieces) + within * RUN_LIMIT
    return left, np.minimum(left + RUN_LIMIT, np.repeat(end, pieces))


def cutter(language: str) -> Cut:
    """Tokenizer of a language; every language has rules."""
    return Words(language)
