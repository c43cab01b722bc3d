#include "brigade/summary/trace.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"

namespace brigade::summary {
namespace {

using base::str_cat;
using nlohmann::json;

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

json argument(const std::string& value) {
  return value;
}
json argument(std::int64_t value) {
  return value;
}
json argument(double value) {
  if (std::isfinite(value)) return value;
  return str_cat(value);  // not representable as a JSON number
}

void check_event(const TraceEvent& event) {
  base::check_utf8(event.name, "the trace event's name \"", event.name, "\"");
  const auto check = [&](std::string_view text) {
    base::check_utf8(text, "a text of trace event \"", event.name, "\"");
  };
  check(event.category);
  for (const auto& [name, value] : event.args) {
    check(name);
    if (const auto* text = std::get_if<std::string>(&value)) check(*text);
  }
  check_argument(event.duration.count() >= 0, "trace event \"", event.name, "\" took ",
                 event.duration.count(), " ns; a duration is 0 or more");
}

json bar(const TraceEvent& event) {
  json result = {{"ph", "X"},
                 {"name", event.name},
                 {"cat", event.category},
                 {"ts", microseconds(event.begin)},
                 {"dur", microseconds(event.duration)},
                 {"pid", event.replica},
                 {"tid", event.thread}};
  for (const auto& [name, value] : event.args) {
    result["args"][name] = std::visit([](const auto& content) { return argument(content); }, value);
  }
  return result;
}

json label(std::string_view kind, std::int64_t replica, std::int64_t thread,
           const std::string& name) {
  base::check_utf8(name, "the name \"", name, "\" in a trace");
  return {
      {"ph", "M"}, {"name", kind}, {"pid", replica}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// Collects events as text, which takes a small part of the memory of JSON values.
class TraceText {
 public:
  void add(const json& event) {
    text_ += is_empty_ ? "\n" : ",\n";
    text_ += event.dump();
    is_empty_ = false;
  }
  std::string finish() && { return std::move(text_) + "\n]}\n"; }

 private:
  std::string text_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
  bool is_empty_ = true;
};

}  // namespace

std::string chrome_trace(std::span<const TraceEvent> events, const TraceNames& names) {
  TraceText text;
  for (const auto& [replica, name] : names.replicas) {
    text.add(label("process_name", replica, 0, name));
  }
  for (const auto& [ids, name] : names.threads) {
    text.add(label("thread_name", ids.first, ids.second, name));
  }
  for (const TraceEvent& event : events) {
    check_event(event);
    text.add(bar(event));
  }
  return std::move(text).finish();
}

io::Path write_chrome_trace(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::span<const TraceEvent> events, const TraceNames& names) {
  io::Path path = directory / str_cat("timeline-", step, ".json");
  io::atomic_write(files, path, chrome_trace(events, names));
  return path;
}

}  // namespace brigade::summary
