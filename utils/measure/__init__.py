"""What attention costs: operations, bytes, seconds, and the results of ``make bench``."""
