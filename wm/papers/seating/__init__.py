"""The seating puzzle put to language models (Vafa et al. 2024, section 4.2)."""
