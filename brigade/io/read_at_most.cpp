#include "brigade/io/read_at_most.h"

#include <algorithm>
#include <span>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

[[noreturn]] void refuse(const Path& path, std::uint64_t size, std::uint64_t most) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(path, " has ", base::human_bytes(size), "; such a file has at most ",
                            base::human_bytes(most), ": is it the right one?"));
}

}  // namespace

std::string read_at_most(const FileSystem& files, const Path& path, std::uint64_t most) {
  const auto file = files.open(path);
  const auto info = files.info(path);
  const std::uint64_t size = info ? info->size : 0;
  if (size > most) refuse(path, size, most);
  // Files of /proc report a size of 0 bytes.
  constexpr std::uint64_t kFirstPiece = 4096;
  std::string content;
  std::size_t filled = 0;
  do {
    const std::uint64_t room = std::max({size, kFirstPiece, 2 * std::uint64_t{filled}});
    content.resize(std::min(room, most) +
                   1);  // one more byte detects the end, and an oversized file
    filled += file->read(std::as_writable_bytes(std::span(content).subspan(filled)));
    if (filled > most) refuse(path, filled, most);
  } while (filled == content.size());
  content.resize(filled);
  return content;
}

}  // namespace brigade::io
