"""Learns the automaton that a model implies, and compares it with the world's.

  python launch/extract.py --world="automaton(preset='tomita7')" \\
    --model='noisy_oracle(wrong=0.3)'
  python launch/extract.py --flagfile=launch/flags/laptop.flags --out=runs/city
  python launch/extract.py --world='connect4(rows=3,columns=3)' \\
    --model='oracle()' --most_states=500 --queries=20000 --out=runs/four

The minimal automaton over the tokens that the model accepts, under --accept, is
learned by queries: words that the model reads. The world's boundaries, and
--walks random walks of the world and of the model, look for words about which
it is wrong, until a round finds none, --most_states or half of --queries are
used up; the other half is for fresh walks. A world of more than 1,000 states is
explored along its walks alone. The metric automaton() gives intervals.

Printed are the number of states beside the world's; how many fresh walks differ
from the automaton, and which share of all walks do at most, with 95 %
confidence (a PAC bound); on which share of the world's sequences automaton and
world agree, and at which share of their places not (wrong_places); and

  distance  2^-k, k the tokens before the first difference (0: none)
  merged    states of the world that are one state for the model
  split     states of the world that are several for the model
  edges     legal tokens that the model does not accept (missing), and accepted
            ones that are not legal (extra), by state

A model that was trained on sequences of at most L tokens may know where they
end, and imply states that count tokens: --longest_word below L leaves them out.

With --out: OUT/extraction.json, and OUT/automaton.json, for
--world="automaton(file='OUT/automaton.json')".
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  import wm

  accept = {'accept': FLAGS.accept} if FLAGS.accept else {}
  wm.extract(
    **common.model_source(),
    world=FLAGS.world,
    out=FLAGS.out,
    **common.keywords(common.Extraction),
    **accept,
    name=FLAGS.name,
    seed=FLAGS.seed,
    log=print,
  )


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'model', 'checkpoint', 'name', 'accept'),
    *common.names(common.Extraction),
  )
