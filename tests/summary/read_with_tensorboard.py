"""Prints, as one line of JSON, everything that TensorBoard finds in a folder of event files: through its reader, the graph and
the times of its nodes through its graph plugin, as its page gets them."""
import io
import json
import sys

from google.protobuf import text_format
from PIL import Image
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.graph.graphs_plugin import GraphsPlugin

EVERYTHING = {kind: 0 for kind in ("scalars", "histograms", "compressedHistograms", "images", "audio", "tensors")}
RUN = "."  # what TensorBoard calls the folder itself


def histogram(event):
    value = event.histogram_value
    return {"step": event.step, "head": [value.min, value.max, value.num, value.sum, value.sum_squares],
            "limits": list(value.bucket_limit), "counts": list(value.bucket)}


def image(event):
    shown = Image.open(io.BytesIO(event.encoded_image_string))
    assert (shown.width, shown.height) == (event.width, event.height)
    return {"step": event.step, "size": [shown.width, shown.height], "pixels": list(shown.tobytes())}


def summaries(folder):
    events = EventAccumulator(folder, size_guidance=EVERYTHING)
    events.Reload()
    tags = events.Tags()
    return {"scalars": {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in tags["scalars"]},
            "histograms": {tag: [histogram(event) for event in events.Histograms(tag)] for tag in tags["histograms"]},
            "images": {tag: [image(event) for event in events.Images(tag)] for tag in tags["images"]},
            "texts": {tag: [[event.step, event.tensor_proto.string_val[0].decode()] for event in events.Tensors(tag)]
                      for tag in tags["tensors"]}}


def node(message):
    found = {"op": message.op, "device": message.device, "inputs": list(message.input)}
    if "shape" in message.attr:
        found["shape"] = [dim.size for dim in message.attr["shape"].shape.dim]
    return found


def graph(folder):
    multiplexer = plugin_event_multiplexer.EventMultiplexer(size_guidance=EVERYTHING)
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, folder)
    plugin = GraphsPlugin(TBContext(logdir=folder, multiplexer=multiplexer, data_provider=provider))
    request = RequestContext()
    info = plugin.info_impl(request, experiment="").get(RUN)
    if not info or not info["run_graph"]:
        return {}
    body, _ = plugin.graph_impl(request, RUN, None, False, "")
    nodes = text_format.Parse(body, GraphDef()).node
    times = {}
    for tag in info["tags"]:
        body, _ = plugin.run_metadata_impl(request, "", RUN, tag)
        devices = text_format.Parse(body, RunMetadata()).step_stats.dev_stats
        times[tag] = {each.node_name: [device.device, each.all_end_rel_micros] for device in devices for each in device.node_stats}
    return {"graph": {message.name: node(message) for message in nodes}, "times": times}


def main():
    print(json.dumps({**summaries(sys.argv[1]), **graph(sys.argv[1])}))


main()
