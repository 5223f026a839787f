"""What a user writes, for the type checker alone: `mypy tests/typed_use.py`."""

import numpy as np

import dplit
from dplit import BudgetExceeded, PrivacyBudget, accounting
from dplit.accounting import PrivacyCost, Receipt
from dplit.estimators import Clusters


def clusterings(X: np.ndarray, limits: tuple[float, float]) -> list[np.ndarray]:
    """Every k-means: fitted, asked, and its privacy cost stated."""
    epsilon, delta = limits
    lloyd = dplit.NoisyLloyd(
        3, epsilon=epsilon, delta=delta, radius=4.0, init=X[:3], random_state=0
    )
    cover = dplit.MaxCoverKMeans(3, epsilon=epsilon, delta=delta, radius=4, center=[0.0, 0.0])
    cells = dplit.GridKMeans(3, epsilon=epsilon, radius=4.0, n_public=500).fit(X)
    print(cells.centers_for(5).shape, cells.loss_curve([2, 3])[0].sum())
    voted = dplit.PEMeans(n_clusters=3, epsilon=epsilon, delta=delta, radius=4.0, n_votes=3)
    small = dplit.HDPEMeans(3, epsilon=epsilon, delta=delta, radius=4.0, n_components=2)
    tuples = dplit.KTupleKMeans(3, epsilon=epsilon, delta=delta, radius=4.0, n_tuples=40)
    mixture = dplit.KTupleGaussianMixture(3, epsilon=epsilon, delta=delta, radius=4.0)
    cost: PrivacyCost = lloyd.privacy_cost()
    lloyd.check_tables(X)
    known: tuple[float, bool] = (cost.epsilon + cost.delta, cost.gaussian_only)
    sizes: np.ndarray | None = Clusters(X[:3], sizes=X[:3, 0], sizes_se=known[0]).sizes
    print(sizes, dplit.SourceTargetKMedoids(3).privacy_cost().epsilon)
    loss: float = lloyd.fit(X).score(X)
    print(-loss, mixture.fit(X).means_.shape)
    found: list[np.ndarray] = [lloyd.predict(X), cover.fit(X).predict(X), voted.fit_predict(X)]
    return [*found, small.fit_predict(X), tuples.fit(X.tolist()).predict(X)]


def tuples_of_centers(T: np.ndarray, rng: np.random.Generator) -> int:
    """The estimators of tuples, and how many they need."""
    stable = dplit.StableTupleMean(epsilon=1.0, delta=1e-6, random_state=rng).fit(T)
    noisy = dplit.KNoisyCenters(epsilon=1.0, delta=1e-6, variant="sampled").fit(T)
    average = dplit.KAverages(epsilon=1.0, delta=1e-6, radius=9.0, min_radius=0.1, too_few=True)
    print(stable, noisy, average.fit(T))
    return dplit.StableTupleMean.min_tuples(1.0, 1e-6, 0.05) + dplit.KAverages.min_tuples(
        1.0, 1e-6, 0.05
    )


def sources(Xs: np.ndarray, Xt: np.ndarray) -> None:
    """Private sources of a public target."""
    averages = dplit.NoisyAverageSet(t=20, epsilon=1.0, radius=4.0, n_cells="all")
    neighbors = dplit.NeighborNoisyAverages(rho=0.5, radius=4.0, output="mean")
    print(averages.fit(Xs=Xs, Xt=Xt), neighbors.fit(Xs=Xs, Xt=Xt))
    print(dplit.SourceTargetKMedoids(3, n_starts=2).fit(Xt, sources=Xs))


def adaptations(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Regression and classification of a target, helped by a source."""
    regression = dplit.CnvxAdap(
        epsilon=1.0, delta=1e-5, radius=2.0, weight_radius=3.0, target_bound=2.0
    )
    classifier = dplit.NCnvxAdap(
        epsilon=1.0, delta=1e-5, radius=2.0, weight_radius=3.0, classes=["no", "yes"]
    )
    share: float = regression.fit(X, y).predict(X).mean()
    shifted = dplit.LabelShiftClassifier(epsilon=1.0).fit(X, Xs=X, ys=y > 0)
    print(shifted.fit(X, y > 0, Xs=X, ys=y > 0).predict(X))
    covariate = dplit.CovariateShiftRegressor(epsilon=1.0, delta=1e-5).fit(X, Xs=X, ys=y)
    print(covariate.predict(X), dplit.CovariateShiftClassifier(epsilon=1.0, delta=1e-5))
    labels: np.ndarray = classifier.fit(X, y > 0, Xs=X, ys=y > 0).predict(X)
    return labels if share > 0 else classifier.predict_proba(X)


def spend(X: np.ndarray, path: str) -> float:
    """A budget hands back the estimator that it was given."""
    memory = PrivacyBudget(3.0, 1e-5, neighboring="add_remove", composition="added")
    model: dplit.NoisyLloyd = memory.fit(
        dplit.NoisyLloyd(3, epsilon=1.0, delta=1e-6, radius=4.0), X, label="a question"
    )
    with PrivacyBudget.open(path, 3.0, 1e-5, who="me", patience=1.0) as budget:
        if not budget.fits(1.0, 1e-6):
            raise BudgetExceeded("nothing is left")
        entry: int = budget.reserve(1.0, 1e-6, name="by hand")
        budget.settle(entry)
        budget.charge(0.5, label="another")
        found = budget.search(model, {"n_clusters": [2, 3]}, X, epsilon=0.1)
        print(found.best_params_, len(budget.ledger), str(budget), budget.to_dict())
    return budget.remaining.epsilon - memory.spent.epsilon


def read(receipt: Receipt) -> float:
    """What a fit cost."""
    both: Receipt = receipt + Receipt.from_dict(receipt.to_dict())
    rho: float | None = sum([receipt, both], receipt).rho
    return both.epsilon + both.epsilon_at(1e-6) + both.delta_at(1.0) + (rho or 0.0)


def account(epsilons: list[float]) -> float:
    """A number for numbers; arrays for arrays."""
    mu = accounting.gaussian_mu(1.0, 1e-5)
    curve: float | np.ndarray = accounting.gaussian_delta(np.array(epsilons), mu)
    rho = float(accounting.zcdp_rho(1.0, 1e-5))
    epsilon, delta = accounting.basic_composition(epsilons, 1e-6)
    more, slack = accounting.advanced_composition(0.1, 0.0, 10, 1e-6)
    drawn, _ = accounting.subsampled(1.0, 1e-6, 10, 1000)
    print(curve, rho, slack, accounting.gaussian_epsilon(1e-5, [1.0, 2.0]), drawn)
    return epsilon + delta + more + accounting.gdp_composition([0.1, 0.2])
