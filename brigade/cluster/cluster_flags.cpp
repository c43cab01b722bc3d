#include "brigade/cluster/cluster_flags.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {
namespace {

ClusterSpec::Tasks tasks_of(std::string_view addresses) {
  ClusterSpec::Tasks tasks;
  for (const std::string& address : base::split(addresses, ',')) {
    tasks.emplace(static_cast<int>(tasks.size()), base::trim(address));
  }
  return tasks;
}

}  // namespace

ClusterSpec parse_cluster_flag(std::string_view text) {
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const std::string& part : base::split(text, ';')) {
    const std::size_t equals = part.find('=');
    const std::string job(base::trim(part.substr(0, equals)));
    if (equals == std::string::npos || job.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  base::str_cat(base::quoted(part), " in the cluster ", base::quoted(text),
                                " is not job=addresses; ",
                                "write a cluster as chief=a:2222;worker=b:2222,c:2222."));
    }
    check_argument(
        jobs.emplace(job, tasks_of(part.substr(equals + 1))).second,
        base::str_cat("The cluster ", base::quoted(text), " has the job ", base::quoted(job),
                      " twice; list its addresses once, separated by commas."));
  }
  return ClusterSpec(std::move(jobs));
}

Task parse_task_flag(std::string_view text) {
  if (text.starts_with('/')) return parse_task(text);
  try {
    const std::size_t colon = text.find(':');
    const std::string_view index = colon == std::string_view::npos ? "0" : text.substr(colon + 1);
    return parse_task(base::str_cat("/job:", text.substr(0, colon), "/task:", index));
  } catch (const Error&) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(base::quoted(text), " names no task; write it as worker:1."));
  }
}

}  // namespace brigade::cluster
