#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Docs are tests: every shell block says where it is run, and those blocks are run.

A fenced block that starts with ```sh carries one tag more: `ci` (run on every
change, no cluster), `cluster` (run against the embedded cluster), `house` (run in a
copy of the tree, hack/house/places), `first-hour` (the tutorials, on a cluster with
Bobtail), `group` (on a cluster with volumes, e2e/suites/groups), `nightly` (listed, run by hand or at night) or
`output` (what a command printed). A block of any language with file=PATH is a file that
the reader saves; `run` and `files` write it, relative to the working folder. The
cluster suite (e2e/suites/mainjob/docs_test.go) runs the `cluster` blocks and has
the API server judge every manifest that a page shows.

  docs.py check          tags are present; every relative link leads to a file; every rule id a test cites stands in the
                         protocol page, which also says what letters rules have; a page that names a rule links to
                         that page; the simulator's page lists every
                         planted bug; every "commit <id>" is one of the history; decisions are numbered without gaps
  docs.py planted        print that table
  docs.py run TAG        run the blocks of that tag, one shell a file, in order
  docs.py list TAG       print them
  docs.py files PAGE     write the files that a page has its reader save, and print their names
"""
import bisect
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import PATHS, ROOT, every as pages, with_links  # noqa: E402

TAGS = {"ci", "cluster", "first-hour", "group", "house", "nightly", "output"}
COMMIT = re.compile(r"\bcommits?\s+`?([0-9a-f]{7,40})\b")
FENCE = re.compile(r"^```(\w*)[ ]*(.*?)\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)  # a link is not shown in it
LINK = re.compile(r"\]\(<?([^)\s>]*)>?[^)]*\)|^\[[^\]]+\]: (\S+)", re.M)
STATED = re.compile(r"^\|\s*([A-Z])-(\d{1,3}a?)†?\s*\|", re.M)  # a row of the protocol page that begins with an id
TEST_FILES = ("dataplane/tests", "dataplane/fuzz", "clients/go", "operator/internal", "e2e", "hack/p4")


def blocks(path):
    """(line, language, tags, body) of each fenced block of a page."""
    text = path.read_text()
    for m in FENCE.finditer(text):
        yield text[: m.start()].count("\n") + 1, m.group(1), m.group(2).split(), m.group(3)


def check_tags():
    bad = []
    for page in pages():
        for line, lang, tags, _ in blocks(page):
            if lang in ("sh", "bash", "console") and not TAGS & set(tags):
                bad.append(f"{page.relative_to(ROOT)}:{line}: shell block without a tag (one of {', '.join(sorted(TAGS))})")
    return bad


def is_test(path):
    return path.name.startswith("test_") or path.stem.endswith("_test") or "tests" in path.parts or "fuzz" in path.parts


def broken_links(page):
    """Lines of a page whose relative link leads to no file."""
    text = CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), page.read_text())
    bad = []
    for m in LINK.finditer(text):
        to = (m[1] or m[2] or "").partition("#")[0]
        if to and "://" not in to and not to.startswith("mailto:") and not (page.parent / to).exists():
            bad.append(f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}:{text[: m.start()].count(chr(10)) + 1}: a link to {to}, which is not there")
    return bad


def check_links():
    return [line for page in with_links() for line in broken_links(page)]


def stated_rules(text):
    """{(letter, number)} of the ids that the protocol page states; without any, no citation could be judged."""
    stated = set(STATED.findall(text))
    if not stated:
        raise SystemExit(f"docs: {PATHS['protocol']}: no table row begins with a rule id, such as | R-1 |")
    return stated


def citations(line, letters, names=True):
    """Ids that a line of a test cites: R-12, and as a name r12_…; letters: those that rules have."""
    found = re.findall(rf"\b([{letters}])-(\d{{1,3}}a?)\b", line)
    return found + (re.findall(rf"(?:(?<![>.])\b|_)([{letters.lower()}])(\d{{1,3}}a?)(?=_)", line) if names else [])


def cited_rules(letters):
    """{rule id: first place that cites it} over the test sources."""
    found = {}
    for top in TEST_FILES:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in {".c", ".h", ".go", ".py", ".yaml"} or not is_test(path):
                continue
            for i, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                for kind, number in citations(line, letters, names=top not in ("operator/internal", "e2e")):
                    found.setdefault((kind.upper(), number), f"{path.relative_to(ROOT)}:{i}")
    return found


def check_rules():
    stated = stated_rules((ROOT / PATHS["protocol"]).read_text())
    cited = cited_rules("".join(sorted({letter for letter, _ in stated})))
    return [f"{place}: cites {'-'.join(rule)}, which {PATHS['protocol']} does not state" for rule, place in sorted(cited.items()) if rule not in stated]


def unexplained(text, letters):
    """The first rule id of a page that does not say where rules stand; None: it names none, or links to their page."""
    bare = CODE.sub("", text)
    named = re.search(rf"\b[{letters}]-\d{{1,3}}a?\b", bare)
    return named[0] if named and pathlib.Path(PATHS["protocol"]).name not in bare else None


def check_explained():
    """Readers of manuals meet a rule's id before they know that there are rules."""
    letters = "".join(sorted({letter for letter, _ in stated_rules((ROOT / PATHS["protocol"]).read_text())}))
    named = {page.relative_to(ROOT): unexplained(page.read_text(), letters) for page in pages()
             if page != ROOT / PATHS["protocol"] and not str(page.relative_to(ROOT)).startswith(("docs/lab/", "docs/decisions/"))}
    return [f"{page}: names {rule} and does not link to {PATHS['protocol']}" for page, rule in named.items() if rule]


def planted_table():
    """The rows of the simulator's planted bugs (measure/sim/mutate), as its page shows them."""
    text = (ROOT / "dataplane" / "tests" / "sim" / "mutations.yaml").read_text()
    found = re.findall(r'^- name: ("(?:[^"\\\\]|\\\\.)*")$|^  why: ("(?:[^"\\\\]|\\\\.)*")$', text, re.M)
    names, whys = [json.loads(n) for n, _ in found if n], [json.loads(w) for _, w in found if w]
    return ["| " + name + " | " + why.replace("|", "\\|") + " |" for name, why in zip(names, whys, strict=True)]


def check_planted():
    page = ROOT / PATHS["simulator"]
    section = page.read_text().partition("## Planted bugs\n")[2].partition("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith("| ")][1:] # without the head
    if shown == planted_table():
        return []
    return [f"{PATHS['simulator']}: the table of planted bugs is not that of dataplane/tests/sim/mutations.yaml; paste what `hack/verify/docs.py planted` prints"]


def misnumbered(folder):
    """Decisions whose number is not the next one, or whose title has another."""
    bad = []
    for want, page in enumerate(sorted(folder.glob("*.md")), 1):
        if page.name[:5] != f"{want:04}-":
            return bad + [f"{page.name}: decisions are numbered without gaps: this is {want:04}"]
        if page.read_text()[:6] != f"# {want:04}":
            bad.append(f"{page.name}: its title begins with # {want:04}")
    return bad


def git(*arguments):
    """What git says, None where this is no repository."""
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def check_commits():
    """(commits that pages name and the history of this one does not have, why that could not be asked)"""
    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow is None or shallow.strip() != "false":
        return [], "the commits that pages name were not looked up: " + ("this is no repository" if shallow is None else "the clone is shallow")
    history = sorted(git("rev-list", "HEAD").split())
    bad = []
    for page in pages():
        text = page.read_text()
        for m in COMMIT.finditer(text):
            at = bisect.bisect_left(history, m[1])
            if at == len(history) or not history[at].startswith(m[1]):
                bad.append(f"{page.relative_to(ROOT)}:{text[: m.start()].count(chr(10)) + 1}: commit {m[1]} is not in the history")
    return bad, None


def files(page):
    """{path: text} of the files that a page has its reader save."""
    return {t.removeprefix("file="): body for _, _, tags, body in blocks(page) for t in tags if t.startswith("file=")}


def write_files(page, folder):
    for path, body in files(page).items():
        to = folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(body)
        print(f"docs: {path}", flush=True)


def in_order(tag):
    """Pages as a reader takes them: of the tutorials the one that makes the service comes first."""
    first = ROOT / PATHS["first"]
    return [first, *[p for p in pages() if p != first]] if tag == "first-hour" else pages()


def run(tag):
    failed = ran = 0
    for page in in_order(tag):
        bodies = [(line, body) for line, lang, tags, body in blocks(page) if tag in tags and lang in ("sh", "bash")]
        if not bodies:
            continue
        write_files(page, ROOT)
        script = "set -euo pipefail\n" + "\n".join(body for _, body in bodies)
        print(f"docs: {page.relative_to(ROOT)}: {len(bodies)} block(s) tagged {tag}", flush=True)
        code = subprocess.run(["bash", "-c", script], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
        ran += len(bodies)
        if code:
            failed += 1
            print(f"docs: {page.relative_to(ROOT)}: a block tagged {tag} exited {code}", file=sys.stderr)
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed else 0


def listing(tag):
    for page in pages():
        for line, _, tags, body in blocks(page):
            if tag in tags:
                print(f"{page.relative_to(ROOT)}:{line}\n" + "".join("    " + x + "\n" for x in body.splitlines()))
    return 0


def main(argv):
    if argv == ["check"]:
        commits, not_asked = check_commits()
        bad = check_tags() + check_links() + check_rules() + check_explained() + check_planted() + misnumbered(ROOT / PATHS["decisions"]) + commits
        print("\n".join(bad) if bad else "docs: every shell block is tagged, every link leads to a file, every cited rule is stated, the planted bugs are listed")
        if not_asked:
            print(f"docs: {not_asked}")
        return 1 if bad else 0
    if len(argv) == 2 and argv[0] == "run" and argv[1] in TAGS:
        return run(argv[1])
    if len(argv) == 2 and argv[0] == "list" and argv[1] in TAGS:
        return listing(argv[1])
    if len(argv) == 2 and argv[0] == "files":
        write_files(ROOT / argv[1], pathlib.Path.cwd())
        return 0
    if argv == ["planted"]:
        print("\n".join(planted_table()))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
