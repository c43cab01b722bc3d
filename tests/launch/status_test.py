"""/healthz and /metrics of a running launcher."""
import http.client
import os
import signal
import socket
import time
import unittest

from launcher import LIMIT, SLOWNESS, LaunchTest, shell

WORKER = "trap 'sleep 1; exit 75' TERM; echo ready $$; while :; do sleep 0.01; done"


class Status(LaunchTest):
    def begin(self, *flags):
        self.job = self.start(["--nproc", 2, "--status-port", 0, *flags], shell(WORKER))
        line = self.job.line("[info] Status: ")
        self.port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        return [self.job.number("[") for _ in range(2)]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        self.addCleanup(connection.close)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def metric(self, name):
        lines = self.get("/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(name + " ")).split()[-1])

    def test_a_running_job(self):
        self.begin()
        self.assertEqual(self.get("/healthz"), (200, "ok\n"))
        self.assertEqual(self.metric("brigade_job_generation"), 0)
        self.assertEqual(self.metric("brigade_job_processes"), 2)
        self.assertEqual(self.metric('brigade_rank_up{rank="1"}'), 1)
        self.assertEqual(self.get("/other")[0], 404)

    def test_a_restarted_job(self):
        programs = self.begin("--max-restarts", 1)
        os.kill(programs[0], signal.SIGKILL)
        for _ in range(2):
            self.job.line("[")
        while self.metric("brigade_job_generation") == 0:
            pass
        self.assertEqual(self.metric("brigade_job_restarts_total"), 1)

    def test_a_job_that_is_being_stopped(self):
        self.begin()
        self.job.send(signal.SIGTERM)
        while self.get("/healthz")[0] != 503:
            pass
        self.assertEqual(self.job.end(), 75)

    def test_rude_clients_disturb_nobody(self):
        self.begin()
        for said in (b"", b"\0" * 100000, b"GET /metrics HTTP/1.1\r\n\r\n" * 100):
            rude = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(rude.close)
            try:
                rude.sendall(said)
            except ConnectionError:
                pass
        self.assertEqual(self.get("/healthz"), (200, "ok\n"))
        self.job.send(signal.SIGTERM)
        self.assertEqual(self.job.end(), 75)

    def test_a_hundred_silent_clients_keep_nobody_out(self):
        self.begin()
        for _ in range(100):
            silent = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(silent.close)
        begin = time.monotonic()
        self.assertEqual(self.get("/healthz"), (200, "ok\n"))
        self.assertLess(time.monotonic() - begin, 2 * SLOWNESS)  # nobody is waited for

    def test_only_loopback_is_listened_on(self):
        self.begin()
        with open("/proc/net/tcp", encoding="ascii") as table:
            listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
        ours = [address for address in listening if address.endswith(f":{self.port:04X}")]
        self.assertEqual(ours, [f"0100007F:{self.port:04X}"])

    def test_a_port_that_is_taken_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            job = self.run_job(["--status-port", port], ["/bin/true"], code=1)
        self.assertIn(f"127.0.0.1:{port}", job.errors_text())


if __name__ == "__main__":
    unittest.main()
