"""Scores a language model within a budget.

  python launch/ask.py --world='maps(rows=4, columns=5)' \\
    --model="language(model='openai/gpt-5')" --prices=prices.json \\
    --metric="compression(suffixes='world', k=1, samples=5)" \\
    --metric='distinction(samples=0, max_elements=5)' \\
    --budget=5usd --out=runs/gpt

Before anything is asked, it tells the calls of each metric, their tokens and
their price. --dry_run stops there, and prints ten prompts. Tokens per character
and the length of answers are guesses at first; after the first answers they are
measured, and the rest of the plan follows them.

A metric gets at most as many trials as it says, and all metrics get the same
share of theirs.

The budget is of all calls for --out, in earlier runs too, and is never passed:
a call is made only if the most that it can cost is left, by the bytes of its
prompt, the provider's template of a chat (256 tokens at most) and `max_tokens`
of --model. A call that fails counts in full, unless nobody charges for it. Only
a provider that counts more than that can pass the budget, by its first calls.

--prices=FILE is JSON, in dollars per million tokens, as Inspect reads it:
  {"openai/gpt-5": {"input": 1.25, "output": 10, "input_cache_read": 0.125,
                    "input_cache_write": 1.25}}

Writes what launch/score.py does, OUT/budget.json with the plan and its steps,
and OUT/calls.jsonl, from which a killed run resumes.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, a table out."""
  common.require('world', 'model', 'metric', 'budget')
  if not FLAGS.dry_run:
    common.require('out')
  import wm

  wm.ask(
    FLAGS.model,
    FLAGS.metric,
    FLAGS.world,
    FLAGS.out,
    seed=FLAGS.seed,
    metric_overrides=FLAGS.metric_overrides,
    name=FLAGS.name,
    **common.keywords(common.Asking),
    log=print,
  )


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'model', 'metric', 'metric_overrides', 'name'),
    *common.names(common.Asking),
  )
