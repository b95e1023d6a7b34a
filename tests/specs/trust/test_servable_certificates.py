"""Which certificate may be shown, by its facts alone (I-16, M-06), how old it may grow (M-88), and whose a name is."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.model.certificate import DAY_S, CertificateFacts, ChainFacts, ChainLink
from holdfast.model.fleet import Settings
from holdfast.trust import certificates as rules
from holdfast.trust.servable import complaint, rung

NOW_S = 1_700_000_000.0
NAME, ZONE, PUBLIC = "www.example.test", "svc.lab.test", "example.test"
APART = Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC, "example.org"))
NESTED = Settings("lab", internal_zone="svc.example.test", public_domains=(PUBLIC,))
INVERSE = Settings("lab", internal_zone=PUBLIC, public_domains=("www.example.test",))

LEAF = ChainLink("a" * 64, NOW_S - 3600, NOW_S + 90 * DAY_S, "ec", 256, False, False, True)
ABOVE = ChainLink("b" * 64, NOW_S - DAY_S, NOW_S + 900 * DAY_S, "rsa", 2048, True, False, False)
FACTS = ChainFacts(
    digest="c" * 64,
    links=(LEAF, ABOVE),
    leaf=CertificateFacts("a" * 64, (NAME,), (), LEAF.not_before_s, LEAF.not_after_s),
    serial="1",
    serves=True,
    other_names=False,
    key_belongs=True,
    anchor=b"",
    own_kind=False,
)


def with_names(*names: str) -> ChainFacts:
    return replace(FACTS, leaf=replace(FACTS.leaf, names=names))


def with_leaf(change: Callable[[ChainLink], ChainLink]) -> ChainFacts:
    return replace(FACTS, links=(change(LEAF), ABOVE))


def test_a_whole_chain_of_this_time_and_name_is_fine() -> None:
    assert complaint(FACTS, (NAME,), NOW_S) is None
    assert complaint(with_names(NAME.upper()), (NAME,), NOW_S) is None
    assert complaint(with_names("b.test", "a.test"), ("a.test", "b.test"), NOW_S) is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FACTS, key_belongs=False), "key"),
        (replace(FACTS, serves=False), "serverAuth"),
        (replace(FACTS, other_names=True), "were not requested"),
        (replace(FACTS, links=(LEAF,)), "leaf alone"),
        (replace(FACTS, links=(LEAF, replace(ABOVE, authority=False))), "not an authority"),
        (replace(FACTS, links=(LEAF, replace(ABOVE, key_bits=2047))), "weak"),
        (replace(FACTS, links=(LEAF, replace(ABOVE, not_after_s=NOW_S))), "expired"),
        (replace(FACTS, links=(LEAF, replace(ABOVE, not_before_s=NOW_S + 1))), "not valid yet"),
        (with_leaf(lambda leaf: replace(leaf, signed_by_next=False)), "not signed by the next"),
        (with_leaf(lambda leaf: replace(leaf, authority=True)), "authority"),
        (with_leaf(lambda leaf: replace(leaf, key_kind="", key_bits=0)), "unknown"),
        (with_leaf(lambda leaf: replace(leaf, key_kind="ec", key_bits=224)), "weak"),
        (with_leaf(lambda leaf: replace(leaf, not_after_s=NOW_S)), "expired"),
        (with_leaf(lambda leaf: replace(leaf, not_before_s=NOW_S + 1)), "not valid yet"),
        (replace(FACTS, leaf=replace(FACTS.leaf, addresses=("192.0.2.1",))), "192.0.2.1"),
        (with_names(NAME, "web." + ZONE), "web." + ZONE),
        (with_names("*.example.test"), "not for"),
        (with_names(), "for no name"),
    ],
)
def test_each_flaw_alone_is_enough_to_refuse(facts: ChainFacts, why: str) -> None:
    """I-16, M-06, M-82."""
    assert why in (complaint(facts, (NAME,), NOW_S) or "")


def test_a_certificate_is_for_somebody() -> None:
    assert complaint(with_names(), (), NOW_S) is not None


labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
look_alikes = st.one_of(
    labels.map(lambda text: f"{text}{NAME}"),
    labels.map(lambda text: f"{NAME}{text}"),
    labels.map(lambda text: f"{NAME}.{text}"),
    labels.map(lambda text: f"{text}.{NAME}"),
    st.just(NAME.removeprefix("www.")),
    st.just(f"*.{PUBLIC}"),
    st.just(f"*.{NAME}"),
    st.just(NAME.replace(".", "-")),
)


@given(look_alikes)
def test_no_look_alike_proves_a_name(name: str) -> None:
    """I-17, M-24: neither a longer nor a shorter one, nor a wildcard."""
    assert complaint(with_names(name), (NAME,), NOW_S) is not None
    assert complaint(with_names(NAME, name), (NAME,), NOW_S) is not None


# ---- whose a name is


@given(labels, st.sampled_from([PUBLIC, "example.org"]), st.booleans())
def test_suffix_look_alikes_of_a_public_domain_always_fail(text: str, domain: str, before: bool) -> None:
    """M-24, I-17: by labels, not by letters."""
    look_alike = f"{text}{domain}" if before else f"{domain}{text}"
    assert rules.public_complaint(look_alike, APART) is not None
    assert rules.public_complaint(f"{text}.{domain}", APART) is None
    assert rules.internal_complaint(f"{text}{ZONE}", APART) is not None
    assert rules.internal_complaint(f"{text}.{ZONE}", APART) is None


@pytest.mark.parametrize("settings", [APART, NESTED, INVERSE])
@given(name=st.lists(labels, max_size=2).map(tuple), tree=st.integers(0, 3))
def test_no_name_is_both(settings: Settings, name: tuple[str, ...], tree: int) -> None:
    """I-17: names do not cross, also where one tree lies within the other."""
    trees = (*settings.public_domains, str(settings.internal_zone), "elsewhere.test")
    whole = ".".join((*name, trees[tree % len(trees)]))
    internal, public = rules.internal_complaint(whole, settings), rules.public_complaint(whole, settings)
    assert internal is not None or public is not None
    if tree % len(trees) < len(trees) - 1:
        assert internal is None or public is None, "and every name of ours is one of them"


def test_the_zone_within_a_public_domain_stays_internal() -> None:
    """As M-25 and M-26 have it."""
    assert "internal" in (rules.public_complaint("web.svc.example.test", NESTED) or "")
    assert rules.public_complaint("www.example.test", NESTED) is None
    assert "public" in (rules.internal_complaint("a.www.example.test", INVERSE) or "")
    assert rules.internal_complaint("db.example.test", INVERSE) is None


def test_without_public_domains_nothing_is_public() -> None:
    assert "there is none" in (rules.public_complaint(NAME, Settings("lab")) or "")


# ---- how old it may grow


@pytest.mark.parametrize(
    ("expected", "left_days"),
    [
        *(("fresh", days) for days in (90, 30.1)),
        *(("due", days) for days in (29.9, 25.1)),
        *(("expiring", days) for days in (24.9, 21.1)),
        *(("stale", days) for days in (20.9, 0.1)),
        *(("expired", days) for days in (0, -5)),
    ],
)
def test_the_ladder_of_a_certificate_of_90_days(expected: str, left_days: float) -> None:
    """M-88: renewed at 30, told at 25, what is shown re-checked at 21."""
    ends_s = NOW_S + 90 * DAY_S
    assert rung(NOW_S, ends_s, ends_s - left_days * DAY_S) == expected


def test_a_short_lived_certificate_has_the_same_ladder_in_its_own_measure() -> None:
    hours = 3600.0
    assert rung(NOW_S, NOW_S + 12 * hours, NOW_S + 1 * hours) == "fresh"
    assert rung(NOW_S, NOW_S + 12 * hours, NOW_S + 8.5 * hours) == "due"
    assert rung(NOW_S, NOW_S + 12 * hours, NOW_S + 9 * hours) == "expiring"


def test_a_long_lived_certificate_is_not_complained_about_for_months() -> None:
    ends_s = NOW_S + 365 * DAY_S
    assert rung(NOW_S, ends_s, ends_s - 26 * DAY_S) == "due"
    assert rung(NOW_S, ends_s, ends_s - 24 * DAY_S) == "expiring"


@given(st.integers(1, 4000), st.floats(0, 1.2), st.floats(0, 1.2))
def test_nobody_climbs_down_the_ladder(days: int, one: float, other: float) -> None:
    order = ("fresh", "due", "expiring", "stale", "expired")
    ends_s = NOW_S + days * DAY_S
    at = [order.index(rung(NOW_S, ends_s, NOW_S + share * days * DAY_S)) for share in sorted((one, other))]
    assert at[0] <= at[1]
