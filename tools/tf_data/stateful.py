"""Transforms that remember what they saw, transforms that end or thin out a dataset, and sources of numbers."""

import tensorflow as tf

from table import case, write

Dataset = tf.data.Dataset
numbers = Dataset.range


def add(state, x):
    return state + x, state + x


def fails_at_threes(x):
    with tf.control_dependencies([tf.debugging.assert_none_equal(x % 3, tf.constant(0, tf.int64))]):
        return tf.identity(x)


def expecting(count, dataset):
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def error(make):
    """What tf.data raises."""
    try:
        list(make())
    except Exception as raised:  # of many types
        return {"raises": type(raised).__name__}
    raise SystemExit("nothing was raised")


zero = tf.constant(0, tf.int64)
write("stateful", {
    "range(6).scan(0, sum)": case(numbers(6).scan(zero, add)),
    "range(3).repeat().scan(0, sum)": case(numbers(3).repeat().scan(zero, add), take=7),
    "range(10).take_while(x != 4)": case(numbers(10).take_while(lambda x: x != 4)),
    "range(3).take_while(x != 4)": case(numbers(3).take_while(lambda x: x != 4)),
    "range(3).repeat().take_while(x != 4)": case(numbers(3).repeat().take_while(lambda x: x != 4), take=5),
    "range(3).repeat(2).unique()": case(numbers(3).repeat(2).unique()),
    "range(3).repeat().unique()": {"cardinality": int(numbers(3).repeat().unique().cardinality())},
    "range(10).map(fails at threes).ignore_errors()": case(numbers(10).map(fails_at_threes).ignore_errors()),
    "range(1, 10).map(fails at threes).ignore_errors().repeat()": case(
        numbers(1, 10).map(fails_at_threes).ignore_errors().repeat(), take=8),
    "range(10).assert_cardinality(10)": case(expecting(10, numbers(10))),
    "range(10).assert_cardinality(9)": error(lambda: expecting(9, numbers(10))),
    "range(10).assert_cardinality(11)": error(lambda: expecting(11, numbers(10))),
    "range(10).assert_cardinality(-1)": error(lambda: expecting(-1, numbers(10))),
    "range(3).repeat().assert_cardinality(-1)": case(expecting(-1, numbers(3).repeat()), take=4),
    "range(2, 5)": case(numbers(2, 5)),
    "range(2, 11, 3)": case(numbers(2, 11, 3)),
    "range(2, 12, 3)": case(numbers(2, 12, 3)),
    "range(5, -2, -2)": case(numbers(5, -2, -2)),
    "range(5, 2)": case(numbers(5, 2)),
    "range(-1)": case(numbers(-1)),
    "range(1, 5, 0)": error(lambda: numbers(1, 5, 0)),
    "counter()": case(Dataset.counter(), take=4),
    "counter(10, -3)": case(Dataset.counter(10, -3), take=4),
    "window(0)": error(lambda: numbers(3).window(0)),
    "window(1, shift 0)": error(lambda: numbers(3).window(1, shift=0)),
    "window(1, stride 0)": error(lambda: numbers(3).window(1, stride=0)),
    "unbatch of scalars": error(lambda: numbers(3).unbatch()),
})
