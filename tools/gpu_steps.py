"""What a session on a lent GPU machine does, most important first (gpu_session.py runs it).

First what decides whether anything else counts; then speed. What is compared runs in turns, in five blocks each.
"""
import dataclasses

BLOCKS = 5  # of each measurement


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    # The first word is a program of the folder, or python for a script in it. {scratch}: a folder that stays on the machine.
    command: tuple
    seconds: int  # after which it is killed
    hides_card: bool = False
    measures: str = ""  # the field of the JSON object that it prints which is its result
    under: tuple = ()  # a program of the machine that runs the command, with its arguments
    decides: bool = False  # without it nothing else runs: it must pass, and its result not be 0


@dataclasses.dataclass(frozen=True)
class Bar:
    """A limit for a measurement over another, block by block; or for a measurement itself, in its unit."""
    name: str
    of: str
    over: str
    limit: float
    at_least: bool = True


def bench(*arguments):
    return ("brigade", "bench", "--json", *arguments)


def peer(*arguments):
    return ("python", "pytorch_gpu.py", *arguments)


def logical(count):
    return ("--strategy", "mirrored", "--devices", ",".join(f"gpu:{i}" for i in range(count)), "--logical-gpus", str(count))


def memory_checked(*arguments):
    """Five steps under compute-sanitizer, which CUDA's toolkit has and torch has not."""
    command = bench("--model", "mnist_cnn", "--batch-size", "32", "--warmup-steps", "0", "--steps", "5", *arguments)
    return Step(f"memcheck: {' '.join(arguments[:2])}", command, 60,
                under=("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"))


def in_turns(seconds, commands, measures="images_per_second"):
    """Blocks of measurements, {name: command}, one of each after another."""
    return [Step(f"{name} [{block}]", command, seconds, measures=measures)
            for block in range(1, BLOCKS + 1) for name, command in commands.items()]


GPU = ("--strategy", "one_device", "--devices", "gpu:0")
FAST = ("--numerics", "fast")
MNIST = ("--model", "mnist_cnn", "--batch-size", "128", "--warmup-steps", "20", "--steps", "500")
RESNET = ("--model", "resnet50", "--classes", "1000", "--precision", "bf16", "--memory-format", "channels_last",
          "--warmup-steps", "5", "--steps", "20", *FAST)
IMAGES = "{scratch}/images"
PHOTOGRAPHS = "{scratch}/photographs"

EAGER = "MNIST CNN, batch 128, fast"
COMPILED = "MNIST CNN, batch 128, fast, compiled"
BARE = "MNIST CNN, batch 128, fast: a bare loop on libtorch"
GRAPH = "MNIST CNN, batch 128: PyTorch with a CUDA graph"
REPRODUCIBLE = "MNIST CNN, batch 128, reproducible"
TWO_COMPILED = "MNIST CNN, 2 logical GPUs x 128, fast, compiled"
FROM_HOST = "MNIST CNN, batch 128, fast: bytes from the host's memory"
FROM_JPEG = "ResNet-50, bf16, batch 256: JPEG files of 500x375"
RESNET_OURS = "ResNet-50, bf16, batch 256, fast"
RESNET_BARE = "ResNet-50, bf16, batch 256, fast: a bare loop on libtorch"
RESNET_EAGER = "ResNet-50, bf16, batch 256: PyTorch"
RESNET_TORCH_COMPILE = "ResNet-50, bf16, batch 256: PyTorch with torch.compile"
RESNET_TWO = "ResNet-50, bf16, 2 logical GPUs x 128, fast"
SAVE = "checkpoint of ResNet-50 with Adam: ms that a step waits"

STEPS = (
    Step("devices", ("brigade", "devices", "--json"), 60, measures="gpu_cards", decides=True),
    Step("device tests without the card", ("device_tests", "--gtest_brief=1"), 30, hides_card=True),
    Step("comm tests without the card", ("comm_tests", "--gtest_brief=1"), 60, hides_card=True),
    Step("tests on the card", ("gpu_tests",), 240),
    memory_checked(*GPU),
    memory_checked(*logical(2)),
    memory_checked("--strategy", "central_storage", "--devices", "gpu:0,gpu:1", "--logical-gpus", "2", "--controller", "gpu:0"),
    *in_turns(10, {EAGER: bench(*MNIST, *GPU, *FAST), COMPILED: bench(*MNIST, *GPU, *FAST, "--compile"),
                   BARE: ("bare_libtorch", "--device", "gpu:0", "--batch", "128", "--seconds", "1", "--warm-up-seconds", "1",
                          "--steps-per-block", "50"),
                   GRAPH: peer("--model", "mnist_cnn", "--batch", "128", "--how", "graph")}),
    *in_turns(20, {RESNET_OURS: bench(*RESNET, *GPU, "--batch-size", "256"),
                   RESNET_EAGER: peer("--model", "resnet50", "--batch", "256", "--how", "eager", "--steps", "20")}),
    *in_turns(10, {TWO_COMPILED: bench(*MNIST, *logical(2), *FAST, "--compile")}),
    *in_turns(20, {RESNET_TWO: bench(*RESNET, *logical(2), "--batch-size", "128")}),
    *in_turns(30, {SAVE: ("gpu_tests", "--gtest_filter=*HoldsUpAStep*")}, measures="milliseconds"),
    Step("images for the next measurement", ("python", "gpu_session.py", "images", IMAGES), 20),
    *in_turns(10, {FROM_HOST: ("brigade", "train", "--json", "--model", "mnist_cnn", "--batch-size", "128", "--dataset", "mnist",
                               "--data-dir", IMAGES, "--steps", "900", "--eval", "none", *GPU, *FAST)},
              measures="examples_per_second"),
    Step("photographs for the next measurement", ("python", "gpu_session.py", "photographs", PHOTOGRAPHS), 60),
    *in_turns(25, {FROM_JPEG: ("brigade", "train", "--json", "--model", "resnet50", "--precision", "bf16", "--memory-format",
                               "channels_last", "--batch-size", "256", "--dataset", "image_folder", "--data-dir", PHOTOGRAPHS,
                               "--steps", "24", "--eval", "none", *GPU, *FAST)}, measures="examples_per_second"),
    *in_turns(10, {REPRODUCIBLE: bench(*MNIST, *GPU)}),
    *in_turns(20, {RESNET_BARE: ("bare_libtorch", "--model", "resnet50", "--device", "gpu:0", "--batch", "256", "--seconds", "3",
                                 "--steps-per-block", "5")}),
    # Last, since compiling takes long: one process, whose blocks are one after another.
    Step(f"{RESNET_TORCH_COMPILE} [1]", peer("--model", "resnet50", "--batch", "256", "--how", "compile", "--steps", "20"), 120,
         measures="images_per_second"),
)

BARS = (
    Bar("the MNIST CNN over a bare loop on libtorch", EAGER, BARE, 0.98),
    Bar("ResNet-50 over a bare loop on libtorch", RESNET_OURS, RESNET_BARE, 0.99),
    Bar("ResNet-50 over PyTorch", RESNET_OURS, RESNET_EAGER, 1.00),
    Bar("ResNet-50 over PyTorch with torch.compile", RESNET_OURS, RESNET_TORCH_COMPILE, 0.95),
    Bar("the MNIST CNN compiled over eager", COMPILED, EAGER, 2.5),
    Bar("the MNIST CNN compiled over PyTorch with a CUDA graph", COMPILED, GRAPH, 1.00),
    Bar("the MNIST CNN compiled, 2 logical GPUs x 128 over one of 128", TWO_COMPILED, COMPILED, 1.3),
    Bar("ResNet-50, 2 logical GPUs x 128 over one of 256", RESNET_TWO, RESNET_OURS, 0.97),
    Bar("input from the host's memory over data on the card", FROM_HOST, EAGER, 0.98),
    Bar("a step's wait for a checkpoint of ResNet-50, ms", SAVE, "", 50, at_least=False),
)
