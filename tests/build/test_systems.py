"""One small real project for each build system, built as its users build, with 2.9 MiB of text in each output.

Each way of calling hugealign that a system can take is tried; the slow repetitions run in `make test-links`.
"""

import shutil
from pathlib import Path

import pytest

from tests.build.projects import Settings, laid_out, linker_features, program, quiet, rust_host, write
from tests.link.bulk import MAIN, bulk_source
from tests.support import need, run

TWO_WORDS: Settings = {"CC": "hugealign gcc", "CXX": "hugealign g++"}
ONE_WORD: Settings = {"CC": "hugealign-gcc", "CXX": "hugealign-g++"}
CLANG: Settings = {"CC": "hugealign clang", "CXX": "hugealign clang++"}
slow = pytest.mark.matrix


BUILD = ("hugealign", "build", "--")
#: The ways of calling hugealign: words in front of each command of the build, and its environment.
WAYS = {"two-words": ((), TWO_WORDS), "one-word": ((), ONE_WORD), "clang": ((), CLANG), "build": (BUILD, {})}


def ways(*quick: str) -> pytest.MarkDecorator:
    """A test for each of the ways; those that are not named are left to the matrix."""
    values = [pytest.param(*way, id=name, marks=() if name in quick else slow) for name, way in WAYS.items()]
    return pytest.mark.parametrize(("front", "settings"), values)


def compiler(settings: Settings) -> str:
    """The compiler behind hugealign."""
    return str(settings.get("CC", "gcc")).split()[-1].removeprefix("hugealign-")


# make

MAKEFILE = """\
program: main.o bulk.o libshared.so
	$(CC) main.o bulk.o -o $@
libshared.so: bulk.o
	$(CC) -shared bulk.o -o $@
"""


@ways(*WAYS)
def test_make(front: tuple[str, ...], settings: Settings, tmp_path: Path) -> None:
    need("make", compiler(settings))
    write(program(tmp_path), {"Makefile": MAKEFILE})
    quiet(*front, "make", "-j2", *(f"{name}={value}" for name, value in settings.items()), cwd=tmp_path)
    for name in ("program", "libshared.so"):
        laid_out(tmp_path / name)


# autotools

CONFIGURE_AC = """\
AC_INIT([example], [1.0])
AC_CONFIG_AUX_DIR([build-aux])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AM_PROG_AR
LT_INIT
AM_PROG_AS
AC_CHECK_FUNCS([fork nowhere])
AC_SEARCH_LIBS([cos], [m])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
MAKEFILE_AM = """\
lib_LTLIBRARIES = libbulk.la
libbulk_la_SOURCES = bulk.s
libbulk_la_LDFLAGS = -version-info 1:0:0
bin_PROGRAMS = program shared
check_PROGRAMS = shared-again
TESTS = shared-again program
program_SOURCES = main.c
program_LDADD = libbulk.la
program_LDFLAGS = -static
shared_SOURCES = main.c
shared_LDADD = libbulk.la
shared_again_SOURCES = main.c
shared_again_LDADD = libbulk.la
"""


@pytest.fixture(scope="module")
def autotools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tree with a configure script."""
    need("autoreconf", "automake", "libtoolize", "make")
    source = program(tmp_path_factory.mktemp("autotools"))
    write(source, {"configure.ac": CONFIGURE_AC, "Makefile.am": MAKEFILE_AM})
    run("autoreconf", "-i", cwd=source, check=True)
    return source


@pytest.mark.matrix
@ways("two-words")
def test_autotools(front: tuple[str, ...], settings: Settings, autotools: Path, tmp_path: Path) -> None:
    need(compiler(settings))
    words = [f"{name}={value}" for name, value in settings.items()]
    quiet(*front, autotools / "configure", f"--prefix={tmp_path}/installed", *words, cwd=tmp_path)
    config = (tmp_path / "config.log").read_text()
    assert "ac_cv_func_fork=yes" in config
    assert "ac_cv_func_nowhere=no" in config
    quiet(*front, "make", "-j2", cwd=tmp_path)
    quiet(*front, "make", "check", cwd=tmp_path)
    quiet(*front, "make", "install", cwd=tmp_path)
    laid_out(tmp_path / "installed" / "bin" / "program")
    laid_out(tmp_path / "installed" / "lib" / "libbulk.so.1.0.0")
    assert run(tmp_path / "installed" / "bin" / "shared").returncode == 0


# Meson

MESON_BUILD = """\
project('example', 'c', 'cpp')
cc = meson.get_compiler('c')
if cc.has_function('nowhere') or not cc.has_function('fork')
  error('the checks are wrong')
endif
bulk = shared_library('bulk', 'bulk.S', 'empty.c')
executable('shared', 'main.c', link_with: bulk)
test('program', executable('program', 'main.c', 'bulk.S'))
executable('cxx', 'main.cc', 'bulk.S')
"""


@ways("two-words")
def test_meson(front: tuple[str, ...], settings: Settings, tmp_path: Path) -> None:
    need("meson", "ninja", compiler(settings))
    write(tmp_path, {"main.c": MAIN, "main.cc": f'extern "C" {MAIN}', "bulk.S": bulk_source(), "empty.c": "int nil;\n"})
    write(tmp_path, {"meson.build": MESON_BUILD})
    # Without CC, Meson puts a compiler cache of the user's in front of the compiler.
    done = quiet(*front, "meson", "setup", "build", cwd=tmp_path, **({"CC": "gcc", "CXX": "g++"} | settings))
    assert "WARNING" not in done.stdout + done.stderr, done.stdout
    quiet(*front, "meson", "compile", "-C", "build", cwd=tmp_path)
    quiet(*front, "meson", "test", "-C", "build", cwd=tmp_path)
    for name in ("program", "cxx", "libbulk.so"):
        laid_out(tmp_path / "build" / name)
    assert run(tmp_path / "build" / "shared").returncode == 0


# Rust

MAIN_RS = """\
extern "C" { fn big_sum() -> u32; }
fn main() { assert_eq!(unsafe { big_sum() }, 3000 * 2999 / 2); }
"""
CARGO_TOML = """\
[package]
name = "example"
version = "1.0.0"
edition = "2021"
[build-dependencies]
"""
BUILD_RS = """\
fn main() {
    println!("cargo:rustc-link-arg-bins=../bulk.o");
}
"""
BUILD_RS_CC = """\
fn main() {
    cc::Build::new().file("bulk.s").compile("bulk");
    println!("cargo:rerun-if-changed=bulk.s");
}
"""


@pytest.mark.parametrize("linker", ["hugealign-gcc", "hugealign-clang", "build"])
def test_rustc(linker: str, bulk: Path, tmp_path: Path) -> None:
    need("rustc", linker.removeprefix("hugealign-").replace("build", "gcc"))
    write(tmp_path, {"main.rs": MAIN_RS})
    words = [f"-Clinker={linker}"] if linker != "build" else linker_features()
    front = ["hugealign", "build"] if linker == "build" else []
    quiet(*front, "rustc", *words, f"-Clink-arg={bulk}", "main.rs", "-o", "program", cwd=tmp_path)
    laid_out(tmp_path / "program")


def test_rustc_with_the_linker_that_gcc_has(bulk: Path, tmp_path: Path) -> None:
    need("rustc", "gcc")
    write(tmp_path, {"main.rs": MAIN_RS})
    words = ("-Clinker=hugealign-gcc", *linker_features(), f"-Clink-arg={bulk}")
    quiet("rustc", *words, "main.rs", "-o", "program", cwd=tmp_path)
    laid_out(tmp_path / "program")


def cargo(tmp_path: Path) -> Settings:
    """The settings of a cargo that keeps out of the user's files, but for the toolchain."""
    need("cargo", "rustc", "gcc")
    return {
        f"CARGO_TARGET_{rust_host().upper().replace('-', '_')}_LINKER": "hugealign-gcc",
        "CARGO_TARGET_DIR": str(tmp_path / "target"),
    }


@pytest.mark.parametrize("profile", ["dev", pytest.param("release", marks=slow)])
def test_cargo(profile: str, bulk: Path, tmp_path: Path) -> None:
    settings = cargo(tmp_path)
    build_rs = BUILD_RS.replace("../bulk.o", str(bulk))
    write(tmp_path, {"Cargo.toml": CARGO_TOML, "build.rs": build_rs, "src/main.rs": MAIN_RS})
    quiet("cargo", "build", "--offline", "--quiet", f"--profile={profile}", cwd=tmp_path, **settings)
    laid_out(tmp_path / "target" / profile.replace("dev", "debug") / "example")


@slow
@pytest.mark.parametrize("words", [TWO_WORDS, ONE_WORD], ids=["two-words", "one-word"])
def test_cargo_with_the_cc_crate(words: Settings, tmp_path: Path) -> None:
    """The crate that asks which compiler it has, by words that reach hugealign without the compiler's name."""
    settings = cargo(tmp_path) | words
    files = {"Cargo.toml": CARGO_TOML + 'cc = "1"\n', "build.rs": BUILD_RS_CC, "src/main.rs": MAIN_RS}
    write(program(tmp_path), files)
    fetched = run("cargo", "fetch", "--quiet", cwd=tmp_path, **settings)
    if fetched.returncode:
        pytest.skip(f"the crate cc cannot be had: {fetched.stderr.strip().splitlines()[-1]}")
    quiet("cargo", "build", "--offline", cwd=tmp_path, **settings)
    laid_out(tmp_path / "target" / "debug" / "example")


# Go

MAIN_GO = """\
package main

// unsigned big_sum(void);
import "C"

//export Sum
func Sum() C.uint { return C.big_sum() }

func main() {
	if Sum() != 3000*2999/2 {
		panic("wrong")
	}
}
"""


@pytest.mark.matrix
@ways("two-words")
def test_go(front: tuple[str, ...], settings: Settings, tmp_path: Path) -> None:
    need("go", compiler(settings))
    write(tmp_path, {"main.go": MAIN_GO, "bulk.s": bulk_source(), "go.mod": "module example\n\ngo 1.18\n"})
    own = {"GOCACHE": str(tmp_path / "cache"), "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    quiet(*front, "go", "build", "-o", "program", ".", cwd=tmp_path, CGO_ENABLED="1", **own, **settings)
    laid_out(tmp_path / "program")
    if front or settings is ONE_WORD:
        words = ("-buildmode=c-shared", "-o", "shared.so", ".")
        quiet(*front, "go", "build", *words, cwd=tmp_path, CGO_ENABLED="1", **own, **settings)
        laid_out(tmp_path / "shared.so")


# Python

EXTENSION_C = """\
#include <Python.h>
unsigned big_sum(void);
static PyObject *sum(PyObject *self, PyObject *args) { return PyLong_FromUnsignedLong(big_sum()); }
static PyMethodDef methods[] = {{"sum", sum, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "example", "", -1, methods};
PyMODINIT_FUNC PyInit_example(void) { return PyModule_Create(&module); }
"""
SETUP_PY = """\
from setuptools import Extension, setup
setup(name="example", ext_modules=[Extension("example", ["example.LANGUAGE"], extra_objects=["BULK"])])
"""


@ways("two-words")
@pytest.mark.parametrize("language", ["c", pytest.param("cc", marks=slow)])
def test_setuptools(front: tuple[str, ...], settings: Settings, language: str, bulk: Path, tmp_path: Path) -> None:
    need(compiler(settings))
    python = "/usr/bin/python3"
    if run(python, "-c", "import setuptools").returncode:
        pytest.skip("setuptools is not installed for /usr/bin/python3")
    include = run(python, "-c", "import sysconfig; print(sysconfig.get_path('include'))").stdout.strip()
    if not Path(include, "Python.h").exists():
        pytest.skip(f"{include}/Python.h is not installed")
    source = EXTENSION_C.replace("unsigned", 'extern "C" unsigned', 1) if language == "cc" else EXTENSION_C
    setup = SETUP_PY.replace("LANGUAGE", language).replace("BULK", str(bulk))
    write(tmp_path, {f"example.{language}": source, "setup.py": setup})
    quiet(*front, python, "setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path, **settings)
    (built,) = tmp_path.glob("example*.so")
    laid_out(built)
    assert run(python, "-c", "import example; print(example.sum())", cwd=tmp_path).stdout == "4498500\n"


# Node

BINDING_GYP = """\
{"targets": [{"target_name": "example", "sources": ["example.c"], "libraries": ["BULK"]}]}
"""
EXAMPLE_C = """\
#include <node_api.h>
unsigned big_sum(void);
static napi_value sum(napi_env env, napi_callback_info info) {
  napi_value result;
  napi_create_uint32(env, big_sum(), &result);
  return result;
}
NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "sum", NAPI_AUTO_LENGTH, sum, 0, &function);
  napi_set_named_property(env, exports, "sum", function);
  return exports;
}
"""


@ways("two-words")
def test_node_gyp(front: tuple[str, ...], settings: Settings, bulk: Path, tmp_path: Path) -> None:
    need("node", "make", compiler(settings))
    npm = Path("/usr/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js")
    tool = [shutil.which("node-gyp")] if shutil.which("node-gyp") else ["node", str(npm)] if npm.exists() else []
    if not tool or not Path("/usr/include/node/node_api.h").exists():
        pytest.skip("node-gyp or the headers of node in /usr/include are not installed")
    write(tmp_path, {"binding.gyp": BINDING_GYP.replace("BULK", str(bulk)), "example.c": EXAMPLE_C})
    words = ("configure", "build", "--nodedir=/usr", "--loglevel=error")
    quiet(*front, *tool, *words, cwd=tmp_path, npm_config_python="/usr/bin/python3", **settings)
    built = tmp_path / "build" / "Release" / "example.node"
    laid_out(built)
    done = run("node", "-e", f"console.log(require('{built}').sum())", cwd=tmp_path)
    assert done.stdout == "4498500\n"
