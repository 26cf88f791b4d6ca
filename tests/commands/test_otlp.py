"""OpenTelemetry's profiles, as its own classes write them; and builds whose names only a debug file has."""

import gzip
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData

from hugealign.elf.symbols import Functions, read_functions
from hugealign.profile import counts
from hugealign.profile.model import ProfileError
from tests.commands.profiles import SAMPLES, arcs, functions_of, load, named
from tests.support import HUGEALIGN, run

BASE = 0x555555554000
KEY = "process.executable.build_id.gnu"


def samples_of(mine: dict[bytes, int]) -> int:
    return sum(count for key, count in mine.items() if key.startswith(b"f\t"))


class Made:
    """A message that grows, with the tables that OpenTelemetry requires."""

    def __init__(self) -> None:
        self.data = ProfilesData()
        self.tables = self.data.dictionary
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(self.tables, f"{table}_table").add()
        self.tables.string_table.append("")
        resource = self.data.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "a"
        self.scope = resource.scope_profiles.add()

    def string(self, text: str) -> int:
        if text not in self.tables.string_table:
            self.tables.string_table.append(text)
        return list(self.tables.string_table).index(text)

    def mapping(self, path: str, build_id: str = "", start: int = BASE + 0x1000) -> int:
        """Map a program's text, which GNU ld puts at 0x1000 in the file and in memory."""
        self.tables.mapping_table.add(
            memory_start=start, memory_limit=start + 0x1000, file_offset=0x1000, filename_strindex=self.string(path)
        )
        if build_id:
            attribute = self.tables.attribute_table.add(key_strindex=self.string(KEY))
            attribute.value.string_value = build_id
            self.tables.mapping_table[-1].attribute_indices.append(len(self.tables.attribute_table) - 1)
        return len(self.tables.mapping_table) - 1

    def location(self, mapping: int, address: int = 0, *names: str) -> int:
        self.tables.location_table.add(mapping_index=mapping, address=address)
        for name in names:
            self.tables.function_table.add(name_strindex=self.string(name))
            self.tables.location_table[-1].lines.add(function_index=len(self.tables.function_table) - 1)
        return len(self.tables.location_table) - 1

    def stack(self, *locations: int) -> int:
        self.tables.stack_table.add(location_indices=locations)
        return len(self.tables.stack_table) - 1

    def profile(self, kind: str = "samples", unit: str = "count", period: int = 0):  # type: ignore[no-untyped-def] # noqa: ANN201
        made = self.scope.profiles.add(period=period)
        made.sample_type.type_strindex, made.sample_type.unit_strindex = self.string(kind), self.string(unit)
        return made

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data.SerializeToString())
        return path


def two_frames(functions: Functions) -> Made:
    """12 samples in hot, which main has called, by addresses in the very build."""
    made = Made()
    mapping = made.mapping("/srv/prog", functions.build_id)
    hot, main = (functions.starts[functions.by_name[name][0]] for name in ("hot", "main"))
    stack = made.stack(made.location(mapping, BASE + hot + 3), made.location(mapping, BASE + main + 9))
    profile = made.profile()
    profile.samples.add(stack_index=stack, timestamps_unix_nano=[1, 2, 3])
    profile.samples.add(stack_index=stack, values=[4, 5])
    return made


def backwards(message: Message) -> bytes:
    """Return *message* as Go writes it: fields from the last to the first, at each level."""
    parts = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type and descriptor.is_repeated:
            parts.append(b"".join(_piece(descriptor.number, backwards(item)) for item in value))
        elif descriptor.message_type:
            parts.append(_piece(descriptor.number, backwards(value)))
        else:
            single = type(message)()
            if descriptor.is_repeated:
                getattr(single, descriptor.name).extend(value)
            else:
                setattr(single, descriptor.name, value)
            parts.append(single.SerializeToString())
    return b"".join(reversed(parts))


def _piece(number: int, data: bytes) -> bytes:
    size, written = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(written) + bytes([size]) + data


def forms(data: ProfilesData) -> Iterator[tuple[str, bytes]]:
    """Yield *data* as different programs write it."""
    plain = data.SerializeToString()
    yield "stored", plain
    yield "sent", ExportProfilesServiceRequest.FromString(plain).SerializeToString()
    yield "packed", gzip.compress(plain)
    yield "go", backwards(data)
    yield "collector", len(plain).to_bytes(4) + plain
    assert ProfilesData.FromString(backwards(data)) == data


@pytest.mark.parametrize("form", ["stored", "sent", "packed", "go", "collector"])
def test_by_address(form: str, prog: Path, tmp_path: Path) -> None:
    functions = functions_of(prog)
    (tmp_path / "p").write_bytes(dict(forms(two_frames(functions).data))[form])
    _, matched, known = load(tmp_path / "p", prog)
    assert known == "otlp"
    assert named(matched.samples, functions) == {"hot": 12, "main": 0}
    assert arcs(matched, functions) == {("main", "hot"): 12}


def test_several_messages_of_one_file_add_up(prog: Path, tmp_path: Path) -> None:
    data = two_frames(functions_of(prog)).data.SerializeToString()
    (tmp_path / "p").write_bytes(2 * (len(data).to_bytes(4) + data))
    assert load(tmp_path / "p", prog)[1].hits == 24


def test_addresses_of_the_file(prog: Path, tmp_path: Path) -> None:
    """The eBPF profiler says where the file wants to lie, and Parca's agent normalizes addresses alone."""
    functions = functions_of(prog)
    hot = functions.starts[functions.by_name["hot"][0]]
    for start in (0x1000, BASE + 0x1000):
        made = Made()
        stack = made.stack(made.location(made.mapping("prog", functions.build_id, start), hot + 3))
        made.profile().samples.add(stack_index=stack, values=[7])
        assert named(load(made.write(tmp_path / "p"), prog)[1].samples, functions) == {"hot": 7}


def test_a_hosts_other_programs_are_foreign(prog: Path, tmp_path: Path) -> None:
    """Names in other files, and of what an interpreter runs, are not ours."""
    made = two_frames(functions_of(prog))
    other = made.stack(made.location(made.mapping("/lib/libc.so.6", "ab" * 20), 0x77, "hot"))
    script = made.stack(made.location(0, 5, "main"))
    for stack in (other, script):
        made.scope.profiles[0].samples.add(stack_index=stack, values=[100])
    _, matched, _ = load(made.write(tmp_path / "p"), prog)
    assert (matched.hits, matched.foreign) == (12, 200)


def test_names_alone(prog: Path, tmp_path: Path) -> None:
    """Without mappings names must do; of inlined functions the last counts."""
    made = Made()
    stack = made.stack(made.location(0, 0, "inlined", "hot"), made.location(0, 0, "main"))
    made.profile("cpu", "nanoseconds", 10_000_000).samples.add(stack_index=stack, values=[70_000_000])
    _, matched, _ = load(made.write(tmp_path / "p"), prog)
    assert named(matched.samples, functions_of(prog)) == {"hot": 7, "main": 0}


def test_one_recording_in_two_units_counts_once(prog: Path, tmp_path: Path) -> None:
    made = two_frames(functions_of(prog))
    made.profile("cpu", "nanoseconds").samples.add(stack_index=1, values=[999])
    made.profile("off_cpu", "nanoseconds").samples.add(stack_index=1, values=[999])
    profile, matched, _ = load(made.write(tmp_path / "p"), prog)
    assert matched.hits == 12
    assert profile.notes == ["what is of the type off_cpu does not say what ran: left out"]


def test_damage_is_said(prog: Path, tmp_path: Path) -> None:
    data = two_frames(functions_of(prog)).data.SerializeToString()
    read = 0
    for at in range(1, len(data)):
        (tmp_path / "p").write_bytes(data[:at])
        with suppress(ProfileError):
            load(tmp_path / "p", prog, "otlp")
            read += 1
    assert read < len(data) / 2
    made = two_frames(functions_of(prog))
    made.scope.profiles[0].samples.add(stack_index=99, values=[1])
    with pytest.raises(ProfileError, match="damaged"):
        load(made.write(tmp_path / "p"), prog)


# ---- debug files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another build of prog, in which all lies elsewhere; stripped, beside its debug file."""
    place = tmp_path_factory.mktemp("older")
    (place / "first.c").write_text("int first(int n) { return n * 3 + 1; }\nint again(int n) { return n ^ 77; }\n")
    flags = "-O1 -fno-omit-frame-pointer -fno-reorder-functions -ffunction-sections -c".split()
    sources = [place / "first.c", SAMPLES / "main.c", SAMPLES / "other.c"]
    subprocess.run(["gcc", *flags, *sources], cwd=place, check=True)
    objects = ["first.o", "main.o", "other.o"]
    subprocess.run(["gcc", "-Wl,--build-id", *objects, "-o", "full"], cwd=place, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", "full", "prog.debug"], cwd=place, check=True)
    subprocess.run(["strip", "-o", "prog", "full"], cwd=place, check=True)
    return place / "prog"


def _kept(older: Path, place: Path, layout: str) -> Path:
    """Put the debug file where GDB or debuginfod's clients look for it."""
    build_id = read_functions(older).build_id
    names = {
        "gdb": (f".build-id/{build_id[:2]}/{build_id[2:]}.debug", "prog.debug"),
        "debuginfod": (f"{build_id}/debuginfo", "prog.debug"),
        "executable": (f"{build_id}/executable", "full"),
    }
    name, source = names[layout]
    (place / name).parent.mkdir(parents=True)
    shutil.copy(older.with_name(source), place / name)
    return place


def _of_older(older: Path, prog: Path, tmp_path: Path) -> Path:
    """Samples of both builds by address, without a name."""
    made = two_frames(functions_of(prog))
    full = read_functions(older.with_name("full"))
    work = full.starts[full.by_name["work"][0]]
    mapping = made.mapping("/old/prog", full.build_id, BASE + 0x1000)
    made.scope.profiles[0].samples.add(stack_index=made.stack(made.location(mapping, BASE + work + 1)), values=[30])
    return made.write(tmp_path / "p")


@pytest.mark.parametrize("layout", ["gdb", "debuginfod", "executable"])
def test_other_builds_by_their_debug_files(layout: str, older: Path, prog: Path, tmp_path: Path) -> None:
    """`order` finds their names, `reduce` keeps them by build-id."""
    profile = _of_older(older, prog, tmp_path)
    words = ["--debuginfo", _kept(older, tmp_path / "debug", layout)]
    done = run(HUGEALIGN, "order", profile, "-b", prog, *words, "-o", tmp_path / "o", check=True)
    assert f"build    100.00 % of 30 of build {read_functions(older).build_id}\n" in done.stdout
    assert "\nwork\t" in (tmp_path / "o").read_text() or "\nwork " in (tmp_path / "o").read_text()
    run(HUGEALIGN, "profile", "reduce", profile, "-b", prog, *words, "-o", tmp_path / "c", check=True)
    result = counts.parse((tmp_path / "c").read_bytes())
    ids = {head.partition(b"\t")[0].decode(): mine for head, mine in result.items()}
    assert set(ids) == {functions_of(prog).build_id, read_functions(older).build_id}
    (work,) = (key for key in ids[read_functions(older).build_id] if key.startswith(b"f\t"))
    assert work.split(b"\t")[2] == b"work"
    assert {samples_of(mine) for mine in ids.values()} == {12, 30}


def test_both_builds_here_count_once(older: Path, prog: Path, tmp_path: Path) -> None:
    profile = _of_older(older, prog, tmp_path)
    run(HUGEALIGN, "profile", "reduce", profile, "-b", prog, "-b", older, "-o", tmp_path / "c", check=True)
    result = counts.parse((tmp_path / "c").read_bytes())
    assert sorted(samples_of(mine) for mine in result.values()) == [12, 30]


def test_a_build_without_names_is_told(older: Path, prog: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    profile = _of_older(older, prog, tmp_path)
    done = run(HUGEALIGN, "order", profile, "-b", prog, "--debuginfo", tmp_path / "none", check=True)
    assert "30 samples are of the build" in done.stderr
    assert "--debuginfo says where" in done.stderr


def test_a_debug_file_of_another_build_is_not_taken(older: Path, prog: Path, tmp_path: Path) -> None:
    kept = _kept(older, tmp_path / "debug", "gdb")
    (file,) = kept.rglob("*.debug")
    shutil.copy(prog, file)
    profile = _of_older(older, prog, tmp_path)
    assert "30 samples are" in run(HUGEALIGN, "order", profile, "-b", prog, "--debuginfo", kept, check=True).stderr


def test_a_stripped_program_has_the_names_of_its_debug_file(older: Path, tmp_path: Path) -> None:
    made = two_frames(read_functions(older.with_name("full")))
    profile = made.write(tmp_path / "p")
    words = ["profile", "reduce", profile, "-b", older, "-o", tmp_path / "c"]
    run(HUGEALIGN, *words, "--debuginfo", tmp_path, check=True)
    assert b"\thot\t" not in (tmp_path / "c").read_bytes()
    run(HUGEALIGN, *words, "--debuginfo", _kept(older, tmp_path / "debug", "gdb"), check=True)
    assert b"\thot\t" in (tmp_path / "c").read_bytes()
