"""Where the newest head is remembered a second time: a small file beside the ledger, or memory."""
