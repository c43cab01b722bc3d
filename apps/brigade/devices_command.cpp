#include <torch/version.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/report.h"
#include "brigade/base/strings.h"
#include "brigade/device/arithmetic_fingerprint.h"
#include "brigade/device/device.h"
#include "brigade/device/numerics.h"
#include "brigade/device/peer_access.h"
#include "brigade/machine/process_memory.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {
namespace {

constexpr const char* kDevicesExamples = R"(Examples:
  brigade devices
      a table of the logical devices, one thread each
  brigade devices --threads-per-replica 2 --json
      CPUs of two cores each, with JSON output)";

constexpr bool kCudaBuilt = BRIGADE_CUDA_BUILT != 0;

using Row = std::vector<std::string>;

std::string cores_text(const device::Device& device) {
  return device.cores.empty() ? "any" : device.cores.to_string();
}

Row row_of(const device::Device& device) {
  return {device.name.to_string(), device.name.tensorflow_name(), device.torch_device.str(),
          cores_text(device), std::to_string(device.threads)};
}

// Columns as wide as their widest cell.
std::string format_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Json json_of(const device::Device& device) {
  return {{"name", device.name.to_string()},
          {"tensorflow_name", device.name.tensorflow_name()},
          {"torch_device", device.torch_device.str()},
          {"cores", device.cores.cores()},
          {"threads", device.threads}};
}

// One device for each memory: devices that share a memory reach the others in the same way.
std::vector<device::Device> one_for_each_memory(const std::vector<device::Device>& devices) {
  std::vector<device::Device> memories;
  for (const device::Device& device : devices) {
    const bool is_known = std::any_of(
        memories.begin(), memories.end(),
        [&](const device::Device& known) { return known.torch_device == device.torch_device; });
    if (!is_known) memories.push_back(device);
  }
  return memories;
}

Json json_of_reach(const std::vector<device::Device>& memories) {
  const auto reach = device::reach_table(memories);
  Json json = Json::object();
  for (std::size_t from = 0; from < memories.size(); ++from) {
    Json& row = json[memories[from].torch_device.str()];
    for (std::size_t to = 0; to < memories.size(); ++to)
      row[memories[to].torch_device.str()] = to_string(reach[from][to]);
  }
  return json;
}

// A line for each memory; nothing where there is only one.
std::vector<Row> rows_of_reach(const std::vector<device::Device>& memories) {
  if (memories.size() == 1) return {};
  const auto reach = device::reach_table(memories);
  std::vector<Row> rows = {{"REACHES"}};
  for (const device::Device& to : memories) rows.front().push_back(to.torch_device.str());
  for (std::size_t from = 0; from < memories.size(); ++from) {
    Row& row = rows.emplace_back(Row{memories[from].torch_device.str()});
    for (const device::Reach way : reach[from]) row.emplace_back(to_string(way));
  }
  return rows;
}

// What each value of --numerics of train, evaluate and bench sets, on GPUs.
Json json_of_numerics() {
  Json json;
  for (const std::string& name : device::numerics_names()) {
    const auto settings = device::settings_of(device::numerics_from(name));
    json[name] = {{"deterministic", settings.deterministic},
                  {"tf32", settings.tf32},
                  {"cudnn_benchmark", settings.cudnn_benchmark}};
  }
  return json;
}

std::string text_of_numerics() {
  std::vector<std::string> all;
  for (const std::string& name : device::numerics_names()) {
    all.push_back(base::str_cat(
        name, " (", device::describe(device::settings_of(device::numerics_from(name))), ")"));
  }
  return base::str_cat("on GPUs ", base::join(all, " or "));
}

class DevicesCommand final : public Command {
 public:
  explicit DevicesCommand(CLI::App& parent)
      : Command(parent, "devices", "Show the devices that replicas can run on") {
    FlagGroup(parser_).add("--threads-per-replica", options_.threads_per_cpu,
                           "Threads, and cores, of each logical CPU");
    FlagGroup(parser_).add("--logical-gpus", options_.logical_gpus_per_card,
                           "Logical GPUs of each card");
    output_.add_to(parser_);
    parser_.footer(kDevicesExamples);
  }

  int run() override {
    const device::Hardware hardware = device::discover_hardware();
    const auto devices = set_up([&] { return device::available_devices(options_, hardware); });
    const std::string arithmetic = device::arithmetic_fingerprint(options_.threads_per_cpu);
    output_.print(describe(hardware, devices, arithmetic),
                  describe_as_text(hardware, devices, arithmetic));
    return kDone;
  }

 private:
  static Json describe(const device::Hardware& hardware, const std::vector<device::Device>& devices,
                       const std::string& arithmetic) {
    Json json;
    json["devices"] = Json::array();
    for (const device::Device& device : devices) json["devices"].push_back(json_of(device));
    json["reach"] = json_of_reach(one_for_each_memory(devices));
    json["processor"] = hardware.topology.processor;
    json["arithmetic_fingerprint"] = arithmetic;
    json["usable_cores"] = hardware.topology.usable_cores();
    json["physical_cores"] = hardware.topology.physical_cores.size();
    json["memory_bytes"] = machine::machine_memory();
    json["gpu_cards"] = hardware.gpu_cards;
    json["cuda_built"] = kCudaBuilt;
    json["numerics"] = json_of_numerics();
    json["libtorch"] = TORCH_VERSION;
    json["tuning"] = tuning::report().describe();
    return json;
  }

  static std::string describe_as_text(const device::Hardware& hardware,
                                      const std::vector<device::Device>& devices,
                                      const std::string& arithmetic) {
    std::vector<Row> rows = {{"DEVICE", "TENSORFLOW", "LIBTORCH", "CORES", "THREADS"}};
    for (const device::Device& device : devices) rows.push_back(row_of(device));
    const std::string cuda = kCudaBuilt ? base::str_cat("built in, cards: ", hardware.gpu_cards)
                                        : std::string("not built in");
    const std::vector<Row> reach = rows_of_reach(one_for_each_memory(devices));
    std::vector<Row> machine = {
        {"processor", hardware.topology.processor},
        {"arithmetic",
         base::str_cat(arithmetic, " (equal on machines whose results have equal bits)")},
        {"cores", base::str_cat(hardware.topology.usable_cores(), " usable, ",
                                hardware.topology.physical_cores.size(), " physical")},
        {"memory", base::human_bytes(static_cast<std::uint64_t>(machine::machine_memory()))},
        {"CUDA", cuda},
        {"numerics", text_of_numerics()},
        {"libtorch", TORCH_VERSION},
        {"tuning", tuning::report().describe()}};
    if (reach.empty()) {
      machine.push_back({"reach", "all devices share one memory"});
      return format_table(rows) + "\n" + format_table(machine);
    }
    return format_table(rows) + "\n" + format_table(reach) + "\n" + format_table(machine);
  }

  device::DiscoveryOptions options_;
  OutputFlag output_;
};

}  // namespace

std::unique_ptr<Command> make_devices_command(CLI::App& parent) {
  return std::make_unique<DevicesCommand>(parent);
}

}  // namespace brigade::command
