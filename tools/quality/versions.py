"""Do the tests pass on every Python that is installed, and on the first of them with the lowest libraries that pyproject.toml allows?

python tools/quality/versions.py [--lowest] [--tests "tests/inputs/test_public.py ..."]

An environment for each is made anew in --out, by uv, which can pick the lowest versions: of what dplit needs and of what its
tests need. Chapters are left out: what figures look like depends on a library's version.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# tests of the book and of tools
WITH_CHAPTERS = ["book", "site", "browser", "benchmark", "mutants"]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def pythons(classifiers):
    """(programs of the versions that the classifiers name, names of those that are not installed)."""
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in classifiers
    )
    names = [f"python{one[1]}" for one in found if one]
    found = {name: path for name in names if (path := program(name))}
    return list(found.values()), [name for name in names if name not in found]


def program(name):
    """Where a Python is that runs: on the path, or among pyenv's; pyenv's own command of that name runs for some only."""
    places = [shutil.which(name), *PYENV.glob(f"versions/*/bin/{name}")]
    runs = (p for p in places if p and not subprocess.run([p, "-c", ""], capture_output=True).returncode)  # fmt: skip
    return next(runs, None)


def run(uv, python, kind, tests, folder):
    """Whether the tests pass in an environment of its own."""
    subprocess.run([*uv, "venv", "-q", "--clear", "--python", python, folder], check=True)
    own = folder / "bin" / "python"
    lowest = ["--resolution", "lowest-direct"] if kind == "lowest" else []
    pip = [*uv, "pip"]
    subprocess.run([*pip, "install", "-q", "--python", own, *lowest, "-e", f"{ROOT}[dev]"], check=True)  # fmt: skip
    listed = [*pip, "freeze", "-q", "--python", own]
    listed = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    core = r"(numpy|scipy|scikit-learn|matplotlib)=="
    print(python, *(line for line in listed.split() if re.match(core, line)), flush=True)
    path = f"{own.parent}{os.pathsep}{os.environ['PATH']}"  # tests start programs by their names
    command = [own, "-m", "pytest", "-q", "-n", "2", *tests]
    return not subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lowest", action="store_true", help="only the lowest versions")
    parser.add_argument("--tests", default="", help="files of tests, if not all; with spaces")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "versions")
    args = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tests = args.tests.split() or [
        str(path)
        for path in sorted((ROOT / "tests").glob("*/test_*.py"))
        if path.stem.removeprefix("test_") not in WITH_CHAPTERS
    ]
    found, missing = pythons(project["classifiers"])
    jobs = [(found[0], "lowest")]
    jobs += [] if args.lowest else [(python, "newest") for python in found]
    tool = args.out.resolve() / "uv"
    subprocess.run([sys.executable, "-m", "venv", tool], check=True)
    subprocess.run([tool / "bin" / "pip", "-q", "install", "uv"], check=True)
    passed = {}
    for python, kind in jobs:
        name = f"{Path(python).name}, {kind}"
        folder = args.out.resolve() / name.replace(", ", "-")
        passed[name] = run([tool / "bin" / "uv"], python, kind, tests, folder)
    for name, fine in passed.items():
        print(f"{name}: {'passed' if fine else 'FAILED'}")
    for name in missing:
        print(f"{name}: not here")
    return not all(passed.values())


if __name__ == "__main__":
    sys.exit(main())
