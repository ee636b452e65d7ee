"""Deliberate changes in the code behind the proofs, and the tests that have to notice each of them."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """``old``, which the file holds once, becomes ``new``; one of ``tests`` has to fail then."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


BRANCHING = "concord/workers/inference/certify/branching.py"
CERTIFY = "concord/workers/inference/certify/engine.py"
CHECKER = "concord/workers/certificates/checker.py"
COMPONENTS = "concord/workers/inference/certify/components.py"
CONFIDENCE = "concord/workers/labelling/confidence.py"
DRIFT = "concord/workers/inference/sampling/drift.py"
GROUPS = "concord/workers/inference/relaxation/groups.py"
LATTICE = "concord/workers/inference/cpsat/lattice.py"
N_BEST = "concord/workers/inference/nbest/parts.py"
MODEL = "concord/workers/inference/cpsat/draft.py"
NAMES = "concord/workers/inference/sampling/names.py"
NUMERICS = "concord/workers/inference/numerics.py"
PARTIAL = "concord/workers/inference/search/partial.py"
PROBLEM = "concord/schemas/problem.py"
RANKED = "concord/workers/inference/nbest/engine.py"
RELAXATION = "concord/workers/inference/relaxation/relaxation.py"
SENTENCES = "concord/workers/inference/relaxation/sentences.py"
REACH = "concord/workers/inference/core/row_reach.py"
ROW_BOUND = "concord/workers/inference/core/row_bound.py"
ROW_STATES = "concord/workers/inference/chains/row_states.py"
ROW_DUAL = "concord/workers/inference/relaxation/row_dual.py"
SPANS = "concord/workers/inference/core/span_marginals.py"
STEPS = "concord/workers/inference/relaxation/ascent.py"
VIOLATIONS = "concord/workers/inference/two_stage/violations.py"

SECOND_BEST = "tests/test_second_best.py"
BY_PRICES = (
    f"{SECOND_BEST}::test_under_any_prices_every_labelling_loses_what_is_said",
    f"{SECOND_BEST}::test_prices_rule_out_nothing_that_is_better",
)
BY_SECOND_BEST = (f"{SECOND_BEST}::test_certify_leaves_a_second_best_behind",)
BY_N_BEST = ("tests/test_n_best.py",)
BY_CERTIFY = (
    f"{SECOND_BEST}::test_a_conflict_that_costs_nearly_all_of_the_loss_holds_sentences_together",
    *BY_SECOND_BEST,
    "tests/test_certify.py::test_an_open_document_states_its_gap",
)
BY_CHECKER = ("tests/test_checker.py",)
BY_COMPONENTS = ("tests/test_components.py", *BY_SECOND_BEST)
BY_CONFIDENCE = (
    "tests/test_confidence.py::test_the_cases_are_all_labellings_without_the_entity",
    "tests/test_confidence.py::test_margins_equal_enumeration",
    "tests/test_confidence.py::test_a_margin_without_effort_is_a_bound_that_holds",
    "tests/test_confidence.py::test_margins_of_cases_that_tie_equal_enumeration",
    "tests/test_confidence.py::test_marginals_of_spans_equal_enumeration",
)
BY_RUNNING_SCORES = tuple(
    f"tests/test_running_scores.py::test_{name}"
    for name in ("places_of_a_group_are_apart_and_there_once", "a_sampler_that_counts_twice_is_no_sampler")
)
BY_SLACK = tuple(
    f"tests/test_row_tolerance.py::test_{name}"
    for name in ("a_row_holds_in_whatever_order_it_is_summed", "whole_numbers_have_the_smallest_slack_however_many")
)
BY_CPSAT = ("tests/test_cpsat.py",)
BY_GROUPS = (
    "tests/test_relaxation.py::test_a_group_of_two_roles_costs_what_enumeration_says",
    "tests/test_relaxation.py::test_a_group_of_many_roles_costs_no_more_than_enumeration_says",
    "tests/test_relaxation.py::test_a_role_that_clashes_with_a_cheap_and_a_dear_one",
    "tests/test_relaxation.py::test_boxes_beyond_the_limit_are_bounded_together",
    "tests/test_relaxation.py::test_counts_beyond_the_limit_are_bounded_together",
)
BY_ROWS = ("tests/test_row_dual.py",)
BY_STATES = ("tests/test_row_states.py",)
BY_TWO_STAGE = tuple(
    f"tests/test_search.py::test_{name}"
    for name in (
        "two_stage_solves_its_programme_over_rows_alone",
        "prices_prove_answers_of_two_stages_and_bound_the_rest",
        "no_labelling_has_a_higher_degree_than_is_reckoned",
    )
)
BY_SEARCH = (
    f"{SECOND_BEST}::test_a_search_starts_with_all_labels_of_what_is_a_little_better",
    "tests/test_search.py::test_the_loss_of_a_prefix_is_admissible_and_exact_at_the_end",
    "tests/test_search.py::test_taking_a_decision_back_restores_everything",
    "tests/test_search.py::test_the_row_bound_sees_what_can_no_longer_be_reached",
    "tests/test_search.py::test_discrepancy_widens_until_it_is_exact",
)

RELAXED = [
    # The price of a pair.
    (RELAXATION, "+= times[:, None, None] * (upper + upper.T)", "+= 2.0 * times[:, None, None] * (upper + upper.T)"),
    (RELAXATION, "prices[:, types:-1, :types] += times", "prices[:, types:-1, :types] += 2.0 * times"),
    (RELAXATION, "prices[:, -1, :types] += times", "prices[:, -1, :types] += 2.0 * times"),
    (RELAXATION, "np.where(state.per_token[a], width, 1)", "width"),
    # The bound, and what it rules out.
    (RELAXATION, "self.best - min(loss, self.upper)", "self.best - min(1.1 * loss, self.upper)"),
    (RELAXATION, "outside_loss <= self.upper + ROUNDING", "outside_loss <= 0.9 * self.upper"),
    (RELAXATION, "is_alive = span_loss <= self.upper + ROUNDING", "is_alive = span_loss <= 0.9 * self.upper"),
    (NUMERICS, "\nROUNDING = 1e-9", "\nROUNDING = -1e-3"),
    (RELAXATION, "return grown[: len(spans)] + span_loss", "return grown[: len(spans)] + 1.2 * span_loss"),
    (RELAXATION, "chains.inner - constant)", "chains.inner - 2.0 * constant)"),
    (RELAXATION, "left_out = ~_covered(", "left_out = _covered("),
    (RELAXATION, "np.repeat(start + 1, later)", "np.repeat(start, later)"),
    (RELAXATION, "possible[start, opening] = True", "possible[start[1:], opening[1:]] = True"),
    (STEPS, "- scores.sum() + costs.sum()", "- scores.sum() - costs.sum()"),
]

RESUMED = [
    (SENTENCES, "if covered <= t:", "if covered <= t + 1:"),
    (SENTENCES, "ends[chains.end[i] - 1, chains.last[i]] = True", "ends[chains.end[i] - 1, 0] = True"),
]

GROUPED = [
    (GROUPS, "cost += pair[r, other] * low[r]", "cost += 2.0 * pair[r, other] * low[r]"),
    (GROUPS, "cost -= least * workspace.low[r]", "cost += least * workspace.low[r]"),
    (GROUPS, "least = min(least, pair[r, other])", "least = pair[r, other]"),
    (GROUPS, "low[r] < workspace.holders[sizes.group, r]", "low[r] + 1 < workspace.holders[sizes.group, r]"),
    (GROUPS, "workspace.low[r] += 1", "workspace.low[r] += 2"),
    (GROUPS, "elif spent or workspace.low[r] > MOST_EXACT_COUNT", "elif workspace.low[r] > MOST_EXACT_COUNT"),
    (GROUPS, "elif spent or workspace.low[r] > MOST_EXACT_COUNT", "elif spent"),
    (GROUPS, "value += added - workspace.top[other, size]", "value += added"),
    (GROUPS, "value += max(added, workspace.top[r, size - 1])", "value += workspace.top[r, size - 1] + 0.5"),
    (GROUPS, "excess + workspace.base[p] - prices[m]", "excess + workspace.base[p] + prices[m]"),
]

CERTIFIED = [
    (CERTIFY, "Pruned.of(self.problem, loss + ROUNDING)", "Pruned.of(self.problem, 0.9 * loss)"),
    (CERTIFY, "np.full(sentences, loss + ROUNDING)", "np.full(sentences, 0.9 * loss)"),
    (CERTIFY, "= part.loss + ROUNDING\n", "= 0.9 * part.loss\n"),
    (
        CERTIFY,
        "len(self.problem.potentials.sentence_starts), part.loss + ROUNDING)",
        "len(self.problem.potentials.sentence_starts), 0.9 * part.loss)",
    ),
    (CERTIFY, "part.best - max(solution.bound, objective)", "part.best - objective"),
]

COMPONENT = [
    (REACH, "previous[e] < 0 or coefficient[e] > 0", "previous[e] < 0"),
    (REACH, "best = max(best, gain[other])", "best = min(best, gain[other]) if best > -np.inf else gain[other]"),
    (COMPONENTS, "(most_loss)) > rows.bound)", "(most_loss)) > rows.bound + 1.0)"),
    (COMPONENTS, "(most_loss)) > rows.bound)", "(most_loss)) >= rows.bound)"),
    (COMPONENTS, "return self.token_loss <= most_loss[", "return self.token_loss <= 0.9 * most_loss["),
    (COMPONENTS, "is_alive = self.spans.loss <= most_loss[", "is_alive = self.spans.loss <= 0.9 * most_loss["),
    (COMPONENTS, " alive = self.spans.loss <= most_loss[", " alive = self.spans.loss <= 0.9 * most_loss["),
    (COMPONENTS, "if sides.first_end[other, q, b] <= start or", "if sides.first_end[other, q, b] < start - 1 or"),
    (COMPONENTS, "sides.cost[kind, b] if side == 0 else", "sides.cost[b, kind] if side == 0 else"),
    (COMPONENTS, "range(start[i], end[i] - w + 1)", "range(start[i], end[i] - w)"),
]

ROWS = [
    (ROW_DUAL, "value += dual.multipliers[r] * dual.limit[r]", "value -= dual.multipliers[r] * dual.limit[r]"),
    (ROW_DUAL, "size * excess[r], 0.0), dual.rows.weight[r])", "size * excess[r], 0.0), 1.1 * dual.rows.weight[r])"),
    (ROW_DUAL, "max(dual.multipliers[r] + size * excess[r], 0.0)", "max(dual.multipliers[r] + size * excess[r], -1.0)"),
    (ROW_DUAL, "min(objective, least) - MULTIPLIER_ROUNDING)", "min(objective, least) + 0.1)"),
    (
        ROW_DUAL,
        "dual.chain.edge[t, dual.rows.previous[e], label] -=",
        "dual.chain.edge[t, dual.rows.previous[e], label] +=",
    ),
    (ROW_DUAL, "max(exact.bound, search.objective)", "search.objective"),
]

SEARCHED = [
    (ROW_BOUND, "best = min(best, values[label])", "best = min(best, values[label] + 0.1)"),
    (ROW_BOUND, "lowest = _lowest(before, alive", "lowest = 0.5 + _lowest(before, alive"),
    (ROW_BOUND, "before[a] = min(before[a], pairs[a, b])", "before[a] = pairs[a, b]"),
    (PARTIAL, "losses[b] += now - p.cost[r]", "losses[b] += now"),
    (PARTIAL, "chain.loss < limit - least - ROUNDING", "chain.loss < 0.9 * (limit - least)"),
    (PARTIAL, "for end in range(t + 1 if joins else t, _last_end(p, t)):", "for end in range(t, _last_end(p, t)):"),
]

SOLVED = [
    (LATTICE, "(best[:, None, None] - gain)[where])", "0.0 * (best[:, None, None] - gain)[where])"),
    (LATTICE, "(best[:, None] - gain)[where])", "2.0 * (best[:, None] - gain)[where])"),
    (LATTICE, "if row.most > row.bound + row.slack:", "if row.most > row.bound + 1.0:"),
    (MODEL, "units = int(np.floor(cost * self.scale))", "units = int(np.ceil(cost * self.scale))"),
    (MODEL, "units = np.floor(costs * self.scale)", "units = np.ceil(costs * self.scale)"),
]

CHARGED = [
    (VIOLATIONS, "return rows.weight / np.where(most", "return rows.weight * np.where(most"),
    (VIOLATIONS, "np.maximum.at(best, place, amount)", "np.minimum.at(best, place, amount)"),
    (VIOLATIONS, "rows.weight[broken].sum()", "rows.weight.sum()"),
    (LATTICE, "held - math.ceil(row.most * factor)))", "-1))"),
]

CHECKED = [
    # Bound and shape.
    (CHECKER, "require(most <= limit, f", "require(most <= limit + (1 << 27), f"),
    (CHECKER, "require(abs(bound) <= MOST,", "require(not abs(bound) > MOST,"),
    (CHECKER, "Fraction(ROUNDING) * (abs", "Fraction(TOLERANCE) * (abs"),
    (CHECKER, "for has in (True, False)]\n    require", "for has in (True,)]\n    require"),
    (CHECKER, "require(reader.at == len(proof),", "require(reader.at <= len(proof),"),
    # Ranges.
    (CHECKER, "high: int = MOST) -> int", "high: int = 1 << 63) -> int"),
    (CHECKER, "placed[item] = reader.take(), *", "placed[item] = reader.take(-MOST), *"),
    (CHECKER, "require(item not in placed,", "require(item,"),
    (CHECKER, "rows[r] = reader.take()", "rows[r] = reader.take(-MOST)"),
    (CHECKER, "<= weight[r],", "<= 2 * weight[r],"),
    (CHECKER, "require(all((x >= 0).all()", "require(all((x >= -9).all()"),
    (CHECKER, "require((rows.previous[np.isin(rows.position, p.sentence_starts)] == ANY).all(),", "require(True,"),
    (CHECKER, "require(all((scores == -np.inf).all() for scores in illegal),", "require(illegal,"),
    # Rounding.
    (CHECKER, "_units(p.unary, math.ceil)", "_units(p.unary, math.floor)"),
    (CHECKER, "_units(p.edges, math.ceil)", "_units(p.edges, math.floor)"),
    (CHECKER, "HARD), math.floor)", "HARD), math.ceil)"),
    (CHECKER, "np.minimum(a.cost, HARD)", "a.cost"),
    (CHECKER, "total += math.ceil(multiplier", "total += math.floor(multiplier"),
    (CHECKER, "-= math.floor(multiplier", "-= math.ceil(multiplier"),
    (CHECKER, "limit + 2 * Fraction(rows.slack[r])", "limit"),
    # Sentences.
    (CHECKER, "self.given[len(self.given) + 1 - n :]", "self.given[len(self.given) - n : -1]"),
    (CHECKER, "longer[:, self.spans :] = -math.inf", "longer[:, : self.spans] = -math.inf"),
    (CHECKER, "own[kind : self.spans : self.types]", "own[kind : kind + 1]"),
    (CHECKER, "labels.first_labels.T.ravel()", "labels.first_labels.ravel()"),
    (CHECKER, "(cost, member.item)[:] += member.price", "(cost, member.item)[:] += 2 * member.price"),
    # Not "own[self.types : self.types + 1]": a label set has one outside label at most.
    (CHECKER, "+ begun[i]).max(axis=1)", "+ begun[i]).min(axis=1)"),
    (CHECKER, "(starting, scores[i] + leave[i, self.given[-n:]])", "(starting, scores[i] + leave[i, self.first])"),
    (CHECKER, "(enter[i + 1 - n : i + 1, self.first] + scores[i] + leave", "(scores[i] + leave"),
    # What is struck out.
    (CHECKER, "own & (loss < excess)", "own & (loss < excess - (1 << 38))"),
    (CHECKER, "self.cells(losses, member.item)[:] += loss", "self.cells(losses, member.item)[:] += 2 * loss"),
    (CHECKER, "&= (self.given[-n:] == label) == has", "&= has"),
    # Groups.
    (CHECKER, "* (width if a.per_token else 1)", "* width"),
    (CHECKER, "np.triu(cost, 1)", "cost"),
    (CHECKER, "Relation.CONTAINED: cost.T", "Relation.CONTAINED: cost"),
    (CHECKER, "return inside[0][0], labelled", "return 0, labelled"),
    (CHECKER, "(start, end) in inside else self.types + kind", "(start, end) in inside else kind"),
    (CHECKER, "waiting += [(more, high), (low, fewer)]", "waiting += [(low, fewer), (more, high)]"),
    (CHECKER, "max(low[role], count + 1)", "max(low[role], count + 2)"),
    (CHECKER, "min(high[role], count)\n", "min(high[role], count - 1)\n"),
    (CHECKER, "in {(m.slot, m.role) for m", "in {(0, m.role) for m"),
    (CHECKER, "if any(a > b for", "if any(a >= b for"),
    (CHECKER, "gains[m.slot] = max(gains[m.slot], gain)", "gains[m.slot] = gain"),
    (CHECKER, "itertools.product(*({a, b} for", "itertools.product(*({b} for"),
    (CHECKER, "sum(gains.values()) + ends.max()", "sum(gains.values()) + ends.min()"),
    (CHECKER, "most = max(most, bound)", "most = bound"),
    (CHECKER, "bound - gains[m.slot] + gain for", "bound - gains[m.slot] for"),
    # Rows counted exactly.
    (CHECKER, "if total + high <= self.limit:", "if total + low <= self.limit:"),
    (CHECKER, "if total + low > self.limit:", "if total + high > self.limit:"),
    (CHECKER, "(min(max(self.limit, total + low), total + high))", "(total + high)"),
    (CHECKER, "return charges - math.floor((total - self.bound)", "return charges - math.floor(total"),
    (CHECKER, "if before in {ANY, pair[0]}:", "if before == ANY:"),
    (CHECKER, "+ self.unbegun[last] + to_come", "+ self.unbegun[last]"),
    (CHECKER, "self.later[last] + self.unbegun[last]", "self.later[last]"),
    (CHECKER, "self.leave[last, label] + self.later[last]", "self.leave[last, label]"),
    (CHECKER, "max(waiting[last + 1].get(name, value), value)", "value"),
    (CHECKER, "name = ANY if last in self.ends else label,", "name = ANY,"),
    (CHECKER, "max([limit, *waiting[-1].values()])", "limit"),
    (CHECKER, "start = sum(c.gain(Fraction(0)) for", "start = sum(0 * c.gain(Fraction(0)) for"),
    (CHECKER, "{r: self._counter(r, multipliers.get(r, 0)) for", "{r: self._counter(r, 0) for"),
    (CHECKER, ".bound(limit - gain) + gain", ".bound(limit - gain)"),
    (CHECKER, "max(a, b) if high[m.role] else a", "max(a, b) if low[m.role] else a"),
]  # fmt: skip

MARGINS = [
    (CONFIDENCE, "if local <= best.score:", "if local <= best.score + 1.0:"),
    (CONFIDENCE, "max(one.bound, other.bound)", "other.bound"),
    (CONFIDENCE, "objective - rival.bound", "objective - rival.score"),
    (CONFIDENCE, "key=lambda case: -case[0]", "key=lambda case: case[0]"),
    (CONFIDENCE, "scores[t, ~own] = -np.inf", "case[t, ~own] = -np.inf"),
    (CONFIDENCE, "labels.first_labels[entity.type]", "labels.opening[[entity.type]]"),
    (CONFIDENCE, "if entity.start > 0:", "if entity.start > len(unary):"),
    (CONFIDENCE, "if entity.end < len(unary):", "if entity.end < 0:"),
    (CONFIDENCE, "case[t, ~labels] = -np.inf", "case[t, labels] = -np.inf"),
    (SPANS, "np.logaddexp(mass, own)", "own"),
]

SAMPLED = [
    (NAMES, "np.append(True, ~again)", "np.append(True, again | ~again)"),
    (NAMES, "(start + shift)[1:] >= reached[:-1]", "(start + shift)[1:] >= 0"),
    (DRIFT, "<= _rounding(chain, problem.rows)", "< np.inf"),
]

SLACK = [
    (PROBLEM, "SUM_ROUNDING * terms * self._magnitude", "0.0 * terms * self._magnitude"),
    (PROBLEM, "numbers % EXACT_UNIT != 0.0", "numbers % EXACT_UNIT < 0.0"),
    (PROBLEM, "self._magnitude <= EXACT_SUM", "self._magnitude <= np.inf"),
]

LISTED = [
    (N_BEST, "least - part.least + part.rest", "least + part.rest"),
    (N_BEST, "min(float(beaten), open_loss(probe))", "float(beaten)"),
    (RANKED, "objective + depth\n", "objective\n"),
]

STATES = [
    (ROW_STATES, "multiplier[r] * opened.most[w]", "multiplier[r] * opened.least[w]"),
    (ROW_STATES, "multiplier[r]) * opened.least[w]", "multiplier[r]) * opened.most[w]"),
    (ROW_STATES, "_owed(touches, r) - touches", "_owed(touches, r) + touches"),
    (ROW_STATES, "if total + most <=", "if total + least <="),
    (ROW_STATES, "if total + least >", "if total + most >"),
    (ROW_STATES, "weight * (total - bound)", "weight * total"),
    (ROW_STATES, "(name < 0 or layer.node[i] == name) and", ""),
    (ROW_STATES, "dropped = max(dropped, bound)", "dropped = max(dropped, value)"),
    (ROW_STATES, "dropped = max(dropped, _cut(layer, states))", "_cut(layer, states)"),
    (ROW_STATES, "np.where(of_edge, tokens, tokens - 1)", "np.where(of_edge, tokens - 1, tokens - 1)"),
    (ROW_STATES, "np.roll(transition[::-1], 1, axis=0)", "transition[::-1]"),
    (ROW_STATES, "_turned(chain), max(target, there.score), states)", "chain, max(target, there.score), states)"),
    (ROW_STATES, "-fixed, target, states)", "0.0, target, states)"),
    (ROW_STATES, "np.where(place, 0.0, span_cost[span])", "span_cost[span]"),
    (ROW_STATES, "unary[token, label] - outside_cost[token], of", "unary[token, label], of"),
    (BRANCHING, "max(exact.bound + gain, best", "max(exact.bound, best"),
    (BRANCHING, "target=relaxed.objective - gain", "target=relaxed.objective"),
    (RELAXATION, "charge[: len(spans)] + plain.inner - bound.chains.inner", "charge[: len(spans)]"),
    (RELAXATION, "self.problem.viterbi_score - score - bound.value", "self.problem.viterbi_score - score"),
]

GROUPS_OF_CHANGES = (
    (CHECKED, BY_CHECKER),
    (RELAXED, BY_PRICES),
    (CERTIFIED, BY_CERTIFY),
    (MARGINS, BY_CONFIDENCE),
    (SAMPLED, BY_RUNNING_SCORES),
    (SLACK, BY_SLACK),
    (LISTED, BY_N_BEST),
    (SOLVED, BY_CPSAT),
    (CHARGED, BY_TWO_STAGE),
    (GROUPED, BY_GROUPS),
    (RESUMED, ("tests/test_relaxation.py",)),
    (COMPONENT, BY_COMPONENTS),
    (ROWS, BY_ROWS),
    (SEARCHED, BY_SEARCH),
    (STATES, BY_STATES),
)

MUTANTS = [Mutant(*change, tests) for changes, tests in GROUPS_OF_CHANGES for change in changes]
"""Those that compile no kernel anew come first."""
