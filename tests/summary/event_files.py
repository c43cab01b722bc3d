"""Reads event files with only the knowledge of their formats: TFRecord framing and protobuf's encoding. Standard library only."""
import collections
import struct


class Broken(Exception):
    """The file is invalid."""


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(content):
    """The complete records of a file's content, and the number of bytes of an incomplete one."""
    found, offset = [], 0
    while len(content) - offset >= 12:
        length, length_sum = struct.unpack_from("<QI", content, offset)
        if length_sum != masked_crc32c(content[offset:offset + 8]):
            raise Broken(f"checksum of the length at byte {offset}")
        end = offset + 12 + length
        if end + 4 > len(content):
            break
        data = content[offset + 12:end]
        if struct.unpack_from("<I", content, end)[0] != masked_crc32c(data):
            raise Broken(f"checksum of the data at byte {offset}")
        found.append(data)
        offset = end + 4
    return found, len(content) - offset


def _varint(data, offset):
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if not byte & 0x80:
            return value, offset


def fields(data):
    """A protobuf message as {field number: [values]}; doubles and floats are unpacked, submessages are bytes."""
    found, offset = collections.defaultdict(list), 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        kind = key & 7
        if kind == 0:
            value, offset = _varint(data, offset)
        elif kind == 1:
            [value], offset = struct.unpack_from("<d", data, offset), offset + 8
        elif kind == 2:
            length, offset = _varint(data, offset)
            value, offset = data[offset:offset + length], offset + length
            if len(value) != length:
                raise Broken("a field that is longer than its message")
        elif kind == 5:
            [value], offset = struct.unpack_from("<f", data, offset), offset + 4
        else:
            raise Broken(f"wire type {kind}")
        found[key >> 3].append(value)
    return dict(found)


def doubles(data):
    """A packed list of doubles."""
    return list(struct.unpack(f"<{len(data) // 8}d", data))
