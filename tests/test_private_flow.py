"""What Prefect is given of a flow's parameters."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from inspect import signature
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect import Flow
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal

import concord.flows.deployed
from concord.flows.prefect import shown
from concord.flows.screen.pages import INTERRUPTED
from concord.flows.screen.progress import tell_left
from concord.flows.watched import WATCHED, FlowError, flow_of, watched
from concord.schemas.requests import FlowRequest
from concord.schemas.run import RunSettings
from concord.schemas.settings import Settings
from tests.support.made_reports import run_report


class ReadRequest(FlowRequest):
    corpus: str
    rules: tuple[str, ...] = ()
    options: Mapping[str, object] | None = None


@watched("read", ReadRequest, run_name="reads {corpus}")
def read(request: ReadRequest) -> str:
    """Gives back the address as it came."""
    return request.corpus


def test_parameters_are_stored_without_secrets_and_otherwise_as_they_are() -> None:
    flow = flow_of(read)
    assert isinstance(flow, Flow)
    assert flow.name == "read"
    assert flow.fn("s3://KEY:S3CRET@bucket") == read("s3://KEY:S3CRET@bucket") == "s3://KEY:S3CRET@bucket"
    given: dict[str, Any] = {
        "corpus": "s3://KEY:S3CRET@bucket/x?region=eu",
        "rules": ["https://S3CRET@host/a.yaml", "b.yaml"],
        "options": {"sweeps": 3, "from": {"uri": "postgresql://u:S3CRET@host"}, "scale": 0.5, "none": None},
    }
    assert flow.serialize_parameters(given) == {
        "corpus": "s3://***@bucket/x?region=eu",
        "rules": ["https://***@host/a.yaml", "b.yaml"],
        "options": {"sweeps": 3, "from": {"uri": "postgresql://***@host"}, "scale": 0.5, "none": None},
    }


class SettleRequest(FlowRequest):
    settings: RunSettings
    fail: bool = False


@watched("settle", SettleRequest, run_name="settles")
def settle(request: SettleRequest) -> RunSettings:
    """Gives back the settings as the function gets them."""
    if request.fail:
        raise OSError("cannot read s3://KEY:S3CRET@bucket")
    return request.settings


def test_parameters_are_validated_and_errors_masked_where_nobody_watches_too() -> None:
    given = RunSettings(engine="certify")
    assert settle(given) is given
    mapping: Any = {"engine": "certify"}
    assert settle(mapping) == given
    wrong: Any = {"engine": "certify", "work": 0}
    with pytest.raises(FlowError, match=r"^settle: .*work: Input should be greater than or equal to 1$"):
        settle(wrong)
    with pytest.raises(OSError, match=r"cannot read s3://\*\*\*@bucket"):
        settle(given, fail=True)


class StopRequest(FlowRequest):
    told: bool


@watched("stop", StopRequest, run_name="stops")
def stop(request: StopRequest) -> None:
    """Ends by a signal, with a report or before there is one."""
    if request.told:
        tell_left(run_report(cancelled=True, labelled=7, documents=7, out="out/news"))
    raise TerminationSignal(signal=15)


@pytest.mark.parametrize("told", [True, False])
def test_a_deployed_run_that_a_signal_ends_has_a_page_a_line_and_a_tag(
    told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Prefect runs the function of a deployed flow itself; `PrivateFlow.__call__` is not on its way."""
    run = SimpleNamespace(id=uuid4(), name="calm-lynx", tags=["nightly"])
    context = SimpleNamespace(flow_run=run, flow=SimpleNamespace(name="stop"))
    pages, tags, names = list[tuple[str, str, str]](), list[str](), list[tuple[object, str]]()
    monkeypatch.setattr(FlowRunContext, "get", staticmethod(lambda: context))
    monkeypatch.setattr(shown, "get_run_logger", lambda: logging.getLogger("tested"))
    monkeypatch.setattr(shown, "create_markdown_artifact", lambda *given: pages.append(given))
    monkeypatch.setattr(shown, "tag", lambda _run, *given: tags.extend(given))
    monkeypatch.setattr(shown, "rename", lambda *given: names.append(given))
    with caplog.at_level(logging.INFO, "tested"), pytest.raises(TerminationSignal):
        flow_of(stop).fn(told=told)
    line = "cancelled: 7 documents labelled, nothing published; the same again does the rest" if told else INTERRUPTED
    ((markdown, key, headline),) = pages
    assert (key, headline, tags) == ("stop-news" if told else "stop-calm-lynx", line, ["cancelled"])
    assert names == ([(run, "calm-lynx · cancelled")] if told else [])
    assert line in markdown
    assert line in caplog.messages


@pytest.mark.parametrize(("name", "settings"), [("reprocess", {"engine": "certify"}), ("train", None), ("codl", {})])
def test_a_deployment_validates_the_parameters_that_prefect_has_stored(name: str, settings: Any) -> None:
    """Settings come back from its database as mappings."""
    asked = list[Any]()
    called = getattr(importlib.import_module(f"concord.flows.{name}"), name)
    flow = WATCHED[called]._replace(run=asked.append).for_prefect()
    assert flow.parameters == getattr(concord.flows.deployed, name).parameters
    stored = {key: "x" for key, value in signature(flow.fn).parameters.items() if value.default is value.empty}
    flow.fn(**stored if settings is None else {**stored, "settings": settings})
    assert {key: getattr(asked[0], key) for key in stored} == stored
    assert settings is None or isinstance(asked[0].settings, Settings)
    with pytest.raises(FlowError, match=f"^{name}: workers: Input should be greater than or equal to 0$"):
        flow.fn(**stored, workers=-1)


def test_a_request_is_used_as_it_is_whether_prefect_watches_or_not() -> None:
    """It is neither validated again nor made of its own parameters."""
    given, asked = StopRequest(told=True), list[StopRequest]()
    known = WATCHED[stop]._replace(run=asked.append)
    known.for_prefect(given).fn(**given.parameters)
    known.run(known.request_of((given,), {}))
    assert [one is given for one in asked] == [True, True]


def test_a_call_that_lacks_a_parameter_is_one_line() -> None:
    with pytest.raises(FlowError, match=r"^settle: missing a required argument: 'settings'$"):
        settle()
    with pytest.raises(FlowError, match=r"^settle: got an unexpected keyword argument 'colour'$"):
        settle({}, colour="red")
