#include "brigade/cluster/cluster_json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/strict_json.h"

namespace brigade::cluster {
namespace {

using Json = nlohmann::json;

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {}

  DescribedCluster parse(std::string_view text) const {
    constexpr std::size_t kDeepest = 32;
    const Json json =
        io::parse_strict_json(text, kDeepest, [this](const std::string& why) { fail(why + "."); });
    expect(json.is_object(), json, "the whole", "an object");
    check_keys(json);
    check_rpc_layer(json);
    DescribedCluster described;
    if (json.contains("cluster")) described.cluster = cluster_of(json["cluster"]);
    if (json.contains("task")) described.task = task_of(json["task"]);
    return described;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kInvalidArgument, source_, ": ", why);
  }

  void expect(bool is_right, const Json& value, std::string_view path,
              std::string_view wanted) const {
    if (!is_right) fail(base::str_cat(path, " must be ", wanted, ", not ", described(value), "."));
  }

  static std::string described(const Json& value) {
    constexpr std::size_t kLongest = 40;
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    const std::string shown = text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
    return base::str_cat("the ", value.type_name(), " ", shown);
  }

  // Other programs may use other keys, but one that is nearly a known key is a typing mistake.
  void check_keys(const Json& json) const {
    const std::vector<std::string> known = {"cluster", "task", "rpc_layer"};
    for (const auto& [key, value] : json.items()) {
      const auto near = base::nearest(key, known);
      if (near && *near != key && !json.contains(*near)) {
        fail(base::str_cat("there is a key ", base::quoted(key),
                           " that is not known; did you mean ", base::quoted(*near), "?"));
      }
    }
  }

  void check_rpc_layer(const Json& json) const {
    if (!json.contains("rpc_layer") || json["rpc_layer"].is_null()) return;
    const Json& layer = json["rpc_layer"];
    expect(layer.is_string(), layer, "rpc_layer", "a string");
    if (layer != "grpc")
      fail(base::str_cat("rpc_layer is ", base::shortened(layer.dump()),
                         "; only \"grpc\" is built in."));
  }

  ClusterSpec cluster_of(const Json& json) const {
    expect(json.is_object(), json, "cluster", "an object of jobs");
    std::map<std::string, ClusterSpec::Tasks> jobs;
    for (const auto& [job, tasks] : json.items()) {
      const std::string path = base::str_cat("cluster.", base::shortened(job));
      jobs[job] = tasks.is_array() ? list_of(tasks, path) : tasks_of(tasks, path);
    }
    try {
      return ClusterSpec(std::move(jobs));
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  ClusterSpec::Tasks list_of(const Json& json, const std::string& path) const {
    ClusterSpec::Tasks tasks;
    for (const Json& address : json) {
      const int index = static_cast<int>(tasks.size());
      expect(address.is_string(), address, base::str_cat(path, "[", index, "]"),
             "a string \"host:port\"");
      tasks.emplace(index, address.get<std::string>());
    }
    return tasks;
  }

  ClusterSpec::Tasks tasks_of(const Json& json, const std::string& path) const {
    expect(json.is_object(), json, path, "a list of addresses, or an object from indices to them");
    ClusterSpec::Tasks tasks;
    for (const auto& [key, address] : json.items()) {
      const std::string key_path = base::str_cat(path, ".", base::shortened(key));
      const auto index = base::parse_index(key);
      if (!index)
        fail(base::str_cat("the key of ", key_path, " must be a task's index, 0 or more."));
      expect(address.is_string(), address, key_path, "a string \"host:port\"");
      if (!tasks.emplace(*index, address.get<std::string>()).second) {
        fail(base::str_cat(path, " has the index ", *index, " twice."));
      }
    }
    return tasks;
  }

  std::optional<Task> task_of(const Json& json) const {
    expect(json.is_object(), json, "task", "an object with \"type\" and \"index\"");
    if (json.empty()) return std::nullopt;
    for (const char* key : {"type", "index"}) {
      if (!json.contains(key)) fail(base::str_cat("task.", key, " is missing."));
    }
    const Json& type = json["type"];
    expect(type.is_string(), type, "task.type", "a string");
    return Task{type.get<std::string>(), task_index(json["index"])};
  }

  // A string of digits is accepted too, as TensorFlow does: container templates write strings.
  int task_index(const Json& json) const {
    const bool can_be_read = json.is_number_integer() || json.is_string();
    expect(can_be_read, json, "task.index", "a whole number");
    const auto index = base::parse_index(json.is_string() ? json.get<std::string>() : json.dump());
    if (!index)
      fail(
          base::str_cat("task.index is ", base::shortened(json.dump()), "; indices count from 0."));
    return *index;
  }

  std::string_view source_;
};

}  // namespace

DescribedCluster parse_cluster_json(std::string_view text, std::string_view source) {
  return Parser(source).parse(text);
}

}  // namespace brigade::cluster
