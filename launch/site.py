"""Writes the documentation site, which opens from a disk without a network.

  python launch/site.py --out=site
  python launch/site.py --out=runs/othello --world='othello(size=6)'
  python launch/site.py --out=runs/pages --world='maps()' \\
    --model='slice()' --metric='compression(k=5)'

The site is in OUT; open OUT/index.html. It has a page for each world, model,
metric and file format, for each paper with the verdicts on its findings, for
each notebook and for each thing to bring; a film; and the reference of all
calls and programs. With --world, --model or --metric it has the pages of these
alone, with the settings of their specs: of a world also pictures of states,
its tokens and sequences. It needs `pip install -e '.[site]'` and a checkout.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('out')
  import wm

  wm.site(
    FLAGS.out,
    worlds=[FLAGS.world] if FLAGS.world is not None else [],
    models=[FLAGS.model] if FLAGS.model is not None else [],
    metrics=FLAGS.metric,
    log=print,
  )


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'metric')
