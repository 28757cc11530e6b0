"""Tables and pages made from evidence and published figures."""
