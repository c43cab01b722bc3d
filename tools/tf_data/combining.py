"""Datasets that select, join and mix: filter, flat_map, interleave, concatenate, zip, enumerate, choose, sample."""

import tensorflow as tf

from table import case, write

numbers = tf.data.Dataset.range
Dataset = tf.data.Dataset


def tens(x):
    """x % 4 elements: 10 x, 10 x + 1, ..."""
    return numbers(x % 4).map(lambda y: 10 * x + y)


def fives(x):
    return numbers(5).map(lambda y: 10 * x + y)


def choices(*each):
    return Dataset.from_tensor_slices(tf.constant(each, tf.int64))


def is_even(x):
    return x % 2 == 0


cases = {
    "range(10).filter(even)": case(numbers(10).filter(is_even)),
    "range(0).filter(even)": case(numbers(0).filter(is_even)),
    "range(10).filter(none)": case(numbers(10).filter(lambda x: x > 10)),
    "range(3).repeat().filter(even)": case(numbers(3).repeat().filter(is_even), take=5),
    "range(9).flat_map(tens)": case(numbers(9).flat_map(tens)),
    "range(0).flat_map(tens)": case(numbers(0).flat_map(tens)),
    "range(3).repeat().flat_map(fives)": case(numbers(3).repeat().flat_map(fives), take=12),
    "range(3).concatenate(range(2))": case(numbers(3).concatenate(numbers(2))),
    "range(3).concatenate(range(0))": case(numbers(3).concatenate(numbers(0))),
    "range(3).concatenate(range(2).repeat())": case(numbers(3).concatenate(numbers(2).repeat()), take=7),
    "range(2).repeat().concatenate(range(3))": case(numbers(2).repeat().concatenate(numbers(3)), take=7),
    "range(6).filter(even).concatenate(range(2))": case(numbers(6).filter(is_even).concatenate(numbers(2))),
    "range(6).filter(even).concatenate(range(2).repeat())":
        case(numbers(6).filter(is_even).concatenate(numbers(2).repeat()), take=8),
    "range(2).concatenate(range(1)).repeat(2)": case(numbers(2).concatenate(numbers(1)).repeat(2)),
    "zip(range(3), range(5))": case(Dataset.zip((numbers(3), numbers(5)))),
    "zip(range(5), range(3))": case(Dataset.zip((numbers(5), numbers(3)))),
    "zip(range(3), range(2).repeat())": case(Dataset.zip((numbers(3), numbers(2).repeat()))),
    "zip(range(3).repeat(), range(2).repeat())": case(Dataset.zip((numbers(3).repeat(), numbers(2).repeat())), take=7),
    "zip(range(3), range(9).filter(even))": case(Dataset.zip((numbers(3), numbers(9).filter(is_even)))),
    "zip(range(4), range(3), range(5)).batch(2)":
        case(Dataset.zip((numbers(4), numbers(3), numbers(5))).batch(2)),
    "zip(range(0), range(9).filter(even))": case(Dataset.zip((numbers(0), numbers(9).filter(is_even)))),
    "zip(range(2).repeat(), range(9).filter(even))":
        case(Dataset.zip((numbers(2).repeat(), numbers(9).filter(is_even)))),
    "range(3).enumerate(5)": case(numbers(10, 13).enumerate(start=5)),
    "range(2).repeat().enumerate()": case(numbers(2).repeat().enumerate(), take=3),
    "range(9).filter(even).enumerate()": case(numbers(9).filter(is_even).enumerate()),
    "range(4).apply(skip 1)": case(numbers(4).apply(lambda each: each.skip(1))),
}

# What mixes: three ranges of different lengths, and choices between them.
inputs = lambda: [numbers(4), numbers(10, 12), numbers(20, 25)]
for stops in (True, False):
    for name, each in {"0 1 2": (0, 1, 2) * 4, "1 1 1 0": (1, 1, 1, 0), "2": (2, 2), "none": ()}.items():
        cases[f"choose({name}, {'stop' if stops else 'go on'})"] = case(
            Dataset.choose_from_datasets(inputs(), choices(*each), stop_on_empty_dataset=stops))
    endless = [each.repeat() for each in inputs()]
    cases[f"choose(endless, {'stop' if stops else 'go on'})"] = case(
        Dataset.choose_from_datasets(endless, numbers(3).repeat(3), stop_on_empty_dataset=stops))
    mixed = [numbers(4), numbers(10, 12).repeat()]
    cases[f"choose(partly endless, {'stop' if stops else 'go on'})"] = case(
        Dataset.choose_from_datasets(mixed, numbers(2).repeat(), stop_on_empty_dataset=stops), take=12)
    cases[f"sample(weights 0 1 0, {'stop' if stops else 'go on'})"] = case(
        Dataset.sample_from_datasets(inputs(), [0.0, 1.0, 0.0], seed=1, stop_on_empty_dataset=stops))
    some = Dataset.sample_from_datasets(inputs(), [0.2, 0.3, 0.5], seed=1, stop_on_empty_dataset=stops)
    cases[f"sample(finite, {'stop' if stops else 'go on'})"] = {
        "sorted": sorted(case(some)["elements"]), "cardinality": int(some.cardinality())}
    cases[f"sample(partly endless, {'stop' if stops else 'go on'})"] = {
        "cardinality": int(Dataset.sample_from_datasets(mixed, stop_on_empty_dataset=stops).cardinality())}

# Interleaving in order gives the same with and without threads.
for count in (0, 1, 5, 13):
    for inner in (tens, fives):
        for cycle in (1, 2, 3, 4, 16):
            for block in (1, 2, 3, 7):
                plain = case(numbers(count).interleave(inner, cycle_length=cycle, block_length=block))
                threads = case(numbers(count).interleave(
                    inner, cycle_length=cycle, block_length=block, num_parallel_calls=min(2, cycle),
                    deterministic=True))
                assert plain == threads, (count, inner.__name__, cycle, block)
                cases[f"range({count}).interleave({inner.__name__}, {cycle}, {block})"] = plain
cases["range(3).repeat().interleave(fives, 2, 2)"] = case(
    numbers(3).repeat().interleave(fives, cycle_length=2, block_length=2), take=20)

write("combining", cases)
