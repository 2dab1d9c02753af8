# SPDX-License-Identifier: Apache-2.0
"""Mutants of Go: what gremlins finds, planted one at a time by -overlay, judged by the tests of the package.

Gremlins mutates whole packages and runs `go test` of all of them first. Here it only says where its mutants are: it reads
a module that has nothing to test, with the sources in a folder that the go command does not look into.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from draw import Line, Mutant, lines_of
from trial import ROOT, Test, run

ROOMS = ("operator/internal", "clients/go")
# Not the product: tests, generated code, the parts that only tests import, examples.
LEFT_OUT = re.compile(r"_test\.go$|/zz_generated|test/[^/]*$|/starved/|/example/|/testdata/")
# What gremlins puts in a token's place, by its name for the kind of mutant.
SWAPS = {
    "ARITHMETIC_BASE": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
    "CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
    "CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", "<": ">=", "<=": ">", ">": "<="},
    "INCREMENT_DECREMENT": {"--": "++", "++": "--"},
    "INVERT_ASSIGNMENTS": {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
    "INVERT_BITWISE": {"&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
    "INVERT_BWASSIGN": {"&=": "|=", "|=": "&=", "^=": "&=", "&^=": "&=", "<<=": ">>=", ">>=": "<<="},
    "INVERT_LOGICAL": {"&&": "||", "||": "&&"},
    "INVERT_LOOPCTRL": {"break": "continue", "continue": "break"},
    "INVERT_NEGATIVES": {"-": "+"},
    "REMOVE_SELF_ASSIGNMENTS": {op: "=" for op in ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "&^=", "<<=", ">>=")},
}
TOKEN = re.compile(r"<<=|>>=|&\^=|[-+*/%&|^]=|==|!=|<=|>=|<<|>>|&\^|&&|\|\||\+\+|--|break|continue|[-+*/%&|^<>]")
# Before an operator that takes one operand: an address is no bitwise and.
BEFORE_ONE_OPERAND = re.compile(r"(?:^|[-+*/%&|^<>=!(\[{,:;]|\b(?:return|case|range))\s*$")
BUILD_SECONDS = 900


def never_builds(head, token, kind, tail):
    """Whether no compiler takes any operator but this one there: each such draw would cost a build."""
    if kind == "INVERT_BITWISE":
        return token == "&" and bool(BEFORE_ONE_OPERAND.search(head))
    return token == "+" and (head.rstrip().endswith(('"', "`")) or tail.lstrip().startswith(('"', "`")))


def replaced(text, column, kind):
    """A line with the token at the column (in bytes, from 1) put another way; None when there is none such."""
    raw = text.encode()
    head, tail = raw[: column - 1].decode(), raw[column - 1:].decode()
    token = TOKEN.match(tail)
    other = SWAPS.get(kind, {}).get(token[0]) if token else None
    if not other or never_builds(head, token[0], kind, tail[token.end():]):
        return None
    return head + other + tail[token.end():]


def version():
    return re.search(r"^\tgithub.com/go-gremlins/gremlins (v\S+)", (ROOT / "hack/lint/go.mod").read_text(), re.M)[1]


def program():
    """gremlins, built once into the cache of tools, pinned by hack/lint/go.mod."""
    cache = pathlib.Path(os.environ.get("BOBTAIL_CACHE") or pathlib.Path.home() / ".cache/bobtail")
    path = cache / f"gremlins-{version()}" / "gremlins"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-trimpath", "-o", str(path), "github.com/go-gremlins/gremlins/cmd/gremlins"],
                       cwd=ROOT / "hack/lint", env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return path


def sources():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *(f"{room}/*.go" for room in ROOMS)], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout.split()
    return [n for n in sorted(set(names)) if not LEFT_OUT.search(n) and (ROOT / n).is_file()]


def found(files):
    """[(file, line, column, kind)] of all of gremlins' kinds."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as work:
        work = pathlib.Path(work)
        (work / "go.mod").write_text("module mutants\n\ngo 1.26\n")
        (work / "nothing.go").write_text("package mutants\n")
        (work / "nothing_test.go").write_text('package mutants\n\nimport "testing"\n\nfunc TestNothing(*testing.T) {}\n')
        for file in files:
            copy = work / "_sources" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
        kinds = [f"--{kind.lower().replace('_', '-')}" for kind in SWAPS]
        code, out = run([program(), "unleash", "--dry-run", f"--output={work}/found.json", *kinds, "."], 300, folder=work)
        if code != 0 or not (work / "found.json").is_file():
            raise SystemExit("mutate: gremlins failed:\n" + out[-2000:])
        listed = json.loads((work / "found.json").read_text())["files"]
    return [(f["file_name"].removeprefix("_sources/"), m["line"], m["column"], m["type"])
            for f in listed for m in f["mutations"] if f["file_name"].startswith("_sources/")]


class Go:
    name = "go"

    def __init__(self, work, tests, jobs, only=""):
        self.work, self.tests, self.jobs = work, tests, jobs
        by_line, places = {}, found([f for f in sources() if f.startswith(only)])
        texts = {f: {line.number: line for line in lines_of(f, (ROOT / f).read_text())} for f in {p[0] for p in places}}
        for file, number, column, kind in places:
            line = texts[file][number]
            text = replaced(line.text, column, kind)
            if text:
                by_line.setdefault(line, set()).add(Mutant(line, text))
        self.by_line = by_line
        self.packages = self.listed()

    def listed(self):
        """{folder: (has tests, folders of what imports it)}"""
        out = subprocess.run(["go", "list", "-json=Dir,ImportPath,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles",
                              *(f"./{room}/..." for room in ROOMS)], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        decoder, packages, at = json.JSONDecoder(), [], 0
        while at < len(out.rstrip()):
            package, at = decoder.raw_decode(out, at)
            at += len(out[at:]) - len(out[at:].lstrip())
            packages.append(package)
        folder = {p["ImportPath"]: str(pathlib.Path(p["Dir"]).relative_to(ROOT)) for p in packages}
        tested = {folder[p["ImportPath"]]: bool(p.get("TestGoFiles") or p.get("XTestGoFiles")) for p in packages}
        users = {f: set() for f in tested}
        for p in packages:
            for other in {*p.get("Imports", []), *p.get("TestImports", []), *p.get("XTestImports", [])} & folder.keys():
                users[folder[other]].add(folder[p["ImportPath"]])
        return {f: (tested[f], sorted(users[f])) for f in tested}

    def lines(self):
        return list(self.by_line)

    def prepare(self):
        """Nothing: a package is built and tested unchanged when a mutant of it is noticed."""

    def mutants(self, line: Line):
        return self.by_line[line]

    def rooms(self, file):
        """The folders whose tests judge a file: its own, then one beside it that is there for tests (of all controllers
        against an API server); those that use it when it has none."""
        own = pathlib.Path(file).parent
        beside = [p for p, (tested, _) in self.packages.items() if tested and p.endswith("test") and pathlib.Path(p).parent == own.parent]
        tested, users = self.packages.get(str(own), (False, []))
        return [str(own), *beside] if tested else [u for u in users if self.packages[u][0]]

    def test(self, room, binary, *flags):
        name = "go-" + room.replace("/", "-")
        env = (("BOBTAIL_BUILD", ROOT / "build/dataplane"), ("KUBEBUILDER_ASSETS", assets()), *flags)
        return Test(name, (binary, "-test.failfast", "-test.timeout=0"), str(ROOT / room), env, name)

    def compile(self, room, binary, *flags):
        return run(["go", "test", *flags, "-c", "-o", binary, "./" + room], BUILD_SECONDS)

    def passes(self, room, job):
        """Shows that a package's tests pass as they are, once."""
        test = self.test(room, self.work / f"{job}.unchanged.test")
        if test.name not in self.tests.kept:
            code, out = self.compile(room, test.command[0])
            if code != 0:
                raise SystemExit(f"mutate: the tests of {room} do not build:\n{out[-2000:]}")
            self.tests.passes(test)

    def verdict(self, mutant, job):
        file, rooms = mutant.line.file, self.rooms(mutant.line.file)
        changed, overlay, binary = (self.work / f"{job}.{end}" for end in ("changed", "json", "test"))  # no .go: ./... of this tree would take it in
        changed.write_text(mutant.apply((ROOT / file).read_text()))
        overlay.write_text(json.dumps({"Replace": {str(ROOT / file): str(changed)}}))
        for room in rooms:
            code, out = self.compile(room, binary, f"-overlay={overlay}")
            if code != 0:
                return "stillborn", out.strip().splitlines()[-1][:160] if out.strip() else "does not build"
            # Tests build programs themselves: those shall have the mutant, too.
            said = self.tests.fails(self.test(room, binary, ("GOFLAGS", f"-overlay={overlay}")))
            if said:
                self.passes(room, job)
                return "caught", said
        return "survived", "by the tests of " + (", ".join(rooms) or "nothing")


def assets():
    """The folder of the API server's programs, as hack/go-test takes it."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        return given
    pinned = re.search(r"^KUBERNETES_VERSION=v?(\S+)", (ROOT / "hack/deps/versions.env").read_text(), re.M)[1]
    cache = pathlib.Path(os.environ.get("BOBTAIL_CACHE") or pathlib.Path.home() / ".cache/bobtail")
    return str(cache / f"envtest-{pinned}")
