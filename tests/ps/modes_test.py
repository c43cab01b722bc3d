"""What training with parameter servers computes, by mode: accuracies, bits, and what each process reports."""
import signal
import unittest

from servers import MODES, SMALL, STEP, UNEVALUATED, Cluster, ServersTest


class Modes(ServersTest):
    def test_two_workers_reach_the_accuracy_of_one(self):
        for name, mode in MODES.items():
            with self.subTest(mode=name):
                self.state = self.folder / f"state-{name}"
                servers, (chief, worker) = self.train_job(1, 2, *mode, "--epochs", "16")
                self.assertGreater(chief["eval_accuracy"], 0.9)
                self.assertEqual(chief["eval_examples"], self.alone("--strategy", "one_device", *SMALL, "--steps", "1")["eval_examples"])
                self.assertIsNone(worker["eval_accuracy"])
                self.assertEqual(chief["steps"], 16 * 256 // 16 // (2 if name == "sync" else 1))
                self.assertGreaterEqual(servers[0]["step"], chief["steps"])

    def test_one_asynchronous_worker_has_the_weights_of_one_device(self):
        for more in (("--steps", "40"), ("--epochs", "3", "--optimizer", "sgd", "--learning-rate", "0.1", "--momentum", "0.9")):
            for servers in (1, 2):
                with self.subTest(more=more, servers=servers):
                    self.state = self.folder / f"state-{servers}-{len(more)}"
                    wanted = self.alone("--strategy", "one_device", *SMALL, *UNEVALUATED, *more)
                    _, (chief,) = self.train_job(servers, 1, *UNEVALUATED, *more)
                    for key in ("weights_sha256", "steps", "examples", "final_loss"):
                        self.assertEqual(chief[key], wanted[key], key)

    def test_synchronous_weights_do_not_depend_on_servers_and_are_those_of_multi_worker_mirrored(self):
        run = (*UNEVALUATED, "--steps", "30")
        # Two workers' batches of 16 are, in both strategies, the halves of 32 examples in a row.
        wanted = self.train(2, *SMALL, *run)
        self.assertEqual(wanted["workers"], 2)
        for servers in (1, 2, 3):
            with self.subTest(servers=servers):
                self.state = self.folder / f"state-{servers}"
                served, (chief, worker) = self.train_job(servers, 2, "--mode", "sync", *run)
                self.assertEqual(chief["weights_sha256"], wanted["weights_sha256"])
                self.assertEqual((chief["global_step"], worker["global_step"]), (30, 30))
                self.assertEqual([each["step"] for each in served], [30] * servers)

    def test_workers_share_the_steps(self):
        servers, results = self.train_job(2, 3, *UNEVALUATED, "--steps", "60")
        made = sum(each["worker_steps"] for each in results)
        self.assertGreaterEqual(made, 60)
        self.assertLess(made, 60 + 3)  # each may make one more before it knows
        self.assertEqual(servers[0]["step"], made)
        self.assertTrue(all(each["pushes"] == made for each in servers), servers)

    def test_variables_in_parts_give_the_same_weights_and_continue_on_one_device(self):
        run = (*UNEVALUATED, "--steps", "20")
        _, (whole,) = self.train_job(1, 1, *run)
        self.state = self.folder / "state-parts"
        model = self.folder / "parts"
        _, (parts,) = self.train_job(2, 1, "--variable-partitioner", "min-size:1024", "--model-dir", model, *run)
        self.assertEqual(parts["variable_partitioner"], "min-size:1024")
        self.assertEqual(parts["weights_sha256"], whole["weights_sha256"])
        longer = ("--strategy", "one_device", *SMALL, *UNEVALUATED, "--steps", "30")
        wanted = self.alone(*longer)
        continued = self.alone(*longer, "--model-dir", model)
        self.assertEqual(continued["first_step"], 20)
        self.assertEqual(continued["weights_sha256"], wanted["weights_sha256"])

    def test_updates_of_one_worker_are_never_stale(self):
        run = (*UNEVALUATED, "--steps", "20")
        _, (wanted,) = self.train_job(1, 1, *run)
        self.state = self.folder / "state-aware"
        _, (aware,) = self.train_job(2, 1, "--staleness-aware-rate", *run)
        self.assertTrue(aware["staleness_aware_rate"])
        self.assertEqual(aware["update_staleness"], {"updates": 20, "mean": 0, "max": 0})
        self.assertEqual(aware["weights_sha256"], wanted["weights_sha256"])

    def test_unsharded_input_is_an_option(self):
        _, results = self.train_job(1, 2, *UNEVALUATED, "--steps", "20", "--auto-shard", "off")
        self.assertEqual(results[0]["steps"], 20)

    def test_a_backup_worker_is_not_waited_for(self):
        servers, results = self.train_job(1, 3, *UNEVALUATED, "--mode", "sync", "--backup-workers", "1", "--steps", "30")
        self.assertEqual(results[0]["global_step"], 30)
        self.assertEqual(servers[0]["step"], 30)
        self.assertIsNone(results[0]["update_staleness"])


class Watching(ServersTest):
    def test_the_chief_evaluates_after_a_step_that_was_due_and_another_worker_made(self):
        run = (*UNEVALUATED, "--steps", "600", "--eval-every", "600steps")
        cluster = Cluster(1, 2)
        server = self.start_server(cluster, 0)
        chief = self.start_trainer(cluster, 0, *run)
        chief.wait_for(STEP)
        chief.signal(signal.SIGSTOP)
        worker = self.start_trainer(cluster, 1, *run).result()
        chief.signal(signal.SIGCONT)
        result = chief.result()
        self.assertGreater(result["global_step"], 600)
        self.assertEqual([each["step"] >= 600 for each in result["evaluations"]], [True])
        self.assertEqual(worker["evaluations"], [])
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_only_the_chief_profiles(self):
        # All work, and none is more than four steps ahead.
        self.train_job(1, 3, *MODES["ssp"], *UNEVALUATED, "--steps", "90", "--profile-steps", "20:60", "--model-dir", self.model_dir)
        self.assertEqual(len(list((self.model_dir / "profile").glob("timeline-*"))), 1)


class Reports(ServersTest):
    def test_each_process_reports_its_part(self):
        servers, (chief, worker) = self.train_job(1, 2, *MODES["ssp"], *UNEVALUATED, "--steps", "20", "--model-dir", self.model_dir)
        self.assertEqual(servers[0]["task"], "/job:ps/task:0")
        self.assertLessEqual({"address", "step", "pushes", "pulls", "duplicates", "stale", "seconds"}, servers[0].keys())
        for index, each in enumerate((chief, worker)):
            self.assertEqual((each["strategy"], each["mode"], each["staleness"], each["task"], each["workers"]),
                             ("parameter_server", "ssp", 4, f"/job:worker/task:{index}", 2))
            self.assertFalse(each["staleness_aware_rate"])
            staleness = each["update_staleness"]
            self.assertEqual(staleness["updates"], each["worker_steps"])
            self.assertLessEqual(0, staleness["mean"])
            self.assertLessEqual(staleness["mean"], staleness["max"])
        self.assertIsNotNone(chief["weights_sha256"])
        self.assertIsNone(worker["weights_sha256"])
        self.assertTrue((self.model_dir / "weights.safetensors").exists())
        self.assertEqual(list(self.state.iterdir()), [], "a training that has ended leaves no variables")

    def test_a_ps_task_of_train_serves_below_the_model_directory(self):
        cluster = Cluster(1, 1)
        run = (*UNEVALUATED, "--steps", "200", "--model-dir", self.model_dir)
        task = ("--cluster", cluster.flag(), "--task")
        server = self.start_process("train", "--strategy", "parameter_server", *SMALL, *run, *task, "ps:0")
        server.wait_for("listens at")
        self.assertTrue((self.model_dir / "ps" / "ps-0").is_dir())
        chief = self.start_process("train", "--strategy", "parameter_server", *SMALL, *run, *task, "worker:0")
        self.assertEqual(chief.result()["steps"], 200)
        self.assertEqual(server.result()["pushes"], 200)

    def test_the_same_command_again_finds_the_training_finished(self):
        first = self.train_job(1, 2, *UNEVALUATED, "--steps", "20", "--model-dir", self.model_dir)[1][0]
        again = self.train_job(1, 2, *UNEVALUATED, "--steps", "20", "--model-dir", self.model_dir)[1]
        self.assertEqual([each["worker_steps"] for each in again], [0, 0])
        self.assertEqual(again[0]["weights_sha256"], first["weights_sha256"])
        more = self.train_job(1, 2, *UNEVALUATED, "--steps", "40", "--model-dir", self.model_dir)[1][0]
        self.assertGreaterEqual(more["first_step"], 20)
        self.assertEqual(more["steps"], 40)


if __name__ == "__main__":
    unittest.main()
