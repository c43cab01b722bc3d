#include "brigade/summary/run_metadata.h"

#include <map>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/summary/proto/run_metadata.pb.h"
#include "brigade/summary/utf8.h"

namespace brigade::summary {
namespace {

void check_timing(const NodeTiming& timing) {
  check_utf8(timing.node, base::str_cat("the node's name \"", timing.node, "\""));
  check_utf8(timing.device, base::str_cat("the device of node \"", timing.node, "\""));
  check_argument(timing.duration.count() >= 0,
                 base::str_cat("node \"", timing.node, "\" took ", timing.duration.count(),
                               " microseconds; a duration is 0 or more"));
}

void write_timing(proto::NodeExecStats& message, const NodeTiming& timing) {
  message.set_node_name(timing.node);
  message.set_all_start_micros(timing.begin.count());
  message.set_op_end_rel_micros(timing.duration.count());
  message.set_all_end_rel_micros(timing.duration.count());
  message.set_thread_id(timing.thread);
}

}  // namespace

std::string encode_run_metadata(std::span<const NodeTiming> timings) {
  std::map<std::string, proto::DeviceStepStats> devices;
  for (const NodeTiming& timing : timings) {
    check_timing(timing);
    write_timing(*devices[timing.device].add_node_stats(), timing);
  }
  proto::RunMetadata message;
  for (auto& [name, stats] : devices) {
    stats.set_device(name);
    message.mutable_step_stats()->add_dev_stats()->Swap(&stats);
  }
  return message.SerializeAsString();
}

}  // namespace brigade::summary
