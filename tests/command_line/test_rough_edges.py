"""What an impatient user types: each mistake is answered in the words of the command, and none is charged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dplit
from dplit import PrivacyBudget, SourceTargetKMedoids
from dplit.__main__ import main
from dplit.command_line import bounds, command, files, options
from dplit.estimators import kmeans
from dplit.inputs.doubts import listed

ROOT = Path(__file__).parent.parent.parent
HEAVY = "sklearn.cluster", "matplotlib"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with a table, its bounds and a ledger, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{30 + 40 * (i % 2)},{40000 + 20000 * (i % 2)}\n" for i in range(40))
    Path("t.csv").write_text("age,income\n" + rows)
    Path("b.csv").write_text("column,low,high\nage,0,120\nincome,0,200000\n")
    PrivacyBudget.open("ledger.db", 4, 1e-5).close()
    return tmp_path


def asked(*more, table="t.csv", ranges="b.csv", epsilon=1, delta=1e-6):
    line = ["cluster", table, "--bounds", ranges, "--clusters", 2, "--epsilon", epsilon]
    line += ["--delta", delta, "--ledger", "ledger.db", "--out", "out"]
    return [str(word) for word in [*line, *more]]


def charges():
    with PrivacyBudget.open("ledger.db") as budget:
        return len(budget.ledger)


def refused(capsys, line):
    """What a command says that ends before a charge."""
    try:
        said = main([str(word) for word in line])
    except SystemExit as ended:
        assert ended.code == 2
        said = capsys.readouterr().err
    assert isinstance(said, str) and charges() == 0 and not Path("out").exists()
    return said


# ---------------------------------------------------------------- what is loaded


@pytest.mark.parametrize(
    "line",
    [
        ["ledger", "ledger.db"],
        ["ledger", "new.db", "--begin", "1", "1e-6"],
        ["check", "t.csv", "--bounds", "b.csv"],
    ],
    ids=["a ledger", "a new ledger", "a check"],
)
def test_what_draws_and_clusters_nothing_loads_neither(desk, line):
    """In a process of its own, by the list of all imports; a fit shows that the list would have them."""
    told = [sys.executable, "-X", "importtime", "-m", "dplit", *line]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(told, env=environment, capture_output=True, text=True)
    loaded = {found.rpartition("|")[2].strip() for found in done.stderr.splitlines()}
    assert done.returncode == 0 and "dplit.command_line.tour" in loaded
    assert not {name for name in loaded if name.startswith(HEAVY)}


def test_a_fit_loads_what_it_draws_with(desk):
    told = [sys.executable, "-X", "importtime", "-m", "dplit", *asked("--dry-run")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(told, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and all(name in done.stderr for name in HEAVY)


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"dplit {dplit.__version__}\n"


# ---------------------------------------------------------------- addresses and options


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/t.csv",
        "https://example.org/t.csv.gz",
        "s3://bucket/t.parquet",
        "GS://b/t",
    ],
)
@pytest.mark.parametrize("place", ["table", "ranges"])
def test_an_address_is_refused_and_to_be_downloaded(desk, capsys, address, place):
    said = refused(capsys, asked(**{place: address}))
    scheme = address.partition("://")[0].lower()
    what = "a web address" if scheme.startswith("http") else "an address"
    assert (
        f"{address} is {what} ({scheme}://) and not a path" in said and "download it first" in said
    )


def test_an_address_is_refused_wherever_a_file_is_named(desk, capsys):
    for line in (
        ["check", "ftp://x/t.csv", "--bounds", "b.csv"],
        ["ledger", "http://x/ledger.db"],
        ["tour", "--picture", "s3://x/digits.png"],
        [*asked()[:-1], "s3://x/out"],
    ):
        assert "and not a path; dplit reads only files on this machine" in refused(capsys, line)
    said = refused(capsys, asked(table="file:///t.csv"))
    assert "file:///t.csv is an address (file://)" in said and "write the path alone" in said
    assert not list(Path().glob("*:*"))
    assert options._path("C:/t.csv") == Path("C:/t.csv")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--epsilon", "0.1"], "argument --epsilon: it is given twice"),
        (["--ledger", "other.db"], "argument --ledger: it is given twice"),
        (["--eps", "0.1"], "argument --epsilon: it is given twice"),
        (["--max-bytes", "-1"], "--max-bytes: '-1' is not a whole number"),
        (["--max-bytes", "0"], "--max-bytes: '0' is not a whole number"),
        (["--max-bytes", "1e9"], "--max-bytes: '1e9' is not read as a whole number"),
        (["--max-rows-per-person", "0"], "--max-rows-per-person 0: PEMeans needs at least 1"),
        (["other.csv"], "unrecognized arguments: other.csv"),
    ],
)
def test_an_option_that_is_wrong_or_given_twice_is_refused(desk, capsys, more, told):
    assert told in refused(capsys, asked(*more))


NUMBERS = {  # as written: what to write instead, if that is certain
    "200_000": "write 200000",
    "\uff12\uff10": "write 20",
    "\u0662\u0660\u0660": "write 200",
    "200'000": "write 200000",
    "200 000": "write 200000",
    "200\u202f000": "write 200000",
    "\u22125": "write -5",
    "1,5": "write digits and a decimal point",
    "1.000,5": "write digits and a decimal point",
    "$200": "write digits and a decimal point",
    "20%": "write digits and a decimal point",
    "0x10": "write digits and a decimal point",
    "inf": "write digits and a decimal point",
    "nan": "write digits and a decimal point",
}


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_of_a_declaration_is_written_in_plain_digits(desk, capsys, text):
    """Python would read some of them; the cells of a table may not be written like that either."""
    for part in ("low", "high", "missing", "weight"):
        given = {"low": "-1e6", "high": "1e6", "missing": "0", "weight": "1"} | {part: text}
        Path("x.json").write_text(json.dumps({"age": given}))
        cells = ";".join(["age", *given.values()])
        Path("x.csv").write_text(f"column;low;high;missing;weight\n{cells}\n", encoding="utf-8")
        word = part == "missing" and text.isalpha()
        for name in ("x.json", "x.csv"):
            with pytest.raises(ValueError, match="column 'age'") as told:
                bounds.read_bounds(name)
            assert ("one of low, high" if word else NUMBERS[text]) in str(told.value)
    assert "column 'age'" in refused(capsys, asked(ranges="x.csv"))


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("option", ["--epsilon", "--delta"])
def test_a_number_of_an_option_is_written_in_plain_digits(desk, capsys, text, option):
    said = refused(capsys, asked(f"{option}={text}"))
    assert f"{option}: {text!r} is not read as a number; {NUMBERS[text]}" in said
    assert NUMBERS[text] in refused(capsys, ["ledger", "new.db", "--begin", text, "0"])


@pytest.mark.parametrize("text", ["1_0", "\uff11", "1.0", "1e3", "0x1", "1,0", "", "9" * 5000])
@pytest.mark.parametrize("option", ["--clusters", "--seed", "--max-rows-per-person", "--max-bytes"])
def test_a_whole_number_of_an_option_is_written_in_digits(desk, capsys, text, option):
    said = refused(capsys, asked(f"{option}={text}"))
    assert "is not read as a whole number; write digits only" in said


@pytest.mark.parametrize("text", ["200", " 2e2", "+200.", "200.0\t", "2E+2", ".2e3"])
def test_plain_numbers_are_read_everywhere_alike(desk, text):
    Path("x.csv").write_text(f"column,low,high,missing,weight\nage,0,{text},{text},{text}\n")
    found = bounds.read_bounds("x.csv")
    assert {found[part]["age"] for part in ("high", "missing", "weight")} == {200.0}
    assert options.number_of(text) == files._number(text) == 200.0


@pytest.mark.parametrize("value", [True, [1], {}, None])
def test_a_bound_in_json_is_a_number(desk, capsys, value):
    Path("x.json").write_text(json.dumps({"age": {"low": 0, "high": value}}))
    assert "a bound is a public number" in refused(capsys, asked(ranges="x.json"))


def test_an_empty_name_is_refused(desk, capsys):
    """From a variable of the shell that is not set; it would be this folder."""
    for line in ([*asked()[:-1], ""], asked(table=""), asked(ranges=" "), ["ledger", ""]):
        assert "it is empty; name a file" in refused(capsys, line)
    assert sorted(os.listdir()) == ["b.csv", "ledger.db", "t.csv"]


def test_a_delta_of_zero_names_what_gives_pure_epsilon(desk, capsys):
    said = refused(capsys, asked(delta=0))
    assert said.startswith("dplit: --delta 0.0: PEMeans needs")
    assert "For pure epsilon-DP, --delta 0, use GridKMeans or NoisyLloyd." in said
    assert "GridKMeans" not in refused(capsys, asked(delta=1))
    assert "GridKMeans" not in refused(capsys, asked(delta=0, epsilon=-1))


def test_these_and_no_others_give_pure_epsilon(desk, capsys):
    for name in command.METHODS:
        line = asked("--dry-run", "--method", name, delta=0)
        done = main(line)
        assert (done == 0) == (name in options.PURE), name
    assert charges() == 0 and options.PURE == kmeans.PURE


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (
            ["-1", "1e-6"],
            "--begin EPSILON DELTA: epsilon=-1.0: a ledger needs a finite epsilon > 0",
        ),
        (["nan", "0"], "--begin: 'nan' is not read as a number"),
        (["1", "2"], "--begin EPSILON DELTA: delta=2.0: a ledger needs 0 <= delta < 1"),
    ],
)
def test_an_impossible_limit_is_told_by_its_option(desk, capsys, limit, told):
    said = refused(capsys, ["ledger", "new.db", "--begin", *limit])
    assert told in said and "PrivacyBudget" not in said and not Path("new.db").exists()


def test_an_impossible_bound_on_rows_is_told_by_its_option(desk, capsys):
    line = ["ledger", "new.db", "--begin", "1", "0", "--max-rows-per-person", "0"]
    said = refused(capsys, line)
    assert "--max-rows-per-person 0: a ledger needs at least 1" in said
    assert not Path("new.db").exists()


def test_the_tour_refuses_an_epsilon_before_its_first_fit(desk, monkeypatch, capsys):
    monkeypatch.setattr("dplit.command_line.tour.compare", lambda *_: pytest.fail("fitted"))
    said = refused(capsys, ["tour", "--epsilon", "1", "0"])
    assert "--epsilon 0.0: PEMeans needs a finite epsilon > 0" in said


def test_a_warning_is_printed_once(desk, capsys):
    assert main(asked("--dry-run", epsilon=30, delta=1e-7)) != 0
    told = capsys.readouterr().err
    assert told.count("epsilon=30 protects little") == 1


# ---------------------------------------------------------------- files of bounds


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("t.csv", "Is that line missing? Or is this the table?"),
        ("none.csv", "bounds none.csv: there is no such file."),
        (".", "bounds .: it is a folder; name a file."),
    ],
)
def test_another_file_than_that_of_bounds_is_told(desk, capsys, name, told):
    assert told in refused(capsys, asked(ranges=name))


@pytest.mark.parametrize(
    ("head", "near"),
    [
        ("wieght", "weight"),
        ("mising", "missing"),
        ("Weight", "weight"),
        ("value", "values"),
        ("fill", "missing"),
        ("NA", "missing"),
        ("default", "missing"),
        ("levels", "values"),
        ("w", "weight"),
    ],
)
def test_a_misspelled_part_of_a_declaration_is_refused(desk, capsys, head, near):
    """It would have been ignored, and a hole in the table would have been charged."""
    Path("b.csv").write_text(f"column,low,high,{head}\nage,0,120,2\n")
    assert f"did you mean '{near}'?" in refused(capsys, asked())
    Path("b.json").write_text(json.dumps({"age": {"low": 0, "high": 120, head: 2}}))
    assert f"did you mean '{near}'?" in refused(capsys, asked(ranges="b.json"))


def test_a_comment_in_a_file_of_bounds_is_none_of_its_parts(desk):
    Path("b.csv").write_text("column,low,high,unit,source\nage,0,120,years,statute\n")
    assert bounds.read_bounds("b.csv")["high"] == {"age": 120.0}


# ---------------------------------------------------------------- places on the earth


@pytest.mark.parametrize("width", [1, 3, 4])
def test_haversine_says_which_columns_it_needs(width):
    """Its target is public, so a fit is refused and nothing was charged."""
    target = np.full((9, width), 0.3)
    with pytest.raises(ValueError, match="needs two columns, latitude and longitude in radians"):
        SourceTargetKMedoids(2, metric="haversine").fit(Xt=target)


# ---------------------------------------------------------------- what steers a terminal

STEERING = "\x1b[31m", "\x1b]0;title\x07", "\x9b31m", "\x08\x7f", "\u202e"


@pytest.mark.parametrize("sign", STEERING)
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["check"], ["--seed", "x"], ["nowhere"]])
def test_no_name_steers_the_terminal(desk, capsys, sign, more):
    """Names of columns, of the table and of the folder. Mutation: `say` that prints them as they are, or an error that does."""
    names = f"age,income,red{sign},{sign}" if more != ["--seed", "x"] else f"age{sign},income"
    table = f"t{sign}.csv".replace("/", "")
    Path(table).write_text(names + "\n" + "30,40000,1,1\n70,60000,1,1\n" * 20)
    line = [*asked(table=table)[:-1], f"out{sign}", "--seed", "0"]
    if more == ["check"]:
        line = ["check", table, "--bounds", "b.csv"]
    elif more == ["nowhere"]:
        line[1] = f"none{sign}"
    elif more == ["--dry-run"]:
        line += more
    elif more:
        Path("b.csv").write_text(f"column,low,high\nage{sign},0,120\nelse{sign},0,1\n")
    ended = main(line)
    printed = capsys.readouterr()
    said = f"{printed.out}{printed.err}{'' if isinstance(ended, int) else ended}"
    assert said and not [one for one in said if not one.isprintable() and one != "\n"]
    if not more:
        assert "left out, because no range is declared: red" in said


def test_names_in_a_sentence_begin_no_line():
    """Mutation: `listed` that takes a line break for a part of a name."""
    assert listed(["a", "b\nwritten: nothing", "c\rd"]) == "a, b written: nothing and c d"


# ---------------------------------------------------------------- names that meet


def test_no_two_columns_of_the_result_have_one_name(desk):
    """A column may have the name that a number of ours, or an error of another column, would have."""
    head = "size,size_standard_error,cluster,cluster_standard_error,reg=north,reg\n"
    rows = "".join(f"{i % 7},{i % 5},{i % 3},{i % 2},{i % 4},{['north', 'south'][i % 2]}\n" for i in range(300))  # fmt: skip
    Path("t.csv").write_text(head + rows)
    ranges = "".join(f"{name},0,7,\n" for name in head.strip().split(",")[:-1])
    Path("b.csv").write_text("column,low,high,values\n" + ranges + "reg,,,north|south\n")
    assert main(asked("--accept-doubts")) == 0
    names = Path("out/centers.csv").read_text().split("\n")[0].split(",")
    assert len({*names}) == len(names) == 1 + 2 * 7 + 2
    # the columns of the table keep their names
    assert names[1:6] == head.split(",")[:5] and names[6] == "reg=north (ours)"


@pytest.mark.parametrize("name", ["ledger", "table", "out"])
def test_a_link_to_itself_is_told(desk, capsys, name):
    Path("loop").symlink_to("loop")
    line = asked(table="loop") if name == "table" else asked()
    line = ["loop" if word == {"ledger": "ledger.db"}.get(name, name) else word for word in line]
    said = refused(capsys, line)
    assert "loop" in said and "Traceback" not in said
    if name == "ledger":
        assert "it cannot be used (Too many levels of symbolic links)" in said


def test_one_cluster_is_one(desk, capsys):
    line = [word if word != "2" else "1" for word in asked()]
    assert main(line) == 0
    said = capsys.readouterr().out + Path("out/report.html").read_text()
    assert "1 cluster by" in said and "clustered into 1 group by" in said
    assert not any(wrong in said for wrong in ("1 clusters", "1 groups"))


def test_no_name_steers_what_shows_a_report(desk):
    Path("t.csv").write_text(Path("t.csv").read_text().replace("age", "a\x1b[31m\u202ege\x07"))
    Path("b.csv").write_text(Path("b.csv").read_text().replace("age", "a\x1b[31m\u202ege\x07"))
    assert main(asked("--accept-doubts")) == 0
    page = Path("out/report.html").read_text()
    assert not any(sign in page for sign in "\x1b\u202e\x07") and "[31m" in page
