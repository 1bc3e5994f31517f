"""Options of the extraction of the automaton that a model implies."""

from __future__ import annotations

import dataclasses

from wm.options import check, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class Extraction:
  """How the automaton of a model's accepted tokens is learned."""

  depth: int = option(
    0,
    'Longest word, in tokens; 0 is the longest sequence that world and model '
    'have. What is accepted after so many tokens is not asked.',
    flag='longest_word',
    least=0,
  )
  most: int = option(
    200, 'Most states of the automaton.', flag='most_states', least=1
  )
  queries: int = option(
    10_000, 'Most words that the model reads.', least=100, most=10_000_000
  )
  walks: int = option(
    500,
    'Random walks of the world, and as many of the model, that test each '
    'hypothesis, and fresh ones that bound how often the last one is wrong.',
    least=1,
  )
  tails: int = option(
    0,
    'Merge words after which the same words of up to so many tokens are '
    'accepted, instead of learning which suffixes tell them apart; 0 learns.',
    least=0,
    most=100,
  )

  def __post_init__(self) -> None:
    check(self)
