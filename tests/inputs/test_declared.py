"""What a fit computes with: a twin of the estimator that has plain values, and results that change hands at once."""

from dplit.inputs import declared


class Declared:
    """An estimator of two parameters, one of which goes by a rule."""

    def __init__(self, price, word):
        self.price, self.word, self.n_ = price, word, 0

    def get_params(self, deep=True):
        inner = {"word__deep": 1} if deep else {}
        return {"price": self.price, "word": self.word} | inner


def test_a_twin_has_what_the_rules_made_of_it_and_nothing_else():
    given = Declared("3", [])
    rules = {"price": lambda value, name, owner: (int(value), name, owner), "none": int}
    twin = declared.declare(given, rules)
    assert type(twin) is Declared and vars(given) == {"price": "3", "word": given.word, "n_": 0}
    assert vars(twin) == {"price": (3, "price", "Declared"), "word": []} and twin.word is given.word


def test_results_change_hands_all_at_once_and_old_ones_go():
    given, twin = Declared("3", "w"), Declared(3, "x")
    given.old_, given.__kept__ = 1, 2
    twin.n_, twin.receipt_, twin.__own__ = 5, 6, 7
    before = vars(given)
    declared.settle(given, twin)
    assert vars(given) == {"price": "3", "word": "w", "__kept__": 2, "n_": 5, "receipt_": 6}
    assert before["old_"] == 1 and vars(twin)["price"] == 3  # whoever looked in between saw one fit
