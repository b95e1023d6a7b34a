"""Where things lie in the ledger store. One list, so that no two rooms disagree."""

PIN = "meta/pin"
HEAD = "head"
REVISIONS = "revision/"
RECOVERIES = "recovery/"
OBSERVATIONS = "observation/"

FORMAT = 1


def revision(number: int) -> str:
    return f"{REVISIONS}{number:012d}"


def recovery(name: str) -> str:
    return RECOVERIES + name


def observation(node: str) -> str:
    return OBSERVATIONS + node
