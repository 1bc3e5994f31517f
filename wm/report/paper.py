"""Values that the papers print, shown beside ours, by world.

The quantities of street maps and Othello are those that count empty and
vacuous trials as the published program does; those of the seating puzzle leave
them out, as it does there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class _Given:
  """Stands for any value but an empty one."""

  def __repr__(self) -> str:
    return '...'

  def __eq__(self, other: object) -> bool:
    return bool(other)

  __hash__ = None


GIVEN = _Given()


class Row(NamedTuple):
  """What is printed of one quantity.

  Attributes:
    metric, quantity: of ours.
    values: model name, as `model_key` gives it -> value and standard error,
      None where none is printed.
    fields: of the metric, what they must be to measure the printed quantity,
      or GIVEN. Of several such specs the plainest is shown.
    form: of the printed value, as `format` takes it.
  """

  metric: str
  quantity: str
  values: Mapping[str, tuple[float, float | None]]
  fields: Mapping[str, Any] = {}
  form: str = '.2f'


class Paper(NamedTuple):
  """What is printed about one world: where, on what, and the rows."""

  table: str
  setting: str
  rows: tuple[Row, ...]


def model_key(name: str) -> str:
  """A model's name without case and signs: 'Llama-2-70B' is 'llama270b'.

  Nor what a sweep adds of its settings: 'slice_d128,lr=1e-2' is 'sliced128'.
  """
  name = re.sub(r',\w+=[^,]*', '', name)
  return ''.join(c for c in name.lower() if c.isalnum())


def _columns(
  models: Sequence[str],
  values: Sequence[float | None],
  errors: Sequence[float | None] = (),
) -> dict[str, tuple[float, float | None]]:
  errors = errors or (None,) * len(models)
  found = zip(models, values, errors, strict=True)
  return {
    model_key(model): (value, error)
    for model, value, error in found
    if value is not None
  }


_MAP_MODELS = (
  'untrained',
  'shortest_paths',
  'noisy_shortest_paths',
  'random_walks',
  'oracle',
)


def _of_maps(metric: str, quantity: str, *columns: Sequence[Any]) -> Row:
  return Row(metric, quantity, _columns(_MAP_MODELS, *columns))


_MAPS = Paper(
  'Vafa et al. 2024, tables 1 and 2 (n = 1,000; detours n = 100)',
  'on Manhattan with models of 89.3 M to 1.5 B parameters',
  (
    _of_maps('next_token', 'validity', (0.03, 1.00, 1.00, 1.00, 1.00)),
    _of_maps('probe', 'accuracy', (0.10, 0.91, 0.92, 0.99, None)),
    _of_maps(
      'compression',
      'precision_published',
      (0.00, 0.10, 0.05, 0.50, 1.00),
      (0.0, 0.01, 0.01, 0.02, 0.0),
    ),
    _of_maps(
      'distinction',
      'precision_definition',
      (0.00, 0.35, 0.37, 0.99, 1.00),
      (0.0, 0.02, 0.02, 0.0, 0.0),
    ),
    _of_maps(
      'distinction',
      'recall_definition',
      (0.00, 0.20, 0.24, 1.00, 1.00),
      (0.0, 0.01, 0.01, 0.0, 0.0),
    ),
  ),
)


_GAME_MODELS = (
  'untrained',
  'championship',
  'championship_like',  # A policy in place of records.
  'synthetic',
  'oracle',
)
# Share of legal games with detours of each kind, at these probabilities.
_DETOURS = ('0', '0.01', '0.1', '0.25', '0.5')
_TRAINED = ('championship', 'championship', 'synthetic')
_VALID = {
  ('random', 'championship'): (1.00, 0.66, 0.05, 0.01, 0.01),
  ('random', 'synthetic'): (1.00, 0.99, 0.97, 0.97, 0.99),
  ('adversarial', 'championship'): (1.00, 0.70, 0.01, 0.01, 0.00),
  ('adversarial', 'synthetic'): (1.00, 0.98, 0.99, 0.96, 0.97),
}


def _of_games(metric: str, quantity: str, values: Sequence[float]) -> Row:
  """values: of untrained, championship, synthetic, oracle."""
  untrained, records, *rest = values
  values = untrained, records, records, *rest
  return Row(metric, quantity, _columns(_GAME_MODELS, values))


_OTHELLO = Paper(
  'Vafa et al. 2024, tables 3 and 4 (n = 1,000; detours n = 100)',
  'with models of 8 layers of 512, on positions that recur in 10,000 random '
  'games',
  (
    _of_games('compression', 'precision_published', (0.00, 0.00, 0.98, 1.00)),
    _of_games('distinction', 'precision_definition', (0.02, 0.65, 0.99, 1.00)),
    _of_games(
      'distinction', 'recall_definition', (0.14, 0.27, 1.00, 1.00)
    )._replace(fields={'boundary': 'sampled'}),
    *(
      Row(
        'detour',
        f'valid_{probability}',
        _columns(
          ('championship', 'championship_like', 'synthetic'),
          [_VALID[kind, model][column] for model in _TRAINED],
        ),
        {'kind': kind},
      )
      for kind in ('random', 'adversarial')
      for column, probability in enumerate(_DETOURS)
    ),
  ),
)


_LANGUAGE_MODELS = (
  'Llama-2-70B',
  'Llama-3-8B',
  'Llama-3-70B',
  'Mixtral-8x22B',
  'Qwen1.5-72B',
  'Qwen1.5-110B',
  'GPT-3.5-turbo',
  'GPT-4',
  'oracle',
  'perfect',
)

_SEATING = Paper(
  'Vafa et al. 2024, figure 4 (100 trials; standard errors .03 to .05)',
  'three people, language models that were asked in words',
  (
    Row(
      'capability',
      'accuracy',
      _columns(
        _LANGUAGE_MODELS,
        (0.77, 0.85, 0.98, 0.88, 0.88, 0.98, 0.83, 1.00, 1.00, 1.00),
      ),
    ),
    Row(
      'compression',
      'precision',
      _columns(
        _LANGUAGE_MODELS,
        (0.08, 0.18, 0.25, 0.35, 0.21, 0.53, 0.33, 0.21, 1.00, 1.00),
      ),
      {'suffixes': 'world'},
    ),
    Row(
      'distinction',
      'recall',
      _columns(
        _LANGUAGE_MODELS,
        (0.42, 0.23, 0.57, 0.57, 0.56, 0.53, 0.18, 0.56, 1.00, 1.00),
      ),
      {'k': 1, 'max_elements': 5},
    ),
  ),
)

# Of games of people, then of uniform ones: loss, and per cent labelwise, exact
# and of whole games.
_CHESS_TESTS = """
transformer_d128         .137515 95.81 26.82  0.02   .611882 85.53  2.67  0.00
transformer_d256         .016659 99.45 74.44 11.91   .280601 92.48  8.58  0.06
transformer_d384         7.65e-5   100 99.86 97.35   .036100 99.05 59.45  1.79
transformer_d512         2.93e-5   100 99.96 99.61   .029630 99.33 72.93  4.87
slice_d128               .055239 98.22 41.20  0.16   .322331 92.21  4.14  0.00
slice_d256               .001636 99.95 96.57 63.95   .075425 98.19 33.16  0.52
slice_d384               8.40e-5   100 99.85 97.27   .035920 99.45 70.85  2.54
slice_d512               2.67e-5   100 99.95 98.97   .032891 99.49 73.47  4.37
mamba3_d128              .042266 98.57 51.96  1.48   .305990 91.57  5.66  0.00
mamba3_d256              .000908 99.97 98.13 77.35   .068237 98.10 33.31  0.90
mamba3_d384              3.66e-5   100 99.94 99.04   .029089 99.30 68.78  5.07
mamba3_d512              1.29e-5   100 99.99 99.76   .015915 99.66 81.13 10.82
deltanet_d128            .051443 98.34 49.47  1.04   .534119 90.37  5.05  0.00
deltanet_d256            .000467 99.99 99.12 87.46   .086148 97.90 36.15  1.18
deltanet_d384            5.79e-5   100 99.93 99.46   .044545 99.04 56.87  4.55
deltanet_d512            3.43e-5   100 99.96 99.60   .035822 99.22 61.19  5.71
slice_diagonal_d128      .120725 96.48 16.67  0.00   35.9174 87.33  2.09  0.00
slice_diagonal_d256      .042201 99.76 86.40 24.99   4.43e17 88.96 13.32  0.13
slice_diagonal_d384      .000582 99.98 98.89 86.67    8.23e6 97.76 38.86  1.17
slice_diagonal_d512      .000457 99.99 99.33 92.69  1.615620 98.33 39.14  1.80
mamba2_d128              .056944 98.13 46.41  1.04   .393216 89.85  4.92  0.00
mamba2_d256              .002905 99.90 94.40 53.55   .125556 96.41 19.32  0.44
mamba2_d384              .000149   100 99.80 97.54   .057472 98.60 45.66  2.48
mamba2_d512              9.05e-5   100 99.88 98.63   .052418 98.86 50.02  3.04
deltanet_positive_d128   .053603 98.26 47.49  0.78   .496955 90.39  4.80  0.00
deltanet_positive_d256   .001104 99.96 97.87 76.00   .116137 97.25 27.79  0.70
deltanet_positive_d384   .000110   100 99.85 98.03   .060025 98.61 48.57  2.93
deltanet_positive_d512   3.58e-5   100 99.95 99.56   .036353 99.22 61.17  6.28
"""
# Place in these, unit, and how it is printed.
_CHESS_QUANTITIES = {
  'exact': (2, 0.01, '.4f'),
  'labelwise': (1, 0.01, '.4f'),
  'trajectory': (3, 0.01, '.4f'),
  'loss': (0, 1, '.6g'),
}
_CHESS_GAMES = ({'data': GIVEN, 'world': ''}, {'data': '', 'world': ''})


def _of_chess(split: int, quantity: str) -> Row:
  """split: 0 games of people, 1 uniform ones.

  A model may be called by what it was trained on too: the paper's are all
  trained on games of people.
  """
  place, unit, form = _CHESS_QUANTITIES[quantity]
  values = {}
  for line in _CHESS_TESTS.strip().splitlines():
    name, *numbers = line.split()
    # Rounded, as 0.2682 is not 0.01 * 26.82.
    value = round(float(numbers[4 * split + place]) * unit, 9)
    for called in (name, f'{name},human'):
      values[model_key(called)] = (value, None)
  return Row('exactness', quantity, values, _CHESS_GAMES[split], form)


_CHESS = Paper(
  'Walker and Lyons 2026, tables 8 to 10 (10,000 games each, one seed)',
  'with models that were trained on four epochs of 10 M games of people; '
  'data=... are games of people here and there, the others uniformly random',
  tuple(_of_chess(k, name) for k in (0, 1) for name in _CHESS_QUANTITIES),
)

PAPERS = {
  'maps': _MAPS,
  'othello': _OTHELLO,
  'seating': _SEATING,
  'chess': _CHESS,
}

# Failed reconstructions of 6,400 sequences, degree 4, half a mile, shuffled.
RECONSTRUCTION_SEQUENCES = 6400
RECONSTRUCTION_FAILED = {
  'shortest_paths': 1513,
  'noisy_shortest_paths': 2213,
  'random_walks': 1987,
}
