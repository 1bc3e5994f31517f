"""Studies: one resumable call trains and measures many models.

The input is rows such as 'walks: MODEL on WORLD with steps=500'; the output is
run folders and a report. Three calls each build a list of `runs.Run`s:

  study      rows x seeds x settings, and a report of all
  sweep      a grid of training settings: ranks the runs and scores the best
  miniature  rows x seeds: each pair writes a small result file, the evidence
             on which findings of papers are judged

Read `rows` first (a row), then `grid` (the settings that vary), then `runs`
(the stages of one run, and processes that execute runs). `baselines` adds rows
for comparison: uniform, oracle, Bayes.
"""
