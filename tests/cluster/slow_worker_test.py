"""A worker that is ten times as slow as the others: it is named in the log, and waited for."""
import signal
import threading
import unittest

from workers import TINY, ClusterTest

# With a peer timeout far above what a pulse takes.
RUN = (*TINY, "--batch-size", "16", "--log-every", "0", "--peer-timeout", "30s")
STANDSTILL = 7.0  # seconds: above what a collective is reported after


class SlowWorker(ClusterTest):
    def test_is_named_and_waited_for(self):
        workers = self.start(2, *RUN, "--steps", "400")
        workers[0].wait_for(r"^step \d+/")
        workers[1].signal(signal.SIGSTOP)
        goes_on = threading.Timer(STANDSTILL, lambda: workers[1].signal(signal.SIGCONT))
        goes_on.start()
        self.addCleanup(goes_on.cancel)
        _, match = workers[0].wait_for(r"(?i)/job:worker/task:\d")
        self.assertIn("/job:worker/task:1", match.group(0))
        result = workers[0].result()
        self.assertEqual(workers[1].wait(), 0, workers[1].lines())
        self.assertEqual(result["weights_sha256"], self.train(2, *RUN, "--steps", "400")["weights_sha256"])

    def test_that_gets_a_tenth_of_the_time_ends_with_the_same_bits(self):
        run = (*RUN, "--steps", "100")
        workers = self.start(2, *run)
        workers[0].wait_for(r"^step \d+/")
        ended = threading.Event()

        def pulse():
            while not ended.is_set() and workers[1].is_running():
                workers[1].signal(signal.SIGSTOP)
                ended.wait(0.045)
                workers[1].signal(signal.SIGCONT)
                ended.wait(0.005)

        pulses = threading.Thread(target=pulse)
        pulses.start()
        try:
            result = workers[0].result()
            self.assertEqual(workers[1].wait(), 0, workers[1].lines())
        finally:
            ended.set()
            pulses.join()
        self.assertEqual(result["weights_sha256"], self.train(2, *run)["weights_sha256"])


if __name__ == "__main__":
    unittest.main()
