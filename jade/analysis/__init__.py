"""What many runs amount to: one table, statistics over repetitions, and a page to look at."""
