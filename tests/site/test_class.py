"""The notebooks of a class: students get every question and no answer, their code runs, and a lesson prints no hint unasked."""

import ast
import json
import os
import re
from pathlib import Path

import build_class
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
LESSONS = sorted((ROOT / "nbs/lessons").glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("class") / "class"
    build_class.build(out)
    return out


def cells(path, kind=None):
    found = json.loads(path.read_text("utf8"))["cells"]
    return [cell for cell in found if kind in (None, cell["cell_type"])]


def source(cell):
    return "".join(cell["source"])


class Silent(ast.NodeTransformer):
    """A program without what its strings say."""

    def visit_JoinedStr(self, node):
        return ast.Constant("")

    def visit_Constant(self, node):
        return ast.Constant("") if isinstance(node.value, str) else node


def bones(code):
    return ast.dump(Silent().visit(ast.parse(code)))


def hints_of(path):
    """What the checker of a lesson says after a wrong answer."""
    for cell in cells(path, "code"):
        for tree in ast.parse(source(cell)).body:
            named = [getattr(target, "id", "") for target in getattr(tree, "targets", ())]
            if {*named} & {*build_class.CHECKED}:
                return [value.elts[-1].value for value in tree.value.values]
    return []


def test_students_have_no_answers_and_the_instructor_has_all(folder):
    theirs = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.ipynb"))
    names = [path.name for path in LESSONS]
    assert [name for name in theirs if name.startswith("students/")] == [
        "students/homework.ipynb",
        *(f"students/lessons/{name}" for name in names),
    ]
    for name in names:
        assert cells(folder / "instructor/lessons" / name) == cells(ROOT / "nbs/lessons" / name)
        assert (folder / "instructor/answers/lessons" / name).is_file()
    assert (folder / "instructor/homework_answers.ipynb").is_file()


@EACH
def test_a_students_copy_asks_everything_and_answers_nothing(folder, path):
    copy, whole = folder / "students/lessons" / path.name, path.read_text("utf8")
    text = copy.read_text("utf8")
    assert all(
        not cell["outputs"] and cell["execution_count"] is None for cell in cells(copy, "code")
    )
    assert not re.search(r"<summary>Answer|answers/|Hint|, a hint|not yet\. '|\"slides\"", text)
    left_out = len(re.findall("<summary>Answers?</summary>", whole))
    assert left_out >= 1 or path.stem == "01_first_steps"  # it answers in its text
    # the hints of the exercises, and what is said after each question, word for word
    hints = hints_of(path)
    assert len(hints) >= 4 and not any(json.dumps(hint)[1:-1] in text for hint in hints)
    prose = "\n".join(source(cell) for cell in cells(path, "markdown"))
    left = "\n".join(source(cell) for cell in cells(copy, "markdown"))
    for answer in re.findall(
        r"<details><summary>Answers?</summary>\s*(.*?)\s*</details>", prose, re.S
    ):
        assert answer not in left
    questions = [
        line for line in prose.splitlines() if re.match(r"\d\. ★|.*\*Predict|\*\*Check your", line)
    ]
    bare = build_class.LINK.sub(r"\1", left)
    assert len(questions) > 4
    assert all(build_class.LINK.sub(r"\1", question) in bare for question in questions)


@EACH
def test_a_students_copy_runs_the_lessons_code(folder, path):
    """Cell by cell the same, but for what checkers say."""
    copy = folder / "students/lessons" / path.name
    pairs = list(zip(cells(path, "code"), cells(copy, "code"), strict=True))
    changed = [(a, b) for a, b in pairs if source(a) != source(b)]
    assert 1 <= len(changed) <= 2 and all("def check_" in source(a) for a, _ in changed)
    assert all(bones(source(a)) == bones(source(b)) for a, b in changed)


def test_links_of_students_lead_to_what_they_have(folder):
    for path in folder.rglob("students/**/*.ipynb"):
        for cell in cells(path, "markdown"):
            for _, target, _ in build_class.LINK.findall(source(cell)):
                assert (path.parent / target).is_file(), (path.name, target)


@pytest.mark.parametrize("name", ["01_first_steps", "20_covering_the_crowd"])
def test_a_students_copy_runs_from_top_to_bottom(folder, name):
    path = folder / f"students/lessons/{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=300, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output.get("text", "") for output in outputs)
    assert said.count("no answer yet") == 5


@EACH
def test_a_lesson_prints_no_hint_before_an_attempt(path):
    for cell in cells(path, "code"):
        printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        assert "Hint" not in printed
        if "def check_answer(" in source(cell):
            assert source(cell).startswith("#| code-fold: true\n"), "its hints are seen at once"
    last = [c for c in cells(path, "code") if "check_answer(exercise, answer)" in source(c)][-1]
    (printed,) = last["outputs"]
    lines = "".join(printed["text"]).splitlines()
    assert len(lines) >= 4 and all(
        re.fullmatch(r"(Exercise )?\d: no answer yet\.", x) for x in lines
    )
    shown = json.dumps([cell["outputs"] for cell in cells(path, "code")])
    hints = hints_of(path)
    assert len(hints) >= 4 and not any(json.dumps(hint)[1:-1] in shown for hint in hints)


def test_some_lessons_only_and_no_folder_of_others(tmp_path):
    out = tmp_path / "class"
    assert [path.name[:2] for path in build_class.build(out, ["01", "10"])] == ["01", "10"]
    build_class.build(out, ["02"])  # its own folder is made anew
    assert [path.name[:2] for path in (out / "students/lessons").iterdir()] == ["02"]
    with pytest.raises(ValueError, match="no lesson 99"):
        build_class.build(out, ["99"])
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").touch()
    with pytest.raises(FileExistsError, match="was not made by this program"):
        build_class.build(other)
    assert (other / "mine.txt").is_file()


def test_a_hint_is_cut_out_of_any_checker():
    code = """ANSWERS = {
    1: ("ab12", "a hint (with é)"),
    2: (
        "cd34",
        "another",
    ),
}
def check_it(x):
    if x is None:
        return "5: not yet. Hint: which one?"
    return f"5: {x}, " + ("right." if x else f"not yet. Hint: {x}")
def check_more(x):
    "Whether it is right; if not, a hint."
    return "right." if x else 'not yet. ' + x
"""
    left = build_class.without_hints(code)
    assert "hint" not in left.lower() and "another" not in left and "which one" not in left
    assert bones(left) != "" and left.count("not yet.") == 3 and left.count('""') == 2
    assert "not yet. " not in left


def wheel_of(folder):
    """A file whose name is that of a wheel of this version."""
    folder.mkdir()
    wheel = folder / f"dplit-{build_class.setting('version')}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return wheel


def test_students_get_a_wheel_and_the_commands_that_install_it(tmp_path):
    out, wheel = tmp_path / "class", wheel_of(tmp_path / "dist")
    build_class.build(out, ["02", "10"], wheel=wheel)
    given = sorted(
        path.relative_to(out / "students").as_posix() for path in out.rglob("students/*")
    )
    assert given == ["README.md", "benchmarks", wheel.name, "homework.ipynb", "lessons"]
    assert (out / "students" / wheel.name).read_bytes() == b"a wheel"
    text = (out / "students/README.md").read_text("utf8")
    assert f"pip install -q ./{wheel.name} jupyterlab\n" in text and "CLONE" not in text
    assert not re.search("answers|hint", text.replace("your answers", ""), re.I)
    for name in re.findall(r"[\w/]+\.ipynb", text):
        assert (out / "students" / name).is_file()
    assert {*re.findall(r"lessons/(\d\d)", text)} == {"02", "10"}
    build_class.build(out, ["02"], wheel=out / "students" / wheel.name)  # also from its own folder
    assert (out / "students" / wheel.name).read_bytes() == b"a wheel"
    with pytest.raises(ValueError, match=r"none\.whl is not a wheel"):
        build_class.build(out, wheel=tmp_path / "none.whl")


def test_without_a_wheel_students_install_a_clone(folder):
    text = (folder / "students/README.md").read_text("utf8")
    assert "pip install -q CLONE jupyterlab" in text and "CLONE is the folder" in text
    assert build_class.setting("min_python") in text and not [*folder.rglob("*.whl")]


def test_the_newest_wheel_of_this_version_is_found(tmp_path):
    (tmp_path / "settings.ini").write_text((ROOT / "settings.ini").read_text("utf8"), "utf8")
    assert build_class.built_wheel(tmp_path) is None
    old, new = wheel_of(tmp_path / "dist"), wheel_of(tmp_path / "wheels")
    (tmp_path / "dist/dplit-0.0.1-py3-none-any.whl").touch()
    os.utime(old, (1, 1))
    assert build_class.built_wheel(tmp_path) == new
