#include "brigade/input/file_numbers.h"

#include <utility>

namespace brigade::input::internal {

data::Dataset<std::int64_t> file_numbers(FileListPtr files) {
  return data::internal::file_elements<std::int64_t>(
      std::move(files), [](std::uint64_t file) { return static_cast<std::int64_t>(file); });
}

}  // namespace brigade::input::internal
