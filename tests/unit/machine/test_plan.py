"""Which parts of a machine become huge."""

from dataclasses import replace

import pytest

from hugealign.machine.machine_policy import Policy
from hugealign.machine.plan import COPIES, IN_PLACE, Part, choose, kept
from hugealign.system.saving import Saving

MIB = 1 << 20


def part(name: str, mib: int = 2, share: float = 0.5, saves: float = 0.1, how: str = IN_PLACE) -> Part:
    return Part(name, how, (f"/{name}",), mib // 2, mib * MIB, share, Saving(saves / 2, saves, min(1.0, 2 * saves)))


def test_what_saves_most_for_its_memory_comes_first() -> None:
    parts = [part("large", 40, 1.0, 0.2), part("small", 2, 0.5, 0.1), part("rare", 2, 0.01, 0.1)]
    plan = choose(parts, Policy(max=100 * MIB))
    assert [one.name for one in plan.take] == ["small", "large", "rare"]
    assert plan.memory == 44 * MIB
    assert not plan.left


@pytest.mark.parametrize(
    ("bound", "names"), [(44, "small large rare"), (42, "small large"), (41, "small rare"), (1, "")]
)
def test_the_bound_holds_and_smaller_parts_fill_it(bound: int, names: str) -> None:
    parts = [part("large", 40, 1.0, 0.2), part("small", 2, 0.5, 0.1), part("rare", 2, 0.01, 0.1)]
    plan = choose(parts, Policy(max=bound * MIB))
    assert [one.name for one in plan.take] == names.split()
    assert {left.code for left in plan.left} <= {"policy.no-room"}
    assert len(plan.take) + len(plan.left) == 3


def test_parts_in_force_take_room() -> None:
    plan = choose([part("new", 4)], Policy(max=10 * MIB), [part("old", 8)])
    assert not plan.take
    (left,) = plan.left
    assert (left.code, left.subject, left.facts) == ("policy.no-room", "new", {"size": 4 * MIB, "room": 2 * MIB})


@pytest.mark.parametrize(
    ("one", "policy", "code"),
    [
        (part("a", saves=0.009), Policy(), "policy.little-saved"),
        (part("a", saves=0.011), Policy(), None),
        (part("a", saves=0.011), Policy(least=2), "policy.little-saved"),
        (part("a", share=0.0005, saves=0.1), Policy(), "policy.little-saved"),  # it hardly ever runs
        (part("a", saves=0.0), Policy(everything=True), None),
        (part("a", saves=0.0), Policy(include=("a",)), None),
        (part("a"), Policy(exclude=("a",)), "policy.excluded"),
        (part("a"), Policy(include=("a",), exclude=("a",)), "policy.excluded"),
        (part("a", how=COPIES, saves=0.0), Policy(), "policy.little-saved"),
    ],
)
def test_why_a_part_is_left(one: Part, policy: Policy, code: str | None) -> None:
    plan = choose([one], replace(policy, max=100 * MIB))
    assert [left.code for left in plan.left] == ([code] if code else [])
    assert len(plan.take) == (code is None)


def test_parts_in_force_go_with_a_smaller_bound_and_when_excluded() -> None:
    parts = [part("large", 40, 1.0, 0.2), part("small", 2, 0.5, 0.1), part("rare", 2, 0.01, 0.1)]
    assert [one.name for one in kept(parts, Policy(max=41 * MIB))] == ["small", "rare"]
    assert [one.name for one in kept(parts, Policy(max=100 * MIB, exclude=("s*",)))] == ["large", "rare"]
