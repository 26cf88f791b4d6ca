"""The link itself: understand it, try it with our layout, check the output, and keep it or link without our layout.

One rule comes before all others here: a link that succeeds without hugealign succeeds with it, and its output is no
less guarded.  If in doubt, the real linker runs with the user's arguments untouched.
"""

import os

from hugealign.environment import die_of_pipes, reserve_standard_descriptors
from hugealign.errors import HugealignError
from hugealign.link import estimate, linkers, running
from hugealign.link.attempt import Attempt, Output, Recipe, laid_out, load_checks, plain, read_output
from hugealign.link.job import Job, LeftAlone, state, understand
from hugealign.settings import Settings, from_environ

#: The note about a link without our layout, and where to read more.
_PLAINLY = "linked without huge-page layout"
_MORE = "; HUGEALIGN_DEBUG=1 shows what the link did"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from hugealign.link.order.plan import OrderedLink
    from hugealign.link.running import LinkerRun


#: In place of a recipe, sh/shim.sh passes this, a colon, and the input that is a pipe.
ONCE = "once"


class LinkReport:
    """How far a link has come, and what to print about it on stderr.

    *linked*: its *output* is final.  *messages* are those of the linker that counts; *shortfall* is the line about the
    layout, empty if all is well.
    """

    def __init__(self, debugging: bool) -> None:
        self.debugging = debugging
        self.linked = False
        self.output = "a.out"
        self.messages = b""
        self.shortfall = ""

    def warn(self, message: str) -> None:
        """Print one line."""
        self._say("warning", message)

    def error(self, message: str) -> None:
        """Print the line that says why the link fails."""
        self._say("error", message)

    def debug(self, message: str) -> None:
        """Print one line if HUGEALIGN_DEBUG requests it."""
        if self.debugging:
            self._say("debug", message)

    def _say(self, kind: str, message: str) -> None:
        from hugealign.io.units import printable

        running.say(kind, f"{printable(self.output)}: {printable(message)}")


def link(real: str, arguments: list[str], settings: Settings, started: str, report: LinkReport) -> int:
    """Do the link and return its exit status.  Does not return if there is nothing to check.

    *started* names the recipe with which sh/shim.sh has already started the link, empty if it has not.
    """
    job = understand(real, arguments, settings)
    kind, _, once = started.partition(":")
    if kind == ONCE:
        started, job = "", LeftAlone(job.output, f"{once} can be read only once")
    report.output = job.output
    before = () if started else state(job.output)  # the linker may have begun before we looked
    status = _link(job, [real, *arguments], settings, started, report)
    if isinstance(job, Job):
        settings = job.with_users_page_size().settings
    elif job.excluded:
        return status
    if status == 0 and settings.check == "error" and (reason := check_output(job.output, settings, before)):
        report.error(report.shortfall or reason)
        os.unlink(job.output)
        return 1
    if report.shortfall:
        report.warn(report.shortfall)
    return status


def check_output(path: str, settings: Settings, before: tuple[int, ...]) -> str:
    """Return why `hugealign verify` fails the output at *path*, empty if it does not.

    Empty also if the link left the file that was there *before*, or made something other than a program.
    """
    if not os.path.isfile(path) or before == state(path):
        return ""
    from hugealign.link.check import failure

    return failure(path, settings)


def _link(job: Job | LeftAlone, plainly: list[str], settings: Settings, started: str, report: LinkReport) -> int:
    """Lay the *job* out if it is one, else link *plainly*."""
    if started:
        load_checks()  # while the linker runs
        first = running.started()
        if isinstance(job, Job):
            job = job.changed(before=())
            return _laid_out(job, Recipe(linkers.named(started)), report, first=first)
    if not isinstance(job, Job):
        return _left_alone(job, plainly, job.reason, settings, report)
    linker = linkers.identify(job.real) or linkers.identify(job.real, _version(job.real))
    if linker is None or linker.name not in job.machine.linkers:
        known = linker and f"hugealign has no layout for {job.machine.name} by {linker.name}"
        return _left_alone(job, plainly, known or "the linker cannot be identified", settings, report)
    job = job.with_users_page_size()
    small = estimate.code_bytes(job.command, settings.min_text) < settings.min_text
    if small:
        run = plain(job)
        if run.status or (reason := _reason_for_plain(job, read_output(job))):
            report.debug(f"left alone: {f'the linker failed: status {run.status}' if run.status else reason}")
            return run.status
    recipe = Recipe(linker, _order(job, linker, report))
    return _laid_out(job, recipe, report, quiet=small)


def _left_alone(job: Job | LeftAlone, plainly: list[str], reason: str, settings: Settings, report: LinkReport) -> int:
    """Link *plainly*, because of *reason*; note it if the output has text that is worth windows, and lacks them."""
    report.debug(f"left alone: {reason}")
    excluded = isinstance(job, LeftAlone) and job.excluded
    if excluded or settings.check == "off" or (os.path.exists(job.output) and not os.path.isfile(job.output)):
        running.become(plainly)
    before = state(job.output)
    status = running.spawn(plainly, False, load_checks).status
    report.linked = True
    if status == 0 and before != state(job.output):
        from hugealign.link.check import lacks_windows

        if lacks_windows(job.output, settings):
            report.shortfall = f"{_PLAINLY}: {reason}{_MORE}"
    return status


def _laid_out(
    job: Job, recipe: Recipe, report: LinkReport, quiet: bool = False, first: "LinkerRun | None" = None
) -> int:
    """Link by *recipe*, unless *first* did; *quiet* if an earlier plain link has printed the linker's messages."""
    if report.debugging:
        report.debug(f"{job.real} as {recipe.linker.name}: {' '.join(_words(job, recipe.linker))}")
    from hugealign.link.check import broken

    attempts = [laid_out(job, recipe, first)]
    if attempts[0].run.status and b"GNU-stack" in attempts[0].run.stderr:
        recipe = recipe.changed(stack_note=False)  # with --fatal-warnings, if only the pad has the note
        attempts.append(laid_out(job, recipe))
    attempt = attempts[-1]
    if attempt.run.status:
        runs = [attempt.run for attempt in attempts]
        why = lambda: f"the linker said: {running.complaint(runs, report.messages)}"  # noqa: E731
        return _with_less(job, recipe, report, quiet, why)
    if reason := _reason_for_plain(job, attempt.output):
        report.debug(f"left alone: {reason}")
        return plain(job, capture=quiet).status
    guarded = _guarded(job, recipe, attempt, report, quiet)
    if isinstance(guarded, int):
        return guarded
    if guarded.output and (reason := broken(guarded.output.image)):
        return _with_less(job, recipe, report, quiet, lambda: reason)
    report.linked, report.messages = True, guarded.run.stderr
    if not quiet:
        guarded.run.forward()
    return _finish(job, recipe, guarded, report)


def _words(job: Job, linker: linkers.Linker) -> list[str]:
    """Return the words that a link gets beside the user's (``...``), without those of an order."""
    script = job.machine.linkers[linker.name] if linker.script else None
    size = job.settings.page_size
    return [*linker.arguments(["..."], size, linkers.PAD_OBJECT, script), *linker.base(job.command, size, job.machine)]


def _with_less(job: Job, recipe: Recipe, report: LinkReport, quiet: bool, why: "Callable[[], str]") -> int:
    """Link with less than *recipe*, in the end plainly, and warn *why*."""
    what = "linked without an order" if recipe.order else _PLAINLY
    if recipe.order:
        status = _laid_out(job, recipe.changed(order=None), report, quiet)
    else:
        # With its stderr closed a linker may end differently (mold does), so we print nothing either.
        run = plain(job, capture=quiet or os.get_inheritable(2))
        if not quiet:
            run.forward()
        status, report.messages = run.status, run.stderr
    if status == 0 and recipe.order:
        report.warn(f"{what}, because with it {why()}")
    elif status == 0:
        report.shortfall = f"{what}, because with it {why()}{_MORE}"
    return status


def _guarded(job: Job, recipe: Recipe, attempt: Attempt, report: LinkReport, quiet: bool) -> Attempt | int:
    """Return an attempt no less guarded than the plain link; the status of that link if there is no such attempt."""
    from hugealign.elf.guards import LOSSES, weaker
    from hugealign.link.check import doubtful

    ours = attempt.output
    if not ours or not doubtful(ours.guards, ours.image, job.command):
        return attempt
    run = plain(job, capture=True)
    reference = read_output(job)
    if run.status or not reference:
        return laid_out(job, recipe)
    bare = recipe.changed(stack_note=False)
    reason = weaker(ours.guards, reference.guards)
    repeated = laid_out(job, bare if reason or ours.guards.stack != reference.guards.stack else recipe)
    if repeated.output and repeated.run.status == 0 and not weaker(repeated.output.guards, reference.guards):
        return repeated
    run = plain(job, capture=True)
    if not quiet:
        run.forward()
    loss = LOSSES.get(reason, "it would be guarded less")
    report.shortfall = f"{_PLAINLY}, because with it {loss}{_MORE}"
    return run.status


def _finish(job: Job, recipe: Recipe, attempt: Attempt, report: LinkReport) -> int:
    """Free disk blocks of zeros, print the messages about the output, and return the exit status."""
    from hugealign.elf import edit
    from hugealign.link.check import shortfall

    linker = recipe.linker
    if attempt.output is None:
        return attempt.run.status
    image = attempt.output.image
    for note in attempt.notes:
        report.debug(note)
    if attempt.complaint:
        report.warn(attempt.complaint)
    if linker.wastes(job.machine):
        edit.dig_holes(job.command.output, image, linker.padded, linker.lead_section)
    report.shortfall = shortfall(image, linker, job.settings)
    return 0


def _order(job: Job, linker: linkers.Linker, report: LinkReport) -> "OrderedLink | None":
    """Return the profile's order for this link; None if there can be none, with a warning that says why."""
    if not job.settings.profile:
        return None
    from hugealign.link.order import plan

    if job.command.ordered:
        report.warn("linked without the order of HUGEALIGN_PROFILE: the command line has one of its own")
    elif not (form := linker.order_form(job.machine)):
        report.warn(f"linked without an order, which {linker.name} cannot make; use -fuse-ld=lld or -fuse-ld=bfd")
    else:
        try:
            return plan.read(form, linker, job)
        except HugealignError as error:
            report.warn(f"linked without an order: {error}; make one: hugealign order PROFILE -b PROGRAM -o FILE")
    return None


def _version(real: str) -> str:
    """Return the first line that the real linker's ``--version`` prints."""
    return running.spawn([real, "--version"], capture=True).stdout.decode("utf-8", "replace").partition("\n")[0]


def _reason_for_plain(job: Job, output: Output | None) -> str:
    """Return why the *output* is to be the plain link's; empty if it is worth a layout."""
    from hugealign.elf.coverage import coverage
    from hugealign.io.units import format_size

    if output is None:
        return "the linker has written no program or library"
    text = coverage(output.image, job.settings.page_size).text
    if text >= job.settings.min_text:
        return ""
    return f"{format_size(text)} of text are less than HUGEALIGN_MIN_TEXT, {format_size(job.settings.min_text)}"


def main(argv: list[str]) -> "NoReturn":
    """Run as a linker: *argv* is the started recipe or an empty word, the real linker, and the user's arguments."""
    reserve_standard_descriptors()
    die_of_pipes()
    started, real, *arguments = argv
    try:
        settings = from_environ(os.environ)
    except HugealignError as error:
        running.say("error", str(error))
        os._exit(125)
    report = LinkReport(settings.debug)
    try:
        status = link(real, arguments, settings, started, report)
    except KeyboardInterrupt:
        running.leave(-2)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with us, the user's link comes first
        what = f"{error.strerror or error}" if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        done = "linked without a check" if report.linked else "linked without hugealign"
        if not report.linked and settings.check == "error":
            done = "not linked"
        report.warn(f"{done}, because hugealign failed: {what}")
        if started in linkers.KINDS:
            running.drain()  # the linker that was started must not write at the same time as the one that replaces us
        if not report.linked and settings.check != "error":
            running.become([real, *arguments])
        status = int(settings.check == "error")  # an unchecked link must not pass
    if started in linkers.KINDS and status < 0:
        os._exit(128 - status)  # sh/shim.sh waits for us, and passes the signal on
    running.leave(status)
