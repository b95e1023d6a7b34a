"""The rules of trust: principals, permissions, signatures. Denied by default."""
