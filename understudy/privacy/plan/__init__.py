"""What a run may do to private records, and what it may cost."""
