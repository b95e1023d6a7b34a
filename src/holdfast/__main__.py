"""holdfast VERB …: the entry point. Parses nothing itself; answers --version before anything is loaded."""

import sys


def main() -> int:
    argv = sys.argv[1:]
    own = argv[: argv.index("--")] if "--" in argv else argv  # `lab exec w1 -- podman --version` asks podman
    if "--version" in own:
        from holdfast import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    import gc

    gc.disable()  # a command allocates much, frees little and ends (ADR 0003); a hub turns it on again
    from holdfast.wiring.cli import command_line

    return command_line(argv)


if __name__ == "__main__":
    sys.exit(main())
