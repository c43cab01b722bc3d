#include "brigade/launch/job_options.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

void check_elastic(const JobOptions& options) {
  const ElasticRange& range = *options.elastic;
  check_argument(range.min >= 1 && range.min <= options.processes && options.processes <= range.max,
                 base::str_cat("An elastic job of ", range.min, " to ", range.max,
                               " processes cannot begin with ", options.processes, "."));
  check_argument(options.arguments_by_rank.empty() && options.coupling == Coupling::kTogether,
                 "An elastic job has one program with the same arguments for all its processes, "
                 "which train together.");
}

}  // namespace

void check(const JobOptions& options) {
  check_argument(!options.command.empty(), "There is no program to launch.");
  check_argument(options.processes >= 1, base::str_cat("A job of ", options.processes,
                                                       " processes was asked for; at least 1."));
  check_argument(options.max_restarts >= 0,
                 base::str_cat("The number of restarts is ", options.max_restarts, "; 0 or more."));
  const std::size_t lines = options.arguments_by_rank.size();
  check_argument(lines == 0 || lines == static_cast<std::size_t>(options.processes),
                 base::str_cat("There are arguments for ", lines, " processes, but the job has ",
                               options.processes, "."));
  if (options.status_port) {
    check_argument(*options.status_port >= 0 && *options.status_port <= 65535,
                   base::str_cat("The status port is ", *options.status_port, "; 0 to 65535."));
  }
  if (options.elastic) check_elastic(options);
}

}  // namespace brigade::launch
