"""Prefect only watches: where it is gone, a flow says so in one line, and what is done stays done."""

from __future__ import annotations

import io
import logging
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import FrameType

import httpx
import pytest
from prefect import Flow
from prefect.exceptions import TerminationSignal
from prefect.logging.configuration import setup_logging
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_API_URL, Settings, temporary_settings
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.errors import PrefectError, UnwatchedError
from concord.flows.prefect import api, private_flow
from concord.flows.prefect.api import check_api
from concord.flows.watched import watched
from concord.schemas.requests import FlowRequest

ran: list[Sequence[str]] = []


class Words(FlowRequest):
    words: tuple[str, ...]
    fail: bool = False


@watched("double", Words, run_name="doubles")
def double(request: Words) -> list[str]:
    ran.append(request.words)
    if request.fail:
        raise KeyError("its own")
    return [*request.words, *request.words]


@pytest.fixture
def mute() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://u:S3CRET@127.0.0.1:{listening.getsockname()[1]}/api"


def test_an_api_that_refuses_or_says_nothing_is_one_line_before_anything_is_begun(
    mute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran.clear()
    for url, reason in (("http://u:S3CRET@127.0.0.1:9/api", "refused"), (mute, "did not answer within 0.5 s")):
        monkeypatch.setattr(api, "REACH_SECONDS", 0.5 if url == mute else 20.0)
        started = time.monotonic()
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(PrefectError, match=reason) as left:
            double(["a"])
        said = str(left.value)
        assert said.startswith(f"Prefect's API at {url.replace('u:S3CRET', '***')}")
        assert "unset PREFECT_API_URL" in said
        assert "\n" not in said
        assert time.monotonic() - started < 15
    assert ran == []


def gone_after(flow: Flow[..., object], *args: object, **kwargs: object) -> object:
    """What Prefect's engine does whose server dies while the function runs."""
    flow.validate_parameters({"words": ["a"]})
    try:
        flow.fn(*args, **kwargs)
    finally:
        raise httpx.ConnectError("Connection refused\nby the peer")


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_flow, "check_api", lambda: None)
    monkeypatch.setattr("concord.flows.watched.is_watched", lambda: True)
    monkeypatch.setattr(Flow, "__call__", gone_after)


@pytest.mark.usefixtures("dying")
def test_what_is_done_comes_with_the_error_when_the_api_goes_away_meanwhile() -> None:
    with pytest.raises(UnwatchedError, match="the output is finished") as left:
        double(["a"])
    assert left.value.report == ["a", "a"]
    assert "\n" not in str(left.value)


@pytest.mark.usefixtures("dying")
def test_an_error_of_the_flow_goes_before_that_of_the_api(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError, match="its own"):
        double(["a"], fail=True)
    assert "Prefect's API at" in capfd.readouterr().err


class _Terminated(BaseException):
    pass


@watched("end", Words, run_name="ends")
def end(request: Words) -> None:
    raise TerminationSignal(signal.SIGTERM)


@pytest.mark.usefixtures("dying")
def test_sigterm_goes_to_who_handled_it_before_where_the_api_goes_too(capfd: pytest.CaptureFixture[str]) -> None:
    def ours(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    former = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(_Terminated):
            end(["a"])
    finally:
        signal.signal(signal.SIGTERM, former)
    assert capfd.readouterr().err.count("Prefect's API at") == 1


def test_what_prefect_says_of_a_failing_flow_stays_off_the_terminal() -> None:
    terminal = io.StringIO()
    handler, logger = PrefectConsoleHandler(stream=terminal), logging.getLogger("prefect.flow_runs")
    logger.addHandler(handler)
    try:
        with private_flow._quiet():
            logger.error("Encountered exception during execution", extra={"send_to_api": False})
        assert terminal.getvalue() == ""
        logger.error("Encountered exception afterwards", extra={"send_to_api": False})
        assert "afterwards" in terminal.getvalue()
    finally:
        logger.removeHandler(handler)


def test_what_prefect_cannot_send_is_not_written_between_our_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's log handler goes by the first; its client of events warns with the server's password."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    assert CliRunner().invoke(app, ["list", "engines", "--json"]).exit_code == 0
    assert not logging.raiseExceptions
    setup_logging(incremental=False)
    clients = logging.getLogger("prefect.events.clients")
    assert not clients.filter(clients.makeRecord(clients.name, logging.WARNING, "", 0, "with a password", (), None))
    assert clients.filter(clients.makeRecord(clients.name, logging.ERROR, "", 0, "an error", (), None))
    assert Settings().internal.logging_level == "CRITICAL"


def test_an_api_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def api_healthcheck(self) -> None:
            return None

    monkeypatch.setattr(api, "get_client", lambda **_: nullcontext(Client()))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        check_api()
