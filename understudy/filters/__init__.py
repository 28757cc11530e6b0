"""Latent filters: what a user's device does to a record's code before it leaves."""
