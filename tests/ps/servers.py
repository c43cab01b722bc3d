"""Jobs with parameter servers as processes on loopback, each started as by hand: servers, workers, an evaluator.

BRIGADE_COMMAND names the command; BRIGADE_TEST_SLOWNESS (1) stretches the limits."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from workers import DEADLINE, SLACK, SLOWNESS, ClusterTest, environment, free_ports, wait_until

SMALL = ("--model", "mlp", "--hidden", "16", "--dataset", "synthetic", "--train-examples", "256", "--batch-size", "16",
         "--threads-per-replica", "1", "--allow-oversubscription", "--log-every", "0", "--json")
SERVERS = ("--strategy", "parameter_server")
UNEVALUATED = ("--eval", "none")
MODES = {"async": ("--mode", "async"), "ssp": ("--mode", "ssp", "--staleness", "4"), "sync": ("--mode", "sync")}
STEP = r"^step (\d+)/"
STEPS = 300
LONG = (*UNEVALUATED, "--steps", str(STEPS))  # a second or more


class Cluster:
    """Addresses on loopback for all tasks."""

    def __init__(self, servers, workers, replicas=0):
        ports = free_ports(servers + workers + replicas)
        self.ports = {"ps": ports[:servers], "worker": ports[servers:servers + workers]}
        if replicas:
            self.ports["ps_replica"] = ports[servers + workers:]

    def addresses(self):
        return {job: [f"localhost:{port}" for port in ports] for job, ports in self.ports.items()}

    def tf_config(self, job, index):
        return json.dumps({"cluster": self.addresses(), "task": {"type": job, "index": index}})

    def flag(self):
        return ";".join(f"{job}={','.join(addresses)}" for job, addresses in self.addresses().items())


class ServersTest(ClusterTest):
    """A test whose processes are gone when it ends."""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"

    def start_task(self, cluster, job, index, *arguments, **more):
        return self.start_process(*arguments, environment=environment(TF_CONFIG=cluster.tf_config(job, index), **more))

    def start_server(self, cluster, index, *arguments):
        return self.start_task(cluster, "ps", index, "ps", "--folder", self.state, "--json", *arguments)

    def start_replica(self, cluster, index, *arguments):
        return self.start_task(cluster, "ps_replica", index, "ps", "--folder", self.state, "--json", *arguments)

    def start_trainer(self, cluster, index, *arguments):
        return self.start_task(cluster, "worker", index, "train", *SERVERS, *SMALL, *arguments)

    def start_job(self, servers, workers, *arguments):
        """The cluster, its servers and its workers, the chief first. Servers do not wait for workers that have not joined when
        the chief is done, so the chief is started when the others have joined."""
        cluster = Cluster(servers, workers)
        serving = [self.start_server(cluster, index) for index in range(servers)]
        others = [self.start_trainer(cluster, index, *arguments) for index in range(1, workers)]
        for index in range(1, workers):
            serving[0].wait_for(f"/job:worker/task:{index} has joined")
        return cluster, serving, [self.start_trainer(cluster, 0, *arguments), *others]

    def at_work(self, servers, workers, *arguments):
        """A job that has made some steps."""
        cluster, serving, training = self.start_job(servers, workers, *LONG, *arguments)
        training[0].wait_for(STEP)
        return cluster, serving, training

    def train_job(self, servers, workers, *arguments):
        """Trains to the end. Returns the results of servers and workers; all must end well."""
        _, serving, training = self.start_job(servers, workers, *arguments)
        results = [process.result() for process in training]
        return [process.result() for process in serving], results

    def end_by(self, process, number, code):
        process.signal(number)
        self.assertEqual(process.wait(DEADLINE), code, process.lines()[-8:])
