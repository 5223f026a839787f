"""The section "Measured" of the README, from the tables of the book."""

from collections import defaultdict

from bench import store
from bench.kmeans import PEERS
from bench.scale import PASSES
from bench.sets import LARGE, geometric_mean
from bench.tables import by_set
from dplit.receipts import Table

README = store.PROGRAM.parents[1] / "README.md"
PEER_TITLES = {
    "PE-means": ("PE-means (2026), its privacy repaired", "our reading"),
    "Google LSH tree": ("Google's LSH tree (2021)", "our reading"),
    "FastLloyd": ("FastLloyd (2025)", "our reading"),
    "Balcan et al.": ("Balcan et al. (2017)", "our reading"),
    "diffprivlib": ("diffprivlib 0.6.6", "their code"),
}
COVER_TITLES = {
    "KMeans, 10 restarts": "not private",
    "the mean alone": "the mean alone",
    "NoisyLloyd(init='mean', n_iter=4)": "NoisyLloyd",
    "MaxCoverKMeans": "MaxCoverKMeans",
    "  random candidates, no covers": "random candidates in place of covers",
}
SOLVER_TITLES = {"FasterPAM": "their code", "accelerated k-medoids": "our reading"}
TIMED_PROGRAMS = [
    "PE-means, authors' program, printout off",
    "PE-means, authors' program, as shipped",
    "Google's clustering, their program",
    "FastLloyd, authors' program",
]


def markdown(head, rows):
    """A table, as a notebook shows it."""
    return Table(head, rows)._repr_markdown_() + "\n"


def programs(part, program):
    """Lines of the table of authors' own programs, which were run once beside ours."""
    rows = store.book("programs")
    return [r for r in rows if (r["part"], r["program"]) == (part, program)]


def kmeans_part():
    """Losses and times of PEMeans beside the peers."""
    found = by_set(store.book("auc"))
    best = [row["PEMeans"] / min(row[p] for p in PEERS if p in row) for row in found.values()]
    below = f"{geometric_mean(best):.2f} (our readings and diffprivlib); below 1 on {sum(r < 1 for r in best)} of {len(best)} sets"

    def over(method):
        return f"{geometric_mean([row['PEMeans'] / row[method] for row in found.values()]):.2f}"

    best, worst, *_ = [r for r in store.book("programs") if r["part"] == "k-means, loss"]
    rows = [("k-means without privacy", f"{over('KMeans')} (scikit-learn)")]
    rows += [("the best peer of each set, chosen afterwards", below)]
    rows += [(title, f"{over(m)} ({whose})") for m, (title, whose) in PEER_TITLES.items()]
    rows += [("the best of the authors' own programs", f"{best['ratio']} (run once: {best['data']}, {best['what']}); at most {worst['ratio']}, on {worst['data']} (run once)")]  # fmt: skip
    cpu = {(r["dataset"], r["method"]): float(r["cpu_s"]) for r in store.book("speed")}
    columns = {"20,000 x 16, k = 16": "sklearn_16_16", "1e5 x 16, k = 16": LARGE}
    times = [("`PEMeans`", *(f"{cpu[s, 'PEMeans']:.2f} s" for s in columns.values()))]
    times += [("the same algorithm as printed", *(f"{cpu[s, 'PE-means'] / cpu[s, 'PEMeans']:.1f} times that (our reading, in our code)" for s in columns.values()))]  # fmt: skip
    for name in TIMED_PROGRAMS:
        ratios = {r["data"]: r["ratio"] for r in programs("k-means, CPU s", name)}
        times.append((name, *(f"{ratios[c]} times that (run once)" if c in ratios else "-" for c in columns)))  # fmt: skip
    return f"""Private k-means at the same (epsilon, delta) on {len(found)} sets: area under loss against epsilon, geometric means. Every ball is right, so ours do not zoom.

{markdown(["`PEMeans` over", "ratio (below 1: `PEMeans` loses less)"], rows)}
CPU time of a fit, 16 clusters:

{markdown(["", "20,000 x 16 rows", "1e5 x 16 rows"], times)}"""


def max_cover_part():
    """Losses of MaxCoverKMeans, with their spread where they are compared."""
    table = defaultdict(dict)
    for r in store.book("max_cover"):
        if r["method"] in COVER_TITLES:
            loss, sd = float(r["loss"]), float(r["sd"])
            cell = f"{loss:,.4g}" if loss < 1e4 else f"{loss:,.0f}"
            name = f"{r['dataset']}: {int(r['n']):,} x {r['d']}, {r['k']} clusters, {r['runs']} runs"  # fmt: skip
            table[name][r["method"]] = cell + (f" ± {sd:.0f}" if sd else "")
    rows = [[name, *(row[m] for m in COVER_TITLES)] for name, row in table.items()]
    level = {r["what"]: r["ratio"] for r in programs("max cover, CPU s", "max cover, authors' C++")}
    return f"""Max cover, mean loss at epsilon 1, delta n^-1.5:

{markdown(["data", *COVER_TITLES.values()], rows)}
The authors' C++ takes {level["one cover level, ball"]} times our CPU time for one level of covers of 20,000 points by the printed rule (run once), {level["one cover level, snap"]} times by the rounded one (run once); for whole fits {level["whole fits, all sets above"]} times, least on digits (run once).
"""


def solver_part():
    """SourceTargetKMedoids beside other solvers."""
    rows = []
    for name, whose in SOLVER_TITLES.items():
        found = [r for r in store.book("solver") if r["solver"] == name]
        if found:
            cost = [float(r["cost_over_ours"]) for r in found]
            time = [float(r["time_over_ours"]) for r in found]
            rows.append((name, f"{min(cost):.4f} to {max(cost):.4f} ({whose})", f"{min(time):.1f} to {max(time):.0f} ({whose})"))  # fmt: skip
    times = defaultdict(list)
    for r in store.book("medoids"):
        times[int(r["n"])].append(float(r["time_over_ours"]))
    rest = ", ".join(f"{min(t):.1g} to {max(t):.1g} on {n:,}" for n, t in times.items())
    head = ["solver", "cost over ours", "CPU time over ours"]
    return f"""k-medoids beside given sources, 5,000 and 20,000 rows, 100 medoids, over `SourceTargetKMedoids`:

{markdown(head, rows)}
Without sources, 2 to 1,000 medoids, FasterPAM (their code) takes {rest} rows in units of our CPU time, its matrix of distances included.
"""


def speed_part():
    """The ground everything stands on."""
    last = store.book("scale")[-1]
    n, cpu = int(last["rows"]), {p: float(last[f"{p}_cpu_s"]) for p in PASSES}
    rows = [(r["what"], r["measured"]) for r in store.book("package")]
    rows += [
        (
            f"NoisyLloyd, a round over a memory map of {n:.0e} x 16 rows, {64e-9 * n:.1f} GB",
            f"{1e9 * cpu['round'] / n:.0f} ns of CPU a row; {cpu['round'] / cpu['sum']:.1f} times numpy's own sum of the map, {cpu['round'] / cpu['numpy_round']:.2f} of a round without privacy that we wrote in numpy",
        ),  # fmt: skip
        ("memory of its own that a whole fit of it held", f"{last['peak_mb']} MB"),
    ]
    return markdown(["what", "measured"], rows)


def section():
    """What the README says under "Measured", from the tables of the book."""
    parts = kmeans_part(), max_cover_part(), solver_part(), speed_part()
    return """## Measured

By `python tools/benchmark.py all --out results --book`, which writes these lines too, on two cores of a server, one BLAS thread. [Benchmarks](nbs/83_benchmarks.ipynb) has the whole tables, with their spread and what they do not say. "Our reading" is a program of ours after what the authors published. "Run once" is the authors' own program beside ours, in a run that this command does not repeat; versions and seeds stand there.

""" + "\n".join(parts)


def write_section():
    """Replace that section of the README, and nothing else."""
    before, rest = README.read_text(encoding="utf8").split("## Measured\n")
    _, after = rest.split("\n## ", 1)
    README.write_text(before + section() + "\n## " + after, encoding="utf8")
