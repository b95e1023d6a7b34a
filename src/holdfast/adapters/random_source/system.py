"""Random bytes from the kernel's generator; never blocks once the machine has booted."""

import os


class SystemRandom:
    def token(self, size_bytes: int) -> bytes:
        return os.urandom(size_bytes)
