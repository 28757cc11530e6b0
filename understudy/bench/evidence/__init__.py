"""Evidence: sealed files, their index, and questions to them."""
