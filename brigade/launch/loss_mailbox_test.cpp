#include "brigade/launch/loss_mailbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace brigade::launch {
namespace {

bool has_news(const LossMailbox& mailbox, int milliseconds) {
  pollfd wait{.fd = mailbox.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

TEST(LossMailbox, WakesWhoWaitsAndGivesEachPieceOfNewsOnce) {
  LossMailbox mailbox;
  EXPECT_FALSE(has_news(mailbox, 0));
  const std::jthread sender([&] {
    mailbox.put({.member = {.rank = 1}, .reason = "a"});
    mailbox.put({.member = {.rank = 2}, .reason = "b"});
  });
  std::vector<cluster::LostMember> news;
  while (news.size() < 2 && has_news(mailbox, 20'000)) {
    for (cluster::LostMember& lost : mailbox.take()) news.push_back(std::move(lost));
  }
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0].member.rank, 1);
  EXPECT_EQ(news[1].reason, "b");
  EXPECT_FALSE(has_news(mailbox, 0));
  EXPECT_TRUE(mailbox.take().empty());
}

}  // namespace
}  // namespace brigade::launch
