"""Safetensors files for tests, read and written without any library."""
import array
import json

CODES = {"F32": "f", "I64": "q", "U8": "B"}


def read(path):
    """{name: (dtype, shape, values)} and the metadata."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["dtype"], entry["shape"], array.array(CODES[entry["dtype"]], content[begin:end]))
    return tensors, metadata


def write(path, tensors):
    """Of {name: (dtype, shape, values)}."""
    header, data = {}, b""
    for name, (dtype, shape, values) in sorted(tensors.items(), key=lambda item: -item[1][2].itemsize):
        content = values.tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
