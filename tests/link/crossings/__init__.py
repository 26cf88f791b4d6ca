"""Programs that reach across the break of a separated file, or look as if they did: what becomes of each.

The tables are the ``.txt`` files here; README.md says how they are read.  ``python -m tests.link.crossings`` builds all
programs, or those whose name has a word of its command line, and prints what each became.
"""

import json
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.link import test_aarch64
from tests.link.bulk import bulk_object
from tests.referee import unexplained
from tests.support import HUGEALIGN, LLVM, diagnoses, lacking, run

FOLDER = Path(__file__).parent
KEYS = frozenset("expect stripped each compiler options link linkers cpu frame bulk sample".split())
EXPECTATIONS = ("refused", "fixed", "either", "unseen")
FRAMES = {
    "get": """
#include <stdio.h>
extern const unsigned char *get(void);
int main(void) {
    const unsigned char *p = get();
    puts(p[0] == 0x7f && p[1] == 'E' && p[2] == 'L' && p[3] == 'F' ? "ELF" : "garbage");
    return 0;
}
""",
    "value": """
#include <stdio.h>
extern long value(void);
int main(void) { printf("%lx\\n", value()); return 0; }
""",
    "text": """
#include <stdio.h>
extern const char *text(void);
int main(void) { printf("%.16s\\n", text()); return 0; }
""",
    "whole": "",
}
#: Each linker with the words that choose it; those that put constants before the text need more of it for a window.
LINKERS = {
    "bfd": ("-fuse-ld=bfd",),
    "bfd-together": ("-fuse-ld=bfd", "-Wl,-z,noseparate-code"),
    "gold": ("-fuse-ld=gold",),
    "lld": ("-fuse-ld=lld",),
    "mold": ("-fuse-ld=mold",),
}
CONSTANTS_FIRST = ("lld", "mold")
AARCH64 = ("bfd", "gold", "lld")
#: What `fix` says of a file for its references: one leads across the break, one may, a symbol would be left behind.
REASONS = ("fix.crosses", "fix.may-cross", "fix.unmoved-symbol")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a table."""

    name: str
    machine: str
    keys: dict[str, str]
    source: str

    def key(self, name: str, default: str = "") -> str:
        return self.keys.get(name, default)

    @property
    def compiler(self) -> list[str]:
        """The compiler, perhaps with options."""
        return shlex.split(self.key("compiler", "gcc" if self.machine == "x86-64" else test_aarch64.GCC))

    @property
    def linkers(self) -> list[str]:
        """The linkers that can do it; in the table, those that cannot stand with an exclamation mark, and why."""
        known = LINKERS if self.machine == "x86-64" else AARCH64
        words = re.sub(r"\(.*?\)", "", self.key("linkers")).split()
        assert {word.lstrip("!") for word in words} <= set(LINKERS), self.name
        named = [word for word in words if word[0] != "!"] or known
        return [name for name in known if name in named and f"!{name}" not in words]

    def expected(self, linker: str, stripped: bool) -> str:
        # mold gives every program the symbol of its header, so that says as little as none.
        nameless = (stripped or linker == "mold") and "stripped" in self.keys
        value = self.key("stripped") if nameless else self.key("expect")
        word = value.partition(" ")[0]
        assert word in EXPECTATIONS, f"{self.name}: {value}"
        assert word != "unseen" or re.search(r"\(.+\)", value), f"{self.name}: unseen without a reason"
        return word


@dataclass(frozen=True, slots=True)
class Case:
    """A program, a linker, and whether the program is stripped."""

    program: Program
    linker: str
    stripped: bool

    def __str__(self) -> str:
        return f"{self.program.name}-{self.linker}{'-stripped' * self.stripped}"

    @property
    def expected(self) -> str:
        return self.program.expected(self.linker, self.stripped)

    def command(self) -> list[str]:
        words = [*self.program.compiler, *LINKERS[self.linker]]
        if self.program.machine == "aarch64" and "clang" in words[0]:
            words.insert(1, "--target=aarch64-linux-gnu")
        if self.linker == "lld" and "clang" not in words[0]:
            words.append(f"-B{LLVM['lld19']}")
        return words

    def missing(self) -> str | None:
        """The tool that is missing here, or None."""
        runner = "qemu-aarch64" if self.program.machine == "aarch64" else "cc"
        return lacking(*self.command()) or (None if shutil.which(runner) else runner)


@dataclass(slots=True)
class Outcome:
    """What became of a case: ``refused``, ``fixed`` or ``differs``, and more about it."""

    word: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


@dataclass(slots=True)
class Builder:
    """Compiles each program once, into *directory*, links and judges it."""

    directory: Path
    objects: dict[str, list[Path]] = field(default_factory=dict)
    bulks: dict[str, Path] = field(default_factory=dict)

    def compiled(self, case: Case) -> list[Path]:
        program = case.program
        if program.name not in self.objects:
            place = self.directory / re.sub(r"\W+", "-", program.name)
            place.mkdir(exist_ok=True)
            frame = FRAMES[program.key("frame", "whole")]
            sources = [place / "main.c", place / "part.S"] if frame else [place / f"main.{self._suffix(program)}"]
            sources[0].write_text(frame or program.source)
            if frame:
                stack = '.section .note.GNU-stack, "", %progbits\n'
                hidden = ".hidden __ehdr_start\n" * ("__ehdr_start" in program.source)
                sources[1].write_text(f"{hidden}.text\n{program.source}\n{stack}")
            words = [word for word in case.command() if not word.startswith(("-fuse-ld", "-Wl,", "-B"))]
            words += ["-fPIE", "-w", *shlex.split(program.key("options", "-O2"))]
            for source in sources:
                run(*words, "-c", source, "-o", source.with_suffix(".o"), cwd=place, check=True)
            self.objects[program.name] = [source.with_suffix(".o") for source in sources]
        return self.objects[program.name]

    @staticmethod
    def _suffix(program: Program) -> str:
        return "cc" if "++" in program.compiler[0] else "c"

    def linked(self, case: Case) -> Path:
        program, machine = case.program, case.program.machine
        inputs = list(self.compiled(case))
        if case.linker in CONSTANTS_FIRST or program.key("bulk"):
            if machine not in self.bulks:
                compiler = test_aarch64.GCC if machine == "aarch64" else "gcc"
                place = self.directory / f"bulk {machine}"
                place.mkdir(exist_ok=True)
                self.bulks[machine] = bulk_object(place, compiler=compiler)
            inputs.append(self.bulks[machine])
        path = inputs[0].with_name(f"{case.linker}{'-stripped' * case.stripped}")
        words = [*case.command(), "-pie", *inputs, *shlex.split(program.key("link")), *["-s"] * case.stripped]
        run(*words, "-Wl,--build-id=sha1", "-o", path, check=True)
        return path

    def outcome(self, case: Case, level: str = "--level=separate") -> Outcome:
        """Return what `fix` makes of a case at *level*, no option for the default one."""
        path = self.linked(case)
        output = path.with_name(f"{path.name}.fixed")
        output.unlink(missing_ok=True)
        runnable = set(case.program.key("cpu").split()) <= processor_flags()
        before = self._run(case, path) if runnable else None
        assert before is None or (before[0] == 0 and before[1]), f"{case}: the original does not work: {before}"
        words = (HUGEALIGN, "fix", *[level] * bool(level), "--json", path, "-o", output)
        done = run(*words, HUGEALIGN_MIN_TEXT="0", XDG_STATE_HOME=str(self.directory / "state"))
        if done.returncode == 1 and not output.exists():
            codes = sorted({found["code"] for found in diagnoses(json.loads(done.stdout))})
            result = Outcome("refused", " ".join(codes))
        elif done.returncode or not output.exists():
            result = Outcome("failed", f"status {done.returncode}: {done.stderr.strip()}")
        elif before and (after := self._run(case, output)) != before:
            result = Outcome("differs", f"{before} becomes {after}")
        elif level and (faults := unexplained(path, output)):
            result = Outcome("differs", "; ".join(faults[:3]))
        else:
            result = Outcome("fixed", "" if before else "not run")
        output.unlink(missing_ok=True)
        path.unlink()
        return result

    def _run(self, case: Case, path: Path) -> tuple[int, str, str]:
        runner = test_aarch64.QEMU if case.program.machine == "aarch64" else ()
        done = run(*runner, path, cwd=path.parent)
        return done.returncode, done.stdout, done.stderr


def wrong(case: Case, outcome: Outcome) -> str:
    """Return what is wrong with an outcome, empty if nothing is.

    A crossing that cannot be seen may do anything: `test_unseen` makes sure that the mark is deserved.
    """
    word, expected = outcome.word, case.expected
    if word not in ("refused", "fixed", "differs"):
        return str(outcome)
    if expected in ("unseen", word) or (expected == "either" and word != "differs"):
        reason = word == "refused" and expected == "refused" and outcome.detail not in REASONS
        return f"refused, but for another reason: {outcome.detail}" if reason else ""
    return f"{outcome}; expected: {expected}"


def processor_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.partition(":")[2].split())
    return set()


def parse(path: Path) -> Iterator[Program]:
    """Yield the programs of a table; one with the key ``each`` becomes as many as that has values."""
    machine = "aarch64" if path.stem.startswith("aarch64") else "x86-64"
    for block in re.split(r"^== ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        head, _, source = rest.partition("\n\n")
        keys = {name: value.strip() for name, _, value in (line.partition(":") for line in head.splitlines())}
        assert set(keys) <= KEYS, f"{path.name}: {title}: {set(keys) - KEYS}"
        values = [value.strip() for value in keys.pop("each", "").split(" | ")]
        for value in values:
            name = f"{path.stem}: {title.replace('VALUE', value)}"
            replaced = {key: text.replace("VALUE", value) for key, text in keys.items()}
            yield Program(name, machine, replaced, source.replace("VALUE", value).replace("HEADER", "__ehdr_start"))


def instructions(path: Path) -> Iterator[Program]:
    """Yield a program for each line: an instruction that reads the header, what returns its result, its processor."""
    for line in path.read_text().splitlines():
        if not line or line[0] == "#":
            continue
        code, _, rest = line.partition(" | ")
        keys = dict(word.split("=", 1) for word in rest.split())
        source = ".globl value\n.type value, %function\nvalue:\nxor %eax, %eax\n@\nret\n.size value, . - value\n"
        text = code.replace("HEADER", "__ehdr_start")
        keys = {"expect": "refused", "frame": "value", "linkers": "bfd lld"} | keys
        parts = code.split("; ")
        reads = next(i for i, part in enumerate(parts) if "HEADER" in part)
        name = "; ".join(parts[reads - parts[reads].startswith(".long") : reads + 1]).replace("HEADER", "header")
        yield Program(f"{path.stem}: {name}", "x86-64", keys, source.replace("@", text))


def programs() -> list[Program]:
    """Return all programs of all tables."""
    tables = sorted(FOLDER.glob("*.txt"))
    result = [p for path in tables for p in (instructions if path.stem == "instructions" else parse)(path)]
    repeated = [name for name, count in Counter(p.name for p in result).items() if count > 1]
    assert not repeated, repeated
    return result


def main() -> None:
    """Print what becomes of each case, wrong ones with an exclamation mark, and how many become what."""
    words, counts = sys.argv[1:], Counter[str]()
    with tempfile.TemporaryDirectory() as directory:
        builder = Builder(Path(directory))
        for case in CASES:
            if (words and not any(word in str(case) for word in words)) or case.missing():
                continue
            try:
                outcome = builder.outcome(case)
            except AssertionError as error:
                outcome = Outcome("failed", " ".join(str(error).split())[:300])
            reason = wrong(case, outcome)
            print("!" if reason else " ", case, reason or outcome, sep="\t", flush=True)
            counts[f"{case.expected} -> {outcome.word}"] += 1
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")


PROGRAMS = programs()
CASES = [
    Case(program, linker, stripped) for program in PROGRAMS for linker in program.linkers for stripped in (False, True)
]
