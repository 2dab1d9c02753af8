# SPDX-License-Identifier: Apache-2.0
"""What a stage's log tells: how many tests there were, which failed, and what it is doing now."""
import re

# Closing lines of the runners the stages call, for the one sum at the end.
MESON_OK = re.compile(r"^Ok:\s+(\d+)", re.M)
MESON_FAIL = re.compile(r"^(?:Fail|Timeout|Unexpected Pass):\s+(\d+)", re.M)
MESON_SKIP = re.compile(r"^Skipped:\s+(\d+)", re.M)
GO_PASS = re.compile(r"^\s*--- PASS: ", re.M)
GO_FAIL = re.compile(r"^\s*--- FAIL: ", re.M)
GO_SKIP = re.compile(r"^\s*--- SKIP: ", re.M)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
FAILURE = re.compile(r"--- FAIL: |_test\.go:\d+: |\bFAILED\b|^\s*\d+/\d+ .*(FAIL|TIMEOUT)|^panic: |ERROR: |: error: |NOT CAUGHT"
                     r"|^FAIL: |^(?:\w+\.)*\w*(?:Error|Expired): |\[  ERROR   \] |^SUMMARY: \w+Sanitizer|: runtime error: |WARNING: ThreadSanitizer")
# Go tells all that a test logs, whether it passes or not; which test is speaking, and how it ended.
GO_SPEAKS = re.compile(r"^=== (?:RUN|CONT|NAME)\s+(\S+)")
GO_ENDED = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+)")
GO_SAID = re.compile(r"^\s+\S+_test\.go:\d+: ")
NAMED, TAIL, REPEATED = 30, 40, 8  # lines shown of a failed stage; repeated when the run ends
READ, SHOWN = 4096, 110  # bytes read for the last line, characters shown of it


def count(log):
    """(passed, failed, skipped) tests that a stage's log tells of."""
    passed = sum(map(int, MESON_OK.findall(log))) + len(GO_PASS.findall(log))
    failed = sum(map(int, MESON_FAIL.findall(log))) + len(GO_FAIL.findall(log))
    skipped = sum(map(int, MESON_SKIP.findall(log))) + len(GO_SKIP.findall(log))
    for p, f, s in PLAIN.findall(log):
        passed, failed, skipped = passed + int(p), failed + int(f), skipped + int(s or 0)
    return passed, failed, skipped


def telling(lines):
    """The lines that name a failure; of what Go tests log, only that of those that failed."""
    failed = {m.group(2) for m in map(GO_ENDED.match, lines) if m and m.group(1) == "FAIL"}
    named, speaks = [], None
    for line in lines:
        now = GO_SPEAKS.match(line) or GO_ENDED.match(line)
        speaks = now.group(now.lastindex) if now else speaks
        if FAILURE.search(line) and (not GO_SAID.match(line) or speaks is None or speaks in failed):
            named.append(line)
    return named


def excerpt(lines):
    """What a reader of nothing but this output needs: the lines that name a failure, then how the log ends."""
    named = telling(lines)
    return [*named[-NAMED:], *(["..."] if named else []), *lines[-TAIL:]]


def failures(log):
    """The lines that name a failed test, the first few, each once: for the very end of a run, which is all that some readers see."""
    lines = dict.fromkeys(line.strip() for line in telling(log.splitlines()))
    return list(lines)[:REPEATED]


def last_line(path):
    """The last line of a log that says something, cut to what fits a terminal; "" when there is none yet."""
    try:
        with open(path, "rb") as f:
            f.seek(max(0, path.stat().st_size - READ))
            text = f.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    return lines[-1][:SHOWN] if lines else ""
