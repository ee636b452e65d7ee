"""Functions of features and of words as users bring them, good and bad."""

from __future__ import annotations

from typing import Any

MODULE = "tests.support.user_functions"


def words_alone(words: list[str]) -> list[list[str]]:
    return [["w=" + word.lower()] for word in words]


def with_tags(words: list[str], pos: list[str], chunk: list[str], scale: float = 1.0) -> list[dict[str, Any]]:
    del scale
    return [{"w": w.lower(), "pos": p, "chunk": c} for w, p, c in zip(words, pos, chunk, strict=True)]


def other_tags(words: list[str]) -> list[dict[str, Any]]:
    return [{"w": word.lower(), "pos": f"tag{len(word)}", "other": f"x{len(word)}"} for word in words]


def unknown(words: list[str]) -> list[list[str]]:
    return [["in_no_model"] for _ in words]


def nothing(words: list[str]) -> None:
    del words


def no_attributes(words: list[str]) -> list[list[str]]:
    return [[] for _ in words]


def one_token(words: list[str], i: int = 0) -> dict[str, Any]:
    return {"w": words[i]}


def loud(words: list[str]) -> list[list[str]]:
    print("a line of the function's own")  # noqa: T201
    return words_alone(words)


def runtime(words: list[str]) -> Any:
    raise RuntimeError("model not loaded")


def told_in_lines(words: list[str]) -> Any:
    raise OSError("no dictionary;\n    download it:\n        by this")


def missing_file(words: list[str]) -> Any:
    raise OSError("no dictionary file")


def missing_package(words: list[str]) -> Any:
    raise ImportError("no package")


def leaves(words: list[str]) -> Any:
    raise SystemExit(3)


class OwnError(Exception):
    pass


def own_error(words: list[str]) -> Any:
    raise OwnError("no such state")


def sometimes(words: list[str]) -> list[list[str]]:
    if "came" in words:
        raise RuntimeError("no came")
    return words_alone(words)


def lower(text: str) -> list[str]:
    return text.lower().split()


def joined(text: str) -> list[str]:
    return text.replace("New York", "NewYork").split()


def written_out(text: str) -> list[str]:
    return [{"st": "street", "&": "and"}.get(word, word) for word in text.lower().replace(",", "").split()]


def with_places(text: str) -> list[tuple[str, int, int]]:
    found, here = [], 0
    for word in text.split():
        start = text.index(word, here)
        here = start + len(word)
        found.append((word.upper()[::-1], start, here))
    return found


def wrong_places(text: str) -> list[tuple[str, int, int]]:
    return [("a", 3, 2), ("b", 0, len(text) + 9)]


def some_places(text: str) -> list[Any]:
    return [("a", 0, 1), text[1:]]
