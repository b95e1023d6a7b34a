"""A second record of the ledger's newest head, to detect a rolled-back ledger: a file, or memory."""
