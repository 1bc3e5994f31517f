"""Reconstructs the street map that routes imply, and draws it.

  python launch/reconstruct.py --world="maps(nodes='nodes.csv', \\
    edges='edges.csv', traversal='shortest')" --samples=samples.txt \\
    --shuffles=5 --out=runs/map

Without --samples, routes are sampled from the model (--model, --checkpoint)
for uniform origins and destinations. Writes OUT/summary.json, edges.csv,
map.html (interactive), map_far and map_close as .png and .svg.
"""

import common

FLAGS = common.FLAGS


def _config():
  from wm.recon import reconstruct, run

  control = FLAGS.control or ('uniform' if FLAGS.error_rate else 'none')
  return run.Config(
    reconstruct.Options(
      max_degree=FLAGS.max_degree,
      max_miles=FLAGS.max_miles,
      variant=FLAGS.variant,
      ties=FLAGS.ties,
      rollback=FLAGS.rollback,
    ),
    order=FLAGS.order,
    shuffles=FLAGS.shuffles,
    control=control,
    error_rate=FLAGS.error_rate,
    seed=FLAGS.seed,
  )


def main() -> None:
  """Flags in, one library call, counts out."""
  common.need('world', 'out')
  from wm.core import registry
  from wm.recon import run

  world, config = registry.make('world', FLAGS.world), _config()
  if FLAGS.samples:
    summary = run.from_file(world, FLAGS.samples, FLAGS.out, config, FLAGS.name)
  else:
    predictor, name, about, origin = common.predictor(world)
    summary = run.from_model(
      world,
      predictor,
      FLAGS.out,
      config,
      name=FLAGS.name or name,
      num=FLAGS.num_samples,
      accept=registry.make('accept', FLAGS.accept or 'epsilon(0.01)'),
      about=about,
      origin=origin,
    )
  for fact, value in run.facts(summary):
    print(f'{fact}: {value}')
  print(f'written: {FLAGS.out}/summary.json, edges.csv, map.html, map_*')


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'samples', 'model', 'checkpoint', 'name', 'accept'),
    *('num_samples', 'max_degree', 'max_miles', 'variant', 'ties'),
    *('rollback', 'order', 'shuffles', 'control', 'error_rate'),
  )
