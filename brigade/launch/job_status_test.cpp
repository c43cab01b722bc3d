#include "brigade/launch/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

JobStatus running() {
  return {
      .generation = 2, .restarts = 1, .membership_changes = 3, .seconds = 1.5, .up = {true, false}};
}

TEST(JobStatus, HasPagesOfHealthAndMetrics) {
  const rpc::HttpPages pages = status_pages(running);
  EXPECT_EQ(pages("/healthz").status, "200 OK");
  const rpc::HttpAnswer metrics = pages("/metrics");
  EXPECT_EQ(metrics.status, "200 OK");
  EXPECT_THAT(metrics.content_type, StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("\nbrigade_job_generation 2\n"));
  EXPECT_THAT(metrics.body, HasSubstr("\nbrigade_job_processes 2\n"));
  EXPECT_THAT(metrics.body, HasSubstr("\nbrigade_job_restarts_total 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("\nbrigade_rank_up{rank=\"1\"} 0\n"));
  EXPECT_EQ(pages("/").status, "404 Not Found");
}

TEST(JobStatus, IsUnhealthyWhileTheJobIsStopped) {
  const rpc::HttpPages pages = status_pages([] { return JobStatus{.is_stopping = true}; });
  EXPECT_EQ(pages("/healthz").status, "503 Service Unavailable");
}

TEST(JobStatus, NamesAPortThatIsTaken) {
  const rpc::HttpServer first = open_status_port(0);
  try {
    const rpc::HttpServer second = open_status_port(first.port());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(first.port())));
    EXPECT_THAT(error.what(), HasSubstr("status port"));
  }
}

}  // namespace
}  // namespace brigade::launch
