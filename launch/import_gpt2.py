"""Makes a published PyTorch checkpoint a run that score.py can load.

  python launch/import_gpt2.py --weights=state.pt --out=runs/published \\
    --world="maps(nodes='nodes.csv', edges='edges.csv')"

  python launch/import_gpt2.py --weights=gpt_championship.ckpt \\
    --world="othello()" --out=runs/championship

  python launch/import_gpt2.py --weights=checkpoints/latest.pt \\
    --world="chess(vocabulary='packed', length=704)" --out=runs/theirs

--weights is a PyTorch state dict, loaded with weights only. Names and shapes
tell what it is: GPT-2; minGPT, as Othello-GPT is published; one of the families
of Walker and Lyons 2026, as their program saves it with its settings
(transformer, SLiCE, gated DeltaNet, Mamba-2, Mamba-3); or a transformer, RNN or
LSTM of Vafa et al. 2025 (inductive bias probes). --model says what they do not
tell, such as GPT-2's heads. Needs the extra `torch`.
"""

import json

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the summary out."""
  common.require('world', 'weights', 'out')
  import wm

  summary = wm.import_gpt2(
    FLAGS.weights, FLAGS.world, FLAGS.out, model=FLAGS.model, vocab=FLAGS.vocab
  )
  print(json.dumps(summary))


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'weights', 'vocab')
