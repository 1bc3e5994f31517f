"""Work that is killed at random moments, run again, and compared.

Each command runs in a process forked from a warm one, as cases do. What it
leaves after some SIGKILLs and a last, undisturbed run is compared with what an
undisturbed run leaves: every file to the bit, but for times, and checkpoints by
their arrays.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import tempfile
import time
from typing import NamedTuple

from tests.attack import runner
from tests.attack.bases import WORLD
from tests.attack.case import Case
from tests.data import pgn_texts as texts

MAP = f'--world={WORLD}'
GAMES = 12_000
TUNED = 'steps=(4,), rates=(1e-3,)'


class Work(NamedTuple):
  """A command that may be killed at any moment.

  Attributes:
    run: binary and its flags; it writes to ./run.
    base: golden folder that ./run is copied from; '' is none.
  """

  run: tuple[str, ...]
  base: str = ''


WORK = {
  'train': Work(
    (
      *('train', MAP, '--model=transformer(layers=1, width=8)', '--seed=1'),
      *('--batch=8', '--steps=120', '--eval_every=20', '--save_every=7'),
      *('--warmup=5', '--out=run'),
    ),
    'sampled',
  ),
  'sample': Work(
    (
      *('sample', '--world=othello(size=6)', '--num=60000'),
      *('--num_heldout=500', '--out=run'),
    ),
  ),
  'score': Work(
    (
      *('score', MAP, '--model=uniform()', '--out=run'),
      *('--metric=compression(trials=200)', '--metric=next_token(num=300)'),
      *('--metric=distinction(trials=200)', '--metric=detour(num=20)'),
    ),
  ),
  'study': Work(
    (
      *('study', MAP, '--row=guess: uniform()', '--row=true: oracle()'),
      *(f'--row=walks: ngram(order=2) on {WORLD}', '--num=300'),
      *('--num_heldout=40', '--num_samples=60', '--out=run'),
      '--metric=compression(trials=20, samples=4)',
    ),
  ),
  'adapt': Work(
    (
      *('score', MAP, '--out=run'),
      f'--metric=inductive_bias(num=4, examples=20, pool=40, {TUNED})',
      f'--metric=transfer(num=16, tested=10, {TUNED})',
    ),
    'trained',
  ),
  'ingest': Work(
    ('ingest', '--pgn=games.pgn', '--out=run', '--world=chess(length=40)'),
  ),
}
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
  if WORK[name].base:
    shutil.copytree(runner.base(WORK[name].base), place / 'run')


def start(name: str, place: pathlib.Path) -> int:
  """Starts a work; its process."""
  case = Case('kill', name, WORK[name].run)
  logs = place.with_name(f'{place.name}.log')
  logs.mkdir(exist_ok=True)
  return runner.begin(case, place, logs)


def finish(name: str, place: pathlib.Path) -> None:
  """Does a work undisturbed."""
  code = os.waitstatus_to_exitcode(os.waitpid(start(name, place), 0)[1])
  logs = place.with_name(f'{place.name}.log')
  assert code == 0, (name, code, (logs / 'err').read_text()[-2000:])


def kill(name: str, place: pathlib.Path, after: float) -> bool:
  """Kills a work after some seconds; False if it had ended by then."""
  child = start(name, place)
  end = time.monotonic() + after
  while time.monotonic() < end:
    if os.waitpid(child, os.WNOHANG)[0]:
      return False
    time.sleep(0.001)
  os.killpg(child, signal.SIGKILL)
  os.waitpid(child, 0)
  return True


def differences(
  name: str, kills: int, seed: int = 0, rounds: int = 3
) -> list[str]:
  """Kills a work; what then differs from an unbroken one.

  Args:
    name: of WORK.
    kills: how many there are in all.
    seed: of their moments.
    rounds: most kills before a run is let end.
  """
  dice = random.Random(f'{name}{seed}')
  with tempfile.TemporaryDirectory(prefix='wm-kill-') as folder:
    files = make_files(name, pathlib.Path(folder, 'files'))
    whole = pathlib.Path(folder, 'whole')
    prepare(name, whole, files)
    begin = time.monotonic()
    finish(name, whole)
    long = (time.monotonic() - begin) / 2
    if kills > 1:
      shutil.rmtree(whole)  # The second time, all is compiled.
      prepare(name, whole, files)
      begin = time.monotonic()
      finish(name, whole)
      long = time.monotonic() - begin
    expected, done, wrong = results(whole), 0, []
    while done < kills:
      cut = pathlib.Path(folder, f'cut{done}')
      prepare(name, cut, files)
      for _ in range(min(rounds, kills - done)):
        if not kill(name, cut, long * dice.random()):
          break
        done += 1
      finish(name, cut)
      result = results(cut)
      wrong += [
        f'after {done} kills: {path}'
        for path in sorted(result.keys() | expected.keys())
        if result.get(path) != expected.get(path)
      ]
      wrong += [f'left: {p.name}' for p in cut.rglob('*.tmp')]
      shutil.rmtree(cut)
  return wrong
