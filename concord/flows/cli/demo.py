"""`make demo`: a small made-up corpus, trained on, labelled with and without agreement, and compared."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.table import Table

from concord.flows.cli.next_steps import after_demo
from concord.flows.environment import ANY_PROCESSOR, command, home, set_for_good
from concord.flows.screen.progress import Terminal

FOLDER = Path("demo")
TRAINING, TEST = 300, 150
ENGINES = ("viterbi", "gibbs", "certify")
"""Engines that are compared."""

out = Terminal(markup=True)


class Result(NamedTuple):
    """One engine's run and its evaluation."""

    engine: str
    run: Any
    evaluation: Any


def main() -> None:
    """Runs the demonstration in the folder `FOLDER`; replaces earlier output there, and keeps tracked runs."""
    started = time.monotonic()
    # Before the first import of Prefect and MLflow: the demonstration keeps to its own folder.
    own = {
        "CONCORD_HOME": str(FOLDER / ".concord"),
        "PREFECT_HOME": str((FOLDER / ".concord" / "prefect").absolute()),
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    }
    set_for_good(ANY_PROCESSOR | own)
    os.environ["RAY_ADDRESS"] = "local"  # nodes of a cluster may not see the folder
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    from concord.flows.cli.compiling import proofs_compiled_beside
    from concord.flows.cli.failures import reported
    from concord.flows.inputs.left_ray import one_ray

    with reported(), proofs_compiled_beside("certify"), one_ray():
        _clear()
        _make_corpora()
        _train()
        results = [_reprocess(engine) for engine in _engines()]
        _compare(results)
        _example(results[-1].engine)
        _outlook(time.monotonic() - started)


def _clear() -> None:
    for name in ("train", "test", "model", *(f"out-{engine}" for engine in ENGINES)):
        shutil.rmtree(FOLDER / name, ignore_errors=True)


def _engines() -> list[str]:
    from concord.workers.inference.registry import SOLVERS

    return [name for name in ENGINES if name in SOLVERS]


def typed_here(arguments: str) -> str:
    """A command on the demonstration's runs, which works in the folder where the demonstration was started."""
    return f"CONCORD_HOME={shlex.quote(os.path.relpath(home()))} {command('concord')} {arguments}"


def _step(text: str, *typed: str) -> None:
    out.print(f"\n[bold]{text}[/bold]")
    for arguments in typed:
        out.print(f"[dim]$ {typed_here(arguments)}[/dim]", soft_wrap=True)


def _make_corpora() -> None:
    from concord.flows.commands.corpora import synthesize_corpus
    from concord.workers.corpus.settings import IngestSettings

    _step(
        "1. Two corpora of made-up news: names come in with a telling phrase and recur without one.",
        f"synthesize --kind news --documents {TRAINING} --out {FOLDER}/train --overwrite",
        f"synthesize --kind news --documents {TEST} --seed 1 --out {FOLDER}/test --overwrite",
    )
    layout = IngestSettings(group_documents=16)
    for name, documents, seed in (("train", TRAINING, 0), ("test", TEST, 1)):
        report = synthesize_corpus(
            FOLDER / name, documents=documents, seed=seed, kind="news", layout=layout, overwrite=True
        )
        out.print(f"   {name}: {report.written:,} documents, {report.tokens:,} tokens")


def _train() -> None:
    from concord.flows.train import train

    _step(
        "2. A CRF, and how much its labels should agree across a document (tuned on held-out documents).",
        f"train --corpus {FOLDER}/train --out {FOLDER}/model --register demo-news",
    )
    report = train(
        str(FOLDER / "train"),
        str(FOLDER / "model"),
        register_as="demo-news",
    )
    out.print(f"   {report.figures['iterations']:.0f} iterations; registered in MLflow as {report.registered}")
    if report.consistency is not None:
        out.print(
            f"   held-out entity F1 {report.consistency.f1_without:.1%} without agreement, "
            f"{report.consistency.f1:.1%} with it"
        )


def _reprocess(engine: str) -> Result:
    from concord.flows.labelling.evaluate import evaluate
    from concord.flows.reprocess import reprocess
    from concord.schemas.run import RunSettings

    folder = str(FOLDER / f"out-{engine}")
    title = "3. Each sentence by itself" if engine == "viterbi" else "   The document as a whole"
    _step(
        f"{title}: {engine}.",
        f"reprocess --corpus {FOLDER}/test --model models:/demo-news@champion --engine {engine} --out {folder}",
    )
    run = reprocess(str(FOLDER / "test"), "models:/demo-news@champion", folder, settings=RunSettings(engine=engine))
    out.print(f"   {run.documents:,} documents in {run.shards_done} shards; {run.pace}")
    return Result(engine, run, evaluate(folder, str(FOLDER / "test")))


def _compare(results: list[Result]) -> None:
    _step("4. What agreement is worth.", f"evaluate --run {FOLDER}/out-certify --corpus {FOLDER}/test")
    table = Table(box=None, pad_edge=False)
    table.add_column("entity F1, per cent")
    for result in results:
        table.add_column(result.engine, justify="right")
    entities = [r.evaluation.report.measures["spans"] for r in results]
    for name in entities[0].names:
        scores = (found.names.get(name) for found in entities)
        table.add_row(name, *("-" if s is None else f"{100 * s.f1:.2f}" for s in scores))
    table.add_row("all", *(f"{100 * found.figures['f1']:.2f}" for found in entities), style="bold")
    table.add_section()
    table.add_row("disagreements", *(f"{r.run.violations:,.0f}" for r in results))
    table.add_row("penalty, nats", *(f"{r.run.penalty:,.0f}" for r in results))
    table.add_row("proven optimal, per cent", *(f"{100 * r.run.certified:.0f}" for r in results))
    out.print(table)


def _example(engine: str) -> None:
    """Shows the name with the most mentions that agreement corrected, and three of these mentions."""
    from concord.flows.commands.examples import mended_name

    found = mended_name(FOLDER / f"out-{engine}", FOLDER / "test")
    if found is None:
        return
    out.print(f"\n   For example, [bold]{found.name}[/bold] in document {found.doc_id}:")
    for mention in found.mentions:
        change = f"{mention.before} → {mention.after}" if mention.before != mention.after else mention.after
        out.print(f"     … {mention.left} [bold]{found.name}[/bold] {mention.right} …  [cyan]{change}[/cyan]")


def _outlook(seconds: float) -> None:
    from concord.flows.tracking.tracking import Tracking, ui_command

    out.print(f"\n[bold]Done in {seconds:.0f} seconds.[/bold] What to look at now:")
    lines = (
        ("predictions", f"{FOLDER}/out-certify/predictions/*.parquet (and manifest.json beside them)"),
        ("runs in MLflow", ui_command(Tracking().uri)),
        ("the commands", f"{command('concord')} --help"),
    )
    for name, text in lines:
        out.print(f"   {name:<16} {text}", soft_wrap=True)
    out.print("\nYour own corpus:")
    for words in after_demo():
        out.print(f"   {command('concord')} {shlex.join(words)}", soft_wrap=True)
    out.print(f"   {command('concord')} list readers, for files of another form", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
