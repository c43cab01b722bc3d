"""Batches and windows of other sizes and lengths: unbatch, rebatch, padded_batch, window, group_by_window, bucket_by_sequence_length."""

import tensorflow as tf

from table import case, write

Dataset = tf.data.Dataset
numbers = Dataset.range


def lists(lengths):
    """For each length n the list of n times n."""
    spec = tf.TensorSpec([None], tf.int64)
    return Dataset.from_generator(lambda: ([n] * n for n in lengths), output_signature=spec)


def windows(dataset, *args, **kwargs):
    return case(dataset.window(*args, **kwargs))


def buckets(lengths, **kwargs):
    return case(lists(lengths).bucket_by_sequence_length(tf.size, **kwargs))


def groups(count, classes, size):
    return case(numbers(count).group_by_window(
        lambda x: x % classes, lambda key, window: window.batch(2), size))


LENGTHS = [1, 6, 2, 4, 3, 7, 1, 5, 4, 0, 2]

write("windows", {
    "range(10).batch(3).unbatch()": case(numbers(10).batch(3).unbatch()),
    "range(10).batch(2).batch(3).unbatch()": case(numbers(10).batch(2).batch(3).unbatch()),
    "range(10).batch(3).repeat().unbatch()": case(numbers(10).batch(3).repeat().unbatch(), take=12),
    "range(10).batch(3).rebatch(4)": case(numbers(10).batch(3).rebatch(4)),
    "range(10).batch(3).rebatch(4, drop_remainder)": case(numbers(10).batch(3).rebatch(4, drop_remainder=True)),
    "range(10).batch(4).rebatch(2)": case(numbers(10).batch(4).rebatch(2)),
    "range(12).batch(5).rebatch([2, 1, 1])": case(numbers(12).batch(5).rebatch([2, 1, 1])),
    "range(10).batch(5).rebatch([2, 1], drop_remainder)": case(numbers(10).batch(5).rebatch([2, 1], drop_remainder=True)),
    "range(9).batch(3).repeat().rebatch(4)": case(numbers(9).batch(3).repeat().rebatch(4), take=5),
    "lists.padded_batch(3)": case(lists(LENGTHS).padded_batch(3)),
    "lists.padded_batch(3, drop_remainder)": case(lists(LENGTHS).padded_batch(3, drop_remainder=True)),
    "lists.padded_batch(3, [8], -1)": case(
        lists(LENGTHS).padded_batch(3, padded_shapes=[8], padding_values=tf.constant(-1, tf.int64))),
    "range(10).window(3)": windows(numbers(10), 3),
    "range(10).window(3, drop_remainder)": windows(numbers(10), 3, drop_remainder=True),
    "range(7).window(3, shift 1)": windows(numbers(7), 3, shift=1),
    "range(7).window(3, shift 1, drop_remainder)": windows(numbers(7), 3, shift=1, drop_remainder=True),
    "range(7).window(3, shift 1, stride 2, drop_remainder)": windows(
        numbers(7), 3, shift=1, stride=2, drop_remainder=True),
    "range(7).window(3, stride 2)": windows(numbers(7), 3, stride=2),
    "range(11).window(2, shift 4)": windows(numbers(11), 2, shift=4),
    "range(10).window(2, shift 4, drop_remainder)": windows(numbers(10), 2, shift=4, drop_remainder=True),
    "range(9).window(2, shift 4, drop_remainder)": windows(numbers(9), 2, shift=4, drop_remainder=True),
    "range(2).window(3, drop_remainder)": windows(numbers(2), 3, drop_remainder=True),
    "range(0).window(3)": windows(numbers(0), 3),
    "range(3).repeat().window(2)": case(numbers(3).repeat().window(2), take=4),
    "range(11).group_by_window(3 classes, 2)": groups(11, 3, 2),
    "range(11).group_by_window(3 classes, 3)": groups(11, 3, 3),
    "range(10).group_by_window(2 classes, sizes 1 and 4)": case(numbers(10).group_by_window(
        lambda x: x % 2, lambda key, window: window.batch(4),
        window_size_func=lambda key: tf.where(key == 0, tf.constant(1, tf.int64), tf.constant(4, tf.int64)))),
    "lists.bucket([3, 5], [2, 2, 2])": buckets(LENGTHS, bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2]),
    "lists.bucket([3, 5], [3, 1, 2], drop_remainder)": buckets(
        LENGTHS, bucket_boundaries=[3, 5], bucket_batch_sizes=[3, 1, 2], drop_remainder=True),
    "lists.bucket([3, 5, 9], [2, 2, 2, 2], to boundary, -1)": buckets(
        LENGTHS, bucket_boundaries=[3, 5, 9], bucket_batch_sizes=[2, 2, 2, 2], pad_to_bucket_boundary=True,
        padding_values=tf.constant(-1, tf.int64)),
    "lists.bucket([4], [2, 3], [9])": buckets(
        LENGTHS, bucket_boundaries=[4], bucket_batch_sizes=[2, 3], padded_shapes=[9]),
})
