"""Good folders that cases damage: golden runs, and what binaries make."""

from __future__ import annotations

GOLDEN = (
  *('half', 'reconstructed', 'sampled', 'scored', 'study', 'sweep'),
  'trained',
)
WORLD = 'maps(rows=3, columns=3, max_moves=12)'  # Of the golden folders.
LINE = 'lattice(size=3, length=12)'
# Name -> commands that make it; run where it will be.
MADE = {
  'ngram': (
    (
      'sample',
      f'--world={LINE}',
      '--num=60',
      '--num_heldout=20',
      '--out=ngram',
      '--text',
    ),
    ('train', f'--world={LINE}', '--model=ngram(order=2)', '--out=ngram'),
    (
      'score',
      f'--world={LINE}',
      '--metric=next_token(num=10)',
      '--out=ngram',
    ),
  ),
}
