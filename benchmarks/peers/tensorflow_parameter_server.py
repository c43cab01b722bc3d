"""TensorFlow: asynchronous training under ParameterServerStrategy with a ClusterCoordinator. One parameter server and the
workers are processes on loopback; this one is the chief, which coordinates.

Prints one JSON line (measure.report). The model and the data are those of tensorflow_mirrored.py, the optimizer is SGD by
TensorFlow's kernel, on the server. A scheduled function trains several steps in the graph, and some are always queued, so
that no worker waits for the chief.
"""

import argparse
import collections
import json
import os
import signal
import sys

import measure
import ranks
import tensorflow_mirrored

CALLS_AHEAD = 2  # scheduled functions of each worker


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    tensorflow_mirrored.add_common_arguments(parser)
    parser.add_argument("--replicas", type=int, default=2, help="workers, one replica each")
    parser.add_argument("--pin", action="store_true", help="one core a worker")
    parser.add_argument("--steps-per-call", type=int, default=1, help="steps of a scheduled function")
    parser.add_argument("--cluster", type=json.loads, help=argparse.SUPPRESS)  # of a task that this program started
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.model = "mnist_cnn"
    options.batch = options.batch or tensorflow_mirrored.BATCH[options.model]
    return options


def make_cluster(workers):
    ports = ranks.free_ports(workers + 2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return {"chief": addresses[:1], "ps": addresses[1:2], "worker": addresses[2:]}


def serve(options):
    """A server or a worker: does what the chief says until it is killed."""
    tf = tensorflow_mirrored.import_tensorflow(options)
    job, index = options.task.split(":")
    tf.distribute.Server(tf.train.ClusterSpec(options.cluster), job_name=job, task_index=int(index), protocol="grpc").join()


def start_tasks(processes, options, cluster):
    cores = sorted(os.sched_getaffinity(0))
    for job in ("ps", "worker"):
        for index in range(len(cluster[job])):
            pinned = {cores[index % len(cores)]} if options.pin and job == "worker" else None
            processes.start([sys.executable, *sys.argv, "--cluster", json.dumps(cluster), "--task", f"{job}:{index}"], pinned,
                            env={**ranks.own_environment(), "OMP_NUM_THREADS": str(options.intra)})


class Training:
    """Steps of all workers, in the order in which the coordinator's calls end."""

    def __init__(self, tf, options, cluster):
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc")
        self.options = options
        self.strategy = tf.distribute.ParameterServerStrategy(resolver)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.call = make_call(tf, self.strategy, options)
        dataset = self.coordinator.create_per_worker_dataset(lambda: make_batches(tf, options))
        self.batches = iter(dataset)
        self.calls = collections.deque()
        self.calls_done = 0
        self.steps_taken = 0
        for _ in range(CALLS_AHEAD * options.replicas):
            self.schedule()

    def schedule(self):
        self.calls.append(self.coordinator.schedule(self.call, args=(self.batches,)))

    def run_steps(self, count):
        """Returns when `count` more steps a worker are done; later ones are then under way."""
        self.steps_taken += count * self.options.replicas
        while self.calls_done * self.options.steps_per_call < self.steps_taken:
            self.schedule()
            self.calls.popleft().fetch()
            self.calls_done += 1


def make_batches(tf, options):
    """A worker's batches, which it goes round."""
    shape = [measure.BATCHES, options.batch]
    images = tf.random.uniform([*shape, 28, 28, 1], seed=1)
    labels = tf.random.uniform(shape, maxval=10, dtype=tf.int32, seed=2)
    return tf.data.Dataset.from_tensor_slices((images, labels)).repeat().prefetch(2)


def make_call(tf, strategy, options):
    with strategy.scope():
        model = tensorflow_mirrored.MnistCnn(tf)

    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images)))
        for variable, gradient in zip(model.variables, tape.gradient(loss, model.variables)):
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=1e-3, delta=gradient)
        return loss

    @tf.function
    def call(batches):
        loss = tf.constant(0.0)
        if options.steps_per_call == 1:
            return step(*next(batches))
        for _ in tf.range(options.steps_per_call):
            loss = step(*next(batches))
        return loss

    return call


def train(options):
    cluster = make_cluster(options.replicas)
    with ranks.Processes() as processes:
        start_tasks(processes, options, cluster)
        tf = tensorflow_mirrored.import_tensorflow(options)
        training = Training(tf, options, cluster)
        times = measure.time_blocks(training.run_steps, options.steps_per_block, options.warm_up_seconds, options.seconds)
        peak = measure.peak_rss_mib() + sum(measure.peak_rss_mib(process.pid) for process in processes.started)
        measure.report(options.name, options.replicas, options.batch, options.steps_per_block, times, peak,
                       version=tf.__version__, optimizer="sgd")
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())  # from here on it would only report the end of its workers
    os._exit(0)  # the coordinator's threads would wait for the workers, which are gone


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_arguments()
    serve(options) if options.task else train(options)


if __name__ == "__main__":
    main()
