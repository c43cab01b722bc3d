#include "brigade/summary/event_file_reader.h"

#include <string>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::summary {

EventFileReader::EventFileReader(const io::FileSystem& files, io::Path path,
                                 io::RecordReaderOptions options)
    : path_(std::move(path)), records_(files, path_, options) {}

std::optional<Event> EventFileReader::next() {
  const std::uint64_t begin = offset();
  const std::optional<std::string> record = records_.next();
  if (!record) return std::nullopt;
  try {
    return decode_event(*record);
  } catch (const Error& error) {
    throw Error(error.code(), path_, ": the record at byte ", begin, " has ", error.what());
  }
}

std::vector<io::Path> event_files(const io::FileSystem& files, const io::Path& directory) {
  std::vector<io::Path> paths;
  for (const std::string& name : files.list(directory)) {
    // TensorBoard's rule: the word may be anywhere in the name.
    if (name.find("tfevents") != std::string::npos) paths.push_back(directory / name);
  }
  return paths;
}

}  // namespace brigade::summary
