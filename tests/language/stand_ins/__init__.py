"""Parsers that stand in for a language model: they answer from a prompt alone.

They share nothing with the code that writes prompts, so an answer that is right
shows that the prompt says all that it must.

base       what a text says of a world; the parts of a question about one
asked      a prompt, and how much is known by who is asked
worlds     worlds told in words: maps, mazes, graphs, trips, boards, puzzles,
           and walks in place of rules
mango      walkthroughs of text games, and MANGO's questions; minigames
cogeval    CogEval's graphs in words; planners answer by them
forces     planets and the force on them
"""
