"""Contract tests of trainers and of the models that they make, on a made-up corpus, in temporary folders."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import InputError
from concord.schemas.labels import OUTSIDE, Scheme
from concord.testing.expect import expect, expect_same
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.trainer import Iteration, Trainer
from concord.workers.models.folder import MANIFEST, ModelError, parse_manifest, update_manifest
from concord.workers.models.model import (
    HasOutsideCost,
    HasTemperature,
    Model,
    local_scores,
    temperature_of,
    viterbi_labels,
)
from concord.workers.synthesis.layered import with_layer
from concord.workers.synthesis.made_up import synthesize

Load = Callable[[Path], Model]


def check_trainer(name: str, trainer: Trainer, load: Load) -> None:
    """Checks the promises of a trainer and of its models, which ``load`` reads.

    Raises `AssertionError` at a broken promise.
    """
    documents = made_up(40, seed=0)
    with TemporaryDirectory(prefix="concord-testing-") as base:
        folder = Path(base)
        trained(trainer, folder / "model", documents)
        the_manifest_says_what_was_seen(name, trainer, folder / "model", documents)
        the_model_scores_as_it_was_trained(trainer, load, folder / "model", folder / "again", documents)
        equal_documents_give_equal_files(folder / "model", folder / "again")
        damage_is_a_model_error(load, folder / "again")
        other_documents_have_another_digest(trainer, folder / "model", folder / "fewer", documents)
        it_labels_better_than_nothing(load, folder / "model", made_up(30, seed=5))
        a_temperature_divides_the_scores(load, folder / "model", made_up(5, seed=1))
        an_outside_cost_lowers_one_label(load, folder / "model", made_up(5, seed=1))
        plain_labels_and_short_documents_will_do(trainer, folder / "plain")
        progress_rises_and_what_it_raises_ends_all(trainer, load, folder / "progress", documents)
        bad_input_is_one_line(trainer, folder / "bad", documents)


def made_up(count: int, *, seed: int) -> list[Document]:
    """Made-up news with gold labels and a layer."""
    return with_layer(synthesize(count, seed=seed, kind="news"))


def trained(trainer: Trainer, out: Path, documents: Sequence[Document]) -> Model:
    """A model trained with the trainer's default settings."""
    return trainer.train(documents, settings=trainer.settings(), out=out)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of each file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def the_manifest_says_what_was_seen(name: str, trainer: Trainer, folder: Path, documents: Sequence[Document]) -> None:
    """The manifest has the trainer, its settings, the counts and every file."""
    manifest = parse_manifest(folder / MANIFEST)
    expect_same(manifest.training.get("trainer"), name, "the manifest names the trainer as its entry point does")
    counts = {
        "documents": len(documents),
        "tokens": sum(map(len, documents)),
        "sentences": sum(len(document.sentence_starts) for document in documents),
    }
    for what, count in counts.items():
        expect_same(manifest.figures.get(what), count, f"{what} in the manifest")
    expect_same(trainer.settings.model_validate(manifest.settings), trainer.settings(), "the settings in the manifest")
    expect_same(set(manifest.files), contents(folder).keys() - {MANIFEST}, "the files in the manifest")


def the_model_scores_as_it_was_trained(
    trainer: Trainer, load: Load, folder: Path, out: Path, documents: Sequence[Document]
) -> None:
    """A model has the same labels and scores if it is loaded, pickled or trained again, and the same digest."""
    model, batch = load(folder), Batch.of(made_up(20, seed=1))
    again = trained(trainer, out, documents)
    expect_same(again.digest, model.digest, "the digest of a model that is trained again")
    expect(set(model.columns) <= set(batch.columns), f"columns that documents have, not {model.columns}")
    scores = model.potentials(batch)
    expect_same(scores.unary.shape, (batch.token_count, len(model.labels)), "scores of each token and label")
    for other in (again, pickle.loads(pickle.dumps(model, protocol=5))):  # noqa: S301
        expect_same(other.labels, model.labels, "the labels of the same model")
        expect_same(other.potentials(batch).unary.tobytes(), scores.unary.tobytes(), "the scores of the same model")


def a_temperature_divides_the_scores(load: Load, folder: Path, documents: Sequence[Document]) -> None:
    """A model that has a temperature divides its scores by it, is another model then, and labels as before."""
    model, batch = load(folder), Batch.of(list(documents))
    if not isinstance(model, HasTemperature):
        return
    manifest = parse_manifest(folder / MANIFEST)
    plain, labels = local_scores(model, batch), viterbi_labels(model, batch)
    for temperature in (4.0, model.temperature):
        update_manifest(folder, kind=manifest.kind, temperature=temperature)
        own = load(folder)
        scores, divided = local_scores(own, batch), model.temperature / temperature
        expect_same(scores.potentials.unary.tobytes(), (plain.potentials.unary * divided).tobytes(), "divided scores")
        edges = (plain.potentials.transition * divided).tobytes()
        expect_same(scores.potentials.transition.tobytes(), edges, "divided scores of pairs of labels")
        for one, other in zip(scores.rows or (), plain.rows or (), strict=True):
            expect_same(one.weight.tobytes(), (other.weight * divided).tobytes(), "divided weights of the model's rows")
        expect_same(viterbi_labels(own, batch).tobytes(), labels.tobytes(), "labels at another temperature")
        expect_same(own.digest, model.at(temperature).digest, "the digest of a model at the same temperature")
        expect_same(own.digest == model.digest, divided == 1.0, "another digest at another temperature")
    expect_same(parse_manifest(folder / MANIFEST), manifest, "the manifest of a model at its old temperature")


def an_outside_cost_lowers_one_label(load: Load, folder: Path, documents: Sequence[Document]) -> None:
    """A model that has an outside cost scores ``O`` that much lower, is another model then, and says what is likely."""
    model, batch = load(folder), Batch.of(list(documents))
    if not isinstance(model, HasOutsideCost) or OUTSIDE not in model.labels.index:
        return
    manifest = parse_manifest(folder / MANIFEST)
    plain, cost = local_scores(model, batch), model.outside_cost + 1.5
    update_manifest(folder, kind=manifest.kind, outside_cost=cost)
    own = load(folder)
    wanted = plain.potentials.unary.copy()
    wanted[:, model.labels.index[OUTSIDE]] -= 1.5 / temperature_of(model)
    problems, likely = (
        list(scores.problems(batch, model.labels, Unconstrained())) for scores in (local_scores(own, batch), plain)
    )
    expect(np.allclose(local_scores(own, batch).potentials.unary, wanted), "the cost taken from the scores of O")
    for one, other in zip(problems, likely, strict=True):
        expect(np.allclose(one.likelihoods.unary, other.likelihoods.unary), "what is likely without the cost")
    expect_same(own.digest, model.costing(cost).digest, "the digest of a model of the same cost")
    expect(own.digest != model.digest, "another digest with another cost")
    update_manifest(folder, kind=manifest.kind, outside_cost=model.outside_cost)
    expect_same(parse_manifest(folder / MANIFEST), manifest, "the manifest of a model of its old cost")


def equal_documents_give_equal_files(folder: Path, again: Path) -> None:
    """Files of equal documents and settings are equal byte for byte."""
    expect(contents(folder) == contents(again), "equal documents and settings give equal files")


def damage_is_a_model_error(load: Load, folder: Path) -> None:
    """A changed or missing file is a `ModelError`. The check leaves a damaged folder behind."""
    for name in parse_manifest(folder / MANIFEST).files:
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if whole else b"x")
        _is_refused(load, folder, f"{name} with another byte")
        path.unlink()
        _is_refused(load, folder, f"no {name}")
        path.write_bytes(whole)
    (folder / MANIFEST).write_text("{}")
    _is_refused(load, folder, "another manifest")


def _is_refused(load: Load, folder: Path, what: str) -> None:
    try:
        load(folder)
    except ModelError:
        return
    expect(None, f"a model with {what} is a ModelError")


def other_documents_have_another_digest(
    trainer: Trainer, folder: Path, out: Path, documents: Sequence[Document]
) -> None:
    """The digest of training covers all documents that were seen."""
    trained(trainer, out, documents[1:])
    digests = {parse_manifest(one / MANIFEST).training["digest"] for one in (folder, out)}
    expect_same(len(digests), 2, "digests of training on different documents")


def it_labels_better_than_nothing(load: Load, folder: Path, documents: Sequence[Document]) -> None:
    """On unseen documents more tokens are right than if all were labelled outside."""
    model, batch = load(folder), Batch.of(list(documents))
    gold = [] if batch.labels is None else batch.labels.strings()
    answers = model.labels.decode(viterbi(model.potentials(batch).legal(model.labels)))
    right = sum(a == b for a, b in zip(answers, gold, strict=True))
    expect(right > gold.count("O"), f"{right} of {len(gold)} tokens right, and {gold.count('O')} are outside")


def plain_labels_and_short_documents_will_do(trainer: Trainer, out: Path) -> None:
    """Plain labels, a document without tokens and sentences of one token can be trained on, if gold labels are read."""
    if not trainer.gold:
        return
    words, fields = [["12", "Main", "St"], ["7"]], [["number", "street", "street"], ["number"]]
    tags = [["X"] * len(row) for row in words]
    documents = [Document.build(str(i), words, labels=fields, pos=tags) for i in range(8)]
    documents.append(Document.build("empty", [], labels=[], pos=[]))
    model = trained(trainer, out, documents)
    expect_same(model.labels.scheme, Scheme.PLAIN, "the scheme of plain labels")
    labels = model.labels.decode(viterbi(model.potentials(Batch.of(documents[:1]))))
    expect_same(labels, ["number", "street", "street", "number"], "labels that were seen eight times over")


def progress_rises_and_what_it_raises_ends_all(
    trainer: Trainer, load: Load, out: Path, documents: Sequence[Document]
) -> None:
    """Numbers of iterations rise up to one total; after an interrupt no model is left, not even an earlier one."""
    iterations = list[Iteration]()
    trainer.train(documents, settings=trainer.settings(), out=out, progress=iterations.append)
    numbers = [iteration.number for iteration in iterations]
    expect(numbers, "progress is told of at least one iteration")
    expect_same(numbers, sorted(set(numbers)), "numbers of iterations")
    expect(1 <= numbers[0] <= numbers[-1] <= iterations[0].total, f"numbers from 1 to at most the total, not {numbers}")
    expect_same(len({iteration.total for iteration in iterations}), 1, "totals")

    def interrupt(_: Iteration) -> None:
        raise KeyboardInterrupt

    try:
        trainer.train(documents, settings=trainer.settings(), out=out, progress=interrupt)
    except KeyboardInterrupt:
        _is_refused(load, out, "its training interrupted")
    else:
        expect(None, "what progress raises ends training")


def bad_input_is_one_line(trainer: Trainer, out: Path, documents: Sequence[Document]) -> None:
    """No documents, no tokens, no gold labels or no layer: an `InputError` of one line, and no model."""
    without = Document.build("u", [["a"]], pos=[["X"]])
    for documents_without_gold in ([], [Document.build("e", [], labels=[], pos=[])], [*documents[:2], without]):
        try:
            trained(trainer, out, documents_without_gold)
        except InputError as error:
            expect("\n" not in str(error), f"one line, not {error}")
        else:
            expect(None, f"{len(documents_without_gold)} documents that nothing can be learned from are an InputError")
        expect(not (out / MANIFEST).exists(), "bad input leaves no model")
