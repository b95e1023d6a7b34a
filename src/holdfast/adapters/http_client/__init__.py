"""What the signed HTTP clients share: request signatures, a bounded aiohttp session, the address of a hub."""
