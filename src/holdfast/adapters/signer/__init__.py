"""Signers with an operator's key: a key file, an ssh-agent, a security key, or memory."""
