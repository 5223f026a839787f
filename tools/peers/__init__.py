"""Other people's methods, for comparison only.

`library` drives diffprivlib's own code, in an environment of its own (`apart`). The others cannot be
installed from a package registry today: `google_lsh`, `fastlloyd` and `balcan` are our readings of what
their authors published, short on purpose, as are the two regressions of `linear`, and so is `gan`, a generative network, which JAX trains in an
environment of its own. They draw floating-point noise, which a comparison may and a release may not: do
not use them on data that matter.

Those of k-means have `fit(X, k, *, epsilon, delta, seed)` for rows in the unit ball around 0 and return
centres. Where a publication leaves a choice, we take the one that helps the peer; prices are exact.
"""
