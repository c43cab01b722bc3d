"""Batches of tf.train.Examples as dense tensors: tf.io.parse_example, parse_single_example and decode_raw."""

import tensorflow as tf

from serialized import KINDS, serialized
from table import write

FAILED = "(failed)"
RAW = {"uint8": tf.uint8, "int16": tf.int16, "float32": tf.float32}


def plain(tensor):
    values = tf.reshape(tensor, [-1]).numpy().tolist()
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "values": values}


def spec(wanted):
    form, kind, shape, more = wanted
    if form == "fixed":
        return tf.io.FixedLenFeature(shape, KINDS[kind], more)
    if form == "padded":
        return tf.io.FixedLenSequenceFeature(shape, KINDS[kind], allow_missing=True, default_value=more)
    return tf.io.FixedLenFeature([], tf.string, more)


def decoded(strings, wanted):
    """Raw bytes as numbers, padded to the longest."""
    _, dtype, shape, _ = wanted
    lengths = tf.reshape(tf.strings.length(strings), [-1]).numpy().tolist()
    size = RAW[dtype].size
    if any(length % size for length in lengths):
        raise ValueError("part of a number")
    if shape is not None:
        return tf.reshape(tf.io.decode_raw(strings, RAW[dtype]), [*strings.shape.as_list(), *shape])
    if len(set(lengths)) == 1:
        return tf.io.decode_raw(strings, RAW[dtype])
    return tf.io.decode_raw(strings, RAW[dtype], fixed_length=max(lengths))


def parsed(parse, content, wanted):
    try:
        result = parse(content, {name: spec(each) for name, each in wanted.items()})
        tensors = {name: decoded(result[name], each) if each[0] == "raw" else result[name] for name, each in wanted.items()}
        check_sparse(parse, content, wanted, tensors)
        return {name: plain(tensor) for name, tensor in tensors.items()}
    except (tf.errors.InvalidArgumentError, ValueError):
        return FAILED


def check_sparse(parse, content, wanted, tensors):
    """A VarLenFeature made dense is the same as a FixedLenSequenceFeature of scalars."""
    for name, (form, kind, shape, padding) in wanted.items():
        if form == "padded" and shape == []:
            sparse = parse(content, {name: tf.io.VarLenFeature(KINDS[kind])})[name]
            dense = tf.sparse.to_dense(sparse, default_value=padding or 0)
            assert plain(dense) == plain(tensors[name]), (dense, tensors[name])


def case(wanted):
    """What becomes of EXAMPLES. `wanted`: name -> ["fixed", kind, shape, default], ["padded", kind, shape of a step, padding] or ["raw", dtype, shape, default]."""
    as_text = {name: [*each[:3], each[3].decode() if isinstance(each[3], bytes) else each[3]] for name, each in wanted.items()}
    return {"wanted": as_text, "batch": parsed(tf.io.parse_example, EXAMPLES, wanted),
            "single": [parsed(tf.io.parse_single_example, example, wanted) for example in EXAMPLES]}


NO_NUMBERS = tf.train.Feature(int64_list=tf.train.Int64List())
EXAMPLES = [serialized(features) for features in [
    {"x": [1.5, -2.0], "n": [7], "words": [1, 2, 3], "pixels": [b"abcd"], "track": [0.5, 1.5, 2.5, 3.5], "text": [b"one"]},
    {"x": [0.25, 4.0], "n": [-2**40], "words": NO_NUMBERS, "pixels": [b"efgh"], "text": [b""]},
    {"x": [8.0, 1e30], "words": [9], "pixels": [b"\x00\xff\x80\x40"], "track": [9.0, 8.0], "text": [b"three"], "other": [1]},
]]

write("parse_example", {
    "examples": [example.hex() for example in EXAMPLES],
    "fixed": case({"x": ["fixed", "float", [2], None], "n": ["fixed", "int64", [], 3]}),
    "fixed of two dimensions": case({"x": ["fixed", "float", [2, 1], None]}),
    "fixed, missing in one": case({"n": ["fixed", "int64", [], None]}),
    "fixed, missing with a default": case({"none": ["fixed", "float", [2], [0.5, -0.5]]}),
    "fixed, too many": case({"x": ["fixed", "float", [], None]}),
    "fixed, of another kind": case({"x": ["fixed", "int64", [2], None]}),
    "fixed of no values": case({"words": ["fixed", "int64", [0], None]}),
    "padded": case({"words": ["padded", "int64", [], -1], "track": ["padded", "float", [], None]}),
    "padded steps": case({"track": ["padded", "float", [2], 0.25]}),
    "padded steps, some of no whole number": case({"words": ["padded", "int64", [2], 0]}),
    "padded, missing in all": case({"none": ["padded", "float", [], None]}),
    "padded, of another kind": case({"track": ["padded", "int64", [], None]}),
    "raw": case({"pixels": ["raw", "uint8", [2, 2], None]}),
    "raw of wider numbers": case({"pixels": ["raw", "int16", [2], None]}),
    "raw of one number": case({"pixels": ["raw", "float32", [1], None]}),
    "raw of other sizes": case({"text": ["raw", "uint8", None, None]}),
    "raw of other sizes for a shape": case({"text": ["raw", "uint8", [3], None]}),
    "raw, part of a number": case({"text": ["raw", "int16", None, None]}),
    "raw, missing with a default": case({"none": ["raw", "uint8", [2], b"xy"]}),
    "raw, missing": case({"none": ["raw", "uint8", [2], None]}),
    "all at once": case({"pixels": ["raw", "uint8", [4], None], "words": ["padded", "int64", [], 0],
                                "x": ["fixed", "float", [2], None], "n": ["fixed", "int64", [1], [0]]}),
})
