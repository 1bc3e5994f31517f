"""Studies: many models, trained and measured by one call that can be resumed.

Rows such as 'walks: MODEL on WORLD with steps=500' come in; folders of runs and
a report go out. There are four calls:

  study      rows: each is sampled for, trained, scored and mapped, once
  miniature  rows x seeds: each pair gives a small result file, by which
             findings of papers are judged
  sweep      a grid of training settings: runs are ranked, the best are scored
  atlas      rows x limits: the maps that models imply, in one table

Read `rows` first, which says what a row is, and then `study`, which has the
stages of one row. `jobs` runs rows in processes, and `worker` is what such a
process runs; `grid` lists and ranks the runs of a sweep; `baselines` adds the
rows to compare with: uniform, oracle, Bayes.
"""
