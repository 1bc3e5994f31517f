"""Reconstructs the street map that routes imply, and draws it.

  python launch/reconstruct.py --world="maps(nodes='nodes.csv', \\
    edges='edges.csv', traversal='shortest')" --samples=samples.txt \\
    --shuffles=5 --out=runs/map

Without --samples, routes are sampled from the model (--model, --checkpoint)
for origins and destinations by --pairs. Writes OUT/summary.json, edges.csv,
map.html (interactive), map_far and map_close as .png and .svg.

  python launch/reconstruct.py --world="maps()" --out=runs/maps \\
    --routes="mine: runs/city" --routes="true: oracle()"

On several hosts, start the same command on each, with --distributed or
--coordinator as for train.py: they divide the routes that are sampled.

With --routes, maps of several models under several --limits, in OUT/maps.md;
launch/flags/vafa2024 has the twelve of a paper.
"""

import functools
from collections.abc import Callable
from typing import Any

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, counts out."""
  common.require('out')
  if FLAGS.routes or FLAGS.samples:
    common.require('world')
  if FLAGS.routes:
    common.refuse_together('routes', 'samples', *common.PROCESSES)
  elif FLAGS.limits:
    common.require('routes')
  common.join_processes()
  import wm

  arguments = {
    'out': FLAGS.out,
    'world': FLAGS.world,
    'options': common.values(common.Reconstruction),
    'log': print,
  }
  if FLAGS.routes:
    several()(
      FLAGS.routes, num=FLAGS.num_samples, pairs=FLAGS.pairs, **arguments
    )
    return
  wm.reconstruct(
    **arguments,
    **common.keywords(common.RouteSource),
    name=FLAGS.name,
    accept=FLAGS.accept or 'epsilon(0.01)',
    **({'source': None} if FLAGS.samples else common.model_source()),
  )


def several() -> Callable[..., Any]:
  """The call for --routes, with its limits and rule where they are given."""
  import wm
  from wm.studies import atlas

  more: dict[str, Any] = {'accept': FLAGS.accept} if FLAGS.accept else {}
  if FLAGS.limits:
    more['limits'] = [atlas.parse_limits(text) for text in FLAGS.limits]
  return functools.partial(wm.atlas, **more)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'samples', 'model', 'checkpoint', 'name', 'accept'),
    *('num_samples', 'pairs', 'routes', 'limits'),
    *(*common.names(common.Reconstruction), *common.PROCESSES),
  )
