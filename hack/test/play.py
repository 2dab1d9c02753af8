# SPDX-License-Identifier: Apache-2.0
"""Play stages: one at a time, beside another where that leaves the machine idle, with a sign of life every few seconds."""
import collections
import os
import pathlib
import signal
import subprocess
import time

import machine
import runlog

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "log"
TELL_SECONDS, LOOK_SECONDS = 20, 0.1
GRACE_SECONDS = 20  # for a stage that is told to end: clusters and namespaces are taken away

Job = collections.namedtuple("Job", "stage form")
# processor: seconds of all processors that a stage took with what it started and waited for; daemons it left are not among them
Result = collections.namedtuple("Result", "name command ok seconds tests failures processor", defaults=((), 0))


def say(text):
    print(text, flush=True)


class Running:
    """A stage at work, its log beside it."""

    def __init__(self, job):
        self.job, self.name = job, job.stage.name
        self.log = LOGS / f"test-{self.name}.log"
        proves = job.form.proves or job.stage.proves
        say(f"==> {self.name}: {proves} (about {job.form.cost} s; log {os.path.relpath(self.log, ROOT)})")
        self.began = self.told = time.monotonic()
        self.busy, self.processor = machine.busy_seconds(), 0.0
        # Run as root, no Go test may leave itself out for want of it (hack/test/privileged).
        env = {**os.environ, "BOBTAIL_PRIVILEGED_TESTS": "1"} if os.geteuid() == 0 else None
        # In a session of its own: Linux shares processors among sessions, so a stage that mostly waits is not kept waiting by
        # the many processes of one beside it.
        with self.log.open("w") as log:
            self.process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", job.form.command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)

    def ended(self):
        """Whether it has ended; then what it took of the processors is known."""
        if self.process.returncode is None:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode, self.processor = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        return self.process.returncode is not None

    def tell(self):
        """What it is doing, when nothing was said of it for a while."""
        now = time.monotonic()
        if now - self.told >= TELL_SECONDS:
            self.told = now
            say(f"    ... {self.name} {now - self.began:.0f} s: {runlog.last_line(self.log)}")

    def result(self):
        """The Result of one that has ended, told."""
        took, code = time.monotonic() - self.began, self.process.returncode
        text = self.log.read_text(errors="replace")
        tests = runlog.count(text)
        say(f"    {self.name} {'ok' if code == 0 else 'FAILED'} in {took:.0f} s ({self.processor:.0f} s of processors; machine busy {machine.busy_share(self.busy, took)} %): "
            f"{tests[0]} passed, {tests[1]} failed, {tests[2]} skipped")
        if code:
            for line in runlog.excerpt(text.splitlines()):
                say("    | " + line)
            say(f"    stage {self.name} exited {code}; likely cause: {self.job.stage.cause}")
        return Result(self.name, self.job.form.command, code == 0, round(took, 1), tests, runlog.failures(text) if code else (), round(self.processor, 1))

    def end(self):
        """Ends it and what it started, in order if it can."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def may_start(job, running):
    """Whether a stage may run beside those that run now (names)."""
    beside = job.stage.beside if job.form.beside is None else job.form.beside
    return all(name in beside for name in running)


def take_next(pending, running):
    """Takes out the first job that may start beside those that run now (names); None while all have to wait."""
    for job in pending:
        if may_start(job, running):
            pending.remove(job)
            return job
    return None


def expected(jobs):
    """Seconds that the jobs take together, by their costs."""
    now, running, pending = 0, {}, list(jobs)
    while pending:
        while job := take_next(pending, running):
            running[job.stage.name] = now + job.form.cost
        if pending:
            now = min(running.values())
            running = {name: end for name, end in running.items() if end > now}
    return max(running.values(), default=now)


def play(jobs, keep_going, done=lambda result: None):
    """Plays the jobs and returns their results: in their order, but for one that may run now while those before it have to
    wait. After a failure only those that run already come to an end."""
    LOGS.mkdir(parents=True, exist_ok=True)
    pending, running, results = list(jobs), [], []
    try:
        while pending or running:
            while job := take_next(pending, [r.name for r in running]):
                running.append(Running(job))
            time.sleep(LOOK_SECONDS)
            for one in list(running):
                if not one.ended():
                    one.tell()
                    continue
                running.remove(one)
                results.append(one.result())
                done(results[-1])
                if not results[-1].ok and not keep_going:
                    pending.clear()
    finally:
        for one in running:
            one.end()
    return results
