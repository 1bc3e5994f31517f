"""Language models: worlds in words, the bridge to Inspect, papers' tasks."""
