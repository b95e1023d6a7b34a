"""The rules of the stored ledger: key layout, integrity, recovery, boot findings. Pure."""
