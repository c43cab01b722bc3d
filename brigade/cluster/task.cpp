#include "brigade/cluster/task.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {
namespace {

constexpr std::string_view kJob = "/job:";
constexpr std::string_view kTask = "/task:";

}  // namespace

std::string to_string(const Task& task) {
  return base::str_cat(kJob, task.job, kTask, task.index);
}

Task parse_task(std::string_view text) {
  if (text.starts_with(kJob)) {
    const std::string_view rest = text.substr(kJob.size());
    const std::size_t end = rest.find(kTask);
    if (end != std::string_view::npos && end > 0) {
      const std::string_view job = rest.substr(0, end);
      const auto index = base::parse_index(rest.substr(end + kTask.size()));
      if (index && job.find('/') == std::string_view::npos) return {std::string(job), *index};
    }
  }
  throw Error(ErrorCode::kInvalidArgument, base::quoted(text),
              " names no task; write it as /job:worker/task:1.");
}

}  // namespace brigade::cluster
