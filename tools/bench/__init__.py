"""What the benchmark pages and the README say, measured: a module for each table, run by `tools/bench/benchmark.py`.

`store` keeps what is finished and goes on from there; `sets` has the rows of k-means. The tables:
`kmeans`, `speed`, `max_cover`, `source_target`, `regression`, `classification`, `package`, `scale`.
`tables` sums up, `readme` writes a section of the README, `publish` puts all into the book, `redraw`
draws ours anew. `chapters` is what other chapters quote.
"""
