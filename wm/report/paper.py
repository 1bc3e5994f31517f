"""Values that the papers print, shown beside ours, by world.

The quantities of street maps and Othello are those that count empty and
vacuous trials as the published program does; those of the seating puzzle leave
them out, as it does there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
  """What is printed of one quantity.

  Attributes:
    metric, quantity: of ours.
    values: model name, as `model_key` gives it -> value and standard error,
      None where none is printed.
    fields: of the metric, what they must be to measure the printed quantity.
      Of several such specs the plainest is shown.
  """

  metric: str
  quantity: str
  values: Mapping[str, tuple[float, float | None]]
  fields: Mapping[str, Any] = {}


class Paper(NamedTuple):
  """What is printed about one world: where, on what, and the rows."""

  table: str
  setting: str
  rows: tuple[Row, ...]


def model_key(name: str) -> str:
  """A model's name without case and signs: 'Llama-2-70B' is 'llama270b'."""
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

PAPERS = {'maps': _MAPS, 'othello': _OTHELLO, 'seating': _SEATING}

# Failed reconstructions of 6,400 sequences, degree 4, half a mile, shuffled.
RECONSTRUCTION_SEQUENCES = 6400
RECONSTRUCTION_FAILED = {
  'shortest_paths': 1513,
  'noisy_shortest_paths': 2213,
  'random_walks': 1987,
}
