#include "brigade/rpc/metrics_text.h"

namespace brigade::rpc {

void MetricsText::begin(std::string_view name, std::string_view type, std::string_view help) {
  text_ += base::str_cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

MetricsText& MetricsText::histogram(std::string_view name, std::string_view help,
                                    const concurrency::LatencyCounts& counts) {
  begin(name, "histogram", help);
  std::int64_t until = 0;
  for (std::size_t i = 0; i < concurrency::kLatencyBounds.size(); ++i) {
    until += counts.buckets[i];
    const double bound = std::chrono::duration<double>(concurrency::kLatencyBounds[i]).count();
    text_ += base::str_cat(name, "_bucket{le=\"", bound, "\"} ", until, "\n");
  }
  until += counts.buckets.back();
  const double sum = std::chrono::duration<double>(counts.sum).count();
  text_ += base::str_cat(name, "_bucket{le=\"+Inf\"} ", until, "\n", name, "_sum ", sum, "\n", name,
                         "_count ", until, "\n");
  return *this;
}

}  // namespace brigade::rpc
