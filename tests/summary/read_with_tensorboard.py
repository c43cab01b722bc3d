"""Prints, as one line of JSON, what TensorBoard's reader finds in the sample's folder. Run by the Python that has TensorBoard."""
import io
import json
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.graph_pb2 import GraphDef


def histogram(accumulator, tag):
    [event] = accumulator.Histograms(tag)
    value = event.histogram_value
    return {"head": [value.min, value.max, value.num, value.sum], "limits": list(value.bucket_limit),
            "counts": list(value.bucket)}


def image(accumulator, tag):
    [event] = accumulator.Images(tag)
    picture = Image.open(io.BytesIO(event.encoded_image_string))
    assert (picture.width, picture.height) == (event.width, event.height)
    return [picture.width, picture.height, list(picture.tobytes())]


def main():
    accumulator = EventAccumulator(sys.argv[1])
    accumulator.Reload()
    seen = {"loss": [[event.step, event.value] for event in accumulator.Scalars("loss")]}
    for tag in ("share/input", "share/compute"):
        [event] = accumulator.Scalars(tag)
        seen[tag] = [event.value, event.step]
    for tag in ("weights", "ranges"):
        seen[tag] = histogram(accumulator, tag)
    for tag in ("image1", "image3", "image4"):
        seen[tag] = image(accumulator, tag)
    [note] = accumulator.Tensors("note")
    seen["note"] = note.tensor_proto.string_val[0].decode()
    graph = GraphDef.FromString(accumulator._graph)
    seen["graph"] = {node.name: list(node.input) for node in graph.node}
    [device] = accumulator.RunMetadata("step_6").step_stats.dev_stats
    seen["step_6"] = {node.node_name: node.all_end_rel_micros for node in device.node_stats}
    print(json.dumps(seen))


main()
