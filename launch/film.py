"""Films orbits: where bodies are, and where a model says that they are.

  python launch/film.py --out=runs/orbits --systems=8
  python launch/film.py --out=films --world='orbits()' --model='uniform()'
  python launch/film.py --out=films/earth --checkpoint=runs/orbits \\
    --world="orbits(systems='solar', box=3.2, steps=(0.025, 0.05), centre=0.2)"

  python launch/film.py --out=runs/orbits --forces=acceleration_vector

The model is --model, or the training run in --out or --checkpoint. Writes
OUT/film.html, a page that needs no network: true paths of held-out systems and
the model's, each next position after the true ones, or from --prefix frames on
after its own. A run may be shown systems of another box and of other time steps
if their numbers of bins and steps are the same; a bin then means another
length. With --forces the model is also fine-tuned to predict forces on systems
of the same world, and arrows show its predictions.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('out')
  import wm

  source = common.model_source()
  path = wm.film(
    **source,
    out=FLAGS.out,
    world=FLAGS.world,
    systems=FLAGS.systems,
    prefix=FLAGS.prefix,
    forces=FLAGS.forces,
    seed=FLAGS.seed,
  )
  print('written:', path)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'model', 'checkpoint', 'systems', 'prefix', 'forces'),
  )
