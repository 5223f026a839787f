"""Is this a release? Archives are built, installed into empty environments, and used.

python tools/quality/release.py [--out DIR]

One version everywhere; a wheel and a source archive; each installed into an empty environment with only what it
needs to run, where a table becomes a report; the archive's own tests of that, run from its own folder.
"""

import argparse
import configparser
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = [
    "tests/estimators/test_estimators.py",
    "tests/command_line/test_commands.py",
    "tests/book/test_rooms.py",
]
NAMED = {
    "dplit/__init__.py": r'^__version__ = "(.+)"',
    "CITATION.cff": r"^version: (.+)",
    "CHANGELOG.md": r"^## (.+)",
}
TABLE = "age,income\n" + "".join(f"{20 + n % 50},{1000 * (n % 7)}\n" for n in range(400))
BOUNDS = "column,low,high\nage,0,120\nincome,0,10000\n"


def versions():
    """The version, by each file that names it."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "settings.ini")
    found = {"settings.ini": settings["DEFAULT"]["version"]}
    for name, pattern in NAMED.items():
        found[name] = re.search(pattern, (ROOT / name).read_text("utf8"), re.M)[1]
    return found


def say(*words):
    """Run a program; what it prints, if it ends well."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def environment(folder):
    """The Python of a new, empty environment."""
    say(sys.executable, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def build(out):
    """The wheel and the archive of the sources."""
    builder = environment(out / "build")
    say(builder, "-m", "pip", "install", "-q", "build")
    say(builder, "-m", "build", "--outdir", out, ROOT)
    return *out.glob("*.whl"), *out.glob("*.tar.gz")


def use(archive, out):
    """A table becomes a report where only this archive and what it needs are installed."""
    folder = out / archive.name.replace(".", "-")
    own = environment(folder)
    say(own, "-m", "pip", "install", "-q", archive)
    (folder / "table.csv").write_text(TABLE)
    (folder / "bounds.csv").write_text(BOUNDS)
    asked = "--clusters 2 --epsilon 1 --delta 1e-6".split()
    files = [folder / "table.csv", "--bounds", folder / "bounds.csv", "--out", folder / "answer"]
    say(own, "-m", "dplit", "cluster", *files, *asked)
    found = sorted(path.name for path in (folder / "answer").iterdir())
    assert found == ["centers.csv", "receipt.json", "report.html"], found
    say(own, "-m", "dplit", "--picture", folder / "tour.png")
    libraries = say(own, "-m", "pip", "list", "--format", "freeze").split()
    return f"{archive.name}: a report and a picture, with {', '.join(libraries)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    named = versions()
    assert len(set(named.values())) == 1, f"several versions: {named}"
    for old in [*out.glob("*.whl"), *out.glob("*.tar.gz")]:
        old.unlink()
    archives = build(out)
    for archive in archives:
        print(use(archive, out), flush=True)
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(out, filter="data")
    unpacked = out / archives[-1].name.removesuffix(".tar.gz")
    pytest = [sys.executable, "-m", "pytest", "-q", "--disable-warnings", *TESTS]
    return subprocess.run(pytest, cwd=unpacked).returncode


if __name__ == "__main__":
    sys.exit(main())
