#include "brigade/rpc/pause_detector.h"

#include <gtest/gtest.h>

namespace brigade::rpc {
namespace {

using std::chrono::seconds;

constexpr seconds kPeerTimeout{4};
const PauseDetector::TimePoint kStart{};

TEST(PauseDetector, BeatsInTimeAreNoPause) {
  PauseDetector detector(kStart);
  for (int second = 1; second < 20; second += 3) {
    detector.on_heartbeat(kStart + seconds(second), kPeerTimeout);
    EXPECT_FALSE(detector.pause_before(kStart + seconds(second + 3), kPeerTimeout));
  }
}

TEST(PauseDetector, FindsThePauseBeforeTheFirstBeatThatFollowsIt) {
  PauseDetector detector(kStart);
  detector.on_heartbeat(kStart + seconds(1), kPeerTimeout);
  EXPECT_EQ(detector.pause_before(kStart + seconds(8), kPeerTimeout), seconds(7));
}

TEST(PauseDetector, RemembersThePauseForOnePeerTimeout) {
  PauseDetector detector(kStart);
  detector.on_heartbeat(kStart + seconds(8), kPeerTimeout);
  detector.on_heartbeat(kStart + seconds(9), kPeerTimeout);
  EXPECT_EQ(detector.pause_before(kStart + seconds(9), kPeerTimeout), seconds(8));
  detector.on_heartbeat(kStart + seconds(11), kPeerTimeout);
  EXPECT_EQ(detector.pause_before(kStart + seconds(12), kPeerTimeout), seconds(8));
  EXPECT_FALSE(detector.pause_before(kStart + seconds(13), kPeerTimeout));
}

}  // namespace
}  // namespace brigade::rpc
