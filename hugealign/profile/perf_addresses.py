"""``perf script`` with addresses, resolved in exactly the binary that was sampled: no names are needed.

perf prints addresses in two ways (measured with 6.1): a flat sample or a branch stack has addresses of the process, a
call chain has offsets in the file.  In text alone, the location tells: an address lies in a mapping of the process, an
offset in a text segment of the file; in a large program that is not moved, an offset can be both.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from hugealign.code.callsites import CallSites
from hugealign.elf import textplaces
from hugealign.elf.symbols import Functions
from hugealign.elf.textplaces import Layout
from hugealign.io.units import printable
from hugealign.profile.lines import blocks, samples
from hugealign.profile.model import ANOTHER_RAN, NOWHERE, Profile, ProfileError
from hugealign.profile.perf_spaces import ELSEWHERE, FOREIGN, Processes, Program, Space
from hugealign.profile.source import ProfileSource

_MMAP = re.compile(
    rb".*PERF_RECORD_MMAP2? (-?\d+)/-?\d+: \[0x([0-9a-f]{1,16})\(0x([0-9a-f]{1,16})\) @ (?:0x)?([0-9a-f]{1,16})\b"
    rb".*?\]?: (\S+) (.*)\Z"
)
_FORK = re.compile(rb".*PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")
_EXEC = re.compile(rb".*PERF_RECORD_COMM exec: .*:(\d+)/\d+\Z")
#: Without backtracking (`++`) where a hostile line would take time in the square of its length.
_SAMPLE = re.compile(rb"\s*+(\d++)(?: .{0,512}?:)?(?:\s+([0-9a-f]{1,16}))?(?: \((.*)\))?\s*\Z")
_FRAME = re.compile(rb"\t\s*([0-9a-f]{1,16})(?: \((.*)\))?\Z")
_BRANCH = re.compile(rb"\s*+(?:(\d++)\s++)?(?:.*: ++[0-9a-f]++ ++)?(0x[0-9a-f]+/0x[0-9a-f]+/.*)\Z")
_INLINED = re.compile(rb"^\t[^\n]* \(inlined\)\n", re.MULTILINE)
#: A frame of the kernel: in the upper half, as on x86-64 (Documentation/arch/x86/x86_64/mm.rst), AArch64 and RISC-V.
_KERNEL = re.compile(rb"\t *[89a-f][0-9a-f]{15}\b")
_KNOWN_LIMIT, _KNOWN_LENGTH = 64 << 20, 512  # bytes of the frames whose meaning is kept, and of one
_PIDS_LIMIT, _PIDS_LENGTH = 100_000, 128  # texts before the addresses of samples, and bytes of one
_KINDS_LIMIT, _KEPT = 128 << 20, 256  # bytes of samples that are looked up, and the overhead of one
_FILES_LIMIT = 10_000  # files that are known to be the binary or not
_LINE_LIMIT, _BRANCHES_LIMIT = 1 << 13, 1 << 16  # bytes of a line, longer than any path; and of a line with branches
_WORTH = 20  # samples per frame above the innermost; with more, chains hardly matter
_LONGEST = 1 << 16  # the longest plausible run without a branch, in bytes


#: The meaning of a usual sample: its function, the caller of that, the offset there, and the offset of the sample.
_Kind = tuple[int, int, int, int]


class _Kinds(dict[bytes, _Kind | None]):
    """The meaning of samples, byte for byte; *find* finds unknown ones."""

    def __init__(self, find: Callable[[bytes], _Kind | None]) -> None:
        super().__init__()
        self.find = find

    def __missing__(self, sample: bytes) -> _Kind | None:
        return self.find(sample)


class Executed(NamedTuple):
    """A mapping of code: *size* bytes of the file at *path*, from *offset* on."""

    path: bytes
    size: int
    offset: int


def executed(line: bytes) -> Executed | None:
    """Return what the event in *line* maps for execution, None for other lines."""
    match = _MMAP.match(line) if len(line) <= _LINE_LIMIT else None
    if match is None or b"x" not in match[5]:
        return None
    return Executed(match[6].removesuffix(b" (deleted)"), int(match[3], 16), int(match[4], 16))


def _kernel_frames(frames: Sequence[bytes]) -> int:
    """Return how many of *frames*, innermost first, are the kernel's.

    The next one is not a caller: it is where the program was when it entered the kernel, at a page fault or an
    interrupt anywhere in a function.
    """
    return next((count for count, frame in enumerate(frames) if not _KERNEL.match(frame)), len(frames))


def _physical(block: bytes) -> bytes:
    """Return *block* without the frames of inlined functions, which have the address of the frame below them."""
    return _INLINED.sub(b"", block) if b" (inlined)\n" in block else block


def read(source: ProfileSource, profile: Profile) -> None:
    """Add perf's output.  Raises ProfileError."""
    sites = CallSites(source.binary, source.functions.image)
    known = textplaces.layouts(source.binary, source.functions, ())
    AddressReader(profile, source.functions, source.ours, sites=sites, layouts=known).read(source.stream)


class AddressReader:
    """Adds samples to a profile.  *ours* tells whether a mapped file is the binary.

    *offsets*: whether call chains have offsets in the file.  Callers that match no call of *sites* are left out:
    without frame pointers, chains consist of whatever registers and stacks hold.  *layouts* are those that the file may
    have had (`textplaces`).

    Most samples equal others byte for byte, since they have no time.  Their meaning is worked out once and then looked
    up, which Python does faster than perf prints.
    """

    def __init__(
        self,
        profile: Profile,
        functions: Functions,
        ours: Callable[[bytes], bool],
        offsets: bool = False,
        sites: CallSites | None = None,
        layouts: Sequence[Layout] = (),
    ) -> None:
        self.profile, self.flow = profile, profile.flow
        self.ours = ours
        self.offsets = offsets
        self.sites = sites
        self.callers = self.stray = 0  # distinct frames, and those among them that are not callers
        self.program = Program(functions, layouts)
        self.processes = Processes(self.program, profile.room)
        self.space = self.processes.unmoved  # of the last sample
        self.kinds = _Kinds(self._kind)
        self.counts: Counter[_Kind | None] = Counter()
        self.size = 0  # roughly the bytes of the kinds, and of frames still to be looked at
        self.strangers: set[bytes] = set()  # their processes that are not known to have mapped the binary
        self.above: list[Space] = []  # the spaces that have frames to look at
        self.pids: dict[bytes, bytes] = {}  # by the text before the addresses of samples
        self.files: dict[bytes, bool] = {}  # whether the file that a frame names, with its bracket, is the binary

    def read(self, stream: BinaryIO) -> None:
        """Read all of *stream*.  Raises ProfileError if nothing says where the program was in memory."""
        for block in map(_physical, blocks(stream)):
            if b"PERF_RECORD_" in block:
                for sample in samples(block):
                    if b"PERF_RECORD_" in sample:
                        self._with_events(sample)
                    else:
                        self.counts[self.kinds[sample]] += 1
            else:
                self.counts.update(map(self.kinds.__getitem__, samples(block)))
            if self.size > _KINDS_LIMIT:
                self._settle()
        self._settle()
        # If samples rarely hit inside a call, the chains are not worth a warning.
        if self.stray * 2 > self.callers and self.callers * _WORTH > sum(self.profile.samples.values()):
            self.profile.notes.append(
                f"{self.stray} of {self.callers} frames above the innermost are not callers, and are left out: compile "
                "with -fno-omit-frame-pointer, or record with --call-graph dwarf"
            )
        if self.program.unplaced and self.processes.moved:
            self.profile.notes.append(
                "no mapping has the size of the text of the debug file: it is taken to lie where most linkers put it; "
                "give the program itself (-b)"
            )
        elif self.program.strange:
            self.profile.notes.append(f"samples are left out: {ANOTHER_RAN}")
        known = self.processes.moved or self.program.functions.image.fixed
        if self.profile.good and not known and not self.profile.samples:
            if others := self.profile.others:
                raise ProfileError(
                    f"has addresses, and maps no file of the program's name, but {', '.join(map(printable, others))}: "
                    "give the program under the name that it ran by (-b)"
                )
            raise ProfileError(
                "has addresses of a position-independent program, but not where it was loaded: "
                "give the perf.data, or make the text with perf script --show-mmap-events --show-task-events"
            )

    def _with_events(self, sample: bytes) -> None:
        """Read lines of events, and the sample that may follow them without an empty line."""
        self.size += len(sample)
        lines = sample.split(b"\n")
        events = next((at for at, line in enumerate(lines) if b"PERF_RECORD_" not in line), len(lines))
        for line in lines[:events]:
            self._event(line)
        if lines := lines[events:]:
            rest = b"\n".join(lines)
            if b"PERF_RECORD_" in rest:
                self._sample(lines)
            else:
                self.counts[self.kinds[rest]] += 1

    def _event(self, line: bytes) -> None:
        if len(line) > _LINE_LIMIT:
            self.profile.bad += 1
        elif match := _MMAP.match(line):
            pid, start, size, offset, rights, path = match.groups()
            path = path.removesuffix(b" (deleted)")
            if not self.ours(path):
                self.profile.other_file(path)
                if b"x" in rights:
                    self.processes.elsewhere(pid)
            else:
                self._settle()
                first, at = int(start, 16), int(offset, 16)
                last = first + int(size, 16)
                if b"x" in rights and not self.processes.place(last - first, at):
                    at = ELSEWHERE
                kept = [old for old in self.processes.of(pid).maps if old[1] <= first or old[0] >= last]
                self.processes.move(pid, [*kept, (first, last, at)][-64:], mapped=True)
        elif match := _FORK.match(line):
            child, parent = match.groups()
            processes = self.processes
            maps = processes.of(parent).maps
            if child != parent and processes.of(child).maps != maps:
                if child in processes.moved or child in self.strangers:
                    self._settle()
                processes.fork(parent, child)
        elif (match := _EXEC.match(line)) and match.group(1) in self.processes.moved:
            self._settle()
            self.processes.move(match.group(1), list(self.program.fixed), mapped=False)

    def _kind(self, sample: bytes) -> _Kind | None:
        """Return the meaning of *sample*, None for an unusual one, which is added at once."""
        self.size += len(sample) + _KEPT
        lines = sample.split(b"\n")
        if chained := len(lines) > 1:
            before, usual = lines[0], lines[-1][:1] == b"\t"
        else:
            before, _, address = sample.rpartition(b" ")
            usual = len(address) <= 16 and address.isalnum()
        pid = self.pids.get(before)
        if pid is None or not usual:
            self._sample(lines)
            return None
        self.space = space = self.processes.of(pid)
        if space is self.processes.unmoved:
            self.strangers.add(pid)
        caller, offset = FOREIGN, 0
        if chained:
            leaf, at = space.leaves.get(lines[1]) or self._frame(lines[1], space.leaves, caller=False)
            entered = _kernel_frames(lines[1:])
            if above := lines[1 + (entered or 1) :]:
                known = space.leaves if entered else space.callers
                caller, offset = known.get(above[0]) or self._frame(above[0], known, caller=not entered)
                if len(above) > 1:
                    self._later(space, above[1:])
        else:
            try:
                leaf, at = self.program.at_address(int(address, 16), space)
            except ValueError:  # other letters
                self.profile.bad += 1
                return None
        kind = self.kinds[sample] = leaf, caller, offset, at if self.flow is not None else 0
        return kind

    def _settle(self) -> None:
        """Add the counts, and forget the meaning of samples: before mappings change, and at the end."""
        for kind, count in self.counts.items():
            if kind is None:
                continue
            leaf, caller, offset, at = kind
            self._count(leaf, at, count)
            if 0 <= caller != leaf >= 0:
                self.profile.call(caller, leaf, count, offset)
            elif caller >= 0:
                self.profile.add(caller)
        self.counts.clear()
        self.kinds.clear()
        self.strangers.clear()
        self.size = 0
        self._touch()

    def _sample(self, lines: list[bytes]) -> None:
        """Add one sample: its own line, and the lines of its frames, innermost first."""
        head, profile = lines[0], self.profile
        if len(head) > (_BRANCHES_LIMIT if b"/0x" in head else _LINE_LIMIT):
            profile.bad += 1
        elif b"/0x" in head and (branches := _BRANCH.match(head)):
            pid, words = branches.groups()
            self.space = self.space if pid is None else self.processes.of(pid)
            behind = None  # what ran next: branches are listed newest first
            for word in words.split():
                behind = self._branch(word, behind)
        elif len(head) <= _LINE_LIMIT and (match := _SAMPLE.match(head)):
            pid, address, path = match.groups()
            self.space = self.processes.of(pid)
            if path is None and len(self.pids) < _PIDS_LIMIT and len(head) < _PIDS_LENGTH:
                self.pids[head if address is None else head.rpartition(b" ")[0]] = pid
            if address is not None:
                found_at = FOREIGN, 0
                if path is None or self.ours(path.removesuffix(b" (deleted)")):
                    found_at = self.program.at_address(int(address, 16), self.space)
                self._count(*found_at, 1)
        elif head.startswith(b"\t"):
            lines = [b"", *lines]  # without a line of the sample's own
        elif head.strip() and not head.strip().isdigit() and not head.startswith(b"#"):
            profile.bad += 1
        frames = lines[1:]
        if not frames:
            return
        while frames and not frames[-1].startswith(b"\t"):
            self._sample([frames.pop()])  # branches, and anything else below
        if frames:
            self._chain(frames)

    def _chain(self, frames: list[bytes]) -> None:
        space = self.space
        leaf = space.leaves.get(frames[0]) or self._frame(frames[0], space.leaves, caller=False)
        self._count(*leaf, 1)
        if entered := _kernel_frames(frames):
            if above := frames[entered:]:
                index, _ = space.leaves.get(above[0]) or self._frame(above[0], space.leaves, caller=False)
                if index >= 0:
                    self.profile.add(index)
                self._later(space, above[1:])
        elif len(frames) > 1:
            self._later(space, frames[1:])
            caller, offset = space.callers.get(frames[1]) or self._frame(frames[1], space.callers, caller=True)
            if 0 <= caller != leaf[0] >= 0:
                self.profile.call(caller, leaf[0], 1, offset)

    def _later(self, space: Space, frames: list[bytes]) -> None:
        """Remember *frames* that only say that they ran; each is looked at once."""
        if not space.above:
            self.above.append(space)
        space.above.update(frames)

    def _touch(self) -> None:
        """Note the functions of all frames that were remembered."""
        last = self.space
        for space in self.above:
            self.space = space  # that frames are resolved in
            callers = space.callers
            touched = {callers.get(frame) or self._frame(frame, callers, caller=True) for frame in space.above}
            for index, offset in touched:
                if index >= 0:
                    self.profile.add(index)
                    self._inside(index, offset, 1)
            space.above.clear()
        self.above.clear()
        self.space = last

    def _count(self, index: int, offset: int, count: int) -> None:
        self.profile.good += count
        if index == FOREIGN:
            self.profile.foreign += count
        else:
            self.profile.add(index, count)
            self._inside(index, offset, count)

    def _inside(self, index: int, offset: int, count: int) -> None:
        if self.flow is not None and index >= 0:
            address = self.program.functions.starts[index] + offset
            self.flow.run(address, address + 1, count)

    def _frame(self, line: bytes, known: dict[bytes, tuple[int, int]], caller: bool) -> tuple[int, int]:
        words, _, path = line.partition(b" (")
        digits = words[1:].lstrip()
        ours = self.files.get(path)
        if ours is None or not digits.isalnum() or len(digits) > 16 or words[:1] != b"\t":
            match = _FRAME.match(line)
            if not match:
                self.profile.bad += 1
                return FOREIGN, 0
            digits, file = match.groups()
            ours = file is None or self.ours(file.removesuffix(b" (deleted)"))
            if len(self.files) < _FILES_LIMIT and len(path) < _KNOWN_LENGTH:
                self.files[path] = ours
        resolved = (FOREIGN, 0)
        if ours:
            # A caller's address is where it continues: after a last call that never returns, that is the next function.
            try:
                address = int(digits, 16) - caller
                program = self.program
                direct = self.offsets and not self.space.strange
                resolved = program.at_offset(address) if direct else program.at_either(address, self.space)
                if caller and self.sites is not None and resolved[0] >= 0:
                    site = program.functions.starts[resolved[0]] + resolved[1] + 1
                    self.callers += 1
                    if not self.sites.possible(site):
                        self.stray += 1
                        resolved = (FOREIGN, 0)
            except ValueError:  # other letters
                self.profile.bad += 1
                return resolved
        if self.processes.frames < _KNOWN_LIMIT and len(line) < _KNOWN_LENGTH:
            size = len(line) + _KEPT
            self.space.frames += size
            self.processes.frames += size
            known[line] = resolved
        return resolved

    def _branch(self, word: bytes, behind: int | None) -> int | None:
        """Add a branch, ``0xFROM/0xTO/P/-/-/cycles``, and the run from its target to *behind*; return its source."""
        profile = self.profile
        try:
            source, target = (int(part, 16) for part in word.split(b"/", 2)[:2])
        except ValueError:
            profile.bad += 1
            return None
        caller, offset = self.program.at_address(source, self.space)
        callee, entry = self.program.at_address(target, self.space)
        self._count(caller, offset, 1)
        if callee >= 0:
            profile.add(callee)
        if caller != callee and entry == 0 and caller != NOWHERE and min(caller, callee) >= 0:
            profile.call(caller, callee, 1, offset)
        if self.flow is None:
            return None
        starts = self.program.functions.starts
        begin = starts[callee] + entry if callee >= 0 else -1
        if callee >= 0 and caller >= 0:
            self.flow.jump(starts[caller] + offset, begin, 1)
        if callee >= 0 and entry and caller != callee:
            self.flow.back(begin, 1)
        if behind is not None and 0 <= begin <= behind < begin + _LONGEST:
            self.flow.run(begin, behind + 1, 1)
        return starts[caller] + offset if caller >= 0 else None
