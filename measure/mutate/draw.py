# SPDX-License-Identifier: Apache-2.0
"""Which mutants are drawn: an order by the seed, and the reviewed list of those that nobody can notice.

The order depends on the seed and on the text of a line, not on where it stands nor on what else there is: one edit moves
one line. A line gives one mutant, so that a table of numbers is not drawn over and over.
"""
import collections
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
from typing import NamedTuple

COUNTED = ("caught", "survived")
FIELDS = ("file", "line", "mutant", "why")


class Line(NamedTuple):
    file: str
    number: int  # from 1
    text: str  # as it stands in the file, with its end
    nth: int  # of the lines of this file that read the same, from 0


class Mutant(NamedTuple):
    line: Line
    text: str  # what stands there instead

    def names(self):
        """What tells it from all others, wherever its line has moved to."""
        return self.line.file, plain(self.line.text), plain(self.text), self.line.nth

    def apply(self, source):
        lines = source.splitlines(keepends=True)
        if lines[self.line.number - 1:self.line.number] != [self.line.text]:
            raise SystemExit(f"mutate: {self.line.file} has changed since the mutants were drawn: start again")
        lines[self.line.number - 1] = self.text
        return "".join(lines)


def plain(text):
    """A text without its indentation: what a formatter changes is no other mutant."""
    return " ".join(text.split())


def lines_of(file, source):
    seen = collections.Counter()
    for number, text in enumerate(source.splitlines(keepends=True), 1):
        key = plain(text)
        yield Line(file, number, text, seen[key])
        seen[key] += 1


def rank(seed, *names):
    return hashlib.sha256("\0".join([seed, *map(str, names)]).encode()).digest()


def order(seed, lines, mutants_of):
    """Mutants in the order of the seed, at most one of a line."""
    for line in sorted(lines, key=lambda one: rank(seed, one.file, plain(one.text), one.nth)):
        yield from sorted(mutants_of(line), key=lambda one: rank(seed, *one.names()))[:1]


def settle(mutants, verdict_of, count, jobs):
    """[(mutant, record)] until `count` of them are counted; as many as `jobs` at a time, never one too many."""
    settled, counted, waiting = [], 0, collections.deque()
    mutants = iter(mutants)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            while counted < count:
                for mutant in itertools.islice(mutants, min(3 * jobs, count - counted) - len(waiting)):
                    waiting.append((mutant, pool.submit(verdict_of, mutant)))
                if not waiting:
                    break
                mutant, future = waiting.popleft()
                settled.append((mutant, future.result()))
                counted += settled[-1][1]["verdict"] in COUNTED
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return settled


def share(records):
    """(caught, counted) of records."""
    verdicts = [r["verdict"] for r in records]
    return verdicts.count("caught"), sum(v in COUNTED for v in verdicts)


class Reviewed:
    """Mutants that change nothing anybody could notice, each with the reason: measure/mutate/reviewed.yaml."""

    def __init__(self, rows, path):
        self.rows, self.path = rows, path
        self.keys = {(r["file"], plain(r["line"]), plain(r["mutant"])) for r in rows}

    @classmethod
    def read(cls, path):
        return cls(read_rows(path), path)

    def holds(self, mutant):
        file, before, after, _ = mutant.names()
        return (file, before, after) in self.keys

    def stale(self, root):
        """Rows whose line is no longer in its file; they would hide nothing, or one day something else."""
        bad, seen = [], set()
        for row in self.rows:
            source, key = pathlib.Path(root) / row["file"], (row["file"], plain(row["line"]), plain(row["mutant"]))
            said = None
            if not source.is_file():
                said = "no such file"
            elif key[1] not in {plain(text) for text in source.read_text().splitlines()}:
                said = "no line reads: " + key[1]
            elif key[1] == key[2]:
                said = "the mutant is the line itself"
            elif key in seen:
                said = "stands twice"
            elif not row["why"].strip():
                said = "why is empty"
            seen.add(key)
            if said:
                bad.append(f"{self.path}:{row['at']}: {row['file']}: {said}")
        return bad


def read_rows(path):
    """The rows of the list: `- key: "value"` and `  key: "value"` lines, nothing else."""
    rows = []
    for number, text in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        match = re.fullmatch(r'(- |  )(\w+): ("(?:[^"\\]|\\.)*")', text)
        if not match or match[2] not in FIELDS or (match[1] == "  " and not rows):
            raise SystemExit(f"mutate: {path}:{number}: want one of {', '.join(FIELDS)} and a double-quoted string")
        if match[1] == "- ":
            rows.append({"at": number})
        rows[-1][match[2]] = json.loads(match[3])
    for row in rows:
        for field in FIELDS:
            if field not in row:
                raise SystemExit(f"mutate: {path}:{row['at']}: {field} is missing")
    return rows
