"""pyoperon's trees as formulas, its fronts, and what is said without it."""

import sys
import types

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import formulas
from wm.metrics import force_law

GRAVITY = 39.4784176044
NAMES = {7: 'r', 8: 'm1', 9: 'm2'}
SCALE = {'r': 2.0, 'm1': 0.5, 'm2': 1.0}
BINARY = {'+': np.sum, '*': np.prod}
UNARY = {'exp': np.exp, 'sin': np.sin, 'cos': np.cos}


@pytest.fixture(scope='module')
def columns():
  rng = np.random.default_rng(0)
  spread = {'r': (0.5, 5), 'm1': (0.03, 1.5), 'm2': (0.3, 3)}
  return {
    name: np.exp(rng.uniform(*np.log(ends), 200))
    for name, ends in spread.items()
  }


def node(name, value=1.0, arity=0):
  """As pyoperon has them; a quantity is told by its hash."""
  return types.SimpleNamespace(
    Name='variable' if name in NAMES else name,
    Value=value,
    Arity=arity,
    HashValue=name,
    IsVariable=name in NAMES,
    IsConstant=name == 'constant',
  )


def two(name):
  return node(name, arity=2)


def term(nodes, columns):
  return formulas.term(nodes, NAMES, SCALE, columns)


def test_weights_are_gathered_in_front(columns):
  r, m1, m2 = columns.values()
  # 6 m2 times 3 m1 over (4 r times r): operands are last to first.
  square = [node(7, 2.0), node(7, 2.0), two('*')]
  nodes = [*square, node(8, 3.0), two('/'), node(9, 6.0), two('*')]
  found = term(nodes, columns)
  assert found.text == 'm2 * m1 * inv(r * r)'
  assert found.weight == 6 * 6
  np.testing.assert_allclose(found.values, m1 * m2 / r**2)
  # Sums are told in the weight of their first quantity.
  nodes = [node('constant', 6.0), node(9, 6.0), node(8, 1.0)]
  found = term([*nodes, two('+'), two('+')], columns)
  assert (found.weight, found.text) == (2, 'm1 + 3 * m2 + 3')
  assert found.factor == '(m1 + 3 * m2 + 3)'
  nodes = [node(8, 1.0), node(9, 2.0), two('+'), node('exp', arity=1)]
  found = term([*nodes, node('constant', -4.0), two('*')], columns)
  assert (found.weight, found.text) == (-4, 'exp(2 * (m2 + m1))')


def test_any_tree_has_the_values_of_its_nodes(columns):
  """Weights in front or not, by what each node does alone."""
  rng = np.random.default_rng(1)

  def drawn(depth):
    """A tree in postfix, and its values."""
    kind = rng.integers(5) if depth else rng.integers(2)
    if kind == 0:
      value = rng.normal()
      return [node('constant', value)], np.full(200, value)
    if kind == 1:
      key, value = rng.choice([*NAMES]), rng.normal()
      name = NAMES[key]
      return [node(int(key), value)], value * columns[name] / SCALE[name]
    if kind == 2:
      name = rng.choice([*UNARY])
      nodes, values = drawn(depth - 1)
      return [*nodes, node(name, arity=1)], UNARY[name](values)
    first, one = drawn(depth - 1)
    second, other = drawn(depth - 1)
    if kind == 3:
      return [*second, *first, two('/')], one / other
    name = rng.choice([*BINARY])
    return [*second, *first, two(name)], BINARY[name]([one, other], axis=0)

  checked = 0
  with np.errstate(all='ignore'):
    for _ in range(300):
      nodes, wanted = drawn(4)
      found = term(nodes, columns)
      good = np.isfinite(wanted).all() and np.abs(wanted).max() < 1e6
      if good and np.isfinite(found.values).all():
        checked += 1
        np.testing.assert_allclose(
          found.weight * found.values, wanted, rtol=1e-6, atol=1e-6
        )
  assert checked > 150


def test_the_factor_and_the_level_in_front_are_left_out(columns):
  tree = [node(8), node(7), two('*')]
  factor = [node('constant', 2.0), two('*')]
  level = [node('constant', 3.0), two('+')]
  for more in ([], factor, level, [*factor, *level]):
    assert formulas.stripped([*tree, *more]) == tree
  # Fitted anew, by squares of differences or of their logarithms.
  r, m1, _ = columns.values()
  found = term(tree, columns)
  for loss, factor in (('raw', 3.5), ('log', 3.5), ('raw', -2)):
    law = formulas._fitted(found, 3, factor * m1 * r, loss)
    assert (law.text, law.error) == (f'{factor} * r * m1', formulas.ROUNDED)
    assert formulas.follows(law, m1 * r)


def test_fronts_leave_out_what_is_no_better_or_has_no_value():
  def law(size, error):
    return formulas.Formula('', size, error, np.ones(1))

  front = [law(3, 0.5), law(1, 0.9), law(2, np.inf), law(3, 0.4), law(4, 0.4)]
  assert [(one.size, one.error) for one in formulas._pareto(front)] == [
    (1, 0.9),
    (3, 0.4),
  ]


@pytest.mark.parametrize('loss', ['log', 'raw'])
@pytest.mark.parametrize('what', ['force', 'acceleration'])
def test_newtons_law_is_on_the_front(columns, what, loss):
  pytest.importorskip('pyoperon', reason='the extra operon is not installed')
  r, m1, m2 = columns.values()
  truth = GRAVITY * (m1 * m2 if what == 'force' else m1 + m2) / r**2
  (front,) = formulas.genetic(columns, truth[None], 20, loss)
  assert formulas.follows(formulas.best(front), truth)
  assert not formulas.follows(front[0], truth)


def test_fronts_are_fronts_and_the_same_each_time(columns):
  """Of a law with noise, which longer formulas fit better than the law."""
  pytest.importorskip('pyoperon', reason='the extra operon is not installed')
  r, m1, m2 = columns.values()
  target = m1 * m2 / r**2
  target *= np.exp(0.02 * np.random.default_rng(2).normal(size=len(r)))
  for loss in ('log', 'raw'):
    (front,) = formulas.genetic(columns, target[None], 20, loss)
    assert (np.diff([law.size for law in front]) > 0).all()
    assert (np.diff([law.error for law in front]) < 0).all()
    for law in front:
      assert law.size <= 20
      aim, said = target, law.values
      if loss == 'log':
        aim, said = np.log(aim), np.log(np.abs(said))
        said = said + (aim - said).mean()
      else:
        said = said * (said @ aim) / (said @ said)
      error = ((aim - said) ** 2).mean() / aim.var()
      assert max(error, formulas.ROUNDED) == pytest.approx(law.error, rel=1e-6)
  (again,) = formulas.genetic(columns, target[None], 20, 'raw')
  assert [law.text for law in again] == [law.text for law in front]


def test_force_law_tells_the_whole_front_of_operon():
  pytest.importorskip('pyoperon', reason='the extra operon is not installed')
  world = registry.make('world', 'orbits()')
  lookup = registry.make('model', "lookup(by='nothing')").predictor(world, 0)
  metric = force_law.Metric(
    num=1,
    examples=12,
    systems=16,
    searches=1,
    targets=('log_acceleration',),
    engine='operon',
    nodes=20,
  )
  found = {s.quantity: s for s in metric(lookup, world, 3)}
  assert found['formula_state'].value.tolist() == [1]
  (law,) = found['formula_state'].columns['law']
  rows = found['law_error_state']
  assert len(rows.value) > 3
  assert law in rows.columns['law']
  assert rows.value.min() == formulas.ROUNDED
  assert {*found['law_error'].reason} == {'constant'}


def test_formulas_too_small_for_an_operator_are_one_line(monkeypatch):
  monkeypatch.setattr(formulas, 'operon_regressor', lambda: None)
  with pytest.raises(core.InputError, match='nodes=2; expected 3 to 1000, or'):
    formulas.check_engine('operon', 2)
  formulas.check_engine('operon', 3)
  formulas.check_engine('exhaustive', 1)


def test_without_it_one_line_says_what_to_install(monkeypatch):
  for name in ('pyoperon', 'pyoperon.sklearn'):
    monkeypatch.setitem(sys.modules, name, None)
  world = registry.make('world', 'orbits()')
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  # Before anything is drawn: a metric of no memory is refused for this.
  metric = force_law.Metric(engine='operon', examples=10**9)
  said = r"engine='operon' needs the extra 'operon': pip install -e '\.\[op"
  with pytest.raises(core.InputError, match=said) as told:
    metric(oracle, world, 0)
  assert '\n' not in str(told.value)
  with pytest.raises(core.InputError, match='memory'):
    force_law.Metric(engine='operon', examples=10**9, nodes=0)(oracle, world, 0)
