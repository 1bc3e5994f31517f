"""Reads regular expressions through automata-lib (extra `automata`).

    1(01)*          every character that is no operator is a symbol
    <left>(<up>)*   a word in angle brackets is one symbol

The operators are | * + ? {n,m} ( ) . [a-z] [^a-z] & (intersection) and ^
(shuffle). `()` is the empty word. A backslash makes an operator a symbol.
Blanks are ignored. The alphabet is the sorted set of symbols in the expression;
`.` stands for any of them.
"""

from __future__ import annotations

import re
from typing import Any

from wm import core
from wm.worlds.automaton import machine

# The library takes single characters, so each word becomes a private one.
FIRST, MOST_WORDS = 0xE000, 6400
OPERATORS = frozenset('*|()?&+.^{}[]')


def read(text: str) -> machine.Machine:
  """The automaton of a regular expression.

  Raises:
    InputError: it is none, or the extra is missing.
  """
  try:
    from automata.base import exceptions
    from automata.fa import dfa, nfa
  except ModuleNotFoundError as error:
    raise core.InputError(
      "regular expressions need the extra 'automata': pip install -e "
      "'.[automata]'"
    ) from error
  words: dict[str, str] = {}

  def letter(match: re.Match[str]) -> str:
    return words.setdefault(match[1], chr(FIRST + len(words) % MOST_WORDS))

  short = re.sub(r'<([^<>\s]+)>', letter, text)
  short = ''.join(short.split())
  # The library itself adds the symbols of classes and after backslashes.
  plain = re.sub(r'\\.|\[[^\]]*\]|\{[^}]*\}', '', short)
  try:
    some = nfa.NFA.from_regex(short, input_symbols=set(plain) - OPERATORS)
    found = dfa.DFA.from_nfa(some)
  except (
    exceptions.AutomatonException,
    exceptions.RegexException,
    ValueError,
    IndexError,
    RecursionError,
  ) as error:
    raise core.InputError(
      f'regex={text!r} is no regular expression: '
      + ' '.join(str(error).split())
    ) from error
  return _machine(f'regex={text!r}', found, {c: w for w, c in words.items()})


def _machine(where: str, found: Any, words: dict[str, str]) -> machine.Machine:
  """The library's automaton as ours; words: character -> the word it is for."""
  number = {state: k for k, state in enumerate(sorted(found.states, key=str))}
  names = [f's{k}' for k in number.values()]
  edges = [
    (names[number[state]], words.get(symbol, symbol), names[number[after]])
    for state, row in found.transitions.items()
    for symbol, after in row.items()
  ]
  symbols = sorted(words.get(symbol, symbol) for symbol in found.input_symbols)
  start = names[number[found.initial_state]]
  accepting = [names[number[state]] for state in found.final_states]
  built = machine.build(where, names, edges, start, accepting, symbols)
  return built._replace(states=None)
