"""Predictors: what models of `wm.models` give to be measured, by their kind.

A model and a world come in; a predictor goes out (`wm.core.predictor`), which
gives next-token probabilities and sessions, in which many continuations grow in
step. Each kind has its files:

  networks of ours    networks, with sessions (decoding) and adaptation (tuning)
  processes           process, with oracles, tracks; few_shot (small tasks)
  a user's own        user_objects, with stateless (no cache)
  Hugging Face        pretrained (reading a folder), tokenization
  language models     llm_predictor, with provider (calls), answer_cache,
                      call_ledger (budgets), replies and structures (readers)

`process` is the shortest whole predictor to read; `networks` the usual one.
"""
