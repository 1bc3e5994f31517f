"""Shapes of data files: what fits, and what is said of what does not."""

import json
import types

import hypothesis
import pytest
from hypothesis import strategies as st

from wm import core
from wm.core import schema

GAMES = schema.Object(
  {'moves': schema.List(schema.Object({'from': schema.String(2)}), 1, 3)},
  {'year': schema.Number(int, 1, 9999), 'elo': float | None},
)


@pytest.mark.parametrize(
  ('value', 'says'),
  [
    ([], 'g.json: expected an object with named fields, has []'),
    ({}, 'g.json lacks moves'),
    ({'moves': []}, 'g.json: moves: expected a list of 1 to 3 items, has []'),
    ({'moves': [{'from': 'a1'}, {'from': 7}]}, 'g.json: moves[1].from: '
     'expected a text of up to 2 characters, has 7'),
    ({'moves': [{}]}, 'g.json: moves[0] lacks from'),
    ({'moves': [{'from': 'a'}], 'year': True}, 'g.json: year: expected a whole '
     'number from 1 to 9999, has True'),
    ({'moves': [{'from': 'a'}], 'year': 0}, 'has 0'),
    ({'moves': [{'from': 'a'}], 'elo': float('nan')}, 'g.json: elo: expected '
     'a number or null, has nan'),
    ({'moves': ['a' * 500]}, 'g.json: moves[0]: expected an object with named '
     'fields, has a text of 500'),
  ],
)  # fmt: skip
def test_a_line_names_the_place_and_both_values(value, says):
  with pytest.raises(core.InputError) as error:
    schema.check(value, GAMES, 'g.json')
  assert says in str(error.value)


def test_what_fits_comes_back_and_other_keys_are_left():
  good = {'moves': [{'from': 'a1', 'x': 1}], 'elo': 7, 'more': [None]}
  assert schema.check(good, GAMES, 'g.json') is good
  assert schema.check({'a b': 1}, schema.Dictionary(float)) == {'a b': 1}
  with pytest.raises(core.InputError, match=r"t: \['a b'\]: expected a text"):
    schema.check({'a b': 1}, schema.Dictionary(str), 't')


def test_files_are_read_within_a_size(tmp_path, monkeypatch):
  path = tmp_path / 'g.json'
  path.write_text('{"moves": [{"from": "a1"}]}')
  assert schema.read(path, GAMES)['moves'] == [{'from': 'a1'}]
  monkeypatch.setattr(schema, 'LARGEST', 9)
  with pytest.raises(core.InputError, match=r'has 27 bytes; expected up to 9'):
    schema.read(path, GAMES)


def of(shape):
  """Does a value fit? Written another way: by the shape, top down."""
  match shape:
    case schema.Number(kind, least, most):
      return lambda x: of(kind)(x) and least <= x <= most
    case schema.String(longest, choices):
      return lambda x: (
        type(x) is str and len(x) <= longest and x in (choices or [x])
      )
    case schema.List(item, least, most):
      return lambda x: (
        type(x) is list and least <= len(x) <= most and all(map(of(item), x))
      )
    case schema.Dictionary(value, least, most):
      return lambda x: (
        type(x) is dict
        and least <= len(x) <= most
        and all(map(of(value), x.values()))
      )
    case schema.Object(needed, optional, closed):
      return lambda x: (
        type(x) is dict
        and {*needed} <= {*x}
        and (not closed or {*x} <= {*needed, *optional})
        and all(of(s)(x[k]) for k, s in {**needed, **optional}.items()
                if k in x)
      )  # fmt: skip
    case types.UnionType():
      return lambda x: any(of(part)(x) for part in shape.__args__)
  if shape in (None, types.NoneType):
    return lambda x: x is None
  if shape is float:
    return lambda x: type(x) in (int, float) and abs(x) <= 1e300
  if shape is int:
    return lambda x: type(x) is int and -(2**63) <= x < 2**63
  return lambda x: shape is object or type(x) is shape


TYPES = st.sampled_from(
  [int, float, str, bool, list, dict, None, object, int | None, str | float]
)
KEYS = st.text('abc', max_size=1)
SHAPES = st.recursive(
  TYPES
  | st.builds(schema.Number, st.sampled_from([int, float]), st.just(0))
  | st.builds(schema.String, st.integers(0, 3)),
  lambda inner: (
    st.builds(schema.List, inner, st.integers(0, 1), st.integers(1, 3))
    | st.builds(schema.Dictionary, inner)
    | st.builds(
      schema.Object,
      st.dictionaries(KEYS, inner, max_size=2),
      st.dictionaries(KEYS, inner, max_size=2),
    )
  ),
  max_leaves=5,
)
JSON = st.recursive(
  st.none()
  | st.booleans()
  | st.integers()
  | st.just(10**400)
  | st.floats()
  | st.text(),
  lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(KEYS | st.text(), inner, max_size=3)
  ),
  max_leaves=8,
)


@hypothesis.given(SHAPES, JSON)
def test_any_value_fits_or_ends_in_one_line(shape, value):
  try:
    schema.check(value, shape, 'f.json')
    refused = False
  except core.InputError as error:
    refused = True
    line = str(error)
    assert line.startswith('f.json')
    assert len(line) < 2001
    assert '\n' not in line
  assert refused != of(shape)(value)
  if refused:
    text = json.dumps(value)
    with pytest.raises(core.InputError, match=r'^f\.json'):
      schema.parse(text, shape, 'f.json')
