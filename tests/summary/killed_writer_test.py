"""A killed program leaves an event file that is readable at least up to its last flush."""
import random
import subprocess
import unittest

from event_files import fields, records
from sample import PROGRAM, SampleTest, event_file

KILLS = 8


class KilledWriter(SampleTest):
    def kill_after(self, flushes, folder):
        """Kills the program some time after `flushes` flushes; returns the number of events that it had flushed."""
        with subprocess.Popen([PROGRAM, "forever", folder], stdout=subprocess.PIPE, text=True) as process:
            try:
                lines = [process.stdout.readline() for _ in range(flushes)]
            finally:
                process.kill()
            lines += process.stdout.readlines()
        return int([line for line in lines if line.endswith("\n")][-1])

    def test_leaves_every_flushed_event_and_only_complete_ones(self):
        draw = random.Random(5)
        for kill in range(KILLS):
            with self.subTest(kill=kill):
                folder = self.folder / str(kill)
                flushed = self.kill_after(draw.randint(1, 5), folder)
                found, _ = records(event_file(folder).read_bytes())  # raises if a record is broken
                steps = [fields(record).get(2, [0])[0] for record in found[1:]]
                self.assertGreaterEqual(len(steps), flushed)
                self.assertEqual(list(range(len(steps))), steps)


if __name__ == "__main__":
    unittest.main()
