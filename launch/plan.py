"""Prints what a run takes of each chip of a pod, by compiling it for them.

  python launch/plan.py --flagfile=launch/flags/laptop.flags --topology=v5e:4x4
  python launch/plan.py --topology=cpu:8 --world='maps()' \\
    --model='transformer(layers=2)' --batch=64 --length=32

A training step is compiled, not run: no TPU is needed, only its compiler, by
`pip install -e '.[tpu]'`. The table has bytes of parameters, moments, gradient
and temporaries on a chip, operations as XLA counts them and by 6ND, bytes that
all operations access, and bytes sent to other chips. Stacked blocks (scan=True)
are counted one by one. Loops over time are counted as one step each, and named.

The time is a lower bound: that of a chip that multiplies, reads and sends at
the full rates of its maker's tables, all at once, and reads its memory once.
--topology is v5e:16x16 or another shape of v5e and v5p; cpu:8, without times;
or h100:8, for which nothing is compiled: its temporaries are not known.

--length is of the sequences of a batch, by default the world's longest; batches
are as long as their sequences, so give the mean of the data.

--meshes=8 plans with 1, 2, 4 and 8 devices on the model axis, a table each, and
names the fastest that fits, for --mesh_model.
"""

import dataclasses

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, a table out."""
  common.require('world', 'model', 'topology')
  import wm

  training = common.values(common.Training)
  options = common.keywords(common.Topology)

  def planned(size: int) -> tuple[wm.PodPlan, list[str]]:
    """The plan with so many devices on the model axis, and its table."""
    lines: list[str] = []
    mesh = dataclasses.replace(training, mesh_model=size)
    plan = wm.plan(
      FLAGS.world, FLAGS.model, training=mesh, **options, log=lines.append
    )
    return plan, lines

  if not FLAGS.meshes:
    print(*planned(training.mesh_model)[1], sep='\n')
    return
  times = {}
  for size in (1 << n for n in range(FLAGS.meshes.bit_length())):
    try:
      plan, lines = planned(size)
    except wm.InputError as error:
      if size == 1:  # Not the mesh is wrong.
        raise
      print(error)
      continue
    print(f'mesh_model={size}', *lines, sep='\n')
    if plan.chip and plan.arguments + plan.temporaries <= plan.chip.memory:
      times[size] = 1e3 * max(plan.seconds().values())
  if times:
    best = min(times, key=times.__getitem__)
    print(f'fastest: --mesh_model={best}, {times[best]:.3g} ms a step')


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'model', *common.names(common.Topology)),
    *('objective', 'batch', 'steps', 'optimizer', 'average'),
    *('mesh_data', 'mesh_model', 'meshes'),
  )
