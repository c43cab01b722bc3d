"""What the table says must follow from the runs, and no program may outlive its deadline."""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "peers")]

import parameter_server_job
import ranks

from harness.estimate import estimate, order_statistic
from harness.judge import judge
from harness.accuracy import loss_of_accuracy
from harness.rows import ACCURACY_LOSSES, BARS, HEADINGS, PAIRS, ROWS, STEP_FRACTIONS, STEPS_PER_BLOCK, ALTERNATIONS, Bar
from harness.running import RunFailed, run, run_for_json
from harness.alternating import BlockProgram, compare


def runs(**rates):
    return [{"row": row, "round": r, "images_per_second": rate}
            for row, values in rates.items() for r, rate in enumerate(values)]


def states_of_group(group):
    """The states of its processes, as /proc/<pid>/stat has them: "T" is stopped."""
    states = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group:
            states.add(fields[0])
    return states


def has_ended(pid):
    """Soon: a killed process is there until its parent collects it."""
    stat = pathlib.Path("/proc") / str(pid) / "stat"
    deadline = time.monotonic() + 10
    while stat.exists() and ") Z" not in stat.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not stat.exists() or ") Z" in stat.read_text()


class Estimate(unittest.TestCase):
    def test_leaves_out_as_many_as_the_sign_test_allows(self):
        # Known values: of 30 sorted values the 10th and 21st bound the median with 95 % confidence.
        self.assertEqual([order_statistic(n) for n in (1, 5, 6, 12, 30)], [0, 0, 0, 2, 9])

    def test_five_values_give_median_and_extremes(self):
        found = estimate([5, 1, 4, 2, 3])
        self.assertEqual((found["median"], found["low"], found["high"]), (3, 1, 5))


class Judge(unittest.TestCase):
    def verdict(self, bar, measured, pairs=None):
        return judge([bar], measured, pairs or {}, {"x": "because"})[0]

    def test_ratios_are_taken_within_rounds(self):
        measured = runs(a=[150, 300, 75], b=[100, 200, 50])  # the machine's speed changes, the ratio does not
        found = self.verdict(Bar("x", "", 1.5, rows=("a", "b")), measured)
        self.assertEqual((found["verdict"], found["ratio"]["low"], found["ratio"]["high"]), ("met", 1.5, 1.5))

    def test_says_why_a_bar_falls_short(self):
        found = self.verdict(Bar("x", "", 1.6, rows=("a", "b")), runs(a=[150], b=[100]))
        self.assertEqual((found["verdict"], found["why"]), ("falls short", "because"))

    def test_no_slower_than_is_met_within_the_interval_only(self):
        bar = Bar("x", "", 1.0, rows=("a", "b"), interval=True)
        self.assertEqual(self.verdict(bar, runs(a=[98, 99, 101], b=[100] * 3))["verdict"], "met")
        self.assertEqual(self.verdict(bar, runs(a=[97, 98, 99], b=[100] * 3))["verdict"], "falls short")

    def test_efficiency_is_the_inverse_of_the_step_ratio(self):
        pair = {"median": 1.25, "low": 1.0, "high": 2.0, "pairs": 30}
        found = self.verdict(Bar("x", "", 0.9, pair="p", inverse=True), [], {"p": pair})
        self.assertEqual((found["ratio"]["median"], found["ratio"]["low"], found["ratio"]["high"]), (0.8, 0.5, 1.0))

    def test_a_missing_row_is_not_measured(self):
        self.assertEqual(self.verdict(Bar("x", "", 1, rows=("a", "b")), runs(a=[1]))["verdict"], "not measured")

    def test_a_bar_without_a_limit_is_shown(self):
        self.assertEqual(self.verdict(Bar("x", "", None, rows=("a", "b")), runs(a=[1], b=[9]))["verdict"], "shown")

    def test_every_model_has_a_heading_and_a_length_of_blocks(self):
        models = {row.model for row in ROWS}
        self.assertEqual(models, set(HEADINGS))
        self.assertEqual(models, set(STEPS_PER_BLOCK))

    def test_bars_name_rows_and_pairs_that_exist(self):
        known = {row.id for row in ROWS}
        for bar in BARS:
            pairs = {**PAIRS, **ALTERNATIONS, **STEP_FRACTIONS, **ACCURACY_LOSSES}
            self.assertTrue(bar.pair in pairs if bar.pair else set(bar.rows) <= known, bar.id)


class Running(unittest.TestCase):
    def test_ends_children_at_the_deadline(self):
        with tempfile.TemporaryDirectory() as folder:
            note = pathlib.Path(folder) / "pid"
            with self.assertRaisesRegex(RunFailed, "no end within"):
                run(["sh", "-c", f"sleep 100 & echo $! > {note}; wait"], 0.5)
            self.assertTrue(has_ended(note.read_text().strip()))

    def test_names_the_last_line_of_what_went_wrong(self):
        with self.assertRaisesRegex(RunFailed, "exit 3: second"):
            run(["sh", "-c", "echo first >&2; echo second >&2; exit 3"], 10)
        with self.assertRaisesRegex(RunFailed, "does not start"):
            run(["/nonexistent"], 10)

    def test_reads_figures_among_other_lines(self):
        self.assertEqual(run_for_json(["sh", "-c", "echo hello; echo '{\"a\": 1}'"], 10), [{"a": 1}])


class Ranks(unittest.TestCase):
    COMMAND = [sys.executable, BENCHMARKS / "peers" / "ranks.py", "--count", "2"]

    def started(self, *command):
        return sorted(run([*self.COMMAND, *command], 10).split())

    def test_each_process_knows_its_rank_and_where_they_meet(self):
        first, second = self.started("sh", "-c", "echo $RANK,$WORLD_SIZE,$MASTER_ADDR:$MASTER_PORT")
        self.assertEqual(first.split(",")[:2], ["0", "2"])
        self.assertEqual(second.split(",")[:2], ["1", "2"])
        self.assertEqual(first.split(",")[2], second.split(",")[2])

    def test_each_process_has_a_core_if_pinned(self):
        self.assertEqual(self.started("--pin", "nproc"), ["1", "1"])

    def test_fails_with_the_worst_of_them(self):
        with self.assertRaisesRegex(RunFailed, "exit 4"):
            run([*self.COMMAND, "sh", "-c", "exit $((RANK * 4))"], 10)

    def test_workers_of_a_tf_config_have_ports_of_their_own(self):
        configs = [json.loads(each["TF_CONFIG"]) for each in ranks.tf_config_environments(3)]
        self.assertEqual([config["task"]["index"] for config in configs], [0, 1, 2])
        self.assertEqual(len(set(configs[0]["cluster"]["worker"])), 3)


class Processes(unittest.TestCase):
    def test_all_end_with_the_block_even_if_it_fails(self):
        with self.assertRaisesRegex(ValueError, "it fails"):
            with ranks.Processes() as processes:
                first, second = processes.start(["sleep", "100"]), processes.start(["sleep", "100"])
                raise ValueError("it fails")
        self.assertEqual((first.returncode, second.returncode), (-signal.SIGKILL, -signal.SIGKILL))


class FakeOutput:
    """Of a job, without its processes."""

    def __init__(self, lines):
        self.rest = list(lines)

    def lines(self, _):
        while self.rest:
            yield self.rest.pop(0)


class ParameterServerJob(unittest.TestCase):
    """The processes of a job, with a program in place of `brigade` that says what the test wants."""

    SERVER = "for i in 0 1; do echo /job:worker/task:$i has joined as incarnation 1.; done; exec sleep 100"
    WORKER = "n=0; while :; do n=$((n+{steps})); echo step $n/1000000 loss 1; sleep 0.01; done"

    def run_job(self, *flags, server=SERVER, chief=WORKER.format(steps=2), other="exec sleep 100"):
        with tempfile.TemporaryDirectory() as folder:
            command = pathlib.Path(folder) / "brigade"
            command.write_text(f"""#!/bin/sh
echo "$$ $@" >> {folder}/started
case "$*" in ps*) {server} ;; *worker:1*) {other} ;; *) {chief} ;; esac
""")
            command.chmod(0o700)
            (pathlib.Path(folder) / "logs").mkdir()
            try:
                return run_for_json([sys.executable, BENCHMARKS / "parameter_server_job.py", "--brigade", command, "--directory",
                                     f"{folder}/logs", "--seconds", "0.3", "--warm-up-seconds", "0.1", *flags], 60)[0]
            finally:
                self.started = [line.split() for line in (pathlib.Path(folder) / "started").read_text().splitlines()]
                self.assertTrue(all(has_ended(words[0]) for words in self.started), self.started)
                self.assertEqual(os.listdir(f"{folder}/logs"), [], "what the servers wrote is removed")

    def times(self, reports, **options):
        defaults = {"strategy": "parameter_server", "mode": "async", "replicas": 2, "batch": 128, "steps_per_block": 2}
        return parameter_server_job.block_times(reports, argparse.Namespace(**(defaults | options)))

    def test_counts_the_steps_of_all_workers(self):
        # In four seconds eight steps, of either worker: two of each take two seconds.
        self.assertEqual(self.times([(0, 10), (1, 13), (4, 18), (5, 20), (6, 22)]), [2, 2])
        self.assertEqual(self.times([(0, 0), (1, 1), (2, 2)], replicas=1), [2])

    def test_a_step_of_other_modes_and_strategies_is_of_all(self):
        self.assertEqual(self.times([(0, 0), (1, 1), (2, 2)], mode="sync"), [2])
        self.assertEqual(self.times([(0, 0), (1, 1), (2, 2)], strategy="towers"), [2])

    def test_starts_all_tasks_and_reports_what_bench_reads(self):
        for servers in (1, 2):
            found = self.run_job("--servers", str(servers))
            self.assertEqual((found["replicas"], len(self.started)), (2, 2 + servers))
            self.assertAlmostEqual(found["images_per_second"] * found["step_microseconds"] / 1e6, 2 * 128)

    def test_all_tasks_have_the_cluster_and_the_key(self):
        self.run_job("--key")
        clusters = {words[words.index("--cluster") + 1] for words in self.started}
        self.assertEqual(len(clusters), 1)
        self.assertEqual({words[words.index("--task") + 1] for words in self.started}, {"ps:0", "worker:0", "worker:1"})
        self.assertTrue(all("--key-file" in words for words in self.started))

    def test_other_strategies_are_one_process(self):
        self.run_job("--strategy", "towers", chief=self.WORKER.format(steps=1))
        self.assertEqual(len(self.started), 1)
        self.assertIn("cpu:0,cpu:1", self.started[0])

    def test_refuses_to_measure_the_chief_alone(self):
        with self.assertRaisesRegex(RunFailed, "the chief alone made"):
            self.run_job(chief=self.WORKER.format(steps=1))

    def test_says_which_task_ended_and_what_it_said_last(self):
        with self.assertRaisesRegex(RunFailed, "worker:1 ended: no such flag"):
            self.run_job(other="echo no such flag; exit 2")

    def test_reports_before_all_have_joined_do_not_count(self):
        one = "echo /job:worker/task:0 has joined as incarnation 1.; exec sleep 100"
        job = parameter_server_job.Job.__new__(parameter_server_job.Job)
        job.tasks = dict.fromkeys(["ps:0", "worker:0", "worker:1"])
        job.output = FakeOutput([("worker:0", "step 1/9", 0), ("ps:0", one, 0), ("worker:0", "step 2/9", 0),
                                 ("ps:0", one.replace(":0", ":1"), 0), ("worker:0", "step 3/9", 5)])
        job.wait_until_all_train()
        self.assertEqual([line for _, line, _ in job.output.rest], ["step 3/9"])


class Accuracy(unittest.TestCase):
    @staticmethod
    def training(accuracy):
        return ["sh", "-c", f"echo step 1; echo '{{\"eval_accuracy\": {accuracy}}}'"]

    def test_the_loss_is_in_points_seed_by_seed(self):
        ours = {1: 0.90, 2: 0.91, 3: 0.95}
        found = loss_of_accuracy(lambda seed: self.training(ours[seed]), lambda seed: self.training(0.92), (1, 2, 3))
        self.assertAlmostEqual(found["median"], 1)
        self.assertAlmostEqual(found["low"], -3)
        self.assertEqual([round(value) for value in found["ours_accuracy"]], [90, 91, 95])

    def test_a_training_without_an_accuracy_fails(self):
        with self.assertRaisesRegex(RunFailed, "no accuracy"):
            loss_of_accuracy(lambda _: self.training("null"), lambda _: self.training(0.9), (1,))


class Alternation(unittest.TestCase):
    def test_compares_block_by_block(self):
        slow = ["sh", "-c", "while read word; do echo '{\"seconds\": 3}'; done"]
        fast = ["sh", "-c", "echo starting; while read word; do echo '{\"seconds\": 2}'; done"]
        with BlockProgram(slow, 10) as ours, BlockProgram(fast, 10) as theirs:
            found = compare(ours, theirs, "save", 4)
        self.assertEqual((found["median"], found["pairs"], found["ours_milliseconds"]), (1.5, 4, 3000))

    def test_does_nothing_while_the_other_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            grows = f"(while :; do echo x >> {folder}/grown; done) & while read word; do echo '{{\"seconds\": 1}}'; done"
            with BlockProgram(["sh", "-c", grows], 10) as program:
                program.seconds("x")
                deadline = time.monotonic() + 10
                while states_of_group(program.process.pid) != {"T"}:
                    self.assertLess(time.monotonic(), deadline, "it is not stopped")
                before = os.path.getsize(f"{folder}/grown") if os.path.exists(f"{folder}/grown") else 0
                self.assertEqual(os.path.getsize(f"{folder}/grown") if before else 0, before)
                self.assertEqual(program.seconds("x"), 1)

    def test_says_what_the_program_said_last(self):
        with BlockProgram(["sh", "-c", "read word; echo no such word; exit 1"], 10) as program:
            with self.assertRaisesRegex(RunFailed, "no such word"):
                program.seconds("x")

    def test_gives_up_at_the_deadline(self):
        with BlockProgram(["sh", "-c", "sleep 100"], 0.2) as program:
            with self.assertRaisesRegex(RunFailed, "no answer within"):
                program.seconds("x")


if __name__ == "__main__":
    unittest.main()
