"""Errors of the user: one line that says what to fix, exit code 2, and nothing done."""
import gzip
import json
import os
import re
import subprocess
import unittest

import idx_files
from brigade_process import COMMAND, FRONT, MLP, CommandTest, run


class Words(CommandTest):
    def test_no_command(self):
        self.refuse(saying=["no command", "train, sweep, evaluate, extract, inspect, report, top, bench, data, devices", "launch, new, setup"])

    def test_unknown_command(self):
        self.refuse("tran", saying=["unknown command 'tran'", "did you mean 'train'?"])
        self.refuse("lanch", saying=["unknown command 'lanch'", "did you mean 'launch'?"])

    def test_unknown_flag(self):
        self.refuse_training("--bathc-size", "16", saying=["unknown flag --bathc-size", "--batch-size", "brigade train --help"])

    def test_flags_of_other_programs(self):
        for theirs, ours in (("--lr", "--learning-rate"), ("--num-epochs", "--epochs"), ("--train_dir", "--model-dir")):
            self.refuse_training(theirs, "1", saying=[f"unknown flag {theirs}; did you mean {ours}?"])

    def test_unexpected_word(self):
        self.refuse_training("fast", saying=["unexpected argument fast"])

    def test_a_value_that_is_no_number(self):
        for flag, value in (("--steps", "many"), ("--batch-size", "1e3"), ("--seed", "1.5"), ("--threads-per-replica", "0x2")):
            self.refuse_training(flag, value, saying=[f"{flag} is '{value}'; it must be a whole number"])
        self.refuse_training("--learning-rate", "0,1", saying=["--learning-rate is '0,1'; it must be a number, such as 0.1"])

    def test_a_number_that_no_integer_holds(self):
        for value, end in (("9" * 20, "at most 9223372036854775807"), ("-" + "9" * 20, "at least -9223372036854775808")):
            self.refuse_training("--batch-size", value, saying=[f"--batch-size is {value}; it must be {end}"])
        self.refuse_training("--threads-per-replica", "3000000000", saying=["--threads-per-replica is 3000000000; it must be at most 2147483647"])

    def test_a_flag_without_its_value(self):
        self.refuse_training("--batch-size", saying=["--batch-size needs a value. See: brigade train --help"])
        self.refuse("inspect", saying=["PATH is required. See: brigade inspect --help"])

    def test_unknown_model(self):
        self.refuse_training("--model", "mnist_cn", saying=["unknown model 'mnist_cn'", "did you mean 'mnist_cnn'?", "mlp"])

    def test_unknown_dataset(self):
        self.refuse_training("--dataset", "cifar", saying=["unknown dataset 'cifar'", "fashion_mnist, image_folder, mnist, synthetic"])

    def test_unknown_strategy(self):
        self.refuse_training("--strategy", "mirorred", saying=["unknown strategy 'mirorred'", "did you mean 'mirrored'?"])

    def test_unknown_optimizer(self):
        self.refuse_training("--optimizer", "rmspro", saying=["unknown optimizer 'rmspro'", "adagrad, adam, adamw, lars, rmsprop, sgd"])


class Clusters(CommandTest):
    """Flags about other processes are not ignored: each would train alone."""

    def test_strategies_of_one_process(self):
        cluster = "worker=localhost:1,localhost:2"
        for strategy in ("one_device", "mirrored", "central_storage", "towers"):
            for flags in (("--cluster", cluster, "--task", "worker:1"), ("--task", "worker:0"), ("--wire", "bf16"), ("--transport", "gloo")):
                with self.subTest(strategy=strategy, flags=flags):
                    self.refuse_training(*MLP, "--strategy", strategy, *flags,
                                         saying=[f"strategy {strategy} trains in one process; leave out {flags[0]}", "multi_worker_mirrored"])

    def test_several_processes_that_train_alone_say_so(self):
        command = ("train", *MLP, "--steps", "1", "--eval", "none")
        for environment, warnings in (({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}, 1), ({}, 0)):
            result = subprocess.run([COMMAND, *command], env=os.environ | environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.count("one of 2 (the torchrun environment), and strategy one_device trains a separate model"), warnings,
                             result.stderr)

    def test_which_task(self):
        workers = ("--strategy", "multi_worker_mirrored", "--cluster", "worker=localhost:1,localhost:2")
        self.refuse_training(*MLP, *workers, saying=["the cluster flag: the cluster has 2 tasks", "such as worker:0"])
        self.refuse_training(*MLP, *workers, "--task", "worker", saying=["'worker' has no index", "write worker:0"])


class Devices(CommandTest):
    def refuse_devices(self, devices, *arguments, saying):
        self.refuse_training(*MLP, "--strategy", "mirrored", "--devices", devices, *arguments, saying=saying)

    def test_malformed(self):
        self.refuse_devices("tpu:0", saying=["tpu:0"])

    def test_missing(self):
        self.refuse_devices("gpu:71", saying=["gpu:71", "cpu:0"])

    def test_named_twice(self):
        self.refuse_devices("cpu:0,cpu:0", saying=["cpu:0", "named twice"])

    def test_named_twice_in_two_spellings(self):
        self.refuse_devices("cpu:0,/device:CPU:0", saying=["named twice", "/device:CPU:0"])

    def test_beyond_the_cores_and_the_names(self):
        devices = f"cpu:0,cpu:{os.cpu_count() + 1}"
        self.refuse_devices(devices, saying=[f"cpu:{os.cpu_count() + 1}", "--allow-oversubscription"])

    def test_more_threads_than_cores(self):
        self.refuse_devices("cpu:0", "--threads-per-replica", "100000", saying=["100000 threads", "--allow-oversubscription"])

    def test_logical_gpus(self):
        self.refuse_devices("cpu:0", "--logical-gpus", "0", saying=["--logical-gpus is 0", "at least 1"])
        self.refuse_training(*MLP, "--strategy", "one_device", "--logical-gpus", "2",
                             saying=["one_device", "--logical-gpus", "--strategy mirrored"])

    def test_two_for_one_device(self):
        self.refuse_training(*MLP, "--strategy", "one_device", "--devices", "cpu:0,cpu:1",
                             saying=["one_device", "use --strategy mirrored"])

    def test_one_device_beyond_the_cores(self):
        command = ("train", *MLP, "--devices", f"cpu:{os.cpu_count()}", "--steps", "2", "--eval", "none", "--json")
        self.refuse(*command, saying=["--allow-oversubscription"])
        self.assertEqual(self.succeed(*command, "--allow-oversubscription")["devices"], [f"cpu:{os.cpu_count()}"])

    def test_more_cpus_than_cores_train_with_a_warning(self):
        devices = ",".join(f"cpu:{i}" for i in range(os.cpu_count() + 1))
        for flags, warnings in (((), 1), (("--allow-oversubscription",), 0)):
            with self.subTest(flags=flags):
                result = run("train", *MLP, "--strategy", "mirrored", "--devices", devices, *flags, "--steps", "2", "--eval", "none", "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(json.loads(result.stdout.splitlines()[-1])["replicas"], os.cpu_count() + 1)
                self.assertEqual(result.stderr.count("logical CPUs share"), warnings, result.stderr)


class Numbers(CommandTest):
    def test_batch_size(self):
        for size in ("0", "-4"):
            with self.subTest(size=size):
                self.refuse_training("--batch-size", size, saying=[f"--batch-size is {size}", "at least 1"])

    def test_global_batch_size(self):
        self.refuse_training("--global-batch-size", "0", saying=["--global-batch-size is 0", "at least 1"])

    def test_both_batch_sizes(self):
        self.refuse_training("--batch-size", "8", "--global-batch-size", "16",
                             saying=["--batch-size", "--global-batch-size", "exclude"])

    def test_both_lengths(self):
        self.refuse_training("--epochs", "1", "--steps", "5", saying=["--epochs and --steps exclude each other"])

    def test_lengths_below_one(self):
        self.refuse_training("--epochs", "0", saying=["--epochs is 0"])
        self.refuse_training("--steps", "-1", saying=["--steps is -1"])

    def test_beyond_what_can_be_counted(self):
        self.refuse_training("--batch-size", "99999999999", saying=["--batch-size is 99999999999", "at most"])
        self.refuse_training("--seed", "-1", saying=["--seed is -1"])

    def test_rates(self):
        self.refuse_training("--learning-rate", "-0.1", saying=["-0.1"])
        self.refuse_training("--momentum", "0.9", saying=["--momentum is for lars, rmsprop, sgd"])
        self.refuse_training("--rmsprop-decay", "0.9", saying=["--rmsprop-decay is for rmsprop; adam does not take it"])
        self.refuse_training("--optimizer", "sgd", "--epsilon", "1", saying=["--epsilon is for adagrad, adam"])
        self.refuse_training("--optimizer", "sgd", "--beta1", "0.5", saying=["--beta1 is for adam, adamw"])
        self.refuse_training("--beta2", "1", saying=["beta2 is 1"])
        self.refuse_training("--optimizer", "rmsprop", "--trust-coefficient", "1", saying=["--trust-coefficient is for lars"])
        self.refuse_training("--optimizer", "rmsprop", "--epsilon", "0", saying=["epsilon is 0"])
        self.refuse_training("--dropout", "1", saying=["--dropout is 1", "[0, 1)"])
        self.refuse_training("--model", "mlp", "--dropout", "0.5", saying=["mlp has no dropout"])

    def test_pipeline(self):
        self.refuse_training("--shuffle-buffer", "0", saying=["--shuffle-buffer is 0"])
        for threads in ("0", "many", "1025"):
            self.refuse_training("--map-threads", threads, saying=[f"--map-threads is {threads}", "1 to 1024, or auto"])
        self.refuse_training("--augment", "rotate", saying=["'rotate'", "none, flip, random_crop"])
        self.refuse_training("--train-examples", "0", saying=["--train-examples is 0"])

    def test_bench(self):
        self.refuse("bench", "--batch-size", "0", saying=["--batch-size is 0"])
        self.refuse("bench", "--steps", "0", saying=["--steps is 0"])


class Data(CommandTest):
    def setUp(self):
        super().setUp()
        self.data = idx_files.write(self.folder / "data")

    def refuse_data(self, *, saying):
        for dataset in ("fashion_mnist", "mnist"):
            with self.subTest(dataset=dataset):
                self.refuse_training("--model", "mlp", "--dataset", dataset, "--data-dir", self.data, saying=saying)

    def test_missing_folder_names_package_and_flag(self):
        self.refuse_training("--dataset", "fashion_mnist", "--data-dir", self.folder / "none",
                             saying=[str(self.folder / "none"), "dataset-fashion-mnist", "--data-dir"])

    def test_mnist_needs_a_folder(self):
        self.refuse_training("--dataset", "mnist", saying=["mnist needs --data-dir"])

    def test_synthetic_has_no_folder(self):
        self.refuse_training("--dataset", "synthetic", "--data-dir", self.data, saying=["leave out --data-dir"])

    def test_truncated(self):
        path = self.data / "train-images-idx3-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-20])
        self.refuse_data(saying=["train-images-idx3-ubyte.gz"])

    def test_truncated_before_compression(self):
        path = self.data / "train-labels-idx1-ubyte.gz"
        path.write_bytes(gzip.compress(idx_files.labels(40)[:-1]))
        self.refuse_data(saying=["train-labels-idx1-ubyte.gz", "40", "39"])

    def test_not_gzip(self):
        (self.data / "t10k-labels-idx1-ubyte.gz").write_text("These are not the labels.\n")
        self.refuse_data(saying=["t10k-labels-idx1-ubyte.gz", "magic number"])

    def test_wrong_magic(self):
        (self.data / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_files.images(40, magic=2050)))
        self.refuse_data(saying=["train-images-idx3-ubyte.gz", "2050", "2051"])

    def test_counts_that_differ(self):
        (self.data / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_files.labels(39)))
        self.refuse_data(saying=["40 images", "39 labels"])

    def test_the_whole_files_are_taken(self):
        report = self.succeed("train", "--model", "mlp", "--dataset", "mnist", "--data-dir", self.data, "--batch-size", "16",
                              "--epochs", "2", "--json")
        self.assertEqual((report["examples"], report["steps"], report["eval_examples"]), (80, 5, 20))


class ModelDirectory(CommandTest):
    def test_below_a_file(self):
        (self.folder / "file").write_text("")
        self.refuse("train", *MLP, "--model-dir", self.folder / "file" / "run", saying=["file", "--model-dir"])

    def test_where_the_system_forbids_it(self):
        self.refuse("train", *MLP, "--model-dir", "/proc/brigade-run", saying=["/proc"])

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_without_permission(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        self.refuse("train", *MLP, "--model-dir", closed / "run", saying=["Permission denied", "--model-dir"])

    def test_that_holds_a_run(self):
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--model-dir", self.model_dir, "--json")
        before = (self.model_dir / "weights.safetensors").read_bytes()
        self.refuse("train", *MLP, "--resume", "never", "--model-dir", self.model_dir,
                    saying=[str(self.model_dir), "holds a run", "--resume auto", "--overwrite"])
        self.refuse("train", *MLP, "--steps", "2", "--model-dir", self.model_dir,
                    saying=[str(self.model_dir), "has made 3 steps", "only 2", "--overwrite"])
        self.assertEqual((self.model_dir / "weights.safetensors").read_bytes(), before)
        self.succeed("train", *MLP, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--overwrite", "--json")
        self.assertNotEqual((self.model_dir / "weights.safetensors").read_bytes(), before)


    def test_that_holds_something_else(self):
        (self.model_dir / "checkpoints").mkdir(parents=True)
        (self.model_dir / "checkpoints" / "mine").write_text("")
        self.refuse("train", *MLP, "--model-dir", self.model_dir, saying=["no run.json", "--overwrite"])
        self.assertTrue((self.model_dir / "checkpoints" / "mine").exists())

    def test_with_a_broken_run_json(self):
        self.model_dir.mkdir()
        (self.model_dir / "run.json").write_text("{")
        self.refuse("train", *MLP, "--model-dir", self.model_dir, saying=["run.json is not a valid run.json", "--overwrite"])
        self.refuse("evaluate", "--model-dir", self.model_dir, saying=["run.json is not a valid run.json"])

    def test_is_needed_for_what_lies_in_it(self):
        for flag, value in (("--save-every", "5steps"), ("--keep-last", "2"), ("--checkpoint-writers", "all"),
                            ("--summaries-every", "5steps"), ("--profile-steps", "1:2")):
            with self.subTest(flag=flag):
                self.refuse("train", *MLP, flag, value, saying=[f"{flag} needs --model-dir"])


class Intervals(CommandTest):
    def test_that_cannot_be(self):
        values = ("5", "s", "steps", "0s", "0steps", "-5s", "1.5steps", "5 minutes", "1e3s", "nans", "99999999999h",
                  "99999999999999999999steps", "always")
        for flag, value in (*(("--save-every", value) for value in values), ("--summaries-every", "5"), ("--eval-every", "5")):
            with self.subTest(flag=flag, value=value):
                self.refuse_training(f"{flag}={value}", saying=[f"{flag} is '{value}'", "500steps", "100s", "10m", "2h"])

    def test_that_say_one_thing_twice(self):
        self.refuse_training("--save-every", "5s,1m", saying=["'5s,1m'", "a time twice"])
        self.refuse_training("--save-every", "5steps", "--save-every", "6steps", saying=["'5steps,6steps'", "steps twice"])

    def test_that_may_not_be_never(self):
        self.refuse_training("--save-every", "never", saying=["--save-every is 'never'"])
        self.refuse_training("--eval-every", "never,5s", saying=["'never,5s'", "or never"])

    def test_are_taken_in_every_unit(self):
        for value in ("2steps", "0.5s", "1.5m", "2h"):
            with self.subTest(value=value):
                self.succeed("train", *MLP, "--steps", "1", "--eval", "none", "--json", "--model-dir", self.model_dir,
                             "--overwrite", "--save-every", value, "--summaries-every", value, "--eval-every", value)


class Watching(CommandTest):
    def test_profile_steps(self):
        for value in ("5", "0:3", "4:3", "a:b", "1:2:3", ":", "1:", "-1:4"):
            with self.subTest(value=value):
                self.refuse_training(f"--profile-steps={value}", saying=[f"--profile-steps is '{value}'", "10:20"])
        self.refuse_training(*MLP, "--steps", "9", "--profile-steps", "10:12", saying=["begins with step 10", "ends with step 9"])

    def test_keep_last(self):
        self.refuse_training("--keep-last", "-1", saying=["--keep-last is -1", "at least 0"])

    def test_checkpoint_writers(self):
        self.refuse_training("--checkpoint-writers", "workers", saying=["--checkpoint-writers is 'workers'", "chief or all"])

    def test_eval(self):
        self.refuse_training("--eval", "begin", saying=["'begin'", "end, none"])


def crc32c(content):
    total = 0xFFFFFFFF
    for byte in content:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82F63B78 if total & 1 else 0)
    return total ^ 0xFFFFFFFF


def make_newer(manifest):
    """Writes it as a future Brigade might, with another version and the checksum for it."""
    body = manifest.read_text().rpartition(',"crc32c"')[0].replace('{"brigade_checkpoint":1,', '{"brigade_checkpoint":2,')
    manifest.write_text(f'{body},"crc32c":"{crc32c(body.encode()):08x}"}}\n')


class EmptyValues(CommandTest):
    """A shell variable that is not set is an error, not a flag that is not given."""

    def flags_of(self, command):
        text = run(command, "--help").stdout
        groups = re.findall(r"(?m)^ +(?:-\w,)?((?:--[\w-]+,?)+) (?:[A-Z]|\[)", text)
        return [name for group in groups for name in group.rstrip(",").split(",")]

    def test_every_flag_of_every_command(self):
        """By the program that users call, without libtorch; and some by the one below it, which checks them itself."""
        cases = [(program, command, *words) for command in ("train", "ps", "evaluate", "inspect", "bench", "data", "devices", "doctor")
                 for index, name in enumerate(self.flags_of(command))
                 for words in ([name, ""], [name + "="])
                 for program in (FRONT, COMMAND)[:2 if index < 1 else 1]]
        self.assertGreater(len(cases), 120)
        self.assertLessEqual({(FRONT, "train", "--model-dir", ""), (FRONT, "evaluate", "--model-dir", ""),
                              (FRONT, "train", "--cluster", "")}, set(cases))
        for program, *words in cases:
            with self.subTest(program=program, words=words):
                result = run(*words, program=program)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertTrue(result.stderr.startswith(f"brigade: error: {words[1].rstrip('=')} is given an empty value"),
                                result.stderr)

    def test_an_empty_word(self):
        self.refuse("inspect", "", saying=["an empty argument is given"])


class ResumePath(CommandTest):
    def refuse_path(self, path, *arguments, saying):
        self.refuse_training(*MLP, *arguments, "--resume", path, saying=saying)

    def test_missing(self):
        self.refuse_path(self.folder / "none", saying=["there is no checkpoint", str(self.folder / "none"), "auto, never"])
        self.refuse_path("atuo", saying=["there is no checkpoint at", "atuo", "auto, never"])
        self.refuse_path("", saying=["--resume is given an empty value"])

    def test_empty_folder(self):
        self.refuse_path(self.folder, saying=["there is no complete checkpoint", str(self.folder)])

    def test_weights_alone(self):
        other = self.folder / "other"
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--json", "--model-dir", other)
        self.refuse_path(other / "weights.safetensors", saying=["weights.safetensors is a file", "model directory"])

    def test_corrupt(self):
        other = self.folder / "other"
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--json", "--model-dir", other)
        for checkpoint in (other / "checkpoints").glob("ckpt-*"):
            tensors = next(checkpoint.glob("*.safetensors"))
            tensors.write_bytes(tensors.read_bytes()[:-1] + b"?")
            self.refuse_path(checkpoint, saying=[checkpoint.name])
        self.refuse_path(other, saying=["there is no complete checkpoint", str(other)])

    def test_beyond_the_steps_that_are_asked_for(self):
        other = self.folder / "other"
        self.succeed("train", *MLP, "--steps", "30", "--eval", "none", "--json", "--model-dir", other)
        checkpoint = other / "checkpoints" / "ckpt-30"
        self.refuse_path(checkpoint, "--steps", "20", saying=["ckpt-30", "after step 30", "--steps is 20"])
        self.refuse_path(other, "--steps", "29", saying=["ckpt-30", "--steps is 29"])
        self.refuse_path(checkpoint, "--epochs", "1", saying=["ckpt-30", "after 480 examples", "256"])
        begun = self.succeed("train", *MLP, "--steps", "31", "--eval", "none", "--json", "--resume", checkpoint)
        self.assertEqual(begun["first_step"], 30)

    def test_own_checkpoints_beyond_the_steps(self):
        """A run that was killed: without a result, its checkpoints say how far it was."""
        self.succeed("train", *MLP, "--steps", "30", "--eval", "none", "--json", "--model-dir", self.model_dir)
        path = self.model_dir / "run.json"
        run_json = json.loads(path.read_text())
        run_json["result"] = None
        path.write_text(json.dumps(run_json))
        (self.model_dir / "weights.safetensors").unlink()
        self.refuse("train", *MLP, "--steps", "20", "--model-dir", self.model_dir,
                    saying=["ckpt-30", "after step 30", "--steps is 20"])

    def test_of_a_newer_format(self):
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--json", "--model-dir", self.model_dir)
        make_newer(self.model_dir / "checkpoints" / "ckpt-3" / "manifest.json")
        before = {path.relative_to(self.model_dir): path.read_bytes() for path in self.model_dir.rglob("*") if path.is_file()}
        saying = ["ckpt-3", "format version 2", "use a newer one"]
        self.refuse("train", *MLP, "--steps", "9", "--model-dir", self.model_dir, saying=saying)
        self.refuse("inspect", self.model_dir, saying=saying)
        self.refuse("train", *MLP, "--steps", "9", "--model-dir", self.folder / "next", "--resume", self.model_dir, saying=saying)
        after = {path.relative_to(self.model_dir): path.read_bytes() for path in self.model_dir.rglob("*") if path.is_file()}
        self.assertEqual(after, before)

    def test_in_what_is_replaced(self):
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--json", "--model-dir", self.model_dir)
        checkpoint = self.model_dir / "checkpoints" / "ckpt-3"
        self.refuse("train", *MLP, "--overwrite", "--model-dir", self.model_dir, "--resume", checkpoint,
                    saying=["--overwrite clears", "another --model-dir"])
        self.assertTrue(checkpoint.exists())

    def test_beside_another_run(self):
        self.succeed("train", *MLP, "--steps", "3", "--eval", "none", "--json", "--model-dir", self.model_dir)
        self.refuse("train", *MLP, "--steps", "5", "--model-dir", self.model_dir, "--resume",
                    self.model_dir / "checkpoints" / "ckpt-0", saying=["another training", "started_from", "--overwrite"])


class Weights(CommandTest):
    def test_missing_flag(self):
        self.refuse("evaluate", saying=["--model-dir"])

    def test_missing(self):
        self.refuse("evaluate", *MLP, "--model-dir", self.model_dir,
                    saying=[str(self.model_dir / "weights.safetensors"), "brigade train --model-dir"])

    def test_broken(self):
        self.model_dir.mkdir()
        (self.model_dir / "weights.safetensors").write_bytes(b"\xff" * 100)
        self.refuse("evaluate", *MLP, "--model-dir", self.model_dir, saying=["weights.safetensors"])

    def test_of_another_model_are_listed(self):
        self.succeed("train", *MLP, "--hidden", "32,16", "--steps", "1", "--eval", "none", "--model-dir", self.model_dir,
                     "--json")
        self.refuse("evaluate", *MLP, "--hidden", "32,8,4", "--model-dir", self.model_dir,
                    saying=["model mlp", "missing: dense4.weight [10, 4], dense4.bias [10]",
                            "dense2.weight is [16, 32], expected [8, 32]", "--model"])
        self.refuse("evaluate", "--model", "mnist_cnn", "--model-dir", self.model_dir,
                    saying=["missing: conv1.weight [32, 1, 5, 5]", "unexpected: dense3.bias [10]"])


if __name__ == "__main__":
    unittest.main()
