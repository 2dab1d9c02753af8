#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner decides which stages run, beside what, and what it believes of earlier runs: with stages that only say so."""
import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import machine
import passed
import play
import run
import runlog
import stages
from stages import ALL, TEST, Form, Stage


def stage(name, command="true", lists=(TEST, ALL), **more):
    return Stage(name, "proves nothing", {which: Form(command, 1, 60) for which in lists}, "none", **more)


class Table(unittest.TestCase):
    """The stages themselves."""

    def test_every_stage_is_complete(self):
        for s in stages.STAGES:
            self.assertTrue(s.forms and set(s.forms) <= {TEST, ALL}, s.name)
            self.assertTrue(s.proves and s.cause, s.name)
            for form in s.forms.values():
                self.assertLess(0, form.cost, s.name)
                self.assertLess(form.cost, form.budget, s.name)

    def test_what_is_proved_shortly_is_proved_whole_too(self):
        self.assertEqual([s.name for s in stages.STAGES if ALL not in s.forms], [])

    def test_names_are_unique_and_what_runs_beside_comes_later(self):
        names = [s.name for s in stages.STAGES]
        self.assertEqual(len(names), len(set(names)))
        for i, s in enumerate(stages.STAGES):
            for beside in (s.beside, *(form.beside or () for form in s.forms.values())):
                self.assertLessEqual(set(beside), set(names[:i]), s.name)

    def test_the_short_list_fits_its_limit(self):
        self.assertLessEqual(play.expected([play.Job(s, s.forms[TEST]) for s in stages.STAGES if TEST in s.forms]), 900)


class Expected(unittest.TestCase):
    def test_what_runs_beside_another_costs_what_is_left_of_it(self):
        def job(name, cost, *beside):
            return play.Job(stage(name, beside=beside), Form("true", cost, 2 * cost))
        self.assertEqual(play.expected([job("a", 10), job("b", 20)]), 30)
        self.assertEqual(play.expected([job("a", 10), job("b", 4, "a"), job("c", 5)]), 15)
        self.assertEqual(play.expected([job("a", 10), job("b", 25, "a"), job("c", 5, "b")]), 25)
        self.assertEqual(play.expected([job("a", 10), job("b", 5), job("c", 9, "a")]), 15)
        self.assertEqual(play.expected([]), 0)


    def test_a_form_may_have_other_neighbours_than_its_stage(self):
        short, whole = Form("true", 1, 2, beside=("a",)), Form("true", 1, 2)
        known = stage("b", beside=("a", "c"))
        self.assertEqual([play.may_start(play.Job(known, form), ["a", "c"]) for form in (short, whole)], [False, True])
        self.assertEqual([play.may_start(play.Job(known, form), ["a"]) for form in (short, whole)], [True, True])


class Failures(unittest.TestCase):
    def test_they_are_named_again_when_the_run_ends(self):
        failing = stage("unit", "echo ' 7/9 net:x FAIL 1.00s'; echo ' 7/9 net:x FAIL 1.00s'; exit 1")
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as logs, contextlib.redirect_stdout(out), unittest.mock.patch.object(play, "LOGS", pathlib.Path(logs)), \
                unittest.mock.patch.object(play, "ROOT", pathlib.Path(logs)):
            results = play.play([play.Job(failing, failing.forms[TEST])], True)
        self.assertEqual(results[0].failures, ["7/9 net:x FAIL 1.00s"])

    def test_what_passing_go_tests_log_is_no_failure(self):
        log = ("=== RUN   TestA\n=== RUN   TestB\n=== CONT  TestA\n    a_test.go:5: all is well\n=== CONT  TestB\n    b_test.go:7: want 1, got 2\n"
               "=== CONT  TestA\n--- PASS: TestA (0.1s)\n=== CONT  TestB\n--- FAIL: TestB (0.2s)\nFAIL\n")
        self.assertEqual(runlog.failures(log), ["b_test.go:7: want 1, got 2", "--- FAIL: TestB (0.2s)"])
        self.assertEqual(runlog.failures("--- FAIL: TestC (0.1s)\n    c_test.go:3: no\n"), ["--- FAIL: TestC (0.1s)", "c_test.go:3: no"])

    def test_what_python_c_and_the_sanitizers_say_of_a_failure(self):
        said = ["FAIL: test_r61 (__main__.Serving.test_r61)", "AssertionError: 3 not less than 2", "[  ERROR   ] --- 3 != 2",
                "subprocess.TimeoutExpired: Command 'x' timed out", "a.c:7:3: runtime error: signed integer overflow",
                "WARNING: ThreadSanitizer: data race (pid=1)", "SUMMARY: AddressSanitizer: heap-use-after-free a.c:7 in f"]
        log = "test_r61 (__main__.Serving.test_r61) ... ok\n[       OK ] r61\n" + "\n".join(said) + "\nRan 3 tests in 0.1s\n"
        self.assertEqual(runlog.failures(log), said)

    def test_of_many_the_first(self):
        log = "".join(f"--- FAIL: Test{i}\n" for i in range(50))
        self.assertEqual(runlog.failures(log), [f"--- FAIL: Test{i}" for i in range(runlog.REPEATED)])


class Select(unittest.TestCase):
    KNOWN = (stage("a"), stage("b", lists=(ALL,)), stage("c", needs=("root",)), stage("d", beside=("a",)))

    def names(self, *args):
        jobs, left_out = run.selected(self.KNOWN, *args)
        return [j.stage.name for j in jobs], left_out

    def test_lists(self):
        with unittest.mock.patch("os.geteuid", return_value=0):
            self.assertEqual(self.names(TEST, None, None), (["a", "c", "d"], []))
            self.assertEqual(self.names(ALL, None, ["c"]), (["a", "b", "d"], []))

    def test_without_root_what_needs_it_is_named(self):
        with unittest.mock.patch("os.geteuid", return_value=1000):
            self.assertEqual(self.names(TEST, None, None), (["a", "d"], ["c"]))
            self.assertEqual([j.form.beside for j in run.selected(self.KNOWN, TEST, None, None)[0]], [(), ()])

    def test_a_stage_of_another_list_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no stage 'b' in test; there are: a, c, d"):
            self.names(TEST, ["b"], None)


class Played(unittest.TestCase):
    """Stages that are really started, in a folder of their own."""

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        self.said = io.StringIO()
        for context in (unittest.mock.patch.object(play, "ROOT", self.root), unittest.mock.patch.object(play, "LOGS", self.root / "log"),
                        contextlib.redirect_stdout(self.said)):
            context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)

    def play(self, *known, keep_going=False):
        return play.play([play.Job(s, s.forms[TEST]) for s in known], keep_going)

    def test_a_failure_ends_the_run_unless_it_shall_go_on(self):
        known = (stage("good"), stage("bad", "echo 'x_test.go:7: broken'; exit 3"), stage("later"))
        self.assertEqual([(r.name, r.ok) for r in self.play(*known)], [("good", True), ("bad", False)])
        self.assertIn("| x_test.go:7: broken", self.said.getvalue())
        self.assertIn("stage bad exited 3; likely cause: none", self.said.getvalue())
        self.assertEqual([r.ok for r in self.play(*known, keep_going=True)], [True, False, True])

    def test_two_run_at_once_where_they_may(self):
        # Each waits for what the other one makes: alone neither comes to an end.
        meet = "touch {0}; until [ -e {1} ]; do sleep 0.05; done"
        both = (stage("slow", meet.format("slow", "quick")), stage("quick", meet.format("quick", "slow"), beside=("slow",)))
        self.assertEqual([r.ok for r in self.play(*both)], [True, True])

    def test_each_is_a_session_of_its_own(self):
        self.assertTrue(self.play(stage("alone", "read -r pid _ _ _ _ session _ < /proc/$$/stat; [ $pid = $session ]"))[0].ok)

    def test_others_run_one_after_the_other(self):
        known = (stage("first", "[ ! -e busy ]; touch busy; sleep 0.3; rm busy"), stage("second", "[ ! -e busy ]", beside=("other",)))
        self.assertEqual([(r.name, r.ok) for r in self.play(*known)], [("first", True), ("second", True)])

    def test_one_that_may_run_does_not_wait_for_one_that_may_not(self):
        # The last one is over before the second begins, which no other may run beside.
        known = (stage("long", "until [ -e quick ]; do sleep 0.05; done"), stage("alone", "[ -e quick ]"), stage("quick", "touch quick", beside=("long",)))
        results = self.play(*known)
        self.assertEqual((results[-1].name, [r.ok for r in results]), ("alone", [True] * 3))

    def test_what_a_stage_took_of_the_processors_is_told(self):
        spins = "import time\nwhile time.process_time() < 0.2: pass\n"
        results = self.play(stage("spins", f"python3 -c '{spins}'"), stage("sleeps", "sleep 0.3"))
        self.assertGreaterEqual(results[0].processor, 0.2)
        self.assertLess(results[1].processor, 0.2)
        self.assertRegex(run.processors(results), r"seconds of the clock: spins \d+ in \d+, sleeps 0 in \d+; together \d+$")

    def test_a_stage_at_work_says_what_it_does(self):
        (self.root / "log").mkdir()
        os.mkfifo(self.root / "go")
        known = stage("slow", "echo counting sheep; read -r _ < go")
        with unittest.mock.patch.object(play, "TELL_SECONDS", 0):
            one = play.Running(play.Job(known, known.forms[TEST]))
            while not runlog.last_line(one.log):
                time.sleep(0.01)
            one.tell()
        (self.root / "go").write_text("on\n")
        self.assertEqual(one.process.wait(), 0)
        self.assertRegex(self.said.getvalue(), r"\.\.\. slow \d+ s: counting sheep")

    def test_a_run_that_is_ended_ends_its_stages(self):
        known = stage("endless", "trap 'echo tidied up; exit 1' TERM; touch begun; while :; do sleep 0.05; done")

        def interrupt(_):
            if (self.root / "begun").exists():
                raise KeyboardInterrupt

        with unittest.mock.patch.object(play.Running, "tell", interrupt), self.assertRaises(KeyboardInterrupt):
            self.play(known)
        self.assertEqual(runlog.last_line(self.root / "log/test-endless.log"), "tidied up")


class Believed(unittest.TestCase):
    """What passed on a commit, in a repository made for it."""

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        self.git("init", "-q")
        (self.root / ".gitignore").write_text("/build/\n")
        self.commit("first")

    def git(self, *args):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", *args], cwd=self.root, check=True)

    def commit(self, text):
        (self.root / "file").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)

    def test_runs_in_a_row_are_counted_and_a_failure_takes_them_back(self):
        state = passed.Passed.of(self.root)
        for ok, want in ((True, 1), (True, 2), (False, 0), (True, 1)):
            self.assertEqual(state.note("steady", "unit", "make unit", ok, 2.0), want)
            self.assertEqual(passed.Passed.of(self.root).runs("steady", "unit", "make unit"), want)

    def test_another_command_or_kind_is_another_proof(self):
        state = passed.Passed.of(self.root)
        state.note("stage", "sim", "make sim-short", True, 2.0)
        self.assertEqual((state.runs("stage", "sim", "make sim"), state.runs("steady", "sim", "make sim-short")), (0, 0))

    def test_another_commit_knows_nothing_and_the_old_one_still_does(self):
        passed.Passed.of(self.root).note("stage", "unit", "make unit", True, 2.0)
        passed.Passed.of(self.root).keep("test", {"test_wall_seconds": 480})
        self.commit("second")
        there = passed.Passed.of(self.root)
        self.assertEqual((there.runs("stage", "unit", "make unit"), there.kept("test")), (0, {}))
        self.git("checkout", "-q", "HEAD~1")
        back = passed.Passed.of(self.root)
        self.assertEqual((back.runs("stage", "unit", "make unit"), back.kept("test")), (1, {"test_wall_seconds": 480}))

    def test_a_tree_with_changes_remembers_and_believes_nothing(self):
        passed.Passed.of(self.root).note("stage", "unit", "make unit", True, 2.0)
        for change in ("file", "new file"):
            self.git("checkout", "-q", ".")
            (self.root / change).write_text("changed")
            state = passed.Passed.of(self.root)
            self.assertEqual((state.folder, state.runs("stage", "unit", "make unit"), state.kept("test")), (None, 0, {}))
            state.note("stage", "unit", "make unit", True, 2.0)
            state.keep("test", {"test_wall_seconds": 1})

    def test_what_passed_while_the_tree_was_changed_is_not_noted(self):
        state, noted = passed.Passed.of(self.root), []
        with unittest.mock.patch.object(run, "ROOT", self.root):
            run.unless_changed(state, lambda: noted.append("as it was"))
            (self.root / "file").write_text("changed meanwhile")
            run.unless_changed(state, lambda: noted.append("changed"))
        self.assertEqual(noted, ["as it was"])


class Rows(unittest.TestCase):
    RESULTS = [play.Result("build", "x", True, 12.0, (0, 0, 0)), play.Result("unit", "x", True, 70.0, (9, 0, 0))]

    def test_a_run_that_built_nothing_is_warm(self):
        wall, parts = run.whole_wall(self.RESULTS, time.time() - 480, True)
        self.assertEqual((list(wall), parts), (["test_wall_seconds"], ["warm"]))
        self.assertAlmostEqual(wall["test_wall_seconds"], 480, delta=5)

    def test_a_run_that_had_to_build_is_cold(self):
        long = [self.RESULTS[0]._replace(seconds=400.0), self.RESULTS[1]]
        self.assertEqual(run.whole_wall(long, time.time(), True)[1], ["cold"])

    def test_a_partial_run_owes_no_wall_time(self):
        self.assertEqual(run.whole_wall(self.RESULTS, time.time(), False), ({}, []))

    def test_a_stage_over_its_budget_fails_on_a_quiet_machine_only(self):
        known = stage("unit")
        rows = {judged: run.seconds(self.RESULTS[1:], [play.Job(known, known.forms[TEST])], judged)[0] for judged in (True, False)}
        self.assertEqual((rows[True]["value"], rows[True]["goal"], rows[True]["required"], rows[False]["required"]), (70.0, 60, True, False))


class Steady(unittest.TestCase):
    """Runs of make test-steady, without the busy processes."""

    def steady(self, outcomes, known, state):
        played, reports = [], []

        def pretend(jobs, _):
            played.append(jobs[0].stage.name)
            return [play.Result(jobs[0].stage.name, jobs[0].form.command, outcomes.pop(0), 1.0, (1, 0, 0))]

        args = run.options(["--steady"])
        with unittest.mock.patch.multiple(run, play=pretend, unless_changed=lambda _, note: note(), report=lambda *a: reports.append(a) or 0), \
             unittest.mock.patch.object(machine, "spinners", lambda n: contextlib.nullcontext()), contextlib.redirect_stdout(io.StringIO()):
            run.run_steady(args, [play.Job(s, s.forms[TEST]) for s in known], state, True)
        return played, {row["name"]: row["value"] for row in reports[0][1]}

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.state = passed.Passed(pathlib.Path(tmp.name))

    def test_three_in_a_row_of_each(self):
        played, rows = self.steady([True] * 6, (stage("a"), stage("b")), self.state)
        self.assertEqual((played, rows["steady_runs_green"]), (["a"] * 3 + ["b"] * 3, 3))
        self.assertEqual(self.state.kept("test-steady"), {"steady_runs_green": 3})
        self.assertEqual(self.steady([], (stage("a"), stage("b")), self.state)[0], [])

    def test_one_that_failed_begins_anew(self):
        played, rows = self.steady([True, True, False], (stage("a"), stage("b")), self.state)
        self.assertEqual((played, rows), (["a"] * 3, {"steady_runs_green": 0, "stages_failed": 1}))
        self.assertEqual(self.state.kept("test-steady"), {})
        self.assertEqual(len(self.steady([True] * 3, (stage("a"),), self.state)[0]), 3)

    def test_one_that_was_cut_short_goes_on(self):
        known = stage("a")
        self.state.note("steady", "a", known.forms[TEST].command, True, 1.0)
        self.assertEqual(self.steady([True] * 2, (known,), self.state)[0], ["a", "a"])


class Spinners(unittest.TestCase):
    def test_they_compute_and_end(self):
        with machine.spinners(2) as running:
            for process in running:
                while processor_ticks(process.pid) < 5:
                    self.assertIsNone(process.poll())
        self.assertEqual([p.returncode for p in running], [-9, -9])


def processor_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11])


if __name__ == "__main__":
    unittest.main()
