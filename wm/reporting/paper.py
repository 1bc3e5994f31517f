"""Values that Vafa et al. 2024 print, by world, and in which settings.

`beside` shows them beside ours. The quantities of street maps and Othello are
those that count empty and vacuous trials as the published program does; those
of the seating puzzle leave them out, as it does there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wm.reporting import paper_chess
from wm.reporting.printed import GIVEN, Paper, Row, Trained, columns

_MAP_MODELS = (
  'untrained',
  'shortest_paths',
  'noisy_shortest_paths',
  'random_walks',
  'oracle',
)


# Fields that do not bear on a quantity of distinction.
_NOT_PRECISION = ('k', 'boundary', 'boundary_samples', 'max_elements')
_NOT_RECALL = ('samples', 'sample_k', 'sampler', 'exact', 'cap')


def _of_maps(
  metric: str, quantity: str, *printed: Sequence[Any], **more: Any
) -> Row:
  return Row(metric, quantity, columns(_MAP_MODELS, *printed), **more)


_SMALL = {'family': 'transformer', 'layers': 12, 'width': 768}
_LARGE = {'family': 'transformer', 'layers': 48, 'width': 1600}
_MAP_TRAINED = {
  'untrained': Trained(_SMALL),
  'shortestpaths': Trained(
    _SMALL, {'traversal': 'shortest', 'trips': GIVEN, 'max_moves': 0}
  ),
  'noisyshortestpaths': Trained(
    _LARGE,
    {
      **{'traversal': 'noisy', 'trips': GIVEN, 'max_moves': 0},
      'weightings': 50,
    },
    {'steps': 398_425, 'batch': 384},
  ),
  'randomwalks': Trained(
    _LARGE,
    {'traversal': 'random', 'max_moves': 0},
    {'steps': 236_059, 'batch': 384},
  ),
}
# Share of routes completed with detours of each kind, at these probabilities.
_MAP_DETOURS = {
  'random': {
    '0': (0.99, 0.96, 0.99),
    '0.01': (0.69, 0.52, 0.99),
    '0.1': (0.08, 0.03, 1.00),
    '0.5': (0.00, 0.00, 0.97),
    '0.75': (0.00, 0.00, 0.74),
  },
  'adversarial': {
    '0': (0.99, 0.96, 0.99),
    '0.01': (0.66, 0.64, 1.00),
    '0.1': (0.06, 0.04, 1.00),
    '0.5': (0.00, 0.00, 0.93),
    '0.75': (0.00, 0.00, 0.51),
  },
}
_NO_ERROR = (0.0, 0.0, 0.0, 0.0, 0.0)

_MAPS = Paper(
  'Vafa et al. 2024, tables 1 (n = 1,000, which its standard errors fit) and 2 '
  '(n = 100, inferred from the published program)',
  'on Manhattan with models of 89.3 M to 1.5 B parameters; its untrained model '
  'counts as failing where nothing is accepted, as precision_published does',
  (
    _of_maps('next_token', 'validity', (0.03, 1.0, 1.0, 1.0, 1.0), _NO_ERROR),
    _of_maps('probe', 'accuracy', (0.10, 0.91, 0.92, 0.99, None), _NO_ERROR),
    _of_maps(
      'compression',
      'precision_published',
      (0.00, 0.10, 0.05, 0.50, 1.00),
      (0.0, 0.01, 0.01, 0.02, 0.0),
    ),
    _of_maps(
      'distinction',
      'precision_published',
      (0.00, 0.35, 0.37, 0.99, 1.00),
      (0.0, 0.02, 0.02, 0.0, 0.0),
      free=_NOT_PRECISION,
    ),
    _of_maps(
      'distinction',
      'recall_definition',
      (0.00, 0.20, 0.24, 1.00, 1.00),
      (0.0, 0.01, 0.01, 0.0, 0.0),
      free=_NOT_RECALL,
    ),
    *(
      _of_maps(
        'detour',
        f'valid_{probability}',
        (None, *values, 1.00),
        fields={'kind': kind},
        free=('probabilities',),
      )
      for kind, rows in _MAP_DETOURS.items()
      for probability, values in rows.items()
    ),
  ),
  _MAP_TRAINED,
  {'intersections': 4579, 'streets': 9705},
  'Manhattan',
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


# Compression takes positions that recur, distinction those of every ply.
_POOL = {'size': 8, 'states': 'recurring', 'pool': 1000}
_PLIES = {'size': 8, 'states': 'stratified'}
_GPT = {'family': 'transformer', 'layers': 8, 'width': 512}


def _of_games(
  metric: str,
  quantity: str,
  values: Sequence[float],
  world: dict[str, Any],
  **more: Any,
) -> Row:
  """values: of untrained, championship, synthetic, oracle."""
  untrained, records, *rest = values
  values = untrained, records, records, *rest
  found = columns(_GAME_MODELS, values)
  return Row(metric, quantity, found, world=world, **more)


_OTHELLO = Paper(
  'Vafa et al. 2024, tables 3 (n = 1,000) and 4 (n = 100, which its standard '
  'error of .05 at .66 fits; we have no others of these tables)',
  'with models of 8 layers of 512; compression on positions that recur in '
  "1,000 random games (10,000 in the published program: the world's default)",
  (
    _of_games(
      'compression', 'precision_published', (0.00, 0.00, 0.98, 1.00), _POOL
    ),
    _of_games(
      'distinction',
      'precision_published',
      (0.02, 0.65, 0.99, 1.00),
      _PLIES,
      free=_NOT_PRECISION,
    ),
    _of_games(
      'distinction',
      'recall_definition',
      (0.14, 0.27, 1.00, 1.00),
      _PLIES,
      fields={'boundary': 'sampled'},
      free=_NOT_RECALL,
    ),
    *(
      Row(
        'detour',
        f'valid_{probability}',
        columns(
          ('championship', 'championship_like', 'synthetic'),
          [_VALID[kind, model][column] for model in _TRAINED],
          [0.05 if probability == '0.01' and kind == 'random' else None] * 2
          + [None],
        ),
        {'kind': kind},
        free=('probabilities',),
        world={'size': 8},
      )
      for kind in ('random', 'adversarial')
      for column, probability in enumerate(_DETOURS)
    ),
  ),
  {
    'untrained': Trained(_GPT),
    'championship': Trained(_GPT, {'records': GIVEN}),
    'championshiplike': Trained(_GPT, {'records': GIVEN}),
    'synthetic': Trained(_GPT, {'records': '', 'policy': 'uniform'}),
  },
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

# Of accuracies, by value; the paper prints p (1 - p) / sqrt(n) in their place.
_PUZZLE_ERRORS = {0.83: 0.02, 0.85: 0.02, 0.88: 0.01, 0.98: 0.00}


def _of_puzzles(
  metric: str, quantity: str, values: Sequence[float], errors: Any, **more: Any
) -> Row:
  """errors: function of a value, of the language models' alone."""
  known = [errors(value) for value in values[:-2]]
  found = columns(_LANGUAGE_MODELS, values, (*known, None, None))
  return Row(metric, quantity, found, world={'people': 3}, **more)


_SEATING = Paper(
  'Vafa et al. 2024, figure 4 (60 puzzles, 100 trials; where a range stands, '
  'we have only that of the standard errors)',
  'three people, language models that were asked in words; the .53 of '
  "Qwen1.5-110B is .35 in the paper's own appendix",
  (
    _of_puzzles(
      'capability',
      'accuracy',
      (0.77, 0.85, 0.98, 0.88, 0.88, 0.98, 0.83, 1.00, 1.00, 1.00),
      _PUZZLE_ERRORS.get,
    ),
    _of_puzzles(
      'compression',
      'precision',
      (0.08, 0.18, 0.25, 0.35, 0.21, 0.53, 0.33, 0.21, 1.00, 1.00),
      lambda value: (0.03, 0.05),
      fields={'suffixes': 'world'},
      also={'k': 1, 'samples': 5, 'trials': 100},
    ),
    _of_puzzles(
      'distinction',
      'recall',
      (0.42, 0.23, 0.57, 0.57, 0.56, 0.53, 0.18, 0.56, 1.00, 1.00),
      lambda value: (0.03, 0.04),
      fields={'k': 1, 'max_elements': 5},
      also={'trials': 100},
      free=_NOT_RECALL,
    ),
  ),
)

PAPERS = {
  'maps': _MAPS,
  'othello': _OTHELLO,
  'seating': _SEATING,
  'chess': paper_chess.PAPER,
}

# Failed reconstructions, by the most edges out of a node and miles of a new
# edge, of this many sequences.
RECONSTRUCTION_SEQUENCES = 6400
RECONSTRUCTION_FAILED = {
  'shortestpaths': {(4, 0.5): 1513, (8, 0.5): 1435, (4, 1): 1334, (8, 1): 1174},
  'noisyshortestpaths': {
    **{(4, 0.5): 2213, (8, 0.5): 1869, (4, 1): 1935, (8, 1): 1702},
  },
  'randomwalks': {(4, 0.5): 1987, (8, 0.5): 1491, (4, 1): 1905, (8, 1): 1323},
}
# SHA-256 of the published sequences that these were made of.
RECONSTRUCTION_SAMPLES = {
  'shortestpaths': '6e55fb496b4518b0e49821ef26fbe76a'
  '68974e5621c4a3661b4d878daa20b347',
  'noisyshortestpaths': 'b81ed55de98ccb6be35e49d8b03256e1'
  'e41531aedd1f9fe260247575d8a1fd97',
  'randomwalks': 'e51b99d3939d0e96f493348e54449c17'
  '50c306044dd01ec728def0d4445e4570',
}
