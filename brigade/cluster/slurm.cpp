#include "brigade/cluster/slurm.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

constexpr const char* kRank = "SLURM_PROCID";
constexpr const char* kLocalRank = "SLURM_LOCALID";
constexpr const char* kHosts = "SLURM_STEP_NODELIST";
constexpr const char* kTasksPerHost = "SLURM_STEP_TASKS_PER_NODE";
constexpr const char* kHostIndex = "SLURM_NODEID";

// Older versions of Slurm know SLURM_NTASKS alone.
const char* size_variable(const VariableReader& variables) {
  constexpr const char* kSize = "SLURM_STEP_NUM_TASKS";
  constexpr const char* kOldSize = "SLURM_NTASKS";
  return !variables.has(kSize) && variables.has(kOldSize) ? kOldSize : kSize;
}

template <class Parse>
auto expanded(const VariableReader& variables, const char* name, const Parse& parse) {
  try {
    return parse(variables.required_text(name));
  } catch (const Error& error) {
    variables.refuse(name, " is wrong. ", error.what());
  }
}

int port_of_step(const VariableReader& variables) {
  const std::string job =
      variables.text("SLURM_JOB_ID").value_or(variables.text("SLURM_JOBID").value_or(""));
  const std::string step =
      variables.text("SLURM_STEP_ID").value_or(variables.text("SLURM_STEPID").value_or(""));
  return port_of_job(base::str_cat(job, ".", step));
}

// How many tasks this host has, if Slurm says both what is needed.
std::optional<int> local_tasks(const VariableReader& variables, const ClusterConfig& config,
                               std::size_t hosts) {
  if (!variables.has(kTasksPerHost)) return std::nullopt;
  const std::vector<int> tasks = expanded(variables, kTasksPerHost, expand_tasks_per_node);
  const int sum = std::accumulate(tasks.begin(), tasks.end(), 0);
  if (tasks.size() != hosts || sum != config.world_size) {
    variables.refuse(kTasksPerHost, " counts ", sum, " tasks on ", tasks.size(),
                     " hosts, but there are ", config.world_size, " tasks on ", hosts, " hosts.");
  }
  const auto host = variables.number(kHostIndex, 0);
  if (!host) return std::nullopt;
  if (static_cast<std::size_t>(*host) >= tasks.size()) {
    variables.refuse(kHostIndex, " is ", *host, ", but there are ", tasks.size(), " hosts.");
  }
  return tasks[static_cast<std::size_t>(*host)];
}

std::string rendezvous_address(const VariableReader& variables, const std::string& first_host) {
  const int port = port_of_step(variables);
  if (variables.has(kMasterAddressVariable)) return to_string(variables.required_master(port));
  return to_string(Address{first_host, variables.number(kMasterPortVariable, 1).value_or(port)});
}

constexpr std::size_t kMostHosts = 65536;

[[noreturn]] void refuse_list(std::string_view list, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, "The list ", base::quoted(list),
              " is not one of Slurm's: ", why, ".");
}

std::optional<int> number_of(std::string_view digits) {
  constexpr std::size_t kMostDigits = 9;
  return digits.size() > kMostDigits ? std::nullopt : base::parse_index(digits);
}

class HostlistParser {
 public:
  explicit HostlistParser(std::string_view list) : list_(list) {}

  std::vector<std::string> parse() const {
    std::vector<std::string> hosts;
    if (list_.empty()) refuse_list(list_, "it is empty");
    for (const std::string_view part : parts()) {
      for (std::string& host : hosts_of(part)) hosts.push_back(std::move(host));
      check_count(hosts.size());
    }
    return hosts;
  }

 private:
  void check_count(std::size_t count) const {
    if (count > kMostHosts)
      refuse_list(list_, base::str_cat("it names more than ", kMostHosts, " hosts"));
  }

  // At the commas outside brackets.
  std::vector<std::string_view> parts() const {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    bool is_inside = false;
    for (std::size_t i = 0; i <= list_.size(); ++i) {
      if (i == list_.size() || (list_[i] == ',' && !is_inside)) {
        if (i == begin) refuse_list(list_, "a host is empty");
        parts.push_back(list_.substr(begin, i - begin));
        begin = i + 1;
      } else if (list_[i] == '[' || list_[i] == ']') {
        if (is_inside == (list_[i] == '[')) refuse_list(list_, "its brackets do not match");
        is_inside = !is_inside;
      }
    }
    if (is_inside) refuse_list(list_, "its brackets do not match");
    return parts;
  }

  // All combinations of the text before a bracket, its numbers, and the text after it.
  std::vector<std::string> hosts_of(std::string_view part) const {
    std::vector<std::string> hosts = {""};
    while (!part.empty()) {
      const std::size_t open = part.find('[');
      for (std::string& host : hosts) host += part.substr(0, open);
      if (open == std::string_view::npos) break;
      const std::size_t close = part.find(']');
      hosts = product(hosts, numbers_of(part.substr(open + 1, close - open - 1)));
      part.remove_prefix(close + 1);
    }
    return hosts;
  }

  std::vector<std::string> product(const std::vector<std::string>& begins,
                                   const std::vector<std::string>& ends) const {
    check_count(begins.size() * ends.size());
    std::vector<std::string> all;
    for (const std::string& begin : begins) {
      for (const std::string& end : ends) all.push_back(begin + end);
    }
    return all;
  }

  std::vector<std::string> numbers_of(std::string_view ranges) const {
    std::vector<std::string> numbers;
    for (const std::string& range : base::split(ranges, ',')) append_range(numbers, range);
    return numbers;
  }

  // As wide as its first number is written: 08-11 is 08, 09, 10, 11.
  void append_range(std::vector<std::string>& numbers, const std::string& range) const {
    const std::size_t dash = range.find('-');
    const std::string first_text = range.substr(0, dash);
    const auto first = number_of(first_text);
    const auto last = dash == std::string::npos ? first : number_of(range.substr(dash + 1));
    if (!first || !last || *last < *first) {
      refuse_list(list_, base::str_cat(base::quoted(range), " is no range of numbers"));
    }
    check_count(numbers.size() + static_cast<std::size_t>(*last - *first) + 1);
    for (int number = *first; number <= *last; ++number) {
      const std::string digits = std::to_string(number);
      const std::size_t width = std::max(first_text.size(), digits.size());
      numbers.push_back(std::string(width - digits.size(), '0') + digits);
    }
  }

  std::string_view list_;
};

// "3(x2)" is {3, 2}; "3" is {3, 1}.
struct Repeated {
  std::optional<int> value;
  std::optional<int> times = 1;
};

Repeated repeated(std::string_view part) {
  const std::size_t open = part.find("(x");
  if (open == std::string_view::npos) return {.value = number_of(part)};
  if (!part.ends_with(')')) return {};
  return {.value = number_of(part.substr(0, open)),
          .times = number_of(part.substr(open + 2, part.size() - open - 3))};
}

}  // namespace

std::optional<ClusterConfig> resolve_slurm(const Environment& environment) {
  const VariableReader variables(environment, "Slurm's environment");
  if (!variables.has(kHosts)) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, kRank, size_variable(variables));
  const std::vector<std::string> hosts = expanded(variables, kHosts, expand_hostlist);
  config.local_rank = variables.number(kLocalRank, 0);
  config.local_world_size = local_tasks(variables, config, hosts.size());
  config.generation = variables.number("SLURM_RESTART_COUNT", 0).value_or(0);
  if (config.world_size > 1) config.rendezvous = rendezvous_address(variables, hosts.front());
  return config;
}

std::vector<std::string> expand_hostlist(std::string_view list) {
  return HostlistParser(list).parse();
}

std::vector<int> expand_tasks_per_node(std::string_view list) {
  std::vector<int> counts;
  for (const std::string& part : base::split(list, ',')) {
    const Repeated tasks = repeated(part);
    if (!tasks.value || !tasks.times)
      refuse_list(list, base::str_cat(base::quoted(part), " is no count"));
    if (counts.size() + static_cast<std::size_t>(*tasks.times) > kMostHosts) {
      refuse_list(list, base::str_cat("it names more than ", kMostHosts, " hosts"));
    }
    counts.insert(counts.end(), static_cast<std::size_t>(*tasks.times), *tasks.value);
  }
  return counts;
}

}  // namespace brigade::cluster
