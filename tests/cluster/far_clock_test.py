"""A worker whose clock is decades off: it says so, and not that its key is another."""
import os
import unittest

from workers import COMMAND, TINY, WORKERS, ClusterTest, environment, free_ports, tf_config

LIBRARY = os.environ.get("BRIGADE_FAR_CLOCK")


@unittest.skipUnless(LIBRARY, "sanitizers must be loaded first")
class FarClock(ClusterTest):
    def test_it_is_named_as_such(self):
        key = self.folder / "key"
        key.write_text("ab" * 32 + "\n")
        key.chmod(0o600)
        ports = free_ports(2)
        for index in range(2):
            with self.subTest(index):
                worker = self.start_process(
                    "train", *WORKERS, *TINY, "--steps", "2", "--key-file", key, "--start-timeout", "20",
                    environment=environment(TF_CONFIG=tf_config(ports, index), LD_PRELOAD=LIBRARY))
                self.assertEqual(worker.wait(), 2, worker.lines())
                for words in ("clock is far off", " UTC", "Set the clock"):
                    self.assertIn(words, worker.last_line())


if __name__ == "__main__":
    unittest.main()
