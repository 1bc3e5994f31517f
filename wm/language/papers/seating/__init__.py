"""The seating puzzle put to language models (Vafa et al. 2024, section 4.2).

  prompts    the words of the paper's questions
  score      options, questions, readers of replies, and the bars of figure 4
  task       the task `wm/seating` of Inspect
  report     its page

The puzzle itself is `wm.worlds.seating`; read `score` first.
"""
