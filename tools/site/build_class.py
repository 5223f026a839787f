"""The notebooks of a class: copies for students, without outputs, answers and hints, and a copy for the instructor, with all.

    python tools/site/build_class.py FOLDER [--lessons 01 02 ...] [--wheel FILE]

    FOLDER/students/      lessons and homework, dplit as a wheel, and a README.md with the commands that install it and start
                          JupyterLab: to be handed out
    FOLDER/instructor/    the same as they are in the book, the answers to both, and the slides' outlines in the lessons

In a student's copy a question keeps its place and loses its folded answer; a checker says "right" or "not yet", and no hint; a
link to a page that students do not have is plain text. All code runs from top to bottom, with the exercises still open,
and without a network. The wheel is the newest one of this version in dist/ or wheels/, if no other is named; where there is
none, README.md installs dplit from a clone, which contains the answers.
"""

import argparse
import ast
import configparser
import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKER = ".built-by-build_class"  # lies in every folder we made: no other folder is ever replaced
ANSWER = re.compile(r"<details>\s*<summary>Answers?</summary>.*?</details>\n*", re.S)
# the links at the end of the exercises, to the notebook of their answers
SOLVED = re.compile(r"^.*\]\([^)]*answers/[^)]*\).*\n*", re.M)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
HINT = re.compile(r"""\s*Hint:[^"\n]*(?=")""")
KEPT = re.compile(r"\.\./benchmarks/(\w+\.json)")  # results that take long lie in a file
CHECKED = ("ANSWERS", "KEYS")  # {exercise: (digest, ..., hint)} in the lessons
README = """# Differential privacy, literately: notebooks for students

You need Python {python} or later. Run these two commands in this folder. The first one needs a network, once:

```
python3 -m venv .venv && .venv/bin/pip install -q {source} jupyterlab
.venv/bin/jupyter lab {first}
```

On Windows:

```
py -m venv .venv
.venv\\Scripts\\pip install -q {source} jupyterlab
.venv\\Scripts\\jupyter lab {first}
```

{said}The second command opens a notebook. *Run*, *Run All Cells* runs it, offline. Begin with it whenever you come back.

{lessons}
* `homework.ipynb`: problems to hand in, for all lessons of the book

Write your answers to the exercises into the last code cell of a lesson, and run it: it says which are right.
"""


def without_hints(source):
    """The code of a checker that says whether an answer is right, and no more."""
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines))]
    spans = []
    for node in ast.parse(source).body:
        names = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
        if isinstance(node, ast.Assign) and {*names} & {*CHECKED}:
            for value in node.value.values:
                hint = value.elts[-1]
                first = starts[hint.lineno - 1] + hint.col_offset
                spans.append((first, starts[hint.end_lineno - 1] + hint.end_col_offset))
    code = source.encode()
    for first, last in reversed(spans):
        code = code[:first] + b'""' + code[last:]
    said = HINT.sub("", code.decode()).replace("Right, or a hint", "Right, or not yet")
    return re.sub(r"not yet\. (?=['\"])", "not yet.", said.replace("; if not, a hint", ""))


def for_students(notebook, known):
    """A student's copy of a notebook; `known` are the names of the notebooks that lie in the same folder."""

    def link(found):
        words, path, anchor = found.groups()
        return found[0] if path in known else words

    cells = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = SOLVED.sub("", ANSWER.sub("", source))
            source = re.sub(
                r"`check_answer` says whether an answer is right, or gives a hint;[^.]*\.",
                "`check_answer` says whether an answer is right.",
                source,
            )
            source = LINK.sub(link, source).strip("\n")
        elif "check_" in source and "Hint" in source or "def check_answer(" in source:
            source = without_hints(source)
        if source:
            cell = {**cell, "source": source.splitlines(keepends=True)}
            cells.append(
                cell | ({"outputs": [], "execution_count": None} if "outputs" in cell else {})
            )
    metadata = {key: value for key, value in notebook["metadata"].items() if key != "slides"}
    return {**notebook, "cells": cells, "metadata": metadata}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, notebook):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def keep(paths, root, *folders):
    """Copy the results that these notebooks read."""
    for name in sorted({name for path in paths for name in KEPT.findall(path.read_text("utf-8"))}):
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / "nbs/benchmarks" / name, folder / name)


def setting(name, root=ROOT):
    """A line of settings.ini."""
    settings = configparser.ConfigParser()
    settings.read(root / "settings.ini", encoding="utf-8")
    return settings["DEFAULT"][name]


def built_wheel(root=ROOT):
    """The newest wheel of this version of dplit that lies in dist/ or wheels/, None if there is none."""
    name = f"dplit-{setting('version', root)}-*.whl"
    found = [*(root / "dist").glob(name), *(root / "wheels").glob(name)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def readme(lessons, wheel):
    """How students install dplit, from a wheel in their folder or from a clone, and open these lessons."""
    heads = [(path.name, "".join(read(path)["cells"][0]["source"])) for path in lessons]
    titles = {name: head.partition("\n")[0].removeprefix("# ") for name, head in heads}
    return README.format(
        python=setting("min_python"),
        source=f"./{wheel.name}" if wheel else "CLONE",
        said="" if wheel else "CLONE is the folder of dplit's sources.\n\n",
        first=f"lessons/{lessons[0].name}",
        lessons="\n".join(f"* `lessons/{name}`: {title}" for name, title in titles.items()),
    )


def build(out, numbers=(), root=ROOT, wheel=None):
    """Write both copies; the lessons, by the numbers of their files, that went into them."""
    if out.is_file() or out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise FileExistsError(
            f"{out} was not made by this program, so it stays as it is; choose another folder."
        )
    every = sorted((root / "nbs/lessons").glob("*.ipynb"))
    lessons = [path for path in every if not numbers or path.name[:2] in numbers]
    if unknown := {*numbers} - {path.name[:2] for path in every}:
        raise ValueError(f"there is no lesson {', '.join(sorted(unknown))}.")
    if wheel and not (wheel.is_file() and wheel.suffix == ".whl"):
        raise ValueError(f"{wheel} is not a wheel; `pip wheel --no-deps -w dist .` builds one.")
    content = wheel.read_bytes() if wheel else b""  # it may lie in the folder that is replaced
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    students, instructor = out / "students", out / "instructor"
    known = {path.name for path in lessons}
    for path in lessons:
        write(students / "lessons" / path.name, for_students(read(path), known))
        write(instructor / "lessons" / path.name, read(path))
        answers = root / "nbs/answers/lessons" / path.name
        write(instructor / "answers/lessons" / path.name, read(answers))
    keep(lessons, root, students / "benchmarks", instructor / "benchmarks")
    if wheel:
        (students / wheel.name).write_bytes(content)
    (students / "README.md").write_text(readme(lessons, wheel), encoding="utf-8")
    homework = root / "teachers/homework.ipynb"
    write(students / homework.name, for_students(read(homework), set()))
    for path in (homework, root / "teachers/homework_answers.ipynb"):
        write(instructor / path.name, read(path))
    return lessons


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a new folder, or one that this program made")
    parser.add_argument(
        "--lessons", nargs="+", default=(), metavar="NUMBER", help="01 02 ...: all, if not said"
    )
    parser.add_argument(
        "--wheel",
        type=Path,
        help="dplit for the students: the newest in dist/ or wheels/, if not said",
    )
    asked = parser.parse_args()
    wheel = asked.wheel or built_wheel()
    try:
        lessons = build(asked.folder, asked.lessons, wheel=wheel)
    except (FileExistsError, ValueError) as error:
        sys.exit(f"No class was made: {error}")
    print(f"{len(lessons)} lessons in {asked.folder}/students, without answers and hints.")
    if wheel:
        print(f"Their README.md installs {wheel.name}, which lies there, too.")
    else:
        print(
            "Their README.md installs dplit from a clone, which contains the answers. Build a wheel"
        )
        print(
            "with `pip wheel --no-deps -w dist .` and run this again: it will lie in their folder."
        )
    print(f"With them, and with the answers, in {asked.folder}/instructor: not for students.")


if __name__ == "__main__":
    main()
