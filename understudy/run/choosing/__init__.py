"""Which method, which settings, how long: decided from declared facts, before anything is spent."""
