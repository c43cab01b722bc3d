#include "brigade/rpc/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brigade::rpc {
namespace {

using ::testing::HasSubstr;

TEST(MetricsText, HasTypesValuesAndLabels) {
  MetricsText metrics;
  metrics.counter("pushes_total", "Pushes that were applied.", 3)
      .gauge("rate", "The rate.", 0.5)
      .gauges("up", "Whether it runs.", "rank", std::vector<std::pair<std::string, int>>{{"1", 0}});
  EXPECT_EQ(metrics.text(),
            "# HELP pushes_total Pushes that were applied.\n# TYPE pushes_total counter\n"
            "pushes_total 3\n"
            "# HELP rate The rate.\n# TYPE rate gauge\nrate 0.5\n"
            "# HELP up Whether it runs.\n# TYPE up gauge\nup{rank=\"1\"} 0\n");
}

TEST(MetricsText, HasHistogramsWhoseBucketsAddUp) {
  concurrency::LatencyHistogram latencies;
  latencies.add(std::chrono::microseconds(50));
  latencies.add(std::chrono::milliseconds(2));
  latencies.add(std::chrono::seconds(60));
  MetricsText metrics;
  metrics.histogram("push_seconds", "How long a push takes.", latencies.counts());
  const std::string& text = metrics.text();
  EXPECT_THAT(text, HasSubstr("# TYPE push_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_bucket{le=\"0.0025\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_bucket{le=\"30\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_count 3\n"));
  EXPECT_THAT(text, HasSubstr("\npush_seconds_sum 60.00205\n"));
}

}  // namespace
}  // namespace brigade::rpc
