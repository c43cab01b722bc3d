"""The curves in a folder's event files."""
import collections
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "summary"))
import event_files


def curves(folder):
    """{tag: {step: value}} of all event files of `folder`; of duplicate steps the latest counts."""
    found = collections.defaultdict(dict)
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in event_files.records(path.read_bytes())[0]:
            event = event_files.fields(record)
            for summary in event.get(5, []):
                for value in map(event_files.fields, event_files.fields(summary).get(1, [])):
                    if 2 in value:
                        found[value[1][0].decode()][event.get(2, [0])[0]] = value[2][0]
    return found
