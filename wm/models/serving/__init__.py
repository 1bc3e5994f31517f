"""Predictors of the models in `wm.models`, by kind.

A predictor (`wm.core.predictor`) is made from a model and a world. Its methods
return next-token probabilities and sessions, in which many continuations grow
in step. Each kind has its files:

  networks of ours    networks, with sessions (decoding) and adaptation (tuning)
  processes           process, with oracles, tracks; few_shot (small tasks)
  a user's own        user_objects, with stateless (no cache)
  Hugging Face        tokenization, with gpt2 (compiled)

`process` is the shortest complete predictor to read; `networks` the usual one.
"""
