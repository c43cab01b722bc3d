#include "brigade/cluster/variable_reader.h"

#include <cstdint>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {

std::string VariableReader::required_text(const std::string& name) const {
  const auto value = environment_(name);
  if (!value) refuse(name, " is missing; set it as well, or none of the set.");
  if (value->empty()) refuse(name, " is empty.");
  return *value;
}

std::optional<int> VariableReader::number(const std::string& name, int lowest) const {
  const auto value = environment_(name);
  if (!value) return std::nullopt;
  const auto number = base::parse_int(base::trim(*value));
  if (number && *number >= lowest && *number <= std::numeric_limits<int>::max()) {
    return static_cast<int>(*number);
  }
  refuse(name, " is ", base::quoted(*value), ", which is not a whole number from ", lowest, " on.");
}

int VariableReader::required_number(const std::string& name, int lowest) const {
  required_text(name);
  return *number(name, lowest);
}

std::string VariableReader::required_address(const std::string& name) const {
  std::string text = required_text(name);
  try {
    parse_address(text);
  } catch (const Error& error) {
    refuse(name, " is wrong: ", error.what());
  }
  return text;
}

Address VariableReader::required_master(std::optional<int> default_port) const {
  const std::string host = required_text(kMasterAddressVariable);
  const int port = default_port && !has(kMasterPortVariable)
                       ? *default_port
                       : required_number(kMasterPortVariable, 1);
  try {
    return parse_address(to_string(Address{host, port}));
  } catch (const Error& error) {
    refuse(kMasterAddressVariable, " and ", kMasterPortVariable,
           " make no address: ", error.what());
  }
}

void VariableReader::read_rank(ClusterConfig& config, const std::string& rank,
                               const std::string& size) const {
  config.rank = required_number(rank, 0);
  config.world_size = required_number(size, 1);
  if (config.rank >= config.world_size) {
    refuse(rank, " is ", config.rank, " and ", size, " is ", config.world_size,
           "; ranks go from 0 to ", config.world_size - 1, ".");
  }
  config.task = {"worker", config.rank};
  config.source = source_;
}

void VariableReader::read_local_rank(ClusterConfig& config, const std::string& rank,
                                     const std::string& size) const {
  config.local_rank = number(rank, 0);
  config.local_world_size = number(size, 1);
  if (!config.local_rank || !config.local_world_size) return;
  if (*config.local_rank >= *config.local_world_size) {
    refuse(rank, " is ", *config.local_rank, " and ", size, " is ", *config.local_world_size,
           "; local ranks go from 0 to ", *config.local_world_size - 1, ".");
  }
  if (*config.local_world_size > config.world_size) {
    refuse(size, " is ", *config.local_world_size, ", more than all processes, which are ",
           config.world_size, ".");
  }
}

int port_of_job(std::string_view name) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  constexpr std::uint32_t kLowest = 15000;
  constexpr std::uint32_t kPorts = 10000;
  return static_cast<int>(kLowest + hash % kPorts);
}

}  // namespace brigade::cluster
