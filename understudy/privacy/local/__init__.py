"""Local mechanisms: every record leaves with noise of its own."""
