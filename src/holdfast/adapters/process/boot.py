"""The boot that this machine runs since."""


def boot_id() -> str:
    """The kernel's id of the current boot; "" if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(36)
    except OSError:
        return ""
