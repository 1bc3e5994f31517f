"""The words of each domain: what nodes, ways and rewards are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Domain:
  """Phrases; {a} and {b} are nodes in words, {n} is a number.

  Attributes:
    opening: sentence that names the place; {size} nodes.
    node: a node in words, of its {name}.
    entrances: names that are said as 'the NAME' in place of that.
    kind, kinds: one node, and several, without a name.
    joined: a way both ways, from {a} to a list {b}.
    groups: of a list {a}, all of which are joined.
    leads: a one-way step from {a} to a list {b}; `door` is as original.
    choices: one-way steps from the start {a} to a list {b}.
    enter: being at {a} at the beginning of a chain.
    back: that one is at {a} again.
    branches: ways from {a} to {b} on the left and {c} on the right; `forks`
      is as original.
    both: that all ways can be taken back.
    closed: a way between {a} and {b} is no more.
    closed_one_way: a way from {a} to {b} is no more.
    portal: one-way steps from {a} to {b}.
    reward: {n} are at {a}.
    changed: {n} are at {a} now.
    free: that nothing is taken while one learns.
    items: what a path lists.
  """

  opening: str
  node: str
  entrances: tuple[str, ...]
  kind: str
  kinds: str
  reward: str
  changed: str
  free: str
  items: str
  joined: str = '{a} is connected to {b}.'
  groups: str = '{a} are all connected to each other.'
  leads: str = '{a} leads to {b}.'
  door: str = 'At the end of {a} there is a door to {b}.'
  choices: str = 'From {a} you have two choices: {b}.'
  enter: str = 'You enter {a}.'
  back: str = 'Then you go back to {a} and start over.'
  branches: str = (
    'From {a}, a passage on the left leads to {b}, and a passage on the right '
    'leads to {c}.'
  )
  forks: str = (
    'You see two passages from {a}: the one on the right leads to {c}, and the '
    'one on the left leads to {b}.'
  )
  both: str = 'You can go back through every passage.'
  closed: str = 'The way between {a} and {b} is blocked.'
  closed_one_way: str = 'The way from {a} to {b} is blocked.'
  portal: str = (
    'There is a portal in {a}, which leads one way, from {a} to {b}, one at a '
    'time.'
  )

  def say(self, name: str) -> str:
    """A node in words."""
    if name in self.entrances:
      return f'the {name}'
    return self.node.format(name=name)


DOMAINS: Mapping[str, Domain] = {
  'ordRooms': Domain(
    opening='Imagine a building with {size} rooms.',
    node='room {name}',
    entrances=('lobby',),
    kind='room',
    kinds='rooms',
    reward='There is a chest with {n} dollars in {a}.',
    changed='Now there is a chest with {n} dollars in {a}.',
    free='You do not take any money while you learn about the building.',
    items='room numbers',
    closed='The door between {a} and {b} is locked.',
    closed_one_way='The door from {a} to {b} is locked.',
  ),
  'unordSpatial': Domain(
    opening='Imagine a flower county with {size} flower fields.',
    node='the {name} field',
    entrances=('entrance',),
    kind='field',
    kinds='fields',
    reward='You can get {n} flowers for free in {a}.',
    changed='Now you can get {n} flowers for free in {a}.',
    free='You do not take any flowers while you learn about the county.',
    items='flower names',
    closed='The path between {a} and {b} is blocked.',
    closed_one_way='The path from {a} to {b} is blocked.',
  ),
  'socialTies': Domain(
    opening='Imagine a group of {size} scholars.',
    node='{name}',
    entrances=(),
    kind='scholar',
    kinds='scholars',
    reward='{a} is donating {n} books.',
    changed='Now {a} is donating {n} books.',
    free='You do not take any books while you learn about the group.',
    items='names',
    leads='{a} can introduce you to {b}.',
    choices='{a} can introduce you to {b}.',
    enter='You meet {a}.',
    back='Then you go back to {a} and start over.',
    door='{a} is a friend of {b}, and can introduce you to {b}.',
    branches='{a} has two people who report to them: {b} and {c}.',
    forks='Two people work for {a}: {c} and {b}.',
    both='Whoever reports to someone can also introduce you to them.',
    closed='{a} and {b} had a disagreement and are no longer connected.',
    closed_one_way='{a} can no longer introduce you to {b}.',
    portal=(
      '{a} has an instant connection portal, which leads one way, from {a} to '
      '{b}, one at a time.'
    ),
  ),
  'objects': Domain(
    opening='Imagine a museum in which {size} objects mark the places.',
    node='the {name}',
    entrances=(),
    kind='object',
    kinds='objects',
    reward='There are {n} coins at {a}.',
    changed='Now there are {n} coins at {a}.',
    free='You do not take any coins while you learn about the museum.',
    items='objects',
    door='Behind {a} there is a door to {b}.',
    enter='You go to {a}.',
    portal=(
      'There is a portal at {a}, which leads one way, from {a} to {b}, one at '
      'a time.'
    ),
  ),
  'letters': Domain(
    opening='A graph has {size} nodes.',
    node='node {name}',
    entrances=(),
    kind='node',
    kinds='nodes',
    reward='There are {n} points at {a}.',
    changed='Now there are {n} points at {a}.',
    free='You do not take any points while you learn about the graph.',
    items='nodes',
    door='An edge leads from {a} to {b}.',
    enter='You go to {a}.',
    closed='The edge between {a} and {b} is removed.',
    closed_one_way='The edge from {a} to {b} is removed.',
    portal=(
      'There is a portal at {a}, which leads one way, from {a} to {b}, one at '
      'a time.'
    ),
  ),
}


def listed(items: list[str], last: str = 'and') -> str:
  """'a', 'a and b', or 'a, b, and c'."""
  if len(items) < 3:
    return f' {last} '.join(items)
  return f'{", ".join(items[:-1])}, {last} {items[-1]}'


def sentence(text: str) -> str:
  """A text with a capital at its beginning."""
  return text[:1].upper() + text[1:]
