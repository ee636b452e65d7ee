"""The console script. Heavy imports stay inside the commands: ``concord --help`` answers at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from concord.flows.cli.arguments import (
    Json,
    ModelName,
    Overwrite,
    PromiseFile,
    RunFolder,
    Set,
    TrackingOption,
    print_json,
    print_report,
)
from concord.flows.cli.challenge_cli import CHALLENGE_EXAMPLE, challenge
from concord.flows.cli.clusters_cli import app as clusters_app
from concord.flows.cli.codl_cli import CODL_EXAMPLE, codl
from concord.flows.cli.constraints_cli import app as constraints_app
from concord.flows.cli.corpus_cli import app as corpus_app
from concord.flows.cli.doctor_cli import DOCTOR_EXAMPLE, doctor
from concord.flows.cli.failures import Exit, exit_codes
from concord.flows.cli.gazetteer_cli import app as gazetteer_app
from concord.flows.cli.history_cli import (
    CHANGES_EXAMPLE,
    HISTORY_EXAMPLE,
    MONTHLY_EXAMPLE,
    ROLLBACK_EXAMPLE,
    changes,
    history,
    monthly,
    rollback,
)
from concord.flows.cli.import_cli import app as import_app
from concord.flows.cli.init_cli import INIT_EXAMPLE, init
from concord.flows.cli.label_cli import label
from concord.flows.cli.list_cli import LIST_EXAMPLE, list_parts
from concord.flows.cli.papers_cli import PAPERS_EXAMPLE, papers
from concord.flows.cli.report_cli import REPORT_EXAMPLE, report
from concord.flows.cli.review_cli import app as review_app
from concord.flows.cli.settings_options import A_PATH, REGISTER, SHARD_KIB, FieldOptions
from concord.flows.cli.sweep_cli import app as sweep_app
from concord.flows.cli.trainer_flags import TrainerFlagOptions, trainer_pairs
from concord.flows.cli.tree import CommandTree
from concord.flows.cli.why_cli import WHY_EXAMPLE, why
from concord.flows.environment import ANY_PROCESSOR, PREFECT, set_for_good
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.screen.progress import say, show
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import InputError
from concord.schemas.reports import CalibrationReport, EvaluationReport, ExportReport
from concord.schemas.requests import LabelRequest, TrainingEffort, TrainRequest
from concord.schemas.run_plan import RunPlan
from concord.schemas.run_report import RunReport
from concord.schemas.settings import TextSettings
from concord.schemas.train_report import TrainReport
from concord.workers.corpus.settings import IngestSettings
from concord.workers.models.settings import CalibrationSettings

if TYPE_CHECKING:
    from concord.workers.corpus.ingestion import IngestReport

app = CommandTree(
    name="concord",
    help="Labels the words of document corpora so that the labels agree: with the local evidence, with each other "
    "across a document, and with declared knowledge.",
    epilog=exit_codes(),
)
app.command(epilog=CHALLENGE_EXAMPLE)(challenge)
app.command(epilog=CHANGES_EXAMPLE)(changes)
app.add_typer(clusters_app, name="clusters")
app.command(epilog=CODL_EXAMPLE, resumes=True)(codl)
app.add_typer(constraints_app, name="constraints")
export = CommandTree(help="Write models and predictions for other programs.")
app.add_typer(export, name="export")
app.add_typer(corpus_app, name="corpus")
app.command(epilog=DOCTOR_EXAMPLE)(doctor)
app.add_typer(gazetteer_app, name="gazetteer")
app.command(epilog=HISTORY_EXAMPLE)(history)
app.command(epilog='Example: concord label --model models/news/ "Ada Lovelace wrote to Charles Babbage."')(label)
app.add_typer(import_app, name="import")
app.command(epilog=INIT_EXAMPLE)(init)
app.command("list", epilog=LIST_EXAMPLE)(list_parts)
app.command(epilog=MONTHLY_EXAMPLE)(monthly)
app.command(epilog=PAPERS_EXAMPLE, resumes=True)(papers)
app.command(epilog=REPORT_EXAMPLE)(report)
app.add_typer(review_app, name="review")
app.command(epilog=ROLLBACK_EXAMPLE)(rollback)
app.add_typer(sweep_app, name="sweep")
app.command(epilog=WHY_EXAMPLE)(why)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"concord {version(DISTRIBUTION)}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, and exit.")
]


TRAIN_FORMS = {"out": A_PATH, "register_as": REGISTER}


@app.callback()
def main(*, _version: Version = False) -> None:
    """Prepares the process, for every command, and takes away what killed ones left among temporary files."""
    from concord.workers.storage.scratch import remove_abandoned

    remove_abandoned()
    set_for_good(ANY_PROCESSOR | PREFECT)  # Prefect's threads speak, and live, longer than a flow's call
    logging.raiseExceptions = False  # what cannot be logged to a server that is gone would stand between our lines


@app.command(epilog="Example: concord synthesize --documents 2000 --out corpus/")
def synthesize(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the corpus.")],
    documents: Annotated[int, typer.Option(min=1, help="Number of documents to make up.")] = 2000,
    kind: Annotated[Literal["news", "citations"], typer.Option(help="Kind of text to make up.")] = "news",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random numbers; the same seed gives the same result.")
    ] = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make up a corpus with gold labels, of any size."""
    from concord.flows.commands.corpora import synthesize_corpus

    report = synthesize_corpus(
        out, documents=documents, seed=seed, kind=kind, layout=IngestSettings(), overwrite=overwrite
    )
    # Made-up text has no source that its tokens could miss anything of.
    _show_ingest(report._replace(ceiling=None), out, as_json=as_json)


def _meaning(name: str) -> str:
    """The help text of an option of texts."""
    return TextSettings.model_fields[name].description or ""


@app.command(epilog="Example: concord ingest conll eng.train --out corpora/train/")
def ingest(
    reader: Annotated[str, typer.Argument(help="Format of the source; `concord list readers` has them.")],
    source: Annotated[str, typer.Argument(help="File or folder to read.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the corpus.")],
    text_column: Annotated[str | None, typer.Option(help=_meaning("text_column"))] = None,
    id_column: Annotated[str | None, typer.Option(help=_meaning("id_column"))] = None,
    tokens_column: Annotated[str | None, typer.Option(help="Column of tokens (lists of strings).")] = None,
    labels_column: Annotated[str | None, typer.Option(help="Column of gold labels (lists).")] = None,
    set_: Set = None,
    layout: Annotated[IngestSettings, FieldOptions(IngestSettings, apart=("part_bytes",))],
    overwrite: Overwrite = False,
    append: Annotated[
        bool,
        typer.Option("--append", help="Add to a corpus that is there already; documents it has are rejected."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn files of other formats into a Parquet corpus; documents that cannot be read become counted rejects."""
    from concord.flows.commands.corpora import first_reason, ingest_corpus
    from concord.flows.inputs.options import OptionError, parse_options
    from concord.schemas.names import unknown
    from concord.workers.corpus.readers.registry import READERS

    if reader not in READERS:
        raise OptionError(unknown("reader", reader, READERS))
    columns = {
        "text_column": Flag("--text-column", text_column),
        "id_column": Flag("--id-column", id_column),
        "tokens_column": Flag("--tokens-column", tokens_column),
        "labels_column": Flag("--labels-column", labels_column),
    }
    pairs = beside_flags(set_ or [], columns)
    report = ingest_corpus(
        reader,
        source,
        out,
        settings=parse_options(pairs, READERS[reader].settings, owner=f"reader {reader}"),
        layout=layout,
        overwrite=overwrite,
        append=append,
    )
    _show_ingest(report, out, as_json=as_json)
    if not report.written:
        from concord.workers.corpus.fitting import command_for

        command = command_for(source)
        other = f"; {command} reads it" if command else ""
        raise InputError(f"{source}: nothing in it could be read as {reader}; {first_reason(out.expanduser())}{other}")
    if report.rejected and not as_json:
        say(f"first reject: {first_reason(out.expanduser())}", style="yellow")


def _is_search(given: Mapping[str, Any]) -> bool:
    """Whether a training tries settings, of which those that are done are not tried again."""
    return given["effort"] is TrainingEffort.BEST


@app.command(
    epilog="Example: concord train --corpus corpora/train/ --out models/news/",
    resumes=_is_search,
)
def train(
    *,
    request: Annotated[TrainRequest, FieldOptions(TrainRequest, apart=("options",), forms=TRAIN_FORMS)],
    flags: TrainerFlagOptions,
    set_: Set = None,
) -> TrainReport:
    """Train a model and its label consistency on a labelled corpus."""
    from concord.flows.inputs.jobs import check_sources
    from concord.flows.train import train as run_training

    check_sources([request.corpus])

    from concord.flows.inputs.options import parse_options
    from concord.workers.learning.trainers.registry import trainer_named

    pairs = trainer_pairs(request.trainer, flags, set_ or [])
    settings = parse_options(pairs, trainer_named(request.trainer).settings, owner=f"trainer {request.trainer}")
    return run_training(request.model_copy(update={"options": settings.model_dump(exclude_unset=True)}))


@app.command(
    epilog="Example: concord calibrate --model models/mine/ --corpus corpora/held-out/ --out models/fitted/",
)
def calibrate(
    *,
    model: ModelName,
    corpus: Annotated[str, typer.Option(help="Parquet corpus with gold labels that the model has not learned from.")],
    out: Annotated[Path, typer.Option(help="Folder for the fitted model.")],
    consistency: Annotated[
        bool, typer.Option(help="Learn label consistency, tuned on documents that the model has not learned from.")
    ] = True,
    context: TrackingOption,
    settings: Annotated[CalibrationSettings, FieldOptions(CalibrationSettings)],
) -> CalibrationReport:
    """Fit a model to labelled documents: label consistency; for scores of another tagger also their temperature."""
    from concord.flows.commands.calibrating import calibrate_model

    return calibrate_model(model, corpus, str(out), settings=settings, consistency=consistency, context=context)


@export.command("crfsuite", epilog="Example: concord export crfsuite --model models/news/ --out news.crfsuite")
def export_crfsuite(
    *,
    model: Annotated[Path, typer.Option(help="Model folder.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    as_json: Json = False,
) -> None:
    """Write a CRF as a model file of CRFsuite; its attributes are the names of the features."""
    from concord.flows.commands.exporting import export_model

    written = export_model(model, out)
    attributes, labels = len(written.weights.start) - 1, int((~written.missing).sum())
    if as_json:
        print_json(json.dumps({"attributes": attributes, "labels": labels, "out": str(out)}))
        return
    show(f"{out}: {attributes:,} attributes, {labels} labels")


@export.command(
    "predictions",
    epilog="Example: concord export predictions --run out/ --corpus corpora/testa/ --form doccano --out new.jsonl",
)
def export_predictions(
    *,
    run: RunFolder,
    form: Annotated[str, typer.Option(help="Form of the file; `concord list writers` has them.")],
    out: Annotated[Path, typer.Option(help="File to write; for brat a folder.")],
    corpus: Annotated[
        str | None, typer.Option(help="Corpus of the run, for its texts (default: tokens with blanks between them).")
    ] = None,
    keep_columns: Annotated[
        list[str] | None,
        typer.Option(help=f"{_meaning('keep_columns').rstrip('.')}; may be given many times."),
    ] = None,
    set_: Set = None,
) -> ExportReport:
    """Write the predictions of a run in the form of another program, with marks at what the constraints changed."""
    from concord.flows.commands.export_predictions import export_predictions as run_export
    from concord.flows.inputs.options import OptionError, parse_options
    from concord.schemas.names import unknown
    from concord.workers.corpus.writers.registry import WRITERS

    if form not in WRITERS:
        raise OptionError(unknown("form", form, WRITERS))
    settings = parse_options(set_ or [], WRITERS[form].settings, owner=f"writer {form}")
    kept = [name for names in keep_columns or () for name in names.split(",")]
    return run_export(run, form, out, settings=settings, corpus=corpus, keep_columns=kept)


@app.command(
    epilog="Example: concord reprocess --corpus corpora/testa/ --model models/news/ --out out/",
    resumes=True,
)
def reprocess(
    *,
    request: Annotated[
        LabelRequest,
        FieldOptions(LabelRequest, apart=("only", "settings.options"), forms={"shard_bytes": SHARD_KIB}),
    ],
    set_: Set = None,
    doc: Annotated[
        list[str] | None, typer.Option(help="Id of a document to label alone; may be given many times.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="File, a path or URI, of the ids of documents to label alone: a text with an id a line, or a Parquet "
            "table such as rejects. Such a run needs an output of its own."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what is new, changed and gone, what a run would do and how long it would take; write nothing.",
        ),
    ] = False,
) -> RunReport | RunPlan:
    """Label a corpus on Ray, each document as a whole. The same command again does only the rest."""
    from concord.flows.inputs.jobs import check_sources, source_place
    from concord.flows.inputs.output_places import check_inputs

    lists = [] if only is None else [only]
    check_sources([request.corpus], model=request.model, files=[*request.files_read, *lists])
    check_inputs(request.out, lists)

    from concord.flows.commands.listed_documents import documents_asked_for
    from concord.flows.inputs.options import run_settings

    corrections = request.corrections
    parts = {
        "settings": run_settings(dict(request.settings), set_ or []),
        "constraints": tuple(map(source_place, request.constraints)),
        "only": documents_asked_for(doc or (), only),
        "corrections": None if corrections is None else source_place(corrections),
    }
    request = request.model_copy(update=parts)
    if dry_run:
        from concord.flows.commands.run_plan import plan_run

        return plan_run(request)

    from concord.flows.reprocess import reprocess as run_reprocess

    return run_reprocess(request)


@app.command(epilog="Example: concord verify --run out/")
def verify(
    *,
    run: RunFolder,
    promise: PromiseFile = None,
    context: TrackingOption,
    as_json: Json = False,
) -> None:
    """Check a finished run: recompute all numbers, find all documents, and confirm all bounds with a certificate.

    With --promise nothing else is checked.
    """
    if promise is not None:
        from concord.flows.commands.review_promise import check_promise

        checked = check_promise(run, promise)
        print_report(checked, as_json=as_json)
        if checked.fault is not None:
            raise typer.Exit(Exit.INPUT)
        return
    from concord.flows.commands.verify import verify as run_verify

    report = run_verify(run, context)
    print_report(report, as_json=as_json)
    if report.failed:
        raise typer.Exit(Exit.INPUT)


@app.command(epilog="Example: concord evaluate --run out/ --corpus corpora/testa/ --against out-viterbi/")
def evaluate(
    *,
    run: RunFolder,
    corpus: Annotated[str, typer.Option(help="Parquet corpus with gold labels.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure to count: labels, tokens, spans, offsets, documents, lines or characters; may be given many "
            "times."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Folder of another run to compare with: differences, intervals and p-values.")
    ] = None,
) -> EvaluationReport:
    """Score predictions against gold, show the changes against Viterbi, and compare with another run.

    Measures: labels of tokens (labels), tokens by field or type (tokens), entities or fields as conlleval counts them
    (spans), entities of the source by characters (offsets; those that tokens cannot express are missed), whole
    documents (documents), and the overlap of fields in lines (lines) and in characters (characters). The default is
    spans for BIO, and labels, spans and documents for other labels; and offsets, if the corpus has spans of its source.
    """
    from concord.flows.labelling.evaluate import evaluate as run_evaluate

    evaluation = run_evaluate(run, corpus, measures=measure, against=against)
    for folder, shards in evaluation.unfinished.items():
        say(
            f"{folder}: a later run is not finished ({shards} of its shards are done); "
            "these are the scores of the last whole one",
            style="yellow",
        )
    return evaluation.report


def _show_ingest(report: IngestReport, out: Path, *, as_json: bool) -> None:
    if as_json:
        ceiling = None if report.ceiling is None else report.ceiling.f1
        print_json(
            json.dumps(report._asdict() | {"misfits": dict(report.misfits), "ceiling": ceiling, "out": str(out)})
        )
        return
    show(
        f"{report.read:,} documents read, {report.written:,} written ({report.tokens:,} tokens, "
        f"{report.sentences:,} sentences), {report.rejected:,} rejected"
    )
    for reason, spans in report.misfits.items():
        show(f"{spans:,} gold spans {reason}", style="yellow")
    for notice in report.notices:
        say(f"notice: {notice}", style="yellow")
    if report.ceiling is not None:
        show(
            f"ceiling: perfect labels of these tokens have F1 {100 * report.ceiling.f1:.2f} against the "
            "source's own gold"
        )
    show(f"corpus in {out}" + (f", rejects in {out / '_rejects.parquet'}" if report.rejected else ""))
