#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/concurrency/latency_histogram.h"

namespace brigade::rpc {

/// The content type of `MetricsText`.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Writes metrics in Prometheus's text format, version 0.0.4. Names are of [a-z0-9_], and those of
/// counters end with "_total"; `help` is one line without backslashes.
class MetricsText {
 public:
  template <class T>
  MetricsText& counter(std::string_view name, std::string_view help, const T& value) {
    return single(name, "counter", help, value);
  }
  template <class T>
  MetricsText& gauge(std::string_view name, std::string_view help, const T& value) {
    return single(name, "gauge", help, value);
  }
  /// One value for each label value: `name{label="0"} value`. Label values have neither quotes nor
  /// backslashes nor line ends.
  template <class T>
  MetricsText& gauges(std::string_view name, std::string_view help, std::string_view label,
                      const std::vector<std::pair<std::string, T>>& values) {
    begin(name, "gauge", help);
    for (const auto& [of, value] : values)
      text_ += base::str_cat(name, "{", label, "=\"", of, "\"} ", value, "\n");
    return *this;
  }
  /// In seconds.
  MetricsText& histogram(std::string_view name, std::string_view help,
                         const concurrency::LatencyCounts& counts);

  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  template <class T>
  MetricsText& single(std::string_view name, std::string_view type, std::string_view help,
                      const T& value) {
    begin(name, type, help);
    text_ += base::str_cat(name, " ", value, "\n");
    return *this;
  }

  std::string text_;
};

}  // namespace brigade::rpc
