#!/usr/bin/env python3
"""Writes the first files of each corpus: small valid examples of what the parsers read, and some broken ones.

`./dev fuzz` adds what it finds; this program only writes, it removes nothing.
"""

import gzip
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus"
BUNDLES = FOLDER.parents[2] / "brigade/checkpoint/testing/data/tf"


def write(target, **files):
    folder = FOLDER / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(content)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def record(data):
    def masked(part):
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def main():
    write("records", empty=b"", one=record(b"hello"), two=record(b"") + record(b"x" * 100),
          cut=record(b"hello")[:-1], head_only=record(b"hello")[:12], huge=struct.pack("<Q", 1 << 60) + b"abcd" * 3)
    write("gzip", empty=gzip.compress(b"", mtime=0), text=gzip.compress(b"hello " * 20, mtime=0),
          two=gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0), padded=gzip.compress(b"a", mtime=0) + b"\0" * 9,
          cut=gzip.compress(b"hello" * 9, mtime=0)[:-3])
    write("state_json", null="null", numbers='{"a":[1,-2,3.5,{"$u64":"18446744073709551615"}],"b":true}',
          text='{"key":"\\u00fc\\n","list":[[],{},null]}', nested="[" * 50 + "]" * 50)
    write("cluster_json",
          whole='{"cluster":{"chief":["a:1"],"worker":["b:1","c:1"]},"task":{"type":"worker","index":0}}',
          sparse='{"cluster":{"worker":{"0":"b:1","2":"[::1]:99"}},"rpc_layer":"grpc"}', broken='{"cluster":{"worker":[',
          empty="{}")
    write("hostlist", hosts="n[1-2],m5,o[3-4,08]", tasks="3(x2),2,1", two="a[1-2]b[3,5]", many="n[0-99999]")
    write("csv", plain="1,2.5,abc\n-3,,\n", quotes='1,"2","a ""b"", c\nd"\r\n', broken='1,2,"abc', short="1\n2,3\n", empty_lines="\n\n")
    write("text", lines="a\nbc\r\n\nlast", packed=gzip.compress(b"one\ntwo\n" * 9, mtime=0), cut=gzip.compress(b"one\n", mtime=0)[:-5])
    write("idx", images=struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8), labels=struct.pack(">4BI", 0, 0, 8, 1, 3) + b"\1\2\3",
          huge=struct.pack(">4B3I", 0, 0, 8, 3, 1 << 31, 1 << 31, 4), cut=struct.pack(">4BI", 0, 0, 8, 1, 9))
    feature = lambda name, kind, values: field(1, field(1, name) + field(2, field(kind, values)))
    write("example", whole=field(1, feature(b"image", 1, field(1, b"pixels")) + feature(b"label", 3, b"\x0a\x02\x07\x03") +
                                 feature(b"weights", 2, field(1, struct.pack("<2f", 0.5, -1.0)))),
          loose=field(1, feature(b"image", 1, field(1, b"")) + feature(b"label", 3, b"\x08\x07\x08\xff\x01") +
                      feature(b"weights", 2, b"\x0d" + struct.pack("<f", 2.0))), empty=b"", cut=field(1, feature(b"image", 1, field(1, b"x")))[:-2])
    header = b'{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}'
    write("safetensors", whole=struct.pack("<Q", len(header)) + header + bytes(8), cut=struct.pack("<Q", len(header)) + header[:20],
          huge=struct.pack("<Q", 1 << 60) + b"{}", empty=struct.pack("<Q", 2) + b"{}")
    # Key, value, key, value: the header; tensors a (float32 [2]) and p (float32 [3, 1], in two parts) with the entries of its parts.
    piece = lambda content: bytes([len(content)]) + content
    slices = field(7, field(1, b"\x10\x02") + field(1, b"")) + field(7, field(1, b"\x08\x02\x10\x01") + field(1, b""))
    shape = lambda *sizes: field(2, b"".join(field(2, b"\x08" + varint(size)) for size in sizes))
    key = lambda start, length: b"\0p\0\1\1\2" + bytes([0x80 + start, 0x80 + length, 0x80, 0x7f])
    entries = [b"", b"\x08\x02\x1a\x02\x08\x01", b"a", b"\x08\x01" + shape(2) + b"\x20\x0c\x28\x08", b"p", b"\x08\x01" + shape(3, 1) + slices,
               key(0, 2), b"\x08\x01" + shape(2, 1) + b"\x28\x08", key(2, 1), b"\x08\x01" + shape(1, 1) + b"\x18\x01\x28\x04"]
    block = b"\0\0\6" + entries[1] + b"\0\1\x0c" + b"a" + entries[3] + b"\0\0\0\0\1\0\0\0"
    write("tensor_bundle", entries=b"\2" + b"".join(piece(each) for each in entries), block=b"\1" + block, no_blocks=b"\2", v1=b"\2\0\2\x0a\0",
          **{each: b"\0" + (BUNDLES / f"{each}.index").read_bytes() for each in ("saver", "sharded", "whole_axis")})
    write("codec", numbers=struct.pack("<Q3q", 3, 1, -2, 1 << 40), nothing=struct.pack("<Q", 0),
          texts=struct.pack("<QQQ", 2, 1, 2) + b"ab" + struct.pack("<Q", 0), pair=struct.pack("<Q", 2) + b"hi\x01" + struct.pack("<f", 1.5),
          tuple=b"\x01" + struct.pack("<3HQ", 1, 2, 3, 2) + b"\0\1", huge=struct.pack("<Q", 1 << 62))
    scalar = field(1, b"loss") + b"\x15" + struct.pack("<f", 0.5)
    write("event", version=b"\x09" + struct.pack("<d", 1.0) + field(3, b"brain.Event:2"),
          scalar=b"\x09" + struct.pack("<d", 2.0) + b"\x10\x07" + field(5, field(1, scalar)))
    message = lambda text, data=b"": struct.pack("<Q", len(text)) + text + data
    tensor = b'{"dtype":"F32","name":"a","shape":[2]}'
    write("server_message", join=b'\0{"incarnation":1,"job":"worker","protocol":1,"task":2}',
          grant=b'\1{"incarnation":1,"lease_ms":800,"token":"00ff"}',
          reply=b'\4{"decision":{"contributions":[[0,0]],"step":1},"may_begin":true,"token":{"index":0,"step":2},"waiting_for":[]}',
          exchange=b"\7" + message(b'{"header":{"pull":["a"],"push":{"number":1}},"tensors":[' + tensor + b"]}", bytes(8)),
          assign=b"\6" + message(b'{"header":{"step":3,"variables":[{"slots":1,"updates":2}]},"tensors":[' + tensor + b"," + tensor + b"]}",
                                 bytes(16)),
          slots=b"\6" + message(b'{"header":{"step":3,"variables":[{"slots":1000000000,"updates":2}]},"tensors":[' + tensor + b"]}", bytes(8)),
          rows=b"\7" + message(b'{"header":{"pull":["a"],"pull_rows":1,"push":{"number":1,"read_at":3,"rows":1}},"tensors":['
                              b'{"dtype":"I64","name":"a","shape":[2]},' + tensor + b',{"dtype":"I64","name":"b","shape":[1]}]}',
                              struct.pack("<qqffq", 0, 5, 1, 2, 7)),
          role=b'\x0a{"follow_token":"00ff","status":{"candidacy":1,"epoch":3,"is_restored":false,"life":"ab","role":3}}',
          vote=b'\x0b{"candidacy":1,"epoch":4,"life":"ab","voter":"/job:chief/task:0"}',
          follow=b"\x0c" + message(b'{"header":{"applied":7,"from":{"candidacy":1,"epoch":3,"is_restored":false,"life":"ab","role":1},"number":5,"part":0,"source_epoch":3,'
                                   b'"source_life":"cd","wait":1000},"tensors":[]}'),
          records=b"\x0d" + message(b'{"header":{"is_complete":true,"is_finished":false,"must_fill":false,"status":{"candidacy":1,"epoch":3,"is_restored":false,"life":"cd",'
                                    b'"role":3}},"tensors":[{"dtype":"U8","name":"","shape":[5]}]}', b"bytes"),
          huge=b"\7" + struct.pack("<Q", 1 << 62))
    write("coordinator_message",
          join=b'\0{"coordinator":"00ff","incarnation":1,"job":"worker","protocol":1,"task":2}',
          status=b'\2{"is_done":false,"is_wanted":true}', running=b'\3{"running":7}', take=b"\4" + message(b'{"header":{"wait_ms":5},"tensors":[]}'),
          work=b"\5" + message(b'{"header":{"is_done":false,"work":{"coordinator":"00ff","function":"step","id":3,"per_worker":[{"arguments":null,'
                               b'"function":"batches","id":1}],"values":{"rate":0.5}}},"tensors":[' + tensor + b"]}", bytes(8)),
          report=b"\6" + message(b'{"header":{"coordinator":"00ff","id":3,"values":null},"tensors":[' + tensor + b"]}", bytes(8)),
          error=b"\6" + message(b'{"header":{"coordinator":"00ff","error":{"code":4,"message":"why"},"id":3},"tensors":[]}'),
          huge=b"\6" + struct.pack("<Q", 1 << 62))
    header = b"\x08\x08\x12\x04" + b"name" + b"\x18\x80\x80\x40"
    write("message_frame", header=b"\3\x0a" + bytes([len(header)]) + header, bytes=b"\1\x12\x05hello",
          long=b"\xc8\x12\xac\x02" + b"x" * 300, empty=b"\0\x12\x00", huge=b"\2\x12\xff\xff\xff\xff\x7f")


if __name__ == "__main__":
    main()
