#include "brigade/machine/device_spec.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::machine {
namespace {

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

  DeviceSpec short_form(std::string_view name) {
    read_device(base::split(name, ':'), 0);
    return spec_;
  }

  DeviceSpec path_form(std::string_view path) {
    const auto parts = base::split(path.substr(1), '/');
    for (const auto& part : parts) read_part(part);
    return spec_;
  }

 private:
  void read_part(const std::string& part) {
    const auto words = base::split(part, ':');
    const std::string key = base::lower_case(words.front());
    if (key == "job") {
      read_job(words);
    } else if (key == "replica") {
      read_number(words, spec_.replica);
    } else if (key == "task") {
      read_number(words, spec_.task);
    } else if (key == "device") {
      read_device(words, 1);
      if (words.size() < 3) refuse("the device has no index");
    } else {
      read_device(words, 0);
    }
  }

  void read_job(const std::vector<std::string>& words) {
    if (words.size() != 2 || !is_job_name(words[1])) refuse("its job is not a name");
    if (spec_.job) refuse("it has two jobs");
    spec_.job = words[1];
  }

  void read_number(const std::vector<std::string>& words, std::optional<int>& field) {
    if (words.size() != 2) refuse(base::str_cat(base::quoted(words.front()), " needs one number"));
    if (field) refuse(base::str_cat("it has ", base::quoted(words.front()), " twice"));
    field = number(words[1]);
  }

  // `first` is the word of the type; an index may follow it.
  void read_device(const std::vector<std::string>& words, std::size_t first) {
    if (spec_.type) refuse("it names two devices");
    if (words.size() <= first || words.size() > first + 2) refuse("its parts are not TYPE:INDEX");
    const std::string word = base::lower_case(words[first]);
    spec_.type = type_from(word);
    if (word == "tpu" || word == "xla")
      refuse("TPUs are not supported (docs/guide/tpu.md says what it would take)");
    if (!spec_.type)
      refuse(base::str_cat(base::quoted(words[first]), " is neither cpu nor gpu (cuda)"));
    if (words.size() > first + 1 && words[first + 1] != "*") spec_.index = number(words[first + 1]);
  }

  int number(std::string_view word) const {
    const auto value = base::parse_index(word);
    if (!value) refuse(base::str_cat(base::quoted(word), " is not an index (0, 1, 2, ...)"));
    return *value;
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::kInvalidArgument, base::quoted(text_), " is not a device name: ", why,
                ". ", kDeviceSpellings);
  }

  std::string_view text_;
  DeviceSpec spec_;
};

template <class T>
std::optional<T> first_set(const std::optional<T>& inner, const std::optional<T>& outer) {
  return inner ? inner : outer;
}

}  // namespace

DeviceSpec DeviceSpec::parse(std::string_view text) {
  const std::string_view name = base::trim(text);
  if (name.empty()) return {};
  Reader reader(text);
  return name.front() == '/' ? reader.path_form(name) : reader.short_form(name);
}

DeviceSpec DeviceSpec::merged_over(const DeviceSpec& outer) const {
  return {.job = first_set(job, outer.job),
          .replica = first_set(replica, outer.replica),
          .task = first_set(task, outer.task),
          .type = first_set(type, outer.type),
          .index = first_set(index, outer.index)};
}

std::string DeviceSpec::to_string() const {
  std::string path;
  if (job) path += base::str_cat("/job:", *job);
  if (replica) path += base::str_cat("/replica:", *replica);
  if (task) path += base::str_cat("/task:", *task);
  if (!type) return path;
  const std::string_view word = *type == DeviceType::kCpu ? "CPU" : "GPU";
  const std::string which = index ? base::str_cat(*index) : "*";
  return base::str_cat(path, "/device:", word, ":", which);
}

}  // namespace brigade::machine
