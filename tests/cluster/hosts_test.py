"""Which workers share a host is no matter of its name: made-up hosts of one name, and one machine under two."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import simulated_hosts

from workers import COMMAND, TINY, WORKERS, ClusterTest, environment, free_ports

RUN = (*TINY, "--batch-size", "16", "--steps", "20", "--log-every", "0", "--start-timeout", "60s")
CABLE = ("10.77.91.1", "10.77.91.2")


class Hosts(ClusterTest):
    def host(self, *arguments, **options):
        try:
            host = simulated_hosts.Host(*arguments, **options)
        except OSError as error:
            self.skipTest(f"namespaces of a test's own are not permitted here: {error}")
        self.addCleanup(host.end)
        return host

    def connect(self, one, other):
        try:
            simulated_hosts.connect(one, other, CABLE)
        except OSError as error:
            self.skipTest(f"no cable between namespaces here: {error}")

    def key(self):
        path = self.folder / "key"
        path.write_text(os.urandom(32).hex() + "\n")
        path.chmod(0o600)
        return ("--key-file", path)

    def train_on(self, hosts, addresses, *arguments):
        """Trains with a worker on each and returns the chief's result."""
        ports = free_ports(len(hosts))
        places = [f"{address}:{port}" for address, port in zip(addresses, ports)]
        workers = []
        for index, host in enumerate(hosts):
            config = json.dumps({"cluster": {"worker": places}, "task": {"type": "worker", "index": index}})
            workers.append(self.start_process("train", *WORKERS, *RUN, *arguments, environment=environment(TF_CONFIG=config),
                                              program=tuple(map(str, host.enter(COMMAND)))))
        result = workers[0].result()
        for worker in workers[1:]:
            self.assertEqual(worker.wait(), 0, worker.lines()[-8:])
        return result

    def test_clones_of_one_name_train_over_their_network(self):
        """Their processes have the same numbers, too, as in containers, where each begins at 1."""
        clones = [self.host("clone") for _ in range(2)]
        self.connect(*clones)
        result = self.train_on(clones, CABLE, *self.key())
        self.assertEqual(result["workers"], 2)
        self.assertEqual(result["weights_sha256"], self.train(2, *RUN)["weights_sha256"])

    def test_containers_of_one_network_train_over_loopback_without_a_key(self):
        containers = [self.host("clone", namespaces=("--uts", "--pid")) for _ in range(2)]
        result = self.train_on(containers, ("localhost", "localhost"))
        self.assertEqual(result["weights_sha256"], self.train(2, *RUN)["weights_sha256"])

    def test_one_machine_under_two_names_shares_its_memory(self):
        names = [self.host(name, namespaces=("--uts",)) for name in ("alice", "bob")]
        result = self.train_on(names, ("localhost", "localhost"), "--transport", "shared_memory")
        self.assertEqual(result["workers"], 2)


if __name__ == "__main__":
    unittest.main()
