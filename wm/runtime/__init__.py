"""Files, locks, signals, progress and origins: how programs run here."""
