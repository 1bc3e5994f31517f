"""CogEval: cognitive maps in words (Momennejad et al. 2023)."""
