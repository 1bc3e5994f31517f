"""Map reconstruction and drawing (Vafa et al. 2024, section 4 and app. E)."""
