"""The error budget: every tolerance under `workers.inference`, from the rounding of a float to ``config.tolerance``.

An answer is optimal if bound and objective are within ``config.tolerance`` nats, `TOLERANCE` by default. The rounding
of every step before has to fit into that. The list goes from the bottom up. u = 2⁻⁵³ is the relative error of one
operation; a sum of n terms x is off by (n − 1) · u · Σ|x| at most, and by about √n · u · Σ|x| in practice (Higham 2002,
ch. 4):

- **A row's activity** is off by 1000² · u ≈ 1e-10 for a thousand coefficients near 1. `SLACK_TOLERANCE` is ten times
  that and belongs to the objective: a row exceeded by no more holds. Longer rows and larger coefficients have ten times
  their own rounding (`LinearRows.slack`). A search sums in another order than `Problem.score`, so it gives a branch up
  from `HARD_EXCESS` slacks on only: what lies between is for the score to judge.
- **A local score** of 10⁴ tokens, two terms of 3 nats each, is off by √(2 · 10⁴) · u · 6 · 10⁴ ≈ 9e-10: `ROUNDING`.
  It protects both ways. What is pruned loses more than D + `ROUNDING`, so that nothing as good as the incumbent is
  pruned; and what replaces the incumbent is better by more than `ROUNDING`, so that no search circles among equals.
  The error grows with n^(3/2): it meets `TOLERANCE`, a thousand times `ROUNDING`, at 10⁶ tokens in one document.
- **Prices** are added to a sentence and taken off a group, and may be far greater than any score. `RELATIVE_ROUNDING`
  of their sum, 90 · u, is taken off the bound: √n · u for 8000 of them. Prices of 10⁵ nats together reach `ROUNDING`.
- **Multipliers on rows** are moved in place step by step: 200 steps at 10⁴ nats leave 200 · u · 10⁴ ≈ 2e-10 a cell,
  and 500 such cells on a path 1e-7: `MULTIPLIER_ROUNDING`, which raises the bound and widens what stays allowed.
- **CP-SAT** has integers. Numbers within `INTEGRAL_DRIFT` of whole multiples, a hundredth of `SLACK_TOLERANCE`, are
  taken as these, so that no row changes sides. Products that are whole but for rounding are brought back by
  `UNIT_ROUNDING` of a unit, and a bound in nats that becomes one in units is loosened by `UNIT_SLACK` of one: both make
  the model looser, never tighter. Rounding costs down to units takes a quarter or half of ``config.tolerance``, with
  rows and agreements half, and the solver's own gap as much (`cpsat.lattice.build_model`, `cpsat.engine.solve_model`).
- **The ascent** of prices ends at `NEGLIGIBLE_GAP`, a tenth of `TOLERANCE`, and a rise of the bound by less than
  `TOLERANCE` is no progress there: it could not make an open document optimal.

So of 1e-6 nats, 1e-7 go to the ascent, which may stop there, 1e-7 to multipliers, and 1e-9 to sums. The checker of
certificates (`workers.certificates`) computes in integers and shares none of this. Values are written out, because in
floating point 1e-6 / 1000 is not 1e-9.
"""

from __future__ import annotations

TOLERANCE = 1e-6
"""Largest gap in nats at which bound and objective prove an answer, unless ``config.tolerance`` says otherwise."""

ROUNDING = 1e-9
"""Largest difference in nats at which two sums of the same terms are taken as equal."""

RELATIVE_ROUNDING = 1e-14
"""Rounding error of a sum, as a share of its terms' magnitude."""

LEAD = 1e-3
"""Nats by which every other labelling scores less than a settled answer, at least; far above all tolerances."""

NEGLIGIBLE_GAP = 1e-7
"""Gap in nats between bound and objective that is not worth another step."""

MULTIPLIER_ROUNDING = 1e-7
"""Largest rounding error of sums of many multipliers on rows, in nats."""

HARD_EXCESS = 2.0
"""Excess above which a search takes a hard row as broken, in slacks of the row."""

INTEGRAL_DRIFT = 1e-11
"""Largest change of a sum at which a row's numbers are taken as whole multiples of a unit: true for decimals, not for
numbers that only look whole.
"""

UNIT_ROUNDING = 1e-9
"""Largest distance of a product from a whole number that is taken as rounding, as a share of an integer unit."""

UNIT_SLACK = 1e-6
"""Amount by which a bound on integer costs is loosened, as a share of an integer unit."""
