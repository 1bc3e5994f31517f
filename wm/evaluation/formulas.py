"""Symbolic regression: fronts of formulas by two engines, and the law taken.

`exhaustive` tries all formulas up to a size. `genetic` is pyoperon's front of
size against error (Burlacu et al. 2020, Operon C++), in place of PySR, which
the published program uses (Vafa et al. 2025): it needs Julia. Its grammar is
that of `symbolic`, but for constants, which formulas may have, and a weight
that each quantity has. So noise is fitted too: of noisy numbers the law may be
on the front and not be the formula that is taken.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.kernels import symbolic

# Errors so many times the least one are good enough, as of PySR's 'best'.
ENOUGH = 1.5
SAME = 1e-6  # Relative difference of two laws that are the same.


class Formula(NamedTuple):
  """A formula that was fitted to a target.

  Attributes:
    text: with its factor.
    size: leaves and operators, but for the factor.
    error: share of the target's variance that is left; of its logarithm's where
      the loss is 'log'.
    values: [n] on the rows, up to a factor.
    same: relative difference of two laws that are the same.
  """

  text: str
  size: int
  error: float
  values: np.ndarray
  same: float = SAME


def exhaustive(
  columns: Mapping[str, np.ndarray], targets: np.ndarray, size: int, loss: str
) -> list[list[Formula]]:
  """The front of each target, of all formulas up to a size.

  A front has formulas of ascending size, each with a smaller error than all
  before. Arguments and errors are those of `symbolic.search`.
  """
  x = np.array([*columns.values()])
  return [
    [
      Formula(str(law), law.size, law.error, symbolic.values(law.code, x))
      for law in front
    ]
    for front in symbolic.search(columns, targets, size, loss)
  ]


def best(front: Sequence[Formula]) -> Formula:
  """The law at which the error falls most, of those with little error.

  The rule is PySR's (Cranmer 2023, model_selection='best'): of laws with at
  most 1.5 times the least error that with the greatest fall of the error's
  logarithm for each unit of size.
  """
  least = min(law.error for law in front)
  before = [front[0], *front]

  def fall(k: int) -> float:
    last, law = before[k], front[k]
    if law.size == last.size:
      return 0.0
    # PySR's score: the fall of log error for each unit of size.
    return float(np.log(last.error / law.error)) / (law.size - last.size)

  good = [k for k, law in enumerate(front) if law.error <= ENOUGH * least]
  return front[max(good, key=fall)]


def follows(law: Formula, truth: np.ndarray) -> bool:
  """Does a law equal the truth on its rows [n], up to a factor?"""
  # Equal up to a factor where the ratio is constant.
  ratio = law.values / truth
  return bool(np.ptp(ratio) <= law.same * np.abs(ratio).max())


SYMBOLS = 'add,mul,div,sin,cos,exp,constant,variable'
# Formulas that are looked at, where no time is given.
EVALUATIONS = 200_000
# Size of the largest formulas: an operator of two leaves, what people read.
LEAST, MOST = 3, 1000
ROUNDED = 1e-10  # Weights are float32: an error below this is rounding.
SAME_WEIGHTED = (
  1e-2  # Relative difference of two laws that are one but for the weights.
)
PLAIN = 1e-3  # Relative difference of two weights that are written as one.


def operon_regressor() -> Any:
  """pyoperon's regression.

  Raises:
    InputError: it is not installed.
  """
  with inputs.extra('operon', "engine='operon'"):
    return importlib.import_module('pyoperon.sklearn').SymbolicRegressor


def genetic(
  columns: Mapping[str, np.ndarray],
  targets: np.ndarray,
  size: int,
  loss: str,
  *,
  seed: int = 0,
  seconds: int = 0,
) -> list[list[Formula]]:
  """Fronts of formulas that fit each of K targets; see `formulas.exhaustive`.

  The same numbers always give the same formulas, unless time is given.

  Args:
    columns: quantity -> [n] finite numbers.
    targets: [K, n]; of loss 'log' all > 0.
    size: of the largest formulas, leaves and operators; at least LEAST.
    loss: how errors are told. Formulas are sought by squares of raw differences
      either way, as published.
    seed: of all chance.
    seconds: of each search; 0 is EVALUATIONS formulas.

  Raises:
    InputError: pyoperon is not installed.
  """
  regressor = operon_regressor()
  rows = np.stack([np.asarray(x, np.float64) for x in columns.values()], axis=1)
  # Quantities of order 1, as random weights are.
  size_of = np.exp(np.log(np.abs(rows) + np.finfo(float).tiny).mean(0))
  budget = {'max_evaluations': EVALUATIONS}
  if seconds:
    budget = {'max_evaluations': 10**9, 'max_time': seconds}
  fronts = []
  for target in np.asarray(targets, np.float64):
    # One thread and a fixed seed, so that a search can be repeated.
    fitted = regressor(
      allowed_symbols=SYMBOLS,
      objectives=['r2', 'length'],
      max_length=size,
      optimizer_iterations=3,
      generations=10**6,
      n_threads=1,
      random_state=seed,
      **budget,
    ).fit(rows / size_of, target / target.std())
    # Nodes refer to variables by hash; `variables_` has those of the columns.
    names = dict(zip(fitted.variables_, columns, strict=True))
    scale = dict(zip(columns, size_of.tolist(), strict=True))
    trees = [
      stripped(individual['tree'].Nodes) for individual in fitted.pareto_front_
    ]
    laws = [
      _fitted(term(nodes, names, scale, columns), len(nodes), target, loss)
      for nodes in trees
    ]
    fronts.append(_pareto(laws))
  return fronts


def _fitted(formula: Term, size: int, target: np.ndarray, loss: str) -> Formula:
  """A formula with the factor that fits best; its error may be infinite."""
  logs = loss == 'log'
  aim = np.log(target) if logs else target
  # Fitted anew, as `stripped` has taken the factor away.
  error, factor = symbolic.fitted(formula.values, aim, logs)
  text = formula._replace(weight=factor).argument
  return Formula(text, size, max(error, ROUNDED), formula.values, SAME_WEIGHTED)


def stripped(nodes: list[Any]) -> list[Any]:
  """A tree without the factor and the level in front of it: [.. c * d +]."""
  # Postfix: [.. factor * level +] ends with both.
  for name in ('+', '*'):
    if len(nodes) > 2 and nodes[-1].Name == name and nodes[-2].IsConstant:
      nodes = nodes[:-2]
  return nodes


def _pareto(laws: Sequence[Formula]) -> list[Formula]:
  """The laws with a smaller error than all that are no larger, by size."""
  front: list[Formula] = []
  for law in sorted(laws, key=lambda formula: (formula.size, formula.error)):
    # Of equal size the smaller error comes first, and hides the others.
    if law.error < (front[-1].error if front else math.inf):
      front.append(law)
  return front


class Term(NamedTuple):
  """A part of a formula.

  Attributes:
    weight: its factor.
    text: without it; '' is 1.
    values: [n] without it.
    loose: is the text a sum?
  """

  weight: float
  text: str
  values: np.ndarray
  loose: bool = False

  @property
  def factor(self) -> str:
    """The text as a factor of a product."""
    return f'({self.text})' if self.loose else self.text

  @property
  def argument(self) -> str:
    """The text with the weight."""
    return self.times(self.weight)

  def times(self, weight: float) -> str:
    """The text with another weight."""
    if not self.text:
      return f'{weight:.4g}'
    if abs(weight - 1) < PLAIN:
      return self.text
    return f'{weight:.4g} * {self.factor}'


def term(
  nodes: Sequence[Any],
  names: Mapping[int, str],
  scale: Mapping[str, float],
  columns: Mapping[str, np.ndarray],
) -> Term:
  """The term of a tree, with its weights gathered in front.

  Args:
    nodes: in postfix order, the first operand last.
    names: hash of a quantity -> its name.
    scale: what quantities were divided by.
    columns: quantity -> [n].
  """
  stack: list[Term] = []
  num = len(next(iter(columns.values())))
  for node in nodes:
    if node.IsVariable:
      name = names[node.HashValue]
      result = Term(node.Value / scale[name], name, np.asarray(columns[name]))
    elif node.IsConstant:
      result = Term(node.Value, '', np.ones(num))
    else:
      # The first operand comes off the stack first.
      parts = [stack.pop() for _ in range(node.Arity)]
      with np.errstate(all='ignore'):
        if node.Name in _JOINED:
          result = _JOINED[node.Name](parts)
        else:
          result = _of_one(node.Name, *parts)
    stack.append(result)
  return stack.pop()


def _product(parts: Sequence[Term]) -> Term:
  named = [part for part in parts if part.text]
  weight = math.prod(part.weight for part in parts)
  if len(named) == 1:
    return named[0]._replace(weight=weight)
  text = ' * '.join(part.factor for part in named)
  return Term(weight, text, np.prod([part.values for part in parts], axis=0))


def _quotient(parts: Sequence[Term]) -> Term:
  first, *rest = parts
  under = _product(rest)
  # As `symbolic` writes it.
  text = f'inv({under.text})' if under.text else ''
  weight = 1 / under.weight if under.weight else math.nan
  return _product([first, Term(weight, text, 1 / under.values)])


def _sum(parts: Sequence[Term]) -> Term:
  # Stated in the weight of its first quantity.
  weights = [part.weight for part in parts if part.text and part.weight]
  unit = weights[0] if weights else 1.0
  text = ' + '.join(part.times(part.weight / unit) for part in parts)
  each = [part.weight / unit * part.values for part in parts]
  return Term(unit, text, np.sum(each, axis=0), loose=True)


def _of_one(kind: str, part: Term) -> Term:
  form = {'exp': np.exp, 'sin': np.sin, 'cos': np.cos}[kind]
  text = f'{kind}({part.argument})'
  return Term(1.0, text, form(part.weight * part.values))


_JOINED = {'*': _product, '/': _quotient, '+': _sum}


# Of columns, targets, size and loss; see `formulas.exhaustive`.
Search = Callable[
  [Mapping[str, np.ndarray], np.ndarray, int, str], list[list[Formula]]
]
ENGINES: dict[str, Search] = {'exhaustive': exhaustive, 'operon': genetic}


def check_engine(name: str, size: int) -> None:
  """Raises InputError where an engine is missing, or seeks none so large."""
  least, most = 1, symbolic.LARGEST
  if name == 'operon':
    operon_regressor()
    least, most = LEAST, MOST
  if not least <= size <= most:
    raise core.InputError(
      f'engine={name!r} was given nodes={size}; expected {least} to {most}, or '
      '0 for no search'
    )
