"""Studies: many models, trained and measured by one call that can be resumed.

Rows such as 'walks: MODEL on WORLD with steps=500' come in; folders of runs and
a report go out. There are three calls, each of which lists `runs.Run`s:

  study      rows x seeds x settings, and a report of all
  sweep      a grid of training settings: runs are ranked, the best are scored
  miniature  rows x seeds: each pair gives a small result file, by which
             findings of papers are judged

Read `rows` first, which says what a row is, and `grid`, what varies; then
`runs`, which has the stages of one run and does runs in processes. `baselines`
adds the rows to compare with: uniform, oracle, Bayes.
"""
