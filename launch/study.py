"""Several models on one world: trained, scored, mapped and reported together.

  python launch/study.py --flagfile=launch/flags/quickstart.flags

--row='NAME: MODEL' is scored on --world as it is; --row='NAME: MODEL on WORLD'
is first trained on WORLD and scored there; 'NAME: MODEL on WORLD then on WORLD'
is scored on the second. Each row is a run folder OUT/NAME, made by the stages
`sample`, `train`, `score` and `reconstruct`, which read the other flags; the
report is in OUT/report. A study that was stopped goes on where it was.
"""

import pathlib
import re

import common
import reconstruct
import report
import sample
import score
import train

FLAGS = common.FLAGS
ROW = r'\s*(\w+)\s*:\s*(.+?)(?:\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?\s*'


def rows() -> list[tuple[str, str, str | None, str, bool]]:
  """(name, model, world to train on, to score on, has it a map) by --row."""
  from wm import core
  from wm.core import registry

  found = []
  for text in FLAGS.row:
    match = re.fullmatch(ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    name, model, world, there = match.groups()
    there = there or world or FLAGS.world
    if name in [row[0] for row in found]:
      raise core.InputError(f'two rows are named {name!r}')
    registry.make('model', model)
    made = [registry.make('world', text) for text in (world or there, there)]
    found.append((name, model, world, there, hasattr(made[1], 'graph')))
  return found


def stage(main, title: str, **values) -> None:
  """Runs one binary's stage with some flags set."""
  print(f'== {title}', flush=True)
  for name, value in values.items():
    setattr(FLAGS, name, value)
  main()


def main() -> None:
  """Every stage of every row, then the report."""
  common.need('world', 'row', 'metric', 'out')
  from wm.runtime import locks

  out, wanted = pathlib.Path(FLAGS.out), rows()
  with locks.writer(out, 'study'):
    for name, model, world, there, has_map in wanted:
      where = {'out': str(out / name), 'name': name, 'model': model}
      if world:
        stage(sample.main, f'{name}: sample', **where, world=world)
        stage(train.main, f'{name}: train', **where, world=world)
      which = 'best' if world else 'none'
      where |= {'world': there, 'score_world': there, 'checkpoint': which}
      stage(score.main, f'{name}: score', **where)
      if world and has_map:
        stage(reconstruct.main, f'{name}: reconstruct', **where)
    folders = [str(out / row[0]) for row in wanted]
    stage(report.main, 'report', out=str(out), runs=folders)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'row', 'metric', 'num', 'steps', 'batch', 'lr', 'warmup'),
    *('num_samples', 'max_degree', 'max_miles', 'shuffles'),
  )
