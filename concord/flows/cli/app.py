"""The console script. Heavy imports stay inside the commands: ``concord --help`` answers at once."""

from __future__ import annotations

import json
import logging
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from concord.flows.cli.arguments import (
    DeclaredOptions,
    Json,
    ModelName,
    Overwrite,
    RunFolder,
    Set,
    TrackingOption,
    print_json,
)
from concord.flows.cli.challenge_cli import CHALLENGE_EXAMPLE, challenge, show_challenge
from concord.flows.cli.clusters_cli import app as clusters_app
from concord.flows.cli.codl_cli import CODL_EXAMPLE, codl, show_codl
from concord.flows.cli.constraints_cli import NO_RAY
from concord.flows.cli.constraints_cli import app as constraints_app
from concord.flows.cli.corpus_cli import app as corpus_app
from concord.flows.cli.doctor_cli import DOCTOR_EXAMPLE, doctor
from concord.flows.cli.failures import Exit, exit_codes
from concord.flows.cli.history_cli import HISTORY_EXAMPLE, MONTHLY_EXAMPLE, history, monthly, show_history, show_month
from concord.flows.cli.import_cli import app as import_app
from concord.flows.cli.init_cli import INIT_EXAMPLE, init
from concord.flows.cli.label_cli import label
from concord.flows.cli.list_cli import app as list_app
from concord.flows.cli.papers_cli import PAPERS_EXAMPLE, papers, show_papers
from concord.flows.cli.settings_options import A_PATH, REGISTER, SHARD_KIB, FieldOptions
from concord.flows.cli.sweep_cli import app as sweep_app
from concord.flows.cli.trainer_flags import TrainerFlagOptions, trainer_pairs
from concord.flows.cli.tree import CommandTree
from concord.flows.cli.verified import show_verified
from concord.flows.commands.requests import ChainsRequest
from concord.flows.environment import ANY_PROCESSOR, PREFECT, set_for_good
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.screen.progress import say, show
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import InputError
from concord.schemas.reports import CalibrationReport, ExportReport
from concord.schemas.requests import LabelRequest, TrainRequest
from concord.schemas.run import (
    ConsistencyReport,
    LayersReport,
    RunPlan,
    RunReport,
    TaggersReport,
    TrainReport,
)
from concord.schemas.settings import TextSettings
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
app.command(epilog=CHALLENGE_EXAMPLE, tells=show_challenge)(challenge)
app.add_typer(clusters_app, name="clusters")
app.command(epilog=CODL_EXAMPLE, tells=show_codl, resumes=True)(codl)
app.add_typer(constraints_app, name="constraints")
export = CommandTree(help="Write models and predictions for other programs.")
app.add_typer(export, name="export")
app.add_typer(corpus_app, name="corpus")
app.command(epilog=DOCTOR_EXAMPLE)(doctor)
app.command(epilog=HISTORY_EXAMPLE, tells=show_history)(history)
app.command(epilog='Example: concord label --model models/news/ "Ada Lovelace wrote to Charles Babbage."')(label)
app.add_typer(import_app, name="import")
app.command(epilog=INIT_EXAMPLE)(init)
app.add_typer(list_app, name="list")
app.command(epilog=MONTHLY_EXAMPLE, tells=show_month)(monthly)
app.command(epilog=PAPERS_EXAMPLE, tells=show_papers, resumes=True)(papers)
app.add_typer(sweep_app, name="sweep")


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
        raise InputError(f"{source}: nothing in it could be read as {reader}; {first_reason(out.expanduser())}")
    if report.rejected and not as_json:
        say(f"first reject: {first_reason(out.expanduser())}", style="yellow")


def _show_training(report: TrainReport) -> None:
    if report.selection:
        from concord.flows.cli.tables import selection_table

        show(selection_table(report.selection))
    if report.samples:
        from concord.flows.cli.tables import samples_table

        show(samples_table(report.samples))
        trials, seconds = (sum(figure) for figure in zip(*((s.tried, s.seconds) for s in report.samples), strict=True))
        show(f"{trials:,} trials on {len(report.samples)} samples, {seconds:,.1f} CPU s")
    show(f"{report.documents:,} documents, {report.tokens:,} tokens, {report.rejected} rejected")
    if (share := report.figures.get("dropout")) is not None:
        passes = report.figures["iterations"]
        show(f"{report.trainer}: {passes:,.0f} passes over {report.tokens:,} tokens, dropout {share:g}")
    if cut := report.figures.get("cut_segments"):
        longest = report.figures["longest"]
        show(f"{cut:,.0f} gold segments had more than {longest:.0f} tokens, and were cut", style="yellow")
    if report.layers is not None:
        show(_layers_line(report.layers))
    if report.taggers is not None:
        _show_taggers(report.taggers)
    if report.consistency is not None:
        show(_consistency_line(report.consistency, "held-out F1"))
    show(f"model in {report.out}" + (f", registered as {report.registered}" if report.registered else ""))


def _show_taggers(report: TaggersReport) -> None:
    for name, tagger in report.taggers.items():
        types = ", ".join(
            f"{kind} {' '.join(f'{100 * chance:.0f}' for chance in chances.values())}"
            for kind, chances in tagger.types.items()
        )
        copies = "" if tagger.weight == 1.0 else f"; says what others say, and counts {tagger.weight:.2f}"
        show(f"{name}: {types}; false alarms {tagger.alarms:.1%}{copies}")
    show("(% of the tokens of each type that it hits, takes for another type, misses, or puts in another place)")
    show(_trust_line(report), style="yellow")


def _trust_line(report: TaggersReport) -> str:
    if report.witnesses < 1.5:
        how = "one tagger alone, so how reliable it is was assumed and not learned"
    else:
        share = sum(report.equal.values()) / len(report.equal)
        how = f"the taggers say the same of {share:.0%} of the tokens that either of two marks"
    return (
        f"no gold was read: {how}; errors that are alike everywhere show nowhere; label some documents, and "
        "`concord evaluate` says how good the model is"
    )


def _layers_line(report: LayersReport) -> str:
    judged = ", ".join(f"{name} {f1:.2%}" for name, f1 in report.held_out_f1.items())
    if not report.learned:
        return f"held-out F1: {judged}; nothing learned is better, so the model gives the answers as they are"
    gain = f"{100 * report.gain:+.2f} points on {report.unlearned}, {100 * report.low:+.2f} to {100 * report.high:+.2f}"
    return f"held-out F1: {judged}; taken: {report.best} ({gain})"


@app.command(
    epilog="Example: concord train --corpus corpora/train/ --out models/news/",
    tells=_show_training,
    resumes=lambda given: given["tune"] and given["trainer"] == "trigram",
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
    return run_training(**request.parameters | {"options": settings.model_dump(exclude_unset=True)})


def _show_calibration(report: CalibrationReport) -> None:
    show(f"{report.documents:,} documents, {report.tokens:,} tokens, {report.rejected} rejected")
    if report.tagger_f1 is not None:
        names = {"neither": "as imported"}
        found = [f"{names.get(fit, fit)} {f1:.2%}" for fit, f1 in report.held_out_f1.items()]
        show(f"held-out F1: the tagger itself {report.tagger_f1:.2%}, {', '.join(found)}")
        show(f"learned: {report.fit}")
    if report.temperature is not None:
        show(
            f"temperature {report.temperature:.4g}; −log p(gold) "
            f"{report.loss_before:.4f} → {report.loss:.4f} nats a token"
        )
    if report.sentences_left_out:
        show(f"{report.sentences_left_out:,} sentences left out: the scores forbid their gold labels", style="yellow")
    if report.consistency is not None:
        show(_consistency_line(report.consistency, "F1"))
    if report.consistency_f1 is not None:
        show(
            f"held-out F1 with label consistency, tuned on the other half of the documents: {report.consistency_f1:.2%}"
        )
    show(f"model in {report.out}")


def _consistency_line(tuned: ConsistencyReport, f1: str) -> str:
    """Sentence about the scales, and about F1 without label consistency and with it; ``f1`` names this F1."""
    return (
        f"label consistency: scales {tuned.exact_scale:g} (exact), {tuned.subsequence_scale:g} (subsequence) "
        f"and {tuned.unlabelled_scale:g} (unlabelled); {f1} {tuned.f1_without:.2%} → {tuned.f1:.2%}"
    )


@app.command(
    epilog="Example: concord calibrate --model models/mine/ --corpus corpora/held-out/ --out models/fitted/",
    tells=_show_calibration,
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


def _show_export(report: ExportReport) -> None:
    show(
        f"{report.documents:,} documents, {report.spans:,} spans: {report.changed:,} added or retyped by constraints, "
        f"{report.removed:,} of the model alone removed"
    )
    show(f"{report.form} in {report.out}")


@export.command(
    "predictions",
    epilog="Example: concord export predictions --run out/ --corpus corpora/testa/ --form doccano --out new.jsonl",
    tells=_show_export,
)
def export_predictions(
    *,
    run: RunFolder,
    form: Annotated[str, typer.Option(help="OptionForm of the file; `concord list writers` has them.")],
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


def _show_run(done: RunReport | RunPlan) -> None:
    if isinstance(done, RunPlan):
        _show_run_plan(done)
        return
    report = done.model_dump()
    show(
        f"{report['documents']:,} documents, {report['tokens']:,} tokens, {report['rejected']:,} rejected; "
        f"shards: {report['shards_done']} done, {report['shards_skipped']} skipped, {report['shards_failed']} failed"
    )
    if done.reuse.documents:
        show(done.reuse.line)
    show(f"{report['seconds']:.1f} s in all; {done.pace}")
    show(f"{report['certified']:.1%} of documents certified, {report['by_solver']:.1%} on a solver's word")
    show(
        f"violations {report['violations_before']:,.0f} → {report['violations']:,.0f}, "
        f"penalty {report['penalty_before']:,.1f} → {report['penalty']:,.1f} nats"
    )
    if report["infeasible"]:
        show(
            f"{report['infeasible']:,} documents cannot keep all hard constraints; their status says so", style="yellow"
        )
    errors = report["search_errors"]
    if errors:
        show(
            f"of the {errors['search'] + errors['model'] + errors['open']:,} wrong entities of the examined engine "
            f"{errors['search']:,} are search errors, {errors['model']:,} model errors and {errors['open']:,} open"
        )
    show(f"predictions in {report['out']}; MLflow run {report['mlflow_run']}")


def _show_run_plan(plan: RunPlan) -> None:
    show(f"{plan.documents:,} documents; {plan.skipped:,} in shards that are done, {plan.shards:,} shards to do")
    rows = (
        (plan.kept, "keep the answer of the last run"),
        (plan.checked, "keep it if it stands under the new constraints"),
        (plan.guessed, "are scored, and it is where looking for the best one starts"),
        (plan.decoded, "are new, changed or without such an answer, and are decoded"),
    )
    for count, line in rows:
        if count:
            show(f"{'about ' if plan.sampled else ''}{count:,} documents {line}")
    if plan.repeated:
        show(f"{plan.repeated:,} rows have the id of an earlier one, and become rejects", style="yellow")
    if plan.decoded and plan.cpu_seconds is not None:
        show(f"decoding them takes about {plan.cpu_seconds:,.1f} CPU s")


@app.command(
    epilog="Example: concord reprocess --corpus corpora/testa/ --model models/news/ --out out/",
    tells=_show_run,
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
        bool, typer.Option("--dry-run", help="Say how many documents would be decoded, and why; write nothing.")
    ] = False,
) -> RunReport | RunPlan:
    """Label a corpus on Ray, each document as a whole. The same command again does only the rest."""
    from concord.flows.inputs.apart import check_inputs
    from concord.flows.inputs.jobs import check_sources, source_place

    lists = [] if only is None else [only]
    check_sources([request.corpus], model=request.model, files=[*request.constraints, *lists])
    check_inputs(request.out, lists)

    from concord.flows.commands.listed_documents import documents_asked_for
    from concord.flows.inputs.options import run_settings

    parts = {
        "settings": run_settings(dict(request.settings), set_ or []),
        "constraints": tuple(map(source_place, request.constraints)),
        "only": documents_asked_for(doc or (), only),
    }
    request = request.model_copy(update=parts)
    if dry_run:
        from concord.flows.commands.run_plan import plan_run

        return plan_run(request)

    from concord.flows.reprocess import reprocess as run_reprocess

    return run_reprocess(**request.parameters)


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
    if as_json:
        print_json(report.model_dump_json())
    else:
        show_verified(report)
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
    as_json: Json = False,
) -> None:
    """Score predictions against gold, show the changes against Viterbi, and compare with another run.

    Measures: labels of tokens (labels), tokens by field or type (tokens), entities or fields as conlleval counts them
    (spans), entities of the source by characters (offsets; those that tokens cannot express are missed), whole
    documents (documents), and the overlap of fields in lines (lines) and in characters (characters). The default is
    spans for BIO, and labels, spans and documents for other labels; and offsets, if the corpus has spans of its source.
    """
    from concord.flows.cli.tables import against_lines, against_table, evaluation_lines, interval_line, measure_table
    from concord.flows.labelling.evaluate import evaluate as run_evaluate

    evaluation = run_evaluate(run, corpus, measures=measure, against=against)
    for folder, shards in evaluation.unfinished.items():
        say(
            f"{folder}: a later run is not finished ({shards} of its shards are done); "
            "these are the scores of the last whole one",
            style="yellow",
        )
    report = evaluation.report
    if as_json:
        print_json(report.model_dump_json())
        return
    for name, found in report.measures.items():
        show(measure_table(name, evaluation), interval_line(name, found))
    if report.against is not None:
        show(against_table(report.against))
        show(*against_lines(report.against, report.documents))
    show(*evaluation_lines(evaluation))


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
    from concord.flows.cli.chains import chains_line, chains_table, diagnose_chains, picture

    report = diagnose_chains(request, set_ or [], declared.files, consistency=declared.consistency)
    if as_json:
        print_json(report.model_dump_json())
        return
    show(chains_table(report))
    show(*(picture(report.documents[0]) if request.doc is not None else []), chains_line(report))


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
