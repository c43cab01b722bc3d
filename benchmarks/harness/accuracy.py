"""How much accuracy one way to train loses against another: the same training, with several seeds."""

from harness.estimate import estimate
from harness.running import RunFailed, run_for_json

LIMIT_SECONDS = 1800


def accuracy_of(command):
    """On the test split, in percent, as the training reports it at its end."""
    found = run_for_json(command, LIMIT_SECONDS)[-1].get("eval_accuracy")
    if found is None:
        raise RunFailed("the training has reported no accuracy")
    return 100 * found


def loss_of_accuracy(ours, base, seeds):
    """The points by which `ours` is less accurate than `base`, both of which make a command line for a seed; the accuracies of
    all runs are in the result too."""
    pairs = [(accuracy_of(ours(seed)), accuracy_of(base(seed))) for seed in seeds]
    return {**estimate([theirs - mine for mine, theirs in pairs]), "ours_accuracy": [mine for mine, _ in pairs],
            "base_accuracy": [theirs for _, theirs in pairs]}
