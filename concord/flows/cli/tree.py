"""Behaviour of all commands: errors in one line, reports as JSON, options in a file (``--config``) and in groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from concord.flows.cli.arguments import Json, print_report
from concord.flows.cli.failures import reported
from concord.flows.cli.next_steps import say_next
from concord.flows.cli.settings_options import with_fields, with_signature
from concord.flows.cli.typer_internals import LOOK, TyperCommand, TyperOption, value_kind, value_source
from concord.flows.errors import ReportingError
from concord.flows.inputs.given import name_of, pairs_of, read_mapping
from concord.schemas.errors import UsageError
from concord.schemas.names import nearest
from concord.schemas.requests import EMPTY_VALUE

F = TypeVar("F", bound=Callable[..., Any])
Proposes = Callable[[Any], Sequence[str]]
"""A function that makes the next command of a report."""
Resumes = Callable[[Mapping[str, Any]], bool]
"""A function that decides, by a command's options, whether the same command again goes on where it stopped."""

ONE_GROUP = 7
"""Largest number of options that are shown in one group; more are shown in groups by subject."""

WIDE = 12
"""Largest number of characters of an option's choices in the column of types."""

FILES_PANEL, TEXT_PANEL, LEARNING = "Input and output", "Raw text", "Learning"
DECODING, CLUSTER, FORM = "Decoding", "Cluster", "Tracking and output form"
CHOICES = "Choices"
PANELS = {
    FILES_PANEL: (
        *(
            "corpus",
            "model",
            "run",
            "pool",
            "held_out",
            "constraints",
            "out",
            "file",
            "doc",
            "span",
            "documents",
            "only",
            "corrections",
            "against",
        ),
        *(
            "start_from",
            "clusters",
            "vectors",
            "encoder",
            "gazetteer",
            "phrase_column",
            "package",
            "frequencies",
            "overwrite",
            "append",
            "reuse",
            "dry_run",
            "sweep",
            "plot",
        ),
        *(
            "data",
            "tokens_column",
            "labels_column",
            "test_parts",
            "fit_run",
            "fit_corpus",
            "promise",
            "tasks",
            "config",
        ),
    ),
    TEXT_PANEL: (
        "text_column",
        "id_column",
        "language",
        "tokenizer",
        "tokenizer_function",
        "sentence_limit",
        "split_hyphens",
        "encoding",
    ),
    LEARNING: (
        *(
            "trainer",
            "features",
            "layers",
            "feature_function",
            "scheme",
            "network",
            "pooling",
            "overlap",
            "effort",
            "minutes",
            "tune",
            "largest_sample",
            "held_out_share",
        ),
        "validation",
    ),
    DECODING: (
        *("engine", "seed", "work", "seconds", "on_infeasible", "relaxed_weight", "confidence"),
        *("margin_work", "n_best", "n_best_work", "certificates", "certificate_nodes", "errors_of", "explain", "clamp"),
        "settle",
    ),
    CHOICES: (),
    CLUSTER: ("ray", "workers", "shard_kib"),
    FORM: ("tracking", "register", "alias", "fail_on_drift", "allow_gone", "allow_again", "report", "json", "help"),
}
"""Options by the heading that they are shown with, in this order; those that no heading names are choices."""
HEADINGS = {name: heading for heading, names in PANELS.items() for name in names}

SET, CONFIG = "set", "config"
FROM_FILE = "concord.settings"
"""Key under which a context keeps the settings of its file until those of the command line are known."""


def spelled(option: TyperOption) -> str:
    """Name of an option in a file: the long one, with underscores."""
    return option.opts[0].removeprefix("--").replace("-", "_")


class Command(TyperCommand):
    """A command of the tree."""

    def __init__(self, *arguments: Any, **given: Any) -> None:
        super().__init__(*arguments, **given)
        self.help = _paragraphs(self.help or "")
        for option in self.options.values():
            _narrow(option)
            option.metavar = _value_word(option)
        if len(self.options) > ONE_GROUP:
            for name, option in self.options.items():
                option.rich_help_panel = HEADINGS.get(name, CHOICES)
            self.params.sort(key=_place)

    @property
    def options(self) -> dict[str, TyperOption]:
        """Options by their names in a file."""
        return {spelled(option): option for option in self.params if isinstance(option, TyperOption)}

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Typer's help option, in the group of its kind."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
            if len(self.options) > ONE_GROUP:
                option.rich_help_panel = FORM
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as Typer does, and adds those settings of the file that the command line does not give.

        A setting may have an option of its own: ``--features`` is the same as ``--set features=``.
        """
        if empty := _empty_value(args):
            with reported():
                raise UsageError(f"{empty}: {EMPTY_VALUE}")
        rest: list[str] = super().parse_args(ctx, args)
        parameter = self.options.get(SET)
        if parameter is None or FROM_FILE not in ctx.meta:
            return rest
        given = ctx.params[parameter.name] or []
        names = {name_of(pair) for pair in given}
        typed = {name for name, option in self.options.items() if value_source(ctx, option) == "COMMANDLINE"}
        ctx.params[parameter.name] = [*given, *(p for p in ctx.meta[FROM_FILE] if name_of(p) not in names | typed)]
        for name in names & self.options.keys():
            if value_source(ctx, self.options[name]) == "DEFAULT_MAP":
                ctx.params[self.options[name].name] = self.options[name].default
        return rest


def _empty_value(words: Sequence[str]) -> str:
    """The option whose value is an empty text, as a script has it whose variable is not set; empty if there is none."""
    for before, word in pairwise(("", *words)):
        option, is_joined, value = word.partition("=")
        if not word:
            return before if before.startswith("-") else "an argument"
        if option.startswith("--") and is_joined and not value:
            return option
    return ""


def _place(parameter: Any) -> int:
    """Sort key: arguments first, then one group of options after the other."""
    if not isinstance(parameter, TyperOption):
        return -1
    return list(PANELS).index(HEADINGS.get(spelled(parameter), CHOICES))


def _paragraphs(text: str) -> str:
    """Text of a docstring with line breaks between paragraphs only."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _value_word(option: TyperOption) -> str | None:
    """Word for the value of an option: nothing for a flag; None where Typer shows its choices."""
    kind = value_kind(option)
    if option.metavar is not None or (kind.choices and option.show_choices):
        return option.metavar
    if option.is_flag:
        return ""
    if kind.is_path:
        return "PATH"
    return "NUMBER" if kind.is_number else "TEXT"


def _narrow(option: TyperOption) -> None:
    """Moves many choices into the help text, as the column of types has no room for them."""
    choices = value_kind(option).choices
    if len("|".join(choices)) > WIDE:
        option.show_choices = False
        option.help = f"{option.help} One of {', '.join(choices)}."


class CommandTree(typer.Typer):
    """A group of commands of `Command`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**LOOK | {"add_completion": False} | given)

    def command(
        self,
        name: str | None = None,
        *,
        proposes: Proposes | None = None,
        resumes: bool | Resumes = False,
        **given: Any,
    ) -> Callable[[F], F]:
        """`typer.Typer.command` with options by `with_fields` and errors by `reported`, which gets ``resumes``.

        A command that returns a report gets ``--json``, and its report is printed: as the blocks that it says, and the
        next command that ``proposes`` makes of it, or as JSON. So is the report of a `ReportingError`.
        """
        register = super().command(name, cls=Command, **given)

        def decorate(function: F) -> F:
            command = with_fields(function)
            answers = inspect.signature(function).return_annotation not in ("None", None)
            register(_with_config(_printed(command, proposes) if answers else command, resumes=resumes))
            return function

        return decorate


def _printed(command: Callable[..., Any], proposes: Proposes | None) -> Callable[..., Any]:
    """The command with the option ``--json``, and its report printed."""
    parameters = inspect.signature(command).parameters.values()
    added = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)

    @wraps(command)
    def called(*, as_json: bool, **given: Any) -> None:
        def answer(report: Any) -> None:
            print_report(report, as_json=as_json)
            if proposes is not None and not as_json:
                say_next(proposes(report))

        try:
            report = command(**given)
        except ReportingError as error:
            answer(error.report)
            raise
        answer(report)

    return with_signature(called, [*parameters, added])


def _with_config(command: Callable[..., Any], *, resumes: bool | Resumes) -> Callable[..., Any]:
    """The command with the option ``--config``, which is not passed on to it, and with errors as messages."""
    parameters = inspect.signature(command).parameters.values()
    kind = Annotated[
        Path | None,
        typer.Option(
            "--config",
            callback=_take_file,
            is_eager=True,
            help="YAML file of these options, such as `workers: 2`. The command line overrides it.",
        ),
    ]
    added = inspect.Parameter(CONFIG, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)

    @wraps(command)
    def called(**given: Any) -> None:
        config = given.pop(CONFIG)
        with reported(resumes=resumes(given) if callable(resumes) else resumes):
            if config is not None and given.get("out") is not None:
                from concord.flows.inputs.output_places import check_inputs

                check_inputs(given["out"], [config])
            command(**given)

    return with_signature(called, [*parameters, added])


def _take_file(ctx: typer.Context, value: Path | None) -> Path | None:
    """Makes the values of a file the defaults of the command line."""
    if value is None or ctx.resilient_parsing:
        return value
    assert isinstance(ctx.command, Command)
    options = ctx.command.options
    with reported():
        found = read_mapping(value)
        known = options.keys() - {CONFIG}
        for name in found:
            if name not in known:
                there = nearest(name, sorted(known))
                raise UsageError(f"{value}: {name!r} is no option of {ctx.command_path}{there}")
        ctx.meta[FROM_FILE] = list(pairs_of(found.pop(SET, {}), value))
        ctx.default_map = {
            options[name].name: _value(options[name], given, f"{value}: {name}")
            for name, given in found.items()
            if given != "null"
        }
    return value


def _value(option: TyperOption, given: Any, place: str) -> Any:
    """Value of an option in a file. Raises `UsageError` if it has the wrong form."""
    values = given if isinstance(given, list) else [given]
    if not all(isinstance(value, str) for value in values) or (isinstance(given, list) and not option.multiple):
        raise UsageError(f"{place}: want {'a list' if option.multiple else 'one value'}")
    if "" in values:
        raise UsageError(f"{place}: {EMPTY_VALUE}")
    return values if option.multiple else given
