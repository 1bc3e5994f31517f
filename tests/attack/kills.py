"""Work that may be killed, or meets another fault; see `tests.faults`.

Each command runs in a process forked from a warm one, as cases do. What it
leaves after a last, undisturbed run is compared with what an undisturbed run
leaves: every file to the bit, but for times, and checkpoints by their arrays.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil

from tests.attack import runner
from tests.attack.bases import WORLD
from tests.attack.case import Case
from tests.data import pgn_texts as texts

MAP = f'--world={WORLD}'
GAMES = 12_000
TUNED = 'steps=(4,), rates=(1e-3,)'


# Name -> binary and flags of a command that may be killed; it writes to ./run.
WORK: dict[str, tuple[str, ...]] = {
  'train': (
    *('train', MAP, '--model=transformer(layers=1, width=8)', '--seed=1'),
    *('--batch=8', '--steps=120', '--eval_every=20', '--save_every=7'),
    *('--warmup=5', '--out=run'),
  ),
  'sample': (
    *('sample', '--world=othello(size=6)', '--num=60000'),
    *('--num_heldout=500', '--out=run'),
  ),
  'score': (
    *('score', MAP, '--model=uniform()', '--out=run'),
    *('--metric=compression(trials=200)', '--metric=next_token(num=300)'),
    *('--metric=distinction(trials=200)', '--metric=detour(num=20)'),
  ),
  'study': (
    *('study', MAP, '--row=guess: uniform()', '--row=true: oracle()'),
    *(f'--row=walks: ngram(order=2) on {WORLD}', '--num=300'),
    *('--num_heldout=40', '--num_samples=60', '--out=run'),
    '--metric=compression(trials=20, samples=4)',
  ),
  'adapt': (
    *('score', MAP, '--out=run'),
    f'--metric=inductive_bias(num=4, examples=20, pool=40, {TUNED})',
    f'--metric=transfer(num=16, tested=10, {TUNED})',
  ),
  'ingest': (
    *('ingest', '--pgn=games.pgn', '--out=run', '--world=chess(length=40)'),
  ),
}
BASES = {'train': 'sampled', 'adapt': 'trained'}  # Golden copies at ./run.
# Not of the result: when it was made, and how long it took.
_TIMES = re.compile(
  rb'"(seconds|tokens_per_s|first_step_s|wall_seconds|cpu_seconds|peak_mb|'
  rb'time|started|ended)": [^,}\n]+|\d+(\.\d+)? s(econds)?\b'
)
_LEFT_OUT = re.compile(r'(^|/)(tensorboard/|\.lock$|[^/]*\.log$)')
_CHECKPOINT = re.compile(r'(^|/)checkpoints/\d+/')


def results(place: pathlib.Path) -> dict[str, str]:
  """Path -> hash of what is there, without times; checkpoints by steps."""
  result = {}
  for path in sorted(place.rglob('*')):
    name = str(path.relative_to(place))
    if _LEFT_OUT.search(name) or not path.is_file():
      continue
    if match := _CHECKPOINT.search(name):
      result[name[: match.end()]] = 'checkpoint'
      continue
    data = _TIMES.sub(b'', path.read_bytes())
    result[name] = hashlib.sha256(data).hexdigest()
  return result


def make_files(name: str, place: pathlib.Path) -> pathlib.Path:
  """A folder of what a work reads."""
  place.mkdir()
  if name == 'ingest':
    sites = [texts.url(k) for k in range(GAMES)]
    games = texts.random_games(GAMES, seed=2, most=40)
    (place / 'games.pgn').write_text(texts.pgn(games, sites))
  return place


def prepare(name: str, place: pathlib.Path, files: pathlib.Path) -> None:
  """Makes the folder in which a work is done."""
  shutil.copytree(files, place)
  if base := BASES.get(name):
    shutil.copytree(runner.base(base), place / 'run')


def start(name: str, place: pathlib.Path) -> int:
  """Starts a work; its process."""
  case = Case('kill', name, WORK[name])
  logs = place.with_name(f'{place.name}.log')
  logs.mkdir(exist_ok=True)
  return runner.begin(case, place, logs)


def finish(name: str, place: pathlib.Path) -> None:
  """Does a work undisturbed."""
  code = os.waitstatus_to_exitcode(os.waitpid(start(name, place), 0)[1])
  logs = place.with_name(f'{place.name}.log')
  assert code == 0, (name, code, (logs / 'err').read_text()[-2000:])
