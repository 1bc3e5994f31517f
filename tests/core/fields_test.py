"""Declared fields: what they refuse, what they say, what they document."""

import dataclasses
import inspect
import math
import re
from typing import ClassVar

import pytest

from wm import core
from wm.core import basics, fields
from wm.core.fields import field

POLICIES = {'uniform': 'over legal moves', 'greedy': 'most discs flipped'}


@dataclasses.dataclass(frozen=True)
class Game(core.Bounded):
  """Games on a board.

  Glossary:
    length: Moves of a game.
  """

  version: ClassVar[str] = '1'

  size: int = field(8, 'squares a side', choices=(4, 6, 8))
  policy: str = field('uniform', 'choice of moves', choices=POLICIES)
  noise: float = field(0.0, 'share of random moves', least=0, most=1)
  moves: int = field(0, 'most moves', least=2, also=(0,), unit='moves')
  least: int = field(1, 'fewest moves', least=1, most='longest')
  longest: int = field(9, 'most moves', below=100)
  rates: tuple[float, ...] = field(
    (0.1,), 'learning rates', above=0, below=1, distinct=True, fewest=1
  )
  steps: tuple[int, ...] = field((1,), 'steps', least=1, ascending=True)
  marks: tuple[str, ...] = field((), 'marks', choices=('x', 'o'))
  width: int | None = field(None, 'width of a page', least=1)
  seed: int = 0


def line(**values) -> str:
  with pytest.raises(core.InputError) as error:
    Game(**values)
  text = str(error.value)
  assert '\n' not in text
  assert text.startswith(fields.plug_in_name(Game) + ': ')
  return text.partition(': ')[2]


@pytest.mark.parametrize(
  ('values', 'text'),
  [
    ({'size': 7}, 'size=7; available: 4, 6, 8'),
    ({'size': '6'}, "size='6'; available: 4, 6, 8"),
    ({'policy': 'bold'}, "policy='bold'; available: uniform, greedy"),
    ({'noise': 1.5}, 'noise=1.5; expected 0 to 1'),
    ({'noise': 'much'}, "noise='much'; expected a number"),
    ({'moves': 1}, 'moves=1; expected at least 2 moves, or 0'),
    ({'moves': 2.5}, 'moves=2.5; expected an integer'),
    ({'least': 10}, 'least=10; expected 1 to longest=9'),
    ({'longest': 100}, 'longest=100; expected less than 100'),
    (
      {'rates': (0.1, 0.1)},
      'rates=(0.1, 0.1); expected 1 or more different values, each more than 0 '
      'and less than 1',
    ),
    ({'steps': (3, 2)}, 'steps=(3, 2); expected ascending values, each at lea'),
    ({'steps': (1.5,)}, 'steps=(1.5,); expected integers'),
    ({'marks': ('x', 'y')}, "marks has 'y'; available: x, o"),
    ({'width': 0}, 'width=0; expected at least 1'),
    ({'width': 'wide'}, "width='wide'; expected a number"),
    ({'seed': 1 << 63}, 'expected a finite number, an integer of at most 64'),
    ({'noise': math.nan}, 'noise=nan; expected a finite number'),
    ({'rates': (math.inf,)}, 'rates=(inf,); expected a finite number'),
  ],
)
def test_a_bad_value_is_refused_in_one_line(values, text):
  assert text in line(**values)


@pytest.mark.parametrize('rates', [(), (0,), (1,), (0.1, 2)])
def test_limits_are_those_of_each_element(rates):
  assert f'rates={rates}; expected 1 or more' in line(rates=rates)


def test_limits_themselves_and_further_values_are_allowed():
  for values in (
    {'noise': 0},
    {'noise': 1},
    {'moves': 0},
    {'moves': 2},
    {'least': 9},
    {'rates': (0.5, 0.1)},
    {'steps': ()},
    {'marks': ('o', 'x', 'o')},
    {'width': 1},
  ):
    assert vars(Game(**values)).items() >= values.items()


def test_a_long_value_is_shortened():
  assert len(line(policy='x' * 10_000)) < 300


def test_the_docstring_lists_declared_fields():
  attributes = basics.section(Game.__doc__, 'Attributes')
  assert attributes['noise'] == 'share of random moves.'
  assert attributes['policy'] == (
    "choice of moves: 'uniform', over legal moves; 'greedy', most discs "
    'flipped.'
  )
  assert 'seed' not in attributes
  assert basics.section(Game.__doc__, 'Glossary') == {
    'length': 'Moves of a game.'
  }
  assert all(len(row) <= 80 for row in inspect.getdoc(Game).splitlines())


def test_entries_that_a_docstring_has_stay():
  class Part(core.Bounded):
    """Parts.

    Attributes:
      old: as written.

    More of it.
    """

    new: int = field(3, 'Declared; ends with a stop.')

  assert basics.section(Part.__doc__, 'Attributes') == {
    'new': 'Declared; ends with a stop.',
    'old': 'as written.',
  }
  assert Part.__doc__.endswith('More of it.')


def test_a_class_without_declared_fields_keeps_its_docstring():
  class Plain(core.Bounded):
    """As it
    is.
    """

  assert inspect.cleandoc(Plain.__doc__) == 'As it\nis.'


def test_a_subclass_is_checked_by_the_fields_of_its_base():
  @dataclasses.dataclass(frozen=True)
  class Longer(Game):
    turns: int = field(2, 'turns', least=1)

  with pytest.raises(core.InputError, match='size=5'):
    Longer(size=5)
  with pytest.raises(core.InputError, match='turns=0'):
    Longer(turns=0)


def test_any_dataclass_is_documented_and_checked():
  @fields.documented
  @dataclasses.dataclass(frozen=True)
  class Range:
    """Numbers."""

    low: int = field(0, 'first one', below='high', compare=False)
    high: int = field(5, 'number after the last one', kw_only=True)

    def __post_init__(self) -> None:
      fields.check(self)

  assert [*basics.section(Range.__doc__, 'Attributes')] == ['low', 'high']
  assert Range(1) == Range(2)
  with pytest.raises(
    core.InputError, match=r'low=5; expected less than high=5'
  ):
    Range(5)
  with pytest.raises(TypeError):
    Range(1, 2)


def test_field_error_names_all_fields():
  error = fields.field_error(Game(), 'size rates', 'fewer of both')
  assert re.fullmatch(
    r'\w*: size=8, rates=\(0\.1,\); expected fewer of both', str(error)
  )
