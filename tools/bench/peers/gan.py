"""A generative network trained with privacy (DP-GAN; Xie et al., 2018), as Schnapp and Sabato (TMLR 2025) drew sources from one.

They took the program of Falk and Meneses (2019) with its "best-practice parameters", and say no more
of it. From that program: a Wasserstein GAN, 10 latent columns, one hidden layer of 20 units in either
network, weights of the critic cut at 1/20, five steps of the critic for one of the generator, RMSprop.
The program computes no privacy cost: it clips no gradient and adds noise of a given size, in the version that
we read one draw for all entries of a matrix. So the rest is the common choice (Abadi et al., 2016):
each step of the critic draws its rows by coins, clips the gradient of every row and adds Gaussian noise,
the last two by optax; the privacy cost of all steps together is that of `poisson_gaussian_delta`, and the
generator, which sees the critic alone, is free. The last layer gives numbers, where that program, made
for tables of categories, gives shares of categories. The number of rows is public to it.

JAX does the work, in an environment of its own, driven by `gan_worker` over a pipe. Its noise is
floating-point, which is acceptable in a comparison and not in a release.
"""

from functools import cache

import numpy as np
from scipy.optimize import brentq

from bench.peers.apart import Apart
from dplit.accounting import gaussian_mu, poisson_gaussian_delta
from dplit.geometry import clip_to_ball

CRITIC_STEPS, HIDDEN = 5, 20  # of Falk and Meneses
SETTINGS = {"steps": 200, "rate": 0.25, "clip": 0.3, "learning_rate": 1e-3, "box": 1 / HIDDEN}


@cache
def noise_multiplier(epsilon, delta, rate, times):
    """Least noise, in units of the clip, for which `times` steps that see rows at this rate cost (epsilon, delta) at most."""

    def excess(log_mu):
        return np.log(poisson_gaussian_delta(epsilon, np.exp(log_mu), rate, times) / delta)

    seen = gaussian_mu(epsilon, delta) / times**0.5  # what a step may cost that sees every row
    log_mu = brentq(excess, np.log(0.99 * seen), np.log(1.01 * seen / rate), xtol=1e-4)
    return np.exp(1e-4 - log_mu)


class Gan(Apart):
    """A running worker; `draw(X, ...)` trains on rows in a ball and draws from what has been learned."""

    NAME, REQUIREMENTS = "gan", ["jax==0.10.2", "optax==0.2.8"]
    WORKER = "gan_worker.py"

    def draw(self, X, radius, center, *, epsilon, delta, seed, size=100, **settings):
        """`size` points, (size, d); epsilon = inf trains without noise."""
        job = {"critic_steps": CRITIC_STEPS, "hidden": HIDDEN, **SETTINGS, **settings}
        times = job["steps"] * CRITIC_STEPS
        noise = 0.0 if np.isinf(epsilon) else noise_multiplier(epsilon, delta, job["rate"], times)
        rows = (clip_to_ball(X, radius, center) - center) / radius
        points = self.ask(rows=rows.tolist(), seed=seed, size=size, noise=noise, **job)
        return clip_to_ball(np.array(points), 1.0, np.zeros(X.shape[1])) * radius + center
