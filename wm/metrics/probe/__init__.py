"""Current-state probe: the metric and its linear classifiers."""

from wm.metrics.probe.metric import Metric

__all__ = ['Metric']
