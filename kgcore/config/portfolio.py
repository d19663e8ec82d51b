"""The portfolio: the training settings that take part in the race of the preset `auto`."""

from kgcore.config.given import TrainGiven

USUAL_EPOCHS = 100  # epochs of today's default training, which sets the time of every contender


def contenders(rows: int, entities: int, predicates: int) -> dict[str, TrainGiven]:
    """Return name -> training settings of each configuration of the portfolio, today's default first.

    rows, entities, predicates  numbers of training triples, entities and predicates of the graph

    The numbers of epochs are such that each training takes about as long as today's default training.
    """
    typed = {"typed": 0.5, "uniform": 0.5}
    return {
        "transe": TrainGiven(),
        "complex": TrainGiven(model="complex", epochs=60, learning_rate=0.1, lp_weight=0.015, lp_power=3.0),
        "complex multiclass": TrainGiven(
            model="complex", loss="multiclass_nll", epochs=60, learning_rate=0.1, lp_weight=0.1, lp_power=3.0
        ),
        "distmult multiclass": TrainGiven(
            model="distmult", loss="multiclass_nll", epochs=100, learning_rate=0.1, lp_weight=0.1, lp_power=3.0
        ),
        "rotate": TrainGiven(model="rotate", epochs=50, learning_rate=0.01),
        "transe typed": TrainGiven(training_strategy=typed, cohort_weight=0.5),
    }
