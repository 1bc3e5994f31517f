"""Forces on planets, asked of language models (Vafa et al. 2025, section 4).

systems    planets, their forces, and which of them are told
prompts    the question in words, as published and corrected
reading    replies as numbers, without executing anything
baselines  who could answer: a constant, interpolation, Newton's law
scoring    errors and correlations of answers, of models and baselines alike
laws       which law the answers follow
picture    a grid of said and true forces
recorded   the published answers of three models, scored again
tasks      `wm/forces`
"""
