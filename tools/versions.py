"""Do the tests pass on every Python that is here, and on the first of them with the lowest libraries that pyproject.toml allows?

python tools/versions.py [--lowest] [--tests "tests/test_public.py ..."]

An environment for each is made anew in --out. Chapters are left out: what figures look like depends on a library's version.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# tests of the book and of tools
WITH_CHAPTERS = ["book", "site", "browser", "benchmark", "mutants"]


def lowest(requirements):
    """The constraints that hold every library at the lowest version it is asked for: `numpy>=2.0` becomes `numpy==2.0.*`."""
    found = [re.match(r"([\w-]+)(?:\[[^]]*\])?>=([\d.]+)", text) for text in requirements]
    return [f"{m[1]}=={m[2]}.*" for m in found if m]


def pythons(project):
    """Programs of the range that `requires-python` names, as far as they are here."""
    first, end = (
        int(n) for n in re.match(r">=3\.(\d+),<3\.(\d+)$", project["requires-python"]).groups()
    )
    found = [path for n in range(first, end) if (path := shutil.which(f"python3.{n}"))]
    return [path for path in found if not subprocess.run([path, "-c", ""]).returncode]


def run(python, constraints, tests, folder):
    """Whether the tests pass in an environment of its own."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    (folder / "constraints.txt").write_text("\n".join(constraints) + "\n")
    own = folder / "bin" / "python"
    pip = [own, "-m", "pip", "-q"]
    held = ["-c", folder / "constraints.txt"]
    subprocess.run([*pip, "install", *held, "-e", f"{ROOT}[dev]"], check=True)
    listed = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
    core = r"(numpy|scipy|scikit-learn|matplotlib)=="
    print(python, *(line for line in listed.stdout.split() if re.match(core, line)), flush=True)
    return not subprocess.run([own, "-m", "pytest", "-q", "-n", "2", *tests], cwd=ROOT).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lowest", action="store_true", help="only the lowest versions")
    parser.add_argument("--tests", default="", help="files of tests, if not all; with spaces")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "versions")
    args = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tests = args.tests.split() or [
        str(path)
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if path.stem.removeprefix("test_") not in WITH_CHAPTERS
    ]
    found = pythons(project)
    jobs = [(found[0], "lowest", lowest(project["dependencies"]))]
    jobs += [] if args.lowest else [(python, "newest", []) for python in found]
    args.out.mkdir(parents=True, exist_ok=True)
    passed = {}
    for python, kind, constraints in jobs:
        name = f"{Path(python).name}, {kind}"
        passed[name] = run(python, constraints, tests, args.out / name.replace(", ", "-"))
    for name, fine in passed.items():
        print(f"{name}: {'passed' if fine else 'FAILED'}")
    return not all(passed.values())


if __name__ == "__main__":
    sys.exit(main())
