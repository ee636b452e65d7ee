"""What a method of mining is: rules found by counting a corpus, once or several times, wherever its documents are.

A method is a generator. It yields each `Counting` that it needs and gets the counts of the whole corpus for it, and
returns the `MinedRules`. So one text says what it does, for a corpus on Ray and for documents in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from concord.schemas.audit import UnsaidClause
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.settings import Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.mining.logic.openings import part_of
from concord.workers.learning.mining.rules import KeptSettings, RuleTrial, in_documents
from concord.workers.learning.search.folds import first_held_out
from concord.workers.learning.weights.penalties import Penalty
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.learning.weights.unseen import BATCH_DOCUMENTS

Item = TypeVar("Item")


class CountBatch(Protocol):
    """Function from a batch to counts; it travels to the workers, so it is one that can be pickled."""

    def __call__(self, batch: Batch, *, first: int | None, rejected: int) -> Any:
        """The counts; documents from index ``first`` on are held out (None: a hash of the id decides)."""
        ...


class Counting(NamedTuple):
    """A count over all documents of a corpus.

    - ``title``: what it does, for the bar.
    - ``of_batch``: counts of a batch.
    - ``merge``: counts of all batches together; of none they are those of an empty corpus.
    - ``held_out``: share of the documents that are held out.
    """

    title: str
    of_batch: CountBatch
    merge: Callable[[Iterable[Any]], Any]
    held_out: float = 1.0


def as_they_are(title: str, items: Iterable[Item]) -> Iterable[Item]:
    """`MiningTask.watched` where nobody looks."""
    del title
    return items


class MiningTask(NamedTuple):
    """What a method gets.

    - ``labels``: labels of the corpus.
    - ``settings``: settings of the method.
    - ``seed``: seed of the random numbers.
    - ``watched``: passes on items that take long to come, and may show how many there are.
    """

    labels: LabelSet
    settings: Any
    seed: int
    watched: Callable[[str, Iterable[Any]], Iterable[Any]] = as_they_are


class MinedRules(NamedTuple):
    """Result of a method of mining.

    - ``rules``: the rules that hold.
    - ``constraints``: constraints that express them.
    - ``documents``, ``with_gold``: number of documents read, and of those with gold labels.
    - ``rejected``: number of rows that could not be read.
    - ``candidates``, ``significant``: number of rules tested, and of those that hold more often than by chance.
    - ``held_out``: share of the documents on which the rules were tested.
    - ``notes``: sentences about rules, by name.
    - ``unsaid``: rules that no constraint can express, with the reason.
    - ``remarks``: sentences for the head of the file.
    """

    rules: Sequence[RuleTrial]
    constraints: DeclaredConstraints
    documents: int
    with_gold: int
    rejected: int
    candidates: int
    significant: int
    held_out: float = 1.0
    notes: Mapping[str, str] = {}
    unsaid: tuple[UnsaidClause, ...] = ()
    remarks: tuple[str, ...] = ()


Mining = Generator[Counting, Any, MinedRules]


class Miner(NamedTuple):
    """A method of mining, a part of `Group.METHODS`.

    - ``mine``: the method; its first line says what it finds.
    - ``settings``: class of its options.
    """

    mine: Callable[[MiningTask], Mining]
    settings: type[KeptSettings]
    holds_out: bool = False
    """Does it hold documents out, even if no rules are judged?"""


def mined(miner: Miner, task: MiningTask, count: Callable[[Counting], Any]) -> MinedRules:
    """The rules of a method; ``count`` gives the counts of the whole corpus."""
    mining, counts = miner.mine(task), None
    while True:
        try:
            counts = count(mining.send(counts))
        except StopIteration as end:
            rules: MinedRules = end.value
            return rules


class MinerHere(NamedTuple):
    """A method in this process: the weighed rules that `concord constraints mine` finds with any number of workers.

    - ``penalty``: counted penalty that gives the weights.
    - ``validation``: choice of the documents that are held out.
    """

    miner: Miner
    task: MiningTask
    penalty: Penalty
    validation: Validation = Validation.RANDOM

    def rules(self, documents: Sequence[Document], holding: Sequence[Document]) -> DeclaredConstraints:
        """Weighed rules from some documents, without rules that are too large for one of the ``holding`` documents."""

        def count(counting: Counting) -> Any:
            first = self._first(counting.held_out, len(documents))
            return counting.merge([counting.of_batch(Batch.of(documents), first=first, rejected=0)])

        result, labels = mined(self.miner, self.task, count), self.task.labels
        fitting = held_by(holding, result.constraints, labels)
        first = self._first(result.held_out, len(documents))
        tested = part_of(Batch.of(documents), result.held_out, held_out=True, first=first)
        return weighed(result.rules, fitting, _batches(list(tested)), labels, self.penalty)

    def _first(self, share: float, documents: int) -> int | None:
        return None if self.validation is Validation.RANDOM else first_held_out(documents, share)


def held_by(documents: Sequence[Document], constraints: DeclaredConstraints, labels: LabelSet) -> DeclaredConstraints:
    """The constraints that are not too large for any of the documents."""
    too_large: set[str] = {title for batch in _batches(documents) for title in constraints.too_large(batch, labels)}
    return constraints.only(set(constraints.titles) - too_large)


def weighed(
    rules: Sequence[RuleTrial],
    constraints: DeclaredConstraints,
    batches: Iterable[Batch],
    labels: LabelSet,
    penalty: Penalty,
) -> DeclaredConstraints:
    """The constraints, one for each rule, with the weights that a mined file has."""
    rows, settings = count_rows(constraints, batches, labels), penalty.settings()
    with_rows = (rule for rule in rules if rule.name in rows)
    weights = {rule.name: in_documents(rule, rows[rule.name].degree).weight(penalty, settings) for rule in with_rows}
    return with_weights(constraints, weights)


def _batches(documents: Sequence[Document]) -> Iterator[Batch]:
    for first in range(0, len(documents), BATCH_DOCUMENTS):
        yield Batch.of(documents[first : first + BATCH_DOCUMENTS])
