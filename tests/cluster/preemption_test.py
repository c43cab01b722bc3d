"""SIGTERM to one worker: all save at the same step and exit with 75; started again, they end as if nothing had been."""
import signal
import time
import unittest

from workers import PEER_TIMEOUT, TINY, ClusterTest, free_ports

STEPS = 1500
RUN = (*TINY, "--batch-size", "16", "--steps", str(STEPS), "--log-every", "0",
       "--peer-timeout", f"{PEER_TIMEOUT}s")


class Preemption(ClusterTest):
    wanted = None  # of the uninterrupted run

    def unbroken(self):
        if Preemption.wanted is None:
            Preemption.wanted = self.train(2, *RUN)["weights_sha256"]
        return Preemption.wanted

    def check(self, told, number=signal.SIGTERM, code=75):
        workers = self.start(2, *RUN, "--model-dir", self.model_dir)
        workers[0].wait_for(r"^step \d\d+/")
        workers[told].signal(number)
        begin = time.monotonic()
        self.assertEqual([worker.wait() for worker in workers], [code, code], [worker.lines()[-4:] for worker in workers])
        print(f"{signal.Signals(number).name} of worker {told}: all ended after {time.monotonic() - begin:.2f} s", flush=True)
        stopped = workers[0].wait_for(r"stopped by SIG\w+ after step (\d+)")[1]
        step = int(stopped.group(1))
        self.assertLess(step, STEPS, "it was at its end already")
        self.assertTrue((self.model_dir / "checkpoints" / f"ckpt-{step}").is_dir())
        result = self.train(2, *RUN, "--model-dir", self.model_dir)
        self.assertEqual((result["first_step"], result["steps"]), (step, STEPS))
        self.assertEqual(result["weights_sha256"], self.unbroken())

    def test_sigterm_of_the_worker(self):
        self.check(1)

    def test_sigterm_of_the_chief(self):
        self.check(0)

    def test_sigterm_while_waiting_for_the_others(self):
        ports = free_ports(2)
        for task in range(2):
            for number, code in ((signal.SIGTERM, 75), (signal.SIGHUP, 75), (signal.SIGINT, 130)):
                worker = self.start_worker(ports, task, *RUN)
                worker.wait_for("Waiting for")
                worker.signal(number)
                self.assertEqual(worker.wait(), code, worker.lines()[-4:])
                self.assertEqual(worker.last_line(), f"brigade: stopped by {signal.Signals(number).name} while waiting for "
                                                     "the other workers; nothing had begun")

    def test_sigint_of_all(self):
        workers = self.start(2, *RUN, "--model-dir", self.model_dir)
        workers[0].wait_for(r"^step \d\d+/")
        for worker in workers:
            worker.signal(signal.SIGINT)
        self.assertEqual([worker.wait() for worker in workers], [130, 130], [worker.lines()[-4:] for worker in workers])


if __name__ == "__main__":
    unittest.main()
