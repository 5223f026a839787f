"""Runs inside the environment that `gan` makes: one JSON request a line in, one JSON answer a line out."""

import json
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

LATENT, BATCH = 10, 128  # of Falk and Meneses


def layer(key, inputs, outputs):
    """(weights, biases), uniform as PyTorch draws them."""
    far = inputs**-0.5
    w, b = jax.random.split(key)
    draw = partial(jax.random.uniform, minval=-far, maxval=far)
    return draw(w, (inputs, outputs)), draw(b, (outputs,))


def generate(maker, key, size):
    (w, b), (v, c) = maker
    return jax.nn.relu(jax.random.normal(key, (size, LATENT)) @ w + b) @ v + c


def score(critic, x):
    """No bias at the end: it would cancel, but for its part in the length of every gradient."""
    (w, b), v = critic
    return jax.nn.leaky_relu(x @ w + b) @ v


def mean_score(critic, X):
    return score(critic, X).mean()


def networks(key, d, hidden):
    one, two, three, four = jax.random.split(key, 4)
    maker = layer(one, LATENT, hidden), layer(two, hidden, d)
    return maker, (layer(three, d, hidden), layer(four, hidden, 1)[0][:, 0])


@partial(jax.jit, static_argnames=("hidden", "size", "critic_steps"))
def train(X, key, rate, noise, steps, critic_steps, hidden, clip, learning_rate, box, size):
    """Points of a Wasserstein GAN whose critic sees each row with probability `rate` in each of its steps."""
    start, private_key, training, end = jax.random.split(key, 4)
    maker, critic = networks(start, X.shape[1], hidden)
    private = optax.contrib.differentially_private_aggregate(clip, noise, private_key)
    pace = optax.rmsprop(learning_rate, decay=0.99)
    row_gradients = jax.vmap(jax.grad(score), (None, 0))

    def critic_step(i, state, key, maker):
        critic, spent, walked = state
        coins, fakes = jax.random.split(jax.random.fold_in(key, i))
        seen = jax.random.bernoulli(coins, rate, X.shape[:1])
        rows = jax.tree.map(lambda g: (seen * g.T).T, row_gradients(critic, X))
        real, spent = private.update(rows, spent)  # a sum over n, of rate * n rows or so
        fake = jax.grad(mean_score)(critic, generate(maker, fakes, BATCH))
        move, walked = pace.update(jax.tree.map(lambda f, r: f - r / rate, fake, real), walked)
        critic = optax.apply_updates(critic, move)
        return jax.tree.map(lambda p: jnp.clip(p, -box, box), critic), spent, walked

    def step(i, state):
        maker, walked, judged = state
        critics, fakes = jax.random.split(jax.random.fold_in(training, i))
        judging = partial(critic_step, key=critics, maker=maker)
        judged = jax.lax.fori_loop(0, critic_steps, judging, judged)
        slope = jax.grad(lambda maker: -mean_score(judged[0], generate(maker, fakes, BATCH)))(maker)
        move, walked = pace.update(slope, walked)
        return optax.apply_updates(maker, move), walked, judged

    state = maker, pace.init(maker), (critic, private.init(critic), pace.init(critic))
    maker, *_ = jax.lax.fori_loop(0, steps, step, state)
    return generate(maker, end, size)


if __name__ == "__main__":
    for line in sys.stdin:
        job = json.loads(line)
        X, key = jnp.array(job.pop("rows")), jax.random.key(job.pop("seed"))
        print(json.dumps(np.asarray(train(X, key, **job)).tolist()), flush=True)
