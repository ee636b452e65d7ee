"""One request a flow: signature, command line and Prefect's form say what its fields say."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from annotated_types import Ge
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from typer.testing import CliRunner

import concord
import concord.flows
from concord.flows import deployed
from concord.flows.cli.app import app
from concord.flows.cli.challenge_cli import CHALLENGE_FORMS, ENGINE_ALONE
from concord.flows.cli.codl_cli import CODL_FORMS
from concord.flows.cli.monthly_cli import MONTH_FORMS
from concord.flows.cli.papers_cli import PAPERS_FORMS
from concord.flows.cli.settings_options import SHARD_KIB, FieldOptions, OptionForm
from concord.flows.cli.sweep_cli import SWEEP_FORMS
from concord.flows.cli.train_cli import TRAIN_FORMS
from concord.flows.cli.tree import CommandTree
from concord.flows.inputs.request_fields import takes_fields
from concord.flows.prefect.private_flow import PrivateFlow
from concord.flows.reprocess import reprocess
from concord.flows.watched import WATCHED, FlowError, Watched, flow_of, watched
from concord.schemas.learning_requests import DEFAULT_TRAINER, TrainRequest
from concord.schemas.requests import EMPTY_VALUE, FlowRequest, LabelRequest
from concord.schemas.settings import Settings
from concord.workers.learning.search.progressive import LEAST_SAMPLE
from concord.workers.learning.trainers.registry import DEFAULT, TRAINERS

DOORS = Path(concord.flows.__file__).parent


def doors() -> Iterator[str]:
    """Names of the modules that have a flow."""
    for path in sorted(DOORS.glob("*.py")):
        if re.search(r"^@watched\(", path.read_text(), re.MULTILINE):
            yield path.stem


FLOWS = {name: getattr(importlib.import_module(f"concord.flows.{name}"), name) for name in doors()}
"""Each flow by its name, which is that of its module."""
every = pytest.mark.parametrize("name", FLOWS)

COMMANDS = {"sweep": "sweep run"}
"""Commands that have another name than their flow."""

FORMS: dict[str, Mapping[str, OptionForm]] = {
    "reprocess": {"shard_bytes": SHARD_KIB},
    "train": TRAIN_FORMS,
    "sweep": SWEEP_FORMS,
    "challenge": CHALLENGE_FORMS,
    "codl": CODL_FORMS,
    "monthly": MONTH_FORMS,
    "papers": PAPERS_FORMS,
}
"""Fields that the command line has in another form."""

APART = {
    "reprocess": ("only", "settings.options"),
    "train": ("options",),
    "challenge": ("options", *ENGINE_ALONE),
    "codl": ("settings", "labelling"),
}
"""Fields that are no options of their own: --set gives them, or --doc and --only, or they change no answer."""


def known(name: str) -> Watched:
    return WATCHED[FLOWS[name]]


def wanted(field: FieldInfo) -> Any:
    """Default of a field, as a signature has it."""
    return inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)


def test_every_flow_has_a_request_of_its_own() -> None:
    assert {"reprocess", "train", "sweep", "challenge", "codl", "monthly", "papers"} == FLOWS.keys() == FORMS.keys()
    requests = [known(name).request for name in FLOWS]
    assert len(set(requests)) == len(FLOWS)
    modules = {kind.__module__ for kind in (FlowRequest, TrainRequest)}
    every_request = {kind for kind in FlowRequest.__subclasses__() if kind.__module__ in modules}
    assert set(requests) == every_request


@every
def test_the_signature_is_that_of_the_request(name: str) -> None:
    parameters = inspect.signature(FLOWS[name]).parameters
    fields = known(name).request.fields()
    assert parameters.keys() == fields.keys()
    assert {n: p.default for n, p in parameters.items()} == {n: wanted(field) for n, field in fields.items()}


@cache
def command(name: str) -> Any:
    found: Any = typer.main.get_command(app)
    for word in COMMANDS.get(name, name).split():
        found = found.commands[word]
    return found


def leaves(kind: type[Settings], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Fields, and those of settings within them, by the path that leads to them."""
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            yield from leaves(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}", field


@every
def test_the_command_line_is_that_of_the_request(name: str) -> None:
    options = {param.name: param for param in command(name).params}
    compared = 0
    for path, field in leaves(known(name).request):
        if any(f"{path}.".startswith(f"{apart}.") for apart in APART.get(name, ())):
            continue
        form = FORMS[name].get(path, OptionForm())
        own = path.rpartition(".")[2]
        option = options[form.name or own]
        if form.default is None:
            assert option.required == field.is_required(), path
            assert option.default == (None if field.is_required() else wanted(field)), path
        text = form.meaning(str(field.description)).rstrip(".")
        assert option.help.startswith(text), path
        compared += 1
    assert compared >= len(known(name).request.fields()) - len(APART.get(name, ()))


@every
def test_prefects_form_has_the_descriptions_of_the_request(name: str) -> None:
    flow = flow_of(FLOWS[name])
    shown = {n: part.get("description") for n, part in flow.parameters.properties.items()}
    assert shown == {n: field.description for n, field in known(name).request.fields().items()}
    assert all(shown.values())
    assert "Args:" not in str(flow.description)


def test_what_is_deployed_are_flows_with_requests() -> None:
    flows = {n: flow for n, flow in vars(deployed).items() if isinstance(flow, PrivateFlow)}
    assert flows.keys() <= FLOWS.keys()
    assert len(flows) >= 5
    for name, flow in flows.items():
        fields = known(name).request.fields()
        assert {n: part["description"] for n, part in flow.parameters.properties.items()} == {
            n: field.description for n, field in fields.items()
        }


@every
def test_the_docstring_has_each_description_once(name: str) -> None:
    text = str(FLOWS[name].__doc__)
    for parameter, field in known(name).request.fields().items():
        assert text.count(f"\n    {parameter}: {field.description}") == 1
        assert f"- ``{parameter}``" not in text


@every
def test_descriptions_are_sentences_of_one_line(name: str) -> None:
    for path, field in leaves(known(name).request):
        text = str(field.description)
        assert text[0].isupper(), path
        assert text.endswith("."), path
        assert "\n" not in text, path


@every
def test_an_empty_text_is_no_parameter(name: str) -> None:
    request = known(name).request
    for field, info in request.model_fields.items():
        for value in ("", ("",)):
            with pytest.raises(ValidationError) as raised:
                request.of({field: value})
            told = [one["msg"] for one in raised.value.errors() if one["loc"][0] == field]
            if "str" in str(info.annotation):
                assert told == [f"Value error, {EMPTY_VALUE}"]


def test_a_request_gives_the_parameters_that_it_is_made_of() -> None:
    given = {"corpus": "c", "model": "m", "out": "o", "only": ("a",), "shard_bytes": 9, "workers": 2}
    request = LabelRequest.of(given)
    assert (request.context.workers, request.context.ray, request.only) == (2, None, ("a",))
    assert request.parameters.items() >= given.items()
    assert request.parameters.keys() == LabelRequest.fields().keys()
    assert LabelRequest.of(request.parameters) == request
    with pytest.raises(ValidationError, match="colour"):
        LabelRequest.of(given | {"colour": "red"})
    with pytest.raises(ValidationError, match="frozen"):
        request.corpus = "d"  # type: ignore[misc]


def test_a_value_out_of_range_is_told_as_one_of_another_type_is() -> None:
    with pytest.raises(FlowError, match="reprocess: shard_bytes"):
        reprocess("c", "m", "o", shard_bytes=0)
    with pytest.raises(FlowError, match="reprocess: shard_bytes"):
        reprocess("c", "m", "o", shard_bytes="many")


def test_defaults_and_limits_are_those_of_the_parts() -> None:
    """Requests import no part; a limit that moved would change what is known of trials that are done."""
    assert DEFAULT_TRAINER == DEFAULT
    assert Ge(LEAST_SAMPLE) in TrainRequest.model_fields["largest_sample"].metadata


def test_forms_name_fields_that_there_are() -> None:
    for name, forms in FORMS.items():
        assert forms.keys() <= known(name).request.model_fields.keys()


class WiderRequest(LabelRequest):
    """A request with one more option, which is no more than a field."""

    lamps: int = Field(3, ge=1, description="Number of lamps that burn at night.")


def test_an_option_is_a_field_everywhere() -> None:
    asked = list[WiderRequest]()
    flow: Any = watched("widen", WiderRequest, run_name="widens")(asked.append)
    flow("c", "m", "o", lamps=4)
    python: Any = takes_fields(WiderRequest)(asked.append)
    python("c", model="m", out="o", lamps=5)
    tree = CommandTree()

    @tree.command()
    def widen(*, request: Annotated[WiderRequest, FieldOptions(WiderRequest, apart=("settings", "only"))]) -> None:
        asked.append(request)

    done = CliRunner().invoke(tree, ["--corpus", "c", "--model", "m", "--out", "o", "--lamps", "6"])
    assert done.exit_code == 0, done.output
    assert [one.lamps for one in asked] == [4, 5, 6]
    shown = WATCHED[flow].for_prefect().parameters.properties["lamps"]
    assert (shown["default"], shown["minimum"], shown["description"]) == (3, 1, "Number of lamps that burn at night.")
    assert "lamps" in inspect.signature(python).parameters
    assert "--lamps" in CliRunner().invoke(tree, ["--help"]).output
    with pytest.raises(FlowError, match="widen: lamps"):
        flow("c", "m", "o", lamps=0)


def test_an_option_stands_in_its_request_and_where_it_is_read() -> None:
    """No list of parameters has it once more."""
    declared = {name: list[str]() for name in ("allow_again", "fail_on_drift", "retry_failed", "largest_sample")}
    for path in Path(concord.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if not any(name in text for name in declared):
            continue
        for node in ast.walk(ast.parse(text)):
            target = node.target if isinstance(node, ast.AnnAssign) else node
            name = getattr(target, "id", "") if target is not node else getattr(node, "arg", "")
            if name in declared and not isinstance(node, ast.keyword):
                declared[name].append(path.name)
    of_learning = {"retry_failed", "largest_sample"}
    assert declared == {name: [f"{'learning_' * (name in of_learning)}requests.py"] for name in declared}


def test_options_of_trainers_have_names_that_python_can_take() -> None:
    """`concord.train` takes both by name."""
    of_request = inspect.signature(concord.train).parameters.keys()
    for trainer in TRAINERS.values():
        assert not trainer.settings.model_fields.keys() & of_request
