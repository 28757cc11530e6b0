"""Releases: bundle, card, claim, gate, verification."""
