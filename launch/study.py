"""Several models on one world: trained, scored, mapped and reported together.

  python launch/study.py --flagfile=launch/flags/quickstart.flags

--row='NAME: MODEL' is scored on --world as it is; --row='NAME: MODEL on WORLD'
is first trained on WORLD and scored there. Each row is a run folder OUT/NAME,
made by the same stages as `sample`, `train`, `score` and `reconstruct`, which
read the other flags; the report over all of them is in OUT/report. A study
that was stopped goes on where it was.
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


def rows() -> list[tuple[str, str, str | None]]:
  """(name, model, world or None) of each --row; all of them are checked."""
  from wm import core, registry

  found = []
  for text in FLAGS.row:
    match = re.fullmatch(r'\s*(\w+)\s*:\s*(.+?)(?:\s+on\s+(.+?))?\s*', text)
    if not match:
      raise core.InputError(
        f"bad row {text!r}: expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      )
    name, model, world = match.groups()
    if name in [row[0] for row in found]:
      raise core.InputError(f'two rows are named {name!r}')
    registry.make('model', model)
    if world:
      registry.make('world', world)
    found.append((name, model, world))
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
  from wm import registry

  out, home, wanted = pathlib.Path(FLAGS.out), FLAGS.world, rows()
  has_map = hasattr(registry.make('world', home), 'graph')
  for name, model, world in wanted:
    where = {'out': str(out / name), 'name': name, 'model': model}
    where['world'] = world or home
    if world:
      stage(sample.main, f'{name}: sample', **where)
      stage(train.main, f'{name}: train', **where)
    where['checkpoint'] = 'best' if world else 'none'
    stage(score.main, f'{name}: score', **where)
    if world and has_map:
      stage(reconstruct.main, f'{name}: reconstruct', **where)
  folders = [str(out / name) for name, _, _ in wanted]
  stage(report.main, 'report', out=str(out), runs=folders)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'row', 'metric', 'num', 'steps', 'batch', 'lr', 'warmup'),
    *('num_samples', 'max_degree', 'max_miles', 'shuffles'),
  )
