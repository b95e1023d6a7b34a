"""holdfast VERB …: the entry point. Parses nothing itself; answers --version before anything is loaded."""

import os
import sys
from contextlib import suppress


def main() -> int:
    argv = sys.argv[1:]
    _open_streams()
    own = argv[: argv.index("--")] if "--" in argv else argv  # `lab exec w1 -- podman --version` asks podman
    if "--version" in own:
        from holdfast import __version__

        try:
            sys.stdout.write(f"holdfast {__version__}\n")
            sys.stdout.flush()
            return 0
        except OSError:
            argv = ["version"]  # reports what is wrong with the output
    import gc

    gc.disable()  # a command allocates much, frees little and ends (ADR 0003); a hub turns it on again
    from holdfast.wiring.cli import command_line

    code = command_line(argv)
    if "obstore" in sys.modules:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """Without the end of the interpreter, during which threads of that library abort the process now and then. What
    was written is flushed by the command line."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _open_streams() -> None:
    """Open /dev/null for each standard stream that the caller closed: else a ledger would get its number.

    Writing to such an output fails, as the output of a command that is lost must."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))


if __name__ == "__main__":
    sys.exit(main())
