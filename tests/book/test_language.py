"""The book speaks the field's language: its standard terms occur, words of our own hardly do, and its spelling is American."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "nbs/lessons").glob("*.ipynb"))
# folders that an editor has gone through, with their answers
EDITED = "about accounting adaptation audit command_line datasets estimators examples geometry inputs k_tuples ledger max_cover mechanisms plotting private_evolution source_target".split()
# words that stood where the field has a term, or that no writer of today uses
OURS = re.compile(
    r"\b(?:whoever|whatever|nobody|somebody|anybody|everybody|beside|stands|aloud|in earnest|likewise|forth|"
    r"for free|costs nothing|price[sd]?|paid|bought|buys?|promise[sd]?|doors?|sp(?:y|ies)|guesser|desk|clerk|"
    r"shorten(?:s|ed|ing)?|rim|pulls?|leeway|blur(?:s|red)?|rehearsals?|sabotaged?|planted|row-local|"
    r"our reading|as printed|workshops?|wobbles?|else lies|told apart)\b",
    re.IGNORECASE,
)
BRITISH = re.compile(
    r"\b(?:\w*neighbour\w*|\w*centre[sd]?|colou?rs?\b(?<=ours|lour)|\w*behaviour\w*|\w*favour\w*|harbours?|honours?|"
    r"labell(?:ed|ing)|modell(?:ed|ing)|travell\w+|cancell(?:ed|ing)|grey|licence|whilst|learnt|"
    r"(?:normal|random|minim|maxim|optim|general|regular|summar|recogn|organ|emphas|penal|initial|discret|visual|"
    r"standard|real|special|character|formal|parametr|quant|equal|final|custom|categor|memor|util|critic|author)"
    r"is(?:e[sd]?|ing|ation)|analy(?:se[sd]?|sing))\b",
    re.IGNORECASE,
)
TERMS = """differential privacy; randomized response; Laplace mechanism; sensitivity; post-processing;
sequential composition; curator; local model; Gaussian mechanism; Gaussian differential privacy; zCDP;
advanced composition; group privacy; floating-point; geometric; privacy filter; odometer; adaptive composition;
privacy accountant; clipping; side channel; private evolution; nearest-neighbor histogram; noisy histogram;
adaptive quer; exponential mechanism; report noisy max; max cover; source-target; k-medoids; coreset;
local sensitivity; global sensitivity; K-norm mechanism; parallel composition; propose-test-release; stability;
sample and aggregate; domain adaptation; covariate shift; discrepancy; kernel mean matching; importance weight;
DP-SGD; noisy gradient descent; objective perturbation; gradient clipping; privacy budget; privacy loss;
privacy cost; adversary; membership inference; neighboring; L1 sensitivity; L2 sensitivity"""
TERMS = [" ".join(term.split()) for term in TERMS.split(";")]
# what a reader searches for, on the first screen of its lesson: one of each group
CONCEPTS = {
    "01": ["differential privacy", "randomized response", "Laplace mechanism", "sensitivity"],
    "02": ["Gaussian mechanism", "composition", "Gaussian differential privacy|GDP"],
    "03": ["floating-point|floating point", "discrete|geometric"],
    "04": ["privacy filter", "odometer|privacy accountant", "adaptive composition|adaptively"],
    "05": ["clip", "side channel|sensitivity"],
    "09": ["noisy Lloyd|DPLloyd", "k-means"],
    "10": ["private evolution", "nearest-neighbor histogram|noisy histogram"],
    "11": ["private radius|radius estimation|range estimation", "adaptive"],
    "20": ["exponential mechanism", "max cover|maximum coverage"],
    "30": ["source-target|transductive", "k-medoids|coreset"],
    "31": ["source-target", "global L2 sensitivity"],
    "32": ["histogram|matrix", "parallel composition"],
    "40": ["stab", "propose-test-release|sample and aggregate"],
    "41": ["stable|well separated|well-separated", "average"],
    "42": ["sample and aggregate|sample-and-aggregate", "stab"],
    "50": ["domain adaptation", "discrepancy", "covariate shift"],
    "60": ["gradient descent|DP-SGD", "weight"],
    "61": ["non-convex|nonconvex", "gradient"],
}


def words_of(page):
    """The prose of a page, without formulas, code, quotations and targets of links."""
    cells = json.loads(page.read_text("utf8"))["cells"]
    text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    if page.stem == "sources":  # titles of papers are quotations
        text = re.sub(r"(?<!\*)\*[^*\n]+\*(?!\*)", " ", text)
    return re.sub(
        r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<[^>]+>|\u201c[^\u201d]*\u201d|\"[^\"\n]{0,300}\"",
        " ",
        text,
        flags=re.DOTALL,
    )


def ours_in(pages):
    """(words of our own in 10,000, which ones) of pages."""
    found, total = Counter(), 0
    for page in pages:
        text = words_of(page)
        found.update(word.lower() for word in OURS.findall(text))
        total += len(text.split())
    return 1e4 * found.total() / total, found.most_common(12)


def test_lessons_use_few_words_of_our_own():
    """At most 5 in 10,000; 1.1 to 1.5 in two textbooks of the field."""
    share, which = ours_in(LESSONS)
    assert share <= 5, which


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_no_lesson_has_more_than_a_few_words_of_our_own(page):
    share, which = ours_in([page])
    assert share <= 15, which


def test_lessons_use_each_standard_term():
    text = " ".join(map(words_of, LESSONS)).lower()
    rare = {term: n for term in TERMS if (n := text.count(term.lower())) < 3}
    assert not rare


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_the_first_screen_of_a_lesson_names_its_standard_concepts(page):
    """Of about 150 words and the title."""
    first = " ".join(words_of(page).split()[:260]).lower()
    missing = [
        c for c in CONCEPTS[page.stem[:2]] if not any(x.lower() in first for x in c.split("|"))
    ]
    assert not missing


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_spelling_is_american(page):
    assert not BRITISH.findall(words_of(page))


@pytest.mark.parametrize("room", EDITED)
def test_chapters_use_few_words_of_our_own(room):
    """At most 8 in 10,000, and no British spelling."""
    pages = [*ROOT.glob(f"nbs/{room}/*.ipynb"), *ROOT.glob(f"nbs/answers/{room}/*.ipynb")]
    share, which = ours_in(pages)
    assert share <= 8, which
    assert not [word for page in pages for word in BRITISH.findall(words_of(page))]


def test_the_homework_uses_few_words_of_our_own():
    """At most 8 in 10,000, and no British spelling."""
    pages = [*ROOT.glob("teachers/*.ipynb")]
    share, which = ours_in(pages)
    assert len(pages) == 2 and share <= 8, which
    assert not [word for page in pages for word in BRITISH.findall(words_of(page))]
