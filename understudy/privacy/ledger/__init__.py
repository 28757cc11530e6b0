"""What was done, on disk: the ledger, its journal, and the owner's account book."""
