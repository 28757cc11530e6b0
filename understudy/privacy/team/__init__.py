"""Several processes that fit one run together."""
