"""tf.train.Example: the bytes that TensorFlow writes, and what its parser makes of them."""

import tensorflow as tf

from serialized import KINDS, serialized
from table import write


def listed(values):
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def parsed(content, wanted):
    """`wanted`: name -> [kind, shape or "var", default]."""
    specs = {}
    for name, (kind, shape, default) in wanted.items():
        specs[name] = tf.io.VarLenFeature(KINDS[kind]) if shape == "var" else tf.io.FixedLenFeature(shape, KINDS[kind], default)
    try:
        result = tf.io.parse_single_example(content, specs)
    except (tf.errors.InvalidArgumentError, ValueError):
        return "(failed)"
    values = {}
    for name in wanted:
        value = result[name]
        value = value.values if isinstance(value, tf.SparseTensor) else tf.reshape(value, [-1])
        values[name] = listed(value.numpy().tolist())
    return values


FULL = {"bytes": [b"one", b"", b"three"], "float": [1.5, -0.25, 1e30], "int64": [0, 1, -1, 2**62, -2**63, 300],
        "image": [bytes(range(65, 91))], "label": [7], "empty": [], "none": None}

cases = {"written": {"bytes": serialized(FULL).hex(),
                     "features": {name: None if values is None else listed(values) for name, values in FULL.items()}}}
for name, features, wanted in [
    ("image and label", FULL, {"image": ["bytes", [], None], "label": ["int64", [], None]}),
    ("lists of any length", FULL, {"float": ["float", "var", None], "int64": ["int64", "var", None], "bytes": ["bytes", "var", None],
                                   "missing": ["float", "var", None], "empty": ["float", "var", None], "none": ["int64", "var", None]}),
    ("a shape", FULL, {"int64": ["int64", [2, 3], None]}),
    ("another shape", FULL, {"int64": ["int64", [2, 2], None]}),
    ("no values for a scalar", FULL, {"empty": ["float", [], None]}),
    ("no values for no values", FULL, {"empty": ["float", [0], None]}),
    ("of no kind", FULL, {"none": ["float", [], None]}),
    ("of no kind with a default", FULL, {"none": ["float", [2], [0.5, 1.5]]}),
    ("missing", FULL, {"missing": ["int64", [], None]}),
    ("missing with a default", FULL, {"missing": ["int64", [], 5], "label": ["int64", [], 6]}),
    ("another kind", FULL, {"label": ["float", [], None]}),
    ("another kind with a default", FULL, {"label": ["float", [], 1.0]}),
    ("another kind of any length", FULL, {"label": ["float", "var", None]}),
    ("nothing at all", {}, {"a": ["int64", "var", None]}),
]:
    content = serialized(features)
    cases[name] = {"bytes": content.hex(), "wanted": wanted, "parsed": parsed(content, wanted)}

write("example", cases)
