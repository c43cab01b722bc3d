"""The values of brigade/models/testing/pattern_weights.h, which explains the formula, for scripts that make values of the original models."""
import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _hash(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return np.uint64(value)


def _mix(value):
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def pattern_values(name, shape, center=0.0, spread=1.0):
    """A float32 array in libtorch's layout."""
    with np.errstate(over="ignore"):
        states = _hash(name) + np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * GOLDEN
        u = (_mix(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (center + spread * (2.0 * u - 1.0)).astype(np.float32).reshape(shape)


def pattern_range(name, shape):
    """(center, spread) for the variable of a model, whose shape is in libtorch's layout."""
    if len(shape) >= 2:
        return 0.0, float(np.sqrt(6.0 / float(np.prod(shape[1:]))))
    last = name.replace("/", ".").rsplit(".", 1)[-1]
    if last in ("running_var", "moving_variance"):
        return 1.0, 0.25
    if last in ("gamma", "weight"):
        return 1.0, 0.1
    return 0.0, 0.1


def pattern_weights(name, shape):
    """The values of a model's variable."""
    return pattern_values(name, shape, *pattern_range(name, shape))


def summary_of(name, array):
    """What of a large array in libtorch's layout is compared: [sum, sum of squares, dot product with a pattern]."""
    values = np.asarray(array, dtype=np.float64).ravel()
    probe = pattern_values(name + ":probe", values.shape).astype(np.float64)
    return [float(values.sum()), float(values @ values), float(values @ probe)]
