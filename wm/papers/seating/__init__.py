"""The seating puzzle put to language models (Vafa et al. 2024, section 4.2).

questions  what is asked, listed beforehand
reading    verdicts and seats in free text
scoring    accuracy, compression and distinction of what was answered
figures    the paper's figure 4 with a row for each model, and contradictions
tasks      `wm/seating`
"""
