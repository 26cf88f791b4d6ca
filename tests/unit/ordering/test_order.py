"""Orders, windows and order files of programs that are made up."""

from dataclasses import replace
from itertools import accumulate

import pytest

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError, UsageError
from hugealign.orderfile import COLD, FILL, HOT, Entry, OrderFile
from hugealign.ordering import diff, knapsack, sorting, unseen
from hugealign.ordering.compose import compose, symbol_list
from hugealign.ordering.order import ThinError, check_evidence, check_names
from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.sorting import Sorted, sort
from hugealign.ordering.windows import WindowPlan, WindowRoom, ends_of
from hugealign.profile.match import Matched, placeable
from hugealign.profile.ran import MismatchError, Ran
from hugealign.system.budget import budget_of, of_entries

PAGE = 1 << 16


def program(sizes: list[int], names: list[str] | None = None, text: int | None = None) -> Functions:
    """Return functions one after the other, from address 4096 on."""
    names = names or [f"f{index}" for index in range(len(sizes))]
    starts = list(accumulate(sizes, initial=4096))[:-1]
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        by_name.setdefault(name, []).append(index)
    return Functions(starts, sizes, names, [""] * len(sizes), by_name, text=text or sum(sizes))


def matched(samples: dict[int, int], arcs: dict[tuple[int, int, int | None], int] | None = None) -> Matched:
    total = sum(samples.values())
    return Matched(samples, arcs or {}, total, total)


class Known(Calls):
    """Calls that are not read from a file: callees by caller."""

    def __init__(self, calls: dict[int, list[int]]) -> None:
        self.by_caller = calls

    def callees(self, index: int) -> list[int]:
        return self.by_caller.get(index, [])

    def callers(self, index: int) -> list[int]:
        return [caller for caller, callees in self.by_caller.items() if index in callees]


class Referring(References):
    """References that are not read from a file: by the function that refers."""

    def __init__(self, made: dict[int, list[int]]) -> None:
        self.by_user = made

    def targets(self, index: int) -> list[int]:
        return self.by_user.get(index, [])

    def referrers(self, index: int) -> list[int]:
        return [user for user, others in self.by_user.items() if index in others]


def planned(functions: Functions, ran: Matched, limit: int, calls: dict[int, list[int]] | None = None) -> WindowPlan:
    """Plan without filling; with *calls*, callees by caller, with filling."""
    fill = None if calls is None else Known(calls)
    return plan(Problem(ran, functions, WindowRoom(PAGE, limit), fill, fill))


# The order.


def test_without_arcs_the_order_is_by_octaves_of_density() -> None:
    """15 and 9 samples are in one octave, and keep the linker's order; 16 is in the next."""
    functions = program([64] * 5)
    ran = matched({0: 9, 1: 15, 2: 1, 3: 16, 4: 0})
    assert sort(ran, functions) == Sorted([3, 0, 1, 2, 4], [])


def test_with_arcs_callees_lie_beside_their_callers() -> None:
    functions = program([512] * 6)
    ran = matched(dict.fromkeys(range(6), 100), {(0, 4, None): 50, (1, 5, None): 40})
    order = sort(ran, functions).hot
    assert sorted(order) == list(range(6))
    assert abs(order.index(0) - order.index(4)) == 1
    assert abs(order.index(1) - order.index(5)) == 1


def test_samples_in_another_unit_do_not_drown_the_calls() -> None:
    """Instruction counts a million times the calls give the same order."""
    functions = program([512] * 6)
    arcs: dict[tuple[int, int, int | None], int] = {(0, 4, None): 50, (1, 5, None): 40, (4, 2, 8): 3}
    orders = [sort(matched({i: (i + 1) * unit for i in range(6)}, arcs), functions).hot for unit in (1, 10**6)]
    assert orders[0] == orders[1]


def test_a_function_is_as_hot_as_often_as_it_is_entered() -> None:
    """Not as long as it runs; where no call is known, as for a callback, that has to do."""
    functions = program([100, 1000, 1000, 1000, 100])
    ran = Matched({0: 90_000, 1: 10, 2: 10, 3: 50_000, 4: 10}, {(1, 2, None): 100, (4, 0, None): 1}, complete=True)
    assert [set(sort(ran, functions).hot[at : at + 2]) for at in (0, 3)] == [{1, 2}, {0, 4}]


def test_cold_parts_go_to_the_end_in_the_order_of_their_functions() -> None:
    functions = program([64] * 5, ["a.cold", "a", "b.cold.3", "b", "orphan.cold"])
    ran = matched({0: 5, 1: 2, 2: 9, 3: 8, 4: 1})
    assert sort(ran, functions) == Sorted([3, 1], [2, 0, 4])


# Profiles that saw only a part of what runs.


def test_a_profile_is_complete_if_hardly_anything_was_seen_once() -> None:
    """Without calls it never is; the unit of the samples is what the least of them has."""
    arcs: dict[tuple[int, int, int | None], int] = {(0, 1, None): 5}
    assert unseen.incomplete(matched({0: 500, 1: 1}, arcs))
    assert not unseen.incomplete(matched({0: 1000, 1: 1}, arcs))
    assert not unseen.incomplete(matched({0: 2000, 1: 2, 2: 0}, arcs))
    assert unseen.incomplete(matched({0: 2000, 1: 2, 2: 2}, arcs))
    assert unseen.incomplete(matched({0: 10**9, 1: 10**6 + 10**4}, arcs))
    assert unseen.incomplete(matched({0: 10**9, 1: 1}))
    assert not unseen.incomplete(matched({}, arcs))
    assert not unseen.incomplete(Matched({0: 1, 1: 1}, {}, 2, 2, complete=True))


def test_calls_of_the_code_bring_functions_together_that_ran() -> None:
    """No sample says who calls whom; without the code they would lie by density and address."""
    functions = program([512] * 6)
    ran = matched({0: 40, 1: 9, 2: 30, 3: 30, 4: 9, 5: 40})
    result = sort(ran, functions, Known({0: [4, 9], 5: [1], 1: [5]}))
    order, cold = result.hot, result.cold
    assert (sorted(order), cold) == ([0, 1, 2, 3, 4, 5], [])
    assert abs(order.index(0) - order.index(4)) == abs(order.index(1) - order.index(5)) == 1
    assert sort(ran, functions, Known({})) == sort(ran, functions) == Sorted([0, 5, 2, 3, 1, 4], [])


def test_calls_between_hot_functions_are_taken_for_frequent() -> None:
    """Of ten that one function calls, the one that is as hot as itself lies beside it."""
    functions = program([512] * 12)
    for hottest in (1, 6, 10):
        ran = matched({**dict.fromkeys(range(11), 1), 0: 5000, hottest: 5000})
        order = sort(ran, functions, Known({0: [*range(1, 11)]})).hot
        assert abs(order.index(0) - order.index(hottest)) == 1


def test_a_call_of_the_profile_weighs_more_than_any_that_it_did_not_see() -> None:
    """Both ends of the call that the code has are hot, but in ten thousand samples it was not seen."""
    functions = program([512] * 3)
    calls = Known({0: [1, 2]})
    assert sort(matched({0: 5000, 1: 5000, 2: 1}), functions, calls).hot[:2] in ([0, 1], [1, 0])
    ran = matched({0: 5000, 1: 5000, 2: 80, 3: 60}, {(0, 2, None): 1})
    assert unseen.incomplete(ran)
    order = unseen.order([0, 1, 2], {}, ran, functions, calls)
    assert abs(order.index(0) - order.index(2)) == 1


def test_complete_profiles_are_ordered_without_the_code() -> None:
    functions = program([512] * 4)
    ran = matched({0: 5000, 1: 4000, 2: 3000, 3: 1}, {(0, 2, None): 50, (1, 3, None): 1})
    assert sort(ran, functions, Known({0: [1], 3: [2]})) == sort(ran, functions)
    ran = Matched(
        {0: 5000, 1: 1, 2: 3000, 3: 4000}, {}, 12001, 12001, complete=True
    )  # a trace in which nothing is called
    assert sort(ran, functions, Known({0: [1]})) == Sorted([0, 2, 3, 1], [])


def test_what_is_likely_lies_beside_what_calls_it() -> None:
    """In a huge window and, if nothing is to be huge, on small pages; not behind all that ran."""
    functions = program([512] * 400 + [PAGE * 2])
    ran = matched({10: 2, 200: 2, 250: 1, 390: 1, 398: 1})
    calls = {10: [300], 390: [150]}
    for limit in (1, 0):
        plan = planned(functions, ran, limit, calls)
        place = {placed.index: at for at, placed in enumerate(plan.placed)}
        assert abs(place[300] - place[10]) == abs(place[150] - place[390]) == 1
        assert {placed.kind for placed in plan.placed if placed.index in (300, 150)} == {FILL}
        assert plan.count == limit
        # Twelve of that size are taken for likely to have been missed; the rest of a window is filled behind.  Without
        # one there is nothing behind, since the profile is not complete.
        behind = [placed.index for placed in plan.placed][5 + 12 :]
        assert len(behind) == PAGE // 512 * limit - 17 * limit


def test_what_fills_lies_by_powers_of_eight_of_its_density() -> None:
    """What lies beside or is called by what ran, small first; neighbours of about one size and chance stay together."""
    functions = program([64, 64, 1024, 64, 64, 64, 64])
    chances = {5: 0.25, 1: 0.2, 2: 0.9, 3: 0.14, 6: 0.01, 4: 0.2}
    assert knapsack.by_density(functions, chances, 16) == [1, 3, 4, 5, 2, 6]
    assert knapsack.by_density(functions, dict.fromkeys(chances, 1.0), 16) == [1, 3, 4, 5, 6, 2]


def test_the_smallest_fit() -> None:
    functions = program([64, 16, 1024, 32])
    assert [knapsack.smallest(functions, [0, 1, 2, 3], room) for room in (0, 47, 48, 112, 9999)] == [
        *(set(), {1}, {1, 3}, {0, 1, 3}),
        {0, 1, 2, 3},
    ]


def test_an_order_of_text_that_is_all_to_be_huge_is_that_for_small_pages() -> None:
    """For the day when it is not huge."""
    functions = program([512] * 400 + [PAGE * 2])
    ran = matched({10: 2, 200: 2, 250: 1, 390: 1, 398: 1})
    small, whole = (planned(functions, ran, limit, {10: [300], 390: [150]}) for limit in (0, 99))
    assert (small.whole, whole.whole) == (False, True)
    assert filled(small)
    assert [(placed.index, placed.kind) for placed in whole.placed] == [
        (placed.index, placed.kind) for placed in small.placed
    ]


def test_how_much_a_profile_missed() -> None:
    """Four times as much as the functions seen once, times half of what they are more than those seen twice."""
    functions = program([100] * 9)
    assert unseen.room(matched(dict.fromkeys(range(3), 1)), functions) == 4 * 300
    assert unseen.room(matched({**dict.fromkeys(range(3), 1), 3: 2}), functions) == 4 * 300 // 2
    assert unseen.room(matched({**dict.fromkeys(range(3), 7), 3: 14, 4: 15, 5: 0}), functions) == 4 * 300 // 2
    assert unseen.room(matched(dict.fromkeys(range(13), 1)), program([100] * 13)) == 4 * 1300 * 4  # never more
    assert unseen.room(matched({0: 1, 1: 9}), functions) == unseen.room(matched({}), functions) == 0
    assert unseen.room(Matched({0: 1, 1: 1, 2: 1}, {}, 3, 3, complete=True), functions) == 0
    likely = {4: 0.5, 7: 0.25, 5: 0.1}
    assert unseen.within(likely, 299, functions) == {4: 0.5, 7: 0.25}
    assert (unseen.within(likely, 300, functions), unseen.within(likely, 99, functions)) == (likely, {})


def test_functions_that_were_all_seen_often_tell_of_no_others() -> None:
    """A sample counts for what divides all counts, not for the least of them."""
    for weight in (1, 7):
        result = unseen.missed(matched({0: 62 * weight, 1: 80 * weight}))
        assert result is not None
        assert result.unseen.share == 0


def test_where_nothing_is_huge_half_as_much_as_ran_lies_behind_it() -> None:
    """If neighbours do not run together.  A complete profile missed nothing, and so nothing lies among what ran."""
    functions = program([512] * 400 + [PAGE * 2])
    ran = Matched(dict.fromkeys(range(10, 200, 20), 5000), {(10, 30, None): 7}, complete=True)
    placed = planned(functions, ran, 0, {10: [300]}).placed
    assert [item.index for item in placed[:10]] == [*sort(ran, functions).hot]
    assert {item.kind for item in placed[10:]} == {FILL}
    assert len(placed) == 10 + 10 // 2
    assert 300 in {item.index for item in placed[10:]}
    together = Matched(dict.fromkeys(range(10, 20), 5000), {(10, 13, None): 7}, complete=True)
    assert {item.kind for item in planned(functions, together, 0, {10: [300]}).placed} == {HOT}


def test_whether_neighbours_run_together() -> None:
    """Of 100 functions 20 ran: 4 of those beside would by chance, and 8 are twice as many."""
    for pairs, scattered in ((7, True), (8, False)):
        ran = [n for pair in range(pairs) for n in (5 * pair, 5 * pair + 1)]
        ran += range(95, 95 - 2 * (20 - len(ran)), -2)
        assert len(set(ran)) == 20
        result = Matched(dict.fromkeys(ran, 9), {(0, 1, None): 7}, complete=True)
        assert unseen.scattered(result, 100) == scattered
        assert not unseen.scattered(matched(dict.fromkeys(ran, 1)), 100)


# The windows.


def test_whole_text_within_the_budget() -> None:
    plan = planned(program([PAGE] * 3), matched({1: 5}), 3)
    assert (plan.whole, plan.count, plan.needed) == (True, 3, 1)
    assert [placed.index for placed in plan.placed] == [1]


def test_as_many_windows_as_the_hot_functions_need() -> None:
    plan = planned(program([PAGE // 2] * 20), matched(dict.fromkeys(range(5), 1)), 7)
    assert (plan.whole, plan.needed, plan.count) == (False, 3, 3)
    assert [w.functions for w in plan.windows] == [2, 2, 1]
    assert [w.used for w in plan.windows] == [PAGE, PAGE, PAGE // 2]
    assert sum(w.samples for w in plan.windows) == 5


def test_never_more_than_the_budget() -> None:
    plan = planned(program([PAGE // 2] * 20), matched(dict.fromkeys(range(9), 1)), 2)
    assert (plan.needed, plan.count) == (5, 2)
    assert [w.huge for w in plan.windows] == [True, True, False, False, False]
    assert not any(placed.kind == FILL for placed in plan.placed)


def test_beyond_the_budget_the_densest_come_first_and_keep_their_order() -> None:
    """Two fit: not the first of an octave, but those with the most samples per byte."""
    functions = program([PAGE // 2] * 3)
    ran = matched({0: 9 << 10, 1: 12 << 10, 2: 15 << 10})
    assert sort(ran, functions).hot == [0, 1, 2]
    plan = planned(functions, ran, 1)
    assert [(placed.index, placed.window) for placed in plan.placed] == [(1, 1), (2, 1), (0, 2)]
    assert plan.count == 1


def test_calls_are_worth_more_than_time() -> None:
    """Functions that fill a run each are worth what enters and leaves them; one of which no call is known, its time."""
    functions = program([128 << 10] * 4)
    ran = matched({0: 10, 1: 99950, 2: 20, 3: 20}, {(0, 2, None): 60, (0, 1, 8): 4, (1, 1, 8): 900})
    assert sorting.worth([0, 2, 1, 3], ran, functions) == {0: 64, 1: 4, 2: 60, 3: 20 * 64 / 100000}


def test_in_an_incomplete_profile_a_function_is_worth_the_samples_and_calls_that_were_seen() -> None:
    functions = program([64] * 4)
    ran = matched({0: 1, 1: 8, 2: 0, 3: 20}, {(2, 1, None): 7, (2, 0, None): 1, (3, 3, 8): 900})
    assert sorting.worth([0, 1, 2, 3], ran, functions) == {0: 1, 1: 8, 2: 8, 3: 20}
    assert sorting.worth([0, 1], matched({0: 7, 3: 2}), functions) == {0: 7, 3: 2}


def test_those_around_a_function_count_as_much_as_itself() -> None:
    functions = program([1024, 128 << 10, 1024, 128 << 10])
    ran = matched({0: 1, 1: 2000, 2: 2, 3: 2}, {(0, 1, None): 100, (2, 0, None): 4, (2, 3, None): 1})
    hot_run, other_run = (204 / 129, 6 / 129)
    result = sorting.worth([0, 1, 2, 3], ran, functions)
    assert result[0] == pytest.approx((104 * hot_run) ** 0.5)
    assert result[2] == pytest.approx((5 * other_run) ** 0.5)


def test_cold_parts_that_ran_a_lot_stay_behind_the_others_of_their_side() -> None:
    functions = program([PAGE // 2] * 4, ["a", "a.cold", "b", "c"])
    plan = planned(functions, matched({0: 50, 1: 40, 2: 3, 3: 2}), 1)
    assert [(placed.index, placed.kind) for placed in plan.placed] == [(0, HOT), (1, COLD), (2, HOT), (3, HOT)]


def filled(plan: WindowPlan) -> list[int]:
    return [placed.index for placed in plan.placed if placed.kind == FILL]


def test_room_is_filled_with_what_is_near_and_with_callees() -> None:
    """Up to the budget, without cold parts and what does not fit."""
    names = [f"f{i}" for i in range(20)]
    names[11] = "f10.cold"
    functions = program([PAGE // 4] * 8 + [PAGE * 3] + [PAGE // 4] * 11, names)
    plan = planned(functions, matched({10: 9}), 2, {10: [3, 8], 3: [0]})
    # Called: 3.  Beside: 9; the next but one: 12, and so on: 7, 13, 6, 14; and no room is left.
    assert sorted(filled(plan)) == [3, 6, 7, 9, 12, 13, 14]
    assert plan.count == 2
    assert sum(w.filled for w in plan.windows) == 7 * PAGE // 4
    assert all(w.used <= PAGE for w in plan.windows)


def taken(ran: list[int], calls: dict[int, list[int]], count: int = 100) -> list[int]:
    """Return what is likely beside those of a hundred functions of one size, the likeliest first."""
    return list(knapsack.likely(program([16] * 100), ran, count * 16, 16, Known(calls)))


def test_the_nearer_the_likelier() -> None:
    assert [abs(index - 50) for index in taken([50], {}, 8)] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert taken([50, 53], {}, 2) == [51, 52]  # each between the two


def test_what_calls_and_what_is_called() -> None:
    """The only caller is as likely as a callee, one of many hardly is."""
    assert taken([50], {10: [50]}, 2) == [10, 49]
    assert taken([50], {50: [20], 10: [50]}, 3) == [10, 20, 49]
    assert taken([50], {50: [20], 10: [50], 11: [50]}, 4)[0] == 20
    assert [abs(index - 50) for index in taken([50], {10: [50], 30: [50]}, 8)] == [1, 1, 2, 2, 3, 3, 40, 20]
    many = {caller: [50] for caller in range(10)}
    assert not set(taken([50], many, 8)) & set(many)
    assert taken([50, 60], {**many, **{caller: [50, 60] for caller in (3, 4)}}, 10)[-2:] == [3, 4]  # of both
    for count, passed_over in ((32, False), (33, True), (40, True)):
        calls = {caller: [50] for caller in range(count)}
        assert (taken([50], calls, 30) == taken([50], {}, 30)) == passed_over


def test_two_reasons_at_once_take_room_once() -> None:
    """21 lies behind 20 and is called by it."""
    result = taken([50], {50: [20], 20: [21]}, 11)
    assert (result[0], result[9], len(result)) == (20, 21, 11)


def test_what_is_only_likely_makes_others_half_as_likely() -> None:
    assert set(taken([50], {10: [50], 30: [10]}, 9)) == {10, *range(46, 55)} - {50}  # 30 calls what may call it
    chain = {50: [20], 20: [30, 51]}
    assert taken([50], chain, 4) == [20, 51, 49, 52]  # 51 is beside it and called by what it calls
    assert taken([50], {**chain, 21: [30]}, 20).index(30) == taken([50], chain, 20).index(30)
    assert taken([50], {50: [20, 21, 22], 20: [30], 21: [30], 22: [30]}, 4) == [20, 21, 22, 49]


def test_what_is_referred_to_comes_behind_what_is_called_or_beside() -> None:
    """One of many in a table runs, but what ran was reached through something that refers to it."""

    def taken(count: int, ran: list[int], calls: dict[int, list[int]], made: dict[int, list[int]]) -> list[int]:
        result = knapsack.likely(program([16] * 100), ran, count * 16, 16, Known(calls), Referring(made))
        return list(result)

    assert taken(3, [50], {50: [20]}, {50: [30, 31]}) == [20, 49, 51]
    assert set(taken(11, [50], {50: [20]}, {50: [30, 31]})) >= {30, 31}
    assert taken(1, [50], {}, {70: [50]}) == [70]  # the only one that refers to it, as a only caller
    assert taken(1, [50], {}, {70: [50], 71: [50]}) == [49]  # they share that
    many: dict[int, list[int]] = {index: [50] for index in range(60, 99)}
    assert not set(many) & set(taken(8, [50], {}, many))


def test_references_help_only_in_huge_windows() -> None:
    functions = program([512] * 400 + [PAGE * 2])
    ran = matched({10: 50, 200: 20, 250: 1, 390: 1, 398: 1})
    calls, references = Known({}), Referring({10: [300]})
    for limit, alike in ((1, False), (0, True)):
        room = WindowRoom(PAGE, limit)
        with_them = plan(Problem(ran, functions, room, calls, calls, references))
        assert (with_them == plan(Problem(ran, functions, room, calls, calls))) == alike
        assert (300 in filled(with_them)) == bool(limit)


def test_small_functions_fill_first_and_two_reasons_are_better_than_one() -> None:
    functions = program([PAGE // 2, PAGE // 2, 64, 4096, 64, 4096, 64, 4096, 64, 4096, 64, 4096])
    ran = matched({0: 5, 11: 5})
    room = PAGE - PAGE // 2 - 4096

    def first(calls: dict[int, list[int]]) -> int:
        return next(iter(knapsack.likely(functions, ran.samples, room, 16, Known(calls))))

    assert first({0: [3]}) == 10  # 3 is as likely, but large
    assert first({0: [4]}) == 4  # of equal ones the first
    assert first({0: [4, 10]}) == 10
    assert first({0: [6], 11: [4, 6]}) == 6


def test_what_is_likely_takes_the_place_of_large_functions_with_few_samples() -> None:
    """Where not all that ran fits; but never with an exact profile, whose least sample is little."""
    functions = program([PAGE, PAGE, 1024, 1024, PAGE])
    plan = planned(functions, matched({2: 5, 0: 9, 1: 1}), 1, {2: [3, 4]})
    assert filled(plan) == [3]
    assert [placed.index for placed in plan.placed] == [2, 3, 0, 1]
    assert filled(planned(functions, matched({0: 9, 1: 1}), 1, {0: [2, 3]})) == [2, 3]
    assert filled(planned(functions, matched({0: 90000, 1: 1000, 4: 900}), 1, {0: [2, 3]})) == []


def test_a_sample_is_worth_more_than_a_likelihood() -> None:
    """Of eight times the size it is, of sixteen times not, beside what has a chance of a fourth."""
    for times, inside in ((8, [0, 20]), (16, [0, 40])):
        functions = program([16] * 20 + [16 * times] + [16] * 79)
        result = knapsack.densest(functions, {0: 1.0, 20: 1.0}, 16 + 16 * times, 16, Known({40: [0]}))
        assert list(result)[:2] == inside


def test_the_start_of_the_text_takes_room() -> None:
    """`.init` and `.plt` lead the first window."""
    functions = program([PAGE // 2] * 20)
    functions.lead = 100
    assert planned(functions, matched({0: 1, 1: 1}), 4).needed == 2


def test_functions_keep_their_alignment() -> None:
    functions = program([24, 24, 8])  # at 4096, 4120 and 4144: the one in the middle is aligned to 8 bytes
    assert ends_of([(0, HOT), (1, HOT)], functions, 16) == [24, 48]
    assert ends_of([(0, HOT), (2, HOT)], functions, 16) == [24, 40]


def test_nothing_is_likely_beside_nothing() -> None:
    assert knapsack.likely(program([16] * 3), [], 1000, 16, Known({})) == {}


# The budget.


def test_budget() -> None:
    assert budget_of("skylake", None).windows == 7
    assert (of_entries(16, "").windows, of_entries(1, "").windows) == (15, 1)
    assert [budget_of(windows=count).windows for count in (0, 1, 16)] == [0, 1, 16]
    assert budget_of(None, None).windows >= 1
    assert (budget_of("skl", None).cpu, budget_of(None, 16).cpu) == ("skylake", "")
    for cpu, windows in (("nosuch", None), (None, 65537), (None, -1), ("kunpeng920", None)):
        with pytest.raises(UsageError):
            budget_of(cpu, windows)


# Order files.


def test_locals_of_one_name_get_their_file() -> None:
    functions = program([64] * 4, ["same", "other", "same", "same"])
    functions.files = ["a.c", "a.c", "b.c", "b.c"]
    ran = matched({0: 4, 1: 3, 2: 2, 3: 1})
    made = compose(planned(functions, ran, 1), ran, functions, {})
    # The two of b.c cannot be told apart by name and file.
    assert [(e.name, e.file, e.samples) for e in made.entries] == [
        ("same", "a.c", 4),
        ("other", "", 3),
        ("same", "b.c", 2),
    ]


def test_other_names_of_a_function() -> None:
    """Those that are its alone, not too many, in the order of the symbols."""
    functions = program([64] * 3, ["one", "two", ""])
    functions.by_name |= {"uno": [0], "both": [0, 1], "zwei": [1], "nameless": [2]}
    functions.by_name |= {f"deux{number}": [1] for number in range(40)}
    ran = matched({0: 4, 1: 3, 2: 1})
    made = compose(planned(functions, ran, 1), ran, functions, {})
    aliases = {entry.name: entry.aliases for entry in made.entries}
    assert aliases == {"one": ("uno",), "two": ("zwei", *(f"deux{number}" for number in range(15))), "": ()}


def test_the_list_for_lld() -> None:
    order = OrderFile(
        {}, [Entry("a\nb"), Entry("#c"), Entry("d e"), Entry("f", "x.c"), Entry("f", "y.c"), Entry("", address=1)]
    )
    assert symbol_list(order) == "d e\nf\n"


def test_diff() -> None:
    old = OrderFile({}, [Entry("a", "", 50, HOT, 1), Entry("b", "", 50, HOT, 1), Entry("x", "", 0, FILL, 1)])
    new = OrderFile({}, [Entry("a", "", 75, HOT, 2), Entry("c", "", 25, HOT, 1), Entry("y", "", 0, FILL, 1)])
    result = diff.compare(old, new)
    assert ([e.name for e in result.gained], [e.name for e in result.lost], result.kept) == (["c"], ["b"], 1)
    assert result.overlap == 0.5
    assert [(it.old.window, it.new.window) for it in result.moved] == [(1, 2)]
    assert "50.00 % of the samples in common" in diff.text(result)
    assert diff.compare(old, old).same
    assert diff.compare(old, old).overlap == 1


def test_functions_of_absurd_size() -> None:
    """A damaged file: an error, and no table of a million million windows."""
    functions = program([1 << 50])
    with pytest.raises(HugealignError, match="implausible function sizes"):
        planned(functions, matched({0: 1}), 2)


def test_few_calls_do_not_make_those_of_the_code_small() -> None:
    """Chains of a program without frame pointers have some: the code's calls then weigh what their ends are worth."""
    many = {**dict.fromkeys(range(16), 10**6), 16: 1}
    assert not unseen.calls_throughout(Matched(many, {(0, 1, 4): 900}))
    assert unseen.calls_throughout(Matched(many, {(0, 1, 4): 1, (3, 2, 4): 1}))
    assert not unseen.calls_throughout(Matched(many))
    assert unseen.incomplete(Matched(many, {(0, 1, 4): 900}))
    assert not unseen.incomplete(Matched(many, {(0, 1, 4): 1, (3, 2, 4): 1}))


# Whether what ran is enough for an order: samples for the size of the program, names to place functions by.


def nameless(count: int, without: int = 0) -> Functions:
    """Return *count* functions of 64 bytes, the first *without* a name."""
    return program([64] * count, ["" if index < without else f"f{index}" for index in range(count)])


def ran(functions: Functions, samples: dict[int, int], form: str = "perf.data") -> Ran:
    total = sum(samples.values())
    matched = placeable(Matched(samples, {(0, 1, None): 1}, total, total), functions)
    return Ran("program", functions, matched, [("p", form)])


@pytest.mark.parametrize(
    ("functions", "samples", "windows", "enough"),
    [
        (10, 100, 0, True),
        (10, 99, 0, False),
        (100_000, 300, 0, False),
        (100_000, 1000, 0, True),
        (100_000, 300, 7, True),
    ],
)
def test_enough_samples_for_the_program(functions: int, samples: int, windows: int, enough: bool) -> None:
    """The message has the number that is enough."""
    budget = budget_of(windows=windows)
    known = ran(nameless(functions), {0: samples})
    output: list[str] = []
    if enough:
        check_evidence(known, budget, False, output.append)
        assert not output
        return
    with pytest.raises(ThinError, match=f"record at least {max(100, functions // 100)},"):
        check_evidence(known, budget, False, output.append)
    check_evidence(known, budget, True, output.append)
    assert len(output) == 1
    check_evidence(ran(nameless(functions), {0: samples}, "gcda"), budget, False, output.append)
    assert len(output) == 1


def test_what_has_no_name_counts_as_missed() -> None:
    """It is not placed, and its samples are in the share that was missed."""
    functions = nameless(10, 2)
    known = ran(functions, {0: 30, 1: 10, 2: 50, 3: 8, 4: 1, 5: 1})
    assert {*known.matched.samples} == {2, 3, 4, 5}
    assert known.matched.nameless == 40
    assert not known.matched.arcs
    missed = unseen.missed(known.matched)
    assert missed is not None
    assert missed.times is None
    assert 0.4 <= missed.unseen.low <= missed.unseen.share <= missed.unseen.high
    output: list[str] = []
    check_names(known, False, output.append)
    assert "40.0%" in output[0]


def test_most_of_what_ran_has_no_name() -> None:
    known = ran(nameless(10, 2), {0: 51, 2: 49})
    with pytest.raises(MismatchError, match="without a name"):
        check_names(known, False, lambda _: None)
    output: list[str] = []
    check_names(known, True, output.append)
    assert len(output) == 1
    check_names(ran(nameless(10), {0: 51, 2: 49}), False, output.append)
    assert len(output) == 1


def test_small_pages_get_no_more_than_was_probably_missed() -> None:
    """A profile that missed 1 % gets a hundredth of its bytes, however large what it saw once is."""
    functions = replace(nameless(1000), sizes=[64] * 900 + [6400] * 100)
    often = dict.fromkeys(range(100), 100)
    once = {900 + index: 1 for index in range(100)}
    matched = ran(functions, often | once).matched
    ran_bytes = sum(functions.sizes[index] for index in matched.samples)
    assert unseen.room(matched, functions) > ran_bytes
    assert 0 < unseen.small_room(matched, functions) < ran_bytes / 90
    # One that missed most is bounded by what it saw as well.
    assert unseen.small_room(ran(functions, dict.fromkeys(range(50), 1) | {60: 2}).matched, functions) > 0
