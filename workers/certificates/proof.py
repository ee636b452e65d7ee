"""A certificate's proof as it is kept: one list of integers, read strictly and from left to right.

    node   = stages stage* branch
    stage  = rows (row multiplier)* groups group*
    group  = table key members (start end type price)* roles box
    box    = −1 charge*  |  role count box box          (at most ``count`` slots have the role; more)
    branch = −1  |  token label node node               (the token has another label; it has this one)

Multipliers, prices and charges are in units of 2⁻⁴⁰ nats; ``type`` is −1 for an outside label. A box has as many
charges as its group has ``roles``. Everything read takes a number at least, so reading ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schemas.errors import InputError

MOST = 1 << 48
"""Units; the largest price or multiplier (256 nats)."""
MOST_CHARGED = 1 << 58
MOST_ROLES = 12
NUMBERS = 1 << 31
LEAF = -1


class CertificateError(InputError):
    """A certificate that proves nothing: says where it is malformed, or by how much it fails."""


class Item(NamedTuple):
    """A span of a type, or (type −1) an outside label at a token; the end is exclusive."""

    start: int
    end: int
    type: int


class ReadGroup(NamedTuple):
    """Prices of items in a group, the number of their roles, and its boxes, as they stand in the proof."""

    table: int
    key: int
    prices: dict[Item, int]
    roles: int
    boxes: Sequence[int]


class Reader:
    """Takes a proof's integers one by one; all methods raise `CertificateError` where they do not fit."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers, self.at = numbers, 0

    def take(self, low: int, high: int) -> int:
        """The next integer, from ``low`` to ``high``."""
        if self.at >= len(self.numbers):
            raise CertificateError(f"the proof ends after {self.at} numbers")
        value = int(self.numbers[self.at])
        self.at += 1
        if not low <= value <= high:
            raise CertificateError(f"number {self.at} of the proof is {value}, not one of {low} to {high}")
        return value

    def count(self) -> int:
        """How many of something follow."""
        return self.take(0, len(self.numbers))

    def group(self) -> ReadGroup:
        """The next group."""
        table, key = self.take(0, NUMBERS), self.take(0, NUMBERS)
        prices: dict[Item, int] = {}
        for _ in range(self.count()):
            item = Item(self.take(0, NUMBERS), self.take(1, NUMBERS), self.take(-1, NUMBERS))
            if item in prices:
                raise CertificateError(f"number {self.at}: {tuple(item)} is there twice")
            prices[item] = self.take(0, MOST)
        roles, first, waiting = self.take(0, MOST_ROLES), self.at, 1
        while waiting:
            if self.take(LEAF, roles - 1) == LEAF:
                self.charges(roles)
                waiting -= 1
            else:
                self.take(0, NUMBERS)
                waiting += 1
        return ReadGroup(table, key, prices, roles, self.numbers[first : self.at])

    def charges(self, roles: int) -> list[int]:
        """The charges of a box, one a role."""
        return [self.take(-MOST_CHARGED, MOST_CHARGED) for _ in range(roles)]
