"""Building blocks of metrics: trials, sessions, statistics, scoring."""
