"""Everything that can hold an operator's key: a file, an agent, a security key, memory."""
