"""Working a suite off: phases, workers, executors."""
