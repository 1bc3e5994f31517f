"""Runs: rows x seeds x axes of stages, resumable, ranked and reported.

  study      rows, one seed: sampled for, trained, scored, mapped, reported
  miniature  rows x seeds, each a small result file that findings are judged by
  sweep      a grid of training runs, ranked, then scored and reported
  atlas      rows x limits of reconstructed maps

`rows` says what is run, `jobs` and `worker` run it in processes that share the
work, `grid` reads and ranks what a sweep has done.
"""
