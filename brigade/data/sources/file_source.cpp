#include "brigade/data/sources/file_source.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {

std::shared_ptr<const io::FileSystem> file_system_or_default(
    std::shared_ptr<const io::FileSystem> given) {
  return given != nullptr ? std::move(given) : io::posix_file_system();
}

void check_buffer(std::size_t buffer_bytes, std::string_view source) {
  if (buffer_bytes >= 1) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(source, ": buffer_bytes is 0; it must be 1 or more"));
}

io::StateTree save_file_position(std::string_view source, const FilePosition& position) {
  return make_position(source, {{"offset", position.offset},
                                {"at_end", std::uint64_t{position.is_at_end ? 1u : 0u}}});
}

FilePosition load_file_position(const io::StateTree& state, std::string_view source) {
  check_position(state, source);
  return {.offset = position_number(state, "offset"),
          .is_at_end = position_number(state, "at_end") != 0};
}

}  // namespace brigade::data::internal
