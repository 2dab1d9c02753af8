# SPDX-License-Identifier: Apache-2.0
"""What passed on this commit, so that a run that was cut short goes on where it was.

A file a stage under build/test-state/<commit>/, written only while the tree is
as committed: with changes in it nothing is remembered and nothing is believed.
A stage is known by its name and its command, so that its short form does not
stand for its long one.
"""
import hashlib
import json
import subprocess


class Passed:
    """The state of one commit; of a changed tree it is always empty."""

    def __init__(self, folder):
        self.folder = folder  # None: remember nothing

    @classmethod
    def of(cls, root):
        """The state of the tree at `root`."""
        git = lambda *args: subprocess.run(["git", *args], cwd=root, capture_output=True, text=True)
        head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
        known = head.returncode == 0 and changes.returncode == 0 and not changes.stdout.strip()
        return cls(root / "build" / "test-state" / head.stdout.strip() if known else None)

    def _file(self, kind, name, command):
        return self.folder / f"{kind}-{name}-{hashlib.sha256(command.encode()).hexdigest()[:12]}.json"

    def runs(self, kind, name, command):
        """How many times in a row it passed so far."""
        if self.folder is None:
            return 0
        try:
            return json.loads(self._file(kind, name, command).read_text())["runs"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def note(self, kind, name, command, ok, seconds):
        """One more run; one that failed takes back those before it. Returns how many passed in a row."""
        runs = self.runs(kind, name, command) + 1 if ok else 0
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file(kind, name, command).write_text(json.dumps({"runs": runs, "seconds": seconds}) + "\n")
        return runs

    def keep(self, name, values):
        """Figures of a whole run on this commit."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{name}.json").write_text(json.dumps(values) + "\n")

    def kept(self, name):
        """Those figures, or {} when there was no such run on this commit as it is."""
        try:
            return json.loads((self.folder / f"{name}.json").read_text()) if self.folder else {}
        except (FileNotFoundError, ValueError):
            return {}
