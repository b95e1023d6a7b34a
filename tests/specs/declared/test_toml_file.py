"""Bytes → TOML: strict, bounded, every refusal with its line (C-13, S11)."""

import pytest

from holdfast.declared.toml_file import NotToml, parse, text
from tests.specs.declared.declared_fleets import BASE, WEB, fleet_of, only_problem, with_service


def refusal_of(content: bytes) -> tuple[int, str]:
    with pytest.raises(NotToml) as caught:
        parse(content)
    assert caught.value.remedy
    return caught.value.line, caught.value.message


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"\xef\xbb\xbfa = 1", 1, "begins with a byte order mark"),
        (b"\xff\xfea\0", 1, "begins with a byte order mark"),
        (b"a = 1\nb = '\0'\n", 2, "holds a NUL byte"),
        (b"a = 1\nb = '\xff'\n", 2, "is not UTF-8 at column 6"),
        (b"a = 1\n\xc0\xae = 1\n", 2, "is not UTF-8 at column 1"),
        (b"a = 1\na = 2\n", 2, "is not TOML: cannot overwrite a value (column 6)"),
        (b"[a]\nb = 1\n[a]\n", 3, "is not TOML: cannot declare ('a',) twice (column 3)"),
        (b"[[a]]\n[a]\n", 2, "is not TOML: cannot declare ('a',) twice (column 3)"),
        (b"a = 1\nb = [\n", 3, "is not TOML: invalid value (column 1)"),
        (b"x = 2020-02-31\n", 1, "is not TOML: invalid date or datetime (column 5)"),
        (b"a = 1\nb = " + b"9" * 5000, 2, "holds a number with thousands of digits"),
        (b"\na = " + b"[" * 100_000, 2, "a line of 100,004 bytes; the limit is 16,384 bytes"),
        (b"\na = " + b"[" * 1_000, 2, "tables or lists are nested more than 32 deep"),
        (b"\n\na = " + b"[" * 33 + b"]" * 33, 3, "tables or lists are nested more than 32 deep"),
        (b"a = " + b"{a = " * 100 + b"1" + b"}" * 100, 1, "tables or lists are nested more than 32 deep"),
        (b"a" + b".a" * 8_000 + b" = 1", 1, "tables or lists are nested more than 32 deep"),
        (b"a" + b".a" * 40 + b" = 1", 1, "tables or lists are nested more than 32 deep"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(content: bytes, line: int, what: str) -> None:
    assert refusal_of(content) == (line, what)


def test_thirty_two_levels_are_enough_for_anybody() -> None:
    assert parse(b"a = " + b"[" * 32 + b"]" * 32)
    assert parse(b"# one more dot . and bracket [\na = " + b"[" * 32 + b"]" * 32)  # so that the depth is measured


def test_windows_line_ends_are_fine() -> None:
    assert fleet_of({**BASE, "services/web.toml": WEB.replace("\n", "\r\n").encode()}) == fleet_of(BASE)


def test_text_is_what_people_typed() -> None:
    assert text("é\n".encode()) == "é\n"


def test_a_syntax_error_is_reported_for_its_file_and_the_others_are_still_read() -> None:
    found = only_problem(with_service('tier = "worker"\nnode = \n'))
    assert found[:4] == ("services/web.toml", 2, "", "is not TOML: invalid value (column 8)")


@pytest.mark.parametrize("escape", ["\\u0000", "\\U00000000", "\\x00"])
def test_an_escaped_nul_is_refused_in_a_file_without_other_mistakes(escape: str) -> None:
    found = only_problem(with_service(WEB + f'cmd = ["sh", "a{escape}b"]\n'))
    assert found[1:4] == (4, "components[0].cmd[1]", "holds a NUL character")


def test_a_backslash_that_is_no_nul_is_fine() -> None:
    service = fleet_of(with_service(WEB + "cmd = ['\\u0000', \"a\\nb\"]\n")).services["web"]
    assert service.components[0].cmd == ("\\u0000", "a\nb")
