#include "brigade/launch/mailbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <thread>

namespace brigade::launch {
namespace {

bool has_news(const Mailbox<std::string>& mailbox, int timeout_ms) {
  pollfd wait{.fd = mailbox.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, timeout_ms) == 1;
}

TEST(Mailbox, WakesTheReaderAndDeliversEachItemOnce) {
  Mailbox<std::string> mailbox;
  EXPECT_FALSE(has_news(mailbox, 0));
  const std::jthread sender([&] {
    mailbox.put("a");
    mailbox.put("b");
  });
  std::vector<std::string> news;
  while (news.size() < 2 && has_news(mailbox, 20'000)) {
    for (std::string& each : mailbox.take()) news.push_back(std::move(each));
  }
  EXPECT_EQ(news, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(has_news(mailbox, 0));
  EXPECT_TRUE(mailbox.take().empty());
}

}  // namespace
}  // namespace brigade::launch
