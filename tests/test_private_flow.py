"""What Prefect is given of a flow's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import Flow

from flows.prefect.private_flow import private_flow


@private_flow("read", run_name="reads {corpus}")
def read(corpus: str, rules: Sequence[str] = (), *, options: dict[str, object] | None = None) -> str:
    """Gives back the address as it came."""
    return corpus


def test_parameters_are_stored_without_secrets_and_otherwise_as_they_are() -> None:
    assert isinstance(read, Flow)
    assert read.name == "read"
    assert read.fn("s3://KEY:S3CRET@bucket") == "s3://KEY:S3CRET@bucket"
    given: dict[str, Any] = {
        "corpus": "s3://KEY:S3CRET@bucket/x?region=eu",
        "rules": ["https://S3CRET@host/a.yaml", "b.yaml"],
        "options": {"sweeps": 3, "from": {"uri": "postgresql://u:S3CRET@host"}, "scale": 0.5, "none": None},
    }
    assert read.serialize_parameters(given) == {
        "corpus": "s3://***@bucket/x?region=eu",
        "rules": ["https://***@host/a.yaml", "b.yaml"],
        "options": {"sweeps": 3, "from": {"uri": "postgresql://***@host"}, "scale": 0.5, "none": None},
    }
