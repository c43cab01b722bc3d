#include "brigade/machine/device_name.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::machine {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(
      ErrorCode::kInvalidArgument,
      base::str_cat("'", text, "' is not a device name: ", why,
                    ". Write cpu:0, gpu:0 or cuda:0, /device:CPU:0, or with a task of a cluster "
                    "/job:worker/task:1/device:GPU:0."));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::optional<DeviceType> type_from(std::string_view word) {
  if (word == "cpu") return DeviceType::kCpu;
  if (word == "gpu" || word == "cuda") return DeviceType::kGpu;
  return std::nullopt;
}

bool is_job_name(std::string_view word) {
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word.front())) != 0 &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

// Reads one name, part by part; `text` is kept whole for messages.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  DeviceName short_form(std::string_view name) {
    auto words = base::split(name, ':');
    read_device(words, 0);
    return name_;
  }

  DeviceName path_form(std::string_view path) {
    const auto parts = base::split(path.substr(1), '/');
    for (const auto& part : parts) read_part(part);
    if (!has_device_) refuse(text_, "it names no device");
    return name_;
  }

 private:
  void read_part(const std::string& part) {
    const auto words = base::split(part, ':');
    const std::string key = lower(words.front());
    if (key == "job") {
      read_job(words);
    } else if (key == "replica") {
      read_number(words, name_.replica);
    } else if (key == "task") {
      read_number(words, name_.task);
    } else {
      read_device(words, key == "device" ? 1 : 0);
      if (words.size() < (key == "device" ? 3U : 2U)) refuse(text_, "the device has no index");
    }
  }

  void read_job(const std::vector<std::string>& words) {
    if (words.size() != 2 || !is_job_name(words[1])) refuse(text_, "its job is not a name");
    if (name_.job) refuse(text_, "it has two jobs");
    name_.job = words[1];
  }

  void read_number(const std::vector<std::string>& words, std::optional<int>& place) {
    if (words.size() != 2) refuse(text_, base::str_cat("'", words.front(), "' needs one number"));
    if (place) refuse(text_, base::str_cat("it has '", words.front(), "' twice"));
    place = number(words[1]);
  }

  // `first` is the word of the type; an index may follow it.
  void read_device(const std::vector<std::string>& words, std::size_t first) {
    if (has_device_) refuse(text_, "it names two devices");
    if (words.size() <= first || words.size() > first + 2)
      refuse(text_, "its parts are not TYPE:INDEX");
    const auto type = type_from(lower(words[first]));
    if (!type) refuse(text_, base::str_cat("'", words[first], "' is neither cpu nor gpu (cuda)"));
    name_.type = *type;
    name_.index = words.size() > first + 1 ? number(words[first + 1]) : 0;
    has_device_ = true;
  }

  int number(std::string_view word) const {
    const bool digits = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    const auto value = digits ? base::parse_int(word) : std::nullopt;
    if (!value || *value > std::numeric_limits<int>::max()) {
      refuse(text_, base::str_cat("'", word, "' is not an index (0, 1, 2, ...)"));
    }
    return static_cast<int>(*value);
  }

  std::string_view text_;
  DeviceName name_;
  bool has_device_ = false;
};

}  // namespace

std::string_view to_string(DeviceType type) {
  return type == DeviceType::kCpu ? "cpu" : "gpu";
}

DeviceName DeviceName::parse(std::string_view text) {
  const std::string_view name = base::trim(text);
  if (name.empty()) refuse(text, "it is empty");
  Reader reader(text);
  return name.front() == '/' ? reader.path_form(name) : reader.short_form(name);
}

std::string DeviceName::to_string() const {
  std::string device = base::str_cat(machine::to_string(type), ":", index);
  if (!is_remote()) return device;
  std::string path;
  if (job) path += base::str_cat("/job:", *job);
  if (replica) path += base::str_cat("/replica:", *replica);
  if (task) path += base::str_cat("/task:", *task);
  return base::str_cat(path, "/", device);
}

std::string DeviceName::tensorflow_name() const {
  std::string path;
  if (is_remote()) {
    path = base::str_cat("/job:", job.value_or("localhost"), "/replica:", replica.value_or(0),
                         "/task:", task.value_or(0));
  }
  return base::str_cat(path, "/device:", type == DeviceType::kCpu ? "CPU" : "GPU", ":", index);
}

}  // namespace brigade::machine
