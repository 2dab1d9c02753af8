# SPDX-License-Identifier: Apache-2.0
"""Mutants of C: what universalmutator makes of a line, built in a copy of the tree, judged by the tests that link the file.

A copy stands as the tree itself does (dataplane, build/dataplane-asan), so that the compiler cache serves both.
"""
import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import warnings
from typing import NamedTuple

with warnings.catch_warnings(): # of the way it reads its own rules
    warnings.simplefilter("ignore")
    import universalmutator.mutator as universalmutator

from draw import Line, Mutant, lines_of, plain
from trial import ROOT, Test, run

ROOMS = ("dataplane/src", "dataplane/apps")
RULES = ["universal.rules", "c_like.rules", "c.rules"]
# Lines that hold no behaviour of their own: what the preprocessor includes or chooses, promises to the compiler, brackets.
NO_BEHAVIOUR = re.compile(r"^\s*#\s*(include|if|ifdef|ifndef|elif|else|endif|pragma|error)\b|\b_?[Ss]tatic_assert\b|\bassert\(|^[\s{}();,]*$")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
SETUP = ["--buildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
SANITIZERS = (("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1"),)
# Tests that are one program are built so many at a time, twice as many each time up to this, and run one after the other: the
# first ones notice most. Stories of whole programs mostly wait.
FIRST, AT_ONCE, STORIES_AT_ONCE = 2, 8, 4
STORY_OF_CORE = 30 # seconds, by its priority
BUILD_SECONDS = 1800
ALONE = "c-alone" # the turn of tests that change a setting of the whole machine
APART = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
# Code that is linked in copies, each with all names local but one (link-copies): the folder, and the name of the first copy.
COPIED = {"dataplane/src/tcp/lwip/": "bt_tcp_copy_0"}


def without_comments(source):
    """The source with blanks for comments, of the same number of lines."""
    def blank(match):
        return match[0] if match[0][0] in "\"'" else " " + "\n" * match[0].count("\n")
    return COMMENT_OR_STRING.sub(blank, source)


def worth(file, source):
    """The lines of a source that do something."""
    bare = without_comments(source).splitlines()
    return [line for line in lines_of(file, source) if bare[line.number - 1].strip() and not NO_BEHAVIOUR.search(bare[line.number - 1])]


def mutants_of(line, source):
    """What universalmutator's rules make of a line, but for mutants of its comment alone."""
    with contextlib.redirect_stdout(io.StringIO()):
        made = universalmutator.mutants([line.text], RULES, ignorePatterns=[], ignoreStringOnly=True)
    bare = plain(without_comments(source))
    found = {}
    for _, text, _ in made:
        mutant = Mutant(line, text)
        if plain(without_comments(mutant.apply(source))) != bare:
            found.setdefault(plain(text), mutant)
    return list(found.values())


def symbols(path):
    """Names that an object or program defines for others."""
    out = subprocess.run(["nm", "--defined-only", "-g", str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if len(line.split()) == 3}


class Copy:
    """A copy of the tracked tree with its build folder."""

    def __init__(self, folder):
        self.folder, self.build = folder, folder / "build/dataplane-asan"
        self.cache = (("CCACHE_BASEDIR", folder), ("CCACHE_NOHASHDIR", "1"))
        self.plain_code = {}  # {file: what it compiles to}

    def refresh(self):
        """Makes the copy equal to the tree; what differs gets a new time, so that it is built again."""
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        wanted = {n for n in names if (ROOT / n).is_file()}
        for name in wanted:
            copy, source = self.folder / name, ROOT / name
            if copy.is_file() and copy.read_bytes() == source.read_bytes():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            shutil.copymode(source, copy)
        for path in self.folder.rglob("*"):
            relative = str(path.relative_to(self.folder))
            if not relative.startswith("build/") and path.is_file() and relative not in wanted:
                path.unlink()
        if not (self.build / "build.ninja").is_file():
            code, out = run(["meson", "setup", self.build, self.folder / "dataplane", *SETUP], 300, env=self.cache)
            if code != 0:
                raise SystemExit("mutate: meson setup failed:\n" + out[-2000:])

    def ninja(self, targets=(), jobs=1):
        return run(["ninja", "-C", self.build, f"-j{jobs}", *targets], BUILD_SECONDS, env=self.cache)

    def code(self, file):
        """(exit code, what a file compiles to without sanitizers): the same code is the same program."""
        for row in json.loads((self.build / "compile_commands.json").read_text()):
            if (self.build / row["file"]).resolve() == (self.folder / file).resolve():
                words = [w for w in shlex.split(row["command"]) if not re.match(r"-fsanitize|-g$|-O\d|-M[DQF]$|-MMD|-fno-omit", w)]
                words = words[1:] if "ccache" in words[0] else words
                words = [w for w in words if not w.endswith((".o.d", ".c.o"))]
                words = [w for w in words if w not in ("-o", "-c")]
                code, out = run([*words, "-O2", "-g0", "-S", "-o", "-"], 120, folder=self.build)
                return code, out
        return None, "this build does not have the file"


class Judge(NamedTuple):
    """A test that may notice mutants."""
    test: Test
    programs: list  # that it starts
    alone: bool  # it is one program of its own; else a story of whole programs
    seconds: int  # about
    again: bool  # another one tells the same


class Bench:
    """What is known of the build: its tests, in which order, and what each links."""

    def __init__(self, build):
        self.build = build
        self.targets = {t["id"]: t for t in self.introspect("targets")}
        self.by_path = {f: t for t in self.targets.values() for f in t["filename"]}
        self.compiled = json.loads((self.build / "compile_commands.json").read_text())
        self.known = {}

    def introspect(self, what):
        out = subprocess.run(["meson", "introspect", f"--{what}", str(self.build)], capture_output=True, text=True, check=True)
        return json.loads(out.stdout)

    def tests(self):
        """All of them, as judges."""
        found = []
        for t in self.introspect("tests"):
            started = {word for word in t["cmd"] if word in self.by_path and self.by_path[word]["type"] == "executable"}
            needed = {f for i in t["depends"] if i in self.targets for f in self.targets[i]["filename"]}
            needed = {f for f in needed if self.by_path[f]["type"] == "executable"}
            env = (*SANITIZERS, *sorted(t["env"].items()))
            turn = "c-" + t["name"] if t["is_parallel"] else ALONE
            test = Test("c-" + t["name"], tuple(t["cmd"]), t["workdir"] or str(self.build), env, turn)
            again = any(suite.endswith(":again") for suite in t["suite"])
            found.append(Judge(test, sorted(started | needed), t["cmd"][0] in started, t["priority"], again))
        return found

    def symbols_of(self, path):
        """Those of a program, with those of our libraries beside it."""
        if path not in self.known:
            needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=False).stdout
            shared = {f for f, t in self.by_path.items() if t["type"] == "shared library" and pathlib.Path(f).name.split(".so")[0] + ".so" in needed}
            self.known[path] = symbols(path).union(*map(symbols, shared))
        return self.known[path]

    def own(self, source):
        """The symbols of a source, of each object that it is compiled to."""
        if source not in self.known:
            objects = [self.build / r["output"] for r in self.compiled if (self.build / r["file"]).resolve() == source.resolve()]
            copied = {name for folder, name in COPIED.items() if folder in str(source)}
            self.known[source] = copied.union(*(symbols(o) for o in objects if o.is_file())) - {"main"}
        return self.known[source]

    def links(self, program, source):
        """Whether a program has the code of a source inside: as its own, or taken from a library."""
        target = self.by_path[program]
        if any(str(source) in group.get("sources", ()) for group in target["target_sources"]):
            return True
        return bool(self.own(source) & self.symbols_of(program))


class C:
    name = "c"

    def __init__(self, work, tests, jobs, only=""):
        self.tests, self.only, self.jobs = tests, only, jobs
        self.sources, self.copies = {}, [Copy(work / str(i)) for i in range(jobs)]
        self.room_of = {}

    def lines(self):
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *(f"{room}/*.c" for room in ROOMS)], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.split()
        self.sources = {n: (ROOT / n).read_text() for n in sorted(set(names)) if n.startswith(self.only) and (ROOT / n).is_file()}
        return [line for name, source in self.sources.items() for line in worth(name, source)]

    def mutants(self, line: Line):
        return mutants_of(line, self.sources[line.file])

    def prepare(self):
        """Builds the copies unchanged, and learns what there is. A test must pass of them when it notices a mutant."""
        for copy in self.copies:
            copy.refresh()
            code, out = copy.ninja(jobs=self.jobs)
            if code != 0:
                raise SystemExit("mutate: the unchanged copy does not build:\n" + out[-2000:])
        self.bench = Bench(self.copies[0].build)
        self.known_tests = self.bench.tests()
        # How long a program takes is known before the first mutant of it that never ends.
        unknown = [row.test for row in self.known_tests if row.alone and row.test.name not in self.tests.kept]
        with concurrent.futures.ThreadPoolExecutor(2 * self.jobs) as pool:
            list(pool.map(self.tests.passes, (self.moved(test, self.copies[0]) for test in unknown)))

    def rooms(self, file):
        """The tests that judge a file, the most telling first."""
        if file not in self.room_of:
            source = self.copies[0].folder / file
            program = pathlib.Path(file).parts[2] if file.startswith("dataplane/apps/") else None
            room = program or pathlib.Path(file).parts[2]
            judged = [row for row in self.known_tests if any(self.bench.links(x, source) for x in row.programs)]
            # Stories of whole programs judge a file of the core last, and not those that are long, or told again with other threads.
            if not program and any(row.alone for row in judged):
                judged = [row for row in judged if row.alone or not row.again and row.seconds <= STORY_OF_CORE]
            judged.sort(key=lambda row: (not row.alone, row.again, not row.test.name.startswith(f"c-{room}"), -akin(row.test.name, file),
                                         self.tests.kept.get(row.test.name, row.seconds)))
            self.room_of[file] = judged
        return self.room_of[file]

    def moved(self, test, copy):
        """A test of the first copy, of another one; with a network of its own the two need not wait for one another."""
        def there(word):
            return str(word).replace(str(self.copies[0].folder), str(copy.folder))
        apart, turn = ((), test.turn) if os.geteuid() != 0 or test.turn == ALONE else (APART, f"{test.turn}-{copy.folder.name}")
        return test._replace(command=(*apart, *map(there, test.command)), folder=there(test.folder), turn=turn,
                             env=tuple((k, there(v)) for k, v in test.env))

    def verdict(self, mutant, job):
        copy = self.copies[job]
        file = copy.folder / mutant.line.file
        clean = file.read_text()
        try:
            if mutant.line.file not in copy.plain_code:
                copy.plain_code[mutant.line.file] = copy.code(mutant.line.file)
            file.write_text(mutant.apply(clean))
            code, out = copy.code(mutant.line.file)
            if code != 0:
                return "stillborn", next(iter(re.findall(r"error: .*", out)), out if code is None else "does not compile")
            if out == copy.plain_code[mutant.line.file][1]:
                return "same", "the compiler makes the same code of it"
            return self.judge(copy, mutant, clean)
        finally:
            file.write_text(clean)

    def judge(self, copy, mutant, clean):
        """The tests of the room, a few at a time, until one notices."""
        room = self.rooms(mutant.line.file)
        for some in chunks(room):
            code, out = self.built(copy, some)
            if code != 0:
                return "stillborn", next(iter(re.findall(r"(?:error|undefined reference).*", out)), "does not link")
            for (test, *_), one in zip(some, self.said(copy, some)):
                if one:
                    self.passes(copy, mutant, clean, test)
                    return "caught", one
        return "survived", f"by {len(room)} tests: " + " ".join(row.test.name.removeprefix("c-") for row in room)[:200]

    def said(self, copy, rows):
        """What tests say against a mutant: programs one after the other, as long as it is asked for; stories at once."""
        if rows[0].alone:
            return (self.tests.fails(self.moved(row.test, copy)) for row in rows)
        with concurrent.futures.ThreadPoolExecutor(STORIES_AT_ONCE) as pool:
            return list(pool.map(lambda row: self.tests.fails(self.moved(row.test, copy)), rows))

    def built(self, copy, rows):
        return copy.ninja(sorted({os.path.relpath(program, self.bench.build) for row in rows for program in row.programs}))

    def passes(self, copy, mutant, clean, test):
        """Shows that a test passes on the code as it is, once."""
        if test.name not in self.tests.kept:
            (copy.folder / mutant.line.file).write_text(clean)
            code, out = self.built(copy, [row for row in self.known_tests if row.test.name == test.name])
            if code != 0:
                raise SystemExit("mutate: the unchanged copy does not build any more:\n" + out[-2000:])
            self.tests.passes(self.moved(test, copy))


def akin(test, file):
    """How many words the name of a test has of the path of a file."""
    words = set(re.split(r"\W|_", file))
    return len(words & set(re.split(r"\W|_", test)))


def chunks(room):
    """Tests that are one program, then stories of whole programs."""
    programs, stories = [row for row in room if row.alone], [row for row in room if not row.alone]
    size = FIRST
    while programs:
        yield programs[:size]
        programs, size = programs[size:], min(2 * size, AT_ONCE)
    for at in range(0, len(stories), STORIES_AT_ONCE):
        yield stories[at:at + STORIES_AT_ONCE]
