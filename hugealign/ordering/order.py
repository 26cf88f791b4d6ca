"""`hugealign order` as a function: profiles of a program become an order of its functions and a number of windows."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hugealign.code.blockmap import require_blocks
from hugealign.code.calls import Calls
from hugealign.code.compileunits import read_units
from hugealign.code.references import References
from hugealign.elf.image import GO_SECTION
from hugealign.elf.machines import native, page_size_of
from hugealign.elf.symbols import functions_of
from hugealign.errors import HugealignError
from hugealign.io.progress import silent
from hugealign.io.units import are, counted, printable
from hugealign.orderfile import OrderFile
from hugealign.ordering.blocks import KeptBlocks, divided, kept_blocks, only_entered, share_names
from hugealign.ordering.carried import Carried, carried
from hugealign.ordering.compose import compose
from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.windows import WindowPlan, WindowRoom
from hugealign.profile.debugfiles import DebugFiles
from hugealign.profile.formats import FORMATS
from hugealign.profile.match import placeable
from hugealign.profile.model import Flow
from hugealign.profile.ran import MismatchError, ProfileOptions, Ran, check_rate, what_ran
from hugealign.settings import OWN
from hugealign.system.budget import Budget, budget_of, elsewhere

#: On small pages alone, some orders from 3 samples missed up to 31 % more than the linker's, those from 10 to 1,000 at
#: most 4 %, and 82 % where pages happen to share a set; with a huge window none missed more (docs/measured/orders.md,
#: lab/bench/thin.py).
FEW = 100
#: On small pages, one sample for this many functions: with some 100,000 functions, orders from 100 samples missed up to
#: 32 % more than the linker's, from 300 up to 21 %, from 1,000 at most 3 %.
_FUNCTIONS_PER_SAMPLE = 100
#: If a larger share of the samples found is in functions without a name, there is no order.
_MOST_NAMELESS = 0.5


class ThinError(HugealignError):
    """Too few samples for an order."""

    exit_status = 1


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """A number of windows chosen by simulation."""

    why: str
    lines: Sequence[str]
    """A table of the reasons."""
    document: Mapping[str, object]
    """The number by the rule, and each processor's misses by the number of huge windows; None without a trace."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order, and what it was made of."""

    ran: Ran
    budget: Budget
    plan: WindowPlan
    simulated: WindowChoice | None = None
    """The number of windows with the fewest misses, if that was simulated."""
    blocks: Mapping[int, KeptBlocks] | None = None
    """The blocks of the functions to divide, by index; None if that was not requested."""
    carried: Carried | None = None
    """How much of the profiled build is in the one to order; None if they are the same."""

    def file(self) -> OrderFile:
        """Return the order file."""
        plan, ran = self.plan, self.ran
        # The launcher looks for this line among the first ones.
        header = {} if self.blocks is None else {"blocks": f"of {len(self.blocks)} functions"}
        header |= {
            "page-size": str(plan.page_size),
            "windows": str(plan.count),
            "budget": f"{plan.budget} ({self.budget.why})",
            "profile": ", ".join(f"{os.path.basename(path)} ({form})" for path, form in ran.sources),
            "binary": os.path.basename(ran.binary),
            "build-id": ran.functions.build_id or "--",
            "matched": f"{ran.matched.hits} of {ran.matched.total} {ran.unit}",
        }
        return compose(plan, ran.matched, ran.functions, header, self.blocks or {})


@dataclass(frozen=True, slots=True)
class OrderOptions(ProfileOptions):
    """How profiles are read (`ProfileOptions`), and what the order is to be.

    Attributes:
        page_size: The size of a huge page in bytes; by default that of the program's processor.
        budget: How many of them may be huge; by default what this machine's processor can keep.
        fill: Give functions that probably run the room that is left.
        blocks: Divide functions that clang's map of blocks describes into the blocks that ran and the rest.
        old_binary: The build that the profiles are of, if it is not the one to order: functions are identified by their
            names, blocks by their code.
    """

    page_size: int = OWN
    budget: Budget | None = None
    fill: bool = True
    blocks: bool = False
    old_binary: str | None = None


_DEFAULT = OrderOptions()


def order(
    binary: str,
    profiles: Sequence[str],
    options: OrderOptions = _DEFAULT,
    *,
    warn: Callable[[str], None] = silent,
    progress: Callable[[str], None] = silent,
) -> Order:
    """Order the functions of a program by profiles.

    Args:
        binary: The program or library, or its debug file.
        profiles: The profiles, of any format that `hugealign order` reads.
        options: How to read them, and what the order is to be.
        warn: Called with one line for each warning.
        progress: Called with each step, as words.

    Raises:
        ThinError: No window may be huge, and the samples are too few.
        HugealignError: A file cannot be read, or the profile does not fit the program.
    """
    flow = Flow() if options.blocks else None
    old, force = options.old_binary, options.force
    ran = what_ran(binary if old is None else old, profiles, options, flow=flow, warn=warn, progress=progress)
    budget = budget_for(ran, options.budget)
    check_evidence(ran, budget, force, warn)
    if any(section.name == GO_SECTION for section in ran.functions.image.sections):
        warn(
            f"{printable(binary)}: Go makes one section of all its functions, so no link can follow this order; "
            "make all of its text huge instead: hugealign run, hugealign enable"
        )
    build = None
    if old is not None:
        ran, build = carry(ran, binary, DebugFiles(options.debuginfo), flow, force, warn)
    ran = replace(ran, matched=placeable(ran.matched, ran.functions))
    check_names(ran, force, warn)
    progress(f"laying out {len(ran.matched.samples):,} functions")
    return of_ran(ran, replace(options, budget=budget), flow, build, warn)


def budget_for(ran: Ran, budget: Budget | None = None) -> Budget:
    """Return *budget*, by default this machine's, which does not hold for a program for another processor."""
    budget = budget or budget_of()
    return elsewhere() if budget.here and ran.functions.image.machine is not native() else budget


def carry(
    old: Ran, binary: str, debug: DebugFiles, flow: Flow | None, force: bool, warn: Callable[[str], None]
) -> tuple[Ran, Carried]:
    """Return what *old* says about *binary*, a newer build, and how much.  Raises HugealignError, MismatchError."""
    ran, build = carried(old, binary, debug.named(functions_of(binary)), flow)
    check_rate(ran, force, warn, "too little of the program is the same; --force continues anyway")
    return ran, build


def check_evidence(ran: Ran, budget: Budget, force: bool, warn: Callable[[str], None]) -> None:
    """Raise ThinError if so few samples can be worse than no order; with huge windows or *force*, only warn.

    A huge window makes up for a few samples, however large the program is.
    """
    samples, count = ran.matched.hits, len(ran.functions)
    few = FEW if budget.windows else max(FEW, count // _FUNCTIONS_PER_SAMPLE)
    if not 0 < samples < few or not any(FORMATS[form].sampled for _, form in ran.sources):
        return
    where = f"{samples} samples in {printable(ran.binary)}, which has {count} functions"
    problem = f"only {where}: on small pages an order from fewer than {few} can miss more often than no order"
    if budget.windows == 0 and not force:
        raise ThinError(f"{problem}, and no window would be huge; record at least {few}, or give --force")
    warn(f"{problem}; record at least {few}")


def check_names(ran: Ran, force: bool, warn: Callable[[str], None]) -> None:
    """Raise MismatchError if most of what ran has no name; for a smaller part, or with *force*, only warn."""
    matched = ran.matched
    if not matched.nameless:
        return
    share = matched.nameless / matched.hits
    where = f"{share:.1%} of the samples are in functions without a name, which no linker can place"
    problem = f"{printable(ran.binary)}: {where}"
    advice = "give the binary before strip (-b), or the directory of its debug file (--debuginfo)"
    if share > _MOST_NAMELESS and not force:
        raise MismatchError(f"{problem}; {advice}, or give --force")
    warn(f"{problem}; {advice}")


def of_ran(
    ran: Ran,
    options: OrderOptions,
    flow: Flow | None = None,
    build: Carried | None = None,
    warn: Callable[[str], None] = silent,
) -> Order:
    """Return the order of the functions that *ran*, and with *flow* of their blocks.  Raises HugealignError."""
    budget = budget_for(ran, options.budget)
    calls, references = Calls(ran.binary, ran.functions), References(ran.binary, ran.functions)
    divided_functions = None
    if flow is not None:
        ran, divided_functions = of_blocks(ran, flow, warn, build)
    size = page_size_of(ran.functions.image.machine, options.page_size)
    room = WindowRoom(size, budget.windows, budget.costs)
    problem = Problem(ran.matched, ran.functions, room, calls, parts=parts(divided_functions))
    if options.fill:
        if not calls.readable:
            name = ran.functions.image.processor
            warn(f"{printable(ran.binary)}: calls in code of {name} are not read; functions are not filled in by them")
        problem = replace(problem, fill=calls, references=references)
    return Order(ran, budget, plan(problem), blocks=divided_functions, carried=build)


def of_blocks(
    ran: Ran, flow: Flow, warn: Callable[[str], None], build: Carried | None = None
) -> tuple[Ran, dict[int, KeptBlocks]]:
    """Return *ran* with each function reduced to its blocks that stay, and those blocks.

    Debug information tells functions of one name apart; a warning goes to *warn* if it cannot be read.  Raises
    HugealignError for a file that has no map of blocks, or one that cannot be read.
    """
    functions, matched = ran.functions, ran.matched
    known = build.moved if build else None
    blocks = known.maps if known else require_blocks(ran.binary, {functions.starts[index] for index in matched.samples})
    units: dict[str, str] = {}
    if share_names(blocks, functions, matched):
        try:
            units = read_units(ran.binary)
        except HugealignError as error:
            warn(f"{error}; functions of the same name are not distinguished")
    laid_out = kept_blocks(flow, blocks, functions, matched, units, known.counted if known else None)
    several = {index for index in matched.samples if len(blocks.get(functions.starts[index], ())) > 1}
    if known is None and (whole := only_entered(flow, functions, several - laid_out.keys())):
        warn(
            f"{counted(whole, 'function')} that ran {are(whole)} not split: the profile has calls there, and nothing "
            "of the inside, as of what BOLT does not instrument"
        )
    arcs: dict[tuple[int, int, int | None], int] = {}
    for (caller, callee, offset), count in matched.arcs.items():
        moved = laid_out[caller].at(offset) if caller in laid_out and offset is not None else offset
        arcs[caller, callee, moved] = arcs.get((caller, callee, moved), 0) + count
    return replace(ran, functions=divided(functions, laid_out), matched=replace(matched, arcs=arcs)), laid_out


def parts(kept: Mapping[int, KeptBlocks] | None) -> dict[int, int]:
    """Return the indices of the parts that leave functions, by the functions' indices."""
    return {index: blocks.part for index, blocks in (kept or {}).items() if blocks.leaves}
