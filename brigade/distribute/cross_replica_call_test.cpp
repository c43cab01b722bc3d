#include "brigade/distribute/cross_replica_call.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <thread>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

class ThreeReplicas : public ::testing::Test {
 protected:
  /// What each replica threw, if anything.
  template <class Body>
  std::vector<std::string> run(const Body& body) {
    std::vector<std::string> thrown(3);
    std::vector<std::thread> threads;
    for (int replica = 0; replica < 3; ++replica) {
      threads.emplace_back([&, replica] {
        try {
          body(replica);
        } catch (const std::exception& error) {
          thrown[static_cast<std::size_t>(replica)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return thrown;
  }

  const std::shared_ptr<comm::LocalGroup> group_ = std::make_shared<comm::LocalGroup>(
      3, comm::LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                 .spin = std::chrono::microseconds(0)});
  CrossReplicaCall call_{
      group_, std::vector<c10::Device>(3, c10::Device(c10::kCPU)), {c10::Device(c10::kCPU)}};
};

TEST_F(ThreeReplicas, TheFirstUsesAllReplicasTensors) {
  double total = 0;
  int calls = 0;
  const auto thrown = run([&](int replica) {
    for (int round = 1; round <= 2; ++round) {
      const at::Tensor mine = at::full({1}, replica + 1.0);
      call_.run(replica, {.name = "adding"}, {&mine, 1}, [&] {
        ++calls;
        total = 0;
        for (int r = 0; r < 3; ++r) total += call_.published(r)[0].item<double>();
      });
      EXPECT_EQ(total, 6) << "seen by replica " << replica;
      EXPECT_EQ(calls, round);
      call_.run(replica, {.name = "waiting"}, {}, [] {});
    }
  });
  for (const std::string& text : thrown) EXPECT_EQ(text, "");
}

TEST_F(ThreeReplicas, AnExceptionOfTheWorkReachesAllAndTheNextCallSucceeds) {
  const auto thrown = run([&](int replica) {
    call_.run(replica, {.name = "failing"}, {},
              [] { throw Error(ErrorCode::kInternal, "the cause"); });
  });
  for (const std::string& text : thrown)
    EXPECT_NE(text.find("the cause"), std::string::npos) << text;
  for (const std::string& text :
       run([&](int replica) { call_.run(replica, {.name = "again"}, {}, [] {}); })) {
    EXPECT_EQ(text, "");
  }
}

TEST_F(ThreeReplicas, DifferentCallsAreRefused) {
  const auto thrown = run([&](int replica) {
    call_.run(replica, {.name = replica == 2 ? "another" : "one"}, {}, [] {});
  });
  for (const std::string& text : thrown) EXPECT_NE(text, "");
}

}  // namespace
}  // namespace brigade::distribute
