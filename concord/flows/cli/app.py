"""The console script. Heavy imports stay inside the commands: ``concord --help`` answers at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from concord.flows.cli.arguments import (
    REGISTER,
    AliasName,
    ContextOptions,
    Corpus,
    DeclaredOptions,
    Json,
    ModelName,
    ModelOut,
    Overwrite,
    RunFolder,
    Set,
    ShardKib,
    TrackingOption,
    print_json,
    print_report,
)
from concord.flows.cli.challenge_cli import CHALLENGE_EXAMPLE, challenge
from concord.flows.cli.clusters_cli import app as clusters_app
from concord.flows.cli.codl_cli import CODL_EXAMPLE, codl
from concord.flows.cli.constraints_cli import NO_RAY
from concord.flows.cli.constraints_cli import app as constraints_app
from concord.flows.cli.corpus_cli import app as corpus_app
from concord.flows.cli.doctor_cli import DOCTOR_EXAMPLE, doctor
from concord.flows.cli.failures import Exit, exit_codes
from concord.flows.cli.history_cli import HISTORY_EXAMPLE, MONTHLY_EXAMPLE, history, monthly
from concord.flows.cli.import_cli import app as import_app
from concord.flows.cli.init_cli import INIT_EXAMPLE, init
from concord.flows.cli.label_cli import label
from concord.flows.cli.list_cli import app as list_app
from concord.flows.cli.papers_cli import PAPERS_EXAMPLE, papers
from concord.flows.cli.report_cli import REPORT_EXAMPLE
from concord.flows.cli.report_cli import report as report_run
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.sweep_cli import app as sweep_app
from concord.flows.cli.trainer_flags import TrainerFlagOptions, TrainerName, trainer_pairs
from concord.flows.cli.tree import CommandTree
from concord.flows.commands.requests import JUDGING, ChainsRequest
from concord.flows.environment import ANY_PROCESSOR, PREFECT, set_for_good
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.screen.progress import say, show
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import InputError
from concord.schemas.reports import CalibrationReport, EvaluationReport, ExportReport
from concord.schemas.run import ALIAS, RunSettings
from concord.schemas.run_report import RunPlan, RunReport
from concord.schemas.settings import Settings, TextSettings, Validation
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
app.add_typer(clusters_app, name="clusters")
app.command(epilog=CODL_EXAMPLE, resumes=True)(codl)
app.add_typer(constraints_app, name="constraints")
export = CommandTree(help="Write models and predictions for other programs.")
app.add_typer(export, name="export")
app.add_typer(corpus_app, name="corpus")
app.command(epilog=DOCTOR_EXAMPLE)(doctor)
app.command(epilog=HISTORY_EXAMPLE)(history)
app.command(epilog='Example: concord label --model models/news/ "Ada Lovelace wrote to Charles Babbage."')(label)
app.add_typer(import_app, name="import")
app.command(epilog=INIT_EXAMPLE)(init)
app.add_typer(list_app, name="list")
app.command(epilog=MONTHLY_EXAMPLE)(monthly)
app.command(epilog=PAPERS_EXAMPLE, resumes=True)(papers)
app.command("report", epilog=REPORT_EXAMPLE)(report_run)
app.add_typer(sweep_app, name="sweep")


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"concord {version(DISTRIBUTION)}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, and exit.")
]


@app.callback()
def main(*, _version: Version = False) -> None:
    """Prepares the process, for every command, and takes away what killed ones left among temporary files."""
    from concord.workers.storage.scratch import remove_abandoned

    remove_abandoned()
    set_for_good(ANY_PROCESSOR | PREFECT)  # Prefect's threads speak, and live, longer than a flow's call
    logging.raiseExceptions = False  # what cannot be logged to a server that is gone would stand between our lines


class TrainChoices(Settings):
    """Options of `train` that are parameters of its flow, by the same names."""

    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose the options that you leave out by cross-validation: features, c2 (perceptron: passes), "
            "min_freq and dropout; with trainer trigram k, metric, weighting and decay, by wrapped progressive "
            "sampling on Ray.",
        ),
    ] = False
    largest_sample: Annotated[
        int | None,
        typer.Option(
            min=500, help="Largest training sample of a trial of trigram, in tokens (default: the whole corpus)."
        ),
    ] = None
    consistency: Annotated[
        bool, typer.Option(help="Learn label consistency, tuned on documents that the model has not learned from.")
    ] = True
    held_out_share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Fraction of the documents kept apart to tune label consistency.")
    ] = 0.2
    validation: Validation = Field(Validation.RANDOM, description=JUDGING)
    register_as: Annotated[str | None, REGISTER] = None
    alias: AliasName = ALIAS


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
        raise InputError(f"{source}: nothing in it could be read as {reader}; {first_reason(out.expanduser())}")
    if report.rejected and not as_json:
        say(f"first reject: {first_reason(out.expanduser())}", style="yellow")


def _is_sampled(given: Mapping[str, Any]) -> bool:
    """Whether a training tries settings on samples, of which those that are done are not tried again."""
    from concord.workers.learning.trainers.registry import TRAINERS

    trainer = TRAINERS.get(given["trainer"])
    return bool(given["tune"]) and trainer is not None and trainer.sampling is not None


@app.command(
    epilog="Example: concord train --corpus corpora/train/ --out models/news/",
    resumes=_is_sampled,
)
def train(
    *,
    corpus: Corpus,
    out: ModelOut,
    trainer: TrainerName = "sgd",
    flags: TrainerFlagOptions,
    set_: Set = None,
    choices: Annotated[TrainChoices, FieldOptions(TrainChoices)],
    context: ContextOptions,
) -> TrainReport:
    """Train a model and its label consistency on a labelled corpus."""
    from concord.flows.inputs.jobs import check_sources
    from concord.flows.train import train as run_training

    check_sources([corpus])

    from concord.flows.inputs.options import parse_options
    from concord.workers.learning.trainers.registry import trainer_named

    pairs = trainer_pairs(trainer, flags, set_ or [])
    settings = parse_options(pairs, trainer_named(trainer).settings, owner=f"trainer {trainer}")
    return run_training(
        corpus,
        str(out),
        trainer=trainer,
        options=settings.model_dump(exclude_unset=True),
        **choices.model_dump(),
        **context.model_dump(),
    )


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
        typer.Option(help="Columns of the corpus that are passed on, joined by commas; may be given many times."),
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
    corpus: Corpus,
    model: ModelName,
    out: Annotated[
        str,
        typer.Option(help="Folder for predictions, on a disk that all workers see, or a URI such as s3://bucket/out."),
    ],
    set_: Set = None,
    declared: DeclaredOptions,
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
    shard_kib: ShardKib = None,
    fail_on_drift: Annotated[
        bool, typer.Option("--fail-on-drift", help="Exit with 6 if the run drifted from the last one in the folder.")
    ] = False,
    allow_gone: Annotated[
        bool,
        typer.Option(
            "--allow-gone",
            help="Publish although more than a tenth of the documents of the last run in the folder are gone from the "
            "corpus (otherwise exit with 6).",
        ),
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Log the page of `concord report` to the MLflow run, as report.html; with gold labels if the corpus "
            "has them.",
        ),
    ] = False,
    context: ContextOptions,
    settings: Annotated[dict[str, Any], FieldOptions(RunSettings, apart=("options",))],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many documents would be decoded, and why; write nothing.")
    ] = False,
) -> RunReport | RunPlan:
    """Label a corpus on Ray, each document as a whole. The same command again does only the rest."""
    from concord.flows.inputs.apart import check_inputs
    from concord.flows.inputs.jobs import check_sources, source_place

    check_sources([corpus], model=model, files=[*declared.files, *([] if only is None else [only])])
    check_inputs(out, [only])

    from concord.flows.commands.listed_documents import documents_asked_for
    from concord.flows.inputs.options import run_settings
    from concord.flows.labelling.label_job import LabelRequest

    request = LabelRequest(
        corpus=corpus,
        model=model,
        out=out,
        settings=run_settings(settings, set_ or []),
        constraints=tuple(map(source_place, declared.files)),
        consistency=declared.consistency,
        only=documents_asked_for(doc or (), only),
        shard_bytes=shard_kib and shard_kib << 10,
        context=context,
        fail_on_drift=fail_on_drift,
        allow_gone=allow_gone,
        report=report,
    )
    if dry_run:
        from concord.flows.commands.run_plan import plan_run

        return plan_run(request)

    from concord.flows.reprocess import reprocess as run_reprocess

    names = ("settings", "constraints", "consistency", "only", "shard_bytes", "fail_on_drift", "allow_gone", "report")
    given = {name: getattr(request, name) for name in names}
    return run_reprocess(corpus, model, request.out, **given, **context.model_dump())


@app.command(epilog="Example: concord verify --run out/")
def verify(
    *,
    run: RunFolder,
    context: TrackingOption,
    as_json: Json = False,
) -> None:
    """Check a finished run: recompute all numbers, find all documents, and confirm all bounds with a certificate."""
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


@app.command(epilog="Example: concord chains --corpus corpora/testa/ --model models/news/ --doc eng.testa-0012")
def chains(
    *,
    request: Annotated[ChainsRequest, FieldOptions(ChainsRequest, apart=NO_RAY)],
    set_: Set = None,
    declared: DeclaredOptions,
    as_json: Json = False,
) -> None:
    """Diagnose the sampler: whether Gibbs chains mix, by split R̂, effective samples and (with --doc) a picture.

    R̂ near 1 means that chains from different starts agree. Chains run at a constant temperature, on one document
    (--doc) or on the first documents of the corpus.
    """
    from concord.flows.cli.chains import diagnose_chains, picture

    report = diagnose_chains(request, set_ or [], declared.files, consistency=declared.consistency)
    print_report(report, as_json=as_json)
    if request.doc is not None and not as_json:
        show(*picture(report.documents[0]))


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
