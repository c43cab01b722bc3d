"""Event files follow their formats, byte by byte."""
import json
import struct
import time
import unittest
import zlib

from event_files import doubles, fields, masked_crc32c, records
from sample import SampleTest

# The fields of an Event, by number.
VERSION, GRAPH, SUMMARY, SESSION_LOG, RUN_METADATA = 3, 4, 5, 7, 8
# The fields of a value of a summary.
TAG, SIMPLE_VALUE, IMAGE, HISTOGRAM, TENSOR, METADATA = 1, 2, 4, 5, 8, 9


class EventFiles(SampleTest):
    def setUp(self):
        super().setUp()
        found, self.left_over = records(self.write_all().read_bytes())
        self.events = [fields(record) for record in found]
        self.values = {}
        for event in self.events:
            for value in fields(event.get(SUMMARY, [b""])[0]).get(1, []):
                value = fields(value)
                self.values.setdefault(value[TAG][0].decode(), []).append((event.get(2, [0])[0], value))

    def only(self, tag):
        [(step, value)] = self.values[tag]
        return step, value

    def with_field(self, number):
        return [event for event in self.events if number in event]

    def test_the_checksum_matches_the_known_value(self):
        self.assertEqual(0xA282EAD8, masked_crc32c(b""))
        self.assertEqual(((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF, masked_crc32c(b"123456789"))

    def test_the_file_is_whole_and_begins_with_its_version(self):
        self.assertEqual(0, self.left_over)
        self.assertEqual([b"brain.Event:2"], self.events[0][VERSION])
        self.assertEqual(1, len(self.with_field(VERSION)))

    def test_every_event_has_the_time_of_day(self):
        for event in self.events:
            self.assertLess(abs(time.time() - event[1][0]), 3600)

    def test_scalars(self):
        expected = [(step, struct.unpack("<f", struct.pack("<f", 1 / (step + 1)))[0]) for step in range(10)]
        self.assertEqual(expected, [(step, value[SIMPLE_VALUE][0]) for step, value in self.values["loss"]])
        self.assertEqual([0.25], self.only("share/input")[1][SIMPLE_VALUE])
        self.assertEqual([0.75], self.only("share/compute")[1][SIMPLE_VALUE])

    def test_a_histogram_number_by_number(self):
        step, value = self.only("ranges")
        histogram = fields(value[HISTOGRAM][0])
        self.assertEqual(3, step)
        self.assertEqual([2, 3, 4, 5.5], [histogram[number][0] for number in (2, 3, 4, 5)])
        self.assertEqual([1, 2], doubles(histogram[6][0]))
        self.assertEqual([1, 2], doubles(histogram[7][0]))

    def test_images_pixel_by_pixel(self):
        for channels in (1, 3, 4):
            step, value = self.only(f"image{channels}")
            image = fields(value[IMAGE][0])
            self.assertEqual([4, 5, 7, channels], [step, *(image[number][0] for number in (1, 2, 3))])
            rows = zlib.decompress(image[4][0].split(b"IDAT", 1)[1])
            row = 7 * channels
            pixels = b"".join(rows[1 + start:1 + start + row] for start in range(0, len(rows), row + 1))
            self.assertEqual(bytes((200 + i) % 256 for i in range(5 * row)), pixels)

    def test_text(self):
        step, value = self.only("note")
        self.assertEqual(5, step)
        self.assertEqual(b"text", fields(fields(value[METADATA][0])[1][0])[1][0])
        self.assertEqual("# grüß *dich*", fields(value[TENSOR][0])[8][0].decode())

    def test_graph_metadata_and_start(self):
        [graph] = self.with_field(GRAPH)
        names = [fields(node)[1][0] for node in fields(graph[GRAPH][0])[1]]
        self.assertEqual([b"images", b"conv1/weights", b"conv1/Conv2D"], names)
        [run] = self.with_field(RUN_METADATA)
        self.assertEqual([b"step_6"], fields(run[RUN_METADATA][0])[1])
        [start] = self.with_field(SESSION_LOG)
        self.assertEqual([1], fields(start[SESSION_LOG][0])[1])

    def test_the_trace_is_json(self):
        trace = json.loads((self.folder / "timeline-6.json").read_text())
        self.assertEqual(["forward"], [event["name"] for event in trace["traceEvents"]])


if __name__ == "__main__":
    unittest.main()
