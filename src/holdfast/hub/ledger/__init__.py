"""Read, check and write the ledger of signed revisions."""
