"""TensorFlow: MirroredStrategy over logical CPU devices, or one replica under the same strategy.

Prints one JSON line (measure.report). The data is synthetic and is in memory, as for ours; each call of
the compiled function trains a block of steps inside the graph, so the fraction of time in Python is negligible.
"""

import argparse
import os

import measure

BATCH = {"mnist_cnn": 128, "mlp256": 64, "resnet50": 8, "inception_v3": 8}
IMAGE_SIZE = {"resnet50": 224, "inception_v3": 299}  # of Keras applications; 1000 classes


def add_common_arguments(parser):
    """What every program with TensorFlow takes."""
    parser.add_argument("--batch", type=int, help="examples a replica and step (default: 128, mlp256: 64, the large ones: 8)")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm-up-seconds", type=float, default=2)
    parser.add_argument("--steps-per-block", type=int, default=5)
    parser.add_argument("--intra", type=int, default=1, help="threads within an operation")
    parser.add_argument("--inter", type=int, default=0, help="parallel operations (0: TensorFlow's choice)")
    parser.add_argument("--optimizer", choices=["keras", "raw"], default="raw")
    parser.add_argument("--one-dnn", choices=["0", "1"], default="1")
    parser.add_argument("--no-loop", action="store_true", help="one call of the function a step")
    parser.add_argument("--name", default="tensorflow")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--reduction", choices=["default", "one_device", "hierarchical"], default="default")
    parser.add_argument("--model", choices=["mnist_cnn", *IMAGE_SIZE], default="mnist_cnn")
    options = parser.parse_args()
    options.batch = options.batch or BATCH[options.model]
    return options


class MnistCnn:
    """The model as TensorFlow's tutorials write it in plain operations: channels last, as its CPU kernels want."""

    def __init__(self, tf):
        self.tf = tf
        glorot = tf.keras.initializers.GlorotUniform(seed=1)
        shapes = [(5, 5, 1, 32), (5, 5, 32, 64), (3136, 1024), (1024, 10)]
        self.variables = []
        for shape in shapes:
            self.variables.append(tf.Variable(glorot(shape)))
            self.variables.append(tf.Variable(tf.zeros(shape[-1:])))

    def __call__(self, images):
        nn, v = self.tf.nn, self.variables
        x = nn.relu(nn.bias_add(nn.conv2d(images, v[0], 1, "SAME"), v[1]))
        x = nn.max_pool2d(x, 2, 2, "VALID")
        x = nn.relu(nn.bias_add(nn.conv2d(x, v[2], 1, "SAME"), v[3]))
        x = nn.max_pool2d(x, 2, 2, "VALID")
        x = self.tf.reshape(x, [-1, 3136])
        x = nn.relu(nn.bias_add(self.tf.linalg.matmul(x, v[4]), v[5]))
        return nn.bias_add(self.tf.linalg.matmul(x, v[6]), v[7])


class Mlp:
    """Four linear layers of `width` with relu between them."""

    def __init__(self, tf, width):
        self.tf = tf
        glorot = tf.keras.initializers.GlorotUniform(seed=1)
        self.variables = []
        for _ in range(4):
            self.variables.append(tf.Variable(glorot((width, width))))
            self.variables.append(tf.Variable(tf.zeros(width)))

    def __call__(self, x):
        nn, v = self.tf.nn, self.variables
        for layer in range(4):
            x = nn.bias_add(self.tf.linalg.matmul(x, v[2 * layer]), v[2 * layer + 1])
            if layer < 3:
                x = nn.relu(x)
        return x


class Application:
    """A network of Keras applications, as it comes: batch norm's statistics move in training."""

    def __init__(self, tf, name):
        kind = {"resnet50": tf.keras.applications.ResNet50, "inception_v3": tf.keras.applications.InceptionV3}[name]
        self.network = kind(weights=None, classes=1000, classifier_activation=None)
        self.variables = [weight.value for weight in self.network.trainable_variables]

    def __call__(self, images):
        return self.network(images, training=True)


class RawSgd:
    """Plain SGD by TensorFlow's kernel: all-reduce in the replica, then one operation a variable."""

    def __init__(self, tf, variables):
        self.tf = tf

    def apply_gradients(self, gradients, variables):
        tf = self.tf
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)

        def update(strategy, replicated, gradients):
            for variable, gradient in zip(replicated, gradients):
                strategy.extended.update(variable, lambda variable, delta: tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=1e-3, delta=delta), args=(gradient,))

        context.merge_call(update, args=(variables, gradients))


class RawMomentum:
    """SGD with momentum by TensorFlow's fused kernel: all-reduce in the replica, then one operation a variable."""

    def __init__(self, tf, variables):
        self.tf = tf
        self.slots = [tf.Variable(tf.zeros_like(v)) for v in variables]

    def apply_gradients(self, gradients, variables):
        tf = self.tf
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)

        def update(strategy, slots, replicated, gradients):
            for variable, slot, gradient in zip(replicated, slots, gradients):
                strategy.extended.update(variable, lambda variable, slot, delta: tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle, accum=slot.handle, lr=1e-3, grad=delta, momentum=0.9), args=(slot, gradient))

        context.merge_call(update, args=(self.slots, variables, gradients))


class RawAdam:
    """Adam by TensorFlow's fused kernel: all-reduce in the replica, then one operation a variable."""

    def __init__(self, tf, variables):
        self.tf = tf
        self.slots = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in variables]
        self.powers = tf.Variable(0.9), tf.Variable(0.999)

    def apply_gradients(self, gradients, variables):
        tf = self.tf
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)

        def update(strategy, powers, slots, replicated, gradients):
            for variable, (m, v), gradient in zip(replicated, slots, gradients):
                def apply(variable, m, v, gradient, beta1_power, beta2_power):
                    tf.raw_ops.ResourceApplyAdam(
                        var=variable.handle, m=m.handle, v=v.handle, beta1_power=beta1_power.read_value(),
                        beta2_power=beta2_power.read_value(), lr=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8,
                        grad=gradient)
                strategy.extended.update(variable, apply, args=(m, v, gradient, *powers))
            for power, factor in zip(powers, (0.9, 0.999)):
                strategy.extended.update(power, lambda p, f: p.assign(p * f), args=(factor,))

        context.merge_call(update, args=(self.powers, self.slots, variables, gradients))


def make_strategy(tf, options):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration() for _ in range(options.replicas)])
    reduction = {
        "default": lambda: None,
        "one_device": tf.distribute.ReductionToOneDevice,
        "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
    }[options.reduction]()
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(options.replicas)],
                                          cross_device_ops=reduction)


def make_model(tf, name):
    if name in IMAGE_SIZE:
        return Application(tf, name)
    return MnistCnn(tf) if name == "mnist_cnn" else Mlp(tf, 256)


def make_optimizer(tf, options, variables):
    is_cnn, is_large = options.model == "mnist_cnn", options.model in IMAGE_SIZE
    if options.optimizer == "raw":
        return (RawAdam if is_cnn else RawMomentum if is_large else RawSgd)(tf, variables)
    optimizer = tf.keras.optimizers.Adam(1e-3) if is_cnn else tf.keras.optimizers.SGD(1e-3, 0.9 if is_large else 0.0)
    optimizer.build(variables)
    return optimizer


def make_block(tf, strategy, options):
    """A function that trains `count` steps on every replica."""
    shape, classes = ((28, 28, 1), 10) if options.model == "mnist_cnn" else ((256,), 256)
    if size := IMAGE_SIZE.get(options.model):
        shape, classes = (size, size, 3), 1000
    with strategy.scope():
        model = make_model(tf, options.model)
        optimizer = make_optimizer(tf, options, model.variables)
    with tf.device("/cpu:0"):
        images = tf.random.uniform([measure.BATCHES, options.batch, *shape], seed=1)
        labels = tf.random.uniform([measure.BATCHES, options.batch], maxval=classes, dtype=tf.int32, seed=2)

    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images)))
        gradients = tape.gradient(loss, model.variables)
        if options.optimizer == "raw":
            optimizer.apply_gradients(gradients, model.variables)
        else:
            optimizer.apply_gradients(zip(gradients, model.variables))

    def one_step(position):
        def replica_step():
            mine = position + tf.distribute.get_replica_context().replica_id_in_sync_group
            step(images[mine % measure.BATCHES], labels[mine % measure.BATCHES])

        strategy.run(replica_step)

    @tf.function
    def block(count):
        for position in tf.range(count):
            one_step(position)

    single = tf.function(one_step)

    def run_steps(count):
        if options.no_loop:
            for position in range(count):
                single(tf.constant(position))
        else:
            block(tf.constant(count))
        model.variables[-1].values[0].numpy()  # waits for the steps' end

    return run_steps


def import_tensorflow(options):
    """The module, with its threads set; once it has run something they stay."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = options.one_dnn
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.intra)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter)
    return tf


def main():
    options = parse_arguments()
    tf = import_tensorflow(options)
    run_steps = make_block(tf, make_strategy(tf, options), options)
    times = measure.time_blocks(run_steps, options.steps_per_block, options.warm_up_seconds, options.seconds)
    measure.report(options.name, options.replicas, options.batch, options.steps_per_block, times,
                   measure.peak_rss_mib(), version=tf.__version__, optimizer=options.optimizer)


if __name__ == "__main__":
    main()
