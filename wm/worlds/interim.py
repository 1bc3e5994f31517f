"""Path kernels in NumPy and SciPy, until the compiled ones are there."""

import numpy as np

from wm import core


def hops(delta):
  import scipy.sparse as sp
  from scipy.sparse import csgraph

  u, a = np.nonzero(delta >= 0)
  graph = sp.csr_matrix((np.ones(len(u)), (u, delta[u, a])), (len(delta),) * 2)
  dist = csgraph.shortest_path(graph, unweighted=True, method='D')
  np.fill_diagonal(dist, 0)
  return np.minimum(dist, 255).astype(np.uint8)


def random_walks(delta, num, low, high, seed, first=0):
  n = np.arange(first, first + num)
  rows = (core.hash64(seed, n, 1) % np.uint64(len(delta))).astype(np.int64)
  lengths = core.hash64(seed, n, 2) % np.uint64(high - low + 1) + np.uint64(low)
  lengths = lengths.astype(np.int32)
  origins = rows.astype(np.int32)
  labels = np.full((num, high), -1, np.int8)
  degree = (delta >= 0).sum(1)
  order = np.argsort(delta < 0, axis=1, kind='stable')
  for k in range(high):
    alive = (k < lengths) & (degree[rows] > 0)
    lengths = np.where((k < lengths) & ~alive, k, lengths)
    d = np.maximum(degree[rows], 1)
    draw = (core.hash64(seed, n, 3 + k) % d.astype(np.uint64)).astype(int)
    label = order[rows, draw]
    labels[alive, k] = label[alive]
    rows = np.where(alive, delta[rows, label], rows)
  return origins, labels, lengths.astype(np.int32)


def to_goals(delta, lengths, goals):
  import scipy.sparse as sp
  from scipy.sparse import csgraph

  u, a = np.nonzero(delta >= 0)
  v = delta[u, a]
  size = len(delta)
  w = np.full((size, size), np.inf)
  np.minimum.at(w, (v, u), np.maximum(lengths[u, a], 1e-9))
  dist = csgraph.dijkstra(
    sp.csr_matrix(np.where(np.isfinite(w), w, 0)), indices=goals
  )
  step = np.where(delta >= 0, lengths, np.inf)
  best = np.full((len(goals), size), -1, np.int8)
  for g in range(len(goals)):
    through = step + np.where(delta >= 0, dist[g][delta], np.inf)
    label = through.argmin(1)
    ok = np.isfinite(dist[g])
    best[g, ok] = label[ok]
    best[g, goals[g]] = -1
  return dist, best


def follow(delta, table, origins, index, goals, most):
  rows = np.array(origins)
  labels = np.full((len(rows), most), -1, np.int8)
  moves = np.zeros(len(rows), np.int32)
  ends = goals[index]
  dead = (table[index, rows] < 0) & (rows != ends)
  for k in range(most):
    go = (rows != ends) & ~dead
    label = table[index, rows]
    labels[go, k] = label[go]
    moves += go
    rows = np.where(go, delta[rows, label], rows)
  moves = np.where(rows != ends, most + 1, moves)
  return labels, np.where(dead, -1, moves).astype(np.int32)
