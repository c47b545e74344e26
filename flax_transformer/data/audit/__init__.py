"""What is wrong with a corpus, before the first step: `checking.audit` reports it, `cleaning.clean` leaves it out."""
