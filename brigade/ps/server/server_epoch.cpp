#include "brigade/ps/server/server_epoch.h"

#include <string>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"

namespace brigade::ps {
namespace {

constexpr const char* kFile = "epoch";

}  // namespace

std::optional<std::int64_t> read_epoch(const io::FileSystem& files, const io::Path& folder) {
  const io::Path path = folder / kFile;
  if (!files.exists(path)) return std::nullopt;
  constexpr std::uint64_t kLongest = 64;
  const std::string text = io::read_at_most(files, path, kLongest);
  const auto epoch = base::parse_int(base::trim(text));
  if (epoch && *epoch >= 0) return epoch;
  throw Error(ErrorCode::kDataLoss, path.string(), " contains ", base::quoted(text),
              ", and should contain a number: the folder is damaged. If the other process of the "
              "server has its variables, empty this folder.");
}

void write_epoch(io::FileSystem& files, const io::Path& folder, std::int64_t epoch) {
  io::atomic_write(files, folder / kFile, std::string_view(base::str_cat(epoch, "\n")));
}

void begin_epoch_alone(io::FileSystem& files, const io::Path& folder, const io::Path& replica) {
  const auto epoch = read_epoch(files, folder);
  if (read_epoch(files, replica).value_or(0) > epoch.value_or(0))
    throw Error(ErrorCode::kFailedPrecondition,
                "The replica of this parameter server has continued without it, so ",
                replica.string(), " has updates that ", folder.string(),
                " lacks: start the server with its replica, or, to do without these updates, "
                "remove that folder.");
  if (!epoch) return;
  if (*epoch == 0)
    throw Error(ErrorCode::kFailedPrecondition, "A replicated parameter server was filling ",
                folder.string(),
                ", and the folder of its other process has the variables: start it with its "
                "replica, or copy that folder over this one.");
  write_epoch(files, folder, *epoch + 1);
}

}  // namespace brigade::ps
