"""Programs that need other packages than this one does, or older ones, each in an environment of its own."""

import atexit
import json
import subprocess
import sys
from pathlib import Path


def environment(folder, name, requirements):
    """Path of a Python that has these packages and no others; made once, and anew for other requirements."""
    python = Path(folder) / f"{name}-env" / "bin" / "python"
    ready, wanted = python.parent.parent / "ready", "\n".join(requirements)
    if not ready.exists() or ready.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", ready.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
        ready.write_text(wanted)
    return python


class Apart:
    """A worker that runs there: one JSON request a line, one JSON answer a line, over a pipe."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        python = environment(self.folder, self.NAME, self.REQUIREMENTS)
        self.process = subprocess.Popen(
            [python, Path(__file__).parent / self.WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.process.kill)

    def ask(self, **job):
        """The worker's answer."""
        print(json.dumps(job), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())
