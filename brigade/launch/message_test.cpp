#include "brigade/launch/message.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::launch {
namespace {

TEST(Message, RoundTrips) {
  const StartOrder start{.generation = 3,
                         .processes = {2, 1},
                         .rendezvous = "a:1",
                         .master = "a:2",
                         .cluster = R"({"ps": ["a:3"]})",
                         .summary = {.restarts = 4, .membership_changes = 5, .note = "n"}};
  const auto again = std::get<StartOrder>(decode(encode(start)));
  EXPECT_EQ(again.generation, 3);
  EXPECT_EQ(again.processes, start.processes);
  EXPECT_EQ(again.rendezvous, "a:1");
  EXPECT_EQ(again.cluster, start.cluster);
  EXPECT_EQ(again.summary.membership_changes, 5);
  EXPECT_EQ(again.summary.note, "n");

  const RankEnded killed{
      .generation = 1, .rank = 2, .status = {.signal = 9}, .is_orderly = false, .was_asked = false};
  const auto ended = std::get<RankEnded>(decode(encode(killed)));
  EXPECT_EQ(ended.status, killed.status);
  EXPECT_FALSE(ended.is_orderly);
  EXPECT_FALSE(ended.was_asked);
  EXPECT_EQ(std::get<FinishOrder>(decode(encode(FinishOrder{.exit_code = 137}))).exit_code, 137);
  const ReleaseOrder release{.generation = 1, .rank = 2, .kind = EndKind::kTooLate};
  EXPECT_EQ(std::get<ReleaseOrder>(decode(encode(release))).kind, EndKind::kTooLate);
  const DismissOrder dismiss{.generation = 1, .ranks = {4, 2}, .signal = 15};
  EXPECT_EQ(std::get<DismissOrder>(decode(encode(dismiss))).ranks, dismiss.ranks);
  const RestartOrder restart{.generation = 1, .rank = 2, .is_failure = false, .restarts = 3};
  const auto restarted = std::get<RestartOrder>(decode(encode(restart)));
  EXPECT_FALSE(restarted.is_failure);
  EXPECT_EQ(restarted.restarts, 3);
}

TEST(Message, AcceptsTextThatIsNotUtf8) {
  EXPECT_NO_THROW(decode(encode(HostFailed{.host = 1, .reason = "\xff"})));
}

TEST(Message, NonsenseIsRefused) {
  for (const char* text :
       {"", "x", "{}", R"({"kind": 99, "body": {}})", R"({"kind": 0, "body": {"rank": "a"}})"}) {
    EXPECT_THROW(decode(text), Error) << text;
  }
}

}  // namespace
}  // namespace brigade::launch
