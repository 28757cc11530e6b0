"""Evaluation with real data: the owner's side."""
