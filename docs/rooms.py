"""Draws docs/images/rooms.svg: the rooms of `concord.flows`, floor by floor, and who imports whom.

An arrow that follows from others (a room that is reached through a third) is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
FLOWS = "concord.flows"
WIDTH, FLOOR, BOX, ROOM_HEIGHT = 940, 74, 118, 30
"""Of the picture, from a floor to the next, and of a box: in pixels."""

Arrows = Mapping[str, set[str]]


def main() -> None:
    """Writes the picture."""
    PICTURE.write_text(drawing())


def drawing() -> str:
    """The picture as SVG."""
    floors = floors_of_flows()
    place = dict(_places(floors))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {FLOOR * len(floors)}" '
        'font-family="sans-serif" font-size="13">',
        "  <style>.room { fill: #eef2f7; stroke: #5b6b7f; } .arrow { stroke: #8a97a6; }</style>",
        f'  <rect width="{WIDTH}" height="{FLOOR * len(floors)}" fill="#fff"/>',
    ]
    for room, others in sorted(needed(arrows_of(list(place))).items()):
        for other in sorted(others):
            (x, y), (to_x, to_y) = place[room], place[other]
            lines.append(f'  <line class="arrow" x1="{x}" y1="{y + ROOM_HEIGHT}" x2="{to_x}" y2="{to_y}"/>')
    for room, (x, y) in place.items():
        lines.append(f'  <rect class="room" x="{x - BOX // 2}" y="{y}" width="{BOX}" height="{ROOM_HEIGHT}" rx="5"/>')
        lines.append(f'  <text x="{x}" y="{y + 20}" text-anchor="middle">{room}</text>')
    return "\n".join([*lines, "</svg>", ""])


def floors_of_flows() -> list[list[str]]:
    """The floors that import-linter holds, from the top: the names of their rooms."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == [FLOWS])
    return [floor.split(" | ") for floor in layers]


def arrows_of(rooms: Sequence[str]) -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph = grimp.build_graph("concord", cache_dir=None)
    return {
        one: {
            other
            for other in rooms
            if one != other
            and graph.direct_import_exists(importer=f"{FLOWS}.{one}", imported=f"{FLOWS}.{other}", as_packages=True)
        }
        for one in rooms
    }


def needed(arrows: Arrows) -> dict[str, set[str]]:
    """The arrows without those that follow from others; there are no circles."""
    return {
        room: {
            other for other in others if not any(other in _reached(arrows, third) for third in others if third != other)
        }
        for room, others in arrows.items()
    }


def _reached(arrows: Arrows, room: str) -> set[str]:
    reached, waiting = set[str](), [room]
    while waiting:
        new = arrows[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _places(floors: Sequence[Sequence[str]]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Middle of the upper edge of each room's box."""
    for number, floor in enumerate(floors):
        for i, room in enumerate(floor):
            yield room, (WIDTH * (2 * i + 1) // (2 * len(floor)), FLOOR * number + (FLOOR - ROOM_HEIGHT) // 2)


if __name__ == "__main__":
    main()
