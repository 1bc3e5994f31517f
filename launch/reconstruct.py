"""Reconstructs the street map that routes imply, and draws it.

  python launch/reconstruct.py --world="maps(nodes='nodes.csv', \\
    edges='edges.csv', traversal='shortest')" --samples=samples.txt \\
    --shuffles=5 --out=runs/map

Without --samples, routes are sampled from the model (--model, --checkpoint)
for origins and destinations by --pairs. Writes OUT/summary.json, edges.csv,
map.html (interactive), and map_far as .png and .svg.

launch/flags/vafa2024/maps.sh makes the twelve maps of a paper.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, counts out."""
  common.require('out')
  if FLAGS.samples:
    common.require('world')
  import wm

  wm.reconstruct(
    out=FLAGS.out,
    world=FLAGS.world,
    options=common.values(common.Reconstruction),
    log=print,
    **common.keywords(common.RouteSource),
    name=FLAGS.name,
    accept=FLAGS.accept or 'epsilon(0.01)',
    **({'source': None} if FLAGS.samples else common.model_source()),
  )


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'samples', 'model', 'checkpoint', 'name', 'accept'),
    *('num_samples', 'pairs'),
    *common.names(common.Reconstruction),
  )
