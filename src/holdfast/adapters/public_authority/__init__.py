"""Public authorities that sign certificates for names they have seen us answer for: ACME, and one in memory."""
