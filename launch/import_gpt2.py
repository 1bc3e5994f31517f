"""Makes a published GPT-2 style checkpoint a run that score.py can load.

  python launch/import_gpt2.py --weights=state.pt --out=runs/published \\
    --world="maps(nodes='nodes.csv', edges='edges.csv')"

  python launch/import_gpt2.py --weights=gpt_championship.ckpt \\
    --world="othello()" --out=runs/championship

--weights is a PyTorch state dict, loaded with weights only: in GPT-2's layout,
or in minGPT's, as Othello-GPT is published. Needs the extra `torch`.
"""

import json

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the summary out."""
  common.need('world', 'weights', 'out')
  import wm

  summary = wm.import_gpt2(
    FLAGS.weights, FLAGS.world, FLAGS.out, model=FLAGS.model, vocab=FLAGS.vocab
  )
  print(json.dumps(summary))


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'weights', 'vocab')
