"""Feature extractors by name; a fidelity metric carries the name of the one it used."""
