"""What a step sends, counted by the kernel: the interface counters of a network namespace that only this test's workers are in.

Bytes are taken as the difference of a long and a short run, so that start and end do not count."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import network_namespace

from workers import TINY, ClusterTest, environment, free_ports, tf_config

HIDDEN = 512
# Four layers of weights and biases; a number a variable says whether it has a gradient.
ELEMENTS = (784 * HIDDEN + HIDDEN) + 2 * (HIDDEN * HIDDEN + HIDDEN) + (HIDDEN * 10 + 10) + 8
SHORT, LONG = 4, 20  # steps
TRIES = 5
# A step's few small collectives (may we go on, is there more input): to each peer a header of 160 bytes or a value of 8,
# each with Gloo's preamble and its notice of 48 bytes, each of these with 66 bytes of Ethernet, IP and TCP and an answer.
SMALL_CALLS = 10
FRAMING = SMALL_CALLS * 2 * (160 + 2 * 48 + 6 * 66)
SHARE = 0.02  # what TCP's headers and answers may add to the values


def bytes_sent():
    """By all processes of this namespace, with all headers."""
    for line in pathlib.Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == "lo":
            return int(fields.split()[8])
    raise AssertionError("there is no loopback interface")


def send_no_probes():
    """TCP in this namespace then sends nothing again to a process that is only slow to wake: such a probe for a lost tail, of up to
    64 KiB, made most runs on a busy machine count twice."""
    pathlib.Path("/proc/sys/net/ipv4/tcp_early_retrans").write_text("0")


def segments_repeated():
    """By TCP in this namespace."""
    names, values = (line.split() for line in pathlib.Path("/proc/thread-self/net/snmp").read_text().splitlines()
                     if line.startswith("Tcp:"))
    return int(dict(zip(names, values))["RetransSegs"])


class WireBytes(ClusterTest):
    @classmethod
    def setUpClass(cls):
        try:
            leave = network_namespace.enter()
        except OSError as error:
            raise unittest.SkipTest(f"a network namespace is not permitted here: {error}")
        cls.addClassCleanup(leave)
        try:
            send_no_probes()
        except OSError as error:  # more runs are repeated
            print(f"TCP's probes stay on: {error}")

    def bytes_of(self, workers, steps, *arguments):
        """Of a run in which TCP sent nothing twice; where a busy machine allows none, the least that was seen."""
        seen = []
        for _ in range(TRIES):
            bytes_before, repeats_before = bytes_sent(), segments_repeated()
            sizes = () if "--batch-size" in arguments else ("--batch-size", 8)
            data = [each for each in TINY if each not in ("--train-examples", "256")] if "--train-examples" in arguments else TINY
            self.train(workers, *data, "--hidden", ",".join([str(HIDDEN)] * 3), *sizes, "--steps", steps, *arguments)
            seen.append(bytes_sent() - bytes_before)
            if segments_repeated() == repeats_before:
                return seen[-1]
        return min(seen)

    def bytes_of_step(self, workers, *arguments):
        """Of all workers together."""
        more = self.bytes_of(workers, LONG, *arguments) - self.bytes_of(workers, SHORT, *arguments)
        return more / (LONG - SHORT)

    def check(self, workers, bytes_of_element, *arguments, sums=None):
        """`sums`: how many sums of whole subtrees all workers have together; default one each."""
        values = ELEMENTS * bytes_of_element
        # To the owners of ranges of elements, and their results to all.
        theory = (workers - 1) / workers * values * ((sums or workers) + workers)
        counted = self.bytes_of_step(workers, "--transport", "tcp", *arguments)
        framing = FRAMING * workers * (workers - 1)
        print(f"{workers} workers {' '.join(arguments)}: {counted:,.0f} bytes a step, {counted / theory - 1:+.3%} of the "
              f"theory's {theory:,.0f} (framing: up to {framing:,})", flush=True)
        self.assertGreaterEqual(counted, theory)
        self.assertLessEqual(counted, theory * (1 + SHARE) + framing)

    def test_two_workers_send_the_gradients_once_each(self):
        self.check(2, 4)

    def test_a_pipeline_sends_activations_and_gradients(self):
        """Between two stages, and the model's results back: counted as above."""
        size, micro_batches = 256, 4
        run = ("--cut", "dense3", "--micro-batches", micro_batches, "--batch-size", size, "--train-examples", size * micro_batches)

        def of(steps):
            return self.bytes_of(2, steps, *run, "--transport", "tcp")
        self.train = self.train_pipeline
        counted = (of(LONG) - of(SHORT)) / (LONG - SHORT)
        theory = micro_batches * size * (2 * HIDDEN + 10) * 4
        # Each message is two broadcasts, of its description of 320 bytes and of its tensors, with headers and notices.
        framing = FRAMING * 2 + 3 * micro_batches * 2 * 2 * (320 + 160 + 3 * 48 + 6 * 66)
        print(f"a pipeline: {counted:,.0f} bytes a step, {counted / theory - 1:+.3%} of the theory's {theory:,.0f}", flush=True)
        self.assertGreaterEqual(counted, theory)
        self.assertLessEqual(counted, theory * (1 + SHARE) + framing)

    def test_pipelines_side_by_side_send_the_gradients_of_each_stage_as_well(self):
        size, micro_batches = 256, 4
        run = ("--cut", "dense3", "--micro-batches", micro_batches, "--batch-size", size, "--train-examples", size * micro_batches,
               "--replicas", 2)

        def of(steps):
            return self.bytes_of(4, steps, *run, "--transport", "tcp")
        self.train = self.train_pipeline
        counted = (of(LONG) - of(SHORT)) / (LONG - SHORT)
        # What one pipeline sends, and each variable once from each pipeline to the other, half of it as sums.
        theory = micro_batches * size * (2 * HIDDEN + 10) * 4 + 2 * ELEMENTS * 4
        # The small calls of four pairs of workers.
        framing = FRAMING * 2 * 4 + 3 * micro_batches * 2 * 2 * (320 + 160 + 3 * 48 + 6 * 66)
        print(f"two pipelines: {counted:,.0f} bytes a step, {counted / theory - 1:+.3%} of the theory's {theory:,.0f}", flush=True)
        self.assertGreaterEqual(counted, theory)
        self.assertLessEqual(counted, theory * (1 + SHARE) + framing)

    def train_pipeline(self, workers, *arguments):
        ports = free_ports(workers)
        started = [self.start_process("train", "--strategy", "pipeline", *arguments,
                                      environment=environment(TF_CONFIG=tf_config(ports, index))) for index in range(workers)]
        result = started[0].result()
        for worker in started[1:]:
            self.assertEqual(worker.wait(), 0, worker.lines()[-8:])
        return result

    def test_three_workers_send_four_thirds_each(self):
        self.check(3, 4)

    def test_narrow_wires_send_half(self):
        self.check(2, 2, "--wire", "bf16")

    def test_aligned_logical_replicas_send_no_more(self):
        self.check(2, 4, "--logical-replicas", "4")

    # Of eight replicas the workers have (0 1) 2, 3 (4 5) and (6 7).
    def test_logical_replicas_send_the_sums_of_their_largest_subtrees(self):
        self.check(3, 4, "--logical-replicas", "8", sums=5)

    def test_shared_memory_sends_no_gradients(self):
        counted = self.bytes_of_step(2, "--transport", "shared_memory")
        self.assertLess(counted, FRAMING * 2)


if __name__ == "__main__":
    unittest.main()
