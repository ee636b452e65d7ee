"""`concord import`: models of other programs. Heavy imports stay inside the commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from concord.flows.cli.arguments import AnswersFile, AnswersForm, LabelMap, ModelOut, Overwrite, Set
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.errors import UsageError
from concord.schemas.reports import CrfsuiteReport, EntitiesReport, OnnxReport, ScoresReport
from concord.workers.models.settings import ScoresSettings


class PoolingChoice(StrEnum):
    """Scores of a word, from those of its sub-words."""

    AUTO = "auto"
    FIRST = "first"
    MEAN = "mean"


class SchemeChoice(StrEnum):
    """Scheme of a model's labels."""

    AUTO = "auto"
    PLAIN = "plain"


app = CommandTree(help="Make a model from the model or the scores of another program; or a layer of its answers.")


@app.command(
    epilog="Example: concord import entities answers.jsonl --name spacy --corpus corpora/train/ --out corpora/tagged/",
)
def entities(
    source: AnswersFile,
    *,
    form: AnswersForm = "spans",
    name: Annotated[str, typer.Option(help="Name of the layer, such as that of the tagger.")],
    corpus: Annotated[str, typer.Option(help="Parquet corpus of the documents that the tagger has seen.")],
    out: Annotated[Path, typer.Option(help="Folder for the corpus with the layer; all else is as in --corpus.")],
    map_: LabelMap = None,
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates",
            help="Spans have scores and may overlap, as GLiNER gives them at a low threshold: keep them all, for "
            "--trainer candidates. Answers to parts of a text, such as windows, are put together.",
        ),
    ] = False,
    samples: Annotated[
        bool,
        typer.Option(
            "--samples",
            help="The answers are several runs of one program, such as a folder of a file for each; a span is a "
            "candidate whose score is the share of runs that gave it.",
        ),
    ] = False,
    set_: Set = None,
    overwrite: Overwrite = False,
) -> EntitiesReport:
    """Add a tagger's answers to a corpus as a layer, which models can learn from; gold labels stay as they are."""
    from concord.flows.commands.layering import import_entities
    from concord.workers.corpus.taggers import Reading

    if candidates and samples:
        raise UsageError("--samples makes candidates of their own of what several runs gave; leave --candidates out")
    return import_entities(
        source,
        out,
        form=form,
        name=name,
        corpus=corpus,
        names=map_ or [],
        options=set_ or [],
        reading=Reading.SAMPLES if samples else Reading.CANDIDATES if candidates else Reading.ANSWERS,
        overwrite=overwrite,
    )


@app.command(
    epilog="Example: concord import scores labels.txt --column scores --form logits --out models/mine/",
)
def scores(
    labels: Annotated[
        Path,
        typer.Argument(
            help="Text file of the labels, one on each line, in the order of the scores; or a model's config.json."
        ),
    ],
    *,
    out: ModelOut,
    transitions: Annotated[
        Path | None,
        typer.Option(
            help="Matrix of transition scores in nats (.npy), one row for each previous label (default: zeros)."
        ),
    ] = None,
    settings: Annotated[dict[str, Any], FieldOptions(ScoresSettings, apart=("labels",))],
) -> ScoresReport:
    """Make a model that reads another tagger's scores from a column of the corpus; `concord calibrate` fits it."""
    from concord.flows.commands.importing import import_scores

    return import_scores(labels, out, settings, transitions=transitions)


@app.command(
    epilog="Example: concord import crfsuite us.crfsuite --feature-function usaddress:tokens2features --out models/us/",
)
def crfsuite(
    file: Annotated[Path, typer.Argument(help="Model file that CRFsuite or python-crfsuite has written.")],
    *,
    feature_function: Annotated[
        str,
        typer.Option(
            help="Function that makes the features of a sentence's words, as MODULE:FUNCTION. Its code is run, so "
            "it must be trusted."
        ),
    ],
    tokenizer_function: Annotated[
        str | None,
        typer.Option(
            help="Function that cuts raw text into words, as MODULE:FUNCTION. Its code is run, so it must be trusted."
        ),
    ] = None,
    word_tables: Annotated[
        bool,
        typer.Option(help="Score from tables of words, which is faster, if each feature depends on one word only."),
    ] = True,
    scheme: Annotated[
        SchemeChoice,
        typer.Option(help=ScoresSettings.model_fields["scheme"].description),
    ] = SchemeChoice.AUTO,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Parquet corpus on whose first documents the functions are tried (default: sentences made up of the "
            "model's own words)."
        ),
    ] = None,
    out: ModelOut,
) -> CrfsuiteReport:
    """Make a model from a model file of CRFsuite, with the feature function of the package that it came with."""
    from concord.flows.commands.importing import import_crfsuite

    return import_crfsuite(
        file,
        out,
        feature_function,
        tokenizer=tokenizer_function,
        word_tables=word_tables,
        scheme=scheme.value,
        corpus=corpus,
    )


@app.command(
    epilog="Example: concord import onnx downloads/my-ner/ --corpus corpora/held-out/ --out models/mine/",
)
def onnx(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of a Hugging Face token classifier: config.json, tokenizer.json and model.onnx, also in its "
            "folder onnx/."
        ),
    ],
    *,
    network: Annotated[
        Path | None, typer.Option(help="File of the network, if the folder has several (default: model.onnx).")
    ] = None,
    pooling: Annotated[
        PoolingChoice,
        typer.Option(
            help="Scores of a word: those of its first sub-word, or the mean of all; auto: what is better on the "
            "labelled documents of --corpus, or first."
        ),
    ] = PoolingChoice.AUTO,
    overlap: Annotated[
        int, typer.Option(min=0, help="Sub-words that two windows of a sentence too long for the network share.")
    ] = 64,
    scheme: Annotated[
        SchemeChoice,
        typer.Option(help=ScoresSettings.model_fields["scheme"].description),
    ] = SchemeChoice.AUTO,
    corpus: Annotated[
        str | None,
        typer.Option(help="Parquet corpus with gold labels that the model has not learned from."),
    ] = None,
    out: ModelOut,
) -> OnnxReport:
    """Make a model from a neural token classifier in ONNX, which then labels by itself; `concord calibrate` fits it."""
    from concord.flows.commands.importing import import_onnx

    return import_onnx(
        folder,
        out,
        file=network,
        pooling=pooling.value,
        overlap=overlap,
        scheme=scheme.value,
        corpus=corpus,
    )
