"""What metrics are built from: trials, sessions, statistics, scoring."""
