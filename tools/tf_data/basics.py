"""Ranges, batches, repeats, takes, skips and shards."""

import tensorflow as tf

from table import case, write

numbers = tf.data.Dataset.range

write("basics", {
    "range(10).batch(3)": case(numbers(10).batch(3)),
    "range(10).batch(3, drop_remainder)": case(numbers(10).batch(3, drop_remainder=True)),
    "range(3).repeat(2).batch(4)": case(numbers(3).repeat(2).batch(4)),
    "range(3).batch(2).repeat(2)": case(numbers(3).batch(2).repeat(2)),
    "range(10).take(3)": case(numbers(10).take(3)),
    "range(10).skip(7)": case(numbers(10).skip(7)),
    "range(3).take(7)": case(numbers(3).take(7)),
    "range(3).skip(7)": case(numbers(3).skip(7)),
    "range(10).shard(3, 1)": case(numbers(10).shard(3, 1)),
    "range(10).batch(2).shard(2, 1)": case(numbers(10).batch(2).shard(2, 1)),
    "range(3).repeat()": case(numbers(3).repeat(), take=7),
    "range(3).repeat(0)": case(numbers(3).repeat(0)),
})
