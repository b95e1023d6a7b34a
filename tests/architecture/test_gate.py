"""Nothing is destroyed without a proof of the gate in hand: by signature, not by convention (style §6, H-30, I-02)."""

import ast
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "holdfast"
# Each names one thing, and only the gate makes them (gate/copies.py): a checkpoint that may be deleted, one that may
# replace data, a copy from elsewhere that may become data, data that a purge may set aside, what a purge set aside and
# may be deleted, or be put back; an object of a backup that may be deleted.
PROOFS = {
    *("Discardable", "Receivable", "Restorable", "Placeable", "Purgeable", "Disposable", "Returnable", "Prunable"),
    "Clearable",
}

# Which proof each verb of storage takes. A proof about a checkpoint is none for data, and one to set data aside is none
# to delete it.
VERBS = {
    "discard": "Discardable",
    "receive": "Receivable",
    "make_received": "Receivable",
    "received": "Receivable",
    "resume": "Receivable",
    "take_in": "Placeable",
    "drop_received": "Receivable",
    "stage": "Restorable",
    "exchange": "Restorable",
    "unstage": "Restorable",
    "condemn": "Purgeable",
    "dispose": "Disposable",
    "bring_back": "Returnable",
}

# Words that end something for good. A method named so asks for a proof.
ENDING = (
    "destroy", "purge", "wipe", "erase", "overwrite", "decommission", "restore_over", "condemn", "dispose", "discard",
)  # fmt: skip

# What a program can lose content with. Where it stands, the function has a proof among its parameters or is below.
LOSING = {"rmtree", "removedirs", "truncate", "ftruncate"}
UNLINKING = {"unlink", "remove", "rmdir"}

# Removals without a proof, and why none is needed: no byte that a service wrote is lost with them. The tests below show
# that they are reached by the code that makes copies only.
OWN = {
    "remove_empty": "the kernel refuses a directory that is not empty",
    "drop_copied": "a file of the copy that is being made, which the data does not have any more",
    "resize_copy": "a file of the copy that is being made gets the size that it has in the data",
    "drop_stamps": "a list of what a copy has already: without it every file is compared again",
    "_drop_probe": "two files of 64 KiB zeros that this module made a moment ago, to see what the file system can",
    "drop_unpacked": "below .filling, where only copies of images are",
    "drop_sent": "below the agent's own directory of moves: sealed copies of what the source keeps",
    "drop_half": "the name begins with .half-: it never was a checkpoint, or is none any more by a proof",
}
# Callers of those whose argument says nothing about what it is.
REACHED = {
    "drop_copied": ["copying.py"],
    "resize_copy": ["blocks.py", "copying.py"],
    "drop_stamps": ["checkpoints.py"],
    "_drop_probe": ["blocks.py"],
    "drop_half": ["checkpoints.py"],
    "drop_unpacked": ["filling.py"],
    "_pass": ["checkpoints.py"],
    "clone": ["blocks.py", "copying.py"],
}

# In storage, giving something another name may be the first half of losing it.
RENAMING = {
    "set_aside": "it is all there, under another name",
    "_move_up": "inside a tree that is being taken away",
    "continue_half": "what was copied for a checkpoint that was not made becomes the beginning of the next",
    "complete": "a finished copy gets its name",
    "name_copy": "a written passport gets its name",
    "name_list": "a written list of what copies hold gets its name",
    "put_in_place": "the kernel replaces an empty directory only",
}

# Losing something without an order, and why nobody misses it.
HARMLESS = {
    ("adapters/archive/target.py", "file"): "a file that it made a moment ago, in a directory that was empty",
    ("adapters/archive/renewing.py", "file"): "a copy that it made itself, in a directory that no service has",
    ("adapters/archive/renewing.py", "begin_long"): "a copy that it made itself, in a directory that no service has",
    ("adapters/archive/target.py", "long_file"): "a file that it made a moment ago, in a directory that was empty",
    ("adapters/audit_log/file.py", "_mended"): "the half of a line that a crash left",
    ("adapters/audit_log/file.py", "_write"): "the half of a line that a full disk left",
    ("adapters/hub_copy/http.py", "clear"): "a copy of the file of the hub, made for one backup",
    ("adapters/hub_files/staging.py", "clear"): "a hidden directory that this process or a killed one made",
    ("adapters/hub_files/tar.py", "_whole_lines"): "the half of a line in a copy",
    ("adapters/name_server/dnsmasq/daemon.py", "shorten_log"): "the log of our own DNS server",
    ("adapters/own_files/directory.py", "clear"): "copies of our own files, made for one backup",
    ("adapters/process/kept.py", "start"): "the log of a process that we started",
    ("adapters/proxy/envoy/files.py", "remove"): "the proxy's configuration, all of it made from the signed manifest",
    ("adapters/proxy/envoy/supervisor.py", "_shift"): "the log of our own proxy, kept three times",
}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def asks_for_proof(
    function: ast.FunctionDef | ast.AsyncFunctionDef, proofs: AbstractSet[str] = frozenset(PROOFS)
) -> bool:
    taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(
        isinstance(word, ast.Name) and word.id in proofs
        for argument in taken
        if argument.annotation is not None
        for word in [argument.annotation]  # `Disposable | None` would be no proof
    )


def unproven(source: str) -> list[str]:
    return [
        function.name
        for function in functions(ast.parse(source))
        if any(word in function.name.lower() for word in ENDING) and not asks_for_proof(function)
    ]


def losing(source: str) -> list[str]:
    """Functions that can lose a whole tree and neither have a proof nor are known to lose nothing."""
    found = []
    for function in functions(ast.parse(source)):
        calls = {_called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
        if calls & LOSING and not asks_for_proof(function) and function.name not in OWN:
            found.append(function.name)
    return found


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_every_port_that_can_destroy_asks_for_a_proof() -> None:
    found = {path.name: unproven(path.read_text()) for path in sorted((SRC / "ports").glob("*.py"))}
    assert {name: names for name, names in found.items() if names} == {}
    storage = functions(ast.parse((SRC / "ports" / "storage.py").read_text()))
    taken = {f.name: {proof for proof in PROOFS if asks_for_proof(f, {proof})} for f in storage if asks_for_proof(f)}
    assert taken == {verb: {proof} for verb, proof in VERBS.items()}


def test_every_adapter_that_can_destroy_asks_for_a_proof() -> None:
    found = {
        str(path.relative_to(SRC)): unproven(path.read_text()) for path in sorted((SRC / "adapters").rglob("*.py"))
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_no_adapter_loses_a_tree_without_a_proof() -> None:
    found = {
        (str(path.relative_to(SRC)), name)
        for path in sorted((SRC / "adapters").rglob("*.py"))
        for name in losing(path.read_text())
    }
    assert found - set(HARMLESS) == set()
    assert set(HARMLESS) - found == set(), "an exception that is no longer needed"


def bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not asks_for_proof(function)


def unguarded(sources: list[str]) -> list[str]:
    """Methods by which the outside reaches a removal with no proof in hand, however many functions lie between."""
    known = [function for source in sources for function in functions(ast.parse(source))]
    calls = {f: {_called(node) for node in ast.walk(f) if isinstance(node, ast.Call)} for f in known}
    dangerous: set[str] = LOSING | UNLINKING
    while True:
        more = {f.name for f in known if calls[f] & dangerous and bare(f) and f.name not in OWN} - dangerous
        if not more:
            break
        dangerous |= more
    methods = {
        f
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for f in (g.name for g in node.body if isinstance(g, ast.FunctionDef | ast.AsyncFunctionDef) and bare(g))
    }
    return sorted(methods & dangerous)


def test_in_storage_every_removal_has_a_proof_or_removes_what_is_empty() -> None:
    """Where data lives, taking away even one file counts; and no other room borrows what takes a tree away."""
    package = sorted((SRC / "adapters" / "storage").glob("*.py"))
    assert unguarded([path.read_text() for path in package]) == []
    borrowed = [
        str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        if path not in package and "holdfast.adapters.storage" in path.read_text()
    ]
    assert [name for name in borrowed if not name.startswith("wiring")] == []


def test_what_takes_files_from_a_copy_is_reached_only_by_the_code_that_makes_copies() -> None:
    """`copying.update` and `copying.copy` get two handles; the second is opened by a name that begins with .half"""
    assert OWN.keys() - REACHED.keys() == {"remove_empty", "drop_sent"}
    callers = {
        name: sorted(
            path.name
            for path in (SRC / "adapters" / "storage").glob("*.py")
            if any(
                _called(node) == name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            )
        )
        for name in REACHED
    }
    assert callers == REACHED
    package = {path.name: path.read_text() for path in (SRC / "adapters" / "storage").glob("*.py")}
    assert [name for name, text in package.items() if "copying.update(" in text] == ["checkpoints.py"]
    assert [name for name, text in package.items() if "copying.copy(" in text] == ["restoring.py"]
    assert package["checkpoints.py"].count("copying.update(") == package["restoring.py"].count("copying.copy(") == 1
    assert "tree.opened(_half(id), shelf)" in package["checkpoints.py"]
    assert "tree.opened(half, root)" in package["restoring.py"]
    assert 'half = _staged(proof), ".half"' in package["restoring.py"]
    dropping = package["filling.py"].partition("def drop_unpacked(")[2].partition("\ndef ")[0]
    assert "tree.opened(PLACE, home)" in dropping and 'PLACE = ".filling"' in package["filling.py"]


def renaming(source: str) -> list[str]:
    return [
        function.name
        for function in functions(ast.parse(source))
        if "rename" in {_called(node) for node in ast.walk(function) if isinstance(node, ast.Call)} and bare(function)
    ]


def test_in_storage_nothing_gets_a_name_that_is_swept_away_without_a_proof() -> None:
    package = sorted((SRC / "adapters" / "storage").glob("*.py"))
    assert sorted(name for path in package for name in renaming(path.read_text())) == sorted(RENAMING)


def test_the_rule_about_names_given_bites() -> None:
    weak = "def tidy(shelf, id):\n    os.rename(id, half(id))\n    drop_half(shelf, id)\n"
    assert renaming(weak) == ["tidy"] and renaming(weak.replace("id):", "proof: Discardable):")) == []


def test_only_the_gate_makes_the_proofs_about_copies() -> None:
    makers = {
        (str(path.relative_to(SRC)), _called(node))
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _called(node) in PROOFS
    }
    assert makers == {("gate/copies.py", name) for name in PROOFS}


def test_only_the_gate_knows_marks_that_make_destroying_harmless_i_04() -> None:
    """`OWN_TRANSACTION` and `OWN_SCRATCH` are found by gate/facts.py from the journal; nobody else can claim them."""
    claimed = [
        str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"OWN_TRANSACTION", "OWN_SCRATCH"}
    ]
    assert set(claimed) == {"gate/facts.py", "gate/table.py"}


@pytest.mark.parametrize(
    "source",
    [
        "def destroy(self, name: str) -> None: ...",
        "def destroy(self, name: str, proof: Disposable | None = None) -> None: ...",
        "def destroy(self, name: str, proof: VerifiedOrder) -> None: ...",  # an order is not a decision
        "async def purge_all(self, proof: str) -> None: ...",
    ],
)
def test_the_rule_about_names_bites(source: str) -> None:
    assert unproven(source) != []


def test_the_rule_about_trees_bites() -> None:
    assert losing("def tidy(path):\n    shutil.rmtree(path)") == ["tidy"]
    assert losing("def tidy(path, proof: Disposable):\n    shutil.rmtree(path)") == []


def test_the_rule_about_detours_bites() -> None:
    tree = "def sweep(h):\n    os.unlink(h)\n\ndef empty_out(h):\n    sweep(h)\n"
    weak = "class Storage:\n    def tidy(self, name):\n        tree.empty_out(name)\n"
    sound = "class Storage:\n    def destroy(self, name, proof: Disposable):\n        tree.empty_out(name)\n"
    assert unguarded([tree, weak]) == ["tidy"] and unguarded([tree, sound]) == []
