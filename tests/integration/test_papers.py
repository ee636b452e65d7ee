"""All published tables on made-up corpora and real Ray, twice."""

from __future__ import annotations

import pytest

from tests.integration.conftest import World


@pytest.mark.slow
def test_every_table_runs_on_made_up_corpora_and_a_second_time_for_nothing(world: World) -> None:
    world = world.quick()
    report = world.run("papers", "all", "--quick", "--out", "papers", "--workers", "2", "--json")
    assert (report["made_up"], report["failed"]) == (True, {})
    assert {table["paper"].split()[0].strip(",") for table in report["tables"]} == {
        *("All", "Canisius", "Chang", "Fersini", "Finkel", "Stokman")
    }
    rows = [row for table in report["tables"] for row in table["rows"]]
    assert all((row["measured"] is None) == (row["why"] is not None) for row in rows)
    assert sum(row["measured"] is not None for row in rows) > 50
    page = (world.folder / "papers" / "papers.md").read_bytes()
    assert b"corpora of this page are made up" in page
    models = {path: path.stat().st_mtime_ns for path in world.folder.glob("papers/sweeps/*/models/*.json")}
    again = world.run("papers", "all", "--quick", "--out", "papers", "--workers", "2", "--json")
    assert again["tables"] == report["tables"]
    assert (world.folder / "papers" / "papers.md").read_bytes() == page
    assert {path: path.stat().st_mtime_ns for path in world.folder.glob("papers/sweeps/*/models/*.json")} == models
