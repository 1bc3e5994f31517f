"""CogEval's graphs, their changes, and questions about them."""
