"""The door to private records: plans, the ledger, mechanisms, and what they cost."""
