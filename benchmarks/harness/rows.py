"""What is run: the rows of the table, and the bars that the results are compared with."""

import dataclasses
import pathlib

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
PEERS = BENCHMARKS / "peers"

# Where a program writes: a folder on the disk that the results go to, or one in memory, where a sync costs nothing.
DISK, MEMORY = "disk", "memory"
# For a program that writes nothing.
NOWHERE = "nowhere"


@dataclasses.dataclass
class Row:
    """A program that prints its images a second."""

    id: str
    label: str
    command: list
    model: str = "mnist_cnn"
    # The Python module it needs; None for our own programs.
    module: str = None
    # Settings to try before the first round; the fastest is kept, so that no peer runs below its best.
    variants: list = dataclasses.field(default_factory=lambda: [[]])
    # Whether our tuning library is preloaded into it.
    preload: bool = False
    # In how many processes our program runs, on one core each.
    processes: int = 1
    # Where the command is a program in Python that starts processes of `brigade`: where these write.
    job: str = None
    # How long it may take beside its warm-up and its blocks.
    start_seconds: float = 60


def _ours(id, label, replicas, model="mnist_cnn", strategy=None):
    strategy = strategy or ("one_device" if replicas == 1 else "mirrored")
    return Row(id, label, ["replica_bench", "--model", model, "--strategy", strategy, "--replicas", replicas], model)


def _our_workers(id, label, transport, model="mnist_cnn"):
    return Row(id, label, ["replica_bench", "--model", model, "--strategy", "multi_worker_mirrored", "--transport",
                           transport], model, processes=2)


def _bare(id, label, layers, model="mnist_cnn", copies=1):
    return Row(id, label, ["bare_libtorch", "--model", model, "--layers", layers, "--copies", copies], model)


def _pytorch(id, label, replicas, variants, model="mnist_cnn", preload=False):
    return Row(id, label, [PEERS / "pytorch_ddp.py", "--model", model, "--replicas", replicas], model, "torch",
               variants, preload)


def _tensorflow(id, label, replicas, variants):
    return Row(id, label, [PEERS / "tensorflow_mirrored.py", "--replicas", replicas], module="tensorflow",
               variants=variants)


def _tensorflow_workers(id, label, model="mnist_cnn"):
    return Row(id, label, [PEERS / "tensorflow_multi_worker.py", "--model", model, "--replicas", 2], model,
               "tensorflow", TF_WORKERS)


def _job(id, label, *flags, replicas=2, folder=DISK, variants=None):
    """A training by `brigade train`, a process a task."""
    command = [BENCHMARKS / "parameter_server_job.py", "--replicas", replicas, *flags]
    return Row(id, label, command, "tutorial", variants=variants or [[]], job=folder)


def _servers(id, label, *flags, **more):
    return _job(id, label, "--strategy", "parameter_server", *flags, variants=PINNING, **more)


def _tensorflow_servers(id, label, workers, variants):
    return Row(id, label, [PEERS / "tensorflow_parameter_server.py", "--replicas", workers], "tutorial", "tensorflow", variants)


def _large(model, name):
    """A large image model of ours, in both orders of memory where we have them, and of the peers. Steps take seconds."""
    ours = lambda id, label, replicas, memory_format: Row(
        f"{model}_{id}", label, [BENCHMARKS / "brigade_bench.py", "--model", model, "--replicas", replicas, "--memory-format", memory_format],
        model, job=NOWHERE, start_seconds=300)
    peer = lambda id, label, program, replicas, module, variants: Row(
        f"{model}_{id}", label, [PEERS / program, "--model", model, "--replicas", replicas], model, module, variants, start_seconds=300)
    torch = lambda id, label, replicas, *flags: peer(id, label, "pytorch_ddp.py", replicas, "torchvision", [
        ["--optimizer-path", "fused", *(["--bucket-view"] if replicas > 1 else []), *flags]])
    tensorflow = lambda id, label, replicas, variants: peer(id, label, "tensorflow_mirrored.py", replicas, "tensorflow", variants)
    return [ours("ours_1", f"Brigade, OneDeviceStrategy, {name}", 1, "channels_last"),
            ours("ours_2", f"Brigade, MirroredStrategy, {name}", 2, "channels_last"),
            ours("ours_2_contiguous", "the same, contiguous", 2, "contiguous"),
            torch("pytorch_1", "PyTorch, one process", 1), torch("pytorch_1_last", "the same, channels last", 1, "--channels-last"),
            torch("ddp_2", "PyTorch DDP (Gloo)", 2), torch("ddp_2_last", "the same, channels last", 2, "--channels-last"),
            tensorflow("tf_1", "TensorFlow with Keras, one replica", 1, [["--intra", "1"]]),
            tensorflow("tf_2", "TensorFlow MirroredStrategy with Keras", 2, MIRRORED)]


# The first of each is the fastest where we measured; a full run tries them all.
ONE_PROCESS = [["--optimizer-path", "fused"], ["--optimizer-path", "foreach"],
               ["--optimizer-path", "fused", "--channels-last"]]
DDP = [["--optimizer-path", "fused", "--bucket-view"], ["--optimizer-path", "fused"],
       ["--optimizer-path", "foreach"], ["--optimizer-path", "fused", "--bucket-view", "--channels-last"],
       ["--optimizer-path", "fused", "--bucket-view", "--pin"]]
MLP_DDP = [["--optimizer-path", "fused", "--bucket-view"], ["--optimizer-path", "fused", "--bucket-view", "--pin"],
           ["--optimizer-path", "fused", "--bucket-view", "--static-graph"]]
TF_WORKERS = [[], ["--pin"], ["--communication", "RING"]]
PINNING = [[], ["--pin"]]
TF_SERVERS = [["--steps-per-call", "5"], ["--steps-per-call", "1"], ["--steps-per-call", "5", "--intra", "2"],
              ["--steps-per-call", "5", "--pin"]]
MIRRORED = [["--intra", "1"], ["--intra", "2"], ["--intra", "2", "--inter", "2"]]

ROWS = [
    _ours("ours_1", "Brigade, OneDeviceStrategy", 1),
    _ours("ours_2", "Brigade, MirroredStrategy", 2),
    _ours("central_2", "Brigade, CentralStorageStrategy", 2, strategy="central_storage"),
    _ours("central_copies_2", "the same, each replica with a copy", 2, strategy="central_storage_copies"),
    _ours("towers_2", "Brigade, towers around a CPU controller", 2, strategy="towers"),
    _bare("bare", "bare libtorch loop, same tuning", "libtorch"),
    _bare("bare_ours", "bare loop over Brigade's model", "brigade"),
    _bare("bare_ours_2", "two such loops that share nothing", "brigade", copies=2),
    _pytorch("pytorch_1", "PyTorch, one process", 1, ONE_PROCESS),
    _pytorch("ddp_2", "PyTorch DDP (Gloo), as shipped", 2, DDP),
    _pytorch("ddp_2_preloaded", "PyTorch DDP (Gloo), our tuning preloaded", 2, DDP, preload=True),
    _tensorflow("tf_1", "TensorFlow, one replica", 1, [["--intra", "1"]]),
    _tensorflow("tf_2", "TensorFlow MirroredStrategy", 2, MIRRORED),
    _our_workers("workers_2", "Brigade, two processes, shared memory", "shared_memory"),
    _our_workers("workers_2_tcp", "Brigade, two processes, Gloo over TCP", "gloo"),
    _tensorflow_workers("tf_workers_2", "TensorFlow MultiWorkerMirrored, two processes"),
    _ours("mlp_ours_1", "Brigade, OneDeviceStrategy", 1, "mlp64"),
    _ours("mlp_ours_2", "Brigade, MirroredStrategy", 2, "mlp64"),
    _bare("mlp_bare", "bare libtorch loop, same tuning", "brigade", "mlp64"),
    _pytorch("mlp_pytorch_1", "PyTorch, one process", 1, [["--optimizer-path", "fused"]], "mlp64"),
    _pytorch("mlp_ddp_2", "PyTorch DDP (Gloo), as shipped", 2, [["--optimizer-path", "fused", "--bucket-view"]],
             "mlp64"),
    _ours("mlp256_ours_1", "Brigade, OneDeviceStrategy", 1, "mlp256"),
    _our_workers("mlp256_workers_2", "Brigade, two processes, shared memory", "shared_memory", "mlp256"),
    _our_workers("mlp256_workers_2_tcp", "Brigade, two processes, Gloo over TCP", "gloo", "mlp256"),
    _pytorch("mlp256_ddp_2", "PyTorch DDP (Gloo), as shipped", 2, MLP_DDP, "mlp256"),
    _pytorch("mlp256_ddp_2_preloaded", "PyTorch DDP (Gloo), our tuning preloaded", 2, MLP_DDP, "mlp256", preload=True),
    _tensorflow_workers("mlp256_tf_workers_2", "TensorFlow MultiWorkerMirrored, two processes", "mlp256"),
    _job("tutorial_device", "Brigade, one device", "--strategy", "one_device", replicas=1),
    _job("tutorial_towers", "Brigade, two towers", "--strategy", "towers"),
    _servers("ps_async_1", "Brigade, async, one server", replicas=1),
    _servers("ps_async_2", "Brigade, async, one server"),
    _servers("ps_sync_2", "Brigade, sync, one server", "--mode", "sync"),
    _servers("ps_async_2_servers_2", "Brigade, async, two servers", "--servers", 2),
    _servers("ps_sync_2_servers_2", "Brigade, sync, two servers", "--mode", "sync", "--servers", 2),
    _servers("ps_async_2_memory", "async, one server, its log in memory", folder=MEMORY),
    _servers("ps_async_2_memory_tcp", "the same, over TCP", "--transport", "tcp", folder=MEMORY),
    _servers("ps_async_2_memory_key", "the same, over TCP with a key (TLS)", "--transport", "tcp", "--key", folder=MEMORY),
    _tensorflow_servers("tf_ps_1", "TensorFlow ParameterServerStrategy", 1, TF_SERVERS),
    _tensorflow_servers("tf_ps_2", "TensorFlow ParameterServerStrategy", 2, TF_SERVERS),
    *_large("resnet50", "channels last"),
    *_large("inception_v3", "channels last"),
]

HEADINGS = {"mnist_cnn": "MNIST CNN, batch 128 a replica, Adam",
            "mlp64": "MLP of four layers of 64, batch 32 a replica, SGD",
            "mlp256": "MLP of four layers of 256, batch 64 a replica, SGD",
            "tutorial": "MNIST CNN, batch 128, SGD: the tutorial's comparison",
            "resnet50": "ResNet-50, batch 8 a replica, 224x224, SGD",
            "inception_v3": "Inception v3, batch 8 a replica, 299x299, SGD"}

# So many make a block of a fraction of a second, but for the large models.
STEPS_PER_BLOCK = {"mnist_cnn": 5, "mlp64": 400, "mlp256": 100, "tutorial": 5, "resnet50": 1, "inception_v3": 1}

@dataclasses.dataclass
class Pair:
    """A program that compares two things within one process, in alternating blocks: the
    only way to see differences of a few per cent."""

    text: str
    command: list
    # Pairs of blocks, and steps (for sums: pieces) a block.
    full: tuple = (30, 10)
    quick: tuple = (20, 5)
    # Where it writes, if it does, and where the other of the two writes, if that is elsewhere.
    writes: str = None
    base_writes: str = None


def _overhead(text, comparison, model="mnist_cnn", **more):
    return Pair(text, ["overhead_pairs", "--comparison", comparison, "--model", model], **more)


def _session(text, comparison, replicas, model="mnist_cnn", **more):
    return Pair(text, ["session_pairs", "--comparison", comparison, "--model", model, "--replicas", replicas],
                writes=DISK, **more)


def _autotune(text, pipeline):
    return Pair(f"kAutotune over the best threads by hand: {text}", ["autotune_pairs", "--pipeline", pipeline], (20, 40), (12, 20))


def _exchange(text, beside, *flags, writes=DISK, base_writes=None):
    return Pair(text, ["parameter_exchange", "--beside", beside, *flags], (30, 10), (15, 5), writes, base_writes)


def _straggler(text, *flags):
    return Pair(text, ["straggler_pairs", *flags], (20, 10), (10, 10), DISK)


def _recompute(text, what):
    return Pair(text, ["recompute_pairs", "--measure", what, "--every", 6], (30, 4), (12, 2))


def _logical(text, comparison, *flags, full=(30, 4), quick=(15, 4)):
    return Pair(text, ["logical_replica_pairs", "--comparison", comparison, *flags], full, quick)


SHORT_STEPS = {"full": (100, 20), "quick": (100, 20)}  # a block costs milliseconds

PAIRS = {
    "one_device/mnist_cnn": _overhead("OneDeviceStrategy's step over the bare loop's, MNIST CNN", "one_device",
                                      full=(30, 20)),
    "one_device/mlp64": _overhead("OneDeviceStrategy's step over the bare loop's, MLP", "one_device", "mlp64",
                                  **SHORT_STEPS),
    "two_replicas/mnist_cnn": _overhead("two replicas' step over one replica's, MNIST CNN", "two_replicas"),
    "central_storage/mnist_cnn": _overhead("CentralStorageStrategy's step over Mirrored's, two replicas",
                                           "central_storage"),
    "towers/mnist_cnn": _overhead("two towers' step over Mirrored's, a function model", "towers"),
    "two_replicas/mlp64": _overhead("two replicas' step over one replica's, MLP", "two_replicas", "mlp64",
                                    **SHORT_STEPS),
    "checkpoints/mnist_cnn": _session("100 steps with a background save over without, one replica", "checkpoints", 1,
                                      quick=(12, 10)),
    "checkpoints_2/mnist_cnn": _session("the same, two replicas", "checkpoints", 2, quick=(12, 10)),
    "hooks/mnist_cnn": _session("a step with all default hooks over without, one replica", "hooks", 1),
    "hooks_2/mnist_cnn": _session("the same, two replicas", "hooks", 2),
    "hooks/mlp64": _session("the same, MLP, one replica", "hooks", 1, "mlp64", full=(100, 100), quick=(100, 100)),
    "checksums": Pair("CRC-32C's time over SHA-256's", ["checksum_pairs"], (30, 100), (30, 100)),
    "autotune/heavy": _autotune("a map of 0.2 ms", "heavy"),
    "autotune/cheap": _autotune("a map of 0.2 us", "cheap"),
    "autotune/uneven": _autotune("a map of 16 us or 1.6 ms", "uneven"),
    "autotune/two_maps": _autotune("maps of 40 and 160 us", "two_maps"),
    "autotune/reads": _autotune("a map that waits 1 ms", "reads"),
    "exchange/all_reduce": _exchange("push and pull of 13 MB over Gloo's all-reduce, both TCP", "all_reduce"),
    "exchange/broadcasts": _exchange("the same over Gloo's broadcasts there and back", "broadcasts"),
    "exchange/copies": _exchange("the same, still TCP, over copies of the tensors there and back", "copies"),
    "exchange/all_reduce_memory": _exchange("over the all-reduce, the server's log in memory", "all_reduce", writes=MEMORY),
    "exchange/broadcasts_memory": _exchange("over the broadcasts, the server's log in memory", "broadcasts", writes=MEMORY),
    "exchange/key": _exchange("the same with a key (TLS), Gloo without", "broadcasts", "--key", writes=MEMORY),
    "exchange/shared_memory": _exchange("push and pull in shared memory over copies of the tensors there and back", "copies", "--transport",
                                        "shared_memory", writes=MEMORY),
    "exchange/shared_memory_cached": _exchange("the same over copies that stay in the cache", "cached_copies", "--transport", "shared_memory",
                                               writes=MEMORY),
    "exchange/shared_memory_tcp": _exchange("the same over TCP's push and pull", "exchange", "--transport", "shared_memory", writes=MEMORY,
                                            base_writes=MEMORY),
    "exchange/tls": _exchange("push and pull with a key (TLS) over without", "exchange", "--key", writes=MEMORY, base_writes=MEMORY),
    "exchange/log": _exchange("push and pull, the log on the disk over in memory", "exchange", writes=DISK, base_writes=MEMORY),
    "embedding/servers": Pair("rows of an embedding of 1 million: one server's time over two's", ["embedding_servers"], (20, 10), (10, 10), MEMORY),
    "recompute/memory": _recompute("32 equal layers that recompute 6 at a time: activations' memory over keeping all", "memory"),
    "recompute/step": _recompute("the same: a step's time", "step"),
    "independent/rates": Pair("eight learning rates of the MNIST CNN: one after another over two at a time on two devices",
                              ["independent_pairs"], (10, 10), (6, 5)),
    "logical/devices": _logical("MNIST CNN on two devices: a logical replica on each over the same without the option", "devices"),
    "logical/devices_mlp": _logical("the same, MLP", "devices", "--model", "mlp64", **SHORT_STEPS),
    "logical/accumulation": _logical("four logical replicas on one device over four accumulated batches, MNIST CNN", "accumulation", "--replicas", 4),
    "logical/whole_2": _logical("two logical replicas on one device over one with the whole batch of 128, MNIST CNN", "whole", "--replicas", 2),
    "logical/whole_4": _logical("the same, four", "whole", "--replicas", 4),
    "logical/whole_8": _logical("the same, eight", "whole", "--replicas", 8),
    "pipeline/mirrored": Pair("MNIST CNN in two stages on two devices, the cut chosen: its step over Mirrored's with the same batch of 1024",
                              ["pipeline_pairs", "--comparison", "mirrored"], (30, 3), (15, 2)),
    "pipeline/predicted": Pair("the same: by what fraction its steps differ from the predicted one",
                               ["pipeline_pairs", "--comparison", "predicted"], (30, 3), (15, 2)),
    "pipeline/bubble": Pair("two equal stages, eight micro-batches: how far the time in which they wait, measured, is from 1 / 9",
                            ["pipeline_pairs", "--comparison", "bubble", "--batch", 1024], (10, 5), (6, 5)),
    "straggler/backup": _straggler("sync, one backup worker: one of four workers 5 x slower over none"),
    "straggler/no_backup": _straggler("the same without a backup worker", "--backup-workers", 0),
}


@dataclasses.dataclass
class Alternation:
    """Our program and a peer's, which run blocks in alternation (harness/alternating.py), and the number of pairs."""

    text: str
    word: str
    ours: list
    theirs: list
    modules: tuple
    full: int = 30
    quick: int = 12
    # What our program is given first, once, to write what both read.
    prepare: list = None


def _checkpoint(text, word, *theirs):
    return Alternation(text, word, ["checkpoint_speed"], [PEERS / "pytorch_checkpoint.py", *theirs], ("torch",))


def _input(text, word, peer, modules, *theirs):
    return Alternation(text, word, ["input_speed"], [PEERS / peer, *theirs], modules, 20, 8, ["input_speed", "--make", word])


def _tf_data(text, word, *theirs):
    return _input(text, word, "tensorflow_input.py", ("tensorflow",), *theirs)


ALTERNATIONS = {
    "save": _checkpoint("saving to the disk over torch.save and fsync", "save"),
    "save_no_crc": _checkpoint("the same, PyTorch's checksums turned off", "save", "--no-crc"),
    "load": _checkpoint("loading all tensors over torch.load", "load"),
    "restore": _checkpoint("the same until model and optimizer have them", "restore"),
    "input_jpeg": _tf_data("JPEG crops of 224x224 over tf.data", "jpeg"),
    "input_jpeg_relaxed": _tf_data("the same, tf.data's in any order", "jpeg", "--relaxed"),
    "input_jpeg_torch": _input("the same over DataLoader with two workers", "jpeg", "pytorch_input.py", ("torch", "PIL")),
    "input_records": _tf_data("TFRecord examples over tf.data, parsed a batch at a time", "records"),
    "input_records_single": _tf_data("the same, parsed one by one", "records_single"),
    "input_mnist": _tf_data("MNIST batches, shuffled, over tf.data", "mnist"),
    "input_mnist_torch": _input("the same over DataLoader", "mnist", "pytorch_input.py", ("torch",)),
}


@dataclasses.dataclass
class StepFraction:
    """What part of a step a training spends on a phase, the replicas' mean; one value a run."""

    text: str
    phase: str
    flags: list


def _input_fraction(text, *flags):
    return StepFraction(text, "input", ["--steps", 200, "--eval", "none", *flags])


STEP_FRACTIONS = {
    "input_share": _input_fraction("waiting for input, MNIST CNN, one replica"),
    "input_share_2": _input_fraction("the same, two replicas", "--strategy", "mirrored", "--devices", "cpu:0,cpu:1"),
    "input_share_crops_2": _input_fraction("the same, with random crops", "--strategy", "mirrored", "--devices", "cpu:0,cpu:1",
                                        "--augment", "random_crop"),
}


@dataclasses.dataclass
class AccuracyLoss:
    """By how many points of accuracy one training by `brigade train` stays behind another, or behind a peer's."""

    text: str
    training: list  # the flags of all
    ours: list  # and those of ours
    base_name: str
    # The flags of the other; or a peer's program, which gets --data-dir, --epochs and --seed.
    base: list = None
    peer: str = None
    # The flags of `brigade launch`, if ours has several processes.
    launch: list = None
    # A program that writes the images, into a folder that --data-dir names then.
    prepare: list = None
    # Epochs, and seeds.
    full: tuple = (5, (1, 2, 3, 4))
    quick: tuple = (2, (1, 2))


# Fashion-MNIST, as long as one replica needs for its accuracy. The number of updates is the same for all: that of the epochs.
ACCURACY_TRAINING = ["--model", "mnist_cnn", "--dataset", "fashion_mnist", "--optimizer", "adam", "--learning-rate", "0.001", "--batch-size", 128]
# As peers/pytorch_accuracy.py.
RESNET18_TRAINING = ["--model", "resnet18", "--dataset", "image_folder", "--image-size", 32, "--optimizer", "sgd", "--momentum", 0.9,
                     "--learning-rate", 0.05, "--weight-decay", 0.0005, "--schedule", "cosine", "--batch-size", 128]

# To the end of a decay: what delayed gradients cost while the rate is high is noise that the decay takes out.
DECAYED_TRAINING = ["--model", "mlp", *ACCURACY_TRAINING[2:], "--schedule", "cosine"]
# With what makes up for delayed gradients, for both: they are clipped, and Adam has less momentum, since delay acts like more of it.
DECAYED_CNN_TRAINING = [*ACCURACY_TRAINING, "--schedule", "cosine", "--warmup", 100, "--clip-norm", 1, "--beta1", 0.5, "--beta2", 0.99]

ACCURACY_LOSSES = {
    "accuracy/async": AccuracyLoss("async, four workers, behind one replica", ACCURACY_TRAINING, ["--strategy", "parameter_server", "--mode", "async"],
                                   "one replica", ["--strategy", "one_device"], launch=["--ps", 1, "--workers", 4]),
    "accuracy/async_decay": AccuracyLoss("async, four workers, an MLP to the end of a decay, behind one replica", DECAYED_TRAINING,
                                         ["--strategy", "parameter_server", "--mode", "async"], "one replica", ["--strategy", "one_device"],
                                         launch=["--ps", 1, "--workers", 4], full=(15, (1, 2, 3, 4)), quick=(15, (1, 2))),
    "accuracy/async_cnn_decay": AccuracyLoss("the same, MNIST CNN, clipped and with less momentum", DECAYED_CNN_TRAINING,
                                             ["--strategy", "parameter_server", "--mode", "async"], "one replica", ["--strategy", "one_device"],
                                             launch=["--ps", 1, "--workers", 4], full=(10, (1, 2, 3)), quick=(4, (1, 2))),
    "accuracy/bf16": AccuracyLoss("MNIST CNN in bf16 behind full precision", [*ACCURACY_TRAINING, "--schedule", "cosine"], ["--precision", "bf16"],
                                  "full precision", ["--precision", "full"], full=(2, (1, 2, 3)), quick=(1, (1, 2, 3))),
    "accuracy/pytorch": AccuracyLoss("ResNet-18 from scratch behind PyTorch, Fashion-MNIST as a folder of images", RESNET18_TRAINING, [], "PyTorch",
                                     peer=PEERS / "pytorch_accuracy.py", full=(2, (1, 2, 3)), quick=(1, (1, 2, 3)),
                                     prepare=[BENCHMARKS.parent / "tools" / "fashion_mnist_folder.py", "--size", 32]),
}


@dataclasses.dataclass
class Bar:
    """A value that must reach a limit: a ratio of two rows' images per second, the ratio of a pair, a fraction of a step, or a
    loss of accuracy."""

    id: str
    text: str
    limit: float  # None: only shown
    at_most: bool = False
    # Two rows, and what to divide their ratio by; or a pair, and whether its inverse is meant.
    rows: tuple = None
    divisor: float = 1
    pair: str = None
    inverse: bool = False
    # Met as soon as the interval reaches the limit: for "no slower than".
    interval: bool = False


BARS = [
    Bar("efficiency", "two replicas reach 95 % of twice one", 0.95, pair="two_replicas/mnist_cnn", inverse=True),
    Bar("efficiency_rounds", "the same, from the rounds above", 0.95, rows=("ours_2", "ours_1"), divisor=2),
    Bar("one_replica", "one replica is no slower than a bare libtorch loop", 1.0, rows=("ours_1", "bare"),
        interval=True),
    Bar("ddp", "1.5 x PyTorch DDP as shipped", 1.5, rows=("ours_2", "ddp_2")),
    Bar("ddp_preloaded", "1.15 x PyTorch DDP with our tuning preloaded", 1.15, rows=("ours_2", "ddp_2_preloaded")),
    Bar("tensorflow", "1.05 x TensorFlow MirroredStrategy", 1.05, rows=("ours_2", "tf_2")),
    Bar("workers_ddp", "two processes: 1.3 x PyTorch DDP as shipped", 1.3, rows=("workers_2", "ddp_2")),
    Bar("workers_ddp_preloaded", "the same, DDP with our tuning preloaded", 1.3,
        rows=("workers_2", "ddp_2_preloaded")),
    Bar("workers_ddp_tcp", "the same over TCP, DDP as shipped", None, rows=("workers_2_tcp", "ddp_2")),
    Bar("workers_tensorflow", "two processes: 1.15 x TensorFlow MultiWorkerMirrored", 1.15,
        rows=("workers_2", "tf_workers_2")),
    Bar("mlp_workers_ddp", "MLP, two processes: 2 x PyTorch DDP as shipped", 2.0,
        rows=("mlp256_workers_2", "mlp256_ddp_2")),
    Bar("mlp_workers_ddp_preloaded", "the same, DDP with our tuning preloaded", 2.0,
        rows=("mlp256_workers_2", "mlp256_ddp_2_preloaded")),
    Bar("mlp_workers_ddp_tcp", "the same over TCP, DDP as shipped", None,
        rows=("mlp256_workers_2_tcp", "mlp256_ddp_2")),
    Bar("mlp_workers_tensorflow", "MLP, two processes: 2 x TensorFlow", 2.0,
        rows=("mlp256_workers_2", "mlp256_tf_workers_2")),
    Bar("central_storage", "central storage reaches 90 % of Mirrored", 0.9, pair="central_storage/mnist_cnn",
        inverse=True),
    Bar("towers", "towers reach 90 % of Mirrored", 0.9, pair="towers/mnist_cnn", inverse=True),
    Bar("ps_tensorflow", "parameter server, async, two workers: 1.2 x TensorFlow's", 1.2, rows=("ps_async_2", "tf_ps_2")),
    Bar("ps_tensorflow_1", "the same, one worker", None, rows=("ps_async_1", "tf_ps_1")),
    Bar("ps_workers", "async: two workers reach 1.6 x one", 1.6, rows=("ps_async_2", "ps_async_1")),
    Bar("tf_ps_workers", "the same, TensorFlow", None, rows=("tf_ps_2", "tf_ps_1")),
    Bar("ps_towers", "two workers, async, over two towers", None, rows=("ps_async_2", "tutorial_towers")),
    Bar("ps_sync", "two workers, sync over async", None, rows=("ps_sync_2", "ps_async_2")),
    Bar("ps_servers", "two workers, async, two servers over one", None, rows=("ps_async_2_servers_2", "ps_async_2")),
    Bar("ps_log", "the log's sync: on the disk over in memory", None, rows=("ps_async_2", "ps_async_2_memory")),
    Bar("ps_shared_memory", "shared memory over TCP, log in memory", None, rows=("ps_async_2_memory", "ps_async_2_memory_tcp")),
    Bar("ps_tls", "TLS: TCP with a key over without, log in memory", None, rows=("ps_async_2_memory_key", "ps_async_2_memory_tcp")),
    *(Bar(f"{model}_{peer}", f"{name}, two replicas: 1.1 x {text}", 1.1, rows=(f"{model}_ours_2", f"{model}_{peer}"))
      for model, name in (("resnet50", "ResNet-50"), ("inception_v3", "Inception v3"))
      for peer, text in (("ddp_2", "PyTorch DDP"), ("ddp_2_last", "PyTorch DDP, channels last"), ("tf_2", "TensorFlow MirroredStrategy"))),
    Bar("exchange", "push and pull of 13 MB: 1.3 x Gloo's all-reduce", 1.3, True, pair="exchange/all_reduce"),
    Bar("exchange_memory", "the same, the server's log in memory", 1.3, True, pair="exchange/all_reduce_memory"),
    Bar("exchange_broadcasts", "1.3 x Gloo's broadcasts there and back", 1.3, True, pair="exchange/broadcasts"),
    Bar("exchange_broadcasts_memory", "the same, the server's log in memory", 1.3, True, pair="exchange/broadcasts_memory"),
    Bar("exchange_shared_memory", "push and pull in shared memory: 3 x the copies", 3.0, True, pair="exchange/shared_memory"),
    Bar("exchange_shared_memory_cached", "the same over copies that stay in the cache", None, True, pair="exchange/shared_memory_cached"),
    Bar("exchange_shared_memory_tcp", "the same over TCP's push and pull", None, True, pair="exchange/shared_memory_tcp"),
    Bar("exchange_tls", "push and pull: with a key (TLS) over without", None, True, pair="exchange/tls"),
    Bar("exchange_log", "push and pull: the log on the disk over in memory", None, True, pair="exchange/log"),
    Bar("ps_embedding", "embedding of 1 million rows: two servers 1.5 x one", 1.5, pair="embedding/servers"),
    Bar("independent", "eight learning rates: two devices 1.9 x one", 1.9, pair="independent/rates"),
    Bar("straggler", "sync: a worker 5 x slower costs at most 10 %", 1.1, True, pair="straggler/backup"),
    Bar("straggler_no_backup", "the same without a backup worker", None, True, pair="straggler/no_backup"),
    Bar("accuracy_async", "async, four workers: at most 0.5 points behind one", 0.5, True, pair="accuracy/async"),
    Bar("accuracy_async_decay", "the same, an MLP to the end of a decay", 0.5, True, pair="accuracy/async_decay"),
    Bar("accuracy_async_cnn_decay", "the same, the CNN to the end of a decay, less momentum", 0.5, True, pair="accuracy/async_cnn_decay"),
    Bar("logical_devices", "two devices: logical replicas cost at most 1 %", 1.01, True, pair="logical/devices"),
    Bar("logical_devices_mlp", "the same, MLP: at most 3 %", 1.03, True, pair="logical/devices_mlp"),
    Bar("logical_accumulation", "four logical replicas over accumulation: at most 1.03", 1.03, True, pair="logical/accumulation"),
    Bar("logical_whole_2", "batch of 128 in two shards over the whole: at most 1.05", 1.05, True, pair="logical/whole_2"),
    Bar("logical_whole_4", "the same in four: at most 1.15", 1.15, True, pair="logical/whole_4"),
    Bar("logical_whole_8", "the same in eight: at most 1.30", 1.30, True, pair="logical/whole_8"),
    Bar("pipeline", "two stages with the cut chosen reach 85 % of Mirrored's images/s", 0.85, pair="pipeline/mirrored", inverse=True),
    Bar("pipeline_predicted", "the predicted step: at most 15 % off", 0.15, True, pair="pipeline/predicted"),
    Bar("pipeline_bubble", "two equal stages: their waits within 0.02 of 1 / 9", 0.02, True, pair="pipeline/bubble"),
    Bar("recompute_memory", "recomputing, 32 equal layers: activations' memory at most 0.40", 0.4, True, pair="recompute/memory"),
    Bar("recompute_step", "the same: a step's time at most 1.35", 1.35, True, pair="recompute/step"),
    Bar("accuracy_bf16", "MNIST CNN in bf16: at most 0.3 points behind full precision", 0.3, True, pair="accuracy/bf16"),
    Bar("accuracy_pytorch", "ResNet-18 from scratch: at most 0.3 points behind PyTorch", 0.3, True, pair="accuracy/pytorch"),
    Bar("mlp", "MLP: two replicas' step costs at most 1.3 x one's", 1.3, at_most=True, pair="two_replicas/mlp64"),
    Bar("one_device", "OneDeviceStrategy adds at most 1 % to a bare loop", 1.01, at_most=True,
        pair="one_device/mnist_cnn"),
    Bar("checkpoints", "background saves each 100 steps add at most 1 %", 1.01, at_most=True,
        pair="checkpoints/mnist_cnn"),
    Bar("checkpoints_2", "the same, two replicas", 1.01, at_most=True, pair="checkpoints_2/mnist_cnn"),
    Bar("hooks", "all default hooks together add at most 1 %", 1.01, at_most=True, pair="hooks/mnist_cnn"),
    Bar("hooks_2", "the same, two replicas", 1.01, at_most=True, pair="hooks_2/mnist_cnn"),
    Bar("save", "saving is no slower than torch.save and fsync", 1.0, at_most=True, pair="save", interval=True),
    Bar("load", "loading is no slower than torch.load", 1.0, at_most=True, pair="load", interval=True),
    Bar("input_jpeg", "JPEG crops: 1.1 x tf.data", 1.1, pair="input_jpeg", inverse=True),
    Bar("input_jpeg_relaxed", "the same, tf.data's in any order", 1.1, pair="input_jpeg_relaxed", inverse=True),
    Bar("input_jpeg_torch", "JPEG crops: 3 x DataLoader", 3.0, pair="input_jpeg_torch", inverse=True),
    Bar("input_records", "records: 1.5 x tf.data, a batch at a time", 1.5, pair="input_records", inverse=True),
    Bar("input_records_single", "records: 1.5 x tf.data, one by one", 1.5, pair="input_records_single", inverse=True),
    Bar("input_mnist", "MNIST batches: 1.5 x tf.data", 1.5, pair="input_mnist", inverse=True),
    Bar("input_share", "input stalls less than 1 % of a step, one replica", 0.01, True, pair="input_share"),
    Bar("input_share_2", "the same, two replicas", 0.01, True, pair="input_share_2"),
    Bar("input_share_crops_2", "the same, with random crops", 0.01, True, pair="input_share_crops_2"),
    Bar("autotune_heavy", "kAutotune: within 10 % of the best by hand, heavy map", 1.1, True, pair="autotune/heavy"),
    Bar("autotune_cheap", "the same, cheap map", 1.1, True, pair="autotune/cheap"),
    Bar("autotune_uneven", "the same, uneven map", 1.1, True, pair="autotune/uneven"),
    Bar("autotune_two_maps", "the same, two maps", 1.1, True, pair="autotune/two_maps"),
    Bar("autotune_reads", "the same, a map that waits", 1.1, True, pair="autotune/reads"),
    Bar("input_mnist_torch", "MNIST batches: 3 x DataLoader", 3.0, pair="input_mnist_torch", inverse=True),
]
