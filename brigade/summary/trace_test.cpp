#include "brigade/summary/trace.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::summary {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

TEST(Trace, IsTheJsonThatChromeReads) {
  const std::vector<TraceEvent> events = {
      {.name = "forward",
       .category = "compute",
       .begin = nanoseconds(1500),
       .duration = nanoseconds(2'000'001),
       .replica = 1,
       .thread = 2,
       .args = {{"examples", std::int64_t{64}},
                {"loss", 0.5},
                {"worst", std::numeric_limits<double>::infinity()},
                {"note", "a \"quoted\" word"}}},
      {.name = "update"}};
  const TraceNames names{.replicas = {{1, "replica 1"}}, .threads = {{{1, 2}, "main"}}};
  const json expected = {
      {"displayTimeUnit", "ms"},
      {"traceEvents",
       {{{"ph", "M"},
         {"name", "process_name"},
         {"pid", 1},
         {"tid", 0},
         {"args", {{"name", "replica 1"}}}},
        {{"ph", "M"},
         {"name", "thread_name"},
         {"pid", 1},
         {"tid", 2},
         {"args", {{"name", "main"}}}},
        {{"ph", "X"},
         {"name", "forward"},
         {"cat", "compute"},
         {"ts", 1.5},
         {"dur", 2000.001},
         {"pid", 1},
         {"tid", 2},
         {"args",
          {{"examples", 64}, {"loss", 0.5}, {"worst", "inf"}, {"note", "a \"quoted\" word"}}}},
        {{"ph", "X"},
         {"name", "update"},
         {"cat", ""},
         {"ts", 0.0},
         {"dur", 0.0},
         {"pid", 0},
         {"tid", 0}}}}};
  EXPECT_EQ(json::parse(chrome_trace(events, names)), expected);
}

TEST(Trace, AnEmptyTraceIsValid) {
  EXPECT_EQ(json::parse(chrome_trace({})).at("traceEvents"), json::array());
}

TEST(Trace, RefusesInvalidEvents) {
  EXPECT_THROW(chrome_trace(std::vector<TraceEvent>{{.name = "\xff"}}), Error);
  EXPECT_THROW(chrome_trace(std::vector<TraceEvent>{{.args = {{"x", "\xff"}}}}), Error);
  EXPECT_THROW(chrome_trace(std::vector<TraceEvent>{{.duration = nanoseconds(-1)}}), Error);
  EXPECT_THROW(chrome_trace({}, {.replicas = {{0, "\xff"}}}), Error);
}

TEST(Trace, IsWrittenUnderTheNameOfItsStep) {
  io::MemoryFileSystem files;
  files.create_directories("/run");
  const std::vector<TraceEvent> events = {{.name = "a"}};
  const io::Path path = write_chrome_trace(files, "/run", 42, events);
  EXPECT_EQ(path, "/run/timeline-42.json");
  EXPECT_EQ(files.read(path), chrome_trace(events));
}

}  // namespace
}  // namespace brigade::summary
