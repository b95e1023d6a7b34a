"""Nothing is destroyed without an operator's order in hand: by signature, not by convention (style §6, H-30, I-02)."""

import ast
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "holdfast"
PROOF = "VerifiedOrder"
# The others name one thing each, and only the gate makes them (gate/copies.py): a checkpoint that may be deleted, one
# that may replace data, purged data that may be deleted.
PROOFS = {PROOF, "Discardable", "Restorable", "Disposable"}

# Words that end something for good. A method of a port named so asks for the proof.
ENDING = ("destroy", "purge", "wipe", "erase", "overwrite", "decommission", "restore_over")

# What a program can lose content with. Where it stands, the function has a proof among its parameters or is below.
LOSING = {"rmtree", "removedirs", "truncate", "ftruncate"}
UNLINKING = {"unlink", "remove", "rmdir"}

OWN = {
    "remove_empty",  # the kernel refuses a directory that is not empty
    "drop_copied",  # inside the copy that is being made
    "resize_copy",  # one file inside the copy that is being made
    "drop_stamps",  # the list of what a copy has: without it every file is compared
    "_drop_probe",  # a file of a few bytes that shows what the file system can
    "drop_unpacked",  # below .filling, where nothing but copies of images lies
    "drop_half",  # never was a checkpoint, or is none any more by a proof: only names that begin with ".half-"
}

# In storage, giving something another name may be the first half of losing it.
RENAMING = {
    "set_aside": "it is all there, under another name",
    "_move_up": "inside a tree that is being taken away",
    "continue_half": "what was copied for a checkpoint that was not made becomes the beginning of the next",
    "complete": "a finished copy gets its name",
    "name_copy": "a written passport gets its name",
    "put_in_place": "the kernel replaces an empty directory only",
}

# Losing something without an order, and why nobody misses it.
HARMLESS = {
    ("adapters/audit_log/file.py", "_mended"): "the half of a line that a crash left",
    ("adapters/audit_log/file.py", "_write"): "the half of a line that a full disk left",
    ("adapters/name_server/dnsmasq/daemon.py", "shorten_log"): "the log of our own DNS server",
    ("adapters/process/kept.py", "start"): "the log of a process that we started",
    ("adapters/proxy/envoy/files.py", "remove"): "the proxy's configuration, all of it made from the signed manifest",
    ("adapters/proxy/envoy/supervisor.py", "_shift"): "the log of our own proxy, kept three times",
}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def asks_for_proof(
    function: ast.FunctionDef | ast.AsyncFunctionDef, proofs: AbstractSet[str] = frozenset({PROOF})
) -> bool:
    taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(
        isinstance(word, ast.Name) and word.id in proofs
        for argument in taken
        if argument.annotation is not None
        for word in [argument.annotation]  # `VerifiedOrder | None` would be no proof
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


def test_every_port_that_can_destroy_asks_for_an_order() -> None:
    found = {path.name: unproven(path.read_text()) for path in sorted((SRC / "ports").glob("*.py"))}
    assert {name: names for name, names in found.items() if names} == {}
    storage = ast.parse((SRC / "ports" / "storage.py").read_text())
    assert "destroy" in [f.name for f in functions(storage) if asks_for_proof(f)]


def test_every_adapter_that_can_destroy_asks_for_an_order() -> None:
    found = {
        str(path.relative_to(SRC)): unproven(path.read_text()) for path in sorted((SRC / "adapters").rglob("*.py"))
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_no_adapter_loses_a_tree_without_an_order() -> None:
    found = {
        (str(path.relative_to(SRC)), name)
        for path in sorted((SRC / "adapters").rglob("*.py"))
        for name in losing(path.read_text())
    }
    assert found - set(HARMLESS) == set()
    assert set(HARMLESS) - found == set(), "an exception that is no longer needed"


def bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not asks_for_proof(function, PROOFS)


def unguarded(sources: list[str]) -> list[str]:
    """Methods by which the outside reaches a removal with no order in hand, however many functions lie between."""
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


def test_in_storage_every_removal_has_an_order_or_removes_what_is_empty() -> None:
    """Where data lives, taking away even one file counts; and nobody else borrows what takes a tree away."""
    package = sorted((SRC / "adapters" / "storage").glob("*.py"))
    assert unguarded([path.read_text() for path in package]) == []
    borrowed = [
        str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        if path not in package and "holdfast.adapters.storage" in path.read_text()
    ]
    assert [name for name in borrowed if not name.startswith("wiring")] == []


def test_what_takes_files_from_a_copy_is_reached_only_by_the_code_that_makes_copies() -> None:
    """`copying.update` gets two handles; `checkpoints._pass` opens the second by a name that begins with .half-"""
    callers = {
        name: sorted(
            path.name
            for path in (SRC / "adapters" / "storage").glob("*.py")
            if any(
                _called(node) == name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            )
        )
        for name in ("drop_copied", "resize_copy", "_pass")
    }
    assert callers == {
        "drop_copied": ["copying.py"], "resize_copy": ["blocks.py", "copying.py"], "_pass": ["checkpoints.py"]
    }  # fmt: skip
    filling = (SRC / "adapters" / "storage" / "filling.py").read_text()
    dropping = filling.partition("def drop_unpacked(")[2].partition("\ndef ")[0]
    assert "tree.opened(PLACE, root)" in dropping and 'PLACE = ".filling"' in filling
    source = (SRC / "adapters" / "storage" / "checkpoints.py").read_text()
    assert source.count("copying.update(") == 1 and "tree.opened(_half(id), shelf)" in source


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


def test_a_proof_about_a_checkpoint_is_none_for_data() -> None:
    """It counts where something is taken away, and not for what is called destroying: that asks for an order."""
    source = "def destroy(self, name: str, proof: Discardable) -> None:\n    shutil.rmtree(name)"
    assert unproven(source) == ["destroy"] and losing(source) == ["destroy"]
    methods = functions(ast.parse((SRC / "ports" / "storage.py").read_text()))
    assert [f.name for f in methods if asks_for_proof(f, {"Discardable"})] == ["discard"]


def test_only_the_gate_makes_the_proofs_about_copies() -> None:
    makers = {
        (str(path.relative_to(SRC)), _called(node))
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _called(node) in PROOFS - {PROOF}
    }
    assert makers == {("gate/copies.py", name) for name in PROOFS - {PROOF}}


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
        "def destroy(self, name: str, proof: VerifiedOrder | None = None) -> None: ...",
        "async def purge_all(self, proof: str) -> None: ...",
    ],
)
def test_the_rule_about_names_bites(source: str) -> None:
    assert unproven(source) != []


def test_the_rule_about_trees_bites() -> None:
    assert losing("def tidy(path):\n    shutil.rmtree(path)") == ["tidy"]
    assert losing("def tidy(path, proof: VerifiedOrder):\n    shutil.rmtree(path)") == []


def test_the_rule_about_detours_bites() -> None:
    tree = "def sweep(h):\n    os.unlink(h)\n\ndef empty_out(h):\n    sweep(h)\n"
    weak = "class Storage:\n    def tidy(self, name):\n        tree.empty_out(name)\n"
    sound = "class Storage:\n    def destroy(self, name, proof: VerifiedOrder):\n        tree.empty_out(name)\n"
    assert unguarded([tree, weak]) == ["tidy"] and unguarded([tree, sound]) == []
