"""Values that the papers print, shown beside ours.

Keys are (metric, quantity, model name as studies use it); values are
(value, standard error or None). The quantities are those that count empty and
vacuous trials as the published program does.
"""

TABLE = 'Vafa et al. 2024, tables 1 and 2 (n = 1,000; detours n = 100)'

_MODELS = (
  'untrained',
  'shortest_paths',
  'noisy_shortest_paths',
  'random_walks',
  'oracle',
)

# A row per quantity, a column per model; None where nothing is printed.
_ROWS = {
  ('next_token', 'validity'): (0.03, 1.00, 1.00, 1.00, 1.00),
  ('probe', 'accuracy'): (0.10, 0.91, 0.92, 0.99, None),
  ('compression', 'precision_published'): (0.00, 0.10, 0.05, 0.50, 1.00),
  ('distinction', 'precision_definition'): (0.00, 0.35, 0.37, 0.99, 1.00),
  ('distinction', 'recall_definition'): (0.00, 0.20, 0.24, 1.00, 1.00),
}
_ERRORS = {
  ('compression', 'precision_published'): (0.0, 0.01, 0.01, 0.02, 0.0),
  ('distinction', 'precision_definition'): (0.0, 0.02, 0.02, 0.0, 0.0),
  ('distinction', 'recall_definition'): (0.0, 0.01, 0.01, 0.0, 0.0),
}

VALUES = {
  (*quantity, model): (value, _ERRORS.get(quantity, (None,) * 5)[column])
  for quantity, row in _ROWS.items()
  for column, (model, value) in enumerate(zip(_MODELS, row, strict=True))
  if value is not None
}

# Failed reconstructions of 6,400 sequences, degree 4, half a mile, shuffled.
RECONSTRUCTION_SEQUENCES = 6400
RECONSTRUCTION_FAILED = {
  'shortest_paths': 1513,
  'noisy_shortest_paths': 2213,
  'random_walks': 1987,
}
