"""Synthetic stand-ins for sensitive image datasets, with privacy claims that are true."""
