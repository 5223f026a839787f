"""Methods of other authors, for comparison only.

`library` drives diffprivlib's own code, in an environment of its own (`apart`). The others cannot be
installed from a package registry today: `google_lsh`, `fastlloyd`, `balcan` and the two regressions of
`linear` are our reimplementations of what their authors published, short on purpose, and so is `gan`, a generative
network, which JAX trains in an environment of its own. They draw floating-point noise (but AdaSSP, in
`linear`), which a comparison may and a release may not: do not use them on data that matter.

Those of k-means have `fit(X, k, *, epsilon, delta, seed)` for rows in the unit ball around 0 and return
centers. Where a publication leaves a choice, we take the one that helps the peer; privacy costs are exact.
"""
