"""Forces on planets, asked of language models (Vafa et al. 2025, section 4)."""
