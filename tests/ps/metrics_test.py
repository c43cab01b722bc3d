"""What a server tells of its load while it serves, to real HTTP requests; and who asks for it in a wrong way disturbs nobody."""
import os
import re
import signal
import socket
import time
import unittest
import urllib.error
import urllib.request

from servers import SLACK, STEP, UNEVALUATED, Cluster, ServersTest

STEPS = 2000
LONG = (*UNEVALUATED, "--steps", str(STEPS))  # some seconds
SAMPLE = re.compile(r'^([a-z_]+)(\{le="([^"]+)"\})? (\S+)$')


class Metrics(ServersTest):
    def serve(self, cluster):
        """A server, and the port of its metrics."""
        server = self.start_server(cluster, 0, "--metrics-port", "0")
        return server, int(server.wait_for(r"http://127\.0\.0\.1:(\d+)/metrics")[1].group(1))

    def get(self, port, path="/metrics"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SLACK) as answer:
            self.assertIn("version=0.0.4", answer.headers["Content-Type"])
            return answer.read().decode()

    def values(self, port):
        """By name; of a histogram's buckets a list of (bound, count). The format is checked."""
        values, types = {}, {}
        for line in self.get(port).splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                types[name] = kind
            if line.startswith("#"):
                continue
            match = SAMPLE.match(line)
            self.assertTrue(match, line)
            name, _, bound, value = match.groups()
            self.assertIn(re.sub("_(bucket|sum|count)$", "", name) if name not in types else name, types, line)
            if bound:
                values.setdefault(name, []).append((float(bound), float(value)))
            else:
                values[name] = float(value)
        for name, kind in types.items():
            if kind == "histogram":
                buckets = values[f"{name}_bucket"]
                self.assertEqual(buckets, sorted(buckets), name)
                self.assertEqual([count for _, count in buckets], sorted(count for _, count in buckets), name)
                self.assertEqual(buckets[-1], (float("inf"), values[f"{name}_count"]))
        return values

    def wait_for_pushes(self, port, least):
        end = time.monotonic() + 60 + SLACK
        while True:
            values = self.values(port)
            if values["brigade_ps_pushes_total"] >= least:
                return values
            self.assertLess(time.monotonic(), end, values)
            time.sleep(0.01)

    def test_follow_a_training(self):
        cluster = Cluster(1, 1)
        server, port = self.serve(cluster)
        before = self.values(port)
        self.assertEqual((before["brigade_ps_pushes_total"], before["brigade_ps_members"], before["brigade_ps_ready"]), (0, 0, 0))
        chief = self.start_trainer(cluster, 0, *LONG)
        chief.wait_for(STEP)
        first = self.wait_for_pushes(port, 10)
        later = self.wait_for_pushes(port, first["brigade_ps_pushes_total"] + 10)
        self.assertTrue(chief.is_running(), "it had ended before it was measured")
        for name in ("pushes_total", "pulls_total", "step", "received_bytes_total", "sent_bytes_total", "push_seconds_count",
                     "pull_seconds_count", "log_sync_seconds_count"):
            self.assertGreater(later[f"brigade_ps_{name}"], first[f"brigade_ps_{name}"], name)
        for name in ("push_seconds_sum", "log_sync_seconds_sum", "log_bytes"):
            self.assertGreater(later[f"brigade_ps_{name}"], 0, name)
        self.assertEqual((later["brigade_ps_members"], later["brigade_ps_ready"], later["brigade_ps_lost_leases_total"]), (1, 1, 0))
        self.assertLessEqual(later["brigade_ps_buffered_bytes"], later["brigade_ps_buffered_bytes_limit"])
        chief.result()
        self.assertEqual(server.result()["pushes"], STEPS)

    def test_a_lost_worker_is_counted(self):
        cluster = Cluster(1, 1)
        server, port = self.serve(cluster)
        chief = self.start_trainer(cluster, 0, *LONG)
        chief.wait_for(STEP)
        chief.signal(signal.SIGKILL)
        chief.wait()
        server.wait_for("is lost")
        values = self.values(port)
        self.assertEqual((values["brigade_ps_lost_leases_total"], values["brigade_ps_members"]), (1, 0))
        self.end_by(server, signal.SIGTERM, 75)

    def test_silent_and_rude_visitors_hold_up_neither_training_nor_metrics(self):
        cluster = Cluster(1, 1)
        server, port = self.serve(cluster)
        for index in range(300):
            visitor = socket.create_connection(("127.0.0.1", port), timeout=SLACK)
            self.addCleanup(visitor.close)
            if index % 3:
                visitor.sendall(os.urandom(100) if index % 3 == 1 else b"GET /metrics HTTP/1.1\r\n")
        chief = self.start_trainer(cluster, 0, *LONG)
        self.wait_for_pushes(port, 10)
        with self.assertRaises(urllib.error.HTTPError) as missing:
            self.get(port, "/secrets")
        self.assertEqual(missing.exception.code, 404)
        missing.exception.close()
        self.assertEqual(chief.result()["steps"], STEPS)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_port_that_is_taken_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = self.start_server(Cluster(1, 1), 0, "--metrics-port", taken.getsockname()[1])
            self.assertIn(server.wait(), (1, 2), server.lines())
            self.assertIn(str(taken.getsockname()[1]), server.last_line())


if __name__ == "__main__":
    unittest.main()
