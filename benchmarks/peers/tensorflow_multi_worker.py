"""TensorFlow: MultiWorkerMirroredStrategy over several processes on loopback, one CPU replica and one thread each.

Prints one JSON line (measure.report). Model, data and the compiled block of steps are those of tensorflow_mirrored.py.
"""

import argparse
import os
import sys

import measure
import ranks
import tensorflow_mirrored


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    tensorflow_mirrored.add_common_arguments(parser)
    parser.add_argument("--model", choices=["mnist_cnn", "mlp256"], default="mnist_cnn")
    parser.add_argument("--replicas", type=int, default=2, help="processes")
    parser.add_argument("--pin", action="store_true", help="one core a process")
    parser.add_argument("--communication", choices=["AUTO", "RING"], default="AUTO")
    options = parser.parse_args()
    options.batch = options.batch or tensorflow_mirrored.BATCH[options.model]
    return options


def make_strategy(tf, options):
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[options.communication])
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)


def make_sum(tf, strategy):
    """The sum over the workers of a number that each has."""

    def add_replica(value):
        here = tf.identity(value)  # arguments have no device
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)

    @tf.function
    def add(value):
        return strategy.run(add_replica, args=(value,))

    return lambda value: strategy.experimental_local_results(add(tf.constant(value, tf.float32)))[0].numpy()


def train_one_worker(options):
    tf = tensorflow_mirrored.import_tensorflow(options)
    strategy = make_strategy(tf, options)
    chief = strategy.cluster_resolver.task_id == 0
    run_steps = tensorflow_mirrored.make_block(tf, strategy, options)
    add = make_sum(tf, strategy)
    as_the_chief = lambda flag: add(float(chief and flag)) > 0
    times = measure.time_blocks(run_steps, options.steps_per_block, options.warm_up_seconds, options.seconds,
                                as_the_chief)
    peak = float(add(measure.peak_rss_mib()))
    if chief:
        measure.report(options.name, options.replicas, options.batch, options.steps_per_block, times, peak,
                       version=tf.__version__, optimizer=options.optimizer)
    add(0.0)  # all have what they need of the others
    sys.stdout.flush()
    # Left to itself, the end of a worker waits for servers and sometimes forever; all is measured by now.
    os._exit(0)


def main():
    options = parse_arguments()
    if "TF_CONFIG" not in os.environ:
        sys.exit(ranks.start([sys.executable, *sys.argv], ranks.tf_config_environments(options.replicas), options.pin,
                             OMP_NUM_THREADS="1"))
    train_one_worker(options)


if __name__ == "__main__":
    main()
