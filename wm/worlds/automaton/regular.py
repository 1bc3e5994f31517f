"""Reads regular expressions through automata-lib (extra `automata`).

    1(01)*          every character that is no operator is a symbol
    <left>(<up>)*   a word in angle brackets is one symbol

The operators are | * + ? {n,m} ( ) . [a-z] [^a-z] & (intersection) and ^
(shuffle). `()` is the empty word. A backslash makes an operator a symbol.
Blanks are ignored. The alphabet is the sorted set of symbols in the expression;
`.` stands for any of them.
"""

from __future__ import annotations

import math
import re
from typing import Any

from wm import core
from wm.core import plugins
from wm.worlds.automaton import machine

# The library takes single characters, so each word becomes a private one.
FIRST, MOST_WORDS = 0xE000, 6400
OPERATORS = frozenset('*|()?&+.^{}[]')
# Symbols of an expression once its repetitions are written out, and all members
# of the sets of these that its automaton's states stand for.
MOST_SYMBOLS, MOST_MEMBERS = 10_000, 1_000_000
_PARTS = re.compile(r'\\.|\[[^\]]*\]|\{[^}]*\}|.')


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
  if (size := _written_out(short)) > MOST_SYMBOLS:
    raise core.InputError(
      f'regex={plugins.shortened(text)!r} has {size:,} symbols once its '
      f'repetitions are written out; expected at most {MOST_SYMBOLS:,}'
    )
  try:
    some = nfa.NFA.from_regex(short, input_symbols=set(plain) - OPERATORS)
    _check_subsets(text, some)
    found = dfa.DFA.from_nfa(some)
  except core.InputError:
    raise
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


def _written_out(text: str) -> int:
  """About how many symbols an expression has without repetitions.

  What is shuffled or intersected has as many as the product of its parts'.
  """
  groups: list[list[list[int]]] = [[[]]]  # In each, factors of terms.
  for part in _PARTS.findall(text):
    terms = groups[-1][-1]
    if part == '(':
      groups.append([[]])
    elif part == ')' and len(groups) > 1:
      size = _product(groups.pop())
      groups[-1][-1].append(size)
    elif part in '&^':
      groups[-1].append([])
    elif part[0] == '{' and terms:
      terms[-1] *= max([1, *map(int, re.findall('[0-9]{1,18}', part))])
    elif part not in OPERATORS:
      terms.append(1)
  return math.prod(map(_product, groups))


def _product(factors: list[list[int]]) -> int:
  return math.prod(max(sum(terms), 1) for terms in factors)


def _check_subsets(text: str, automaton: Any) -> None:
  """Raises InputError where the states of a deterministic one are too many."""
  steps, budget = automaton.transitions, MOST_MEMBERS

  def closed(states: set) -> frozenset:
    """With all that the empty word leads to."""
    left, found = [*states], set(states)
    while left:
      new = steps.get(left.pop(), {}).get('', frozenset()) - found
      found |= new
      left += new
    return frozenset(found)

  queue = [closed({automaton.initial_state})]
  seen = {*queue}
  while queue:
    states = queue.pop()
    after: dict[str, set] = {}
    for state in states:
      for symbol, heads in steps.get(state, {}).items():
        after.setdefault(symbol, set()).update(heads)
    after.pop('', None)
    new = {closed(heads) for heads in after.values()} - seen
    budget -= sum(map(len, new))
    if budget < 0:
      raise core.InputError(
        f'regex={plugins.shortened(text)!r} needs more than {len(seen):,} '
        f'states as a deterministic automaton, of {MOST_MEMBERS:,} members in '
        'all; expected an expression that remembers fewer symbols'
      )
    seen |= new
    queue += new


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
