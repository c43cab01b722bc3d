#pragma once

#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/testing/small_job.h"

/// The jobs that tests of clients run with the small model, and what they check.
namespace brigade::ps::testing {

using Client = std::unique_ptr<ParameterClient>;

inline constexpr JobConfig kAsyncJob = {};
inline constexpr JobConfig kBoundedJob = {.mode = UpdateMode::kBounded, .staleness = 1};
inline constexpr JobConfig kSyncJob = {.mode = UpdateMode::kSync,
                                       .sync = {.replicas_to_aggregate = 2, .total_replicas = 2}};
inline constexpr std::chrono::milliseconds kImpatient{150};

inline LocalServers make_servers(int servers,
                                 std::chrono::milliseconds lease = std::chrono::seconds(60)) {
  return LocalServers({.servers = servers, .tasks = kTasks, .lease = lease});
}

/// Every trainable variable is `value`, and was updated `updates` times.
inline void expect_all(const ParameterClient::Values& values, double value, std::int64_t updates) {
  const auto model = small_model();
  ASSERT_EQ(values.values.size(), model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double expected = model[i].is_trainable ? value : 0;
    EXPECT_TRUE(at::equal(values.values[i].value, at::full_like(model[i].value, expected)))
        << model[i].name << ": " << values.values[i].value;
    EXPECT_EQ(values.values[i].updates, model[i].is_trainable ? updates : 0) << model[i].name;
  }
}

/// The client's program dies, and the servers do not hear of it.
inline void abandon(Client client, const concurrency::CancelToken& cancel) {
  cancel.cancel();
  EXPECT_EQ(base::testing::code_of([&] { client->pull(); }), ErrorCode::kCancelled);
}

}  // namespace brigade::ps::testing
